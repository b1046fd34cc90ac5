//! The sender's side of a rendezvous by writing: the receiver says by which key the data can be
//! written into its memory.
//!
//! ```text
//! sender                                   receiver
//!   | -- announce write (token, length) ---> |  ... a receive matches ...
//!   | <---- clear to write (key, range) ---- |
//!   | .......... (memory is written)         |  piece by piece, by the transport
//!   | -- finish (written) -----------------> |  complete
//!   |  complete                              |
//! ```
//!
//! The sender never writes where it is not wanted any more: the receiver takes its memory back, and
//! the next write fails. What cannot be written, for that or any other reason, is sent in
//! fragments, from the first byte on. A receiver that cannot be written to asks for them itself.

use aldis_hal::Handle;

use super::{Sender, SenderPhase};
use crate::header::{Finish, MemoryKey};

/// The next step of a writing sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WriterStep {
    /// Write bytes `offset..offset + len` by the key.
    Write {
        /// The key.
        key: MemoryKey,
        /// The first byte.
        offset: u64,
        /// The number of bytes, at most what was passed as the limit.
        len: u32,
    },
    /// Wait until what is being written can be seen there.
    Wait,
    /// Send a finish to `receiver`.
    Finish {
        /// The request that waits for it.
        receiver: Handle,
        /// The outcome to report.
        status: Finish,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum WritePhase {
    #[default]
    Writing,
    Waiting,
    Written,
    Withdrawn,
}

/// The sender's side, from the answer on. See [`Sender::asked_to_write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Writer {
    key: MemoryKey,
    receiver: Handle,
    next: u64,
    end: u64,
    /// Bytes being written.
    under_way: u32,
    phase: WritePhase,
}

impl Writer {
    /// Has been asked for `end` bytes, by this key.
    pub(super) const fn new(receiver: Handle, end: u64, key: MemoryKey) -> Self {
        let phase = if end == 0 { WritePhase::Written } else { WritePhase::Writing };
        Self { key, receiver, next: 0, end, under_way: 0, phase }
    }

    /// Returns the next step, writing at most `most` bytes at a time.
    pub fn step(&self, most: u64) -> WriterStep {
        match self.phase {
            WritePhase::Writing => {
                let len = self.end.saturating_sub(self.next).min(most.clamp(1, u32::MAX.into()));
                WriterStep::Write { key: self.key, offset: self.next, len: len as u32 }
            }
            WritePhase::Waiting => WriterStep::Wait,
            WritePhase::Written => WriterStep::Finish { receiver: self.receiver, status: Finish::Written },
            WritePhase::Withdrawn => {
                WriterStep::Finish { receiver: self.receiver, status: Finish::Withdrawn }
            }
        }
    }

    /// Records that so many bytes are being written; the outcome is reported later.
    pub fn posted(&mut self, len: u32) {
        if self.phase == WritePhase::Writing {
            (self.phase, self.under_way) = (WritePhase::Waiting, len);
        }
    }

    /// Notes that what was being written can be seen there.
    pub const fn arrived(&mut self) {
        if let WritePhase::Waiting = self.phase {
            self.next = self.next.saturating_add(self.under_way as u64);
            let has_more = self.next < self.end;
            self.phase = if has_more { WritePhase::Writing } else { WritePhase::Written };
        }
    }

    /// The user's memory is no longer there.
    pub const fn withdraw(&mut self) {
        self.phase = WritePhase::Withdrawn;
    }

    /// Sends the data in fragments instead: it cannot be written after all.
    pub fn send_instead(&self) -> Sender {
        let &Self { receiver, end, .. } = self;
        Sender { end, length: end, receiver, phase: SenderPhase::Streaming, ..Sender::default() }
    }

    /// Bytes written so far.
    pub const fn bytes_written(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use aldis_hal::cause::Malformed;
    use proptest::prelude::*;

    use super::super::{Receiver, ReceiverStep, SenderStep};
    use super::*;

    const SENDING: Handle = Handle { slot: 1, generation: 1 };
    const RECEIVING: Handle = Handle { slot: 2, generation: 3 };
    const KEY: MemoryKey = [7; _];

    /// A sender that has announced `length` bytes, and a receiver with room for `room` that has
    /// given its key.
    fn matched(length: u64, room: u64) -> (Sender, Receiver) {
        let (mut sender, mut receiver) = (Sender::new(length), Receiver::new(SENDING, length, room));
        sender.announced();
        receiver.invite();
        assert!(receiver.is_inviting());
        receiver.invited();
        (sender, receiver)
    }

    proptest! {
        /// Whatever the sizes, and wherever writing turns out to be impossible or the memory is
        /// taken back: both ends come to their end, every byte has been written or sent, and a
        /// withdrawn message is never taken for a whole one.
        #[test]
        fn both_ends_end(
            length in 1u64..5000, room in 1u64..5000, most in 0u64..900, refused_at in 0u32..12, withdrawn_at in 0u32..12,
            is_queued in any::<bool>(),
        ) {
            let (sender, mut receiver) = matched(length, room);
            let (here, mut covered, mut writes) = (length.min(room), 0, 0);
            let mut writer = sender.asked_to_write(RECEIVING, here, KEY).unwrap();
            let status = loop {
                match writer.step(most) {
                    WriterStep::Write { key, offset, len } => {
                        prop_assert_eq!((key, offset, writer.bytes_written()), (KEY, covered, covered));
                        prop_assert!(len > 0 && u64::from(len) <= most.max(1) && offset + u64::from(len) <= here);
                        writes += 1;
                        if writes == withdrawn_at {
                            writer.withdraw();
                            continue;
                        }
                        if writes == refused_at { break None }
                        writer.posted(len);
                        if is_queued { prop_assert_eq!(writer.step(most), WriterStep::Wait); }
                        writer.arrived();
                        covered += u64::from(len);
                    }
                    WriterStep::Finish { receiver: to, status } => {
                        prop_assert_eq!(to, RECEIVING);
                        break Some(status);
                    }
                    WriterStep::Wait => prop_assert!(false, "nothing is under way"),
                }
            };
            if let Some(status) = status {
                prop_assert_eq!(status == Finish::Written, covered == here);
                prop_assert_eq!(receiver.finish(status), Ok(()));
                prop_assert_eq!(receiver.step(), ReceiverStep::Done(status));
                prop_assert_eq!(receiver.bytes_received() == here, status == Finish::Written);
                return Ok(());
            }
            let mut sender = writer.send_instead();
            while let SenderStep::Data { offset, len, .. } = sender.step(100) {
                prop_assert_eq!(receiver.data(offset, len.into()), Ok(offset), "from the first byte on");
                sender.sent(len);
            }
            prop_assert_eq!(sender.step(100), SenderStep::Finish { receiver: RECEIVING, status: Finish::Complete });
            prop_assert_eq!(receiver.finish(Finish::Complete), Ok(()));
            prop_assert_eq!(receiver.bytes_received(), here);
        }
    }

    #[test]
    fn a_sender_writes_only_when_asked_and_no_more_than_there_is() {
        let (sender, _) = matched(10, 10);
        assert_eq!(sender.asked_to_write(RECEIVING, 11, KEY), Err(Malformed::Length));
        assert_eq!(
            Sender::new(10).asked_to_write(RECEIVING, 10, KEY),
            Err(Malformed::Control),
            "nothing was announced"
        );
        let mut asked = sender;
        asked.asked(RECEIVING, 0..10, false).unwrap();
        assert_eq!(asked.asked_to_write(RECEIVING, 10, KEY), Err(Malformed::Control), "asked for fragments");
    }

    #[test]
    fn a_withdrawn_sender_writes_nothing() {
        let (mut sender, mut receiver) = matched(10, 10);
        assert!(sender.withdraw());
        let writer = sender.asked_to_write(RECEIVING, 10, KEY).unwrap();
        let status = Finish::Withdrawn;
        assert_eq!(writer.step(9), WriterStep::Finish { receiver: RECEIVING, status });
        receiver.finish(status).unwrap();
        assert_eq!(receiver.step(), ReceiverStep::Done(status));
    }

    /// A peer cannot say that it has written what it was given no key for.
    #[test]
    fn only_who_has_a_key_has_written() {
        let mut receiver = Receiver::new(SENDING, 10, 10);
        receiver.asked();
        assert_eq!(receiver.finish(Finish::Written), Err(Malformed::Control));
    }

    /// An invitation that cannot be made is a plain question.
    #[test]
    fn who_cannot_be_written_to_asks() {
        let mut receiver = Receiver::new(SENDING, 10, 10);
        receiver.invite();
        receiver.ask_instead();
        assert!(!receiver.is_inviting());
        receiver.asked();
        assert_eq!(receiver.finish(Finish::Written), Err(Malformed::Control));
        assert_eq!(receiver.data(0, 10), Ok(0));
        let mut empty = Receiver::new(SENDING, 10, 0);
        empty.invite();
        assert!(!empty.is_inviting(), "there is nothing to write");
    }
}
