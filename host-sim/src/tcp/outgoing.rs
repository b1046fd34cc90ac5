//! What a link could not send yet.

use super::frame::HEAD_BYTES;

/// Bytes that wait for the socket, in order, in memory of one size. Frames stand in it as they are sent, so that a message can
/// be packed where it is sent from.
#[derive(Debug)]
pub(super) struct Outgoing {
    memory: Box<[u8]>,
    /// Where the bytes that wait begin.
    start: usize,
    /// Where they end.
    end: usize,
}

impl Outgoing {
    /// Memory of so many bytes, which is taken from the system as it is first used.
    pub(super) fn new(bytes: usize) -> Self {
        Self { memory: vec![0; bytes].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the frame of a message of `length` bytes has room.
    #[inline]
    pub(super) fn has_room(&self, length: usize) -> bool {
        self.memory.len() - self.end >= HEAD_BYTES + length
    }

    /// Where the message of the next frame is to be written: nothing if there is no room for it.
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

    /// What waits.
    #[inline]
    pub(super) fn waiting(&self) -> &[u8] {
        self.memory.get(self.start..self.end).unwrap_or_default()
    }

    /// The socket has taken so many bytes of it.
    #[inline]
    pub(super) const fn taken(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Nothing of it will be sent.
    pub(super) const fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Keeps the rest of a frame of which `taken` bytes have been sent past this memory. There is room: it was looked at
    /// before the frame was begun.
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
    use crate::tcp::frame::Frame;

    fn frame(message: &[u8], number: u32) -> Vec<u8> {
        [&Frame::data(message.len(), number).emit()[..], message].concat()
    }

    #[test]
    fn a_message_that_has_no_room_changes_nothing() {
        let mut outgoing = Outgoing::new(HEAD_BYTES + 3);
        assert!(outgoing.has_room(3) && !outgoing.has_room(4));
        assert!(outgoing.room(4).is_empty());
        outgoing.room(3).copy_from_slice(b"abc");
        assert!(outgoing.is_empty(), "not before it is committed");
        outgoing.commit(Frame::data(3, 0).emit(), 3);
        assert_eq!(outgoing.waiting(), frame(b"abc", 0));
        assert!(!outgoing.has_room(0));
        outgoing.taken(HEAD_BYTES + 3);
        assert!(outgoing.is_empty() && outgoing.has_room(3));
    }

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20),
            takes in prop::collection::vec(1_usize..60, 1..40),
        ) {
            let (mut outgoing, mut sent, mut expected) = (Outgoing::new(100), Vec::new(), Vec::new());
            let mut takes = takes.into_iter().cycle();
            let mut drain = |outgoing: &mut Outgoing, sent: &mut Vec<u8>| {
                let count = takes.next().unwrap().min(outgoing.waiting().len());
                sent.extend_from_slice(&outgoing.waiting()[..count]);
                outgoing.taken(count);
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
                    outgoing.commit(Frame::data(message.len(), number as u32).emit(), message.len());
                }
            }
            while !outgoing.is_empty() {
                drain(&mut outgoing, &mut sent);
            }
            prop_assert_eq!(sent, expected);
        }
    }
}
