//! Control slots of ranks of one process: what a rank reads is lent to it where another writes, so
//! nothing may be written there that it still reads.

use aldis_hal::shared_control::Note;
use aldis_hal::{Cause, PeerId};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Members};
use aldis_trials::{Mate, Pair, Ranks};

const NOTE: Note = Note { operation: 1, root: 0, bytes: 5 };

/// Begins the next collective, publishes and finishes it. False if that has to wait.
fn publish(end: &mut Mate<'_>, comm: &Comm, payload: &[u8; 5]) -> bool {
    let mut slots = end.control_slots(comm).unwrap();
    let number = slots.begin();
    let is_there = slots.admits(number) && slots.publish(number, NOTE, payload).is_ok();
    slots.finish(number);
    is_there
}

/// A handle of another rank has another place in the communicator: that is no word of how far the
/// rank is whose place it takes.
#[test]
fn a_handle_of_another_rank_frees_no_control_slot_that_it_reads() {
    let mut pair = Pair::with_sets(1);
    let [mut one, mut two] = pair.endpoints();
    let (own, other) = (one.world(), two.world());
    assert!(publish(&mut one, &own, b"first"));
    let mut slots = two.control_slots(&other).unwrap();
    let number = slots.begin();
    let notice = slots.look(number, 0).unwrap().unwrap();
    let published = (0..20).filter(|_| publish(&mut one, &other, b"later")).count();
    assert_eq!((notice.payload, published), (&b"first"[..], 7));
}

/// Endpoints that were told other sizes of the job have no collectives with each other, and read
/// nothing that the others do not know of.
#[test]
fn worlds_of_other_sizes_do_not_meet() {
    let mut ranks = Ranks::<3>::with_sets(1);
    let [mut one, mut two, mut three] = ranks.endpoints_of([2, 2, 3]);
    let worlds = [one.world(), two.world(), three.world()];
    assert!(publish(&mut one, &worlds[0], b"first"));
    let mut slots = three.control_slots(&worlds[2]).unwrap();
    let number = slots.begin();
    let notice = slots.look(number, 0).unwrap();
    for _ in 0..20 {
        publish(&mut two, &worlds[1], b"other");
        publish(&mut one, &worlds[0], b"later");
    }
    assert!(notice.is_none_or(|notice| notice.payload == b"first"));
}

/// A communicator of these processes, in slot 2.
fn install(end: &mut Mate<'_>, generation: u32, processes: &[u32]) -> Comm {
    let members = Members::These(processes.iter().copied().map(PeerId));
    end.install(2, generation, &members).unwrap()
}

/// A rank that counts itself in a communicator of others, which do not, has no control slots in it:
/// those write again what it would be reading, since they do not ask it.
#[test]
fn a_communicator_of_unlike_groups_is_not_read() {
    for order in [[0, 1, 2], [2, 0, 1], [0, 2, 1]] {
        let mut ranks = Ranks::<3>::with_sets(2);
        let mut ends = ranks.endpoints();
        let mut comms = [None; 3];
        for rank in order {
            let processes: &[u32] = if rank == 2 { &[0, 1, 2] } else { &[0, 1] };
            comms[rank] = Some(install(&mut ends[rank], 1, processes));
        }
        let served = [0, 1, 2].map(|rank| ends[rank].control_slots(&comms[rank].unwrap()).is_ok());
        assert!(!served[2] || served == [false, false, true], "{served:?} after {order:?}");
    }
}

/// A rank that takes a communicator in when others have gone on without it has no control slots in
/// it, as little as one that has come back to a name by which another still knows it.
#[test]
fn a_rank_that_comes_late_reads_nothing() {
    let mut ranks = Ranks::<3>::with_sets(2);
    let [mut one, mut two, mut three] = ranks.endpoints();
    // Not new: two was in another one before.
    let before = install(&mut two, 1, &[1]);
    two.discard(&before).unwrap();
    let own = install(&mut one, 2, &[0, 1]);
    assert!((0..20).any(|_| publish(&mut one, &own, b"first")));
    let late = install(&mut two, 2, &[0, 1]);
    assert_eq!(two.control_slots(&late).map(drop), Err(Cause::Unreachable));
    // Round about the generations to the same name, for a group without the first.
    two.discard(&late).unwrap();
    let again = [&mut two, &mut three].map(|end| install(end, 2, &[1, 2]));
    assert_eq!(two.control_slots(&again[0]).map(drop), Err(Cause::Unreachable));
    assert_eq!(three.control_slots(&again[1]).map(drop), Err(Cause::Unreachable));
}

/// A rank that has freed a communicator does not use its slot for another while one may be reading
/// its control slots there; then it does.
#[test]
fn a_slot_is_not_used_again_while_its_control_slots_are_read() {
    let mut pair = Pair::with_sets(3);
    let [mut one, mut two] = pair.endpoints();
    let make = |end: &mut Mate<'_>, generation| {
        let world = end.world();
        end.install(2, generation, &Members::<core::iter::Empty<_>>::Of(world))
    };
    let free = |end: &mut Mate<'_>| end.context_offer(0).free[0];
    let all = free(&mut one);
    let (own, other) = (make(&mut one, 1).unwrap(), make(&mut two, 1).unwrap());
    assert!(publish(&mut one, &own, b"first"));
    let mut slots = two.control_slots(&other).unwrap();
    let number = slots.begin();
    let notice = slots.look(number, 0).unwrap().unwrap();
    one.discard(&own).unwrap();
    assert_eq!(one.control_slots(&own).map(drop), Err(Cause::Stale));
    assert_eq!(make(&mut one, 2).unwrap_err(), Cause::Busy);
    assert_eq!(free(&mut one), all & !(1 << 2));
    assert_eq!(notice.payload, b"first");
    // Once it has left too, nothing is read.
    two.discard(&other).unwrap();
    assert_eq!((free(&mut one), free(&mut two)), (all, all));
    let (own, other) = (make(&mut one, 2).unwrap(), make(&mut two, 2).unwrap());
    assert!(publish(&mut one, &own, b"again"));
    let mut slots = two.control_slots(&other).unwrap();
    let number = slots.begin();
    assert_eq!(slots.look(number, 0).unwrap().unwrap().payload, b"again");
}

/// A transport whose control slots are in use is not given away: what is read of them is known to
/// its endpoint.
#[test]
fn a_transport_with_control_slots_in_use_is_not_given_away() {
    let mut pair = Pair::with_sets(3);
    let [mut one, mut two] = pair.endpoints();
    core::mem::swap(one.try_transport_mut().unwrap(), two.try_transport_mut().unwrap());
    // Neither reaches itself as another.
    let world = one.world();
    assert_eq!(one.control_slots(&world).map(drop), Err(Cause::Unreachable));
    core::mem::swap(one.try_transport_mut().unwrap(), two.try_transport_mut().unwrap());
    let mut pair = Pair::with_sets(1);
    let [mut one, _two] = pair.endpoints();
    assert!(publish(&mut one, &world, b"first"));
    assert_eq!(one.try_transport_mut().map(drop).unwrap_err().cause, Cause::Busy);
}
