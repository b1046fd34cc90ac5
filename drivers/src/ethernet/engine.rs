//! The transport without its device: rows, links, rings, and what becomes of a peer.

use core::fmt;

use aldis_hal::{Again, Caps, Cause, Epoch, Instant, Nic, PeerId, Refusal, Sink};
use aldis_protocols::connect::{ConnectRecord, HandshakeEvent, HandshakeSetup, LinkOffer};
use aldis_protocols::reliable::{self, DeliveryOrder, Link};

use super::framing::{Framing, Port};
use super::peer::{PeerLink, PeerPresence, PeerRow};
use super::pool::LinkPool;
use super::queue::{LinkLine, LinkQueue};
use super::storage::{EthernetMemory, FrameSlots};
use super::timers::{ROWS_PER_POLL, Timers};
use super::{Config, EthernetCounters};

/// Polls in a row that may leave time-outs alone because frames were still waiting when their
/// budget was used up: what waits may be the very answer.
const POLLS_UNDRAINED_MAX: u32 = 64;

/// The transport without its device.
pub(super) struct EthernetEngine<'m> {
    pub(super) me: PeerId,
    pub(super) framing: Framing,
    pub(super) port: Port,
    pub(super) rows: &'m mut [PeerRow],
    pub(super) links: &'m mut [PeerLink],
    pub(super) pool: LinkPool,
    pub(super) outgoing: FrameSlots<'m>,
    pub(super) incoming: FrameSlots<'m>,
    pub(super) link: reliable::LinkConfig,
    pub(super) setup: HandshakeSetup,
    pub(super) caps: Caps,
    /// Links with something to transmit.
    pub(super) due: LinkQueue,
    /// Links with something to tell the sink.
    news: LinkQueue,
    /// Links that were posted to since the last poll: posts do not know the time.
    posted: LinkQueue,
    /// The reason why peers without a link were lost, while that is reported to the sink.
    pub(super) untold: Option<Cause>,
    /// The row that is looked at next for one of them.
    pub(super) telling: usize,
    pub(super) timers: Timers,
    /// The time of the last poll.
    pub(super) now: Instant,
    undrained: u32,
    /// The messages that were posted since they were to leave together, if they are to.
    pub(super) corked: Option<u32>,
    pub(super) counters: EthernetCounters,
}

impl<'m> EthernetEngine<'m> {
    pub(super) fn new<N: Nic>(
        nic: &N,
        memory: EthernetMemory<'m>,
        config: Config,
        caps: Caps,
    ) -> Result<Self, Cause> {
        let EthernetMemory { rows, links, outgoing, incoming } = memory;
        let Config { link, connect, framing, .. } = config;
        if connect.epoch == Epoch(0) {
            return Err(Cause::Incompatible);
        }
        let (window, frame_bytes) = (outgoing.window as u8, outgoing.message_bytes as u16);
        let link = reliable::LinkConfig { window, order: DeliveryOrder::InOrder, ..link }.checked()?;
        let offer = LinkOffer { window, frame_bytes };
        Ok(Self {
            me: PeerId(connect.rank),
            framing,
            port: Port { station: framing.station(nic.mac()), offload: nic.offload() },
            rows,
            links,
            pool: LinkPool::new(),
            outgoing,
            incoming,
            link,
            setup: HandshakeSetup { offer, frame_bytes_min: frame_bytes, ..connect },
            caps,
            due: LinkQueue::new(LinkLine::Due),
            news: LinkQueue::new(LinkLine::News),
            posted: LinkQueue::new(LinkLine::Posted),
            untold: None,
            telling: 0,
            timers: Timers::new(),
            now: Instant(0),
            undrained: 0,
            corked: None,
            counters: EthernetCounters::default(),
        })
    }

    /// The row of a peer; this rank itself has none.
    #[inline]
    pub(super) fn index(&self, peer: PeerId) -> Option<usize> {
        let skip = match peer.cmp(&self.me) {
            core::cmp::Ordering::Less => 0,
            core::cmp::Ordering::Equal => return None,
            core::cmp::Ordering::Greater => 1,
        };
        Some(peer.index() - skip).filter(|index| *index < self.rows.len())
    }

    /// The peer of a row.
    #[inline]
    pub(super) fn peer(&self, index: usize) -> PeerId {
        let rank = index as u32;
        PeerId(if rank < self.me.0 { rank } else { rank + 1 })
    }

    pub(super) fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        let row = self.index(peer).and_then(|index| self.rows.get(index));
        match row.map(|row| row.presence) {
            None | Some(PeerPresence::Unknown) => Err(Cause::Unreachable),
            Some(PeerPresence::Gone | PeerPresence::Untold) => Err(Cause::PeerDead),
            Some(PeerPresence::Known) => Ok(&self.caps),
        }
    }

    pub(super) fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &[u8]) -> Result<(), Cause> {
        let station = self.framing.locate(address).ok_or(Cause::Unreachable)?;
        let index = self.index(peer).ok_or(Cause::Unreachable)?;
        let group = station.mac.0.first().is_none_or(|first| first & 1 == 1);
        if group || station.mac == self.port.station.mac {
            return Err(Cause::Unreachable);
        }
        let link = self.link_of(index).and_then(|link| self.links.get(link));
        let admitted = link.map(|link| link.connect.admitted());
        let Some(row) = self.rows.get_mut(index) else { return Err(Cause::Unreachable) };
        if row.presence == PeerPresence::Unknown {
            row.record = ConnectRecord::new(&self.setup);
        }
        row.station = station;
        if admitted.unwrap_or(row.record.admitted()).unwrap_or(Epoch(0)) == epoch {
            return Ok(());
        }
        (row.presence, row.waiting) = (PeerPresence::Known, false);
        self.drop_link(index);
        if let Some(row) = self.rows.get_mut(index) {
            row.record.introduce(epoch);
        }
        Ok(())
    }

    pub(super) fn quiesce(&mut self, peer: PeerId) -> Result<(), Cause> {
        let row = self.index(peer).and_then(|index| Some((index, self.rows.get_mut(index)?)));
        let known = row.filter(|(_, row)| row.presence != PeerPresence::Unknown);
        let (index, row) = known.ok_or(Cause::Stale)?;
        (row.presence, row.waiting) = (PeerPresence::Gone, false);
        self.drop_link(index);
        if let Some(row) = self.rows.get_mut(index) {
            row.record.abandon();
        }
        Ok(())
    }

    /// Returns the link and the slot that a message of `len` bytes for `peer` is to be written to,
    /// if it can be taken.
    #[inline]
    pub(super) fn admit(&mut self, peer: PeerId, len: usize) -> Result<(usize, usize), Refusal> {
        self.reach(peer).map_err(Refusal::Never)?;
        let max = self.outgoing.message_bytes;
        if len > max {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: max as u64 }));
        }
        let never = Refusal::Never(Cause::Unreachable);
        // Of a few links one is kept for peers that ask: what this side wants waits in the queue.
        let may_ask = !self.is_pooled();
        let row = self.index(peer).ok_or(never)?;
        let entry = self.rows.get_mut(row).ok_or(never)?;
        let Some(index) = entry.link() else {
            entry.waiting = true;
            self.want(row);
            return Err(Refusal::Again(Again::Connecting));
        };
        let link = self.links.get_mut(index).ok_or(never)?;
        let vacancy =
            if link.closing { Err(Again::Connecting) } else { link.link.vacancy(&self.link, self.now) };
        match vacancy {
            Ok(sequence) => Ok((index, self.link.slot(sequence))),
            Err(why) => {
                entry.waiting = true;
                link.asked |= may_ask && why == Again::Connecting && !link.link.is_open();
                self.posted.push(self.links, index as u32);
                Err(Refusal::Again(why))
            }
        }
    }

    /// Notes that the caller waits for a peer: the next poll begins a handshake with it, unless
    /// there is one or a connection. A death is noticed on those. Where there are fewer links than
    /// peers, such peers have a link in turns.
    #[inline]
    pub(super) fn expect(&mut self, peer: PeerId) {
        let Some(row) = self.index(peer) else { return };
        let Some(entry) = self.rows.get(row).filter(|entry| entry.presence == PeerPresence::Known) else {
            return;
        };
        let link = entry.link();
        if self.is_pooled() {
            return self.watch_for(row);
        }
        let Some(index) = link else { return self.want(row) };
        if let Some(link) = self.links.get_mut(index).filter(|link| !link.link.is_open()) {
            link.asked = true;
            self.posted.push(self.links, index as u32);
        }
    }

    /// Takes the sequence number of an admitted message.
    #[inline]
    pub(super) fn commit(&mut self, index: usize, slot: usize, len: usize) {
        self.outgoing.set_len(index, slot, len);
        let Some(link) = self.links.get_mut(index) else { return };
        if link.link.queue(&self.link, self.now).is_some() {
            (link.used, link.served) = (true, true);
            self.counters.messages_sent += 1;
            self.due.push(self.links, index as u32);
            self.posted.push(self.links, index as u32);
        }
    }

    /// The time is known again: what was posted since the last poll, under its time, happened just
    /// now or a while ago, and handshakes can begin. No more links than were posted to.
    #[inline]
    pub(super) fn tell_the_time(&mut self, now: Instant) {
        let then = core::mem::replace(&mut self.now, now);
        while let Some(index) = self.posted.pop(self.links) {
            let Some(link) = self.links.get_mut(index as usize) else { return };
            link.link.retime(&self.link, then, now);
            if core::mem::take(&mut link.asked)
                && !link.link.is_open()
                && link.connect.connect(&self.setup, now)
            {
                self.due.push(self.links, index);
            }
            self.note(index as usize);
        }
        self.serve_wanted();
    }

    /// Reports at most `budget` events of the queued links to the sink; each link gets one turn;
    /// returns how many.
    #[inline]
    pub(super) fn notify_sink<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut left = budget;
        for _ in 0..self.news.len() {
            if left == 0 {
                break;
            }
            let Some(index) = self.news.pop(self.links) else { break };
            left -= self.tell_of(index as usize, left, sink);
        }
        if let Some(cause) = self.untold {
            left -= self.tell_losses(cause, left, sink);
        }
        budget - left
    }

    /// Reports the loss of peers without a link, of which so many rows are looked at.
    #[cold]
    fn tell_losses<S: Sink>(&mut self, cause: Cause, budget: u32, sink: &mut S) -> u32 {
        let mut told = 0;
        for _ in 0..ROWS_PER_POLL {
            if told == budget {
                break;
            }
            let at = self.telling;
            let Some(row) = self.rows.get_mut(at) else {
                (self.untold, self.telling) = (None, 0);
                break;
            };
            self.telling = at + 1;
            if row.presence == PeerPresence::Untold {
                row.presence = PeerPresence::Gone;
                sink.lost(self.peer(at), cause);
                told += 1;
            }
        }
        told
    }

    /// Reports the events of one link to the sink. At least one event of the budget is there.
    fn tell_of<S: Sink>(&mut self, index: usize, budget: u32, sink: &mut S) -> u32 {
        let Some(link) = self.links.get_mut(index).filter(|link| link.taken) else { return 0 };
        let (row, lost) = (link.row as usize, link.lost.take());
        let peer = self.peer(row);
        if let Some(cause) = lost {
            sink.lost(peer, cause);
            self.note(index);
            return 1;
        }
        let told = self.deliver_stored(index, budget, sink);
        self.step_close(index);
        let (Some(link), Some(entry)) = (self.links.get_mut(index), self.rows.get_mut(row)) else {
            return told;
        };
        let is_ready = entry.waiting && told < budget && !link.closing;
        if is_ready && link.link.vacancy(&self.link, self.now).is_ok() {
            (entry.waiting, link.served) = (false, true);
            sink.ready(peer);
            return told + 1;
        }
        self.timers.note(link.deadline());
        if link.backlog {
            self.news.push(self.links, index as u32);
        }
        told
    }

    /// Delivers stored messages that are next in order, at most `budget`.
    pub(super) fn deliver_stored<S: Sink>(&mut self, index: usize, budget: u32, sink: &mut S) -> u32 {
        let Some(row) = self.links.get(index).filter(|link| link.backlog).map(|link| link.row) else {
            return 0;
        };
        let peer = self.peer(row as usize);
        let Some(link) = self.links.get_mut(index) else { return 0 };
        let mut told = 0;
        while told < budget {
            let Some(sequence) = link.link.next_stored() else {
                link.backlog = false;
                break;
            };
            sink.arrived(peer, self.incoming.message(index, self.link.slot(sequence)));
            told += 1;
        }
        self.counters.messages_received += u64::from(told);
        told
    }

    /// Queues a link for the sink.
    #[inline]
    pub(super) fn announce(&mut self, index: usize) {
        self.news.push(self.links, index as u32);
    }

    /// Acts on what a handshake has come to.
    pub(super) fn settle(&mut self, index: usize, event: HandshakeEvent) {
        match event {
            HandshakeEvent::Opened(opened) => {
                let Some(link) = self.links.get_mut(index) else { return };
                link.link = Link::open(&self.link, opened.ends, self.now);
                (link.used, link.since) = (true, self.now);
                let row = link.row as usize;
                self.counters.opened += 1;
                // The caller may wait for an answer when the link is another's.
                self.watch_for(row);
                if self.rows.get(row).is_some_and(|row| row.waiting) {
                    self.announce(index);
                }
            }
            HandshakeEvent::Closing => {
                let Some(link) = self.links.get_mut(index) else { return };
                (link.closing, link.since) = (true, self.now);
                self.step_close(index);
            }
            // The peer asks when it has room. Without a message for it there is no need to wait.
            HandshakeEvent::TurnedAway => {
                let row = self.links.get(index).map_or(0, |link| link.row as usize);
                let waits = self.rows.get(row).is_some_and(|row| row.waiting);
                if self.is_pooled() && !waits {
                    self.drop_link(row);
                }
            }
            HandshakeEvent::Closed => self.end_link(index),
            HandshakeEvent::Restarted(_) | HandshakeEvent::TimedOut => self.lose(index, Cause::PeerDead),
            HandshakeEvent::Refused(why) => {
                let row = self.links.get(index).map_or(0, |link| link.row);
                aldis_hal::debug!("{} and this rank do not fit: {}", self.peer(row as usize), why);
                self.lose(index, Cause::Incompatible);
            }
        }
    }

    /// Ends every peer that there still is.
    #[cold]
    pub(super) fn lose_all(&mut self, cause: Cause) {
        for row in 0..self.rows.len() {
            if self.rows.get(row).is_none_or(|entry| entry.presence != PeerPresence::Known) {
                continue;
            }
            match self.link_of(row) {
                Some(index) => self.lose(index, cause),
                None => self.doom(row, cause),
            }
        }
    }

    /// Ends the peer of a link; the loss is reported to the sink in the next poll, or later in this
    /// one.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, cause: Cause) {
        let Some(link) = self.links.get_mut(index) else { return };
        link.connect.abandon();
        link.close();
        link.lost = Some(cause);
        if let Some(row) = self.rows.get_mut(link.row as usize) {
            (row.presence, row.waiting) = (PeerPresence::Gone, false);
        }
        self.announce(index);
        self.note(index);
    }

    /// Looks at some links' timers, if any has passed. Not while frames wait that the budget has
    /// left, for a while.
    #[inline]
    pub(super) fn expire(&mut self, drained: bool) {
        self.undrained = if drained { 0 } else { self.undrained + 1 };
        if !drained && self.undrained < POLLS_UNDRAINED_MAX {
            return;
        }
        self.undrained = 0;
        for index in self.timers.walk(self.now, self.links.len()) {
            self.expire_link(index);
        }
    }

    fn expire_link(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if link.deadline().is_some_and(|deadline| deadline <= self.now) {
            let event = link.connect.handle_timeout(self.now);
            let expired = link.link.handle_timeout(&self.link, self.now);
            self.due.push(self.links, index as u32);
            if let Some(event) = event {
                self.settle(index, event);
            } else if let Err(cause) = expired {
                self.lose(index, cause);
            }
        }
        self.note(index);
    }

    /// The time at which the next poll is due for its own sake.
    pub(super) fn poll_at(&self) -> Instant {
        let at_once = self.news.len() != 0
            || self.due.len() != 0
            || self.posted.len() != 0
            || self.untold.is_some()
            || self.pool.answer.is_some();
        if at_once { self.now } else { self.timers.earliest().min(self.pool.poll_at()) }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.links.iter().all(|link| link.link.is_idle())
    }
}

impl fmt::Debug for EthernetEngine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { me, port, due, news, timers, now, .. } = self;
        f.debug_struct("Engine")
            .field("me", me)
            .field("port", port)
            .field("due", due)
            .field("news", news)
            .field("timers", timers)
            .field("now", now)
            .finish_non_exhaustive()
    }
}
