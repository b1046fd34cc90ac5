//! Calls on data that are one stretch of memory: barriers, broadcasts, reductions and scans.

mod by;

use core::fmt;

use aldis_kernel::hal::{Cause, Operation, Platform, Transport};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Scope};

use crate::blocking_endpoint::BlockingEndpoint;
use crate::collective::{CallMemory, Collective, Planned, Started};
use crate::layout::Layout;
use crate::route::StartMode;
use crate::schedule::Algorithm;
use crate::select::slots::is_handed_over;
use crate::select::{CallSpec, Options};
use crate::shared::{self, GivenBlocks, Portions, Task};
pub use by::CallBy;

/// A collective on data that are one stretch, described and not yet begun. It is
/// [run](Self::run), [started](Self::start), or made to be started many times
/// ([`persistent`](Self::persistent)).
#[must_use = "nothing is done before it is run or started"]
pub struct ContiguousCall<'m> {
    spec: CallSpec,
    data: &'m mut [u8],
    /// The data that this rank gives, if they stand elsewhere.
    operand: Option<&'m [u8]>,
    scratch: &'m mut [u8],
    options: Options,
    /// The reason why it cannot be carried out, if its arguments are wrong.
    pub(crate) refusal: Option<Cause>,
}

impl<'m> ContiguousCall<'m> {
    /// Describes a call; the number of ranks is still open.
    #[inline(always)]
    pub(crate) fn new(spec: CallSpec, data: &'m mut [u8], scratch: &'m mut [u8]) -> Self {
        Self { spec, data, operand: None, scratch, options: Options::default(), refusal: None }
    }

    /// Returns this call of a rank that gives `operand`, which is left as it is, instead of its
    /// data.
    #[inline(always)]
    pub(crate) fn given(self, operand: &'m [u8]) -> Self {
        let (left, right) = (operand.len() as u64, self.data.len() as u64);
        let mismatch = (left != right).then_some(Cause::LengthMismatch { left, right });
        Self { operand: Some(operand), refusal: self.refusal.or(mismatch), ..self }
    }

    /// Copies what this rank gives to where it is reduced, if it stands elsewhere.
    #[inline(always)]
    fn copy_operand(&mut self) {
        if self.refusal.is_none() {
            take_operand(self.data, &mut self.operand);
        }
    }

    /// Returns this call with these options, which are the same on every rank.
    #[inline(always)]
    pub fn with(self, options: &Options) -> Self {
        Self { options: *options, ..self }
    }

    /// Returns this call, to be carried out by `algorithm`, in segments one after another, whatever
    /// rules hold on the communicator. Nothing is selected: a program whose calls are all of this
    /// form links no other algorithm, and none of what selects, prices and explains them. All ranks
    /// make the call in this form.
    #[inline(always)]
    pub fn by(mut self, algorithm: Algorithm) -> CallBy<'m> {
        self.copy_operand();
        let Self { spec, data, scratch, refusal, .. } = self;
        let CallSpec { call, root, kernel, .. } = spec;
        CallBy { call, root, kernel, algorithm, data, scratch, refusal }
    }

    /// Carries it out: returns when this rank's part is done.
    ///
    /// # Errors
    /// Those of the operation, as its function says; [`Cause::Unsupported`] for an algorithm of
    /// another operation, or one that does not keep rank order when a reduction does not commute;
    /// else as [`Collective::wait`].
    #[inline(always)]
    pub fn run<'s, T: Transport, P: Platform>(
        self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
    ) -> Result<(), Error> {
        let Self { spec, data, mut operand, scratch, options, refusal } = self;
        let spec = spec.over(comm.size());
        if T::HAS_CONTROL_SLOTS && refusal.is_none() {
            // Copies for each way, since both take references: one description for both would be
            // written to memory before it is known which way the call takes.
            let (CallSpec { call, root, kernel, candidates }, options) = (spec, options);
            if options.tries_slots(ep.endpoint().tuning(comm), &call, candidates) {
                let task = Task::new(&call, root, kernel, comm.rank().0).with_bytes(data.len());
                let done = if is_handed_over(&call) {
                    if call.operation != Operation::Reduce {
                        // A prefix is put together where the data are.
                        take_operand(data, &mut operand);
                    }
                    let given = operand.map(|memory| GivenBlocks { memory, layout: Layout::Own });
                    shared::try_run(ep, comm, &Portions::new(&call, task, Layout::Whole, given), data)
                } else {
                    take_operand(data, &mut operand);
                    shared::try_run(ep, comm, task, data)
                };
                if let Some(done) = done {
                    return done;
                }
            }
        }
        let (spec, options) = (spec, options);
        if refusal.is_none() {
            take_operand(data, &mut operand);
        }
        let memory = CallMemory::stretch(data, scratch);
        Planned::new(&spec, &options).refused_if(refusal).run(ep, comm, memory)
    }

    /// Starts it. The memory can be used again when the scope is over.
    ///
    /// # Errors
    /// [`Cause::Full`] when the request pool is full; [`Cause::Unsupported`] for an algorithm of
    /// another operation; the rest as [`run`](Self::run).
    #[inline]
    pub fn start<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, comm, StartMode::Nonblocking)
    }

    /// Begins it in this mode: [`start`](Self::start), or [`persistent`](Self::persistent).
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    #[inline]
    pub fn begin<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
        mode: StartMode,
    ) -> Result<Collective<'m>, Error> {
        self.launch(scope, comm, mode)?.into_collective(scope)
    }

    /// Begins it like [`begin`](Self::begin), but as what it is: by control slots or by messages.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    #[inline]
    pub fn launch<T: Transport, P: Platform>(
        mut self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
        mode: StartMode,
    ) -> Result<Started<'m>, Error> {
        let is_copied_once = mode.is_persistent() && self.operand.is_some();
        self.refusal = self.refusal.or(is_copied_once.then_some(Cause::Unsupported));
        self.copy_operand();
        let Self { spec, data, scratch, options, refusal, .. } = self;
        let planned = Planned::new(&spec.over(comm.size()), &options).refused_if(refusal).in_mode(mode);
        Collective::begin(scope, comm, planned, CallMemory::stretch(data, scratch))
    }

    /// Makes it, to be started by [`Collective::start`] any number of times.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for an algorithm of another operation; the rest as
    /// [`start`](Self::start).
    pub fn persistent<T: Transport, P: Platform>(
        self,
        scope: &mut Scope<'m, '_, '_, T, P>,
        comm: &Comm,
    ) -> Result<Collective<'m>, Error> {
        self.begin(scope, comm, StartMode::Persistent)
    }
}

/// Copies what a rank gives to where it is reduced, if it stands elsewhere and is as long.
#[inline(always)]
fn take_operand(data: &mut [u8], operand: &mut Option<&[u8]>) {
    if let Some(operand) = operand.take() {
        data.copy_from_slice(operand);
    }
}

impl fmt::Debug for ContiguousCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} elements", self.spec.call.operation, self.spec.call.count)
    }
}
