//! The kernel by its public interface, over the loopback transport and the rig of `tests/kit`: one
//! program, so that what all of it is built from is compiled and linked once.
//!
//! With `--cfg sanitized` those alone that `cargo xtask test --step sanitizers` runs: the others
//! would be instrumented for nothing.

#[cfg(not(sanitized))]
mod attributes;
#[cfg(not(sanitized))]
mod buffers;
#[cfg(not(sanitized))]
mod communicators;
#[cfg(not(sanitized))]
mod contacts;
#[cfg(not(sanitized))]
mod datatype;
#[cfg(not(sanitized))]
mod desertion;
#[cfg(not(sanitized))]
mod detached;
mod direct;
#[cfg(not(sanitized))]
mod endings;
mod expected;
#[cfg(not(sanitized))]
mod future;
#[cfg(not(sanitized))]
mod groups;
#[cfg(not(sanitized))]
mod hints;
#[cfg(not(sanitized))]
mod lengths;
#[cfg(not(sanitized))]
mod matched;
#[cfg(not(sanitized))]
mod matched_random;
#[cfg(not(sanitized))]
mod modes;
#[cfg(not(sanitized))]
mod overflow;
#[cfg(not(sanitized))]
mod partitioned;
#[cfg(not(sanitized))]
mod pending;
#[cfg(not(sanitized))]
mod persistent;
#[cfg(not(sanitized))]
mod point_to_point;
#[cfg(not(sanitized))]
mod policies;
#[cfg(not(sanitized))]
mod random;
#[cfg(not(sanitized))]
mod recall;
#[cfg(not(sanitized))]
mod refusals;
#[cfg(not(sanitized))]
mod staging;
mod typed;
mod view;
#[cfg(not(sanitized))]
mod waiting;
