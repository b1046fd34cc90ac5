//! Trials of "safe means sound": what a program without `unsafe` can try on memory that it has
//! lent, with two endpoints at a time, leaked guards, dropped futures, panics and threads. What it
//! must not be able to say at all does not compile: `kernel/src/memory/buffer.rs`,
//! `kernel/src/api/scope.rs` and `kernel/src/api/typed.rs` have those examples.
//!
//! Most look at memory after it was let go of: if a pointer to it had been kept, then a message
//! that comes now would be found there, or the sanitizers and Miri would find the access.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod blocks;
mod futures;
#[cfg(feature = "hosts")]
mod networks;
mod panics;
mod planted;
mod scopes;
mod slots;
mod threads;
