//! This module holds `unsafe` code: a board's word for what its devices answer to.

use aldis_drivers::e1000e::{self, DeviceMemory, E1000e, MappedRegisters};
use aldis_drivers::ivshmem::SharedMemory;
use aldis_drivers::virtio::{self, VirtioNet};
use virtio_drivers::transport::SomeTransport;

use crate::arch::{BUSES, Machine, Pci};
use crate::memory::{CARD, FRAME, QUEUE};
use crate::rank::{TAKEN, Trouble};

/// A virtio network card, wherever it is.
pub(crate) type Card = VirtioNet<SomeTransport<'static>, QUEUE>;

/// The first network card: on the PCI bus, or else in a slot.
pub(crate) fn network_card<M: Machine>(machine: &mut M) -> Result<Card, Trouble> {
    virtio::lend(CARD.take().ok_or(TAKEN)?)?;
    let mut transport: Option<SomeTransport<'static>> = None;
    if let Some(Pci { mut root, mut registers, .. }) = machine.pci() {
        // SAFETY: the board says that it has its PCI there and those addresses for it, and nothing
        // else looks for devices.
        transport = unsafe { virtio::find_pci(&mut root, BUSES, &mut registers) }?.map(Into::into);
    }
    if let (None, Some(slots)) = (&transport, machine.slots()) {
        // SAFETY: the board says that it has such slots, and nothing else looks for devices there.
        transport = unsafe { virtio::find_mmio(slots) }.map(Into::into);
    }
    Ok(VirtioNet::new(transport.ok_or(Trouble::Missing("virtio network card"))?, FRAME)?)
}

/// The first of Intel's gigabit controllers, on the PCI bus.
pub(crate) fn gigabit_card<M: Machine>(machine: &mut M) -> Result<E1000e<MappedRegisters, QUEUE>, Trouble> {
    const NONE: Trouble = Trouble::Missing("gigabit controller of Intel's");
    let Pci { mut root, mut registers, .. } = machine.pci().ok_or(NONE)?;
    // SAFETY: the board says that it has its PCI there and those addresses for it, nothing else
    // looks for devices, and memory is where devices find it.
    let found = unsafe { e1000e::find_pci(&mut root, BUSES, &mut registers) }?.ok_or(NONE)?;
    let memory = DeviceMemory::one_to_one(CARD.take().ok_or(TAKEN)?);
    Ok(E1000e::new(found, memory, FRAME)?)
}

/// The memory that a PCI device shares with other machines.
pub(crate) fn shared_memory<M: Machine>(machine: &mut M) -> Result<SharedMemory, Trouble> {
    const NONE: Trouble = Trouble::Missing("ivshmem device");
    let Pci { mut root, mut memory, .. } = machine.pci().ok_or(NONE)?;
    // SAFETY: the board has mapped these addresses for memory, and all ranks run this driver there.
    unsafe { SharedMemory::find(&mut root, BUSES, &mut memory) }?.ok_or(NONE)
}
