//! Communicators over the real kernel and shared-memory rings, a thread a rank: MPI 4.1
//! section 7.4.
#![allow(missing_docs)]

use core::iter::Empty;
use core::time::Duration;

use aldis_coll::comm::{Dimension, Grid, SplitChoice, create, create_group, dup, free, split, split_type};
use aldis_coll::op::Sum;
use aldis_coll::{allreduce, barrier, bcast};
use aldis_kernel::hal::{Cause, Operation, PeerId, Resource};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{
    Comm, Comparison, GENERATION_MAX, Group, GroupPiece, Members, Rank, RankRange, Source, Tag, TagMatch,
};
use aldis_sim::workloads::Workload;
use aldis_sim::{Outcome, Profile, SimConfig, SimEndpoint, Wire, simulate};
use aldis_tests::thread_jobs::{self, Endpoint, run};

/// Every rank's process number summed up: the same on all, and only right if all ranks of it and no
/// others are there.
fn roll_call(endpoint: &mut Endpoint<'_, '_>, comm: &Comm, expected: &[u32]) {
    let mut sum = [u64::from(endpoint.process().0)];
    allreduce(Sum, &mut sum, &mut [0]).run(endpoint, comm).unwrap();
    assert_eq!(sum[0], expected.iter().map(|&process| u64::from(process)).sum::<u64>());
    let found: Vec<u32> = endpoint.comm(comm).group().unwrap().processes().map(|process| process.0).collect();
    assert_eq!(found, expected);
    assert_eq!(found[comm.rank().0 as usize], endpoint.process().0);
}

#[test]
fn a_duplicate_has_the_same_ranks_and_messages_of_its_own() {
    run(5, |endpoint| {
        let world = endpoint.world();
        let all: Vec<u32> = (0..5).collect();
        let copy = dup(endpoint, &world).unwrap();
        assert_eq!(endpoint.comm(&world).compare(&copy).unwrap(), Comparison::Congruent);
        assert_eq!(endpoint.comm(&copy).compare(&copy).unwrap(), Comparison::Identical);
        roll_call(endpoint, &copy, &all);
        // A wildcard in one does not see what was sent in the other.
        let (me, next) = (world.rank().0, Rank((world.rank().0 + 1) % 5));
        endpoint.send(&world, &[me], next, Tag(3)).unwrap();
        endpoint.send(&copy, &[me + 100], next, Tag(3)).unwrap();
        let mut got = [0];
        endpoint.recv(&copy, &mut got, Source::Any, TagMatch::Any).unwrap();
        assert_eq!(got, [(me + 4) % 5 + 100]);
        endpoint.recv(&world, &mut got, Source::Any, TagMatch::Any).unwrap();
        assert_eq!(got, [(me + 4) % 5]);
        assert_eq!((endpoint.comm(&world).name(), endpoint.comm(&copy).name()), (Ok("world"), Ok("")));
        endpoint.comm_mut(&copy).set_name("copy").unwrap();
        assert_eq!(endpoint.comm(&copy).name(), Ok("copy"));
        free(endpoint, copy).unwrap();
        let stale = endpoint.send(&copy, &[0_u8], next, Tag(0)).unwrap_err();
        assert_eq!((stale.cause, free(endpoint, copy).unwrap_err().cause), (Cause::Stale, Cause::Stale));
        assert_eq!(dup(endpoint, &copy).unwrap_err().cause, Cause::Stale);
        assert_eq!(free(endpoint, world).unwrap_err().cause, Cause::Predefined);
    });
}

#[test]
fn a_split_goes_by_colour_and_key() {
    for size in 1..=9_u32 {
        run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.process().0);
            let mut scratch = [SplitChoice::NONE; 9];
            // Three colours, keys that fall, and one rank of four in none.
            let colour = |rank: u32| (rank % 4 != 3).then_some(rank % 3);
            let part = split(endpoint, &world, colour(me), -(me as i32) / 2, &mut scratch).unwrap();
            let mut expected: Vec<u32> = (0..size).filter(|&rank| colour(rank) == colour(me)).collect();
            expected.sort_by_key(|&rank| -(rank as i32) / 2);
            match (part, colour(me)) {
                (Some(part), Some(_)) => {
                    roll_call(endpoint, &part, &expected);
                    free(endpoint, part).unwrap();
                }
                (None, None) => {}
                wrong => panic!("{wrong:?}"),
            }
            // Boards of two: neighbours share memory.
            let board = split_type(endpoint, &world, 0, |other| other.0 / 2 == me / 2, &mut scratch);
            let board = board.unwrap().unwrap();
            roll_call(endpoint, &board, &(me / 2 * 2..size.min(me / 2 * 2 + 2)).collect::<Vec<_>>());
            free(endpoint, board).unwrap();
        });
    }
}

/// Three agreements: that all can and on a context, which rank goes where, and that all have it.
/// Where what is free is not the same on all of them, a generation is agreed upon besides.
#[test]
fn a_split_takes_three_agreements() {
    for (ranks, rounds) in [(2, 1), (4, 2), (5, 3)] {
        run(ranks, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.process().0);
            let mut scratch = [SplitChoice::NONE; 5];
            let mut split_costs = |endpoint: &mut Endpoint<'_, '_>, agreements: u64| {
                let before = endpoint.counters().messages_sent;
                let own =
                    split(endpoint, &world, Some(world.rank().0 % 2), 0, &mut scratch).unwrap().unwrap();
                assert_eq!(endpoint.counters().messages_sent - before, agreements * rounds);
                own
            };
            for _ in 0..3 {
                let half = split_costs(endpoint, 3);
                free(endpoint, half).unwrap();
            }
            // One of them has a communicator of its own where the others have a free slot.
            let itself = endpoint.itself();
            let alone = (world.rank() == Rank(0)).then(|| dup(endpoint, &itself).unwrap());
            let half = split_costs(endpoint, 4);
            roll_call(endpoint, &half, &(me % 2..ranks).step_by(2).collect::<Vec<_>>());
            free(endpoint, half).unwrap();
            if let Some(alone) = alone {
                free(endpoint, alone).unwrap();
            }
        });
    }
}

#[test]
fn communicators_are_made_of_groups() {
    run(7, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let (mut some, mut others) = ([GroupPiece::NONE; 8], [GroupPiece::NONE; 8]);
        let odd = RankRange { first: Rank(5), last: Rank(1), stride: -2 };
        let group = endpoint.comm(&world).group().unwrap();
        let (odd, even) =
            (group.range_incl(&[odd], &mut some).unwrap(), group.range_excl(&[odd], &mut others).unwrap());
        // All take part; odd ranks, in falling order, and even ones are in communicators of their
        // own.
        let mine = if me % 2 == 1 { odd } else { even };
        let made = create(endpoint, &world, &mine).unwrap().unwrap();
        let expected: &[u32] = if me % 2 == 1 { &[5, 3, 1] } else { &[0, 2, 4, 6] };
        roll_call(endpoint, &made, expected);
        assert!(create(endpoint, &world, &Group::EMPTY).unwrap().is_none());
        // Only the ranks that are in it take part, at the same time as others do.
        let again = create_group(endpoint, &world, &mine, Tag(me % 2)).unwrap();
        assert_eq!(endpoint.comm(&made).compare(&again).unwrap(), Comparison::Congruent);
        roll_call(endpoint, &again, expected);
        free(endpoint, made).unwrap();
        roll_call(endpoint, &again, expected);
        // A group of no single stride, made within the one before.
        if me % 2 == 0 {
            let mut memory = [GroupPiece::NONE; 4];
            let uneven = Group::of(&[4, 0, 2].map(PeerId), &mut memory).unwrap();
            let made = create(endpoint, &again, &uneven).unwrap();
            assert_eq!(made.is_some(), me != 6);
            if let Some(made) = made {
                roll_call(endpoint, &made, &[4, 0, 2]);
                let copy = dup(endpoint, &made).unwrap();
                free(endpoint, made).unwrap();
                roll_call(endpoint, &copy, &[4, 0, 2]);
                free(endpoint, copy).unwrap();
            }
        }
        free(endpoint, again).unwrap();
    });
}

#[test]
fn what_one_rank_cannot_do_fails_on_all_and_changes_nothing() {
    run(4, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        // Too little scratch on one rank.
        let mut scratch = [SplitChoice::NONE; 4];
        let entries = if me == 2 { 3 } else { 4 };
        let error = split(endpoint, &world, Some(0), 0, &mut scratch[..entries]).unwrap_err();
        let what = Resource::Scratch;
        let (cause, peer) = match me {
            2 => (Cause::TooSmall { what, need: 4, have: 3 }, None),
            _ => (Cause::Full(what), Some(Rank(2))),
        };
        assert_eq!((error.cause, error.peer(), error.operation), (cause, peer, Operation::Split));
        // A group with a process that is not there, on one rank.
        let mut memory = [GroupPiece::NONE; 4];
        let group = Group::of(&[PeerId(0), PeerId(if me == 1 { 17 } else { 1 })], &mut memory).unwrap();
        let error = create(endpoint, &world, &group).unwrap_err();
        let cause = if me == 1 { Cause::RankOutOfRange { rank: 17, size: 4 } } else { Cause::Declined };
        assert_eq!(error.cause, cause, "{error}");
        // More duplicates than the table has rows, again and again.
        for _ in 0..3 {
            let mut made = Vec::new();
            let full = loop {
                match dup(endpoint, &world) {
                    Ok(comm) => made.push(comm),
                    Err(error) => break error,
                }
            };
            assert_eq!(full.cause, Cause::Full(Resource::Communicators));
            assert_eq!(made.len(), thread_jobs::COMMUNICATORS - 2);
            for comm in made.into_iter().rev() {
                roll_call(endpoint, &comm, &[0, 1, 2, 3]);
                free(endpoint, comm).unwrap();
            }
        }
        // More pieces than there are.
        let mut memory = [GroupPiece::NONE; 4];
        let mixed = Group::of(&[1, 0, 3, 2].map(PeerId), &mut memory).unwrap();
        let mut made = Vec::new();
        let full = loop {
            match create(endpoint, &world, &mixed) {
                Ok(comm) => made.push(comm.unwrap()),
                Err(error) => break error.cause,
            }
        };
        assert_eq!(made.len(), thread_jobs::PIECES / mixed.pieces());
        let (need, have) = (mixed.pieces() as u32, (thread_jobs::PIECES % mixed.pieces()) as u32);
        assert_eq!(full, Cause::TooSmall { what: Resource::GroupPieces, need, have });
        for comm in made {
            free(endpoint, comm).unwrap();
        }
        barrier().run(endpoint, &world).unwrap();
    });
}

/// Each rank frees on its own, when nothing there needs the communicator and no other rank reads
/// what it has written.
#[test]
fn a_communicator_is_released_when_nothing_needs_it() {
    run(2, |endpoint| {
        let (world, me, other) = (endpoint.world(), endpoint.process().0, Rank(1 - endpoint.process().0));
        let release = |endpoint: &mut Endpoint<'_, '_>, comm: &Comm| {
            while !endpoint.release(comm).unwrap() {
                endpoint.poll(16);
            }
        };
        for turn in 0..100 {
            let copy = dup(endpoint, &world).unwrap();
            endpoint.send(&copy, &[turn], other, Tag(1)).unwrap();
            let matched = endpoint.mprobe(&copy, other, Tag(1)).unwrap();
            assert_eq!(endpoint.release(&copy), Ok(false), "a matched message is not received yet");
            let (mut got, mut word) = ([0_u32], [turn + me]);
            endpoint.mrecv(matched, &mut got).unwrap();
            let has_slots = endpoint.control_slots(&copy).is_ok();
            if me == 1 {
                // The root is done before.
                endpoint.recv(&world, &mut got, other, Tag(2)).unwrap();
            }
            bcast(&mut word, Rank(0)).run(endpoint, &copy).unwrap();
            if me == 0 {
                assert_eq!(
                    endpoint.release(&copy),
                    Ok(!has_slots),
                    "the other rank has not read the lines yet"
                );
                endpoint.send(&world, &[turn], other, Tag(2)).unwrap();
            } else {
                // The other rank finds these control slots to be another communicator's.
                release(endpoint, &copy);
                let alone = dup(endpoint, &endpoint.itself()).unwrap();
                release(endpoint, &alone);
            }
            assert_eq!((got, word), ([turn], [turn]));
            barrier().run(endpoint, &world).unwrap();
            if me == 0 && has_slots {
                release(endpoint, &copy);
            }
            assert_eq!(endpoint.release(&copy).unwrap_err().cause, Cause::Stale);
        }
        assert_eq!(endpoint.release(&world).unwrap_err().cause, Cause::Predefined);
    });
}

/// Past the last generation of a slot, which one rank has used more often than the others: contexts
/// begin again, with nothing of the old ones under way.
#[test]
fn generations_begin_again() {
    run(3, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process());
        if me == PeerId(1) {
            let alone = Members::These([me].into_iter());
            let used = endpoint.install(2, GENERATION_MAX - 3, &alone).unwrap();
            endpoint.discard(&used).unwrap();
        }
        let next = Rank((me.0 + 1) % 3);
        for due in [GENERATION_MAX - 2, GENERATION_MAX - 1, GENERATION_MAX, 1, 2, 3] {
            let comm = dup(endpoint, &world).unwrap();
            assert_eq!(comm.context(), due << 16 | 2);
            // Sent and never received: stale when it arrives, or dropped with the communicator.
            endpoint.send(&comm, &[due], next, Tag(1)).unwrap();
            free(endpoint, comm).unwrap();
        }
        // A message to each ends what is still on its way.
        let mut got = [0_u32];
        endpoint.sendrecv(&world, &[me.0], next, Tag(2), &mut got, Rank((me.0 + 2) % 3), Tag(2)).unwrap();
        assert_eq!((endpoint.counters().stale_contexts, endpoint.diagnostics().queue_depths()), (6, (0, 0)));
    });
}

/// A few hundred thousand communicators in a table of ten rows, past every generation of a slot
/// several times; then past the last generation on two ranks, where each is used and has a message
/// in it that is not received.
#[test]
fn contexts_are_used_again_however_many_communicators_there_have_been() {
    run(1, |endpoint| {
        let itself = endpoint.itself();
        let mut contexts = (0, 0);
        for turn in 1..=300_000_u32 {
            let copy = dup(endpoint, &itself).unwrap();
            contexts = (turn % GENERATION_MAX, copy.context() >> 16 & GENERATION_MAX);
            free(endpoint, copy).unwrap();
        }
        assert_eq!(contexts.0, contexts.1);
    });
    run(2, |endpoint| {
        let (world, other) = (endpoint.world(), Rank(1 - endpoint.process().0));
        let used = endpoint.install(2, GENERATION_MAX - 1000, &Members::<Empty<PeerId>>::Of(world)).unwrap();
        endpoint.discard(&used).unwrap();
        let turns = 2000_u32;
        for turn in 0..turns {
            let copy = dup(endpoint, &world).unwrap();
            assert_eq!(copy.context() & 0xFFFF, 2, "the same slot again");
            let mut got = [0];
            endpoint.send(&copy, &[turn], other, Tag(1)).unwrap();
            endpoint.recv(&copy, &mut got, other, Tag(1)).unwrap();
            assert_eq!(got, [turn]);
            endpoint.send(&copy, &[u32::MAX], other, Tag(1)).unwrap();
            free(endpoint, copy).unwrap();
        }
        barrier().run(endpoint, &world).unwrap();
        assert_eq!(
            (endpoint.counters().stale_contexts, endpoint.diagnostics().queue_depths()),
            (turns.into(), (0, 0))
        );
    });
}

#[test]
fn a_rank_that_stays_away_is_named_by_the_deadline() {
    run(3, |endpoint| {
        let world = endpoint.world();
        if world.rank() != Rank(1) {
            let limit = Duration::from_millis(20);
            let error = dup(&mut endpoint.within(limit), &world).unwrap_err();
            assert_eq!((error.cause, error.operation), (Cause::TimedOut, Operation::Dup), "{error}");
        }
    });
}

/// Made, used and freed at random on both wires of the simulator, with faults, against a model of
/// every rank's table.
#[test]
fn random_communicators_are_what_the_model_says() {
    let workload = Workload::named("communicators").unwrap();
    for seed in 0..300 {
        let mut config = SimConfig::new(seed, 1 + (seed % 9) as u32);
        config.wire = if seed % 2 == 0 { Wire::Messages } else { Wire::Frames };
        config.faults = if seed % 10 == 9 { Profile::Crash } else { Profile::Swarm };
        let report = simulate(&config, move |endpoint| (workload.run)(endpoint, seed)).unwrap();
        assert_eq!(report.failure, None, "{report}\n{}", report.replay(workload.name));
    }
}

/// A torus in one direction, a strip in the other, with ranks to spare: MPI 4.1 section 8.5.
#[test]
fn a_grid_knows_neighbours_and_slices() {
    run(8, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let along = |extent, is_periodic| Dimension { extent, is_periodic };
        let dimensions = [along(2, false), along(3, true)];
        let Some(grid) = Grid::create(endpoint, &world, &dimensions).unwrap() else {
            assert!(me >= 6);
            let error = Grid::create(endpoint, &world, &[along(3, true); 2]).unwrap_err();
            assert_eq!(error.cause, Cause::LengthMismatch { left: 9, right: 8 });
            return;
        };
        let (row, column) = (me / 3, me % 3);
        let mut own = [9; 2];
        grid.coordinates(Rank(me), &mut own).unwrap();
        assert_eq!((own, grid.comm().size()), ([row, column], 6));
        assert_eq!(grid.rank(&[row as i32, column as i32 - 3]), Ok(Rank(me)));
        assert_eq!(grid.rank(&[2, 0]), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
        assert_eq!(grid.rank(&[0]), Err(Cause::LengthMismatch { left: 1, right: 2 }));
        assert_eq!(grid.coordinates(Rank(6), &mut own), Err(Cause::RankOutOfRange { rank: 6, size: 6 }));
        // Down the strip, where there is no rank beyond the ends, and round the torus, twice and
        // back.
        let down = if row == 0 { (Rank::NULL, Rank(me + 3)) } else { (Rank(me - 3), Rank::NULL) };
        assert_eq!(grid.shift(0, 1), Ok(down));
        let at = |column: u32| Rank(row * 3 + column % 3);
        assert_eq!(grid.shift(1, 2), Ok((at(column + 1), at(column + 2))));
        assert_eq!(grid.shift(1, -1), Ok((at(column + 1), at(column + 2))));
        assert_eq!(grid.shift(2, 1), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
        let (from, to) = grid.shift(0, 1).unwrap();
        let mut got = [u32::MAX];
        endpoint.sendrecv(grid.comm(), &[me], to, Tag(0), &mut got, from, Tag(0)).unwrap();
        assert_eq!(got[0], if row == 0 { u32::MAX } else { me - 3 });
        // Its rows and its columns.
        let (mut scratch, mut kept) = ([SplitChoice::NONE; 6], [Dimension::default(); 2]);
        let line = grid.sub(endpoint, &[false, true], &mut kept, &mut scratch).unwrap();
        assert_eq!(line.dimensions(), [along(3, true)]);
        roll_call(endpoint, line.comm(), &[row * 3, row * 3 + 1, row * 3 + 2]);
        free(endpoint, *line.comm()).unwrap();
        let line = grid.sub(endpoint, &[true, false], &mut kept, &mut scratch).unwrap();
        assert_eq!(line.dimensions(), [along(2, false)]);
        roll_call(endpoint, line.comm(), &[column, column + 3]);
        // One rank's mistake.
        let mut kept = [Dimension::default(); 1];
        let error = grid.sub(endpoint, &[true, me == 4], &mut kept, &mut scratch).unwrap_err();
        let what = Resource::Scratch;
        let cause = if me == 4 { Cause::TooSmall { what, need: 2, have: 1 } } else { Cause::Full(what) };
        assert_eq!(error.cause, cause);
        let error = Grid::create(endpoint, &world, &[along(3, true); 2]).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 9, right: 8 });
    });
}

/// A message of the first generation is still on its way, over a slow link that no agreement uses,
/// when generations begin again: the new communicator of that generation does not get it.
#[test]
fn a_message_of_an_old_generation_does_not_meet_a_new_one() {
    let program = |endpoint: &mut SimEndpoint<'_>| -> Outcome {
        let (world, me) = (endpoint.world(), endpoint.process());
        let old = endpoint.install(2, 1, &Members::<Empty<PeerId>>::Of(world))?;
        barrier().run(endpoint, &world)?;
        if me == PeerId(0) {
            endpoint.send(&old, &[1_u8], Rank(3), Tag(0))?;
        }
        endpoint.discard(&old)?;
        let last = endpoint.install(2, GENERATION_MAX, &Members::<Empty<PeerId>>::Of(world))?;
        endpoint.discard(&last)?;
        let new = dup(endpoint, &world)?;
        if new.context() != old.context() {
            return Err("generations did not begin again".into());
        }
        let mut got = [0_u8];
        match me {
            PeerId(0) => drop(endpoint.send(&new, &[2_u8], Rank(3), Tag(0))?),
            PeerId(3) => drop(endpoint.recv(&new, &mut got, Source::Any, TagMatch::Any)?),
            _ => {}
        }
        let due = if me == PeerId(3) { [2] } else { [0] };
        if got == due { Ok(()) } else { Err("a message of a freed communicator".into()) }
    };
    // Each has a fault that makes that link slow enough: without the flush, all of them fail.
    for (seed, wire) in [(91, Wire::Frames), (305, Wire::Frames), (734, Wire::Messages), (1285, Wire::Frames)]
    {
        let config = SimConfig { faults: Profile::Swarm, wire, ..SimConfig::new(seed, 5) };
        let report = simulate(&config, program).unwrap();
        assert_eq!(report.failure, None, "{report}");
    }
}
