//! This module holds `unsafe` code: registers of a PCI device, mapped into this process, and the
//! cards that drivers make of them.

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd};

use aldis_drivers::e1000e::{self, E1000e, MappedRegisters};
use aldis_drivers::pci::{AddressWindow, ConfigurationAccess, DeviceFunction, PciRoot};
use aldis_drivers::virtio::{self, PciTransport, VirtioNet};
use aldis_hal::Cause;
use aldis_sys::file::{pread, pwrite};
use aldis_sys::memory::munmap;
use aldis_sys::uninterrupted;
use aldis_sys::vfio::{VfioRegion, map_region_at, region};

use super::device::{VfioDevice, of};
use super::error::PciError;
use super::found::{FoundCard, PciModel};
use super::memory;
use crate::error::CardError;

/// Descriptors of a card each way, and bytes of its longest frame: what virtio devices have, and
/// the usual MTU.
pub(super) const QUEUE: usize = 256;
const FRAME_BYTES: usize = 1514;

const _: () = assert!(e1000e::bytes_needed(QUEUE, FRAME_BYTES) <= memory::AREA_BYTES);
const _: () = assert!(2 * virtio::bytes_needed(QUEUE, FRAME_BYTES) <= memory::AREA_BYTES);

/// Base addresses of a device.
const BARS: usize = 6;
/// The place of the first in the configuration space, and of the register that says what the device
/// answers to.
const FIRST_BAR: u8 = 0x10;
const COMMAND: u8 = 0x04;
/// Of that register: the device answers to its memory; in its upper half: it has capabilities.
const MEMORY: u32 = 1 << 1;
const HAS_CAPABILITIES: u32 = 1 << 20;
/// The place of the first capability, and the most that there can be.
const FIRST_CAPABILITY: u8 = 0x34;
const CAPABILITIES: usize = 48;
/// A capability of the vendor's, and the last place of one; a virtio device tells of its structures
/// by them (VIRTIO 1.2, 4.1.4): common, notifications, interrupts, and the device's own.
const OF_VENDOR: u32 = 0x09;
const LAST_CAPABILITY: u8 = 0xF0;
const STRUCTURES: core::ops::RangeInclusive<u32> = 1..=4;

/// The value that is read where there is nothing.
const NOTHING: u32 = u32::MAX;

/// Addresses at which registers are mapped, all of 32 bits so that they fit into a base address,
/// and the bytes from one to the next that is tried. Registers of one base address are no more than
/// that.
const PLACES: core::ops::Range<usize> = 0x1000_0000..0xF000_0000;
const STEP: usize = 0x100_0000;
/// The least bytes that can be mapped.
const PAGE_BYTES: u64 = 4096;

/// A card that a driver has made.
#[derive(Debug)]
pub(super) enum MadeCard {
    E1000e(E1000e<MappedRegisters, QUEUE>),
    Virtio(Box<VirtioNet<PciTransport, QUEUE>>),
}

/// The registers behind the base addresses of a device. Unmapped on drop.
#[derive(Debug)]
pub(super) struct MappedBars([Option<MappedBar>; BARS]);

/// The registers behind one.
#[derive(Debug)]
struct MappedBar {
    start: NonNull<u8>,
    bytes: u32,
}

// SAFETY: registers of a device, not bound to a thread, and nothing but their address is handed
// out.
unsafe impl Send for MappedBar {}

impl MappedBars {
    /// Maps what can be mapped.
    pub(super) fn of(device: &VfioDevice) -> Self {
        Self(core::array::from_fn(|index| MappedBar::of(device, region(device, index as u32).ok()?)))
    }
}

impl MappedBar {
    /// Maps a region at the first place that is free. `None` for one that cannot be.
    fn of(device: &impl AsFd, region: VfioRegion) -> Option<Self> {
        let VfioRegion { bytes, is_mappable, .. } = region;
        let fits = bytes.is_power_of_two() && (PAGE_BYTES..=STEP as u64).contains(&bytes);
        if !is_mappable || !fits {
            return None;
        }
        let mut places = PLACES.step_by(STEP).filter_map(NonZeroUsize::new);
        let start = places.find_map(|place| map_region_at(device, region, place).ok())?;
        Some(Self { start: start.cast(), bytes: bytes as u32 })
    }
}

impl Drop for MappedBar {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped, of which the driver is gone. A failure leaves
        // it mapped, which does no harm.
        let _ = unsafe { munmap(self.start.cast(), self.bytes as usize) };
    }
}

/// The configuration space of a device, as the only one of a bus: read and written by the system,
/// but for base addresses, which tell where this process has the registers.
#[derive(Clone, Copy, Debug)]
struct Configuration<'a> {
    device: BorrowedFd<'a>,
    offset: u64,
    bars: [ShownBar; BARS],
}

/// A base address: of 32 bits, or none.
#[derive(Clone, Copy, Default, Debug)]
struct ShownBar {
    address: u32,
    bytes: u32,
    /// True if its length is asked for.
    is_sized: bool,
}

impl ShownBar {
    const fn read(self) -> u32 {
        if self.is_sized { self.bytes.wrapping_neg() } else { self.address }
    }
}

impl<'a> Configuration<'a> {
    fn of(device: &'a VfioDevice, bars: &MappedBars) -> Self {
        let bars = bars.0.each_ref().map(|bar| {
            let shown = bar.as_ref().map(|bar| ShownBar {
                // Below 4 GiB.
                address: bar.start.as_ptr().expose_provenance() as u32,
                bytes: bar.bytes,
                is_sized: false,
            });
            shown.unwrap_or_default()
        });
        Self { device: device.as_fd(), offset: device.configuration().offset, bars }
    }

    /// The place among base addresses.
    fn bar(&mut self, at: u8) -> Option<&mut ShownBar> {
        self.bars.get_mut(usize::from(at.checked_sub(FIRST_BAR)?) / 4)
    }

    fn read(&self, at: u8) -> u32 {
        let place = at.checked_sub(FIRST_BAR).and_then(|at| self.bars.get(usize::from(at) / 4));
        if let Some(bar) = place {
            return bar.read();
        }
        let mut word = [0xFF; 4];
        let place = self.offset + u64::from(at & !3);
        match uninterrupted(|| pread(self.device, &mut word, place)) {
            Ok(4) => u32::from_le_bytes(word),
            _ => NOTHING,
        }
    }

    fn write(&mut self, at: u8, word: u32) {
        if let Some(bar) = self.bar(at) {
            // It is where it is: whatever else is written changes nothing.
            bar.is_sized = word == u32::MAX;
            return;
        }
        // The device answers all the while, as no base address is moved.
        let word = if at == COMMAND { word | MEMORY } else { word };
        let place = self.offset + u64::from(at & !3);
        // A device that is gone is noticed by its driver.
        let _ = uninterrupted(|| pwrite(self.device, &word.to_le_bytes(), place));
    }

    /// Returns an error for a virtio device that says of a structure that it lies where no
    /// registers are, or whose capabilities have no end.
    fn check_structures(&self) -> Result<(), Cause> {
        if self.read(COMMAND) & HAS_CAPABILITIES == 0 {
            return Ok(());
        }
        let mut at = self.read(FIRST_CAPABILITY) as u8 & !3;
        for _ in 0..CAPABILITIES {
            if at == 0 {
                return Ok(());
            }
            let head = self.read(at);
            if head & 0xFF == OF_VENDOR && STRUCTURES.contains(&(head >> 24)) {
                self.check_structure(at)?;
            }
            at = (head >> 8) as u8 & !3;
        }
        Err(Cause::Device)
    }

    fn check_structure(&self, at: u8) -> Result<(), Cause> {
        if at > LAST_CAPABILITY {
            return Err(Cause::Device);
        }
        let [bar, offset, bytes] = [4, 8, 12].map(|field| self.read(at + field));
        let room = self.bars.get((bar & 0xFF) as usize).map_or(0, |bar| bar.bytes);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= room);
        if fits { Ok(()) } else { Err(Cause::Device) }
    }
}

impl ConfigurationAccess for Configuration<'_> {
    fn read_word(&self, function: DeviceFunction, at: u8) -> u32 {
        if is_ours(function) { self.read(at) } else { NOTHING }
    }

    fn write_word(&mut self, function: DeviceFunction, at: u8, word: u32) {
        if is_ours(function) {
            self.write(at, word);
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        *self
    }
}

/// Returns true for the only place of the bus that has a device.
fn is_ours(DeviceFunction { bus, device, function }: DeviceFunction) -> bool {
    (bus, device, function) == (0, 0, 0)
}

/// Makes a card of a device. It goes before the registers and the device are given up.
///
/// # Errors
/// The causes that [`PciError`] names.
pub(super) fn make(
    card: &FoundCard,
    model: PciModel,
    device: &VfioDevice,
    bars: &MappedBars,
) -> Result<MadeCard, CardError> {
    let refused = |cause| match cause {
        Cause::Incompatible => of(card, PciError::PastIommu),
        cause => of(card, PciError::Refused(cause)),
    };
    let configuration = Configuration::of(device, bars);
    let mut root = PciRoot::new(configuration);
    let none = || of(card, PciError::NoRegisters);
    // All registers are somewhere already.
    let mut window = AddressWindow::NONE;
    match model {
        PciModel::E1000e => {
            // SAFETY: the only base addresses are those of registers that are mapped there, as long
            // as the card is; the device finds memory where `memory` says.
            let found = unsafe { e1000e::find_pci(&mut root, 1, &mut window) };
            let registers = found.map_err(refused)?.ok_or_else(none)?;
            let memory = memory::of_card(card, device)?;
            E1000e::new(registers, memory, FRAME_BYTES).map(MadeCard::E1000e).map_err(refused)
        }
        PciModel::Virtio => {
            configuration.check_structures().map_err(refused)?;
            memory::lend_to_virtio(card, device)?;
            // SAFETY: as above.
            let found = unsafe { virtio::find_pci(&mut root, 1, &mut window) };
            let transport = found.map_err(refused)?.ok_or_else(none)?;
            let made = VirtioNet::new(transport, FRAME_BYTES);
            made.map(|net| MadeCard::Virtio(Box::new(net))).map_err(refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use aldis_drivers::pci;
    use aldis_sys::memory::{MFdFlags, ftruncate, memfd_create};

    use super::*;

    const FUNCTION: DeviceFunction = DeviceFunction { bus: 0, device: 0, function: 0 };

    /// A file that is a configuration space with these words.
    fn space(words: &[(u8, u32)]) -> std::os::fd::OwnedFd {
        let file = memfd_create("configuration", MFdFlags::MFD_CLOEXEC).unwrap();
        ftruncate(&file, 256).unwrap();
        for (at, word) in words {
            pwrite(&file, &word.to_le_bytes(), (*at).into()).unwrap();
        }
        file
    }

    fn configuration(file: &impl AsFd) -> Configuration<'_> {
        let mut bars = [ShownBar::default(); BARS];
        bars[4] = ShownBar { address: 0x1000_0000, bytes: 0x4000, is_sized: false };
        Configuration { device: file.as_fd(), offset: 0, bars }
    }

    #[test]
    fn base_addresses_tell_where_registers_are_mapped() {
        // What the device itself says of them is passed over.
        let file = space(&[(0, 0x1041_1AF4), (0x10, 0xFEB0_0000), (0x20, 0x8000_000C)]);
        let mut root = PciRoot::new(configuration(&file));
        let mut window = AddressWindow::NONE;
        pci::enable(&mut root, FUNCTION, &mut window).unwrap();
        assert_eq!(pci::memory(&mut root, FUNCTION, 4), Ok((0x1000_0000, 0x4000)));
        for nothing in [0, 1, 5] {
            assert_eq!(pci::memory(&mut root, FUNCTION, nothing), Err(Cause::Device));
        }
        assert_eq!(configuration(&file).read(COMMAND), 0b110, "memory and bus mastering");
        let other = DeviceFunction { device: 1, ..FUNCTION };
        assert_eq!(configuration(&file).read_word(other, 0), NOTHING);
        assert_eq!(configuration(&space(&[])).read(0), 0);
    }

    #[test]
    fn structures_that_lie_elsewhere_or_never_end_are_refused() {
        let check = |words: &[(u8, u32)]| {
            let capable = [&[(COMMAND, HAS_CAPABILITIES), (FIRST_CAPABILITY, 0x40)], words].concat();
            configuration(&space(&capable)).check_structures()
        };
        let head = |next: u32| OF_VENDOR | next << 8 | 1 << 24;
        assert_eq!(check(&[(0x40, head(0)), (0x44, 4), (0x48, 0x1000), (0x4C, 0x3000)]), Ok(()));
        for (bar, offset, bytes) in
            [(4, 0x1000, 0x3001), (0, 0, 4), (5, 0, 4), (6, 0, 4), (4, 0xFFFF_F000, 0x2000)]
        {
            let told = check(&[(0x40, head(0)), (0x44, bar), (0x48, offset), (0x4C, bytes)]);
            assert_eq!(told, Err(Cause::Device), "{bar} {offset:#x} {bytes:#x}");
        }
        assert_eq!(
            check(&[(0x40, 0x05 | 0x50 << 8), (0x50, 0x05 | 0x40 << 8)]),
            Err(Cause::Device),
            "a circle"
        );
        assert_eq!(check(&[(0x40, 0x05 | 0xFC << 8), (0xFC, head(0))]), Err(Cause::Device), "past the end");
        assert_eq!(configuration(&space(&[(0x34, 0x40)])).check_structures(), Ok(()), "none");
    }

    /// Registers are mapped at the first place that is free, and given back.
    #[test]
    fn registers_are_mapped_below_4_gib_as_long_as_they_are_used() {
        let file = memfd_create("registers", MFdFlags::MFD_CLOEXEC).unwrap();
        ftruncate(&file, 0x2_0000).unwrap();
        let region = |bytes| VfioRegion { bytes, offset: 0, is_mappable: true };
        let bars = [0x2_0000, 0x1000].map(|bytes| MappedBar::of(&file, region(bytes)).unwrap());
        let places = bars.each_ref().map(|bar| bar.start.addr().get());
        assert!(places[0] != places[1] && places.iter().all(|place| PLACES.contains(place)));
        drop(bars);
        assert_eq!(MappedBar::of(&file, region(0x1000)).unwrap().start.addr().get(), places[0]);
        for bytes in [0, 16, 0x1800, 2 * STEP as u64, u64::MAX] {
            assert!(MappedBar::of(&file, region(bytes)).is_none(), "{bytes:#x}");
        }
        assert!(MappedBar::of(&file, VfioRegion { is_mappable: false, ..region(0x1000) }).is_none());
    }
}
