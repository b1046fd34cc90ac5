//! A card of several pairs of queues, each of which another core can have.

use core::fmt;

use aldis_hal::Cause;
use spin::mutex::SpinMutex;
use virtio_drivers::PAGE_SIZE;
use virtio_drivers::transport::Transport;

use super::control::{self, ControlQueue, HASH_IPV4};
use super::negotiation::{self, Features, negotiate};
use super::pair::{PairRegisters, QueuePair, VirtioCard, pair_bytes, queue_bytes, sealed};
use super::reset::ResetTransport;
use crate::steering::Steering;

/// Bytes that a card of `pairs` pairs of queues takes of the memory [lent](super::lend), wherever
/// that begins: two queues of `queue` descriptors each, a buffer for a frame of `frame_bytes` for
/// each descriptor, and the queue for commands.
pub const fn queues_bytes_needed(pairs: usize, queue: usize, frame_bytes: usize) -> usize {
    let commands = queue_bytes(control::DESCRIPTORS) + control::BUFFER_BYTES;
    // Each pair begins on a page.
    pairs * pair_bytes(queue, frame_bytes).next_multiple_of(PAGE_SIZE) + commands + 3 * PAGE_SIZE
}

/// The wishes of a card's owner.
#[derive(Clone, Copy, Debug)]
pub struct VirtioSetup<'a> {
    /// Bytes of the longest frame: 1514 is an MTU of 1500.
    pub frame_bytes: usize,
    /// True if checksums are left to the device as far as it offers that. See the
    /// [module](super#checksums).
    pub checksums: bool,
    /// The addresses whose frames come by each queue, if the device can tell them apart.
    pub steering: Option<&'a Steering>,
}

/// The choice of the queue by which a frame comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum QueueChoice {
    /// A single queue, by which all come.
    Single,
    /// The device's: the queue by which the frame's flow was last sent, and any before.
    ByFlow,
    /// That of the [`Steering`]: by the IPv4 address that a frame is for.
    ByAddress,
}

/// A virtio network device with up to `PAIRS` pairs of queues of `QUEUE` descriptors each way, a
/// power of two. Each [pair](Self::pair) is a [`Nic`](aldis_hal::Nic) that can be sent to another
/// core. Dropped, which takes that all pairs are gone, the device is reset.
///
/// # What the pairs share
///
/// The device's registers: a pair takes turns with others, behind a spin lock, for as long as a
/// notification takes, which a device asks for only when it sleeps. Queues and buffers are each
/// pair's own.
pub struct VirtioQueues<T: Transport, const PAIRS: usize, const QUEUE: usize> {
    transport: SpinMutex<ResetTransport<T>>,
    pairs: [SpinMutex<Option<QueuePair<QUEUE>>>; PAIRS],
    count: u16,
    choice: QueueChoice,
}

impl<T: Transport, const PAIRS: usize, const QUEUE: usize> VirtioQueues<T, PAIRS, QUEUE> {
    /// Resets and starts the device with as many pairs as it has, `PAIRS` at most. A device that
    /// chooses queues by itself ([`QueueChoice::ByFlow`]) may choose any of these for a frame: each
    /// has to be polled then, so `PAIRS` is to be no more than there are cores for.
    ///
    /// # Errors
    /// Those of [`VirtioNet::new`](super::VirtioNet::new), and: [`Cause::TooBig`] for a steering
    /// that names a queue which the device or this type does not have; [`Cause::TimedOut`] for a
    /// device that does not answer commands; [`Cause::Device`] for one that refuses them, or whose
    /// limits cannot be.
    pub fn new(transport: T, setup: VirtioSetup<'_>) -> Result<Self, Cause> {
        let VirtioSetup { frame_bytes, checksums, steering } = setup;
        let mut wanted = Features::PLAIN;
        wanted.set(Features::CHECKSUMS, checksums);
        wanted.set(Features::QUEUES, PAIRS > 1);
        wanted.set(Features::RSS, PAIRS > 1 && steering.is_some());
        // Dropped, for whatever fails below, it resets the device.
        let mut registers = ResetTransport::new(transport);
        let transport = registers.get_mut().ok_or(Cause::Device)?;
        let agreed = negotiate(transport, frame_bytes, wanted)?;
        let there = negotiation::pairs(transport, agreed.features)?;
        let count = there.min(u16::try_from(PAIRS).unwrap_or(u16::MAX));
        if let Some(last) = steering.map(Steering::last_queue)
            && u16::from(last) >= count
        {
            return Err(Cause::TooBig { len: u64::from(last) + 1, max: count.into() });
        }
        let steering = match steering {
            Some(steering) if negotiation::hashes(transport, agreed.features, HASH_IPV4)? => Some(steering),
            _ => None,
        };
        let mut pairs = [const { None }; PAIRS];
        for (number, pair) in (0..count).zip(&mut pairs) {
            *pair = Some(QueuePair::new(transport, number, &agreed, frame_bytes)?);
        }
        let control = match agreed.features.contains(Features::CONTROL_QUEUE) {
            // Behind those of all pairs that the device has (5.1.2).
            true => Some(ControlQueue::new(transport, there.checked_mul(2).ok_or(Cause::Device)?)?),
            false => None,
        };
        transport.finish_init();
        pairs.iter_mut().flatten().for_each(|pair| pair.fill(transport));
        let choice = match (control, steering) {
            (Some(control), Some(steering)) => {
                control.set_steering(transport, count, steering).map(|()| QueueChoice::ByAddress)
            }
            (Some(control), None) if count > 1 => {
                control.set_pairs(transport, count).map(|()| QueueChoice::ByFlow)
            }
            _ => Ok(QueueChoice::Single),
        }?;
        Ok(Self { transport: SpinMutex::new(registers), pairs: pairs.map(SpinMutex::new), count, choice })
    }

    /// The number of pairs: as many as the device has, `PAIRS` at most.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// The choice of the queue by which a frame comes. What it is not [`QueueChoice::ByAddress`]
    /// for, endpoints hand over to each other: [`handover`](crate::handover).
    pub const fn choice(&self) -> QueueChoice {
        self.choice
    }

    /// A pair of queues, the first time that it is asked for. `None`: there is none of this number,
    /// or it was handed out.
    pub fn pair(&self, number: u16) -> Option<VirtioPair<'_, T, QUEUE>> {
        let pair = self.pairs.get(usize::from(number))?.lock().take()?;
        Some(VirtioCard::joined(SharedRegisters(&self.transport), pair))
    }
}

impl<T: Transport, const PAIRS: usize, const QUEUE: usize> fmt::Debug for VirtioQueues<T, PAIRS, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, choice, .. } = self;
        f.debug_struct("VirtioQueues").field("count", count).field("choice", choice).finish_non_exhaustive()
    }
}

/// A pair of queues of a card that has several.
pub type VirtioPair<'a, T, const QUEUE: usize> = VirtioCard<SharedRegisters<'a, T>, QUEUE>;

/// The registers of a card, of which each pair of queues makes use.
pub struct SharedRegisters<'a, T: Transport>(&'a SpinMutex<ResetTransport<T>>);

impl<T: Transport> sealed::Sealed for SharedRegisters<'_, T> {}

impl<T: Transport> PairRegisters for SharedRegisters<'_, T> {
    fn notify(&mut self, queue: u16) {
        if let Some(transport) = self.0.lock().get_mut() {
            transport.notify(queue);
        }
    }

    fn is_link_up(&self) -> bool {
        self.0.lock().get().is_some_and(negotiation::is_link_up)
    }
}

impl<T: Transport> fmt::Debug for SharedRegisters<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRegisters").finish_non_exhaustive()
    }
}
