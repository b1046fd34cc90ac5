//! This module holds `unsafe` code: the name of the application's entry.
//!
//! # aldis-unikernel: a rank in a unikernel
//!
//! The programs of `aldis-programs` as an application of ArceOS, a unikernel in Rust: one image of
//! both, which QEMU boots as a PC. ArceOS brings boot code, memory, clock, console and the driver
//! of the card; the rank takes the card by `aldis_drivers::adapters::ArceosDriver`, finds the other
//! ranks on the wire, and is one of their job. docs/unikernel.md takes a reader through it.
//!
//! | module | what it holds |
//! |---|---|
//! | `platform` | the clock, entropy and console of ArceOS, as Aldis uses them |
//! | `machine` | the command line from the emulator, and the end with a code |
//! | `rank` | from the card to an endpoint that is connected to all others |
//!
//! On a host this is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod platform;
#[cfg(target_os = "none")]
mod rank;

// The runtime is linked for what it defines: the entry, and the heap.
#[cfg(target_os = "none")]
extern crate axruntime;

/// The application, which ArceOS calls when all else is ready.
#[cfg(target_os = "none")]
// SAFETY: the name is ArceOS's for its application, and nothing else in the image has it.
#[unsafe(no_mangle)]
extern "C" fn main() {
    machine::exit(rank::main())
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("an image for an emulator: see docs/unikernel.md");
}
