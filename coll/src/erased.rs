//! Reductions whose operation and element are known only when the program runs, as those of
//! `MPI_Op_create`: on bytes.

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::{Comm, Error, Rank, Scope};

use crate::algorithms::algorithms;
use crate::caller::Caller;
use crate::collective::{Collective, Lent, Planned};
use crate::op::Kernel;
use crate::schedule::divide;
use crate::select::{Call, Options};

/// A reduction by a [`Kernel`].
#[derive(Clone, Copy, Debug)]
pub struct Erased {
    /// [`Reduce`](Operation::Reduce), [`Allreduce`](Operation::Allreduce),
    /// [`Scan`](Operation::Scan) or [`Exscan`](Operation::Exscan).
    pub operation: Operation,
    /// The kernel that combines the elements.
    pub kernel: Kernel,
    /// The rank that gets the result of a reduction to one rank; unused in other operations.
    pub root: Rank,
}

impl Erased {
    /// The call on so many bytes, and those that are no whole element.
    fn call(&self, comm: &Comm, data: usize, scratch: usize) -> (Call, usize) {
        let &Self { operation, kernel, .. } = self;
        let of = |bytes: usize| divide(bytes, kernel.element_bytes() as usize);
        let (count, rest) = of(data);
        let call = Call {
            operation,
            size: comm.size(),
            count,
            element_bytes: kernel.element_bytes(),
            scratch: of(scratch).0,
            commutes: kernel.commutes(),
        };
        (call, rest)
    }

    const fn root(&self) -> u32 {
        if matches!(self.operation, Operation::Reduce) { self.root.0 } else { 0 }
    }

    fn planned(&self, options: &Options, comm: &Comm, data: usize, scratch: usize) -> Planned {
        let &Self { operation, kernel, .. } = self;
        let ((call, rest), root) = (self.call(comm, data, scratch), self.root());
        let planned = Planned::new(call, root, algorithms(operation), options, Some(kernel));
        use Operation::{Allreduce, Exscan, Reduce, Scan};
        match (operation, rest) {
            (Reduce | Allreduce | Scan | Exscan, 0) => planned,
            (Reduce | Allreduce | Scan | Exscan, _) => {
                let (left, right) = (data as u64, data.saturating_sub(rest) as u64);
                planned.refused(Cause::LengthMismatch { left, right })
            }
            _ => planned.refused(Cause::Unsupported),
        }
    }
}

impl Options {
    /// Carries out a reduction on the bytes of the elements, as [`reduce`](crate::reduce()),
    /// [`allreduce`](crate::allreduce()) and the like do on elements.
    ///
    /// ```
    /// # use aldis_coll::{Options, erased::Erased, op::{Kernel, Sum}};
    /// # use aldis_kernel::{Comm, Endpoint, Error, Rank, hal::{Operation, Platform, Transport}};
    /// # fn total<T: Transport, P: Platform>(ep: &mut Endpoint<'_, T, P>, world: &Comm) -> Result<(), Error> {
    /// let sum = Erased { operation: Operation::Allreduce, kernel: Kernel::of::<Sum, u8>(), root: Rank(0) };
    /// let mut data = [1; 4];
    /// Options::default().reduce_by(ep, world, sum, &mut data, &mut [0; 4])
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] for bytes that are no whole elements, [`Cause::Unsupported`] for
    /// an operation that is no reduction, [`Cause::Unaligned`] or another cause that the kernel
    /// gives; the rest as those functions.
    pub fn reduce_by<'s, T: Transport, P: Platform>(
        &self,
        caller: &mut impl Caller<'s, T, P>,
        comm: &Comm,
        what: Erased,
        data: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<(), Error> {
        if let (call @ Call { operation: Operation::Reduce | Operation::Allreduce, .. }, 0) =
            what.call(comm, data.len(), scratch.len())
            && let on = (what.root(), Some(what.kernel))
            && let Some(done) = self.at_once(caller, comm, (&call, algorithms(call.operation)), on, data)
        {
            return done;
        }
        what.planned(self, comm, data.len(), scratch.len()).run(caller, comm, data, scratch)
    }

    /// Starts [`reduce_by`](Self::reduce_by). The data can be read again when the scope is over.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] for bytes that are no whole elements, [`Cause::Unsupported`] for
    /// an operation that is no reduction; the rest as [`reduce_by`](Self::reduce_by).
    pub fn ireduce_by<'scope, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        comm: &Comm,
        what: Erased,
        data: &'scope mut [u8],
        scratch: &'scope mut [u8],
    ) -> Result<Collective<'scope>, Error> {
        let planned = what.planned(self, comm, data.len(), scratch.len());
        Collective::begin(scope, comm, planned, Lent::stretch(data, scratch))
    }
}
