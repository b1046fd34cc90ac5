//! A stencil on a torus of blocks: every step each rank exchanges its edges with four neighbours,
//! which in small jobs are one and the same rank or itself.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Tag};

use super::{Outcome, Random};

/// Cells along a side of a block.
const SIDE: usize = 6;
/// A block with its halo.
type HaloBlock = [[u64; SIDE + 2]; SIDE + 2];

/// Some steps, then a comparison with the same steps over all that can have reached this block.
pub(super) fn run<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, seed: u64) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0 as usize, world.size());
    let steps = Random::new(seed, 25).within(1, 5) as usize;
    let columns = columns(size) as usize;
    let (height, width) = (size as usize / columns * SIDE, columns * SIDE);
    let (top, left) = (me / columns * SIDE, me % columns * SIDE);
    let cell = |row: usize, column: usize| {
        Random::new(seed, ((row % height) * width + column % width) as u64).draw()
    };
    let mut block: HaloBlock = Default::default();
    for (row, column) in inner() {
        block[row][column] = cell(top + row - 1, left + column - 1);
    }
    for _ in 0..steps {
        exchange(ep, &world, columns, &mut block)?;
        block = step(&block);
    }
    // What lies further off than there were steps has not come here.
    let span = SIDE + 2 * steps;
    let far = |start: usize, at: usize, all: usize| start + at + steps.div_ceil(all) * all - steps;
    let mut area: Vec<Vec<u64>> = (0..span)
        .map(|row| (0..span).map(|column| cell(far(top, row, height), far(left, column, width))).collect())
        .collect();
    for _ in 0..steps {
        let before = area.clone();
        for (row, column) in (1..span - 1).flat_map(|row| (1..span - 1).map(move |column| (row, column))) {
            area[row][column] = stencil(|down, right| before[row + down - 1][column + right - 1]);
        }
    }
    let right = inner().all(|(row, column)| block[row][column] == area[steps + row - 1][steps + column - 1]);
    if right { Ok(()) } else { Err(format!("the block is wrong after {steps} steps").into()) }
}

fn inner() -> impl Iterator<Item = (usize, usize)> {
    (1..=SIDE).flat_map(|row| (1..=SIDE).map(move |column| (row, column)))
}

/// A cell from its neighbourhood, given by offsets from 0 to 2; the cell itself is (1, 1).
fn stencil(at: impl Fn(usize, usize) -> u64) -> u64 {
    let around = at(0, 1).wrapping_add(at(2, 1)).wrapping_sub(at(1, 0)).rotate_left(7);
    around.wrapping_mul(31).wrapping_add(at(1, 2)) ^ at(1, 1)
}

fn step(block: &HaloBlock) -> HaloBlock {
    let mut next = *block;
    for (row, column) in inner() {
        next[row][column] = stencil(|down, right| block[row + down - 1][column + right - 1]);
    }
    next
}

/// Sends the block's edges to its neighbours and takes theirs in. A message's tag is the side at
/// which it leaves.
fn exchange<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    world: &Comm,
    columns: usize,
    block: &mut HaloBlock,
) -> Result<(), Error> {
    let (me, rows) = (world.rank().0 as usize, world.size() as usize / columns);
    let (row, column) = (me / columns, me % columns);
    let at = |row: usize, column: usize| Rank(((row % rows) * columns + column % columns) as u32);
    // North, south, west, east.
    let neighbours =
        [at(row + rows - 1, column), at(row + 1, column), at(row, column + columns - 1), at(row, column + 1)];
    let line = |index: usize| core::array::from_fn(|at| block[index][at + 1]);
    let pile = |index: usize| core::array::from_fn(|at| block[at + 1][index]);
    let edges: [[u64; SIDE]; 4] = [line(1), line(SIDE), pile(1), pile(SIDE)];
    let mut halos = [[0_u64; SIDE]; 4];
    ep.scope(|scope| {
        let mut requests = Vec::new();
        for (side, (halo, from)) in halos.iter_mut().zip(neighbours).enumerate() {
            requests.push(scope.irecv(world, halo, from, Tag(40 + (side as u32 ^ 1)))?);
        }
        for (side, (edge, to)) in edges.iter().zip(neighbours).enumerate() {
            requests.push(scope.isend(world, edge, to, Tag(40 + side as u32))?);
        }
        scope.wait_all(&mut requests)
    })?;
    for at in 1..=SIDE {
        (block[0][at], block[SIDE + 1][at]) = (halos[0][at - 1], halos[1][at - 1]);
        (block[at][0], block[at][SIDE + 1]) = (halos[2][at - 1], halos[3][at - 1]);
    }
    Ok(())
}

/// Columns of the grid of `ranks` blocks that is nearest to a square without holes.
fn columns(ranks: u32) -> u32 {
    (1..=ranks.isqrt().max(1)).rev().find(|rows| ranks.is_multiple_of(*rows)).map_or(1, |rows| ranks / rows)
}
