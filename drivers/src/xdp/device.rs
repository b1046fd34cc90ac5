//! This module holds `unsafe` code: frames in memory that the system reads and writes too.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};

use aldis_hal::{Cause, Resource};

use super::chunks::{ChunkOwner, ChunkTable};
use super::error::{XdpFault, XdpRing};
use super::mapped::MappedRing;
use super::ring::{Exact, RingEnd, RingProgress, RingWords, read_address, write_address};
use super::{HEADROOM_BYTES, XdpArea, XdpRingMemory, XdpRingSet};
use crate::region_memory::RegionMemory;

/// Words of an entry that is an address, and of one that is a descriptor: address, length, options.
const ADDRESS_WORDS: usize = 2;
const DESCRIPTOR_WORDS: usize = 4;

/// Of a ring's flags: its other end sleeps, and is to be woken by a call of the system.
const NEED_WAKEUP: u32 = 1;

/// Chunks that are given back to the system at a time, at the least, while frames come.
const FILL_BATCH: u32 = 32;

/// The counters of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct XdpCounters {
    /// Frames that were received.
    pub received: u64,
    /// Frames that were handed to the system.
    pub sent: u64,
}

/// A ring at this end.
#[derive(Debug)]
struct RingSide<M> {
    ring: MappedRing<M>,
    progress: RingProgress,
}

impl<M: RegionMemory> RingSide<M> {
    fn new(of: XdpRingMemory<M>, ring: XdpRing, end: RingEnd) -> Option<Self> {
        let width = match ring {
            XdpRing::Receive | XdpRing::Transmit => DESCRIPTOR_WORDS,
            XdpRing::Fill | XdpRing::Completion => ADDRESS_WORDS,
        };
        let mapped = MappedRing::new(of, width)?;
        let progress = RingProgress::new(ring, end, mapped.entries());
        Some(Self { ring: mapped, progress })
    }

    fn words(&self) -> RingWords<'_> {
        self.ring.words()
    }

    /// The number of entries that can be worked on: as it was seen last, or after another look.
    fn usable(&mut self) -> Result<u32, XdpFault> {
        match self.progress.seen() {
            0 => self.progress.look::<Exact>(self.ring.words()),
            seen => Ok(seen),
        }
    }

    fn publish(&mut self) {
        self.progress.publish::<Exact>(self.ring.words());
    }

    /// Returns true if the system is to be woken to look at it.
    fn sleeps(&self) -> bool {
        self.words().flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A frame that came, in the memory for frames.
struct FoundFrame {
    chunk: u16,
    offset: u32,
    length: u32,
}

/// The rings of a socket of AF_XDP, and its memory for frames: `CHUNKS` chunks of one length. See
/// the [module](super).
pub struct XdpRings<M, const CHUNKS: usize> {
    receive: RingSide<M>,
    transmit: RingSide<M>,
    fill: RingSide<M>,
    completion: RingSide<M>,
    area: XdpArea<M>,
    chunks: ChunkTable<CHUNKS>,
    /// The chunk whose frame the program reads: given back to the system with the next one.
    lent: Option<u16>,
    /// The chunk that the program writes a frame to.
    reserved: Option<u16>,
    fault: Option<XdpFault>,
    counters: XdpCounters,
}

impl<M: RegionMemory, const CHUNKS: usize> XdpRings<M, CHUNKS> {
    /// The rings of a socket that was set up just now, and has the area registered: as many chunks
    /// as the receive ring has entries are handed to the system for frames that come, and the
    /// others are to send from. The fill ring has twice as many entries, since the system may hand
    /// over a frame before it says that it has taken the entry of its chunk.
    ///
    /// # Errors
    /// [`Cause::Full`] if a ring does not lie in its memory, or the area is too short for the
    /// chunks; [`Cause::Unsupported`] for rings whose lengths do not fit each other.
    pub fn new(area: XdpArea<M>, rings: XdpRingSet<M>) -> Result<Self, Cause> {
        let too_short = Cause::Full(Resource::DeviceMemory);
        let XdpRingSet { receive, transmit, fill, completion } = rings;
        let fits = receive.entries.checked_mul(2) == Some(fill.entries)
            && transmit.entries == completion.entries
            && u64::from(receive.entries) + u64::from(transmit.entries) == CHUNKS as u64
            && area.chunk_bytes > HEADROOM_BYTES;
        if !fits {
            return Err(Cause::Unsupported);
        }
        let need = (CHUNKS as u64).checked_mul(area.chunk_bytes.into());
        if need.is_none_or(|need| need > area.memory.bytes() as u64) {
            return Err(too_short);
        }
        let first_to_send = receive.entries;
        let receive = RingSide::new(receive, XdpRing::Receive, RingEnd::Consumer).ok_or(too_short)?;
        let transmit = RingSide::new(transmit, XdpRing::Transmit, RingEnd::Producer).ok_or(too_short)?;
        let fill = RingSide::new(fill, XdpRing::Fill, RingEnd::Producer).ok_or(too_short)?;
        let completion = RingSide::new(completion, XdpRing::Completion, RingEnd::Consumer);
        let completion = completion.ok_or(too_short)?;
        let mut card = Self {
            receive,
            transmit,
            fill,
            completion,
            area,
            chunks: ChunkTable::new(),
            lent: None,
            reserved: None,
            fault: None,
            counters: XdpCounters::default(),
        };
        for chunk in 0..CHUNKS as u32 {
            let number = chunk as u16;
            if chunk < first_to_send {
                card.refill(number).map_err(|_| too_short)?;
            } else {
                card.chunks.release(number);
            }
        }
        card.fill.publish();
        Ok(card)
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &XdpCounters {
        &self.counters
    }

    /// The reason why the card is left alone, once the system has said what cannot be.
    pub const fn fault(&self) -> Option<XdpFault> {
        self.fault
    }

    /// Returns true if the system is to be woken to send what was handed to it.
    pub fn must_wake_to_send(&self) -> bool {
        // The index must be seen by the system before its wish is read here, or it could fall
        // asleep in between and never be woken.
        fence(Ordering::SeqCst);
        self.transmit.sleeps()
    }

    /// Returns true if the system is to be woken to take the room for frames that it was given.
    pub fn must_wake_to_receive(&self) -> bool {
        self.fill.sleeps()
    }

    /// Returns true if the system has sent all frames that were handed to it, or the card is left
    /// alone.
    pub fn is_drained(&mut self) -> bool {
        if self.fault.is_none() {
            let reaped = self.reap();
            self.blame(reaped);
        }
        self.fault.is_some() || self.chunks.under_way() == 0
    }

    /// The next frame, in place: its chunk is given back to the system with the next call.
    pub fn receive(&mut self) -> Option<&[u8]> {
        if self.fault.is_some() {
            return None;
        }
        let found = self.take_in();
        let FoundFrame { chunk, offset, length } = self.blame(found)??;
        self.counters.received = self.counters.received.wrapping_add(1);
        let place = self.place(chunk, offset, length)?;
        // SAFETY: so many bytes lie in a chunk of the area, which the system has just given back,
        // and gets again by the next call alone, when this borrow of the card is over.
        Some(unsafe { core::slice::from_raw_parts(place.as_ptr(), length as usize) })
    }

    /// Returns true if a frame of so many bytes can be handed to the system: [filled in
    /// place](Self::frame_mut), and [sent](Self::send).
    pub fn reserve(&mut self, length: usize) -> bool {
        if self.fault.is_some() || length > self.area.frame_bytes() {
            return false;
        }
        let room = self.room();
        self.blame(room).is_some_and(|room| room)
    }

    /// The first bytes of the frame that was reserved; none if there is none so long.
    pub fn frame_mut(&mut self, length: usize) -> &mut [u8] {
        let place = self.reserved.and_then(|chunk| self.place(chunk, 0, length as u32));
        match place.filter(|_| length <= self.area.frame_bytes()) {
            // SAFETY: so many bytes lie in a chunk of the area that is the program's, and neither
            // lent for a frame that came nor free; it is borrowed with the card.
            Some(place) => unsafe { core::slice::from_raw_parts_mut(place.as_ptr(), length) },
            None => &mut [],
        }
    }

    /// Hands so many bytes of the frame that was reserved to the system.
    pub fn send(&mut self, length: usize) {
        let is_whole = length <= self.area.frame_bytes() && self.fault.is_none();
        let Some(chunk) = self.reserved.take_if(|_| is_whole) else { return };
        let entry = self.transmit.progress.entry::<DESCRIPTOR_WORDS>(self.transmit.words());
        // The ring had room when the chunk was reserved, which is the program's.
        let Some([first, second, bytes, options]) = entry else { return };
        write_address([first, second], self.area.address(chunk));
        bytes.store(length as u32, Ordering::Relaxed);
        options.store(0, Ordering::Relaxed);
        if self.chunks.hand(chunk, ChunkOwner::Program, ChunkOwner::Transmit) {
            self.transmit.progress.advance();
            self.transmit.publish();
            self.counters.sent = self.counters.sent.wrapping_add(1);
        }
    }

    /// Takes the next frame from the receive ring, after the chunk of the last one was given back.
    fn take_in(&mut self) -> Result<Option<FoundFrame>, XdpFault> {
        if let Some(chunk) = self.lent.take() {
            self.refill(chunk)?;
        }
        if self.receive.progress.seen() == 0 || self.fill.progress.unpublished() >= FILL_BATCH {
            // Each chunk that the system gets finds an entry of the receive ring; and a program
            // that sleeps until there is a frame would be woken by one that it has read.
            self.receive.publish();
            self.fill.publish();
        }
        if self.receive.usable()? == 0 {
            return Ok(None);
        }
        let entry = self.receive.progress.entry::<DESCRIPTOR_WORDS>(self.receive.words());
        let Some([first, second, length, options]) = entry else { return Ok(None) };
        let address = read_address([first, second]);
        let [length, options] = [length, options].map(|word| word.load(Ordering::Relaxed));
        self.receive.progress.advance();
        let found = self.area.locate(address, length).filter(|_| options == 0);
        let found =
            found.filter(|found| self.chunks.hand(found.chunk, ChunkOwner::Fill, ChunkOwner::Program));
        let found = found.ok_or(XdpFault::Frame { ring: XdpRing::Receive, address, length })?;
        self.lent = Some(found.chunk);
        Ok(Some(found))
    }

    /// Hands a chunk to the system for a frame that comes. It learns of it when that is published.
    fn refill(&mut self, chunk: u16) -> Result<(), XdpFault> {
        let address = self.area.address(chunk);
        let no_room = XdpFault::Frame { ring: XdpRing::Fill, address, length: 0 };
        // There are twice as many entries as chunks for frames that come.
        if self.fill.usable()? == 0 || !self.chunks.hand(chunk, ChunkOwner::Program, ChunkOwner::Fill) {
            return Err(no_room);
        }
        let entry = self.fill.progress.entry::<ADDRESS_WORDS>(self.fill.words());
        let [first, second] = entry.ok_or(no_room)?;
        write_address([first, second], address);
        self.fill.progress.advance();
        Ok(())
    }

    /// Takes back the chunks of frames that were sent.
    fn reap(&mut self) -> Result<(), XdpFault> {
        let count = self.completion.progress.look::<Exact>(self.completion.ring.words())?;
        for _ in 0..count {
            let entry = self.completion.progress.entry::<ADDRESS_WORDS>(self.completion.words());
            let Some([first, second]) = entry else { break };
            let address = read_address([first, second]);
            self.completion.progress.advance();
            let found = self.area.locate(address, 0);
            let found = found
                .filter(|found| self.chunks.hand(found.chunk, ChunkOwner::Transmit, ChunkOwner::Program));
            let fault = XdpFault::Frame { ring: XdpRing::Completion, address, length: 0 };
            self.chunks.release(found.ok_or(fault)?.chunk);
        }
        self.completion.publish();
        Ok(())
    }

    /// Reserves a chunk to send from, if one is free and the transmit ring has room.
    fn room(&mut self) -> Result<bool, XdpFault> {
        self.reap()?;
        if self.transmit.usable()? == 0 {
            return Ok(false);
        }
        if self.reserved.is_none() {
            self.reserved = self.chunks.take_free();
        }
        Ok(self.reserved.is_some())
    }

    /// The place of so many bytes behind the beginning of a chunk of the program's.
    fn place(&self, chunk: u16, offset: u32, length: u32) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        let is_inside = end <= self.area.chunk_bytes && usize::from(chunk) < CHUNKS;
        let is_ours = self.chunks.owner(chunk) == Some(ChunkOwner::Program);
        let at = usize::from(chunk) * self.area.chunk_bytes as usize + offset as usize;
        // SAFETY: within a chunk, and the area has all of them, as `new` has seen.
        (is_inside && is_ours).then(|| unsafe { self.area.memory.start().add(at) })
    }

    /// The result; one that cannot be is noted, and the card is left alone.
    fn blame<T>(&mut self, result: Result<T, XdpFault>) -> Option<T> {
        result.inspect_err(|fault| self.fault = Some(*fault)).ok()
    }
}

impl<M> XdpArea<M> {
    /// The address of a chunk.
    fn address(&self, chunk: u16) -> u64 {
        u64::from(chunk) * u64::from(self.chunk_bytes)
    }

    /// The frame at an address.
    fn locate(&self, address: u64, length: u32) -> Option<FoundFrame> {
        let chunk = u16::try_from(address.checked_div(self.chunk_bytes.into())?).ok()?;
        let offset = address.checked_rem(self.chunk_bytes.into())? as u32;
        let end = offset.checked_add(length)?;
        (end <= self.chunk_bytes).then_some(FoundFrame { chunk, offset, length })
    }
}

impl<M, const CHUNKS: usize> fmt::Debug for XdpRings<M, CHUNKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, counters, .. } = self;
        f.debug_struct("XdpRings").field("fault", fault).field("counters", counters).finish_non_exhaustive()
    }
}
