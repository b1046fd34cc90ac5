//! The transport without its device: rows, rings, and what becomes of a peer.

use core::fmt;

use aldis_hal::{Again, Caps, Cause, Epoch, Instant, Nic, PeerId, Refusal, Sink};
use aldis_protocols::connect::{Connect, HandshakeEvent, HandshakeSetup, LinkOffer};
use aldis_protocols::reliable::{self, DeliveryOrder, Link};

use super::framing::{Framing, Port};
use super::peer::{PeerPresence, PeerRow};
use super::queue::{QueueLine, RowQueue};
use super::storage::{EthernetMemory, FrameSlots};
use super::timers::Timers;
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
    pub(super) outgoing: FrameSlots<'m>,
    pub(super) incoming: FrameSlots<'m>,
    pub(super) link: reliable::LinkConfig,
    pub(super) setup: HandshakeSetup,
    pub(super) caps: Caps,
    /// Rows with something to transmit.
    pub(super) due: RowQueue,
    /// Rows with something to tell the sink.
    news: RowQueue,
    /// Rows that were posted to since the last poll: posts do not know the time.
    posted: RowQueue,
    pub(super) timers: Timers,
    /// The time of the last poll.
    pub(super) now: Instant,
    undrained: u32,
    pub(super) counters: EthernetCounters,
}

impl<'m> EthernetEngine<'m> {
    pub(super) fn new<N: Nic>(
        nic: &N,
        memory: EthernetMemory<'m>,
        config: Config,
        caps: Caps,
    ) -> Result<Self, Cause> {
        let EthernetMemory { rows, outgoing, incoming } = memory;
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
            outgoing,
            incoming,
            link,
            setup: HandshakeSetup { offer, frame_bytes_min: frame_bytes, ..connect },
            caps,
            due: RowQueue::new(QueueLine::Due),
            news: RowQueue::new(QueueLine::News),
            posted: RowQueue::new(QueueLine::Posted),
            timers: Timers::new(),
            now: Instant(0),
            undrained: 0,
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
            Some(PeerPresence::Gone) => Err(Cause::PeerDead),
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
        let Some(row) = self.rows.get_mut(index) else { return Err(Cause::Unreachable) };
        if row.presence == PeerPresence::Unknown {
            row.connect = Connect::new(&self.setup, peer.0, index as u16);
        }
        row.station = station;
        if row.connect.introduce(epoch) {
            row.close(PeerPresence::Known);
        }
        Ok(())
    }

    pub(super) fn quiesce(&mut self, peer: PeerId) -> Result<(), Cause> {
        let row = self.index(peer).and_then(|index| self.rows.get_mut(index));
        let row = row.filter(|row| row.presence != PeerPresence::Unknown).ok_or(Cause::Stale)?;
        row.connect.abandon();
        row.close(PeerPresence::Gone);
        Ok(())
    }

    /// Returns the row and the slot that a message of `len` bytes for `peer` is to be written to,
    /// if it can be taken.
    #[inline]
    pub(super) fn admit(&mut self, peer: PeerId, len: usize) -> Result<(usize, usize), Refusal> {
        self.reach(peer).map_err(Refusal::Never)?;
        let max = self.outgoing.message_bytes;
        if len > max {
            return Err(Refusal::Never(Cause::TooBig { len: len as u64, max: max as u64 }));
        }
        let never = Refusal::Never(Cause::Unreachable);
        let index = self.index(peer).ok_or(never)?;
        let row = self.rows.get_mut(index).ok_or(never)?;
        match row.link.vacancy(&self.link, self.now) {
            Ok(sequence) => Ok((index, self.link.slot(sequence))),
            Err(why) => {
                row.waiting = true;
                row.asked |= why == Again::Connecting;
                self.posted.push(self.rows, index as u32);
                Err(Refusal::Again(why))
            }
        }
    }

    /// Notes that the caller waits for a peer: the next poll begins a handshake with it, unless
    /// there is one or a connection. A death is noticed on those.
    #[inline]
    pub(super) fn expect(&mut self, peer: PeerId) {
        let Some(index) = self.index(peer) else { return };
        let row = self.rows.get_mut(index).filter(|row| row.presence == PeerPresence::Known);
        if let Some(row) = row.filter(|row| !row.link.is_open()) {
            row.asked = true;
            self.posted.push(self.rows, index as u32);
        }
    }

    /// Takes the sequence number of an admitted message.
    #[inline]
    pub(super) fn commit(&mut self, index: usize, slot: usize, len: usize) {
        self.outgoing.set_len(index, slot, len);
        let Some(row) = self.rows.get_mut(index) else { return };
        if row.link.queue(&self.link, self.now).is_some() {
            self.counters.messages_sent += 1;
            self.due.push(self.rows, index as u32);
            self.posted.push(self.rows, index as u32);
        }
    }

    /// The time is known again: what was posted since the last poll, under its time, happened just
    /// now or a while ago, and handshakes can begin. No more rows than were posted to.
    #[inline]
    pub(super) fn tell_the_time(&mut self, now: Instant) {
        let then = core::mem::replace(&mut self.now, now);
        while let Some(index) = self.posted.pop(self.rows) {
            let Some(row) = self.rows.get_mut(index as usize) else { return };
            row.link.retime(&self.link, then, now);
            if core::mem::take(&mut row.asked) && !row.link.is_open() && row.connect.connect(&self.setup, now)
            {
                self.due.push(self.rows, index);
            }
            self.note(index as usize);
        }
    }

    /// Reports at most `budget` events of the queued rows to the sink; each row gets one turn;
    /// returns how many.
    #[inline]
    pub(super) fn notify_sink<S: Sink>(&mut self, budget: u32, sink: &mut S) -> u32 {
        let mut left = budget;
        for _ in 0..self.news.len() {
            if left == 0 {
                break;
            }
            let Some(index) = self.news.pop(self.rows) else { break };
            left -= self.tell_of(index as usize, left, sink);
        }
        budget - left
    }

    /// Reports the events of one row to the sink. At least one event of the budget is there.
    fn tell_of<S: Sink>(&mut self, index: usize, budget: u32, sink: &mut S) -> u32 {
        let peer = self.peer(index);
        let Some(row) = self.rows.get_mut(index) else { return 0 };
        if let Some(cause) = row.lost.take() {
            sink.lost(peer, cause);
            return 1;
        }
        let told = self.deliver_stored(index, budget, sink);
        let Some(row) = self.rows.get_mut(index) else { return told };
        if row.waiting && told < budget && row.link.vacancy(&self.link, self.now).is_ok() {
            row.waiting = false;
            sink.ready(peer);
            return told + 1;
        }
        self.timers.note(row.deadline());
        if row.backlog {
            self.news.push(self.rows, index as u32);
        }
        told
    }

    /// Delivers stored messages that are next in order, at most `budget`.
    pub(super) fn deliver_stored<S: Sink>(&mut self, index: usize, budget: u32, sink: &mut S) -> u32 {
        let peer = self.peer(index);
        let Some(row) = self.rows.get_mut(index).filter(|row| row.backlog) else { return 0 };
        let mut told = 0;
        while told < budget {
            let Some(sequence) = row.link.next_stored() else {
                row.backlog = false;
                break;
            };
            sink.arrived(peer, self.incoming.message(index, self.link.slot(sequence)));
            told += 1;
        }
        self.counters.messages_received += u64::from(told);
        told
    }

    /// Queues a row for the sink.
    #[inline]
    pub(super) fn announce(&mut self, index: usize) {
        self.news.push(self.rows, index as u32);
    }

    /// A row's timers may have changed.
    #[inline]
    pub(super) fn note(&mut self, index: usize) {
        if let Some(row) = self.rows.get(index) {
            self.timers.note(row.deadline());
        }
    }

    /// Acts on what a handshake has come to.
    pub(super) fn settle(&mut self, index: usize, event: HandshakeEvent) {
        match event {
            HandshakeEvent::Opened(opened) => {
                let Some(row) = self.rows.get_mut(index) else { return };
                row.link = Link::open(&self.link, opened.ends, self.now);
                self.counters.opened += 1;
                if row.waiting {
                    self.announce(index);
                }
            }
            HandshakeEvent::Restarted(_) | HandshakeEvent::TimedOut => self.lose(index, Cause::PeerDead),
            HandshakeEvent::Refused(why) => {
                aldis_hal::debug!("{} and this rank do not fit: {}", self.peer(index), why);
                self.lose(index, Cause::Incompatible);
            }
        }
    }

    /// Ends every peer that there still is.
    #[cold]
    pub(super) fn lose_all(&mut self, cause: Cause) {
        for index in 0..self.rows.len() {
            if self.rows.get(index).is_some_and(|row| row.presence == PeerPresence::Known) {
                self.lose(index, cause);
            }
        }
    }

    /// Ends a peer; the loss is reported to the sink in the next poll, or later in this one.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, cause: Cause) {
        let Some(row) = self.rows.get_mut(index) else { return };
        row.connect.abandon();
        row.close(PeerPresence::Gone);
        row.lost = Some(cause);
        self.announce(index);
    }

    /// Looks at some rows' timers, if any has passed. Not while frames wait that the budget has
    /// left, for a while.
    #[inline]
    pub(super) fn expire(&mut self, drained: bool) {
        self.undrained = if drained { 0 } else { self.undrained + 1 };
        if !drained && self.undrained < POLLS_UNDRAINED_MAX {
            return;
        }
        self.undrained = 0;
        for index in self.timers.walk(self.now, self.rows.len()) {
            self.expire_row(index);
        }
    }

    fn expire_row(&mut self, index: usize) {
        let Some(row) = self.rows.get_mut(index) else { return };
        if row.deadline().is_some_and(|deadline| deadline <= self.now) {
            let event = row.connect.handle_timeout(self.now);
            let link = row.link.handle_timeout(&self.link, self.now);
            self.due.push(self.rows, index as u32);
            if let Some(event) = event {
                self.settle(index, event);
            } else if let Err(cause) = link {
                self.lose(index, cause);
            }
        }
        self.note(index);
    }

    /// The time at which the next poll is due for its own sake.
    pub(super) fn poll_at(&self) -> Instant {
        let at_once = self.news.len() != 0 || self.due.len() != 0 || self.posted.len() != 0;
        if at_once { self.now } else { self.timers.earliest() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.rows.iter().all(|row| row.link.is_idle())
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
