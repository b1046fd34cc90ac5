//! The second connection of a peer, by which memory is read and written.
//!
//! What is refused to read, because a key is stale or forged, breaks a reliable connection
//! (InfiniBand Architecture Specification 1.4, volume 1, section 9.9.3): that is why there are two,
//! and messages go on while this one is closed, on both sides, and made anew when it is next
//! needed.

use std::rc::Rc;

use aldis_hal::{Cause, Token};

use super::super::sys::{DeviceRegion, DirectOrder, DirectPair, Done, Ending, FlushRead};
use super::connection::{ConnectionState, News, PeerConnection};
use super::control::{ControlLane, ControlMessage};
use super::maker::Maker;

/// Reads, writes and atomics with a peer that can be under way.
pub(super) const ORDERS: u32 = 16;

/// This side of it.
pub(super) struct DirectSide {
    pub(super) connection: PeerConnection<DirectPair>,
    /// A post was refused since the sink was last told that the peer is ready.
    waiting: bool,
    /// Orders that were cut off, to be told. At most [`ORDERS`]: nothing is posted before all are
    /// told.
    pub(super) cut_off: Vec<Token>,
}

/// The outcome of an attempt to post.
pub(super) enum Attempt {
    Posted,
    NoRoom,
    Connecting,
    Refused,
}

impl DirectSide {
    pub(super) const fn new(is_lower: bool) -> Self {
        Self {
            connection: PeerConnection::new(ControlLane::Memory, is_lower),
            waiting: false,
            cut_off: Vec::new(),
        }
    }

    /// Returns the tokens of what is at work, with a piece of `region` or with any.
    pub(super) fn tokens(&self, region: Option<&Rc<DeviceRegion>>) -> impl Iterator<Item = Token> {
        self.connection.end().into_iter().flat_map(move |pair| pair.tokens(region))
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.cut_off.is_empty() && self.tokens(None).next().is_none()
    }

    /// Returns true if a post that was refused can be tried again; asked once for each.
    pub(super) fn is_ready(&mut self) -> bool {
        let can_post = self.cut_off.is_empty()
            && match self.connection.state() {
                ConnectionState::Offered | ConnectionState::Answered => false,
                // The next attempt fails with the reason, or offers.
                ConnectionState::Closed | ConnectionState::Refused => true,
                ConnectionState::Open => self.connection.end().is_some_and(DirectPair::has_room),
            };
        let is_ready = self.waiting && can_post;
        self.waiting &= !is_ready;
        is_ready
    }

    pub(super) fn post(
        &mut self,
        maker: &Maker<'_>,
        token: Token,
        order: DirectOrder,
        region: &Rc<DeviceRegion>,
    ) -> Attempt {
        if self.cut_off.is_empty() && maker.is_clean && self.connection.need(maker).is_err() {
            return Attempt::Refused;
        }
        let state = self.connection.state();
        self.waiting = state != ConnectionState::Refused;
        match (state, self.connection.end_mut()) {
            (ConnectionState::Refused, _) => Attempt::Refused,
            (ConnectionState::Open, Some(pair)) if self.cut_off.is_empty() && pair.has_room() => {
                self.waiting = false;
                let flush = FlushRead { into: maker.flush, from: maker.place.flush };
                if pair.post(token, order, region, flush).is_ok() {
                    return Attempt::Posted;
                }
                self.close();
                Attempt::Refused
            }
            (ConnectionState::Open, _) => Attempt::NoRoom,
            _ => Attempt::Connecting,
        }
    }

    /// Handles a control message of the peer.
    pub(super) fn hear(&mut self, word: &ControlMessage, maker: &Maker<'_>) {
        if let News::Ended(pair) = self.connection.hear(word, maker) {
            self.cut_off.extend(pair.tokens(None));
        }
    }

    /// Ends it on both sides.
    fn close(&mut self) {
        let ended = self.connection.close();
        self.cut_off.extend(ended.iter().flat_map(|pair| pair.tokens(None)));
    }

    /// Ends it here, for good: the device touches nothing for it any more.
    pub(super) fn finish(&mut self) {
        let ended = self.connection.finish();
        self.cut_off.extend(ended.iter().flat_map(|pair| pair.tokens(None)));
        self.connection.control();
        self.waiting = false;
    }

    /// Ends it if it is at work on this region, or on this post.
    pub(super) fn let_go(&mut self, is_meant: impl Fn(&DirectPair) -> bool) -> bool {
        let is_at_work = self.connection.end().is_some_and(is_meant);
        if is_at_work {
            self.close();
        }
        is_at_work
    }

    /// An order is over: whose, and how. One that failed has broken the connection.
    pub(super) fn ended(&mut self, done: &Done) -> Option<(Token, Result<(), Cause>)> {
        let token = self.connection.end_mut()?.take(done)?;
        let result = match done.ending {
            Ending::Good => return Some((token, Ok(()))),
            Ending::Refused => Err(Cause::Stale),
            // It has ended there, or the peer has: the connection of messages tells that.
            Ending::Flushed | Ending::NoAnswer | Ending::NotReady => Err(Cause::Cancelled),
            Ending::Failed => Err(Cause::Device),
        };
        self.close();
        Some((token, result))
    }
}
