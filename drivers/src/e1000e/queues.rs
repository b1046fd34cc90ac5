//! A card of two pairs of rings, each of which another core can have.

use core::fmt;

use aldis_hal::Cause;
use spin::mutex::SpinMutex;

use super::card::{E1000eCard, RingPair, own_address, reset, set_link_up, stop, take_address, turn_on};
use super::registers::{CardRegisters, bits, offset};
use super::ring;
use crate::device_memory::DeviceMemory;
use crate::handover;
use crate::steering::{KEY, Steering};

/// Pairs of rings that the 82574 has.
pub const PAIRS: usize = 2;

/// An 82574L with two pairs of rings of `QUEUE` descriptors each way. Each [pair](Self::pair) is a
/// [`Nic`](aldis_hal::Nic) that can be sent to another core. Dropped, which takes that both are
/// gone, the device is reset.
///
/// # What the pairs share
///
/// The device's registers, behind a spin lock that is held for one access. Rings and buffers are
/// each pair's own.
pub struct E1000eQueues<R: CardRegisters, const QUEUE: usize> {
    registers: SpinMutex<R>,
    pairs: [SpinMutex<Option<RingPair<QUEUE>>>; PAIRS],
}

impl<R: CardRegisters, const QUEUE: usize> E1000eQueues<R, QUEUE> {
    /// Resets the device and makes it a card of two pairs, for frames of up to `frame_bytes`
    /// without their check sequence. Datagrams over IPv4 come by the queue that the steering has
    /// for their destination, and all else by the first. Frames to both endpoints'
    /// [addresses](handover::address) are taken.
    ///
    /// # Errors
    /// Those of [`E1000e::new`](super::E1000e::new), by
    /// [`queues_bytes_needed`](super::queues_bytes_needed), and: [`Cause::TooBig`] for a steering
    /// that names a third queue; [`Cause::Unsupported`] for a device that has one, such as the
    /// 82540EM.
    pub fn new(
        mut registers: R,
        memory: DeviceMemory,
        frame_bytes: usize,
        steering: &Steering,
    ) -> Result<Self, Cause> {
        let last = usize::from(steering.last_queue());
        if last >= PAIRS {
            return Err(Cause::TooBig { len: last as u64 + 1, max: PAIRS as u64 });
        }
        let [mut incoming, outgoing, mut second_incoming, second_outgoing] =
            ring::cut::<{ 2 * PAIRS }, QUEUE>(memory, frame_bytes)?;
        (incoming.is_extended, second_incoming.is_extended) = (true, true);
        reset(&mut registers)?;
        let mac = own_address(&registers)?;
        let mut pairs = [
            RingPair::new(0, [incoming, outgoing], mac, frame_bytes),
            RingPair::new(1, [second_incoming, second_outgoing], mac, frame_bytes),
        ];
        choose_by_hash(&mut registers, steering)?;
        set_link_up(&mut registers);
        for (number, pair) in (0..).zip(&mut pairs) {
            take_address(&mut registers, number, handover::address(mac, number as usize));
            pair.place(&mut registers);
        }
        for at in offset::ARBITRATION {
            let arbitration = registers.read(at);
            registers.write(at, arbitration | bits::SERVED);
        }
        turn_on(&mut registers, frame_bytes);
        pairs.iter().for_each(|pair| pair.fill(&mut registers));
        let pairs = pairs.map(|pair| SpinMutex::new(Some(pair)));
        Ok(Self { registers: SpinMutex::new(registers), pairs })
    }

    /// A pair of rings, the first time that it is asked for. `None`: there is none of this number,
    /// or it was handed out.
    pub fn pair(&self, number: usize) -> Option<E1000ePair<'_, R, QUEUE>> {
        let pair = self.pairs.get(number)?.lock().take()?;
        Some(E1000eCard::joined(SharedRegisters(&self.registers), pair))
    }
}

/// Has the device choose the queue by the hash of IPv4's addresses: key, table, and the descriptors
/// without which it does not (7.1.10).
fn choose_by_hash<R: CardRegisters>(registers: &mut R, steering: &Steering) -> Result<(), Cause> {
    let table = steering.table().map(|queue| if queue == 0 { 0 } else { bits::SECOND_QUEUE });
    for (at, bytes) in [(offset::QUEUE_TABLE, &table[..]), (offset::HASH_KEY, &KEY)] {
        let (words, _) = bytes.as_chunks::<4>();
        for (number, word) in (0..).zip(words) {
            registers.write(at + 4 * number, u32::from_le_bytes(*word));
        }
    }
    registers.write(offset::RECEIVE_CHECKSUM, bits::HASH_NOT_CHECKSUM);
    registers.write(offset::RECEIVE_FILTER, bits::EXTENDED_DESCRIPTORS);
    let by_hash = bits::BY_HASH | bits::HASH_IPV4;
    registers.write(offset::QUEUES, by_hash);
    let is_taken = registers.read(offset::QUEUES) == by_hash
        && registers.read(offset::RECEIVE_FILTER) & bits::EXTENDED_DESCRIPTORS != 0;
    if is_taken { Ok(()) } else { Err(Cause::Unsupported) }
}

impl<R: CardRegisters, const QUEUE: usize> Drop for E1000eQueues<R, QUEUE> {
    fn drop(&mut self) {
        stop(self.registers.get_mut());
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000eQueues<R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E1000eQueues").finish_non_exhaustive()
    }
}

/// A pair of rings of a card that has two.
pub type E1000ePair<'a, R, const QUEUE: usize> = E1000eCard<SharedRegisters<'a, R>, QUEUE>;

/// The registers of a card, of which each pair of rings makes use.
pub struct SharedRegisters<'a, R>(&'a SpinMutex<R>);

impl<R: CardRegisters> CardRegisters for SharedRegisters<'_, R> {
    fn read(&self, offset: u32) -> u32 {
        self.0.lock().read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.lock().write(offset, value);
    }
}

impl<R> fmt::Debug for SharedRegisters<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRegisters").finish_non_exhaustive()
    }
}
