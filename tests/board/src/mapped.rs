//! This module holds `unsafe` code: registers at fixed addresses of a board whose memory is mapped
//! as it is.

use core::ptr::NonNull;

use aldis_drivers::pci::{self, ConfigurationAccess, DeviceFunctionInfo, PciRoot};
use aldis_hal::mmio::{Mmio, Word};
use virtio_drivers::transport::pci::bus::Command;

use crate::arch::BUSES;
use crate::uart::{Registers, Uart};

/// The register at an address of this board's map.
pub(crate) fn register<W: Word>(address: usize) -> Mmio<W> {
    let register = core::ptr::with_exposed_provenance_mut::<W>(address);
    let register = NonNull::new(register).unwrap_or(NonNull::dangling());
    // SAFETY: a board's module names addresses of device registers, where no memory is; none is
    // zero.
    unsafe { Mmio::new(register) }
}

/// Eight registers of a byte, from this address on.
pub(crate) struct Bytes(pub(crate) usize);

impl Registers for Bytes {
    fn read(&self, number: u16) -> u8 {
        register(self.0 + usize::from(number)).read()
    }

    fn write(&mut self, number: u16, value: u8) {
        register(self.0 + usize::from(number)).write(value);
    }
}

/// A 16550 on a PCI card: QEMU's `pci-serial`, 1b36:0002, whose only base address is one of I/O
/// ports.
const SERIAL_CARD: (u16, u16) = (0x1B36, 2);
/// The port that it is given: above those that a PC has by tradition.
const PORT: u32 = 0x1000;

/// The first serial card, in a machine whose I/O ports are mapped at `ports`.
pub(crate) fn serial_card<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    ports: usize,
) -> Option<Uart<Bytes>> {
    let wanted = |info: &DeviceFunctionInfo| (info.vendor_id, info.device_id) == SERIAL_CARD;
    let card = pci::find(root, BUSES, wanted)?;
    root.set_bar_32(card, 0, PORT);
    root.set_command(card, Command::IO_SPACE);
    Some(Uart::new(Bytes(ports + PORT as usize))).filter(Uart::is_there)
}
