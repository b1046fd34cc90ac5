//! Under construction.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(test)]
extern crate std;

pub mod allreduce;
pub mod barrier;
pub mod bcast;
pub mod draw;
pub mod op;
pub mod schedule;
pub mod select;
