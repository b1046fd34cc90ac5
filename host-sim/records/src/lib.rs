//! # aldis-records: records that one process publishes and others read
//!
//! Ranks and launchers of a host share memory for more than messages. Each record has one writer;
//! its readers see it whole, or see that it is not there. The loom models explore this very code:
//! `cargo xtask test --step loom`.
//!
//! | module | record | published |
//! |---|---|---|
//! | [`head`] | how a rank's memory is reached by others | once |
//! | [`mark`] | whose segment it is, and how long | once |
//! | [`note`] | what a rank waits for | again and again |
#![forbid(unsafe_code)]

pub mod head;
pub mod mark;
pub mod note;
mod sync;
