//! Gather: a block of every rank at the root.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

pub use crate::algorithms::blocks::gather::{ALGORITHMS, Binomial, Linear, LinearSync, OF_UNLIKE};
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::Collective;
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::Options;

/// Gathers `data` of all ranks of `comm` at rank `root`, whose `data` are a block for every rank,
/// its own in place (MPI_Gather with MPI_IN_PLACE at the root).
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with p/2 blocks a
/// tree can be used.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
pub fn gather<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    scratch: &mut [E],
    root: Rank,
) -> Result<(), Error> {
    Options::default().gather(caller, comm, data, scratch, root)
}

/// Starts [`gather`] (MPI_Igather). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; the rest as [`gather`].
pub fn igather<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().igather(scope, comm, data, scratch, root)
}

/// Gathers `data` of all ranks of `comm` at rank `root`, whose `data` have a block of its length
/// for every rank, as listed by `blocks`, which no other rank reads (MPI_Gatherv with MPI_IN_PLACE
/// at the root).
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
pub fn gatherv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    blocks: &[Block],
    root: Rank,
) -> Result<(), Error> {
    Options::default().gatherv(caller, comm, data, blocks, root)
}

/// Starts [`gatherv`] (MPI_Igatherv). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`gatherv`].
pub fn igatherv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    blocks: &'scope [Block],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().igatherv(scope, comm, data, blocks, root)
}

impl Options {
    /// [`gather`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is not
    /// for this; the rest as [`Collective::wait`].
    pub fn gather<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        scratch: &mut [E],
        root: Rank,
    ) -> Result<(), Error> {
        Blockwise::rooted(Operation::Gather, (comm, root), (data, Layout::Even), scratch)
            .run(self, caller, comm)
    }

    /// [`igather`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::gather`].
    pub fn igather<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::rooted(Operation::Gather, (comm, root), (data, Layout::Even), scratch)
            .start(self, scope, comm)
    }

    /// [`gatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is
    /// not for this; the rest as [`Collective::wait`].
    pub fn gatherv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        blocks: &[Block],
        root: Rank,
    ) -> Result<(), Error> {
        Blockwise::rooted(Operation::Gatherv, (comm, root), (data, Layout::Listed(blocks)), &mut [])
            .run(self, caller, comm)
    }

    /// [`igatherv`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::gatherv`].
    pub fn igatherv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        blocks: &'scope [Block],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        Blockwise::rooted(Operation::Gatherv, (comm, root), (data, Layout::Listed(blocks)), &mut [])
            .start(self, scope, comm)
    }
}
