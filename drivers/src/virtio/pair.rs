//! A pair of queues and their buffers as a `Nic`: the whole card, or one of several pairs.

use core::fmt;
use core::sync::atomic::{Ordering, fence};

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic, Resource};
use virtio_drivers::PAGE_SIZE;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;

use super::arena::LentFrame;
use super::checksum::{self, PLAIN};
use super::frames::{BufferUse, Frames, stride};
use super::negotiation::{self, Features, Negotiated, negotiate};
use super::reset::ResetTransport;

/// Bytes of the longest frame, so that a length with its header fits into any counter of the queue.
pub const FRAME_BYTES_MAX: usize = 65_536;

/// Bytes of a queue's own memory: descriptors and available ring, then used ring, each in pages of
/// its own (2.7).
pub(super) const fn queue_bytes(queue: usize) -> usize {
    let (descriptors, available, used) = (16 * queue, 6 + 2 * queue, 6 + 8 * queue);
    (descriptors + available).next_multiple_of(PAGE_SIZE) + used.next_multiple_of(PAGE_SIZE)
}

/// Bytes that a card takes of the memory [lent](super::lend), wherever that begins: two queues of
/// `queue` descriptors, and a buffer for a frame of `frame_bytes` for each.
///
/// ```
/// assert!(aldis_drivers::virtio::bytes_needed(16, 1514) <= 72 * 1024);
/// ```
pub const fn bytes_needed(queue: usize, frame_bytes: usize) -> usize {
    pair_bytes(queue, frame_bytes) + 2 * PAGE_SIZE
}

/// Bytes of a pair of queues and its buffers, but for those that alignment takes.
pub(super) const fn pair_bytes(queue: usize, frame_bytes: usize) -> usize {
    2 * (queue_bytes(queue) + queue * stride(frame_bytes))
}

/// Counters of a card. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct VirtioCounters {
    /// Frames handed up.
    pub received: u64,
    /// Frames given to the device.
    pub sent: u64,
    /// Frames that the device cannot have written as it says: shorter than a header, or longer than
    /// the buffer.
    pub bad_lengths: u64,
    /// Frames whose header says what was not agreed upon, or names bytes outside of the frame.
    pub bad_headers: u64,
    /// Buffers that the device gave back and did not hold: one, since it is left alone then.
    pub bad_tokens: u64,
}

/// The registers of a device as the owner of a pair of queues reaches them.
pub trait PairRegisters: sealed::Sealed {
    /// Tells the device of new buffers in a queue.
    #[doc(hidden)]
    fn notify(&mut self, queue: u16);
    /// Returns true if the device says that its link is up.
    #[doc(hidden)]
    fn is_link_up(&self) -> bool;
}

pub(super) mod sealed {
    /// Keeps registers to those of this driver.
    #[allow(unnameable_types, reason = "nothing else is to implement it")]
    pub trait Sealed {}
}

/// The registers of a card with a single pair of queues, all of which are its owner's. Dropped, the
/// device is reset.
pub struct OwnRegisters<T: Transport>(ResetTransport<T>);

impl<T: Transport> sealed::Sealed for OwnRegisters<T> {}

impl<T: Transport> PairRegisters for OwnRegisters<T> {
    #[inline]
    fn notify(&mut self, queue: u16) {
        if let Some(transport) = self.0.get_mut() {
            transport.notify(queue);
        }
    }

    fn is_link_up(&self) -> bool {
        self.0.get().is_some_and(negotiation::is_link_up)
    }
}

impl<T: Transport> fmt::Debug for OwnRegisters<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnRegisters").finish_non_exhaustive()
    }
}

/// A pair of queues with their buffers, before it is known who notifies the device of them.
pub(super) struct QueuePair<const QUEUE: usize> {
    incoming: VirtQueue<LentFrame, QUEUE>,
    outgoing: VirtQueue<LentFrame, QUEUE>,
    rx: Frames<QUEUE>,
    tx: Frames<QUEUE>,
    /// The number of the queue of received frames; that of frames to be sent follows.
    index: u16,
    mac: Mac,
    mtu: usize,
    features: Features,
    /// The device has broken the rules.
    broken: bool,
    counters: VirtioCounters,
}

impl<const QUEUE: usize> QueuePair<QUEUE> {
    /// The pair of this number, of a device that is being started.
    pub(super) fn new<T: Transport>(
        transport: &mut T,
        number: u16,
        agreed: &Negotiated,
        frame_bytes: usize,
    ) -> Result<Self, Cause> {
        let index = number.checked_mul(2).filter(|index| *index < u16::MAX).ok_or(Cause::Device)?;
        let outgoing = queue(transport, index + 1)?;
        let incoming = queue(transport, index)?;
        let [rx, tx] = [(); 2].map(|()| Frames::new(frame_bytes, agreed.is_legacy()));
        let (rx, tx, counters) = (rx?, tx?, VirtioCounters::default());
        let &Negotiated { features, mac, mtu } = agreed;
        Ok(Self { incoming, outgoing, rx, tx, index, mac, mtu, features, broken: false, counters })
    }

    /// Gives the device all buffers for frames that come: once it has been started.
    pub(super) fn fill<T: Transport>(&mut self, transport: &mut T) {
        while let Some(buffer) = self.rx.pop() {
            if !self.rx.give(&mut self.incoming, buffer, BufferUse::Write) {
                break;
            }
        }
        kick(&self.incoming, transport, self.index);
    }
}

/// A pair of queues of a virtio network device, polled; `QUEUE` descriptors, a power of two, in
/// each direction. See the [module](super).
pub struct VirtioCard<R: PairRegisters, const QUEUE: usize> {
    registers: R,
    pair: QueuePair<QUEUE>,
}

/// A virtio network device with a single pair of queues.
pub type VirtioNet<T, const QUEUE: usize> = VirtioCard<OwnRegisters<T>, QUEUE>;

impl<T: Transport, const QUEUE: usize> VirtioNet<T, QUEUE> {
    /// Resets and starts the device, whose frames are at most `frame_bytes` long: 1514 is an MTU
    /// of 1500. If the device tells an MTU, that is the limit where it is lower.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for another kind of device, or one that has no address of its own;
    /// [`Cause::Incompatible`] for one that goes past the IOMMU whose addresses it would be given;
    /// [`Cause::TooBig`] for a queue longer than the device's, or frames above 64 KiB;
    /// [`Cause::Full`] with [`Resource::DeviceMemory`] when the memory lent does not suffice;
    /// [`Cause::Device`] for a device that refuses.
    pub fn new(transport: T, frame_bytes: usize) -> Result<Self, Cause> {
        Self::start(transport, frame_bytes, Features::PLAIN)
    }

    /// Starts the device like [`new`](Self::new), and leaves checksums to it as far as it
    /// [offers](Nic::offload) that. See the [module](super#checksums) for where that is of use.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_checksums(transport: T, frame_bytes: usize) -> Result<Self, Cause> {
        Self::start(transport, frame_bytes, Features::PLAIN | Features::CHECKSUMS)
    }

    fn start(transport: T, frame_bytes: usize, wanted: Features) -> Result<Self, Cause> {
        let mut registers = ResetTransport::new(transport);
        let transport = registers.get_mut().ok_or(Cause::Device)?;
        let agreed = negotiate(transport, frame_bytes, wanted)?;
        let mut pair = QueuePair::new(transport, 0, &agreed, frame_bytes)?;
        transport.finish_init();
        pair.fill(transport);
        Ok(Self::joined(OwnRegisters(registers), pair))
    }
}

impl<R: PairRegisters, const QUEUE: usize> VirtioCard<R, QUEUE> {
    /// A pair and the registers of its device.
    pub(super) const fn joined(registers: R, pair: QueuePair<QUEUE>) -> Self {
        Self { registers, pair }
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &VirtioCounters {
        &self.pair.counters
    }

    /// The next frame that the device has written: its buffer, its length, and the checksums that
    /// need not be computed.
    fn take_in(&mut self) -> Option<FilledBuffer> {
        for _ in 0..QUEUE {
            if self.pair.broken {
                return None;
            }
            let taken = self.pair.rx.taken(&mut self.pair.incoming, true);
            let (buffer, written) = self.judge(taken)?;
            let QueuePair { rx, counters, features, .. } = &mut self.pair;
            let Some(len) = rx.frame_len(written) else {
                counters.bad_lengths = counters.bad_lengths.wrapping_add(1);
                self.give_back(buffer);
                continue;
            };
            let checked = if features.contains(Features::GUEST_CHECKSUM) {
                rx.received(buffer, len)
                    .map_or(Ok(Offload::empty()), |(header, frame)| checksum::take(header, frame))
            } else {
                Ok(Offload::empty())
            };
            if let Ok(checked) = checked {
                counters.received = counters.received.wrapping_add(1);
                return Some(FilledBuffer { buffer, len, checked });
            }
            counters.bad_headers = counters.bad_headers.wrapping_add(1);
            self.give_back(buffer);
        }
        None
    }

    /// Returns what the device has given back, if it keeps to the rules.
    fn judge(&mut self, taken: Result<Option<(u16, u32)>, Cause>) -> Option<(u16, u32)> {
        if taken.is_err() {
            self.pair.broken = true;
            self.pair.counters.bad_tokens = self.pair.counters.bad_tokens.wrapping_add(1);
        }
        taken.ok().flatten()
    }

    /// The device may write to a buffer again.
    fn give_back(&mut self, buffer: u16) {
        self.pair.rx.give(&mut self.pair.incoming, buffer, BufferUse::Write);
        ring(&self.pair.incoming, &mut self.registers, self.pair.index);
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        for _ in 0..QUEUE {
            if self.pair.broken {
                return;
            }
            let taken = self.pair.tx.taken(&mut self.pair.outgoing, false);
            let Some((buffer, _)) = self.judge(taken) else { return };
            self.pair.tx.push(buffer);
        }
    }
}

/// A received frame in its buffer.
struct FilledBuffer {
    buffer: u16,
    len: usize,
    checked: Offload,
}

/// A queue that asks for no interrupts.
pub(super) fn queue<T: Transport, const QUEUE: usize>(
    transport: &mut T,
    index: u16,
) -> Result<VirtQueue<LentFrame, QUEUE>, Cause> {
    let max = transport.max_queue_size(index);
    if (max as usize) < QUEUE {
        return Err(Cause::TooBig { len: QUEUE as u64, max: u64::from(max) });
    }
    let queue = VirtQueue::new(transport, index, false, false);
    let mut queue = queue.map_err(|error| match error {
        virtio_drivers::Error::DmaError => Cause::Full(Resource::DeviceMemory),
        _ => Cause::Device,
    })?;
    queue.set_dev_notify(false);
    Ok(queue)
}

/// Notifies the device of new buffers, if it wants to be notified.
pub(super) fn kick<T: Transport, const QUEUE: usize>(
    queue: &VirtQueue<LentFrame, QUEUE>,
    transport: &mut T,
    index: u16,
) {
    if wants_notice(queue) {
        transport.notify(index);
    }
}

/// Notifies the device like [`kick`], by the registers of a pair.
#[inline]
fn ring<R: PairRegisters, const QUEUE: usize>(
    queue: &VirtQueue<LentFrame, QUEUE>,
    registers: &mut R,
    index: u16,
) {
    if wants_notice(queue) {
        registers.notify(index);
    }
}

/// Returns true if the device wants to be notified of what was just added.
fn wants_notice<const QUEUE: usize>(queue: &VirtQueue<LentFrame, QUEUE>) -> bool {
    // The index of the available ring must be seen before the device's wish is read (2.7.13.4.1),
    // or it could fall asleep in between and never be notified of the buffer.
    fence(Ordering::SeqCst);
    queue.should_notify()
}

impl<R: PairRegisters, const QUEUE: usize> Nic for VirtioCard<R, QUEUE> {
    type Rx<'a>
        = VirtioRx<'a, R, QUEUE>
    where
        Self: 'a;
    type Tx<'a>
        = VirtioTx<'a, R, QUEUE>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<VirtioRx<'_, R, QUEUE>> {
        let arrival = self.take_in()?;
        Some(VirtioRx { card: self, arrival })
    }

    fn transmit(&mut self, len: usize) -> Option<VirtioTx<'_, R, QUEUE>> {
        self.reclaim();
        let pair = &mut self.pair;
        if pair.broken || len > (pair.mtu + MAC_HEADER_BYTES).min(pair.tx.frame_bytes()) {
            return None;
        }
        let buffer = pair.tx.pop()?;
        Some(VirtioTx { card: self, buffer, len, sent: false })
    }

    fn mtu(&self) -> usize {
        self.pair.mtu
    }

    fn mac(&self) -> Mac {
        self.pair.mac
    }

    /// Up, if the device does not tell; down for good once it has broken the rules.
    fn link(&self) -> LinkState {
        let tells = self.pair.features.contains(Features::STATUS);
        let up = !self.pair.broken && (!tells || self.registers.is_link_up());
        if up { LinkState::Up } else { LinkState::Down }
    }

    /// UDP's on transmit, if that was asked for and the device offers it.
    fn offload(&self) -> Offload {
        if self.pair.features.contains(Features::CHECKSUM) { Offload::UDP_TX } else { Offload::empty() }
    }
}

/// A received frame, where the device has written it. Dropped, its buffer is the device's again.
pub struct VirtioRx<'a, R: PairRegisters, const QUEUE: usize> {
    card: &'a mut VirtioCard<R, QUEUE>,
    arrival: FilledBuffer,
}

impl<R: PairRegisters, const QUEUE: usize> RxFrame for VirtioRx<'_, R, QUEUE> {
    fn bytes(&self) -> &[u8] {
        self.card.pair.rx.frame(self.arrival.buffer, self.arrival.len)
    }

    fn checked(&self) -> Offload {
        self.arrival.checked
    }
}

impl<R: PairRegisters, const QUEUE: usize> Drop for VirtioRx<'_, R, QUEUE> {
    fn drop(&mut self) {
        self.card.give_back(self.arrival.buffer);
    }
}

impl<R: PairRegisters, const QUEUE: usize> fmt::Debug for VirtioRx<'_, R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioRx").field("len", &self.arrival.len).finish_non_exhaustive()
    }
}

/// A frame to be filled, in the buffer that the device will read.
pub struct VirtioTx<'a, R: PairRegisters, const QUEUE: usize> {
    card: &'a mut VirtioCard<R, QUEUE>,
    buffer: u16,
    len: usize,
    sent: bool,
}

impl<R: PairRegisters, const QUEUE: usize> TxFrame for VirtioTx<'_, R, QUEUE> {
    fn bytes(&mut self) -> &mut [u8] {
        self.card.pair.tx.frame_mut(self.buffer, self.len)
    }

    fn send(mut self) {
        let VirtioCard { registers, pair } = &mut *self.card;
        let QueuePair { tx, outgoing, features, counters, index, .. } = pair;
        let leaves = features.contains(Features::CHECKSUM);
        let header = if leaves { checksum::leave(tx.frame_mut(self.buffer, self.len)) } else { PLAIN };
        if tx.give(outgoing, self.buffer, BufferUse::Read { len: self.len, header }) {
            counters.sent = counters.sent.wrapping_add(1);
            ring(outgoing, registers, *index + 1);
        }
        self.sent = true;
    }
}

impl<R: PairRegisters, const QUEUE: usize> Drop for VirtioTx<'_, R, QUEUE> {
    fn drop(&mut self) {
        if !self.sent {
            self.card.pair.tx.push(self.buffer);
        }
    }
}

impl<R: PairRegisters, const QUEUE: usize> fmt::Debug for VirtioTx<'_, R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioTx").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<R: PairRegisters, const QUEUE: usize> fmt::Debug for VirtioCard<R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueuePair { index, mac, mtu, broken, counters, .. } = &self.pair;
        f.debug_struct("VirtioCard")
            .field("pair", &(index / 2))
            .field("mac", mac)
            .field("mtu", mtu)
            .field("broken", broken)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}
