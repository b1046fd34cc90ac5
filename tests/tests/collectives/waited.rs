//! Collectives that some ranks start and wait for, and others call: both take one path.

use aldis_coll::dyn_op::{reduce_scatter_block_by, reduce_scatter_by};
use aldis_coll::layout::Block;
use aldis_coll::op::{Kernel, Sum};
use aldis_coll::{
    BlockCall, ContiguousCall, InputBlocks, StartMode, allgather, allgather_from, allgatherv, allreduce,
    alltoall, alltoallv, alltoallv_in_place, alltoallw, bcast, exscan, gather, gatherv, reduce_scatter,
    reduce_scatter_block, scan, scatter, scatterv, wait_all, wait_for,
};
use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank};
use aldis_tests::thread_jobs::run;
use zerocopy::IntoBytes;

/// The calls of a turn, as one rank makes them.
#[derive(Clone, Copy)]
pub(super) struct CallCase {
    /// True if this rank starts its calls and waits for them.
    pub(super) is_started: bool,
    pub(super) root: u32,
    /// Elements of a block.
    pub(super) len: usize,
}

impl CallCase {
    fn blocks<T: Transport, P: Platform>(
        self,
        endpoint: &mut Endpoint<'_, T, P>,
        comm: &Comm,
        call: BlockCall<'_>,
    ) -> Result<(), Error> {
        match self.is_started {
            true => endpoint.scope(|scope| call.begin(scope, comm, StartMode::Waited)?.wait(scope)),
            false => call.run(endpoint, comm),
        }
    }

    pub(super) fn stretch<T: Transport, P: Platform>(
        self,
        endpoint: &mut Endpoint<'_, T, P>,
        comm: &Comm,
        call: ContiguousCall<'_>,
    ) -> Result<(), Error> {
        match self.is_started {
            true => endpoint.scope(|scope| call.begin(scope, comm, StartMode::Waited)?.wait(scope)),
            false => call.run(endpoint, comm),
        }
    }
}

/// An element that `from` gives to `to`.
fn element(from: u32, to: u32, index: usize) -> u64 {
    u64::from(from * 100 + to) * 100_000 + index as u64
}

fn block(from: u32, to: u32, len: usize) -> Vec<u64> {
    (0..len).map(|index| element(from, to, index)).collect()
}

fn blocks_for_all(from: u32, size: u32, len: usize) -> Vec<u64> {
    (0..size).flat_map(|to| block(from, to, len)).collect()
}

fn blocks_of_all(to: u32, size: u32, len: usize) -> Vec<u64> {
    (0..size).flat_map(|from| block(from, to, len)).collect()
}

fn sum_of(ranks: core::ops::Range<u32>, to: u32, len: usize) -> Vec<u64> {
    (0..len).map(|index| ranks.clone().map(|from| element(from, to, index)).sum()).collect()
}

/// All operations on blocks of one length and scans, with elements that stand in slots, that two
/// ranks pass in chunks, and that are for messages; each rank begins them its own way, and another
/// way in each turn.
#[test]
fn a_call_that_is_waited_for_meets_one_that_blocks() {
    for size in 1..=4 {
        for len in [0, 1, 40, 600, 5000] {
            run(size, |endpoint| {
                let (world, me) = (endpoint.world(), endpoint.world().rank().0);
                for turn in 0..4 {
                    let case = CallCase { is_started: (me + turn) % 3 != 0, root: turn % size, len };
                    call_all(endpoint, &world, case).unwrap();
                }
            });
        }
    }
}

pub(super) fn call_all<T: Transport, P: Platform>(
    endpoint: &mut Endpoint<'_, T, P>,
    world: &Comm,
    case: CallCase,
) -> Result<(), Error> {
    let CallCase { root, len, .. } = case;
    let (me, size) = (world.rank().0, world.size());
    let is_root = me == root;
    let mut data = if is_root { vec![0; len * size as usize] } else { block(me, root, len) };
    if is_root {
        data[root as usize * len..][..len].copy_from_slice(&block(me, root, len));
    }
    case.blocks(endpoint, world, gather(&mut data, &mut [], Rank(root)))?;
    if is_root {
        assert_eq!(data, blocks_of_all(root, size, len));
    }
    let mut data = if is_root { blocks_for_all(root, size, len) } else { vec![0; len] };
    case.blocks(endpoint, world, scatter(&mut data, &mut [], Rank(root)))?;
    let own = if is_root { &data[root as usize * len..][..len] } else { &data[..] };
    assert_eq!(own, block(root, me, len));
    let mut data = vec![0; len * size as usize];
    data[me as usize * len..][..len].copy_from_slice(&block(me, 9, len));
    case.blocks(endpoint, world, allgather(&mut data))?;
    assert_eq!(data, blocks_of_all(9, size, len));
    data.fill(0);
    let own = block(me, 9, len);
    case.blocks(endpoint, world, allgather_from(&own, &mut data))?;
    assert_eq!(data, blocks_of_all(9, size, len));
    // As many elements more as the rank's number: all ranks know that.
    let before = |rank: usize| (0..rank).map(|rank| len + rank).sum();
    let listed = |rank| Block { start: before(rank), len: len + rank };
    let unlike: Vec<Block> = (0..size as usize).map(listed).collect();
    let mut data = vec![0; unlike.iter().map(|block| block.len).sum()];
    data[unlike[me as usize].start..][..unlike[me as usize].len].copy_from_slice(&block(
        me,
        9,
        len + me as usize,
    ));
    case.blocks(endpoint, world, allgatherv(&mut data, &unlike))?;
    for (rank, part) in (0..).zip(&unlike) {
        assert_eq!(data[part.start..][..part.len], block(rank, 9, part.len));
    }
    let given: Vec<u64> = (0..size).flat_map(|to| block(me, to, len + to as usize)).collect();
    let (mut part, mut scratch) = (vec![0; len + me as usize], vec![0; 2 * given.len()]);
    let input = InputBlocks::new(&given, &unlike);
    case.blocks(endpoint, world, reduce_scatter(Sum, input, &mut part, &mut scratch))?;
    assert_eq!(part, sum_of(0..size, me, len + me as usize));
    let mut data = vec![0; len * size as usize];
    let given = blocks_for_all(me, size, len);
    case.blocks(endpoint, world, alltoall(&given, &mut data, &mut []))?;
    assert_eq!(data, blocks_of_all(me, size, len));
    let (mut part, mut scratch) = (vec![0; len], vec![0; 2 * given.len()]);
    case.blocks(endpoint, world, reduce_scatter_block(Sum, &given, &mut part, &mut scratch))?;
    assert_eq!(part, sum_of(0..size, me, len));
    part.fill(0);
    let (kernel, bytes) = (Kernel::of::<Sum, u64>(), scratch.as_mut_bytes());
    let call = reduce_scatter_block_by(kernel, given.as_bytes(), part.as_mut_bytes(), bytes);
    case.blocks(endpoint, world, call)?;
    assert_eq!(part, sum_of(0..size, me, len));
    let mut data = block(me, 3, len);
    case.stretch(endpoint, world, scan(Sum, &mut data, &mut scratch))?;
    assert_eq!(data, sum_of(0..me + 1, 3, len));
    let mut data = block(me, 3, len);
    case.stretch(endpoint, world, exscan(Sum, &mut data, &mut scratch))?;
    if me > 0 {
        assert_eq!(data, sum_of(0..me, 3, len));
    }
    case.stretch(endpoint, world, allreduce(Sum, &mut part, &mut scratch))?;
    case.stretch(endpoint, world, bcast(&mut part, Rank(root)))
}

/// Calls of whose blocks no rank knows all lengths: some have no element, some stand in slots, and
/// some do not, so that messages follow on ranks that learn of it in the slots alone.
#[test]
fn a_call_on_blocks_of_unknown_lengths_that_is_waited_for_meets_one_that_blocks() {
    for size in 1..=4 {
        for len in [0, 40, 1030, 3000, 20_000] {
            run(size, |endpoint| {
                let (world, me) = (endpoint.world(), endpoint.world().rank().0);
                for turn in 0..4 {
                    let case = CallCase { is_started: (me + turn) % 3 != 0, root: turn % size, len };
                    call_listed(endpoint, &world, case, turn).unwrap();
                    call_all(endpoint, &world, CallCase { len: 1, ..case }).unwrap();
                }
            });
        }
    }
}

/// The elements that `from` gives to `to`.
fn listed_len(from: u32, to: u32, len: usize, turn: u32) -> usize {
    [0, 2, len, len / 2 + 1][(from * 3 + to + turn) as usize % 4]
}

/// Blocks of these lengths, with an element between any two, and the elements from the first to the
/// last.
fn listed(lens: impl Iterator<Item = usize>) -> (Vec<Block>, usize) {
    let mut end = 0;
    let block = |len: usize| {
        let block = Block { start: end, len };
        end += len + 1;
        block
    };
    (lens.map(block).collect(), end)
}

pub(super) fn call_listed<T: Transport, P: Platform>(
    endpoint: &mut Endpoint<'_, T, P>,
    world: &Comm,
    case: CallCase,
    turn: u32,
) -> Result<(), Error> {
    let CallCase { root, len, .. } = case;
    let (me, ranks) = (world.rank().0, 0..world.size());
    let is_root = me == root;
    let len_of = |from, to| listed_len(from, to, len, turn);
    let filled = |blocks: &[Block], elements: usize, ends: fn(u32, u32) -> (u32, u32)| {
        let mut all = vec![7; elements];
        for (rank, at) in (0..).zip(blocks) {
            let (from, to) = ends(me, rank);
            all[at.start..][..at.len].copy_from_slice(&block(from, to, at.len));
        }
        all
    };
    let (blocks, elements) = listed(ranks.clone().map(|from| len_of(from, root)));
    let own = blocks[me as usize];
    let mut data = block(me, root, own.len);
    if is_root {
        data = vec![7; elements];
        data[own.start..][..own.len].copy_from_slice(&block(me, root, own.len));
    }
    case.blocks(endpoint, world, gatherv(&mut data, &blocks, Rank(root)))?;
    assert!(!is_root || data == filled(&blocks, elements, |me, rank| (rank, me)), "gatherv");
    let (blocks, elements) = listed(ranks.clone().map(|to| len_of(root, to)));
    let own = blocks[me as usize];
    let given = if is_root { filled(&blocks, elements, |me, rank| (me, rank)) } else { vec![0; own.len] };
    let mut data = given.clone();
    case.blocks(endpoint, world, scatterv(&mut data, &blocks, Rank(root)))?;
    assert!(if is_root { data == given } else { data == block(root, me, own.len) }, "scatterv");
    let (from, elements) = listed(ranks.clone().map(|to| len_of(me, to)));
    let given = filled(&from, elements, |me, rank| (me, rank));
    let (into, elements) = listed(ranks.clone().map(|from| len_of(from, me)));
    let (taken, mut data) = (filled(&into, elements, |me, rank| (rank, me)), vec![7; elements]);
    case.blocks(endpoint, world, alltoallv(&given, &from, &mut data, &into))?;
    assert!(data == taken, "alltoallv");
    data.fill(7);
    let in_bytes = |blocks: &[Block]| -> Vec<Block> {
        blocks.iter().map(|block| Block { start: 8 * block.start, len: 8 * block.len }).collect()
    };
    let (from, into) = (in_bytes(&from), in_bytes(&into));
    case.blocks(endpoint, world, alltoallw(given.as_bytes(), &from, data.as_mut_bytes(), &into))?;
    assert!(data == taken, "alltoallw");
    // In place, both give as much.
    let (blocks, elements) = listed(ranks.map(|rank| len_of(me.min(rank), me.max(rank))));
    let mut data = filled(&blocks, elements, |me, rank| (me, rank));
    case.blocks(endpoint, world, alltoallv_in_place(&mut data, &blocks, &mut [0; 100]))?;
    assert!(data == filled(&blocks, elements, |me, rank| (rank, me)), "alltoallv in place");
    Ok(())
}

/// A block that is not as long as its taker has it is told there, whichever way the ranks call, and
/// the next calls meet.
#[test]
fn an_unlike_block_is_an_error_however_the_call_begins() {
    run(3, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        for turn in 0..3 {
            let case = CallCase { is_started: me == turn, root: 1, len: 1 };
            let blocks = Block::packed([1, 2, 3]);
            let mut data = vec![u64::from(me); [2, 6, 3][me as usize]];
            let done = case.blocks(endpoint, &world, gatherv(&mut data, &blocks, Rank(1)));
            let unlike = Cause::UnlikeLength { own: 8, theirs: 16 };
            assert_eq!(done.err().map(|error| error.cause), (me == 1).then_some(unlike));
            let mut data = vec![u64::from(me); [2, 6, 3][me as usize]];
            let done = case.blocks(endpoint, &world, scatterv(&mut data, &blocks, Rank(1)));
            let unlike = Cause::UnlikeLength { own: 16, theirs: 8 };
            assert_eq!(done.err().map(|error| error.cause), (me == 0).then_some(unlike));
            call_all(endpoint, &world, CallCase { len: 3000, ..case }).unwrap();
        }
    });
}

/// Blocks of whose lengths not every rank knows are right in every mode, also on ranks that have
/// but their own.
#[test]
fn blocks_that_only_the_root_lists_are_waited_for() {
    for mode in [StartMode::Waited, StartMode::Driven] {
        run(3, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.world().rank());
            let blocks = Block::packed([1, 2, 3]);
            let mut data = vec![me.0; if me == Rank(1) { 6 } else { me.0 as usize + 1 }];
            endpoint
                .scope(|scope| gatherv(&mut data, &blocks, Rank(1)).begin(scope, &world, mode)?.wait(scope))
                .unwrap();
            assert!(me != Rank(1) || data == [0, 1, 1, 2, 2, 2]);
            endpoint
                .scope(|scope| scatterv(&mut data, &blocks, Rank(1)).begin(scope, &world, mode)?.wait(scope))
                .unwrap();
            assert_eq!(data[..1], [if me == Rank(1) { 0 } else { me.0 }]);
        });
    }
}

/// More calls at a time than a communicator has control slots, driven together: short ones by
/// slots, long ones by messages, and each ends right.
#[test]
fn more_driven_calls_than_slots_end_in_any_order() {
    run(3, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.world().rank().0);
        let mut data: Vec<Vec<u64>> =
            (0..24).map(|call| vec![u64::from(me) + call; if call % 3 == 0 { 3000 } else { 2 }]).collect();
        let mut scratch = vec![vec![0; 3000]; data.len()];
        endpoint
            .scope(|scope| {
                let mut flying = Vec::new();
                for (data, scratch) in data.iter_mut().zip(&mut scratch) {
                    flying.push(allreduce(Sum, data, scratch).begin(scope, &world, StartMode::Driven)?);
                }
                wait_all(scope, &mut flying)
            })
            .unwrap();
        for (call, data) in data.iter().enumerate() {
            assert!(data.iter().all(|sum| *sum == 3 * (call as u64 + 1)), "call {call}");
        }
    });
}

/// Long data in chunks, which all take in one order, beside short ones in slots: each rank waits
/// for them in an order of its own.
#[test]
fn driven_calls_in_chunks_end_in_whatever_order_ranks_wait() {
    const CALLS: usize = 12;
    for size in [2, 3] {
        run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.world().rank().0);
            let len = |call: usize| if call.is_multiple_of(2) { 3000 } else { 2 };
            let mut data: Vec<Vec<u64>> =
                (0..CALLS).map(|call| vec![u64::from(me) + call as u64; len(call)]).collect();
            let mut scratch = vec![vec![0; 3000]; CALLS];
            endpoint
                .scope(|scope| {
                    let mut flying = Vec::new();
                    for (data, scratch) in data.iter_mut().zip(&mut scratch) {
                        flying.push(allreduce(Sum, data, scratch).begin(scope, &world, StartMode::Driven)?);
                    }
                    for turn in 0..CALLS {
                        let call = if me == 0 { turn } else { (CALLS - 1 - turn + me as usize) % CALLS };
                        wait_for(scope, &mut flying, call)?;
                    }
                    Ok(())
                })
                .unwrap();
            let ranks = u64::from(size);
            for (call, data) in data.iter().enumerate() {
                let sum = ranks * (ranks - 1) / 2 + ranks * call as u64;
                assert!(data.iter().all(|found| *found == sum), "call {call} of {size}");
            }
        });
    }
}

/// Bytes that are no whole elements are refused before anything is sent, also where blocks are
/// listed in elements.
#[test]
fn bytes_that_are_no_whole_elements_are_refused() {
    run(2, |endpoint| {
        let (world, kernel) = (endpoint.world(), Kernel::of::<Sum, u32>());
        let (mut part, mut scratch) = ([0_u32; 2], [0_u32; 10]);
        let (part, scratch) = (part.as_mut_bytes(), scratch.as_mut_bytes());
        let call = reduce_scatter_block_by(kernel, &[0_u8; 8], &mut part[..5], scratch);
        let error = call.run(endpoint, &world).unwrap_err();
        assert_eq!(error.cause, Cause::LengthMismatch { left: 5, right: 4 });
        let blocks = Block::packed([1, 1]);
        let given = InputBlocks::new(&[0_u8; 7], &blocks);
        let error = reduce_scatter_by(kernel, given, &mut part[..4], scratch).run(endpoint, &world);
        assert_eq!(error.unwrap_err().cause, Cause::LengthMismatch { left: 7, right: 4 });
        let own = [1_u32, 2];
        let given = InputBlocks::new(own.as_bytes(), &blocks);
        reduce_scatter_by(kernel, given, &mut part[..4], scratch).run(endpoint, &world).unwrap();
        assert_eq!(part[..4], [2 * (world.rank().0 as u8 + 1), 0, 0, 0]);
    });
}
