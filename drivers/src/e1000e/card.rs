//! A pair of rings as a `Nic`: the whole card, or one of two pairs.

use core::fmt;

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, RxFrame, TxFrame};
use aldis_hal::{Cause, Nic};

use super::registers::{CardRegisters, NOTHING, bits, offset};
use super::ring::{self, END_OF_FRAME, Ring, Written};
use crate::device_memory::DeviceMemory;

/// Looks at a register before the device is given up: a reset takes microseconds, and reading the
/// address from the device's own memory some milliseconds, of which each look takes one
/// microsecond at most.
const LOOKS: u32 = 1_000_000;

/// The frame up to which a device is not told of long ones.
const FRAME_BYTES_USUAL: usize = 1_514;

/// The counters of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct E1000eCounters {
    /// Frames that were received whole.
    pub received: u64,
    /// Frames that were handed to the device.
    pub sent: u64,
    /// Frames that the device said are damaged, too long, or shorter than their addresses: dropped.
    pub bad_frames: u64,
}

/// The registers of a card with a single pair of rings. Dropped, the device is reset, and does not
/// touch the memory any more.
#[derive(Debug)]
pub struct OwnRegisters<R: CardRegisters>(R);

impl<R: CardRegisters> CardRegisters for OwnRegisters<R> {
    fn read(&self, offset: u32) -> u32 {
        self.0.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

impl<R: CardRegisters> Drop for OwnRegisters<R> {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

/// Ends every access of the device to memory.
pub(super) fn stop<R: CardRegisters>(registers: &mut R) {
    registers.write(offset::RECEIVE_CONTROL, 0);
    registers.write(offset::TRANSMIT_CONTROL, 0);
    let _ = reset(registers);
}

/// A pair of rings, before it is known who has their registers.
pub(super) struct RingPair<const QUEUE: usize> {
    incoming: Ring<QUEUE>,
    outgoing: Ring<QUEUE>,
    /// The registers of the rings.
    receive: u32,
    send: u32,
    /// The descriptor in which the next frame comes.
    next_in: u16,
    /// True within a frame whose beginning was in a descriptor before.
    is_rest: bool,
    /// The descriptor of the next frame to be sent, and the first that the device is not done with.
    next_out: u16,
    unsent: u16,
    mac: Mac,
    frame_bytes: usize,
    counters: E1000eCounters,
}

impl<const QUEUE: usize> RingPair<QUEUE> {
    /// The pair of this number, of a device that was reset.
    pub(super) fn new(number: u32, rings: [Ring<QUEUE>; 2], mac: Mac, frame_bytes: usize) -> Self {
        let [incoming, outgoing] = rings;
        Self {
            incoming,
            outgoing,
            receive: offset::RECEIVE_RING + number * offset::RING_STEP,
            send: offset::TRANSMIT_RING + number * offset::RING_STEP,
            next_in: 0,
            is_rest: false,
            next_out: 0,
            unsent: 0,
            mac,
            frame_bytes,
            counters: E1000eCounters::default(),
        }
    }

    /// Gives the device the rings, in which nothing is its own yet.
    pub(super) fn place<R: CardRegisters>(&mut self, registers: &mut R) {
        for at in 0..QUEUE as u16 {
            self.incoming.write(at, 0);
            self.outgoing.write(at, 0);
        }
        Ring::<QUEUE>::publish();
        for (ring, address) in [(self.receive, self.incoming.address), (self.send, self.outgoing.address)] {
            let [low, high] = [address as u32, (address >> 32) as u32];
            for (at, value) in
                [(0, low), (4, high), (8, Ring::<QUEUE>::BYTES), (offset::HEAD, 0), (offset::TAIL, 0)]
            {
                registers.write(ring + at, value);
            }
        }
    }

    /// Leaves the device all buffers for frames that come but one, once it receives: a tail at the
    /// head says that none is there.
    pub(super) fn fill<R: CardRegisters>(&self, registers: &mut R) {
        registers.write(self.receive + offset::TAIL, QUEUE as u32 - 1);
    }
}

/// Sets the link up, before rings are placed.
pub(super) fn set_link_up<R: CardRegisters>(registers: &mut R) {
    let control = registers.read(offset::CONTROL);
    let up = bits::FULL_DUPLEX | bits::AUTO_SPEED | bits::SET_LINK_UP;
    registers.write(offset::CONTROL, control | up);
    for word in 0..offset::MULTICAST_WORDS {
        registers.write(offset::MULTICAST_TABLE + 4 * word, 0);
    }
}

/// Turns both directions on, with rings in place.
pub(super) fn turn_on<R: CardRegisters>(registers: &mut R, frame_bytes: usize) {
    let (_, size) = ring::buffer(frame_bytes);
    let long = if frame_bytes > FRAME_BYTES_USUAL { bits::LONG_PACKETS } else { 0 };
    let receive = bits::RECEIVE_ENABLE | bits::BROADCASTS | bits::STRIP_CHECK_SEQUENCE | long | size;
    registers.write(offset::RECEIVE_CONTROL, receive);
    registers.write(offset::TRANSMIT_GAP, bits::COPPER_GAP);
    let send = bits::TRANSMIT_ENABLE | bits::PAD_SHORT | bits::RETRIES | bits::COLLISION_DISTANCE;
    registers.write(offset::TRANSMIT_CONTROL, send);
}

/// Takes frames to this address, as the device's of that number.
pub(super) fn take_address<R: CardRegisters>(registers: &mut R, number: u32, mac: Mac) {
    let (Mac([a, b, c, d, e, f]), step) = (mac, number * offset::ADDRESS_STEP);
    registers.write(offset::ADDRESS_LOW + step, u32::from_le_bytes([a, b, c, d]));
    let high = u32::from_le_bytes([e, f, 0, 0]) | bits::ADDRESS_VALID;
    registers.write(offset::ADDRESS_HIGH + step, high);
}

/// A pair of rings of a card, polled. See the [module](super).
pub struct E1000eCard<R: CardRegisters, const QUEUE: usize> {
    registers: R,
    pair: RingPair<QUEUE>,
}

/// A card with a single pair of rings.
pub type E1000e<R, const QUEUE: usize> = E1000eCard<OwnRegisters<R>, QUEUE>;

impl<R: CardRegisters, const QUEUE: usize> E1000e<R, QUEUE> {
    /// Resets the device and makes it a card with `QUEUE` descriptors each way, for frames of up to
    /// `frame_bytes` without their check sequence.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if `QUEUE` is no multiple of 8 up to 4096 or frames are longer than 9,230
    /// bytes; [`Cause::Full`] if the memory is shorter than [`bytes_needed`](super::bytes_needed);
    /// [`Cause::Device`] if the device does not come out of its reset with an address of its own.
    pub fn new(mut registers: R, memory: DeviceMemory, frame_bytes: usize) -> Result<Self, Cause> {
        let rings = ring::cut(memory, frame_bytes)?;
        reset(&mut registers)?;
        let mut registers = OwnRegisters(registers);
        let mut pair = RingPair::new(0, rings, own_address(&registers)?, frame_bytes);
        set_link_up(&mut registers);
        pair.place(&mut registers);
        turn_on(&mut registers, frame_bytes);
        pair.fill(&mut registers);
        Ok(Self::joined(registers, pair))
    }

    /// Takes frames to this address from now on, in the place of the device's own.
    pub fn set_mac(&mut self, mac: Mac) {
        take_address(&mut self.registers, 0, mac);
        self.pair.mac = mac;
    }
}

impl<R: CardRegisters, const QUEUE: usize> E1000eCard<R, QUEUE> {
    /// A pair and the registers of its device.
    pub(super) const fn joined(registers: R, pair: RingPair<QUEUE>) -> Self {
        Self { registers, pair }
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &E1000eCounters {
        &self.pair.counters
    }

    /// The descriptor and the length of the next frame that is whole.
    fn take_in(&mut self) -> Option<(u16, usize)> {
        for _ in 0..QUEUE {
            let at = self.pair.next_in;
            let written = self.pair.incoming.written(at)?;
            self.pair.next_in = Ring::<QUEUE>::after(at);
            if let Some(len) = self.whole(written) {
                self.pair.counters.received = self.pair.counters.received.wrapping_add(1);
                return Some((at, len));
            }
            self.give_back(at);
        }
        None
    }

    /// The length of a frame that is whole in one descriptor and as it was sent.
    fn whole(&mut self, written: Written) -> Option<usize> {
        let Written { len, status, errors } = written;
        let ends = status & END_OF_FRAME != 0;
        let is_rest = core::mem::replace(&mut self.pair.is_rest, !ends);
        let fits = (MAC_HEADER_BYTES..=self.pair.frame_bytes).contains(&len);
        if ends && !is_rest && errors == 0 && fits {
            return Some(len);
        }
        if ends {
            self.pair.counters.bad_frames = self.pair.counters.bad_frames.wrapping_add(1);
        }
        None
    }

    /// Lets the device write to a buffer again.
    fn give_back(&mut self, at: u16) {
        self.pair.incoming.write(at, 0);
        Ring::<QUEUE>::publish();
        self.registers.write(self.pair.receive + offset::TAIL, at.into());
    }

    /// Takes back the buffers of frames that were sent: `QUEUE - 1` at most.
    fn reclaim(&mut self) {
        let RingPair { unsent, next_out, outgoing, .. } = &mut self.pair;
        while unsent != next_out && outgoing.written(*unsent).is_some() {
            *unsent = Ring::<QUEUE>::after(*unsent);
        }
    }
}

/// Resets the device, without interrupts.
pub(super) fn reset<R: CardRegisters>(registers: &mut R) -> Result<(), Cause> {
    registers.write(offset::INTERRUPT_MASK_CLEAR, u32::MAX);
    let control = registers.read(offset::CONTROL);
    registers.write(offset::CONTROL, control | bits::RESET);
    let is_over = |control| control != NOTHING && control & bits::RESET == 0;
    let mut looks = 0..LOOKS;
    if !looks.any(|_| is_over(registers.read(offset::CONTROL))) {
        return Err(Cause::Device);
    }
    registers.write(offset::INTERRUPT_MASK_CLEAR, u32::MAX);
    registers.read(offset::INTERRUPT_CAUSE);
    Ok(())
}

/// The address that the device has read from its own memory after the reset.
pub(super) fn own_address<R: CardRegisters>(registers: &R) -> Result<Mac, Cause> {
    for _ in 0..LOOKS {
        let [low, high] = [offset::ADDRESS_LOW, offset::ADDRESS_HIGH].map(|at| registers.read(at));
        let ([a, b, c, d], [e, f, ..]) = (low.to_le_bytes(), high.to_le_bytes());
        let mac = [a, b, c, d, e, f];
        if high != NOTHING && high & bits::ADDRESS_VALID != 0 && mac != [0; 6] && a & 1 == 0 {
            return Ok(Mac(mac));
        }
    }
    Err(Cause::Device)
}

impl<R: CardRegisters, const QUEUE: usize> Nic for E1000eCard<R, QUEUE> {
    type Rx<'a>
        = E1000eRx<'a, R, QUEUE>
    where
        Self: 'a;
    type Tx<'a>
        = E1000eTx<'a, R, QUEUE>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<E1000eRx<'_, R, QUEUE>> {
        let (at, len) = self.take_in()?;
        Some(E1000eRx { card: self, at, len })
    }

    fn transmit(&mut self, len: usize) -> Option<E1000eTx<'_, R, QUEUE>> {
        if len > self.pair.frame_bytes {
            return None;
        }
        self.reclaim();
        // One stays free: a ring whose tail is at its head is empty.
        let is_free = Ring::<QUEUE>::after(self.pair.next_out) != self.pair.unsent;
        is_free.then_some(E1000eTx { card: self, len })
    }

    fn mtu(&self) -> usize {
        self.pair.frame_bytes - MAC_HEADER_BYTES
    }

    fn mac(&self) -> Mac {
        self.pair.mac
    }

    /// Down if the device does not answer any more.
    fn link(&self) -> LinkState {
        let status = self.registers.read(offset::STATUS);
        if status != NOTHING && status & bits::LINK_UP != 0 { LinkState::Up } else { LinkState::Down }
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000eCard<R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RingPair { mac, frame_bytes, counters, .. } = &self.pair;
        f.debug_struct("E1000eCard")
            .field("mac", mac)
            .field("frame_bytes", frame_bytes)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// A received frame, where the device has written it. Dropped, its buffer is the device's again.
pub struct E1000eRx<'a, R: CardRegisters, const QUEUE: usize> {
    card: &'a mut E1000eCard<R, QUEUE>,
    at: u16,
    len: usize,
}

impl<R: CardRegisters, const QUEUE: usize> RxFrame for E1000eRx<'_, R, QUEUE> {
    fn bytes(&self) -> &[u8] {
        self.card.pair.incoming.frame(self.at, self.len)
    }
}

impl<R: CardRegisters, const QUEUE: usize> Drop for E1000eRx<'_, R, QUEUE> {
    fn drop(&mut self) {
        self.card.give_back(self.at);
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000eRx<'_, R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E1000eRx").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A frame to be filled, in the buffer that the device will read.
pub struct E1000eTx<'a, R: CardRegisters, const QUEUE: usize> {
    card: &'a mut E1000eCard<R, QUEUE>,
    len: usize,
}

impl<R: CardRegisters, const QUEUE: usize> TxFrame for E1000eTx<'_, R, QUEUE> {
    fn bytes(&mut self) -> &mut [u8] {
        self.card.pair.outgoing.frame_mut(self.card.pair.next_out, self.len)
    }

    fn send(self) {
        let E1000eCard { registers, pair } = self.card;
        pair.outgoing.write_send(pair.next_out, self.len);
        pair.next_out = Ring::<QUEUE>::after(pair.next_out);
        pair.counters.sent = pair.counters.sent.wrapping_add(1);
        Ring::<QUEUE>::publish();
        registers.write(pair.send + offset::TAIL, pair.next_out.into());
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000eTx<'_, R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E1000eTx").field("len", &self.len).finish_non_exhaustive()
    }
}
