//! The future of a receive.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use aldis_hal::copy::copy;
use aldis_hal::{Cause, Handle, Operation, Platform, Resource, Transport};
use aldis_protocols::rendezvous::ReceiverStep;

use super::Futures;
use super::ticket::{Begun, Operate, Ticket};
use crate::api::call::CallSubject;
use crate::api::endpoint::{BUDGET, Endpoint};
use crate::engine::state::{Engine, Started};
use crate::error::Error;
use crate::memory::buffer::UserBuffer;
use crate::rank::{Mode, Source, Status, TagMatch};
use crate::tables::blocks::BlockIndex;
use crate::tables::comm::Comm;
use crate::tables::request::{Backing, Machine, State};

/// A receive. Made by [`Futures::recv`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Receiving<'a, 'e, 's, T, P> {
    ticket: Ticket<'a, 'e, 's, T, P>,
    call: ReceiveArguments<'a>,
}

/// The arguments of the call.
pub(crate) struct ReceiveArguments<'a> {
    pub(crate) comm: Comm,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) from: Source,
    pub(crate) tag: TagMatch,
}

impl<'a, 'e, 's, T: Transport, P: Platform> Receiving<'a, 'e, 's, T, P> {
    pub(super) const fn new(
        futures: &'a Futures<'e, 's, T, P>,
        comm: &Comm,
        buffer: &'a mut [u8],
        from: Source,
        tag: TagMatch,
    ) -> Self {
        Self { ticket: Ticket::new(futures), call: ReceiveArguments { comm: *comm, buffer, from, tag } }
    }

    /// Sets a deadline, from the first poll on, after which the future fails with
    /// [`Cause::TimedOut`].
    pub const fn within(mut self, limit: Duration) -> Self {
        self.ticket.within(limit);
        self
    }
}

impl<T: Transport, P: Platform> Future for Receiving<'_, '_, '_, T, P> {
    type Output = Result<Status, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ticket, call } = self.get_mut();
        ticket.poll(call, context)
    }
}

impl<'s, T: Transport, P: Platform> Operate<'s, T, P> for ReceiveArguments<'_> {
    fn start(&mut self, endpoint: &mut Endpoint<'s, T, P>) -> Result<Begun, Error> {
        let Self { comm, from, tag, .. } = *self;
        let Some(block) = endpoint.engine.blocks.take_pooled() else {
            let full = Cause::Full(Resource::PooledBlocks);
            return Err(CallSubject::recv(Operation::Recv, &comm, from, tag).refused(full));
        };
        let landing = endpoint.engine.landing(&block, self.buffer.len());
        let started = endpoint.start_recv(&comm, landing, from, tag);
        if let (Ok(Started::Pending(_)), Source::Any) = (&started, from) {
            endpoint.expect_all();
        }
        let engine = &mut endpoint.engine;
        match started {
            Ok(Started::Pending(handle)) => {
                engine.land_in(handle, block, self.buffer.len());
                Ok(Begun::UnderWay(handle))
            }
            Ok(Started::Done(status)) => {
                fill(self.buffer, 0, landing.read(0, status.bytes as usize));
                engine.blocks.give_pooled(block);
                Ok(Begun::Over(status))
            }
            Err(failed) => {
                engine.blocks.give_pooled(block);
                engine.with_error(Err(failed))
            }
        }
    }

    fn go_on(&mut self, endpoint: &mut Endpoint<'s, T, P>, handle: Handle) -> Option<Result<Status, Error>> {
        let Endpoint { engine, transport, .. } = endpoint;
        if engine.fill_from_piece(handle, self.buffer) {
            engine.flush(transport, BUDGET);
        }
        engine.collect_landed(handle, self.buffer)
    }
}

/// Copies `bytes` to `start`; what does not fit is cut off.
fn fill(buffer: &mut [u8], start: u64, bytes: &[u8]) {
    let room = usize::try_from(start).ok().and_then(|start| buffer.get_mut(start..)).unwrap_or_default();
    copy(room, bytes);
}

impl Engine<'_> {
    /// Returns as much of a block as a buffer of `room` bytes needs.
    fn landing(&self, block: &BlockIndex, room: usize) -> UserBuffer {
        let whole = self.blocks.buffer(block);
        whole.part(0..room.min(whole.len())).unwrap_or(whole)
    }

    /// The receive behind `handle` has just been started with the memory of `block`; all of it can
    /// take `room` bytes.
    fn land_in(&mut self, handle: Handle, block: BlockIndex, room: usize) {
        let Some(request) = self.requests.get(handle) else { return self.blocks.give_pooled(block) };
        request.backing = Backing::Pooled(block);
        if room > request.buffer.len() {
            request.mode = Mode::Polled;
            let length = request.length;
            if let Machine::Recv(receiver) = &mut request.machine {
                receiver.in_pieces(length);
            }
        }
    }

    /// Takes the piece that has come out of its block and asks for the next one; false if none has.
    fn fill_from_piece(&mut self, handle: Handle, buffer: &mut [u8]) -> bool {
        let Some(request) = self.requests.get(handle) else { return false };
        let (landing, end) = (request.buffer, request.length.min(buffer.len() as u64));
        let (Machine::Recv(receiver), State::Receiving) = (&mut request.machine, request.state) else {
            return false;
        };
        if receiver.step() != ReceiverStep::Piece {
            return false;
        }
        fill(buffer, receiver.piece().start, landing.read(0, landing.len()));
        receiver.next(end, landing.len() as u64);
        self.queue_rendezvous(handle.slot);
        true
    }

    /// The result of a receive that is complete, with what is in its block copied out.
    fn collect_landed(&mut self, handle: Handle, buffer: &mut [u8]) -> Option<Result<Status, Error>> {
        let tools = self.tools();
        let request = self.requests.get(handle)?;
        if request.state != State::Complete {
            return None;
        }
        let (sent, room) = (request.length, buffer.len() as u64);
        if let None | Some(Cause::Truncated { .. } | Cause::Corrupt { .. }) = request.cause {
            let piece = match &request.machine {
                Machine::Recv(receiver) => receiver.piece(),
                _ => 0..sent,
            };
            let bytes = piece.end.saturating_sub(piece.start).min(request.buffer.len() as u64);
            fill(buffer, piece.start, request.buffer.read(0, bytes as usize));
            request.cause =
                match (request.cause, usize::try_from(sent).ok().and_then(|sent| buffer.get(..sent))) {
                    (_, None) => Some(Cause::Truncated { sent, room }),
                    (Some(Cause::Corrupt { sent, .. }), Some(bytes)) => {
                        let found = tools.map_or(sent, |tools| tools.checksum(bytes));
                        (found != sent).then_some(Cause::Corrupt { sent, found })
                    }
                    (_, Some(_)) => None,
                };
        }
        if let Some(block) = request.take_block() {
            self.blocks.give_pooled(block);
        }
        let result = self.collect(handle)?;
        Some(self.with_error(result))
    }
}
