//! Algorithms in two levels on nodes of many sizes, as a call names them.

use aldis_coll::allreduce;
use aldis_coll::barrier;
use aldis_coll::bcast;
use aldis_coll::hierarchy::{algorithm, ranks_per_node};
use aldis_coll::reduce;
use aldis_coll::{Options, allgather, alltoall, gather, op::Sum, scatter, wait_all};
use aldis_kernel::hal::Operation;
use aldis_kernel::{Error, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};

use crate::oracle::{Affine, Compose, fold, inputs};

fn on_nodes(operation: Operation, node: u32) -> Options {
    Options { node, ..Options::using(algorithm(operation).unwrap()) }
}

fn numbers(from: u32, count: usize) -> Vec<u32> {
    (0..count as u32).map(|at| from << 16 | at).collect()
}

fn blocks(size: u32, count: usize) -> Vec<u32> {
    (0..size).flat_map(|from| numbers(from, count)).collect()
}

fn moves_blocks(endpoint: &mut Endpoint<'_, '_>, node: u32, count: usize) {
    let (world, rank, size) = (endpoint.world(), endpoint.world().rank().0, endpoint.world().size());
    let at = |rank: u32| rank as usize * count..(rank as usize + 1) * count;
    let mut scratch = vec![0; (size as usize * count).div_ceil(2).max(size as usize)];
    for root in [0, size / 2, size - 1] {
        let mut data = if rank == root { vec![9; size as usize * count] } else { numbers(rank, count) };
        if rank == root {
            data[at(rank)].copy_from_slice(&numbers(rank, count));
        }
        let options = on_nodes(Operation::Gather, node);
        gather(&mut data, &mut scratch, Rank(root)).with(&options).run(endpoint, &world).unwrap();
        if rank == root {
            assert_eq!(data, blocks(size, count), "root {root} node {node}");
        }
        let mut data = if rank == root { blocks(size, count) } else { vec![9; count] };
        let options = on_nodes(Operation::Scatter, node);
        scatter(&mut data, &mut scratch, Rank(root)).with(&options).run(endpoint, &world).unwrap();
        let own = if rank == root { &data[at(rank)] } else { &data };
        assert_eq!(own, numbers(rank, count), "root {root} node {node}");
    }
    let mut data = vec![9; size as usize * count];
    data[at(rank)].copy_from_slice(&numbers(rank, count));
    allgather(&mut data).with(&on_nodes(Operation::Allgather, node)).run(endpoint, &world).unwrap();
    assert_eq!(data, blocks(size, count), "node {node}");
}

/// Blocks for all, in one piece and cut.
fn swaps_blocks(endpoint: &mut Endpoint<'_, '_>, node: u32, count: usize) {
    let (world, rank, size) = (endpoint.world(), endpoint.world().rank().0, endpoint.world().size());
    let block = |from: u32, to: u32| numbers(from << 8 | to, count);
    let input: Vec<u32> = (0..size).flat_map(|to| block(rank, to)).collect();
    let expected: Vec<u32> = (0..size).flat_map(|from| block(from, rank)).collect();
    for blocks in [2 * count, count, 2] {
        let (mut data, mut scratch) = (vec![9; expected.len()], vec![0; size as usize * blocks.max(2)]);
        let options = on_nodes(Operation::Alltoall, node);
        alltoall(&input, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
        assert_eq!(data, expected, "node {node} scratch {}", scratch.len());
    }
}

fn reduces(endpoint: &mut Endpoint<'_, '_>, node: u32, count: usize) {
    let (world, rank, size) = (endpoint.world(), endpoint.world().rank().0, endpoint.world().size());
    let expected = fold::<Affine, _>(Compose, 3, size, count);
    let mut scratch = vec![Affine { a: 0, b: 0 }; count.div_ceil(3).max(1)];
    let mut data: Vec<Affine> = inputs(3, rank, count);
    let options = on_nodes(Operation::Allreduce, node);
    allreduce(Compose, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
    assert_eq!(data, expected, "node {node}");
    for root in [0, size / 2, size - 1] {
        let mut data: Vec<Affine> = inputs(3, rank, count);
        let options = on_nodes(Operation::Reduce, node);
        reduce(Compose, &mut data, &mut scratch, Rank(root)).with(&options).run(endpoint, &world).unwrap();
        if rank == root {
            assert_eq!(data, expected, "root {root} node {node}");
        }
        let mut data = numbers(rank, count);
        bcast(&mut data, Rank(root)).with(&on_nodes(Operation::Bcast, node)).run(endpoint, &world).unwrap();
        assert_eq!(data, numbers(root, count), "root {root} node {node}");
    }
}

#[test]
fn every_operation_works_on_nodes_of_many_sizes() {
    for size in [1, 2, 5, 8, 9] {
        run(size, |endpoint| {
            for node in (0..=size).chain([20]) {
                for count in [0, 1, 301] {
                    moves_blocks(endpoint, node, count);
                    swaps_blocks(endpoint, node, count.min(40));
                    reduces(endpoint, node, count);
                }
                let world = endpoint.world();
                barrier().with(&on_nodes(Operation::Barrier, node)).run(endpoint, &world).unwrap();
            }
        });
    }
}

/// Nodes that are runs of ranks are found, the last one shorter or not, and no others.
#[test]
fn ranks_find_out_how_many_a_node_has() {
    let found = |size: u32, node_of: fn(u32) -> u32| {
        let all = run(size, |endpoint| {
            let (world, me) = (endpoint.world(), endpoint.process().0);
            ranks_per_node(endpoint, &world, |other| node_of(other.0) == node_of(me)).unwrap()
        });
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        all[0]
    };
    assert_eq!(found(8, |rank| rank / 4), Some(4));
    assert_eq!(found(7, |rank| rank / 3), Some(3), "the last one has one rank");
    assert_eq!(found(5, |_| 0), Some(5));
    assert_eq!(found(5, |rank| rank), Some(1));
    assert_eq!(found(8, |rank| rank % 2), None, "ranks in turn");
    assert_eq!(found(7, |rank| (rank + 1) / 4), None, "the first one is the shorter");
    assert_eq!(found(9, |rank| u32::from(rank > 1) + u32::from(rank > 5)), None, "two, four and three");
}

/// Messages left of a collective do not meet the next one.
#[test]
fn two_levels_and_one_follow_each_other() {
    run(7, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        for round in 0..20 {
            let (mut data, mut scratch) = ([rank + round; 5], [0; 5]);
            let options = if round % 2 == 0 { on_nodes(Operation::Allreduce, 3) } else { Options::default() };
            allreduce(Sum, &mut data, &mut scratch).with(&options).run(endpoint, &world).unwrap();
            assert_eq!(data, [21 + 7 * round; 5]);
        }
    });
}

/// Not blocking, two at a time; and persistent, with other blocks each time.
#[test]
fn two_level_exchanges_are_started_again() {
    run(8, |endpoint| {
        let (world, rank) = (endpoint.world(), endpoint.world().rank().0);
        // Nodes of three, three and two.
        let options = on_nodes(Operation::Alltoall, 3);
        let given = |start: u32| -> Vec<u32> { (0..8).map(|to| start << 8 | rank << 4 | to).collect() };
        let expected =
            |start: u32| -> Vec<u32> { (0..8).map(|from| start << 8 | from << 4 | rank).collect() };
        let (one, two, mut input) = (given(1), given(2), vec![0; 8]);
        let (mut data, mut scratch) = ([vec![9; 8], vec![9; 8], vec![9; 8]], vec![vec![0; 16]; 3]);
        let ([first, second, third], [a, b, c]) = (&mut data, scratch.get_disjoint_mut([0, 1, 2]).unwrap());
        let changing = &mut input;
        endpoint
            .scope(|scope| {
                let mut again = alltoall(changing, third, c).with(&options).persistent(scope, &world)?;
                let mut flying = [
                    alltoall(&one, first, a).with(&options).start(scope, &world)?,
                    alltoall(&two, second, b).with(&options).start(scope, &world)?,
                ];
                wait_all(scope, &mut flying)?;
                for start in 3..6 {
                    again.edit_input(scope, |input: &mut [u32]| input.copy_from_slice(&given(start)))?;
                    again.start(scope)?;
                    again.wait(scope)?;
                    again.edit(scope, |got: &mut [u32]| assert_eq!(got, expected(start)))?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(data[..2], [expected(1), expected(2)]);
    });
}
