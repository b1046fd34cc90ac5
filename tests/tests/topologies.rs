//! Virtual topologies over the real kernel and shared-memory rings, a thread a rank: MPI 4.1
//! chapter 8.
#![allow(missing_docs)]

use core::time::Duration;

use aldis_coll::barrier;
use aldis_coll::comm::{
    Dimension, DistributedGraph, Edge, Graph, Grid, Neighbour, Topology, TopologyKind, dims_create, free,
};
use aldis_kernel::hal::{Cause, Resource};
use aldis_kernel::{Rank, Tag};
use aldis_tests::thread_jobs::{Endpoint, run};

/// A word to each destination, and one from each source: what it must be is told by the sender's
/// rank and the position of the edge among those between the two.
fn exchange<G: Topology>(endpoint: &mut Endpoint<'_, '_>, topology: &G) {
    let (comm, me) = (*topology.comm(), topology.comm().rank().0);
    // No ring leads from a rank to itself here.
    let to: Vec<Rank> = topology.destinations().filter(|rank| rank.0 != me).collect();
    let from: Vec<Rank> = topology.sources().filter(|rank| rank.0 != me).collect();
    let number =
        |list: &[Rank], at: usize| list[..at].iter().filter(|&&rank| rank == list[at]).count() as u32;
    let mine: Vec<[u32; 2]> = (0..to.len()).map(|at| [me, number(&to, at)]).collect();
    let mut got = vec![[u32::MAX; 2]; from.len()];
    endpoint
        .scope(|scope| {
            let mut requests = Vec::new();
            for (got, &from) in got.iter_mut().zip(&from) {
                requests.push(scope.irecv(&comm, got, from, Tag(5))?);
            }
            for (mine, &to) in mine.iter().zip(&to) {
                requests.push(scope.isend(&comm, mine, to, Tag(5))?);
            }
            scope.wait_all(&mut requests)
        })
        .unwrap();
    for (at, got) in got.iter().enumerate().filter(|&(at, _)| from[at] != Rank::NULL) {
        assert_eq!(*got, [from[at].0, number(&from, at)]);
    }
    barrier().run(endpoint, &comm).unwrap();
}

/// The example of MPI 4.1 section 8.5.3, with two ranks to spare.
#[test]
fn a_graph_knows_everybodys_neighbours() {
    run(6, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let (index, edges) = ([2, 3, 4, 6], [1, 3, 0, 3, 0, 2]);
        assert_eq!(Graph::map(&world, &index, &edges), Ok((me < 4).then_some(Rank(me))));
        let graph = Graph::create(endpoint, &world, &index, &edges).unwrap();
        assert_eq!(graph.is_some(), me < 4);
        let Some(graph) = graph else { return };
        assert_eq!((graph.dims(), graph.lists()), ((4, 6), (&index[..], &edges[..])));
        let neighbours: [&[u32]; 4] = [&[1, 3], &[0], &[3], &[0, 2]];
        for (rank, due) in (0..).zip(neighbours) {
            let list = graph.neighbours(Rank(rank)).unwrap();
            assert_eq!(list.len(), due.len());
            assert!(list.map(|rank| rank.0).eq(due.iter().copied()));
        }
        let outside = graph.neighbours(Rank(4)).err();
        assert_eq!(outside, Some(Cause::RankOutOfRange { rank: 4, size: 4 }));
        assert_eq!(<Graph<'_> as Topology>::KIND, TopologyKind::Graph);
        exchange(endpoint, &graph);
        free(endpoint, *Topology::comm(&graph)).unwrap();
    });
}

#[test]
fn a_graph_that_is_none_is_refused() {
    run(4, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let mut refused = |index: &[u32], edges: &[u32]| {
            let error = Graph::create(endpoint, &world, index, edges).unwrap_err();
            if let Err(cause) = Graph::map(&world, index, edges) {
                assert_eq!(error.cause, cause);
            }
            error.cause
        };
        assert_eq!(refused(&[0; 5], &[]), Cause::LengthMismatch { left: 5, right: 4 });
        assert_eq!(refused(&[1, 2], &[0]), Cause::LengthMismatch { left: 2, right: 1 });
        assert_eq!(refused(&[2, 1], &[0, 0]), Cause::LengthMismatch { left: 1, right: 2 });
        assert_eq!(refused(&[1, 2], &[0, 2]), Cause::RankOutOfRange { rank: 2, size: 2 });
        // One rank's list has another edge.
        let edges = if me == 2 { [0, 0] } else { [1, 0] };
        assert_eq!(refused(&[1, 2], &edges), Cause::Disagreement);
        let empty = Graph::create(endpoint, &world, &[], &[]).unwrap();
        assert_eq!(empty, None);
    });
}

const fn neighbour(rank: u32, weight: u32) -> Neighbour {
    Neighbour { rank: Rank(rank), weight: Some(weight) }
}

/// A ring whose edges weigh what their ranks are, and each rank's edge to itself.
#[test]
fn a_distributed_graph_is_told_by_neighbours_or_by_edges() {
    for size in 1..=7_u32 {
        run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.process().0);
            let (before, after) = ((me + size - 1) % size, (me + 1) % size);
            let sources = [neighbour(before, before), Neighbour { rank: Rank(me), weight: None }];
            let destinations = [neighbour(after, me), Neighbour { rank: Rank(me), weight: None }];
            let adjacent =
                DistributedGraph::create_adjacent(endpoint, &world, &sources, &destinations).unwrap();
            assert_eq!((adjacent.sources(), adjacent.destinations()), (&sources[..], &destinations[..]));
            assert!(adjacent.is_weighted());
            assert_eq!(<DistributedGraph<'_> as Topology>::KIND, TopologyKind::DistributedGraph);
            exchange(endpoint, &adjacent);
            // The same, where each tells the edges of the rank that is as far from the end as it is
            // from the start; the last one tells all edges to oneself.
            let other = size - 1 - me;
            let mut edges = vec![Edge {
                source: Rank(other),
                destination: Rank((other + 1) % size),
                weight: Some(other),
            }];
            let own =
                (0..size).map(|rank| Edge { source: Rank(rank), destination: Rank(rank), weight: None });
            if me == size - 1 {
                edges.extend(own);
            }
            let mut memory = [Neighbour::NONE; 4];
            let told = DistributedGraph::create(endpoint, &world, &edges, &mut memory).unwrap();
            let sorted = |list: &[Neighbour]| {
                let mut list = list.to_vec();
                list.sort_by_key(|neighbour| (neighbour.rank, neighbour.weight));
                list
            };
            assert_eq!(sorted(told.sources()), sorted(&sources));
            assert_eq!(sorted(told.destinations()), sorted(&destinations));
            exchange(endpoint, &told);
            free(endpoint, *Topology::comm(&told)).unwrap();
            free(endpoint, *Topology::comm(&adjacent)).unwrap();
        });
    }
}

/// Random edges, each told by a random rank, several between the same ranks, more than a message
/// holds.
#[test]
fn edges_come_to_their_ranks_whoever_tells_them() {
    for seed in 0..12_u32 {
        let size = 1 + seed % 8;
        let draw = |at: u32| (seed * 1000 + at).wrapping_mul(0x9E37_79B1) >> 8;
        let all: Vec<(u32, Edge)> = (0..seed * 12)
            .map(|at| {
                let rank = |of: u32| Rank(draw(4 * at + of) % size);
                let weight = draw(4 * at + 3).is_multiple_of(3).then_some(at);
                (draw(4 * at) % size, Edge { source: rank(1), destination: rank(2), weight })
            })
            .collect();
        run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.process().0);
            let told: Vec<Edge> = all.iter().filter(|(by, _)| *by == me).map(|&(_, edge)| edge).collect();
            // From the first teller at or below this rank downwards, each in the order of its list.
            let due = |is_mine: fn(&Edge) -> Rank, other: fn(&Edge) -> Rank| {
                let tellers = (0..size).map(|distance| (me + size - distance) % size);
                let edges = tellers.flat_map(|teller| all.iter().filter(move |(by, _)| *by == teller));
                let mine = edges.filter(|(_, edge)| is_mine(edge) == Rank(me));
                let list = mine.map(|(_, edge)| Neighbour { rank: other(edge), weight: edge.weight });
                list.collect::<Vec<_>>()
            };
            let sources = due(|edge| edge.destination, |edge| edge.source);
            let destinations = due(|edge| edge.source, |edge| edge.destination);
            let mut memory = vec![Neighbour::NONE; sources.len() + destinations.len() + me as usize];
            let graph = DistributedGraph::create(endpoint, &world, &told, &mut memory).unwrap();
            assert_eq!((graph.sources(), graph.destinations()), (&sources[..], &destinations[..]));
            free(endpoint, *Topology::comm(&graph)).unwrap();
        });
    }
}

#[test]
fn a_distributed_graph_that_one_rank_cannot_make_is_refused_on_all() {
    run(3, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let edge =
            |source, destination| Edge { source: Rank(source), destination: Rank(destination), weight: None };
        // Rank 1 has three ends and room for two.
        let edges = [edge(0, 1), edge(1, 2), edge(1, 0)];
        let edges: &[Edge] = if me == 0 { &edges } else { &[] };
        let mut memory = [Neighbour::NONE; 2];
        let error = DistributedGraph::create(endpoint, &world, edges, &mut memory).unwrap_err();
        let what = Resource::Scratch;
        match me {
            1 => assert_eq!(error.cause, Cause::TooSmall { what, need: 3, have: 2 }),
            _ => assert_eq!((error.cause, error.peer()), (Cause::Full(what), Some(Rank(1)))),
        }
        let edges = [edge(2, if me == 2 { 3 } else { 1 })];
        let mut memory = [Neighbour::NONE; 8];
        let error = DistributedGraph::create(endpoint, &world, &edges, &mut memory).unwrap_err();
        let outside = Cause::RankOutOfRange { rank: 3, size: 3 };
        match me {
            2 => assert_eq!(error.cause, outside),
            _ => assert_eq!((error.cause, error.peer()), (Cause::Declined, Some(Rank(2)))),
        }
        let far = [Neighbour { rank: Rank(if me == 2 { 3 } else { 0 }), weight: None }];
        let error = DistributedGraph::create_adjacent(endpoint, &world, &far, &[]).unwrap_err();
        assert_eq!(error.cause, if me == 2 { outside } else { Cause::Declined });
        // No rank comes but these two.
        barrier().run(endpoint, &world).unwrap();
        if me != 1 {
            let limit = &mut endpoint.within(Duration::from_millis(20));
            let error = DistributedGraph::create_adjacent(limit, &world, &[], &[]).unwrap_err();
            assert!(matches!(error.cause, Cause::TimedOut | Cause::Declined), "{error}");
        }
    });
}

/// A grid chosen by `dims_create`, its neighbours by the same trait as those of graphs.
#[test]
fn a_grid_has_neighbours_too() {
    run(8, |endpoint| {
        let (world, me) = (endpoint.world(), endpoint.process().0);
        let mut dimensions = [0, 2].map(|extent| Dimension { extent, is_periodic: extent == 0 });
        dims_create(world.size(), &mut dimensions).unwrap();
        assert_eq!(dimensions.map(|dimension| dimension.extent), [4, 2]);
        assert_eq!(Grid::map(&world, &dimensions), Ok(Some(Rank(me))));
        assert_eq!(Grid::map(&world, &dimensions[1..]), Ok((me < 2).then_some(Rank(me))));
        let large = [Dimension { extent: 9, is_periodic: true }];
        assert_eq!(Grid::map(&world, &large), Err(Cause::LengthMismatch { left: 9, right: 8 }));
        let grid = Grid::create(endpoint, &world, &dimensions).unwrap().unwrap();
        let around = [Rank((me + 6) % 8), Rank((me + 2) % 8)];
        let across = if me % 2 == 0 { [Rank::NULL, Rank(me + 1)] } else { [Rank(me - 1), Rank::NULL] };
        assert!(grid.sources().eq(around.into_iter().chain(across)));
        assert_eq!(<Grid<'_> as Topology>::KIND, TopologyKind::Grid);
        exchange(endpoint, &grid);
        free(endpoint, *grid.comm()).unwrap();
    });
}
