//! This module holds `unsafe` code: a PC from its 32-bit entry to Rust, and its ports.
//!
//! A loader that knows PVH (QEMU's `-kernel`, Xen, Firecracker, Cloud Hypervisor) finds the entry
//! in an ELF note and jumps there in 32-bit protected mode without paging, with the address of the
//! start info in `ebx`. The boot code switches to long mode on the image's own page tables: the
//! first 4 GiB as they are, in pages of 2 MiB, but for one below each core's stack. Every exception
//! ends in a verdict, on the core's stack from its start; the one interrupt, of the core's own
//! timer, ends a nap and does nothing. Another core begins in real mode, below 1 MiB, where the
//! first few instructions are copied for it, and goes to long mode from there. Sources: Intel SDM
//! volume 3, 7.14 (interrupts in 64-bit mode), 9.4.4 (starting other cores), 11.6.1 (sending
//! interrupts); Xen, `docs/misc/pvh.pandoc` and `xen/include/public/arch-x86/hvm/start_info.h`.

use core::arch::{asm, global_asm};
use core::ffi::CStr;
use core::fmt::Write;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use aldis_drivers::pci::{self, AddressWindow, PciRoot};
use aldis_drivers::platform::x86_64::{Tsc, input, output};
use aldis_drivers::virtio::VirtioSlots;
use aldis_hal::Platform;
use spin::mutex::SpinMutex;

use super::{Machine, Pci};
use crate::cores::SharedPlace;
use crate::mapped::register;
use crate::uart::{Registers, Uart};

global_asm!(
    r#"
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18              # name's and entry's bytes; type: the 32-bit entry
    .asciz "Xen"
    .quad pvh_start

    .section .text.boot, "ax"
    .code32
    .global pvh_start
pvh_start:
    cld
    xorl %eax, %eax
    movl $bss_start, %edi
    movl $bss_end, %ecx
    subl %edi, %ecx
    rep stosb
    movl $guard_entry, %eax     # a stack that overflows faults, of every core
    movl $4, %ecx
1:  movl $0, directory(%eax)
    addl $16, %eax
    decl %ecx
    jnz 1b
    movl %cr4, %eax
    orl $0x20, %eax             # physical address extension
    movl %eax, %cr4
    movl $root, %eax
    movl %eax, %cr3
    movl $0xC0000080, %ecx      # EFER: long mode
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax       # paging, protection
    movl %eax, %cr0
    lgdt descriptors_end
    ljmp $8, $2f
    .code64
2:  xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $gates, %edi
    movl $stubs, %eax
    movl $32, %ecx
3:  movl %eax, %edx             # an entry of the table of interrupts
    shrl $16, %edx
    movw %ax, (%rdi)
    movw $8, 2(%rdi)            # the code's segment
    movw $0x8E01, 4(%rdi)       # interrupt gate, on the stack of the task
    movw %dx, 6(%rdi)
    addl $16, %edi
    addl $16, %eax
    decl %ecx
    jnz 3b
    movl $gates + 47 * 16, %edi # the interrupt that ends a nap, on the stack in use
    movl $awake, %eax
    movl %eax, %edx
    shrl $16, %edx
    movw %ax, (%rdi)
    movw $8, 2(%rdi)
    movw $0x8E00, 4(%rdi)
    movw %dx, 6(%rdi)
    movb $0xFF, %al             # of the old controllers none: the firmware's timer may run
    outb %al, $0x21
    outb %al, $0xA1
    xorl %esi, %esi
    jmp enter

    .global other_core
other_core:                     # of the number that the first has left
    xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl core_number, %esi
enter:                          # core esi, the first with the start info's address in ebx
    movl %esi, %eax
    shll $22, %eax              # stacks are 4 MiB apart
    addl $stack_end, %eax
    movl %eax, %esp
    imull $104, %esi, %edx      # its task, with the stack of exceptions: the one in use may be at fault
    addl $task, %edx
    movq %rsp, 36(%rdx)
    movl %esi, %ecx             # and the descriptor of that
    shll $4, %ecx
    addl $task_descriptors, %ecx
    movl %edx, %eax
    shll $16, %eax
    orl $0x67, %eax
    movl %eax, (%rcx)
    movl %edx, %eax
    shrl $16, %eax
    movzbl %al, %edi
    andl $0xFF00, %eax
    shll $16, %eax
    orl %edi, %eax
    orl $0x8900, %eax
    movl %eax, 4(%rcx)
    movl %esi, %eax
    shll $4, %eax
    addl $16, %eax
    ltr %ax
    lidt gates_end
    movl %esi, %edi
    testl %esi, %esi
    jnz 5f
    movl %ebx, %edi
    call start
5:  call start_other
    ud2

    .code16
    .global trampoline
trampoline:                     # copied to 0x8000
    cli
    xorl %eax, %eax
    movw %ax, %ds
    lgdtl trampoline_end - trampoline + 0x8000 - 6
    movl %cr4, %eax
    orl $0x20, %eax
    movl %eax, %cr4
    movl $root, %eax
    movl %eax, %cr3
    movl $0xC0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax
    movl %eax, %cr0
    ljmpl $8, $other_core
    .short 79
    .long descriptors
    .global trampoline_end
trampoline_end:
    .code64

awake:                          # the local APIC is told that the interrupt is over
    pushq %rax
    movl $0xFEE000B0, %eax
    movl $0, (%rax)
    popq %rax
    iretq

    .balign 16
stubs:                          # one for each exception, 16 bytes apart
    .set number, 0
    .rept 32
    .balign 16
    .if (0x60227D00 >> number) & 1 == 0
    pushq $0                    # in place of the error code that others have
    .endif
    pushq $number
    jmp 4f
    .set number, number + 1
    .endr
4:  movq %rsp, %rdi
    andq $-16, %rsp
    call fault

    .section .data.boot, "aw"
    .balign 4096
root:
    .quad pointers + 3          # present, writable
    .fill 511, 8, 0
pointers:
    .quad directory + 0x0003, directory + 0x1003, directory + 0x2003, directory + 0x3003
    .fill 508, 8, 0
directory:
    .set page, 0
    .rept 2048
    .quad page + 0x83           # present, writable, 2 MiB
    .set page, page + 0x200000
    .endr
descriptors:
    .quad 0
    .quad 0x00209A0000000000    # 64-bit code
task_descriptors:               # of four cores, each of which fills its own in
    .fill 8, 8, 0
descriptors_end:
    .short 79
    .quad descriptors
task:                           # of four cores
    .rept 4
    .fill 102, 1, 0
    .short 104                  # no map of ports
    .endr
    .global core_number
core_number:                    # of the core that is being started
    .long 0
gates:
    .fill 96, 8, 0
gates_end:
    .short 767
    .quad gates
"#,
    options(att_syntax)
);

/// The information that the loader hands over, as far as it is used.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
}

/// [`StartInfo::magic`].
const MAGIC: u32 = 0x336E_C578;

/// The Rust entry.
///
/// # Safety
/// Called by the boot code, once, with the address that the loader gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn start(info: *const StartInfo) -> ! {
    // SAFETY: by the boot protocol the info and its command line, which ends with a zero, are below
    // 4 GiB, and nothing of this image lies there; nothing writes them.
    let command_line = unsafe {
        info.as_ref()
            .filter(|info| info.magic == MAGIC && info.command_line != 0)
            .map(|info| CStr::from_ptr(core::ptr::with_exposed_provenance(info.command_line as usize)))
    };
    let command_line = command_line.and_then(|line| line.to_str().ok());
    crate::rank::main(Pc { command_line })
}

unsafe extern "C" {
    /// The first instructions of another core, and their end.
    static trampoline: u8;
    static trampoline_end: u8;
    /// The number of the core that is being started.
    static core_number: AtomicU32;
}

/// The Rust entry of another core.
///
/// # Safety
/// Called by the boot code, once on each core, with its number.
#[unsafe(no_mangle)]
unsafe extern "C" fn start_other(core: u32) -> ! {
    STARTED.store(core, Ordering::Release);
    crate::cores::main::<Pc>(core)
}

/// The core that was started last.
static STARTED: AtomicU32 = AtomicU32::new(0);
/// The first core's clock, of which others have copies: all counters began at the same time.
static CLOCK: SpinMutex<Option<Tsc>> = SpinMutex::new(None);

/// The place of the first instructions of another core: a page below 1 MiB that nothing else uses.
const TRAMPOLINE: usize = 0x8000;

/// The interrupt that ends a nap.
const AWAKE: u8 = 47;

/// Adds naps to the clock of the core that calls.
fn napping(clock: Tsc) -> Tsc {
    let Some(apic) = NonNull::new(core::ptr::with_exposed_provenance_mut(LOCAL_APIC)) else {
        return clock;
    };
    // SAFETY: nothing has left privilege level 0 or lets interrupts in, and the boot code has
    // masked those of the old controllers, and led this one to what ends it; no other is let
    // through.
    unsafe { clock.with_naps(apic, AWAKE) }
}

/// The local APIC, and its register of commands: the receiver, and what it gets.
const LOCAL_APIC: usize = 0xFEE0_0000;
const RECEIVER: usize = LOCAL_APIC + 0x310;
const COMMAND: usize = LOCAL_APIC + 0x300;
const RECEIVER_SHIFT: u32 = 24;
/// A reset of another core, and its start at [`TRAMPOLINE`].
const INIT: u32 = 0x4500;
const STARTUP: u32 = 0x4600 | (TRAMPOLINE >> 12) as u32;
/// The time between the two, and the longest that a core takes to come.
const RESET_NS: u64 = 10_000_000;
const START_NS: u64 = 200_000_000;

/// The words that an exception leaves on the stack, as far as it is used.
#[repr(C)]
struct Frame {
    number: u64,
    code: u64,
    at: u64,
}

/// Reports an exception and ends: none is expected.
///
/// # Safety
/// Called by the boot code with what is on the stack; nothing runs afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn fault(frame: &Frame) -> ! {
    let Frame { number, code, at } = frame;
    let address: u64;
    // SAFETY: reading this has no effect.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    let why = format_args!("exception {number}: code {code:#x} at {at:#x}, address {address:#x}");
    aldis_programs::refuse(&why, &mut console());
    exit(false)
}

/// A PC.
pub(super) struct Pc {
    command_line: Option<&'static str>,
}

impl Machine for Pc {
    type Clock = Tsc;
    type Serial = Uart<Ports>;
    type Access = pci::Ports;

    fn command_line(&self) -> Option<&'static str> {
        self.command_line
    }

    fn clock(&mut self) -> Option<Tsc> {
        // SAFETY: nothing has left privilege level 0, and nothing else uses the PIT.
        let clock = unsafe { Tsc::measured(0) }?;
        *CLOCK.lock() = Some(clock.clone());
        Some(napping(clock))
    }

    fn start_core(&mut self, core: u32) -> bool {
        let Some(clock) = CLOCK.lock().clone() else { return false };
        // SAFETY: the page is memory that nothing else uses, and longer than what is copied; the
        // number is read by the core that is started alone.
        unsafe {
            let len = (&raw const trampoline_end).addr() - (&raw const trampoline).addr();
            let place = core::ptr::with_exposed_provenance_mut::<u8>(TRAMPOLINE);
            core::ptr::copy_nonoverlapping(&raw const trampoline, place, len);
            core_number.store(core, Ordering::Release);
        }
        let send = |command: u32| {
            register(RECEIVER).write(core << RECEIVER_SHIFT);
            register(COMMAND).write(command);
        };
        send(INIT);
        let reset = clock.now().after(Duration::from_nanos(RESET_NS));
        while clock.now() < reset {
            core::hint::spin_loop();
        }
        // The second time for those that missed the first.
        for _ in 0..2 {
            send(STARTUP);
            let late = clock.now().after(Duration::from_nanos(START_NS));
            while clock.now() < late {
                if STARTED.load(Ordering::Acquire) == core {
                    return true;
                }
                core::hint::spin_loop();
            }
        }
        false
    }

    fn core_clock(_core: u32) -> Option<Tsc> {
        CLOCK.lock().clone().map(napping)
    }

    fn shared_endpoint() -> &'static SharedPlace<Self> {
        static SHARED: SharedPlace<Pc> = SharedPlace::<Pc>::new();
        &SHARED
    }

    fn serial(&mut self) -> Option<Uart<Ports>> {
        Some(Uart::new(Ports(COM2))).filter(Uart::is_there)
    }

    /// The firmware below the loader has placed everything. A `microvm` has no bus: nothing
    /// answers.
    fn pci(&mut self) -> Option<Pci<pci::Ports>> {
        // SAFETY: nothing else uses these ports, and the first 4 GiB are mapped as they are.
        let root = PciRoot::new(unsafe { pci::Ports::new() });
        Some(Pci { root, registers: AddressWindow::NONE, memory: AddressWindow::NONE })
    }

    /// The slots of a `microvm`.
    fn slots(&self) -> Option<VirtioSlots> {
        Some(VirtioSlots { base: 0xFEB0_0000, stride: 0x200, count: 24 })
    }
}

/// Eight I/O ports from this one on.
pub(super) struct Ports(u16);

impl Registers for Ports {
    fn read(&self, register: u16) -> u8 {
        // SAFETY: the registers of a UART.
        unsafe { input(self.0 + register) }
    }

    fn write(&mut self, register: u16, value: u8) {
        // SAFETY: the registers of a UART.
        unsafe { output(self.0 + register, value) }
    }
}

/// The serial lines: the console's, and the one to other ranks.
const COM1: u16 = 0x3F8;
const COM2: u16 = 0x2F8;

pub(super) fn console() -> impl Write {
    Uart::new(Ports(COM1))
}

/// The port of QEMU's isa-debug-exit: it ends with twice the value and one.
const DEBUG_EXIT: u16 = 0xF4;
const SUCCESS: u8 = 16;

pub(super) fn exit(success: bool) -> ! {
    // SAFETY: a port of the emulator's, or of no device.
    unsafe { output(DEBUG_EXIT, if success { SUCCESS } else { 0 }) };
    loop {
        // SAFETY: no interrupt is expected; the core sleeps for ever.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
