//! Recursive doubling: groups of ranks swap all they have.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Priced, Schedule, Step, Work, log2_floor};

/// The recursive-doubling allgather: log2 p rounds for powers of two; two more for other p.
///
/// Let p' be the largest power of two. Each rank beyond p' hands its block to the rank p' before
/// it, which swaps it along with its own: two messages, as it stands apart. At the end that rank
/// hands all blocks back.
///
/// No scratch, hence for blocks of any lengths.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

/// The ranks that take part in doubling, and how many are beyond them.
const fn split(size: u32) -> (u32, u32) {
    let power = 1 << log2_floor(size);
    (power, size.saturating_sub(power))
}

/// The steps of a doubling round: the blocks of a group, and those of the ranks beyond whom its
/// ranks stand for.
fn swap(instance: &Instance, bits: u32, index: u32) -> Option<Step> {
    let (power, beyond) = split(instance.size());
    let (rank, ranks) = (instance.rank(), 1u32.checked_shl(bits)?);
    let other = rank ^ ranks;
    let group = |rank: u32| rank & !(ranks - 1);
    let extra = |rank: u32| beyond.saturating_sub(group(rank)).min(ranks);
    let sets = [
        (true, instance.blocks(group(other), ranks), true),
        (true, instance.blocks(power + group(other), extra(other)), extra(other) > 0),
        (false, instance.blocks(group(rank), ranks), true),
        (false, instance.blocks(power + group(rank), extra(rank)), extra(rank) > 0),
    ];
    let (receives, span, _) = sets.into_iter().filter(|(.., is_there)| *is_there).nth(index as usize)?;
    Some(match receives {
        true => Step::Recv { from: other, into: span },
        false => Step::Send { to: other, from: span },
    })
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Allgather
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        let folds = if split(instance.size()).1 > 0 { 2 } else { 0 };
        if instance.count() == 0 { 0 } else { log2_floor(instance.size()) + folds }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (power, beyond) = split(instance.size());
        let (rank, last) = (instance.rank(), self.rounds(instance) - 1);
        if beyond == 0 {
            return swap(instance, round, index);
        }
        if round != 0 && round != last {
            return if rank < power { swap(instance, round - 1, index) } else { None };
        }
        let all = instance.blocks(0, instance.size());
        let (first, own) = (round == 0, |rank| instance.block(rank));
        match (rank.checked_sub(power), index) {
            (Some(of), 0) if first => Some(Step::Send { to: of, from: own(rank) }),
            (Some(of), 0) => Some(Step::Recv { from: of, into: all }),
            (None, 0) if rank >= beyond => None,
            (None, 0) if first => Some(Step::Recv { from: rank + power, into: own(rank + power) }),
            (None, 0) => Some(Step::Send { to: rank + power, from: all }),
            _ => None,
        }
    }

    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.1; Open MPI ompi_coll_base_allgather_intra_recursivedoubling; MPICH allgather_intra_recursive_doubling"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let (power, beyond) = split(size);
        if count == 0 || size < 2 {
            return Work::default();
        }
        let (folds, all) = (u64::from(beyond > 0), u64::from(size));
        // The group of rank 0 has most blocks of ranks beyond: as many as its ranks, while there
        // are any.
        let rounds = log2_floor(size);
        let extra: u64 = (0..rounds).map(|bits| u64::from(beyond.min(1 << bits))).sum();
        let blocks = u64::from(power - 1) + extra + folds * (1 + all);
        Work {
            rounds: u64::from(rounds) + 2 * folds,
            fan: u64::from(rounds) * folds,
            elements: blocks.saturating_mul(count as u64),
            ..Work::default()
        }
    }
}
