//! The receiver's side of a rendezvous by reading: the announcement says by which key the data can
//! be read from the sender's memory.
//!
//! ```text
//! sender                                   receiver
//!   | -- expose (token, length, key) ------> |  ... a receive matches ...
//!   |          (memory is read) ............ |  piece by piece, by the transport
//!   | <---- clear to send (read) ----------- |  complete
//!   |  complete                              |
//! ```
//!
//! The sender may take its memory back at any time: the next read fails, and the message is
//! withdrawn. Memory that cannot be read after all is asked for like that of any announcement, from
//! where reading has ended.
//!
//! Where the memory is mapped, the receiver need not read it at all: it [holds](Reader::hold) the
//! message, the caller looks at it where it is, and the clear-to-send follows when the caller is
//! done.

use aldis_hal::Handle;

use super::Receiver;
use crate::header::MemoryKey;

/// The part of a matchable announcement that is about its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Announcement {
    /// The sending request: the token by which the data is asked for.
    pub sender: Handle,
    /// By which it can be read; all zero if it cannot, all ones if the sender would write it.
    key: MemoryKey,
}

impl Announcement {
    /// Creates an announcement whose data is to be asked for.
    pub const fn plain(sender: Handle) -> Self {
        Self { sender, key: [0; _] }
    }

    /// Creates an announcement whose data can be read by `key`.
    pub const fn exposed(sender: Handle, key: MemoryKey) -> Self {
        Self { sender, key }
    }

    /// Creates an announcement whose data the sender would write.
    pub const fn to_be_written(sender: Handle) -> Self {
        Self { sender, key: [u8::MAX; _] }
    }

    /// Returns true if the data can be read.
    pub const fn is_exposed(&self) -> bool {
        !matches!(u128::from_ne_bytes(self.key), 0 | u128::MAX)
    }

    /// Returns true if the sender would write the data.
    pub const fn is_to_be_written(&self) -> bool {
        matches!(u128::from_ne_bytes(self.key), u128::MAX)
    }
}

/// The next step of a reading receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ReaderStep {
    /// Read bytes `offset..offset + len` by the key.
    Read {
        /// The key.
        key: MemoryKey,
        /// The first byte.
        offset: u64,
        /// The number of bytes, at most what was passed as the limit.
        len: u32,
    },
    /// Wait until what is being read has come, or what is held is let go of.
    Wait,
    /// Tell `sender` that nothing more is wanted.
    Tell {
        /// The request that waits for that.
        sender: Handle,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum ReceivePhase {
    #[default]
    Reading,
    Waiting,
    Held,
    Telling,
}

/// The receiver's side, from the match on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reader {
    key: MemoryKey,
    sender: Handle,
    next: u64,
    end: u64,
    /// Bytes being read.
    under_way: u32,
    phase: ReceivePhase,
    withdrawn: bool,
}

impl Reader {
    /// A matched announcement of `length` bytes, for a buffer with room for `room` bytes.
    pub const fn new(announcement: &Announcement, length: u64, room: u64) -> Self {
        let end = if length < room { length } else { room };
        let phase = if end == 0 { ReceivePhase::Telling } else { ReceivePhase::Reading };
        let &Announcement { sender, key } = announcement;
        Self { key, sender, next: 0, end, under_way: 0, phase, withdrawn: false }
    }

    /// Returns the next step, reading at most `most` bytes at a time.
    pub fn step(&self, most: u64) -> ReaderStep {
        match self.phase {
            ReceivePhase::Reading => {
                let len = self.end.saturating_sub(self.next).min(most.clamp(1, u32::MAX.into()));
                ReaderStep::Read { key: self.key, offset: self.next, len: len as u32 }
            }
            ReceivePhase::Waiting | ReceivePhase::Held => ReaderStep::Wait,
            ReceivePhase::Telling => ReaderStep::Tell { sender: self.sender },
        }
    }

    /// Leaves the message where it is, if none of it has been read: until it is
    /// [declined](Self::decline), or [read](Self::read_held) after all.
    pub fn hold(&mut self) {
        if self.phase == ReceivePhase::Reading && self.next == 0 {
            self.phase = ReceivePhase::Held;
        }
    }

    /// Returns the message's key if it is left where it is.
    pub fn held(&self) -> Option<MemoryKey> {
        (self.phase == ReceivePhase::Held).then_some(self.key)
    }

    /// Reads what was held.
    pub fn read_held(&mut self) {
        if self.phase == ReceivePhase::Held {
            self.phase = ReceivePhase::Reading;
        }
    }

    /// Records that so many bytes are being read; the outcome is reported later.
    pub fn posted(&mut self, len: u32) {
        if self.phase == ReceivePhase::Reading {
            (self.phase, self.under_way) = (ReceivePhase::Waiting, len);
        }
    }

    /// Notes that what was being read is here. Returns false if nothing was.
    pub const fn arrived(&mut self) -> bool {
        let ReceivePhase::Waiting = self.phase else { return false };
        self.next = self.next.saturating_add(self.under_way as u64);
        self.phase = if self.next < self.end { ReceivePhase::Reading } else { ReceivePhase::Telling };
        true
    }

    /// The sender has taken its memory back: what has been read may be anything.
    pub const fn withdraw(&mut self) {
        self.withdrawn = true;
        self.phase = ReceivePhase::Telling;
    }

    /// Wants no data any more.
    pub const fn decline(&mut self) {
        self.phase = ReceivePhase::Telling;
    }

    /// Returns true if the sender has taken its memory back.
    pub const fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Asks for what is missing instead: it cannot be read after all.
    pub const fn ask_instead(&self) -> Receiver {
        let Self { sender, next, end, .. } = *self;
        Receiver { next, ..Receiver::new(sender, end, end) }
    }

    /// Bytes read so far.
    pub const fn bytes_read(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{ReceiverStep, Sender, SenderStep};
    use super::*;

    const SENDING: Handle = Handle { slot: 1, generation: 1 };
    const RECEIVING: Handle = Handle { slot: 2, generation: 3 };
    const EXPOSED: Announcement = Announcement { sender: SENDING, key: [7; _] };

    proptest! {
        /// Whatever the sizes, and wherever reading turns out to be impossible or the memory is
        /// taken back: both ends come to their end, every byte is read or asked for exactly once,
        /// and a withdrawn message is never taken for a whole one.
        #[test]
        fn both_ends_end(
            length in 0u64..5000, room in 0u64..5000, most in 0u64..900, refused_at in 0u32..12, withdrawn_at in 0u32..12,
            queued in any::<bool>(), held in any::<bool>(),
        ) {
            let (mut sender, mut reader) = (Sender::new(length), Reader::new(&EXPOSED, length, room));
            sender.announced();
            let (mut covered, mut reads) = (0, 0);
            if held && length.min(room) > 0 {
                reader.hold();
                prop_assert_eq!((reader.held(), reader.step(most)), (Some(EXPOSED.key), ReaderStep::Wait));
                prop_assert!(!reader.arrived(), "nothing is being read");
                reader.read_held();
            }
            prop_assert!(reader.held().is_none());
            loop {
                match reader.step(most) {
                    ReaderStep::Read { key, offset, len } => {
                        prop_assert_eq!((key, offset), (EXPOSED.key, covered));
                        prop_assert!(len > 0 && u64::from(len) <= most.max(1));
                        prop_assert!(offset + u64::from(len) <= length.min(room));
                        reads += 1;
                        if reads == withdrawn_at {
                            prop_assert!(sender.withdraw(), "a peer must be told");
                            reader.withdraw();
                            continue;
                        }
                        if reads == refused_at { break }
                        reader.posted(len);
                        if queued { prop_assert_eq!(reader.step(most), ReaderStep::Wait); }
                        prop_assert!(reader.arrived());
                        prop_assert!(!reader.arrived(), "it comes once");
                        covered += u64::from(len);
                    }
                    ReaderStep::Tell { sender: to } => {
                        prop_assert_eq!(to, SENDING);
                        sender.read().unwrap();
                        prop_assert_eq!(sender.step(1), SenderStep::Done);
                        prop_assert!(sender.read().is_err(), "told twice");
                        prop_assert!(reader.is_withdrawn() || covered == length.min(room));
                        return Ok(());
                    }
                    ReaderStep::Wait => prop_assert!(false, "nothing is under way"),
                }
            }
            let mut receiver = reader.ask_instead();
            let ReceiverStep::Ask { sender: to, offset, end, more } = receiver.step() else { panic!("it must ask") };
            prop_assert_eq!((to, offset, end, more), (SENDING, covered, length.min(room), false));
            receiver.asked();
            sender.asked(RECEIVING, offset..end, more).unwrap();
            while let SenderStep::Data { offset, len, .. } = sender.step(100) {
                prop_assert_eq!(receiver.data(offset, len.into()), Ok(offset), "at its place in the whole message");
                sender.sent(len);
            }
            prop_assert_eq!(receiver.bytes_received(), length.min(room));
        }
    }

    #[test]
    fn what_is_declined_ends_without_another_read() {
        let mut reader = Reader::new(&EXPOSED, 100, 100);
        reader.posted(50);
        reader.decline();
        assert!(!reader.arrived(), "it is not wanted any more");
        assert_eq!(reader.step(10), ReaderStep::Tell { sender: SENDING });
        assert!(!reader.is_withdrawn());
    }

    #[test]
    fn what_is_held_is_let_go_of_without_a_read() {
        let mut reader = Reader::new(&EXPOSED, 100, 100);
        reader.hold();
        reader.decline();
        assert_eq!((reader.held(), reader.step(10)), (None, ReaderStep::Tell { sender: SENDING }));
        let mut begun = Reader::new(&EXPOSED, 100, 100);
        begun.posted(50);
        assert!(begun.arrived());
        begun.hold();
        assert!(begun.held().is_none(), "half of it has been read");
    }

    #[test]
    fn an_announcement_says_what_becomes_of_its_data() {
        let says = |of: Announcement| [of.is_exposed(), of.is_to_be_written()];
        assert_eq!(says(Announcement::plain(SENDING)), [false, false]);
        assert_eq!(says(EXPOSED), [true, false]);
        assert_eq!(says(Announcement::to_be_written(SENDING)), [false, true]);
    }
}
