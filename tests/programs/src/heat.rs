//! The heat equation on a plate, cut into strips of rows, one a rank: every step each rank sends
//! its first and last row to its neighbours and receives theirs, nonblocking, and computes.
//!
//! A cell's next temperature is one expression of its own and its neighbours', so the plate is the
//! same to the last bit however it is cut and whatever computes it. Its digest shows that.

use core::time::Duration;

use aldis_coll::allreduce;
use aldis_coll::op::Sum;
use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Error, Rank, Request, Tag};

use crate::{DIGEST, Facts, ProgramFailure, digest};

/// Share of the temperature difference that flows in a step; stable below 0.25.
const CONDUCTIVITY: f64 = 0.2;

/// To the rank above, and to the one below.
const UP: Tag = Tag(1);
const DOWN: Tag = Tag(2);

/// A plate of cells; around it it is cold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plate {
    /// Cells of a row; at least one.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// The memory of a rank's strip: [`cells`](Plate::cells) twice.
#[derive(Debug)]
pub struct PlateMemory<'m> {
    /// The temperatures.
    pub cells: &'m mut [f64],
    /// Those of the next step.
    pub next: &'m mut [f64],
}

/// The plate of [`run`]: 18 KiB of stack.
const PLATE: Plate = Plate { width: 32, height: 32 };
const CELLS: usize = PLATE.cells(1);

/// Heats a plate of 32 x 32 cells for so many steps, and compares its digest with that of a plate
/// that is not cut.
///
/// # Errors
/// A call that fails, more ranks than rows, or another digest.
pub fn run<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    limit: Duration,
    steps: u32,
) -> Result<Facts, ProgramFailure> {
    let memory = PlateMemory { cells: &mut [0.0; CELLS], next: &mut [0.0; CELLS] };
    let digest = PLATE.solve(ep, limit, steps, memory)?;
    ProgramFailure::unless_equal("digest after step", steps.into(), digest, alone(steps))?;
    Ok(Facts::Digest { steps, digest })
}

/// In a frame of its own: it is not needed while messages are under way.
#[inline(never)]
fn alone(steps: u32) -> u64 {
    PLATE.solve_alone(steps, PlateMemory { cells: &mut [0.0; CELLS], next: &mut [0.0; CELLS] })
}

impl Plate {
    /// Cells of memory that a rank's strip takes at most, its halo included, when the plate is cut
    /// for `ranks`.
    pub const fn cells(&self, ranks: usize) -> usize {
        (self.height.div_ceil(ranks) + 2) * self.width
    }

    /// Heats the plate for `steps` on all ranks. Returns the digest of the whole plate, the same on
    /// all ranks.
    ///
    /// # Errors
    /// A call that fails, or more ranks than rows.
    pub fn solve<T: Transport, P: Platform>(
        &self,
        ep: &mut Endpoint<'_, T, P>,
        limit: Duration,
        steps: u32,
        memory: PlateMemory<'_>,
    ) -> Result<u64, ProgramFailure> {
        let world = ep.world();
        let (rank, ranks) = (world.rank().0 as usize, world.size() as usize);
        if ranks > self.height {
            return Err(ProgramFailure::Ranks { min: 1, max: self.height as u32 });
        }
        let mut strip = Strip::new(self, rank, ranks, memory);
        for _ in 0..steps {
            strip.exchange(ep, &world, limit)?;
            strip.step();
        }
        let mut sum = [strip.digest()];
        allreduce(Sum, &mut sum, &mut [0]).run(&mut ep.within(limit), &world)?;
        Ok(sum[0])
    }

    /// Computes the same steps on one rank, which needs no endpoint.
    pub fn solve_alone(&self, steps: u32, memory: PlateMemory<'_>) -> u64 {
        let mut strip = Strip::new(self, 0, 1, memory);
        for _ in 0..steps {
            strip.step();
        }
        strip.digest()
    }
}

/// A rank's rows with a row of halo above and below.
struct Strip<'m> {
    width: usize,
    /// The plate's row that is its first.
    top: usize,
    rows: usize,
    cells: &'m mut [f64],
    next: &'m mut [f64],
}

impl<'m> Strip<'m> {
    fn new(plate: &Plate, rank: usize, ranks: usize, memory: PlateMemory<'m>) -> Self {
        let width = plate.width;
        let (top, end) = (rank * plate.height / ranks, (rank + 1) * plate.height / ranks);
        let rows = end - top;
        let len = (rows + 2) * width;
        let (cells, next) = (&mut memory.cells[..len], &mut memory.next[..len]);
        cells.fill(0.0);
        next.fill(0.0);
        for (row, cells) in (top..end).zip(cells.chunks_exact_mut(width).skip(1)) {
            for (column, cell) in cells.iter_mut().enumerate() {
                *cell = first_temperature(row, column);
            }
        }
        Self { width, top, rows, cells, next }
    }

    /// Sends the first and the last row to the neighbours and takes theirs in as halo.
    fn exchange<T: Transport, P: Platform>(
        &mut self,
        ep: &mut Endpoint<'_, T, P>,
        world: &Comm,
        limit: Duration,
    ) -> Result<(), Error> {
        let (me, width, rows) = (world.rank().0, self.width, self.rows);
        let (halo_above, rest) = self.cells.split_at_mut(width);
        let (own, halo_below) = rest.split_at_mut(rows * width);
        let (first, last) = (&own[..width], &own[(rows - 1) * width..]);
        ep.within(limit).scope(|s| {
            let mut requests = [const { Request::null() }; 4];
            if me > 0 {
                requests[0] = s.irecv(world, halo_above, Rank(me - 1), DOWN)?;
                requests[1] = s.isend(world, first, Rank(me - 1), UP)?;
            }
            if me + 1 < world.size() {
                requests[2] = s.irecv(world, halo_below, Rank(me + 1), UP)?;
                requests[3] = s.isend(world, last, Rank(me + 1), DOWN)?;
            }
            s.wait_all(&mut requests)
        })
    }

    /// Advances by an explicit Euler step.
    fn step(&mut self) {
        let (width, cells) = (self.width, &self.cells);
        for row in 1..=self.rows {
            for column in 0..width {
                let at = row * width + column;
                let here = cells[at];
                let west = if column > 0 { cells[at - 1] } else { 0.0 };
                let east = if column + 1 < width { cells[at + 1] } else { 0.0 };
                let around = (cells[at - width] + cells[at + width]) + (west + east);
                self.next[at] = here + CONDUCTIVITY * (around - 4.0 * here);
            }
        }
        core::mem::swap(&mut self.cells, &mut self.next);
    }

    /// A hash of its rows; those of all strips sum up to the plate's.
    fn digest(&self) -> u64 {
        let rows = (self.top..).zip(self.cells.chunks_exact(self.width).skip(1)).take(self.rows);
        rows.map(|(row, cells)| {
            cells.iter().fold(digest(DIGEST, row as u64), |hash, cell| digest(hash, cell.to_bits()))
        })
        .fold(0, u64::wrapping_add)
    }
}

/// A pattern without symmetry, whole degrees from 0 to 100.
const fn first_temperature(row: usize, column: usize) -> f64 {
    ((row * 37 + column * 23 + row * column * 7) % 101) as f64
}
