//! An algorithm that is not of the library.

use aldis_coll::schedule::{Instance, Order, Schedule, Span, Step};
use aldis_kernel::hal::Operation;

/// An algorithm of a program's own: every rank sends to every rank, and reduces all in rank order.
/// Several messages a round, copies, and more scratch than data.
#[derive(Debug)]
pub(crate) struct EveryToEvery;

impl Schedule for EveryToEvery {
    fn operation(&self) -> Operation {
        Operation::Allreduce
    }
    fn name(&self) -> &'static str {
        "direct"
    }
    fn rounds(&self, _: &Instance) -> u32 {
        1
    }
    fn step(&self, instance: &Instance, _: u32, index: u32) -> Option<Step> {
        let (count, others) = (instance.count(), instance.size() - 1);
        let data = Span::data(0, count);
        let slot = |rank: u32| Span { start: rank as usize * count, ..Span::scratch(count) };
        let rank = index.checked_sub(2 * others + 1);
        if index < others {
            let from = instance.before(index + 1);
            Some(Step::Recv { from, into: slot(from) })
        } else if index < 2 * others {
            Some(Step::Send { to: instance.after(index - others + 1), from: data })
        } else if index == 2 * others {
            Some(Step::Copy { into: slot(instance.rank()), from: data })
        } else {
            match rank? {
                0 => Some(Step::Copy { into: data, from: slot(0) }),
                rank if rank <= others => {
                    Some(Step::Reduce { into: data, from: slot(rank), order: Order::IntoFirst })
                }
                _ => None,
            }
        }
    }
    fn capacity(&self, size: u32, scratch: usize) -> usize {
        scratch / size as usize
    }
}
