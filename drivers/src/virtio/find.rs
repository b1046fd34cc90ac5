//! This module holds `unsafe` code: from the addresses of a board to the transport of a virtio
//! device.

use core::ptr::NonNull;

use aldis_hal::Cause;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::pci::{PciTransport, VirtioPciError, virtio_device_type};
use virtio_drivers::transport::{DeviceType, Transport};

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

/// The first network device in the slots.
///
/// # Safety
/// Each slot is mapped as device memory where it is, is either a virtio device's or reads as
/// something that is none, and is used by nothing else as long as the transport lives. The device
/// reaches memory at the addresses that the program uses, and is coherent with it, as the
/// [module](super) asks of the board.
pub unsafe fn find_mmio(slots: VirtioSlots) -> Option<MmioTransport<'static>> {
    let VirtioSlots { base, stride, count } = slots;
    (0..count).find_map(|slot| {
        let at = slot.checked_mul(stride).and_then(|offset| base.checked_add(offset))?;
        let header = NonNull::new(core::ptr::with_exposed_provenance_mut(at))?;
        // SAFETY: this function's caller vouches for the slot.
        let transport = unsafe { MmioTransport::new(header, stride) }.ok()?;
        (transport.device_type() == DeviceType::Network).then_some(transport)
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
    let network = |info: &_| virtio_device_type(info) == Some(DeviceType::Network);
    let Some(function) = pci::find(root, buses, network) else { return Ok(None) };
    pci::enable(root, function, window)?;
    match PciTransport::new::<LentFrame, _>(root, function) {
        Ok(transport) => Ok(Some(transport)),
        Err(VirtioPciError::BarNotAllocated(_)) => Err(Cause::Full(aldis_hal::Resource::DeviceMemory)),
        Err(_) => Err(Cause::Device),
    }
}
