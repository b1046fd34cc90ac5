//! What is on the stream after the handshake: frames with a length before each, and the farewell.

use aldis_hal::cause::Malformed;

/// Bytes before every frame.
pub const FRAME_HEAD_BYTES: usize = 4;

/// Bytes of the longest message that a frame can carry.
pub const FRAME_BYTES_MAX: u32 = BYE - 1;

const BYE: u32 = 0xFFFF_FF00;
const BYE_ACKNOWLEDGED: u32 = BYE + 1;
const KEEP_ALIVE: u32 = BYE + 2;

/// What a frame's head says: the number of bytes that follow it, little-endian, or one of the largest numbers, for what
/// has no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Frame {
    /// A message of so many bytes, at least one.
    Data(u32),
    /// The sender has sent all it ever will and wants nothing more.
    Bye,
    /// The sender has taken in everything up to the other's bye, and says no more either.
    ByeAcknowledged,
    /// Nothing: the sender is alive.
    KeepAlive,
}

impl Frame {
    /// The head as it stands on the stream. A message of more than [`FRAME_BYTES_MAX`] bytes has none.
    #[must_use]
    pub const fn encode(self) -> Option<[u8; FRAME_HEAD_BYTES]> {
        let word = match self {
            Self::Data(bytes) if bytes == 0 || bytes > FRAME_BYTES_MAX => return None,
            Self::Data(bytes) => bytes,
            Self::Bye => BYE,
            Self::ByeAcknowledged => BYE_ACKNOWLEDGED,
            Self::KeepAlive => KEEP_ALIVE,
        };
        Some(word.to_le_bytes())
    }

    /// Reads a head. `max`: bytes of the longest message that this side takes.
    ///
    /// # Errors
    /// [`Malformed::Length`] for an empty message, one longer than `max`, and numbers that mean nothing.
    pub const fn decode(head: [u8; FRAME_HEAD_BYTES], max: u32) -> Result<Self, Malformed> {
        match u32::from_le_bytes(head) {
            BYE => Ok(Self::Bye),
            BYE_ACKNOWLEDGED => Ok(Self::ByeAcknowledged),
            KEEP_ALIVE => Ok(Self::KeepAlive),
            bytes if bytes > 0 && bytes <= max && bytes <= FRAME_BYTES_MAX => Ok(Self::Data(bytes)),
            _ => Err(Malformed::Length),
        }
    }
}

/// What the end of a connection means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// The peer had said bye: everything it sent has come.
    Orderly,
    /// The peer, or the way to it, has died.
    Death,
}

/// How two ranks part: each says bye when it will send no more, and acknowledges the other's once it has taken in all
/// that came before. An end of the connection without that is a death.
///
/// Driven as a handshake: [`handle`](Self::handle) what comes, send what [`poll_transmit`](Self::poll_transmit) names,
/// after everything that was queued before; close when it [`is_over`](Self::is_over).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Farewell {
    /// This side has said that it leaves.
    leaves: bool,
    bye_sent: bool,
    bye_acknowledged: bool,
    /// The peer's bye has come.
    bye_came: bool,
    acknowledgement_sent: bool,
}

impl Farewell {
    /// Nobody leaves.
    pub const NONE: Self = Self {
        leaves: false,
        bye_sent: false,
        bye_acknowledged: false,
        bye_came: false,
        acknowledgement_sent: false,
    };

    /// This side leaves: once what is queued is sent, nothing follows but the bye.
    pub const fn leave(&mut self) {
        self.leaves = true;
    }

    /// Whether messages may still be queued: neither side has said that it leaves.
    #[must_use]
    pub const fn may_send(&self) -> bool {
        !self.leaves && !self.bye_came
    }

    /// Whether the peer has said that it leaves: nothing but its acknowledgement comes any more.
    #[must_use]
    pub const fn peer_leaves(&self) -> bool {
        self.bye_came
    }

    /// The frame that is due, behind all messages that were queued. This changes nothing: call
    /// [`transmitted`](Self::transmitted) once it is queued, and ask again.
    #[must_use]
    pub const fn poll_transmit(&self) -> Option<Frame> {
        if self.leaves && !self.bye_sent && !self.bye_came {
            return Some(Frame::Bye);
        }
        if self.bye_came && !self.acknowledgement_sent { Some(Frame::ByeAcknowledged) } else { None }
    }

    /// The frame is queued.
    pub fn transmitted(&mut self, frame: Frame) {
        self.bye_sent |= frame == Frame::Bye;
        self.acknowledgement_sent |= frame == Frame::ByeAcknowledged;
    }

    /// Takes in the head of a frame.
    ///
    /// # Errors
    /// [`Malformed::Control`] for what the peer cannot say any more, or not yet: the connection is to be ended as dead.
    pub fn handle(&mut self, frame: Frame) -> Result<(), Malformed> {
        let fits = match frame {
            Frame::Data(_) | Frame::KeepAlive | Frame::Bye => !self.bye_came && !self.bye_acknowledged,
            Frame::ByeAcknowledged => self.bye_sent && !self.bye_acknowledged,
        };
        self.bye_came |= fits && frame == Frame::Bye;
        self.bye_acknowledged |= fits && frame == Frame::ByeAcknowledged;
        if fits { Ok(()) } else { Err(Malformed::Control) }
    }

    /// Whether both sides have parted, as far as this one can know: once what is queued is sent, the connection can be
    /// closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        let ours = !self.bye_sent || self.bye_acknowledged;
        let theirs = !self.bye_came || self.acknowledgement_sent;
        (self.bye_sent || self.bye_came) && ours && theirs
    }

    /// What it means that the connection ends now.
    #[must_use]
    pub const fn ended(&self) -> End {
        if self.bye_came || self.bye_acknowledged { End::Orderly } else { End::Death }
    }
}
