//! This module holds `unsafe` code: the engine's copies, from and to registered memory.
//!
//! What [`Direct`] has under way: reads of its own, chunk by chunk, and chunks of others' reads of
//! what is shown here.

use aldis_hal::memory::{Access, Gather};
use aldis_hal::remote_memory::RemoteAddress;
use aldis_hal::{Cause, Handle, PeerId, Sink, Token, Transport};

use super::regions::{Slot, reader};
use super::table::{CHUNKS_MAX, Chunk, ENTRIES, Offered, ShownRegion, entry_bit, last_first};
use super::{CopyEngine, Direct};

/// A chunk that is not shared with the owner, and the least and the most of one that is. A call of
/// the system takes as long as copying 23 KiB by it (EPYC 9004 under KVM: 1.5 us, and 270 ns a
/// page), so chunks are few.
const CHUNK_BYTES: u32 = 256 << 10;
const SHARED_CHUNK_BYTES_MIN: u32 = 16 << 10;
const SHARED_CHUNK_BYTES_MAX: u32 = 128 << 10;

/// The least read that is shared, where it takes a call and where it is a plain copy: below this
/// (seen at 256 KiB) a reader has done all by itself before a call of the owner's is over.
const SHARED_BYTES_MIN: usize = 2 * SHARED_CHUNK_BYTES_MIN as usize;
const MAPPED_SHARED_BYTES_MIN: usize = 1 << 20;

/// The least number of chunks of a shared read that is a plain copy: the reader does several while
/// the owner does one.
const MAPPED_CHUNKS_MIN: u64 = 16;

/// The longest read that is over when it has been asked for, where it takes a call and where it is
/// a plain copy. All longer ones are left to the polls, so that whatever else is to be announced or
/// asked for is so before.
const AT_ONCE_BYTES_MAX: usize = 16 << 10;
const MAPPED_AT_ONCE_BYTES_MAX: usize = 32 << 10;

/// Most bytes of one read.
pub(super) const READ_BYTES_MAX: u64 = CHUNKS_MAX as u64 * SHARED_CHUNK_BYTES_MAX as u64;

/// Polls for which a reader that has done its part waits for the owner's, before it looks whether
/// that is stopped.
const PATIENCE: u32 = 4096;

/// A read into a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) state: ReadState,
    pub(super) token: Token,
    /// The owner's entry and its generation.
    pub(super) entry: u32,
    generation: u32,
    /// The first byte in the owner's memory, as an address and as an offset in what is shown, and
    /// where it belongs in the region.
    from: u64,
    first: u64,
    offset: usize,
    len: usize,
    /// Bytes read, if it is not shared.
    done: usize,
    offered: Offered,
    /// Polls that it has waited for the owner.
    waited: u32,
}

/// The two ends of a read.
#[derive(Clone, Copy)]
pub(super) struct ReadEnds {
    /// Offset of its first byte in the owner's region.
    pub(super) first: u64,
    /// Address of its first byte in the reader.
    pub(super) target: u64,
}

/// The target of a key: an entry of the owner's, and what its generation must be.
pub(super) struct KeyTarget {
    pub(super) entry: u32,
    generation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadState {
    Idle,
    /// By this side alone.
    Alone,
    /// Offered to the owner.
    Shared,
    /// Chunks that the owner has taken and not written are read after all: these, by their bits.
    Again {
        missing: u32,
    },
}

impl Read {
    pub(super) const NONE: Self = Self {
        state: ReadState::Idle,
        token: Token(Handle { slot: 0, generation: 0 }),
        entry: 0,
        generation: 0,
        from: 0,
        first: 0,
        offset: 0,
        len: 0,
        done: 0,
        offered: Offered { serial: 0, first: 0, len: 0, chunk_bytes: 0, chunks: 0, generation: 0 },
        waited: 0,
    };

    /// Bytes of the next chunk that this side reads alone, if so many of what is shown are in
    /// place: none while there are no more.
    fn next_bytes(&self, ready: u64) -> usize {
        let there = ready.saturating_sub(self.first.saturating_add(self.done as u64));
        let most = usize::try_from(there).unwrap_or(usize::MAX).min(CHUNK_BYTES as usize);
        (self.len - self.done).min(most)
    }
}

/// The outcome of a step of a read.
pub(super) enum ReadStep {
    /// There is more.
    On,
    /// All is done but what the owner is at.
    Waits,
    Over(Result<(), Cause>),
}

impl<'m, T: Transport, E: CopyEngine> Direct<'m, T, E> {
    /// Copies one chunk: of a read under way, which goes on until it is over or waits for the
    /// owner, or, if there is none to be copied, of one that others have under way here. Two that
    /// read from each other so leave each other alone: each would pay for the other's calls.
    #[inline(never)]
    pub(super) fn copy<S: Sink>(&mut self, sink: &mut S) -> u32 {
        let left = self.reading.rotate_right(self.turn);
        if left == 0 {
            return u32::from(self.help());
        }
        let index = (left.trailing_zeros() + self.turn) % ENTRIES;
        let step = self.step(index);
        self.turn = if let ReadStep::On = step { index } else { (index + 1) % ENTRIES };
        match step {
            ReadStep::On => {}
            ReadStep::Waits => return u32::from(self.help()),
            ReadStep::Over(result) => {
                let token = self.slots.0.get(reader(index)).map(|slot| slot.read.token);
                self.cut_off(reader(index));
                if let Some(token) = token {
                    sink.completed(token, result);
                }
            }
        }
        1
    }

    /// The owner's entry that a read is of.
    pub(super) fn entry(&self, peer: PeerId, index: u32) -> Option<&'m ShownRegion> {
        self.peers.get(peer.index())?.as_ref()?.entry(index)
    }

    /// Copies one chunk of the read into region `index`.
    pub(super) fn step(&mut self, index: u32) -> ReadStep {
        let Some(&slot) = self.slots.0.get(reader(index)) else { return ReadStep::Over(Err(Cause::Stale)) };
        let Slot { peer, memory, mut read, .. } = slot;
        let Some(entry) = self.entry(peer, read.entry) else { return ReadStep::Over(Err(Cause::Stale)) };
        let (piece, last) = match read.state {
            ReadState::Idle => return ReadStep::Over(Err(Cause::Stale)),
            ReadState::Alone => {
                let len = read.next_bytes(entry.ready());
                if len == 0 && read.len > 0 {
                    if !entry.is_shown(read.generation) {
                        return ReadStep::Over(Err(Cause::Stale));
                    }
                    self.keep(index, read);
                    return ReadStep::Waits;
                }
                let piece = (read.done as u64, len);
                read.done += len;
                (Some(piece), read.done == read.len)
            }
            ReadState::Shared => match entry.take_front(read.offered.serial, read.offered.chunks) {
                Chunk::Yours(chunk) => (self.with_next(peer, entry, &read.offered, chunk), false),
                Chunk::Taken(taken) => match self.rest(peer, entry, &mut read, taken) {
                    Some(done) => (None, done),
                    None => {
                        self.keep(index, read);
                        return ReadStep::Waits;
                    }
                },
                Chunk::Gone => return ReadStep::Over(Err(Cause::Stale)),
            },
            ReadState::Again { missing } => {
                let rest = missing & missing.wrapping_sub(1);
                read.state = ReadState::Again { missing: rest };
                (read.offered.range(missing.trailing_zeros()), rest == 0)
            }
        };
        if let Some((start, len)) = piece {
            let place = read.offset.saturating_add(start as usize);
            if !slot.holds(place, len) {
                return ReadStep::Over(Err(Cause::BadRegion));
            }
            // SAFETY: the piece is inside of registered memory, which by `register`'s contract is
            // valid and left alone until it is taken back; no other chunk has these bytes.
            let copied = unsafe {
                let into = memory.start.as_ptr().add(place);
                self.engine.read(peer, read.from.wrapping_add(start), into, len)
            };
            if let Err(cause) = copied {
                let cause = if entry.is_shown(read.generation) { cause } else { Cause::Stale };
                return ReadStep::Over(Err(cause));
            }
        }
        if !last {
            return self.keep(index, read);
        }
        ReadStep::Over(if entry.is_shown(read.generation) { Ok(()) } else { Err(Cause::Stale) })
    }

    /// The bytes of a chunk that this side has taken and, if the owner has something to read here
    /// meanwhile, of those after it, which are taken as well: they are copied by one call.
    fn with_next(
        &self,
        peer: PeerId,
        entry: &ShownRegion,
        offered: &Offered,
        chunk: u32,
    ) -> Option<(u64, usize)> {
        let (start, mut len) = offered.range(chunk)?;
        let fits = |len: usize| len.saturating_add(offered.chunk_bytes as usize) <= CHUNK_BYTES as usize;
        if self.shows_to(peer) {
            while fits(len)
                && let Chunk::Yours(next) = entry.take_front(offered.serial, offered.chunks)
                && let Some((_, more)) = offered.range(next)
            {
                len = len.saturating_add(more);
            }
        }
        Some((start, len))
    }

    pub(super) fn keep(&mut self, index: u32, read: Read) -> ReadStep {
        if let Some(slot) = self.slots.0.get_mut(reader(index)) {
            slot.read = read;
        }
        ReadStep::On
    }

    /// The reader has done its part of a read of which the owner has taken so many chunks: whether
    /// all is done, or some chunks must be read after all. `None` while the owner is at it.
    fn rest(&mut self, peer: PeerId, entry: &ShownRegion, read: &mut Read, taken: u32) -> Option<bool> {
        // All chunks are taken, so an owner that is not engaged now has recorded all that it will
        // ever write.
        if entry.is_engaged() {
            read.waited += 1;
            if !read.waited.is_multiple_of(PATIENCE) {
                return None;
            }
            if entry.is_shown(read.generation) && self.engine.is_within(peer, entry.helper()) {
                return None;
            }
            // It may be stopped just before its copy. The places stay empty until it has
            // disengaged, since nothing is offered before that.
            entry.empty_places();
            if self.engine.is_within(peer, entry.helper()) {
                return None;
            }
        }
        let missing = read.offered.taken_from_back(taken) & !entry.written();
        read.state = ReadState::Again { missing };
        Some(missing == 0)
    }

    /// Ends a read: when this returns no owner writes to its memory any more.
    pub(super) fn cut_off(&mut self, index: usize) {
        let Some(slot) = self.slots.0.get_mut(index) else { return };
        let (peer, read) = (slot.peer, core::mem::replace(&mut slot.read, Read::NONE));
        self.reading &= !entry_bit(index.wrapping_sub(ENTRIES as usize) as u32);
        if read.state == ReadState::Idle || read.state == ReadState::Alone {
            return;
        }
        let Some(entry) = self.entry(peer, read.entry) else { return };
        let _ = entry.withdraw(read.offered.serial, read.offered.chunks);
        entry.close();
        if entry.is_engaged() {
            entry.empty_places();
            // Ends with the owner's copy of one chunk at the latest, or once the owner cannot be
            // within one. What it does after that finds empty places.
            self.engine.await_end(peer, entry.helper(), &|| !entry.is_engaged());
        }
        if let Some(Some(table)) = self.peers.get_mut(peer.index()) {
            table.give_help_back(read.entry);
        }
    }

    /// Writes one chunk for a reader of what is shown here. Whether there was one.
    fn help(&mut self) -> bool {
        // From the last entry on: readers begin with the first, so that of many reads each side
        // does whole ones.
        last_first(self.shown).any(|index| self.help_with(index))
    }

    fn help_with(&mut self, index: u32) -> bool {
        let (Some(&slot), Some(entry)) = (self.slots.0.get(index as usize), self.own.entry(index)) else {
            return false;
        };
        if !self.engine.writes(slot.peer) {
            return false;
        }
        let Some(offered) = entry.engage(slot.generation, self.engine.thread()) else { return false };
        let taken = match entry.take_back(offered.serial, offered.chunks) {
            Chunk::Yours(chunk) => {
                if self.write_chunk(&slot, entry, &offered, chunk).is_ok() {
                    entry.tell_written(chunk);
                }
                true
            }
            Chunk::Taken(_) | Chunk::Gone => false,
        };
        entry.disengage();
        taken
    }

    /// Writes a chunk that this side has taken to where it belongs. A reader that finds no record
    /// of it reads it itself, so that a failure need not be reported.
    fn write_chunk(
        &mut self,
        slot: &Slot,
        entry: &ShownRegion,
        offered: &Offered,
        chunk: u32,
    ) -> Result<(), Cause> {
        let place = entry.place(chunk).zip(offered.range(chunk));
        let inside = place.and_then(|(place, (start, len))| {
            let start = usize::try_from(offered.first.checked_add(start)?).ok()?;
            slot.holds(start, len).then_some((place, start, len))
        });
        let (place, start, len) = inside.ok_or(Cause::BadRegion)?;
        // SAFETY: the piece is inside of registered memory, which by `register`'s contract is there
        // to be read until it is taken back.
        unsafe {
            let from = slot.memory.start.as_ptr().add(start);
            self.engine.write(slot.peer, from, place, len)
        }
    }

    /// The next serial of an offer; never zero.
    fn next_serial(&mut self) -> u16 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }

    /// Plans a read, if both sides' memory is there.
    pub(super) fn plan(
        &mut self,
        peer: PeerId,
        local: Gather,
        remote: RemoteAddress<'_>,
        token: Token,
    ) -> Result<Read, Cause> {
        let (KeyTarget { entry, generation }, from) = self.find(peer, remote, local.len as u64)?;
        let slot = self.slot(local.region).ok_or(Cause::BadRegion)?;
        if !slot.access.contains(Access::LOCAL_WRITE) || !slot.holds(local.offset, local.len) {
            return Err(Cause::BadRegion);
        }
        if slot.read.state != ReadState::Idle || slot.peer != peer {
            return Err(Cause::Busy);
        }
        let (Gather { offset, len, .. }, first) = (local, remote.offset);
        Ok(Read { state: ReadState::Alone, token, entry, generation, from, first, offset, len, ..Read::NONE })
    }

    /// The entry that a key names, and where in the owner's memory the `len` bytes are, if they are
    /// shown there.
    pub(super) fn find(
        &self,
        peer: PeerId,
        RemoteAddress { key, offset }: RemoteAddress<'_>,
        len: u64,
    ) -> Result<(KeyTarget, u64), Cause> {
        let Some((&entry, rest)) = key.split_first_chunk() else { return Err(Cause::BadRegion) };
        let Some(&generation) = rest.first_chunk() else { return Err(Cause::BadRegion) };
        let (index, generation) = (u32::from_le_bytes(entry), u32::from_le_bytes(generation));
        let entry = self.entry(peer, index).ok_or(Cause::BadRegion)?;
        let (address, shown) = entry.look(generation)?;
        if offset.checked_add(len).is_none_or(|end| end > shown) {
            return Err(Cause::BadRegion);
        }
        Ok((KeyTarget { entry: index, generation }, address.wrapping_add(offset)))
    }

    /// Begins a read of memory that is shown in `entry`, into region `index`.
    pub(super) fn begin(
        &mut self,
        index: u32,
        entry: &ShownRegion,
        mut read: Read,
        ends: ReadEnds,
    ) -> ReadStep {
        let peer = self.slots.0.get(reader(index)).map(|slot| slot.peer).unwrap_or_default();
        let is_mapped = self.engine.mapped(peer, read.from, read.len).is_some();
        let (shared_min, at_once_max) = if is_mapped {
            (MAPPED_SHARED_BYTES_MIN, MAPPED_AT_ONCE_BYTES_MAX)
        } else {
            (SHARED_BYTES_MIN, AT_ONCE_BYTES_MAX)
        };
        let at_once = read.len <= at_once_max;
        let shares = |engine: &E| match is_mapped {
            true => engine.writes(peer),
            false => engine.shares(peer, read.from, ends.target),
        };
        // An owner does not help with what it is putting in place, nor soon if it has something to
        // read here.
        let is_whole = entry.ready() == u64::MAX;
        let shows = read.len >= shared_min && self.shows_to(peer);
        let is_mutual = shows && !is_mapped && read.len <= CHUNK_BYTES as usize;
        // One of several is over sooner than the owner has found it, unless it is long.
        let alone = self.reading == 0 && !shows;
        let is_short = !is_mapped && !alone && read.len < SHARED_CHUNK_BYTES_MAX as usize;
        if read.len >= shared_min && is_whole && !is_mutual && !is_short && shares(&self.engine) {
            // Halves of a read that is alone; but one chunk of a longer one among others, of which
            // each side does some.
            let len = read.len as u64;
            let wanted = match (is_mapped, alone) {
                (true, _) => len / MAPPED_CHUNKS_MIN,
                (false, true) => len.div_ceil(2),
                (false, false) => len,
            };
            let peers = self.peers.get_mut(peer.index());
            if peers.is_some_and(|row| row.as_mut().is_some_and(|table| table.take_help(read.entry))) {
                self.share(entry, &mut read, ends, wanted);
            }
        }
        self.keep(index, read);
        self.reading |= entry_bit(index);
        if at_once { self.step(index) } else { ReadStep::On }
    }

    /// Returns true if anything is shown to a peer.
    fn shows_to(&self, peer: PeerId) -> bool {
        let slot = |index: u32| self.slots.0.get(index as usize);
        last_first(self.shown).filter_map(slot).any(|slot| slot.peer == peer)
    }

    /// Offers a read to the owner in chunks of about `wanted` bytes.
    fn share(&mut self, entry: &ShownRegion, read: &mut Read, ends: ReadEnds, wanted: u64) {
        let ReadEnds { first, target } = ends;
        let len = read.len as u64;
        let least = len.div_ceil(CHUNKS_MAX.into()).max(SHARED_CHUNK_BYTES_MIN.into());
        let chunk_bytes = wanted.min(SHARED_CHUNK_BYTES_MAX.into()).max(least).next_multiple_of(4096) as u32;
        let chunks = len.div_ceil(chunk_bytes.into()) as u32;
        let (serial, generation) = (self.next_serial(), read.generation);
        read.offered = Offered { serial, first, len, chunk_bytes, chunks, generation };
        read.state = ReadState::Shared;
        entry.offer(&read.offered, target);
    }
}
