//! Recursive doubling: groups of ranks swap all that is not for themselves.

use aldis_kernel::hal::Operation;

use super::partial::{add_given, given, image, result};
use crate::phases::{Pairs, locate, messages, order, power, sum};
use crate::schedule::{BlockRange, Instance, Priced, Schedule, Step, Work};

/// The reduce-scatter by recursive doubling: log2 p rounds for p a power of two, in round k of
/// which a rank sends all blocks but those of its group of 2^k ranks: n (log2 p - (p - 1)/p)
/// elements, of which those are reduced that are for itself or go on in the next round. More than
/// halving sends, in as few rounds, in the order of ranks, and without a permutation. Otherwise
/// pairs of ranks act as one: a round of n elements more before, and one after.
///
/// Scratch: 2 n.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

/// The blocks of a group of `width` numbers.
fn group(pairs: Pairs, number: u32, width: u32) -> BlockRange {
    let first = number & !width.wrapping_sub(1);
    let rank = pairs.first(first);
    BlockRange { first: rank, len: pairs.first(first.saturating_add(width)).saturating_sub(rank) }
}

/// All other blocks, around the circle.
fn others(size: u32, blocks: BlockRange) -> BlockRange {
    let next = blocks.first.saturating_add(blocks.len);
    BlockRange { first: if next < size { next } else { 0 }, len: size.saturating_sub(blocks.len) }
}

fn fold(instance: &Instance, pairs: Pairs, index: u32) -> Option<Step> {
    let (rank, all) = (instance.rank(), BlockRange::all(instance.size()));
    let other = rank ^ 1;
    match (pairs.actor(rank), index) {
        _ if rank / 2 >= pairs.pairs() => None,
        (None, 0) => Some(Step::Send { to: other, from: given(instance, all) }),
        (Some(_), 0) => Some(Step::Recv { from: other, into: image(instance, 0, all) }),
        (Some(_), 1) => Some(add_given(instance, other, image(instance, 0, all), given(instance, all))),
        _ => None,
    }
}

fn swap(instance: &Instance, pairs: Pairs, round: u32, index: u32) -> Option<Step> {
    let number = pairs.actor(instance.rank())?;
    let (size, width) = (instance.size(), power(round));
    let (beyond, peer) = (number ^ width, pairs.rank(number ^ width));
    let (goes, comes) = (group(pairs, number, width), group(pairs, beyond, width));
    let (goes, comes) = (others(size, goes), others(size, comes));
    let (own, rest) = (group(pairs, number, 1), others(size, group(pairs, number, 2 * width)));
    let is_first = round == 0 && number >= pairs.pairs();
    let reduced = |blocks| image(instance, 0, blocks);
    let reduce = |blocks| match is_first {
        true => add_given(instance, peer, reduced(blocks), given(instance, blocks)),
        false => Step::Reduce {
            into: reduced(blocks),
            from: image(instance, 1, blocks),
            order: order(instance.rank(), peer),
        },
    };
    match index {
        0 if is_first => Some(Step::Recv { from: peer, into: reduced(comes) }),
        0 => Some(Step::Recv { from: peer, into: image(instance, 1, comes) }),
        1 if is_first => Some(Step::Send { to: peer, from: given(instance, goes) }),
        1 => Some(Step::Send { to: peer, from: reduced(goes) }),
        2 => Some(reduce(own)),
        3 if rest.len > 0 => Some(reduce(rest)),
        _ => None,
    }
}

fn deliver(instance: &Instance, pairs: Pairs, index: u32) -> Option<Step> {
    let (rank, size) = (instance.rank(), instance.size());
    let (other, is_paired) = (rank ^ 1, rank / 2 < pairs.pairs());
    let block = |rank| match size {
        1 => given(instance, BlockRange::of(rank)),
        _ => image(instance, 0, BlockRange::of(rank)),
    };
    match (pairs.actor(rank), index) {
        (None, 0) => Some(Step::Recv { from: other, into: instance.block(rank) }),
        (Some(_), 0) if is_paired => Some(Step::Send { to: other, from: block(other) }),
        (Some(_), index) if index == u32::from(is_paired) => Some(result(instance, block(rank))),
        _ => None,
    }
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::ReduceScatterBlock
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        let pairs = Pairs::new(instance.size(), None);
        if instance.count() == 0 { 0 } else { pairs.folds() + pairs.bits + 1 }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let pairs = Pairs::new(instance.size(), None);
        if instance.count() == 0 {
            return None;
        }
        match locate(round, [pairs.folds(), pairs.bits, 1])? {
            (0, _) => fold(instance, pairs, index),
            (1, round) => swap(instance, pairs, round, index),
            _ => deliver(instance, pairs, index),
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        super::of_images(size, scratch)
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.3; Open MPI ompi_coll_base_reduce_scatter_block_intra_recursivedoubling; MPICH reduce_scatter_block_intra_recursive_doubling"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 || size < 2 {
            return Work { copied: count as u64, ..Work::default() };
        }
        let (pairs, of) = (Pairs::new(size, None), |blocks: u32| (blocks as usize).saturating_mul(count));
        // The last group has the fewest ranks.
        let last = |width| group(pairs, power(pairs.bits) - 1, width);
        let swapped = (0..pairs.bits).map(|round| {
            let (ours, both) = (last(power(round)), last(power(round + 1)));
            let own = 1 + u32::from(both.first < 2 * pairs.pairs());
            let reduced = of(others(size, both).len.saturating_add(own)) as u64;
            Work { reduced, ..messages(1, of(others(size, ours).len), false) }
        });
        sum([
            messages(pairs.folds(), of(size), true),
            swapped.fold(Work::default(), |all, one| sum([all, one])),
            messages(pairs.folds(), count, false),
            Work { copied: count as u64, ..Work::default() },
        ])
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
