//! Rows made at the first message with a peer and given back by both sides, where a storage has
//! fewer than the job has ranks: see [`protocols::contact`](aldis_protocols::contact) for the
//! exchange. Nothing here is called where every rank has a row.
//!
//! A request whose peer has no row waits among all such, in order. The first of them is given a
//! free row, for which its peer is *asked*; if there is none, the contact that has been idle
//! longest is closed, by the second chance of a clock (Corbató, 1968): a row that was used since
//! the hand was last there is passed over once.
//!
//! # Why no rank waits for ever for a row
//!
//! * Of the rows besides this rank's own, one at least is never of a peer that was asked and has
//!   not answered. So a peer that asks finds a row that is free, or whose contact can be closed, or
//!   is being closed, which takes no more than that its peer polls.
//! * A peer that is turned away is asked itself as soon as a row is free, in the order of those
//!   that came; and it repeats what it said, should there be too many to be remembered.
//! * A contact with work is closed too when it has had its time, which becomes longer while nothing
//!   is achieved by that: its requests wait for the next one, in their order.
//! * A rank that leaves has nothing more to say, so it wants no row and ends no contact: to each
//!   that begins or ends one with it, it says goodbye, for which no row is needed.

use aldis_hal::cause::Malformed;
use aldis_hal::{Cause, PeerId, Post, Transport};
use aldis_protocols::card::{ByteOrder, Room, WordWidth};
use aldis_protocols::contact::{Contact, ContactMessage};
use aldis_protocols::control::CONTROL_MESSAGE_BYTES_MAX;
use aldis_protocols::credit::{CreditWindow, Grant};
use aldis_protocols::header::{self, Header, Kind};
use aldis_protocols::{ACTIVE, Control, LENDS, Thresholds};

use crate::engine::matching::Payload;
use crate::engine::state::Engine;
use crate::engine::wire::{HeaderWords, LaneTurn, post};
use crate::rank::WILD;
use crate::tables::active::{ContactState, DesertedWalk, HOLD_NS_MAX, HOLD_NS_MIN, LostPeer};
use crate::tables::list::{List, Queue};
use crate::tables::peer::{Peer, Presence};
use crate::tables::request::{Key, Machine, Request, State};

mod desertion;

/// The time, ns, after which a contact that was not answered is sent again: at first, doubled each
/// time up to so many times.
const REPEAT_NS: u64 = 1_000_000;
const REPEAT_DOUBLINGS: u8 = 3;

/// Requests that are looked at in a poll for whether their peer, without a row, is lost.
const STRANGERS_A_POLL: u32 = 8;

/// Questions and notices of the other parts of the engine.
impl Engine<'_> {
    /// Fails unless a peer that is not connected can be sent to all the same, at its time.
    #[inline]
    pub(crate) fn absence(&self, peer: PeerId) -> Result<(), Cause> {
        if ACTIVE { self.strangeness(peer) } else { Err(Cause::Unreachable) }
    }

    #[cold]
    fn strangeness(&self, peer: PeerId) -> Result<(), Cause> {
        if !self.peers.is_active() || peer == self.me || peer.0 >= self.size {
            return Err(Cause::Unreachable);
        }
        if let Some((_, code)) = self.aborted {
            return Err(Cause::Aborted { code });
        }
        let Some(table) = self.peers.fewer().filter(|table| !table.has(peer)) else { return Ok(()) };
        match table.lost_stranger {
            Some(lost) if { lost.peer } == peer => Err(lost.cause),
            _ => {
                table.stranger.set(Some(peer));
                Ok(())
            }
        }
    }

    /// Asks the transport of a few peers without a row that something waits for whether they are
    /// lost: it tells a loss once, and that may have been before the wait began. In turns, so that
    /// each request is looked at; what has no request, as a probe, has its peer looked at in the
    /// next poll.
    pub(crate) fn watch_strangers<T: Transport>(&mut self, transport: &T) {
        let Some(table) = self.peers.active() else { return };
        if let Some(peer) = table.stranger.take() {
            self.watch_stranger(transport, peer);
        }
        let end = self.requests.used_end();
        for _ in 0..end.min(STRANGERS_A_POLL) {
            let Some(table) = self.peers.active() else { return };
            table.watched =
                if table.watched.wrapping_add(1) < end { table.watched.wrapping_add(1) } else { 0 };
            let index = table.watched;
            let Some(request) = self.requests.at(index).filter(|request| waits_for_named(request)) else {
                continue;
            };
            let peer = request.peer;
            self.watch_stranger(transport, peer);
        }
        self.watch_wildcards(transport);
        self.watch_probed(transport);
    }

    /// The cause for which a peer is lost, as its row tells or its transport.
    fn loss_of<T: Transport>(&self, transport: &T, peer: PeerId) -> Option<Cause> {
        if let Some(row) = self.peers.get(peer) {
            return if let Presence::Gone(cause) = row.presence { Some(cause) } else { None };
        }
        match self.peers.fewer()?.lost_stranger {
            Some(lost) if { lost.peer } == peer => return Some(lost.cause),
            _ => {}
        }
        transport.reach(peer).err().filter(|cause| *cause != Cause::Unreachable)
    }

    fn watch_stranger<T: Transport>(&mut self, transport: &T, peer: PeerId) {
        let Some(table) = self.peers.active().filter(|table| !table.has(peer)) else { return };
        match transport.reach(peer) {
            // One that has not been introduced yet may still be.
            Ok(_) | Err(Cause::Unreachable) => {}
            Err(cause) => {
                table.lost_stranger = Some(LostPeer { peer, cause });
                self.lose(peer, cause);
            }
        }
    }

    /// Returns true if messages can be sent to a peer now.
    #[inline]
    pub(crate) fn is_connected(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(Peer::is_connected)
    }

    /// Has a peer looked at for which something waits to be sent, or a row for it.
    #[inline]
    pub(crate) fn schedule_contact(&mut self, peer: PeerId) {
        self.schedule(peer);
        if ACTIVE && self.peers.is_active() {
            self.schedule_contacts();
        }
    }

    /// Has this rank's own row looked at in the next poll, if anything waits for a row.
    pub(crate) fn schedule_contacts(&mut self) {
        let Some(table) = self.peers.active() else { return };
        if !table.waiting.is_empty() || table.first_turned_away().is_some() || table.asking() > 0 {
            self.schedule(self.me);
        }
    }

    /// Returns true if a message is by which a contact begins or ends, or that comes while one
    /// does; takes note of the credits in it.
    pub(crate) fn is_of_contact(&mut self, from: PeerId, header: &Header) -> Result<bool, Malformed> {
        let Some(table) = self.peers.active() else { return Ok(false) };
        if header.kind == Kind::Contact {
            return Ok(true);
        }
        if header.kind == Kind::Control {
            // Of a rank that was refused: it wants a row no more.
            table.welcome(from);
        }
        let Some((row, state)) = table.of(from) else { return Ok(false) };
        if header.kind == Kind::Control && state.contact.is_asking() {
            row.epoch = header.epoch;
            return Ok(state.contact.takes_goodbye());
        }
        if row.epoch != header.epoch || !state.contact.takes() {
            return Ok(false);
        }
        row.envelopes_out.raise(header.limits.envelopes)?;
        row.blocks_out.raise(header.limits.blocks)?;
        Ok(true)
    }

    /// A place is free again that no row has.
    #[cold]
    pub(crate) fn free_of_stranger(&mut self) {
        if let Some(table) = self.peers.active() {
            table.has_freed = true;
            self.schedule(self.me);
        }
    }

    /// Something was said in the contact of a peer, other than by a message that is matched.
    pub(crate) fn account_use(&mut self, peer: PeerId) {
        if let Some((_, state)) = self.peers.active().and_then(|table| table.of(peer)) {
            state.used = true;
        }
    }

    /// Data is to be sent to a peer without a row, by other means than a queue: makes contact, if
    /// there is a row.
    pub(crate) fn seek_contact(&mut self, peer: PeerId) {
        let Some(table) = self.peers.active() else { return };
        if table.of(peer).is_none() && table.may_ask() && !self.ask_contact(peer) {
            self.make_room();
        }
    }

    /// A peer is lost: nothing is left of its contact. Its name is kept as long as no other wants
    /// the row.
    pub(crate) fn end_contact(&mut self, peer: PeerId, cause: Cause) {
        let Some(table) = self.peers.active() else { return };
        table.welcome(peer);
        let has_row = table.of(peer).is_some() || table.take(peer).is_some();
        if let Some((row, state)) = table.of(peer) {
            row.presence = Presence::Gone(cause);
            state.contact = Contact::NONE;
        }
        self.free_of_stranger();
        if !has_row {
            self.drop_announced(peer);
        }
    }

    /// Drops the announcements of a peer that is lost and forgotten: the data will never come.
    fn drop_announced(&mut self, peer: PeerId) {
        for slot in 0..self.matcher.kept_end() {
            let is_announced = self.matcher.kept(slot).is_some_and(|envelope| {
                envelope.peer == peer && matches!(envelope.payload, Payload::Announced(_))
            });
            if is_announced {
                self.matcher.remove(slot);
            }
        }
    }

    /// Takes a row for a peer: a free one, or that of a peer that is lost.
    fn take_row(&mut self, peer: PeerId) -> bool {
        let Some(table) = self.peers.active() else { return false };
        if table.take(peer).is_some() {
            return true;
        }
        let Some(lost) = table.lost() else { return false };
        table.give(lost);
        self.drop_announced(lost);
        self.peers.active().is_some_and(|table| table.take(peer).is_some())
    }

    /// Fails the requests of peers without a row.
    pub(crate) fn abort_strangers(&mut self, cause: Cause) {
        if !self.peers.is_active() {
            return;
        }
        for index in 0..self.requests.used_end() {
            let Some(request) = self.requests.at(index) else { continue };
            if !matches!(request.state, State::Free | State::Complete | State::Closing) {
                let peer = request.peer;
                self.part(peer, cause);
            }
        }
    }

    /// A peer has been introduced anew, in this life: an earlier one is forgotten.
    pub(crate) fn renew(&mut self, peer: PeerId, epoch: aldis_hal::Epoch) {
        if let Some(table) = self.peers.active()
            && table.lost_stranger.is_some_and(|lost| { lost.peer } == peer)
        {
            table.lost_stranger = None;
        }
        if let Some(table) = self.peers.active() {
            // It may have been passed as lost.
            table.walk = DesertedWalk { slot: table.walk.slot, ..DesertedWalk::default() };
            table.probed = None;
        }
        let known = self.peers.get(peer).map(|row| (row.epoch, row.presence));
        let Some((known, presence)) = known else { return };
        let is_gone = matches!(presence, Presence::Gone(_));
        if is_gone || (known != epoch && known.0 != 0) {
            self.forget(peer);
            if let Some(table) = self.peers.active() {
                table.give(peer);
            }
        }
    }
}

/// Messages of the exchange that arrive.
impl Engine<'_> {
    /// A contact has come: the peer is given a row, if there is one, or else asked for its contact
    /// when there is.
    pub(crate) fn take_contact(
        &mut self,
        from: PeerId,
        header: &Header,
        room: Room,
        is_alike: bool,
    ) -> Result<(), Malformed> {
        if !self.peers.is_active() || from == self.me || from.0 >= self.size {
            return Err(Malformed::Control);
        }
        if !is_alike {
            self.lose(from, Cause::Incompatible);
            return Ok(());
        }
        if self.is_answered_by_goodbye(from) {
            return Ok(());
        }
        let known = self.peers.get(from).map(|row| (row.epoch, row.presence));
        match known {
            Some((epoch, Presence::Gone(_))) if epoch == header.epoch => return Ok(()),
            Some((epoch, _)) if epoch != header.epoch => self.renew(from, header.epoch),
            _ => {}
        }
        if self.peers.get(from).is_none() && !self.give_row(from) {
            if let Some(table) = self.peers.active() {
                table.turn_away(from);
            }
            self.schedule(self.me);
            return Ok(());
        }
        let limits = &header.limits;
        let Some((row, state)) = self.peers.active().and_then(|table| table.of(from)) else { return Ok(()) };
        if state.contact.met()? {
            (row.epoch, row.room) = (header.epoch, room);
            row.envelopes_out = CreditWindow::limited(room.envelopes, limits.envelopes)?;
            row.blocks_out = CreditWindow::limited(room.blocks, limits.blocks)?;
        } else {
            row.envelopes_out.raise(limits.envelopes)?;
            row.blocks_out.raise(limits.blocks)?;
        }
        self.schedule(from);
        Ok(())
    }

    /// Returns true if this rank leaves: a peer that begins or ends a contact is told goodbye then,
    /// with a row or without.
    fn is_answered_by_goodbye(&mut self, from: PeerId) -> bool {
        let Some(table) = self.peers.active().filter(|table| table.is_leaving) else { return false };
        table.turn_away(from);
        self.schedule(self.me);
        true
    }

    /// A close has come: nothing follows it in this contact.
    pub(crate) fn take_close(&mut self, from: PeerId) -> Result<(), Malformed> {
        if self.is_answered_by_goodbye(from) {
            return Ok(());
        }
        let Some(table) = self.peers.active() else { return Err(Malformed::Control) };
        let Some((row, state)) = table.of(from) else { return Ok(()) };
        let is_over = state.contact.left()?;
        row.presence = Presence::Leaving;
        if is_over {
            self.retire(from);
        } else {
            self.schedule(from);
        }
        Ok(())
    }
}

/// Messages of the exchange to be sent, and rows given and taken back.
impl Engine<'_> {
    /// Sends what is due in the contact of a peer; returns how many messages that were. The contact
    /// is open from then on if both sides have said so.
    pub(crate) fn step_contact<T: Transport>(&mut self, transport: &mut T, id: PeerId) -> u32 {
        let now = self.now;
        let Some(table) = self.peers.active().filter(|table| !table.is_leaving) else { return 0 };
        let Some((row, state)) = table.of(id) else { return 0 };
        if matches!(row.presence, Presence::Connected | Presence::Unknown | Presence::Gone(_)) {
            return 0;
        }
        let Some(due) = state.contact.due() else {
            return 0;
        };
        let (room, says) = (self.room, HeaderWords { key: Key::NONE, length: 0 });
        let turn = match due {
            ContactMessage::Contact => self.say(
                transport,
                id,
                Kind::Contact,
                says,
                // The share of which the limits in the header grant what there is.
                &header::contact(&room, ByteOrder::NATIVE, WordWidth::NATIVE),
            ),
            ContactMessage::Close => self.say(transport, id, Kind::Close, says, &[]),
        };
        let LaneTurn::Sent = turn else { return 0 };
        let Some((_, state)) = self.peers.active().and_then(|table| table.of(id)) else { return 1 };
        state.since = now;
        if state.contact.sent() {
            self.retire(id);
        } else if state.contact.is_open()
            && let Err(cause) = self.open_contact(transport, id)
        {
            self.lose(id, cause);
        }
        1
    }

    /// Both sides have said contact: messages can be sent.
    fn open_contact<T: Transport>(&mut self, transport: &T, id: PeerId) -> Result<(), Cause> {
        let Some((row, state)) = self.peers.active().and_then(|table| table.of(id)) else { return Ok(()) };
        row.thresholds = thresholds(transport, id, &row.room)?;
        row.presence = Presence::Connected;
        (state.used, state.seen) = (false, (row.sequence_out, row.sequence_in));
        if !row.send_queue.is_empty() {
            row.holder.held_back();
        }
        Ok(())
    }

    /// Gives rows to those that wait for one, and makes room for them; of a rank that leaves, says
    /// goodbye to them.
    pub(crate) fn serve_contacts<T: Transport>(&mut self, transport: &mut T) {
        if self.peers.active().is_some_and(|table| table.is_leaving) {
            return self.say_goodbyes(transport);
        }
        self.repeat_contacts();
        self.give_rows();
        if self.peers.active().is_some_and(|table| core::mem::take(&mut table.has_freed)) {
            self.top_up();
        }
    }

    /// Has all that begin or end a contact from now on told goodbye: this rank leaves.
    pub(crate) fn begin_to_leave(&mut self) {
        if let Some(table) = self.peers.active() {
            table.is_leaving = true;
        }
    }

    /// Says goodbye to the peers that have begun or ended a contact with this rank since it leaves.
    fn say_goodbyes<T: Transport>(&mut self, transport: &mut T) {
        let mut at = 0;
        while let Some(peer) = self.peers.fewer().and_then(|table| table.turned_away_at(at)) {
            let row = self.peers.get(peer).unwrap_or(&Peer::EMPTY);
            let is_told =
                transport.tells_departure(peer) || self.tell(transport, peer, row, Control::Goodbye);
            match self.peers.active() {
                Some(table) if is_told => table.welcome(peer),
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// Sends a control message to a peer, with the credits of `row`; false if the transport cannot
    /// take it now.
    pub(crate) fn tell<T: Transport>(
        &self,
        transport: &mut T,
        peer: PeerId,
        row: &Peer,
        control: Control,
    ) -> bool {
        let mut buffer = [0; CONTROL_MESSAGE_BYTES_MAX];
        let Ok(body) = control.encode(&mut buffer) else { return true };
        let header = self.header(row, Kind::Control, Key::NONE, 0, body.len() as u64);
        !matches!(post(transport, peer, &header.emit(), body), Post::Again(_))
    }

    fn give_rows(&mut self) {
        while let Some(peer) = self.next_contact() {
            if !self.ask_contact(peer) {
                return self.make_room();
            }
            if let Some(table) = self.peers.active() {
                table.serves_waiting = !table.serves_waiting;
            }
        }
    }

    /// The peer that is to be given a row next: in turns one that was turned away and the first of
    /// those for which a request waits, so that neither waits for ever.
    fn next_contact(&mut self) -> Option<PeerId> {
        let waiting = self.first_waiting();
        let table = self.peers.active()?;
        let (asked, waiting) = (table.first_turned_away(), waiting.filter(|_| table.may_ask()));
        if table.serves_waiting { waiting.or(asked) } else { asked.or(waiting) }
    }

    /// The peer of the first request that waits for a row.
    fn first_waiting(&mut self) -> Option<PeerId> {
        let index = self.peers.active()?.waiting.front()?;
        self.requests.at(index).map(|request| request.peer)
    }

    /// Sends the contacts again that were not answered for long.
    fn repeat_contacts(&mut self) {
        let now = self.now;
        for index in 0..self.peers.len() {
            let Some((peer, _, state)) = self.peers.active().and_then(|table| table.at(index)) else {
                continue;
            };
            if !state.contact.is_asking() || state.contact.due().is_some() {
                continue;
            }
            let due = REPEAT_NS << state.repeats.min(REPEAT_DOUBLINGS);
            if now.0.wrapping_sub(state.since.0) >= due {
                state.repeats = state.repeats.saturating_add(1);
                state.contact.repeat();
                self.schedule(peer);
            }
        }
    }

    /// Gives a peer a row and asks for its contact; false if there is no row.
    fn ask_contact(&mut self, peer: PeerId) -> bool {
        if !self.give_row(peer) {
            return false;
        }
        if let Some((_, state)) = self.peers.active().and_then(|table| table.of(peer)) {
            state.contact.ask();
        }
        self.schedule(peer);
        true
    }

    /// Gives a peer without a row one, with room for its messages and with the requests that wait
    /// for it; false if there is none.
    fn give_row(&mut self, peer: PeerId) -> bool {
        if !self.take_row(peer) {
            return false;
        }
        if let Some(table) = self.peers.active() {
            table.welcome(peer);
        }
        let (envelopes, blocks) = self.promise(peer);
        let Some((row, _)) = self.peers.active().and_then(|table| table.of(peer)) else { return false };
        row.presence = Presence::Meeting;
        (row.order, row.words) = (ByteOrder::NATIVE, WordWidth::NATIVE);
        (row.envelopes_in, row.blocks_in) = (envelopes, blocks);
        self.hand_over(peer);
        true
    }

    /// Moves the requests that wait for a row of `peer` into its row.
    fn hand_over(&mut self, peer: PeerId) {
        let mut next = self.peers.active().and_then(|table| table.waiting.front());
        while let Some(index) = next {
            next = List::<Queue>::after(&mut self.requests, index);
            let Some(request) = self.requests.at(index) else { return };
            if request.peer != peer {
                continue;
            }
            let has_matched = request.in_rendezvous_queue;
            let Some(table) = self.peers.active() else { return };
            table.waiting.remove(&mut self.requests, index);
            let queue = if has_matched { table.rendezvous_queue(peer) } else { table.send_queue(peer) };
            queue.push_back(&mut self.requests, index);
        }
    }

    /// The room for messages of a peer that has just been given its row: its share, as far as the
    /// pools have it. Its messages that are kept from an earlier contact are part of it.
    fn promise(&mut self, peer: PeerId) -> (Grant, Grant) {
        let (free, own) = self.places(peer);
        let grant = |share: u16, free: u32, own: u32| {
            let size = u32::from(share).min(free).max(own) as u16;
            Grant::partly(size, own as u16).unwrap_or(Grant::NONE)
        };
        let Room { envelopes, blocks, .. } = self.room;
        (grant(envelopes, free[0], own[0]), grant(blocks, free[1], own[1]))
    }

    /// Promises places that have become free to the peers whose contact began with less than their
    /// share: one to each that has none, and the others as far as the next contact has a share too.
    fn top_up(&mut self) {
        let Room { envelopes, blocks, .. } = self.room;
        let (mut free, _) = self.places(self.me);
        let rows = self.peers.len();
        for at in 0..rows.wrapping_mul(2) {
            let (is_first, index) = (at < rows, if at < rows { at } else { at.wrapping_sub(rows) });
            let Some((peer, row, _)) = self.peers.active().and_then(|table| table.at(index)) else {
                continue;
            };
            if !matches!(row.presence, Presence::Meeting | Presence::Connected) || peer == self.me {
                continue;
            }
            let grants = [(&mut row.envelopes_in, envelopes), (&mut row.blocks_in, blocks)];
            for ((grant, share), free) in grants.into_iter().zip(&mut free) {
                let (most, kept) = if is_first { (share.min(1), 0) } else { (share, share.into()) };
                let places = u32::from(most.saturating_sub(grant.size())).min(free.saturating_sub(kept));
                grant.grow(places as u16);
                *free = free.saturating_sub(places);
            }
            if row.credit_due() {
                self.schedule(peer);
            }
        }
    }

    /// Places for envelopes and blocks that no row has, and those that messages of `peer` hold,
    /// which are not counted among either.
    fn places(&mut self, peer: PeerId) -> ([u32; 2], [u32; 2]) {
        let rows = self.peers.len();
        let Room { envelopes, blocks, .. } = self.room;
        let mut free = [u32::from(envelopes).wrapping_mul(rows), u32::from(blocks).wrapping_mul(rows)];
        for row in self.peers.iter().filter(|row| !matches!(row.presence, Presence::Gone(_))) {
            free = less(free, [row.envelopes_in.size().into(), row.blocks_in.size().into()]);
        }
        let mut own = [0_u32; 2];
        for slot in 0..self.matcher.kept_end() {
            let Some(envelope) = self.matcher.kept(slot) else { continue };
            let held = [1, u32::from(matches!(envelope.payload, Payload::Block(_)))];
            let source = envelope.peer;
            if source == peer {
                own = [own[0] + held[0], own[1] + held[1]];
            } else if self.peers.get(source).is_none_or(|row| matches!(row.presence, Presence::Gone(_))) {
                free = less(free, held);
            }
        }
        (free, own)
    }

    /// A contact is over on both sides: its requests wait for the next, and its row is free.
    fn retire(&mut self, id: PeerId) {
        let Some((row, _)) = self.peers.active().and_then(|table| table.of(id)) else { return };
        if let Some(offered) = row.holder.offered()
            && self.requests.get(offered).is_some_and(|request| request.cause.is_some())
        {
            // It was given up while its receiver could have taken it.
            self.unqueue(id, offered.slot);
        }
        let Some((row, _)) = self.peers.active().and_then(|table| table.of(id)) else { return };
        let lists = [
            core::mem::replace(&mut row.send_queue, List::EMPTY),
            core::mem::replace(&mut row.rendezvous_queue, List::EMPTY),
        ];
        let Some(table) = self.peers.active() else { return };
        table.give(id);
        for mut list in lists {
            while let Some(index) = list.front() {
                list.remove(&mut self.requests, index);
                table.waiting.push_back(&mut self.requests, index);
            }
        }
        self.free_of_stranger();
        self.schedule_contacts();
    }

    /// Begins to close the contact that is idle longest, unless one is being closed already.
    fn make_room(&mut self) {
        let (now, rows) = (self.now.0, self.peers.len());
        let Some(table) = self.peers.active() else { return };
        let hold = u64::from(table.hold_ns);
        for index in 0..rows {
            let Some((_, row, state)) = table.at(index) else { continue };
            if row.presence == Presence::Leaving && now.wrapping_sub(state.since.0) < hold {
                return;
            }
        }
        for _ in 0..rows.wrapping_mul(2) {
            let Some(table) = self.peers.active() else { return };
            table.hand = if table.hand.wrapping_add(1) >= rows { 0 } else { table.hand.wrapping_add(1) };
            let hand = table.hand;
            let Some((peer, row, state)) = table.at(hand) else { continue };
            if peer == self.me || !may_end(row, state) {
                continue;
            }
            let numbers = (row.sequence_out, row.sequence_in);
            let was_used = core::mem::replace(&mut state.seen, numbers) != numbers;
            let used = state.used || numbers != (0, 0);
            let asks = row.seeker.is_asking() || row.holder.question().is_some();
            let (is_quiet, stalled) = (used && row.send_queue.is_empty() && !asks, row.seeker.is_stalled());
            let age = now.wrapping_sub(state.since.0);
            if was_used {
                continue;
            }
            let is_idle = is_quiet && (!stalled || age >= HOLD_NS_MIN.into()) && !self.is_transferring(peer);
            if is_idle || age >= hold {
                self.begin_close(peer, is_idle);
                return;
            }
        }
    }

    /// Returns true if data of an announced message is under way to a peer or from it.
    fn is_transferring(&mut self, peer: PeerId) -> bool {
        let is_of = |request: &mut Request| match (request.state, &request.machine) {
            _ if request.peer != peer => false,
            (State::Receiving, _) => true,
            (State::Sending, Machine::Send(sender)) => !sender.is_waiting(),
            _ => false,
        };
        (0..self.requests.used_end()).any(|index| self.requests.at(index).is_some_and(is_of))
    }

    fn begin_close(&mut self, peer: PeerId, idle: bool) {
        let now = self.now;
        let Some(table) = self.peers.active() else { return };
        let hold = table.hold_ns;
        table.hold_ns = if idle { (hold / 2).max(HOLD_NS_MIN) } else { (hold * 2).min(HOLD_NS_MAX) };
        let Some((row, state)) = table.of(peer) else { return };
        state.contact.close();
        (row.presence, state.since) = (Presence::Leaving, now);
        self.schedule(peer);
    }
}

/// Returns true if this side may close a contact: it is open, nothing is to be said in it of what
/// is matched, and no offer stands.
fn may_end(row: &Peer, state: &ContactState) -> bool {
    state.contact.is_open()
        && row.presence == Presence::Connected
        && row.rendezvous_queue.is_empty()
        && row.holder.offered().is_none()
        && row.seeker.verdict_due().is_none()
        && !row.seeker.is_held()
}

/// Returns true if a request waits for a peer that it names.
fn waits_for_named(request: &Request) -> bool {
    match request.state {
        State::Posted | State::Probing => request.key.source != WILD,
        State::Queued | State::Held | State::Sending | State::Receiving => true,
        State::Idle | State::Matched | State::Complete | State::Closing | State::Free => false,
    }
}

const fn less([one, other]: [u32; 2], [by, by_other]: [u32; 2]) -> [u32; 2] {
    [one.saturating_sub(by), other.saturating_sub(by_other)]
}

/// The thresholds between protocols for messages to a peer with so much room.
#[inline(always)]
pub(crate) fn thresholds<T: Transport>(
    transport: &T,
    peer: PeerId,
    room: &Room,
) -> Result<Thresholds, Cause> {
    let caps = transport.reach(peer)?;
    let most = transport.eager_bytes_max(peer);
    let bounded = Room { block_bytes: most, ..*room };
    let room = if most < room.block_bytes { &bounded } else { room };
    // Not taken out of its result where nothing is changed: that would be a copy of it.
    let thresholds = Thresholds::new(caps, room);
    if !LENDS || !T::HAS_REMOTE_MEMORY {
        return thresholds;
    }
    let mut thresholds = thresholds?;
    let longest = transport.fragment_bytes_max(peer);
    thresholds.fragment_bytes_max = thresholds.fragment_bytes_max.min(longest);
    Ok(thresholds.with_direct(caps))
}
