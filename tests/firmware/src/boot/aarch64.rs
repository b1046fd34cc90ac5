//! This module holds `unsafe` code: an AArch64 core from reset to Rust, with floating point on.

use core::arch::{asm, global_asm};

global_asm!(
    r#"
    .section .vectors, "ax"
    .global reset
reset:
    mov x0, #0x300000           // CPACR_EL1: no trap of floating point
    msr cpacr_el1, x0
    ldr x0, =stack_start
    mov sp, x0
    ldr x0, =data_start
    ldr x1, =data_end
    ldr x2, =data_image
2:  cmp x0, x1
    b.hs 3f
    ldr w3, [x2], #4
    str w3, [x0], #4
    b 2b
3:  ldr x0, =bss_start
    ldr x1, =bss_end
4:  cmp x0, x1
    b.hs 5f
    str wzr, [x0], #4
    b 4b
5:  bl start
6:  wfe
    b 6b
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
    unsafe { asm!("udf #0", options(noreturn)) }
}
