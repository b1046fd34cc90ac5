//! Broadcast: the root's data on every rank.

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};
use zerocopy::IntoBytes;

pub use crate::algorithms::bcast::{
    ALGORITHMS, Binary, Binomial, Chain, Knomial, Linear, Pipeline, ScatterRecursiveDoublingAllgather,
    ScatterRingAllgather, SplitBinary,
};
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::op::Element;
use crate::select::{Call, Options};

/// Sends `data` of rank `root` to every rank of `comm`, into its `data` (MPI_Bcast).
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root; else as
/// [`Collective::wait`].
pub fn bcast<'s, E: Element, T: Transport, P: Platform>(
    caller: &mut impl Caller<'s, T, P>,
    comm: &Comm,
    data: &mut [E],
    root: Rank,
) -> Result<(), Error> {
    Options::default().bcast(caller, comm, data, root)
}

/// Starts a broadcast (MPI_Ibcast). The data can be read again when the scope is over.
///
/// # Errors
/// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root; the rest as
/// [`bcast`].
pub fn ibcast<'scope, E: Element, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    comm: &Comm,
    data: &'scope mut [E],
    root: Rank,
) -> Result<Collective<'scope>, Error> {
    Options::default().ibcast(scope, comm, data, root)
}

impl Options {
    /// [`bcast`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) for an algorithm of another
    /// operation; the rest as [`Collective::wait`].
    pub fn bcast<'s, E: Element, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        data: &mut [E],
        root: Rank,
    ) -> Result<(), Error> {
        let call = Call::bcast::<E>(comm.size(), data.len());
        match self.at_once(caller, comm, (&call, &ALGORITHMS), (root.0, None), data.as_mut_bytes()) {
            Some(done) => done,
            None => {
                let planned = self.plan_bcast::<E>(comm, data.len(), root);
                planned.run(caller, comm, data.as_mut_bytes(), &mut [])
            }
        }
    }

    /// [`ibcast`] with these options.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`](aldis_kernel::hal::Cause::RankOutOfRange) for the root;
    /// [`Cause::Unsupported`](aldis_kernel::hal::Cause::Unsupported) and the rest as
    /// [`Options::bcast`].
    #[inline]
    pub fn ibcast<'scope, E: Element, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        data: &'scope mut [E],
        root: Rank,
    ) -> Result<Collective<'scope>, Error> {
        let planned = self.plan_bcast::<E>(comm, data.len(), root);
        Collective::begin(scope, comm, planned, Lent::stretch(data.as_mut_bytes(), &mut []))
    }

    #[inline]
    fn plan_bcast<E: Element>(&self, comm: &Comm, count: usize, root: Rank) -> Planned {
        let call = Call::bcast::<E>(comm.size(), count);
        Planned::new(call, root.0, &ALGORITHMS, self, None)
    }
}
