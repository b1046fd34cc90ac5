//! `CardNic`: the card that a user chooses, of any kind.

use std::os::fd::{AsFd, BorrowedFd};

use aldis_hal::nic::{LinkState, Mac, Nic, RxFrame, TxFrame};

use crate::choice::{CardChoice, CardKind};
use crate::error::CardError;
use crate::interface::{InterfaceNic, InterfaceTx};
use crate::memif::{MemifNic, MemifTx};
use crate::pci::{PciNic, PciRx, PciTx};
use crate::xdp::{XdpNic, XdpTx};

/// The frames that a card takes, of those to its address or to all stations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// Of this EtherType.
    EtherType(u16),
    /// Datagrams in UDP over IPv4 to this port. A card that takes copies, beside the system, may
    /// take others of IPv4 too.
    Udp(u16),
}

/// The EtherType of IPv4.
const ETHERTYPE_IPV4: u16 = 0x0800;

impl FrameKind {
    /// The EtherType of such frames.
    pub const fn ethertype(self) -> u16 {
        match self {
            Self::EtherType(ethertype) => ethertype,
            Self::Udp(_) => ETHERTYPE_IPV4,
        }
    }
}

/// A card of any kind.
#[derive(Debug)]
pub enum CardNic {
    /// An interface of this machine.
    Interface(InterfaceNic),
    /// An interface of this machine, by memory that is shared with the system.
    Xdp(Box<XdpNic>),
    /// Memory that is shared with another process.
    Memif(MemifNic),
    /// A card on PCI that the system hands over.
    Pci(Box<PciNic>),
}

impl CardNic {
    /// Opens a card: frames to this address or to all stations, of an interface those of one kind.
    /// Where the choice says so the interface's own address takes its place; that of a card on PCI
    /// always does.
    ///
    /// # Errors
    /// The causes that [`CardError`] names: no such interface or socket, one that is down, no
    /// permission, a TAP, a queue, a memif or a device that another process has.
    pub fn open(choice: &CardChoice, mac: Mac, kind: FrameKind) -> Result<Self, CardError> {
        match choice.kind {
            CardKind::Packet | CardKind::Tap => {
                InterfaceNic::open(choice, mac, Some(kind.ethertype())).map(Self::Interface)
            }
            CardKind::Xdp => XdpNic::open(choice, mac, kind).map(|card| Self::Xdp(Box::new(card))),
            CardKind::Memif => MemifNic::open(choice, mac).map(Self::Memif),
            CardKind::Pci => PciNic::open(choice).map(|card| Self::Pci(Box::new(card))),
        }
    }

    /// Notes that other ranks of this machine are on the same interface, where there is one.
    ///
    /// # Errors
    /// [`CardError::System`].
    pub fn share(&mut self) -> Result<(), CardError> {
        match self {
            Self::Interface(card) => card.share(),
            // A queue or a device has one rank, and an interface one program.
            Self::Xdp(_) | Self::Memif(_) | Self::Pci(_) => Ok(()),
        }
    }

    /// Has the card take frames to this address, of one that has opened with another.
    ///
    /// # Errors
    /// [`CardError::Pci`] for one that cannot.
    pub(crate) fn set_mac(&mut self, mac: Mac) -> Result<(), CardError> {
        match self {
            Self::Pci(card) if card.mac() != mac => card.set_mac(mac),
            _ => Ok(()),
        }
    }

    /// Looks at the card: whether frames pass, and if not, why. One that has been made anew is
    /// taken up again.
    pub fn probe(&mut self) -> Option<&CardError> {
        match self {
            Self::Interface(card) => card.probe(),
            Self::Xdp(card) => card.probe(),
            Self::Memif(card) => card.probe(),
            Self::Pci(card) => card.probe(),
        }
    }

    /// The trouble that was found last.
    pub const fn trouble(&self) -> Option<&CardError> {
        match self {
            Self::Interface(card) => card.trouble(),
            Self::Xdp(card) => card.trouble(),
            Self::Memif(card) => card.trouble(),
            Self::Pci(card) => card.trouble(),
        }
    }

    /// The choice by which it was opened.
    pub const fn choice(&self) -> &CardChoice {
        match self {
            Self::Interface(card) => card.choice(),
            Self::Xdp(card) => card.choice(),
            Self::Memif(card) => card.choice(),
            Self::Pci(card) => card.choice(),
        }
    }

    /// The number of its interface, if it is one of this machine's.
    pub const fn index(&self) -> Option<u32> {
        match self {
            Self::Interface(card) => Some(card.index()),
            Self::Xdp(card) => Some(card.index()),
            Self::Memif(_) | Self::Pci(_) => None,
        }
    }

    /// The way by which its frames come, of one that has several.
    pub const fn manner(&self) -> Option<&'static str> {
        match self {
            Self::Xdp(card) => Some(card.manner()),
            Self::Pci(card) => Some(card.manner()),
            Self::Interface(_) | Self::Memif(_) => None,
        }
    }

    /// A file that can be read when a frame has come, if the card has one: it is polled otherwise.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Interface(card) => Some(card.as_fd()),
            Self::Xdp(card) => Some(card.as_fd()),
            Self::Memif(_) | Self::Pci(_) => None,
        }
    }
}

/// A received frame.
#[derive(Debug)]
pub enum CardRx<'a> {
    /// In memory of this process.
    Bytes(&'a [u8]),
    /// Of a card on PCI.
    Pci(PciRx<'a>),
}

impl RxFrame for CardRx<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(frame) => frame,
            Self::Pci(frame) => frame.bytes(),
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub enum CardTx<'a> {
    /// By an interface.
    Interface(InterfaceTx<'a>),
    /// By memory that is shared with the system.
    Xdp(XdpTx<'a>),
    /// Through shared memory.
    Memif(MemifTx<'a>),
    /// By a card on PCI.
    Pci(PciTx<'a>),
}

impl TxFrame for CardTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Interface(frame) => frame.bytes(),
            Self::Xdp(frame) => frame.bytes(),
            Self::Memif(frame) => frame.bytes(),
            Self::Pci(frame) => frame.bytes(),
        }
    }

    fn send(self) {
        match self {
            Self::Interface(frame) => frame.send(),
            Self::Xdp(frame) => frame.send(),
            Self::Memif(frame) => frame.send(),
            Self::Pci(frame) => frame.send(),
        }
    }
}

impl Nic for CardNic {
    type Rx<'a> = CardRx<'a>;
    type Tx<'a> = CardTx<'a>;

    fn receive(&mut self) -> Option<CardRx<'_>> {
        match self {
            Self::Interface(card) => card.receive().map(CardRx::Bytes),
            Self::Xdp(card) => card.receive().map(CardRx::Bytes),
            Self::Memif(card) => card.receive().map(CardRx::Bytes),
            Self::Pci(card) => card.receive().map(CardRx::Pci),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<CardTx<'_>> {
        match self {
            Self::Interface(card) => card.transmit(len).map(CardTx::Interface),
            Self::Xdp(card) => card.transmit(len).map(CardTx::Xdp),
            Self::Memif(card) => card.transmit(len).map(CardTx::Memif),
            Self::Pci(card) => card.transmit(len).map(CardTx::Pci),
        }
    }

    fn mtu(&self) -> usize {
        match self {
            Self::Interface(card) => card.mtu(),
            Self::Xdp(card) => card.mtu(),
            Self::Memif(card) => card.mtu(),
            Self::Pci(card) => card.mtu(),
        }
    }

    fn mac(&self) -> Mac {
        match self {
            Self::Interface(card) => card.mac(),
            Self::Xdp(card) => card.mac(),
            Self::Memif(card) => card.mac(),
            Self::Pci(card) => card.mac(),
        }
    }

    fn link(&self) -> LinkState {
        match self {
            Self::Interface(card) => card.link(),
            Self::Xdp(card) => card.link(),
            Self::Memif(card) => card.link(),
            Self::Pci(card) => card.link(),
        }
    }
}
