//! This module holds `unsafe` code: from the addresses of a board to the transport of a virtio
//! device.

use core::ptr::NonNull;

use aldis_hal::Cause;
use aldis_hal::mmio::Mmio;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::pci::bus::DeviceFunctionInfo;
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError};

use super::arena::LentFrame;
use crate::pci::{self, AddressWindow, ConfigurationAccess, PciRoot};

/// The slots in which a board has the registers of virtio devices (VIRTIO 1.2, 4.2): of equal
/// length, some without a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtioSlots {
    /// Address of the first.
    pub base: usize,
    /// Bytes from one to the next; 512 at least.
    pub stride: usize,
    /// The number of slots.
    pub count: usize,
}

/// The network devices on PCI: vendor and number of the modern one, and of one that legacy drivers
/// know too.
pub const DEVICES: [[u16; 2]; 2] = [[0x1AF4, 0x1041], [0x1AF4, 0x1000]];

/// The registers of a slot that say what is in it, and what they say of a virtio network device
/// (VIRTIO 1.2, 4.2.2 and 5).
const MAGIC_AT: usize = 0;
const MAGIC: u32 = 0x7472_6976;
const KIND_AT: usize = 8;
const NETWORK: u32 = 1;

/// The first network device in the slots. Devices of other kinds are looked at and left as they
/// are.
///
/// # Safety
/// Each slot is mapped as device memory where it is, aligned to 8 bytes, and is either a virtio
/// device's or reads as something that is none. Nothing else uses that of a network device as long
/// as the transport lives. The device reaches memory at the addresses that the program uses, and is
/// coherent with it, as the [module](super) asks of the board.
pub unsafe fn find_mmio(slots: VirtioSlots) -> Option<MmioTransport<'static>> {
    let VirtioSlots { base, stride, count } = slots;
    (0..count).find_map(|slot| {
        let at = slot.checked_mul(stride).and_then(|offset| base.checked_add(offset))?;
        let header = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(at))?;
        let register = |offset: usize| {
            // SAFETY: this function's caller vouches for the slot; reading these has no effect.
            unsafe { Mmio::<u32>::new(header.byte_add(offset).cast()) }.read()
        };
        // A transport that is dropped resets its device: there is none of a device of another kind.
        if (register(MAGIC_AT), register(KIND_AT)) != (MAGIC, NETWORK) {
            return None;
        }
        // SAFETY: as above.
        unsafe { MmioTransport::new(header.cast(), stride) }.ok()
    })
}

/// The first virtio network device on the buses below `buses`, made ready to be used; its registers
/// get addresses from `window` if no firmware has given it any. `Ok(None)`: there is none.
///
/// # Errors
/// [`Cause::Device`] for a device that is not as VIRTIO 1.2, 4.1, wants it or whose base addresses
/// make no sense, [`Cause::Full`] if the window has no room; the rest as [`pci::enable`].
///
/// # Safety
/// Where the devices say that their registers are, and what `window` has, there are such registers,
/// mapped as device memory where they are, and nothing else uses them as long as the transport
/// lives. The device reaches memory at the addresses that the program uses, and is coherent with
/// it, as the [module](super) asks of the board. Any access that a program makes up can say
/// otherwise:
///
/// ```compile_fail,E0133
/// use aldis_drivers::pci::{ConfigurationAccess, PciRoot, AddressWindow};
/// use aldis_drivers::virtio::find_pci;
///
/// fn registers_wherever<C: ConfigurationAccess>(made_up: C) {
///     let _ = find_pci(&mut PciRoot::new(made_up), 1, &mut AddressWindow::new(0x1000, 0x1000));
/// }
/// ```
pub unsafe fn find_pci<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    buses: u8,
    window: &mut AddressWindow,
) -> Result<Option<PciTransport>, Cause> {
    let network = |info: &DeviceFunctionInfo| DEVICES.contains(&[info.vendor_id, info.device_id]);
    let Some(function) = pci::find(root, buses, network) else { return Ok(None) };
    pci::enable(root, function, window)?;
    match PciTransport::new::<LentFrame, _>(root, function) {
        Ok(transport) => Ok(Some(transport)),
        Err(VirtioPciError::BarNotAllocated(_)) => Err(Cause::Full(aldis_hal::Resource::DeviceMemory)),
        Err(_) => Err(Cause::Device),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::boxed::Box;
    use std::vec;

    use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

    use super::*;

    const STRIDE: usize = 512;
    const VERSION_AT: usize = 4;
    const STATUS_AT: usize = 0x70;
    const BLOCK: u32 = 2;

    /// Slots in memory, with these words at offsets.
    fn slots(words: &[(usize, u32)]) -> VirtioSlots {
        let memory = Box::leak(vec![0_u64; 4 * STRIDE / 8].into_boxed_slice());
        let base = memory.as_mut_ptr().expose_provenance();
        for (offset, word) in words {
            let at = core::ptr::with_exposed_provenance_mut::<u32>(base + offset);
            // SAFETY: within the memory, aligned, and nobody else's.
            unsafe { at.write_volatile(*word) };
        }
        VirtioSlots { base, stride: STRIDE, count: 4 }
    }

    fn device(slot: usize, kind: u32) -> [(usize, u32); 4] {
        let at = slot * STRIDE;
        let status = DeviceStatus::DRIVER_OK.bits();
        [(at + MAGIC_AT, MAGIC), (at + VERSION_AT, 2), (at + KIND_AT, kind), (at + STATUS_AT, status)]
    }

    fn status(slots: VirtioSlots, slot: usize) -> u32 {
        let at = slots.base + slot * STRIDE + STATUS_AT;
        // SAFETY: within the memory of `slots`.
        unsafe { core::ptr::with_exposed_provenance::<u32>(at).read_volatile() }
    }

    #[test]
    fn devices_of_other_kinds_are_left_as_they_are() {
        let slots = slots(&[device(1, BLOCK), device(2, NETWORK)].concat());
        // SAFETY: the slots are there, and nothing else uses them.
        let found = unsafe { find_mmio(slots) }.unwrap();
        assert_eq!(found.device_type(), DeviceType::Network);
        assert_eq!((status(slots, 1), status(slots, 2)), (4, 4));
        drop(found);
        assert_eq!(
            (status(slots, 1), status(slots, 2)),
            (4, 0),
            "a transport that is dropped resets its device"
        );
    }

    #[test]
    fn slots_without_a_network_device_have_none() {
        let other = [(0, MAGIC ^ 1), (KIND_AT, NETWORK)];
        let slots = slots(&[&other[..], &device(3, BLOCK)].concat());
        // SAFETY: as above.
        assert!(unsafe { find_mmio(slots) }.is_none());
        assert_eq!(status(slots, 3), 4);
    }
}
