//! Probes (MPI 4.1 section 3.8): what is said of a message before it is received.
//! [`matched`](crate::api::matched) probes also take it.

use aldis_hal::{Cause, Operation, PeerId, Platform, Transport};

use crate::api::call::CallSubject;
use crate::api::endpoint::{BUDGET, Endpoint, POLLS_PER_WILDCARD_WALK};
use crate::api::poll_rounds::Within;
use crate::engine::matching::Envelope;
use crate::engine::state::{Engine, status};
use crate::error::Error;
use crate::rank::{Source, Status, TagMatch};
use crate::tables::comm::Comm;
use crate::tables::request::Key;

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Waits for a message without receiving it (MPI_Probe).
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why no message
    /// can come.
    pub fn probe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.forever().probe(comm, from, tag)
    }

    /// Returns the status of a message if one is there, after one poll (MPI_Iprobe).
    ///
    /// # Errors
    /// A rank or tag out of range, a stale communicator, a full request table, or why no message
    /// can come.
    pub fn iprobe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Status>, Error> {
        self.look_once(comm, from.into(), tag.into(), Status::NULL, |engine, pattern, peer| {
            engine.probe(pattern, peer)
        })
    }

    /// Returns what `look` finds of a message after one poll; of one from `Rank::NULL`,
    /// `of_null`.
    pub(crate) fn look_once<R>(
        &mut self,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
        of_null: R,
        look: impl FnOnce(&mut Engine<'_>, &Key, Option<PeerId>) -> Result<Option<R>, Cause>,
    ) -> Result<Option<R>, Error> {
        let call = CallSubject::recv(Operation::Probe, comm, from, tag);
        let (pattern, peer) = match self.pattern(comm, from, tag) {
            Err(cause) if call.is_null(cause) => return Ok(Some(of_null)),
            pattern => pattern.map_err(|cause| self.refuse(call, cause))?,
        };
        self.poll(BUDGET);
        let idle = self.engine.counters.polls_idle;
        if cfg!(target_pointer_width = "64") && peer.is_none() && idle.is_multiple_of(POLLS_PER_WILDCARD_WALK)
        {
            self.expect_all();
        }
        look(&mut self.engine, &pattern, peer).map_err(|cause| self.refuse(call, cause))
    }
}

impl<T: Transport, P: Platform> Within<'_, '_, T, P> {
    /// See [`Endpoint::probe`].
    ///
    /// # Errors
    /// [`Cause::TimedOut`] after the deadline; a rank or tag out of range, a stale communicator, a
    /// full request table, or why no message can come.
    pub fn probe(
        &mut self,
        comm: &Comm,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        self.look(comm, from.into(), tag.into(), Status::NULL, |engine, pattern, peer| {
            engine.probe(pattern, peer)
        })
    }

    /// Waits until `look` finds something of a message; returns `of_null` for a message from no
    /// process.
    pub(crate) fn look<R>(
        &mut self,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
        of_null: R,
        look: impl Fn(&mut Engine<'_>, &Key, Option<PeerId>) -> Result<Option<R>, Cause>,
    ) -> Result<R, Error> {
        let call = CallSubject::recv(Operation::Probe, comm, from, tag);
        let (pattern, peer) = match self.endpoint.pattern(comm, from, tag) {
            Err(cause) if call.is_null(cause) => return Ok(of_null),
            pattern => pattern.map_err(|cause| self.endpoint.refuse(call, cause))?,
        };
        let found = self.wait(|_| call.activity(), |engine| look(engine, &pattern, peer).transpose());
        self.endpoint.engine.end_probe();
        match found {
            Ok(result) => result.map_err(|cause| self.endpoint.refuse(call, cause)),
            Err(elapsed_ns) => Err(self.endpoint.raised(call.refused(Cause::TimedOut).after(elapsed_ns))),
        }
    }
}

impl Engine<'_> {
    /// Finds the message of a probe: here, or held back by its sender.
    fn probe(&mut self, pattern: &Key, peer: Option<PeerId>) -> Result<Option<Status>, Cause> {
        if let Some(index) = self.matcher.find_unexpected(pattern)
            && let Some(&Envelope { key, length, .. }) = self.matcher.peek(index)
        {
            return Ok(Some(status(key, length)));
        }
        self.may_come(pattern.context, peer)?;
        if self.overflowing { self.probe_held_back(*pattern, peer) } else { Ok(None) }
    }
}
