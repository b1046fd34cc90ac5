//! The rings and buffers of a connection, as a device.

use core::fmt;
use core::sync::atomic::Ordering;

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Offload};
use aldis_hal::{Cause, Resource};

use super::error::MemifError;
use super::memory::{BUFFER_BYTES, MemifLayout, MemifRegions};
use super::message::{RingDirection, RingPlacement};
use super::ring::{
    BufferPlace, COOKIE, Exact, MappedRing, MemifRole, RingProgress, must_ring, poll_from_now_on,
};
use crate::adapters::ForeignDevice;
use crate::region_memory::RegionMemory;

/// The counters of a memif.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct MemifCounters {
    /// Frames that were received whole.
    pub received: u64,
    /// Frames that were handed to the peer.
    pub sent: u64,
    /// Frames that were longer than the card's, or shorter than their addresses: dropped.
    pub bad_frames: u64,
    /// Frames for which the peer had no room after all.
    pub lost: u64,
}

/// A ring at this end.
#[derive(Debug)]
struct RingEnd {
    ring: MappedRing,
    progress: RingProgress,
}

/// A connection whose memory is mapped, with regions of up to a number: a device of
/// [`ForeignNic`](crate::adapters::ForeignNic).
pub struct Memif<M, const REGIONS: usize = 1> {
    role: MemifRole,
    /// The layout of the memory, where this end has made it.
    layout: Option<MemifLayout>,
    incoming: RingEnd,
    outgoing: RingEnd,
    mac: Mac,
    frame_bytes: usize,
    is_started: bool,
    /// True if frames lie in the ring of which the peer has not been told.
    is_untold: bool,
    fault: Option<MemifError>,
    counters: MemifCounters,
    // Behind the rings, which lie in them.
    regions: MemifRegions<M, REGIONS>,
}

impl<M: RegionMemory, const REGIONS: usize> Memif<M, REGIONS> {
    /// The client's end in memory that this program has made: rings without a buffer. The card has
    /// this address, and frames of up to `frame_bytes`.
    ///
    /// # Errors
    /// [`Cause::Full`] if the memory is shorter than the layout's [`bytes`](MemifLayout::bytes) or
    /// not aligned to 4 bytes; [`Cause::TooBig`] for frames of which a ring holds none, or that
    /// hold no addresses.
    pub fn client(memory: M, layout: MemifLayout, mac: Mac, frame_bytes: usize) -> Result<Self, Cause> {
        let max = layout.descriptors() * BUFFER_BYTES;
        if !(MAC_HEADER_BYTES..=max).contains(&frame_bytes) {
            return Err(Cause::TooBig { len: frame_bytes as u64, max: max as u64 });
        }
        let too_short = Cause::Full(Resource::DeviceMemory);
        if memory.bytes() < layout.bytes() {
            return Err(too_short);
        }
        let mut all = [const { None }; REGIONS];
        *all.first_mut().ok_or(too_short)? = Some(memory);
        let regions = MemifRegions(all);
        let [to_server, to_client] = layout.rings().map(|place| regions.ring_memory(place));
        let (to_server, to_client) = to_server.zip(to_client).ok_or(too_short)?;
        for ring in [&to_server, &to_client] {
            let words = ring.words();
            for word in [words.head, words.tail, words.flags] {
                word.store(0, Ordering::Relaxed);
            }
            ring.cookie().store(COOKIE, Ordering::Release);
        }
        let [incoming, outgoing] = [to_client, to_server]
            .map(|ring| RingEnd { ring, progress: RingProgress::new(MemifRole::Client) });
        Ok(Self {
            role: MemifRole::Client,
            layout: Some(layout),
            incoming,
            outgoing,
            mac,
            frame_bytes,
            is_started: false,
            is_untold: false,
            fault: None,
            counters: MemifCounters::default(),
            regions,
        })
    }

    /// Hands the server its buffers, once it has said that it is connected: DPDK's writes zeros to
    /// both rings just before.
    pub fn start(&mut self) {
        let Some(layout) = self.layout else { return };
        let words = self.incoming.ring.words();
        for (slot, descriptor) in words.descriptors.iter().enumerate() {
            descriptor.write(layout.buffer(RingDirection::ToClient, slot));
        }
        poll_from_now_on(words);
        self.incoming.progress.begin::<Exact>(words, layout.descriptors() as u16);
        self.outgoing.progress.begin::<Exact>(self.outgoing.ring.words(), 0);
        self.is_started = true;
    }

    /// The server's end in memory that a client has made, with its rings to the server and to
    /// itself. The card has this address, and frames of up to `frame_bytes`.
    ///
    /// # Errors
    /// [`MemifError::Ring`] for a ring that does not lie in a region or is none.
    pub fn server(
        regions: [Option<M>; REGIONS],
        rings: [RingPlacement; 2],
        mac: Mac,
        frame_bytes: usize,
    ) -> Result<Self, MemifError> {
        let regions = MemifRegions(regions);
        let [to_server, to_client] = rings;
        let end = |place| {
            let ring = regions.ring(place)?;
            let mut progress = RingProgress::new(MemifRole::Server);
            progress.begin::<Exact>(ring.words(), 0);
            Ok(RingEnd { ring, progress })
        };
        let (incoming, outgoing) = (end(to_server)?, end(to_client)?);
        poll_from_now_on(incoming.ring.words());
        Ok(Self {
            role: MemifRole::Server,
            layout: None,
            incoming,
            outgoing,
            mac,
            frame_bytes: frame_bytes.max(MAC_HEADER_BYTES),
            is_started: true,
            is_untold: false,
            fault: None,
            counters: MemifCounters::default(),
            regions,
        })
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &MemifCounters {
        &self.counters
    }

    /// The reason why the peer is left alone, once it has broken the rules.
    pub const fn fault(&self) -> Option<MemifError> {
        self.fault
    }

    /// Returns true if the peer sleeps, and is to be rung for after a frame was sent.
    pub fn must_ring(&self) -> bool {
        must_ring(self.outgoing.ring.words())
    }

    /// Returns true if the peer has taken all frames that were handed to it, and so none is lost if
    /// this end goes; or if it is left alone. A client that keeps buffers back has never taken all.
    pub fn is_drained(&mut self) -> bool {
        let words = self.outgoing.ring.words();
        let usable = self.outgoing.progress.usable::<Exact>(words);
        !self.is_up() || usable.is_ok_and(|usable| usize::from(usable) == words.descriptors.len())
    }

    /// True while frames may go.
    const fn is_up(&self) -> bool {
        self.is_started && self.fault.is_none()
    }

    /// Leaves the peer alone from now on.
    #[cold]
    fn blame(&mut self, fault: MemifError) {
        self.fault = Some(fault);
    }

    /// Copies the next frame, and returns its bytes; those of one that is longer than the room
    /// too.
    fn take_in(&mut self, room: &mut [u8]) -> Result<Option<usize>, MemifError> {
        let Self { incoming: RingEnd { ring, progress }, layout, regions, .. } = self;
        let words = ring.words();
        let usable = progress.usable::<Exact>(words)?;
        let (mut bytes, mut slots) = (0_usize, 0);
        if usable == 0 {
            return Ok(None);
        }
        loop {
            let slot = progress.slot(words, slots);
            let descriptor = words.descriptors.get(slot).filter(|_| slots < usable);
            let descriptor = descriptor.ok_or(MemifError::Chain)?;
            let place = descriptor.read();
            regions.take(place, room.get_mut(bytes..).unwrap_or_default())?;
            // Fewer than 2^15 buffers of less than 2^32 bytes each.
            bytes = bytes.saturating_add(place.length as usize);
            slots += 1;
            if let Some(layout) = layout {
                descriptor.write(layout.buffer(RingDirection::ToClient, slot));
            }
            if !place.has_next {
                break;
            }
        }
        progress.advance::<Exact>(words, slots);
        Ok(Some(bytes))
    }

    /// The buffer of the slot so many behind the next that can be sent; `None` if there is none.
    fn free_buffer(&self, usable: u16, behind: u16) -> Option<BufferPlace> {
        let RingEnd { ring, progress } = &self.outgoing;
        let words = ring.words();
        let slot = progress.slot(words, behind);
        let descriptor = words.descriptors.get(slot).filter(|_| behind < usable)?;
        Some(match self.layout {
            Some(layout) => layout.buffer(RingDirection::ToServer, slot),
            None => descriptor.read(),
        })
    }

    /// The slots that a frame of so many bytes takes, each buffer looked at; `None` if there are
    /// too few.
    fn slots_for(&mut self, bytes: usize) -> Result<Option<u16>, MemifError> {
        let usable = self.outgoing.progress.usable::<Exact>(self.outgoing.ring.words())?;
        let (mut room, mut slots) = (0_usize, 0);
        while room < bytes {
            let Some(place) = self.free_buffer(usable, slots) else { return Ok(None) };
            self.regions.buffer(place)?;
            room = room.saturating_add(place.length as usize);
            slots += 1;
        }
        Ok(Some(slots))
    }

    /// Copies a frame to buffers, which are handed over by a flush. False if there is no room.
    fn put_out(&mut self, frame: &[u8]) -> Result<bool, MemifError> {
        let Some(slots) = self.slots_for(frame.len())? else { return Ok(false) };
        let mut rest = frame;
        for behind in 0..slots {
            let Some(place) = self.free_buffer(slots, behind) else { break };
            let (part, behind_it) = rest.split_at_checked(place.length as usize).unwrap_or((rest, &[]));
            // Read again where it is the peer's to write, and so looked at again.
            self.regions.put(place, part)?;
            rest = behind_it;
            let words = self.outgoing.ring.words();
            let slot = self.outgoing.progress.slot(words, behind);
            if let Some(descriptor) = words.descriptors.get(slot) {
                let (length, has_next) = (part.len() as u32, behind + 1 < slots);
                match self.role {
                    MemifRole::Client => descriptor.write(BufferPlace { length, has_next, ..place }),
                    MemifRole::Server => descriptor.write_filled(length, has_next),
                }
            }
        }
        if !rest.is_empty() {
            return Err(MemifError::Chain);
        }
        self.outgoing.progress.fill(slots);
        self.is_untold = true;
        Ok(true)
    }
}

impl<M: RegionMemory, const REGIONS: usize> ForeignDevice for Memif<M, REGIONS> {
    fn frame_bytes(&self) -> Option<usize> {
        Some(self.frame_bytes)
    }

    fn receive(&mut self, room: &mut [u8]) -> Option<usize> {
        if !self.is_up() {
            return None;
        }
        self.flush();
        match self.take_in(room) {
            Ok(Some(bytes)) if (MAC_HEADER_BYTES..=room.len().min(self.frame_bytes)).contains(&bytes) => {
                self.counters.received = self.counters.received.wrapping_add(1);
                Some(bytes)
            }
            Ok(Some(_)) => {
                self.counters.bad_frames = self.counters.bad_frames.wrapping_add(1);
                Some(0)
            }
            Ok(None) => None,
            Err(fault) => {
                self.blame(fault);
                None
            }
        }
    }

    fn has_room(&mut self) -> bool {
        if !self.is_up() {
            return false;
        }
        let found = self.slots_for(self.frame_bytes);
        found
            .unwrap_or_else(|fault| {
                self.blame(fault);
                None
            })
            .is_some()
    }

    fn send(&mut self, frame: &[u8]) {
        self.send_more(frame);
        self.flush();
    }

    fn send_more(&mut self, frame: &[u8]) {
        let is_sent = self.is_up()
            && self.put_out(frame).unwrap_or_else(|fault| {
                self.blame(fault);
                false
            });
        let counter = if is_sent { &mut self.counters.sent } else { &mut self.counters.lost };
        *counter = counter.wrapping_add(1);
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.is_untold) && self.is_up() {
            self.outgoing.progress.publish::<Exact>(self.outgoing.ring.words());
        }
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&mut self) -> LinkState {
        if self.is_up() { LinkState::Up } else { LinkState::Down }
    }

    fn offload(&self) -> Offload {
        Offload::empty()
    }
}

impl<M, const REGIONS: usize> fmt::Debug for Memif<M, REGIONS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, mac, frame_bytes, fault, counters, .. } = self;
        f.debug_struct("Memif")
            .field("role", role)
            .field("mac", mac)
            .field("frame_bytes", frame_bytes)
            .field("fault", fault)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}
