//! The machine of one rank.

use core::fmt;

use aldis_hal::cause::Malformed;
use aldis_hal::nic::Mac;
use aldis_hal::{Cause, Epoch, Instant, PeerId, Resource};
use heapless::Deque;

use super::entry::Entry;
use super::report::DiscoveryRefusal;
use super::{Asked, DiscoveryCounters, DiscoveryKind, Message, Overdue};
use crate::card::CARD_BYTES_MAX;
use crate::timer::Timer;

/// Messages to one station that can wait to be sent; each is one that a message which came has
/// called for.
pub const REPLIES_MAX: usize = 16;

/// The address that all stations take.
const BROADCAST: Mac = Mac([0xFF; 6]);
/// The most doublings of the interval between hellos.
const DOUBLINGS_MAX: u8 = 16;

/// The identity of this side, and how long it searches. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DiscoverySetup {
    /// The key of the job: messages of another are refused.
    pub job: u64,
    /// This side's rank.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// This side's life.
    pub epoch: Epoch,
    /// The time after which the first hello is repeated; at least 1.
    pub retry_first_ns: u64,
    /// The longest interval between hellos.
    pub retry_max_ns: u64,
    /// The longest time that a search may take.
    pub deadline_ns: u64,
}

impl DiscoverySetup {
    /// For a local network: repeated after 10 ms to 1 s, given up after 20 s. Job, rank, size and
    /// epoch are to be filled in.
    pub const DEFAULT: Self = Self {
        job: 0,
        rank: 0,
        size: 0,
        epoch: Epoch(0),
        retry_first_ns: 10_000_000,
        retry_max_ns: 1_000_000_000,
        deadline_ns: 20_000_000_000,
    };
}

/// A message for one station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reply {
    /// The answer to the hello with this number.
    Here { to: Mac, number: u32 },
    /// A hello with this number, that asks one rank.
    Ask { to: Mac, rank: u32, number: u32 },
}

/// The cards of all ranks, as far as they are known. See the [module](super) for how it is driven:
/// messages come ([`handle`](Self::handle)), time passes ([`handle_timeout`](Self::handle_timeout)
/// at [`poll_timeout`](Self::poll_timeout)), and after either:
/// [`poll_transmit`](Self::poll_transmit), send, [`transmitted`](Self::transmitted), until there is
/// nothing more.
pub struct Roster<'m> {
    setup: DiscoverySetup,
    entries: &'m mut [Entry],
    /// Ranks whose card is here, this side's own included.
    known: u32,
    /// Ranks of whom another card than the known one was seen, and who have not said yet which is
    /// theirs.
    doubted: u32,
    /// Cards that have not been reported to the user.
    news: u32,
    /// The number of the last hello; never zero.
    number: u32,
    /// The rank with which the next hello begins to ask.
    window: u32,
    /// A schedule is to begin when the time is known.
    begins: bool,
    /// A hello is to be sent.
    due: bool,
    overdue: bool,
    doublings: u8,
    now: Instant,
    retry: Timer,
    deadline: Timer,
    replies: Deque<Reply, REPLIES_MAX>,
    counters: DiscoveryCounters,
}

impl<'m> Roster<'m> {
    /// A roster that knows no station, in the caller's memory: an entry for each rank.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] for fewer entries than ranks, [`Cause::RankOutOfRange`] for a rank
    /// outside the job, [`Cause::Incompatible`] for an epoch of zero.
    pub fn new(setup: DiscoverySetup, entries: &'m mut [Entry]) -> Result<Self, Cause> {
        let DiscoverySetup { rank, size, epoch, .. } = setup;
        let have = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let Some(entries) = entries.get_mut(..size as usize) else {
            return Err(Cause::TooSmall { what: Resource::Peers, need: size, have });
        };
        if rank >= size {
            return Err(Cause::RankOutOfRange { rank, size });
        }
        if epoch == Epoch(0) {
            return Err(Cause::Incompatible);
        }
        entries.fill(Entry::EMPTY);
        Ok(Self {
            setup,
            entries,
            known: 0,
            doubted: 0,
            news: 0,
            // Another life's numbers begin elsewhere.
            number: epoch.0.wrapping_mul(0x9E37_79B1).max(1),
            window: 0,
            begins: false,
            due: false,
            overdue: false,
            doublings: 0,
            now: Instant(0),
            retry: Timer::OFF,
            deadline: Timer::OFF,
            replies: Deque::new(),
            counters: DiscoveryCounters::default(),
        })
    }

    /// This side's card is `card`: a search begins, or begins anew, with a hello. Before that
    /// nothing is sent.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a card longer than [`CARD_BYTES_MAX`].
    pub fn announce(&mut self, card: &[u8], now: Instant) -> Result<(), Cause> {
        if card.len() > CARD_BYTES_MAX {
            return Err(Cause::TooBig { len: card.len() as u64, max: CARD_BYTES_MAX as u64 });
        }
        let DiscoverySetup { rank, epoch, .. } = self.setup;
        let Some(mine) = self.entries.get_mut(rank as usize) else { return Err(Cause::Unreachable) };
        self.known += u32::from(!mine.is_known());
        mine.learn(Mac([0; 6]), epoch, card);
        mine.news = false;
        self.search(now);
        (self.due, self.doublings) = (self.setup.size > 1, 0);
        Ok(())
    }

    /// The schedule begins anew, and its first message was sent.
    fn search(&mut self, now: Instant) {
        let DiscoverySetup { retry_first_ns, deadline_ns, .. } = self.setup;
        (self.now, self.begins, self.doublings, self.overdue) = (now, false, 1, false);
        self.retry.set(now, retry_first_ns);
        self.deadline.set(now, deadline_ns);
    }

    /// Takes a message that came from `from`.
    pub fn handle(&mut self, from: Mac, bytes: &[u8]) {
        self.counters.received = self.counters.received.wrapping_add(1);
        let admitted = Message::decode(bytes).map_err(DiscoveryRefusal::Malformed);
        match admitted.and_then(|message| self.admit(from, message)) {
            Ok(Some(message)) => self.take(from, &message),
            Ok(None) => self.counters.own = self.counters.own.wrapping_add(1),
            Err(why) => self.counters.refused.count(why),
        }
    }

    /// The message, unless it is this side's own or is refused.
    fn admit<'c>(&self, from: Mac, message: Message<'c>) -> Result<Option<Message<'c>>, DiscoveryRefusal> {
        let DiscoverySetup { job, rank, size, epoch, .. } = self.setup;
        if from.0.first().is_none_or(|first| first & 1 == 1) {
            return Err(DiscoveryRefusal::Malformed(Malformed::Envelope));
        }
        if message.job != job {
            return Err(DiscoveryRefusal::Job);
        }
        if message.size != size {
            return Err(DiscoveryRefusal::Size);
        }
        if message.rank == rank {
            return if message.epoch == epoch { Ok(None) } else { Err(DiscoveryRefusal::Claimed) };
        }
        match self.entries.get(message.rank as usize) {
            Some(entry) if entry.is_known() && entry.station != from => Err(DiscoveryRefusal::Claimed),
            Some(entry) if entry.has_replaced(message.epoch) => Err(DiscoveryRefusal::Stale),
            _ => Ok(Some(message)),
        }
    }

    fn take(&mut self, from: Mac, message: &Message<'_>) {
        let Message { rank, epoch, number, card, .. } = *message;
        let newest = self.number;
        let Some(entry) = self.entries.get_mut(rank as usize) else { return };
        let since = entry.challenge;
        let proven = since != 0
            && message.kind == DiscoveryKind::Here
            && number.wrapping_sub(since) <= newest.wrapping_sub(since);
        if entry.holds(message) {
            if proven {
                entry.challenge = 0;
                self.doubted -= 1;
            }
        } else if !entry.is_known() || proven {
            self.known += u32::from(!entry.is_known());
            self.news += u32::from(!entry.news);
            self.counters.replaced += u64::from(entry.is_known());
            self.doubted -= u32::from(proven);
            entry.learn(from, epoch, card);
        } else {
            self.challenge(from, rank);
        }
        if let DiscoveryKind::Hello(asked) = message.kind
            && asked.includes(self.setup.rank)
        {
            self.reply(Reply::Here { to: from, number });
        }
    }

    /// Another card than the known one was seen: asks the rank itself, and again with every hello
    /// until it answers.
    fn challenge(&mut self, to: Mac, rank: u32) {
        self.begins |= !self.is_searching();
        let number = self.next_number();
        let Some(entry) = self.entries.get_mut(rank as usize) else { return };
        if entry.challenge == 0 {
            entry.challenge = number;
            self.doubted += 1;
        }
        if self.reply(Reply::Ask { to, rank, number }) {
            self.number = number;
        }
    }

    /// Queues a reply. Returns true if there was room for it, and a card to put into it.
    fn reply(&mut self, reply: Reply) -> bool {
        let queued = self.is_announced() && self.replies.push_back(reply).is_ok();
        self.counters.dropped += u64::from(!queued);
        queued
    }

    const fn next_number(&self) -> u32 {
        match self.number.wrapping_add(1) {
            0 => 1,
            number => number,
        }
    }

    fn is_announced(&self) -> bool {
        self.entries.get(self.setup.rank as usize).is_some_and(Entry::is_known)
    }

    /// Takes `now` as the time: no other call but [`announce`](Self::announce) knows it. Afterwards
    /// every timer lies later.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if core::mem::take(&mut self.begins) {
            self.search(now);
        }
        if !self.is_searching() {
            (self.retry, self.deadline) = (Timer::OFF, Timer::OFF);
        } else if self.deadline.fire(now) {
            (self.overdue, self.due, self.retry) = (true, false, Timer::OFF);
        } else if self.retry.fire(now) {
            self.due = true;
        }
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.begins {
            return Some(self.now);
        }
        if self.is_searching() { Timer::earliest([self.retry, self.deadline]) } else { None }
    }

    /// The next message to be sent, written to `buffer`, and where to. It stays the next one until
    /// it was [`transmitted`](Self::transmitted). [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX)
    /// bytes are always enough.
    #[must_use]
    pub fn poll_transmit<'b>(&self, buffer: &'b mut [u8]) -> Option<(Mac, &'b [u8])> {
        let DiscoverySetup { job, rank, size, epoch, .. } = self.setup;
        let (to, kind, number) = match self.replies.front() {
            Some(&Reply::Here { to, number }) => (to, DiscoveryKind::Here, number),
            Some(&Reply::Ask { to, rank, number }) => {
                (to, DiscoveryKind::Hello(Asked { first: rank, ranks: 1 }), number)
            }
            None if self.due => (BROADCAST, DiscoveryKind::Hello(self.asked()), self.next_number()),
            None => return None,
        };
        let card = self.card(PeerId(rank))?;
        let bytes = Message { kind, job, size, rank, epoch, number, card }.encode(buffer)?;
        Some((to, bytes))
    }

    /// The message of [`poll_transmit`](Self::poll_transmit) is on its way.
    pub fn transmitted(&mut self) {
        match self.replies.pop_front() {
            Some(Reply::Here { .. }) => self.counters.answers = self.counters.answers.wrapping_add(1),
            Some(Reply::Ask { .. }) => self.counters.hellos = self.counters.hellos.wrapping_add(1),
            None if self.due => self.said_hello(),
            None => {}
        }
    }

    fn said_hello(&mut self) {
        self.counters.hellos = self.counters.hellos.wrapping_add(1);
        self.due = false;
        self.number = self.next_number();
        self.window = self.asked().first.saturating_add(u64::BITS);
        let DiscoverySetup { retry_first_ns, retry_max_ns, .. } = self.setup;
        let interval = retry_first_ns.saturating_mul(1 << self.doublings).min(retry_max_ns).max(1);
        self.doublings = self.doublings.saturating_add(1).min(DOUBLINGS_MAX);
        self.retry.set(self.now, interval);
    }

    /// Returns true if a card is missing, in doubt, or late.
    const fn is_searching(&self) -> bool {
        !self.is_complete() || (self.doubted != 0 && !self.overdue)
    }

    /// The ranks that the next hello asks: those that are missing or in doubt, from the window on
    /// if there are any.
    fn asked(&self) -> Asked {
        let wanted = || self.ranks(|entry| !entry.is_known() || entry.challenge != 0);
        let first = wanted().find(|rank| *rank >= self.window).or_else(|| wanted().next()).unwrap_or(0);
        let near = wanted().filter_map(|rank| rank.checked_sub(first)).filter(|bit| *bit < u64::BITS);
        Asked { first, ranks: near.fold(0, |ranks, bit| ranks | 1 << bit) }
    }

    /// The ranks whose cards are not here, in order. This side's own is one until it is announced.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        self.ranks(|entry| !entry.is_known())
    }

    fn ranks(&self, which: fn(&Entry) -> bool) -> impl Iterator<Item = u32> {
        (0..).zip(self.entries.iter()).filter(move |(_, entry)| which(entry)).map(|(rank, _)| rank)
    }

    /// Returns true if every rank's card is here.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.known == self.setup.size
    }

    /// The report of a search that is past its deadline and not complete.
    #[must_use]
    pub fn overdue(&self) -> Option<Overdue> {
        (self.overdue && !self.is_complete()).then(|| Overdue {
            named: self.missing().take(super::NAMED_MAX).collect(),
            missing: self.setup.size.saturating_sub(self.known),
            size: self.setup.size,
            after_ns: self.setup.deadline_ns,
            refused: self.counters.refused,
        })
    }

    /// A rank whose card is here, or has been replaced, since this was last asked; each once for
    /// each change. Its new card is for the caller to connect by.
    pub fn news(&mut self) -> Option<PeerId> {
        if self.news == 0 {
            return None;
        }
        let (rank, entry) = (0..).zip(self.entries.iter_mut()).find(|(_, entry)| entry.news)?;
        entry.news = false;
        self.news -= 1;
        Some(PeerId(rank))
    }

    /// The card of a rank, if it is here.
    #[must_use]
    pub fn card(&self, peer: PeerId) -> Option<&[u8]> {
        self.entries.get(peer.index())?.card()
    }

    /// The life that a rank's card is of.
    #[must_use]
    pub fn epoch(&self, peer: PeerId) -> Option<Epoch> {
        self.entries.get(peer.index()).filter(|entry| entry.is_known()).map(|entry| Epoch(entry.epoch))
    }

    /// Returns the identity and times of this side.
    #[must_use]
    pub const fn setup(&self) -> &DiscoverySetup {
        &self.setup
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> &DiscoveryCounters {
        &self.counters
    }
}

impl fmt::Debug for Roster<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster")
            .field("setup", &self.setup)
            .field("known", &self.known)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
