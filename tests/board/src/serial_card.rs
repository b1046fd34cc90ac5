//! A serial line behind registers that are mapped, as it is on a PCI card.

use aldis_drivers::pci::{self, ConfigurationAccess, DeviceFunctionInfo, PciRoot};
use virtio_drivers::transport::pci::bus::Command;

use crate::arch::BUSES;
use crate::mapped::register;
use crate::uart::{Registers, Uart};

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
