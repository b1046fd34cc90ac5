//! Collectives that are planned once and started many times (persistent ones, MPI 4.1
//! section 6.13).
//!
//! Any call makes a persistent one: `MPI_Allreduce_init` is `allreduce(..).persistent(..)`.
//! Algorithm, segments, checks and loans are settled there, and so is its tag: the ranks make
//! theirs in the same order as they call all other collectives, but may start them in any order,
//! each its own. What one rank sends another for one start arrives before what it sends for the
//! next, so all starts can have one tag. It has a number that those of other calls, which come
//! round, do not meet.
//!
//! Between the starts the memory is the program's, by [`Collective::edit`]. Dropping a collective
//! frees it.
//!
//! ```
//! # use aldis_coll::{allreduce, op::Sum};
//! # use aldis_kernel::{Comm, Endpoint, Error, hal::{Platform, Transport}};
//! /// Steps until nothing changes anywhere.
//! fn settle<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     world: &Comm,
//!     mut step: impl FnMut() -> u64,
//! ) -> Result<(), Error> {
//!     let (mut changes, mut scratch) = ([0], [0]);
//!     ep.scope(|scope| {
//!         let mut sum = allreduce(Sum, &mut changes, &mut scratch).persistent(scope, world)?;
//!         loop {
//!             let here = step();
//!             sum.edit(scope, |changes: &mut [u64]| changes.fill(here))?;
//!             sum.start(scope)?;
//!             sum.wait(scope)?;
//!             if sum.edit(scope, |changes: &mut [u64]| changes == [0])? {
//!                 return Ok(());
//!             }
//!         }
//!     })
//! }
//! ```

use aldis_kernel::hal::{Cause, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Error, Failed, LentMut, Scope};
use zerocopy::FromBytes;

use super::{Collective, LaneStage, Lanes, Planned};
use crate::op::Element;
use crate::route::{Beginning, RouteQuery, StartMode};
use crate::tag;

impl Planned {
    /// Returns true if its call only makes it.
    pub(super) fn is_persistent(&self) -> bool {
        matches!(self.query.beginning, Beginning::Started(mode) if mode.is_persistent())
    }

    /// Returns this plan, to be started in this mode.
    pub(crate) const fn in_mode(self, mode: StartMode) -> Self {
        Self { query: RouteQuery { beginning: Beginning::Started(mode), ..self.query }, ..self }
    }
}

impl<'scope> Collective<'scope> {
    /// Starts it, for the first time or again after it was complete (MPI_Start). What can be posted
    /// is under way when this returns; a full request pool is reported by the first test.
    ///
    /// A collective that was not made persistent can be started again as well, unless it is carried
    /// out by control slots.
    ///
    /// # Errors
    /// [`Cause::Busy`] while it is under way; [`Cause::Unsupported`] for one by control slots,
    /// which follow each other in one order on all ranks, unless it is
    /// [`Dedicated`](StartMode::Dedicated); the error that has ended it.
    pub fn start<T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
    ) -> Result<(), Error> {
        match self.lanes.oldest().stage {
            LaneStage::Failed => return Err(self.error),
            LaneStage::Post(_) | LaneStage::Land(_) => return Err(self.refused(scope, Cause::Busy)),
            LaneStage::Done if T::HAS_CONTROL_SLOTS && self.flat.is_some() => {
                return self.start_in_slots(scope);
            }
            LaneStage::Done => {}
        }
        let checked = self.memory.check_types(scope, &self.comm, self.operation());
        checked.map_err(|Failed| *scope.failure())?;
        self.tag = tag::restarted(self.tag);
        let is_idle = self.schedule().rounds(&self.whole.with_count(self.plan.segment)) == 0;
        self.lanes = Lanes::new(&self.plan, is_idle);
        self.launch(scope).map_err(|Failed| *scope.failure())
    }

    /// Lets `edit` read and write its data while it is not under way. They are of the type that it
    /// was made with, or one of the same size and alignment.
    ///
    /// # Errors
    /// [`Cause::Busy`] while it is under way; [`Cause::PartialElement`] or [`Cause::Unaligned`] if
    /// the data are no such elements.
    pub fn edit<E: Element, R, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        edit: impl FnOnce(&mut [E]) -> R,
    ) -> Result<R, Error> {
        self.edit_loan(scope, Some(self.memory.data), edit)
    }

    /// Like [`edit`](Self::edit), but for its [`Input`](super::Input).
    ///
    /// # Errors
    /// [`Cause::Busy`] while it is under way; [`Cause::Unsupported`] unless there is an input that
    /// was lent; the rest as [`edit`](Self::edit).
    pub fn edit_input<E: Element, R, T: Transport, P: Platform>(
        &mut self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        edit: impl FnOnce(&mut [E]) -> R,
    ) -> Result<R, Error> {
        self.edit_loan(scope, self.memory.input_loan(), edit)
    }

    fn edit_loan<E: Element, R, T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        loan: Option<LentMut<'scope>>,
        edit: impl FnOnce(&mut [E]) -> R,
    ) -> Result<R, Error> {
        let Some(loan) = loan else { return Err(self.refused(scope, Cause::Unsupported)) };
        if let LaneStage::Post(_) | LaneStage::Land(_) = self.lanes.oldest().stage {
            return Err(self.refused(scope, Cause::Busy));
        }
        let mut edited = Err(Cause::Busy);
        scope.edit(loan, 0..loan.len(), |bytes| edited = elements(bytes).map(edit))?;
        edited.map_err(|cause| self.refused(scope, cause))
    }

    #[cold]
    pub(super) fn refused<T: Transport, P: Platform>(
        &self,
        scope: &mut Scope<'scope, '_, '_, T, P>,
        cause: Cause,
    ) -> Error {
        let error = Error::new(self.operation(), cause).on(&self.comm);
        scope.raise(&error);
        error
    }
}

/// Starts all of them (MPI_Startall).
///
/// # Errors
/// [`Cause::Busy`] for one that is under way, [`Cause::Unsupported`] for one by control slots; the
/// rest as [`Collective::start`]. Those before the one that fails are started.
pub fn start_all<'scope, T: Transport, P: Platform>(
    scope: &mut Scope<'scope, '_, '_, T, P>,
    set: &mut [Collective<'scope>],
) -> Result<(), Error> {
    set.iter_mut().try_for_each(|collective| collective.start(scope))
}

/// Bytes as elements.
fn elements<E: Element>(bytes: &mut [u8]) -> Result<&mut [E], Cause> {
    let (len, element) = (bytes.len(), size_of::<E>());
    if len == 0 {
        return Ok(&mut []);
    }
    if len.checked_rem(element) != Some(0) {
        return Err(Cause::PartialElement { bytes: len as u64, element: element as u32 });
    }
    <[E]>::mut_from_bytes(bytes).map_err(|_| Cause::Unaligned { need: align_of::<E>() as u32 })
}
