//! Calls on blocks of datatypes.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};
use zerocopy::IntoBytes;

use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Layout, TypedBlock};
use crate::op::Element;
use crate::select::Options;

/// Sends block r of `input` to rank r of `comm`, for every r, and receives into block r of `data`
/// what rank r has sent (MPI_Alltoallw). Each block is of a datatype of its own, listed by `given`
/// and `blocks`: what is sent from one rank to another has one signature at both, and may lie
/// scattered in memory, otherwise at each. It is packed straight into messages and unpacked
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
///     alltoallw_typed(ep, &world, rows, &given, columns, &blocks)
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
pub fn alltoallw_typed<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    input: &[E],
    given: &[TypedBlock],
    data: &mut [E],
    blocks: &[TypedBlock],
) -> Result<(), Error> {
    Options::default().alltoallw_typed(caller, comm, input, given, data, blocks)
}

/// Starts [`alltoallw_typed`] (MPI_Ialltoallw). The memory can be used again when the scope is
/// over; types must be there until the call is complete.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a block outside of its
/// buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type that was freed; the
/// rest as [`alltoallw_typed`].
pub fn ialltoallw_typed<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    input: impl Into<Input<'scope, E>>,
    given: &'scope [TypedBlock],
    data: &'scope mut [E],
    blocks: &'scope [TypedBlock],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoallw_typed(scope, comm, input, given, data, blocks)
}

fn call<'m, E: Element>(
    (input, given): (Input<'m, E>, &'m [TypedBlock]),
    (data, blocks): (&'m mut [E], &'m [TypedBlock]),
) -> Blockwise<'m, u8> {
    let data = (data.as_mut_bytes(), Layout::Typed(blocks));
    Blockwise {
        input: (input.into_bytes(), Layout::Typed(given)),
        ..Blockwise::new(Operation::Alltoallw, Rank(0), data, &mut [])
    }
}

impl Options {
    /// [`alltoallw_typed`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a block outside of
    /// its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type that was
    /// freed; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that
    /// is not for this; the rest as [`Collective::wait`].
    pub fn alltoallw_typed<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        input: &[E],
        given: &[TypedBlock],
        data: &mut [E],
        blocks: &[TypedBlock],
    ) -> Result<(), Error> {
        call((input.into(), given), (data, blocks)).run(self, caller, comm)
    }

    /// [`ialltoallw_typed`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a block outside of
    /// its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type that was
    /// freed; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::alltoallw_typed`].
    pub fn ialltoallw_typed<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        input: impl Into<Input<'scope, E>>,
        given: &'scope [TypedBlock],
        data: &'scope mut [E],
        blocks: &'scope [TypedBlock],
    ) -> Result<Collective<'scope>, Error> {
        call((input.into(), given), (data, blocks)).start(self, scope, comm)
    }
}
