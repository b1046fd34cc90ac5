//! Ranks that make unlike calls: found out, told with both sides' calls, and no rank waits beyond
//! the deadline.

use core::time::Duration;

use aldis_coll::op::Sum;
use aldis_coll::{Options, allreduce, barrier, bcast, reduce, scan};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{COLLECTIVES_MAX, Comm, Error, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};

/// A call that a rank makes: the operation, its root, and elements.
type Made = (Operation, u32, usize);

/// The time that a rank waits where no rank can tell what is wrong.
const LIMIT: Duration = Duration::from_secs(1);

fn named(operation: Operation) -> Options {
    match operation {
        Operation::Barrier => Options::using(&barrier::Dissemination),
        Operation::Bcast => Options::using(&bcast::Binomial),
        Operation::Reduce => Options::using(&reduce::Binomial),
        Operation::Scan => Options::using(&scan::Linear),
        _ => Options::using(&allreduce::RecursiveDoubling),
    }
}

fn blocking(ep: &mut Endpoint<'_, '_>, on: &Comm, options: &Options, made: Made) -> Result<(), Error> {
    let (operation, root, count) = made;
    let (mut data, mut spare) = (vec![1_u64; count], vec![0; count]);
    let mut within = ep.within(LIMIT);
    match operation {
        Operation::Barrier => barrier().with(options).run(&mut within, on),
        Operation::Bcast => bcast(&mut data, Rank(root)).with(options).run(&mut within, on),
        Operation::Reduce => {
            reduce(Sum, &mut data, &mut spare, Rank(root)).with(options).run(&mut within, on)
        }
        Operation::Scan => scan(Sum, &mut data, &mut spare).with(options).run(&mut within, on),
        _ => allreduce(Sum, &mut data, &mut spare).with(options).run(&mut within, on),
    }
}

fn nonblocking(ep: &mut Endpoint<'_, '_>, on: &Comm, options: &Options, made: Made) -> Result<(), Error> {
    let (operation, root, count) = made;
    let (mut data, mut spare) = (vec![1_u64; count], vec![0; count]);
    let (lent, scratch) = (&mut data, &mut spare);
    let mut within = ep.within(LIMIT);
    within.scope(|scope| {
        let mut started = match operation {
            Operation::Barrier => barrier().with(options).start(scope, on),
            Operation::Bcast => bcast(lent, Rank(root)).with(options).start(scope, on),
            Operation::Reduce => reduce(Sum, lent, scratch, Rank(root)).with(options).start(scope, on),
            Operation::Scan => scan(Sum, lent, scratch).with(options).start(scope, on),
            _ => allreduce(Sum, lent, scratch).with(options).start(scope, on),
        }?;
        started.wait(scope)
    })
}

/// Returns the error of each rank when rank 0 makes another call than the rest; a rank that has
/// gone on meets the others in a barrier, which is unlike nothing but may find what was left.
fn told(size: u32, calls: [Made; 2], by_control_slots: bool, waits: bool) -> Vec<Option<Error>> {
    run(size, |ep| {
        let world = met(ep);
        let mine = calls[usize::from(world.rank().0 > 0)];
        let options = if by_control_slots { Options::shared() } else { named(mine.0) };
        let make = if waits { blocking } else { nonblocking };
        let next = if by_control_slots { Options::shared() } else { named(Operation::Barrier) };
        let first = make(ep, &world, &options, mine).err();
        first.or_else(|| blocking(ep, &world, &next, (Operation::Barrier, 0, 0)).err())
    })
}

/// The world, with all ranks there: the time limit of what comes is for that alone.
fn met(ep: &mut Endpoint<'_, '_>) -> Comm {
    let world = ep.world();
    barrier().with(&named(Operation::Barrier)).run(ep, &world).unwrap();
    world
}

fn rooted(operation: Operation) -> bool {
    matches!(operation, Operation::Bcast | Operation::Reduce)
}

/// Returns true if an error tells of both calls, seen from rank `rank`.
fn tells(error: &Error, rank: usize, calls: [Made; 2]) -> bool {
    let [first, rest] = calls;
    let (mine, other) = if rank == 0 { (first, rest) } else { (rest, first) };
    let Cause::UnlikeCall { own, own_root, theirs, their_root, is_exact: true } = error.cause else {
        return false;
    };
    let text = error.to_string();
    let names = |(operation, root, _): Made| {
        text.contains(&if rooted(operation) {
            format!("{operation} with root {root}")
        } else {
            operation.to_string()
        })
    };
    (own, theirs) == (mine.0, other.0)
        && (!rooted(own) || u32::from(own_root) == mine.1)
        && (!rooted(theirs) || u32::from(their_root) == other.1)
        && names(mine)
        && names(other)
}

fn check(size: u32, calls: [Made; 2], by_control_slots: bool, waits: bool) {
    let told = told(size, calls, by_control_slots, waits);
    let case =
        format!("{size} ranks, {calls:?}, by control slots {by_control_slots}, blocking {waits}: {told:?}");
    assert!(
        told.iter().enumerate().any(|(rank, error)| error.is_some_and(|error| tells(&error, rank, calls))),
        "{case}"
    );
    // No rank is told anything else that is untrue.
    for error in told.iter().flatten() {
        let is_true = matches!(
            error.cause,
            Cause::UnlikeCall { .. } | Cause::TimedOut | Cause::PeerLeft | Cause::Withdrawn
        );
        assert!(is_true, "{case}");
    }
}

const CALLS: [[Made; 2]; 5] = [
    [(Operation::Barrier, 0, 0), (Operation::Allreduce, 0, 2)],
    [(Operation::Scan, 0, 2), (Operation::Allreduce, 0, 2)],
    [(Operation::Bcast, 0, 2), (Operation::Bcast, 1, 2)],
    [(Operation::Bcast, 0, 5000), (Operation::Bcast, 1, 5000)],
    [(Operation::Reduce, 0, 2), (Operation::Reduce, 3, 2)],
];

#[test]
fn unlike_calls_by_messages_are_told_with_both_sides() {
    for size in [2, 4] {
        // Of two roots that are partners each waits for the other and neither sends.
        for calls in
            CALLS.into_iter().filter(|[(operation, ..), _]| size > 2 || *operation != Operation::Reduce)
        {
            for waits in [true, false] {
                check(size, calls, false, waits);
            }
        }
    }
}

/// The only thing to be seen where no rank sends is which one is missing.
#[test]
fn who_waits_for_one_who_waits_is_told_by_the_deadline() {
    let told = told(2, [(Operation::Reduce, 0, 2), (Operation::Reduce, 1, 2)], false, true);
    for (rank, error) in told.iter().enumerate() {
        let missing = error.map(|error| (error.operation, error.cause, error.peer()));
        assert_eq!(missing, Some((Operation::Reduce, Cause::TimedOut, Some(Rank(1 - rank as u32)))));
    }
}

#[test]
fn unlike_calls_by_control_slots_are_told_with_both_sides() {
    for size in [2, 4] {
        for calls in [
            [(Operation::Barrier, 0, 0), (Operation::Allreduce, 0, 2)],
            [(Operation::Reduce, 0, 2), (Operation::Reduce, 1, 2)],
            [(Operation::Reduce, 0, 5000), (Operation::Reduce, 1, 5000)],
            // Each waits for the other's data.
            [(Operation::Bcast, 1, 2), (Operation::Bcast, 0, 2)],
            [(Operation::Bcast, 1, 5000), (Operation::Bcast, 0, 5000)],
        ] {
            check(size, calls, true, true);
            check(size, calls, true, false);
        }
    }
}

/// A rank waits at control slots, the others for messages.
#[test]
fn who_waits_at_control_slots_sees_that_others_send_messages() {
    for size in [2, 4] {
        let calls = [(Operation::Barrier, 0, 0), (Operation::Allreduce, 0, 2)];
        let told = run(size, |ep| {
            let world = met(ep);
            if world.rank() == Rank(0) {
                blocking(ep, &world, &Options::shared(), calls[0]).err()
            } else {
                blocking(ep, &world, &named(Operation::Allreduce), calls[1]).err()
            }
        });
        assert!(told[0].is_some_and(|error| tells(&error, 0, calls)), "{told:?}");
    }
}

/// Other counts and other element types are other lengths.
#[test]
fn unlike_lengths_are_told_with_both_sides() {
    for size in [2, 4] {
        for calls in [
            [(Operation::Allreduce, 0, 3), (Operation::Allreduce, 0, 2)],
            [(Operation::Bcast, 0, 3), (Operation::Bcast, 0, 2)],
            [(Operation::Reduce, 0, 2), (Operation::Reduce, 0, 3)],
        ] {
            let told = told(size, calls, false, true);
            let lengths = told.iter().flatten().find(|error| {
                matches!(
                    error.cause,
                    Cause::UnlikeLength { own, theirs } if own.min(theirs) == 16 && own.max(theirs) == 24
                )
            });
            assert!(lengths.is_some_and(|error| error.peer().is_some()), "{calls:?}: {told:?}");
        }
    }
}

/// Persistent ones are compared by numbers of their own.
#[test]
fn unlike_persistent_collectives_are_told_with_both_sides() {
    for calls in [
        [(Operation::Barrier, 0, 0), (Operation::Allreduce, 0, 1)],
        [(Operation::Reduce, 0, 1), (Operation::Reduce, 3, 1)],
    ] {
        let told = run(4, |ep| {
            let world = met(ep);
            let (operation, root, _) = calls[usize::from(world.rank().0 > 0)];
            let (mut data, mut spare) = ([1_u64], [0]);
            let (lent, scratch) = (&mut data, &mut spare);
            ep.within(LIMIT).scope(|scope| {
                let options = named(operation);
                let mut made = match operation {
                    Operation::Barrier => barrier().with(&options).persistent(scope, &world),
                    Operation::Reduce => {
                        reduce(Sum, lent, scratch, Rank(root)).with(&options).persistent(scope, &world)
                    }
                    _ => allreduce(Sum, lent, scratch).with(&options).persistent(scope, &world),
                }?;
                made.start(scope)?;
                made.wait(scope)
            })
        });
        let told: Vec<_> = told.into_iter().map(Result::err).collect();
        assert!(
            told[0].is_none_or(|error| error.cause == Cause::TimedOut || tells(&error, 0, calls)),
            "{told:?}"
        );
        let tell =
            |(rank, error): (usize, &Option<Error>)| error.is_some_and(|error| tells(&error, rank, calls));
        assert!(told.iter().enumerate().any(tell), "{told:?}");
    }
}

/// A collective that is under way during a whole round of numbers has one with a later call of
/// another operation: what others send for the one is not taken for the other's.
#[test]
fn a_call_with_the_number_of_one_under_way_is_not_unlike_it() {
    for is_over_first in [false, true] {
        run(3, |ep| {
            let world = ep.world();
            let is_first = world.rank() == Rank(0);
            let (mut data, mut spare) = ([1_u64], [0]);
            let (lent, scratch) = (&mut data, &mut spare);
            ep.scope(|scope| {
                let mut long = barrier().with(&named(Operation::Barrier)).start(scope, &world)?;
                for _ in 1..COLLECTIVES_MAX {
                    // A rank that does not go on with it has the message of its second round here.
                    if !is_first {
                        long.test(scope)?;
                    }
                    // The cheapest call: no rank waits for one that comes later.
                    bcast(&mut [0_u64; 0], Rank(1))
                        .with(&named(Operation::Bcast))
                        .start(scope, &world)?
                        .wait(scope)?;
                }
                if is_first && is_over_first {
                    // The others' next call is here before this one is over.
                    std::thread::sleep(Duration::from_millis(20));
                    long.wait(scope)?;
                }
                allreduce(Sum, lent, scratch)
                    .with(&named(Operation::Allreduce))
                    .start(scope, &world)?
                    .wait(scope)?;
                long.wait(scope)
            })
            .unwrap();
            assert_eq!(data, [3]);
        });
    }
}
