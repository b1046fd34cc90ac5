//! The program that `cargo xtask bench` measures Aldis with: every workload of
//! [`aldis_bench::batches`], started by `aldis-run` like any other program.
//! `tests/bench/peers/bench.c` is the same over MPI.

mod blocks;
mod collectives;
mod consume;
mod pair;

use core::error::Error;
use std::process::ExitCode;

use aldis_bench::batches::{Batch, BenchControl, Setup, TurnWork};
use aldis_bench::bytes::Bytes;
use aldis_coll::comm::{Dimension, Grid, SplitChoice, split};
use aldis_coll::neighbor::{NeighborEntry, NeighborList};
use aldis_kernel::Comm;
use aldis_linux::paged::Paged;
use aldis_linux::{HostEndpoint, ShmArena};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A rank that is measured.
struct Measured<'e> {
    endpoint: &'e mut HostEndpoint,
    world: Comm,
    /// All ranks in reversed order.
    reversed: Comm,
    /// All ranks in a ring.
    ring: NeighborList<'e>,
    control: BenchControl,
    /// The memory that is sent, and that in which it arrives; collectives use `out` alone. In the
    /// arena if there is one.
    out: Bytes,
    back: Bytes,
}

fn main() -> ExitCode {
    aldis_linux::run(|endpoint: &mut HostEndpoint| {
        let world = endpoint.world();
        let (key, mut scratch) = (-(world.rank().0 as i32), vec![SplitChoice::NONE; world.size() as usize]);
        let reversed = split(endpoint, &world, Some(0), key, &mut scratch)?.ok_or("one colour")?;
        let dimensions = [Dimension { extent: world.size(), is_periodic: true }];
        let ring = Grid::create(endpoint, &world, &dimensions)?.ok_or("one ring of all")?;
        let mut entries = [NeighborEntry::NONE; 4];
        let ring = NeighborList::new(&ring, &mut entries)?;
        let control = BenchControl::join(&Setup::from_arguments(0)?, world.rank().0 as usize)?;
        let [out, back] = [0; 2].map(Paged::new).map(Bytes::Heap);
        let mut measured = Measured { endpoint, world, reversed, ring, control, out, back };
        while let Some(batch) = measured.control.next_batch()? {
            measured.run(batch)?;
        }
        Ok(())
    })
}

impl Measured<'_> {
    fn run(&mut self, batch: Batch) -> Outcome<()> {
        match batch.workload {
            TurnWork::Latency => self.latency(batch),
            TurnWork::Bandwidth => self.bandwidth(batch),
            TurnWork::Both => self.both(batch),
            TurnWork::Rate => self.rate(batch),
            TurnWork::Consume | TurnWork::Loaned => self.consume(batch),
            TurnWork::Overlap => self.overlap(batch),
            TurnWork::Compute => self.compute(batch),
            TurnWork::Barrier => self.barrier(batch),
            TurnWork::Bcast => self.bcast(batch),
            TurnWork::Reduce => self.reduce(batch),
            TurnWork::Allreduce => self.allreduce(batch),
            TurnWork::Scan | TurnWork::Exscan => self.scan(batch),
            TurnWork::ReduceScatterBlock | TurnWork::ReduceScatter => self.reduce_scatter(batch),
            TurnWork::Gather
            | TurnWork::Gatherv
            | TurnWork::Scatter
            | TurnWork::Scatterv
            | TurnWork::Allgather
            | TurnWork::Allgatherv
            | TurnWork::Alltoall
            | TurnWork::Alltoallv
            | TurnWork::Alltoallw
            | TurnWork::NeighborAllgather
            | TurnWork::NeighborAllgatherv
            | TurnWork::NeighborAlltoall
            | TurnWork::NeighborAlltoallv
            | TurnWork::NeighborAlltoallw => self.on_blocks(batch),
        }
    }

    /// Buffers for `messages` messages of a batch.
    fn buffers(&mut self, batch: Batch, messages: usize) -> Outcome<()> {
        self.room(batch.bytes.checked_mul(messages).ok_or("a window above what can be addressed")?)
    }

    /// Buffers of so many bytes; kept when they have this size, so that their pages stay.
    fn room(&mut self, len: usize) -> Outcome<()> {
        let arena = self.endpoint.shm_arena();
        for (buffer, byte) in [(&mut self.out, 1), (&mut self.back, 0)] {
            if buffer.len() != len {
                // Gives back what it had first.
                *buffer = Bytes::Heap(Paged::new(0));
                *buffer = Bytes::new(arena, len, byte)?;
            }
        }
        Ok(())
    }
}
