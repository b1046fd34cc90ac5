//! Chapter 8: virtual topologies.

use aldis_coll::comm::{
    Dimension, DistributedGraph, Edge, Graph, Grid, Neighbour, SplitChoice, Topology, dims_create, free,
};
use aldis_coll::neighbor::{NeighborEntry, NeighborList, neighbor_allgather, neighbor_alltoall};
use aldis_hal::{Cause, Platform, Transport};
use aldis_kernel::{Endpoint, Error, Rank, Tag};

use super::Outcome;

cases! {
    "8.5.1", 8: a_grid_takes_the_first_ranks_and_leaves_the_others;
    "8.5.1", 4: a_grid_that_is_too_large_is_an_error_on_all_ranks;
    "8.5.5", 6: coordinates_and_ranks_are_row_major;
    "8.5.6", 6: a_shift_goes_round_a_torus_and_ends_at_an_edge;
    "8.5.6", 9: halos_are_exchanged_on_a_torus;
    "8.5.7", 8: slices_of_a_grid_are_grids;
    "8.5.2", 1: extents_are_as_equal_as_can_be;
    "8.5.3", 5: a_graph_knows_everybodys_neighbours;
    "8.5.3", 4: a_graph_that_ranks_do_not_agree_on_is_an_error_on_all;
    "8.5.4", 5: each_rank_names_its_own_neighbours;
    "8.5.4", 5: edges_are_told_to_both_of_their_ends;
    "8.6", 2: what_goes_one_way_arrives_from_the_other;
    "8.6", 5: neighbours_gather_in_the_order_of_their_lists;
    "8.5.5", 5: neighbours_of_any_topology_exchange;
}

const fn along(extent: u32, is_periodic: bool) -> Dimension {
    Dimension { extent, is_periodic }
}

fn a_grid_takes_the_first_ranks_and_leaves_the_others<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?;
    assert_eq!(grid.is_some(), world.rank().0 < 6);
    if let Some(grid) = grid {
        assert_eq!((grid.comm().size(), grid.comm().rank()), (6, world.rank()));
        assert_eq!(grid.dimensions(), dimensions);
        free(ep, *grid.comm())?;
    }
    Ok(())
}

fn a_grid_that_is_too_large_is_an_error_on_all_ranks<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    for (dimensions, places) in
        [([along(5, true), along(1, true)], 5), ([along(2, false), along(0, true)], 0)]
    {
        let error = Grid::create(ep, &world, &dimensions).expect_err("it has no such places");
        assert_eq!(error.cause, Cause::LengthMismatch { left: places, right: 4 });
    }
    Ok(())
}

fn coordinates_and_ranks_are_row_major<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has six places")?;
    let mut own = [9; 2];
    for rank in 0..6 {
        grid.coordinates(Rank(rank), &mut own)?;
        assert_eq!(own, [rank / 3, rank % 3]);
        let [row, column] = own.map(|coordinate| coordinate as i32);
        for turns in [-1, 0, 2] {
            assert_eq!(grid.rank(&[row, column + 3 * turns]), Ok(Rank(rank)), "round and round");
        }
    }
    assert_eq!(grid.rank(&[2, 0]), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
    assert_eq!(grid.rank(&[1]), Err(Cause::LengthMismatch { left: 1, right: 2 }));
    assert_eq!(grid.coordinates(Rank(6), &mut own), Err(Cause::RankOutOfRange { rank: 6, size: 6 }));
    Ok(free(ep, *grid.comm())?)
}

fn a_shift_goes_round_a_torus_and_ends_at_an_edge<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(3, true)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has six places")?;
    let me = world.rank().0;
    let (row, column) = (me / 3, me % 3);
    let at = |column: u32| Rank(row * 3 + column % 3);
    assert_eq!(grid.shift(1, 1), Ok((at(column + 2), at(column + 1))));
    assert_eq!(grid.shift(1, -2), Ok((at(column + 2), at(column + 1))), "two back is one on");
    let down = if row == 0 { (Rank::NULL, Rank(me + 3)) } else { (Rank(me - 3), Rank::NULL) };
    assert_eq!(grid.shift(0, 1), Ok(down));
    assert_eq!(grid.shift(2, 1), Err(Cause::RankOutOfRange { rank: 2, size: 2 }));
    let (from, to) = down;
    let mut got = [99];
    ep.sendrecv(grid.comm(), &[me], to, Tag(0), &mut got, from, Tag(0))?;
    assert_eq!(got, [if row == 0 { 99 } else { me - 3 }]);
    Ok(free(ep, *grid.comm())?)
}

fn halos_are_exchanged_on_a_torus<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(3, true); 2]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has nine places")?;
    let (me, comm) = (world.rank().0, *grid.comm());
    for step in 0..3 {
        let edge = [1000 * step + me; 50];
        let mut rims = [[0_u32; 50]; 4];
        ep.scope(|scope| {
            let mut requests = Vec::new();
            for (side, rim) in (0..).zip(&mut rims) {
                let (from, _) =
                    grid.shift(side / 2, if side % 2 == 0 { 1 } else { -1 }).expect("two dimensions");
                requests.push(scope.irecv(&comm, rim, from, Tag(side as u32))?);
            }
            for side in 0..4 {
                let (_, to) =
                    grid.shift(side / 2, if side % 2 == 0 { 1 } else { -1 }).expect("two dimensions");
                requests.push(scope.isend(&comm, &edge, to, Tag(side as u32))?);
            }
            scope.wait_all(&mut requests)
        })?;
        let at = |row: u32, column: u32| [1000 * step + row % 3 * 3 + column % 3; 50];
        let (row, column) = (me / 3, me % 3);
        let due = [at(row + 2, column), at(row + 1, column), at(row, column + 2), at(row, column + 1)];
        assert_eq!(rims, due);
    }
    Ok(free(ep, comm)?)
}

/// Both neighbours along the dimension are the same rank.
fn what_goes_one_way_arrives_from_the_other<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, dimensions, mut entries) =
        (ep.world(), [along(2, true), along(1, true)], [NeighborEntry::NONE; 8]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has two places")?;
    let neighbors = NeighborList::new(&grid, &mut entries)?;
    let given = |rank: u32| [0, 1, 2, 3].map(|way| 10 * rank + way);
    let (me, mut got) = (world.rank().0, [0; 4]);
    neighbor_alltoall(&given(me), &mut got).run(ep, &neighbors)?;
    let ([down, up, ..], [.., west, east]) = (given(1 - me), given(me));
    assert_eq!(got, [up, down, east, west]);
    Ok(free(ep, *grid.comm())?)
}

fn neighbours_gather_in_the_order_of_their_lists<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let (world, mut entries) = (ep.world(), [NeighborEntry::NONE; 6]);
    let (me, size) = (world.rank().0, world.size());
    let at = |rank: u32| Neighbour { rank: Rank(rank % size), weight: None };
    // Twice the rank behind, and oneself between.
    let (sources, destinations) =
        ([at(me + 1), at(me), at(me + 1)], [at(me + size - 1), at(me + size - 1), at(me)]);
    let graph = DistributedGraph::create_adjacent(ep, &world, &sources, &destinations)?;
    let neighbors = NeighborList::new(&graph, &mut entries)?;
    let (mut gathered, mut swapped) = ([9; 3], [9; 3]);
    neighbor_allgather(&[me], &mut gathered).run(ep, &neighbors)?;
    neighbor_alltoall(&[0, 1, 2].map(|place| 10 * me + place), &mut swapped).run(ep, &neighbors)?;
    let next = (me + 1) % size;
    assert_eq!(gathered, [next, me, next]);
    assert_eq!(swapped, [10 * next, 10 * me + 2, 10 * next + 1]);
    Ok(free(ep, *graph.comm())?)
}

fn slices_of_a_grid_are_grids<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, dimensions) = (ep.world(), [along(2, false), along(2, true), along(2, false)]);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("it has eight places")?;
    let me = world.rank().0;
    let (mut scratch, mut kept) = ([SplitChoice::NONE; 8], [Dimension::default(); 3]);
    let plane = grid.sub(ep, &[true, false, true], &mut kept, &mut scratch)?;
    assert_eq!(plane.dimensions(), [along(2, false), along(2, false)]);
    let (deep, low) = (me / 4, me % 2);
    assert_eq!(plane.comm().rank(), Rank(2 * deep + low));
    let members: Vec<u32> = ep.comm(plane.comm()).group()?.processes().map(|process| process.0).collect();
    let middle = me / 2 % 2 * 2;
    assert_eq!(members, [middle, middle + 1, middle + 4, middle + 5]);
    let plane = *plane.comm();
    let mut got = [0];
    let other = Rank(3 - plane.rank().0);
    ep.sendrecv(&plane, &[me], other, Tag(1), &mut got, other, Tag(1))?;
    assert_eq!(got, [members[other.0 as usize]]);
    free(ep, plane)?;
    Ok(free(ep, *grid.comm())?)
}

fn extents_are_as_equal_as_can_be<T: Transport, P: Platform>(_: &mut Endpoint<'_, T, P>) -> Outcome {
    let extents = |ranks, given: [u32; 3]| {
        let mut dimensions = given.map(|extent| along(extent, false));
        dims_create(ranks, &mut dimensions).map(|()| dimensions.map(|dimension| dimension.extent))
    };
    assert_eq!(extents(6, [0, 0, 1]), Ok([3, 2, 1]));
    assert_eq!(extents(7, [0, 0, 1]), Ok([7, 1, 1]));
    assert_eq!(extents(6, [0, 3, 0]), Ok([2, 3, 1]));
    assert_eq!(extents(7, [0, 3, 0]), Err(Cause::LengthMismatch { left: 7, right: 3 }));
    Ok(())
}

/// Example 8.3 of the standard with a fifth rank that is in no graph: the neighbours of 0 to 3 are
/// {1, 3}, {0}, {3}, {0, 2}.
const INDEX: [u32; 4] = [2, 3, 4, 6];
const EDGES: [u32; 6] = [1, 3, 0, 3, 0, 2];

/// Exchanges with all neighbours, each of which must tell its process and how often it was asked.
fn exchange<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    topology: &impl Topology,
) -> Result<Vec<u32>, Error> {
    let comm = *topology.comm();
    let (sources, destinations) = (topology.sources(), topology.destinations());
    let (sources, destinations): (Vec<_>, Vec<_>) = (sources.collect(), destinations.collect());
    let (data, mut got) = ([comm.rank().0], vec![[99_u32]; sources.len()]);
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (from, got) in sources.iter().zip(&mut got) {
            requests.push(scope.irecv(&comm, got, *from, Tag(1))?);
        }
        for to in destinations {
            requests.push(scope.isend(&comm, &data, to, Tag(1))?);
        }
        scope.wait_all(&mut requests)
    })?;
    let due = |from: &Rank| if *from == Rank::NULL { 99 } else { from.0 };
    let got: Vec<u32> = got.iter().map(|got| got[0]).collect();
    assert_eq!(got, sources.iter().map(due).collect::<Vec<_>>());
    Ok(got)
}

fn a_graph_knows_everybodys_neighbours<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    assert_eq!(Graph::map(&world, &INDEX, &EDGES)?.is_some(), world.rank().0 < 4);
    let graph = Graph::create(ep, &world, &INDEX, &EDGES)?;
    assert_eq!(graph.is_some(), world.rank().0 < 4);
    let Some(graph) = graph else { return Ok(()) };
    let lists: [&[u32]; 4] = [&[1, 3], &[0], &[3], &[0, 2]];
    for (rank, due) in (0..).zip(lists) {
        let found: Vec<u32> = graph.neighbours(Rank(rank))?.map(|rank| rank.0).collect();
        assert_eq!(found, due);
    }
    assert_eq!(exchange(ep, &graph)?, lists[world.rank().0 as usize]);
    Ok(free(ep, *graph.comm())?)
}

fn a_graph_that_ranks_do_not_agree_on_is_an_error_on_all<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
) -> Outcome {
    let world = ep.world();
    let edges = if world.rank() == Rank(2) { [1, 3, 0, 3, 0, 1] } else { EDGES };
    let error = Graph::create(ep, &world, &INDEX, &edges).expect_err("rank 2 has another graph");
    assert_eq!(error.cause, Cause::Disagreement);
    let error = Graph::create(ep, &world, &[2, 3, 4], &EDGES).expect_err("there are more edges");
    assert!(matches!(error.cause, Cause::LengthMismatch { .. }), "{error}");
    Ok(())
}

fn each_rank_names_its_own_neighbours<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    // From the one before and the one two before, to the one after and the one two after.
    let neighbour = |by: u32, weight| Neighbour { rank: Rank((me + by) % size), weight: Some(weight) };
    let sources = [neighbour(size - 1, 1), neighbour(size - 2, 2)];
    let destinations = [neighbour(1, 1), neighbour(2, 2)];
    let graph = DistributedGraph::create_adjacent(ep, &world, &sources, &destinations)?;
    assert!(graph.is_weighted() && graph.sources() == sources && graph.destinations() == destinations);
    assert_eq!(exchange(ep, &graph)?, [(me + size - 1) % size, (me + size - 2) % size]);
    Ok(free(ep, *graph.comm())?)
}

fn edges_are_told_to_both_of_their_ends<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let (world, mut memory) = (ep.world(), [Neighbour::NONE; 8]);
    let (me, size) = (world.rank().0, world.size());
    // Each rank tells of the edges of the next one: a star around rank 0, in both directions.
    let next = (me + 1) % size;
    let edge =
        |source, destination| Edge { source: Rank(source), destination: Rank(destination), weight: None };
    let edges = if next == 0 { vec![] } else { vec![edge(next, 0), edge(0, next)] };
    let graph = DistributedGraph::create(ep, &world, &edges, &mut memory)?;
    let ranks = |list: &[Neighbour]| {
        let mut ranks: Vec<u32> = list.iter().map(|neighbour| neighbour.rank.0).collect();
        ranks.sort_unstable();
        ranks
    };
    let due = if me == 0 { vec![1, 2, 3, 4] } else { vec![0] };
    assert_eq!((ranks(graph.sources()), ranks(graph.destinations())), (due.clone(), due));
    assert!(!graph.is_weighted());
    exchange(ep, &graph)?;
    Ok(free(ep, *graph.comm())?)
}

fn neighbours_of_any_topology_exchange<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>) -> Outcome {
    let world = ep.world();
    // A row whose ends have no rank on one side: their neighbours there are the null process.
    let row = [along(5, false)];
    let grid = Grid::create(ep, &world, &row)?.ok_or("it has five places")?;
    let me = world.rank().0;
    let beside = |exists: bool, rank: u32| if exists { rank } else { 99 };
    let due = [beside(me > 0, me.wrapping_sub(1)), beside(me < 4, me + 1)];
    assert_eq!(exchange(ep, &grid)?, due);
    Ok(free(ep, *grid.comm())?)
}
