//! # aldis-nic: network cards of a Linux process
//!
//! [`SocketNic`] is a port of a switch of Ethernet frames (`aldis-switch`), by which a process is
//! in one job with firmware in emulators. The crate stands by itself, so that programs for other
//! kinds of machines are built without all of `aldis-linux`.
#![forbid(unsafe_code)]

mod socket;

pub use self::socket::SocketNic;
