//! Reduce-scatter: the reduction of every rank's data, divided among the ranks.

use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

pub use crate::algorithms::blocks::reduce_scatter::{
    ALGORITHMS, Butterfly, Linear, Nonoverlapping, Pairwise, RecursiveDoubling, RecursiveHalving, Ring,
};
use crate::blockwise::Blockwise;
use crate::caller::Caller;
use crate::collective::{Collective, Input};
use crate::layout::{Block, Layout};
use crate::op::{Element, Kernel, Reduce};
use crate::select::Options;

/// Reduces `input` of all ranks of `comm`, a block for every rank, element by element, and leaves
/// block r of the result in `data` of rank r (MPI_Reduce_scatter_block).
///
/// `scratch` is working memory, of the same length on every rank: three elements are enough (none
/// for a single rank), three blocks make messages of whole ones, and with twice the input every
/// algorithm has what it needs.
///
/// ```
/// # use aldis_coll::{op::Sum, reduce_scatter_block};
/// # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
/// # fn total<T: Transport, P: Platform>(
/// #     ep: &mut Endpoint<'_, T, P>,
/// #     world: &Comm,
/// # ) -> Result<(), Error> {
/// // Four ranks, of whose vectors of eight elements each keeps a quarter of the sum.
/// let (input, mut mine) = ([0.5_f64; 8], [0.0; 2]);
/// reduce_scatter_block(ep, world, Sum, &input, &mut mine, &mut [0.0; 16])
/// # }
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an input that is no
/// whole blocks of the length of `data`, or that another rank divides otherwise;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; else as
/// [`Collective::wait`].
pub fn reduce_scatter_block<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    input: &[E],
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().reduce_scatter_block(caller, comm, op, input, data, scratch)
}

/// Starts [`reduce_scatter_block`] (MPI_Ireduce_scatter_block). The memory can be used again when
/// the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an input that is no
/// whole blocks of the length of `data`; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall)
/// for too little scratch; the rest as [`reduce_scatter_block`].
pub fn ireduce_scatter_block<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    input: impl Into<Input<'scope, E>>,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ireduce_scatter_block(scope, comm, op, input, data, scratch)
}

/// A [`reduce_scatter_block`] in place (MPI_Reduce_scatter_block with MPI_IN_PLACE): `data` are a
/// block for every rank, of which this rank's own becomes its result, where it stands. The others
/// are left as they are.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest
/// as [`reduce_scatter_block`].
pub fn reduce_scatter_block_in_place<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().reduce_scatter_block_in_place(caller, comm, op, data, scratch)
}

/// Starts [`reduce_scatter_block_in_place`]. The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no whole
/// blocks; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest
/// as [`reduce_scatter_block`].
pub fn ireduce_scatter_block_in_place<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ireduce_scatter_block_in_place(scope, comm, op, data, scratch)
}

/// Reduces `input` of all ranks of `comm` and leaves block r of the result, of its length as listed
/// by `blocks`, in `data` of rank r (MPI_Reduce_scatter). Places may differ from rank to rank,
/// lengths not; [`Block::packed`] lists blocks one behind the other, as MPI has them.
///
/// `scratch` is as there; a block of it is one of the longest.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, and data are as long as this rank's;
/// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the input; else as
/// [`reduce_scatter_block`].
pub fn reduce_scatter<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    (input, blocks): (&[E], &[Block]),
    data: &mut [E],
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().reduce_scatter(caller, comm, op, (input, blocks), data, scratch)
}

/// Starts [`reduce_scatter`] (MPI_Ireduce_scatter). The memory can be used again when the scope is
/// over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank, and data are as long as this rank's;
/// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the input;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest as
/// [`reduce_scatter`].
pub fn ireduce_scatter<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    (input, blocks): (impl Into<Input<'scope, E>>, &'scope [Block]),
    data: &'scope mut [E],
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ireduce_scatter(scope, comm, op, (input, blocks), data, scratch)
}

/// A [`reduce_scatter`] in place (MPI_Reduce_scatter with MPI_IN_PLACE): this rank's block of
/// `data` becomes its result, where it stands.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest as
/// [`reduce_scatter`].
pub fn reduce_scatter_in_place<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    (data, blocks): (&mut [E], &[Block]),
    scratch: &mut [E],
) -> Result<(), Error> {
    Options::default().reduce_scatter_in_place(caller, comm, op, (data, blocks), scratch)
}

/// Starts [`reduce_scatter_in_place`]. The memory can be used again when the scope is over.
///
/// # Errors
/// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed for
/// every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the data;
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch; the rest as
/// [`reduce_scatter`].
pub fn ireduce_scatter_in_place<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    (data, blocks): (&'scope mut [E], &'scope [Block]),
    scratch: &'scope mut [E],
) -> Result<Collective<'scope>, Error> {
    Options::default().ireduce_scatter_in_place(scope, comm, op, (data, blocks), scratch)
}

/// A call of one of them. Without input, in place.
fn call<'m, R: Reduce<E>, E: Element>(
    operation: Operation,
    _op: R,
    input: Option<(Input<'m, E>, Layout<'m>)>,
    data: (&'m mut [E], Layout<'m>),
    scratch: &'m mut [E],
) -> Blockwise<'m, E> {
    let in_place =
        Blockwise { kernel: Some(Kernel::of::<R, E>()), ..Blockwise::new(operation, Rank(0), data, scratch) };
    match input {
        Some(input) => Blockwise { input, ..in_place },
        None => in_place,
    }
}

impl Options {
    /// [`reduce_scatter_block`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an input that is no
    /// whole blocks of the length of `data`;
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation, or one that does not keep rank order when the reduction does not commute; the
    /// rest as [`Collective::wait`].
    pub fn reduce_scatter_block<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        op: R,
        input: &[E],
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        let input = Some((input.into(), Layout::Even));
        call(Operation::ReduceScatterBlock, op, input, (data, Layout::Own), scratch).run(self, caller, comm)
    }

    /// [`ireduce_scatter_block`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for an input that is no
    /// whole blocks of the length of `data`;
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn ireduce_scatter_block<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        op: R,
        input: impl Into<Input<'scope, E>>,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let input = Some((input.into(), Layout::Even));
        call(Operation::ReduceScatterBlock, op, input, (data, Layout::Own), scratch).start(self, scope, comm)
    }

    /// [`reduce_scatter_block_in_place`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little
    /// scratch; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn reduce_scatter_block_in_place<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        op: R,
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        call(Operation::ReduceScatterBlock, op, None, (data, Layout::Even), scratch).run(self, caller, comm)
    }

    /// [`ireduce_scatter_block_in_place`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) for data that are no
    /// whole blocks; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little
    /// scratch; [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn ireduce_scatter_block_in_place<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        op: R,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        call(Operation::ReduceScatterBlock, op, None, (data, Layout::Even), scratch).start(self, scope, comm)
    }

    /// [`reduce_scatter`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, and data are as long as this rank's;
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the input;
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn reduce_scatter<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        op: R,
        (input, blocks): (&[E], &[Block]),
        data: &mut [E],
        scratch: &mut [E],
    ) -> Result<(), Error> {
        let input = Some((input.into(), Layout::Listed(blocks)));
        call(Operation::ReduceScatter, op, input, (data, Layout::Own), scratch).run(self, caller, comm)
    }

    /// [`ireduce_scatter`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank, and data are as long as this rank's;
    /// [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the input;
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn ireduce_scatter<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        op: R,
        (input, blocks): (impl Into<Input<'scope, E>>, &'scope [Block]),
        data: &'scope mut [E],
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let input = Some((input.into(), Layout::Listed(blocks)));
        call(Operation::ReduceScatter, op, input, (data, Layout::Own), scratch).start(self, scope, comm)
    }

    /// [`reduce_scatter_in_place`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn reduce_scatter_in_place<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        op: R,
        (data, blocks): (&mut [E], &[Block]),
        scratch: &mut [E],
    ) -> Result<(), Error> {
        let data = (data, Layout::Listed(blocks));
        call(Operation::ReduceScatter, op, None, data, scratch).run(self, caller, comm)
    }

    /// [`ireduce_scatter_in_place`] with these options.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`](aldis_kernel::hal::Cause::LengthMismatch) unless a block is listed
    /// for every rank; [`Cause::TooBig`](aldis_kernel::hal::Cause::TooBig) for one outside of the
    /// data; [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for too little scratch;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce_scatter_block`].
    pub fn ireduce_scatter_in_place<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        op: R,
        (data, blocks): (&'scope mut [E], &'scope [Block]),
        scratch: &'scope mut [E],
    ) -> Result<Collective<'scope>, Error> {
        let data = (data, Layout::Listed(blocks));
        call(Operation::ReduceScatter, op, None, data, scratch).start(self, scope, comm)
    }
}
