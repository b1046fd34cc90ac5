//! The control messages that ranks exchange about their connections.

use aldis_hal::cause::Malformed;

/// Bytes of a control message.
pub(super) const CONTROL_BYTES: usize = 8;

/// A connection with a peer, of the two that there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ControlLane {
    /// Messages.
    Messages = 0,
    /// Reads, writes and atomics.
    Memory = 1,
}

/// The kind of a control message: what it says of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum ControlKind {
    /// Offers a queue pair for it.
    Offer = 1,
    /// Offers another in return, connected to the one that was offered.
    Answer = 2,
    /// Both are connected.
    Go = 3,
    /// The connection is closed.
    Close = 4,
    /// There will be none: the device of the rank that was offered it cannot.
    Refuse = 5,
}

/// A control message to a peer about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ControlMessage {
    pub(super) lane: ControlLane,
    pub(super) kind: ControlKind,
    /// The number of the connection among those of this lane, one after the other.
    pub(super) serial: u16,
    /// Of an offer and its answer: how many reads the sender's queue pair can have under way, and
    /// its number.
    pub(super) depth: u8,
    pub(super) number: u32,
}

impl ControlMessage {
    /// Returns a control message that names no queue pair.
    pub(super) const fn bare(lane: ControlLane, kind: ControlKind, serial: u16) -> Self {
        Self { lane, kind, serial, depth: 0, number: 0 }
    }

    pub(super) fn encode(self) -> [u8; CONTROL_BYTES] {
        let ([low, high], [a, b, c, _]) = (self.serial.to_le_bytes(), self.number.to_le_bytes());
        [self.lane as u8, self.kind as u8, low, high, a, b, c, self.depth]
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[lane, kind, low, high, a, b, c, depth] = bytes else { return Err(Malformed::Control) };
        let lane = match lane {
            0 => ControlLane::Messages,
            1 => ControlLane::Memory,
            _ => return Err(Malformed::Control),
        };
        let kind = match kind {
            1 => ControlKind::Offer,
            2 => ControlKind::Answer,
            3 => ControlKind::Go,
            4 => ControlKind::Close,
            5 => ControlKind::Refuse,
            _ => return Err(Malformed::Control),
        };
        let (serial, number) = (u16::from_le_bytes([low, high]), u32::from_le_bytes([a, b, c, 0]));
        let names_pair = matches!(kind, ControlKind::Offer | ControlKind::Answer);
        if !names_pair && (number, depth) != (0, 0) {
            return Err(Malformed::Control);
        }
        Ok(Self { lane, kind, serial, depth, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_others_are_refused() {
        let offer = ControlMessage {
            lane: ControlLane::Memory,
            kind: ControlKind::Offer,
            serial: 0xFFFE,
            depth: 16,
            number: 0xFF_FFFF,
        };
        assert_eq!(ControlMessage::decode(&offer.encode()), Ok(offer));
        let close = ControlMessage::bare(ControlLane::Messages, ControlKind::Close, 7);
        assert_eq!(ControlMessage::decode(&close.encode()), Ok(close));
        for (at, value) in [(0, 2), (1, 0), (1, 6), (1, 3)] {
            let mut wrong = offer.encode();
            wrong[at] = value;
            assert_eq!(ControlMessage::decode(&wrong), Err(Malformed::Control), "byte {at}");
        }
        assert_eq!(ControlMessage::decode(&offer.encode()[..7]), Err(Malformed::Control));
    }
}
