//! Trials over the transports of a host: sockets, which send from memory that they were lent, and
//! segments, in which a peer reads memory that it was shown and writes memory that it was offered.
//! Memory is the heap's, a block of the rank's own arena, or of the other rank's.

use core::future::Future;
use core::mem::ManuallyDrop;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::panic::catch_unwind;
use std::thread;

use aldis_hal::Transport;
use aldis_kernel::{Rank, Sleeper, Tag};
use aldis_linux::arena::Arena;
use aldis_trials::host::{End, Hosts, ProgramBytes, arenas};
use aldis_trials::join;

const TAG: Tag = Tag(1);
const OTHER: Tag = Tag(7);

/// Lengths that go at once, in fragments, and by reading the peer's memory.
const LENGTHS: [usize; 3] = [8, 2000, 200_000];

/// The arenas from which a trial takes the memory of each rank.
type Arenas = [Option<&'static Arena>; 2];

/// A trial on two ranks.
trait Trial {
    fn run<T: Transport + Send>(&self, ends: [End<'_, T>; 2], arenas: Arenas);
}

/// Runs a trial over each network, and from each kind of memory.
fn everywhere(trial: &impl Trial) {
    trial.run(Hosts::new().over_tcp(), [None; 2]);
    let mut hosts = Hosts::new();
    let ends = hosts.on_one_node();
    let found = arenas(&ends).map(Some);
    let [one, two] = found;
    trial.run(ends, [one, two]);
    for memory in [[None; 2], [two, one], [one, None]] {
        // Fresh ranks; the arenas of the first ones are to these memory like any other.
        trial.run(Hosts::new().on_one_node(), memory);
    }
    assert_eq!(found.map(|arena| arena.map(Arena::free)), [Some(1 << 20); 2], "a block is not given back");
}

/// Lets both move as long as they have anything to do.
fn settle<T: Transport>([one, two]: &mut [End<'_, T>; 2]) {
    let mut idle = 0;
    while idle < 50 {
        idle = if one.poll(64) + two.poll(64) == 0 { idle + 1 } else { 0 };
        thread::yield_now();
    }
}

/// The endpoints still serve, each the other.
fn still_talk<T: Transport>([one, two]: &mut [End<'_, T>; 2]) {
    let worlds = [one.world(), two.world()];
    for len in LENGTHS {
        let (out, mut into) = (vec![3u8; len], vec![0u8; len]);
        one.scope(|here| {
            two.scope(|there| {
                let mut sending = there.isend(&worlds[1], &out, Rank(0), OTHER)?;
                let mut receiving = here.irecv(&worlds[0], &mut into, Rank(1), OTHER)?;
                while here.result(&mut receiving)?.is_none() || there.result(&mut sending)?.is_none() {
                    here.poll(64);
                    there.poll(64);
                }
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(into, out);
    }
}

/// A way for a scope to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScopeEnd {
    Error,
    Panic,
    Deadline,
}

/// The moment at which scopes end, while a message of `len` bytes is under way, and the way.
#[derive(Clone, Copy)]
struct CutMoment {
    how: ScopeEnd,
    len: usize,
    polls: u32,
}

/// Scopes of both that end while a message is at any point of its way; their memory is used for
/// something else at once.
struct CutOff;

impl CutOff {
    fn cut<T: Transport>(ends: &mut [End<'_, T>; 2], arenas: Arenas, moment: CutMoment) {
        let CutMoment { how, len, polls } = moment;
        let [one, two] = ends;
        let mut into = ProgramBytes::new(arenas[0], len, 0);
        let data = ProgramBytes::new(arenas[1], len, 1);
        let limit = if how == ScopeEnd::Deadline { Duration::ZERO } else { Duration::from_secs(3600) };
        let worlds = [one.world(), two.world()];
        let ended = catch_unwind(AssertUnwindSafe(|| {
            one.within(limit).scope(|here| {
                two.within(limit).scope(|there| {
                    let _sending = there.issend(&worlds[1], &data, Rank(0), TAG)?;
                    let _receiving = here.irecv(&worlds[0], &mut into, Rank(1), TAG)?;
                    (0..polls).for_each(|_| assert!(here.poll(2) + there.poll(2) < 5));
                    assert_ne!(how, ScopeEnd::Panic, "the program has had enough");
                    match how {
                        ScopeEnd::Error => there.isend(&worlds[1], &[0u8; 0], Rank(99), TAG).map(drop),
                        _ => Ok(()),
                    }
                })
            })
        }));
        assert_eq!(ended.is_err(), how == ScopeEnd::Panic, "{how:?} {len} {polls}");
        drop((into, data));
        let again = [0, 1].map(|rank| ProgramBytes::new(arenas[rank], len, 9));
        settle(ends);
        assert!(again.iter().all(|bytes| bytes.iter().all(|byte| *byte == 9)), "{how:?} {len} {polls}");
    }
}

impl Trial for CutOff {
    fn run<T: Transport + Send>(&self, mut ends: [End<'_, T>; 2], arenas: Arenas) {
        still_talk(&mut ends);
        for len in LENGTHS {
            for polls in [0, 1, 2, 3, 5, 9] {
                for how in [ScopeEnd::Error, ScopeEnd::Deadline, ScopeEnd::Panic] {
                    Self::cut(&mut ends, arenas, CutMoment { how, len, polls });
                }
            }
        }
    }
}

#[test]
fn scopes_that_end_early_let_go_over_sockets_and_segments() {
    everywhere(&CutOff);
}

/// A rank goes, or is forgotten and never moves again, when its memory is shown or it was to fill
/// the other's.
struct Desertion;

impl Trial for Desertion {
    fn run<T: Transport + Send>(&self, [mut one, two]: [End<'_, T>; 2], arenas: Arenas) {
        let mut two = ManuallyDrop::new(two);
        let worlds = [one.world(), two.world()];
        for (len, polls) in [(200_000, 1), (200_000, 4), (2000, 2)] {
            let mut into = ProgramBytes::new(arenas[0], len, 0);
            let data = ProgramBytes::new(arenas[1], len, 1);
            let late = one.within(Duration::ZERO).scope(|here| {
                let _shown = here.issend(&worlds[0], &data, Rank(1), OTHER)?;
                two.within(Duration::ZERO)
                    .scope(|there| {
                        let _shown = there.issend(&worlds[1], &data, Rank(0), TAG)?;
                        (0..polls).for_each(|_| assert!(there.poll(4) < 5));
                        Ok(())
                    })
                    .ok();
                let receiving = here.irecv(&worlds[0], &mut into, Rank(1), TAG)?;
                here.wait(receiving).map(drop)
            });
            // The first is told, the others find no peer or no message.
            assert!(late.is_err() || into.iter().all(|byte| *byte == 1));
            drop((into, data));
            let again = ProgramBytes::new(arenas[0], len, 9);
            (0..100).for_each(|_| assert!(one.poll(8) < 9));
            assert!(again.iter().all(|byte| *byte == 9));
        }
        // Now it goes for good, in the middle of what the first still waits for.
        let mut into = ProgramBytes::new(arenas[0], 200_000, 0);
        let late = one.within(Duration::from_millis(50)).scope(|here| {
            let receiving = here.irecv(&worlds[0], &mut into, Rank(1), TAG)?;
            (0..4).for_each(|_| assert!(here.poll(4) < 5));
            drop(ManuallyDrop::into_inner(two));
            here.wait(receiving).map(drop)
        });
        assert!(late.is_err());
    }
}

#[test]
fn memory_that_is_shown_outlives_no_peer_that_goes() {
    everywhere(&Desertion);
}

/// Futures that are dropped, or forgotten, half-way.
struct Futures;

impl Trial for Futures {
    fn run<T: Transport + Send>(&self, mut ends: [End<'_, T>; 2], arenas: Arenas) {
        still_talk(&mut ends);
        for (len, forgotten, polls) in LENGTHS
            .into_iter()
            .flat_map(|len| [(len, false, 1), (len, false, 4), (len, true, 1), (len, true, 4)])
        {
            let [one, two] = &mut ends;
            let worlds = [one.world(), two.world()];
            let (mut into, data) =
                (ProgramBytes::new(arenas[0], len, 0), ProgramBytes::new(arenas[1], len, 1));
            {
                let [mut here, mut there] = [(); 2].map(|()| [const { Sleeper::EMPTY }; 24]);
                let (one, two) = (one.futures(&mut here).unwrap(), two.futures(&mut there).unwrap());
                let mut context = Context::from_waker(Waker::noop());
                let mut receiving = ManuallyDrop::new(one.recv(&worlds[0], &mut into, Rank(1), TAG));
                let mut sending = ManuallyDrop::new(two.ssend(&worlds[1], &data, Rank(0), TAG));
                for _ in 0..polls {
                    if pin!(&mut *receiving).poll(&mut context).is_ready()
                        || pin!(&mut *sending).poll(&mut context).is_ready()
                    {
                        break;
                    }
                }
                if !forgotten {
                    drop((ManuallyDrop::into_inner(receiving), ManuallyDrop::into_inner(sending)));
                }
            }
            drop((into, data));
            let again = [0, 1].map(|rank| ProgramBytes::new(arenas[rank], len, 9));
            settle(&mut ends);
            assert!(
                again.iter().all(|bytes| bytes.iter().all(|byte| *byte == 9)),
                "{len} {forgotten} {polls}"
            );
        }
    }
}

#[test]
fn futures_that_are_let_fall_let_go_over_sockets_and_segments() {
    everywhere(&Futures);
}

/// A thread each, with deadlines too short for what they do, in memory that is used again at once.
struct Threads;

/// Rounds of each thread.
const ROUNDS: u32 = 60;

impl Trial for Threads {
    fn run<T: Transport + Send>(&self, mut ends: [End<'_, T>; 2], arenas: Arenas) {
        let [one, two] = &mut ends;
        let work = |end: &mut End<'_, T>, arena| {
            let (world, mate) = (end.world(), Rank(1 - end.world().rank().0));
            for round in 0..ROUNDS {
                let len = LENGTHS[round as usize % 3];
                let limit = Duration::from_micros(u64::from(round % 7) * 60);
                let (mut into, data) = (ProgramBytes::new(arena, len, 0), ProgramBytes::new(arena, len, 1));
                let whole = end.within(limit).scope(|scope| {
                    let _sending = scope.issend(&world, &data, mate, TAG)?;
                    let receiving = scope.irecv(&world, &mut into, mate, TAG)?;
                    scope.wait(receiving)
                });
                if let Ok(status) = whole {
                    let (came, rest) = into.split_at(status.bytes.min(len as u64) as usize);
                    assert!(came.iter().all(|byte| *byte == 1) && rest.iter().all(|byte| *byte == 0));
                }
                drop((into, data));
                let again = ProgramBytes::new(arena, len, 9);
                end.poll(64);
                assert!(again.iter().all(|byte| *byte == 9));
            }
        };
        thread::scope(|threads| {
            join([threads.spawn(|| work(one, arenas[0])), threads.spawn(|| work(two, arenas[1]))]);
        });
    }
}

#[test]
fn threads_that_give_up_let_go_over_sockets_and_segments() {
    everywhere(&Threads);
}
