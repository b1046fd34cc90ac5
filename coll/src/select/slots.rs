//! The facts that selection knows of the algorithm: its name and its cost.

use aldis_kernel::hal::shared_control::ControlSlotsShape;
use aldis_kernel::hal::{Cause, Operation};

use super::{Call, reduces};
use crate::schedule::{Algorithm, Instance, Schedule, Step, Work, is_among_neighbors, on_blocks};

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

/// Bytes that stand in a slot, wherever there are any.
pub const SLOT_BYTES: u64 = 8192;

/// An element of more bytes is not reduced in chunks.
const PASSED_ELEMENT_BYTES_MAX: u64 = 64;

/// The name of the algorithm, the same for every operation.
pub const NAME: &str = "shared";

/// Returns true if the operation has this algorithm.
pub(crate) const fn serves(operation: Operation) -> bool {
    use Operation::{Allreduce, Barrier, Bcast, Reduce};
    matches!(operation, Barrier | Bcast | Reduce | Allreduce) || is_in_control_slots(operation)
}

/// Returns true for an operation that has it for blocking calls alone, and for what stands in
/// slots: an operation on blocks, a scan, or an exchange with neighbours.
pub(crate) const fn is_in_control_slots(operation: Operation) -> bool {
    use Operation::{Exscan, Scan};
    on_blocks(operation) || is_among_neighbors(operation) || matches!(operation, Scan | Exscan)
}

/// Returns true for an operation in which no rank knows how long all blocks are: slots say so.
pub(crate) const fn has_unknown_lengths(operation: Operation) -> bool {
    use Operation::{Alltoallv, Alltoallw, Gatherv, Scatterv};
    matches!(operation, Gatherv | Scatterv | Alltoallv | Alltoallw)
}

/// Returns true if what each rank gives in such a call stands in a slot. Where lengths are unlike
/// and no rank knows them all, that is only seen there.
pub(crate) const fn stands_in_control_slots(call: &Call) -> bool {
    use Operation::{Allgather, Allgatherv, Alltoallv, Alltoallw, Exscan, Gather, Gatherv, Scan, Scatterv};
    let block = bytes(call);
    let bytes = match call.operation {
        Gatherv | Scatterv | Alltoallv | Alltoallw => 0,
        // How many neighbours there are is seen there, too.
        operation if is_among_neighbors(operation) => 0,
        Allgather | Allgatherv | Gather | Scan | Exscan => block,
        _ => block.saturating_mul(call.size as u64),
    };
    is_in_control_slots(call.operation) && bytes <= SLOT_BYTES
}

/// Ranks that pass blocks in chunks at most, of each of which a chunk has a part.
const PASSING_RANKS_MAX: u32 = 8;

/// Returns true if, where that is not so, ranks pass what is given in chunks: two, or more if each
/// takes of all.
pub(crate) const fn passes_in_chunks(call: &Call) -> bool {
    use Operation::{Allgather, Allgatherv, Alltoall, Alltoallv, Alltoallw};
    use Operation::{Exscan, Gather, Gatherv, Reduce, ReduceScatterBlock, Scan, Scatter, Scatterv};
    let is_passed = match call.operation {
        Allgather | Allgatherv | Alltoall | Alltoallv | Alltoallw => true,
        Gather | Gatherv | Scatter | Scatterv | Reduce => true,
        // An element is in one chunk.
        ReduceScatterBlock | Scan | Exscan => call.element_bytes as u64 <= PASSED_ELEMENT_BYTES_MAX,
        _ => false,
    };
    let is_for_all = matches!(call.operation, Allgather | Alltoall | ReduceScatterBlock);
    is_passed && (call.size == 2 || is_for_all && call.size > 2 && call.size <= PASSING_RANKS_MAX)
}

/// Returns true if the data of a call, which are one stretch, are the block that one rank of two
/// hands over to the other: no slot holds it.
#[inline(always)]
pub(crate) const fn is_handed_over(call: &Call) -> bool {
    match call.operation {
        Operation::Scan | Operation::Exscan => !stands_in_control_slots(call),
        Operation::Reduce => call.size == 2 && bytes(call) > SLOT_BYTES,
        _ => false,
    }
}

/// Returns true if the other rank of two reads so many bytes, where slots have this shape, sooner
/// from where they are than it takes them from chunks.
pub(crate) fn is_read(shape: &ControlSlotsShape, bytes: u64) -> bool {
    (1..=bytes).contains(&shape.pair_read_bytes_min.into())
}

/// Returns true if one of two ranks may lend what it gives in such a call: it is copied, or reduced
/// by the other alone.
pub(crate) const fn is_lendable(operation: Operation, size: u32) -> bool {
    use Operation::{Bcast, Reduce};
    size == 2 && (matches!(operation, Bcast | Reduce) || on_blocks(operation) && !reduces(operation))
}

/// Returns true if what a rank of two gives in such a call is lent instead of passed in chunks, as
/// it is so long.
pub(crate) fn is_lent(call: &Call, shape: &ControlSlotsShape) -> bool {
    is_lendable(call.operation, call.size) && is_read(shape, bytes(call))
}

/// Returns true if a call is for control slots but for its length.
#[inline(always)]
pub(crate) const fn is_too_long(call: &Call) -> bool {
    is_in_control_slots(call.operation) && !stands_in_control_slots(call) && !passes_in_chunks(call)
}

/// Bytes of the data of a call, or of its longest block.
pub(crate) const fn bytes(call: &Call) -> u64 {
    (call.count as u64).saturating_mul(call.element_bytes as u64)
}

/// Returns the cause of failure of what is too long for control slots.
pub(crate) const fn too_long(call: &Call) -> Cause {
    Cause::TooBig { len: bytes(call), max: SLOT_BYTES }
}

/// Elements that stand in a slot.
pub(crate) fn slot_elements(element_bytes: u32) -> usize {
    (SLOT_BYTES as usize).checked_div(element_bytes as usize).unwrap_or(usize::MAX)
}

/// The algorithm of an operation, to be named.
pub(crate) fn algorithm(operation: Operation) -> Option<Algorithm> {
    static ALL: [Unscheduled; 22] = [
        Unscheduled(Operation::Barrier),
        Unscheduled(Operation::Bcast),
        Unscheduled(Operation::Reduce),
        Unscheduled(Operation::Allreduce),
        Unscheduled(Operation::Gather),
        Unscheduled(Operation::Gatherv),
        Unscheduled(Operation::Scatter),
        Unscheduled(Operation::Scatterv),
        Unscheduled(Operation::Allgather),
        Unscheduled(Operation::Allgatherv),
        Unscheduled(Operation::Alltoall),
        Unscheduled(Operation::Alltoallv),
        Unscheduled(Operation::Alltoallw),
        Unscheduled(Operation::ReduceScatterBlock),
        Unscheduled(Operation::ReduceScatter),
        Unscheduled(Operation::Scan),
        Unscheduled(Operation::Exscan),
        Unscheduled(Operation::NeighborAllgather),
        Unscheduled(Operation::NeighborAllgatherv),
        Unscheduled(Operation::NeighborAlltoall),
        Unscheduled(Operation::NeighborAlltoallv),
        Unscheduled(Operation::NeighborAlltoallw),
    ];
    let known = ALL.iter().find(|one| one.0 == operation && serves(operation));
    known.map(|one| -> Algorithm { one })
}

/// Its cost on the critical path, a journey of a cache line or of a chunk counted as a message:
/// what is written and what is read of each byte are done at a time.
pub(crate) fn work(operation: Operation, size: u32, count: usize) -> Work {
    let (count, size) = (count as u64, u64::from(size.max(1)));
    let part = count.div_ceil(size);
    let others = size.saturating_sub(1);
    let reduced = match operation {
        Operation::Bcast => 0,
        Operation::Scan | Operation::Exscan | Operation::ReduceScatterBlock | Operation::ReduceScatter => {
            count.saturating_mul(others)
        }
        operation if on_blocks(operation) || is_in_control_slots(operation) => 0,
        Operation::Reduce => count.saturating_mul(others),
        _ => {
            if size > 2 {
                part.saturating_mul(others)
            } else {
                count
            }
        }
    };
    match operation {
        Operation::Barrier => Work { rounds: 1, ..Work::default() },
        // A rank reads a block, or what it reduces, of every other.
        operation if is_in_control_slots(operation) && size >= 2 => {
            Work { rounds: 1, elements: count.saturating_mul(others), reduced, ..Work::default() }
        }
        _ if count == 0 || size < 2 => Work::default(),
        _ => Work { rounds: 1, elements: count, reduced, ..Work::default() },
    }
}
