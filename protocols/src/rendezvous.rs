//! Rendezvous: the message is announced, and its data moves only once the receiver has a place for
//! it.
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
//! A *deferred* message takes the same way: it is small enough for eager, but the receiver had no
//! block left, so it is announced and resumed by its token. A range smaller than the message is a
//! truncating receive. A sender that gives up before it is asked keeps its slot (not its buffer)
//! and answers the clear-to-send with *withdrawn*, so that the receiver never hangs.
//!
//! A sender that is to give up, but keeps its memory until that is settled, *recalls* the message:
//!
//! ```text
//! sender                                   receiver
//!   | -- announce (RTS: token, length) ----> |  keeps envelope and token
//!   | -- recall (token) -------------------> |  no receive has matched: forgets it
//!   | <---- recall (token, given) ---------- |
//!   |  over, and not sent                    |
//! ```
//!
//! The receiver alone decides, so that a message is either received or recalled, and the order of
//! the others stays as if it had never been sent. If a receive has matched it, the receiver says
//! nothing: its clear-to-send is the answer.
//!
//! A receiver that has room for a part only asks for one *piece* after the other: every
//! clear-to-send but the last says that more will be asked for, and its range ends without a
//! finish.
//!
//! Memory that the receiver's transport can read, or the sender's write, needs no data on the wire:
//! see [`Reader`] and [`Writer`].
//!
//! Both machines are given what happened and say what is to be done next ([`SenderStep`],
//! [`ReceiverStep`]); they own no bytes. Data comes in order: the receiver accepts exactly the next
//! byte range.

use core::ops::Range;

use aldis_hal::Handle;
use aldis_hal::cause::Malformed;

use crate::header::Finish;

mod reader;
mod writer;

pub use reader::{Announcement, Reader, ReaderStep};
pub use writer::{Writer, WriterStep};

/// The sender's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SenderStep {
    /// Announce the message.
    Announce,
    /// Wait until the receiver asks.
    Wait,
    /// Ask the receiver to give the message back.
    Recall,
    /// Send bytes `offset..offset + len` to the request `receiver`.
    Data {
        /// The request that takes them.
        receiver: Handle,
        /// The first byte.
        offset: u64,
        /// The number of bytes, at most what was passed as the fragment's limit.
        len: u32,
    },
    /// Send a finish to `receiver`.
    Finish {
        /// The request that waits for it.
        receiver: Handle,
        /// The outcome to report.
        status: Finish,
    },
    /// Do nothing, ever again.
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

/// The state of the question whether the receiver gives the message back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Recall {
    #[default]
    None,
    /// The question is to be sent.
    Due,
    /// The question has been sent.
    Asked,
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
    recall: Recall,
    /// Fragments that the transport is still sending from the user's memory.
    in_flight: u8,
}

/// So many fragments of a message may be in flight at a time.
const IN_FLIGHT_MAX: u8 = 16;

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
            recall: Recall::None,
            in_flight: 0,
        }
    }

    /// Returns the next step, with fragments of at most `fragment_max` bytes.
    pub fn step(&self, fragment_max: u32) -> SenderStep {
        let receiver = self.receiver;
        match self.phase {
            SenderPhase::Announcing => SenderStep::Announce,
            SenderPhase::Waiting if self.is_recall_due() => SenderStep::Recall,
            SenderPhase::Waiting => SenderStep::Wait,
            SenderPhase::Streaming if self.is_held_up() => SenderStep::Wait,
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

    /// Returns true if there is nothing to do until the receiver asks or the transport has sent
    /// what it was lent.
    pub const fn is_waiting(&self) -> bool {
        self.is_held_up() || matches!(self.phase, SenderPhase::Waiting)
    }

    /// Returns true if nothing can follow before a fragment has landed: no more may be in flight,
    /// or only the finish is left.
    const fn is_held_up(&self) -> bool {
        let is_last = self.in_flight > 0 && self.next >= self.end;
        let streams = matches!(self.phase, SenderPhase::Streaming);
        crate::LENDS && streams && (is_last || self.in_flight >= IN_FLIGHT_MAX)
    }

    /// Returns true if there is something to send: data, a finish or a recall.
    pub const fn is_sending(&self) -> bool {
        matches!(self.phase, SenderPhase::Streaming) && !self.is_held_up() || self.is_recall_due()
    }

    const fn is_recall_due(&self) -> bool {
        crate::RECALLS && matches!(self.phase, SenderPhase::Waiting) && matches!(self.recall, Recall::Due)
    }

    /// Recalls the message. Returns true if the question is to be sent: the message has been
    /// announced, the receiver has not asked for it, and was not sent the question before.
    pub const fn recall(&mut self) -> bool {
        let is_new = matches!(self.recall, Recall::None);
        if crate::RECALLS && is_new && matches!(self.phase, SenderPhase::Waiting) && self.next == 0 {
            self.recall = Recall::Due;
        }
        self.is_recall_due()
    }

    /// The recall is on its way.
    pub const fn recalled(&mut self) {
        self.recall = Recall::Asked;
    }

    /// The receiver gives the message back.
    ///
    /// # Errors
    /// [`Malformed::Control`] if it was not asked to, or has asked for data.
    pub fn given_back(&mut self) -> Result<(), Malformed> {
        if self.phase != SenderPhase::Waiting || self.recall != Recall::Asked || self.next > 0 {
            return Err(Malformed::Control);
        }
        self.phase = SenderPhase::Done;
        Ok(())
    }

    /// The announcement is on its way.
    pub const fn announced(&mut self) {
        self.phase = SenderPhase::Waiting;
    }

    /// The receiver asks for `range`, and if `more` for another one after it.
    ///
    /// # Errors
    /// [`Malformed::Length`] if that is outside the message, [`Malformed::Control`] if nothing was
    /// announced or it was asked for already.
    pub fn asked(&mut self, receiver: Handle, range: Range<u64>, more: bool) -> Result<(), Malformed> {
        if self.phase != SenderPhase::Waiting {
            return Err(Malformed::Control);
        }
        if range.start > range.end || range.end > self.length || (more && range.is_empty()) {
            return Err(Malformed::Length);
        }
        (self.next, self.end, self.more) = (range.start, range.end, more);
        self.recall = Recall::None;
        (self.receiver, self.phase) = (receiver, SenderPhase::Streaming);
        Ok(())
    }

    /// The receiver asks for the first `end` bytes, and can be written to by `key`. One that has
    /// [withdrawn](Self::withdraw) says so.
    ///
    /// # Errors
    /// [`Malformed::Length`] if that is more than the message, [`Malformed::Control`] if nothing
    /// was announced or it was asked for already.
    pub fn asked_to_write(
        &self,
        receiver: Handle,
        end: u64,
        key: crate::header::MemoryKey,
    ) -> Result<Writer, Malformed> {
        if self.phase != SenderPhase::Waiting || self.next > 0 {
            return Err(Malformed::Control);
        }
        if end > self.length {
            return Err(Malformed::Length);
        }
        let mut writer = Writer::new(receiver, end, key);
        if self.withdrawn {
            writer.withdraw();
        }
        Ok(writer)
    }

    /// A fragment of `len` bytes is on its way.
    pub const fn sent(&mut self, len: u32) {
        self.next = self.next.saturating_add(len as u64);
        if self.more && self.next >= self.end {
            self.phase = SenderPhase::Waiting;
        }
    }

    /// The fragment sent last is still being sent from the user's memory: no finish follows before
    /// it has [landed](Self::landed).
    pub const fn in_flight(&mut self) {
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// Returns true if any fragment is in flight.
    pub const fn is_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// A fragment that was in flight needs the user's memory no more.
    pub const fn landed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The receiver has read what it wants.
    ///
    /// # Errors
    /// [`Malformed::Control`] if nothing was announced, or it has asked for data since.
    pub fn read(&mut self) -> Result<(), Malformed> {
        if self.phase != SenderPhase::Waiting || self.next > 0 {
            return Err(Malformed::Control);
        }
        self.next = self.length;
        self.phase = SenderPhase::Done;
        Ok(())
    }

    /// The finish is on its way.
    pub const fn finished(&mut self) {
        self.phase = SenderPhase::Done;
    }

    /// Withdraws the message, as the user's memory is no longer there. Announced already, the
    /// machine must live on until the receiver asks and gets its answer: true then. Not announced
    /// yet, there is no receiver to answer: false, and it is done.
    pub fn withdraw(&mut self) -> bool {
        self.withdrawn = true;
        self.in_flight = 0;
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

/// The receiver's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ReceiverStep {
    /// Ask `sender` for `offset..end`.
    Ask {
        /// The request asked.
        sender: Handle,
        /// The first byte wanted.
        offset: u64,
        /// The first byte behind the piece.
        end: u64,
        /// Another piece will be asked for.
        more: bool,
    },
    /// Tell `sender` that it has its message back.
    GiveBack {
        /// The request that waits for that.
        sender: Handle,
    },
    /// Wait until data comes.
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
    Giving,
    Streaming,
    Between,
    Done(Finish),
}

/// The receiver's side of one rendezvous, from the match on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Receiver {
    /// The offset at which the piece begins; zero if the message is asked for as a whole.
    start: u64,
    next: u64,
    end: u64,
    sender: Handle,
    phase: ReceiverPhase,
    /// Another piece will be asked for.
    more: bool,
    invitation: Invitation,
}

/// The state of the sender's permission to write into the receiver's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
enum Invitation {
    #[default]
    None,
    /// The key is to be sent to the sender.
    Due,
    /// The key has been sent.
    Sent,
}

impl Receiver {
    /// A matched announcement of `length` bytes by `sender`, for a buffer with room for `room`
    /// bytes.
    pub const fn new(sender: Handle, length: u64, room: u64) -> Self {
        let end = if length < room { length } else { room };
        Self {
            start: 0,
            next: 0,
            end,
            sender,
            phase: ReceiverPhase::Asking,
            more: false,
            invitation: Invitation::None,
        }
    }

    /// An announcement that `sender` has recalled before any receive matched it.
    pub const fn giving_back(sender: Handle) -> Self {
        Self { phase: ReceiverPhase::Giving, ..Self::new(sender, 0, 0) }
    }

    /// Will ask for the rest of a message of `length` bytes later, piece by piece. Only before it
    /// has asked.
    pub const fn in_pieces(&mut self, length: u64) {
        if let ReceiverPhase::Asking = self.phase {
            self.more = self.end > 0 && self.end < length;
        }
    }

    /// Records that the sender would write the data: it is to get the key, if there is one. Only
    /// before it has asked.
    pub const fn invite(&mut self) {
        if let ReceiverPhase::Asking = self.phase
            && self.end > 0
            && !self.more
        {
            self.invitation = Invitation::Due;
        }
    }

    /// Returns true if the sender is to be sent a key, or asked if there is none.
    pub const fn is_inviting(&self) -> bool {
        matches!((self.phase, self.invitation), (ReceiverPhase::Asking, Invitation::Due))
    }

    /// There is no key: the sender is to be asked.
    pub const fn ask_instead(&mut self) {
        self.invitation = Invitation::None;
    }

    /// The key is on its way.
    pub const fn invited(&mut self) {
        (self.phase, self.invitation) = (ReceiverPhase::Streaming, Invitation::Sent);
    }

    /// Asks for the next piece: at most `room` bytes of what is missing to byte `end`. Only between
    /// pieces.
    pub const fn next(&mut self, end: u64, room: u64) {
        if let ReceiverPhase::Between = self.phase {
            let left = end.saturating_sub(self.next);
            self.more = room < left;
            self.start = self.next;
            self.end = if self.more { self.next + room } else { self.next + left };
            self.phase = ReceiverPhase::Asking;
        }
    }

    /// Wants no data any more: what comes is of no use, and the sender is to come to its end. To be
    /// called again when a piece is under way and has come.
    pub const fn decline(&mut self) {
        if let ReceiverPhase::Asking | ReceiverPhase::Between = self.phase {
            (self.start, self.end, self.more) = (self.next, self.next, false);
            self.phase = ReceiverPhase::Asking;
            {
                self.invitation = Invitation::None;
            }
        }
    }

    /// The piece that is asked for or here, in bytes of the message.
    pub const fn piece(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Returns the next step.
    pub const fn step(&self) -> ReceiverStep {
        match self.phase {
            ReceiverPhase::Asking => {
                ReceiverStep::Ask { sender: self.sender, offset: self.next, end: self.end, more: self.more }
            }
            ReceiverPhase::Giving if crate::RECALLS => ReceiverStep::GiveBack { sender: self.sender },
            ReceiverPhase::Streaming | ReceiverPhase::Giving => ReceiverStep::Wait,
            ReceiverPhase::Between => ReceiverStep::Piece,
            ReceiverPhase::Done(status) => ReceiverStep::Done(status),
        }
    }

    /// Returns true if the sender is still to be asked, or to be given its message back.
    pub const fn is_asking(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Asking)
            || crate::RECALLS && matches!(self.phase, ReceiverPhase::Giving)
    }

    /// Returns true if data is under way.
    pub const fn is_receiving(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Streaming)
    }

    /// Returns true if the piece is here and the next one is to be chosen.
    pub const fn is_between(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Between)
    }

    /// The clear-to-send is on its way.
    pub const fn asked(&mut self) {
        self.phase = ReceiverPhase::Streaming;
    }

    /// A fragment of `len` bytes at `offset` came. Returns where in the piece its bytes are to be
    /// written.
    ///
    /// # Errors
    /// [`Malformed::Length`] unless it is the next range asked for, [`Malformed::Control`] if
    /// nothing was asked.
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
        match status {
            Finish::Complete if self.next != self.end => return Err(Malformed::Length),
            Finish::Written if self.invitation != Invitation::Sent => return Err(Malformed::Control),
            Finish::Written => self.next = self.end,
            Finish::Complete | Finish::Withdrawn => {}
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
mod tests;
