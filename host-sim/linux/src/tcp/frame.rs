//! The frames in which messages follow each other in a stream: a head of eight bytes, then the
//! message. The first four are those of [`stream::StreamFrame`]; the others, little-endian, are the
//! number of the message among all to this peer, over all links. It wraps.
//!
//! The number of a bye is that of the message that would come next: it is the last word once all
//! before it have come, whichever link they took.

use aldis_hal::cause::Malformed;
use aldis_protocols::stream::{self, FRAME_HEAD_BYTES};

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = FRAME_HEAD_BYTES + size_of::<u32>();

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TcpFrame {
    pub(super) kind: stream::StreamFrame,
    /// The message's number, or the next one's.
    pub(super) number: u32,
}

impl TcpFrame {
    /// The head of a message of at least one byte.
    #[inline]
    pub(super) const fn data(length: usize, number: u32) -> Self {
        Self { kind: stream::StreamFrame::Data(length as u32), number }
    }

    /// Bytes of its message.
    #[inline]
    pub(super) const fn length(&self) -> usize {
        match self.kind {
            stream::StreamFrame::Data(bytes) => bytes as usize,
            _ => 0,
        }
    }

    /// The head as it is sent. One that cannot be sent, of no bytes, is refused by its reader.
    #[inline]
    pub(super) fn emit(self) -> [u8; HEAD_BYTES] {
        let first = u32::from_le_bytes(self.kind.encode().unwrap_or_default());
        (u64::from(first) | u64::from(self.number) << 32).to_le_bytes()
    }

    /// Reads a head; no message may be longer than `length_max`.
    ///
    /// # Errors
    /// What is wrong with it: its sender does not speak this protocol any more.
    #[inline]
    pub(super) fn parse(head: [u8; HEAD_BYTES], length_max: usize) -> Result<Self, Malformed> {
        let word = u64::from_le_bytes(head);
        let kind = stream::StreamFrame::decode((word as u32).to_le_bytes(), length_max as u32)?;
        Ok(Self { kind, number: (word >> 32) as u32 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(TcpFrame::data(0x1234, 7).emit(), [0x34, 0x12, 0, 0, 7, 0, 0, 0]);
        let bye = TcpFrame { kind: stream::StreamFrame::Bye, number: 0x0201 };
        assert_eq!(bye.emit(), [0, 0xFF, 0xFF, 0xFF, 1, 2, 0, 0]);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for head in [TcpFrame::data(101, 0).emit(), [0; HEAD_BYTES], [0xFF; HEAD_BYTES], *b"GET / HT"] {
            assert_eq!(TcpFrame::parse(head, 100), Err(Malformed::Length));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_that_would_be_sent_so_or_refused(head: [u8; HEAD_BYTES], max in 0..1_usize << 28) {
            if let Ok(frame) = TcpFrame::parse(head, max) {
                prop_assert!(frame.length() <= max);
                prop_assert_eq!(frame.emit(), head);
            }
        }
    }
}
