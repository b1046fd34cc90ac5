//! The state that an endpoint keeps of each peer: credits both ways, sequence numbers, and what is
//! still to be sent to it.

use aldis_hal::{Cause, Epoch};
use aldis_protocols::card::{ByteOrder, Room, WordWidth};
use aldis_protocols::credit::{CreditLimits, CreditWindow, Grant};
use aldis_protocols::header::{Header, Kind, WholeHead};
use aldis_protocols::overflow::{Holder, Seeker};
use aldis_protocols::select::DirectSizes;
use aldis_protocols::{Card, Thresholds};

use crate::planted::{self, Planted};
use crate::tables::list::{List, Queue};
use crate::tables::request::Key;

/// The state of a peer: whether it can be talked to. With a number of its own, so that `Unknown` is
/// zero and not a value that no cause has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Presence {
    /// The peer has not been introduced.
    #[default]
    Unknown,
    Connected,
    /// The peer has a row, and its contact is not open yet.
    Meeting,
    /// The contact is about to end: messages of the peer are taken, and none sent.
    Leaving,
    /// The peer will take and send nothing more, for this cause.
    Gone(Cause),
}

/// A row of the peer table; all-zero is an unknown peer. In this order for the reason given at
/// [`Request`](crate::tables::request::Request).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Peer {
    pub(crate) presence: Presence,
    /// True if it stands in the FIFO of peers to look at.
    pub(crate) scheduled: bool,
    /// Of its typed messages.
    pub(crate) order: ByteOrder,
    pub(crate) words: WordWidth,
    /// The part of `send_queue` that the peer is asked to take without credit, and what it is asked
    /// for.
    pub(crate) holder: Holder,
    pub(crate) seeker: Seeker,
    /// Matchable messages this side may send.
    pub(crate) envelopes_out: CreditWindow,
    /// Eager messages with a block that this side may send.
    pub(crate) blocks_out: CreditWindow,
    /// Places the peer has been promised here.
    pub(crate) envelopes_in: Grant,
    pub(crate) blocks_in: Grant,
    /// Sequence of the next matchable message to it, and of the next one from it.
    pub(crate) sequence_out: u16,
    pub(crate) sequence_in: u16,
    pub(crate) epoch: Epoch,
    /// Sends that wait for their turn, in order.
    pub(crate) send_queue: List<Queue>,
    /// Rendezvous that have something to say: a clear-to-send, data, a finish.
    pub(crate) rendezvous_queue: List<Queue>,
    pub(crate) thresholds: Thresholds,
    pub(crate) room: Room,
}

impl Peer {
    pub(crate) const EMPTY: Self = Self {
        presence: Presence::Unknown,
        epoch: Epoch(0),
        room: Room { envelopes: 0, blocks: 0, block_bytes: 0 },
        order: ByteOrder::Little,
        words: WordWidth::Four,
        thresholds: Thresholds {
            inline_end: 0,
            short_end: 0,
            eager_end: 0,
            fragment_bytes_max: 0,
            direct: DirectSizes::NONE,
        },
        envelopes_out: CreditWindow::NONE,
        blocks_out: CreditWindow::NONE,
        envelopes_in: Grant::NONE,
        blocks_in: Grant::NONE,
        sequence_out: 0,
        sequence_in: 0,
        send_queue: List::EMPTY,
        rendezvous_queue: List::EMPTY,
        holder: Holder::NONE,
        seeker: Seeker::NONE,
        scheduled: false,
    };

    /// Makes the row a connected peer that introduced itself with `card`, with `granted` set aside
    /// for it here.
    pub(crate) fn connect(
        &mut self,
        card: &Card,
        thresholds: Thresholds,
        granted: Room,
    ) -> Result<(), Cause> {
        let windows = (
            CreditWindow::new(card.room.envelopes),
            CreditWindow::new(card.room.blocks),
            Grant::new(granted.envelopes),
            Grant::new(granted.blocks),
        );
        let (Ok(envelopes_out), Ok(blocks_out), Ok(envelopes_in), Ok(blocks_in)) = windows else {
            return Err(Cause::Incompatible);
        };
        let scheduled = self.scheduled;
        *self = Self::EMPTY;
        (self.presence, self.epoch, self.scheduled) = (Presence::Connected, card.epoch(), scheduled);
        (self.room, self.thresholds) = (card.room, thresholds);
        (self.order, self.words) = (card.order, card.words);
        (self.envelopes_out, self.blocks_out) = (envelopes_out, blocks_out);
        (self.envelopes_in, self.blocks_in) = (envelopes_in, blocks_in);
        Ok(())
    }

    /// Returns true if messages can be sent to it now.
    #[inline]
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self.presence, Presence::Connected)
    }

    /// The credits to put into a header to this peer.
    #[inline]
    pub(crate) const fn limits(&self) -> CreditLimits {
        CreditLimits { envelopes: self.envelopes_in.limit(), blocks: self.blocks_in.limit() }
    }

    /// A header from the process of `epoch` to this peer, with the credits that are its due.
    #[inline]
    pub(crate) const fn header(
        &self,
        epoch: Epoch,
        kind: Kind,
        key: Key,
        sequence: u16,
        length: u64,
    ) -> Header {
        let Key { context, source, tag } = key;
        Header { kind, limits: self.limits(), epoch, context, source, tag, sequence, length }
    }

    /// Checks if an eager message of so many bytes can go to it at once; if so, returns whether
    /// that takes a block.
    #[inline(always)]
    pub(crate) fn takes_eager(&self, length: u64) -> Option<bool> {
        let is_ready = matches!(self.presence, Presence::Connected)
            && self.send_queue.is_empty()
            && self.envelopes_out.available() != 0;
        if !is_ready {
            return None;
        }
        let in_block = length >= u64::from(self.thresholds.inline_end);
        if in_block && (length >= u64::from(self.thresholds.eager_end) || self.blocks_out.available() == 0) {
            return None;
        }
        Some(in_block)
    }

    /// Returns true if an eager message of so many bytes could go to it at once if there were the
    /// credit and room on the wire.
    pub(crate) fn could_take_eager(&self, length: u64) -> bool {
        let too_long = length >= u64::from(self.thresholds.inline_end.max(self.thresholds.eager_end));
        matches!(self.presence, Presence::Connected) && self.send_queue.is_empty() && !too_long
    }

    /// Accounts for one fast-path send: spends credits, advances the sequence number.
    #[inline(always)]
    pub(crate) fn account_sent(&mut self, in_block: bool) {
        self.envelopes_out.spend();
        if in_block {
            self.blocks_out.spend();
        }
        self.sequence_out = self.sequence_out.wrapping_add(1);
        self.account_limits();
    }

    /// Returns true if a message from it is the next of this life, keeps to what was promised, and
    /// says nothing of credits that cannot be; takes note of those credits.
    #[inline(always)]
    pub(crate) fn is_next(&mut self, head: WholeHead<'_>, in_block: bool) -> bool {
        head.epoch() == self.epoch
            && matches!(self.presence, Presence::Connected)
            && head.sequence() == self.sequence_in
            && self.send_queue.is_empty()
            && self.envelopes_in.has_room()
            && (!in_block || self.blocks_in.has_room())
            && self.envelopes_out.raise(head.limits().envelopes).is_ok()
            && self.blocks_out.raise(head.limits().blocks).is_ok()
    }

    /// Accounts for the next message, delivered to a posted receive. Returns true if credits are
    /// due to the peer.
    #[inline(always)]
    pub(crate) fn account_delivered(&mut self, in_block: bool) -> bool {
        self.envelopes_in.pass();
        self.sequence_in = self.sequence_in.wrapping_add(1);
        let mut due = self.envelopes_in.is_due();
        if in_block {
            self.blocks_in.pass();
            due |= self.blocks_in.is_due();
        }
        due
    }

    /// Returns true if nothing is to be said to it but credits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.send_queue.is_empty()
            && self.rendezvous_queue.is_empty()
            && self.holder == Holder::NONE
            && self.seeker == Seeker::NONE
    }

    /// A message of it has left its envelope. Returns true if credits are due to the peer.
    #[inline]
    pub(crate) fn free_envelope(&mut self) -> bool {
        if planted::strikes(Planted::DropCredit) {
            return false;
        }
        self.envelopes_in.free();
        self.credit_due()
    }

    /// A header with [`limits`](Self::limits) is on its way.
    #[inline]
    pub(crate) const fn account_limits(&mut self) {
        self.envelopes_in.announce();
        self.blocks_in.announce();
    }

    /// Returns true if credits must be sent in a message of their own.
    pub(crate) const fn credit_due(&self) -> bool {
        self.envelopes_in.is_due() || self.blocks_in.is_due()
    }
}
