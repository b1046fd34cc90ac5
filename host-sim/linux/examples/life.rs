//! The game of life on a torus, cut into blocks on a grid of ranks. The halo exchange is set up
//! once, as persistent requests, and started in every generation; rows of ranks, communicators of
//! their own, count the living cells. In the end rank 0 compares the board with its own run over
//! the whole torus.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/life --side 96 --generations 300
//! ```

use core::error::Error;
use core::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::comm::{self, Dimension, Grid, SplitChoice, dims_create};
use aldis_coll::{allreduce, op::Sum};
use aldis_kernel::{LentMut, Rank, Request, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Play the game of life on all ranks and compare the result with one rank's.
#[derive(Parser)]
struct Options {
    /// Cells of a block from west to east, and from north to south
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    side: u16,
    /// Generations
    #[arg(long, default_value_t = 200)]
    generations: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

const RESULT: Tag = Tag(9);

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| life(ep, &options))
}

fn life(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let mut dimensions = [Dimension { extent: 0, is_periodic: true }; 2];
    dims_create(world.size(), &mut dimensions).map_err(|cause| cause.to_string())?;
    let [rows, columns] = dimensions.map(|dimension| dimension.extent);
    let grid = Grid::create(ep, &world, &dimensions)?.ok_or("a grid of all ranks has a place for each")?;
    let mut place = [0; 2];
    grid.coordinates(grid.comm().rank(), &mut place).map_err(|cause| cause.to_string())?;
    let plate = Plate { side: options.side.into(), rows, columns };
    let mut block = plate.block(place);
    let start = Instant::now();
    evolve(ep, &grid, &mut block, options.generations)?;
    let seconds = start.elapsed().as_secs_f64();
    let living = living_in_row(ep, &grid, &block)?;
    let living = plate.compare(ep, &block, living, options.generations)?;
    comm::free(ep, *grid.comm())?;
    if world.rank() == Rank(0) {
        report(options, &plate, living, seconds);
    }
    Ok(())
}

/// The whole torus.
struct Plate {
    side: usize,
    rows: u32,
    columns: u32,
}

impl Plate {
    /// The first generation of a rank's block: what lives there depends on the cell's place on the
    /// torus alone.
    fn block(&self, [row, column]: [u32; 2]) -> CellBlock {
        let mut block = CellBlock::empty(self.side, self.side);
        for y in 0..self.side {
            for x in 0..self.side {
                let (north, west) = (row as usize * self.side + y, column as usize * self.side + x);
                let mixed = (north as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    ^ (west as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
                let at = block.at(y + 1, x + 1);
                block.bytes[at] = u8::from((mixed ^ (mixed >> 29)).wrapping_mul(mixed | 1) >> 62 == 0);
            }
        }
        block
    }

    /// Rank 0 plays on the whole torus and compares every block, and every row's count, with its
    /// own. Returns the number of cells that live there.
    fn compare(
        &self,
        ep: &mut HostEndpoint,
        block: &CellBlock,
        living: u64,
        generations: u32,
    ) -> Result<u64, Box<dyn Error>> {
        let world = &ep.world();
        if world.rank() != Rank(0) {
            let mut result = block.inner();
            result.extend(living.to_le_bytes());
            ep.send(world, &result, Rank(0), RESULT)?;
            return Ok(living);
        }
        let whole = whole(self, generations);
        for rank in 0..world.size() {
            let (mut cells, mut count) = (block.inner(), living);
            if rank > 0 {
                let mut result = vec![0_u8; cells.len() + 8];
                ep.recv(world, &mut result, Rank(rank), RESULT)?;
                count = u64::from_le_bytes(*result.last_chunk().ok_or("no count came")?);
                cells = result[..cells.len()].to_vec();
            }
            let (row, column) = ((rank / self.columns) as usize, (rank % self.columns) as usize);
            let cut: Vec<u8> = (1..=self.side)
                .flat_map(|y| {
                    let start = whole.at(row * self.side + y, column * self.side + 1);
                    whole.bytes[start..start + self.side].iter().copied()
                })
                .collect();
            let living: u64 = (1..=self.side)
                .flat_map(|y| &whole.bytes[whole.row(row * self.side + y)][1..=whole.width])
                .map(|cell| u64::from(*cell))
                .sum();
            if cells != cut || count != living {
                return Err(
                    format!("rank {rank} ended elsewhere: {count} live in its row, not {living}").into()
                );
            }
        }
        Ok(whole.inner().iter().map(|cell| u64::from(*cell)).sum())
    }
}

/// Cells with a rim of one around them, and behind them the columns that are sent and received:
/// they lie scattered, so they are copied together.
struct CellBlock {
    height: usize,
    width: usize,
    bytes: Vec<u8>,
}

/// The columns behind the cells.
#[derive(Clone, Copy)]
enum Column {
    ToWest,
    ToEast,
    FromEast,
    FromWest,
}

impl CellBlock {
    fn empty(height: usize, width: usize) -> Self {
        let bytes = vec![0; (height + 2) * (width + 2) + 4 * height];
        Self { height, width, bytes }
    }

    fn at(&self, y: usize, x: usize) -> usize {
        y * (self.width + 2) + x
    }

    /// A row with both ends of the rim: with them the corners come along.
    fn row(&self, y: usize) -> Range<usize> {
        self.at(y, 0)..self.at(y + 1, 0)
    }

    fn column(&self, column: Column) -> Range<usize> {
        let start = self.at(self.height + 2, 0) + column as usize * self.height;
        start..start + self.height
    }

    /// Everything that the steps need and that does not change.
    fn shape(&self) -> Self {
        Self { height: self.height, width: self.width, bytes: Vec::new() }
    }

    /// Copies the outer columns of cells to where they are sent from.
    fn pack(&self, bytes: &mut [u8]) {
        for (column, x) in [(Column::ToWest, 1), (Column::ToEast, self.width)] {
            let into = self.column(column).start;
            (0..self.height).for_each(|y| bytes[into + y] = bytes[self.at(y + 1, x)]);
        }
    }

    /// Copies the columns that were received to the rim.
    fn unpack(&self, bytes: &mut [u8]) {
        for (column, x) in [(Column::FromWest, 0), (Column::FromEast, self.width + 1)] {
            let from = self.column(column).start;
            (0..self.height).for_each(|y| bytes[self.at(y + 1, x)] = bytes[from + y]);
        }
    }

    /// The next generation of all cells but the rim.
    fn step(&self, bytes: &mut [u8]) {
        let old = bytes.to_vec();
        for y in 1..=self.height {
            for x in 1..=self.width {
                let around = (y - 1..=y + 1).flat_map(|y| (x - 1..=x + 1).map(move |x| (y, x)));
                let sum: u8 = around.map(|(y, x)| old[self.at(y, x)]).sum();
                let lives = old[self.at(y, x)] == 1;
                bytes[self.at(y, x)] = u8::from(sum == 3 || (lives && sum == 4));
            }
        }
    }

    /// The rim of a block that is the whole torus.
    fn wrap(&self, bytes: &mut [u8]) {
        for y in 1..=self.height {
            bytes[self.at(y, 0)] = bytes[self.at(y, self.width)];
            bytes[self.at(y, self.width + 1)] = bytes[self.at(y, 1)];
        }
        bytes.copy_within(self.row(self.height), self.row(0).start);
        bytes.copy_within(self.row(1), self.row(self.height + 1).start);
    }

    /// The cells without the rim, row by row.
    fn inner(&self) -> Vec<u8> {
        (1..=self.height).flat_map(|y| &self.bytes[self.at(y, 1)..=self.at(y, self.width)]).copied().collect()
    }
}

/// Plays so many generations. First the columns are exchanged, then the rows with the columns'
/// ends: so each rank needs to exchange with four neighbours and not with eight.
fn evolve(
    ep: &mut HostEndpoint,
    grid: &Grid<'_>,
    block: &mut CellBlock,
    generations: u32,
) -> Result<(), Box<dyn Error>> {
    let shape = block.shape();
    let all = 0..block.bytes.len();
    let around = |dimension| grid.shift(dimension, 1).map_err(|cause| cause.to_string());
    let ((north, south), (west, east)) = (around(0)?, around(1)?);
    ep.scope(|s| {
        let lent: LentMut<'_> = s.lend(&mut block.bytes);
        let comm = grid.comm();
        let (to_west, to_east, to_north, to_south) = (Tag(1), Tag(2), Tag(3), Tag(4));
        let mut columns: [Request<'_>; 4] = [
            s.recv_init(comm, lent, shape.column(Column::FromEast), east, to_west)?,
            s.recv_init(comm, lent, shape.column(Column::FromWest), west, to_east)?,
            s.send_init(comm, lent, shape.column(Column::ToWest), west, to_west)?,
            s.send_init(comm, lent, shape.column(Column::ToEast), east, to_east)?,
        ];
        let mut rows: [Request<'_>; 4] = [
            s.recv_init(comm, lent, shape.row(shape.height + 1), south, to_north)?,
            s.recv_init(comm, lent, shape.row(0), north, to_south)?,
            s.send_init(comm, lent, shape.row(1), north, to_north)?,
            s.send_init(comm, lent, shape.row(shape.height), south, to_south)?,
        ];
        for _ in 0..generations {
            s.edit(lent, all.clone(), |bytes| shape.pack(bytes))?;
            s.start_all(&mut columns)?;
            s.wait_all(&mut columns)?;
            s.edit(lent, all.clone(), |bytes| shape.unpack(bytes))?;
            s.start_all(&mut rows)?;
            s.wait_all(&mut rows)?;
            s.edit(lent, all.clone(), |bytes| shape.step(bytes))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Counts the cells that live in this rank's row of blocks, by a communicator of that row.
fn living_in_row(ep: &mut HostEndpoint, grid: &Grid<'_>, block: &CellBlock) -> Result<u64, Box<dyn Error>> {
    let mut kept = [Dimension::default()];
    let mut scratch = vec![SplitChoice::NONE; grid.comm().size() as usize];
    let row = grid.sub(ep, &[false, true], &mut kept, &mut scratch)?;
    let mut living = [block.inner().iter().map(|cell| u64::from(*cell)).sum()];
    allreduce(Sum, &mut living, &mut [0]).run(ep, row.comm())?;
    comm::free(ep, *row.comm())?;
    Ok(living[0])
}

/// The whole torus after so many generations, played by one.
fn whole(plate: &Plate, generations: u32) -> CellBlock {
    let (rows, columns) = (plate.rows as usize, plate.columns as usize);
    let mut whole = CellBlock::empty(rows * plate.side, columns * plate.side);
    for row in 0..rows {
        for column in 0..columns {
            let cells = plate.block([row as u32, column as u32]).inner();
            for (y, line) in cells.chunks(plate.side).enumerate() {
                let start = whole.at(row * plate.side + y + 1, column * plate.side + 1);
                whole.bytes[start..start + plate.side].copy_from_slice(line);
            }
        }
    }
    let (shape, mut bytes) = (whole.shape(), core::mem::take(&mut whole.bytes));
    for _ in 0..generations {
        shape.wrap(&mut bytes);
        shape.step(&mut bytes);
    }
    CellBlock { bytes, ..shape }
}

fn report(options: &Options, plate: &Plate, living: u64, seconds: f64) {
    let ranks = plate.rows * plate.columns;
    let microseconds = seconds * 1e6 / f64::from(options.generations.max(1));
    if options.json {
        let line = serde_json::json!({
            "bench": "life", "impl": "aldis", "ranks": ranks, "side": options.side,
            "generations": options.generations, "living": living, "generation_us": microseconds, "verified": true,
        });
        println!("{line}");
    } else {
        println!(
            "{} generations on {} x {} ranks, every cell verified, {living} live, {microseconds:.1} us each",
            options.generations, plate.rows, plate.columns
        );
    }
}
