//! # aldis-firmware: the smallest useful image
//!
//! Four cores of one device that exchange messages over memory they share; each answers whatever it
//! is sent. Messages up to 256 bytes go eagerly, longer ones by rendezvous, so that both protocols
//! are linked, and with them matching, requests, credits and progress. `cargo xtask size` builds it
//! for a Cortex-M4 (`--all`: and for larger processors), measures it, and proves that neither panic
//! machinery nor a heap is in it.
//!
//! It is never run: the board is made up. On a host this is an empty program, so that `cargo
//! build --workspace` needs no bare-metal target.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod boot;
#[cfg(target_os = "none")]
mod echo;
#[cfg(target_os = "none")]
mod facts;
#[cfg(target_os = "none")]
mod layout;
#[cfg(all(target_os = "none", target_arch = "arm"))]
mod memory;

#[cfg(target_os = "none")]
use echo::firmware;

#[cfg(not(target_os = "none"))]
fn main() {
    println!("a firmware for bare metal: see `cargo xtask size`");
}
