//! Calls on blocks of datatypes.

use aldis_kernel::hal::Operation;
use zerocopy::IntoBytes;

use crate::block_call::BlockCall;
use crate::collective::Input;
use crate::layout::{Layout, TypedBlock};
use crate::op::Element;

/// Sends block r of `input` to rank r, for every r, and receives into block r of `data` what rank r
/// has sent (MPI_Alltoallw, MPI_Ialltoallw). Each block is of a datatype of its own, listed by
/// `given` and `blocks`: what is sent from one rank to another has one signature at both, and may
/// lie scattered in memory, otherwise at each. It is packed straight into messages and unpacked
/// straight out of them, and converted where ranks are of unlike byte orders or widths.
///
/// The types are those of the endpoint's table, or basic ones; they are there until the call is
/// over. Blocks of `data` do not overlap.
///
/// ```
/// # use aldis_coll::{alltoallw_typed, layout::TypedBlock};
/// # use aldis_kernel::datatype::{Basic, TypeTable};
/// # use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
/// /// Two ranks have the upper and the lower half of a 4 x 4 matrix, and get the left and the
/// /// right half of it, as columns.
/// fn turn<'s, T: Transport, P: Platform>(
///     ep: &mut Endpoint<'s, T, P>,
///     table: &'s mut TypeTable<4, 64>,
///     rows: &[f64; 8],
///     columns: &mut [f64; 8],
/// ) -> Result<(), Error> {
///     ep.attach_types(table.types())?;
///     let types = ep.types()?;
///     // Two columns of two rows: a block of the input, row by row; in the result two elements
///     // of each column of four.
///     let part = types.vector(2, 2, 4, Basic::F64)?;
///     let part = types.commit(part)?;
///     let row = types.vector(2, 1, 4, Basic::F64)?;
///     let row = types.resized(row, 0, size_of::<f64>() as i64)?;
///     let turned = types.commit(row)?;
///     let given = [TypedBlock::new(0, 1, part), TypedBlock::new(16, 1, part)];
///     let blocks = [TypedBlock::new(0, 2, turned), TypedBlock::new(16, 2, turned)];
///     let world = ep.world();
///     alltoallw_typed(rows, &given, columns, &blocks).run(ep, &world)
/// }
/// ```
///
/// # Errors
/// Before anything is sent: [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch)
/// unless a block is listed for every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// a block outside of its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a
/// type that was freed, with the rank that it is for or from;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) if no types are attached. Later
/// [`Cause::UnlikeLength`](aldis_kernel::hal::Cause::UnlikeLength) and
/// [`Cause::SignatureMismatch`](aldis_kernel::hal::Cause::SignatureMismatch) where another rank's
/// block is unlike this one's, else as [`Collective::wait`].
///
/// [`Collective::wait`]: crate::Collective::wait
#[inline(always)]
pub fn alltoallw_typed<'m, E: Element>(
    input: impl Into<Input<'m, E>>,
    given: &'m [TypedBlock],
    data: &'m mut [E],
    blocks: &'m [TypedBlock],
) -> BlockCall<'m> {
    BlockCall::new(Operation::Alltoallw, data.as_mut_bytes(), Layout::Typed(blocks), &mut [])
        .given(input.into().into_bytes(), Layout::Typed(given))
}
