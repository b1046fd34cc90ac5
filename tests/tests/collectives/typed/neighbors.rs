//! Blocks of datatypes among neighbours, and between groups.

use aldis_coll::comm::{Dimension, Grid};
use aldis_coll::layout::TypedBlock;
use aldis_coll::neighbor::{NeighborEntry, NeighborList};
use aldis_coll::{barrier, inter, neighbor_alltoallw_typed, wait_all};
use aldis_kernel::datatype::Basic;
use aldis_kernel::hal::Cause;
use aldis_kernel::{Error, Rank};
use aldis_tests::thread_jobs::run;

use super::{attach, commit};
use crate::inter::Sides;

/// The rim of a field goes into its neighbours' halos: columns and rows, on a torus and with open
/// borders.
#[test]
fn rims_go_into_halos() {
    /// Cells of an edge, with the halo.
    const EDGE: usize = 7;
    const OLD: u32 = u32::MAX;
    for is_periodic in [true, false] {
        run(6, |endpoint| {
            attach(endpoint);
            let world = endpoint.world();
            let dimension = |extent| Dimension { extent, is_periodic };
            let torus = [dimension(2), dimension(3)];
            let grid = Grid::create(endpoint, &world, &torus).unwrap().unwrap();
            let mut entries = [NeighborEntry::NONE; 8];
            let neighbors = NeighborList::new(&grid, &mut entries).unwrap();
            let types = endpoint.types().unwrap();
            let column = types.vector(EDGE as u64 - 2, 1, EDGE as i64, Basic::U32);
            let column = commit(types, column);
            let row = types.contiguous(EDGE as u64 - 2, Basic::U32);
            let row = commit(types, row);
            let at = |row: usize, column: usize| (row * EDGE + column) * size_of::<u32>();
            let last = EDGE - 2;
            // Up, down, left, right.
            let block =
                |(row, column): (usize, usize), of| TypedBlock::new(at(row, column).cast_signed(), 1, of);
            let given = [((1, 1), row), ((last, 1), row), ((1, 1), column), ((1, last), column)]
                .map(|(place, of)| block(place, of));
            let blocks = [((0, 1), row), ((last + 1, 1), row), ((1, 0), column), ((1, last + 1), column)]
                .map(|(place, of)| block(place, of));
            let cell = |rank: u32, row: usize, column: usize| rank << 8 | (at(row, column) as u32);
            let me = grid.comm().rank().0;
            let inside: Vec<u32> =
                (0..EDGE * EDGE).map(|place| cell(me, place / EDGE, place % EDGE)).collect();
            let mut expected = vec![OLD; EDGE * EDGE];
            let (y, x) = (me / 3, me % 3);
            let is_there = |inner: bool| inner || is_periodic;
            for step in 1..=last {
                let mut put = |row: usize, column: usize, there: bool, value: u32| {
                    if there {
                        expected[row * EDGE + column] = value;
                    }
                };
                let (up, down) = ((y + 1) % 2 * 3 + x, (y + 1) % 2 * 3 + x);
                let (left, right) = (y * 3 + (x + 2) % 3, y * 3 + (x + 1) % 3);
                put(0, step, is_there(y > 0), cell(up, last, step));
                put(last + 1, step, is_there(y < 1), cell(down, 1, step));
                put(step, 0, is_there(x > 0), cell(left, step, last));
                put(step, last + 1, is_there(x < 2), cell(right, step, 1));
            }
            let mut halo = vec![OLD; EDGE * EDGE];
            neighbor_alltoallw_typed(&inside, &given, &mut halo, &blocks).run(endpoint, &neighbors).unwrap();
            assert_eq!(halo, expected);
            let (mut one, mut other) = (vec![OLD; EDGE * EDGE], vec![OLD; EDGE * EDGE]);
            let (a, b) = (&mut one, &mut other);
            endpoint
                .scope(|scope| {
                    let mut made = neighbor_alltoallw_typed(&inside, &given, a, &blocks)
                        .persistent(scope, &neighbors)?;
                    let mut flying =
                        [neighbor_alltoallw_typed(&inside, &given, b, &blocks).start(scope, &neighbors)?];
                    for _ in 0..2 {
                        made.edit(scope, |halo: &mut [u32]| halo.fill(OLD))?;
                        made.start(scope)?;
                        made.wait(scope)?;
                        made.edit(scope, |halo: &mut [u32]| assert_eq!(halo, expected))?;
                    }
                    wait_all(scope, &mut flying)
                })
                .unwrap();
            assert_eq!(other, expected);
            // What is wrong names the neighbour, where there is one.
            let mut wrong = given;
            wrong[2].origin = 4 * (EDGE * EDGE).cast_signed();
            let told =
                neighbor_alltoallw_typed(&inside, &wrong, &mut halo, &blocks).run(endpoint, &neighbors);
            let error = told.unwrap_err();
            assert!(matches!(error.cause, Cause::TooBig { .. }), "{error}");
            let left = Rank(y * 3 + (x + 2) % 3);
            assert_eq!(error.peer(), is_there(x > 0).then_some(left));
        });
    }
}

/// Ranks of one group give pairs, those of the other get them apart, and the other way round.
#[test]
fn blocks_of_datatypes_go_between_groups() {
    run(5, |endpoint| {
        attach(endpoint);
        let sides = Sides::new(endpoint, 2);
        let (between, rank) = (sides.between, sides.between.rank().0);
        let there = between.remote_size() as usize;
        let types = endpoint.types().unwrap();
        let apart = types.vector(2, 1, there as i64, Basic::U32);
        let apart = commit(types, apart);
        // Of a pair for each, the first ones stand first: so they are between each other.
        let given: Vec<_> = (0..there).map(|to| TypedBlock::new(4 * to.cast_signed(), 1, apart)).collect();
        let blocks: Vec<_> =
            (0..there).map(|from| TypedBlock::new(8 * from.cast_signed(), 2, Basic::U32)).collect();
        let here = between.size();
        let mut input: Vec<u32> = (0..2 * there as u32).map(|at| 100 * rank + at).collect();
        let expected: Vec<u32> =
            (0..there as u32).flat_map(|from| [100 * from + rank, 100 * from + here + rank]).collect();
        let mut data = vec![0; 2 * there];
        inter::alltoallw_typed(&input, &given, &mut data, &blocks).run(endpoint, &between).unwrap();
        assert_eq!(data, expected);
        let (input, came) = (&mut input, &mut data);
        endpoint
            .scope(|scope| {
                let call = inter::alltoallw_typed(input, &given, came, &blocks);
                let mut made = call.persistent(scope, &between)?;
                for start in 1..4 {
                    made.edit_input(scope, |input: &mut [u32]| input.iter_mut().for_each(|it| *it += 1))?;
                    made.start(scope)?;
                    made.wait(scope)?;
                    made.edit(scope, |data: &mut [u32]| {
                        assert!(data.iter().zip(&expected).all(|(came, first)| *came == first + start));
                    })?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
        barrier().run(endpoint, &endpoint.world()).unwrap();
    });
}
