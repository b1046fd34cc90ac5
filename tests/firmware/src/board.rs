//! This module holds `unsafe` code: what a Cortex-M needs before and beside Rust. Vectors, reset, the end of every
//! panic, a clock, and the memory that the cores share.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use aldis_drivers::shm::Region;

use crate::layout::{INBOX_BYTES, PEERS};

unsafe extern "C" {
    static mut data_start: u32;
    static mut data_end: u32;
    static mut bss_start: u32;
    static mut bss_end: u32;
    static data_image: u32;
    static stack_start: u32;
}

/// An entry of the vector table.
#[repr(C)]
union Vector {
    stack: *const u32,
    handler: unsafe extern "C" fn() -> !,
}

// SAFETY: the table is constant; what its entries point to is never reached through them by Rust code.
unsafe impl Sync for Vector {}

/// Initial stack, reset, and one handler for every fault.
#[used]
#[unsafe(link_section = ".vectors")]
static VECTORS: [Vector; 4] = [
    Vector { stack: &raw const stack_start },
    Vector { handler: reset },
    Vector { handler: halt },
    Vector { handler: halt },
];

/// Where the processor starts: initial values to RAM, zeroes to the rest, then the firmware.
///
/// # Safety
/// Called by the hardware, once, before anything else runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn reset() -> ! {
    // SAFETY: the symbols are the linker script's, word-aligned ends of sections that nothing has used yet. In
    // assembly, because Rust code may not run before its statics hold their values.
    unsafe {
        asm!(
            "2: cmp {to}, {end}",
            "bhs 3f",
            "ldr {word}, [{from}], #4",
            "str {word}, [{to}], #4",
            "b 2b",
            "3: mov {word}, #0",
            "4: cmp {zero}, {zero_end}",
            "bhs 5f",
            "str {word}, [{zero}], #4",
            "b 4b",
            "5:",
            to = inout(reg) &raw mut data_start => _,
            end = in(reg) &raw mut data_end,
            from = inout(reg) &raw const data_image => _,
            zero = inout(reg) &raw mut bss_start => _,
            zero_end = in(reg) &raw mut bss_end,
            word = out(reg) _,
        );
    }
    crate::firmware();
    // SAFETY: nothing runs after this.
    unsafe { halt() }
}

/// The end: of a fault, of a panic, of the program.
///
/// # Safety
/// None needed; the type is the vector table's.
unsafe extern "C" fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Never linked: `cargo xtask size` fails if something can reach it.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: an undefined instruction stops the core, and keeps this function from being merged with another.
    unsafe { asm!("udf #0", options(noreturn)) }
}

/// Nanoseconds since reset, counted by whoever asks: a board would read its timer.
pub(crate) fn now_ns() -> u64 {
    static TICKS: AtomicU32 = AtomicU32::new(0);
    // One core, one context: a load and a store are enough.
    let ticks = TICKS.load(Ordering::Relaxed).wrapping_add(1);
    TICKS.store(ticks, Ordering::Relaxed);
    u64::from(ticks) * 1_000
}

/// The inboxes of all cores, at the same address for each.
#[repr(C, align(64))]
struct Shared(UnsafeCell<[[u8; INBOX_BYTES]; PEERS]>);

// SAFETY: only `inbox` leads to it, whose regions keep the ring protocol.
unsafe impl Sync for Shared {}

#[unsafe(link_section = ".shared")]
static SHARED: Shared = Shared(UnsafeCell::new([[0; INBOX_BYTES]; PEERS]));

/// The inbox of core `owner`; `None` beyond the last.
pub(crate) fn inbox(owner: usize) -> Option<Region<'static>> {
    if owner >= PEERS {
        return None;
    }
    // SAFETY: `owner` is below `PEERS`, so the pointer stays within `SHARED`.
    let start = unsafe { SHARED.0.get().cast::<u8>().add(owner * INBOX_BYTES) };
    // SAFETY: static memory, aligned to 64 bytes as `INBOX_BYTES` is a multiple of it, used as an inbox alone; all
    // cores run this firmware and keep the protocol.
    NonNull::new(start).map(|start| unsafe { Region::new(start, INBOX_BYTES) })
}
