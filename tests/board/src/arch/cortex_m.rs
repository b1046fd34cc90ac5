//! This module holds `unsafe` code: QEMU's `mps2-an386`, a Cortex-M4, from reset to Rust; its
//! serial lines and its faults.
//!
//! The stack lies below everything else in RAM, and the memory protection unit denies the MiB below
//! it, where QEMU reads zeros and ignores writes: a stack that overflows is a fault, not a
//! corrupted variable. Interrupts stay masked: what is pending wakes an idle core, and is never
//! taken. Logs go out as defmt frames through the semihosting console, text by the first serial
//! line. Sources: Armv7-M Architecture Reference Manual, B1.5 (exceptions), B3.2 (system control),
//! B3.5 (memory protection); AN386, 3 (memory map).

use core::arch::{asm, global_asm};
use core::fmt;

use aldis_drivers::pci::Mapped;
use aldis_drivers::platform::cortex_m::SysTick;
use aldis_drivers::virtio::VirtioSlots;

use super::{Machine, Pci};

mod cmsdk;
mod log;
mod semihosting;

use cmsdk::Uart;

global_asm!(
    r#"
    .section .vectors, "a"
    .word stack_end
    .word boot
    .rept 14                    // one as bad as the other
    .word trap
    .endr

    .section .text.boot, "ax"
    .type boot, %function
    .thumb_func
boot:
    cpsid i
    ldr r0, =0xE000ED88         // floating point
    ldr r1, [r0]
    orr r1, r1, #0xF00000
    str r1, [r0]
    ldr r0, =0xE000ED90         // memory protection: a stack that overflows faults
    movs r1, #0
    str r1, [r0, #8]            // its first region
    ldr r1, =stack_start - 0x100000
    str r1, [r0, #12]           // begins a MiB below the stack
    ldr r1, =0x10000027         // is as long, for nobody to read, write or execute
    str r1, [r0, #16]
    movs r1, #5                 // is the only one, and not while a fault is told
    str r1, [r0, #4]
    dsb
    isb
    ldr r0, =bss_start
    ldr r1, =bss_end
    movs r2, #0
2:  cmp r0, r1
    bhs 3f
    str r2, [r0], #4
    b 2b
3:  ldr r0, =data_start
    ldr r1, =data_end
    ldr r2, =data_image
4:  cmp r0, r1
    bhs 5f
    ldr r3, [r2], #4
    str r3, [r0], #4
    b 4b
5:  bl start
    b .

    .type trap, %function
    .thumb_func
trap:
    mov r0, sp                  // what the exception has put there, if it could
    ldr r1, =stack_end          // the stack may be what is at fault
    mov sp, r1
    b fault
"#
);

unsafe extern "C" {
    static stack_start: u32;
    static stack_end: u32;
}

/// The Rust entry.
///
/// # Safety
/// Called by the boot code, once.
#[unsafe(no_mangle)]
unsafe extern "C" fn start() -> ! {
    crate::rank::main(Mps2)
}

/// Reports an exception and ends: none is expected.
///
/// # Safety
/// Called by the vectors with what was the stack pointer; nothing runs afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn fault(frame: *const u32) -> ! {
    const PROGRAM_COUNTER: usize = 6;
    let on_stack = (&raw const stack_start..&raw const stack_end).contains(&frame);
    // SAFETY: exception entry has put eight words there, as the pointer is within the stack.
    let at = if on_stack { unsafe { frame.add(PROGRAM_COUNTER).read() } } else { 0 };
    let number: u32;
    // SAFETY: reading it has no effect.
    unsafe { asm!("mrs {}, ipsr", out(reg) number, options(nomem, nostack)) };
    let why = if on_stack { "" } else { ": the stack has overflowed" };
    aldis_programs::refuse(&format_args!("exception {number} at {at:#x}{why}"), &mut console());
    exit(false)
}

/// The board's clock, which is the processor's.
const CLOCK_HZ: u32 = 25_000_000;

/// The board.
struct Mps2;

impl Machine for Mps2 {
    type Clock = SysTick;
    type Serial = Uart;
    type Access = Mapped;

    fn command_line(&self) -> Option<&'static str> {
        let line = semihosting::command_line();
        defmt::info!("told: {=str}", line.unwrap_or("nothing"));
        line
    }

    fn clock(&mut self) -> Option<SysTick> {
        // SAFETY: the image runs privileged, alone; the boot code has masked exceptions.
        Some(unsafe { SysTick::new(CLOCK_HZ, 0)?.with_naps() })
    }

    fn serial(&mut self) -> Option<Uart> {
        Some(Uart::new(UART_LINK))
    }

    fn pci(&mut self) -> Option<Pci<Mapped>> {
        None
    }

    fn slots(&self) -> Option<VirtioSlots> {
        None
    }
}

/// The line for text, and the one to other ranks.
const UART_TEXT: usize = 0x4000_4000;
const UART_LINK: usize = 0x4000_5000;

pub(super) fn console() -> impl fmt::Write {
    Uart::new(UART_TEXT)
}

pub(super) fn exit(success: bool) -> ! {
    semihosting::exit(success)
}
