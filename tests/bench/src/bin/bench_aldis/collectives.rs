//! Workloads of all ranks.

use aldis_bench::batches::{Batch, TurnWork, mark, uniform};
use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::{
    InputBlocks, allreduce, barrier, bcast, exscan, reduce, reduce_scatter, reduce_scatter_block, scan,
};
use aldis_kernel::Rank;
use aldis_linux::paged::Paged;

use crate::{Measured, Outcome};

/// So many times this one.
fn numbers(count: usize, value: f64) -> Paged<f64> {
    let mut numbers = Paged::new(count);
    numbers.fill(value);
    numbers
}

impl Measured<'_> {
    pub(crate) fn barrier(&mut self, batch: Batch) -> Outcome<()> {
        let Self { endpoint, world, control, .. } = self;
        control.run(batch, |_| Ok(barrier().run(&mut **endpoint, world)?))
    }

    /// Times broadcasts. A root sends what it received as another's leaf just before: fresh in its
    /// cache alone.
    pub(crate) fn bcast(&mut self, batch: Batch) -> Outcome<()> {
        self.buffers(batch, 1)?;
        let (rank, size) = (self.world.rank().0, self.world.size());
        let sent = mark(batch.turns ^ batch.bytes as u32);
        self.out.fill(if rank == 0 { sent } else { 0 });
        let Self { endpoint, world, control, out, .. } = self;
        control.run(batch, |number| -> Outcome<()> {
            Ok(bcast(out, Rank(number % size)).run(&mut **endpoint, world)?)
        })?;
        if uniform(&self.out) == Some(sent) { Ok(()) } else { Err("a broadcast brought other bytes".into()) }
    }

    /// Every element is one at first. What is at the other ranks afterwards, and what the next root
    /// adds up, depends on the algorithm; it never becomes less.
    pub(crate) fn reduce(&mut self, batch: Batch) -> Outcome<()> {
        let [mut data, mut scratch] = [1.0, 0.0].map(|value| numbers(batch.bytes / 8, value));
        let (rank, size) = (self.world.rank().0, self.world.size());
        let Self { endpoint, world, control, .. } = self;
        control.run(batch, |number| -> Outcome<()> {
            let root = Rank(number % size);
            Ok(reduce(Sum, &mut data, &mut scratch, root).run(&mut **endpoint, world)?)
        })?;
        let is_last_root = rank == (batch.turns - 1) % size;
        let least = if is_last_root { f64::from(size) } else { 1.0 };
        match data.iter().find(|&&value| value.is_nan() || value < least) {
            None => Ok(()),
            Some(value) => Err(format!("a reduction gave {value}, less than {least}").into()),
        }
    }

    /// Every element is one at first and grows by the number of ranks each turn.
    pub(crate) fn allreduce(&mut self, batch: Batch) -> Outcome<()> {
        let [mut data, mut scratch] = [1.0, 0.0].map(|value| numbers(batch.bytes / 8, value));
        let size = f64::from(self.world.size());
        let Self { endpoint, world, control, .. } = self;
        control.run(batch, |_| -> Outcome<()> {
            Ok(allreduce(Sum, &mut data, &mut scratch).run(&mut **endpoint, world)?)
        })?;
        let expected = size.powi((batch.turns + batch.warm_up()) as i32);
        if data.iter().all(|&value| value == expected) && expected.is_finite() {
            return Ok(());
        }
        Err(format!("an all-reduce gave other sums than {expected}").into())
    }

    /// The sums grow as the numbers of Fibonacci do. One more turn, on known numbers, is verified.
    pub(crate) fn scan(&mut self, batch: Batch) -> Outcome<()> {
        let [mut data, mut scratch] = [1.0, 0.0].map(|value| numbers(batch.bytes / 8, value));
        let (rank, before) = (self.world.rank().0, batch.workload == TurnWork::Exscan);
        let Self { endpoint, world, reversed, control, .. } = self;
        let mut turn = |number: u32, data: &mut [f64]| -> Outcome<()> {
            let way = if number.is_multiple_of(2) { &*world } else { &*reversed };
            if before {
                Ok(exscan(Sum, data, &mut scratch).run(&mut **endpoint, way)?)
            } else {
                Ok(scan(Sum, data, &mut scratch).run(&mut **endpoint, way)?)
            }
        };
        control.run(batch, |number| turn(number, &mut data))?;
        data.fill(1.0);
        turn(0, &mut data)?;
        // The first rank has nothing before it, and keeps its own.
        let expected = f64::from(if before { rank.max(1) } else { rank + 1 });
        if data.iter().all(|&value| value == expected) {
            return Ok(());
        }
        Err(format!("a scan gave other sums than {expected}").into())
    }

    /// Times reductions to blocks. A rank gives what it has put into its data to others in the next
    /// turn, at least to its opposite: the sums grow as in a scan. One more turn, on known numbers,
    /// is verified.
    pub(crate) fn reduce_scatter(&mut self, batch: Batch) -> Outcome<()> {
        let (rank, size) = (self.world.rank().0 as usize, self.world.size() as usize);
        let each = batch.bytes / 8;
        let [mut data, mut sums] =
            [(each * size, 1.0), (each, 0.0)].map(|(count, value)| numbers(count, value));
        let blocks: Vec<Block> = (0..size).map(|place| Block { start: place * each, len: each }).collect();
        // With as much every algorithm has what it needs.
        let mut scratch = numbers(2 * data.len(), 0.0);
        let Self { endpoint, world, reversed, control, .. } = self;
        let mut turn = |number: u32, data: &mut [f64]| -> Outcome<()> {
            let way = if number.is_multiple_of(2) { &*world } else { &*reversed };
            match batch.workload {
                TurnWork::ReduceScatter => {
                    reduce_scatter(Sum, InputBlocks::new(&*data, &blocks), &mut sums, &mut scratch)
                        .run(&mut **endpoint, way)?;
                }
                _ => reduce_scatter_block(Sum, &*data, &mut sums, &mut scratch).run(&mut **endpoint, way)?,
            }
            let own = data.chunks_exact_mut(each).nth(way.rank().0 as usize);
            own.ok_or("a rank without a block")?.copy_from_slice(&sums);
            Ok(())
        };
        control.run(batch, |number| turn(number, &mut data))?;
        data.fill(1.0);
        turn(0, &mut data)?;
        let expected = |place: usize| if place / each == rank { size as f64 } else { 1.0 };
        if data.iter().enumerate().all(|(place, &value)| value == expected(place)) {
            return Ok(());
        }
        Err("a reduce-scatter gave other sums".into())
    }
}
