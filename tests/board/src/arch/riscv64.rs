//! This module holds `unsafe` code: QEMU's `virt` board from reset to Rust, its console and its way
//! out.
//!
//! The hart starts in machine mode with the device tree's address in `a1`, and stays there: no
//! paging, but a region that physical memory protection denies, below the stack. Sources: RISC-V
//! Privileged Architecture, 3.1 and 3.7.1 (PMP); QEMU, `hw/riscv/virt.c` (the memory map) and
//! `hw/misc/sifive_test.c`.

use core::arch::{asm, global_asm};
use core::fmt::Write;

use aldis_drivers::pci::{AddressWindow, ConfigLayout, Mapped, PciRoot};
use aldis_drivers::platform::riscv64::Timer;
use aldis_drivers::platform::seed_of;
use aldis_drivers::virtio::VirtioSlots;

use super::{BUSES, Machine, Pci};
use crate::dtb::DeviceTree;
use crate::mapped::{Bytes, register, serial_card};
use crate::uart::Uart;

global_asm!(
    r#"
    .section .text.boot, "ax"
    .global boot
boot:
    bnez a0, 4f                 # one hart runs
    csrw mie, zero
    la t0, 5f
    csrw mtvec, t0
    li t0, 0x2000               # floating point
    csrs mstatus, t0
    la t0, guard
    srli t0, t0, 2
    ori t0, t0, 511             # 4 KiB
    csrw pmpaddr0, t0
    li t0, 0x98                 # locked, so for machine mode too; a power of two; no access
    csrw pmpcfg0, t0
    la t0, bss_start
    la t1, bss_end
2:  bgeu t0, t1, 3f
    sd zero, (t0)
    addi t0, t0, 8
    j 2b
3:  la sp, stack_end
    mv a0, a1
    call start
4:  wfi
    j 4b
    .balign 4
5:  la sp, stack_end            # the stack may be what is at fault
    call fault
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
/// The first hart's comparison register in the CLINT.
const COMPARISON: usize = 0x200_4000;

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
        let hz = u64::from(hz.unwrap_or(HZ));
        let drawn = tree.and_then(|tree| tree.property("chosen", "rng-seed"));
        let timer = Timer::new(hz, seed_of(drawn.unwrap_or_default()))?;
        // SAFETY: the image runs in machine mode with interrupts off, and no other code uses
        // the timer.
        let timer = unsafe { timer.with_alarm(register(COMPARISON), hz) };
        let has_zkr = tree.is_some_and(|tree| tree.has_extension(HART, "zkr"));
        // SAFETY: the hart has the extension, and the image runs in machine mode.
        Some(if has_zkr { unsafe { timer.with_zkr() } } else { timer })
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
