//! Recursive doubling: pairs at distance 1, 2, 4, .. exchange everything they have and both combine
//! it.

use aldis_kernel::hal::Operation;

use crate::schedule::{Instance, Order, Priced, Schedule, Span, Step, Work, log2_floor};

/// The recursive-doubling all-reduce: floor(log2 p) rounds of n elements, and two more when p is no
/// power of two.
///
/// Then the first 2 (p - 2^floor(log2 p)) ranks fold: even ranks hand their data to the odd rank
/// after them and get the result from it at the end. The others, renumbered densely, exchange with
/// the partner whose number differs in bit k in round k.
///
/// **Same bits everywhere:** both partners combine the lower ranks' operand on the left and the
/// higher ranks' on the right, so that both evaluate the same expression; by induction all of them
/// end with the same expression tree. Each operand covers a contiguous range of ranks, so rank
/// order is kept.
///
/// Scratch: as many elements as a segment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RecursiveDoubling;

/// Ranks beyond the largest power of two.
const fn excess(size: u32) -> u32 {
    size.saturating_sub(1u32.wrapping_shl(log2_floor(size)))
}

/// The part of a rank in the rounds between fold and unfold. Like [`Pairs`](crate::phases::Pairs),
/// but without a root: small firmware holds this algorithm and no other, and 42 bytes less by it.
enum DoublingRole {
    /// Sits them out: its data went to the rank after it.
    Folded,
    /// Takes part under this dense number.
    Active(u32),
}

fn role(rank: u32, excess: u32) -> DoublingRole {
    if rank / 2 >= excess {
        DoublingRole::Active(rank - excess)
    } else if rank.is_multiple_of(2) {
        DoublingRole::Folded
    } else {
        DoublingRole::Active(rank / 2)
    }
}

/// The rank that goes under the dense number `number`.
const fn rank_of(number: u32, excess: u32) -> u32 {
    if number < excess { 2 * number + 1 } else { number + excess }
}

impl RecursiveDoubling {
    /// Even ranks of the folded pairs give their data away.
    fn fold(instance: &Instance, index: u32) -> Option<Step> {
        let rank = instance.rank();
        let (data, scratch) = whole(instance);
        match (role(rank, excess(instance.size())), index) {
            (DoublingRole::Folded, 0) => Some(Step::Send { to: rank + 1, from: data }),
            (DoublingRole::Active(number), _) if number >= excess(instance.size()) => None,
            (DoublingRole::Active(_), 0) => Some(Step::Recv { from: rank - 1, into: scratch }),
            (DoublingRole::Active(_), 1) => {
                Some(Step::Reduce { into: data, from: scratch, order: Order::FromFirst })
            }
            _ => None,
        }
    }

    /// Exchange with the partner across bit `bit` and combine.
    fn exchange(instance: &Instance, bit: u32, index: u32) -> Option<Step> {
        let excess = excess(instance.size());
        let DoublingRole::Active(number) = role(instance.rank(), excess) else { return None };
        let partner = rank_of(number ^ 1u32.checked_shl(bit)?, excess);
        let (data, scratch) = whole(instance);
        let order = if partner < instance.rank() { Order::FromFirst } else { Order::IntoFirst };
        match index {
            0 => Some(Step::Recv { from: partner, into: scratch }),
            1 => Some(Step::Send { to: partner, from: data }),
            2 => Some(Step::Reduce { into: data, from: scratch, order }),
            _ => None,
        }
    }

    /// Even ranks of the folded pairs get the result.
    fn unfold(instance: &Instance, index: u32) -> Option<Step> {
        let rank = instance.rank();
        let (data, _) = whole(instance);
        match (role(rank, excess(instance.size())), index) {
            (DoublingRole::Folded, 0) => Some(Step::Recv { from: rank + 1, into: data }),
            (DoublingRole::Active(number), 0) if number < excess(instance.size()) => {
                Some(Step::Send { to: rank - 1, from: data })
            }
            _ => None,
        }
    }
}

fn whole(instance: &Instance) -> (Span, Span) {
    (Span::data(0, instance.count()), Span::scratch(instance.count()))
}

impl Schedule for RecursiveDoubling {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }

    fn name(&self) -> &'static str {
        "recursive_doubling"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 {
            return 0;
        }
        let folds = if excess(instance.size()) > 0 { 2 } else { 0 };
        log2_floor(instance.size()) + folds
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        let rounds = self.rounds(instance);
        let folds = excess(instance.size()) > 0;
        if round >= rounds {
            None
        } else if !folds {
            Self::exchange(instance, round, index)
        } else if round == 0 {
            Self::fold(instance, index)
        } else if round + 1 == rounds {
            Self::unfold(instance, index)
        } else {
            Self::exchange(instance, round - 1, index)
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch }
    }
}

impl Priced for RecursiveDoubling {
    fn source(&self) -> &'static str {
        "Thakur, Rabenseifner, Gropp 2005, section 4.5; MPICH allreduce_intra_recursive_doubling; Open MPI \
         ompi_coll_base_allreduce_intra_recursivedoubling"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        if count == 0 {
            return Work::default();
        }
        let count = count as u64;
        let exchanges = u64::from(log2_floor(size));
        let fold = u64::from(excess(size) > 0);
        Work {
            rounds: exchanges + 2 * fold,
            elements: (exchanges + 2 * fold).saturating_mul(count),
            reduced: (exchanges + fold).saturating_mul(count),
            ..Work::default()
        }
    }

    fn reproduces(&self, _size: u32) -> bool {
        true
    }
}
