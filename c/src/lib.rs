//! This module holds `unsafe` code: the call of the firmware's `aldis_panic`.
//!
//! # aldis-c: the interface of firmware in C
//!
//! `include/aldis.h` is the interface, this crate the static library behind it, without an
//! operating system and without a heap. A rank gets memory once, a network card by callbacks or
//! with a driver of the library's, and a clock; it finds the other ranks on the wire and is one of
//! a job with ranks in Rust, on boards and under Linux.
//!
//! | module | what it holds |
//! |---|---|
//! | `calls` | the functions of `aldis.h`; requests and cards in modules of their own |
//! | `ffi` | C's memory as slices, and the rank behind its handle |
//! | `rank` | a rank from joining to leaving |
//! | `arena` | the caller's memory, cut into tables |
//! | `types` | the structures of `aldis.h` |
//! | `card` | a card by callbacks as a `Nic` |
//! | `driver` | a `Nic` as a card by callbacks |
//! | `line` | a serial line by callbacks as a stream of bytes |
//! | `clock` | a machine by callbacks as a `Platform` |
//! | `reduction` | types and operations of reductions by their numbers |
//! | `errors` | causes as the numbers of `aldis.h` |
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

// What ends a program in a panic comes with it.
#[cfg(not(target_os = "none"))]
extern crate std;

mod arena;
pub mod calls;
mod card;
mod clock;
mod driver;
mod errors;
mod ffi;
mod line;
mod rank;
mod reduction;
pub mod types;

pub use rank::CRank;

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn aldis_panic();
    }
    loop {
        // SAFETY: the header asks the firmware for a function of this name and type.
        unsafe { aldis_panic() }
    }
}
