//! Endpoints and what they lend in several threads at a time.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;

use aldis_kernel::{Rank, Shared, Sleeper, Tag, storage};
use aldis_trials::{Home, Mate, Pair, join};

const TAG: Tag = Tag(1);

/// Rounds of what is done again and again; under Miri each takes a thousand times as long.
const ROUNDS: u32 = if cfg!(miri) { 4 } else { 200 };

/// Each receives in vain, or half of a message, and frees the memory at once, while the other
/// sends.
#[test]
fn deadlines_in_two_threads_free_memory_under_the_senders_hands() {
    let mut pair = Pair::new();
    let [mut one, mut two] = pair.endpoints();
    let work = |end: &mut Mate<'_>| {
        let (world, mate) = (end.world(), Rank(1 - end.world().rank().0));
        for round in 0..ROUNDS {
            let len = [8, 200, 3000][round as usize % 3];
            let limit = Duration::from_micros(u64::from(round % 7) * 10);
            let (mut into, data) = (vec![0u8; len], vec![1u8; len]);
            let _ = end.within(limit).scope(|scope| {
                let _sending = scope.isend(&world, &data, mate, TAG)?;
                let receiving = scope.irecv(&world, &mut into, mate, TAG)?;
                scope.wait(receiving).map(drop)
            });
            drop((into, data));
            let _ = end.within(limit).recv(&world, &mut vec![0u8; len], mate, TAG);
        }
        end.poll(64)
    };
    thread::scope(|scope| {
        join([scope.spawn(|| work(&mut one)), scope.spawn(|| work(&mut two))]);
    });
}

/// An endpoint, and a scope of it, go from thread to thread while messages come.
#[test]
fn an_endpoint_moves_between_threads() {
    let mut pair = Pair::new();
    let [mut one, mut two] = pair.endpoints();
    thread::scope(|threads| {
        let sender = threads.spawn(move || {
            for round in 0..ROUNDS {
                let world = two.world();
                two.send(&world, &[round as u8; 300], Rank(0), TAG).unwrap();
            }
        });
        for round in 0..ROUNDS {
            let moved = thread::scope(|inner| {
                let reader = inner.spawn(move || {
                    let (world, mut into) = (one.world(), vec![0u8; 300]);
                    one.scope(|scope| {
                        let request = scope.irecv(&world, &mut into, Rank(1), TAG)?;
                        // The scope itself is in a third thread for a while.
                        thread::scope(|third| third.spawn(|| scope.wait(request)).join().unwrap())
                    })
                    .unwrap();
                    assert_eq!(into, [round as u8; 300]);
                    one
                });
                reader.join().unwrap()
            });
            one = moved;
        }
        join([sender]);
    });
}

/// Threads share an endpoint, and give up by deadlines whose memory is freed at once.
#[test]
fn a_shared_endpoint_keeps_nothing_of_a_thread_that_gave_up() {
    let mut pair = Pair::new();
    let [one, mut two] = pair.endpoints();
    let (shared, world) = (Shared::new(one), two.world());
    let left = AtomicUsize::new(2);
    thread::scope(|threads| {
        let sharers = [0, 1].map(|thread| {
            let (shared, left) = (&shared, &left);
            threads.spawn(move || {
                let world = shared.lock().world();
                for round in 0..ROUNDS {
                    let limit = Duration::from_micros(u64::from(round % 5) * 20);
                    let mut into = vec![0u8; [8, 700][round as usize % 2]];
                    let _ = shared.within(limit).recv(&world, &mut into, Rank(1), Tag(thread));
                    drop(into);
                    let data = vec![1u8; 700];
                    let _ = shared.within(limit).ssend(&world, &data, Rank(1), Tag(thread));
                }
                left.fetch_sub(1, Ordering::Release);
            })
        });
        let mut round = 0;
        while left.load(Ordering::Acquire) > 0 {
            let limit = Duration::from_micros(50);
            let _ = two.within(limit).send(&world, &[2u8; 600], Rank(0), Tag(round % 2));
            let _ = two.within(limit).recv(&world, &mut [0u8; 700], Rank(0), Tag(round % 2));
            round += 1;
        }
        join(sharers);
    });
}

/// Futures of one thread and blocking calls of another.
#[test]
fn futures_meet_threads() {
    let mut pair = Pair::new();
    let [mut one, mut two] = pair.endpoints();
    thread::scope(|threads| {
        let sender = threads.spawn(|| {
            let world = two.world();
            for round in 0..ROUNDS {
                two.send(&world, &vec![round as u8; 1000], Rank(0), TAG).unwrap();
            }
        });
        let world = one.world();
        let mut sleepers = [const { Sleeper::EMPTY }; 24];
        let futures = one.futures(&mut sleepers).unwrap();
        for round in 0..ROUNDS {
            let got = futures.block_on(async {
                let mut into = vec![0u8; 1000];
                futures.recv(&world, &mut into, Rank(1), TAG).await.map(|_| into)
            });
            assert_eq!(got.unwrap(), vec![round as u8; 1000]);
        }
        join([sender]);
    });
}

/// A static storage is asked for by many at a time, and handed to one.
#[test]
fn a_static_storage_is_handed_out_once() {
    storage! {
        static STORAGE: peers = 1, requests = 4, communicators = 2, envelopes = 2, blocks = 1, block_bytes = 64,
            pooled = 1, bins = 4
    }
    let taken = AtomicUsize::new(0);
    thread::scope(|threads| {
        let take = || taken.fetch_add(usize::from(STORAGE.take().is_some()), Ordering::Relaxed);
        join([(); 4].map(|()| threads.spawn(take)));
    });
    assert_eq!(taken.into_inner(), 1);
}

/// Two endpoints that know nothing of each other, in a thread each, over memory that is used again
/// and again.
#[test]
fn endpoints_come_and_go_in_their_threads() {
    thread::scope(|threads| {
        join([0, 1].map(|thread: u8| {
            threads.spawn(move || {
                let mut home = Home::new();
                for round in 0..ROUNDS.min(20) as u8 {
                    let mut end = home.endpoint();
                    let (world, mut into) = (end.world(), [0u8; 100]);
                    end.sendrecv(&world, &[round ^ thread; 100], Rank(0), TAG, &mut into, Rank(0), TAG)
                        .unwrap();
                    assert_eq!(into, [round ^ thread; 100]);
                }
            })
        }));
    });
}
