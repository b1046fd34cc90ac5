//! Messages over TCP: a rank's listeners and its connections to other ranks, on this machine or
//! another.
//!
//! Nothing is connected before it is needed: a connection is made when a peer is first sent to, or
//! waited for ([`Transport::expect`](aldis_hal::Transport::expect)), by whichever side is first;
//! the machines of [`stream`](aldis_protocols::stream) see to it that both sides are ranks of the
//! job and keep the same one. Sockets never block. [`poll`](aldis_hal::Transport::poll) drives
//! everything, without a thread.
//!
//! # What a message costs
//!
//! A message is one call to send and one to receive. A small one is put together with its head and
//! sent at once; what the kernel posts [together](aldis_hal::Extras::cork) leaves by one call. A
//! long one goes from where it lies: lent memory is looked at for as long as the socket has not
//! taken all of it. It is read straight to where it belongs, if the sink
//! [says](aldis_hal::Sink::land) where that is, and the head of what follows by the same call.
//! While one connection is in use, a poll reads it straight, and asks the system for
//! others only now and then; as soon as a second one is used, the system is asked (`epoll`) and
//! those are read that have something. So a poll's cost does not depend on how many peers there
//! are.
//!
//! # Bounds
//!
//! An open link has 320 KiB to send from and 320 KiB to receive into, of which the system gives
//! what is really used, and 64 pieces of lent memory wait for it at most; a peer's row has less
//! than 300 bytes. A connection in its handshake has half a KiB, and there are 32 at most beyond
//! those that the job itself can have. One turn of a connection makes 8 reads at most.
//!
//! # How it ends
//!
//! A transport that is dropped with nothing left to send sends a bye on its connections; whatever
//! ends without that is a death. One that is in its handshake, and that the peer may hold for open
//! already, is waited for before ([`is_idle`](aldis_hal::Transport::is_idle)). A peer with which
//! there is no connection is told by none: it looks into the launcher's table of those who have
//! [left](crate::segment::Departures), if there is one, before and while it tries to connect, and
//! else tries for the time that it has. Either is told to the sink once, with the cause:
//! [`PeerLeft`](aldis_hal::Cause::PeerLeft), [`PeerDead`](aldis_hal::Cause::PeerDead),
//! [`Malformed`](aldis_hal::Cause::Malformed) for a peer that does not speak this protocol any
//! more.

mod address;
mod attention;
mod config;
mod connection;
mod counters;
mod engine;
pub mod environment;
mod error;
mod frame;
mod greeting;
mod incoming;
mod interfaces;
mod key;
mod landing;
mod lent;
mod outgoing;
mod peer;
mod receiving;
mod room;
mod sending;
mod session;
mod socket;
#[cfg(test)]
mod tests;
pub mod tls;
mod transport;
mod wire;

use core::net::SocketAddr;
use std::os::fd::OwnedFd;

use aldis_hal::{Cost, Epoch, PeerId};
use aldis_sys::CallFailure;

use self::engine::TcpEngine;
use crate::board::StatusBoard;
use crate::segment::Departures;

pub use self::config::{CONNECTIONS_MIN, LINKS_MAX, TcpConfig};
pub use self::counters::Counters;
pub(crate) use self::engine::BYTES_PER_PEER;
pub use self::error::TcpError;
pub use self::interfaces::{Family, Interfaces, Rejected, Rejection};
pub use self::key::{JobKey, KEY_BYTES};
pub use self::transport::TcpSlot;

/// The cost of TCP over the loopback of one machine: measured on two cores of an AMD EPYC (one way
/// 4.5 to 5.7 us, 5 GB/s).
const COST: Cost = Cost { overhead_ns: 1_500, latency_ns: 2_000, per_kib_ns: 200 };

/// A rank of a job, in one of its lives.
#[derive(Clone, Debug)]
pub struct TcpIdentity {
    /// The rank.
    pub me: PeerId,
    /// Its boot id.
    pub epoch: Epoch,
    /// Ranks of the job.
    pub ranks: u32,
    /// The key of the job, by which its ranks know each other.
    pub key: JobKey,
}

/// The transport over TCP of one rank. See the [module](self).
#[derive(Debug)]
pub struct Tcp {
    me: PeerId,
    engine: Option<Box<TcpEngine>>,
}

impl Tcp {
    /// Returns true if it reaches no peer: see [`vacant`](Self::vacant).
    pub const fn is_vacant(&self) -> bool {
        self.engine.is_none()
    }

    /// A transport that reaches no peer and costs nothing: of a job whose ranks are all on one
    /// machine.
    pub const fn vacant(me: PeerId) -> Self {
        Self { me, engine: None }
    }

    /// The transport of a rank. It can be connected to from now on, by the ranks that
    /// [`introduce`](aldis_hal::Transport::introduce) has admitted.
    ///
    /// # Errors
    /// What [`TcpError`] names.
    pub fn listen(identity: TcpIdentity, config: &TcpConfig) -> Result<Self, TcpError> {
        let me = identity.me;
        TcpEngine::listen(identity, config).map(|engine| Self { me, engine: Some(Box::new(engine)) })
    }

    /// Returns the addresses at which it listens, as its card tells
    /// ([`Card::address`](aldis_protocols::Card)); nothing if it is vacant.
    pub fn address(&self) -> Vec<u8> {
        self.engine.as_ref().map(|engine| address::encode(&engine.addresses)).unwrap_or_default()
    }

    /// Has the system look after every connection, also after the one in use for long: of a rank
    /// that [waits](Self::bell) in its sleep soon, not after thousands of polls.
    pub fn watch_all(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.watches_all = true;
        }
    }

    /// Returns a file that can be read when something has come, for a rank that sleeps; `None` if
    /// it is vacant.
    pub fn bell(&self) -> Option<OwnedFd> {
        self.engine.as_ref().and_then(|engine| engine.bell())
    }

    /// Returns the addresses at which it listens.
    pub fn listens_at(&self) -> &[SocketAddr] {
        self.engine.as_ref().map(|engine| &engine.addresses[..]).unwrap_or_default()
    }

    /// Notes calls of the system that fail for a peer on a board too, which a launcher reads.
    pub(crate) fn note_failures_on(&mut self, board: &'static StatusBoard) {
        if let Some(engine) = &mut self.engine {
            engine.board = Some(board);
        }
    }

    /// Looks at this table before it waits for a connection with a peer, which may have left.
    pub(crate) fn look_who_has_left(&mut self, departures: Option<&'static Departures>) {
        if let Some(engine) = &mut self.engine {
            engine.departures = departures;
        }
    }

    /// The rank that it is of.
    pub const fn me(&self) -> PeerId {
        self.me
    }

    /// The peers for which a call of the system has failed here, each with the last one: what may
    /// be behind their loss.
    pub fn failures(&self) -> impl Iterator<Item = (PeerId, CallFailure)> {
        self.engine.iter().flat_map(|engine| {
            (0..).zip(&engine.peers).filter_map(|(rank, row)| {
                // A connection that has just broken, whose end has not been read yet.
                let of_link = |slot: &u32| engine.connections.peek(*slot)?.failed;
                let links = engine.links.of(PeerId(rank));
                Some((PeerId(rank), row.failed().or_else(|| links.iter().find_map(of_link))?))
            })
        })
    }

    /// Returns the counters of what it has seen; `None` if it is vacant.
    pub fn counters(&self) -> Option<&Counters> {
        self.engine.as_ref().map(|engine| &engine.counters)
    }
}
