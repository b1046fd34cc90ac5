//! A job in one process: a thread a rank, shared-memory rings on the heap between them.

use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Barrier, Mutex};
use std::thread;

use aldis_drivers::Shm;
use aldis_drivers::shm::{Geometry, Identity, Lane, Region, format};
use aldis_kernel::hal::{Cost, Epoch, Instant, PeerId, Platform};
use aldis_kernel::{Config, Storage, storage_type};

/// An endpoint of the job.
pub(crate) type Endpoint<'s> = aldis_kernel::Endpoint<'s, Shm<'s>, Host>;
/// A scope of it.
pub(crate) type Scope<'scope, 'env, 's> = aldis_kernel::Scope<'scope, 'env, 's, Shm<'s>, Host>;

/// Ranks that the storage has room for.
const PEERS: usize = 9;
/// Communicators, world and self included, and pieces of groups in them.
pub(crate) const COMMUNICATORS: usize = 10;
pub(crate) const PIECES: usize = 9;
const COST: Cost = Cost { overhead_ns: 60, latency_ns: 120, per_kib_ns: 100 };

/// The host's clock, and its scheduler to rest with.
pub(crate) struct Host(std::time::Instant);

impl Platform for Host {
    fn now(&self) -> Instant {
        Instant(self.0.elapsed().as_nanos() as u64)
    }
    fn relax(&mut self, idle: u32) {
        if idle > 32 { thread::yield_now() } else { core::hint::spin_loop() }
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

/// An inbox's memory, a line at a time for its alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "looked at through regions only")] [u8; 64]);

struct Inboxes {
    memory: Vec<Vec<Line>>,
}

impl Inboxes {
    fn new(size: u32) -> Self {
        let geometry = Self::geometry(size);
        let lines = geometry.inbox_bytes().div_ceil(64);
        let mut inboxes = Self { memory: vec![vec![Line([0; 64]); lines]; size as usize] };
        for owner in 0..size {
            format(&inboxes.regions()[owner as usize], geometry, identity(owner)).unwrap();
        }
        inboxes
    }

    fn geometry(size: u32) -> Geometry {
        Geometry { peers: size, slots: 16, blocks: 4, block_bytes: 1024 }
    }

    /// Regions of all inboxes, for one rank.
    fn regions<'m>(&mut self) -> Vec<Region<'m>> {
        let region = |lines: &mut Vec<Line>| {
            let len = lines.len() * 64;
            let start = NonNull::from(lines.as_mut_slice()).cast::<u8>();
            // SAFETY: `run` keeps the memory until every thread has ended and touches it only through regions;
            // all ranks are ours and keep the protocol.
            unsafe { Region::new(start, len) }
        };
        self.memory.iter_mut().map(region).collect()
    }
}

fn identity(owner: u32) -> Identity {
    Identity { job: 7, owner: PeerId(owner), epoch: Epoch(owner + 1) }
}

/// Runs `body` on every rank of a job of `size` and gives their results.
pub(crate) fn run<R: Send>(size: u32, body: impl Fn(&mut Endpoint<'_>) -> R + Sync) -> Vec<R> {
    run_with_requests::<64, R>(size, body)
}

/// The same with `REQUESTS` request slots a rank.
pub(crate) fn run_with_requests<const REQUESTS: usize, R: Send>(
    size: u32,
    body: impl Fn(&mut Endpoint<'_>) -> R + Sync,
) -> Vec<R> {
    let mut inboxes = Inboxes::new(size);
    let cards = Mutex::new(Vec::new());
    let (met, done) = (Barrier::new(size as usize), AtomicU32::new(0));
    let (body, cards, met, done) = (&body, &cards, &met, &done);
    thread::scope(|threads| {
        let rank = |(me, regions): (u32, Vec<Region<'static>>)| {
            threads.spawn(move || {
                let mut storage: Box<Sized<REQUESTS>> = Box::new(Storage::new());
                let mut lanes = [const { Lane::EMPTY }; PEERS];
                let transport = transport(me, regions, &mut lanes);
                let config = Config { me: PeerId(me), size, epoch: Epoch(me + 1) };
                let platform = Host(std::time::Instant::now());
                let mut endpoint =
                    aldis_kernel::Endpoint::new(storage.memory(), transport, platform, config).unwrap();
                cards.lock().unwrap().push(endpoint.card());
                met.wait();
                for card in cards.lock().unwrap().iter().filter(|card| card.peer() != PeerId(me)) {
                    endpoint.connect(card).unwrap();
                }
                met.wait();
                let result = catch_unwind(AssertUnwindSafe(|| body(&mut endpoint)));
                if result.is_err() {
                    endpoint.abort(1);
                }
                // Peers may still need this rank's polls.
                done.fetch_add(1, Ordering::SeqCst);
                while done.load(Ordering::SeqCst) < size {
                    if endpoint.poll(64) == 0 {
                        thread::yield_now();
                    }
                }
                result.unwrap_or_else(|panic| resume_unwind(panic))
            })
        };
        let regions: Vec<_> = (0..size).map(|me| (me, inboxes.regions())).collect();
        let ranks: Vec<_> = regions.into_iter().map(rank).collect();
        let results: Vec<_> = ranks.into_iter().map(thread::ScopedJoinHandle::join).collect();
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

type Sized<const REQUESTS: usize> = storage_type!(PEERS, REQUESTS, COMMUNICATORS, 8, 2, 256, 0, 16, PIECES);

fn transport<'m>(me: u32, regions: Vec<Region<'m>>, lanes: &'m mut [Lane]) -> Shm<'m> {
    let (mut own, mut others) = (None, Vec::new());
    for (peer, region) in (0..).zip(regions) {
        if peer == me { own = Some(region) } else { others.push((peer, region)) }
    }
    let mut shm = Shm::new(identity(me), own.unwrap(), lanes, COST).unwrap();
    for (peer, region) in others {
        shm.attach(PeerId(peer), region, identity(peer)).unwrap();
    }
    shm
}
