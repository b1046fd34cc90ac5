//! Operations on blocks of unlike lengths, some of them empty, by every algorithm.

use aldis_coll::catalog::algorithms;
use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::{InputBlocks, Options as Choice, alltoallw, gatherv, reduce_scatter};
use aldis_kernel::Rank;
use aldis_kernel::hal::{Operation, Platform, Transport};

use super::RankPart;
use crate::ProgramFailure;

/// Ranks whose blocks there is memory for; larger jobs leave these operations out.
const RANKS_MAX: usize = 16;
const LEN_MAX: usize = 7;
const ELEMENTS_MAX: usize = RANKS_MAX * LEN_MAX;

/// Blocks for all ranks, one behind the other.
struct BlockList {
    blocks: [Block; RANKS_MAX],
    size: usize,
}

impl BlockList {
    fn new(size: u32, len: impl Fn(u32) -> usize) -> Self {
        let (size, mut start) = (size as usize, 0);
        let mut blocks = [Block { start: 0, len: 0 }; RANKS_MAX];
        for (rank, block) in (0..).zip(blocks.iter_mut().take(size)) {
            *block = Block { start, len: len(rank) };
            start += block.len;
        }
        Self { blocks, size }
    }

    fn of_ranks(&self) -> &[Block] {
        &self.blocks[..self.size]
    }

    /// Elements of all blocks.
    fn elements(&self) -> usize {
        self.of_ranks().iter().map(|block| block.len).sum()
    }

    /// Every element's place: whose block, and where in it.
    fn places(&self) -> impl Iterator<Item = (u32, usize)> {
        (0..).zip(self.of_ranks()).flat_map(|(rank, block)| (0..block.len).map(move |place| (rank, place)))
    }
}

/// Elements that a rank has for another.
fn len(from: u32, to: u32) -> usize {
    (from * 3 + to * 5 + from * to) as usize % (LEN_MAX + 1)
}

/// Returns the element at a place of a block.
fn element(round: u32, from: u32, to: u32, place: usize) -> u8 {
    (round + from * 37 + to * 11 + place as u32) as u8
}

impl<T: Transport, P: Platform> RankPart<'_, '_, T, P> {
    pub(super) fn blocks(&mut self, round: u32) -> Result<(), ProgramFailure> {
        if self.world.size() as usize > RANKS_MAX {
            return Ok(());
        }
        (0..self.world.size()).try_for_each(|root| self.gathers(round, root))?;
        self.exchanges(round)?;
        self.reduce_scatters(round)
    }

    fn gathers(&mut self, round: u32, root: u32) -> Result<(), ProgramFailure> {
        let (me, list) = (self.world.rank().0, BlockList::new(self.world.size(), |from| len(from, root)));
        let own = if me == root { list.blocks[me as usize].start } else { 0 };
        let count = if me == root { list.elements() } else { len(me, root) };
        for &algorithm in algorithms(Operation::Gatherv).iter().filter(|known| known.serves(list.size as u32))
        {
            let mut data = [0; ELEMENTS_MAX];
            for (place, mine) in data[own..].iter_mut().take(len(me, root)).enumerate() {
                *mine = element(round, me, root, place);
            }
            let within = &mut self.ep.within(self.limit);
            let blocks = list.of_ranks();
            gatherv(&mut data[..count], blocks, Rank(root))
                .with(&Choice::using(algorithm))
                .run(within, &self.world)?;
            if me == root {
                let expected = list.places().map(|(from, place)| element(round, from, root, place));
                check("element that was gathered", &data[..count], expected)?;
            }
            self.took_part([round.into()].into_iter());
        }
        Ok(())
    }

    fn exchanges(&mut self, round: u32) -> Result<(), ProgramFailure> {
        let (me, size) = (self.world.rank().0, self.world.size());
        let (given, list) =
            (BlockList::new(size, |to| len(me, to)), BlockList::new(size, |from| len(from, me)));
        let mut input = [0; ELEMENTS_MAX];
        for (mine, (to, place)) in input.iter_mut().zip(given.places()) {
            *mine = element(round, me, to, place);
        }
        let input = &input[..given.elements()];
        for &algorithm in algorithms(Operation::Alltoallw).iter().filter(|known| known.serves(size)) {
            let (mut data, within) = ([0; ELEMENTS_MAX], &mut self.ep.within(self.limit));
            let (data, options) = (&mut data[..list.elements()], Choice::using(algorithm));
            alltoallw(input, given.of_ranks(), data, list.of_ranks())
                .with(&options)
                .run(within, &self.world)?;
            let expected = list.places().map(|(from, place)| element(round, from, me, place));
            check("element that was exchanged", data, expected)?;
            self.took_part([round.into()].into_iter());
        }
        Ok(())
    }

    fn reduce_scatters(&mut self, round: u32) -> Result<(), ProgramFailure> {
        let (me, size) = (self.world.rank().0, self.world.size());
        let list = BlockList::new(size, |to| len(1, to));
        let mut input = [0; ELEMENTS_MAX];
        for (mine, (to, place)) in input.iter_mut().zip(list.places()) {
            *mine = element(round, me, to, place);
        }
        let input = &input[..list.elements()];
        for &algorithm in algorithms(Operation::ReduceScatter).iter().filter(|known| known.serves(size)) {
            let (mut data, mut scratch) = ([0; LEN_MAX], [0; 2 * ELEMENTS_MAX]);
            let (data, within) = (&mut data[..len(1, me)], &mut self.ep.within(self.limit));
            reduce_scatter(Sum, InputBlocks::new(input, list.of_ranks()), data, &mut scratch)
                .with(&Choice::using(algorithm))
                .run(within, &self.world)?;
            let sum =
                |place| (0..size).fold(0, |sum: u8, from| sum.wrapping_add(element(round, from, me, place)));
            check("element that was reduced and scattered", data, (0..data.len()).map(sum))?;
            self.took_part([round.into()].into_iter());
        }
        Ok(())
    }
}

fn check(what: &'static str, found: &[u8], expected: impl Iterator<Item = u8>) -> Result<(), ProgramFailure> {
    for ((at, found), expected) in (0..).zip(found).zip(expected) {
        ProgramFailure::unless_equal(what, at, (*found).into(), expected.into())?;
    }
    Ok(())
}
