//! All-to-all: a block of every rank for every rank.

mod typed;
mod unlike;

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};
pub use typed::{alltoallw_typed, ialltoallw_typed};
pub use unlike::{
    alltoallv_in_place, alltoallw, alltoallw_in_place, ialltoallv_in_place, ialltoallw, ialltoallw_in_place,
};

pub use crate::algorithms::blocks::alltoall::{
    ALGORITHMS, Bruck, InPlace, Linear, LinearSync, OF_UNLIKE, Pairwise, TwoProcesses,
};
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::{Choice, Options};

/// Sends block r of `input` to rank r of `comm`, for every r, and receives into block r of `data`
/// what rank r has sent (MPI_Alltoall).
///
/// `scratch` is working memory, of the same length on every rank: none is needed, with 2 p blocks
/// many can share a message.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; else as [`Collective::wait`].
pub fn alltoall<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    input: &[E],
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().alltoall(caller, comm, input, data, scratch)
}

/// Starts [`alltoall`] (MPI_Ialltoall). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; the rest as [`alltoall`].
pub fn ialltoall<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    input: impl Into<Input<'scope, E>>,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoall(scope, comm, input, data, scratch)
}

/// Sends block r of `input` to rank r of `comm`, for every r, and receives into block r of `data`
/// what rank r has sent; the blocks of the input are listed by `given`, those of the data by
/// `blocks` (MPI_Alltoallv).
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// else as [`Collective::wait`].
pub fn alltoallv<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    input: &[E],
    given: &[Block],
    data: &mut [E],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().alltoallv(caller, comm, input, given, data, blocks)
}

/// Starts [`alltoallv`] (MPI_Ialltoallv). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv`].
pub fn ialltoallv<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    input: impl Into<Input<'scope, E>>,
    given: &'scope [Block],
    data: &'scope mut [E],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoallv(scope, comm, input, given, data, blocks)
}

/// Swaps block r of `data` for what rank r of `comm` has for this one, for every r (MPI_Alltoall
/// with MPI_IN_PLACE).
///
/// `scratch` is working memory, of the same length on every rank: one element is enough, more than
/// a block is not used.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`alltoall`].
pub fn alltoall_in_place<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    let in_place = Blockwise::new(Operation::Alltoall, Rank(0), (data, Layout::Even), scratch);
    in_place.run(&Options::using(&InPlace), caller, comm)
}

/// Starts [`alltoall_in_place`] (MPI_Ialltoall). The memory can be used again when the scope is
/// over.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks, or that another rank divides otherwise; the rest as [`alltoall_in_place`].
pub fn ialltoall_in_place<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoall_in_place(scope, comm, data, scratch)
}

impl Options {
    /// [`alltoall`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is not
    /// for this; the rest as [`Collective::wait`].
    pub fn alltoall<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        input: &[E],
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        Blockwise {
            input: (input.into(), Layout::Even),
            ..Blockwise::new(Operation::Alltoall, Rank(0), (data, Layout::Even), scratch)
        }
        .run(self, caller, comm)
    }

    /// [`ialltoall`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::alltoall`].
    pub fn ialltoall<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        input: impl Into<Input<'scope, E>>,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        Blockwise {
            input: (input.into(), Layout::Even),
            ..Blockwise::new(Operation::Alltoall, Rank(0), (data, Layout::Even), scratch)
        }
        .start(self, scope, comm)
    }

    /// [`ialltoall_in_place`] with these options, whatever algorithm they name.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks, or that another rank divides otherwise; the rest as there.
    pub fn ialltoall_in_place<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let in_place = Blockwise::new(Operation::Alltoall, Rank(0), (data, Layout::Even), scratch);
        in_place.start(&Self { choice: Choice::Named(&InPlace), ..*self }, scope, comm)
    }

    /// [`alltoallv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is
    /// not for this; the rest as [`Collective::wait`].
    pub fn alltoallv<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        input: &[E],
        given: &[Block],
        data: &mut [E],
        blocks: &[Block],
    ) -> Result<(), Error> {
        Blockwise {
            input: (input.into(), Layout::Listed(given)),
            ..Blockwise::new(Operation::Alltoallv, Rank(0), (data, Layout::Listed(blocks)), &mut [])
        }
        .run(self, caller, comm)
    }

    /// [`ialltoallv`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::alltoallv`].
    pub fn ialltoallv<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        input: impl Into<Input<'scope, E>>,
        given: &'scope [Block],
        data: &'scope mut [E],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        Blockwise {
            input: (input.into(), Layout::Listed(given)),
            ..Blockwise::new(Operation::Alltoallv, Rank(0), (data, Layout::Listed(blocks)), &mut [])
        }
        .start(self, scope, comm)
    }
}
