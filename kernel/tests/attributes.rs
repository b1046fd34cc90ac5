//! Attributes and names of communicators (MPI 4.1 sections 7.7 and 7.8).

use core::cell::RefCell;
use core::iter::Empty;
use core::time::Duration;

use aldis_kernel::hal::{Cause, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Attribute, Comm, Keyval, Members, Tag};
use aldis_kit::rig::{self, Job, Shape};

std::thread_local! {
    /// The attributes deleted in this test: communicator and value.
    static DELETED: RefCell<Vec<(u32, u64)>> = const { RefCell::new(Vec::new()) };
}

fn delete(comm: &Comm, value: u64) {
    DELETED.with(|deleted| deleted.borrow_mut().push((comm.context(), value)));
}

fn deleted() -> Vec<(u32, u64)> {
    DELETED.take()
}

static SHARED: Keyval = Keyval::new(Keyval::copied, delete);
static OWN: Keyval = Keyval::new(Keyval::not_copied, delete);
static COUNTED: Keyval = Keyval::new(|_, value| Some(value + 1), delete);
static SILENT: Keyval = Keyval::new(Keyval::copied, Keyval::kept);

/// Another communicator of the ranks of `comm`, in slot 2.
fn copy(rank: &mut rig::Rank<'_>, comm: &Comm, generation: u32) -> Comm {
    rank.install(2, generation, &Members::<Empty<PeerId>>::Of(*comm)).unwrap()
}

#[test]
fn an_attribute_is_set_replaced_and_deleted_by_communicator_and_key() {
    let mut slots = [Attribute::NONE; 3];
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let (world, itself) = (rank.world(), rank.itself());
    let full = rank.comm_mut(&world).set_attribute(&SHARED, 1).unwrap_err();
    assert_eq!(full.cause, Cause::Full(Resource::Attributes), "no slots are lent");
    rank.lend_attributes(&mut slots).unwrap();
    rank.comm_mut(&world).set_attribute(&SHARED, 1).unwrap();
    rank.comm_mut(&itself).set_attribute(&SHARED, 2).unwrap();
    rank.comm_mut(&world).set_attribute(&OWN, 3).unwrap();
    assert_eq!(rank.comm(&world).attribute(&SHARED), Ok(Some(1)));
    assert_eq!(rank.comm(&world.collective()).attribute(&SHARED), Ok(Some(1)), "on either plane");
    assert_eq!(
        (rank.comm(&itself).attribute(&SHARED), rank.comm(&itself).attribute(&OWN)),
        (Ok(Some(2)), Ok(None))
    );
    assert_eq!(rank.comm_mut(&itself).set_attribute(&OWN, 4).unwrap_err().cause, full.cause);
    assert_eq!(deleted(), []);
    rank.comm_mut(&world).set_attribute(&SHARED, 5).unwrap();
    assert_eq!(deleted(), [(world.context(), 1)], "what it was before");
    assert_eq!(rank.comm(&world).attribute(&SHARED), Ok(Some(5)));
    rank.comm_mut(&world).delete_attribute(&OWN).unwrap();
    rank.comm_mut(&world).delete_attribute(&OWN).unwrap();
    assert_eq!(deleted(), [(world.context(), 3)]);
    assert_eq!(
        (rank.comm(&world).attribute(&OWN), rank.comm(&world).attribute(&SHARED)),
        (Ok(None), Ok(Some(5)))
    );
    rank.comm_mut(&itself).set_attribute(&SILENT, 6).unwrap();
    rank.comm_mut(&itself).delete_attribute(&SILENT).unwrap();
    assert_eq!(deleted(), []);
}

#[test]
fn slots_are_lent_once_and_empty() {
    let (mut slots, mut more) = ([Attribute::NONE; 1], [Attribute::NONE; 1]);
    {
        let mut job = Job::new(1, Shape::default());
        let mut ranks = job.ranks();
        let world = ranks[0].world();
        ranks[0].lend_attributes(&mut slots).unwrap();
        assert_eq!(ranks[0].lend_attributes(&mut more).unwrap_err().cause, Cause::Busy);
        ranks[0].comm_mut(&world).set_attribute(&SHARED, 1).unwrap();
    }
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    ranks[0].lend_attributes(&mut slots).unwrap();
    assert_eq!(
        ranks[0].comm(&world).attribute(&SHARED),
        Ok(None),
        "what another endpoint has kept there is no more"
    );
}

#[test]
fn a_duplicate_has_what_its_keys_give_it() {
    let mut slots = [Attribute::NONE; 6];
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let world = rank.world();
    rank.lend_attributes(&mut slots).unwrap();
    for (key, value) in [(&SHARED, 1), (&OWN, 2), (&COUNTED, 3)] {
        rank.comm_mut(&world).set_attribute(key, value).unwrap();
    }
    let new = copy(rank, &world, 1);
    rank.check_attributes(&world).unwrap();
    rank.copy_attributes(&world, &new);
    let found = [&SHARED, &OWN, &COUNTED].map(|key| rank.comm(&new).attribute(key).unwrap());
    assert_eq!(found, [Some(1), None, Some(4)]);
    let what = Resource::Attributes;
    assert_eq!(rank.check_attributes(&world), Err(Cause::TooSmall { what, need: 3, have: 1 }));
    assert_eq!(deleted(), []);
    rank.discard(&new).unwrap();
    assert_eq!(
        deleted(),
        [(new.context(), 4), (new.context(), 1)],
        "with their communicator, the last one first"
    );
    assert_eq!(rank.comm(&new).attribute(&SHARED).unwrap_err().cause, Cause::Stale);
    assert_eq!(rank.comm_mut(&new).set_attribute(&SHARED, 1).unwrap_err().cause, Cause::Stale);
    assert_eq!(rank.comm_mut(&new).delete_attribute(&SHARED).unwrap_err().cause, Cause::Stale);
    let next = copy(rank, &world, 2);
    assert_eq!(rank.comm(&next).attribute(&SHARED), Ok(None), "the slot's next has none");
    assert_eq!(rank.comm(&world).attribute(&SHARED), Ok(Some(1)));
}

/// MPI 4.1 section 11.2.4.
#[test]
fn whoever_leaves_deletes_the_attributes_of_self_the_last_one_first() {
    let mut slots = [Attribute::NONE; 4];
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let (world, itself) = (rank.world(), rank.itself());
    rank.lend_attributes(&mut slots).unwrap();
    rank.comm_mut(&itself).set_attribute(&SHARED, 1).unwrap();
    rank.comm_mut(&world).set_attribute(&SHARED, 2).unwrap();
    rank.comm_mut(&itself).set_attribute(&OWN, 3).unwrap();
    rank.leave(Duration::from_millis(1)).unwrap();
    assert_eq!(deleted(), [(itself.context(), 3), (itself.context(), 1)]);
}

#[test]
fn predefined_attributes_are_there_and_stay_as_they_are() {
    let mut job = Job::new(3, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let itself = rank.itself();
    for (key, value) in [
        (&Keyval::TAG_UPPER_BOUND, Tag::MAX.0.into()),
        (&Keyval::UNIVERSE_SIZE, 3),
        (&Keyval::CLOCK_IS_GLOBAL, 0),
    ] {
        assert_eq!(rank.comm(&itself).attribute(key), Ok(Some(value)));
        assert_eq!(rank.comm_mut(&itself).set_attribute(key, 1).unwrap_err().cause, Cause::Predefined);
        assert_eq!(rank.comm_mut(&itself).delete_attribute(key).unwrap_err().cause, Cause::Predefined);
    }
}

#[test]
fn a_name_is_a_communicators_own() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let rank = &mut ranks[0];
    let (world, itself) = (rank.world(), rank.itself());
    assert_eq!((rank.comm(&world).name(), rank.comm(&itself).name()), (Ok("world"), Ok("self")));
    rank.comm_mut(&world).set_name("all").unwrap();
    let new = copy(rank, &world, 1);
    assert_eq!(
        (rank.comm(&world).name(), rank.comm(&new).name()),
        (Ok("all"), Ok("")),
        "which a duplicate does not have"
    );
    rank.comm_mut(&new).set_name("copy").unwrap();
    assert_eq!(rank.comm(&new).name(), Ok("copy"));
    rank.discard(&new).unwrap();
    assert_eq!(rank.comm(&new).name().unwrap_err().cause, Cause::Stale);
    assert_eq!(rank.comm_mut(&new).set_name("").unwrap_err().cause, Cause::Stale);
    let next = copy(rank, &world, 2);
    assert_eq!(rank.comm(&next).name(), Ok(""));
}
