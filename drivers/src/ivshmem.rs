//! This module holds `unsafe` code: the memory that a hypervisor shares between guests, divided
//! among ranks.
//!
//! QEMU's ivshmem-plain (docs/specs/ivshmem-spec.rst of QEMU) is a PCI device, 1af4:1110, whose
//! base address 2 is memory of the host that other guests and processes have as well.
//! [`SharedMemory`] finds it and divides it: a place for each rank's card, so that ranks find each
//! other, and an inbox for each, in which [`shm`](crate::shm) runs as it does anywhere.
//!
//! ```text
//! let mut root = PciRoot::new(access);                   // see `pci`
//! let shared = unsafe { Shared::find(&mut root, 1, &mut window) }?.ok_or(no_device)?;
//! let identity = Identity { job, owner: PeerId(rank), epoch };
//! let own = unsafe { shared.inbox(&geometry, PeerId(rank)) }?;
//! shm::format(&own, geometry, identity)?;
//! let mut transport = Shm::new(identity, own, &mut lanes, cost)?;
//! // The inbox is ready: now, and not before.
//! shared.announce(&identity, card)?;
//! // for each other rank, until its card is there:
//! if let Some((epoch, card)) = shared.card(job, peer, &mut buffer) {
//!     let theirs = Identity { job, owner: peer, epoch };
//!     transport.attach(peer, unsafe { shared.inbox(&geometry, peer) }?, theirs)?;
//! }
//! ```
//!
//! # What is asked of the memory
//!
//! * It is mapped as normal, cached memory, not as device memory: it is RAM of the host. (Device
//!   memory would forbid accesses that are not aligned, and messages are copied in any way.)
//! * Aligned 32-bit loads and stores are single accesses, and release and acquire order holds
//!   between all who have the memory. Nothing else is used: no read-modify-write, no wait for a
//!   store to be seen. Guests of one QEMU host with hardware virtualisation have that; with `-accel
//!   tcg` a guest must run as if it had several processors (`-smp 1,maxcpus=2`), since QEMU leaves
//!   barriers out for a guest that can have one only.
//! * It is all zero when the job begins, or no job before had the same key: a card tells a job by
//!   its key, and a rank of an earlier job by the same key would be taken for one of this.
//!
//! There are no interrupts: ivshmem-plain has none, and ranks poll.

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use aldis_hal::{Cause, Epoch, PeerId, Resource};
use aldis_protocols::card::CARD_BYTES_MAX;
use virtio_drivers::transport::pci::bus::DeviceFunctionInfo;

use crate::pci::{self, AddressWindow, ConfigurationAccess, PciRoot};
use crate::shm::{Geometry, Identity, Region};

use crate::card_slot::{CardSlot, Exact};

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

/// Red Hat's, and the device's number there.
const VENDOR: u16 = 0x1AF4;
const DEVICE: u16 = 0x1110;
/// The base address that is the memory.
const MEMORY_BAR: u8 = 2;

/// Bytes from one inbox to the next are a multiple of this, and so is the place of the first.
const PAGE_BYTES: usize = 4096;

/// Memory that the ranks of a job share. All of them divide it alike, by the same [`Geometry`].
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
    /// Ranks that have a card, by the geometry of the inboxes, which begin behind the cards. Zero
    /// before an inbox was asked for.
    ranks: Cell<u32>,
}

impl SharedMemory {
    /// The first ivshmem-plain device on the buses below `buses`; its base addresses get places of
    /// `window` if no firmware has given them any. `Ok(None)`: there is none.
    ///
    /// # Safety
    /// What PCI devices answer to is mapped where it is, this device's memory as the [module](self)
    /// asks. Any other owner of the memory uses it as this driver does.
    ///
    /// # Errors
    /// [`Cause::Device`] for a device whose base addresses make no sense or that has no such
    /// memory, [`Cause::Full`] if the window has no room or the memory no address; see
    /// [`pci::enable`] and [`pci::memory`].
    pub unsafe fn find<C: ConfigurationAccess>(
        root: &mut PciRoot<C>,
        buses: u8,
        window: &mut AddressWindow,
    ) -> Result<Option<Self>, Cause> {
        let wanted = |info: &DeviceFunctionInfo| (info.vendor_id, info.device_id) == (VENDOR, DEVICE);
        let Some(function) = pci::find(root, buses, wanted) else { return Ok(None) };
        pci::enable(root, function, window)?;
        let (start, len) = pci::memory(root, function, MEMORY_BAR)?;
        let (start, len) = usize::try_from(start).ok().zip(usize::try_from(len).ok()).ok_or(Cause::Device)?;
        let start = NonNull::new(core::ptr::with_exposed_provenance_mut(start)).ok_or(Cause::Device)?;
        // SAFETY: the device says that it is its memory, and the caller vouches for the mapping and
        // the users.
        Ok(Some(unsafe { Self::new(start, len) }))
    }

    /// The `len` bytes from `start`: of a host's process, which has mapped the same memory, or of a
    /// board whose memory is shared in another way.
    ///
    /// # Safety
    /// The memory is valid for reads and writes for good, as the [module](self) asks, and any
    /// other owner of it uses it as this driver does.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, ranks: Cell::new(0) }
    }

    /// Bytes that a job with this geometry needs.
    pub const fn bytes_needed(geometry: &Geometry) -> usize {
        inbox_at(geometry, geometry.peers)
    }

    /// The inbox of `rank`.
    ///
    /// # Safety
    /// All inboxes of the memory are of one geometry. Of all who have the memory one has this inbox
    /// as its own, for one transport, and each other rank sends into it by one transport; it is
    /// formatted before any of them is made. Two that take the same messages would read what is
    /// being written:
    ///
    /// ```compile_fail,E0133
    /// use aldis_drivers::{ivshmem::SharedMemory, shm::Geometry};
    /// use aldis_hal::PeerId;
    ///
    /// fn twice(shared: &SharedMemory, geometry: &Geometry) {
    ///     let _ = [(); 2].map(|()| shared.inbox(geometry, PeerId(0)));
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for a rank outside the geometry; [`Cause::TooBig`] if the memory
    /// does not hold all inboxes, with what is needed and what there is; [`Cause::Unaligned`] for
    /// memory that does not begin at a page; the rest as [`Geometry::check`].
    pub unsafe fn inbox(&self, geometry: &Geometry, rank: PeerId) -> Result<Region<'static>, Cause> {
        geometry.check()?;
        if rank.0 >= geometry.peers {
            return Err(Cause::RankOutOfRange { rank: rank.0, size: geometry.peers });
        }
        let need = Self::bytes_needed(geometry);
        if need > self.len {
            return Err(Cause::TooBig { len: need as u64, max: self.len as u64 });
        }
        if !self.start.addr().get().is_multiple_of(PAGE_BYTES) {
            return Err(Cause::Unaligned { need: PAGE_BYTES as u32 });
        }
        let known = self.ranks.get();
        self.ranks.set(if known == 0 { geometry.peers } else { known.min(geometry.peers) });
        // SAFETY: the inbox lies within the memory as just checked, apart from other inboxes and
        // the cards; `new`'s caller vouched for the memory, and this one's for the inbox's users.
        Ok(unsafe { Region::new(self.start.add(inbox_at(geometry, rank.0)), geometry.inbox_bytes()) })
    }

    /// Puts this rank's card where the others look for it. Its [inbox](Self::inbox) has been
    /// formatted.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for more than [`CARD_BYTES_MAX`] bytes, [`Cause::Full`] with
    /// [`Resource::DeviceMemory`] if the memory has no place for the rank, as for one outside the
    /// geometry or before any inbox was asked for, [`Cause::Incompatible`] for an epoch of zero.
    pub fn announce(&self, identity: &Identity, card: &[u8]) -> Result<(), Cause> {
        let Identity { job, owner, epoch } = *identity;
        if card.len() > CARD_BYTES_MAX {
            return Err(Cause::TooBig { len: card.len() as u64, max: CARD_BYTES_MAX as u64 });
        }
        if epoch == Epoch(0) {
            return Err(Cause::Incompatible);
        }
        let place = self.place(owner).ok_or(Cause::Full(Resource::DeviceMemory))?;
        place.write::<Exact>(job, epoch, card);
        Ok(())
    }

    /// The card of a rank of this job and the epoch of its life, if it is there. It is copied to
    /// `buffer`. None is there before an [inbox](Self::inbox) was asked for.
    pub fn card<'b>(
        &self,
        job: u64,
        rank: PeerId,
        buffer: &'b mut [u8; CARD_BYTES_MAX],
    ) -> Option<(Epoch, &'b [u8])> {
        self.place(rank)?.read::<Exact>(job, buffer)
    }

    /// Returns the place of a rank's card; `None` for a rank outside the geometry, whose card would
    /// lie in an inbox.
    fn place(&self, rank: PeerId) -> Option<&CardSlot> {
        if rank.0 >= self.ranks.get() {
            return None;
        }
        let end = rank.index().checked_add(1)?.checked_mul(size_of::<CardSlot>())?;
        let place = self.start.cast::<CardSlot>();
        if end > self.len || !place.is_aligned() {
            return None;
        }
        // SAFETY: within the memory, in front of the inboxes, and aligned, as just checked; made of
        // atomics, so that others may write it.
        Some(unsafe { place.add(rank.index()).as_ref() })
    }
}

/// Returns the offset at which the inbox of `rank` begins, behind the cards and the inboxes of
/// lower ranks.
const fn inbox_at(geometry: &Geometry, rank: u32) -> usize {
    let cards = pages((geometry.peers as usize).saturating_mul(size_of::<CardSlot>()));
    cards.saturating_add(pages(geometry.inbox_bytes()).saturating_mul(rank as usize))
}

/// Whole pages.
const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("start", &self.start).field("len", &self.len).finish()
    }
}
