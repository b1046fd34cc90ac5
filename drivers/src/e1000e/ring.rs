//! This module holds `unsafe` code: descriptors and frames in memory that the device reads and
//! writes too.

use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};

use aldis_hal::nic::MAC_HEADER_BYTES;
use aldis_hal::{Cause, Resource};

use crate::device_memory::DeviceMemory;

/// Bytes of a descriptor, and the multiple of bytes at which a ring begins.
const DESCRIPTOR_BYTES: usize = 16;
pub(super) const RING_ALIGN: usize = 128;

/// Descriptors of the longest ring, and what their number is a multiple of.
const DESCRIPTORS_MAX: usize = 4096;
const DESCRIPTORS_STEP: usize = 8;

/// Bytes of the longest frame without its check sequence: what the 82574 receives at most.
pub const FRAME_BYTES_MAX: usize = 9_230;

/// Of a descriptor's status: the device is done with it, and the frame ends in it.
pub(super) const DONE: u8 = 1 << 0;
pub(super) const END_OF_FRAME: u8 = 1 << 1;
/// Of the command of a descriptor to send: the frame ends in it, the device adds the check
/// sequence, and says when it is done.
pub(super) const SEND: u8 = 1 << 0 | 1 << 1 | 1 << 3;

/// The size of a buffer for such a frame, of those that a device can be told, and the bits of its
/// receive control that tell it (10.2.5.1: BSIZE and BSEX).
pub(super) const fn buffer(frame_bytes: usize) -> (usize, u32) {
    const EXTENDED: u32 = 1 << 25;
    match frame_bytes {
        0..=2048 => (2048, 0),
        2049..=4096 => (4096, 3 << 16 | EXTENDED),
        4097..=8192 => (8192, 2 << 16 | EXTENDED),
        _ => (16384, 1 << 16 | EXTENDED),
    }
}

/// Bytes of memory that a card with so many descriptors each way needs for frames of up to
/// `frame_bytes`, wherever the memory begins.
pub const fn bytes_needed(queue: usize, frame_bytes: usize) -> usize {
    RING_ALIGN + bytes_of(2, queue, frame_bytes)
}

/// Bytes of memory that a card with two pairs of rings needs, like [`bytes_needed`].
pub const fn queues_bytes_needed(queue: usize, frame_bytes: usize) -> usize {
    RING_ALIGN + bytes_of(4, queue, frame_bytes)
}

const fn bytes_of(rings: usize, queue: usize, frame_bytes: usize) -> usize {
    let descriptors = (rings * queue * DESCRIPTOR_BYTES).next_multiple_of(RING_ALIGN);
    descriptors + rings * queue * buffer(frame_bytes).0
}

/// A descriptor as the device has left it (7.1.4, 7.1.5 and 7.2.10.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) len: usize,
    pub(super) status: u8,
    pub(super) errors: u8,
}

/// A ring of descriptors, and a buffer for each.
pub(super) struct Ring<const QUEUE: usize> {
    descriptors: NonNull<[u64; 2]>,
    frames: NonNull<u8>,
    /// Addresses for the device: of the descriptors, and of the first buffer.
    pub(super) address: u64,
    frames_address: u64,
    buffer_bytes: usize,
    /// True if the device writes extended descriptors (7.1.5), which tell more than legacy ones.
    pub(super) is_extended: bool,
}

// SAFETY: a ring has its memory to itself, but for the device.
unsafe impl<const QUEUE: usize> Send for Ring<QUEUE> {}

/// Cuts rings of the memory: of each pair one to receive, one to send.
///
/// # Errors
/// [`Cause::TooBig`] for a number of descriptors that the device does not have or frames that it
/// cannot receive, [`Cause::Full`] if the memory is too short or does not lie as the device wants
/// it.
pub(super) fn cut<const RINGS: usize, const QUEUE: usize>(
    memory: DeviceMemory,
    frame_bytes: usize,
) -> Result<[Ring<QUEUE>; RINGS], Cause> {
    if QUEUE == 0 || !QUEUE.is_multiple_of(DESCRIPTORS_STEP) || QUEUE > DESCRIPTORS_MAX {
        return Err(Cause::TooBig { len: QUEUE as u64, max: DESCRIPTORS_MAX as u64 });
    }
    if !(MAC_HEADER_BYTES..=FRAME_BYTES_MAX).contains(&frame_bytes) {
        return Err(Cause::TooBig { len: frame_bytes as u64, max: FRAME_BYTES_MAX as u64 });
    }
    let taken = memory.stretch(bytes_of(RINGS, QUEUE, frame_bytes), RING_ALIGN);
    let (start, address) = taken.ok_or(Cause::Full(Resource::DeviceMemory))?;
    let ring_bytes = QUEUE * DESCRIPTOR_BYTES;
    let frames_at = (RINGS * ring_bytes).next_multiple_of(RING_ALIGN);
    let (buffer_bytes, _) = buffer(frame_bytes);
    Ok(core::array::from_fn(|which| {
        let (descriptors_at, frames_at) = (which * ring_bytes, frames_at + which * QUEUE * buffer_bytes);
        Ring {
            // SAFETY: both lie within the stretch, which has room for all rings and their frames;
            // `ring_bytes` is a multiple of the descriptors' alignment, as the stretch's start is.
            descriptors: unsafe { start.add(descriptors_at) }.cast(),
            // SAFETY: as above.
            frames: unsafe { start.add(frames_at) },
            address: address + descriptors_at as u64,
            frames_address: address + frames_at as u64,
            buffer_bytes,
            is_extended: false,
        }
    }))
}

impl<const QUEUE: usize> Ring<QUEUE> {
    /// Bytes of the descriptors.
    pub(super) const BYTES: u32 = (QUEUE * DESCRIPTOR_BYTES) as u32;

    /// The place behind `at`.
    pub(super) const fn after(at: u16) -> u16 {
        let next = at + 1;
        if next as usize == QUEUE { 0 } else { next }
    }

    fn descriptor(&self, at: u16) -> NonNull<[u64; 2]> {
        // SAFETY: the ring has `QUEUE` descriptors.
        unsafe { self.descriptors.add(usize::from(at) % QUEUE) }
    }

    /// Writes a descriptor: its own buffer, and what is told of it; the device may use it once a
    /// tail behind it has been written.
    pub(super) fn write(&mut self, at: u16, words: u64) {
        let buffer = self.frames_address + (usize::from(at) % QUEUE * self.buffer_bytes) as u64;
        // SAFETY: a descriptor of this ring, aligned; the device looks at it only later.
        unsafe { self.descriptor(at).write_volatile([buffer, words]) };
    }

    /// Writes the descriptor of a frame of `len` bytes to be sent.
    pub(super) fn write_send(&mut self, at: u16, len: usize) {
        self.write(at, len as u64 & 0xFFFF | u64::from(SEND) << 24);
    }

    /// Makes what was written visible to the device before the tail that is written next.
    pub(super) fn publish() {
        fence(Ordering::SeqCst);
    }

    /// Returns what the device has said in a descriptor, if it is done with it.
    pub(super) fn written(&self, at: u16) -> Option<Written> {
        // SAFETY: a descriptor of this ring, aligned; any bits are a value of it.
        let [_, words] = unsafe { self.descriptor(at).read_volatile() };
        let (len, status, errors) = match (self.is_extended, words.to_le_bytes()) {
            (false, [low, high, _, _, status, errors, _, _]) => ([low, high], status, errors),
            (true, [status, _, _, errors, low, high, _, _]) => ([low, high], status, errors),
        };
        if status & DONE == 0 {
            return None;
        }
        // What the device wrote before it said so is read after.
        fence(Ordering::SeqCst);
        Some(Written { len: u16::from_le_bytes(len).into(), status, errors })
    }

    /// The bytes of a buffer that the program has.
    pub(super) fn frame(&self, at: u16, len: usize) -> &[u8] {
        let offset = usize::from(at) % QUEUE * self.buffer_bytes;
        // SAFETY: the buffer lies within the ring's memory, whose bytes were initialised when it
        // was lent; the device has given it back and was not given it since.
        unsafe { core::slice::from_raw_parts(self.frames.add(offset).as_ptr(), len.min(self.buffer_bytes)) }
    }

    /// The bytes of a buffer that the program has, to be written.
    pub(super) fn frame_mut(&mut self, at: u16, len: usize) -> &mut [u8] {
        let offset = usize::from(at) % QUEUE * self.buffer_bytes;
        let len = len.min(self.buffer_bytes);
        // SAFETY: as in `frame`, and this reference to the ring is the only one.
        unsafe { core::slice::from_raw_parts_mut(self.frames.add(offset).as_ptr(), len) }
    }
}
