//! This module holds `unsafe` code: a RISC-V hart from reset to Rust, of 32 or 64 bits.

use core::arch::{asm, global_asm};

global_asm!(
    r#"
    .section .vectors, "ax"
    .global reset
reset:
    la sp, stack_start
    la t0, data_start
    la t1, data_end
    la t2, data_image
2:  bgeu t0, t1, 3f
    lw t3, (t2)
    sw t3, (t0)
    addi t0, t0, 4
    addi t2, t2, 4
    j 2b
3:  la t0, bss_start
    la t1, bss_end
4:  bgeu t0, t1, 5f
    sw zero, (t0)
    addi t0, t0, 4
    j 4b
5:  call start
6:  wfi
    j 6b
"#
);

/// The Rust entry.
///
/// # Safety
/// Called by the boot code, once.
#[unsafe(no_mangle)]
unsafe extern "C" fn start() {
    crate::firmware();
}

/// Ends a core that has gone wrong.
pub(crate) fn stop() -> ! {
    // SAFETY: an undefined instruction stops the core.
    unsafe { asm!("unimp", options(noreturn)) }
}
