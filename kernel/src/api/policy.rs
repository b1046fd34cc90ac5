//! The policies for errors (MPI 4.1 chapter 9), and aborts.
//!
//! Every call returns its error. What happens before is the *policy* of the communicator that the
//! call is about: nothing (the default), a function of the user's is called, or processes are
//! aborted. A communicator that is made of another has its parent's policy (section 9.3); an error
//! of no communicator, or of one that was freed, is treated as one of self. A full pool
//! ([`Cause::Full`]) is a state and no error: nothing was lost and the call may be made again, so
//! no policy applies.
//!
//! ```
//! use aldis_kernel::{Comm, Endpoint, Error, Policy, hal::{Platform, Transport}};
//! use core::sync::atomic::{AtomicU32, Ordering};
//!
//! static FAILURES: AtomicU32 = AtomicU32::new(0);
//!
//! fn count(_: &Comm, _: &Error) {
//!     FAILURES.fetch_add(1, Ordering::Relaxed);
//! }
//!
//! fn watch<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     comm: &Comm,
//! ) -> Result<(), Error> {
//!     let world = ep.world();
//!     ep.comm_mut(&world).set_error_policy(Policy::Abort { code: 70 })?;
//!     ep.comm_mut(comm).set_error_policy(Policy::Callback(count))
//! }
//! ```

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};
use aldis_protocols::Control;

use crate::api::communicators::{CommMut, CommRef};
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::error::{Error, Failed};
use crate::rank::WILD;
use crate::tables::comm::Comm;
use crate::tables::policy::Policy;

/// Polls for each peer that takes no notice of an abort at once.
const TRIES: u32 = 64;

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// See [`EndpointPlane::raise`](crate::plane::EndpointPlane::raise).
    #[cold]
    #[inline(never)]
    pub(crate) fn raise(&mut self, error: &Error) {
        // Installed with the first policy, so that a program without any does not hold the code.
        if let Some(carry_out) = self.carry_out {
            carry_out(self, error);
        }
    }

    /// Keeps an error for the function that returns it to the caller, after [`raise`](Self::raise).
    #[cold]
    #[inline(never)]
    pub(crate) fn fail(&mut self, error: &Error) -> Failed {
        self.engine.failure = *error;
        self.raise(error);
        Failed
    }

    /// The failure of who waits for what is there no more.
    #[cold]
    #[inline(never)]
    pub(crate) fn fail_stale(&mut self) -> Failed {
        self.fail(&Error::new(Operation::Wait, Cause::Stale))
    }

    /// The failure of a request, after [`raise`](Self::raise).
    #[cold]
    #[inline(never)]
    pub(crate) fn raise_kept(&mut self, _: &Failed) {
        let error = self.engine.failure;
        self.raise(&error);
    }

    /// An error after [`raise`](Self::raise).
    #[cold]
    pub(crate) fn raised(&mut self, error: Error) -> Error {
        self.raise(&error);
        error
    }

    fn follow_policy(&mut self, error: &Error) {
        if let Cause::Full(_) = error.cause {
            return;
        }
        let Some((comm, policy)) = self.engine.comms.policy(error.context) else { return };
        let world = self.world();
        match policy {
            Policy::Return => {}
            Policy::Callback(call) => call(&comm, error),
            Policy::Abort { .. } | Policy::Fatal { .. } if self.engine.aborted.is_some() => {}
            Policy::Abort { code } => self.end(&comm, code),
            Policy::Fatal { code } => self.end(&world, code),
        }
    }

    /// Ends the job at once: tells every peer that takes the news in bounded time. What is under
    /// way here fails with [`Cause::Aborted`], and so does everything from now on, here and there.
    pub fn abort(&mut self, code: i32) {
        let world = self.world();
        self.end(&world, code);
    }

    fn end(&mut self, comm: &Comm, code: i32) {
        let me = self.engine.me;
        for peer in self.others() {
            if self.engine.comms.has(comm, peer) {
                self.insist(peer, Control::Abort { process: peer.0, code });
                continue;
            }
            // Of itself last: nothing more is taken from a lost peer.
            for process in self.others().chain([me]) {
                if self.engine.comms.has(comm, process) {
                    self.insist(peer, Control::Abort { process: process.0, code });
                }
            }
        }
        self.engine.abort(me, code);
    }

    /// Tells a peer, again and again for a while if the transport cannot take it.
    fn insist(&mut self, peer: PeerId, control: Control) {
        for turn in 0..TRIES {
            if self.send_control(peer, control) {
                return;
            }
            if self.poll(BUDGET) == 0 {
                self.platform.relax(turn);
            }
        }
    }

    /// The process that has aborted this one, and its code; the first, if several did.
    pub const fn aborted(&self) -> Option<(PeerId, i32)> {
        self.engine.aborted
    }
}

impl CommRef<'_, '_> {
    /// Returns what an error on the communicator leads to (MPI_Comm_get_errhandler).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn error_policy(&self) -> Result<Policy, Error> {
        let settings = self.engine.comms.settings(self.comm.context()).ok_or(Cause::Stale);
        settings.map(|settings| settings.policy).map_err(about(&self.comm, Operation::Group))
    }
}

impl<T: Transport, P: Platform> CommMut<'_, '_, T, P> {
    /// Says what an error on the communicator leads to on this rank (MPI_Comm_set_errhandler).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn set_error_policy(&mut self, policy: Policy) -> Result<(), Error> {
        let set = self.endpoint.engine.comms.set_policy(&self.comm, policy);
        set.map_err(about(&self.comm, Operation::Group))?;
        self.endpoint.carry_out = Some(Endpoint::follow_policy);
        Ok(())
    }

    /// Ends the processes of the communicator at once, this one among them (MPI_Abort): as
    /// [`Endpoint::abort`] for these. For all others they are lost: what depends on them fails
    /// with [`Cause::PeerAborted`].
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn abort(&mut self, code: i32) -> Result<(), Error> {
        let checked = self.endpoint.engine.comms.check(&self.comm);
        checked.map_err(about(&self.comm, Operation::Abort))?;
        self.endpoint.end(&self.comm, code);
        Ok(())
    }
}

fn about(comm: &Comm, operation: Operation) -> impl Fn(Cause) -> Error {
    let context = comm.context();
    move |cause| Error::about(operation, cause, WILD, context, WILD)
}
