//! The card: two rings as a `Nic`.

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

/// The card. Dropped, the device is reset, and does not touch the memory any more.
pub struct E1000e<R: CardRegisters, const QUEUE: usize> {
    registers: R,
    incoming: Ring<QUEUE>,
    outgoing: Ring<QUEUE>,
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

impl<R: CardRegisters, const QUEUE: usize> E1000e<R, QUEUE> {
    /// Resets the device and makes it a card with `QUEUE` descriptors each way, for frames of up to
    /// `frame_bytes` without their check sequence.
    ///
    /// # Errors
    /// [`Cause::TooBig`] if `QUEUE` is no multiple of 8 up to 4096 or frames are longer than 9,230
    /// bytes; [`Cause::Full`] if the memory is shorter than [`bytes_needed`](super::bytes_needed);
    /// [`Cause::Device`] if the device does not come out of its reset with an address of its own.
    pub fn new(mut registers: R, memory: DeviceMemory, frame_bytes: usize) -> Result<Self, Cause> {
        let [incoming, outgoing] = ring::cut(memory, frame_bytes)?;
        reset(&mut registers)?;
        let mac = address(&registers)?;
        let mut card = Self {
            registers,
            incoming,
            outgoing,
            next_in: 0,
            is_rest: false,
            next_out: 0,
            unsent: 0,
            mac,
            frame_bytes,
            counters: E1000eCounters::default(),
        };
        card.start();
        Ok(card)
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &E1000eCounters {
        &self.counters
    }

    /// Takes frames to this address from now on, in the place of the device's own.
    pub fn set_mac(&mut self, mac: Mac) {
        let Mac([a, b, c, d, e, f]) = mac;
        self.registers.write(offset::ADDRESS_LOW, u32::from_le_bytes([a, b, c, d]));
        let high = u32::from_le_bytes([e, f, 0, 0]) | bits::ADDRESS_VALID;
        self.registers.write(offset::ADDRESS_HIGH, high);
        self.mac = mac;
    }

    /// Sets the link up, and gives the device its rings.
    fn start(&mut self) {
        let control = self.registers.read(offset::CONTROL);
        let up = bits::FULL_DUPLEX | bits::AUTO_SPEED | bits::SET_LINK_UP;
        self.registers.write(offset::CONTROL, control | up);
        for word in 0..offset::MULTICAST_WORDS {
            self.registers.write(offset::MULTICAST_TABLE + 4 * word, 0);
        }
        for at in 0..QUEUE as u16 {
            self.incoming.write(at, 0);
            self.outgoing.write(at, 0);
        }
        Ring::<QUEUE>::publish();
        let rings =
            [(offset::RECEIVE_RING, self.incoming.address), (offset::TRANSMIT_RING, self.outgoing.address)];
        for (registers, address) in rings {
            let [low, high] = [address as u32, (address >> 32) as u32];
            for (at, value) in
                [(0, low), (4, high), (8, Ring::<QUEUE>::BYTES), (offset::HEAD, 0), (offset::TAIL, 0)]
            {
                self.registers.write(registers + at, value);
            }
        }
        let (_, size) = ring::buffer(self.frame_bytes);
        let long = if self.frame_bytes > FRAME_BYTES_USUAL { bits::LONG_PACKETS } else { 0 };
        let receive = bits::RECEIVE_ENABLE | bits::BROADCASTS | bits::STRIP_CHECK_SEQUENCE | long | size;
        self.registers.write(offset::RECEIVE_CONTROL, receive);
        self.registers.write(offset::TRANSMIT_GAP, bits::COPPER_GAP);
        let send = bits::TRANSMIT_ENABLE | bits::PAD_SHORT | bits::RETRIES | bits::COLLISION_DISTANCE;
        self.registers.write(offset::TRANSMIT_CONTROL, send);
        // All but one are the device's: a tail at the head says that none is.
        self.registers.write(offset::RECEIVE_RING + offset::TAIL, QUEUE as u32 - 1);
    }

    /// The descriptor and the length of the next frame that is whole.
    fn take_in(&mut self) -> Option<(u16, usize)> {
        for _ in 0..QUEUE {
            let at = self.next_in;
            let written = self.incoming.written(at)?;
            self.next_in = Ring::<QUEUE>::after(at);
            if let Some(len) = self.whole(written) {
                self.counters.received = self.counters.received.wrapping_add(1);
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
        let is_rest = core::mem::replace(&mut self.is_rest, !ends);
        let fits = (MAC_HEADER_BYTES..=self.frame_bytes).contains(&len);
        if ends && !is_rest && errors == 0 && fits {
            return Some(len);
        }
        if ends {
            self.counters.bad_frames = self.counters.bad_frames.wrapping_add(1);
        }
        None
    }

    /// Lets the device write to a buffer again.
    fn give_back(&mut self, at: u16) {
        self.incoming.write(at, 0);
        Ring::<QUEUE>::publish();
        self.registers.write(offset::RECEIVE_RING + offset::TAIL, at.into());
    }

    /// Takes back the buffers of frames that were sent: `QUEUE - 1` at most.
    fn reclaim(&mut self) {
        while self.unsent != self.next_out && self.outgoing.written(self.unsent).is_some() {
            self.unsent = Ring::<QUEUE>::after(self.unsent);
        }
    }
}

/// Resets the device, without interrupts.
fn reset<R: CardRegisters>(registers: &mut R) -> Result<(), Cause> {
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
fn address<R: CardRegisters>(registers: &R) -> Result<Mac, Cause> {
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

impl<R: CardRegisters, const QUEUE: usize> Nic for E1000e<R, QUEUE> {
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
        if len > self.frame_bytes {
            return None;
        }
        self.reclaim();
        // One stays free: a ring whose tail is at its head is empty.
        let is_free = Ring::<QUEUE>::after(self.next_out) != self.unsent;
        is_free.then_some(E1000eTx { card: self, len })
    }

    fn mtu(&self) -> usize {
        self.frame_bytes - MAC_HEADER_BYTES
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    /// Down if the device does not answer any more.
    fn link(&self) -> LinkState {
        let status = self.registers.read(offset::STATUS);
        if status != NOTHING && status & bits::LINK_UP != 0 { LinkState::Up } else { LinkState::Down }
    }
}

impl<R: CardRegisters, const QUEUE: usize> Drop for E1000e<R, QUEUE> {
    fn drop(&mut self) {
        // It ends every access of the device to memory.
        self.registers.write(offset::RECEIVE_CONTROL, 0);
        self.registers.write(offset::TRANSMIT_CONTROL, 0);
        let _ = reset(&mut self.registers);
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000e<R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mac, frame_bytes, counters, .. } = self;
        f.debug_struct("E1000e")
            .field("mac", mac)
            .field("frame_bytes", frame_bytes)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// A received frame, where the device has written it. Dropped, its buffer is the device's again.
pub struct E1000eRx<'a, R: CardRegisters, const QUEUE: usize> {
    card: &'a mut E1000e<R, QUEUE>,
    at: u16,
    len: usize,
}

impl<R: CardRegisters, const QUEUE: usize> RxFrame for E1000eRx<'_, R, QUEUE> {
    fn bytes(&self) -> &[u8] {
        self.card.incoming.frame(self.at, self.len)
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
    card: &'a mut E1000e<R, QUEUE>,
    len: usize,
}

impl<R: CardRegisters, const QUEUE: usize> TxFrame for E1000eTx<'_, R, QUEUE> {
    fn bytes(&mut self) -> &mut [u8] {
        self.card.outgoing.frame_mut(self.card.next_out, self.len)
    }

    fn send(self) {
        let card = self.card;
        card.outgoing.write_send(card.next_out, self.len);
        card.next_out = Ring::<QUEUE>::after(card.next_out);
        card.counters.sent = card.counters.sent.wrapping_add(1);
        Ring::<QUEUE>::publish();
        card.registers.write(offset::TRANSMIT_RING + offset::TAIL, card.next_out.into());
    }
}

impl<R: CardRegisters, const QUEUE: usize> fmt::Debug for E1000eTx<'_, R, QUEUE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("E1000eTx").field("len", &self.len).finish_non_exhaustive()
    }
}
