//! A connection with a peer: how it is made when it is needed, and how it ends.
//!
//! ```text
//! who needs it                           the other
//!   | -- offer: a queue pair ------------> |  makes one and connects it
//!   | <---------------- answer: its own -- |
//!   |  connects; may use it                |
//!   | -- go -----------------------------> |  may use it
//! ```
//!
//! Control messages come in order, each once, from the life of the peer that was introduced. Each
//! connection of a lane has a higher serial number than those before: an even one if the lower rank
//! offered it, an odd one if the higher did. Whatever is said of one says that all with lower
//! numbers are over. So both sides decide alike between two offers that cross: for the higher
//! number. Either side may end it at any time; then it is made anew when it is needed again.
//!
//! The tests take two sides through every order of needs, ends and messages.

#[cfg(test)]
mod tests;

use aldis_hal::Cause;

use super::control::{ControlKind, ControlLane, ControlMessage};

/// This side's end of a connection: a queue pair. Dropped, it touches no memory any more.
pub(super) trait ConnectionEnd: Sized {
    /// The resources that it is made from.
    type Maker<'a>;

    /// Makes an end that is connected to no peer, or says why the device cannot.
    fn make(maker: &Self::Maker<'_>) -> Result<Self, Cause>;
    /// Its number, and how many reads it can have under way.
    fn number(&self, maker: &Self::Maker<'_>) -> (u32, u8);
    /// Connects it to the one that an offer or an answer names.
    fn connect(&mut self, maker: &Self::Maker<'_>, control: &ControlMessage) -> Result<(), Cause>;
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ConnectionState {
    Closed,
    Offered,
    Answered,
    Open,
    /// There will be none.
    Refused,
}

/// The news that a control message has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News<E> {
    Nothing,
    /// The connection can be used.
    Opened,
    /// The connection that there was is over: its end here.
    Ended(E),
    /// There will be none, and why.
    Refused(Cause),
}

/// A side of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PeerConnection<E> {
    lane: ControlLane,
    /// True if this is the side of the lower rank.
    is_lower: bool,
    state: ConnectionState,
    end: Option<E>,
    serial: u16,
    /// The control message that the peer is to be sent next. A later one says all that an earlier
    /// one did.
    say: Option<ControlMessage>,
}

impl<E: ConnectionEnd> PeerConnection<E> {
    pub(super) const fn new(lane: ControlLane, is_lower: bool) -> Self {
        Self { lane, is_lower, state: ConnectionState::Closed, end: None, serial: 0, say: None }
    }

    pub(super) const fn state(&self) -> ConnectionState {
        self.state
    }

    /// The end of a connection that is made, or nearly.
    pub(super) const fn end(&self) -> Option<&E> {
        self.end.as_ref()
    }

    pub(super) const fn end_mut(&mut self) -> Option<&mut E> {
        self.end.as_mut()
    }

    /// Takes the next control message for the peer.
    pub(super) const fn control(&mut self) -> Option<ControlMessage> {
        self.say.take()
    }

    /// Gives one back that could not be sent yet, unless it has been overtaken.
    pub(super) fn unsay(&mut self, control: ControlMessage) {
        self.say.get_or_insert(control);
    }

    /// Returns true if no control message is still to be sent.
    pub(super) const fn is_silent(&self) -> bool {
        self.say.is_none()
    }

    /// Offers a connection, which is needed, to the peer, if there is none.
    pub(super) fn need(&mut self, maker: &E::Maker<'_>) -> Result<(), Cause> {
        if self.state == ConnectionState::Closed {
            self.serial = self.serial.wrapping_add(1);
            if self.serial.is_multiple_of(2) != self.is_lower {
                self.serial = self.serial.wrapping_add(1);
            }
            match E::make(maker) {
                Ok(end) => self.hold(ConnectionState::Offered, ControlKind::Offer, end, maker),
                Err(cause) => {
                    self.state = ConnectionState::Refused;
                    return Err(cause);
                }
            }
        }
        Ok(())
    }

    fn hold(&mut self, state: ConnectionState, kind: ControlKind, end: E, maker: &E::Maker<'_>) {
        let (number, depth) = end.number(maker);
        self.say = Some(ControlMessage { lane: self.lane, kind, serial: self.serial, depth, number });
        (self.state, self.end) = (state, Some(end));
    }

    /// Handles a control message of the peer.
    pub(super) fn hear(&mut self, control: &ControlMessage, maker: &E::Maker<'_>) -> News<E> {
        let ahead = control.serial.wrapping_sub(self.serial).cast_signed();
        match (control.kind, self.state) {
            (ControlKind::Offer, ConnectionState::Refused) => {
                self.say = Some(ControlMessage::bare(self.lane, ControlKind::Refuse, control.serial));
                News::Nothing
            }
            (_, ConnectionState::Refused) => News::Nothing,
            (ControlKind::Offer, _) if ahead > 0 => self.answer(control, maker),
            (ControlKind::Close, _) if ahead >= 0 => {
                self.serial = control.serial;
                self.cut().map_or(News::Nothing, News::Ended)
            }
            (ControlKind::Refuse, _) if ahead >= 0 => {
                self.cut();
                self.state = ConnectionState::Refused;
                News::Refused(Cause::Unreachable)
            }
            (ControlKind::Answer, ConnectionState::Offered) if ahead == 0 => self.complete(control, maker),
            (ControlKind::Go, _) if ahead == 0 => self.go(),
            // Of a connection that is over.
            _ => News::Nothing,
        }
    }

    fn complete(&mut self, control: &ControlMessage, maker: &E::Maker<'_>) -> News<E> {
        if let Some(Err(cause)) = self.end.as_mut().map(|end| end.connect(maker, control)) {
            return self.refuse(cause);
        }
        (self.state, self.say) =
            (ConnectionState::Open, Some(ControlMessage::bare(self.lane, ControlKind::Go, self.serial)));
        News::Opened
    }

    fn answer(&mut self, control: &ControlMessage, maker: &E::Maker<'_>) -> News<E> {
        let ended = self.cut();
        self.serial = control.serial;
        match E::make(maker).and_then(|mut end| end.connect(maker, control).map(|()| end)) {
            Ok(end) => self.hold(ConnectionState::Answered, ControlKind::Answer, end, maker),
            Err(cause) => return self.refuse(cause),
        }
        ended.map_or(News::Nothing, News::Ended)
    }

    fn refuse(&mut self, cause: Cause) -> News<E> {
        self.cut();
        (self.state, self.say) = (
            ConnectionState::Refused,
            Some(ControlMessage::bare(self.lane, ControlKind::Refuse, self.serial)),
        );
        News::Refused(cause)
    }

    /// The peer can use it: it has said so, or done so.
    pub(super) fn go(&mut self) -> News<E> {
        if self.state != ConnectionState::Answered {
            return News::Nothing;
        }
        self.state = ConnectionState::Open;
        News::Opened
    }

    /// The peer has given up what it offered before it received the answer, and may offer it once
    /// more.
    pub(super) fn lapse(&mut self, serial: u16) {
        if self.state == ConnectionState::Answered && self.serial == serial {
            self.cut();
            self.serial = serial.wrapping_sub(1);
        }
    }

    /// Ends it on both sides; what there was of it.
    pub(super) fn close(&mut self) -> Option<E> {
        if self.end.is_some() {
            let ended = self.cut();
            self.say = Some(ControlMessage::bare(self.lane, ControlKind::Close, self.serial));
            return ended;
        }
        None
    }

    /// Ends it on both sides, and for good.
    pub(super) fn finish(&mut self) -> Option<E> {
        let ended = self.close();
        self.state = ConnectionState::Refused;
        ended
    }

    /// Ends it here; what there was of it, if it was connected.
    pub(super) fn cut(&mut self) -> Option<E> {
        let was_connected = matches!(self.state, ConnectionState::Answered | ConnectionState::Open);
        if self.state != ConnectionState::Refused {
            self.state = ConnectionState::Closed;
        }
        self.say = None;
        self.end.take().filter(|_| was_connected)
    }
}
