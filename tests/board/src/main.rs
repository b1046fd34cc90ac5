//! # aldis-board: a rank as firmware
//!
//! Images that run the programs of `aldis-programs` without an operating system, on boards that
//! QEMU emulates. The kernel command line says which rank a board is and what it runs; its console
//! says the verdict, and its exit code too.
//!
//! | architecture | board | boots by | console | leaves by |
//! |---|---|---|---|---|
//! | x86_64 | `q35`, `microvm` | PVH note, 32-bit entry | COM1 | isa-debug-exit at 0xf4 |
//! | aarch64 | `virt,highmem=off` | ELF at EL1 | PL011 | semihosting |
//! | riscv64 | `virt` with `-bios none` | ELF in machine mode | 16550 | test finisher |
//! | thumbv7em | `mps2-an386`, a Cortex-M4 | vector table | CMSDK UART0 | semihosting |
//!
//! From isa-debug-exit, code 33 is success. The Cortex-M4 logs by defmt over semihosting.
//!
//! | module | what it holds |
//! |---|---|
//! | `arch` | `Machine`, what a board must bring, and one module and linker script for each |
//! | `rank` | from the command line to the verdict |
//! | `any_nic` | the card, whichever it is |
//! | `any_wire` | the way to other ranks, whichever it is |
//! | `devices` | the network card and the shared memory, found |
//! | `shared` | a job over shared memory: inboxes, cards, lanes |
//! | `cores` | a job of the board's own cores: started, introduced, and told of at the end |
//! | `wire` | a job over frames: the ranks find each other, and connect |
//! | `memory` | every byte that a rank works in |
//! | `dtb` | the flattened device tree: command line, seed, what a hart can do |
//! | `mapped` | registers at fixed addresses |
//! | `serial_card` | a serial line on a PCI card |
//! | `uart` | the 16550 of PCs and of most other boards |
//!
//! A new board is a module in `arch` that implements `Machine`, with boot code and a linker script;
//! nothing else changes. On a host this is an empty program, so that `cargo build --workspace`
//! needs no bare-metal target.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod any_nic;
#[cfg(target_os = "none")]
mod any_wire;
#[cfg(target_os = "none")]
mod arch;
#[cfg(all(target_os = "none", not(target_arch = "arm")))]
mod cores;
#[cfg(target_os = "none")]
mod devices;
#[cfg(any(all(target_os = "none", any(target_arch = "aarch64", target_arch = "riscv64")), test))]
mod dtb;
#[cfg(all(target_os = "none", not(target_arch = "arm")))]
mod mapped;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod rank;
#[cfg(all(target_os = "none", any(target_arch = "aarch64", target_arch = "riscv64")))]
mod serial_card;
#[cfg(target_os = "none")]
mod shared;
#[cfg(all(target_os = "none", not(target_arch = "arm")))]
mod uart;
#[cfg(target_os = "none")]
mod wire;

/// A panic is a failed verdict that says where.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    aldis_programs::refuse(info, &mut arch::console());
    arch::exit(false)
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("firmware for emulated boards: see `cargo xtask qemu`");
}
