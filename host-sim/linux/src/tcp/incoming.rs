//! The bytes that a link has read and not delivered yet.

use aldis_hal::cause::Malformed;

use super::frame::{HEAD_BYTES, TcpFrame};
use crate::paged::Paged;

/// Bytes that a read asks for when it is not known what comes.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Bytes of a stream, cut into frames. A message lies in one piece when it is delivered. The rest
/// of a long frame is read alone, so that the next frame begins at the front again and long
/// messages are never moved.
#[derive(Debug)]
pub(super) struct Incoming {
    memory: Paged,
    /// The start of the next frame.
    start: usize,
    /// The end of what has been read.
    end: usize,
    message_bytes_max: usize,
}

impl Incoming {
    /// For messages of so many bytes at most. The memory is taken from the system as it is first
    /// used.
    pub(super) fn new(message_bytes_max: usize) -> Self {
        let memory = Paged::new(READ_BYTES + HEAD_BYTES + message_bytes_max);
        Self { memory, start: 0, end: 0, message_bytes_max }
    }

    /// The next frame, if all of it has come, and its message.
    ///
    /// # Errors
    /// What comes next is no frame.
    #[inline]
    pub(super) fn next(&self) -> Result<Option<(TcpFrame, &[u8])>, Malformed> {
        let Some(frame) = self.head()? else { return Ok(None) };
        let start = self.start + HEAD_BYTES;
        let whole = start + frame.length() <= self.end;
        Ok(if whole {
            self.memory.get(start..start + frame.length()).map(|message| (frame, message))
        } else {
            None
        })
    }

    /// The next frame, if its head has come, and what has come of its message: all that has been
    /// read, if it is not whole.
    #[inline]
    pub(super) fn begun(&self) -> Option<(TcpFrame, &[u8])> {
        let frame = self.head().ok()??;
        self.memory.get(self.start + HEAD_BYTES..self.end).map(|there| (frame, there))
    }

    /// All that has been read is done with.
    pub(super) const fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// The next frame is done with.
    #[inline]
    pub(super) const fn pass(&mut self, frame: TcpFrame) {
        self.start += HEAD_BYTES + frame.length();
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Returns true if the stream stands between two frames.
    pub(super) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the room to read to: never nothing, as long as the next frame has not come whole.
    /// `most` bytes, or as many as that frame still has if those are more, or if it is long.
    #[inline]
    pub(super) fn room(&mut self, most: usize) -> &mut [u8] {
        let whole = match self.head() {
            Ok(Some(frame)) => HEAD_BYTES + frame.length(),
            Ok(None) | Err(_) => HEAD_BYTES,
        };
        if self.start + whole.max(READ_BYTES) > self.memory.len() {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let (rest, more) = (self.start + whole, self.end + most.min(READ_BYTES));
        let end = if whole > READ_BYTES { rest } else { more.max(rest) };
        let end = end.min(self.memory.len());
        self.memory.get_mut(self.end..end).unwrap_or_default()
    }

    /// Accounts for bytes that have been read.
    #[inline]
    pub(super) const fn read(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// The head of the next frame, if it has come.
    #[inline]
    fn head(&self) -> Result<Option<TcpFrame>, Malformed> {
        let there = self.memory.get(self.start..self.end).unwrap_or_default();
        match there.first_chunk() {
            Some(head) => TcpFrame::parse(*head, self.message_bytes_max).map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds a stream in pieces and gives the messages that come of it.
    fn cut(
        stream: &[u8],
        pieces: impl IntoIterator<Item = usize>,
        max: usize,
    ) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut incoming, mut messages, mut rest) = (Incoming::new(max), Vec::new(), stream);
        for piece in pieces {
            let room = incoming.room(READ_BYTES);
            assert!(!room.is_empty(), "there is always room for the next frame");
            let count = piece.min(room.len()).min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            incoming.read(count);
            while let Some((frame, message)) = incoming.next()? {
                assert_eq!(frame.number as usize, messages.len());
                messages.push(message.to_vec());
                incoming.pass(frame);
            }
            if rest.is_empty() {
                break;
            }
        }
        assert!(rest.is_empty() && incoming.is_empty());
        Ok(messages)
    }

    fn stream(messages: &[Vec<u8>]) -> Vec<u8> {
        let frame = |(number, message): (usize, &Vec<u8>)| {
            [&TcpFrame::data(message.len(), number as u32).emit()[..], message].concat()
        };
        messages.iter().enumerate().flat_map(frame).collect()
    }

    #[test]
    fn byte_by_byte_and_all_at_once_are_the_same() {
        let messages: Vec<_> = (1..300).map(|len| vec![len as u8; len]).collect();
        let stream = stream(&messages);
        assert_eq!(cut(&stream, core::iter::repeat(1), 300), Ok(messages.clone()));
        assert_eq!(cut(&stream, core::iter::repeat(usize::MAX), 300), Ok(messages));
    }

    #[test]
    fn a_giant_length_is_refused_before_anything_is_read_for_it() {
        let stream =
            [TcpFrame::data(3, 0).emit().as_slice(), b"abc", &TcpFrame::data(1 << 27, 1).emit()].concat();
        assert_eq!(cut(&stream, core::iter::repeat(5), 1 << 20), Err(Malformed::Length));
    }

    #[test]
    fn the_rest_of_a_long_frame_is_read_alone() {
        let mut incoming = Incoming::new(1 << 20);
        incoming.room(READ_BYTES)[..HEAD_BYTES].copy_from_slice(&TcpFrame::data(1 << 20, 0).emit());
        incoming.read(HEAD_BYTES + 10);
        assert_eq!(incoming.room(READ_BYTES).len(), (1 << 20) - 10);
    }

    proptest! {
        #[test]
        fn any_split_of_the_stream_gives_the_same_messages(
            lengths in prop::collection::vec(prop_oneof![8 => 1_usize..200, 1 => 60_000_usize..140_000], 1..12),
            pieces in prop::collection::vec(prop_oneof![1_usize..12, 1_usize..100_000], 1..20),
        ) {
            let messages: Vec<_> = lengths.iter().map(|len| (0..*len).map(|at| (at * 7 + len) as u8).collect()).collect();
            let pieces = pieces.into_iter().chain([50_000]).cycle();
            prop_assert_eq!(cut(&stream(&messages), pieces, 140_000), Ok(messages));
        }
    }
}
