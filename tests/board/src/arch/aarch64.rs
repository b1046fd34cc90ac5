//! This module holds `unsafe` code: QEMU's `virt` board from EL1 to Rust, its console and its way
//! out.
//!
//! The boot code turns on floating point, and the MMU with a map of addresses as they are: without
//! it all memory is device memory, in which unaligned accesses fault and exclusives need not work.
//! The map has blocks of 2 MiB in the first 2 GiB: devices, then the window of PCI in which a
//! device's shared memory is placed as ordinary memory, then RAM, but for one block below each
//! core's stack. Other cores are started by the firmware below (PSCI). Interrupts stay masked: the
//! timer's wakes an idle core, and is never taken. Sources: Arm Architecture Reference Manual for
//! A-profile, D8 (address translation); Arm Generic Interrupt Controller version 2, 4.3
//! (distributor) and 4.4 (core interface); Arm Power State Coordination Interface, 5.1.4 (CPU_ON);
//! Arm semihosting, 7.9 (SYS_EXIT_EXTENDED); PrimeCell PL011 manual, 3.3.

use core::arch::{asm, global_asm};
use core::fmt;

use aldis_drivers::pci::{AddressWindow, ConfigLayout, Mapped, PciRoot};
use aldis_drivers::platform::aarch64::GenericTimer;
use aldis_drivers::platform::seed_of;
use aldis_drivers::virtio::VirtioSlots;
use aldis_hal::mmio::Mmio;

use super::{BUSES, Machine, Pci};
use crate::cores::SharedPlace;
use crate::dtb::DeviceTree;
use crate::mapped::register;
use crate::serial_card::{Bytes, serial_card};
use crate::uart::Uart;

global_asm!(
    r#"
    .section .text.boot, "ax"
    .global boot
boot:
    mov x0, #(3 << 20)          // floating point, for this level too
    msr cpacr_el1, x0
    adrp x0, bss_start
    add x0, x0, :lo12:bss_start
    adrp x1, bss_end
    add x1, x1, :lo12:bss_end
2:  cmp x0, x1
    b.hs 3f
    str xzr, [x0], #8
    b 2b
3:  adrp x0, ram_blocks         // a stack that overflows faults, of every core
    add x0, x0, :lo12:ram_blocks
    ldr x1, =guard_entry
    add x0, x0, x1
    mov x1, #4
4:  str xzr, [x0], #16
    subs x1, x1, #1
    b.ne 4b
    mov x19, #0
    b enter
    .global other_core
other_core:                     // with its number
    mov x19, x0
    mov x0, #(3 << 20)
    msr cpacr_el1, x0
enter:
    ldr x0, =0xFF               // attributes: 0 is ordinary, 1 is a device
    msr mair_el1, x0
    ldr x0, =0x803519           // 39 bits by 4 KiB pages, cached, shared; no second half
    msr tcr_el1, x0
    adrp x0, root
    msr ttbr0_el1, x0
    adrp x0, vectors
    msr vbar_el1, x0
    dsb sy
    tlbi vmalle1
    dsb sy
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005             // MMU, data and instruction caches
    orr x0, x0, x1
    bic x0, x0, #2              // unaligned accesses are fine
    msr sctlr_el1, x0
    isb
    ldr x0, =stack_end
    add x0, x0, x19, lsl #22    // stacks are 4 MiB apart
    mov sp, x0
    msr tpidr_el1, x0
    cbnz x19, 5f
    bl start
5:  mov x0, x19
    bl start_other
    b .

    .balign 2048
vectors:                        // sixteen, one as bad as the other
    .rept 16
    mrs x0, tpidr_el1           // the stack may be what is at fault
    mov sp, x0
    b fault
    .balign 128
    .endr

    .section .data.boot, "aw"
    .balign 4096
root:
    .quad low_blocks + 3, ram_blocks + 3
    .fill 510, 8, 0
low_blocks:
    .set block, 0
    .rept 512
    .if block >= 0x20000000 && block < 0x30000000
    .quad block + 0x60000000000701   // ordinary memory, not to be executed
    .else
    .quad block + 0x60000000000405   // a device, not to be executed
    .endif
    .set block, block + 0x200000
    .endr
ram_blocks:
    .rept 512
    .quad block + 0x701
    .set block, block + 0x200000
    .endr
"#
);

/// The address at which QEMU puts the device tree for an ELF image: at the start of RAM.
const DEVICE_TREE: usize = 0x4000_0000;
/// The image starts here at the earliest.
const DEVICE_TREE_BYTES_MAX: usize = 0x20_0000;

/// The Rust entry.
///
/// # Safety
/// Called by the boot code, once.
#[unsafe(no_mangle)]
unsafe extern "C" fn start() -> ! {
    let tree = core::ptr::with_exposed_provenance::<u8>(DEVICE_TREE);
    // SAFETY: RAM below the image, which nothing writes.
    let tree = unsafe { core::slice::from_raw_parts(tree, DEVICE_TREE_BYTES_MAX) };
    crate::rank::main(Virt { tree: DeviceTree::new(tree) })
}

unsafe extern "C" {
    /// The beginning of another core.
    fn other_core();
}

/// The Rust entry of another core.
///
/// # Safety
/// Called by the boot code, once on each core, with its number.
#[unsafe(no_mangle)]
unsafe extern "C" fn start_other(core: u32) -> ! {
    crate::cores::main::<Virt>(core)
}

/// The interrupt controller (GICv2): what it has once, and what each core has of its own.
const DISTRIBUTOR: usize = 0x0800_0000;
const CORE_INTERFACE: usize = 0x0801_0000;
/// Registers of the distributor: that it forwards, and of each core's own interrupts those that are
/// forwarded; and the virtual timer's among them.
const DISTRIBUTOR_CONTROL: usize = DISTRIBUTOR;
const FORWARDED: usize = DISTRIBUTOR + 0x100;
const VIRTUAL_TIMER: u32 = 1 << 27;
/// Registers of a core's interface: that it signals, and interrupts of which priorities.
const CORE_CONTROL: usize = CORE_INTERFACE;
const PRIORITIES: usize = CORE_INTERFACE + 4;
const ALL_PRIORITIES: u32 = 0xFF;
const ON: u32 = 1;

/// The clock of the core that calls, which naps while it is idle.
fn clock_of(drawn: &[u8]) -> Option<GenericTimer> {
    register(DISTRIBUTOR_CONTROL).write(ON);
    register(FORWARDED).write(VIRTUAL_TIMER);
    register(PRIORITIES).write(ALL_PRIORITIES);
    register(CORE_CONTROL).write(ON);
    // SAFETY: the image runs at EL1, alone, with interrupts masked from the start; this core's
    // event stream and timer are its own, and the timer's interrupt has just been let through.
    unsafe { Some(GenericTimer::new(seed_of(drawn))?.with_naps()) }
}

/// PSCI's call that starts a core, and its answer if that worked.
const CPU_ON: u64 = 0xC400_0003;
const SUCCESS: u64 = 0;

/// Reports an exception and ends: none is expected.
///
/// # Safety
/// Called by the vectors; nothing runs afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn fault() -> ! {
    let (syndrome, at, address): (u64, u64, u64);
    // SAFETY: reading these has no effect.
    unsafe {
        asm!("mrs {}, esr_el1", "mrs {}, elr_el1", "mrs {}, far_el1", out(reg) syndrome, out(reg) at,
            out(reg) address, options(nomem, nostack));
    }
    let why = format_args!("exception: syndrome {syndrome:#x} at {at:#x}, address {address:#x}");
    aldis_programs::refuse(&why, &mut console());
    exit(false)
}

/// The address of the I/O ports of PCI cards.
const PORTS: usize = 0x3EFF_0000;

/// The board.
struct Virt {
    tree: Option<DeviceTree<'static>>,
}

impl Machine for Virt {
    type Clock = GenericTimer;
    type Serial = Uart<Bytes>;
    type Access = Mapped;

    fn command_line(&self) -> Option<&'static str> {
        self.tree.as_ref()?.text("chosen", "bootargs")
    }

    fn clock(&mut self) -> Option<GenericTimer> {
        let drawn = self.tree.as_ref().and_then(|tree| tree.property("chosen", "rng-seed"));
        clock_of(drawn.unwrap_or_default())
    }

    fn start_core(&mut self, core: u32) -> bool {
        let (number, entry) = (u64::from(core), other_core as *const () as u64);
        let answer: u64;
        // SAFETY: a call of the firmware, by the SMC calling convention; the core that it starts
        // uses its own stack, and what is left for it.
        unsafe {
            asm!("hvc #0", inlateout("x0") CPU_ON => answer, in("x1") number, in("x2") entry, in("x3") number,
                clobber_abi("C"));
        }
        answer == SUCCESS
    }

    fn core_clock(_core: u32) -> Option<GenericTimer> {
        clock_of(&[])
    }

    fn shared_endpoint() -> &'static SharedPlace<Self> {
        static SHARED: SharedPlace<Virt> = SharedPlace::<Virt>::new();
        &SHARED
    }

    /// The board has one line; another is a PCI card.
    fn serial(&mut self) -> Option<Uart<Bytes>> {
        serial_card(&mut self.pci()?.root, PORTS)
    }

    fn pci(&mut self) -> Option<Pci<Mapped>> {
        // SAFETY: the board has its configuration space there, mapped as it is, and nothing else
        // uses it.
        let root = PciRoot::new(unsafe { Mapped::new(0x3F00_0000, ConfigLayout::Ecam, BUSES as u16) });
        let registers = AddressWindow::new(0x1000_0000, 0x1000_0000);
        Some(Pci { root, registers, memory: AddressWindow::new(0x2000_0000, 0x1000_0000) })
    }

    fn slots(&self) -> Option<VirtioSlots> {
        Some(VirtioSlots { base: 0x0A00_0000, stride: 0x200, count: 32 })
    }
}

/// The PL011: its data and flag registers, and the flag of a full transmit FIFO. QEMU's is on at
/// reset.
const UART: usize = 0x0900_0000;
const FLAGS: usize = 0x18;
const IS_FULL: u32 = 1 << 5;

/// The first serial line, to be written.
struct Pl011 {
    data: Mmio<u32>,
    flags: Mmio<u32>,
}

impl fmt::Write for Pl011 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while self.flags.read() & IS_FULL != 0 {
                core::hint::spin_loop();
            }
            self.data.write(byte.into());
        }
        Ok(())
    }
}

pub(super) fn console() -> impl fmt::Write {
    Pl011 { data: register(UART), flags: register(UART + FLAGS) }
}

/// Semihosting: the call that ends the program, and the reason for which it takes an exit code.
const SYS_EXIT_EXTENDED: u64 = 0x20;
const APPLICATION_EXIT: u64 = 0x20026;

pub(super) fn exit(success: bool) -> ! {
    let block = [APPLICATION_EXIT, u64::from(!success)];
    // SAFETY: a call of the debugger or emulator, which reads the block; without one it is an
    // exception, and the end too.
    unsafe {
        asm!("hlt #0xf000", in("x0") SYS_EXIT_EXTENDED, in("x1") block.as_ptr(), options(nostack, readonly))
    };
    loop {
        core::hint::spin_loop();
    }
}
