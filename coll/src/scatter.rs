//! Scatter: a block of the root's data on every rank.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

pub use crate::algorithms::blocks::scatter::{ALGORITHMS, Binomial, Linear, LinearNonblocking, OF_UNLIKE};
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::Collective;
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::Options;

/// Sends every rank of `comm` its block of the `data` of rank `root`, into its `data`; the root's
/// own stays where it is (MPI_Scatter with MPI_IN_PLACE at the root).
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with p/2 blocks a
/// tree can be used.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
pub fn scatter<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    scratch: &mut [E],
    root: Rank,
) -> Result<(), Error> {
    Options::default().scatter(caller, comm, data, scratch, root)
}

/// Starts [`scatter`] (MPI_Iscatter). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; the rest as [`scatter`].
pub fn iscatter<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().iscatter(scope, comm, data, scratch, root)
}

/// Sends every rank of `comm` its block of the `data` of rank `root`, into its `data` of that
/// length; blocks are as listed by `blocks`, which no other rank reads (MPI_Scatterv with
/// MPI_IN_PLACE at the root).
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
pub fn scatterv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    blocks: &[Block],
    root: Rank,
) -> Result<(), Error> {
    Options::default().scatterv(caller, comm, data, blocks, root)
}

/// Starts [`scatterv`] (MPI_Iscatterv). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`scatterv`].
pub fn iscatterv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    blocks: &'scope [Block],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().iscatterv(scope, comm, data, blocks, root)
}

impl Options {
    /// [`scatter`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is not
    /// for this; the rest as [`Collective::wait`].
    pub fn scatter<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        scratch: &mut [E],
        root: Rank,
    ) -> Result<(), Error> {
        Blockwise::rooted(Operation::Scatter, (comm, root), (data, Layout::Even), scratch)
            .run(self, caller, comm)
    }

    /// [`iscatter`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::scatter`].
    pub fn iscatter<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::rooted(Operation::Scatter, (comm, root), (data, Layout::Even), scratch)
            .start(self, scope, comm)
    }

    /// [`scatterv`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is
    /// not for this; the rest as [`Collective::wait`].
    pub fn scatterv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        blocks: &[Block],
        root: Rank,
    ) -> Result<(), Error> {
        Blockwise::rooted(Operation::Scatterv, (comm, root), (data, Layout::Listed(blocks)), &mut [])
            .run(self, caller, comm)
    }

    /// [`iscatterv`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::scatterv`].
    pub fn iscatterv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        blocks: &'scope [Block],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::rooted(Operation::Scatterv, (comm, root), (data, Layout::Listed(blocks)), &mut [])
            .start(self, scope, comm)
    }
}
