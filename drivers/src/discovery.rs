//! Ranks that find each other on the wire: a layer between a device and the
//! [`Ethernet`](crate::Ethernet) transport, as smoltcp stacks its devices.
//!
//! Where a launcher carries cards from rank to rank this is not needed. A board that boots alone
//! knows its rank, the job's size and key, and has a device; [`Discovery`] tells it the others'
//! cards, by the machine of [`protocols::discovery`](aldis_protocols::discovery): bounded in time
//! and in messages, and with a report that names who is missing. It is itself a [`Nic`]: it keeps
//! its own frames and passes all others on, so it goes on answering late ranks from within the
//! transport's polls for as long as there is a transport.
//!
//! # How a program uses it
//!
//! Device, discovery, transport, endpoint; announce the endpoint's card; poll until all cards are
//! there; connect. With an endpoint (of `aldis-kernel`, which this crate does not know) it reads:
//!
//! ```text
//! let me = PeerId(rank);
//! let setup = DiscoverySetup { job, rank, size, epoch, ..DiscoverySetup::DEFAULT };
//! let discovery = Discovery::new(nic, setup, &mut entries)?;
//! let config = Config::new(me, epoch, job, cost);
//! let ethernet = Ethernet::new(discovery, storage.memory(), config)?;
//! let config = kernel::Config { me, size, epoch };
//! let mut endpoint = Endpoint::new(memory, ethernet, platform, config)?;
//!
//! let mut card = endpoint.card();
//! card.address = Vec::from_slice(&endpoint.transport().address())?; // where this rank lives
//! let mut bytes = [0; CARD_BYTES_MAX];
//! let bytes = card.encode(&mut bytes)?;
//! endpoint.transport_mut().nic_mut().announce(bytes, platform.now())?;
//! // An error says which ranks are missing.
//! while !endpoint.transport_mut().nic_mut().poll(platform.now())? {}
//! while let Some(peer) = endpoint.transport_mut().nic_mut().news() {
//!     let card = endpoint.transport().nic().card(peer).map(Card::decode);
//!     if let Some(Ok(card)) = card { endpoint.connect(&card)?; }
//! }
//! ```
//!
//! The last loop can be run again at any time: a rank that boots anew shows up in
//! [`news`](Discovery::news) with its new card, and to connect to that is to start afresh with it.
//! It asks for a [`poll`](Discovery::poll) now and then, since time is given there alone.
//! `tests/tests/discovery.rs` of the repository is such a program.
//!
//! Without an endpoint, two ranks on one wire:
//!
//! ```
//! use std::{cell::RefCell, collections::VecDeque, rc::Rc};
//! use aldis_drivers::discovery::{Discovery, Entry, DiscoverySetup};
//! use aldis_hal::nic::{LinkState, Mac, Nic, RxFrame, TxFrame};
//! use aldis_hal::{Epoch, Instant, PeerId};
//!
//! /// One end of a cable.
//! type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;
//! struct End { mac: Mac, incoming: Queue, outgoing: Queue }
//! struct Received(Vec<u8>);
//! impl RxFrame for Received {
//!     fn bytes(&self) -> &[u8] { &self.0 }
//! }
//! struct Sending<'a>(&'a Queue, Vec<u8>);
//! impl TxFrame for Sending<'_> {
//!     fn bytes(&mut self) -> &mut [u8] { &mut self.1 }
//!     fn send(self) { self.0.borrow_mut().push_back(self.1) }
//! }
//! impl Nic for End {
//!     type Rx<'a> = Received;
//!     type Tx<'a> = Sending<'a>;
//!     fn receive(&mut self) -> Option<Received> {
//!         self.incoming.borrow_mut().pop_front().map(Received)
//!     }
//!     fn transmit(&mut self, len: usize) -> Option<Sending<'_>> {
//!         Some(Sending(&self.outgoing, vec![0; len]))
//!     }
//!     fn mtu(&self) -> usize { 1500 }
//!     fn mac(&self) -> Mac { self.mac }
//!     fn link(&self) -> LinkState { LinkState::Up }
//! }
//!
//! let (there, back) = (Queue::default(), Queue::default());
//! let [near, far] = [1, 2].map(|last| Mac([2, 0, 0, 0, 0, last]));
//! let near = End { mac: near, incoming: back.clone(), outgoing: there.clone() };
//! let far = End { mac: far, incoming: there, outgoing: back };
//! let setup = |rank| {
//!     let epoch = Epoch(71 + rank);
//!     DiscoverySetup { job: 0xA1D1, rank, size: 2, epoch, ..DiscoverySetup::DEFAULT }
//! };
//! let (mut ours, mut theirs) = ([Entry::EMPTY; 2], [Entry::EMPTY; 2]);
//! let mut zero = Discovery::new(near, setup(0), &mut ours)?;
//! let mut one = Discovery::new(far, setup(1), &mut theirs)?;
//! zero.announce(b"card of zero", Instant(0))?;
//! one.announce(b"card of one", Instant(0))?;
//! while !(zero.poll(Instant(1))? & one.poll(Instant(1))?) {}
//! assert_eq!((zero.news(), zero.card(PeerId(1))), (Some(PeerId(1)), Some(&b"card of one"[..])));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # On the wire
//!
//! The 16 bytes in front of every frame of the transport ([`header`](crate::ethernet::header)) with
//! the subtype 0xA2, and the message of discovery: 192 bytes at most. Or in UDP
//! ([`Discovery::framed`]), 224 bytes at most.
//!
//! # Limits
//!
//! An [`Entry`] of 152 bytes for each rank, lent by the caller. A [`receive`](Nic::receive) that
//! meets a frame of discovery's takes it and returns none, as if the device had no more: the
//! transport looks again in its next poll. So a station that floods the wire with such frames slows
//! the transport down to one look a frame.

use core::fmt;

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};
use aldis_hal::{Cause, Instant, Nic, PeerId};
use aldis_protocols::discovery::{MESSAGE_BYTES_MAX, REPLIES_MAX, Roster};

use crate::ethernet::header::DISCOVERY_SUBTYPE;
use crate::ethernet::transmit::fill;
use crate::ethernet::{Framing, Port, Station};

pub use aldis_protocols::discovery::{DiscoveryCounters, DiscoverySetup, Entry, Overdue, Refused};

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

/// Frames that one poll takes from the device at most.
const FRAMES_A_POLL: u32 = 32;

/// A device whose rank finds the others. See the [module](self).
pub struct Discovery<'m, N> {
    nic: N,
    roster: Roster<'m>,
    framing: Framing,
    port: Port,
    passed_over: u64,
}

impl<'m, N: Nic> Discovery<'m, N> {
    /// The rank of `setup` on its device; an entry of the caller's memory for each rank of the job.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] for fewer entries than ranks, [`Cause::RankOutOfRange`] for a rank
    /// outside the job, [`Cause::TooBig`] for a device whose frames do not hold a message; the rest
    /// as [`Roster::new`].
    pub fn new(nic: N, setup: DiscoverySetup, entries: &'m mut [Entry]) -> Result<Self, Cause> {
        let roster = Roster::new(setup, entries)?;
        let port = Port { station: Framing::Ethernet.station(nic.mac()), offload: nic.offload() };
        Self { nic, roster, framing: Framing::Ethernet, port, passed_over: 0 }.framed(Framing::Ethernet)
    }

    /// Sets another framing, as the transport above has it: with UDP its messages are datagrams to
    /// 255.255.255.255 on the transport's port.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a device whose frames do not hold a message.
    pub fn framed(self, framing: Framing) -> Result<Self, Cause> {
        let (need, max) = (framing.header_bytes() - MAC_HEADER_BYTES + MESSAGE_BYTES_MAX, self.nic.mtu());
        if need > max {
            return Err(Cause::TooBig { len: need as u64, max: max as u64 });
        }
        let port = Port { station: framing.station(self.port.station.mac), ..self.port };
        Ok(Self { framing, port, ..self })
    }

    /// This rank's card is `card`, and the search begins with a hello to all. Before that nothing
    /// is sent. Again, with the same card or another one, it begins a new search.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for more than [`CARD_BYTES_MAX`](aldis_protocols::card::CARD_BYTES_MAX)
    /// bytes.
    pub fn announce(&mut self, card: &[u8], now: Instant) -> Result<(), Cause> {
        self.roster.announce(card, now)?;
        self.flush();
        Ok(())
    }

    /// Goes on with the search; whether every rank's card is here. Until then it takes what the
    /// device has received, 32 frames at most, and drops what is not for discovery, as a lossy wire
    /// would: there is no connection yet. Once all cards are here the device is left to the
    /// transport, and a poll only sends what is due by now.
    ///
    /// # Errors
    /// [`Overdue`], again in every poll after the deadline until the last card comes or the rank is
    /// announced anew.
    pub fn poll(&mut self, now: Instant) -> Result<bool, Overdue> {
        self.roster.handle_timeout(now);
        self.flush();
        let mut left = FRAMES_A_POLL;
        while left != 0 && !self.roster.is_complete() && self.take_frame() {
            self.flush();
            left -= 1;
        }
        match self.roster.overdue() {
            None => Ok(self.roster.is_complete()),
            Some(report) => Err(report),
        }
    }

    /// Takes one frame from the device, whatever it is. False: there was none.
    fn take_frame(&mut self) -> bool {
        let Some(frame) = self.nic.receive() else { return false };
        if !receive_frame(&mut self.roster, self.framing, self.port, &frame) {
            self.passed_over = self.passed_over.wrapping_add(1);
        }
        true
    }

    /// Sends what is to be sent, as long as the device takes it.
    fn flush(&mut self) {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        for _ in 0..=REPLIES_MAX {
            let Some((to, message)) = self.roster.poll_transmit(&mut buffer) else { return };
            let len = self.framing.header_bytes() + message.len();
            let Some(mut token) = self.nic.transmit(len) else { return };
            // No rank's IPv4 address is known before its card is: the MAC says which is meant.
            let to = Station { mac: to, ..Station::ALL };
            let heading = self.framing.heading(DISCOVERY_SUBTYPE, to, self.port, [message, &[]]);
            fill(token.bytes(), [&heading, message]);
            token.send();
            self.roster.transmitted();
        }
    }

    /// The card of a rank, if it is here; this rank's own once it is announced.
    pub fn card(&self, peer: PeerId) -> Option<&[u8]> {
        self.roster.card(peer)
    }

    /// A rank whose card has come, or has been replaced by that of a new life, since this was last
    /// asked; each once for each change.
    pub fn news(&mut self) -> Option<PeerId> {
        self.roster.news()
    }

    /// The ranks whose cards are not here, in order.
    pub fn missing(&self) -> impl Iterator<Item = PeerId> {
        self.roster.missing().map(PeerId)
    }

    /// The time at which [`poll`](Self::poll) is to be called next at the latest, if no frame comes
    /// before; [`Instant::NEVER`] while there is nothing to wait for.
    pub fn poll_at(&self) -> Instant {
        self.roster.poll_timeout().unwrap_or(Instant::NEVER)
    }

    /// Returns the counters of what was seen and refused.
    pub const fn counters(&self) -> &DiscoveryCounters {
        self.roster.counters()
    }

    /// Frames of others that were dropped while the search went on.
    pub const fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The device.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The device, for what it needs besides frames.
    pub const fn nic_mut(&mut self) -> &mut N {
        &mut self.nic
    }
}

impl<N> fmt::Debug for Discovery<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { roster, port, .. } = self;
        f.debug_struct("Discovery").field("roster", roster).field("port", port).finish_non_exhaustive()
    }
}

/// Takes a frame if it is one of discovery's. Returns true if so.
fn receive_frame(roster: &mut Roster<'_>, framing: Framing, port: Port, frame: &impl RxFrame) -> bool {
    let port = Port { offload: port.offload | frame.checked(), ..port };
    match framing.parse(DISCOVERY_SUBTYPE, frame.bytes(), port, true) {
        Ok((from, message)) => {
            roster.handle(from.mac, message);
            true
        }
        Err(_) => false,
    }
}

impl<N: Nic> Nic for Discovery<'_, N> {
    type Rx<'a>
        = N::Rx<'a>
    where
        Self: 'a;
    type Tx<'a>
        = N::Tx<'a>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<N::Rx<'_>> {
        self.flush();
        let Self { nic, roster, framing, port, .. } = self;
        let frame = nic.receive()?;
        if receive_frame(roster, *framing, *port, &frame) { None } else { Some(frame) }
    }

    fn transmit(&mut self, len: usize) -> Option<N::Tx<'_>> {
        self.nic.transmit(len)
    }

    #[inline]
    fn flush(&mut self) {
        self.nic.flush();
    }

    fn mtu(&self) -> usize {
        self.nic.mtu()
    }

    fn mac(&self) -> Mac {
        self.port.station.mac
    }

    fn link(&self) -> LinkState {
        self.nic.link()
    }

    fn offload(&self) -> Offload {
        self.nic.offload()
    }
}
