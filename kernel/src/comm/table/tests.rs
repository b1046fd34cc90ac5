use std::vec;
use std::vec::Vec;

use super::*;

const SIZE: u32 = 100;

fn world_of(rows: &mut [Row], me: u32) -> Comms<'_> {
    Comms::new(rows, &mut [], PeerId(me), SIZE).unwrap()
}

fn these(ranks: impl Iterator<Item = u32> + Clone) -> Members<impl Iterator<Item = PeerId> + Clone> {
    Members::These(ranks.map(PeerId))
}

fn list(comms: &Comms<'_>, comm: &Comm) -> Vec<u32> {
    comms.group(comm).unwrap().processes().map(|process| process.0).collect()
}

#[test]
fn ranks_are_resolved_and_checked() {
    let mut rows = [const { Row::EMPTY }; 2];
    let mut comms = world_of(&mut rows, 3);
    let (world, itself) = (comms.predefined(0).unwrap(), comms.predefined(1).unwrap());
    assert_eq!(comms.peer(&world, Rank(2)), Ok(PeerId(2)));
    assert_eq!(comms.peer(&world, Rank(SIZE)), Err(Cause::RankOutOfRange { rank: SIZE, size: SIZE }));
    assert_eq!(comms.peer(&itself, Rank(0)), Ok(PeerId(3)));
    assert_eq!(comms.peer(&itself, Rank(1)), Err(Cause::RankOutOfRange { rank: 1, size: 1 }));
    assert!(comms.admits(world.collective().context, 1, PeerId(1)));
    assert!(!comms.admits(world.context, 1, PeerId(2)), "a peer cannot speak for another");
    let freed = Comm { context: context(0, 2), ..world };
    assert_eq!(comms.peer(&freed, Rank(0)), Err(Cause::Stale));
    assert!(!comms.admits(freed.context, 1, PeerId(1)), "nobody is in a context that is not there");
    assert_eq!((comms.next_collective(&world), comms.next_collective(&world.collective())), (Ok(0), Ok(1)));
}

#[test]
fn a_table_without_room_for_world_and_self_is_refused() {
    let mut rows = [const { Row::EMPTY }; 1];
    assert_eq!(
        Comms::new(&mut rows, &mut [], PeerId(0), 1).err(),
        Some(Cause::TooSmall { what: Resource::Communicators, need: 2, have: 1 })
    );
}

/// Groups in pieces come and go in any order; each stays what it is while others' pieces move.
#[test]
fn pieces_are_packed_again_when_a_communicator_goes() {
    let (mut rows, mut pieces) = ([const { Row::EMPTY }; 8], [Piece::NONE; 12]);
    let mut comms = Comms::new(&mut rows, &mut pieces, PeerId(0), SIZE).unwrap();
    let world = comms.predefined(0).unwrap();
    let groups: Vec<Vec<u32>> = vec![
        vec![0, 5, 2, 9, 50],
        (0..96).filter(|rank| rank % 3 != 1 && rank % 5 != 1 && rank % 7 != 1).collect(),
        (0..20).chain(40..60).collect(),
        (0..SIZE).step_by(9).collect(),
    ];
    let made: Vec<Comm> = (2..)
        .zip(&groups)
        .map(|(slot, ranks)| comms.install(slot, 1, &these(ranks.iter().copied())).unwrap())
        .collect();
    let check = |comms: &Comms<'_>, left: &[usize]| {
        for &index in left {
            assert_eq!(list(comms, &made[index]), groups[index]);
            for (rank, &process) in groups[index].iter().enumerate() {
                assert_eq!(comms.peer(&made[index], Rank(rank as u32)), Ok(PeerId(process)));
            }
        }
    };
    check(&comms, &[0, 1, 2, 3]);
    let used = comms.pieces_used;
    comms.remove(&made[0]).unwrap();
    check(&comms, &[1, 2, 3]);
    assert_eq!(comms.check(&made[0]), Err(Cause::Stale));
    comms.remove(&made[2]).unwrap();
    check(&comms, &[1, 3]);
    comms.remove(&made[1]).unwrap();
    comms.remove(&made[3]).unwrap();
    assert_eq!((comms.pieces_used, comms.remove(&made[3])), (0, Err(Cause::Stale)));
    assert_eq!(comms.remove(&world), Err(Cause::Predefined));
    let too_many = (0..SIZE).rev().map(|rank| rank * rank);
    let refused = comms.check_pieces(&these(too_many));
    assert!(matches!(refused, Err(Cause::TooSmall { have: 12, .. })) && used > 0, "{refused:?}");
}

#[test]
fn a_slot_remembers_its_generation() {
    let mut rows = [const { Row::EMPTY }; 3];
    let mut comms = world_of(&mut rows, 0);
    let world = comms.predefined(0).unwrap();
    assert!(comms.is_free(2) && comms.generation(2) == 0);
    let one = comms.install(2, 7, &Members::<core::iter::Empty<PeerId>>::Of(world)).unwrap();
    assert_eq!(comms.install(2, 8, &Members::<core::iter::Empty<PeerId>>::Of(world)), Err(Cause::Busy));
    comms.remove(&one).unwrap();
    assert!(comms.is_free(2) && comms.generation(2) == 7);
    let other = comms.install(2, 8, &Members::<core::iter::Empty<PeerId>>::Of(world)).unwrap();
    assert_eq!((comms.check(&one), comms.check(&other)), (Err(Cause::Stale), Ok(())));
}
