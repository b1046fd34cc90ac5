//! This module holds `unsafe` code: it lends the engine the data of a send for one step at a time.
//!
//! The future of a send.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use aldis_hal::{Handle, Platform, Transport};
use aldis_protocols::ACTIVE;
use aldis_protocols::rendezvous::SenderStep;

use super::Futures;
use super::ticket::{Begun, Operate, Ticket};
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::engine::state::{Engine, Started};
use crate::engine::wire::LaneTurn;
use crate::error::Error;
use crate::memory::buffer::{Lent, UserBuffer};
use crate::rank::{Mode, Rank, Status, Tag};
use crate::tables::comm::Comm;
use crate::tables::request::{Machine, State};

/// A send. Made by [`Futures::send`] and [`Futures::ssend`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Sending<'a, 'e, 's, T, P> {
    ticket: Ticket<'a, 'e, 's, T, P>,
    call: Send<'a>,
}

/// The arguments of the call.
pub(crate) struct Send<'a> {
    pub(crate) comm: Comm,
    pub(crate) data: &'a [u8],
    pub(crate) to: Rank,
    pub(crate) tag: Tag,
    pub(crate) mode: Mode,
}

impl<'a, 'e, 's, T: Transport, P: Platform> Sending<'a, 'e, 's, T, P> {
    pub(super) const fn new(
        futures: &'a Futures<'e, 's, T, P>,
        comm: &Comm,
        data: &'a [u8],
        to: Rank,
        tag: Tag,
        mode: Mode,
    ) -> Self {
        Self { ticket: Ticket::new(futures), call: Send { comm: *comm, data, to, tag, mode } }
    }

    /// Sets a deadline, from the first poll on, after which the future fails with
    /// [`Cause::TimedOut`](aldis_hal::Cause::TimedOut).
    pub const fn within(mut self, limit: Duration) -> Self {
        self.ticket.within(limit);
        self
    }
}

impl<T: Transport, P: Platform> Future for Sending<'_, '_, '_, T, P> {
    type Output = Result<Status, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ticket, call } = self.get_mut();
        ticket.poll(call, context)
    }
}

impl<'s, T: Transport, P: Platform> Operate<'s, T, P> for Send<'_> {
    fn start(&mut self, endpoint: &mut Endpoint<'s, T, P>) -> Result<Begun, Error> {
        let Self { comm, data, to, tag, mode } = self;
        if *mode == Mode::Standard && endpoint.sent_now(comm, data, *to, *tag) {
            return Ok(Begun::Over(Status { source: *to, tag: *tag, bytes: data.len() as u64 }));
        }
        let length = UserBuffer::scattered(data.len());
        let started = endpoint.start_send(comm, length, *to, *tag, Mode::Polled);
        Ok(match endpoint.engine.with_error(started)? {
            Started::Done(status) => Begun::Over(status),
            Started::Pending(handle) => Begun::UnderWay(handle),
        })
    }

    fn go_on(&mut self, endpoint: &mut Endpoint<'s, T, P>, handle: Handle) -> Option<Result<Status, Error>> {
        let Endpoint { engine, transport, .. } = endpoint;
        engine.stream(transport, handle, self.data);
        let result = engine.collect(handle)?;
        Some(engine.with_error(result))
    }
}

impl<T: Transport, P: Platform> Endpoint<'_, T, P> {
    /// Returns true if a message could be sent at once. If not, nothing has been done, and what is
    /// wrong with it is found by queueing it.
    fn sent_now(&mut self, comm: &Comm, data: &[u8], to: Rank, tag: Tag) -> bool {
        let Self { engine, transport, .. } = self;
        let Ok(target) = engine.comms.target(comm, to, tag) else { return false };
        // SAFETY: the call reads it and keeps nothing.
        let data = unsafe { Lent::new(data) };
        engine.sent_now(transport, &target, data.whole()).unwrap_or(false)
    }
}

impl Engine<'_> {
    /// Sends fragments of the announced `data` that its receiver has asked for, as many as the
    /// transport takes.
    fn stream<T: Transport>(&mut self, transport: &mut T, handle: Handle, data: &[u8]) {
        for _ in 0..BUDGET {
            let Some(request) = self.requests.get(handle) else { return };
            let (peer, Machine::Send(sender), State::Sending) =
                (request.peer, request.machine, request.state)
            else {
                return;
            };
            if sender.step(1) == SenderStep::Wait {
                return;
            }
            let Some(row) = self.peers.get(peer).filter(|row| !ACTIVE || row.is_connected()) else {
                return self.seek_contact(peer);
            };
            let fragment_max = row.thresholds.fragment_bytes_max;
            // SAFETY: the data is the engine's for this step only. Should the step panic, the
            // pointer stays until the request is let go of, and is not followed: only this function
            // steps the send of a future that is not given up, and it sets the pointer anew.
            request.buffer = unsafe { Lent::new(data) }.whole();
            let turn = self.step_sender(transport, peer, handle.slot, sender, fragment_max);
            if let Some(request) = self.requests.get(handle) {
                request.buffer = UserBuffer::scattered(data.len());
            }
            if !matches!(turn, LaneTurn::Sent) {
                return;
            }
        }
    }
}
