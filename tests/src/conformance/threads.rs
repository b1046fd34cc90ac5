//! This module holds `unsafe` code: it declares memory of its own as the inboxes of shared-memory transports.
//!
//! Ranks as threads of this process: shared-memory rings on the heap between them, a loopback for each to itself.

use core::cell::Cell;
use core::ptr::NonNull;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant as Clock;

use aldis_drivers::shm::{Geometry, Identity, Lane, Region, format};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Activity, Cost, Epoch, Instant, PeerId, Platform, Transport};
use aldis_kernel::{Composite, Config, Endpoint, Memory};

use super::rank::{Watch, verdict};
use super::storage::{RANKS_MAX, Room, boxed};

/// What a rank talks over.
pub type Threads<'m> = Composite<Loopback<'m>, Shm<'m>>;
/// A rank's endpoint.
pub type ThreadEndpoint<'m, 'w> = Endpoint<'m, Threads<'m>, Host<'w>>;

pub(super) const COST: Cost = Cost { overhead_ns: 60, latency_ns: 120, per_kib_ns: 100 };
/// Bytes of a loopback frame, and how many there are.
const FRAME_BYTES: u32 = 256;
const FRAMES: usize = 6;

/// The host's clock, and its scheduler to rest with.
#[derive(Debug)]
pub struct Host<'w> {
    start: Clock,
    watch: &'w Watch,
    activity: Cell<Activity>,
}

impl<'w> Host<'w> {
    fn new(watch: &'w Watch) -> Self {
        Self { start: Clock::now(), watch, activity: Cell::default() }
    }
}

impl Platform for Host<'_> {
    fn now(&self) -> Instant {
        Instant(self.start.elapsed().as_nanos() as u64)
    }
    fn relax(&mut self, idle: u32) {
        self.watch.look(idle, &self.activity.get());
        if idle > 32 { thread::yield_now() } else { core::hint::spin_loop() }
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, activity: Activity) {
        self.activity.set(activity);
    }
}

/// An inbox's memory, a line at a time for its alignment.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "looked at through regions only")] [u8; 64]);

/// The inboxes of all ranks.
pub(super) struct Inboxes {
    memory: Vec<Vec<Line>>,
}

impl Inboxes {
    pub(super) fn new(size: u32) -> Self {
        let geometry = Geometry { peers: size, slots: 8, blocks: 2, block_bytes: 512 };
        let lines = geometry.inbox_bytes().div_ceil(64);
        let mut inboxes = Self { memory: vec![vec![Line([0; 64]); lines]; size as usize] };
        for (owner, region) in (0..).zip(inboxes.regions()) {
            format(&region, geometry, identity(owner)).expect("a sound geometry");
        }
        inboxes
    }

    /// Regions of all inboxes, for one rank.
    pub(super) fn regions(&mut self) -> Vec<Region<'static>> {
        let region = |lines: &mut Vec<Line>| {
            let len = lines.len() * 64;
            let start = NonNull::from(lines.as_mut_slice()).cast::<u8>();
            // SAFETY: whoever made the inboxes keeps the memory until every thread has ended and touches it only
            // through regions; all ranks are ours and keep the protocol.
            unsafe { Region::new(start, len) }
        };
        self.memory.iter_mut().map(region).collect()
    }
}

const fn identity(owner: u32) -> Identity {
    Identity { job: 7, owner: PeerId(owner), epoch: Epoch(owner + 1) }
}

/// Shared memory between rank `me` and those that are its `mates`.
pub(super) fn shm<'m>(
    me: u32,
    regions: Vec<Region<'m>>,
    lanes: &'m mut [Lane],
    mates: impl Fn(u32) -> bool,
) -> Shm<'m> {
    let (mut own, mut others) = (None, Vec::new());
    for (peer, region) in (0..).zip(regions) {
        if peer == me { own = Some(region) } else { others.push((peer, region)) }
    }
    let own = own.expect("the rank is one of the job");
    let mut shm = Shm::new(identity(me), own, lanes, COST).expect("a formatted inbox");
    for (peer, region) in others.into_iter().filter(|(peer, _)| mates(*peer)) {
        shm.attach(PeerId(peer), region, identity(peer)).expect("an inbox of the same job");
    }
    shm
}

/// Memory for [`loopback`].
pub(super) fn frames() -> Vec<u8> {
    vec![0; FRAMES * (FRAME_BYTES as usize + 16)]
}

/// A rank's way to itself.
pub(super) fn loopback(me: u32, frames: &mut [u8]) -> Loopback<'_> {
    Loopback::new(PeerId(me), frames, FRAME_BYTES).expect("room for a frame")
}

/// The endpoint of a rank.
pub(super) fn endpoint<'m, T: Transport, P: Platform>(
    memory: Memory<'m>,
    transport: T,
    platform: P,
    me: u32,
    size: u32,
) -> Endpoint<'m, T, P> {
    let config = Config { me: PeerId(me), size, epoch: Epoch(me + 1) };
    Endpoint::new(memory, transport, platform, config).expect("a storage for the job")
}

/// Runs `body` on every rank of a job of `size` and gives their results, or what went wrong on which.
///
/// # Errors
/// What the ranks said that failed, panicked or hang.
pub fn run<R: Send>(
    size: u32,
    room: Room,
    body: impl Fn(&mut ThreadEndpoint<'_, '_>) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let (mut inboxes, watch) = (Inboxes::new(size), Watch::new(size));
    let (cards, met) = (Mutex::new(Vec::new()), Barrier::new(size as usize));
    let rank = |me: u32, regions| {
        let mut storage = boxed(room);
        let mut lanes = [const { Lane::EMPTY }; RANKS_MAX];
        let mut frames = frames();
        let lanes = lanes.get_mut(..size as usize).expect("lanes for all ranks");
        let transport = Composite::new(loopback(me, &mut frames), shm(me, regions, lanes, |_| true));
        let mut endpoint = endpoint(storage.memory(), transport, Host::new(&watch), me, size);
        cards.lock().expect("no panic yet").push(endpoint.card());
        met.wait();
        for card in cards.lock().expect("no panic yet").iter().filter(|card| card.peer() != PeerId(me)) {
            endpoint.connect(card).expect("a rank of the job");
        }
        met.wait();
        let rest = |idle| {
            watch.look(idle, &Activity::default());
            thread::yield_now();
        };
        watch.run(&mut endpoint, rest, &body)
    };
    let regions: Vec<_> = (0..size).map(|_| inboxes.regions()).collect();
    verdict(thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> =
            (0..).zip(regions).map(|(me, regions)| scope.spawn(move || rank(me, regions))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("its start failed".into()))).collect()
    }))
}

/// Runs `body` on a job of one rank that has nothing but itself.
///
/// # Errors
/// As [`run`].
pub fn run_alone(
    room: Room,
    body: impl Fn(&mut Endpoint<'_, Loopback<'_>, Host<'_>>) -> Result<(), String>,
) -> Result<(), String> {
    let (watch, mut storage, mut frames) = (Watch::new(1), boxed(room), frames());
    let mut endpoint = endpoint(storage.memory(), loopback(0, &mut frames), Host::new(&watch), 0, 1);
    let went = watch.run(&mut endpoint, |idle| watch.look(idle, &Activity::default()), body);
    verdict(vec![went]).map(drop)
}
