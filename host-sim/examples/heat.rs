//! The heat equation on a plate, cut into blocks, one a rank: every step each rank exchanges its edges with its
//! neighbours by nonblocking sends and receives in a scope. In the end rank 0 collects the plate and compares it, bit
//! for bit, with its own run over the uncut plate.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/heat --width 512 --height 512 --steps 400
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_host_sim::HostEndpoint;
use aldis_kernel::{Comm, Rank, Tag};
use clap::Parser;

/// Solve the 2-D heat equation on all ranks and compare the result with one rank's.
#[derive(Parser)]
struct Options {
    /// Cells from west to east
    #[arg(long, default_value_t = 256)]
    width: usize,
    /// Cells from north to south
    #[arg(long, default_value_t = 256)]
    height: usize,
    /// Time steps
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// One JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

/// Share of the temperature difference that flows in a step; stable below 0.25.
const CONDUCTIVITY: f64 = 0.2;

/// The message that carries a finished block.
const RESULT: Tag = Tag(9);

/// The four sides of a block. A message's tag is the side at which its sender left it.
const SIDES: [Side; 4] = [Side::North, Side::South, Side::West, Side::East];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    North,
    South,
    West,
    East,
}

impl Side {
    const fn opposite(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::South => Self::North,
            Self::West => Self::East,
            Self::East => Self::West,
        }
    }

    const fn tag(self) -> Tag {
        Tag(self as u32)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_host_sim::run(|ep| heat(ep, &options))
}

fn heat(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let layout = Layout::of(world.size() as usize, options.width, options.height);
    let mut block = layout.block(world.rank().0 as usize);
    let neighbours = SIDES.map(|side| layout.neighbour(world.rank().0 as usize, side));
    let start = Instant::now();
    for _ in 0..options.steps {
        exchange(ep, &world, &mut block, &neighbours)?;
        block.step();
    }
    let seconds = start.elapsed().as_secs_f64();
    if world.rank() != Rank(0) {
        ep.send(&world, &block.inner(), Rank(0), RESULT)?;
        return Ok(());
    }
    let plate = collect(ep, &world, &layout, &block)?;
    compare(&plate, options)?;
    report(options, &layout, seconds);
    Ok(())
}

/// Sends the block's edges to its neighbours and takes theirs in as its halo.
fn exchange(
    ep: &mut HostEndpoint,
    world: &Comm,
    block: &mut Block,
    neighbours: &[Option<Rank>; 4],
) -> Result<(), aldis_kernel::Error> {
    let edges = SIDES.map(|side| block.edge(side));
    let mut halos = edges.each_ref().map(|edge| vec![0.0; edge.len()]);
    ep.scope(|s| {
        let mut requests = Vec::new();
        for ((side, halo), neighbour) in SIDES.into_iter().zip(&mut halos).zip(neighbours) {
            if let Some(neighbour) = neighbour {
                requests.push(s.irecv(world, halo, *neighbour, side.opposite().tag())?);
            }
        }
        for ((side, edge), neighbour) in SIDES.into_iter().zip(&edges).zip(neighbours) {
            if let Some(neighbour) = neighbour {
                requests.push(s.isend(world, edge, *neighbour, side.tag())?);
            }
        }
        s.wait_all(&mut requests)
    })?;
    for ((side, halo), neighbour) in SIDES.into_iter().zip(&halos).zip(neighbours) {
        if neighbour.is_some() {
            block.set_halo(side, halo);
        }
    }
    Ok(())
}

/// Puts the ranks' blocks together.
fn collect(
    ep: &mut HostEndpoint,
    world: &Comm,
    layout: &Layout,
    own: &Block,
) -> Result<Vec<f64>, aldis_kernel::Error> {
    let mut plate = vec![0.0; layout.width * layout.height];
    for rank in 0..world.size() {
        let block = layout.block(rank as usize);
        let mut cells = own.inner();
        if rank != 0 {
            cells = vec![0.0; block.width * block.height];
            ep.recv(world, &mut cells, Rank(rank), RESULT)?;
        }
        for (row, cells) in cells.chunks(block.width).enumerate() {
            let at = (block.top + row) * layout.width + block.left;
            plate[at..at + block.width].copy_from_slice(cells);
        }
    }
    Ok(plate)
}

/// Runs the uncut plate and compares every bit.
fn compare(plate: &[f64], options: &Options) -> Result<(), Box<dyn Error>> {
    let mut whole = Layout::of(1, options.width, options.height).block(0);
    for _ in 0..options.steps {
        whole.step();
    }
    let differs = |(ours, alone): &(&f64, &f64)| ours.to_bits() != alone.to_bits();
    match plate.iter().zip(&whole.inner()).position(|pair| differs(&pair)) {
        None => Ok(()),
        Some(at) => {
            let (row, column) = (at / options.width, at % options.width);
            Err(format!("row {row}, column {column} differs from the one-rank run").into())
        }
    }
}

fn report(options: &Options, layout: &Layout, seconds: f64) {
    let (columns, rows) = (layout.columns, layout.rows);
    let step = 1e6 * seconds / f64::from(options.steps.max(1));
    if options.json {
        let line = serde_json::json!({
            "bench": "heat", "impl": "aldis", "ranks": columns * rows, "width": options.width,
            "height": options.height, "steps": options.steps, "step_us": step, "verified": true,
        });
        println!("{line}");
    } else {
        let (width, height, steps) = (options.width, options.height, options.steps);
        println!(
            "{steps} steps of {width} x {height} cells on {columns} x {rows} ranks, {step:.1} us a step, \
             bit-identical with one rank"
        );
    }
}

/// How the plate is cut: columns x rows of blocks, as near to a square as the ranks allow.
struct Layout {
    width: usize,
    height: usize,
    columns: usize,
    rows: usize,
}

impl Layout {
    fn of(ranks: usize, width: usize, height: usize) -> Self {
        let rows = (1..=ranks).filter(|rows| ranks.is_multiple_of(*rows) && rows * rows <= ranks).max();
        let rows = rows.unwrap_or(1);
        Self { width, height, columns: ranks / rows, rows }
    }

    fn block(&self, rank: usize) -> Block {
        let (column, row) = (rank % self.columns, rank / self.columns);
        let (left, right) = (column * self.width / self.columns, (column + 1) * self.width / self.columns);
        let (top, bottom) = (row * self.height / self.rows, (row + 1) * self.height / self.rows);
        Block::new(left, top, right - left, bottom - top)
    }

    fn neighbour(&self, rank: usize, side: Side) -> Option<Rank> {
        let (column, row) = (rank % self.columns, rank / self.columns);
        let (column, row) = match side {
            Side::North => (column, row.checked_sub(1)?),
            Side::South => (column, row + 1),
            Side::West => (column.checked_sub(1)?, row),
            Side::East => (column + 1, row),
        };
        (column < self.columns && row < self.rows).then(|| Rank((row * self.columns + column) as u32))
    }
}

/// A block of cells with a halo of one cell all round; the plate's own border stays cold.
struct Block {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    cells: Vec<f64>,
    next: Vec<f64>,
}

impl Block {
    /// The initial temperatures of this part of the plate: a pattern without symmetry.
    fn new(left: usize, top: usize, width: usize, height: usize) -> Self {
        let halo = vec![0.0; (width + 2) * (height + 2)];
        let mut block = Self { left, top, width, height, cells: halo.clone(), next: halo };
        for row in 0..height {
            for column in 0..width {
                let (x, y) = ((left + column) as f64, (top + row) as f64);
                let at = block.at(row, column);
                block.cells[at] = 50.0 + 50.0 * (0.37 * x).sin() * (0.23 * y + 0.1 * x).cos();
            }
        }
        block
    }

    const fn stride(&self) -> usize {
        self.width + 2
    }

    const fn at(&self, row: usize, column: usize) -> usize {
        (row + 1) * self.stride() + column + 1
    }

    /// One explicit Euler step.
    fn step(&mut self) {
        let stride = self.stride();
        for row in 0..self.height {
            for at in self.at(row, 0)..self.at(row, self.width) {
                let (here, cells) = (self.cells[at], &self.cells);
                let around = (cells[at - stride] + cells[at + stride]) + (cells[at - 1] + cells[at + 1]);
                self.next[at] = here + CONDUCTIVITY * (around - 4.0 * here);
            }
        }
        core::mem::swap(&mut self.cells, &mut self.next);
    }

    /// The cells along a side: inside the block (`depth` 0) or in its halo (1).
    fn along(&self, side: Side, depth: usize) -> Vec<usize> {
        let (first, step, count) = match side {
            Side::North => (self.at(0, 0) - depth * self.stride(), 1, self.width),
            Side::South => (self.at(self.height - 1, 0) + depth * self.stride(), 1, self.width),
            Side::West => (self.at(0, 0) - depth, self.stride(), self.height),
            Side::East => (self.at(0, self.width - 1) + depth, self.stride(), self.height),
        };
        (0..count).map(|place| first + place * step).collect()
    }

    fn edge(&self, side: Side) -> Vec<f64> {
        self.along(side, 0).into_iter().map(|at| self.cells[at]).collect()
    }

    fn set_halo(&mut self, side: Side, halo: &[f64]) {
        for (at, value) in self.along(side, 1).into_iter().zip(halo) {
            self.cells[at] = *value;
        }
    }

    /// The cells without the halo, row by row.
    fn inner(&self) -> Vec<f64> {
        (0..self.height)
            .flat_map(|row| &self.cells[self.at(row, 0)..self.at(row, self.width)])
            .copied()
            .collect()
    }
}
