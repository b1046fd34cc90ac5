//! Rendezvous: the message is announced, and its data moves only once the receiver has a place for it.
//!
//! ```text
//! sender                                   receiver
//!   | -- announce (RTS: token, length) ----> |  keeps envelope, token and offset, nothing else
//!   |                                        |  ... a receive matches ...
//!   | <---- clear to send (RTR: range) ----- |
//!   | -- data ------------------------------>|  straight into the user's buffer
//!   | -- data ------------------------------>|
//!   | -- finish (FIN) ---------------------->|  complete
//! ```
//!
//! A *deferred* message takes the same way: it is small enough for eager, but the receiver had no block left, so it
//! is announced and resumed by its token. A range smaller than the message is a truncating receive. A sender that
//! gives up before it is asked keeps its slot (not its buffer) and answers the clear-to-send with *withdrawn*, so
//! that the receiver never hangs.
//!
//! A receiver that has room for a part only asks for one *piece* after the other: every clear-to-send but the last says
//! that more will be asked for, and its range ends without a finish.
//!
//! Both machines are told what happened and say what is to be done next ([`SenderStep`], [`ReceiverStep`]); they
//! own no bytes. Data comes in order: the receiver accepts exactly the next byte range.

use core::ops::Range;

use aldis_hal::Handle;
use aldis_hal::cause::Malformed;

use crate::header::Finish;

/// What the sender is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SenderStep {
    /// Announce the message.
    Announce,
    /// Nothing until the receiver asks.
    Wait,
    /// Send bytes `offset..offset + len` to the request `receiver`.
    Data {
        /// The request that takes them.
        receiver: Handle,
        /// The first byte.
        offset: u64,
        /// How many, at most what was passed as the fragment's limit.
        len: u32,
    },
    /// Send a finish to `receiver`.
    Finish {
        /// The request that waits for it.
        receiver: Handle,
        /// What to say.
        status: Finish,
    },
    /// Nothing, ever again.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum SenderPhase {
    #[default]
    Announcing,
    Waiting,
    Streaming,
    Done,
}

/// The sender's side of one rendezvous.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sender {
    next: u64,
    end: u64,
    length: u64,
    receiver: Handle,
    phase: SenderPhase,
    /// The receiver will ask for another piece.
    more: bool,
    withdrawn: bool,
}

impl Sender {
    /// A message of `length` bytes, not announced yet.
    pub const fn new(length: u64) -> Self {
        Self {
            next: 0,
            end: 0,
            length,
            receiver: Handle { slot: 0, generation: 0 },
            phase: SenderPhase::Announcing,
            more: false,
            withdrawn: false,
        }
    }

    /// What to do next, with fragments of at most `fragment_max` bytes.
    pub fn step(&self, fragment_max: u32) -> SenderStep {
        let receiver = self.receiver;
        match self.phase {
            SenderPhase::Announcing => SenderStep::Announce,
            SenderPhase::Waiting => SenderStep::Wait,
            SenderPhase::Streaming if self.withdrawn => {
                SenderStep::Finish { receiver, status: Finish::Withdrawn }
            }
            SenderPhase::Streaming if self.next < self.end => {
                let len = (self.end - self.next).min(u64::from(fragment_max)) as u32;
                SenderStep::Data { receiver, offset: self.next, len }
            }
            SenderPhase::Streaming => SenderStep::Finish { receiver, status: Finish::Complete },
            SenderPhase::Done => SenderStep::Done,
        }
    }

    /// The announcement is on its way.
    pub const fn announced(&mut self) {
        self.phase = SenderPhase::Waiting;
    }

    /// The receiver asks for `range`, and if `more` for another one after it.
    ///
    /// # Errors
    /// [`Malformed::Length`] if that is outside the message, [`Malformed::Control`] if nothing was announced or
    /// it was asked for already.
    pub fn asked(&mut self, receiver: Handle, range: Range<u64>, more: bool) -> Result<(), Malformed> {
        if self.phase != SenderPhase::Waiting {
            return Err(Malformed::Control);
        }
        if range.start > range.end || range.end > self.length || (more && range.is_empty()) {
            return Err(Malformed::Length);
        }
        (self.next, self.end, self.more) = (range.start, range.end, more);
        (self.receiver, self.phase) = (receiver, SenderPhase::Streaming);
        Ok(())
    }

    /// A fragment of `len` bytes is on its way.
    pub const fn sent(&mut self, len: u32) {
        self.next = self.next.saturating_add(len as u64);
        if self.more && self.next >= self.end {
            self.phase = SenderPhase::Waiting;
        }
    }

    /// The finish is on its way.
    pub const fn finished(&mut self) {
        self.phase = SenderPhase::Done;
    }

    /// The user's memory is no longer there. Announced already, the machine must live on until the receiver asks
    /// and has been told; true then. Not announced yet, there is nobody to tell: false, and it is done.
    pub fn withdraw(&mut self) -> bool {
        self.withdrawn = true;
        if self.phase == SenderPhase::Announcing {
            self.phase = SenderPhase::Done;
        }
        self.phase != SenderPhase::Done
    }

    /// Bytes sent so far.
    pub const fn bytes_sent(&self) -> u64 {
        self.next
    }
}

/// What the receiver is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ReceiverStep {
    /// Ask `sender` for `offset..end`.
    Ask {
        /// The request asked.
        sender: Handle,
        /// The first byte wanted.
        offset: u64,
        /// One past the last.
        end: u64,
        /// Another piece will be asked for.
        more: bool,
    },
    /// Nothing until data comes.
    Wait,
    /// The piece is here; the next one is to be chosen ([`Receiver::next`]).
    Piece,
    /// All is here, or the sender withdrew.
    Done(Finish),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum ReceiverPhase {
    #[default]
    Asking,
    Streaming,
    Between,
    Done(Finish),
}

/// The receiver's side of one rendezvous, from the match on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Receiver {
    /// Where the piece begins; zero if the message is asked for as a whole.
    start: u64,
    next: u64,
    end: u64,
    sender: Handle,
    phase: ReceiverPhase,
    /// Another piece will be asked for.
    more: bool,
}

impl Receiver {
    /// A matched announcement of `length` bytes by `sender`, for a buffer with room for `room` bytes.
    pub const fn new(sender: Handle, length: u64, room: u64) -> Self {
        let end = if length < room { length } else { room };
        Self { start: 0, next: 0, end, sender, phase: ReceiverPhase::Asking, more: false }
    }

    /// Will ask for the rest of a message of `length` bytes later, piece by piece. Only before it has asked.
    pub const fn in_pieces(&mut self, length: u64) {
        if let ReceiverPhase::Asking = self.phase {
            self.more = self.end > 0 && self.end < length;
        }
    }

    /// Asks for the next piece: at most `room` bytes of what is missing to byte `end`. Only between pieces.
    pub const fn next(&mut self, end: u64, room: u64) {
        if let ReceiverPhase::Between = self.phase {
            let left = end.saturating_sub(self.next);
            self.more = room < left;
            self.start = self.next;
            self.end = if self.more { self.next + room } else { self.next + left };
            self.phase = ReceiverPhase::Asking;
        }
    }

    /// Wants no data any more: what comes is of no use, and the sender is to come to its end. To be told again when a
    /// piece is under way and has come.
    pub const fn decline(&mut self) {
        if let ReceiverPhase::Asking | ReceiverPhase::Between = self.phase {
            (self.start, self.end, self.more) = (self.next, self.next, false);
            self.phase = ReceiverPhase::Asking;
        }
    }

    /// The piece that is asked for or here, in bytes of the message.
    pub const fn piece(&self) -> Range<u64> {
        self.start..self.end
    }

    /// What to do next.
    pub const fn step(&self) -> ReceiverStep {
        match self.phase {
            ReceiverPhase::Asking => {
                ReceiverStep::Ask { sender: self.sender, offset: self.next, end: self.end, more: self.more }
            }
            ReceiverPhase::Streaming => ReceiverStep::Wait,
            ReceiverPhase::Between => ReceiverStep::Piece,
            ReceiverPhase::Done(status) => ReceiverStep::Done(status),
        }
    }

    /// The clear-to-send is on its way.
    pub const fn asked(&mut self) {
        self.phase = ReceiverPhase::Streaming;
    }

    /// A fragment of `len` bytes at `offset` came. Returns where in the piece its bytes are to be written.
    ///
    /// # Errors
    /// [`Malformed::Length`] unless it is the next range asked for, [`Malformed::Control`] if nothing was asked.
    pub fn data(&mut self, offset: u64, len: u64) -> Result<u64, Malformed> {
        if self.phase != ReceiverPhase::Streaming {
            return Err(Malformed::Control);
        }
        if offset != self.next || len > self.end - self.next {
            return Err(Malformed::Length);
        }
        self.next += len;
        if self.more && self.next == self.end {
            self.phase = ReceiverPhase::Between;
        }
        Ok(offset - self.start)
    }

    /// The sender says that it is done.
    ///
    /// # Errors
    /// [`Malformed::Length`] if bytes are missing, [`Malformed::Control`] if nothing was asked.
    pub fn finish(&mut self, status: Finish) -> Result<(), Malformed> {
        if self.phase != ReceiverPhase::Streaming {
            return Err(Malformed::Control);
        }
        if status == Finish::Complete && self.next != self.end {
            return Err(Malformed::Length);
        }
        self.phase = ReceiverPhase::Done(status);
        Ok(())
    }

    /// Bytes received so far.
    pub const fn bytes_received(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SENDING: Handle = Handle { slot: 1, generation: 1 };
    const RECEIVING: Handle = Handle { slot: 2, generation: 3 };

    /// Runs both machines against each other until both are done, in pieces of at most `piece` bytes if given; returns
    /// the bytes that moved and the end.
    fn run(
        length: u64,
        room: u64,
        fragment: u32,
        piece: Option<u64>,
        withdraw_after: Option<u32>,
    ) -> (u64, Finish) {
        let mut sender = Sender::new(length);
        let mut receiver: Option<Receiver> = None;
        for turn in 0..20_000 {
            if withdraw_after == Some(turn) {
                assert!(sender.withdraw(), "it has been announced by then");
            }
            match sender.step(fragment) {
                SenderStep::Announce => {
                    sender.announced();
                    let whole = length.min(room);
                    let mut new = Receiver::new(SENDING, length, piece.map_or(room, |piece| piece.min(room)));
                    if piece.is_some() {
                        new.in_pieces(whole);
                    }
                    receiver = Some(new);
                }
                SenderStep::Data { receiver: to, offset, len } => {
                    assert_eq!(to, RECEIVING);
                    assert!(len > 0 && len <= fragment);
                    let receiver = receiver.as_mut().unwrap();
                    let start = receiver.piece().start;
                    let place = receiver.data(offset, u64::from(len)).unwrap();
                    assert_eq!(place, offset - start);
                    assert!(piece.is_none_or(|piece| place + u64::from(len) <= piece));
                    sender.sent(len);
                }
                SenderStep::Finish { status, .. } => {
                    receiver.as_mut().unwrap().finish(status).unwrap();
                    sender.finished();
                }
                SenderStep::Wait | SenderStep::Done => {}
            }
            let Some(receiver) = receiver.as_mut() else { continue };
            match receiver.step() {
                ReceiverStep::Ask { sender: to, offset, end, more } => {
                    assert_eq!(to, SENDING);
                    receiver.asked();
                    if withdraw_after == Some(0) {
                        continue;
                    }
                    sender.asked(RECEIVING, offset..end, more).unwrap();
                }
                ReceiverStep::Piece => receiver.next(length.min(room), piece.unwrap()),
                ReceiverStep::Done(status) => return (receiver.bytes_received(), status),
                ReceiverStep::Wait => {}
            }
        }
        panic!("the machines hang");
    }

    proptest! {
        #[test]
        fn every_length_room_fragment_and_piece_completes(
            length in 0u64..5000,
            room in 0u64..5000,
            fragment in 1u32..700,
            piece in proptest::option::of(1u64..900),
        ) {
            prop_assert_eq!(run(length, room, fragment, piece, None), (length.min(room), Finish::Complete));
        }
    }

    #[test]
    fn a_receiver_that_declines_between_pieces_lets_the_sender_end() {
        let (mut sender, mut receiver) = (Sender::new(100), Receiver::new(SENDING, 100, 10));
        receiver.in_pieces(100);
        sender.announced();
        sender.asked(RECEIVING, 0..10, true).unwrap();
        receiver.asked();
        receiver.decline();
        assert_eq!(receiver.step(), ReceiverStep::Wait, "the piece under way comes first");
        sender.sent(10);
        assert_eq!(sender.step(9), SenderStep::Wait);
        assert_eq!(receiver.data(0, 10), Ok(0));
        assert_eq!(receiver.data(10, 1), Err(Malformed::Control), "not asked for yet");
        receiver.decline();
        assert_eq!(receiver.step(), ReceiverStep::Ask { sender: SENDING, offset: 10, end: 10, more: false });
        sender.asked(RECEIVING, 10..10, false).unwrap();
        assert_eq!(sender.step(9), SenderStep::Finish { receiver: RECEIVING, status: Finish::Complete });
    }

    #[test]
    fn a_withdrawn_sender_tells_the_receiver() {
        assert_eq!(run(1000, 1000, 100, None, Some(1)), (0, Finish::Withdrawn));
        let mut unannounced = Sender::new(5);
        assert!(!unannounced.withdraw());
        assert_eq!(unannounced.step(9), SenderStep::Done);
    }

    #[test]
    fn wrong_order_and_wrong_ranges_are_refused() {
        let mut sender = Sender::new(10);
        assert_eq!(sender.asked(RECEIVING, 0..10, false), Err(Malformed::Control), "nothing was announced");
        sender.announced();
        assert_eq!(sender.asked(RECEIVING, 0..11, false), Err(Malformed::Length));
        assert_eq!(
            sender.asked(RECEIVING, 3..3, true),
            Err(Malformed::Length),
            "a piece of nothing, for ever"
        );
        sender.asked(RECEIVING, 0..10, false).unwrap();
        assert_eq!(sender.asked(RECEIVING, 0..10, false), Err(Malformed::Control), "asked twice");

        let mut receiver = Receiver::new(SENDING, 10, 10);
        assert_eq!(receiver.data(0, 1), Err(Malformed::Control), "nothing was asked for");
        receiver.asked();
        assert_eq!(receiver.data(1, 1), Err(Malformed::Length), "a gap");
        assert_eq!(receiver.data(0, 11), Err(Malformed::Length), "past the end");
        assert_eq!(receiver.finish(Finish::Complete), Err(Malformed::Length), "bytes are missing");
        receiver.data(0, 10).unwrap();
        receiver.finish(Finish::Complete).unwrap();
        assert_eq!(receiver.finish(Finish::Complete), Err(Malformed::Control), "finished twice");
    }
}
