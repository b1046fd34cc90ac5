//! PCI: what devices are there, and where their registers are.
//!
//! After PCI Local Bus Specification 3.0, chapter 6, and PCI Express Base Specification 2.0, 7.2.2
//! (ECAM). The walk over a bus and the sizing of base addresses are those of crate
//! `virtio-drivers`; here is what a board without firmware needs besides: the ways to the
//! configuration space ([`Mapped`], and on x86-64 [`Ports`]), and addresses for devices that have
//! none ([`enable`]).
//!
//! ```no_run
//! use aldis_drivers::pci::{AddressWindow, ConfigLayout, Mapped, PciRoot};
//! use aldis_drivers::virtio;
//!
//! # fn main() -> Result<(), aldis_hal::Cause> {
//! // QEMU's aarch64 `virt,highmem=off`: 16 buses, and 0x2EFF_0000 bytes for base addresses.
//! // SAFETY: this board has its PCI there, mapped as it is, and nothing else uses it.
//! let access = unsafe { Mapped::new(0x3F00_0000, ConfigLayout::Ecam, 16) };
//! let mut root = PciRoot::new(access);
//! let mut window = AddressWindow::new(0x1000_0000, 0x2EFF_0000);
//! // SAFETY: it has nothing else at the addresses of that window.
//! let card = unsafe { virtio::find_pci(&mut root, 1, &mut window) }?;
//! # Ok(())
//! # }
//! ```
//!
//! Where base addresses lie is the board's to know: with QEMU's riscv64 `virt` the configuration
//! space is at 0x3000_0000 (256 buses) and the window at 0x4000_0000 with 0x4000_0000 bytes; on a
//! PC the firmware has given all addresses, and `AddressWindow::NONE` will do.
//!
//! What is absent: bridges (devices behind them are found if firmware has numbered their buses),
//! interrupts, I/O base addresses (left as they are), and resizing.

mod access;

use aldis_hal::{Cause, Resource};
use virtio_drivers::transport::pci::bus::{BarInfo, Command, MemoryBarType};

#[cfg(target_arch = "x86_64")]
pub use access::Ports;
pub use access::{ConfigLayout, Mapped};
pub use virtio_drivers::transport::pci::bus::{
    ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, PciRoot,
};

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;

/// Base addresses of a device.
const BARS: u8 = 6;

/// Addresses at which devices' memory may be placed. Each is given once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressWindow {
    next: u64,
    end: u64,
}

impl AddressWindow {
    /// No addresses: devices that have none cannot be used.
    pub const NONE: Self = Self { next: 0, end: 0 };

    /// The `len` addresses from `start`.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { next: start, end: start.saturating_add(len) }
    }

    /// A stretch of `size` bytes, a power of two, at a multiple of it, and of a page: what two
    /// devices have is never in one page.
    fn take(&mut self, size: u64) -> Option<u64> {
        let at = self.next.checked_next_multiple_of(size.max(4096))?;
        let end = at.checked_add(size).filter(|end| *end <= self.end && at != 0)?;
        self.next = end;
        Some(at)
    }
}

/// The first function on the buses below `buses` that `wanted` accepts. Looks at 256 places a bus
/// at most.
pub fn find<C: ConfigurationAccess>(
    root: &PciRoot<C>,
    buses: u8,
    mut wanted: impl FnMut(&DeviceFunctionInfo) -> bool,
) -> Option<DeviceFunction> {
    let mut functions = (0..buses).flat_map(|bus| root.enumerate_bus(bus));
    functions.find(|(_, info)| wanted(info)).map(|(function, _)| function)
}

/// Makes a function ready to be used: gives each of its memory base addresses that has none one of
/// the `window`, and lets it answer to them and reach memory by itself.
///
/// # Errors
/// [`Cause::Full`] with [`Resource::DeviceMemory`] if the window has no room, [`Cause::Device`] for
/// a device whose base addresses make no sense.
pub fn enable<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    function: DeviceFunction,
    window: &mut AddressWindow,
) -> Result<(), Cause> {
    let mut index = 0;
    while index < BARS {
        let bar = root.bar_info(function, index).map_err(|_| Cause::Device)?;
        if let Some(BarInfo::Memory { address: 0, size, ref address_type, .. }) = bar {
            let is_wide = matches!(address_type, MemoryBarType::Width64);
            place(root, function, UnplacedBar { index, size, is_wide }, window)?;
        }
        index += if bar.is_some_and(|bar| bar.takes_two_entries()) { 2 } else { 1 };
    }
    let (_, command) = root.get_status_command(function);
    root.set_command(function, command | Command::MEMORY_SPACE | Command::BUS_MASTER);
    Ok(())
}

/// A base address that has no place yet.
struct UnplacedBar {
    index: u8,
    size: u64,
    /// True if it takes addresses of 64 bits.
    is_wide: bool,
}

/// Gives a base address a place.
fn place<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    function: DeviceFunction,
    bar: UnplacedBar,
    window: &mut AddressWindow,
) -> Result<(), Cause> {
    let UnplacedBar { index, size, is_wide } = bar;
    if !size.is_power_of_two() {
        return Err(Cause::Device);
    }
    let full = Cause::Full(Resource::DeviceMemory);
    let at = window.take(size).ok_or(full)?;
    match is_wide {
        true => root.set_bar_64(function, index, at),
        false => root.set_bar_32(function, index, u32::try_from(at).map_err(|_| full)?),
    }
    Ok(())
}

/// The memory that a base address of a function stands for: where it begins and how long it is.
///
/// # Errors
/// [`Cause::Device`] if there is no such memory, [`Cause::Full`] with [`Resource::DeviceMemory`] if
/// it has no address.
pub fn memory<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    function: DeviceFunction,
    index: u8,
) -> Result<(u64, u64), Cause> {
    let bar = root.bar_info(function, index).map_err(|_| Cause::Device)?;
    match bar.and_then(|bar| bar.memory_address_size()) {
        None => Err(Cause::Device),
        Some((0, _)) => Err(Cause::Full(Resource::DeviceMemory)),
        Some(place) => Ok(place),
    }
}
