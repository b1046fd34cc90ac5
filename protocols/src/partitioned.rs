//! Partitioned messages (MPI 4.1 chapter 4): a message that is sent in parts, each as soon as it is
//! ready, over a channel that is matched once and used for many rounds.
//!
//! ```text
//! sender                                        receiver
//!   | -- announce (channel, length) ------------> |  once: matched in the order of both set-ups
//!   |                                             |
//!   | <--------- grant (partitions, length) ----- |  each round: the receiver has started it
//!   | -- data ----------------------------------> |  of one of the receiver's partitions
//!   | -- data ----------------------------------> |  of another one, in any order
//! ```
//!
//! Both sides cut the same bytes, each into partitions of its own number and of equal length. What
//! moves are the *receiver's* partitions: one is sent as soon as all of the sender's that it
//! overlaps are ready, whole, in order within itself, before the next one begins. So both sides
//! need a bit for each partition and one place in the one that is under way, and the receiver knows
//! which have arrived without a message. A round is over at the sender when all has been sent, at
//! the receiver when all is there. Without a grant nothing is sent, so data always has a place.
//!
//! A message of no bytes has one partition on the wire: it is sent when all of the sender's are
//! ready.
//!
//! The receiver sends its first grant when the message is matched, also if it has not started a
//! round yet: the sender learns that it is matched, and both whether they agree in its length. A
//! sender that is over answers a grant with a finish, *withdrawn*.

use core::ops::Range;

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, Handle};

/// Most partitions of a message, at either side: a bit each in one word.
pub const PARTITIONS_MAX: u32 = 64;

/// A set of partitions: bit i for partition i.
type PartitionSet = u64;

/// The partitions below `end`, which is at most [`PARTITIONS_MAX`].
const fn below(end: u32) -> PartitionSet {
    if end >= PartitionSet::BITS { PartitionSet::MAX } else { (1 << end) - 1 }
}

/// The partitions of a range.
const fn span(first: u32, end: u32) -> PartitionSet {
    below(end) & !below(first)
}

/// A message of `length` bytes in partitions of equal length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    length: u64,
    partitions: u32,
}

impl Cut {
    /// Returns the cut as it is on the wire: without bytes in one partition.
    const fn on_wire(length: u64, partitions: u8) -> Self {
        Self { length, partitions: if length == 0 { 1 } else { partitions as u32 } }
    }

    /// Bytes of each.
    const fn bytes(&self) -> u64 {
        match self.length.checked_div(self.partitions as u64) {
            Some(bytes) => bytes,
            None => 0,
        }
    }

    const fn all(&self) -> PartitionSet {
        below(self.partitions)
    }

    /// The partitions that a range of bytes touches; all, if there are no bytes.
    const fn touched(&self, start: u64, end: u64) -> PartitionSet {
        match (start.checked_div(self.bytes()), end.checked_div(self.bytes())) {
            (Some(first), Some(last)) => {
                let more = !end.is_multiple_of(self.bytes()) as u64;
                span(first as u32, (last + more) as u32)
            }
            _ => self.all(),
        }
    }
}

/// Checks that `length` bytes can be cut into so many partitions.
///
/// # Errors
/// [`Cause::Partitions`].
pub const fn check(partitions: u32, length: u64) -> Result<(), Cause> {
    if partitions == 0 || partitions > PARTITIONS_MAX || !length.is_multiple_of(partitions as u64) {
        return Err(Cause::Partitions { partitions, bytes: length });
    }
    Ok(())
}

/// The sender's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PartStep {
    /// Wait until a partition gets ready or a grant comes.
    Wait,
    /// Send bytes `offset..offset + len` to the request `receiver`.
    Data {
        /// The request that takes them.
        receiver: Handle,
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        len: u32,
    },
}

/// The sender's side of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PartSender {
    /// Own partitions that are ready.
    ready: PartitionSet,
    /// The receiver's that have been sent.
    sent: PartitionSet,
    /// Bytes sent in this round.
    moved: u64,
    receiver: Handle,
    own: u8,
    theirs: u8,
    current: u8,
    is_active: bool,
    is_granted: bool,
}

impl PartSender {
    /// A channel that has not been announced. The number of partitions has passed [`check`].
    pub const fn new(partitions: u32) -> Self {
        Self {
            ready: 0,
            sent: 0,
            moved: 0,
            receiver: Handle { slot: 0, generation: 0 },
            own: partitions as u8,
            theirs: 0,
            current: 0,
            is_active: false,
            is_granted: false,
        }
    }

    /// Returns true if a round has been started and is not over.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// The receiving request, if it is known to have matched.
    pub const fn receiver(&self) -> Option<Handle> {
        if self.theirs > 0 { Some(self.receiver) } else { None }
    }

    /// Own partitions.
    pub const fn partitions(&self) -> u32 {
        self.own as u32
    }

    /// Returns true if the receiver has started the round, and waits.
    pub const fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Starts a round: no partition is ready.
    pub const fn start(&mut self) {
        (self.is_active, self.ready) = (true, 0);
    }

    /// Partitions are ready to be sent. Nothing has changed if any is refused.
    ///
    /// # Errors
    /// [`Cause::Inactive`] without a round, [`Cause::PartitionOutOfRange`],
    /// [`Cause::PartitionReady`] for one that is ready already.
    pub fn ready(&mut self, range: Range<u32>) -> Result<(), Cause> {
        if !self.is_active {
            return Err(Cause::Inactive);
        }
        let partitions = u32::from(self.own);
        if range.start > range.end || range.end > partitions {
            let partition = range.end.saturating_sub(1).max(range.start);
            return Err(Cause::PartitionOutOfRange { partition, partitions });
        }
        let new = span(range.start, range.end);
        if self.ready & new != 0 {
            return Err(Cause::PartitionReady { partition: (self.ready & new).trailing_zeros() });
        }
        self.ready |= new;
        Ok(())
    }

    /// Returns true if any byte of a range of a message of `length` bytes is in a partition that is
    /// ready.
    pub const fn has_ready(&self, range: Range<u64>, length: u64) -> bool {
        let cut = Cut { length, partitions: self.own as u32 };
        self.is_active && range.start < range.end && self.ready & cut.touched(range.start, range.end) != 0
    }

    /// The receiver has matched a message of `length` bytes, cuts it into so many partitions, and
    /// if `started` waits for the next round.
    ///
    /// # Errors
    /// [`Malformed::Length`] for partitions that are none, [`Malformed::Control`] for another
    /// receiver than before or a round that waits already.
    pub fn granted(
        &mut self,
        receiver: Handle,
        partitions: u32,
        length: u64,
        started: bool,
    ) -> Result<(), Malformed> {
        if check(partitions, length).is_err() {
            return Err(Malformed::Length);
        }
        let known = self.receiver().is_some_and(|known| known != receiver || !started);
        if known || (self.is_granted && started) {
            return Err(Malformed::Control);
        }
        (self.receiver, self.theirs) = (receiver, partitions as u8);
        self.is_granted |= started;
        Ok(())
    }

    /// Notes a match with a receiver of another length: there will be no rounds.
    pub const fn mismatched(&mut self, receiver: Handle) {
        (self.receiver, self.theirs) = (receiver, 1);
    }

    /// Returns the next step for a message of `length` bytes, with fragments of at most
    /// `fragment_max`.
    pub fn step(&self, length: u64, fragment_max: u32) -> PartStep {
        let Some(partition) = self.next(length) else { return PartStep::Wait };
        let bytes = Cut::on_wire(length, self.theirs).bytes();
        let done = self.done(bytes);
        let offset = u64::from(partition).saturating_mul(bytes).saturating_add(done);
        let len = bytes.saturating_sub(done).min(fragment_max.into()) as u32;
        PartStep::Data { receiver: self.receiver, offset, len }
    }

    /// Bytes sent of the partition under way, if each has so many.
    fn done(&self, bytes: u64) -> u64 {
        self.moved.saturating_sub(u64::from(self.sent.count_ones()).saturating_mul(bytes))
    }

    /// The receiver's partition that is under way, or the first that can be.
    fn next(&self, length: u64) -> Option<u8> {
        if !(self.is_active && self.is_granted) {
            return None;
        }
        let theirs = Cut::on_wire(length, self.theirs);
        if self.done(theirs.bytes()) > 0 {
            return Some(self.current);
        }
        let own = Cut { length, partitions: self.own.into() };
        let mut left = theirs.all() & !self.sent;
        while left != 0 {
            let partition = left.trailing_zeros();
            let start = u64::from(partition) * theirs.bytes();
            let need = own.touched(start, start + theirs.bytes());
            if self.ready & need == need {
                return Some(partition as u8);
            }
            left &= left - 1;
        }
        None
    }

    /// A fragment of `len` bytes is on its way. True if the round is over with it.
    pub fn sent(&mut self, length: u64, len: u32) -> bool {
        let Some(partition) = self.next(length) else { return false };
        let theirs = Cut::on_wire(length, self.theirs);
        self.current = partition;
        self.moved = self.moved.saturating_add(len.into());
        if self.done(theirs.bytes()) < theirs.bytes() {
            return false;
        }
        self.sent |= 1 << partition;
        if self.sent != theirs.all() {
            return false;
        }
        (self.sent, self.moved, self.is_active, self.is_granted) = (0, 0, false, false);
        true
    }

    /// Bytes sent in this round; all of them between rounds.
    pub const fn bytes_sent(&self, length: u64) -> u64 {
        if self.is_active { self.moved } else { length }
    }
}

/// The receiver's side of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PartReceiver {
    arrived: PartitionSet,
    /// Bytes that have come in the round under way or, between rounds, in the last one.
    moved: u64,
    sender: Handle,
    own: u8,
    current: u8,
    is_matched: bool,
    is_active: bool,
    /// The sender knows that it is matched.
    is_announced: bool,
    /// The sender knows that a round has been started.
    is_granted: bool,
}

/// A grant that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GrantDue {
    /// The request that the grant is for.
    pub sender: Handle,
    /// The receiver's partitions.
    pub partitions: u32,
    /// True if a round has been started.
    pub started: bool,
}

impl PartReceiver {
    /// A channel that has not been matched. The number of partitions has passed [`check`].
    pub const fn new(partitions: u32) -> Self {
        Self {
            arrived: 0,
            moved: 0,
            sender: Handle { slot: 0, generation: 0 },
            own: partitions as u8,
            current: 0,
            is_matched: false,
            is_active: false,
            is_announced: false,
            is_granted: false,
        }
    }

    /// Returns true if a round has been started and is not over.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// The sending request, once it is matched.
    pub const fn sender(&self) -> Option<Handle> {
        if self.is_matched { Some(self.sender) } else { None }
    }

    /// Own partitions.
    pub const fn partitions(&self) -> u32 {
        self.own as u32
    }

    /// Returns true if the sender has been notified that it is matched.
    pub const fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// The announcement of `sender` is the one for this channel.
    pub const fn matched(&mut self, sender: Handle) {
        (self.sender, self.is_matched) = (sender, true);
    }

    /// Starts a round: nothing has arrived.
    pub const fn start(&mut self) {
        (self.is_active, self.arrived, self.moved) = (true, 0, 0);
    }

    /// The grant that is to be sent, if any.
    pub const fn due(&self) -> Option<GrantDue> {
        let started = self.is_active && !self.is_granted;
        if !self.is_matched || (self.is_announced && !started) {
            return None;
        }
        Some(GrantDue { sender: self.sender, partitions: self.own as u32, started })
    }

    /// The grant that was due is on its way.
    pub const fn granted(&mut self) {
        (self.is_announced, self.is_granted) = (true, self.is_active);
    }

    /// A fragment of a message of `length` bytes came. True if the round is over with it.
    ///
    /// # Errors
    /// [`Malformed::Control`] if nothing was granted, [`Malformed::Length`] unless it continues the
    /// partition under way, or begins one that has not arrived.
    pub fn data(&mut self, length: u64, offset: u64, len: u64) -> Result<bool, Malformed> {
        if !self.is_granted {
            return Err(Malformed::Control);
        }
        let cut = Cut::on_wire(length, self.own);
        let partition = offset.checked_div(cut.bytes()).unwrap_or(0);
        let bit = 1u64.checked_shl(u32::try_from(partition).unwrap_or(PartitionSet::BITS)).unwrap_or(0);
        let before = u64::from(self.arrived.count_ones()).saturating_mul(cut.bytes());
        let done = self.moved.saturating_sub(before);
        let due = partition.saturating_mul(cut.bytes()).saturating_add(done);
        let continues = done == 0 || partition == u64::from(self.current);
        let is_missing = bit & cut.all() & !self.arrived != 0;
        let fits = len <= cut.bytes().saturating_sub(done) && (len > 0 || length == 0);
        if !(continues && is_missing && fits) || offset != due {
            return Err(Malformed::Length);
        }
        (self.current, self.moved) = (partition as u8, self.moved.saturating_add(len));
        if done.saturating_add(len) < cut.bytes() {
            return Ok(false);
        }
        self.arrived |= bit;
        if self.arrived != cut.all() {
            return Ok(false);
        }
        // Without bytes there was one on the wire; between rounds all have arrived.
        self.arrived = below(self.own.into());
        (self.is_active, self.is_granted) = (false, false);
        Ok(true)
    }

    /// Returns true if a partition has arrived in the round under way or, between rounds, in the
    /// last one.
    ///
    /// # Errors
    /// [`Cause::PartitionOutOfRange`].
    pub fn has_arrived(&self, partition: u32) -> Result<bool, Cause> {
        let partitions = u32::from(self.own);
        if partition >= partitions {
            return Err(Cause::PartitionOutOfRange { partition, partitions });
        }
        Ok(self.arrived & span(partition, partition + 1) != 0)
    }

    /// Returns true if any byte of a range of a message of `length` bytes is still to come in the
    /// round under way.
    pub const fn has_missing(&self, range: Range<u64>, length: u64) -> bool {
        let cut = Cut { length, partitions: self.own as u32 };
        self.is_active && range.start < range.end && cut.touched(range.start, range.end) & !self.arrived != 0
    }

    /// Bytes that have come in the round under way or, between rounds, in the last one.
    pub const fn bytes_received(&self) -> u64 {
        self.moved
    }
}

#[cfg(test)]
mod tests;
