//! This module holds `unsafe` code: an x86_64 core from a loader that has switched it to long mode,
//! to Rust.

use core::arch::{asm, global_asm};

global_asm!(
    r#"
    .section .vectors, "ax"
    .global reset
reset:
    movl $stack_start, %esp
    cld
    movl $data_start, %edi
    movl $data_end, %ecx
    subl %edi, %ecx
    movl $data_image, %esi
    rep movsb
    movl $bss_start, %edi
    movl $bss_end, %ecx
    subl %edi, %ecx
    xorl %eax, %eax
    rep stosb
    call start
2:  hlt
    jmp 2b
"#,
    options(att_syntax)
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
    unsafe { asm!("ud2", options(noreturn)) }
}
