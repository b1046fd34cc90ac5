//! This module holds `unsafe` code: a board's word for what its devices answer to.

#[cfg(not(target_arch = "arm"))]
use aldis_drivers::e1000e::E1000eQueues;
use aldis_drivers::e1000e::{self, DeviceMemory, E1000e, E1000ePair, MappedRegisters};
use aldis_drivers::handover::HandoverNic;
use aldis_drivers::ivshmem::SharedMemory;
#[cfg(not(target_arch = "arm"))]
use aldis_drivers::steering::Steering;
use aldis_drivers::virtio::{self, VirtioNet, VirtioPair};
#[cfg(not(target_arch = "arm"))]
use aldis_drivers::virtio::{VirtioQueues, VirtioSetup};
#[cfg(not(target_arch = "arm"))]
use heapless::Vec;
use virtio_drivers::transport::SomeTransport;

use crate::arch::{BUSES, Machine, Pci};
use crate::memory::{CARD, FRAME, HANDED, QUEUE};
#[cfg(not(target_arch = "arm"))]
use crate::memory::{CORES, HANDOVER, Once};
use crate::rank::{TAKEN, Trouble};

/// A virtio network card, wherever it is.
pub(crate) type Card = VirtioNet<SomeTransport<'static>, QUEUE>;

/// A gigabit controller of Intel's.
pub(crate) type GigabitCard = E1000e<MappedRegisters, QUEUE>;

/// A queue of either card, with what other cores have for this one.
pub(crate) type CardQueue =
    HandoverNic<'static, VirtioPair<'static, SomeTransport<'static>, QUEUE>, HANDED, FRAME>;
pub(crate) type GigabitQueue =
    HandoverNic<'static, E1000ePair<'static, MappedRegisters, QUEUE>, HANDED, FRAME>;

/// The cards whose queues cores have.
#[cfg(not(target_arch = "arm"))]
static CARD_QUEUES: Once<Option<VirtioQueues<SomeTransport<'static>, CORES, QUEUE>>> = Once::new(None);
#[cfg(not(target_arch = "arm"))]
static GIGABIT_QUEUES: Once<Option<E1000eQueues<MappedRegisters, QUEUE>>> = Once::new(None);

/// The first network card: on the PCI bus, or else in a slot.
pub(crate) fn network_card<M: Machine>(machine: &mut M) -> Result<Card, Trouble> {
    Ok(VirtioNet::new(network_device(machine)?, FRAME)?)
}

/// The queues of the first network card, a core each.
#[cfg(not(target_arch = "arm"))]
pub(crate) fn network_queues<M: Machine>(
    machine: &mut M,
    cores: usize,
    steering: &Steering,
) -> Result<Vec<CardQueue, CORES>, Trouble> {
    let setup = VirtioSetup { frame_bytes: FRAME, checksums: true, steering: Some(steering) };
    let queues = VirtioQueues::new(network_device(machine)?, setup)?;
    let queues = CARD_QUEUES.take().ok_or(TAKEN)?.insert(queues);
    let queue = |core: usize| HandoverNic::new(queues.pair(core as u16)?, core, &HANDOVER);
    (0..cores).map(|core| queue(core).ok_or(Trouble::Missing("queue of its card for each core"))).collect()
}

/// The queues of the first of Intel's gigabit controllers, a core each.
#[cfg(not(target_arch = "arm"))]
pub(crate) fn gigabit_queues<M: Machine>(
    machine: &mut M,
    cores: usize,
    steering: &Steering,
) -> Result<Vec<GigabitQueue, CORES>, Trouble> {
    let (registers, memory) = gigabit_device(machine)?;
    let queues = E1000eQueues::new(registers, memory, FRAME, steering)?;
    let queues = GIGABIT_QUEUES.take().ok_or(TAKEN)?.insert(queues);
    let queue = |core: usize| HandoverNic::new(queues.pair(core)?, core, &HANDOVER);
    (0..cores).map(|core| queue(core).ok_or(Trouble::Missing("queue of its card for each core"))).collect()
}

fn network_device<M: Machine>(machine: &mut M) -> Result<SomeTransport<'static>, Trouble> {
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
    transport.ok_or(Trouble::Missing("virtio network card"))
}

/// The first of Intel's gigabit controllers, on the PCI bus.
pub(crate) fn gigabit_card<M: Machine>(machine: &mut M) -> Result<GigabitCard, Trouble> {
    let (registers, memory) = gigabit_device(machine)?;
    Ok(E1000e::new(registers, memory, FRAME)?)
}

fn gigabit_device<M: Machine>(machine: &mut M) -> Result<(MappedRegisters, DeviceMemory), Trouble> {
    const NONE: Trouble = Trouble::Missing("gigabit controller of Intel's");
    let Pci { mut root, mut registers, .. } = machine.pci().ok_or(NONE)?;
    // SAFETY: the board says that it has its PCI there and those addresses for it, nothing else
    // looks for devices, and memory is where devices find it.
    let found = unsafe { e1000e::find_pci(&mut root, BUSES, &mut registers) }?.ok_or(NONE)?;
    Ok((found, DeviceMemory::one_to_one(CARD.take().ok_or(TAKEN)?)))
}

/// The memory that a PCI device shares with other machines.
pub(crate) fn shared_memory<M: Machine>(machine: &mut M) -> Result<SharedMemory, Trouble> {
    const NONE: Trouble = Trouble::Missing("ivshmem device");
    let Pci { mut root, mut memory, .. } = machine.pci().ok_or(NONE)?;
    // SAFETY: the board has mapped these addresses for memory, and all ranks run this driver there.
    unsafe { SharedMemory::find(&mut root, BUSES, &mut memory) }?.ok_or(NONE)
}
