//! This module holds `unsafe` code: the functions of `aldis.h` that make a card of a device, with
//! C's word for where the device and the memory are.
//!
//! Each checks what can be checked, gives the driver its memory, and fills in an `aldis_card`.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use aldis_drivers::e1000e::{self, DeviceMemory, E1000e, MappedRegisters};
use aldis_drivers::serial::{SerialMemory, SerialNic};
use aldis_drivers::virtio::{self, VirtioNet, VirtioSlots};
use aldis_hal::Cause;
use aldis_hal::nic::{MAC_HEADER_BYTES, Mac};
use virtio_drivers::transport::mmio::MmioTransport;

use crate::arena::{MemoryArena, bytes_of};
use crate::driver::{DriverState, hand_over};
use crate::errors;
use crate::line::CallbackLine;
use crate::types::{CardCallbacks, SerialCallbacks};

/// Descriptors of a device each way.
const QUEUE: usize = 64;

/// The MTU that zero stands for.
const MTU: u16 = 1500;

/// Bytes of a virtio device's registers and of its configuration behind them.
const SLOT_BYTES: usize = 0x200;

/// Bytes of the registers of Intel's controllers.
const REGISTERS_BYTES: u32 = 0x2_0000;

/// The alignment of frames in memory, for any message in them.
const FRAME_ALIGN: usize = 8;

type VirtioCard = VirtioNet<MmioTransport<'static>, QUEUE>;
type GigabitCard = E1000e<MappedRegisters, QUEUE>;
type SerialCard = SerialNic<'static, CallbackLine>;

/// Bytes of a frame without its check sequence.
const fn frame_bytes(mtu: u16) -> usize {
    (if mtu == 0 { MTU } else { mtu }) as usize + MAC_HEADER_BYTES
}

/// Bytes of a driver's state and of its device's memory, wherever they begin; zero if a device has
/// no such frames.
const fn memory_bytes(state: Option<usize>, device: usize, fits: bool) -> usize {
    match state {
        Some(state) if fits => state.saturating_add(device),
        _ => 0,
    }
}

/// Bytes of memory that a card by `aldis_virtio_card` needs.
#[unsafe(no_mangle)]
pub extern "C" fn aldis_virtio_memory_bytes(mtu: u16) -> usize {
    let frame = frame_bytes(mtu);
    let fits = frame <= virtio::FRAME_BYTES_MAX;
    memory_bytes(bytes_of::<DriverState<VirtioCard>>(1), virtio::bytes_needed(QUEUE, frame), fits)
}

/// Bytes of memory that a card by `aldis_e1000e_card` needs.
#[unsafe(no_mangle)]
pub extern "C" fn aldis_e1000e_memory_bytes(mtu: u16) -> usize {
    let frame = frame_bytes(mtu);
    let fits = frame <= e1000e::FRAME_BYTES_MAX;
    memory_bytes(bytes_of::<DriverState<GigabitCard>>(1), e1000e::bytes_needed(QUEUE, frame), fits)
}

/// Bytes of memory that a card by `aldis_serial_card` needs.
#[unsafe(no_mangle)]
pub extern "C" fn aldis_serial_memory_bytes(mtu: u16) -> usize {
    let frames = 2 * (frame_bytes(mtu) + FRAME_ALIGN - 1);
    memory_bytes(bytes_of::<DriverState<SerialCard>>(1), frames, true)
}

/// The card to be filled in and the memory that C gives for it: `need` bytes at least.
///
/// # Safety
/// The card is null or there. So many bytes of memory are there and nobody else's from now on.
unsafe fn given_for<'a>(
    card: *mut CardCallbacks,
    need: extern "C" fn(u16) -> usize,
    memory: *mut c_void,
    bytes: usize,
) -> Result<(&'a mut CardCallbacks, MemoryArena), c_int> {
    // SAFETY: by this function's contract.
    let card = unsafe { card.as_mut() }.ok_or(errors::ARGUMENT)?;
    let need = need(card.mtu);
    if need == 0 || memory.is_null() {
        return Err(errors::ARGUMENT);
    }
    if bytes < need {
        return Err(errors::MEMORY);
    }
    // SAFETY: as above.
    Ok((card, unsafe { MemoryArena::new(memory.cast(), bytes) }))
}

/// The result of a driver that refuses: of the device, but for memory that is not enough.
const fn refusal(cause: Cause) -> c_int {
    match cause {
        Cause::Full(_) => errors::MEMORY,
        _ => errors::CARD,
    }
}

/// Makes a card of a virtio network device.
///
/// # Safety
/// The card is null or there, and the slot is as `aldis.h` asks. So many bytes of memory are there
/// and nobody else's from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_virtio_card(
    card: *mut CardCallbacks,
    slot: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: by this function's contract.
    let made = unsafe { virtio_card(card, slot, memory, bytes) };
    made.err().unwrap_or(errors::OK)
}

/// # Safety
/// As of [`aldis_virtio_card`].
unsafe fn virtio_card(
    card: *mut CardCallbacks,
    slot: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> Result<(), c_int> {
    if slot.is_null() || !slot.addr().is_multiple_of(align_of::<u64>()) {
        return Err(errors::ARGUMENT);
    }
    // SAFETY: by this function's contract.
    let (card, mut arena) = unsafe { given_for(card, aldis_virtio_memory_bytes, memory, bytes) }?;
    // Before the device is touched: it may be that of the first card.
    if virtio::is_lent() {
        return Err(errors::FULL);
    }
    let slots = VirtioSlots { base: slot.expose_provenance(), stride: SLOT_BYTES, count: 1 };
    // SAFETY: as above; memory is where devices find it, by `aldis.h`.
    let transport = unsafe { virtio::find_mmio(slots) }.ok_or(errors::CARD)?;
    let place = arena.place().ok_or(errors::MEMORY)?;
    let frame = frame_bytes(card.mtu);
    let queues = arena.table(virtio::bytes_needed(QUEUE, frame), &0_u8).ok_or(errors::MEMORY)?;
    virtio::lend(queues).map_err(|_| errors::FULL)?;
    let nic: VirtioCard = VirtioNet::new(transport, frame).map_err(refusal)?;
    hand_over(place, nic, card);
    Ok(())
}

/// Makes a card of one of Intel's gigabit controllers.
///
/// # Safety
/// The card is null or there, and the registers are as `aldis.h` asks. So many bytes of memory are
/// there and nobody else's from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_e1000e_card(
    card: *mut CardCallbacks,
    registers: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: by this function's contract.
    let made = unsafe { gigabit_card(card, registers, memory, bytes) };
    made.err().unwrap_or(errors::OK)
}

/// # Safety
/// As of [`aldis_e1000e_card`].
unsafe fn gigabit_card(
    card: *mut CardCallbacks,
    registers: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> Result<(), c_int> {
    let base = NonNull::new(registers.cast::<u32>()).filter(|base| base.is_aligned());
    let base = base.ok_or(errors::ARGUMENT)?;
    // SAFETY: by this function's contract.
    let (card, mut arena) = unsafe { given_for(card, aldis_e1000e_memory_bytes, memory, bytes) }?;
    let place = arena.place().ok_or(errors::MEMORY)?;
    let frame = frame_bytes(card.mtu);
    let rings = arena.table(e1000e::bytes_needed(QUEUE, frame), &0_u8).ok_or(errors::MEMORY)?;
    // SAFETY: as above; memory is where devices find it, by `aldis.h`.
    let registers = unsafe { MappedRegisters::new(base, REGISTERS_BYTES) };
    let nic: GigabitCard = E1000e::new(registers, DeviceMemory::one_to_one(rings), frame).map_err(refusal)?;
    hand_over(place, nic, card);
    Ok(())
}

/// Makes a card of a serial line.
///
/// # Safety
/// Card and line are null or there, with callbacks that do what `aldis.h` says. So many bytes of
/// memory are there and nobody else's from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aldis_serial_card(
    card: *mut CardCallbacks,
    line: *const SerialCallbacks,
    memory: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: by this function's contract.
    let made = unsafe { serial_card(card, line, memory, bytes) };
    made.err().unwrap_or(errors::OK)
}

/// # Safety
/// As of [`aldis_serial_card`].
unsafe fn serial_card(
    card: *mut CardCallbacks,
    line: *const SerialCallbacks,
    memory: *mut c_void,
    bytes: usize,
) -> Result<(), c_int> {
    // SAFETY: by this function's contract.
    let line = unsafe { line.as_ref().and_then(|line| CallbackLine::new(*line)) };
    let line = line.ok_or(errors::ARGUMENT)?;
    // SAFETY: as above.
    let (card, mut arena) = unsafe { given_for(card, aldis_serial_memory_bytes, memory, bytes) }?;
    let is_to_many = card.mac.first().is_none_or(|byte| byte & 1 != 0);
    if card.mac == [0; 6] || is_to_many {
        return Err(errors::ARGUMENT);
    }
    let place = arena.place().ok_or(errors::MEMORY)?;
    let mut frame = || {
        arena.align(FRAME_ALIGN)?;
        arena.table(frame_bytes(card.mtu), &0_u8)
    };
    let incoming = frame().ok_or(errors::MEMORY)?;
    let outgoing = frame().ok_or(errors::MEMORY)?;
    let nic: SerialCard = SerialNic::new(line, SerialMemory { incoming, outgoing }, Mac(card.mac));
    hand_over(place, nic, card);
    Ok(())
}
