//! Gather, scatter, allgather and all-to-all by every algorithm, with scratch for all, for some and
//! for none, and with blocks of unlike lengths.

use aldis_coll::alltoall::InPlace;
use aldis_coll::barrier;
use aldis_coll::barrier::Linear;
use aldis_coll::catalog::algorithms;
use aldis_coll::gather::LinearSync;
use aldis_coll::layout::Block;
use aldis_coll::{
    Options, StartMode, allgather, allgather_from, allgatherv, alltoall, alltoall_in_place, alltoallv,
    alltoallv_in_place, alltoallw, alltoallw_in_place, gather, gatherv, scatter, scatterv, wait_all,
};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Comm, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};

use zerocopy::IntoBytes;

/// Elements of a block.
const COUNTS: [usize; 5] = [0, 1, 5, 700, 9000];
/// A number that was in memory before.
const OLD: u32 = u32::MAX;

/// Element `at` of the block that rank `from` has for rank `to`.
fn element(from: u32, to: u32, at: usize) -> u32 {
    (from << 20) ^ (to << 12) ^ at as u32
}

fn block(from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len).map(|at| element(from, to, at)).collect()
}

/// The blocks that `of` tells, one behind the other.
fn blocks(size: u32, of: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    (0..size).flat_map(of).collect()
}

/// Calls with every algorithm of an operation that serves this size, and by the one that selection
/// takes.
fn each(operation: Operation, size: u32) -> Vec<Options> {
    let named = algorithms(operation).iter().filter(|algorithm| algorithm.serves(size));
    named.map(|algorithm| Options::using(*algorithm)).chain([Options::default()]).collect()
}

/// Scratch for everything, for little, and for next to nothing: named algorithms that need more are
/// refused.
fn scratches(size: u32, count: usize) -> [usize; 3] {
    let all = (size as usize + 2) * count.max(1);
    [all, all.div_ceil(7), 0]
}

/// Returns true if a call was refused for its scratch: alike on all ranks, and only if an algorithm
/// was named.
fn is_refused(result: Result<(), aldis_kernel::Error>) -> bool {
    match result {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error.cause, Cause::TooSmall { .. }), "{error}");
            true
        }
    }
}

fn all_of_one_length(endpoint: &mut Endpoint, world: &Comm, count: usize) {
    let (rank, size) = (world.rank().0, world.size());
    for root in [0, size - 1] {
        for options in each(Operation::Gather, size) {
            for len in scratches(size, count) {
                let mut data = block(rank, root, count);
                if rank == root {
                    data =
                        blocks(
                            size,
                            |from| if from == rank { block(from, root, count) } else { vec![OLD; count] },
                        );
                }
                if !is_refused(
                    gather(&mut data, &mut vec![0; len], Rank(root)).with(&options).run(endpoint, world),
                ) && rank == root
                {
                    assert_eq!(data, blocks(size, |from| block(from, root, count)), "{options:?}");
                }
            }
        }
        for options in each(Operation::Scatter, size) {
            for len in scratches(size, count) {
                let mut data = vec![OLD; count];
                if rank == root {
                    data = blocks(size, |to| block(root, to, count));
                }
                if !is_refused(
                    scatter(&mut data, &mut vec![0; len], Rank(root)).with(&options).run(endpoint, world),
                ) {
                    let own = if rank == root { &data[rank as usize * count..][..count] } else { &data };
                    assert_eq!(own, block(root, rank, count), "{options:?}");
                }
            }
        }
    }
    for options in each(Operation::Allgather, size) {
        let own = |from| if from == rank { block(from, 0, count) } else { vec![OLD; count] };
        let mut data = blocks(size, own);
        allgather(&mut data).with(&options).run(endpoint, world).unwrap();
        assert_eq!(data, blocks(size, |from| block(from, 0, count)), "{options:?}");
        // A rank that gives its block apart meets others that have it in place.
        let apart = block(rank, 0, count);
        data.fill(OLD);
        if rank % 2 == 0 {
            allgather_from(&apart, &mut data).with(&options).run(endpoint, world).unwrap();
        } else {
            data[rank as usize * count..][..count].copy_from_slice(&apart);
            allgather(&mut data).with(&options).run(endpoint, world).unwrap();
        }
        assert_eq!(data, blocks(size, |from| block(from, 0, count)), "{options:?}");
        assert_eq!(apart, block(rank, 0, count));
    }
    let input = blocks(size, |to| block(rank, to, count));
    let expected = blocks(size, |from| block(from, rank, count));
    for options in each(Operation::Alltoall, size) {
        for len in scratches(size, count) {
            let mut data = vec![OLD; input.len()];
            if !is_refused(alltoall(&input, &mut data, &mut vec![0; len]).with(&options).run(endpoint, world))
            {
                assert_eq!(data, expected, "{options:?}");
            }
        }
    }
    for len in [count.max(1), count.div_ceil(3).max(1)] {
        let mut data = input.clone();
        alltoall_in_place(&mut data, &mut vec![0; len]).run(endpoint, world).unwrap();
        assert_eq!(data, expected);
    }
}

#[test]
fn every_algorithm_moves_blocks_of_one_length() {
    for size in [1, 2, 3, 4, 7, 9] {
        run(size, |endpoint| {
            let world = endpoint.world();
            for count in COUNTS {
                all_of_one_length(endpoint, &world, count);
            }
        });
    }
}

/// The length of the block that rank `from` has for rank `to`, in units of so many elements: some
/// have none.
fn len_in(unit: usize, from: u32, to: u32) -> usize {
    ((from * 7 + to * 3) % 5) as usize * unit
}

/// Blocks of these lengths with a gap before each, so that they do not follow each other, backwards
/// on odd ranks.
pub(crate) fn layout(rank: u32, lens: Vec<usize>) -> (Vec<Block>, usize) {
    let mut end = 0;
    let mut list: Vec<(usize, Block)> = Vec::new();
    let order: Vec<usize> =
        if rank.is_multiple_of(2) { (0..lens.len()).collect() } else { (0..lens.len()).rev().collect() };
    for index in order {
        list.push((index, Block { start: end + 3, len: lens[index] }));
        end += 3 + lens[index];
    }
    list.sort_by_key(|(index, _)| *index);
    (list.into_iter().map(|(_, block)| block).collect(), end)
}

/// Memory of such a layout, old but for the blocks that `of` tells.
fn memory((list, end): &(Vec<Block>, usize), of: impl Fn(u32) -> Option<Vec<u32>>) -> Vec<u32> {
    let mut all = vec![OLD; *end];
    for (rank, block) in list.iter().enumerate() {
        if let Some(elements) = of(rank as u32) {
            all[block.start..][..block.len].copy_from_slice(&elements);
        }
    }
    all
}

#[test]
fn every_algorithm_that_can_moves_blocks_of_unlike_lengths() {
    // Blocks that stand in control slots, some that do not, and none that does.
    for (size, unit) in
        [1, 2, 3, 4, 7, 9].into_iter().flat_map(|size| [40, 800, 2200].map(|unit| (size, unit)))
    {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let len = |from, to| len_in(unit, from, to);
            for root in [0, size - 1] {
                let list = layout(rank, (0..size).map(|from| len(from, root)).collect());
                let (at_root, mine) = (rank == root, block(rank, root, len(rank, root)));
                for options in each(Operation::Gatherv, size) {
                    let own = |from: u32| (from == rank).then(|| mine.clone());
                    let mut data = if at_root { memory(&list, own) } else { mine.clone() };
                    gatherv(&mut data, &list.0, Rank(root)).with(&options).run(endpoint, &world).unwrap();
                    if at_root {
                        assert_eq!(
                            data,
                            memory(&list, |from| Some(block(from, root, len(from, root)))),
                            "{options:?}"
                        );
                    }
                }
                for options in each(Operation::Scatterv, size) {
                    let all = |to: u32| Some(block(root, to, len(to, root)));
                    let mut data = if at_root { memory(&list, all) } else { vec![OLD; len(rank, root)] };
                    scatterv(&mut data, &list.0, Rank(root)).with(&options).run(endpoint, &world).unwrap();
                    if !at_root {
                        assert_eq!(data, block(root, rank, len(rank, root)), "{options:?}");
                    }
                }
            }
            let list = layout(rank, (0..size).map(|from| len(from, 0)).collect());
            let full = memory(&list, |from| Some(block(from, 0, len(from, 0))));
            for options in each(Operation::Allgatherv, size) {
                let mut data = memory(&list, |from| (from == rank).then(|| block(from, 0, len(from, 0))));
                allgatherv(&mut data, &list.0).with(&options).run(endpoint, &world).unwrap();
                assert_eq!(data, full, "{options:?}");
            }
            let given = layout(rank + 1, (0..size).map(|to| len(rank, to)).collect());
            let list = layout(rank, (0..size).map(|from| len(from, rank)).collect());
            let input = memory(&given, |to| Some(block(rank, to, len(rank, to))));
            for options in each(Operation::Alltoallv, size) {
                let mut data = memory(&list, |_| None);
                alltoallv(&input, &given.0, &mut data, &list.0).with(&options).run(endpoint, &world).unwrap();
                assert_eq!(
                    data,
                    memory(&list, |from| Some(block(from, rank, len(from, rank)))),
                    "{options:?}"
                );
            }
            let bytes = |(list, end): &(Vec<Block>, usize)| -> (Vec<Block>, usize) {
                let of = |block: &Block| Block { start: block.start * 4, len: block.len * 4 };
                (list.iter().map(of).collect(), end * 4)
            };
            let (given, blocks) = (bytes(&given).0, bytes(&list).0);
            for options in each(Operation::Alltoallw, size) {
                let mut data = memory(&list, |_| None);
                let (sent, came) = (input.as_bytes(), data.as_mut_bytes());
                alltoallw(sent, &given, came, &blocks).with(&options).run(endpoint, &world).unwrap();
                let expected = memory(&list, |from| Some(block(from, rank, len(from, rank))));
                assert_eq!(data, expected, "{options:?}");
            }
        });
    }
}

/// A rank whose block is empty gets no go-ahead to send it: no message is left.
#[test]
fn an_empty_block_gets_no_go_ahead() {
    let left = run(4, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        let list = Block::packed([3, 0, 10, 2]);
        let mut data = vec![rank; if rank == 0 { 15 } else { list[rank as usize].len }];
        gatherv(&mut data, &list, Rank(0)).with(&Options::using(&LinearSync)).run(endpoint, &world).unwrap();
        if rank == 0 {
            assert_eq!(data, [0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3]);
        }
        // What rank 0 sends here comes after all that it has sent before.
        barrier().with(&Options::using(&Linear)).run(endpoint, &world).unwrap();
        endpoint.diagnostics().queue_depths()
    });
    assert_eq!(left, [(0, 0); 4]);
}

/// The length of what two ranks swap in place: nothing, little, or more than the longest block of
/// some.
fn swapped(one: u32, other: u32) -> usize {
    ((one * other + one + other) % 4) as usize * 50
}

#[test]
fn blocks_of_unlike_lengths_are_swapped_in_place() {
    for size in [1, 2, 3, 4, 7, 9] {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let list = layout(rank, (0..size).map(|other| swapped(rank, other)).collect());
            let given = memory(&list, |to| Some(block(rank, to, swapped(rank, to))));
            let expected = memory(&list, |from| Some(block(from, rank, swapped(rank, from))));
            // The longest blocks of ranks differ: they need not cut as often, but must cut alike.
            for scratch in [1, 40, 100, 150, 1000] {
                let mut data = given.clone();
                alltoallv_in_place(&mut data, &list.0, &mut vec![0; scratch]).run(endpoint, &world).unwrap();
                assert_eq!(data, expected, "{scratch}");
                let blocks: Vec<Block> =
                    list.0.iter().map(|block| Block { start: block.start * 4, len: block.len * 4 }).collect();
                let mut data = given.clone();
                alltoallw_in_place(data.as_mut_bytes(), &blocks, &mut vec![0; scratch])
                    .run(endpoint, &world)
                    .unwrap();
                assert_eq!(data, expected, "{scratch}");
            }
            let (mut one, mut other) = (given.clone(), given.clone());
            let (a, b, list) = (&mut one, other.as_mut_bytes(), &list.0);
            let bytes: Vec<Block> =
                list.iter().map(|block| Block { start: block.start * 4, len: block.len * 4 }).collect();
            let (bytes, scratch, spare) = (&bytes, &mut [0; 60], &mut [0; 33]);
            endpoint
                .scope(|scope| {
                    let mut flying = [
                        alltoallv_in_place(a, list, scratch).start(scope, &world)?,
                        alltoallw_in_place(b, bytes, spare).start(scope, &world)?,
                    ];
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            assert_eq!((one, other), (expected.clone(), expected));
        });
    }
}

#[test]
fn what_is_swapped_in_place_is_as_long_on_both_sides() {
    let errors = run(2, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0 as usize);
        let list = Block::packed([3 + rank, 3]);
        let error = alltoallv_in_place(&mut [0u8; 8], &list, &mut [0; 4]).run(endpoint, &world).unwrap_err();
        (error.operation, error.cause)
    });
    // Rank 0 has three bytes for rank 1, which has four.
    assert_eq!(errors[0], (Operation::Alltoallv, Cause::UnlikeLength { own: 3, theirs: 4 }));
    assert_eq!(errors[1], (Operation::Alltoallv, Cause::UnlikeLength { own: 4, theirs: 3 }));
}

#[test]
fn several_are_in_flight_at_once() {
    for size in 1..=5 {
        run(size, |endpoint| {
            let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
            let count = 300;
            let own = |from: u32| if from == rank { block(from, 0, count) } else { vec![OLD; count] };
            let (mut all, mut part) = (blocks(size, own), vec![OLD; count]);
            if rank == 0 {
                part = blocks(size, |to| block(0, to, count));
            }
            let input = blocks(size, |to| block(rank, to, count));
            let mut output = vec![OLD; input.len()];
            let (mut scratch, mut spare) = (vec![0; 900], vec![0; 900]);
            let list: Vec<Block> = (0..size as usize).map(|at| Block { start: at * 2, len: 1 }).collect();
            let mut sparse = vec![rank; if rank == size - 1 { 2 * size as usize } else { 1 }];
            let (a, b, c, d) = (&mut all, &mut part, &mut output, &mut sparse);
            let (input, list, scratch, spare) = (&input, &list, &mut scratch, &mut spare);
            endpoint
                .scope(|scope| {
                    let mut flying = vec![
                        allgather(a).start(scope, &world)?,
                        alltoall(input, c, scratch).start(scope, &world)?,
                        scatter(b, spare, Rank(0)).start(scope, &world)?,
                        gatherv(d, list, Rank(size - 1)).start(scope, &world)?,
                    ];
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            assert_eq!(all, blocks(size, |from| block(from, 0, count)));
            assert_eq!(output, blocks(size, |from| block(from, rank, count)));
            assert_eq!(part[..count], block(0, rank, count));
            if rank == size - 1 {
                assert!((0..size).all(|from| sparse[2 * from as usize] == from));
            }
        });
    }
}

#[test]
fn bad_divisions_are_refused_before_anything_is_sent() {
    run(3, |endpoint| {
        let world = endpoint.world();
        let error = aldis_coll::allgather(&mut [0u8; 4]).run(endpoint, &world).unwrap_err();
        let cause = Cause::LengthMismatch { left: 4, right: 3 };
        assert_eq!((error.operation, error.cause), (Operation::Allgather, cause));
        let error = allgather_from(&[0u8; 2], &mut [0u8; 3]).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 2, right: 1 });
        let mut all = [0u8; 3];
        for mode in [StartMode::Persistent, StartMode::Dedicated] {
            let error = endpoint
                .scope(|scope| allgather_from(&[0u8], &mut all).begin(scope, &world, mode).map(drop))
                .unwrap_err();
            assert_eq!((error.operation, error.cause), (Operation::Allgather, Cause::Unsupported));
        }
        let outside = [Block { start: 0, len: 1 }, Block { start: 1, len: 1 }, Block { start: 2, len: 2 }];
        let error = aldis_coll::allgatherv(&mut [0u8; 3], &outside).run(endpoint, &world).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Allgatherv, Cause::TooBig { len: 4, max: 3 }));
        let error = aldis_coll::allgatherv(&mut [0u8; 4], &outside[..2]).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 2, right: 3 });
        let error = aldis_coll::alltoall(&[0u8; 6], &mut [0; 3], &mut []).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 2, right: 1 });
        let error = alltoall_in_place(&mut [0u8; 6], &mut []).run(endpoint, &world).unwrap_err();
        assert!(matches!(error.cause, Cause::TooSmall { .. }), "{error}");
        let error = aldis_coll::gather(&mut [0u8; 3], &mut [], Rank(3)).run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::RankOutOfRange { rank: 3, size: 3 });
        let named = |options: Options, endpoint: &mut Endpoint| {
            allgather(&mut [0u8; 3]).with(&options).run(endpoint, &endpoint.world()).unwrap_err().cause
        };
        let two =
            algorithms(Operation::Allgather).iter().find(|known| known.name() == "two_processes").unwrap();
        assert_eq!(named(Options::using(*two), endpoint), Cause::Unsupported);
        let mut data = vec![0u8; if world.rank() == Rank(0) { 3 * 9000 } else { 9000 }];
        let long = aldis_coll::gather(&mut data, &mut [], Rank(0)).with(&Options::shared());
        let long = long.run(endpoint, &world).unwrap_err();
        assert_eq!(long.cause, Cause::TooBig { len: 9000, max: 8192 });
        let mut data = [0u8; 3];
        let lent = &mut data;
        let started = endpoint
            .scope(|scope| allgather(lent).with(&Options::shared()).start(scope, &world).map(|_| ()))
            .unwrap_err();
        assert_eq!(started.cause, Cause::Unsupported, "nonblocking calls take messages");
        let in_place =
            alltoall(&[0u8; 3], &mut [0; 3], &mut [0]).with(&Options::using(&InPlace)).run(endpoint, &world);
        assert_eq!(in_place.unwrap_err().cause, Cause::Unsupported, "it would not read the input");
        // All ranks are still in step.
        let mut data = [world.rank().0 as u8; 3];
        aldis_coll::allgather(&mut data).run(endpoint, &world).unwrap();
        assert_eq!(data, [0, 1, 2]);
    });
}
