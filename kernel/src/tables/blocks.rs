//! This module holds `unsafe` code: eager payload blocks, and the messages that own one.
//!
//! The storage has `peers * blocks` blocks, promised to the peers by credits, and `pooled` more for
//! the user's pooled receives. The sum is the proof that a peer with a credit always finds a block:
//!
//! ```text
//!   blocks in use  =  unexpected eager payloads  +  pooled receives and messages held by the user
//!                  <= peers * blocks             +  pooled            (credits; `pooled_in_use`)
//! ```

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::memory::buffer::UserBuffer;
use crate::rank::Status;
use crate::tables::list::OptionalIndex;

/// The index of a block in use. Not `Copy`: it is owned by one envelope, request or message at a
/// time.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct BlockIndex(u32);

/// The blocks of a storage.
pub(crate) struct Blocks<'s> {
    memory: NonNull<u8>,
    block_bytes: usize,
    next_free: &'s mut [OptionalIndex],
    /// Set by a message's drop: the user is done with the block.
    returned: &'s [AtomicBool],
    free: OptionalIndex,
    fresh: u32,
    pooled: u32,
    pooled_in_use: u32,
}

// SAFETY: the blocks' memory is reached through this value and the messages made by it only, each
// block by one owner at a time; nothing in it is tied to a thread.
unsafe impl Send for Blocks<'_> {}

impl<'s> Blocks<'s> {
    /// Blocks of equal size over `bytes`, as many as `next_free` has entries; `pooled` of them for
    /// the user.
    pub(crate) fn new(
        bytes: &'s mut [u8],
        next_free: &'s mut [OptionalIndex],
        returned: &'s [AtomicBool],
        pooled: u32,
    ) -> Self {
        let block_bytes = bytes.len().checked_div(next_free.len()).unwrap_or(0);
        let memory = NonNull::from(bytes).cast();
        Self {
            memory,
            block_bytes,
            next_free,
            returned,
            free: OptionalIndex::NONE,
            fresh: 0,
            pooled,
            pooled_in_use: 0,
        }
    }

    /// Blocks for the user that a byte fits in.
    pub(crate) const fn pooled(&self) -> u32 {
        if self.block_bytes == 0 { 0 } else { self.pooled }
    }

    /// Takes a block for a peer that had a credit for it.
    pub(crate) fn take(&mut self) -> Option<BlockIndex> {
        if let Some(index) = self.free.get() {
            self.free = *self.next_free.get(index as usize)?;
            return Some(BlockIndex(index));
        }
        let index = self.fresh;
        if index as usize >= self.next_free.len() {
            return None;
        }
        self.fresh += 1;
        Some(BlockIndex(index))
    }

    /// Gives a block back.
    #[cfg_attr(not(feature = "fast-paths"), inline(never))]
    pub(crate) fn give(&mut self, block: BlockIndex) {
        if let Some(next) = self.next_free.get_mut(block.0 as usize) {
            *next = self.free;
            self.free = OptionalIndex::to(block.0);
        }
    }

    /// Counts a block that a peer's message is in as pooled from here on; false if there are too
    /// many.
    pub(crate) fn adopt(&mut self) -> bool {
        if self.pooled_in_use >= self.pooled {
            self.collect();
        }
        let room = self.pooled_in_use < self.pooled;
        self.pooled_in_use += u32::from(room);
        room
    }

    /// Takes a block for a pooled receive, after collecting what the user has dropped.
    pub(crate) fn take_pooled(&mut self) -> Option<BlockIndex> {
        if !self.adopt() {
            return None;
        }
        let block = self.take();
        if block.is_none() {
            self.pooled_in_use -= 1;
        }
        block
    }

    /// Gives a pooled block back.
    pub(crate) fn give_pooled(&mut self, block: BlockIndex) {
        self.pooled_in_use = self.pooled_in_use.saturating_sub(1);
        self.give(block);
    }

    fn collect(&mut self) {
        for (index, returned) in self.returned.iter().enumerate() {
            // Acquire pairs with the Release of the drop: the user's last read comes before any
            // reuse.
            if returned.load(Ordering::Acquire) {
                returned.store(false, Ordering::Relaxed);
                self.give_pooled(BlockIndex(index as u32));
            }
        }
    }

    /// The block's memory.
    pub(crate) fn buffer(&self, block: &BlockIndex) -> UserBuffer {
        // SAFETY: the index is below the number of blocks (`take` and `collect` alone make them),
        // so the block lies inside the storage's memory, which this value borrows for 's; `Block`
        // has one owner, so nothing else uses it.
        unsafe { UserBuffer::new(self.memory.add(block.0 as usize * self.block_bytes), self.block_bytes) }
    }

    /// Hands a pooled block with a received message to the user.
    pub(crate) fn message(&self, block: BlockIndex, status: Status) -> Message<'s> {
        let len = usize::try_from(status.bytes).unwrap_or(usize::MAX).min(self.block_bytes);
        Message {
            // SAFETY: as in `buffer`: the block lies inside the memory borrowed for 's.
            start: unsafe { self.memory.add(block.0 as usize * self.block_bytes) },
            len,
            status,
            returned: self.returned.get(block.0 as usize),
            storage: PhantomData,
        }
    }
}

/// A received message that owns its block of the storage: no copy into a buffer of the user's.
///
/// Dereferences to its bytes. Dropping it returns the block; a message that is forgotten costs its
/// block and nothing else.
pub struct Message<'s> {
    start: NonNull<u8>,
    len: usize,
    status: Status,
    returned: Option<&'s AtomicBool>,
    storage: PhantomData<&'s [u8]>,
}

// SAFETY: the message is the block's only owner and the flag is atomic.
unsafe impl Send for Message<'_> {}

impl Message<'_> {
    /// Returns the source of the message, its tag and its length.
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is this message's alone until the drop, and `len` is at most its size.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        if let Some(returned) = self.returned {
            returned.store(true, Ordering::Release);
        }
    }
}

impl core::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Message").field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::{Rank, Tag};

    const STATUS: Status = Status { source: Rank(1), tag: Tag(2), bytes: 3 };

    #[test]
    fn blocks_are_conserved_and_pooled_ones_bounded() {
        let (mut bytes, mut next) = ([0u8; 48], [OptionalIndex::NONE; 3]);
        let returned = [const { AtomicBool::new(false) }; 3];
        let mut blocks = Blocks::new(&mut bytes, &mut next, &returned, 1);
        let pooled = blocks.take_pooled().unwrap();
        assert!(blocks.take_pooled().is_none(), "one pooled block only");
        let (one, two) = (blocks.take().unwrap(), blocks.take().unwrap());
        assert!(blocks.take().is_none());
        assert!(one != two && one != pooled && two != pooled);
        blocks.give(one);
        blocks.give(two);
        let (one, two) = (blocks.take().unwrap(), blocks.take().unwrap());
        assert!(one != two && blocks.take().is_none());
    }

    #[test]
    fn a_dropped_message_returns_its_block_and_a_held_one_does_not() {
        let (mut bytes, mut next) = ([0u8; 32], [OptionalIndex::NONE; 2]);
        let returned = [const { AtomicBool::new(false) }; 2];
        let mut blocks = Blocks::new(&mut bytes, &mut next, &returned, 1);
        let block = blocks.take_pooled().unwrap();
        blocks.buffer(&block).write(0, b"abcd");
        let message = blocks.message(block, STATUS);
        assert_eq!(&*message, b"abc");
        assert!(blocks.take_pooled().is_none());
        drop(message);
        assert!(blocks.take_pooled().is_some());
    }
}
