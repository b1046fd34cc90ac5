//! This module holds `unsafe` code: commands in memory that the device reads, and answers that it
//! writes.
//!
//! The control queue (VIRTIO 1.2, 5.1.6.5): how many pairs of queues are in use, and which frame
//! comes by which.

use core::ptr::NonNull;

use aldis_hal::Cause;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, Transport};

use super::arena::{self, LentFrame};
use super::pair::{kick, queue};
use crate::steering::{ENTRIES, KEY, KEY_BYTES, Steering};

/// Descriptors of the queue: a command has two.
pub(super) const DESCRIPTORS: usize = 2;

/// Looks at the queue before a command is given up. Each reads a register too, which takes a tenth
/// of a microsecond at least, and some microseconds on virtual machines.
const LOOKS: u32 = 1_000_000;

/// Commands, as class and number: the pairs that are in use, and the table and the key by which the
/// device chooses among them.
const SET_PAIRS: [u8; 2] = [4, 0];
const SET_STEERING: [u8; 2] = [4, 1];

/// The hash of the two addresses of IPv4 (5.1.6.4.3.1).
pub(super) const HASH_IPV4: u32 = 1 << 0;

/// Bytes of the longest command: its number, kinds of hashes, index mask, the queue of frames
/// without hash, the table, transmit queues, the key's length and the key (5.1.6.5.7).
const COMMAND_BYTES: usize = 2 + 4 + 2 + 2 + 2 * ENTRIES + 2 + 1 + KEY_BYTES;

/// Bytes of memory that a control queue takes besides the queue itself: command and answer.
pub(super) const BUFFER_BYTES: usize = (COMMAND_BYTES + 1).next_multiple_of(64);

/// The answers: done, and what is there before there is an answer.
const DONE: u8 = 0;
const NO_ANSWER: u8 = 0xFF;

/// The control queue of a device.
pub(super) struct ControlQueue {
    queue: VirtQueue<LentFrame, DESCRIPTORS>,
    index: u16,
    buffer: NonNull<u8>,
}

impl ControlQueue {
    /// The queue of this index, of a device that is being started.
    pub(super) fn new<T: Transport>(transport: &mut T, index: u16) -> Result<Self, Cause> {
        Ok(Self { queue: queue(transport, index)?, index, buffer: arena::take(BUFFER_BYTES)? })
    }

    /// Takes the first `pairs` of queues into use. The device chooses among them by the flow that a
    /// frame belongs to: the queue by which that flow last sent (5.1.6.5.6).
    ///
    /// # Errors
    /// [`Cause::TimedOut`] for a device that does not answer, [`Cause::Device`] for one that
    /// refuses or breaks the rules.
    pub(super) fn set_pairs<T: Transport>(self, transport: &mut T, pairs: u16) -> Result<(), Cause> {
        self.command(transport, &[&SET_PAIRS, &pairs.to_le_bytes()])
    }

    /// Takes the first `pairs` of queues into use, among which the device chooses as is said.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] for a device that does not answer, [`Cause::Device`] for one that
    /// refuses or breaks the rules.
    pub(super) fn set_steering<T: Transport>(
        self,
        transport: &mut T,
        pairs: u16,
        steering: &Steering,
    ) -> Result<(), Cause> {
        let mut table = [0; 2 * ENTRIES];
        let (places, _) = table.as_chunks_mut::<2>();
        for (place, queue) in places.iter_mut().zip(steering.table()) {
            *place = u16::from(queue).to_le_bytes();
        }
        let mask = (ENTRIES as u16 - 1).to_le_bytes();
        let front = [&SET_STEERING[..], &HASH_IPV4.to_le_bytes(), &mask, &[0, 0]];
        let [number, types, mask, other] = front;
        self.command(
            transport,
            &[number, types, mask, other, &table, &pairs.to_le_bytes(), &[KEY_BYTES as u8], &KEY],
        )
    }

    /// Gives a command, and waits until the device has answered it. It is the only one: the device
    /// may still write to the memory of one that was given up.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] for a device that does not answer; [`Cause::Device`] for one that
    /// refuses, that wants to be reset, or that gives back what it does not hold.
    fn command<T: Transport>(mut self, transport: &mut T, parts: &[&[u8]]) -> Result<(), Cause> {
        // SAFETY: so many bytes were taken for this value alone, and cleared when they were lent;
        // the device has not been told of them.
        let buffer = unsafe { core::slice::from_raw_parts_mut(self.buffer.as_ptr(), BUFFER_BYTES) };
        let (answer, command) = buffer.split_first_mut().ok_or(Cause::Device)?;
        *answer = NO_ANSWER;
        let mut len = 0;
        for part in parts {
            let place = command.get_mut(len..len + part.len()).ok_or(Cause::Device)?;
            place.copy_from_slice(part);
            len += part.len();
        }
        let command: &[u8] = command.get(..len).ok_or(Cause::Device)?;
        let answer = core::slice::from_mut(answer);
        // SAFETY: the memory is lent for good, and neither part is accessed before it was taken
        // back.
        let token = unsafe { self.queue.add(&[command], &mut [answer]) }.map_err(|_| Cause::Device)?;
        kick(&self.queue, transport, self.index);
        let wants_reset = DeviceStatus::DEVICE_NEEDS_RESET | DeviceStatus::FAILED;
        let mut looks = 0..LOOKS;
        let is_over = |_| transport.get_status().intersects(wants_reset) || self.queue.can_pop();
        if !looks.any(is_over) {
            return Err(Cause::TimedOut);
        }
        if self.queue.peek_used() != Some(token) {
            return Err(Cause::Device);
        }
        // SAFETY: these were added under that token, which the device has given back.
        unsafe { self.queue.pop_used(token, &[command], &mut [answer]) }.map_err(|_| Cause::Device)?;
        // SAFETY: the first byte of the buffer, which the device has written and given back.
        let answer = unsafe { self.buffer.as_ptr().read_volatile() };
        if answer == DONE { Ok(()) } else { Err(Cause::Device) }
    }
}
