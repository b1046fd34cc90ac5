//! This example holds `unsafe` code, the memory of the inboxes. It measures the one-way time of a
//! small message between two threads: the shared-memory transport, taking turns with a raw cache
//! line as the measure of what the machine can do. Wants two idle cores: `cargo run --release -p
//! aldis-drivers --example one_way`

use core::hint;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use aldis_drivers::Shm;
use aldis_drivers::shm::{Geometry, Identity, Lane, Region, format};
use aldis_hal::{Cause, Cost, Epoch, Instant as Now, PeerId, Post, Sink, Slot, Token, Transport};

const GEOMETRY: Geometry = Geometry { peers: 2, slots: 16, lanes: 1, blocks: 8, block_bytes: 8192, sets: 0 };
const ROUNDS: u32 = 2_000;
const SAMPLES: usize = 400;
const NAMES: [&str; 5] = ["raw line", "shm 8 B", "shm 56 B", "shm 1 KiB", "shm 8 B stream"];

#[repr(align(64))]
struct CacheLine([AtomicU64; 8]);

/// Two lines, one a direction: seven words of payload and the sequence.
static LINES: [CacheLine; 2] = [const { CacheLine([const { AtomicU64::new(0) }; 8]) }; 2];

/// Counts arrivals and keeps their first byte.
#[derive(Default)]
struct ArrivalCount(u32, u8);

impl Sink for ArrivalCount {
    #[inline]
    fn arrived(&mut self, _from: PeerId, message: &[u8]) {
        self.0 += 1;
        self.1 = message.first().copied().unwrap_or(0);
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        panic!("{peer} lost: {cause}");
    }
}

/// Memory of an inbox, by its address, as threads share it.
#[derive(Clone, Copy)]
struct InboxMemory {
    start: usize,
    len: usize,
}

fn identity(rank: u32) -> Identity {
    Identity { job: 1, owner: PeerId(rank), epoch: Epoch(1) }
}

fn region(inbox: InboxMemory) -> Region<'static> {
    let start = NonNull::new(inbox.start as *mut u8).unwrap();
    // SAFETY: the memory is leaked by `main` and used through regions alone, by two transports.
    unsafe { Region::new(start, inbox.len) }
}

/// Returns the time one way, ns, in a batch of round trips over the raw lines.
fn raw(rank: usize, sequence: &mut u64) -> f64 {
    let (out, back) = (&LINES[rank], &LINES[1 - rank]);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        *sequence += 1;
        if rank == 0 {
            out.0[0].store(*sequence, Ordering::Relaxed);
            out.0[7].store(*sequence, Ordering::Release);
        }
        while back.0[7].load(Ordering::Acquire) != *sequence {
            hint::spin_loop();
        }
        if rank == 1 {
            out.0[0].store(back.0[0].load(Ordering::Relaxed), Ordering::Relaxed);
            out.0[7].store(*sequence, Ordering::Release);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / 2.0
}

/// Returns the time one way, ns, in a batch of round trips of `len` bytes over the transport.
fn shm(shm: &mut Shm<'_>, rank: u32, len: usize) -> f64 {
    let peer = PeerId(1 - rank);
    let mut sink = ArrivalCount::default();
    let start = Instant::now();
    for round in 1..=ROUNDS {
        if rank == 0 {
            post(shm, peer, len, round as u8);
        }
        while sink.0 < round {
            if shm.poll(16, Now(0), &mut sink) == 0 {
                hint::spin_loop();
            }
        }
        if rank == 1 {
            post(shm, peer, len, sink.1);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / 2.0
}

/// Returns the time of a message, ns, in a batch of 8-byte messages in one direction, as fast as
/// they go.
fn stream(shm: &mut Shm<'_>, rank: u32) -> f64 {
    let mut sink = ArrivalCount::default();
    let start = Instant::now();
    let mut sent = 0;
    while if rank == 0 { sent < ROUNDS } else { sink.0 < ROUNDS } {
        if rank == 0 && shm.short(PeerId(1), &[0; 8], &[]) == Post::Done {
            sent += 1;
        } else {
            shm.poll(16, Now(0), &mut sink);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

#[inline]
fn post(shm: &mut Shm<'_>, peer: PeerId, len: usize, fill: u8) {
    if len == 8 {
        assert_eq!(shm.short(peer, &[fill; 8], &[]), Post::Done);
        return;
    }
    let mut slot = shm.reserve(peer, len).expect("the other side answers every message");
    slot.bytes().fill(fill);
    slot.commit();
}

fn main() {
    let inboxes = [(); 2].map(|()| {
        let len = GEOMETRY.inbox_bytes();
        let lines: Vec<CacheLine> = (0..len / 64).map(|_| CacheLine(Default::default())).collect();
        InboxMemory { start: lines.leak().as_ptr() as usize, len }
    });
    for (rank, inbox) in inboxes.iter().enumerate() {
        format(&region(*inbox), GEOMETRY, identity(rank as u32)).unwrap();
    }
    let barrier = Barrier::new(2);
    let run = |rank: u32| {
        let mut lanes = [const { Lane::EMPTY }; GEOMETRY.lane_entries()];
        let mut transport =
            Shm::new(identity(rank), region(inboxes[rank as usize]), &mut lanes, Cost::default()).unwrap();
        let peer = 1 - rank;
        transport.attach(PeerId(peer), region(inboxes[peer as usize]), identity(peer)).unwrap();
        let mut sequence = 0;
        let mut samples = [const { Vec::new() }; 5];
        for _ in 0..SAMPLES {
            for (index, len) in [0, 8, 56, 1024, 1].into_iter().enumerate() {
                barrier.wait();
                samples[index].push(match len {
                    0 => raw(rank as usize, &mut sequence),
                    1 => stream(&mut transport, rank),
                    _ => shm(&mut transport, rank, len),
                });
            }
        }
        samples
    };
    let samples = thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let samples = run(0);
        other.join().unwrap();
        samples
    });
    println!("{:<16}{:>10}{:>10}{:>10}", "one way, ns", "p5", "p50", "p95");
    for (name, mut samples) in NAMES.into_iter().zip(samples) {
        samples.sort_by(f64::total_cmp);
        let at = |percent: usize| samples[samples.len() * percent / 100];
        println!("{name:<16}{:>10.1}{:>10.1}{:>10.1}", at(5), at(50), at(95));
    }
}
