//! PCI devices as the system describes them.

use std::path::{Path, PathBuf};

use aldis_drivers::{e1000e, virtio};
use aldis_sys::file::{names_in, read_link, read_to_string};

use super::error::PciError;
use crate::pci_address::PciAddress;

/// The folder of all PCI devices.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";

/// The class of network cards: the first of three bytes.
const NETWORK: u32 = 0x02;
/// The driver that hands devices to processes.
const HANDS_OVER: &str = "vfio-pci";
/// The name of a group of a device that no IOMMU is in front of.
const NO_IOMMU: &str = "vfio-noiommu";

/// The driver of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PciModel {
    /// Of Intel's gigabit controllers.
    E1000e,
    /// Of virtio network devices.
    Virtio,
}

/// A PCI device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCard {
    /// Its address.
    pub address: PciAddress,
    /// Vendor and number.
    pub numbers: [u16; 2],
    /// The driver of the system that has it.
    pub driver: Option<String>,
    /// The interface that this driver has made.
    pub interface: Option<String>,
    /// The group of devices that an IOMMU cannot tell apart.
    pub(super) group: Option<PciGroup>,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PciGroup {
    pub(super) number: String,
    /// False if no IOMMU is in front of it.
    pub(super) has_iommu: bool,
}

impl PciGroup {
    /// The file by which a process has the group.
    pub(super) fn path(&self) -> String {
        let kind = if self.has_iommu { "" } else { "noiommu-" };
        format!("/dev/vfio/{kind}{}", self.number)
    }
}

impl FoundCard {
    /// The device at an address, below this folder of devices.
    ///
    /// # Errors
    /// [`PciError::NoDevice`].
    pub(super) fn at(devices: &Path, address: PciAddress) -> Result<Self, PciError> {
        let card = Self::read(devices, address);
        card.ok_or_else(|| PciError::NoDevice {
            others: network_cards(devices).iter().map(|card| card.address.to_string()).collect(),
        })
    }

    fn read(devices: &Path, address: PciAddress) -> Option<Self> {
        let folder = devices.join(address.to_string());
        let number = |name| hex(&folder.join(name));
        let numbers = [number("vendor")? as u16, number("device")? as u16];
        let group = linked(folder.join("iommu_group")).map(|number| {
            let name = read_to_string(folder.join("iommu_group/name")).unwrap_or_default();
            PciGroup { number, has_iommu: name.trim_end() != NO_IOMMU }
        });
        let (driver, interface) = (linked(folder.join("driver")), interface_of(&folder));
        Some(Self { address, numbers, driver, interface, group })
    }

    /// The driver for the card and its group, if a process can have it.
    ///
    /// # Errors
    /// [`PciError::Unsupported`]; [`PciError::NotHandedOver`] if a driver of the system has it, or
    /// none.
    pub(super) fn judge(&self) -> Result<(PciModel, &PciGroup), PciError> {
        let model = self.model().ok_or(PciError::Unsupported { numbers: self.numbers })?;
        match (&self.driver, &self.group) {
            (Some(driver), Some(group)) if driver == HANDS_OVER => Ok((model, group)),
            (driver, group) => Err(PciError::NotHandedOver {
                driver: driver.clone(),
                interface: self.interface.clone(),
                has_iommu: group.as_ref().is_some_and(|group| group.has_iommu),
            }),
        }
    }

    fn model(&self) -> Option<PciModel> {
        if e1000e::DEVICES.iter().any(|(numbers, _)| *numbers == self.numbers) {
            return Some(PciModel::E1000e);
        }
        virtio::DEVICES.contains(&self.numbers).then_some(PciModel::Virtio)
    }

    /// The other devices of its group that drivers of the system have.
    pub(super) fn neighbours(&self, devices: &Path) -> Vec<String> {
        let group = devices.join(self.address.to_string()).join("iommu_group/devices");
        let others = names_in(group).unwrap_or_default().into_iter();
        let of_system = |name: &String| {
            linked(devices.join(name).join("driver")).is_some_and(|driver| driver != HANDS_OVER)
        };
        others.filter(|name| *name != self.address.to_string()).filter(of_system).collect()
    }
}

/// The network cards below this folder of devices.
pub(super) fn network_cards(devices: &Path) -> Vec<FoundCard> {
    let addresses = names_in(devices).unwrap_or_default();
    let is_network =
        |name: &String| hex(&devices.join(name).join("class")).is_some_and(|class| class >> 16 == NETWORK);
    let cards = addresses.into_iter().filter(is_network);
    cards.filter_map(|name| FoundCard::read(devices, name.parse().ok()?)).collect()
}

/// The interface that the driver of a device has made: below it, or below a virtio device that is
/// below it.
fn interface_of(folder: &Path) -> Option<String> {
    let below = names_in(folder).unwrap_or_default().into_iter().filter(|name| name.starts_with("virtio"));
    let places = core::iter::once(folder.to_owned()).chain(below.map(|name| folder.join(name)));
    places.into_iter().find_map(|place| names_in(place.join("net")).ok()?.into_iter().next())
}

/// The last part of what a link leads to.
fn linked(path: PathBuf) -> Option<String> {
    let target = read_link(path).ok()?;
    target.file_name()?.to_str().map(Into::into)
}

/// The number in a file, such as `0x8086`.
fn hex(path: &Path) -> Option<u32> {
    let text = read_to_string(path).ok()?;
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}
