//! The ring: each block goes around once, and every rank adds to it.

use aldis_kernel::hal::Operation;

use super::partial::{given, kept, result};
use crate::phases::{messages, sum};
use crate::schedule::{BlockRange, Instance, Order, Priced, Schedule, Step, Work};

/// The ring reduce-scatter: p - 1 rounds of a block to the next rank; optimal in bytes. The block
/// of rank r begins its way at the rank after it and ends it there: operands are in ring order, not
/// in rank order, hence only for operations that commute.
///
/// Scratch: two blocks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ring;

impl Schedule for Ring {
    fn operation(&self) -> Operation {
        Operation::ReduceScatterBlock
    }

    fn name(&self) -> &'static str {
        "ring"
    }

    fn rounds(&self, instance: &Instance) -> u32 {
        if instance.count() == 0 { 0 } else { (instance.size() - 1).max(1) }
    }

    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        if round >= self.rounds(instance) {
            return None;
        }
        let (size, own) = (instance.size(), BlockRange::of(instance.rank()));
        if size < 2 {
            return (index == 0).then(|| result(instance, given(instance, own)));
        }
        let [incoming, outgoing] = [round + 2, round + 1].map(|by| BlockRange::of(instance.before(by)));
        let into = kept(instance, round & 1, incoming);
        let from = match round {
            0 => given(instance, outgoing),
            _ => kept(instance, !round & 1, outgoing),
        };
        match index {
            0 => Some(Step::Recv { from: instance.before(1), into }),
            1 => Some(Step::Send { to: instance.after(1), from }),
            2 => Some(Step::Reduce { into, from: given(instance, incoming), order: Order::IntoFirst }),
            3 if round + 2 == size => Some(result(instance, into)),
            _ => None,
        }
    }

    fn capacity(&self, size: u32, scratch: usize) -> usize {
        if size < 2 { usize::MAX } else { scratch / size.saturating_sub(1).min(2) as usize }
    }

    fn keeps_rank_order(&self) -> bool {
        false
    }
}

impl Priced for Ring {
    fn source(&self) -> &'static str {
        "Patarasuk, Yuan 2009; Open MPI ompi_coll_base_reduce_scatter_intra_ring; gloo reduce_scatter.h"
    }

    fn work(&self, size: u32, count: usize) -> Work {
        let copied = Work { copied: count as u64, ..Work::default() };
        sum([messages(size.saturating_sub(1), count, true), copied])
    }
}
