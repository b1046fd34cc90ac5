//! This module holds `unsafe` code: the buffers of one queue, and which of them is whose.
//!
//! A buffer is the program's or the device's. The table of tokens says which the device has, so
//! that what it gives back is known before it is believed.

use core::ptr::NonNull;

use aldis_hal::Cause;
use virtio_drivers::queue::VirtQueue;

use super::arena::{self, LentFrame};
use super::checksum::FrameHeader;

/// Bytes of the header in front of a frame (VIRTIO 1.2, 5.1.6), and of the legacy one without
/// `num_buffers` (5.1.6.1).
pub(super) const HEADER_BYTES: usize = 12;
pub(super) const LEGACY_HEADER_BYTES: usize = 10;

/// Buffers stand this far apart, or a multiple of it.
const LINE_BYTES: usize = 64;

/// No buffer.
const NONE: u16 = u16::MAX;

/// Bytes of a buffer: room for moving the header to where the frame behind it is aligned, the
/// header, the frame.
pub(super) const fn stride(frame_bytes: usize) -> usize {
    (8 + HEADER_BYTES + frame_bytes).next_multiple_of(LINE_BYTES)
}

/// The use that the device makes of a buffer.
pub(super) enum BufferUse {
    /// Reads the first `len` bytes of a frame, behind this header.
    Read {
        /// Bytes of the frame.
        len: usize,
        /// The header in front of it.
        header: FrameHeader,
    },
    /// Writes a frame.
    Write,
}

/// The buffers of a queue: as many as it has descriptors.
pub(super) struct Frames<const QUEUE: usize> {
    start: NonNull<u8>,
    /// Bytes from one buffer to the next.
    stride: usize,
    /// The offset in a buffer at which the header begins.
    shift: usize,
    header_bytes: usize,
    frame_bytes: usize,
    /// The buffer that the device holds under a token.
    held: [u16; QUEUE],
    /// The program's buffers, as a stack of `free_len`.
    free: [u16; QUEUE],
    free_len: usize,
}

// SAFETY: the buffers are this value's alone, but for the device, and not bound to a thread.
unsafe impl<const QUEUE: usize> Send for Frames<QUEUE> {}

impl<const QUEUE: usize> Frames<QUEUE> {
    /// Buffers for frames of up to `frame_bytes`, from the memory lent; all are the program's.
    pub(super) fn new(frame_bytes: usize, legacy: bool) -> Result<Self, Cause> {
        let header_bytes = if legacy { LEGACY_HEADER_BYTES } else { HEADER_BYTES };
        let stride = stride(frame_bytes);
        let start = arena::take(stride.saturating_mul(QUEUE))?;
        let free = core::array::from_fn(|index| index as u16);
        let shift = 16 - header_bytes;
        Ok(Self {
            start,
            stride,
            shift,
            header_bytes,
            frame_bytes,
            held: [NONE; QUEUE],
            free,
            free_len: QUEUE,
        })
    }

    pub(super) const fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// A buffer of the program's.
    pub(super) fn pop(&mut self) -> Option<u16> {
        let last = self.free_len.checked_sub(1)?;
        self.free_len = last;
        self.free.get(last).copied()
    }

    /// Makes a buffer one of the program's that is free. Only what [`pop`](Self::pop) or
    /// [`taken`](Self::taken) gave.
    pub(super) fn push(&mut self, buffer: u16) {
        if let Some(place) = self.free.get_mut(self.free_len) {
            *place = buffer;
            self.free_len += 1;
        }
    }

    /// The buffer that the device holds under `token`, which may be any number.
    pub(super) fn held(&self, token: u16) -> Option<u16> {
        self.held.get(usize::from(token)).copied().filter(|buffer| *buffer != NONE)
    }

    /// Returns the address of a buffer's header, and the bytes from there to the end of a frame of
    /// `len` bytes, which is cut to what there is room for. `None`: there is no such buffer.
    fn place(&self, buffer: u16, len: usize) -> Option<(*mut u8, usize)> {
        let index = usize::from(buffer);
        let at = self.start.as_ptr().wrapping_add(index * self.stride + self.shift);
        (index < QUEUE).then_some((at, self.header_bytes + len.min(self.frame_bytes)))
    }

    /// Header and frame of a buffer of the program's.
    fn whole(&mut self, buffer: u16, len: usize) -> Option<&mut [u8]> {
        let (at, len) = self.place(buffer, len)?;
        // SAFETY: that many bytes begin there, since a stride holds `shift` (6 at most), header and
        // frame; the memory is this value's for good, initialised (it was cleared when lent), and
        // borrowed with it. The device was not given the buffer or has given it back, by this
        // module's table.
        Some(unsafe { core::slice::from_raw_parts_mut(at, len) })
    }

    /// The frame in a buffer of the program's.
    pub(super) fn frame_mut(&mut self, buffer: u16, len: usize) -> &mut [u8] {
        let header_bytes = self.header_bytes;
        self.whole(buffer, len).and_then(|whole| whole.get_mut(header_bytes..)).unwrap_or_default()
    }

    /// The frame in a buffer, to be read.
    pub(super) fn frame(&self, buffer: u16, len: usize) -> &[u8] {
        let Some((at, len)) = self.place(buffer, len) else { return &[] };
        // SAFETY: as in `whole`; the memory is borrowed to be read.
        let whole = unsafe { core::slice::from_raw_parts(at, len) };
        whole.get(self.header_bytes..).unwrap_or_default()
    }

    /// The header and the frame of `len` bytes that the device has written into a buffer of the
    /// program's.
    pub(super) fn received(&mut self, buffer: u16, len: usize) -> Option<(FrameHeader, &mut [u8])> {
        let header_bytes = self.header_bytes;
        let (header, frame) = self.whole(buffer, len)?.split_at_mut_checked(header_bytes)?;
        Some((*header.first_chunk()?, frame))
    }

    /// Gives a buffer of the program's to the device. False, and the buffer is free: the queue has
    /// no descriptor.
    pub(super) fn give(
        &mut self,
        queue: &mut VirtQueue<LentFrame, QUEUE>,
        buffer: u16,
        by_device: BufferUse,
    ) -> bool {
        let header_bytes = self.header_bytes;
        let len = if let BufferUse::Read { len, .. } = by_device { len } else { usize::MAX };
        let Some(whole) = self.whole(buffer, len) else { return false };
        let token = match by_device {
            BufferUse::Read { header, .. } => {
                let (place, rest) = whole.split_at_mut_checked(header.len()).unwrap_or_default();
                place.copy_from_slice(&header);
                // One buffer, which modern devices are told by a zero (5.1.6.2).
                rest.get_mut(..header_bytes - header.len()).unwrap_or_default().fill(0);
                // SAFETY: the buffer is valid for good, and the table keeps it from everybody until
                // it was taken back.
                unsafe { queue.add(&[whole], &mut []) }
            }
            // SAFETY: as above.
            BufferUse::Write => unsafe { queue.add(&[], &mut [whole]) },
        };
        match token.ok().and_then(|token| self.held.get_mut(usize::from(token))) {
            Some(place) => {
                *place = buffer;
                true
            }
            None => {
                self.push(buffer);
                false
            }
        }
    }

    /// Takes the next buffer back that the device has done with: the buffer, which is the program's
    /// and not free, and how many bytes the device says to have written, header included.
    ///
    /// # Errors
    /// [`Cause::Device`]: the device gives back what it does not hold.
    pub(super) fn taken(
        &mut self,
        queue: &mut VirtQueue<LentFrame, QUEUE>,
        write: bool,
    ) -> Result<Option<(u16, u32)>, Cause> {
        let Some(token) = queue.peek_used() else { return Ok(None) };
        let buffer = self.held(token).ok_or(Cause::Device)?;
        let whole = self.whole(buffer, usize::MAX).ok_or(Cause::Device)?;
        let written = if write {
            // SAFETY: by the table this is the buffer that was added under `token`, which is one
            // that was added.
            unsafe { queue.pop_used(token, &[], &mut [whole]) }
        } else {
            // SAFETY: as above; only the buffer's address and number matter here, not its length.
            unsafe { queue.pop_used(token, &[whole], &mut []) }
        };
        let written = written.map_err(|_| Cause::Device)?;
        if let Some(place) = self.held.get_mut(usize::from(token)) {
            *place = NONE;
        }
        Ok(Some((buffer, written)))
    }

    /// The frame's length if the device has written `written` bytes, header included; `None` if it
    /// cannot have.
    pub(super) fn frame_len(&self, written: u32) -> Option<usize> {
        (written as usize).checked_sub(self.header_bytes).filter(|len| *len <= self.frame_bytes)
    }
}
