//! This module holds `unsafe` code: QEMU's `virt` board from reset to Rust, its console and its way
//! out.
//!
//! Every hart starts in machine mode with its number in `a0` and the device tree's address in `a1`,
//! and stays in that mode: no paging, but a region that physical memory protection denies, below
//! its stack. All but the first wait for an interrupt of another hart. Sources: RISC-V Privileged
//! Architecture, 3.1 and 3.7.1 (PMP); SiFive CLINT (core-local interruptor); QEMU,
//! `hw/riscv/virt.c` (the memory map) and `hw/misc/sifive_test.c`.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering};

use aldis_drivers::pci::{AddressWindow, ConfigLayout, Mapped, PciRoot};
use aldis_drivers::platform::riscv64::Timer;
use aldis_drivers::platform::seed_of;
use aldis_drivers::virtio::VirtioSlots;
use heapless::String;

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
    mv s0, a0
    bnez a0, 4f                 # the others wait
    la t0, bss_start
    la t1, bss_end
2:  bgeu t0, t1, 3f
    sd zero, (t0)
    addi t0, t0, 8
    j 2b
3:  csrw mie, zero
    la t0, 6f
    csrw mtvec, t0
    li t0, 0x2000               # floating point
    csrs mstatus, t0
    slli t2, s0, 22             # stacks are 4 MiB apart
    la t0, guard
    add t0, t0, t2
    srli t0, t0, 2
    ori t0, t0, 511             # 4 KiB
    csrw pmpaddr0, t0
    li t0, 0x98                 # locked, so for machine mode too; a power of two; no access
    csrw pmpcfg0, t0
    la sp, stack_end
    add sp, sp, t2
    csrw mscratch, sp
    mv a0, s0
    bnez s0, 5f
    mv a0, a1
    call start
5:  call start_other
4:  li t0, 8                    # an interrupt of another hart wakes this one, and is never taken
    csrw mie, t0
    wfi
    la t0, harts_started
    lw t0, (t0)
    bgeu s0, t0, 4b
    fence rw, rw
    li t0, 0x2000000            # and is over
    slli t1, s0, 2
    add t0, t0, t1
    sw zero, (t0)
    j 3b

    .balign 4
6:  csrr sp, mscratch           # the stack may be what is at fault
    call fault

    .section .data.boot, "aw"
    .balign 4
    .global harts_started
harts_started:                  # the others read it before what is zero at first is cleared
    .word 1
"#
);

/// The largest device tree that is looked at.
const DEVICE_TREE_BYTES_MAX: usize = 0x1_0000;

/// The Rust entry.
///
/// # Safety
/// Called by the boot code, once, with the address that it was given.
#[unsafe(no_mangle)]
unsafe extern "C" fn start(tree: *const u8) -> ! {
    let tree = (!tree.is_null()).then(|| {
        // SAFETY: the loader puts the tree into RAM, as far from its end as this is long, and
        // nothing writes it.
        unsafe { core::slice::from_raw_parts(tree, DEVICE_TREE_BYTES_MAX) }
    });
    crate::rank::main(Virt { tree: tree.and_then(DeviceTree::new) })
}

unsafe extern "C" {
    /// The harts that run: those of lower numbers.
    static harts_started: AtomicU32;
}

/// The Rust entry of another hart.
///
/// # Safety
/// Called by the boot code, once on each hart, with its number.
#[unsafe(no_mangle)]
unsafe extern "C" fn start_other(core: u32) -> ! {
    crate::cores::main::<Virt>(core)
}

/// Reports an exception and ends: none is expected.
///
/// # Safety
/// Called by the trap vector; nothing runs afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn fault() -> ! {
    let (cause, at, address): (u64, u64, u64);
    // SAFETY: reading these has no effect.
    unsafe {
        asm!("csrr {}, mcause", "csrr {}, mepc", "csrr {}, mtval", out(reg) cause, out(reg) at, out(reg) address,
            options(nomem, nostack));
    }
    let why = format_args!("exception: cause {cause} at {at:#x}, address {address:#x}");
    aldis_programs::refuse(&why, &mut console());
    exit(false)
}

/// The address of the I/O ports of PCI cards.
const PORTS: usize = 0x0300_0000;

/// The board.
struct Virt {
    tree: Option<DeviceTree<'static>>,
}

/// The hart that runs, in the device tree.
const HART: &str = "cpus/cpu@0";
/// Ticks of `mtime` a second where the device tree does not say: QEMU's.
const HZ: u32 = 10_000_000;
/// The first hart's comparison register in the CLINT, and the one that interrupts it. Those of
/// other harts follow.
const COMPARISON: usize = 0x200_4000;
const INTERRUPT: usize = 0x200_0000;
/// Ticks of `mtime` a second, for the clocks of other harts.
static RATE: AtomicU32 = AtomicU32::new(HZ);

impl Machine for Virt {
    type Clock = Timer;
    type Serial = Uart<Bytes>;
    type Access = Mapped;

    fn command_line(&self) -> Option<&'static str> {
        self.tree.as_ref()?.text("chosen", "bootargs")
    }

    fn clock(&mut self) -> Option<Timer> {
        let tree = self.tree.as_ref();
        let hz = tree.and_then(|tree| tree.number("cpus", "timebase-frequency"));
        let hz = hz.unwrap_or(HZ);
        RATE.store(hz, Ordering::Relaxed);
        let hz = u64::from(hz);
        let drawn = tree.and_then(|tree| tree.property("chosen", "rng-seed"));
        let timer = Timer::new(hz, seed_of(drawn.unwrap_or_default()))?;
        // SAFETY: the image runs in machine mode with interrupts off, and no other code uses
        // the timer.
        let timer = unsafe { timer.with_alarm(register(COMPARISON), hz) };
        let has_zkr = tree.is_some_and(|tree| tree.has_extension(HART, "zkr"));
        // SAFETY: the hart has the extension, and the image runs in machine mode.
        Some(if has_zkr { unsafe { timer.with_zkr() } } else { timer })
    }

    fn start_core(&mut self, core: u32) -> bool {
        let mut name = String::<16>::new();
        let is_named = write!(name, "cpus/cpu@{core:x}").is_ok();
        let is_there = self.tree.as_ref().is_some_and(|tree| tree.property(&name, "reg").is_some());
        if !is_named || !is_there {
            return false;
        }
        // SAFETY: the word is of the boot code's memory, and read by harts that wait.
        unsafe { harts_started.store(core + 1, Ordering::Release) };
        register(INTERRUPT + 4 * core as usize).write(1_u32);
        true
    }

    fn core_clock(core: u32) -> Option<Timer> {
        let hz = u64::from(RATE.load(Ordering::Relaxed));
        let timer = Timer::new(hz, seed_of(&[]))?;
        // SAFETY: the image runs in machine mode with interrupts off, and no other code uses this
        // hart's timer at the same time.
        Some(unsafe { timer.with_alarm(register(COMPARISON + 8 * core as usize), hz) })
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
        let root = PciRoot::new(unsafe { Mapped::new(0x3000_0000, ConfigLayout::Ecam, BUSES as u16) });
        let registers = AddressWindow::new(0x4000_0000, 0x1000_0000);
        Some(Pci { root, registers, memory: AddressWindow::new(0x5000_0000, 0x1000_0000) })
    }

    fn slots(&self) -> Option<VirtioSlots> {
        Some(VirtioSlots { base: 0x1000_1000, stride: 0x1000, count: 8 })
    }
}

const UART: usize = 0x1000_0000;

pub(super) fn console() -> impl Write {
    Uart::new(Bytes(UART))
}

/// The test finisher, and what it takes.
const FINISHER: usize = 0x10_0000;
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x1_3333;

pub(super) fn exit(success: bool) -> ! {
    register(FINISHER).write(if success { PASS } else { FAIL });
    loop {
        core::hint::spin_loop();
    }
}
