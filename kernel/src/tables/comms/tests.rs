use std::format;
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
    let (world, itself) = (comms.rows[0].comm(), comms.rows[1].comm());
    assert_eq!(comms.peer(&world, Rank(2)), Ok(PeerId(2)));
    assert_eq!(comms.peer(&world, Rank(SIZE)), Err(Cause::RankOutOfRange { rank: SIZE, size: SIZE }));
    assert_eq!(comms.peer(&itself, Rank(0)), Ok(PeerId(3)));
    assert_eq!(comms.peer(&itself, Rank(1)), Err(Cause::RankOutOfRange { rank: 1, size: 1 }));
    assert!(comms.admits(world.collective().context, 1, PeerId(1)));
    assert!(!comms.admits(world.context, 1, PeerId(2)), "a peer cannot speak for another");
    let freed = Comm { context: context(0, 2), ..world };
    assert_eq!(comms.peer(&freed, Rank(0)), Err(Cause::Stale));
    assert!(!comms.admits(freed.context, 1, PeerId(1)), "no peer is in a context that is not there");
    assert_eq!(
        (comms.next_collective(&world, false), comms.next_collective(&world.collective(), false)),
        (Ok(0), Ok(1))
    );
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
    let (mut rows, mut pieces) = ([const { Row::EMPTY }; 8], [GroupPiece::NONE; 12]);
    let mut comms = Comms::new(&mut rows, &mut pieces, PeerId(0), SIZE).unwrap();
    let world = comms.rows[0].comm();
    let groups: Vec<Vec<u32>> = vec![
        vec![0, 5, 2, 9, 50],
        (0..96).filter(|rank| rank % 3 != 1 && rank % 5 != 1 && rank % 7 != 1).collect(),
        (0..20).chain(40..60).collect(),
        (0..SIZE).step_by(9).collect(),
    ];
    let made: Vec<Comm> = (2..)
        .zip(&groups)
        .map(|(slot, ranks)| comms.install(slot, 1, &these(ranks.iter().copied()), None).unwrap())
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
    let world = comms.rows[0].comm();
    assert!(comms.is_free(2) && comms.generation(2) == 0);
    let one = comms.install(2, 7, &Members::<core::iter::Empty<PeerId>>::Of(world), None).unwrap();
    assert_eq!(comms.install(2, 8, &Members::<core::iter::Empty<PeerId>>::Of(world), None), Err(Cause::Busy));
    comms.remove(&one).unwrap();
    assert!(comms.is_free(2) && comms.generation(2) == 7);
    let other = comms.install(2, 8, &Members::<core::iter::Empty<PeerId>>::Of(world), None).unwrap();
    assert_eq!((comms.check(&one), comms.check(&other)), (Err(Cause::Stale), Ok(())));
}

#[test]
fn an_intercommunicator_addresses_the_remote_group() {
    let (mut rows, mut pieces) = ([const { Row::EMPTY }; 5], [GroupPiece::NONE; 3]);
    let mut comms = Comms::new(&mut rows, &mut pieces, PeerId(4), SIZE).unwrap();
    let world = comms.rows[0].comm();
    let companion = comms.install(2, 1, &these([3, 4].into_iter()), None).unwrap();
    let remote = [9, 7, 8];
    let inter = comms.install(3, 1, &these(remote.into_iter()), Some(&companion)).unwrap();
    assert_eq!((inter.rank(), inter.size(), inter.remote_size()), (Rank(1), 2, 3));
    assert!(inter.is_inter() && !companion.is_inter() && !world.is_inter());
    for (rank, process) in (0..).zip(remote) {
        assert_eq!(comms.peer(&inter, Rank(rank)), Ok(PeerId(process)));
        assert!(comms.admits(inter.context, rank, PeerId(process)));
    }
    assert_eq!(comms.peer(&inter, Rank(3)), Err(Cause::RankOutOfRange { rank: 3, size: 3 }));
    assert!(!comms.admits(inter.context, 1, PeerId(4)), "ranks of the local group send nothing here");
    assert_eq!(list(&comms, &inter), [3, 4]);
    assert!(comms.remote_group(&inter).unwrap().processes().eq(remote.map(PeerId)));
    assert_eq!(comms.companion(&inter), Ok(companion));
    assert_eq!(comms.companion(&world), Err(Cause::Intracommunicator));
    assert_eq!(comms.remote_group(&world).err(), Some(Cause::Intracommunicator));
    assert_eq!(
        (comms.next_collective(&inter, false), comms.next_collective(&world, true)),
        (Err(Cause::Intercommunicator), Err(Cause::Intracommunicator))
    );
    assert_eq!((comms.next_collective(&inter, true), comms.next_collective(&inter, true)), (Ok(0), Ok(1)));
    let both = Members::<core::iter::Empty<PeerId>>::Both { inter, remote_first: false };
    // The remote group has taken two of the three pieces.
    let full = Cause::TooSmall { what: Resource::GroupPieces, need: 3, have: 1 };
    assert_eq!((comms.check_pieces(&both), comms.install(4, 1, &both, None)), (Err(full), Err(full)));
    comms.remove(&inter).unwrap();
    let inter = comms.install(3, 2, &these([7, 8].into_iter()), Some(&companion)).unwrap();
    let both = |remote_first| Members::<core::iter::Empty<PeerId>>::Both { inter, remote_first };
    for (remote_first, due) in [(false, [3, 4, 7, 8]), (true, [7, 8, 3, 4])] {
        let merged = comms.install(4, 1, &both(remote_first), None).unwrap();
        assert_eq!((list(&comms, &merged), merged.is_inter()), (due.to_vec(), false));
        comms.remove(&merged).unwrap();
    }
    comms.remove(&companion).unwrap();
    let orphan = comms.install(4, 3, &these([1].into_iter()), Some(&companion));
    assert_eq!((orphan, comms.companion(&inter)), (Err(Cause::Stale), Err(Cause::Stale)));
}

/// A number that is given is right for every process, and it is given for every stride from the
/// first of a node on in steps of which a node is a multiple.
#[test]
fn ranks_of_a_node_are_counted_where_nodes_are_alike() {
    for (every, first, stride, size) in (1..9).flat_map(|every| {
        (0..9).flat_map(move |first| {
            (1..9).flat_map(move |stride| (1..20).map(move |size| (every, first, stride, size)))
        })
    }) {
        let group = Group::new(size, GroupForm::Strided { first, stride });
        let nodes: Vec<u32> = group.processes().map(|process| process.0 / every).collect();
        let runs: Vec<u32> = nodes.chunk_by(|one, next| one == next).map(|run| run.len() as u32).collect();
        let told = group.ranks_per_node(every);
        let case = format!("{every} a node: {first} + {stride} i, {size} ranks: {told}");
        if told > 0 {
            let (last, others) = runs.split_last().unwrap();
            assert!(others.iter().all(|ranks| *ranks == told) && *last <= told, "{case}");
        }
        // From the first of a node on, with steps that nodes are multiples of.
        if first % every == 0 && every % stride == 0 {
            assert_eq!(told, every / stride, "{case}");
        }
        assert_eq!(group.ranks_per_node(0), 0);
    }
}
