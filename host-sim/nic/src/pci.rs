//! `PciNic`: a network card on PCI that the system hands to this process (VFIO), with the drivers
//! that run without an operating system too: no call of the system is made for a frame.

mod device;
mod error;
mod found;
mod mapped;
mod memory;

use core::mem::ManuallyDrop;
use std::path::Path;

use aldis_drivers::e1000e::{E1000eRx, E1000eTx, MappedRegisters, OwnRegisters as OwnCardRegisters};
use aldis_drivers::virtio::{OwnRegisters, PciTransport, VirtioRx, VirtioTx};
use aldis_hal::nic::{LinkState, Mac, Nic, Offload, RxFrame, TxFrame};
use aldis_sys::vfio::VfioIommu;

use self::device::{VfioDevice, VfioState};
use self::mapped::{MadeCard, MappedBars, QUEUE};
use crate::choice::CardChoice;
use crate::error::CardError;
use crate::pci_address::PciAddress;

pub use self::error::PciError;
pub use self::found::FoundCard;

/// A card that this process alone has.
///
/// It is polled, and its address on the wire is its own. If the system asks for it, it is given
/// back, for good. The fields are dropped in their order: the driver leaves the device before its
/// registers are unmapped.
#[derive(Debug)]
pub struct PciNic {
    held: Option<HeldCard>,
    found: FoundCard,
    choice: CardChoice,
    iommu: VfioIommu,
    mac: Mac,
    mtu: usize,
    trouble: Option<CardError>,
}

/// A card, as long as it is this process's.
#[derive(Debug)]
struct HeldCard {
    card: MadeCard,
    _bars: MappedBars,
    device: VfioDevice,
}

impl PciNic {
    /// Opens a card.
    ///
    /// # Errors
    /// The causes that [`PciError`] names.
    pub(crate) fn open(choice: &CardChoice) -> Result<Self, CardError> {
        let found = found_by(choice)?;
        let (model, group) = found.judge().map_err(|error| device::of(&found, error))?;
        let device = VfioDevice::open(&found, group)?;
        let bars = MappedBars::of(&device);
        let card = mapped::make(&found, model, &device, &bars)?;
        let (mac, mtu) = match &card {
            MadeCard::E1000e(card) => (card.mac(), card.mtu()),
            MadeCard::Virtio(card) => (card.mac(), card.mtu()),
        };
        let iommu = device.iommu;
        let held = Some(HeldCard { card, _bars: bars, device });
        Ok(Self { held, found, choice: choice.clone(), iommu, mac, mtu, trouble: None })
    }

    /// Looks whether a card could be opened. The card is left alone.
    ///
    /// # Errors
    /// The causes that [`PciError`] names.
    pub fn check(choice: &CardChoice) -> Result<(), CardError> {
        let found = found_by(choice)?;
        let (_, group) = found.judge().map_err(|error| device::of(&found, error))?;
        device::open_group(&found, group).map(drop)
    }

    /// The network cards on PCI of this machine.
    pub fn cards() -> Vec<FoundCard> {
        found::network_cards(Path::new(found::DEVICES))
    }

    /// Takes frames to this address instead of its own.
    ///
    /// # Errors
    /// [`PciError::OwnAddress`] for a card that cannot.
    pub(crate) fn set_mac(&mut self, mac: Mac) -> Result<(), CardError> {
        match self.held.as_mut().map(|held| &mut held.card) {
            Some(MadeCard::E1000e(card)) => card.set_mac(mac),
            Some(MadeCard::Virtio(_)) => return Err(device::of(&self.found, PciError::OwnAddress)),
            None => {}
        }
        self.mac = mac;
        Ok(())
    }

    /// Looks at the card: whether it is there. One that the system asks for is given back.
    pub(crate) fn probe(&mut self) -> Option<&CardError> {
        let state = self.held.as_ref().map(|held| held.device.look());
        let error = match state {
            None | Some(VfioState::There) => return self.trouble.as_ref(),
            Some(VfioState::Requested) => PciError::Withdrawn,
            Some(VfioState::Gone) => PciError::Gone,
        };
        self.give_up();
        self.trouble = Some(device::of(&self.found, error));
        self.trouble.as_ref()
    }

    pub(crate) const fn trouble(&self) -> Option<&CardError> {
        self.trouble.as_ref()
    }

    pub(crate) const fn choice(&self) -> &CardChoice {
        &self.choice
    }

    /// The way by which frames come.
    pub(crate) const fn manner(&self) -> &'static str {
        match self.iommu {
            VfioIommu::Type1 => "VFIO behind an IOMMU, polled",
            VfioIommu::None => "VFIO without an IOMMU, polled",
        }
    }

    /// Gives the card up. A driver resets its device, and waits until that is done: one that does
    /// not answer is left as it is.
    fn give_up(&mut self) {
        let Some(held) = self.held.take() else { return };
        if held.device.look() == VfioState::Gone {
            let _left = ManuallyDrop::new(held.card);
        }
    }
}

impl Drop for PciNic {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The card of a choice.
fn found_by(choice: &CardChoice) -> Result<FoundCard, CardError> {
    let address = choice.interface.parse::<PciAddress>();
    // The text was read before.
    let address = address.map_err(|_| CardError::NoInterface {
        interface: choice.interface.clone(),
        others: PciNic::cards().iter().map(|card| card.address.to_string()).collect(),
    })?;
    let error = |error| CardError::Pci { address, error };
    FoundCard::at(Path::new(found::DEVICES), address).map_err(error)
}

/// A received frame, in the memory where the device has put it.
#[derive(Debug)]
pub enum PciRx<'a> {
    /// Of one of Intel's.
    E1000e(E1000eRx<'a, OwnCardRegisters<MappedRegisters>, QUEUE>),
    /// Of a virtio device.
    Virtio(VirtioRx<'a, OwnRegisters<PciTransport>, QUEUE>),
}

impl RxFrame for PciRx<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::E1000e(frame) => frame.bytes(),
            Self::Virtio(frame) => frame.bytes(),
        }
    }

    fn checked(&self) -> Offload {
        match self {
            Self::E1000e(frame) => frame.checked(),
            Self::Virtio(frame) => frame.checked(),
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub enum PciTx<'a> {
    /// By one of Intel's.
    E1000e(E1000eTx<'a, OwnCardRegisters<MappedRegisters>, QUEUE>),
    /// By a virtio device.
    Virtio(VirtioTx<'a, OwnRegisters<PciTransport>, QUEUE>),
}

impl TxFrame for PciTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::E1000e(frame) => frame.bytes(),
            Self::Virtio(frame) => frame.bytes(),
        }
    }

    fn send(self) {
        match self {
            Self::E1000e(frame) => frame.send(),
            Self::Virtio(frame) => frame.send(),
        }
    }
}

impl Nic for PciNic {
    type Rx<'a> = PciRx<'a>;
    type Tx<'a> = PciTx<'a>;

    fn receive(&mut self) -> Option<PciRx<'_>> {
        match &mut self.held.as_mut()?.card {
            MadeCard::E1000e(card) => card.receive().map(PciRx::E1000e),
            MadeCard::Virtio(card) => card.receive().map(PciRx::Virtio),
        }
    }

    fn transmit(&mut self, len: usize) -> Option<PciTx<'_>> {
        match &mut self.held.as_mut()?.card {
            MadeCard::E1000e(card) => card.transmit(len).map(PciTx::E1000e),
            MadeCard::Virtio(card) => card.transmit(len).map(PciTx::Virtio),
        }
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> LinkState {
        match self.held.as_ref().map(|held| &held.card) {
            Some(MadeCard::E1000e(card)) => card.link(),
            Some(MadeCard::Virtio(card)) => card.link(),
            None => LinkState::Down,
        }
    }
}

#[cfg(test)]
mod tests;
