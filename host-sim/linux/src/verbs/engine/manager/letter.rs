//! The letter that goes with each step of a connection that rdma_cm makes: a control message, from
//! which life to which.

use aldis_hal::{Epoch, PeerId};

use super::super::super::sys::LETTER_BYTES;
use super::super::control::{CONTROL_BYTES, ControlMessage};

/// The mark at the beginning of each letter: that it is one, and of which form.
const MARK: u32 = 0xA1D1_5C01;
/// Bytes of it.
const BYTES: usize = 4 + 4 + 4 + 4 + CONTROL_BYTES;

/// A control message, from this life of a rank to that of the reader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Letter {
    pub(super) from: PeerId,
    pub(super) epochs: (Epoch, Epoch),
    pub(super) control: ControlMessage,
}

impl Letter {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = [MARK, self.from.0, self.epochs.0.0, self.epochs.1.0];
        for (piece, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            piece.copy_from_slice(&number.to_le_bytes());
        }
        bytes[BYTES - CONTROL_BYTES..].copy_from_slice(&self.control.encode());
        bytes
    }

    /// `None` for what is none.
    pub(super) fn decode(bytes: &[u8; LETTER_BYTES]) -> Option<Self> {
        let mut numbers = bytes.as_chunks::<4>().0.iter().map(|piece| u32::from_le_bytes(*piece));
        let [mark, from, own, to] = core::array::from_fn(|_| numbers.next().unwrap_or(0));
        let control = ControlMessage::decode(bytes.get(BYTES - CONTROL_BYTES..BYTES)?).ok()?;
        let has_rest = bytes.get(BYTES..)?.iter().any(|byte| *byte != 0);
        (mark == MARK && !has_rest).then_some(Self {
            from: PeerId(from),
            epochs: (Epoch(own), Epoch(to)),
            control,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::control::{ControlKind, ControlLane};
    use super::*;

    fn padded(letter: &Letter) -> [u8; LETTER_BYTES] {
        let mut bytes = [0; LETTER_BYTES];
        bytes[..BYTES].copy_from_slice(&letter.encode());
        bytes
    }

    proptest! {
        #[test]
        fn letters_come_back(from: u32, own: u32, to: u32, serial: u16, depth: u8, number in 0_u32..1 << 24) {
            let control = ControlMessage { lane: ControlLane::Memory, kind: ControlKind::Answer, serial, depth, number };
            let letter = Letter { from: PeerId(from), epochs: (Epoch(own), Epoch(to)), control };
            prop_assert_eq!(Letter::decode(&padded(&letter)), Some(letter));
        }

        #[test]
        fn what_is_none_is_refused(at in 0_usize..LETTER_BYTES, change in 1_u8..) {
            let control = ControlMessage::bare(ControlLane::Messages, ControlKind::Close, 7);
            let letter = Letter { from: PeerId(1), epochs: (Epoch(2), Epoch(3)), control };
            let mut bytes = padded(&letter);
            bytes[at] ^= change;
            prop_assert_ne!(Letter::decode(&bytes), Some(letter));
            if !(4..BYTES).contains(&at) {
                prop_assert_eq!(Letter::decode(&bytes), None);
            }
        }
    }
}
