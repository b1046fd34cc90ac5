//! Allgather and all-to-all among neighbours in grids, graphs and distributed graphs.

use aldis_coll::comm::{Dimension, DistributedGraph, Graph, Grid, Neighbour, Topology, free};
use aldis_coll::layout::Block;
use aldis_coll::neighbor::{NeighborEntry, NeighborList};
use aldis_coll::{
    Options, neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv,
    neighbor_alltoallw, wait_all,
};
use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Error, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};
use zerocopy::IntoBytes;

/// A number that was in memory before.
const OLD: u32 = u32::MAX;

/// Element `at` of what rank `from` has for its destination `place`.
fn element(from: u32, place: u32, at: usize) -> u32 {
    (from << 20) ^ (place << 10) ^ at as u32
}

fn block(from: u32, place: u32, len: usize) -> Vec<u32> {
    (0..len).map(|at| element(from, place, at)).collect()
}

/// The length of such a block where they differ: some have none.
fn len(from: u32, place: u32) -> usize {
    ((from * 7 + place * 3) % 5) as usize * 40
}

/// Blocks of these lengths with a gap before each, the last one first.
fn apart(lens: &[usize]) -> (Vec<Block>, usize) {
    let mut end = 0;
    let mut list: Vec<Block> = lens
        .iter()
        .rev()
        .map(|&len| {
            let start = end + 2;
            end = start + len;
            Block { start, len }
        })
        .collect();
    list.reverse();
    (list, end)
}

/// Blocks with their places in bytes.
fn in_bytes(blocks: &[Block]) -> Vec<Block> {
    let of = |elements: usize| elements * size_of::<u32>();
    blocks.iter().map(|block| Block { start: of(block.start), len: of(block.len) }).collect()
}

fn memory(blocks: &[Block], end: usize, of: impl Fn(u32) -> Option<Vec<u32>>) -> Vec<u32> {
    let mut all = vec![OLD; end];
    for (place, block) in (0..).zip(blocks) {
        if let Some(elements) = of(place) {
            all[block.start..][..block.len].copy_from_slice(&elements);
        }
    }
    all
}

/// The data that a rank has for its neighbours, and they for it, where lengths differ.
struct Unlike {
    /// Times the usual length.
    times: usize,
    given: Vec<Block>,
    input: Vec<u32>,
    list: Vec<Block>,
    swapped: Vec<u32>,
}

impl Unlike {
    fn new(me: u32, meets: &[Option<(u32, u32)>], destinations: u32, times: usize) -> Self {
        let block = |from, place| block(from, place, times * len(from, place));
        let lens = meets.iter().map(|met| met.map_or(9, |(from, place)| times * len(from, place)));
        let (list, end) = apart(&lens.collect::<Vec<_>>());
        let swapped = memory(&list, end, |at| meets[at as usize].map(|(from, place)| block(from, place)));
        let (given, last) = apart(&(0..destinations).map(|place| times * len(me, place)).collect::<Vec<_>>());
        let input = memory(&given, last, |place| Some(block(me, place)));
        Self { times, given, input, list, swapped }
    }
}

/// Exchanges data whose lengths differ, in elements and in bytes.
fn exchange_unlike(
    ep: &mut Endpoint,
    neighbors: &NeighborList<'_>,
    meets: &[Option<(u32, u32)>],
    Unlike { times, given, input, list, swapped }: &Unlike,
) {
    let own = |from| block(from, 0, times * len(from, 0));
    let lens: Vec<usize> = meets.iter().map(|met| met.map_or(9, |(from, _)| own(from).len())).collect();
    let (gathers, end) = apart(&lens);
    let gathered = memory(&gathers, end, |at| meets[at as usize].map(|(from, _)| own(from)));
    let mut data = vec![OLD; end];
    let me = neighbors.comm().rank().0;
    neighbor_allgatherv(&own(me), &mut data, &gathers).run(ep, neighbors).unwrap();
    assert_eq!(data, gathered);
    let mut data = vec![OLD; swapped.len()];
    neighbor_alltoallv(input, given, &mut data, list).run(ep, neighbors).unwrap();
    assert_eq!(&data, swapped);
    let (to, from) = (in_bytes(given), in_bytes(list));
    data.fill(OLD);
    neighbor_alltoallw(input.as_bytes(), &to, data.as_mut_bytes(), &from).run(ep, neighbors).unwrap();
    assert_eq!(&data, swapped);
}

/// Every operation on a topology. `meets` tells for each source the rank that sends, and from which
/// of its places.
fn exchange_all(ep: &mut Endpoint, topology: &impl Topology, meets: &[Option<(u32, u32)>]) {
    let me = topology.comm().rank().0;
    let destinations = topology.destinations().count() as u32;
    let mut entries = vec![NeighborEntry::NONE; meets.len() + destinations as usize];
    let neighbors = NeighborList::new(topology, &mut entries).unwrap();
    assert_eq!((neighbors.sources() as usize, neighbors.destinations()), (meets.len(), destinations));
    // None, in control slots, in chunks of two ranks, by messages.
    let many = if topology.comm().size() == 2 { 9_000 } else { 2_000 };
    for count in [0, 1, 5, 700, many] {
        let or_old = |found: Option<Vec<u32>>| found.unwrap_or(vec![OLD; count]);
        let expected: Vec<u32> =
            meets.iter().flat_map(|met| or_old(met.map(|(from, _)| block(from, 0, count)))).collect();
        let mut data = vec![OLD; expected.len()];
        neighbor_allgather(&block(me, 0, count), &mut data).run(ep, &neighbors).unwrap();
        assert_eq!(data, expected);
        let input: Vec<u32> = (0..destinations).flat_map(|place| block(me, place, count)).collect();
        let expected: Vec<u32> =
            meets.iter().flat_map(|met| or_old(met.map(|(from, place)| block(from, place, count)))).collect();
        data.fill(OLD);
        neighbor_alltoall(&input, &mut data).run(ep, &neighbors).unwrap();
        assert_eq!(data, expected);
    }
    let unlike = Unlike::new(me, meets, destinations, 1);
    // In control slots; between two ranks one in slots and one in chunks, then both; else by
    // messages.
    for long in [1, 15, 30] {
        exchange_unlike(ep, &neighbors, meets, &Unlike::new(me, meets, destinations, long));
    }
    let Unlike { given, input, list, swapped, .. } = &unlike;
    let (to, from) = (in_bytes(given), in_bytes(list));
    let end = swapped.len();
    let mut data = vec![OLD; end];
    // Not blocking, three at a time; and persistent, with input that changes.
    let mut bytes = vec![OLD; end];
    let mut again = bytes.clone();
    let (bytes_ref, again_ref) = (bytes.as_mut_bytes(), again.as_mut_bytes());
    let (count, own) = (3, block(me, 0, 3));
    let (mut gathered, mut turned) = (vec![OLD; count * meets.len()], vec![OLD; count * meets.len()]);
    let mut even = vec![0; count * destinations as usize];
    let (data_ref, gathered_ref, turned_ref, even_ref) = (&mut data, &mut gathered, &mut turned, &mut even);
    let (neighbors, own) = (&neighbors, &own);
    ep.scope(|scope| {
        let mut flying = [
            neighbor_alltoallv(input, given, data_ref, list).start(scope, neighbors)?,
            neighbor_alltoallw(input.as_bytes(), &to, bytes_ref, &from).start(scope, neighbors)?,
            neighbor_allgather(own, gathered_ref).start(scope, neighbors)?,
        ];
        let mut turning = neighbor_alltoall(even_ref, turned_ref).persistent(scope, neighbors)?;
        let mut again =
            neighbor_alltoallw(input.as_bytes(), &to, again_ref, &from).persistent(scope, neighbors)?;
        wait_all(scope, &mut flying)?;
        for _ in 0..2 {
            again.edit(scope, |bytes: &mut [u8]| bytes.fill(u8::MAX))?;
            again.start(scope)?;
            again.wait(scope)?;
        }
        for start in 0..3 {
            turning.edit_input(scope, |even: &mut [u32]| {
                for (place, block) in (0..).zip(even.chunks_exact_mut(count)) {
                    (0..count).for_each(|at| block[at] = element(me, place, at + start));
                }
            })?;
            turning.start(scope)?;
            turning.wait(scope)?;
            turning.edit(scope, |turned: &mut [u32]| {
                for (met, block) in meets.iter().zip(turned.chunks_exact(count)) {
                    let expected = |at| met.map_or(OLD, |(from, place)| element(from, place, at + start));
                    assert!((0..count).all(|at| block[at] == expected(at)));
                }
            })?;
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!([&data, &bytes, &again].into_iter().all(|got| got == swapped));
    let expected =
        meets.iter().flat_map(|met| met.map_or(vec![OLD; count], |(from, _)| block(from, 0, count)));
    assert_eq!(gathered, expected.collect::<Vec<_>>());
}

/// A message that goes one way arrives as coming from the other, however few ranks there are that
/// way.
#[test]
fn grids_of_any_shape() {
    let along = |extent: i32| Dimension { extent: extent.unsigned_abs(), is_periodic: extent > 0 };
    // Those below zero are open.
    let shapes: [&[i32]; 14] = [
        &[1],
        &[-1],
        &[2],
        &[-2],
        &[3],
        &[-3],
        &[1, 1],
        &[2, 2],
        &[1, 3],
        &[-2, 2],
        &[3, -3],
        &[2, 2, 2],
        &[2, -1, 3],
        &[1, 2, 1, 2],
    ];
    for shape in shapes {
        let dimensions: Vec<Dimension> = shape.iter().map(|&extent| along(extent)).collect();
        let size = dimensions.iter().map(|dimension| dimension.extent).product();
        run(size, |ep| {
            let world = ep.world();
            let grid = Grid::create(ep, &world, &dimensions).unwrap().unwrap();
            let sources = (0..).zip(grid.sources());
            let meets: Vec<_> =
                sources.map(|(place, rank)| (rank != Rank::NULL).then_some((rank.0, place ^ 1))).collect();
            exchange_all(ep, &grid, &meets);
            free(ep, *grid.comm()).unwrap();
        });
    }
}

/// Both neighbours are one: the example of mpi-forum issue 153.
#[test]
fn two_ranks_on_a_ring_swap_ways() {
    for size in [1, 2] {
        run(size, |ep| {
            let (world, mut entries) = (ep.world(), [NeighborEntry::NONE; 4]);
            let dimensions = [Dimension { extent: size, is_periodic: true }];
            let ring = Grid::create(ep, &world, &dimensions).unwrap().unwrap();
            let neighbors = NeighborList::new(&ring, &mut entries).unwrap();
            let (me, other) = (world.rank().0, size - 1 - world.rank().0);
            let (down, up) = (10 * me, 10 * me + 1);
            let mut got = [OLD; 2];
            neighbor_alltoall(&[down, up], &mut got).run(ep, &neighbors).unwrap();
            // From before comes what went up there, from behind what went down.
            assert_eq!(got, [10 * other + 1, 10 * other]);
        });
    }
}

/// The neighbours of a rank in an order of its own.
fn shuffled(me: u32, edges: &[(u32, u32)], of: impl Fn(&(u32, u32)) -> Option<u32>) -> Vec<u32> {
    let mut list: Vec<u32> = edges.iter().filter_map(of).collect();
    list.sort_by_key(|other| (u64::from(*other + 1) * u64::from(me * 2 + 1) * 0x9E37_79B9) % 1009);
    list
}

/// The k-th time that a rank stands in one list is the k-th time that the other stands in its.
fn meets(me: u32, sources: &[u32], destinations: impl Fn(u32) -> Vec<u32>) -> Vec<Option<(u32, u32)>> {
    let met = (0..).zip(sources).map(|(at, &from)| {
        let before = sources[..at].iter().filter(|other| **other == from).count();
        let all = destinations(from);
        let place = (0..).zip(&all).filter(|(_, to)| **to == me).nth(before).unwrap().0;
        Some((from, place))
    });
    met.collect()
}

#[test]
fn distributed_graphs_with_many_neighbours_in_any_order() {
    for (size, number) in [(1, 3), (2, 11), (3, 40), (5, 90), (9, 300)] {
        // Some pairs several times, some with themselves, some ranks without.
        let mut seed = 7_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % u64::from(size)) as u32
        };
        let edges: Vec<(u32, u32)> =
            (0..number).map(|_| (next(), next())).filter(|edge| edge.0 != 3).collect();
        run(size, |ep| {
            let (world, me) = (ep.world(), ep.world().rank().0);
            let destinations = |me: u32| shuffled(me, &edges, |edge| (edge.0 == me).then_some(edge.1));
            let sources = shuffled(me, &edges, |edge| (edge.1 == me).then_some(edge.0));
            let list = |ranks: &[u32]| -> Vec<Neighbour> {
                ranks.iter().map(|&rank| Neighbour { rank: Rank(rank), weight: None }).collect()
            };
            let (from, to) = (list(&sources), list(&destinations(me)));
            let graph = DistributedGraph::create_adjacent(ep, &world, &from, &to).unwrap();
            exchange_all(ep, &graph, &meets(me, &sources, destinations));
            free(ep, *graph.comm()).unwrap();
        });
    }
}

#[test]
fn graphs_with_edges_that_stand_twice_and_loops() {
    // 0: 1 1 2 0; 1: 0 0; 2: 0 3; 3: 2 3.
    let (index, edges) = ([4, 6, 8, 10], [1, 1, 2, 0, 0, 0, 0, 3, 2, 3]);
    let of = |rank: u32| {
        let start = if rank == 0 { 0 } else { index[rank as usize - 1] as usize };
        edges[start..index[rank as usize] as usize].to_vec()
    };
    run(5, |ep| {
        let world = ep.world();
        let Some(graph) = Graph::create(ep, &world, &index, &edges).unwrap() else { return };
        let me = graph.comm().rank().0;
        exchange_all(ep, &graph, &meets(me, &of(me), of));
        free(ep, *graph.comm()).unwrap();
    });
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_sent() {
    run(2, |ep| {
        let (world, mut entries) = (ep.world(), [NeighborEntry::NONE; 4]);
        let dimensions = [Dimension { extent: 2, is_periodic: true }];
        let ring = Grid::create(ep, &world, &dimensions).unwrap().unwrap();
        let few = NeighborList::new(&ring, &mut entries[..3]).unwrap_err();
        assert_eq!(few.cause, Cause::TooSmall { what: Resource::Scratch, need: 4, have: 3 });
        let neighbors = NeighborList::new(&ring, &mut entries).unwrap();
        let refused = |error: Error| (error.operation, error.cause);
        let cause = Cause::LengthMismatch { left: 3, right: 2 };
        let odd = neighbor_alltoall(&[0; 2], &mut [0u8; 3]).run(ep, &neighbors).unwrap_err();
        assert_eq!(refused(odd), (Operation::NeighborAlltoall, cause));
        let cause = Cause::LengthMismatch { left: 2, right: 1 };
        let unlike = neighbor_alltoall(&[0; 4], &mut [0u8; 2]).run(ep, &neighbors).unwrap_err();
        assert_eq!(refused(unlike), (Operation::NeighborAlltoall, cause));
        let unlike = neighbor_allgather(&[0; 2], &mut [0u8; 2]).run(ep, &neighbors).unwrap_err();
        assert_eq!(refused(unlike), (Operation::NeighborAllgather, cause));
        let outside = [Block { start: 0, len: 1 }, Block { start: 1, len: 2 }];
        let beyond = neighbor_allgatherv(&[0], &mut [0u8; 2], &outside).run(ep, &neighbors).unwrap_err();
        assert_eq!(refused(beyond), (Operation::NeighborAllgatherv, Cause::TooBig { len: 3, max: 2 }));
        // All ranks are still in step.
        let mut got = [0u8; 2];
        neighbor_alltoall(&[1, 2], &mut got).run(ep, &neighbors).unwrap();
        assert_eq!(got, [2, 1]);
    });
    run(1, |ep| {
        let world = ep.world();
        let itself = [Neighbour { rank: Rank(0), weight: None }];
        let graph = DistributedGraph::create_adjacent(ep, &world, &itself, &[]).unwrap();
        let uneven = NeighborList::new(&graph, &mut [NeighborEntry::NONE; 2]).unwrap_err();
        assert_eq!(uneven.cause, Cause::Disagreement);
        let graph = DistributedGraph::create_adjacent(ep, &world, &itself, &itself).unwrap();
        let mut entries = [NeighborEntry::NONE; 2];
        let neighbors = NeighborList::new(&graph, &mut entries).unwrap();
        let (one, two) = ([Block { start: 0, len: 1 }], [Block { start: 0, len: 2 }]);
        let unlike = neighbor_alltoallv(&[0; 2], &two, &mut [0u8; 2], &one).run(ep, &neighbors).unwrap_err();
        assert_eq!(unlike.cause, Cause::LengthMismatch { left: 2, right: 1 });
    });
}

/// A ring as a graph: of so many ranks that all receive from all, and of too many.
#[test]
fn control_slots_by_name_are_for_a_grid_or_for_few_ranks() {
    for size in [2, 8, 9] {
        run(size, |ep| {
            let (world, mut entries) = (ep.world(), [NeighborEntry::NONE; 4]);
            let me = world.rank().0;
            let (before, behind) = ((me + size - 1) % size, (me + 1) % size);
            let near = [before, behind].map(|rank| Neighbour { rank: Rank(rank), weight: None });
            let far = [near[1], near[0]];
            let ring = DistributedGraph::create_adjacent(ep, &world, &near, &far).unwrap();
            let neighbors = NeighborList::new(&ring, &mut entries).unwrap();
            let (shared, listed, mut got) = (Options::shared(), Block::packed([1; 2]), [0u8; 2]);
            let given = [me as u8, 100 + me as u8];
            let done =
                neighbor_alltoallv(&given, &listed, &mut got, &listed).with(&shared).run(ep, &neighbors);
            if size > 8 {
                let error = done.unwrap_err();
                assert_eq!(
                    (error.operation, error.cause),
                    (Operation::NeighborAlltoallv, Cause::Unsupported)
                );
            } else {
                done.unwrap();
                assert_eq!(got, [before as u8, 100 + behind as u8]);
            }
            let dimensions = [Dimension { extent: size, is_periodic: true }];
            let grid = Grid::create(ep, &world, &dimensions).unwrap().unwrap();
            let mut entries = [NeighborEntry::NONE; 4];
            let neighbors = NeighborList::new(&grid, &mut entries).unwrap();
            neighbor_alltoall(&given, &mut got).with(&shared).run(ep, &neighbors).unwrap();
            assert_eq!(got, [100 + before as u8, behind as u8]);
        });
    }
}

/// A rank that gives a neighbour a block of another length than that takes is told so, and so is
/// the neighbour.
#[test]
fn blocks_that_neighbours_take_otherwise_are_found() {
    for (len, unlike) in [(3, 2), (9_000, 8_999), (20_000, 30_000)] {
        run(2, |ep| {
            let (world, mut entries) = (ep.world(), [NeighborEntry::NONE; 2]);
            let me = world.rank().0;
            let other = [Neighbour { rank: Rank(1 - me), weight: None }];
            let pair = DistributedGraph::create_adjacent(ep, &world, &other, &other).unwrap();
            let neighbors = NeighborList::new(&pair, &mut entries).unwrap();
            let (given, taken) = ([Block { start: 0, len }], [Block { start: 0, len: unlike }]);
            let (input, mut data) = (vec![1u8; len], vec![0u8; unlike]);
            let error =
                neighbor_alltoallv(&input, &given, &mut data, &taken).run(ep, &neighbors).unwrap_err();
            assert_eq!(error.cause, Cause::UnlikeLength { own: unlike as u64, theirs: len as u64 });
            assert_eq!(error.peer(), Some(Rank(1 - me)));
        });
    }
}
