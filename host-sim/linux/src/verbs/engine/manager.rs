//! The carriers of the control messages between ranks about connections: a small contract, and its
//! implementations.
//!
//! [`Wire`] does it out of band, by datagrams to the queue pair that a rank's card tells. [`Rdma`]
//! has it done by the system's connection manager (rdma_cm), by the address and the port that the
//! card tells: that finds the way, and says how queue pairs get there.

mod call;
mod letter;
mod rdma;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use aldis_hal::{Cause, Epoch, Instant, PeerId, Post, Sink, Token, Transport};

use super::super::address::Address;
use super::super::sys::CmId;
use super::super::wire::Wire;
use super::control::{ControlLane, ControlMessage};

pub(super) use self::rdma::Rdma;

/// An event of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    ControlMessage(ControlMessage),
    /// The answer of this side in the connection of this number has not reached the peer, which has
    /// given it up.
    Lapsed(ControlLane, u16),
    Lost(Cause),
}

/// The events that have come, in order.
pub(super) type News = VecDeque<(PeerId, Heard)>;

/// Carries control messages between the lives of ranks: in order, each once, or the peer is lost.
pub(super) trait Manager {
    /// Returns what a card says of this rank, so that others reach it; nothing of how memory is
    /// flushed.
    fn address(&self) -> Address;

    /// Introduces this life of `peer`, at this address, as the one to connect to from here on.
    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &Address) -> Result<(), Cause>;

    /// Sends it a control message, now or soon.
    fn say(&mut self, peer: PeerId, control: &ControlMessage) -> Post;

    /// Receives what peers send, in about so many events.
    fn listen(&mut self, budget: u32, now: Instant, heard: &mut News);

    /// Notes that all that a peer has sent was received, and answered if there was an answer.
    fn settle(&mut self, _peer: PeerId) {}

    /// Has the device tell of the next control message, if it is the device that carries them.
    fn arm(&mut self) {}

    /// A file besides the device's that can be read when there is something to receive.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the connection that knows how a queue pair gets to the other end that `word` names;
    /// `None` if the peer's card tells that.
    fn line(&self, _peer: PeerId, _word: &ControlMessage) -> Option<&CmId> {
        None
    }
}

/// Collects what has come over the wire.
struct Ears<'a>(&'a mut News);

impl Sink for Ears<'_> {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        let heard = ControlMessage::decode(message)
            .map_or_else(|why| Heard::Lost(Cause::Malformed(why)), Heard::ControlMessage);
        self.0.push_back((from, heard));
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    /// Does nothing: what there is to say is tried with each poll.
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        self.0.push_back((peer, Heard::Lost(cause)));
    }
}

impl Manager for Wire {
    fn address(&self) -> Address {
        Self::address(self)
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &Address) -> Result<(), Cause> {
        Self::introduce(self, peer, epoch, address)
    }

    fn say(&mut self, peer: PeerId, control: &ControlMessage) -> Post {
        self.messages().short(peer, &control.encode(), &[])
    }

    fn listen(&mut self, budget: u32, now: Instant, heard: &mut News) {
        self.messages().poll(budget, now, &mut Ears(heard));
    }

    fn arm(&mut self) {
        Self::arm(self);
    }
}
