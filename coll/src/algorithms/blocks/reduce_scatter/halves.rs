//! Halving: what `recursive_halving` and `butterfly` have in common.

use aldis_kernel::hal::Operation;

use super::partial::{add_given, given, kept, result};
use crate::phases::{Pairs, locate, messages, order, power, reverse, sum};
use crate::schedule::variant::Pattern;
use crate::schedule::{BlockRange, Instance, Span, Step, Work};

/// A reduce-scatter by halving. Ranks beyond the largest power of two, 2^b, are folded into pairs
/// that act as one, and the actors count from 0 in the order of ranks. In round k an actor has
/// 2^(b-k) positions' blocks left, gives the half that it does not stand in and reduces the other
/// half. In the end it has the blocks of its position: those of its own number, or, if `MIRRORED`,
/// of its number with the bits in reverse, which are sent to their ranks in a round more.
///
/// Scratch: 3/4 of all blocks; up to 3/2 of them where ranks are folded.
pub(crate) struct Halves<const MIRRORED: bool>;

/// The blocks of as many positions as `width` from `first` on.
fn blocks(pairs: Pairs, first: u32, width: u32) -> BlockRange {
    let rank = pairs.first(first);
    BlockRange { first: rank, len: pairs.first(first.saturating_add(width)).saturating_sub(rank) }
}

/// The blocks that the actor at `position` has before `round`.
fn held(pairs: Pairs, position: u32, round: u32) -> BlockRange {
    let width = power(pairs.bits.saturating_sub(round));
    blocks(pairs, position & !width.wrapping_sub(1), width)
}

/// Blocks of scratch: of those being reduced, and of those that come in besides.
fn scratch(size: u32) -> (u32, u32) {
    let pairs = Pairs::new(size, None);
    match (pairs.folds(), pairs.bits) {
        (_, 0) => (0, 0),
        (0, _) => (size / 2, size / 4),
        (_, bits) => (size, pairs.first(power(bits - 1))),
    }
}

impl<const MIRRORED: bool> Halves<MIRRORED> {
    /// The position of an actor, and the actor at a position.
    fn mirror(pairs: Pairs, number: u32) -> u32 {
        if MIRRORED { reverse(number, pairs.bits) } else { number }
    }

    /// Returns the place in scratch where blocks are reduced.
    fn reduced(instance: &Instance, pairs: Pairs, position: u32, blocks: BlockRange) -> Span {
        let before = if pairs.folds() > 0 { 0 } else { held(pairs, position, 1).first };
        kept(instance, blocks.first.saturating_sub(before), blocks)
    }

    /// The lower rank of a pair gives all it has to the higher one.
    fn fold(instance: &Instance, pairs: Pairs, index: u32) -> Option<Step> {
        let (rank, all) = (instance.rank(), BlockRange::all(instance.size()));
        let (other, into) = (rank ^ 1, kept(instance, 0, all));
        if rank / 2 >= pairs.pairs() {
            return None;
        }
        match (pairs.actor(rank), index) {
            (None, 0) => Some(Step::Send { to: other, from: given(instance, all) }),
            (Some(_), 0) => Some(Step::Recv { from: other, into }),
            (Some(_), 1) => Some(add_given(instance, other, into, given(instance, all))),
            _ => None,
        }
    }

    fn halve(instance: &Instance, pairs: Pairs, round: u32, index: u32) -> Option<Step> {
        let number = pairs.actor(instance.rank())?;
        let position = Self::mirror(pairs, number);
        let beyond = position ^ power(pairs.bits.checked_sub(round)?.checked_sub(1)?);
        let peer = pairs.rank(Self::mirror(pairs, beyond));
        let (stays, goes) = (held(pairs, position, round + 1), held(pairs, beyond, round + 1));
        let reduced = |blocks| Self::reduced(instance, pairs, position, blocks);
        let arrived = kept(instance, scratch(instance.size()).0, stays);
        let is_first = round == 0 && number >= pairs.pairs();
        match (index, is_first) {
            (0, true) => Some(Step::Recv { from: peer, into: reduced(stays) }),
            (0, false) => Some(Step::Recv { from: peer, into: arrived }),
            (1, true) => Some(Step::Send { to: peer, from: given(instance, goes) }),
            (1, false) => Some(Step::Send { to: peer, from: reduced(goes) }),
            (2, true) => Some(add_given(instance, peer, reduced(stays), given(instance, stays))),
            (2, false) => {
                let order = order(instance.rank(), peer);
                Some(Step::Reduce { into: reduced(stays), from: arrived, order })
            }
            _ => None,
        }
    }

    /// Blocks go where they belong.
    fn deliver(instance: &Instance, pairs: Pairs, index: u32) -> Option<Step> {
        let rank = instance.rank();
        let holder = pairs.rank(Self::mirror(pairs, pairs.number(rank)));
        let position = pairs.actor(rank).map(|number| Self::mirror(pairs, number));
        let block = |rank| match position {
            _ if instance.size() < 2 => given(instance, BlockRange::of(rank)),
            position => Self::reduced(instance, pairs, position.unwrap_or(0), BlockRange::of(rank)),
        };
        let send = |nth: u32| {
            let BlockRange { first, len } = held(pairs, position?, pairs.bits);
            let to = first.saturating_add(nth);
            (nth < len && to != rank).then(|| Step::Send { to, from: block(to) })
        };
        let own = instance.block(rank);
        let steps = [
            (holder != rank).then_some(Step::Recv { from: holder, into: own }),
            send(0),
            send(1),
            (holder == rank).then(|| result(instance, block(rank))),
        ];
        steps.into_iter().flatten().nth(index as usize)
    }
}

impl<const MIRRORED: bool> Pattern for Halves<MIRRORED> {
    const OPERATION: Operation = Operation::ReduceScatterBlock;
    const KEEPS_RANK_ORDER: bool = MIRRORED;

    fn reproduces(_size: u32) -> bool {
        MIRRORED
    }

    fn rounds(instance: &Instance) -> u32 {
        let pairs = Pairs::new(instance.size(), None);
        if instance.count() == 0 { 0 } else { pairs.folds() + pairs.bits + 1 }
    }

    fn step(instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let pairs = Pairs::new(instance.size(), None);
        match locate(round, [pairs.folds(), pairs.bits, 1])? {
            (0, _) => Self::fold(instance, pairs, index),
            (1, round) => Self::halve(instance, pairs, round, index),
            _ => Self::deliver(instance, pairs, index),
        }
    }

    fn capacity(size: u32, elements: usize) -> usize {
        let (reduced, arrived) = scratch(size);
        elements.checked_div((reduced as usize).saturating_add(arrived as usize)).unwrap_or(usize::MAX)
    }

    fn work(size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let (pairs, of) = (Pairs::new(size, None), |blocks: u32| (blocks as usize).saturating_mul(count));
        let halved = (0..pairs.bits).map(|round| messages(1, of(pairs.first(power(round))), true));
        // An actor that has the blocks of a pair that it is not in sends two.
        let sends = match pairs.pairs() {
            0 => u32::from(MIRRORED && pairs.bits > 1),
            1 => 1,
            _ => 1 + u32::from(MIRRORED),
        };
        let delivered =
            Work { fan: sends.saturating_sub(1).into(), ..messages(sends.min(1), of(sends), false) };
        let copied = Work { copied: count as u64, ..Work::default() };
        let folded = messages(pairs.folds(), of(size), true);
        sum([folded, halved.fold(Work::default(), |all, one| sum([all, one])), delivered, copied])
    }
}
