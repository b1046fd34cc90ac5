//! Tests of what a new communicator has of the one that it is made of (MPI 4.1 sections 7.4.2,
//! 7.7.2 and 9.3), a thread a rank.
#![allow(missing_docs)]

use core::cell::Cell;

use aldis_coll::barrier;
use aldis_coll::comm::inter::{self, Leaders};
use aldis_coll::comm::{SplitChoice, create, create_group, dup, dup_with_hints, free, split};
use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::{Attribute, Comm, Error, Group, GroupPiece, Hints, Keyval, Policy, Rank, Tag};
use aldis_tests::thread_jobs::run;

std::thread_local! {
    /// The number of calls of this rank's policy.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

fn count(_: &Comm, _: &Error) {
    CALLS.set(CALLS.get() + 1);
}

static SHARED: Keyval = Keyval::new(Keyval::copied, Keyval::kept);
static COUNTED: Keyval = Keyval::new(|old, value| Some(value + u64::from(old.size())), Keyval::kept);
static OWN: Keyval = Keyval::new(Keyval::not_copied, Keyval::kept);

fn keys() -> [&'static Keyval; 3] {
    [&SHARED, &COUNTED, &OWN]
}

#[test]
fn a_duplicate_has_policy_and_attributes_but_neither_name_nor_hints() {
    run(3, |endpoint| {
        let world = endpoint.world();
        endpoint.lend_attributes(Box::leak(Box::new([Attribute::NONE; 8]))).unwrap();
        for (key, value) in keys().into_iter().zip(1..) {
            endpoint.comm_mut(&world).set_attribute(key, value).unwrap();
        }
        endpoint.comm_mut(&world).set_error_policy(Policy::Callback(count)).unwrap();
        endpoint.comm_mut(&world).set_hints(Hints::NO_ANY_TAG).unwrap();
        let copy = dup(endpoint, &world).unwrap();
        assert_eq!(keys().map(|key| endpoint.comm(&copy).attribute(key).unwrap()), [Some(1), Some(5), None]);
        assert_eq!((endpoint.comm(&copy).hints(), endpoint.comm(&copy).name()), (Ok(Hints::empty()), Ok("")));
        endpoint.send(&copy, &[1_u8], Rank(3), Tag(0)).unwrap_err();
        assert_eq!(CALLS.get(), 1);
        // Its own from then on.
        endpoint.comm_mut(&copy).set_error_policy(Policy::Return).unwrap();
        endpoint.comm_mut(&copy).set_attribute(&SHARED, 9).unwrap();
        endpoint.send(&copy, &[1_u8], Rank(3), Tag(0)).unwrap_err();
        assert_eq!((CALLS.get(), endpoint.comm(&world).attribute(&SHARED)), (1, Ok(Some(1))));
        let hinted = dup_with_hints(endpoint, &copy, Hints::EXACT_LENGTH).unwrap();
        assert_eq!(endpoint.comm(&hinted).hints(), Ok(Hints::EXACT_LENGTH));
        assert_eq!(
            keys().map(|key| endpoint.comm(&hinted).attribute(key).unwrap()),
            [Some(9), Some(8), None]
        );
        barrier().run(endpoint, &hinted).unwrap();
        free(endpoint, hinted).unwrap();
        free(endpoint, copy).unwrap();
    });
}

#[test]
fn whatever_is_made_has_its_parents_policy_and_no_attributes() {
    run(4, |endpoint| {
        let world = endpoint.world();
        endpoint.lend_attributes(Box::leak(Box::new([Attribute::NONE; 4]))).unwrap();
        endpoint.comm_mut(&world).set_attribute(&SHARED, 1).unwrap();
        endpoint.comm_mut(&world).set_error_policy(Policy::Callback(count)).unwrap();
        let mut scratch = [SplitChoice::NONE; 4];
        let colour = world.rank().0 % 2;
        let half = split(endpoint, &world, Some(colour), 0, &mut scratch).unwrap().unwrap();
        let mut memory = [GroupPiece::NONE; 4];
        let group = endpoint.comm(&half).group().unwrap().union(&Group::EMPTY, &mut memory).unwrap();
        let made = create(endpoint, &world, &group).unwrap().unwrap();
        let alone = create_group(endpoint, &world, &group, Tag(3)).unwrap();
        let leader = Rank(1 - colour);
        let inter = inter::create(
            endpoint,
            Leaders { local: &half, leader: Rank(0), peer: &world, remote: leader, tag: Tag(1) },
            &mut scratch,
        )
        .unwrap();
        let twin = inter::dup(endpoint, &inter).unwrap();
        let merged = inter::merge(endpoint, &twin, colour == 1).unwrap();
        for (comm, calls) in [half, made, alone, inter, twin, merged].into_iter().zip(1..) {
            assert_eq!(endpoint.comm(&comm).attribute(&SHARED), Ok(None));
            endpoint.send(&comm, &[1_u8], Rank(9), Tag(0)).unwrap_err();
            assert_eq!(CALLS.get(), calls, "{comm:?}");
        }
        barrier().run(endpoint, &world).unwrap();
    });
}

/// A rank without slots for the copies says so, and the call fails on all.
#[test]
fn without_slots_for_its_attributes_no_rank_has_a_duplicate() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let me = world.rank();
        if me == Rank(1) {
            endpoint.lend_attributes(Box::leak(Box::new([Attribute::NONE; 1]))).unwrap();
            endpoint.comm_mut(&world).set_attribute(&SHARED, 1).unwrap();
        }
        let error = dup(endpoint, &world).unwrap_err();
        let what = Resource::Attributes;
        if me == Rank(1) {
            assert_eq!(error.cause, Cause::TooSmall { what, need: 1, have: 0 });
            endpoint.comm_mut(&world).delete_attribute(&SHARED).unwrap();
        } else {
            assert_eq!((error.cause, error.peer()), (Cause::Full(what), Some(Rank(1))));
        }
        let copy = dup(endpoint, &world).unwrap();
        free(endpoint, copy).unwrap();
    });
}

/// A collective that fails is a failure on its communicator.
#[test]
fn a_failing_collective_follows_the_policy() {
    run(2, |endpoint| {
        let world = endpoint.world();
        endpoint.comm_mut(&world).set_error_policy(Policy::Callback(count)).unwrap();
        let mut data = vec![0_u8; if world.rank() == Rank(0) { 8 } else { 12 }];
        let sent = aldis_coll::bcast(&mut data, Rank(0)).run(endpoint, &world);
        assert_eq!((sent.is_err(), CALLS.get() > 0), (world.rank() == Rank(1), world.rank() == Rank(1)));
    });
}
