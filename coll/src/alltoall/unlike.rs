//! Calls on blocks of unlike lengths in place, and of unlike elements.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

use super::InPlace;
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Block, Layout};
use crate::op::Element;
use crate::select::{Choice, Options};

/// Swaps block r of `data`, as listed by `blocks`, for what rank r of `comm` has for this one,
/// which is as long, for every r (MPI_Alltoallv with MPI_IN_PLACE).
///
/// `scratch` is working memory, of the same length on every rank: one element is enough, more than
/// the longest block of all ranks is not used.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`alltoallv`](super::alltoallv()).
pub fn alltoallv_in_place<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    (data, blocks): (&mut [E], &[Block]),
    scratch: &mut [E],
) -> Result<(), Error> {
    in_place(Operation::Alltoallv, (data, blocks), scratch).run(&Options::using(&InPlace), caller, comm)
}

/// Starts [`alltoallv_in_place`] (MPI_Ialltoallv). The memory can be used again when the scope is
/// over.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv_in_place`].
pub fn ialltoallv_in_place<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    (data, blocks): (&'scope mut [E], &'scope [Block]),
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoallv_in_place(scope, comm, (data, blocks), scratch)
}

/// Sends block r of `input` to rank r of `comm`, for every r, and receives into block r of `data`
/// what rank r has sent, where blocks are of elements of unlike sizes: all are bytes, as are their
/// places and lengths (MPI_Alltoallw of contiguous types). Bytes are not converted between ranks of
/// unlike byte orders. Of other types: [`alltoallw_typed`](super::alltoallw_typed).
///
/// ```
/// # use aldis_coll::{alltoallw, layout::Block};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn swap<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     two: &Comm,
/// #     mine: f64,
/// # ) -> Result<(), Error> {
/// // Two ranks: rank 0 gives an f64 for two u16.
/// let (mut sent, mut came) = ([0; 8], [0; 8]);
/// let lens = if two.rank().0 == 0 { [0, 8] } else { [4, 0] };
/// let back = if two.rank().0 == 0 { [0, 4] } else { [8, 0] };
/// sent.copy_from_slice(&mine.to_le_bytes());
/// alltoallw(ep, two, &sent, &Block::packed(lens), &mut came, &Block::packed(back))
/// # }
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv`](super::alltoallv()).
pub fn alltoallw<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    input: &[u8],
    given: &[Block],
    data: &mut [u8],
    blocks: &[Block],
) -> Result<(), Error> {
    Options::default().alltoallw(caller, comm, input, given, data, blocks)
}

/// Starts [`alltoallw`] (MPI_Ialltoallw). The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallw`].
pub fn ialltoallw<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    input: impl Into<Input<'scope, u8>>,
    given: &'scope [Block],
    data: &'scope mut [u8],
    blocks: &'scope [Block],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoallw(scope, comm, input, given, data, blocks)
}

/// Swaps block r of `data`, as listed by `blocks` in bytes, for what rank r of `comm` has for this
/// one, which is as long, for every r (MPI_Alltoallw with MPI_IN_PLACE).
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv_in_place`].
pub fn alltoallw_in_place<'s, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    (data, blocks): (&mut [u8], &[Block]),
    scratch: &mut [u8],
) -> Result<(), Error> {
    in_place(Operation::Alltoallw, (data, blocks), scratch).run(&Options::using(&InPlace), caller, comm)
}

/// Starts [`alltoallw_in_place`] (MPI_Ialltoallw). The memory can be used again when the scope is
/// over.
///
/// # Errors
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data; the
/// rest as [`alltoallv_in_place`].
pub fn ialltoallw_in_place<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    (data, blocks): (&'scope mut [u8], &'scope [Block]),
    scratch: &'scope mut [u8],
) -> Result<Collective<'scope>, Error> {
    Options::default().ialltoallw_in_place(scope, comm, (data, blocks), scratch)
}

fn in_place<'m, E: Element>(
    operation: Operation,
    (data, blocks): (&'m mut [E], &'m [Block]),
    scratch: &'m mut [E],
) -> Blockwise<'m, E> {
    Blockwise::new(operation, Rank(0), (data, Layout::Listed(blocks)), scratch)
}

impl Options {
    /// [`alltoallw`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm that is
    /// not for this; the rest as [`Collective::wait`].
    pub fn alltoallw<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        input: &[u8],
        given: &[Block],
        data: &mut [u8],
        blocks: &[Block],
    ) -> Result<(), Error> {
        Blockwise {
            input: (input.into(), Layout::Listed(given)),
            ..in_place(Operation::Alltoallw, (data, blocks), &mut [])
        }
        .run(self, caller, comm)
    }

    /// [`ialltoallw`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::alltoallw`].
    pub fn ialltoallw<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        input: impl Into<Input<'scope, u8>>,
        given: &'scope [Block],
        data: &'scope mut [u8],
        blocks: &'scope [Block],
    ) -> Result<Collective<'scope>, Error> {
        Blockwise {
            input: (input.into(), Layout::Listed(given)),
            ..in_place(Operation::Alltoallw, (data, blocks), &mut [])
        }
        .start(self, scope, comm)
    }

    /// [`ialltoallv_in_place`] with these options, whatever algorithm they name.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; the rest as there.
    pub fn ialltoallv_in_place<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        (data, blocks): (&'scope mut [E], &'scope [Block]),
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let call = in_place(Operation::Alltoallv, (data, blocks), scratch);
        call.start(&Self { choice: Choice::Named(&InPlace), ..*self }, scope, comm)
    }

    /// [`ialltoallw_in_place`] with these options, whatever algorithm they name.
    ///
    /// # Errors
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; the rest as there.
    pub fn ialltoallw_in_place<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        (data, blocks): (&'scope mut [u8], &'scope [Block]),
        scratch: &'scope mut [u8],
    ) -> Result<Collective<'scope>, Error> {
        let call = in_place(Operation::Alltoallw, (data, blocks), scratch);
        call.start(&Self { choice: Choice::Named(&InPlace), ..*self }, scope, comm)
    }
}
