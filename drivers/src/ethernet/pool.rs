//! The links of a rank: made at first contact, given back by an agreed close, and passed on from
//! peers that are idle to those that want one.
//!
//! A peer that is posted to without a link waits in a queue, and so does one that asked when none
//! was free. The first of them is given a free link, with which its peer is *asked*; if there is
//! none, the connection that has been idle longest is ended, by the second chance of a clock
//! (Corbató, 1968): a link that was used since the hand was last there is passed over once.
//!
//! # Why no rank waits for ever for a link
//!
//! * Of the links half at least are never of peers that were asked and have not answered. So a
//!   peer that asks finds a link that is free, or whose connection can be ended, or is being ended,
//!   which takes no more than that its peer polls, or that is about to be opened or given up.
//! * A peer that is turned away is told so, and asks again, if it has something to send, else gives
//!   its link back; and it is asked itself as soon as a link is free, in the order of those that
//!   came.
//! * A connection with frames under way is ended too when it has had its time: nothing new is taken
//!   for it, what is under way arrives, and then it is closed. Its link is kept until then, but no
//!   longer than an attempt to connect may take: a peer that lets it take longer is lost.
//!
//! Not proven: peers that were asked, to which something is to be sent, and that do not answer hold
//! half of the links until the deadline of the attempt. Others are not asked in that time.
//!
//! Where each peer has a link of its own no connection is ended for the sake of another.

use aldis_hal::{Cause, Instant};
use aldis_protocols::connect::{Connect, Message};

use super::engine::EthernetEngine;
use super::framing::Station;
use super::peer::{PeerLink, PeerPresence, WantState};
use super::queue::{LinkLine, LinkQueue, WantQueue};
use super::timers::ROWS_PER_POLL;

/// Intervals of repetition for which a connection with work is kept when its link is wanted: long
/// enough for a question and its answer.
const HOLD_RETRIES: u64 = 4;
/// Peers without a link that are looked at, in turn, within the time after which a silent one is
/// asked.
const WATCHED_PER_SILENCE: u64 = 16;
/// Rows that are looked at for the next of them.
const ROWS_PER_WATCH: usize = 256;

/// The time `ns` after another.
const fn later(now: Instant, ns: u64) -> Instant {
    Instant(now.0.saturating_add(ns))
}

/// Which links are free, and who wants one.
#[derive(Debug)]
pub(super) struct LinkPool {
    /// Links that were given back.
    free: LinkQueue,
    /// Links before this one have been taken at least once.
    fresh: usize,
    /// Rows that want a link.
    wanted: WantQueue,
    /// Links of peers that were asked and have not answered.
    asking: usize,
    /// The link that was last looked at for one to be given up.
    hand: usize,
    /// The time at which room is to be made for those that want a link.
    room_at: Instant,
    /// The row that is looked at next for one whose death is to be noticed, and when.
    watched: usize,
    watch_at: Instant,
    /// An answer to a peer without a link.
    pub(super) answer: Option<(Station, Message)>,
}

impl LinkPool {
    pub(super) const fn new() -> Self {
        Self {
            free: LinkQueue::new(LinkLine::Free),
            fresh: 0,
            wanted: WantQueue::EMPTY,
            asking: 0,
            hand: 0,
            room_at: Instant::NEVER,
            watched: 0,
            watch_at: Instant::NEVER,
            answer: None,
        }
    }

    /// The time of the next poll for the sake of those that want a link.
    pub(super) fn poll_at(&self) -> Instant {
        self.room_at.min(self.watch_at)
    }
}

impl EthernetEngine<'_> {
    /// Returns true if there are fewer links than peers.
    pub(super) fn is_pooled(&self) -> bool {
        self.links.len() < self.rows.len()
    }

    fn free_links(&self) -> usize {
        self.pool.free.len() as usize + self.links.len().saturating_sub(self.pool.fresh)
    }

    /// Returns true if one more peer may be asked: links are left for those that ask.
    fn may_ask(&self) -> bool {
        !self.is_pooled() || self.pool.asking < self.links.len() / 2
    }

    /// The place of a row's link.
    #[inline]
    pub(super) fn link_of(&self, row: usize) -> Option<usize> {
        self.rows.get(row)?.link()
    }

    /// Has a row given a link when there is one; nothing if it has one or waits already.
    pub(super) fn want(&mut self, row: usize) {
        if self.pool.wanted.push(self.rows, row) {
            self.look_for_room();
        }
    }

    /// Has those that want a link looked at in the next poll, if there are any.
    fn look_for_room(&mut self) {
        if self.pool.wanted.len() != 0 {
            self.pool.room_at = self.now;
        }
    }

    /// Gives a row without a link one of those that are free.
    fn take_link(&mut self, row: usize) -> Option<usize> {
        let index = match self.pool.free.pop(self.links) {
            Some(index) => index as usize,
            None => self.pool.fresh,
        };
        let peer = self.peer(row);
        let link = self.links.get_mut(index)?;
        let entry = self.rows.get_mut(row)?;
        self.pool.fresh = self.pool.fresh.max(index + 1);
        link.take(row as u32, Connect::resume(entry.record, peer.0, row as u16));
        entry.set_link(Some(index));
        self.pool.wanted.serve(self.rows, row);
        Some(index)
    }

    /// Gives the link of a peer that asks to its row; `None` if there is none for it now, or those
    /// that wait come first.
    pub(super) fn take_link_asked(&mut self, row: usize) -> Option<usize> {
        let free = self.free_links();
        let is_first = self.pool.wanted.front() == Some(row);
        let is_promised = self.pool.wanted.len() != 0 && self.may_ask() && !is_first;
        if free > usize::from(is_promised) { self.take_link(row) } else { None }
    }

    /// A link's handshake, connection or timers may have changed. One that is not used any more is
    /// free from then on.
    #[inline]
    pub(super) fn note(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        let is_asking = link.connect.is_asking();
        if is_asking != link.asking {
            link.asking = is_asking;
            let asking = self.pool.asking;
            self.pool.asking = if is_asking { asking + 1 } else { asking.saturating_sub(1) };
            self.look_for_room();
            // A peer that was answered in vain is asked by its link, which may be the last one.
            if self.is_pooled() && self.pool.asking == self.links.len() {
                let row = self.links.get(index).map_or(0, |link| link.row as usize);
                self.drop_link(row);
                return self.want(row);
            }
        }
        let Some(link) = self.links.get(index) else { return };
        if link.is_unused() {
            return self.give_back(index);
        }
        self.timers.note(link.deadline());
    }

    #[cold]
    fn give_back(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        link.close();
        link.taken = false;
        let row = link.row as usize;
        if let Some(entry) = self.rows.get_mut(row) {
            entry.record = link.connect.record();
            entry.set_link(None);
            if entry.waiting && entry.presence == PeerPresence::Known {
                self.want(row);
            }
        }
        self.pool.free.push(self.links, index as u32);
        self.look_for_room();
    }

    /// Drops the link of a row and what is under way by it, without a word.
    pub(super) fn drop_link(&mut self, row: usize) {
        let (Some(index), peer) = (self.link_of(row), self.peer(row)) else { return };
        if let Some(link) = self.links.get_mut(index) {
            let record = link.connect.record();
            link.close();
            link.connect = Connect::resume(record, peer.0, row as u16);
            self.note(index);
        }
    }

    /// Gives links to those that wait for one, and makes room for them.
    #[inline]
    pub(super) fn serve_wanted(&mut self) {
        if self.pool.wanted.front().is_some() {
            self.give_links();
        }
        if self.now >= self.pool.watch_at {
            self.watch();
        }
    }

    #[cold]
    fn give_links(&mut self) {
        for _ in 0..ROWS_PER_POLL {
            let Some(row) = self.pool.wanted.front() else { break };
            let entry = self.rows.get(row);
            let wants = entry.is_some_and(|entry| {
                let is_open = entry.link().is_none() && entry.presence == PeerPresence::Known;
                is_open && entry.want == WantState::Wanted
            });
            if wants {
                if !self.may_ask() {
                    break;
                }
                let Some(index) = self.take_link(row) else { break };
                if let Some(link) = self.links.get_mut(index) {
                    link.connect.connect(&self.setup, self.now);
                }
                self.due.push(self.links, index as u32);
                self.note(index);
            }
            self.pool.wanted.pop(self.rows);
        }
        if self.pool.wanted.len() == 0 {
            self.pool.room_at = Instant::NEVER;
            return;
        }
        if self.free_links() != 0 {
            self.pool.room_at = if self.may_ask() { self.now } else { later(self.now, self.hold_ns()) };
        } else if self.now >= self.pool.room_at {
            // One at a time; if none could be ended now, one may be old enough after a while.
            let is_one_ended = self.make_room();
            let after = if is_one_ended { 0 } else { self.hold_ns() / HOLD_RETRIES };
            self.pool.room_at = later(self.now, after);
        }
    }

    fn hold_ns(&self) -> u64 {
        self.setup.retry_first_ns.max(1).saturating_mul(HOLD_RETRIES)
    }

    /// Begins to end the connection that is idle longest, unless as many are being ended as links
    /// are wanted. True if it has.
    fn make_room(&mut self) -> bool {
        let (now, hold) = (self.now, self.hold_ns());
        let is_young = |link: &&PeerLink| link.taken && link.closing && now.since(link.since) < hold;
        if self.links.iter().filter(is_young).count() >= self.pool.wanted.len() as usize {
            return false;
        }
        for _ in 0..2 * self.links.len() {
            self.pool.hand = if self.pool.hand + 1 < self.links.len() { self.pool.hand + 1 } else { 0 };
            let hand = self.pool.hand;
            let config = self.link;
            let Some(link) = self.links.get_mut(hand) else { return false };
            if link.taken && link.closing && now.since(link.since) >= self.setup.deadline_ns {
                self.lose(hand, Cause::PeerDead);
                return true;
            }
            if !link.taken || !link.connect.is_open() || link.closing || link.lost.is_some() {
                continue;
            }
            let waits = self.rows.get(link.row as usize).is_some_and(|row| row.waiting);
            // One that is about to hear for the first time that it can send has its turn.
            let is_owed = waits && !link.served && link.link.vacancy(&config, now).is_ok();
            let age = now.since(link.since);
            if core::mem::take(&mut link.used) || is_owed || age < hold / HOLD_RETRIES {
                continue;
            }
            let is_idle = link.link.is_idle() && !link.backlog && !waits;
            if is_idle || age >= hold {
                link.closing = true;
                link.since = now;
                self.step_close(hand);
                return true;
            }
        }
        false
    }

    /// Goes on with the end of a connection, once all that was posted has arrived and all that has
    /// come is delivered.
    pub(super) fn step_close(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if !link.closing || !link.connect.is_open() || !link.is_drained() {
            return;
        }
        if link.connect.close(&self.setup, self.now) {
            self.end_link(index);
        }
        self.due.push(self.links, index as u32);
        self.note(index);
    }

    /// A connection is over by agreement: nothing of it is under way.
    pub(super) fn end_link(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.close();
            self.counters.closed += 1;
        }
    }

    /// Notes that the death of a peer is to be noticed though it may have no link.
    pub(super) fn watch_for(&mut self, row: usize) {
        let silence = self.link.silence_ns;
        if silence == 0 || !self.is_pooled() {
            return;
        }
        if let Some(entry) = self.rows.get_mut(row) {
            entry.expected = true;
        }
        if self.pool.watch_at == Instant::NEVER {
            self.pool.watch_at = later(self.now, silence / WATCHED_PER_SILENCE);
        }
    }

    /// Has the next peer without a link asked whose death is to be noticed, which connections alone
    /// do. In turns over all rows, some each time.
    #[cold]
    fn watch(&mut self) {
        let rows = self.rows.len();
        for _ in 0..rows.min(ROWS_PER_WATCH) {
            let row = self.pool.watched;
            self.pool.watched = if row + 1 < rows { row + 1 } else { 0 };
            let is_watched = self.rows.get(row).is_some_and(|entry| {
                entry.expected && entry.link().is_none() && entry.presence == PeerPresence::Known
            });
            if is_watched {
                self.want(row);
                break;
            }
        }
        self.pool.watch_at = later(self.now, self.link.silence_ns / WATCHED_PER_SILENCE);
    }

    /// Ends a row without a link for the loss of the device; that is reported in a later poll.
    pub(super) fn doom(&mut self, row: usize, cause: Cause) {
        if let Some(entry) = self.rows.get_mut(row) {
            entry.record.abandon();
            (entry.presence, entry.waiting) = (PeerPresence::Untold, false);
            (self.untold, self.telling) = (Some(cause), 0);
        }
    }
}
