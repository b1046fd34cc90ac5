//! Caching: section 7.7.

use core::cell::RefCell;

use aldis_coll::comm::SplitChoice;
use aldis_coll::comm::{dup, free, split};
use aldis_hal::{Cause, Platform, Resource, Transport};
use aldis_kernel::{Attribute, Comm, Endpoint, Error, Keyval, Tag};

use super::super::Outcome;

cases! {
    "7.7.2", 1: an_attribute_is_set_replaced_and_deleted;
    "7.7.2", 2: attributes_are_of_one_rank_and_communicator;
    "7.7.2", 2: a_duplicate_has_what_the_keys_give_it;
    "7.7.2", 2: what_is_split_off_has_no_attributes;
    "7.7.2", 1: attributes_go_with_their_communicator;
    "7.7.2", 1: attributes_beyond_the_slots_are_refused_and_fit_later;
    "7.7.2", 2: a_duplicate_without_slots_for_its_attributes_is_refused_on_all_ranks;
    "9.1.2", 1: predefined_attributes_are_there_and_cannot_be_changed;
}

thread_local! {
    /// Values that were deleted on this thread: by one rank, since the cases that look have one.
    static DELETED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn note(_: &Comm, value: u64) {
    DELETED.with_borrow_mut(|deleted| deleted.push(value));
}

static COPIED: Keyval = Keyval::new(Keyval::copied, note);
static NOT_COPIED: Keyval = Keyval::new(Keyval::not_copied, note);
static COUNTED: Keyval = Keyval::new(|_, value| Some(value + 1), note);

/// Lends slots for as long as the endpoint lives, whatever that is.
fn lend<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, slots: usize) -> Result<(), Error> {
    DELETED.take();
    ep.lend_attributes(vec![Attribute::NONE; slots].leak())
}

fn an_attribute_is_set_replaced_and_deleted<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    lend(ep, 4)?;
    assert_eq!(ep.comm(&world).attribute(&COPIED)?, None);
    ep.comm_mut(&world).set_attribute(&COPIED, 7)?;
    ep.comm_mut(&world).set_attribute(&NOT_COPIED, 8)?;
    assert_eq!(
        (ep.comm(&world).attribute(&COPIED)?, ep.comm(&world).attribute(&NOT_COPIED)?),
        (Some(7), Some(8))
    );
    assert!(DELETED.take().is_empty());
    ep.comm_mut(&world).set_attribute(&COPIED, 9)?;
    assert_eq!(
        (ep.comm(&world).attribute(&COPIED)?, DELETED.take()),
        (Some(9), vec![7]),
        "the old value is deleted"
    );
    ep.comm_mut(&world).delete_attribute(&COPIED)?;
    assert_eq!((ep.comm(&world).attribute(&COPIED)?, DELETED.take()), (None, vec![9]));
    ep.comm_mut(&world).delete_attribute(&COPIED)?;
    assert_eq!((ep.comm(&world).attribute(&NOT_COPIED)?, DELETED.take()), (Some(8), vec![]));
    Ok(())
}

fn attributes_are_of_one_rank_and_communicator<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    let me = world.rank();
    lend(ep, 4)?;
    ep.comm_mut(&world).set_attribute(&COPIED, 10 + u64::from(me.0))?;
    if me.0 == 1 {
        ep.comm_mut(&itself).set_attribute(&COPIED, 20)?;
    }
    // Whatever the other has set by now.
    let other = aldis_kernel::Rank(1 - me.0);
    ep.sendrecv::<u8, u8>(&world, &[], other, Tag(1), &mut [], other, Tag(1))?;
    assert_eq!(ep.comm(&world).attribute(&COPIED)?, Some(10 + u64::from(me.0)));
    assert_eq!(ep.comm(&itself).attribute(&COPIED)?, (me.0 == 1).then_some(20));
    Ok(())
}

fn a_duplicate_has_what_the_keys_give_it<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    lend(ep, 8)?;
    for (key, value) in [(&COPIED, 1), (&NOT_COPIED, 2), (&COUNTED, 3)] {
        ep.comm_mut(&world).set_attribute(key, value)?;
    }
    let copy = dup(ep, &world)?;
    let again = dup(ep, &copy)?;
    let found = |ep: &Endpoint<'_, T, P>, comm: &Comm| -> Result<[Option<u64>; 3], Error> {
        Ok([
            ep.comm(comm).attribute(&COPIED)?,
            ep.comm(comm).attribute(&NOT_COPIED)?,
            ep.comm(comm).attribute(&COUNTED)?,
        ])
    };
    assert_eq!(found(ep, &world)?, [Some(1), Some(2), Some(3)]);
    assert_eq!(found(ep, &copy)?, [Some(1), None, Some(4)]);
    assert_eq!(found(ep, &again)?, [Some(1), None, Some(5)]);
    ep.comm_mut(&copy).set_attribute(&COPIED, 9)?;
    assert_eq!((found(ep, &world)?[0], found(ep, &again)?[0]), (Some(1), Some(1)), "each has its own");
    free(ep, again)?;
    Ok(free(ep, copy)?)
}

fn what_is_split_off_has_no_attributes<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut scratch) = (ep.world(), [SplitChoice::NONE; 2]);
    lend(ep, 2)?;
    ep.comm_mut(&world).set_attribute(&COPIED, 1)?;
    let part = split(ep, &world, Some(0), 0, &mut scratch)?.ok_or("all have the colour")?;
    assert_eq!(ep.comm(&part).attribute(&COPIED)?, None);
    Ok(free(ep, part)?)
}

fn attributes_go_with_their_communicator<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    lend(ep, 4)?;
    ep.comm_mut(&world).set_attribute(&COPIED, 1)?;
    for round in 0..3 {
        let copy = dup(ep, &world)?;
        ep.comm_mut(&copy).set_attribute(&NOT_COPIED, 10 + round)?;
        free(ep, copy)?;
        let mut deleted = DELETED.take();
        deleted.sort_unstable();
        assert_eq!(deleted, [1, 10 + round], "once each, and the slots are free again");
        assert_eq!(ep.comm(&copy).attribute(&COPIED).expect_err("it is freed").cause, Cause::Stale);
        assert_eq!(
            ep.comm_mut(&copy).set_attribute(&COPIED, 1).expect_err("it is freed").cause,
            Cause::Stale
        );
        assert_eq!(
            ep.comm_mut(&copy).delete_attribute(&COPIED).expect_err("it is freed").cause,
            Cause::Stale
        );
    }
    assert_eq!(ep.comm(&world).attribute(&COPIED)?, Some(1));
    Ok(())
}

fn attributes_beyond_the_slots_are_refused_and_fit_later<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, itself) = (ep.world(), ep.itself());
    let full = Cause::Full(Resource::Attributes);
    assert_eq!(ep.comm_mut(&world).set_attribute(&COPIED, 1).expect_err("no slots are lent").cause, full);
    lend(ep, 2)?;
    assert_eq!(lend(ep, 2).expect_err("they are lent once").cause, Cause::Busy);
    ep.comm_mut(&world).set_attribute(&COPIED, 1)?;
    ep.comm_mut(&itself).set_attribute(&COPIED, 2)?;
    assert_eq!(ep.comm_mut(&world).set_attribute(&COUNTED, 3).expect_err("there are two").cause, full);
    ep.comm_mut(&world).set_attribute(&COPIED, 4)?;
    ep.comm_mut(&itself).delete_attribute(&COPIED)?;
    ep.comm_mut(&world).set_attribute(&COUNTED, 3)?;
    assert_eq!(
        (ep.comm(&world).attribute(&COPIED)?, ep.comm(&world).attribute(&COUNTED)?),
        (Some(4), Some(3))
    );
    Ok(())
}

/// Only rank 1 has too few.
fn a_duplicate_without_slots_for_its_attributes_is_refused_on_all_ranks<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    lend(ep, if world.rank().0 == 1 { 1 } else { 4 })?;
    ep.comm_mut(&world).set_attribute(&COPIED, 1)?;
    let error = dup(ep, &world).expect_err("there is no slot for a copy");
    if world.rank().0 == 1 {
        let what = Resource::Attributes;
        assert_eq!(error.cause, Cause::TooSmall { what, need: 1, have: 0 });
    }
    assert_eq!(ep.comm(&world).attribute(&COPIED)?, Some(1));
    ep.comm_mut(&world).delete_attribute(&COPIED)?;
    let copy = dup(ep, &world)?;
    Ok(free(ep, copy)?)
}

fn predefined_attributes_are_there_and_cannot_be_changed<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    for comm in [ep.world(), ep.itself()] {
        assert_eq!(ep.comm(&comm).attribute(&Keyval::TAG_UPPER_BOUND)?, Some(Tag::MAX.0.into()));
        assert_eq!(ep.comm(&comm).attribute(&Keyval::UNIVERSE_SIZE)?, Some(ep.world().size().into()));
        assert_eq!(ep.comm(&comm).attribute(&Keyval::CLOCK_IS_GLOBAL)?, Some(0));
        static KEY: Keyval = Keyval::TAG_UPPER_BOUND;
        assert_eq!(ep.comm_mut(&comm).set_attribute(&KEY, 1).expect_err("it is").cause, Cause::Predefined);
        assert_eq!(ep.comm_mut(&comm).delete_attribute(&KEY).expect_err("it is").cause, Cause::Predefined);
    }
    Ok(())
}
