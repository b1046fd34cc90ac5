//! The heat equation on a tube: blocks of a plate on a grid of ranks that is closed from west to
//! east and open to the north and south. In every step each rank swaps its four edges for those of
//! its neighbours, by one all-to-all among neighbours that is made once and started in each step;
//! while the edges travel, the inner cells are worked out. In the end rank 0 compares every cell
//! with its own run over the whole plate.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/stencil --side 256 --steps 500
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::comm::{self, Dimension, Grid, dims_create};
use aldis_coll::neighbor::{NeighborEntry, NeighborList};
use aldis_coll::{Collective, gather, neighbor_alltoall};
use aldis_kernel::Rank;
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Solve the heat equation on a grid of ranks and compare the result with one rank's.
#[derive(Parser)]
struct Arguments {
    /// Cells of a rank's block from west to east, and from north to south
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    side: u16,
    /// Time steps
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    aldis_linux::run(|ep| stencil(ep, &arguments))
}

fn stencil(ep: &mut HostEndpoint, arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let mut dimensions = [Dimension::default(); 2];
    dims_create(world.size(), &mut dimensions).map_err(|cause| cause.to_string())?;
    dimensions[1].is_periodic = true;
    let [rows, columns] = dimensions.map(|dimension| dimension.extent as usize);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("a grid of all ranks has a place for each")?;
    let mut place = [0; 2];
    grid.coordinates(grid.comm().rank(), &mut place).map_err(|cause| cause.to_string())?;
    let side = usize::from(arguments.side);

    let mut field =
        Field::new(side, side, |y, x| hot(place[0] as usize * side + y, place[1] as usize * side + x));
    let start = Instant::now();
    solve(ep, &grid, &mut field, arguments.steps)?;
    let seconds = start.elapsed().as_secs_f64();

    let mut all = field.inner();
    let is_root = grid.comm().rank() == Rank(0);
    if is_root {
        all.resize(all.len() * world.size() as usize, 0.0);
    }
    gather(&mut all, &mut [], Rank(0)).run(ep, grid.comm())?;
    comm::free(ep, *grid.comm())?;
    if is_root {
        compare(&all, [rows, columns], side, arguments.steps)?;
        report(arguments, [rows, columns], seconds);
    }
    Ok(())
}

/// Returns the heat of a cell in the beginning: a matter of its place on the plate.
fn hot(y: usize, x: usize) -> f64 {
    let mixed = ((y as u64) << 32 | x as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    f64::from(((mixed ^ (mixed >> 31)) >> 40) as u32)
}

/// Cells with a rim of one around them: what the neighbours have there, or the cold outside.
struct Field {
    height: usize,
    width: usize,
    cells: Vec<f64>,
    next: Vec<f64>,
}

impl Field {
    fn new(height: usize, width: usize, cell: impl Fn(usize, usize) -> f64) -> Self {
        let cells = vec![0.0; (height + 2) * (width + 2)];
        let mut field = Self { height, width, next: cells.clone(), cells };
        for y in 0..height {
            for x in 0..width {
                let at = field.at(y + 1, x + 1);
                field.cells[at] = cell(y, x);
            }
        }
        field
    }

    const fn at(&self, y: usize, x: usize) -> usize {
        y * (self.width + 2) + x
    }

    /// The places of a rank's edges, `rim` 0, or of those of its neighbours beside them, `rim` 1:
    /// as many in the north, the south, the west and the east of a square.
    fn edges(&self, rim: usize) -> [impl Iterator<Item = usize> + use<>; 4] {
        let (stride, last) = (self.width + 2, self.width + rim);
        let line = |start, stride| (start..).step_by(stride).take(self.height);
        let first = 1 - rim;
        [
            line(self.at(first, 1), 1),
            line(self.at(last, 1), 1),
            line(self.at(1, first), stride),
            line(self.at(1, last), stride),
        ]
    }

    /// Copies the edges to where they are sent from.
    fn pack(&self, sent: &mut [f64]) {
        for (edge, sent) in self.edges(0).into_iter().zip(sent.chunks_mut(self.height)) {
            sent.iter_mut().zip(edge).for_each(|(sent, at)| *sent = self.cells[at]);
        }
    }

    /// Copies what was received to the rim.
    fn unpack(&mut self, received: &[f64]) {
        for (edge, received) in self.edges(1).into_iter().zip(received.chunks(self.height)) {
            received.iter().zip(edge).for_each(|(received, at)| self.cells[at] = *received);
        }
    }

    fn step_cell(&mut self, y: usize, x: usize) {
        let (at, stride) = (self.at(y, x), self.width + 2);
        let around =
            (self.cells[at - stride] + self.cells[at + stride]) + (self.cells[at - 1] + self.cells[at + 1]);
        self.next[at] = self.cells[at] + 0.2 * (around - 4.0 * self.cells[at]);
    }

    /// The next step of the cells that the rim does not touch.
    fn step_inside(&mut self) {
        for y in 2..self.height {
            (2..self.width).for_each(|x| self.step_cell(y, x));
        }
    }

    /// The next step of the others; then it is the present.
    fn step_edges(&mut self) {
        for x in 1..=self.width {
            self.step_cell(1, x);
            self.step_cell(self.height, x);
        }
        for y in 1..=self.height {
            self.step_cell(y, 1);
            self.step_cell(y, self.width);
        }
        core::mem::swap(&mut self.cells, &mut self.next);
    }

    /// The rim of a field that is the whole plate.
    fn wrap(&mut self) {
        for y in 1..=self.height {
            let (west, east) = (self.at(y, 0), self.at(y, self.width + 1));
            self.cells[west] = self.cells[east - 1];
            self.cells[east] = self.cells[west + 1];
        }
    }

    /// The cells without the rim, row by row.
    fn inner(&self) -> Vec<f64> {
        (1..=self.height).flat_map(|y| &self.cells[self.at(y, 1)..=self.at(y, self.width)]).copied().collect()
    }
}

/// Computes so many steps. The exchange is planned and its memory lent once.
fn solve(
    ep: &mut HostEndpoint,
    grid: &Grid<'_>,
    field: &mut Field,
    steps: u32,
) -> Result<(), Box<dyn Error>> {
    let mut entries = [NeighborEntry::NONE; 8];
    let neighbors = NeighborList::new(grid, &mut entries)?;
    let (mut sent, mut received) = (vec![0.0; 4 * field.height], vec![0.0; 4 * field.height]);
    let (neighbors, sent, received) = (&neighbors, &mut sent, &mut received);
    ep.scope(|scope| {
        let mut halo: Collective<'_> = neighbor_alltoall(sent, received).persistent(scope, neighbors)?;
        for _ in 0..steps {
            halo.edit_input(scope, |sent: &mut [f64]| field.pack(sent))?;
            halo.start(scope)?;
            field.step_inside();
            halo.wait(scope)?;
            halo.edit(scope, |received: &mut [f64]| field.unpack(received))?;
            field.step_edges();
        }
        Ok(())
    })
    .map_err(|error: aldis_kernel::Error| error.into())
}

/// Compares the blocks of all ranks with a run over the whole plate, bit for bit.
fn compare(all: &[f64], [rows, columns]: [usize; 2], side: usize, steps: u32) -> Result<(), Box<dyn Error>> {
    let mut whole = Field::new(rows * side, columns * side, hot);
    for _ in 0..steps {
        whole.wrap();
        whole.step_inside();
        whole.step_edges();
    }
    for (rank, block) in all.chunks(side * side).enumerate() {
        for (y, row) in block.chunks(side).enumerate() {
            let start = whole.at(rank / columns * side + y + 1, rank % columns * side + 1);
            let expected = &whole.cells[start..start + side];
            if row.iter().zip(expected).any(|(one, other)| one.to_bits() != other.to_bits()) {
                return Err(format!("rank {rank} ended elsewhere than one rank alone, in its row {y}").into());
            }
        }
    }
    Ok(())
}

fn report(arguments: &Arguments, [rows, columns]: [usize; 2], seconds: f64) {
    let &Arguments { side, steps, json } = arguments;
    let step = 1e6 * seconds / f64::from(steps.max(1));
    if json {
        let line = serde_json::json!({
            "bench": "stencil", "impl": "aldis", "ranks": rows * columns, "side": side, "steps": steps, "step_us": step,
            "verified": true,
        });
        println!("{line}");
    } else {
        println!(
            "{steps} steps on {rows} x {columns} ranks of {side} x {side} cells, {step:.1} us a step, bit-identical \
             with one rank"
        );
    }
}
