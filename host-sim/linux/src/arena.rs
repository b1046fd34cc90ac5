//! This module holds `unsafe` code: it hands out pieces of mapped memory. Arenas: memory of a rank
//! that the ranks of its node have mapped too.
//!
//! A long message that is sent from a block of the arena is copied once, by the receiver, straight
//! out of the sender's memory and without the system ([`copier`](crate::copier)). Nor need it be
//! copied at all: [`recv_view`](aldis_kernel::Endpoint::recv_view) lets the receiver look at it
//! where it is, while its sender waits. The memory is a part of the rank's segment, as large as
//! `aldis-run --arena` says: it is there from the start, so no access fails later for a lack of it.
//!
//! ```no_run
//! use aldis_linux::ShmArena;
//! use aldis_kernel::{Rank, Tag};
//!
//! fn main() -> std::process::ExitCode {
//!     aldis_linux::run(|ep| {
//!         let mut block = ep.shm_arena().allocate::<f64>(100_000)?;
//!         block.fill(1.5);
//!         let world = ep.world();
//!         match world.rank() {
//!             Rank(0) if world.size() > 1 => {
//!                 ep.send(&world, &block[..], Rank(1), Tag(0)).map(drop)?
//!             }
//!             Rank(1) => ep.recv(&world, &mut block[..], Rank(0), Tag(0)).map(drop)?,
//!             _ => {}
//!         }
//!         Ok(())
//!     })
//! }
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aldis_drivers::extents::{ExtentError, Extents, FreeExtent};
use aldis_hal::memory::Memory;
use zerocopy::{FromBytes, IntoBytes};

use crate::segment::PAGE_BYTES;
use crate::transport::HostEndpoint;

/// The variable that says how large an arena is, in bytes or as `64M`: read by `aldis-run` where
/// `--arena` is not given, and by a rank that is started alone.
pub const VARIABLE: &str = "ALDIS_ARENA";

/// Blocks of an arena that are in use at a time, at most.
pub const BLOCKS_MAX: usize = 1024;

/// The least alignment of a block: a cache line, which no two blocks share.
pub const ALIGN_MIN: usize = 64;

/// The largest alignment that a block can be asked to have: a page, which arenas begin at.
pub const ALIGN_MAX: usize = PAGE_BYTES;

/// Bytes that an arena may have, at most.
pub const BYTES_MAX: usize = 1 << 40;

/// Parses a size: a number of bytes, perhaps with K, M or G behind it.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let unit = text.chars().next_back().map(|last| last.to_ascii_uppercase());
    let (digits, shift) = match units.into_iter().find(|(letter, _)| Some(*letter) == unit) {
        Some((_, shift)) => (text.get(..text.len() - 1)?, shift),
        None => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok()?.checked_mul(1 << shift)?;
    (bytes <= BYTES_MAX).then_some(bytes)
}

/// The reason why there is no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ArenaError {
    /// This rank has no arena.
    None {
        /// Bytes asked for.
        need: usize,
    },
    /// There is no place for it.
    FreeExtent {
        /// The reason why there is none.
        error: ExtentError,
        /// Bytes of the whole arena.
        arena: usize,
    },
    /// An alignment that is no power of two, or above [`ALIGN_MAX`].
    Alignment {
        /// Bytes asked for.
        align: usize,
    },
    /// More than can be addressed.
    TooLong,
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None { need } => write!(
                f,
                "no block of {need} bytes: this rank has no arena; start the job with aldis-run --arena SIZE"
            ),
            Self::FreeExtent { error, arena } => write!(
                f,
                "no block in an arena of {arena} bytes: {error}; give back blocks or start the job with a larger --arena"
            ),
            Self::Alignment { align } => {
                write!(f, "no block at a multiple of {align} bytes: powers of two to {ALIGN_MAX} are offered")
            }
            Self::TooLong => f.write_str("no block: that many elements are more than can be addressed"),
        }
    }
}

impl core::error::Error for ArenaError {}

/// The arena of this rank.
pub struct Arena {
    start: NonNull<u8>,
    bytes: usize,
    /// Bytes of it all, with those behind in which the endpoint stages messages.
    whole: usize,
    staging: Mutex<Option<&'static mut [u8]>>,
    extents: Mutex<Extents<{ BLOCKS_MAX + 1 }>>,
}

// SAFETY: it owns the memory as a heap does, and hands each part of it out to one block at a time.
unsafe impl Send for Arena {}
// SAFETY: as above; what is free is known behind a lock.
unsafe impl Sync for Arena {}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, bytes, .. } = self;
        f.debug_struct("Arena").field("start", start).field("bytes", bytes).finish_non_exhaustive()
    }
}

impl Arena {
    /// The `whole` from `start`, which is at a page, of which the last `staging` bytes are for
    /// messages that are staged; no others are an arena that has no blocks.
    ///
    /// # Safety
    /// The memory is aligned to [`ALIGN_MAX`], initialised, valid for reads and writes for the rest
    /// of the process, and reached by this process through the arena alone. Other processes read
    /// it, and write no more of it than a rank has lent its transport to be written.
    pub(crate) unsafe fn new(start: NonNull<u8>, whole: usize, staging: usize) -> Self {
        let (bytes, staging) = (whole.saturating_sub(staging), staging.min(whole));
        // SAFETY: it is inside of what the caller vouches for, behind all extents, and nothing else
        // is made of it.
        let staging =
            (staging > 0).then(|| unsafe { slice::from_raw_parts_mut(start.add(bytes).as_ptr(), staging) });
        let (extents, staging) = (Mutex::new(Extents::new(bytes)), Mutex::new(staging));
        Self { start, bytes, whole, staging, extents }
    }

    /// The memory in which messages are staged, if there is any, for the one that asks first.
    pub(crate) fn take_staging(&self) -> Option<&'static mut [u8]> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Bytes of it, in use or not.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that are free, not necessarily in one piece.
    pub fn free(&self) -> usize {
        self.extents().free()
    }

    /// Returns the address at which it begins in this process.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Returns true if all of this memory is in it, or in the staging memory behind.
    pub(crate) fn holds(&self, memory: Memory) -> bool {
        let offset = memory.start.as_ptr().addr().checked_sub(self.address());
        let end = offset.and_then(|offset| offset.checked_add(memory.len));
        end.is_some_and(|end| end <= self.whole)
    }

    /// A block for `count` elements, which hold whatever bytes have been left there. It is given
    /// back when it is dropped.
    ///
    /// # Errors
    /// What [`ArenaError`] names.
    pub fn allocate<T>(&'static self, count: usize) -> Result<ArenaBlock<T>, ArenaError>
    where
        T: FromBytes + IntoBytes + Copy,
    {
        self.allocate_aligned(count, ALIGN_MIN)
    }

    /// Allocates like [`allocate`](Self::allocate), but at a multiple of `align` bytes, a power of
    /// two up to [`ALIGN_MAX`].
    ///
    /// # Errors
    /// What [`ArenaError`] names.
    pub fn allocate_aligned<T>(&'static self, count: usize, align: usize) -> Result<ArenaBlock<T>, ArenaError>
    where
        T: FromBytes + IntoBytes + Copy,
    {
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let need = bytes.ok_or(ArenaError::TooLong)?;
        if self.bytes == 0 && need > 0 {
            return Err(ArenaError::None { need });
        }
        let all = align.max(align_of::<T>()).max(ALIGN_MIN);
        if !align.is_power_of_two() || all > ALIGN_MAX {
            return Err(ArenaError::Alignment { align });
        }
        let refused = |error| ArenaError::FreeExtent { error, arena: self.bytes };
        let whole = need.next_multiple_of(ALIGN_MIN);
        let extent = self.extents().take(whole, all).map_err(refused)?;
        let start = if need == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: extents are inside of the arena.
            unsafe { self.start.add(extent.offset) }.cast::<T>()
        };
        Ok(ArenaBlock { arena: self, extent, start, count, elements: PhantomData })
    }

    fn extents(&self) -> MutexGuard<'_, Extents<{ BLOCKS_MAX + 1 }>> {
        // Nothing in there can panic half-way.
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block of this rank's arena: a slice of `T` that messages are sent from, and received into, as
/// from any other.
pub struct ArenaBlock<T> {
    arena: &'static Arena,
    extent: FreeExtent,
    start: NonNull<T>,
    count: usize,
    elements: PhantomData<T>,
}

// SAFETY: a block owns its elements as a box does.
unsafe impl<T: Send> Send for ArenaBlock<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for ArenaBlock<T> {}

impl<T> Deref for ArenaBlock<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: aligned, inside of the arena, this block's alone, and any bytes are elements
        // (`allocate`'s bounds). Others write there only while it is lent to the transport
        // exclusively.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for ArenaBlock<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above. It is borrowed exclusively, and a peer that still reads here reads what
        // is no longer shown to it, and takes it for void.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T> Drop for ArenaBlock<T> {
    fn drop(&mut self) {
        self.arena.extents().give_back(self.extent);
    }
}

impl<T: fmt::Debug> fmt::Debug for ArenaBlock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a block of {} elements at {} of the arena", self.count, self.extent.offset)
    }
}

/// The calls that a rank on Linux has beside its endpoint's.
pub trait ShmArena {
    /// The memory that the ranks of this node have mapped. It has no bytes if the job was started
    /// without.
    fn shm_arena(&self) -> &'static Arena;
}

impl ShmArena for HostEndpoint {
    fn shm_arena(&self) -> &'static Arena {
        self.transport().second().first().engine().arena()
    }
}

#[cfg(test)]
mod tests;
