//! Every neighbour gets the same block.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Error, Scope};

use super::Neighbourhood;
use super::exchange::Exchange;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::Options;

/// Sends `input` to every destination, and receives what source n has sent into block n of `data`
/// (MPI_Neighbor_allgather).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are not a
/// block as long as the input for each source, or that a neighbour divides otherwise; else as
/// [`Collective::wait`].
pub fn neighbor_allgather<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[E],
    data: &mut [E],
) -> Result<(), Error> {
    Options::default().neighbor_allgather(caller, around, input, data)
}

/// Starts [`neighbor_allgather`] (MPI_Ineighbor_allgather). The memory can be used again when the
/// scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are not a
/// block as long as the input for each source; the rest as [`neighbor_allgather`].
pub fn ineighbor_allgather<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, E>>,
    data: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_allgather(scope, around, input, data)
}

/// Sends `input` to every destination, and receives what source n has sent into block n of `data`,
/// as listed by `blocks` (MPI_Neighbor_allgatherv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
pub fn neighbor_allgatherv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[E],
    data: &mut [E],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().neighbor_allgatherv(caller, around, input, data, blocks)
}

/// Starts [`neighbor_allgatherv`] (MPI_Ineighbor_allgatherv). The memory can be used again when the
/// scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// the rest as [`neighbor_allgatherv`].
pub fn ineighbor_allgatherv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, E>>,
    data: &'scope mut [E],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_allgatherv(scope, around, input, data, blocks)
}

/// An exchange of one block for all destinations, in blocks of one length.
fn even<'m, E: Element>(
    around: &'m Neighbourhood<'m>,
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
) -> Exchange<'m, E> {
    let operation = Operation::NeighborAllgather;
    Exchange { operation, around, data: (data, Layout::Even), input: alone(input.into()) }
}

fn listed<'m, E: Element>(
    around: &'m Neighbourhood<'m>,
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
    blocks: &'m [Block],
) -> Exchange<'m, E> {
    let operation = Operation::NeighborAllgatherv;
    Exchange { operation, around, data: (data, Layout::Listed(blocks)), input: alone(input.into()) }
}

fn alone<E>(input: Input<'_, E>) -> (Input<'_, E>, Layout<'_>) {
    let layout = Layout::One(input.len());
    (input, layout)
}

impl Options {
    /// [`neighbor_allgather`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are not a
    /// block as long as the input for each source;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn neighbor_allgather<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[E],
        data: &mut [E],
    ) -> Result<(), Error> {
        even(around, input, data).run(self, caller)
    }

    /// [`ineighbor_allgather`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are not a
    /// block as long as the input for each source;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_allgather`].
    pub fn ineighbor_allgather<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, E>>,
        data: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        even(around, input, data).start(self, scope)
    }

    /// [`neighbor_allgatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of
    /// another operation; the rest as [`Collective::wait`].
    pub fn neighbor_allgatherv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[E],
        data: &mut [E],
        blocks: &[Block],
    ) -> Result<(), Error> {
        listed(around, input, data, blocks).run(self, caller)
    }

    /// [`ineighbor_allgatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_allgatherv`].
    pub fn ineighbor_allgatherv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, E>>,
        data: &'scope mut [E],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        listed(around, input, data, blocks).start(self, scope)
    }
}
