//! # aldis-nic: network cards of a Linux process
//!
//! [`CardNic`] is what a user chooses by a text ([`CardChoice`]), and [`RankNic`] one of them or
//! two ([`CardsChoice`]). [`InterfaceNic`] is an interface of this machine: by a socket of frames
//! (`AF_PACKET`), beside the system's own use of it, or as the other end of a TAP. [`XdpNic`] is
//! one by memory that is shared with the system (`AF_XDP`). [`MemifNic`] is memory that is shared
//! with DPDK or VPP. [`PciNic`] is a card on PCI itself, with no driver of the system (VFIO).
//! [`SocketNic`] is a port of a switch of Ethernet frames (`aldis-switch`), by
//! which a process is in one job with firmware in emulators. The crate stands by itself, so that
//! programs for other kinds of machines are built without all of `aldis-linux`.

mod capture;
mod card;
mod cards;
mod choice;
mod error;
mod filter;
mod interface;
mod mapping;
mod memif;
mod pci;
mod pci_address;
mod socket;
mod watch;
mod xdp;

pub use self::capture::Capture;
pub use self::card::{CardNic, CardRx, CardTx, FrameKind};
pub use self::cards::{CardPair, CardsChoice, RankNic, RankTx};
pub use self::choice::{CARD_KINDS, CardChoice, CardKind, MemifChoice, MemifId, XdpChoice};
pub use self::error::CardError;
pub use self::interface::{InterfaceNic, InterfaceRx, InterfaceTx, local_mac};
pub use self::memif::{MemifNic, MemifTx};
pub use self::pci::{FoundCard, PciError, PciNic, PciRx, PciTx};
pub use self::pci_address::PciAddress;
pub use self::socket::SocketNic;
pub use self::watch::CardCounters;
pub use self::xdp::{XdpError, XdpNic, XdpTx};
