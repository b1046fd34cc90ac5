//! The card: two queues and their buffers as a `Nic`.

use core::fmt;
use core::sync::atomic::{Ordering, fence};

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic, Resource};
use bitflags::bitflags;
use virtio_drivers::PAGE_SIZE;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::arena::{self, LentFrame};
use super::frames::{Frames, stride};

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

/// Bytes of the longest frame, so that a length with its header fits into any counter of the queue.
pub const FRAME_BYTES_MAX: usize = 65_536;

bitflags! {
    /// Features of the device (VIRTIO 1.2, 5.1.3 and 6) that this driver knows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Features: u64 {
        /// The device tells its MTU.
        const MTU = 1 << 3;
        /// The device tells its address.
        const MAC = 1 << 5;
        /// The device tells the state of the link.
        const STATUS = 1 << 16;
        /// The device is no legacy device.
        const VERSION_1 = 1 << 32;
        /// The device reaches memory as others on its bus do, by an IOMMU where there is one.
        const ACCESS_PLATFORM = 1 << 33;
    }
}

/// The offsets of the fields of the device's configuration (5.1.4), all little-endian.
const MAC_AT: usize = 0;
const STATUS_AT: usize = 6;
const MTU_AT: usize = 10;
/// The link is up.
const LINK_UP: u16 = 1;

/// Bytes of a queue's own memory: descriptors and available ring, then used ring, each in pages of
/// its own (2.7).
const fn queue_bytes(queue: usize) -> usize {
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
    2 * (queue_bytes(queue) + queue * stride(frame_bytes)) + 2 * PAGE_SIZE
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
    /// Buffers that the device gave back and did not hold: one, since it is left alone then.
    pub bad_tokens: u64,
}

/// A virtio network device, polled; `QUEUE` descriptors, a power of two, in each direction. See the
/// [module](super).
pub struct VirtioNet<T: Transport, const QUEUE: usize> {
    transport: T,
    incoming: VirtQueue<LentFrame, QUEUE>,
    outgoing: VirtQueue<LentFrame, QUEUE>,
    rx: Frames<QUEUE>,
    tx: Frames<QUEUE>,
    mac: Mac,
    mtu: usize,
    tells_status: bool,
    /// The device has broken the rules.
    broken: bool,
    counters: VirtioCounters,
}

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
    pub fn new(mut transport: T, frame_bytes: usize) -> Result<Self, Cause> {
        if transport.device_type() != DeviceType::Network {
            return Err(Cause::Unsupported);
        }
        if frame_bytes > FRAME_BYTES_MAX {
            return Err(Cause::TooBig { len: frame_bytes as u64, max: FRAME_BYTES_MAX as u64 });
        }
        let features = transport.begin_init(Features::all());
        let legacy = !features.contains(Features::VERSION_1);
        if !legacy && !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(Cause::Device);
        }
        check_addresses(features, arena::is_translated())?;
        if !features.contains(Features::MAC) {
            return Err(Cause::Unsupported);
        }
        let device = |_| Cause::Device;
        let mac = transport.read_consistent(|| transport.read_config_space(MAC_AT)).map_err(device)?;
        let mut mtu = frame_bytes.saturating_sub(MAC_HEADER_BYTES);
        if features.contains(Features::MTU) {
            let told: u16 = transport.read_config_space(MTU_AT).map_err(device)?;
            mtu = mtu.min(usize::from(u16::from_le(told)));
        }
        let outgoing = queue(&mut transport, TRANSMIT)?;
        let incoming = queue(&mut transport, RECEIVE)?;
        let (rx, tx) = (Frames::new(frame_bytes, legacy)?, Frames::new(frame_bytes, legacy)?);
        transport.finish_init();
        let tells_status = features.contains(Features::STATUS);
        let (mac, counters) = (Mac(mac), VirtioCounters::default());
        let mut net =
            Self { transport, incoming, outgoing, rx, tx, mac, mtu, tells_status, broken: false, counters };
        while let Some(buffer) = net.rx.pop() {
            net.rx.give(&mut net.incoming, buffer, None);
        }
        kick(&net.incoming, &mut net.transport, RECEIVE);
        Ok(net)
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &VirtioCounters {
        &self.counters
    }

    /// The next frame that the device has written: its buffer and its length.
    fn take_in(&mut self) -> Option<(u16, usize)> {
        for _ in 0..QUEUE {
            if self.broken {
                return None;
            }
            let taken = self.rx.taken(&mut self.incoming, true);
            let (buffer, written) = self.judge(taken)?;
            if let Some(len) = self.rx.frame_len(written) {
                self.counters.received = self.counters.received.wrapping_add(1);
                return Some((buffer, len));
            }
            self.counters.bad_lengths = self.counters.bad_lengths.wrapping_add(1);
            self.give_back(buffer);
        }
        None
    }

    /// Returns what the device has given back, if it keeps to the rules.
    fn judge(&mut self, taken: Result<Option<(u16, u32)>, Cause>) -> Option<(u16, u32)> {
        if taken.is_err() {
            self.broken = true;
            self.counters.bad_tokens = self.counters.bad_tokens.wrapping_add(1);
        }
        taken.ok().flatten()
    }

    /// The device may write to a buffer again.
    fn give_back(&mut self, buffer: u16) {
        self.rx.give(&mut self.incoming, buffer, None);
        kick(&self.incoming, &mut self.transport, RECEIVE);
    }

    /// Takes back the buffers of frames that were sent.
    fn reclaim(&mut self) {
        for _ in 0..QUEUE {
            if self.broken {
                return;
            }
            let taken = self.tx.taken(&mut self.outgoing, false);
            let Some((buffer, _)) = self.judge(taken) else { return };
            self.tx.push(buffer);
        }
    }
}

/// Returns an error for a device that takes addresses of an IOMMU for those of the bus (VIRTIO 1.2,
/// 6.3).
fn check_addresses(features: Features, is_translated: bool) -> Result<(), Cause> {
    if is_translated && !features.contains(Features::ACCESS_PLATFORM) {
        return Err(Cause::Incompatible);
    }
    Ok(())
}

/// A queue that asks for no interrupts.
fn queue<T: Transport, const QUEUE: usize>(
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
fn kick<T: Transport, const QUEUE: usize>(
    queue: &VirtQueue<LentFrame, QUEUE>,
    transport: &mut T,
    index: u16,
) {
    // The index of the available ring must be seen before the device's wish is read (2.7.13.4.1),
    // or it could fall asleep in between and never be notified of the buffer.
    fence(Ordering::SeqCst);
    if queue.should_notify() {
        transport.notify(index);
    }
}

impl<T: Transport, const QUEUE: usize> Nic for VirtioNet<T, QUEUE> {
    type Rx<'a>
        = VirtioRx<'a, T, QUEUE>
    where
        Self: 'a;
    type Tx<'a>
        = VirtioTx<'a, T, QUEUE>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<VirtioRx<'_, T, QUEUE>> {
        let (buffer, len) = self.take_in()?;
        Some(VirtioRx { net: self, buffer, len })
    }

    fn transmit(&mut self, len: usize) -> Option<VirtioTx<'_, T, QUEUE>> {
        self.reclaim();
        if self.broken || len > (self.mtu + MAC_HEADER_BYTES).min(self.tx.frame_bytes()) {
            return None;
        }
        let buffer = self.tx.pop()?;
        Some(VirtioTx { net: self, buffer, len, sent: false })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    /// Up, if the device does not tell; down for good once it has broken the rules.
    fn link(&self) -> LinkState {
        let status = || self.transport.read_config_space::<u16>(STATUS_AT).map_or(0, u16::from_le);
        let up = !self.broken && (!self.tells_status || status() & LINK_UP != 0);
        if up { LinkState::Up } else { LinkState::Down }
    }
}

/// A received frame, where the device has written it. Dropped, its buffer is the device's again.
pub struct VirtioRx<'a, T: Transport, const QUEUE: usize> {
    net: &'a mut VirtioNet<T, QUEUE>,
    buffer: u16,
    len: usize,
}

impl<T: Transport, const QUEUE: usize> RxFrame for VirtioRx<'_, T, QUEUE> {
    fn bytes(&self) -> &[u8] {
        self.net.rx.frame(self.buffer, self.len)
    }
}

impl<T: Transport, const QUEUE: usize> Drop for VirtioRx<'_, T, QUEUE> {
    fn drop(&mut self) {
        self.net.give_back(self.buffer);
    }
}

impl<T: Transport, const QUEUE: usize> fmt::Debug for VirtioRx<'_, T, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioRx").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A frame to be filled, in the buffer that the device will read.
pub struct VirtioTx<'a, T: Transport, const QUEUE: usize> {
    net: &'a mut VirtioNet<T, QUEUE>,
    buffer: u16,
    len: usize,
    sent: bool,
}

impl<T: Transport, const QUEUE: usize> TxFrame for VirtioTx<'_, T, QUEUE> {
    fn bytes(&mut self) -> &mut [u8] {
        self.net.tx.frame_mut(self.buffer, self.len)
    }

    fn send(mut self) {
        let VirtioNet { tx, outgoing, transport, counters, .. } = &mut *self.net;
        if tx.give(outgoing, self.buffer, Some(self.len)) {
            counters.sent = counters.sent.wrapping_add(1);
            kick(outgoing, transport, TRANSMIT);
        }
        self.sent = true;
    }
}

impl<T: Transport, const QUEUE: usize> Drop for VirtioTx<'_, T, QUEUE> {
    fn drop(&mut self) {
        if !self.sent {
            self.net.tx.push(self.buffer);
        }
    }
}

impl<T: Transport, const QUEUE: usize> fmt::Debug for VirtioTx<'_, T, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioTx").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Transport, const QUEUE: usize> Drop for VirtioNet<T, QUEUE> {
    fn drop(&mut self) {
        // A reset ends every access of the device to memory.
        self.transport.set_status(DeviceStatus::empty());
    }
}

impl<T: Transport, const QUEUE: usize> fmt::Debug for VirtioNet<T, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mac, mtu, broken, counters, .. } = self;
        f.debug_struct("VirtioNet")
            .field("mac", mac)
            .field("mtu", mtu)
            .field("broken", broken)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_goes_past_the_iommu_is_refused_behind_one() {
        let modern = Features::VERSION_1 | Features::MAC;
        assert_eq!(check_addresses(modern, true), Err(Cause::Incompatible));
        assert_eq!(check_addresses(modern, false), Ok(()));
        assert_eq!(check_addresses(modern | Features::ACCESS_PLATFORM, true), Ok(()));
    }
}
