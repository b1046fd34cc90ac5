//! This module holds `unsafe` code: registers of a device where PCI says they are.

use core::ptr::NonNull;

use aldis_hal::Cause;
use aldis_hal::mmio::Mmio;

use crate::pci::{self, AddressWindow, ConfigurationAccess, PciRoot};

/// The devices that this driver knows: vendor and number, and name.
pub const DEVICES: [([u16; 2], &str); 2] = [([0x8086, 0x10D3], "82574L"), ([0x8086, 0x100E], "82540EM")];

/// The base address of the registers, and the bytes that a device has there at least.
const REGISTERS_BAR: u8 = 0;
const REGISTERS_BYTES: u64 = 0x2_0000;

/// The value that is read where no device answers.
pub(super) const NOTHING: u32 = u32::MAX;

/// The registers of a card, of 32 bits each, by their offsets in bytes.
pub trait CardRegisters {
    /// Reads a register.
    fn read(&self, offset: u32) -> u32;
    /// Writes a register.
    fn write(&mut self, offset: u32, value: u32);
}

/// CardRegisters in the address space of the program.
#[derive(Debug)]
pub struct MappedRegisters {
    base: NonNull<u32>,
    bytes: u32,
}

// SAFETY: the registers are there whichever core uses them, as `new`'s caller says, and a value is
// used by one at a time.
unsafe impl Send for MappedRegisters {}

impl MappedRegisters {
    /// The registers of a card that begin at `base`.
    ///
    /// # Safety
    /// `bytes` from `base` on are mapped as device memory, aligned to 4 bytes, are the registers of
    /// one of the devices that the [module](super) is about, and are used by nothing else as long
    /// as this value lives. The device reaches memory at the addresses that the card is given with
    /// its [`DeviceMemory`](super::DeviceMemory), and is coherent with it.
    pub const unsafe fn new(base: NonNull<u32>, bytes: u32) -> Self {
        Self { base, bytes }
    }

    fn register(&self, offset: u32) -> Option<Mmio<u32>> {
        let is_there =
            offset.is_multiple_of(4) && self.bytes.checked_sub(4).is_some_and(|last| offset <= last);
        // SAFETY: `new`'s caller says that so many bytes are registers, of which this is one.
        is_there.then(|| unsafe { Mmio::new(self.base.byte_add(offset as usize)) })
    }
}

impl CardRegisters for MappedRegisters {
    fn read(&self, offset: u32) -> u32 {
        self.register(offset).map_or(NOTHING, |register| register.read())
    }

    fn write(&mut self, offset: u32, value: u32) {
        if let Some(mut register) = self.register(offset) {
            register.write(value);
        }
    }
}

/// The registers of the first such card on the buses below `buses`, made ready to be used; they get
/// addresses from `window` if no firmware has given them any. `Ok(None)`: there is none.
///
/// # Errors
/// [`Cause::Device`] for a device whose base addresses make no sense, [`Cause::Full`] if the window
/// has no room.
///
/// # Safety
/// Where the devices say that their registers are, and what `window` has, there are such registers,
/// mapped as device memory where they are, and nothing else uses them as long as the result lives.
/// The device reaches memory at the addresses that the card is given with its
/// [`DeviceMemory`](super::DeviceMemory), and is coherent with it.
pub unsafe fn find_pci<C: ConfigurationAccess>(
    root: &mut PciRoot<C>,
    buses: u8,
    window: &mut AddressWindow,
) -> Result<Option<MappedRegisters>, Cause> {
    let known = |info: &pci::DeviceFunctionInfo| {
        DEVICES.iter().any(|(number, _)| *number == [info.vendor_id, info.device_id])
    };
    let Some(function) = pci::find(root, buses, known) else { return Ok(None) };
    pci::enable(root, function, window)?;
    let (at, bytes) = pci::memory(root, function, REGISTERS_BAR)?;
    let base = usize::try_from(at).ok().map(core::ptr::with_exposed_provenance_mut::<u32>);
    let base = base.and_then(NonNull::new).filter(|base| base.is_aligned()).ok_or(Cause::Device)?;
    if bytes < REGISTERS_BYTES {
        return Err(Cause::Device);
    }
    // SAFETY: this function's caller vouches for what the device says.
    Ok(Some(unsafe { MappedRegisters::new(base, REGISTERS_BYTES as u32) }))
}

/// Offsets of registers (82574 datasheet, 10.2), and their bits.
pub(super) mod offset {
    pub(crate) const CONTROL: u32 = 0x0000;
    pub(crate) const STATUS: u32 = 0x0008;
    pub(crate) const INTERRUPT_CAUSE: u32 = 0x00C0;
    pub(crate) const INTERRUPT_MASK_CLEAR: u32 = 0x00D8;
    pub(crate) const RECEIVE_CONTROL: u32 = 0x0100;
    pub(crate) const TRANSMIT_CONTROL: u32 = 0x0400;
    pub(crate) const TRANSMIT_GAP: u32 = 0x0410;
    /// The registers of a ring: its address in two halves and its bytes, and from there its head
    /// and its tail.
    pub(crate) const RECEIVE_RING: u32 = 0x2800;
    pub(crate) const TRANSMIT_RING: u32 = 0x3800;
    pub(crate) const HEAD: u32 = 0x10;
    pub(crate) const TAIL: u32 = 0x18;
    pub(crate) const MULTICAST_TABLE: u32 = 0x5200;
    pub(crate) const MULTICAST_WORDS: u32 = 128;
    pub(crate) const ADDRESS_LOW: u32 = 0x5400;
    pub(crate) const ADDRESS_HIGH: u32 = 0x5404;
    /// Bytes from one address to the next.
    pub(crate) const ADDRESS_STEP: u32 = 8;
    /// Bytes from the registers of a ring to those of the second of its kind.
    pub(crate) const RING_STEP: u32 = 0x100;
    /// The arbitration between rings to send, of each.
    pub(crate) const ARBITRATION: [u32; 2] = [0x3840, 0x3940];
    pub(crate) const RECEIVE_CHECKSUM: u32 = 0x5000;
    pub(crate) const RECEIVE_FILTER: u32 = 0x5008;
    pub(crate) const QUEUES: u32 = 0x5818;
    /// The table of queues, of 128 bytes, and the key of the hash, of 40.
    pub(crate) const QUEUE_TABLE: u32 = 0x5C00;
    pub(crate) const HASH_KEY: u32 = 0x5C80;
}

pub(super) mod bits {
    /// Of [`CONTROL`](super::offset::CONTROL): full duplex, speed by itself, set link up, reset.
    pub(crate) const FULL_DUPLEX: u32 = 1 << 0;
    pub(crate) const AUTO_SPEED: u32 = 1 << 5;
    pub(crate) const SET_LINK_UP: u32 = 1 << 6;
    pub(crate) const RESET: u32 = 1 << 26;
    /// Of [`STATUS`](super::offset::STATUS): the link is up.
    pub(crate) const LINK_UP: u32 = 1 << 1;
    /// Of [`RECEIVE_CONTROL`](super::offset::RECEIVE_CONTROL): on, long packets, broadcasts, and
    /// without the check sequence.
    pub(crate) const RECEIVE_ENABLE: u32 = 1 << 1;
    pub(crate) const LONG_PACKETS: u32 = 1 << 5;
    pub(crate) const BROADCASTS: u32 = 1 << 15;
    pub(crate) const STRIP_CHECK_SEQUENCE: u32 = 1 << 26;
    /// Of [`TRANSMIT_CONTROL`](super::offset::TRANSMIT_CONTROL): on, short packets padded, 15
    /// retries, and a full-duplex collision distance of 64 bytes.
    pub(crate) const TRANSMIT_ENABLE: u32 = 1 << 1;
    pub(crate) const PAD_SHORT: u32 = 1 << 3;
    pub(crate) const RETRIES: u32 = 0xF << 4;
    pub(crate) const COLLISION_DISTANCE: u32 = 0x3F << 12;
    /// Gaps between packets: 8, 8 and 6 byte times, as the manuals want them for copper.
    pub(crate) const COPPER_GAP: u32 = 8 | 8 << 10 | 6 << 20;
    /// Of [`ADDRESS_HIGH`](super::offset::ADDRESS_HIGH): there is an address.
    pub(crate) const ADDRESS_VALID: u32 = 1 << 31;
    /// Of an [arbitration](super::offset::ARBITRATION): the ring is served.
    pub(crate) const SERVED: u32 = 1 << 10;
    /// Of [`RECEIVE_CHECKSUM`](super::offset::RECEIVE_CHECKSUM): none, but the hash.
    pub(crate) const HASH_NOT_CHECKSUM: u32 = 1 << 13;
    /// Of [`RECEIVE_FILTER`](super::offset::RECEIVE_FILTER): extended descriptors.
    pub(crate) const EXTENDED_DESCRIPTORS: u32 = 1 << 15;
    /// Of [`QUEUES`](super::offset::QUEUES): two of them, by the hash of the addresses of IPv4.
    pub(crate) const BY_HASH: u32 = 1 << 0;
    pub(crate) const HASH_IPV4: u32 = 1 << 17;
    /// Of a byte of the [table](super::offset::QUEUE_TABLE): the second queue.
    pub(crate) const SECOND_QUEUE: u8 = 1 << 7;
}
