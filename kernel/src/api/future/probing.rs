//! The future of a probe.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use aldis_hal::{Handle, Operation, Platform, Transport};

use super::Futures;
use super::ticket::{Begun, Operate, Ticket};
use crate::api::call::CallSubject;
use crate::api::endpoint::Endpoint;
use crate::engine::matching::Envelope;
use crate::engine::state::{Engine, status};
use crate::error::Error;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Source, Status, TagMatch, WILD};
use crate::tables::comm::Comm;
use crate::tables::request::{Key, State};

/// A probe. Made by [`Futures::probe`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Probing<'a, 'e, 's, T, P> {
    ticket: Ticket<'a, 'e, 's, T, P>,
    call: Probe,
}

/// The arguments of the call.
pub(crate) struct Probe {
    pub(crate) comm: Comm,
    pub(crate) from: Source,
    pub(crate) tag: TagMatch,
}

impl<'a, 'e, 's, T: Transport, P: Platform> Probing<'a, 'e, 's, T, P> {
    pub(super) const fn new(
        futures: &'a Futures<'e, 's, T, P>,
        comm: &Comm,
        from: Source,
        tag: TagMatch,
    ) -> Self {
        Self { ticket: Ticket::new(futures), call: Probe { comm: *comm, from, tag } }
    }

    /// Sets a deadline, from the first poll on, after which the future fails with
    /// [`Cause::TimedOut`](aldis_hal::Cause::TimedOut).
    pub const fn within(mut self, limit: Duration) -> Self {
        self.ticket.within(limit);
        self
    }
}

impl<T: Transport, P: Platform> Future for Probing<'_, '_, '_, T, P> {
    type Output = Result<Status, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ticket, call } = self.get_mut();
        ticket.poll(call, context)
    }
}

impl<'s, T: Transport, P: Platform> Operate<'s, T, P> for Probe {
    fn start(&mut self, endpoint: &mut Endpoint<'s, T, P>) -> Result<Begun, Error> {
        let call = CallSubject::recv(Operation::Probe, &self.comm, self.from, self.tag);
        let (pattern, peer) = match endpoint.pattern(&self.comm, self.from, self.tag) {
            Err(cause) if call.is_null(cause) => return Ok(Begun::Over(Status::NULL)),
            pattern => pattern.map_err(|cause| endpoint.refuse(call, cause))?,
        };
        let engine = &mut endpoint.engine;
        if let Some(found) = engine.found_here(&pattern) {
            return Ok(Begun::Over(found));
        }
        let named = peer.unwrap_or_default();
        let slot = engine
            .may_come(pattern.context, peer)
            .and_then(|()| engine.request(State::Probing, pattern, named, pattern.source, UserBuffer::NONE));
        let handle = slot.map_err(|cause| endpoint.refuse(call, cause))?;
        let engine = &mut endpoint.engine;
        let order = engine.matcher.next_order();
        if let Some(request) = engine.requests.get(handle) {
            request.order = order;
        }
        if engine.overflowing {
            engine.seek_for(peer);
        }
        if peer.is_none() {
            endpoint.expect_all();
        }
        Ok(Begun::UnderWay(handle))
    }

    fn go_on(&mut self, endpoint: &mut Endpoint<'s, T, P>, handle: Handle) -> Option<Result<Status, Error>> {
        let engine = &mut endpoint.engine;
        if let Some(result) = engine.collect(handle) {
            return Some(engine.with_error(result));
        }
        let request = engine.requests.get(handle)?;
        let (pattern, peer) = (request.key, request.peer);
        if let Some(found) = engine.found_here(&pattern) {
            return Some(Ok(found));
        }
        let peer = (pattern.source != WILD).then_some(peer);
        let cause = engine.may_come(pattern.context, peer).err()?;
        Some(Err(CallSubject::recv(Operation::Probe, &self.comm, self.from, self.tag).refused(cause)))
    }
}

impl Engine<'_> {
    /// The first message here that the pattern takes.
    fn found_here(&mut self, pattern: &Key) -> Option<Status> {
        let index = self.matcher.find_unexpected(pattern)?;
        let &Envelope { key, length, .. } = self.matcher.peek(index)?;
        Some(status(key, length))
    }
}
