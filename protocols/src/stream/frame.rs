//! The stream after the handshake: frames with a length before each, and the farewell.

use aldis_hal::cause::Malformed;

/// Bytes before every frame.
pub const FRAME_HEAD_BYTES: usize = 4;

/// Bytes of the longest message that a frame can carry.
pub const FRAME_BYTES_MAX: u32 = BYE - 1;

const BYE: u32 = 0xFFFF_FF00;
const BYE_ACKNOWLEDGED: u32 = BYE + 1;
const KEEP_ALIVE: u32 = BYE + 2;
const REST: u32 = BYE + 3;

/// A frame's head: the number of bytes that follow it, little-endian, or one of the largest
/// numbers, for what has no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StreamFrame {
    /// A message of so many bytes, at least one.
    Data(u32),
    /// The sender has sent all it ever will and wants nothing more.
    Bye,
    /// The sender has received everything up to the other's bye, and says no more either.
    ByeAcknowledged,
    /// No content: the sender is alive.
    KeepAlive,
    /// Nothing follows in this connection, see [`Rest`](super::Rest): both go on, and connect anew
    /// when there is something to send.
    Rest,
}

impl StreamFrame {
    /// The head as it stands on the stream. A message of more than [`FRAME_BYTES_MAX`] bytes has
    /// none.
    #[must_use]
    pub const fn encode(self) -> Option<[u8; FRAME_HEAD_BYTES]> {
        let word = match self {
            Self::Data(bytes) if bytes == 0 || bytes > FRAME_BYTES_MAX => return None,
            Self::Data(bytes) => bytes,
            Self::Bye => BYE,
            Self::ByeAcknowledged => BYE_ACKNOWLEDGED,
            Self::KeepAlive => KEEP_ALIVE,
            Self::Rest => REST,
        };
        Some(word.to_le_bytes())
    }

    /// Reads a head. `max`: bytes of the longest message that this side takes.
    ///
    /// # Errors
    /// [`Malformed::Length`] for an empty message, one longer than `max`, and numbers that mean
    /// nothing.
    pub const fn decode(head: [u8; FRAME_HEAD_BYTES], max: u32) -> Result<Self, Malformed> {
        match u32::from_le_bytes(head) {
            BYE => Ok(Self::Bye),
            BYE_ACKNOWLEDGED => Ok(Self::ByeAcknowledged),
            KEEP_ALIVE => Ok(Self::KeepAlive),
            REST => Ok(Self::Rest),
            bytes if bytes > 0 && bytes <= max && bytes <= FRAME_BYTES_MAX => Ok(Self::Data(bytes)),
            _ => Err(Malformed::Length),
        }
    }
}

/// The meaning of the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// The peer had said bye: everything it sent has come.
    Orderly,
    /// The peer, or the way to it, has died.
    Death,
}

/// The parting of two ranks: each says bye when it will send no more, and acknowledges the other's
/// once it has received all that came before. An end of the connection without that is a death.
///
/// Driven as a handshake: [`handle`](Self::handle) what comes, send what
/// [`poll_transmit`](Self::poll_transmit) names, after everything that was queued before; close
/// when it [`is_over`](Self::is_over).
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
    /// A farewell in which neither side leaves.
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

    /// Returns true if messages may still be queued: neither side has said that it leaves.
    #[must_use]
    pub const fn may_send(&self) -> bool {
        !self.leaves && !self.bye_came
    }

    /// Returns true if the peer has said that it leaves: nothing but its acknowledgement comes any
    /// more.
    #[must_use]
    pub const fn peer_leaves(&self) -> bool {
        self.bye_came
    }

    /// The frame that is due, behind all messages that were queued. This changes nothing: call
    /// [`transmitted`](Self::transmitted) once it is queued, and ask again.
    #[must_use]
    pub const fn poll_transmit(&self) -> Option<StreamFrame> {
        if self.leaves && !self.bye_sent && !self.bye_came {
            return Some(StreamFrame::Bye);
        }
        if self.bye_came && !self.acknowledgement_sent { Some(StreamFrame::ByeAcknowledged) } else { None }
    }

    /// The frame is queued.
    pub fn transmitted(&mut self, frame: StreamFrame) {
        self.bye_sent |= frame == StreamFrame::Bye;
        self.acknowledgement_sent |= frame == StreamFrame::ByeAcknowledged;
    }

    /// Handles the head of a frame.
    ///
    /// # Errors
    /// [`Malformed::Control`] for what the peer cannot say any more, or not yet: the connection is
    /// to be ended as dead.
    pub fn handle(&mut self, frame: StreamFrame) -> Result<(), Malformed> {
        let fits = match frame {
            StreamFrame::Data(_) | StreamFrame::KeepAlive | StreamFrame::Rest | StreamFrame::Bye => {
                !self.bye_came && !self.bye_acknowledged
            }
            StreamFrame::ByeAcknowledged => self.bye_sent && !self.bye_acknowledged,
        };
        self.bye_came |= fits && frame == StreamFrame::Bye;
        self.bye_acknowledged |= fits && frame == StreamFrame::ByeAcknowledged;
        if fits { Ok(()) } else { Err(Malformed::Control) }
    }

    /// Returns true if both sides have parted, as far as this one can know: once what is queued is
    /// sent, the connection can be closed.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        let ours = !self.bye_sent || self.bye_acknowledged;
        let theirs = !self.bye_came || self.acknowledgement_sent;
        (self.bye_sent || self.bye_came) && ours && theirs
    }

    /// Returns what it means that the connection ends now.
    #[must_use]
    pub const fn ended(&self) -> End {
        if self.bye_came || self.bye_acknowledged { End::Orderly } else { End::Death }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(StreamFrame::Data(0x0102).encode(), Some([2, 1, 0, 0]));
        assert_eq!(StreamFrame::Bye.encode(), Some([0, 0xFF, 0xFF, 0xFF]));
        assert_eq!(StreamFrame::ByeAcknowledged.encode(), Some([1, 0xFF, 0xFF, 0xFF]));
        assert_eq!(StreamFrame::KeepAlive.encode(), Some([2, 0xFF, 0xFF, 0xFF]));
        assert_eq!(StreamFrame::Rest.encode(), Some([3, 0xFF, 0xFF, 0xFF]));
        assert_eq!((StreamFrame::Data(0).encode(), StreamFrame::Data(BYE).encode()), (None, None));
        assert_eq!(StreamFrame::decode([1, 1, 0, 0], 256), Err(Malformed::Length));
        assert_eq!(StreamFrame::decode([4, 0xFF, 0xFF, 0xFF], u32::MAX), Err(Malformed::Length));
        assert_eq!(StreamFrame::decode([0; 4], 256), Err(Malformed::Length));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(head: [u8; 4], max: u32) {
            match StreamFrame::decode(head, max) {
                Ok(frame) => prop_assert_eq!(frame.encode(), Some(head)),
                Err(_) => prop_assert!(u32::from_le_bytes(head) == 0 || u32::from_le_bytes(head) > max.min(BYE)),
            }
        }
    }

    /// Passes what is due until nothing is; what the end of the connection would mean is asked
    /// before each frame.
    fn part(sides: &mut [Farewell; 2]) {
        let mut wire: [std::vec::Vec<StreamFrame>; 2] = Default::default();
        loop {
            for from in 0..2 {
                while let Some(frame) = sides[from].poll_transmit() {
                    sides[from].transmitted(frame);
                    wire[1 - from].push(frame);
                }
            }
            let Some(to) = (0..2).find(|&to| !wire[to].is_empty()) else { return };
            let frame = wire[to].remove(0);
            assert_eq!(sides[to].handle(frame), Ok(()));
            assert_eq!(sides[to].ended(), End::Orderly);
        }
    }

    #[test]
    fn one_leaves_or_both_do() {
        for leaving in [&[0][..], &[1], &[0, 1]] {
            let mut sides = [Farewell::NONE; 2];
            assert!(
                sides.iter().all(|side| side.may_send() && !side.is_over() && side.ended() == End::Death)
            );
            for &i in leaving {
                sides[i].leave();
                assert!(!sides[i].may_send() && !sides[i].is_over());
            }
            part(&mut sides);
            assert!(sides.iter().all(|side| side.is_over() && !side.may_send()));
            assert!(sides.iter().all(|side| side.ended() == End::Orderly && side.poll_transmit().is_none()));
        }
    }

    #[test]
    fn an_end_without_a_word_is_a_death() {
        let mut leaves = Farewell::NONE;
        leaves.leave();
        leaves.transmitted(StreamFrame::Bye);
        assert_eq!((leaves.ended(), leaves.is_over()), (End::Death, false), "no peer has heard it");
        assert_eq!(leaves.handle(StreamFrame::Data(5)), Ok(()), "it was on its way");
        assert_eq!(leaves.handle(StreamFrame::ByeAcknowledged), Ok(()));
        assert_eq!((leaves.ended(), leaves.is_over()), (End::Orderly, true));
        for frame in
            [StreamFrame::Data(5), StreamFrame::Bye, StreamFrame::ByeAcknowledged, StreamFrame::KeepAlive]
        {
            assert_eq!(leaves.handle(frame), Err(Malformed::Control), "after the last word");
        }
    }

    #[test]
    fn nothing_follows_a_bye() {
        let mut stays = Farewell::NONE;
        assert_eq!(
            stays.handle(StreamFrame::ByeAcknowledged),
            Err(Malformed::Control),
            "no peer has said bye"
        );
        assert_eq!(stays.handle(StreamFrame::KeepAlive), Ok(()));
        assert_eq!(stays.handle(StreamFrame::Bye), Ok(()));
        assert!(stays.peer_leaves() && !stays.is_over() && !stays.may_send());
        assert_eq!(stays.handle(StreamFrame::Data(5)), Err(Malformed::Control));
        stays.leave();
        assert_eq!(stays.poll_transmit(), Some(StreamFrame::ByeAcknowledged), "that says all");
    }
}
