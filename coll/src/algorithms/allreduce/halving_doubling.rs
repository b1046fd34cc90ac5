//! Halving and doubling in binary blocks: ranks beyond the largest power of two work as well.

use aldis_kernel::hal::Operation;

use crate::phases::{Halving, Pairs, locate, nth, power, reverse, sum};
use crate::schedule::{
    IN_FLIGHT_MAX, Instance, Order, Priced, Schedule, Span, Step, Work, log2_floor, pairs_up,
};

/// The halving-doubling all-reduce of gloo: for p a power of two, Rabenseifner's. Otherwise the
/// ranks are cut into blocks of powers of two, the largest first: 2 floor(log2 p) rounds in which
/// the blocks halve and double side by side, and between them, from the smallest block to the
/// largest and back, rounds in which a block hands its parts to the next larger one, which reduces
/// them. A rank of a block 2^d times smaller than the next sends 2^d messages, eight a round.
///
/// All blocks cut the data alike, so that the parts of a rank of a smaller block are those of 2^d
/// ranks of the larger one.
///
/// **Same bits everywhere:** each part is combined on one rank of the largest block in the end, and
/// copied to the others. Operands cover contiguous ranges of ranks, the lower standing on the left,
/// so rank order is kept.
///
/// Scratch: half a segment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HalvingDoubling;

/// Messages of a rank of the smaller block in a round.
const AT_ONCE: u32 = IN_FLIGHT_MAX as u32;

/// The ranks from `first` on, `2^bits` of them, of a job in which the largest block has `2^most`.
#[derive(Clone, Copy)]
struct RankBlock {
    first: u32,
    bits: u32,
    most: u32,
}

impl RankBlock {
    /// RankSubset `size` ranks, that of `2^bits`.
    fn of(size: u32, bits: u32) -> Self {
        let above = bits.saturating_add(1);
        let first = size.checked_shr(above).unwrap_or(0).checked_shl(above).unwrap_or(0);
        Self { first, bits, most: log2_floor(size) }
    }

    /// The one that `rank` is in: where the two numbers differ first, the size has a one.
    fn with(size: u32, rank: u32) -> Self {
        Self::of(size, log2_floor(size ^ rank))
    }

    /// Returns the position of a rank of the block in the division of the data.
    fn position(&self, rank: u32) -> u32 {
        let beyond = self.most.saturating_sub(self.bits);
        reverse(rank.wrapping_sub(self.first), self.bits).checked_shl(beyond).unwrap_or(0)
    }

    /// The rank of the block that has the part at `position`.
    fn rank(&self, position: u32) -> u32 {
        let beyond = self.most.saturating_sub(self.bits);
        let number = reverse(position.checked_shr(beyond).unwrap_or(0), self.bits);
        self.first.saturating_add(number)
    }
}

/// Two blocks of which one hands its parts to the other.
#[derive(Clone, Copy)]
struct BlockPair {
    small: RankBlock,
    large: RankBlock,
    halving: Halving,
}

impl BlockPair {
    fn rounds(&self) -> u32 {
        power(self.large.bits.saturating_sub(self.small.bits)).div_ceil(AT_ONCE)
    }

    /// Returns the number of parts of the division that a rank of the larger block has.
    fn width(&self) -> u32 {
        self.halving.width(self.large.bits)
    }

    /// The message of a rank of the smaller block, in `round` with `index`: the peer, and the part.
    fn message(&self, rank: u32, round: u32, index: u32) -> Option<(u32, Span)> {
        let piece = round.checked_mul(AT_ONCE)?.checked_add(index)?;
        let pieces = power(self.large.bits.saturating_sub(self.small.bits));
        if index >= AT_ONCE || piece >= pieces {
            return None;
        }
        let position = self.small.position(rank).saturating_add(piece.saturating_mul(self.width()));
        let span = self.halving.parts.span(position, self.width());
        (span.len > 0).then_some((self.large.rank(position), span))
    }

    /// The message of a rank of the larger block in `round`.
    fn answer(&self, rank: u32, round: u32) -> Option<(u32, Span)> {
        let position = self.large.position(rank);
        let within = position & self.halving.width(self.small.bits).wrapping_sub(1);
        let piece = within.checked_shr(self.halving.bits.saturating_sub(self.large.bits))?;
        let span = self.halving.parts.span(position, self.width());
        let now = piece / AT_ONCE == round && span.len > 0;
        now.then(|| (self.small.rank(position.wrapping_sub(within)), span))
    }

    /// A round in which the larger block gets the parts of the smaller.
    fn join(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let block = RankBlock::with(instance.size(), instance.rank()).bits;
        if block == self.small.bits {
            let (to, from) = self.message(instance.rank(), round, index)?;
            return Some(Step::Send { to, from });
        }
        let (from, part) = self.answer(instance.rank(), round).filter(|_| block == self.large.bits)?;
        let arrived = Span::scratch(part.len);
        let reduce = Step::Reduce { into: part, from: arrived, order: Order::IntoFirst };
        nth([Step::Recv { from, into: arrived }, reduce], index)
    }

    /// A round in which the smaller block gets them back.
    fn part(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let block = RankBlock::with(instance.size(), instance.rank()).bits;
        if block == self.small.bits {
            let (from, into) = self.message(instance.rank(), round, index)?;
            return Some(Step::Recv { from, into });
        }
        let (to, from) = self.answer(instance.rank(), round).filter(|_| block == self.large.bits)?;
        nth([Step::Send { to, from }], index)
    }

    /// Returns the work of handing parts over and of getting them back: the first rank of the
    /// smaller block has the longest parts.
    fn work(&self) -> Work {
        let (all, parts) = (self.halving.width(self.small.bits), self.halving.parts);
        let pieces = power(self.large.bits.saturating_sub(self.small.bits));
        let longest =
            parts.longest_messages(0, self.width(), AT_ONCE.saturating_mul(self.width()), self.rounds());
        let fan = parts.nonempty_pieces(0, self.width(), pieces).saturating_sub(longest.rounds);
        let sent = Work { fan, elements: parts.len(0, all) as u64, ..longest };
        sum([Work { reduced: longest.elements, ..sent }, sent])
    }
}

/// The pairs of neighbouring blocks of `size` ranks, from the smallest on.
fn pairs(size: u32, count: usize) -> impl Iterator<Item = BlockPair> {
    let halving = Halving::new(count, log2_floor(size));
    let above = move |bits: u32| {
        let rest = size.checked_shr(bits)?;
        (rest > 0).then(|| RankBlock::of(size, bits + rest.trailing_zeros()))
    };
    let mut small = above(0);
    core::iter::from_fn(move || {
        let pair = BlockPair { small: small?, large: above(small?.bits + 1)?, halving };
        small = Some(pair.large);
        Some(pair)
    })
}

/// Halving or doubling inside of a block, as far as it goes.
fn exchange(instance: &Instance, bit: u32, doubles: bool, index: u32) -> Option<Step> {
    let block = RankBlock::with(instance.size(), instance.rank());
    let halving = Halving::new(instance.count(), block.most);
    let position = block.position(instance.rank());
    if bit >= block.bits {
        return None;
    }
    let partner = block.rank(halving.partner(position, bit));
    if doubles {
        nth(halving.double(position, bit, partner), index)
    } else {
        nth(halving.halve(instance, position, bit, partner), index)
    }
}

fn lengths(instance: &Instance) -> [u32; 4] {
    let (bits, joins) = (log2_floor(instance.size()), joins(instance.size()));
    [bits, joins, joins, bits]
}

/// The rounds in which blocks hand their parts on.
fn joins(size: u32) -> u32 {
    pairs(size, 0).map(|pair| pair.rounds()).sum()
}

/// The pair whose round `round` is, and the round of its own.
fn pair_at(instance: &Instance, mut round: u32) -> Option<(BlockPair, u32)> {
    pairs(instance.size(), instance.count()).find_map(|pair| match round.checked_sub(pair.rounds()) {
        None => Some((pair, round)),
        Some(rest) => {
            round = rest;
            None
        }
    })
}

impl Schedule for HalvingDoubling {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "halving_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { lengths(instance).iter().sum() }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let lengths = lengths(instance);
        let [bits, joins, ..] = lengths;
        match locate(round, lengths)? {
            (0, bit) => exchange(instance, bit, false, index),
            (1, round) => {
                let (pair, round) = pair_at(instance, round)?;
                pair.join(instance, round, index)
            }
            (2, done) => {
                let (pair, round) = pair_at(instance, joins - 1 - done)?;
                pair.part(instance, round, index)
            }
            (_, done) => exchange(instance, bits - 1 - done, true, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        Pairs::new(power(log2_floor(size)), None).capacity(scratch)
    }
}

impl Priced for HalvingDoubling {
    fn source(&self) -> &'static str {
        "Rabenseifner, Traeff 2004 (binary blocks); gloo allreduce_halving_doubling.h"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let halving = Halving::new(count, log2_floor(size));
        let joins = pairs(size, count).fold(Work::default(), |all, pair| sum([all, pair.work()]));
        if count == 0 {
            Work::default()
        } else {
            sum([halving.exchanged(true), joins, halving.exchanged(false)])
        }
    }

    fn reproduces(&self, size: u32) -> bool {
        pairs_up(size)
    }
}
