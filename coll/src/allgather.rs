//! Allgather: a block of every rank on every rank.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

pub use crate::algorithms::blocks::allgather::{
    ALGORITHMS, Bruck, Direct, GatherBcast, Linear, NeighborExchange, RecursiveDoubling, Ring, Sparbit,
    TwoProcesses,
};
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::Collective;
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::Options;

/// Gathers a block of every rank of `comm` on all of them: `data` are a block for every rank, this
/// one's own in place (MPI_Allgather with MPI_IN_PLACE).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
pub fn allgather<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
) -> Result<(), Error> {
    Options::default().allgather(caller, comm, data)
}

/// Starts [`allgather`] (MPI_Iallgather). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; the rest as [`allgather`].
pub fn iallgather<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().iallgather(scope, comm, data)
}

/// Gathers a block of every rank of `comm` on all of them: `data` have a block of its length for
/// every rank, as listed by `blocks` (places may differ from rank to rank, lengths not), this one's
/// own in place (MPI_Allgatherv with MPI_IN_PLACE).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
pub fn allgatherv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().allgatherv(caller, comm, data, blocks)
}

/// Starts [`allgatherv`] (MPI_Iallgatherv). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`allgatherv`].
pub fn iallgatherv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().iallgatherv(scope, comm, data, blocks)
}

impl Options {
    /// [`allgather`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is not
    /// for this; the rest as [`Collective::wait`].
    pub fn allgather<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
    ) -> Result<(), Error> {
        Blockwise::new(Operation::Allgather, Rank(0), (data, Layout::Even), &mut []).run(self, caller, comm)
    }

    /// [`iallgather`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::allgather`].
    pub fn iallgather<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::new(Operation::Allgather, Rank(0), (data, Layout::Even), &mut []).start(self, scope, comm)
    }

    /// [`allgatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is
    /// not for this; the rest as [`Collective::wait`].
    pub fn allgatherv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        blocks: &[Block],
    ) -> Result<(), Error> {
        Blockwise::new(Operation::Allgatherv, Rank(0), (data, Layout::Listed(blocks)), &mut [])
            .run(self, caller, comm)
    }

    /// [`iallgatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::allgatherv`].
    pub fn iallgatherv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::new(Operation::Allgatherv, Rank(0), (data, Layout::Listed(blocks)), &mut [])
            .start(self, scope, comm)
    }
}
