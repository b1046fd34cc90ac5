//! Every neighbour gets a block of a datatype of its own.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Error, Scope};
use zerocopy::IntoBytes;

use super::Neighbourhood;
use super::exchange::Exchange;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Layout, TypedBlock};
use crate::op::Element;
use crate::select::Options;

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data` (MPI_Neighbor_alltoallw). Each block is of a datatype of its own, listed by
/// `given` and `blocks`, as in [`alltoallw_typed`](crate::alltoallw_typed): the rim of a field is
/// sent into the neighbour's halo as it stands.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a
/// block outside of its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type
/// that was freed; the rest as [`alltoallw_typed`](crate::alltoallw_typed).
pub fn neighbor_alltoallw_typed<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[E],
    given: &[TypedBlock],
    data: &mut [E],
    blocks: &[TypedBlock],
) -> Result<(), Error> {
    Options::default().neighbor_alltoallw_typed(caller, around, input, given, data, blocks)
}

/// Starts [`neighbor_alltoallw_typed`] (MPI_Ineighbor_alltoallw). The memory can be used again when
/// the scope is over; types must be there until the call is complete.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a
/// block outside of its buffer, [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type
/// that was freed; the rest as [`neighbor_alltoallw_typed`].
pub fn ineighbor_alltoallw_typed<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, E>>,
    given: &'scope [TypedBlock],
    data: &'scope mut [E],
    blocks: &'scope [TypedBlock],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_alltoallw_typed(scope, around, input, given, data, blocks)
}

fn exchange<'m, E: Element>(
    around: &'m Neighbourhood<'m>,
    (input, given): (Input<'m, E>, &'m [TypedBlock]),
    (data, blocks): (&'m mut [E], &'m [TypedBlock]),
) -> Exchange<'m, u8> {
    Exchange {
        operation: Operation::NeighborAlltoallw,
        around,
        data: (data.as_mut_bytes(), Layout::Typed(blocks)),
        input: (input.into_bytes(), Layout::Typed(given)),
    }
}

impl Options {
    /// [`neighbor_alltoallw_typed`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source;
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a block outside of its buffer,
    /// [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type that was freed;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`neighbor_alltoallw_typed`].
    pub fn neighbor_alltoallw_typed<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[E],
        given: &[TypedBlock],
        data: &mut [E],
        blocks: &[TypedBlock],
    ) -> Result<(), Error> {
        exchange(around, (input.into(), given), (data, blocks)).run(self, caller)
    }

    /// [`ineighbor_alltoallw_typed`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source;
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for a block outside of its buffer,
    /// [`Cause::Stale`](aldis_kernel::hal::Cause::Stale) for one of a type that was freed;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_alltoallw_typed`].
    pub fn ineighbor_alltoallw_typed<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, E>>,
        given: &'scope [TypedBlock],
        data: &'scope mut [E],
        blocks: &'scope [TypedBlock],
    ) -> Result<Collective<'scope>, Error> {
        exchange(around, (input.into(), given), (data, blocks)).start(self, scope)
    }
}
