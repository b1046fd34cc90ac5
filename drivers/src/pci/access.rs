//! This module holds `unsafe` code: reading and writing the configuration space of PCI.

use core::ptr::NonNull;

use aldis_hal::mmio::Mmio;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

/// The value that is read where there is nothing.
const NOTHING: u32 = u32::MAX;

/// The layout of a configuration space in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ConfigLayout {
    /// 256 bytes a function.
    Cam,
    /// 4 KiB a function (PCI Express).
    Ecam,
}

impl ConfigLayout {
    /// Bytes of a function as a power of two.
    const fn shift(self) -> u32 {
        match self {
            Self::Cam => 8,
            Self::Ecam => 12,
        }
    }
}

/// A configuration space in memory.
#[derive(Debug)]
pub struct Mapped {
    base: usize,
    layout: ConfigLayout,
    buses: u16,
}

impl Mapped {
    /// The configuration space at `base`, of the buses below `buses` (256 at most).
    ///
    /// # Safety
    /// It is mapped there as device memory, aligned to 4 bytes at least: 64 KiB for each bus, or 1
    /// MiB in the layout [`Ecam`](ConfigLayout::Ecam); and nothing else uses it. What its devices
    /// answer to is reached by the program at the very same addresses.
    pub const unsafe fn new(base: usize, layout: ConfigLayout, buses: u16) -> Self {
        Self { base, layout, buses }
    }

    fn register(&self, function: DeviceFunction, offset: u8) -> Option<Mmio<u32>> {
        let DeviceFunction { bus, device, function: number } = function;
        if u16::from(bus) >= self.buses || !function.valid() {
            return None;
        }
        let index = usize::from(bus) << 8 | usize::from(device) << 3 | usize::from(number);
        let at = self.base + (index << self.layout.shift()) + usize::from(offset & !3);
        let register = NonNull::new(core::ptr::with_exposed_provenance_mut(at))?;
        // SAFETY: an aligned register of a bus that `new`'s caller vouched for.
        Some(unsafe { Mmio::new(register) })
    }
}

impl ConfigurationAccess for Mapped {
    fn read_word(&self, device_function: DeviceFunction, register_offset: u8) -> u32 {
        self.register(device_function, register_offset).map_or(NOTHING, |register| register.read())
    }

    fn write_word(&mut self, device_function: DeviceFunction, register_offset: u8, data: u32) {
        if let Some(mut register) = self.register(device_function, register_offset) {
            register.write(data);
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self { ..*self }
    }
}

/// The configuration space of a PC, through its I/O ports 0xCF8 and 0xCFC (PCI 3.0, 3.2.2.3.2).
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub struct Ports(());

#[cfg(target_arch = "x86_64")]
impl Ports {
    /// The ports of this machine.
    ///
    /// # Safety
    /// The program may use I/O ports, and nothing else uses these two: an access is two steps. What
    /// devices answer to is reached by the program at the very same addresses.
    pub const unsafe fn new() -> Self {
        Self(())
    }

    /// Says which register the next access means.
    fn select(function: DeviceFunction, offset: u8) {
        let DeviceFunction { bus, device, function } = function;
        let which = u32::from(bus) << 16 | u32::from(device) << 11 | u32::from(function) << 8;
        let address = 1 << 31 | which | u32::from(offset & !3);
        // SAFETY: `new`'s caller vouched for the port.
        unsafe {
            core::arch::asm!("out dx, eax", in("dx") 0xCF8_u16, in("eax") address, options(nomem, nostack, preserves_flags));
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl ConfigurationAccess for Ports {
    fn read_word(&self, device_function: DeviceFunction, register_offset: u8) -> u32 {
        Self::select(device_function, register_offset);
        let data: u32;
        // SAFETY: `new`'s caller vouched for the port.
        unsafe {
            core::arch::asm!("in eax, dx", in("dx") 0xCFC_u16, out("eax") data, options(nomem, nostack, preserves_flags));
        }
        data
    }

    fn write_word(&mut self, device_function: DeviceFunction, register_offset: u8, data: u32) {
        Self::select(device_function, register_offset);
        // SAFETY: `new`'s caller vouched for the port.
        unsafe {
            core::arch::asm!("out dx, eax", in("dx") 0xCFC_u16, in("eax") data, options(nomem, nostack, preserves_flags));
        }
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self(())
    }
}
