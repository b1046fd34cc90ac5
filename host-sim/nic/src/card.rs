//! `CardNic`: the card that a user chooses, of any kind.

use std::os::fd::{AsFd, BorrowedFd};

use aldis_hal::nic::{LinkState, Mac, Nic, Offload, RxFrame, TxFrame};

use crate::choice::{CardChoice, CardKind};
use crate::error::CardError;
use crate::interface::{InterfaceNic, InterfaceRx, InterfaceTx};
use crate::memif::{MemifNic, MemifTx};
use crate::pci::{PciNic, PciRx, PciTx};
use crate::watch::{CardCounters, CardWatch};
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

/// A card of any kind, whose frames are counted and, if the choice says so, captured.
#[derive(Debug)]
pub struct CardNic {
    device: CardDevice,
    watch: CardWatch,
}

/// A card of any kind.
#[derive(Debug)]
enum CardDevice {
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
    /// permission, a TAP, a queue, a memif or a device that another process has; a file for
    /// captured frames that cannot be written.
    pub fn open(choice: &CardChoice, mac: Mac, kind: FrameKind) -> Result<Self, CardError> {
        let watch = CardWatch::open(choice)?;
        let device = match choice.kind {
            CardKind::Packet | CardKind::Tap => {
                CardDevice::Interface(InterfaceNic::open(choice, mac, Some(kind.ethertype()))?)
            }
            CardKind::Xdp => CardDevice::Xdp(Box::new(XdpNic::open(choice, mac, kind)?)),
            CardKind::Memif => CardDevice::Memif(MemifNic::open(choice, mac)?),
            CardKind::Pci => CardDevice::Pci(Box::new(PciNic::open(choice)?)),
        };
        Ok(Self { device, watch })
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &CardCounters {
        &self.watch.counters
    }

    /// Writes out what was captured: the file holds all frames so far.
    pub fn write_capture(&self) {
        self.watch.rest();
    }

    /// The reason why frames are captured no more, if the file takes no more.
    pub fn capture_failure(&self) -> Option<CardError> {
        self.watch.failure()
    }

    /// Notes that other ranks of this machine are on the same interface, where there is one.
    ///
    /// # Errors
    /// [`CardError::System`].
    pub fn share(&mut self) -> Result<(), CardError> {
        match &mut self.device {
            CardDevice::Interface(card) => card.share(),
            // A queue or a device has one rank, and an interface one program.
            CardDevice::Xdp(_) | CardDevice::Memif(_) | CardDevice::Pci(_) => Ok(()),
        }
    }

    /// Has the card take frames to this address, of one that has opened with another.
    ///
    /// # Errors
    /// [`CardError::Pci`] for one that cannot.
    pub(crate) fn set_mac(&mut self, mac: Mac) -> Result<(), CardError> {
        match &mut self.device {
            CardDevice::Pci(card) if card.mac() != mac => card.set_mac(mac),
            _ => Ok(()),
        }
    }

    /// Looks at the card: whether frames pass, and if not, why. One that has been made anew is
    /// taken up again.
    pub fn probe(&mut self) -> Option<&CardError> {
        match &mut self.device {
            CardDevice::Interface(card) => card.probe(),
            CardDevice::Xdp(card) => card.probe(),
            CardDevice::Memif(card) => card.probe(),
            CardDevice::Pci(card) => card.probe(),
        }
    }

    /// The trouble that was found last.
    pub const fn trouble(&self) -> Option<&CardError> {
        match &self.device {
            CardDevice::Interface(card) => card.trouble(),
            CardDevice::Xdp(card) => card.trouble(),
            CardDevice::Memif(card) => card.trouble(),
            CardDevice::Pci(card) => card.trouble(),
        }
    }

    /// The choice by which it was opened.
    pub const fn choice(&self) -> &CardChoice {
        match &self.device {
            CardDevice::Interface(card) => card.choice(),
            CardDevice::Xdp(card) => card.choice(),
            CardDevice::Memif(card) => card.choice(),
            CardDevice::Pci(card) => card.choice(),
        }
    }

    /// The number of its interface, if it is one of this machine's.
    pub const fn index(&self) -> Option<u32> {
        match &self.device {
            CardDevice::Interface(card) => Some(card.index()),
            CardDevice::Xdp(card) => Some(card.index()),
            CardDevice::Memif(_) | CardDevice::Pci(_) => None,
        }
    }

    /// The way by which its frames come, of one that has several.
    pub const fn manner(&self) -> Option<&'static str> {
        match &self.device {
            CardDevice::Xdp(card) => Some(card.manner()),
            CardDevice::Pci(card) => Some(card.manner()),
            CardDevice::Interface(_) | CardDevice::Memif(_) => None,
        }
    }

    /// A file that can be read when a frame has come, if the card has one: it is polled otherwise.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match &self.device {
            CardDevice::Interface(card) => Some(card.as_fd()),
            CardDevice::Xdp(card) => Some(card.as_fd()),
            CardDevice::Memif(_) | CardDevice::Pci(_) => None,
        }
    }
}

/// A received frame.
#[derive(Debug)]
pub enum CardRx<'a> {
    /// In memory of this process.
    Bytes(&'a [u8]),
    /// Of an interface.
    Interface(InterfaceRx<'a>),
    /// Of a card on PCI.
    Pci(PciRx<'a>),
}

impl RxFrame for CardRx<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(frame) => frame,
            Self::Interface(frame) => frame.bytes(),
            Self::Pci(frame) => frame.bytes(),
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::Bytes(_) => Offload::empty(),
            Self::Interface(frame) => frame.checked(),
            Self::Pci(frame) => frame.checked(),
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct CardTx<'a> {
    frame: DeviceTx<'a>,
    watch: &'a mut CardWatch,
}

/// A frame to be sent.
#[derive(Debug)]
enum DeviceTx<'a> {
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
        self.frame.bytes()
    }

    fn send(mut self) {
        self.watch.sent(self.frame.bytes());
        match self.frame {
            DeviceTx::Interface(frame) => frame.send(),
            DeviceTx::Xdp(frame) => frame.send(),
            DeviceTx::Memif(frame) => frame.send(),
            DeviceTx::Pci(frame) => frame.send(),
        }
    }

    fn send_more(mut self) {
        self.watch.sent(self.frame.bytes());
        match self.frame {
            DeviceTx::Interface(frame) => frame.send_more(),
            DeviceTx::Xdp(frame) => frame.send_more(),
            DeviceTx::Memif(frame) => frame.send_more(),
            DeviceTx::Pci(frame) => frame.send_more(),
        }
    }
}

impl DeviceTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Interface(frame) => frame.bytes(),
            Self::Xdp(frame) => frame.bytes(),
            Self::Memif(frame) => frame.bytes(),
            Self::Pci(frame) => frame.bytes(),
        }
    }
}

impl CardDevice {
    fn receive(&mut self) -> Option<CardRx<'_>> {
        match self {
            Self::Interface(card) => card.receive().map(CardRx::Interface),
            Self::Xdp(card) => card.receive().map(CardRx::Bytes),
            Self::Memif(card) => card.receive().map(CardRx::Bytes),
            Self::Pci(card) => card.receive().map(CardRx::Pci),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<DeviceTx<'_>> {
        match self {
            Self::Interface(card) => card.transmit(len).map(DeviceTx::Interface),
            Self::Xdp(card) => card.transmit(len).map(DeviceTx::Xdp),
            Self::Memif(card) => card.transmit(len).map(DeviceTx::Memif),
            Self::Pci(card) => card.transmit(len).map(DeviceTx::Pci),
        }
    }
}

impl Nic for CardNic {
    type Rx<'a> = CardRx<'a>;
    type Tx<'a> = CardTx<'a>;

    fn receive(&mut self) -> Option<CardRx<'_>> {
        let Self { device, watch } = self;
        let Some(frame) = device.receive() else {
            watch.rest();
            return None;
        };
        watch.received(frame.bytes());
        Some(frame)
    }

    fn transmit(&mut self, len: usize) -> Option<CardTx<'_>> {
        let Self { device, watch } = self;
        let Some(frame) = device.transmit(len) else {
            watch.counters.no_room += 1;
            return None;
        };
        Some(CardTx { frame, watch })
    }

    fn flush(&mut self) {
        match &mut self.device {
            CardDevice::Interface(card) => card.flush(),
            CardDevice::Xdp(card) => card.flush(),
            CardDevice::Memif(card) => card.flush(),
            CardDevice::Pci(card) => card.flush(),
        }
    }

    fn mtu(&self) -> usize {
        match &self.device {
            CardDevice::Interface(card) => card.mtu(),
            CardDevice::Xdp(card) => card.mtu(),
            CardDevice::Memif(card) => card.mtu(),
            CardDevice::Pci(card) => card.mtu(),
        }
    }

    fn mac(&self) -> Mac {
        match &self.device {
            CardDevice::Interface(card) => card.mac(),
            CardDevice::Xdp(card) => card.mac(),
            CardDevice::Memif(card) => card.mac(),
            CardDevice::Pci(card) => card.mac(),
        }
    }

    fn link(&self) -> LinkState {
        match &self.device {
            CardDevice::Interface(card) => card.link(),
            CardDevice::Xdp(card) => card.link(),
            CardDevice::Memif(card) => card.link(),
            CardDevice::Pci(card) => card.link(),
        }
    }
}
