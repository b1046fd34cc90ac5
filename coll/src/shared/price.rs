//! What selection knows of the algorithm: its name and its cost.

use aldis_kernel::hal::Operation;

use crate::schedule::{Algorithm, Instance, Schedule, Step, Work};

/// The name of these algorithms where an [`Algorithm`] is asked for. There is nothing to schedule.
struct Unscheduled(Operation);

impl Schedule for Unscheduled {
    fn operation(&self) -> Operation {
        self.0
    }
    fn name(&self) -> &'static str {
        NAME
    }
    fn rounds(&self, _instance: &Instance) -> u32 {
        0
    }
    fn step(&self, _instance: &Instance, _round: u32, _index: u32) -> Option<Step> {
        None
    }
    fn capacity(&self, _size: u32, _scratch: usize) -> usize {
        usize::MAX
    }
}

/// What the algorithm is called, of every operation.
pub const NAME: &str = "shared";

/// Whether the operation has this algorithm.
pub(crate) const fn serves(operation: Operation) -> bool {
    matches!(operation, Operation::Barrier | Operation::Bcast | Operation::Reduce | Operation::Allreduce)
}

/// The algorithm of an operation, to be named.
pub(crate) fn algorithm(operation: Operation) -> Option<Algorithm> {
    static ALL: [Unscheduled; 4] = [
        Unscheduled(Operation::Barrier),
        Unscheduled(Operation::Bcast),
        Unscheduled(Operation::Reduce),
        Unscheduled(Operation::Allreduce),
    ];
    ALL.iter().find(|one| one.0 == operation).map(|one| -> Algorithm { one })
}

/// More bytes count as copied once more: all that passes through the chunks is written and read again there, while a long
/// message is read where it is. Two ranks, 1 MiB (AMD EPYC, two cores of one cache): a broadcast takes 102 us, by messages
/// 65; a reduction 101 and 79, an all-reduce 150 and 123; at 64 KiB the chunks are as fast or twice as fast.
pub(crate) const ONCE_BYTES: u64 = 128 << 10;

/// Its cost on the critical path, a journey of a line or of a chunk counted as a message: what is written and what is read
/// of each byte are done at a time.
pub(crate) fn work(operation: Operation, size: u32, count: usize, element_bytes: u32) -> Work {
    let is_long = (count as u64).saturating_mul(element_bytes.into()) > ONCE_BYTES;
    let (count, size) = (count as u64, u64::from(size.max(1)));
    let copied = if is_long { count } else { 0 };
    let part = count.div_ceil(size);
    let others = size.saturating_sub(1);
    let reduced = match operation {
        Operation::Bcast => 0,
        Operation::Reduce => count.saturating_mul(others),
        _ => part.saturating_mul(others),
    };
    match operation {
        Operation::Barrier => Work { rounds: 1, ..Work::default() },
        _ if count == 0 || size < 2 => Work::default(),
        _ => Work { rounds: 1, elements: count, reduced, copied, ..Work::default() },
    }
}
