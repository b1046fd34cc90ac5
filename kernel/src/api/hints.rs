//! Hints: what a program promises of a communicator (MPI 4.1 section 7.4.4, the `mpi_assert_` info
//! keys).
//!
//! - `no_any_source`: no receive or probe names any source. One that does is refused with
//!   [`Cause::NoAnySource`].
//! - `no_any_tag`: no receive or probe names any tag. One that does is refused with
//!   [`Cause::NoAnyTag`].
//! - `exact_length`: every message is as long as the buffer that it is received into. A shorter one
//!   is an error of its receive, [`Cause::NotExact`].
//! - `allow_overtaking`: nothing depends on the order of messages. A send need not wait in line
//!   behind others to the same rank that have no room or credit yet.
//!
//! A promise is about messages of the user: collectives keep their order and lengths by themselves.
//! Each process makes it for its own calls, so they need not be the same on all ranks;
//! `allow_overtaking` is about the sender's. Duplicates do not inherit hints (MPI 4.1
//! section 7.4.2): `aldis_coll::comm::dup_with_hints` gives a duplicate its own.
//!
//! ```
//! use aldis_kernel::{Comm, Endpoint, Error, Hints, hal::{Platform, Transport}};
//!
//! /// Blocks of a known size, whichever comes first.
//! fn bulk<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     blocks: &Comm,
//! ) -> Result<(), Error> {
//!     let promised = Hints::EXACT_LENGTH | Hints::ALLOW_OVERTAKING | Hints::NO_ANY_SOURCE;
//!     ep.comm_mut(blocks).set_hints(promised)?;
//!     assert!(ep.comm(blocks).hints()?.contains(Hints::EXACT_LENGTH));
//!     Ok(())
//! }
//! ```

use aldis_hal::{Cause, Operation, Platform, Transport};

use crate::api::communicators::{CommMut, CommRef};
use crate::engine::rules::RULES;
use crate::engine::state::Engine;
use crate::error::Error;
use crate::rank::WILD;
use crate::tables::comm::Comm;
use crate::tables::hints::Hints;
use crate::tables::request::Key;

impl<T: Transport, P: Platform> CommMut<'_, '_, T, P> {
    /// Replaces what is promised of the communicator (MPI_Comm_set_info). Receives that are posted
    /// already are not looked at again.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn set_hints(&mut self, hints: Hints) -> Result<(), Error> {
        let engine = &mut self.endpoint.engine;
        let settings = engine.comms.settings_mut(&self.comm);
        settings.map_err(about(&self.comm))?.hints = hints;
        engine.rules = Some(&RULES);
        Ok(())
    }
}

impl CommRef<'_, '_> {
    /// Returns what is promised of the communicator (MPI_Comm_get_info).
    ///
    /// # Errors
    /// [`Cause::Stale`] for a freed communicator.
    pub fn hints(&self) -> Result<Hints, Error> {
        let settings = self.engine.comms.settings(self.comm.context());
        settings.map(|settings| settings.hints).ok_or(Cause::Stale).map_err(about(&self.comm))
    }
}

fn about(comm: &Comm) -> impl Fn(Cause) -> Error {
    let context = comm.context();
    move |cause| Error::about(Operation::Group, cause, WILD, context, WILD)
}

impl Engine<'_> {
    /// Checks a receive that leaves its source or tag open.
    #[inline]
    pub(crate) fn check_open(&self, key: &Key) -> Result<(), Cause> {
        let against = self.rules.map_or(Hints::empty(), |rules| (rules.against)(&self.comms, key));
        if against.is_empty() {
            return Ok(());
        }
        Err(if against.contains(Hints::NO_ANY_SOURCE) { Cause::NoAnySource } else { Cause::NoAnyTag })
    }

    /// Returns true if a message in this context must be as long as its buffer.
    #[cold]
    #[inline(never)]
    pub(crate) fn must_fit(&self, context: u32) -> bool {
        self.rules.is_some_and(|rules| (rules.must_fit)(&self.comms, context))
    }

    /// Returns why a message of `length` bytes fails that met a buffer of another length, `room`;
    /// `None` if it does not.
    #[cold]
    pub(crate) fn misfit(&self, context: u32, length: u64, room: u64) -> Option<Cause> {
        if length > room {
            return Some(Cause::Truncated { sent: length, room });
        }
        self.must_fit(context).then_some(Cause::NotExact { sent: length, room })
    }

    /// Returns true if a message in this context may be sent before others to the same peer that
    /// wait already.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_overtake(&self, context: u32) -> bool {
        self.rules.is_some_and(|rules| (rules.may_overtake)(&self.comms, context))
    }
}
