//! Reduction to one rank: the reduction of every rank's data at the root.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};
use zerocopy::IntoBytes;

pub use crate::algorithms::reduce::{
    ALGORITHMS, Binary, Binomial, Chain, InOrderBinary, Knomial, Linear, Pipeline, Rabenseifner, Ring,
};
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::op::{Element, Kernel, Reduce};
use crate::select::{Call, Options};

/// Reduces `data` of all ranks of `comm` element by element and leaves the result in `data` of rank
/// `root` (MPI_Reduce with MPI_IN_PLACE at the root). Operands stand in the order of their ranks.
/// The other ranks' `data` is working memory: what it holds afterwards depends on the algorithm.
///
/// `scratch` is working memory, of the same length on every rank: one element is enough (none for a
/// single rank), as many as `data` are never too few, and more than that are not used.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; else as
/// [`Collective::wait`].
pub fn reduce<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    op: R,
    data: &mut [E],
    scratch: &mut [E],
    root: Rank,
) -> Result<(), Error> {
    Options::default().reduce(caller, comm, op, data, scratch, root)
}

/// Starts a reduction to one rank (MPI_Ireduce). The data can be read again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
/// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all; the rest as
/// [`reduce`].
pub fn ireduce<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    op: R,
    data: &'scope mut [E],
    scratch: &'scope mut [E],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().ireduce(scope, comm, op, data, scratch, root)
}

impl Options {
    /// [`reduce`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation, or one that does not keep rank order when the reduction does not commute; the
    /// rest as [`Collective::wait`].
    pub fn reduce<'s, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        _op: R,
        data: &mut [E],
        scratch: &mut [E],
        root: Rank,
    ) -> Result<(), Error> {
        let call = Call::reduce::<R, E>(comm.size(), data.len(), scratch.len());
        let what = (root.0, Some(Kernel::of::<R, E>()));
        match self.at_once(caller, comm, (&call, &ALGORITHMS), what, data.as_mut_bytes()) {
            Some(done) => done,
            None => {
                let planned = self.plan_reduce::<R, E>(comm, data.len(), scratch.len(), root);
                planned.run(caller, comm, data.as_mut_bytes(), scratch.as_mut_bytes())
            }
        }
    }

    /// [`ireduce`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root,
    /// [`Cause::TooSmall`](aldis_kernel::hal::Cause::TooSmall) for no scratch at all;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::reduce`].
    pub fn ireduce<'scope, R: Reduce<E>, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        _op: R,
        data: &'scope mut [E],
        scratch: &'scope mut [E],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        let planned = self.plan_reduce::<R, E>(comm, data.len(), scratch.len(), root);
        Collective::begin(scope, comm, planned, Lent::stretch(data.as_mut_bytes(), scratch.as_mut_bytes()))
    }

    fn plan_reduce<R: Reduce<E>, E: Element>(
        &self,
        comm: &Comm,
        count: usize,
        scratch: usize,
        root: Rank,
    ) -> Planned {
        let call = Call::reduce::<R, E>(comm.size(), count, scratch);
        Planned::new(call, root.0, &ALGORITHMS, self, Some(Kernel::of::<R, E>()))
    }
}
