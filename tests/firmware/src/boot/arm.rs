//! This module holds `unsafe` code: what a Cortex-M needs before Rust, the vectors and reset.

use core::arch::asm;

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

// SAFETY: the table is constant; what its entries point to is never reached through them by Rust
// code.
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

/// Starts the processor: copies initial values to RAM, zeroes the rest, then runs the firmware.
///
/// # Safety
/// Called by the hardware, once, before anything else runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn reset() -> ! {
    // SAFETY: the symbols are the linker script's, word-aligned ends of sections that nothing has
    // used yet. In assembly, because Rust code may not run before its statics hold their values.
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

/// The end: of a fault and of the program.
///
/// # Safety
/// None needed; the type is the vector table's.
unsafe extern "C" fn halt() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Ends a core that has gone wrong.
pub(crate) fn stop() -> ! {
    // SAFETY: an undefined instruction stops the core, and keeps this function from being merged
    // with another.
    unsafe { asm!("udf #0", options(noreturn)) }
}
