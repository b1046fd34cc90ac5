//! Workloads of all ranks on blocks, one a rank.
//!
//! The data that a rank sends to another are those it received from that rank when they last went
//! the other way: fresh in its own cache alone. So block `r` of its buffer is that of its dealings
//! with rank `r`, and the blocks of an all-to-all are the input of the next.

use aldis_bench::batches::{Batch, TurnWork, uneven, uniform};
use aldis_coll::layout::Block;
use aldis_coll::neighbor::NeighborList;
use aldis_coll::{
    allgather, allgatherv, alltoall, alltoallv, alltoallw, gather, gatherv, neighbor_allgather,
    neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv, neighbor_alltoallw, scatter, scatterv,
};
use aldis_kernel::{Comm, Rank};
use aldis_linux::HostEndpoint;
use aldis_linux::paged::Paged;

use crate::{Measured, Outcome};

/// The blocks of a batch, by rank, or of neighbours in a ring the one before and the one behind.
struct BatchBlocks {
    workload: TurnWork,
    list: Vec<Block>,
    /// The blocks that neighbours are given, where they are divided otherwise.
    given: [Block; 2],
    /// From the start of one to the start of the next.
    stride: usize,
}

impl BatchBlocks {
    fn new(batch: Batch, rank: usize, size: usize) -> Self {
        use TurnWork::{
            Allgatherv, Alltoallv, Alltoallw, Gatherv, NeighborAllgatherv, NeighborAlltoallv,
            NeighborAlltoallw, Scatterv,
        };
        let Batch { workload, bytes, .. } = batch;
        let is_uneven = match workload {
            NeighborAllgatherv | NeighborAlltoallv | NeighborAlltoallw => true,
            _ => matches!(workload, Gatherv | Scatterv | Allgatherv | Alltoallv | Alltoallw),
        };
        let stride = if is_uneven { uneven(bytes, 1) } else { bytes };
        let len = |number: usize| match workload {
            _ if !is_uneven => bytes,
            // As long one way as the other.
            Alltoallv | Alltoallw => uneven(bytes, number + rank),
            // Of the one before, then of the one behind, each as long both ways.
            NeighborAllgatherv | NeighborAlltoallv | NeighborAlltoallw => {
                uneven(bytes, (rank + if number == 0 { size - 1 } else { 1 }) % size)
            }
            _ => uneven(bytes, number),
        };
        let list = (0..size).map(|number| Block { start: number * stride, len: len(number) }).collect();
        let given = [0, 1].map(|number| Block { start: number * stride, len: uneven(bytes, rank) });
        Self { workload, list, given, stride }
    }

    /// Returns the data that neighbours are given, and the list of the blocks that they give.
    fn near<'m>(&self, all: &'m [u8]) -> (&'m [u8], &[Block]) {
        let own = all.get(..self.given[0].len).unwrap_or_default();
        (own, self.list.get(..2).unwrap_or_default())
    }

    /// The part of the buffer that rank `me` lends where `root` lends all of it.
    fn lent<'m>(&self, all: &'m mut [u8], me: Rank, root: Rank) -> Outcome<&'m mut [u8]> {
        if me == root {
            return Ok(all);
        }
        let (Some(place), Some(own)) = (self.list.get(root.0 as usize), self.list.get(me.0 as usize)) else {
            return Err("a rank without a block".into());
        };
        all.get_mut(place.start..place.start + own.len).ok_or_else(|| "a block outside of the buffer".into())
    }

    /// So many blocks.
    fn first<'m>(&self, all: &'m [u8], blocks: usize) -> &'m [u8] {
        all.get(..blocks * self.stride).unwrap_or_default()
    }

    fn first_mut<'m>(&self, all: &'m mut [u8], blocks: usize) -> &'m mut [u8] {
        all.get_mut(..blocks * self.stride).unwrap_or_default()
    }

    /// The block with this number.
    fn part<'m>(&self, all: &'m mut [u8], of: usize) -> &'m mut [u8] {
        let block = self.list.get(of).copied().unwrap_or_default();
        all.get_mut(block.start..block.start + block.len).unwrap_or_default()
    }
}

/// The data that a turn works on.
struct TurnData<'e> {
    endpoint: &'e mut HostEndpoint,
    world: &'e Comm,
    reversed: &'e Comm,
    ring: &'e NeighborList<'e>,
    out: &'e mut [u8],
    back: &'e mut [u8],
    scratch: Paged,
    blocks: BatchBlocks,
}

impl Measured<'_> {
    /// Times turns on blocks. One more turn, on known bytes, is verified.
    pub(crate) fn on_blocks(&mut self, batch: Batch) -> Outcome<()> {
        let (rank, size) = (self.world.rank().0 as usize, self.world.size() as usize);
        let blocks = BatchBlocks::new(batch, rank, size);
        self.room(blocks.stride * size)?;
        let Self { endpoint, world, reversed, ring, control, out, back } = self;
        // With as much several blocks can share a message.
        let scratch = Paged::new(batch.bytes * (size + 1));
        let mut turn = TurnData { endpoint, world, reversed, ring, out, back, scratch, blocks };
        control.run(batch, |number| turn.take(number))?;
        turn.verify(rank, size)
    }
}

impl TurnData<'_> {
    fn take(&mut self, number: u32) -> Outcome<()> {
        let Self { endpoint, world, reversed, ring, out, back, scratch, blocks } = self;
        let (ep, me, root) = (&mut **endpoint, world.rank(), Rank(number % world.size()));
        let is_even = number.is_multiple_of(2);
        let way = if is_even { &**world } else { &**reversed };
        let (given, data) = if is_even { (&*out, &mut *back) } else { (&*back, &mut *out) };
        let list = &blocks.list;
        match blocks.workload {
            TurnWork::Alltoall => alltoall(given, data, scratch).run(ep, world)?,
            TurnWork::Alltoallv => alltoallv(given, list, data, list).run(ep, world)?,
            TurnWork::Alltoallw => alltoallw(given, list, data, list).run(ep, world)?,
            TurnWork::NeighborAllgather => {
                neighbor_allgather(blocks.first(given, 1), blocks.first_mut(data, 2)).run(ep, ring)?;
            }
            TurnWork::NeighborAlltoall => {
                neighbor_alltoall(blocks.first(given, 2), blocks.first_mut(data, 2)).run(ep, ring)?;
            }
            TurnWork::NeighborAllgatherv => {
                let (own, list) = blocks.near(given);
                neighbor_allgatherv(own, data, list).run(ep, ring)?;
            }
            TurnWork::NeighborAlltoallv => {
                let (_, list) = blocks.near(given);
                neighbor_alltoallv(given, &blocks.given, data, list).run(ep, ring)?;
            }
            TurnWork::NeighborAlltoallw => {
                let (_, list) = blocks.near(given);
                neighbor_alltoallw(given, &blocks.given, data, list).run(ep, ring)?;
            }
            TurnWork::Allgather => allgather(out).run(ep, way)?,
            TurnWork::Allgatherv => allgatherv(out, list).run(ep, way)?,
            TurnWork::Gather => gather(blocks.lent(out, me, root)?, scratch, root).run(ep, world)?,
            TurnWork::Gatherv => gatherv(blocks.lent(out, me, root)?, list, root).run(ep, world)?,
            TurnWork::Scatter => scatter(blocks.lent(out, me, root)?, scratch, root).run(ep, world)?,
            TurnWork::Scatterv => scatterv(blocks.lent(out, me, root)?, list, root).run(ep, world)?,
            other => return Err(format!("{other:?} is not on blocks").into()),
        }
        Ok(())
    }

    /// Makes a turn on bytes that say from which rank to which they go.
    fn verify(&mut self, rank: usize, size: usize) -> Outcome<()> {
        use TurnWork::{
            Allgather, Allgatherv, Alltoall, Alltoallv, Alltoallw, Gather, Gatherv, NeighborAllgather,
            NeighborAllgatherv, NeighborAlltoall, NeighborAlltoallv, NeighborAlltoallw,
        };
        let workload = self.blocks.workload;
        let is_exchange = matches!(workload, NeighborAlltoall | NeighborAlltoallv | NeighborAlltoallw);
        let is_ring = is_exchange || matches!(workload, NeighborAllgather | NeighborAllgatherv);
        let is_all_to_all = is_exchange || matches!(workload, Alltoall | Alltoallv | Alltoallw);
        let mark = |from: usize, to: usize| {
            if is_all_to_all { (from * size + to) as u8 + 1 } else { from as u8 + 1 }
        };
        for (place, room) in self.out.chunks_mut(self.blocks.stride).enumerate() {
            room.fill(mark(rank, place));
        }
        self.take(0)?;
        let Self { out, back, blocks, .. } = self;
        let all = if is_all_to_all || is_ring { back } else { out };
        // Each place that something is then in, its sender, and the place where it had that.
        let had: Vec<(usize, usize, usize)> = match workload {
            Gather | Gatherv if rank != 0 => Vec::new(),
            // What comes from behind was sent ahead.
            _ if is_ring => vec![(0, (rank + size - 1) % size, 1), (1, (rank + 1) % size, 0)],
            Alltoall | Alltoallv | Alltoallw | Allgather | Allgatherv | Gather | Gatherv => {
                (0..size).map(|from| (from, from, rank)).collect()
            }
            // A scatter, the root's own of which is what it had.
            _ => vec![(0, 0, rank)],
        };
        let is_right = |(place, from, there): (usize, usize, usize)| {
            let part = blocks.part(all, place);
            part.is_empty() || uniform(part) == Some(mark(from, there))
        };
        if had.into_iter().all(is_right) {
            Ok(())
        } else {
            Err(format!("{workload:?} brought other bytes").into())
        }
    }
}
