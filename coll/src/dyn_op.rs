//! Reductions whose operation and element are known only when the program runs, as those of
//! `MPI_Op_create`: on bytes.

use aldis_kernel::Rank;
use aldis_kernel::hal::{Cause, Operation};

use crate::algorithms::algorithms;
use crate::block_call::{BlockCall, InputBlocks};
use crate::collective::Input;
use crate::contiguous::ContiguousCall;
use crate::layout::Layout;
use crate::op::Kernel;
use crate::schedule::divide;
use crate::select::{Call, CallSpec};

/// A reduction by a [`Kernel`].
#[derive(Clone, Copy, Debug)]
pub struct DynReduction {
    /// [`Reduce`](Operation::Reduce), [`Allreduce`](Operation::Allreduce),
    /// [`Scan`](Operation::Scan) or [`Exscan`](Operation::Exscan).
    pub operation: Operation,
    /// The kernel that combines the elements.
    pub kernel: Kernel,
    /// The rank that gets the result of a reduction to one rank; unused in other operations.
    pub root: Rank,
}

/// Reduces the bytes of the elements, as [`reduce`](crate::reduce()),
/// [`allreduce`](crate::allreduce()) and the like do on elements.
///
/// ```
/// # use aldis_coll::dyn_op::{DynReduction, reduce_by};
/// # use aldis_coll::op::{Kernel, Sum};
/// # use aldis_kernel::{Comm, Endpoint, Error, Rank, hal::{Operation, Platform, Transport}};
/// # fn total<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     world: &Comm,
/// # ) -> Result<(), Error> {
/// let (operation, kernel) = (Operation::Allreduce, Kernel::of::<Sum, u8>());
/// let sum = DynReduction { operation, kernel, root: Rank(0) };
/// let mut data = [1; 4];
/// reduce_by(sum, &mut data, &mut [0; 4]).run(ep, world)
/// # }
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`] for bytes that are no whole elements, [`Cause::Unsupported`] for
/// an operation that is no reduction, [`Cause::Unaligned`] or another cause that the kernel
/// gives; the rest as those functions.
#[inline(always)]
pub fn reduce_by<'m>(what: DynReduction, data: &'m mut [u8], scratch: &'m mut [u8]) -> ContiguousCall<'m> {
    use Operation::{Allreduce, Exscan, Reduce, Scan};
    let DynReduction { operation, kernel, root } = what;
    let (bytes, element_bytes) = (data.len(), kernel.element_bytes());
    let of = |bytes: usize| divide(bytes, element_bytes as usize);
    let ((count, rest), (scratch_count, _)) = (of(bytes), of(scratch.len()));
    let commutes = kernel.commutes();
    let call = Call { operation, size: 0, count, element_bytes, scratch: scratch_count, commutes };
    let root = if operation == Reduce { root.0 } else { 0 };
    let spec = CallSpec { call, root, kernel: Some(kernel), candidates: algorithms(operation) };
    let refusal = match (operation, rest) {
        (Reduce | Allreduce | Scan | Exscan, 0) => None,
        (Reduce | Allreduce | Scan | Exscan, _) => {
            let (left, right) = (bytes as u64, bytes.saturating_sub(rest) as u64);
            Some(Cause::LengthMismatch { left, right })
        }
        _ => Some(Cause::Unsupported),
    };
    let mut call = ContiguousCall::new(spec, data, scratch);
    call.refusal = refusal;
    call
}

/// Reduces the bytes of the elements of `operand` like [`reduce_by`], and leaves the result in
/// `data`, as [`reduce_from`](crate::reduce_from()) does on elements.
///
/// # Errors
/// Those of [`reduce_by`] and [`reduce_from`](crate::reduce_from()).
#[inline(always)]
pub fn reduce_by_from<'m>(
    what: DynReduction,
    operand: &'m [u8],
    data: &'m mut [u8],
    scratch: &'m mut [u8],
) -> ContiguousCall<'m> {
    reduce_by(what, data, scratch).given(operand)
}

/// Reduces blocks of bytes of the elements, as
/// [`reduce_scatter_block`](crate::reduce_scatter_block()) does on elements.
///
/// # Errors
/// [`Cause::LengthMismatch`] for bytes that are no whole elements, [`Cause::Unaligned`] or another
/// cause that the kernel gives; the rest as that function.
#[inline(always)]
pub fn reduce_scatter_block_by<'m>(
    kernel: Kernel,
    input: impl Into<Input<'m, u8>>,
    data: &'m mut [u8],
    scratch: &'m mut [u8],
) -> BlockCall<'m> {
    let call = BlockCall::new(Operation::ReduceScatterBlock, data, Layout::Own, scratch);
    call.given(input.into(), Layout::Even).reducing(kernel).of_elements(kernel.element_bytes())
}

/// Reduces blocks of bytes of the elements, as [`reduce_scatter`](crate::reduce_scatter()) does on
/// elements: the blocks are listed in elements.
///
/// # Errors
/// [`Cause::LengthMismatch`] for bytes that are no whole elements, and unless a block is listed for
/// every rank; [`Cause::Unaligned`] or another cause that the kernel gives; the rest as that
/// function.
pub fn reduce_scatter_by<'m>(
    kernel: Kernel,
    given: InputBlocks<'m, u8>,
    data: &'m mut [u8],
    scratch: &'m mut [u8],
) -> BlockCall<'m> {
    let call = BlockCall::new(Operation::ReduceScatter, data, Layout::Own, scratch);
    let call = call.given(given.input, Layout::Listed(given.blocks)).reducing(kernel);
    call.of_elements(kernel.element_bytes())
}
