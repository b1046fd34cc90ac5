//! An endpoint shared between cores by a spin lock (MPI 4.1 section 11.6): threads that take turns,
//! blocking calls that do not wait for each other, and ranks of several threads each that exchange
//! messages.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread::{self, ThreadId};

use aldis_drivers::shm::{CoresSetup, Geometry};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cause, Cost, Epoch, Instant, Operation, PeerId, Platform};
use aldis_kernel::{
    Comm, Composite, Config, Endpoint, Memory, Rank, Shared, Source, Tag, TagMatch, storage_type,
};
use aldis_linux::cores::{self, CoreMeeting};
use aldis_linux::platform::{HostPlatform, Patience};
use aldis_programs::sharing::Talk;
use aldis_tests::draw;

const THREADS: u32 = 4;
const ROUNDS: u32 = 500;

type SharedEndpoint<'m> = Shared<Endpoint<'m, Loopback<'m>, HostPlatform>>;

/// An endpoint of a job of one, and its world.
fn shared<'m>(memory: Memory<'m>, frames: &'m mut [u8]) -> (SharedEndpoint<'m>, Comm) {
    let transport = Loopback::new(PeerId(0), frames, 512).unwrap();
    let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
    let platform = HostPlatform::unwatched(Patience::SHARED);
    let endpoint = Endpoint::new(memory, transport, platform, config).unwrap();
    let world = endpoint.world();
    (Shared::new(endpoint), world)
}

aldis_kernel::storage! {
    static TURNS: peers = 1, requests = 8, communicators = 2, envelopes = 8, blocks = 2, block_bytes = 256,
        pooled = 1, bins = 16
}

#[test]
fn threads_take_turns_with_one_endpoint() {
    let mut frames = vec![0; 4096];
    let (shared, world) = shared(TURNS.take().unwrap(), &mut frames);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let (out, mut back) = ([thread, round, 3, 4, 5, 6, 7, 8], [0u32; 8]);
                    let mut endpoint = shared.lock();
                    let tag = Tag(thread);
                    endpoint.sendrecv(&world, &out, Rank(0), tag, &mut back, Rank(0), tag).unwrap();
                    assert_eq!(back, out);
                }
            });
        }
    });
    let endpoint = shared.into_inner();
    assert_eq!(endpoint.counters().messages_received, u64::from(THREADS * ROUNDS));
    assert_eq!(endpoint.diagnostics().queue_depths(), (0, 0));
}

aldis_kernel::storage! {
    static PAIRS: peers = 1, requests = 16, communicators = 2, envelopes = 4, blocks = 2, block_bytes = 256,
        pooled = 6, bins = 16
}

/// Every pair of threads plays ping-pong with tags of its own: each waits for its message while
/// others wait for theirs.
#[test]
fn threads_block_at_a_time_in_receives_of_different_tags() {
    const PAIRS_OF_THREADS: u32 = 3;
    const MESSAGES: u32 = 60;
    let mut frames = vec![0; 4096];
    let (shared, world) = shared(PAIRS.take().unwrap(), &mut frames);
    thread::scope(|scope| {
        for pair in 0..PAIRS_OF_THREADS {
            let shared = &shared;
            let player = move |own: Tag, other: Tag, serves: bool| {
                let mut seed = u64::from(pair);
                let mut buffer = vec![0_u8; 2000];
                for round in 0..MESSAGES {
                    // Eager, or announced and fetched block by block; both players draw the same.
                    let len = draw(&mut seed) as usize % if round % 2 == 0 { 200 } else { 2000 };
                    let data = vec![(round + pair) as u8; len];
                    if serves {
                        shared.send(&world, &data, Rank(0), other).unwrap();
                    }
                    let status = shared.recv(&world, &mut buffer, Rank(0), own).unwrap();
                    assert_eq!((status.bytes, &buffer[..len]), (len as u64, &data[..]));
                    if !serves {
                        shared.ssend(&world, &data, Rank(0), other).unwrap();
                    }
                }
            };
            let (ping, pong) = (Tag(2 * pair), Tag(2 * pair + 1));
            scope.spawn(move || player(ping, pong, true));
            scope.spawn(move || player(pong, ping, false));
        }
    });
    let endpoint = shared.into_inner();
    assert_eq!(endpoint.counters().messages_received, u64::from(2 * PAIRS_OF_THREADS * MESSAGES));
    assert_eq!(endpoint.diagnostics().queue_depths(), (0, 0));
}

aldis_kernel::storage! {
    static WAITING: peers = 1, requests = 8, communicators = 2, envelopes = 4, blocks = 2, block_bytes = 256,
        pooled = 3, bins = 16
}

#[test]
fn who_waits_does_not_hold_the_lock() {
    let mut frames = vec![0; 4096];
    let (shared, world) = shared(WAITING.take().unwrap(), &mut frames);
    let waiting = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, waiting) = (&shared, &waiting);
        let waiter = scope.spawn(move || {
            let mut word = [0_u32];
            waiting.store(true, Ordering::Release);
            let found = shared.probe(&world, Source::Any, Tag(1)).unwrap();
            shared.recv(&world, &mut word, found.source, found.tag).map(|_| word[0])
        });
        while !waiting.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // All this happens while the other rank waits; its message is the last.
        let mut word = [0_u32];
        for round in 0..200 {
            shared.send(&world, &[round], Rank(0), Tag(2)).unwrap();
            shared.recv(&world, &mut word, Rank(0), TagMatch::Tag(Tag(2))).unwrap();
            assert_eq!(word[0], round);
        }
        let limit = Duration::from_millis(2);
        let error = shared.within(limit).recv(&world, &mut word, Rank(0), Tag(3)).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Recv, Cause::TimedOut));
        let long = vec![1_u8; 1000];
        let error = shared.within(limit).send(&world, &long, Rank(0), Tag(3)).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Send, Cause::TimedOut));
        let mut buffer = [0_u8; 1000];
        let error = shared.recv(&world, &mut buffer, Rank(0), Tag(3)).unwrap_err();
        assert_eq!(error.cause, Cause::Withdrawn);
        assert!(!waiter.is_finished());
        shared.send(&world, &[77_u32], Rank(0), Tag(1)).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(77));
    });
    assert_eq!(shared.into_inner().diagnostics().queue_depths(), (0, 0));
}

/// Ranks of a job, and threads of each that share its endpoint.
const RANKS: u32 = 3;
const SHARING: u32 = 3;
/// Messages that each thread sends to the thread of its number on each other rank.
const MESSAGES: u32 = 12;
/// Beside those, messages that any thread of their receiver may take.
const FOR_ANY: Tag = Tag(100);
const COST: Cost = Cost { overhead_ns: 60, latency_ns: 120, per_kib_ns: 100 };

type Job<'m> = Endpoint<'m, Composite<Loopback<'m>, Shm<'m>>, HostPlatform>;
/// Three receives at a time, and as many probes; few envelopes and blocks.
type Few = storage_type!(RANKS as usize, 24, 2, 4, 2, 128, 6, 16);

/// The bytes of a message: eager, or announced and fetched in fragments.
fn bytes(from: u32, thread: u32, number: u32) -> Vec<u8> {
    let mut seed = u64::from(from << 16 | thread << 8 | number);
    let len = draw(&mut seed) % if number.is_multiple_of(3) { 120 } else { 3000 };
    (0..len).map(|_| draw(&mut seed) as u8).collect()
}

/// Runs a thread: it sends its messages to each rank in turn, in two modes, by another thread while
/// it takes those that it gets, in order. Then it takes what any thread may take, and returns the
/// number of bytes of that.
fn talk(shared: &Shared<Job<'_>>, world: &Comm, thread: u32) -> u64 {
    let (me, mut buffer) = (world.rank().0, vec![0; 3000]);
    for number in 0..MESSAGES {
        for distance in 1..RANKS {
            let (to, from) = ((me + distance) % RANKS, (me + RANKS - distance) % RANKS);
            let data = bytes(me, thread, number);
            let receive = |buffer: &mut Vec<u8>| {
                let due = bytes(from, thread, number);
                if number.is_multiple_of(5) {
                    let found = shared.probe(world, Rank(from), Tag(thread)).unwrap();
                    assert_eq!(found.bytes, due.len() as u64);
                }
                let status = shared.recv(world, &mut buffer[..], Rank(from), Tag(thread)).unwrap();
                assert_eq!((status.bytes, &buffer[..due.len()]), (due.len() as u64, &due[..]));
            };
            let send = || match number % 2 {
                0 => shared.send(world, &data, Rank(to), Tag(thread)).unwrap(),
                _ => shared.ssend(world, &data, Rank(to), Tag(thread)).unwrap(),
            };
            thread::scope(|scope| {
                scope.spawn(send);
                receive(&mut buffer);
            });
        }
    }
    let mut taken = 0;
    for distance in 1..RANKS {
        shared.send(world, &[thread as u8; 10], Rank((me + distance) % RANKS), FOR_ANY).unwrap();
        let status = shared.recv(world, &mut buffer, Source::Any, FOR_ANY).unwrap();
        taken += status.bytes;
    }
    taken
}

/// Rings between the ranks.
const RINGS: Geometry =
    Geometry { peers: RANKS, slots: 8, lanes: Geometry::LANES_MAX, blocks: 2, block_bytes: 512, sets: 0 };

#[test]
fn ranks_of_several_threads_talk_to_each_other() {
    let meeting = CoreMeeting::of(RANKS);
    let rank = |me: u32, end: Shm<'_>| {
        let (mut storage, mut frames) = (Box::new(<Few>::new()), vec![0; 4096]);
        let own = Loopback::new(PeerId(me), &mut frames, 512).unwrap();
        let config = Config { me: PeerId(me), size: RANKS, epoch: Epoch(1) };
        let platform = HostPlatform::unwatched(Patience::SHARED);
        let mut endpoint: Job<'_> =
            Endpoint::new(storage.memory(), Composite::new(own, end), platform, config).unwrap();
        let card = endpoint.card();
        meeting.join(&mut endpoint, card).unwrap();
        let (world, shared) = (endpoint.world(), Shared::new(endpoint));
        let taken: u64 = thread::scope(|scope| {
            let talk = |thread| {
                let (shared, world) = (&shared, &world);
                scope.spawn(move || talk(shared, world, thread))
            };
            let threads: Vec<_> = (0..SHARING).map(talk).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let mut endpoint = shared.into_inner();
        endpoint.leave(Duration::from_secs(3600)).unwrap();
        (taken, endpoint.diagnostics().queue_depths(), endpoint.counters().messages_received)
    };
    let each = u64::from((RANKS - 1) * SHARING);
    let setup = CoresSetup { geometry: RINGS, epoch: Epoch(1), cost: COST };
    for rank in cores::spread(setup, |_, _| true, rank).unwrap() {
        assert_eq!(rank.unwrap(), (10 * each, (0, 0), each * u64::from(MESSAGES + 1)));
    }
}

/// A clock that wakes the one thread that has made it, as a board's wakes one core.
struct OwnClock {
    clock: HostPlatform,
    owner: ThreadId,
}

impl OwnClock {
    fn new() -> Self {
        Self { clock: HostPlatform::unwatched(Patience::SHARED), owner: thread::current().id() }
    }
}

impl Platform for OwnClock {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn relax(&mut self, idle: u32) {
        assert_eq!(thread::current().id(), self.owner, "it rests by the clock of another core");
        self.clock.relax(idle);
    }

    fn entropy(&mut self) -> u64 {
        self.clock.entropy()
    }
}

/// The program of boards whose cores share an endpoint, on threads each of which has its own clock;
/// the last rank has one thread, which plays all.
#[test]
fn cores_that_share_an_endpoint_rest_by_their_own_clocks() {
    let meeting = CoreMeeting::of(RANKS);
    let talk = Talk { cores: SHARING, count: 20, limit: Duration::from_secs(60) };
    let rank = |me: u32, end: Shm<'_>| {
        let (mut storage, mut frames) = (Box::new(<Few>::new()), vec![0; 4096]);
        let own = Loopback::new(PeerId(me), &mut frames, 512).unwrap();
        let config = Config { me: PeerId(me), size: RANKS, epoch: Epoch(1) };
        let transport = Composite::new(own, end);
        let mut endpoint = Endpoint::new(storage.memory(), transport, OwnClock::new(), config).unwrap();
        let card = endpoint.card();
        meeting.join(&mut endpoint, card).unwrap();
        let (sent, mut endpoint) = if me == RANKS - 1 {
            (talk.play_all(&mut endpoint).unwrap(), endpoint)
        } else {
            let shared = Shared::new(endpoint);
            let play = &|core| talk.play_core(&mut shared.core(OwnClock::new()), core).unwrap();
            let sent = thread::scope(|scope| {
                let threads: Vec<_> = (0..SHARING).map(|core| scope.spawn(move || play(core))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            (sent, shared.into_inner())
        };
        endpoint.leave(talk.limit).unwrap();
        (sent, endpoint.counters().messages_received, endpoint.diagnostics().queue_depths())
    };
    let each = u64::from(SHARING) * 21 - 1;
    let setup = CoresSetup { geometry: RINGS, epoch: Epoch(1), cost: COST };
    for rank in cores::spread(setup, |_, _| true, rank).unwrap() {
        assert_eq!(rank.unwrap(), (each, each, (0, 0)));
    }
}
