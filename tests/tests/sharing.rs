//! An endpoint shared between cores by a spin lock: threads that take turns, and blocking calls that do not wait for
//! each other.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use aldis_drivers::Loopback;
use aldis_hal::{Cause, Epoch, Operation, PeerId};
use aldis_host_sim::platform::{HostPlatform, Patience};
use aldis_kernel::{Comm, Config, Endpoint, Memory, Rank, Shared, Source, Tag, TagMatch};
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
    assert_eq!(endpoint.queue_depths(), (0, 0));
}

aldis_kernel::storage! {
    static PAIRS: peers = 1, requests = 16, communicators = 2, envelopes = 4, blocks = 2, block_bytes = 256,
        pooled = 6, bins = 16
}

/// Every pair of threads plays ping-pong with tags of its own: each waits for its message while others wait for theirs.
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
    assert_eq!(endpoint.queue_depths(), (0, 0));
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
        // All this happens while the other one waits; its message is the last.
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
    assert_eq!(shared.into_inner().queue_depths(), (0, 0));
}
