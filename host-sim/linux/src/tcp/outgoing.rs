//! The bytes that a link could not send yet.

use std::collections::VecDeque;
use std::io::IoSlice;

use aldis_hal::{RegionId, Token};

use super::frame::HEAD_BYTES;
use super::lent::Lent;
use crate::paged::Paged;

/// Pieces of lent memory that wait at a time, at most.
const LENT_MAX: usize = 64;

/// Pieces that one call sends, at most: as many of lent memory, and what stands before and behind
/// each.
pub(super) const SLICES: usize = 2 * LENT_MAX + 1;

/// Bytes that wait for the socket, in order, in memory of one size; and in between, pieces of
/// memory that was lent. Frames stand in it as they are sent, so that a message can be packed where
/// it is sent from.
#[derive(Debug)]
pub(super) struct StreamWriter {
    memory: Paged,
    /// The start of the bytes that wait.
    start: usize,
    /// The end of the bytes that wait.
    end: usize,
    /// Lent memory, and how much of this memory stands before it.
    lent: VecDeque<(usize, Lent)>,
}

impl StreamWriter {
    /// Memory of so many bytes, which is taken from the system as it is first used.
    pub(super) fn new(bytes: usize) -> Self {
        Self { memory: Paged::new(bytes), start: 0, end: 0, lent: VecDeque::new() }
    }

    /// Returns true if nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end && self.lent.is_empty()
    }

    /// Returns true if the frame of a message of `length` bytes has room.
    #[inline]
    pub(super) fn has_room(&self, length: usize) -> bool {
        self.memory.len() - self.end >= HEAD_BYTES + length
    }

    /// Returns true if a frame of which all but a header of `length` bytes is lent has room.
    pub(super) fn has_room_for_lent(&self, length: usize) -> bool {
        self.has_room(length) && self.lent.len() < LENT_MAX
    }

    /// Returns the room for the message of the next frame: nothing if there is none.
    #[inline]
    pub(super) fn room(&mut self, length: usize) -> &mut [u8] {
        let start = self.end + HEAD_BYTES;
        self.memory.get_mut(start..start + length).unwrap_or_default()
    }

    /// Puts a head before the message that was written to [`room`](Self::room): it waits now.
    #[inline]
    pub(super) fn commit(&mut self, head: [u8; HEAD_BYTES], length: usize) {
        if let Some(place) = self.memory.get_mut(self.end..self.end + HEAD_BYTES) {
            place.copy_from_slice(&head);
            self.end += HEAD_BYTES + length;
        }
    }

    /// Puts lent memory behind all that waits.
    pub(super) fn lend(&mut self, piece: Lent) {
        self.lent.push_back((self.end, piece));
    }

    /// Returns what waits, if nothing of it is lent.
    #[inline]
    pub(super) fn plain(&self) -> Option<&[u8]> {
        let plain = self.lent.is_empty().then(|| self.memory.get(self.start..self.end));
        plain.map(Option::unwrap_or_default)
    }

    /// Lists what waits, piece by piece; returns the number of pieces.
    pub(super) fn pieces<'a>(&'a self, list: &mut [IoSlice<'a>; SLICES]) -> usize {
        let (mut from, mut count) = (self.start, 0);
        let mut put = |bytes: &'a [u8]| {
            if let Some(place) = list.get_mut(count).filter(|_| !bytes.is_empty()) {
                *place = IoSlice::new(bytes);
                count += 1;
            }
        };
        for (before, piece) in &self.lent {
            put(self.memory.get(from..*before).unwrap_or_default());
            put(piece.bytes());
            if piece.bytes().len() < piece.len() {
                return count;
            }
            from = *before;
        }
        put(self.memory.get(from..self.end).unwrap_or_default());
        count
    }

    /// The socket has taken so many bytes of it; those whose memory is not needed any more are
    /// `done`.
    #[inline]
    pub(super) fn taken(&mut self, bytes: usize, done: &mut VecDeque<Token>) {
        let left = if self.lent.is_empty() { bytes } else { self.lent_taken(bytes, done) };
        self.start += left;
        if self.start >= self.end && self.lent.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Does the work of [`taken`](Self::taken) as far as there is lent memory; returns the number
    /// of bytes behind that which have been taken.
    fn lent_taken(&mut self, bytes: usize, done: &mut VecDeque<Token>) -> usize {
        let mut left = bytes;
        while let Some((before, piece)) = self.lent.front_mut() {
            let own = left.min(*before - self.start);
            self.start += own;
            left -= own;
            let lent = left.min(piece.len());
            piece.sent(lent);
            left -= lent;
            if piece.len() > 0 {
                return 0;
            }
            done.extend(piece.token());
            self.lent.pop_front();
        }
        left
    }

    /// Lets go of lent memory.
    pub(super) fn let_go(&mut self, region: RegionId) {
        self.lent.iter_mut().for_each(|(_, piece)| piece.let_go(region));
    }

    /// Drops all of it: nothing will be sent.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.lent.clear();
    }

    /// Keeps the rest of a frame of which `taken` bytes have been sent past this memory. There is
    /// room: it was looked at before the frame was begun.
    pub(super) fn keep(&mut self, parts: [&[u8]; 2], taken: usize) {
        let mut skip = taken;
        for part in parts {
            let rest = part.get(skip.min(part.len())..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            if let Some(place) = self.memory.get_mut(self.end..self.end + rest.len()) {
                place.copy_from_slice(rest);
                self.end += rest.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tcp::frame::TcpFrame;

    fn frame(message: &[u8], number: u32) -> Vec<u8> {
        [&TcpFrame::data(message.len(), number).emit()[..], message].concat()
    }

    #[test]
    fn a_message_that_has_no_room_changes_nothing() {
        let mut outgoing = StreamWriter::new(HEAD_BYTES + 3);
        assert!(outgoing.has_room(3) && !outgoing.has_room(4));
        assert!(outgoing.room(4).is_empty());
        outgoing.room(3).copy_from_slice(b"abc");
        assert!(outgoing.is_empty(), "not before it is committed");
        outgoing.commit(TcpFrame::data(3, 0).emit(), 3);
        assert_eq!(outgoing.plain().unwrap(), frame(b"abc", 0));
        assert!(!outgoing.has_room(0));
        outgoing.taken(HEAD_BYTES + 3, &mut VecDeque::new());
        assert!(outgoing.is_empty() && outgoing.has_room(3));
    }

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20),
            takes in prop::collection::vec(1_usize..60, 1..40),
        ) {
            let (mut outgoing, mut sent, mut expected) = (StreamWriter::new(100), Vec::new(), Vec::new());
            let mut takes = takes.into_iter().cycle();
            let mut drain = |outgoing: &mut StreamWriter, sent: &mut Vec<u8>| {
                let count = takes.next().unwrap().min(outgoing.plain().unwrap().len());
                sent.extend_from_slice(&outgoing.plain().unwrap()[..count]);
                outgoing.taken(count, &mut VecDeque::new());
            };
            for (number, message) in messages.iter().enumerate() {
                let whole = frame(message, number as u32);
                expected.extend_from_slice(&whole);
                while !outgoing.has_room(message.len()) {
                    drain(&mut outgoing, &mut sent);
                }
                if outgoing.is_empty() {
                    // Sent past the memory, and cut somewhere.
                    let taken = (number * 7) % (whole.len() + 1);
                    sent.extend_from_slice(&whole[..taken]);
                    let (head, body) = whole.split_at(HEAD_BYTES);
                    outgoing.keep([head, body], taken);
                } else {
                    outgoing.room(message.len()).copy_from_slice(message);
                    outgoing.commit(TcpFrame::data(message.len(), number as u32).emit(), message.len());
                }
            }
            while !outgoing.is_empty() {
                drain(&mut outgoing, &mut sent);
            }
            prop_assert_eq!(sent, expected);
        }
    }
}
