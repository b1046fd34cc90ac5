//! This module holds `unsafe` code: the contract of engines, a trait whose implementers vouch for
//! what is copied.
//!
//! Memory of other ranks of a node, read where it lies: a transport around another, which adds
//! one-sided reads to it.
//!
//! [`Direct`] carries no message itself; those are the inner transport's. It registers memory, and
//! moves the bytes of [`get`](aldis_hal::RemoteMemory::get) by a [`CopyEngine`]: on Linux the
//! system copies between processes, or the processor does out of memory of the peer that is mapped
//! here; on a card a DMA engine does.
//!
//! # The table
//!
//! Each rank has a table in memory that all ranks of the node share. An entry of it shows one
//! region: address, length and a generation, odd while it is shown. A key is the entry's number and
//! its generation, so no address is ever on the wire, and a reader holds both, and its range,
//! against the entry before it reads. It looks at the generation once more when it has read: memory
//! that was taken back meanwhile is [`Stale`](aldis_hal::Cause::Stale), and what was read of it
//! void. So the owner never waits for its readers.
//!
//! Memory that is mapped here can also be lent to the user where it is
//! ([`mapped`](aldis_hal::RemoteMemory::mapped)), under the same rule: the owner does not wait for
//! who reads there either, and who reads asks afterwards what it was worth.
//!
//! # Two that copy one message
//!
//! A long read is cut into chunks and offered in the owner's entry. The reader takes chunks from
//! the front and the owner, if it happens to poll, from the back and writes them into the reader's
//! memory: each takes one by compare-and-swap, and they meet somewhere. Of many short reads each
//! side does whole ones, the reader from the first on and the owner from the last. A rank that
//! reads itself leaves the other's reads alone until it has done its own. No reader waits for an
//! owner that is busy elsewhere.
//!
//! A write into memory of a reader that may let go of it needs more care than a read. The reader
//! writes down where each chunk belongs ([`ChunkPlace`]), and the owner's engine takes that from
//! the shared entry *in the moment in which it copies*.
//!
//! * **Engagement.** Before the owner takes a chunk it says in the entry that it is engaged, and
//!   looks whether the offer is still there; when it has recorded what it has written it is engaged
//!   no more. The reader closes its offer before it looks whether the owner is engaged. So one of
//!   them sees the other (Dekker), and while the owner is engaged nothing new is offered in that
//!   entry: a place that was emptied stays empty until the owner is known to have gone on.
//! * **Success is recorded, failure is not.** The owner records each chunk that it has written
//!   whole, by a bit of its own. The reader reads itself whatever was taken and not recorded,
//!   whether the write failed, fell short or never happened.
//! * **The end.** To take its memory back the reader claims all that is left, closes the offer,
//!   makes every place empty, and waits until the owner is not engaged, or until the engine says
//!   that the owner's thread cannot be within a copy: it is stopped or dead, and should it go on,
//!   it finds the place empty. A copy in progress ends by itself: it is bounded by a chunk. What
//!   becomes of an owner that stays within one for ever is the engine's to say
//!   ([`CopyEngine::await_end`]).
//! * **One reader at a time** has an entry's help, and an offer names the generation of the region
//!   that it reads: a reader that has not noticed that its region was taken back meets neither the
//!   next region's reader nor its owner's writes.

#[cfg(not(loom))]
mod reads;
#[cfg(not(loom))]
mod regions;
mod table;
#[cfg(not(loom))]
mod transport;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

#[cfg(not(loom))]
pub use regions::RegionSlots;
pub use table::{ChunkPlace, TABLE_BYTES, Table};
#[cfg(not(loom))]
pub use transport::{Direct, DirectTables};

use aldis_hal::memory::{Mapped, Memory};
use aldis_hal::{Cause, PeerId};

/// An engine that copies bytes between this process and others.
///
/// # Implementation safety
///
/// [`read`](Self::read) writes nothing but the memory it is given, [`write`](Self::write) nothing
/// but what the place names in the peer when it is looked at, which is not before the call, and is
/// `Ok` only if all bytes were written; [`is_within`](Self::is_within) is false, and
/// [`await_end`](Self::await_end) returns without its condition, only if the thread cannot be
/// between having looked at a place and having written there.
pub unsafe trait CopyEngine {
    /// Checks that memory of `peer` can be read, some of it at least.
    ///
    /// # Errors
    /// Why not.
    fn reads(&self, peer: PeerId) -> Result<(), &'static str>;

    /// Returns true if memory of `peer` is expected to be read, some of it at least: an engine that
    /// finds out at the first contact answers so before that. A [`read`](Self::read) that cannot be
    /// then is refused as [`Cause::Unsupported`].
    fn expects(&self, peer: PeerId) -> bool {
        self.reads(peer).is_ok()
    }

    /// Returns true if any memory of `peer` can be read, not only what is mapped here, or is
    /// expected to be. Of a peer that is [expected](Self::expects) to be read, and on the way of
    /// each post: it changes nothing.
    fn reads_all(&self, peer: PeerId) -> bool {
        self.reads(peer).is_ok()
    }

    /// Returns true if some memory of `peer` is mapped here, and some of ours there.
    fn maps(&self, _peer: PeerId) -> bool {
        false
    }

    /// Returns true if `peer` has this memory of ours mapped.
    fn is_mapped(&self, _peer: PeerId, _memory: Memory) -> bool {
        false
    }

    /// Returns true if `peer` can be expected to read this memory of ours: what it cannot is not
    /// shown to it.
    fn shows(&self, peer: PeerId, memory: Memory) -> bool;

    /// Returns the remark for users on reading memory of `peer`, if it is more than
    /// [`reads`](Self::reads) says.
    fn remark(&self, peer: PeerId) -> Option<&'static str> {
        self.reads(peer).err()
    }

    /// The `len` bytes at `from` in the memory of `peer`, if they are mapped here: a read of them
    /// is a plain copy then, which begins at once and is several times as fast as one that takes a
    /// call.
    fn mapped(&self, _peer: PeerId, _from: u64, _len: usize) -> Option<Mapped<'_>> {
        None
    }

    /// Returns true if memory of `peer` can be written.
    fn writes(&self, peer: PeerId) -> bool;

    /// Returns true if an owner is to write a part of what a reader wants of its memory at `from`,
    /// which is not mapped, to `into` in that reader's. False where writing is so slow that the
    /// reader had better do all of it.
    fn shares(&self, peer: PeerId, from: u64, into: u64) -> bool {
        let _ = (from, into);
        self.writes(peer)
    }

    /// Reads `len` bytes at `from` in the memory of `peer`.
    ///
    /// # Errors
    /// They are not all there or may not be read.
    ///
    /// # Safety
    /// `into` is valid for writes of `len` bytes, and nothing else touches them meanwhile.
    unsafe fn read(&mut self, peer: PeerId, from: u64, into: *mut u8, len: usize) -> Result<(), Cause>;

    /// Writes `len` bytes to the place in the memory of `peer`, looking at the place at that very
    /// moment.
    ///
    /// # Errors
    /// The place was not as long, or may not be written.
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes.
    unsafe fn write(
        &mut self,
        peer: PeerId,
        from: *const u8,
        place: &ChunkPlace,
        len: usize,
    ) -> Result<(), Cause>;

    /// This thread, for [`is_within`](Self::is_within).
    fn thread(&self) -> u32;

    /// Returns true if that thread of `peer` may be within a [`write`](Self::write) that has looked
    /// at its place already.
    fn is_within(&mut self, peer: PeerId, thread: u32) -> bool;

    /// Returns once `is_over`, or once that thread of `peer` cannot be within a
    /// [`write`](Self::write) that has looked at its place already. The memory that such a write is
    /// for is used for something else afterwards, so an engine whose peers can stay within one for
    /// ever ends the peer, or this process, and says so.
    fn await_end(&mut self, peer: PeerId, thread: u32, is_over: &dyn Fn() -> bool) {
        while !is_over() && self.is_within(peer, thread) {
            core::hint::spin_loop();
        }
    }
}
