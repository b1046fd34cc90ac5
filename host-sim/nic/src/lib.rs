//! # aldis-nic: network cards of a Linux process
//!
//! [`InterfaceNic`] is an interface of this machine: by a socket of frames (`AF_PACKET`), beside
//! the system's own use of it, or as the other end of a TAP. [`SocketNic`] is a port of a switch of
//! Ethernet frames (`aldis-switch`), by which a process is in one job with firmware in emulators.
//! The crate stands by itself, so that programs for other kinds of machines are built without all
//! of `aldis-linux`.
#![forbid(unsafe_code)]

mod choice;
mod error;
mod filter;
mod interface;
mod socket;

pub use self::choice::{CardChoice, CardKind};
pub use self::error::CardError;
pub use self::interface::{InterfaceNic, InterfaceTx, local_mac};
pub use self::socket::SocketNic;
