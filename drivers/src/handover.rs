//! Several endpoints on one card, a core each: a frame that has come by another endpoint's queue is
//! handed over.
//!
//! A card with several queues has a [`Nic`] for each, such as
//! [`VirtioPair`](crate::virtio::VirtioPair), which another core polls. Which queue a frame comes
//! by is the card's to choose. [`Steering`](crate::steering::Steering) makes it the queue of the
//! endpoint that the frame is for, where the card can tell; this layer sees to the rest: frames to
//! all, those without IPv4, and those of a card that chooses otherwise. It is a [`Nic`] above that
//! of a queue. Each endpoint has an [`address`] of its own, by which the layer tells whose a
//! frame is, and a mailbox, into which other endpoints copy what is for it. What endpoints of one
//! card send each other goes into mailboxes too, since no switch sends a frame back.
//!
//! ```
//! use aldis_drivers::handover::{HandoverNic, HandoverStorage, address};
//! use aldis_hal::nic::Mac;
//! # use aldis_hal::nic::{LinkState, Nic, RxFrame, TxFrame};
//! # struct Queue;
//! # impl Nic for Queue {
//! #     type Rx<'a> = &'static [u8];
//! #     type Tx<'a> = Sent;
//! #     fn receive(&mut self) -> Option<&'static [u8]> { None }
//! #     fn transmit(&mut self, len: usize) -> Option<Sent> { Some(Sent(vec![0; len])) }
//! #     fn mtu(&self) -> usize { 1500 }
//! #     fn mac(&self) -> Mac { Mac([2, 0, 0, 0, 0, 9]) }
//! #     fn link(&self) -> LinkState { LinkState::Up }
//! # }
//! # struct Sent(Vec<u8>);
//! # impl TxFrame for Sent {
//! #     fn bytes(&mut self) -> &mut [u8] { &mut self.0 }
//! #     fn send(self) {}
//! # }
//! # let queues = [Queue, Queue];
//!
//! /// Two endpoints, with room for 32 frames of up to 1514 bytes to each.
//! static HANDOVER: HandoverStorage<2, 32, 1514> = HandoverStorage::new();
//!
//! let [first, second] = queues;
//! let mut first = HandoverNic::new(first, 0, &HANDOVER).ok_or("no such endpoint")?;
//! // This one goes to another core.
//! let mut second = HandoverNic::new(second, 1, &HANDOVER).ok_or("no such endpoint")?;
//! assert_eq!(second.mac(), address(Mac([2, 0, 0, 0, 0, 9]), 1));
//!
//! let mut frame = first.transmit(20).ok_or("busy")?;
//! frame.bytes()[..6].copy_from_slice(&second.mac().0);
//! frame.send();
//! assert_eq!(second.receive().ok_or("nothing came")?.bytes().len(), 20);
//! # Ok::<(), &str>(())
//! ```
//!
//! # Limits
//!
//! The card has to take frames to the [`address`] of each: virtio-net does, and others are
//! told of them. An endpoint hands over no sooner than it is polled: a core that computes for long
//! keeps what has come by its queue. A mailbox that is full, or that another core has locked for
//! longer than a copy takes, loses the frame, as a wire would ([`HandoverCounters::lost`]). Frames
//! to an endpoint that has not been made yet, or is gone, are to nobody on the card
//! ([`HandoverCounters::foreign`]). A
//! [`receive`](Nic::receive) looks at one frame of the queue and one of the mailbox at most, and at
//! each of the two first in turn while both have some. If the queue's is another's, that is handed
//! over; none is returned if nothing waits in the mailbox then, though the queue may have more.
//!
//! # Checksums
//!
//! Frames between endpoints of one card are completed by no device. The receiver is told that a
//! checksum needs no look where the sender has [left](Nic::offload) it to the device, which shows:
//! the frame is of IPv4, and the checksum is zero. One that was computed, here or by whoever the
//! frame first came from, is left to the receiver to check; so is UDP's over IPv6, which may not
//! be zero (RFC 8200, 8.1).

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// The most endpoints of a card.
pub const ENDPOINTS_MAX: usize = 64;

/// Attempts to lock a mailbox: more than a copy of a frame takes.
const ATTEMPTS: u32 = 10_000;

/// The address of an endpoint of a card: the card's own for the first, and others of local
/// administration, told apart by six bits of the first byte.
pub const fn address(card: Mac, endpoint: usize) -> Mac {
    let Mac([first, b, c, d, e, f]) = card;
    let local = if endpoint == 0 { 0 } else { 2 };
    Mac([(first ^ ((endpoint % ENDPOINTS_MAX) << 2) as u8) | local, b, c, d, e, f])
}

/// A ring of frames.
struct HandedFrames<const SLOTS: usize, const BYTES: usize> {
    frames: [[u8; BYTES]; SLOTS],
    lengths: [u16; SLOTS],
    checked: [Offload; SLOTS],
    first: usize,
    count: usize,
}

/// The frames that others have for an endpoint.
struct Mailbox<const SLOTS: usize, const BYTES: usize> {
    ring: SpinMutex<HandedFrames<SLOTS, BYTES>>,
    /// Frames in it, so that an empty one is not locked to be looked at.
    waiting: AtomicU32,
    /// True while there is an endpoint that looks into it.
    is_open: AtomicBool,
}

impl<const SLOTS: usize, const BYTES: usize> Mailbox<SLOTS, BYTES> {
    /// An empty one.
    const fn new() -> Self {
        Self {
            ring: SpinMutex::new(HandedFrames {
                frames: [[0; BYTES]; SLOTS],
                lengths: [0; SLOTS],
                checked: [Offload::empty(); SLOTS],
                first: 0,
                count: 0,
            }),
            waiting: AtomicU32::new(0),
            is_open: AtomicBool::new(false),
        }
    }

    /// Opens it for its endpoint. False: it is another's.
    fn open(&self) -> bool {
        !self.is_open.swap(true, Ordering::AcqRel)
    }

    /// Closes it, since its endpoint is gone, and drops what waits in it.
    fn close(&self) {
        let ring = self.lock();
        self.is_open.store(false, Ordering::Release);
        if let Some(mut ring) = ring {
            ring.count = 0;
            self.waiting.store(0, Ordering::Release);
        }
    }

    /// Returns true if frames may be put in.
    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The ring, unless another core keeps it for longer than it should.
    fn lock(&self) -> Option<SpinMutexGuard<'_, HandedFrames<SLOTS, BYTES>>> {
        (0..ATTEMPTS).find_map(|_| {
            let ring = self.ring.try_lock();
            if ring.is_none() {
                core::hint::spin_loop();
            }
            ring
        })
    }

    /// Puts a copy of a frame in. False: there is no room, or it was closed meanwhile.
    fn put(&self, frame: &[u8], checked: Offload) -> bool {
        let Some(mut ring) = self.lock() else { return false };
        let ring = &mut *ring;
        if ring.count >= SLOTS || !self.is_open() {
            return false;
        }
        let slot = (ring.first + ring.count) % SLOTS;
        let place = ring.frames.get_mut(slot).and_then(|place| place.get_mut(..frame.len()));
        let (Some(place), Some(len), Some(judged), Ok(bytes)) =
            (place, ring.lengths.get_mut(slot), ring.checked.get_mut(slot), u16::try_from(frame.len()))
        else {
            return false;
        };
        place.copy_from_slice(frame);
        (*len, *judged) = (bytes, checked);
        ring.count += 1;
        self.waiting.store(ring.count as u32, Ordering::Release);
        true
    }

    /// Takes the first frame out: its length, and what the device has checked.
    fn take(&self, buffer: &mut [u8; BYTES]) -> Option<(usize, Offload)> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut ring = self.lock()?;
        let slot = ring.first;
        let (len, checked) = (usize::from(*ring.lengths.get(slot)?), *ring.checked.get(slot)?);
        let frame = ring.frames.get(slot)?.get(..len)?;
        buffer.get_mut(..len)?.copy_from_slice(frame);
        ring.first = (slot + 1) % SLOTS;
        ring.count = ring.count.saturating_sub(1);
        self.waiting.store(ring.count as u32, Ordering::Release);
        Some((len, checked))
    }
}

/// Mailboxes of the endpoints of a card, each with room for `SLOTS` frames of up to `BYTES`. All
/// cores have it.
pub struct HandoverStorage<const ENDPOINTS: usize, const SLOTS: usize, const BYTES: usize>(
    [Mailbox<SLOTS, BYTES>; ENDPOINTS],
);

impl<const ENDPOINTS: usize, const SLOTS: usize, const BYTES: usize>
    HandoverStorage<ENDPOINTS, SLOTS, BYTES>
{
    const IS_SOUND: () = assert!(
        ENDPOINTS <= ENDPOINTS_MAX && SLOTS > 0 && BYTES <= u16::MAX as usize,
        "a card has up to 64 endpoints, and a mailbox a slot for a frame of up to 65,535 bytes"
    );

    /// Empty mailboxes.
    pub const fn new() -> Self {
        let () = Self::IS_SOUND;
        Self([const { Mailbox::new() }; ENDPOINTS])
    }
}

impl<const ENDPOINTS: usize, const SLOTS: usize, const BYTES: usize> Default
    for HandoverStorage<ENDPOINTS, SLOTS, BYTES>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const ENDPOINTS: usize, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for HandoverStorage<ENDPOINTS, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.iter().map(|mailbox| mailbox.waiting.load(Ordering::Relaxed));
        f.write_str("HandoverStorage ")?;
        f.debug_list().entries(waiting).finish()
    }
}

/// Counters of an endpoint. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct HandoverCounters {
    /// Frames that came by this endpoint's own queue.
    pub own: u64,
    /// Frames that others have handed to it.
    pub taken: u64,
    /// Frames for others that came by its queue, and were handed to them.
    pub handed: u64,
    /// Frames that it sent to others of the card.
    pub exchanged: u64,
    /// Frames that were lost since a mailbox had no room.
    pub lost: u64,
    /// Frames to none of the card's endpoints that there are.
    pub foreign: u64,
}

/// An endpoint of a card on the queue that is its own. See the [module](self).
pub struct HandoverNic<'a, N, const SLOTS: usize, const BYTES: usize> {
    nic: N,
    number: usize,
    /// The card's own address.
    card: Mac,
    mailboxes: &'a [Mailbox<SLOTS, BYTES>],
    /// A frame that was handed over.
    buffer: [u8; BYTES],
    /// True after such a frame, so that the queue has its turn.
    is_queues_turn: bool,
    counters: HandoverCounters,
}

impl<'a, N: Nic, const SLOTS: usize, const BYTES: usize> HandoverNic<'a, N, SLOTS, BYTES> {
    /// The endpoint of this number on its queue, whose address is the card's. Each number is one
    /// endpoint's at a time: dropped, it gives it back. `None`: there is no mailbox of this number,
    /// or it is another's.
    pub fn new<const ENDPOINTS: usize>(
        nic: N,
        number: usize,
        storage: &'a HandoverStorage<ENDPOINTS, SLOTS, BYTES>,
    ) -> Option<Self> {
        let (card, mailboxes) = (nic.mac(), &storage.0);
        let is_taken = mailboxes.get(number)?.open();
        is_taken.then(|| Self {
            nic,
            number,
            card,
            mailboxes,
            buffer: [0; BYTES],
            is_queues_turn: false,
            counters: HandoverCounters::default(),
        })
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &HandoverCounters {
        &self.counters
    }

    /// The queue.
    pub const fn nic(&self) -> &N {
        &self.nic
    }
}

impl<N, const SLOTS: usize, const BYTES: usize> Drop for HandoverNic<'_, N, SLOTS, BYTES> {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailboxes.get(self.number) {
            mailbox.close();
        }
    }
}

/// The endpoints of a card, as one of them sees them.
struct Exchange<'a, const SLOTS: usize, const BYTES: usize> {
    number: usize,
    card: Mac,
    mailboxes: &'a [Mailbox<SLOTS, BYTES>],
    counters: &'a mut HandoverCounters,
}

/// The endpoints that a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Destination {
    /// That of this number.
    One(usize),
    /// All of them.
    All,
    /// None on this card.
    Elsewhere,
}

impl<const SLOTS: usize, const BYTES: usize> Exchange<'_, SLOTS, BYTES> {
    /// The destination of a frame, by its first six bytes.
    fn destination(&self, frame: &[u8]) -> Destination {
        let Some(&to @ [first, ..]) = frame.first_chunk::<6>() else { return Destination::Elsewhere };
        let Mac([own, ..]) = self.card;
        let endpoint = usize::from((first ^ own) >> 2);
        if first & 1 != 0 {
            Destination::All
        } else if self.mailboxes.get(endpoint).is_some_and(Mailbox::is_open)
            && address(self.card, endpoint) == Mac(to)
        {
            Destination::One(endpoint)
        } else {
            Destination::Elsewhere
        }
    }

    /// Copies a frame that has come into the mailboxes of the others that it is for. Returns true
    /// if it is for this endpoint too.
    fn deliver(&mut self, frame: &[u8], checked: Offload) -> bool {
        match self.destination(frame) {
            Destination::One(endpoint) if endpoint == self.number => true,
            Destination::One(endpoint) => {
                let handed = self.hand(endpoint..endpoint + 1, frame, checked);
                self.counters.handed = self.counters.handed.wrapping_add(handed);
                false
            }
            Destination::All => {
                let handed = self.hand(0..self.mailboxes.len(), frame, checked);
                self.counters.handed = self.counters.handed.wrapping_add(handed);
                true
            }
            Destination::Elsewhere => {
                self.counters.foreign = self.counters.foreign.wrapping_add(1);
                false
            }
        }
    }

    /// Copies a frame into the mailboxes of those of these endpoints that there are, but for this
    /// one: into how many.
    fn hand(&mut self, to: core::ops::Range<usize>, frame: &[u8], checked: Offload) -> u64 {
        let mut handed = 0;
        for endpoint in to.filter(|endpoint| *endpoint != self.number) {
            let Some(mailbox) = self.mailboxes.get(endpoint).filter(|mailbox| mailbox.is_open()) else {
                continue;
            };
            let has_room = mailbox.put(frame, checked);
            handed += u64::from(has_room);
            self.counters.lost = self.counters.lost.wrapping_add(u64::from(!has_room));
        }
        handed
    }
}

/// The next frame by an endpoint's own queue, if it is for it.
fn by_queue<'n, N: Nic, const SLOTS: usize, const BYTES: usize>(
    nic: &'n mut N,
    exchange: &mut Exchange<'_, SLOTS, BYTES>,
) -> Option<N::Rx<'n>> {
    let frame = nic.receive()?;
    let own = exchange.deliver(frame.bytes(), frame.checked());
    exchange.counters.own = exchange.counters.own.wrapping_add(u64::from(own));
    own.then_some(frame)
}

impl<N: Nic, const SLOTS: usize, const BYTES: usize> Nic for HandoverNic<'_, N, SLOTS, BYTES> {
    type Rx<'a>
        = HandoverRx<'a, N::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = HandoverTx<'a, N::Tx<'a>, SLOTS, BYTES>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        let Self { nic, number, card, mailboxes, buffer, is_queues_turn, counters } = self;
        let mailbox = mailboxes.get(*number);
        let mut exchange = Exchange { number: *number, card: *card, mailboxes, counters };
        let looks_at_queue_first = core::mem::take(is_queues_turn);
        let mut handed = None;
        if !looks_at_queue_first {
            handed = mailbox.and_then(|mailbox| mailbox.take(buffer));
        }
        if handed.is_none() {
            if let Some(frame) = by_queue(nic, &mut exchange) {
                return Some(HandoverRx::Own(frame));
            }
            if looks_at_queue_first {
                handed = mailbox.and_then(|mailbox| mailbox.take(buffer));
            }
        }
        let (len, checked) = handed?;
        *is_queues_turn = true;
        counters.taken = counters.taken.wrapping_add(1);
        Some(HandoverRx::Handed { bytes: buffer.get(..len).unwrap_or_default(), checked })
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        let Self { nic, number, card, mailboxes, counters, .. } = self;
        let offload = nic.offload();
        let frame = nic.transmit(len.min(BYTES)).filter(|_| len <= BYTES)?;
        let exchange = Exchange { number: *number, card: *card, mailboxes, counters };
        Some(HandoverTx { frame, exchange, offload })
    }

    fn mtu(&self) -> usize {
        self.nic.mtu().min(BYTES.saturating_sub(MAC_HEADER_BYTES))
    }

    fn mac(&self) -> Mac {
        address(self.card, self.number)
    }

    fn link(&self) -> LinkState {
        self.nic.link()
    }

    fn offload(&self) -> Offload {
        self.nic.offload()
    }
}

impl<N, const SLOTS: usize, const BYTES: usize> fmt::Debug for HandoverNic<'_, N, SLOTS, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, card, counters, .. } = self;
        f.debug_struct("HandoverNic")
            .field("number", number)
            .field("card", card)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// A received frame, where the card has it or where it was copied.
#[derive(Debug)]
pub enum HandoverRx<'a, F> {
    /// By the endpoint's own queue.
    Own(F),
    /// From another endpoint.
    Handed {
        /// The frame.
        bytes: &'a [u8],
        /// Checksums that the device has checked.
        checked: Offload,
    },
}

impl<F: RxFrame> RxFrame for HandoverRx<'_, F> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(frame) => frame.bytes(),
            Self::Handed { bytes, .. } => bytes,
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::Own(frame) => frame.checked(),
            Self::Handed { checked, .. } => *checked,
        }
    }
}

/// The checksums of a frame that its sender has left to a device with this `offload`, as those that
/// need no check: they are zero, and of IPv4 or of a whole datagram of UDP in it.
fn left_to_device(frame: &[u8], offload: Offload) -> Offload {
    let mut left = Offload::empty();
    let Some(([.., 8, 0], packet)) = frame.split_first_chunk::<MAC_HEADER_BYTES>() else { return left };
    let Some((ipv4, behind)) = packet.split_first_chunk::<20>() else { return left };
    let &[version_and_length, _, _, _, _, _, high, low, _, protocol, sum @ .., _, _, _, _, _, _, _, _] = ipv4;
    let is_ipv4 = version_and_length >> 4 == 4;
    left.set(Offload::IPV4_RX, is_ipv4 && sum == [0, 0] && offload.contains(Offload::IPV4_TX));
    // Without options UDP's header is where a device looks for it; a fragment may have none.
    let is_datagram = version_and_length == 0x45
        && protocol == 17
        && u16::from_be_bytes([high, low]) & 0x3FFF == 0
        && matches!(behind, [_, _, _, _, _, _, 0, 0, ..]);
    left.set(Offload::UDP_RX, is_datagram && offload.contains(Offload::UDP_TX));
    left
}

/// A frame to be filled, which goes out by the endpoint's own queue, or to others of the card.
pub struct HandoverTx<'a, F, const SLOTS: usize, const BYTES: usize> {
    frame: F,
    exchange: Exchange<'a, SLOTS, BYTES>,
    /// Checksums that may be left to the device.
    offload: Offload,
}

impl<F: TxFrame, const SLOTS: usize, const BYTES: usize> TxFrame for HandoverTx<'_, F, SLOTS, BYTES> {
    fn bytes(&mut self) -> &mut [u8] {
        self.frame.bytes()
    }

    fn send(self) {
        let Self { mut frame, mut exchange, offload } = self;
        let bytes: &[u8] = frame.bytes();
        // What the device would have computed nobody needs to check: no wire was in between.
        let checked = left_to_device(bytes, offload);
        let (to, goes_out) = match exchange.destination(bytes) {
            Destination::One(endpoint) if endpoint != exchange.number => (endpoint..endpoint + 1, false),
            Destination::All => (0..exchange.mailboxes.len(), true),
            _ => (0..0, true),
        };
        let exchanged = exchange.hand(to, bytes, checked);
        exchange.counters.exchanged = exchange.counters.exchanged.wrapping_add(exchanged);
        if goes_out {
            frame.send();
        }
    }
}

impl<F, const SLOTS: usize, const BYTES: usize> fmt::Debug for HandoverTx<'_, F, SLOTS, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoverTx").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
