//! The atomics that memory of several processes is written with: `core`'s, or loom's model-checked
//! ones under `--cfg loom`, by which the models explore the very code that ships.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
