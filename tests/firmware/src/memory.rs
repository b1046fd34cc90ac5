//! This module holds `unsafe` code: the functions by which compilers copy, fill and compare memory,
//! under their names in C and in the run-time ABI of the Arm architecture (IHI 0043,
//! section 4.3.4).
//!
//! Those that come with the compiler have a way of their own for each alignment and take 3 KB.
//! These take a tenth of it: words, which a Cortex-M4 also reads where they are not aligned, then
//! bytes.

use core::arch::naked_asm;

/// Copies `r2` bytes from `r1` to `r0`, which stays what it is.
///
/// # Safety
/// As of C's `memcpy`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memcpy() {
    naked_asm!(
        ".global __aeabi_memcpy",
        ".global __aeabi_memcpy4",
        ".global __aeabi_memcpy8",
        ".thumb_set __aeabi_memcpy, memcpy",
        ".thumb_set __aeabi_memcpy4, memcpy",
        ".thumb_set __aeabi_memcpy8, memcpy",
        "mov r12, r0",
        "2: subs r2, #4",
        "blo 3f",
        "ldr r3, [r1], #4",
        "str r3, [r12], #4",
        "b 2b",
        "3: adds r2, #4",
        "4: subs r2, #1",
        "blo 5f",
        "ldrb r3, [r1], #1",
        "strb r3, [r12], #1",
        "b 4b",
        "5: bx lr",
    )
}

/// Copies bytes that may overlap: from behind if the target begins inside the source.
///
/// # Safety
/// As of C's `memmove`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memmove() {
    naked_asm!(
        ".global __aeabi_memmove",
        ".global __aeabi_memmove4",
        ".global __aeabi_memmove8",
        ".thumb_set __aeabi_memmove, memmove",
        ".thumb_set __aeabi_memmove4, memmove",
        ".thumb_set __aeabi_memmove8, memmove",
        "subs r3, r0, r1",
        "cmp r3, r2",
        "bhs {memcpy}",
        "2: subs r2, #1",
        "blo 3f",
        "ldrb r3, [r1, r2]",
        "strb r3, [r0, r2]",
        "b 2b",
        "3: bx lr",
        memcpy = sym memcpy,
    )
}

/// Fills `r2` bytes from `r0`, which stays what it is, with the byte `r1`.
///
/// # Safety
/// As of C's `memset`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memset() {
    naked_asm!("mov r12, r0", "2: subs r2, #1", "blo 3f", "strb r1, [r12], #1", "b 2b", "3: bx lr",)
}

/// Fills `r1` bytes from `r0` with the byte `r2`; under its other names with zeroes.
///
/// # Safety
/// As of C's `memset`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __aeabi_memclr() {
    naked_asm!(
        ".global __aeabi_memclr4",
        ".global __aeabi_memclr8",
        ".thumb_set __aeabi_memclr4, __aeabi_memclr",
        ".thumb_set __aeabi_memclr8, __aeabi_memclr",
        ".global __aeabi_memset",
        ".global __aeabi_memset4",
        ".global __aeabi_memset8",
        "movs r2, #0",
        ".thumb_func",
        "__aeabi_memset:",
        ".thumb_set __aeabi_memset4, __aeabi_memset",
        ".thumb_set __aeabi_memset8, __aeabi_memset",
        "subs r1, #1",
        "blo 2f",
        "strb r2, [r0], #1",
        "b __aeabi_memset",
        "2: bx lr",
    )
}

/// The difference of the first of `r2` bytes at `r0` and `r1` that differ, or zero.
///
/// # Safety
/// As of C's `memcmp`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn memcmp() {
    naked_asm!(
        "mov r12, r0",
        "movs r0, #0",
        "2: subs r2, #1",
        "blo 3f",
        "ldrb r0, [r12], #1",
        "ldrb r3, [r1], #1",
        "subs r0, r0, r3",
        "beq 2b",
        "3: bx lr",
    )
}
