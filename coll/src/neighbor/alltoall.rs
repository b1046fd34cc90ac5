//! Every neighbour gets a block of its own.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Error, Scope};

use super::Neighbourhood;
use super::exchange::Exchange;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::Options;

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data` (MPI_Neighbor_alltoall).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data or input that are
/// no whole blocks, of one length in both, or that a neighbour divides otherwise; else as
/// [`Collective::wait`].
pub fn neighbor_alltoall<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[E],
    data: &mut [E],
) -> Result<(), Error> {
    Options::default().neighbor_alltoall(caller, around, input, data)
}

/// Starts [`neighbor_alltoall`] (MPI_Ineighbor_alltoall). The memory can be used again when the
/// scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data or input that are
/// no whole blocks, of one length in both; the rest as [`neighbor_alltoall`].
pub fn ineighbor_alltoall<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, E>>,
    data: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_alltoall(scope, around, input, data)
}

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data`; the blocks of the input are listed by `given`, those of the data by `blocks`
/// (MPI_Neighbor_alltoallv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; else as [`Collective::wait`].
pub fn neighbor_alltoallv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[E],
    given: &[Block],
    data: &mut [E],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().neighbor_alltoallv(caller, around, input, given, data, blocks)
}

/// Starts [`neighbor_alltoallv`] (MPI_Ineighbor_alltoallv). The memory can be used again when the
/// scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; the rest as [`neighbor_alltoallv`].
pub fn ineighbor_alltoallv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, E>>,
    given: &'scope [Block],
    data: &'scope mut [E],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_alltoallv(scope, around, input, given, data, blocks)
}

/// Sends block n of `input` to destination n, for every n, and receives what source n has sent into
/// block n of `data`, where blocks are of elements of unlike sizes: all are bytes, as are their
/// places and lengths, listed by `given` and `blocks` (MPI_Neighbor_alltoallw of contiguous types).
/// Bytes are not converted between ranks of unlike byte orders. Of other types:
/// [`neighbor_alltoallw_typed`](super::neighbor_alltoallw_typed).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; the rest as [`neighbor_alltoallv`].
pub fn neighbor_alltoallw<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    around: &Neighbourhood<'_>,
    input: &[u8],
    given: &[Block],
    data: &mut [u8],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().neighbor_alltoallw(caller, around, input, given, data, blocks)
}

/// Starts [`neighbor_alltoallw`] (MPI_Ineighbor_alltoallw). The memory can be used again when the
/// scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// each destination and for each source, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for
/// one outside; the rest as [`neighbor_alltoallw`].
pub fn ineighbor_alltoallw<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    around: &'scope Neighbourhood<'scope>,
    input: impl Into<Input<'scope, u8>>,
    given: &'scope [Block],
    data: &'scope mut [u8],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().ineighbor_alltoallw(scope, around, input, given, data, blocks)
}

fn even<'m, E: Element>(
    around: &'m Neighbourhood<'m>,
    input: impl Into<Input<'m, E>>,
    data: &'m mut [E],
) -> Exchange<'m, E> {
    let operation = Operation::NeighborAlltoall;
    Exchange { operation, around, data: (data, Layout::Even), input: (input.into(), Layout::Even) }
}

fn listed<'m, E: Element>(
    operation: Operation,
    around: &'m Neighbourhood<'m>,
    (input, given): (impl Into<Input<'m, E>>, &'m [Block]),
    (data, blocks): (&'m mut [E], &'m [Block]),
) -> Exchange<'m, E> {
    let input = (input.into(), Layout::Listed(given));
    Exchange { operation, around, data: (data, Layout::Listed(blocks)), input }
}

impl Options {
    /// [`neighbor_alltoall`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data or input that
    /// are no whole blocks, of one length in both;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn neighbor_alltoall<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[E],
        data: &mut [E],
    ) -> Result<(), Error> {
        even(around, input, data).run(self, caller)
    }

    /// [`ineighbor_alltoall`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data or input that
    /// are no whole blocks, of one length in both;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_alltoall`].
    pub fn ineighbor_alltoall<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, E>>,
        data: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        even(around, input, data).start(self, scope)
    }

    /// [`neighbor_alltoallv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source,
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn neighbor_alltoallv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[E],
        given: &[Block],
        data: &mut [E],
        blocks: &[Block],
    ) -> Result<(), Error> {
        listed(Operation::NeighborAlltoallv, around, (input, given), (data, blocks)).run(self, caller)
    }

    /// [`ineighbor_alltoallv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source,
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_alltoallv`].
    pub fn ineighbor_alltoallv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, E>>,
        given: &'scope [Block],
        data: &'scope mut [E],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        listed(Operation::NeighborAlltoallv, around, (input, given), (data, blocks)).start(self, scope)
    }

    /// [`neighbor_alltoallw`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source,
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn neighbor_alltoallw<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        around: &Neighbourhood<'_>,
        input: &[u8],
        given: &[Block],
        data: &mut [u8],
        blocks: &[Block],
    ) -> Result<(), Error> {
        listed(Operation::NeighborAlltoallw, around, (input, given), (data, blocks)).run(self, caller)
    }

    /// [`ineighbor_alltoallw`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for each destination and for each source,
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::neighbor_alltoallw`].
    pub fn ineighbor_alltoallw<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        around: &'scope Neighbourhood<'scope>,
        input: impl Into<Input<'scope, u8>>,
        given: &'scope [Block],
        data: &'scope mut [u8],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        listed(Operation::NeighborAlltoallw, around, (input, given), (data, blocks)).start(self, scope)
    }
}
