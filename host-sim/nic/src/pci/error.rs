//! The reasons why a PCI card cannot be used, each with what a user can do.

use core::fmt;

use aldis_drivers::e1000e;
use aldis_hal::Cause;

/// The reason why a PCI card cannot be used, or can no more. [`CardError`](crate::CardError) names
/// the card.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PciError {
    /// Nothing is at the address.
    NoDevice {
        /// The network cards that there are.
        others: Vec<String>,
    },
    /// The device is one that no driver is here for.
    Unsupported {
        /// Vendor and number.
        numbers: [u16; 2],
    },
    /// A driver of the system has the card, or none has.
    NotHandedOver {
        /// The driver.
        driver: Option<String>,
        /// The interface that it has made.
        interface: Option<String>,
        /// True if the machine has an IOMMU.
        has_iommu: bool,
    },
    /// The system has no VFIO.
    NoVfio {
        /// True if the machine has an IOMMU.
        has_iommu: bool,
    },
    /// The system speaks another version of VFIO.
    Version {
        /// The version.
        version: i32,
    },
    /// The process may not open a file of VFIO.
    NoPermission {
        /// The file.
        path: String,
        /// True if the card is behind an IOMMU.
        has_iommu: bool,
    },
    /// Other devices of the same group are the system's.
    NotViable {
        /// Those devices.
        others: Vec<String>,
    },
    /// Another process has the card or its group.
    InUse,
    /// The IOMMU is of a type that is not known here.
    NoType1,
    /// The IOMMU does not keep the card from interrupts that are not its own.
    NoInterruptRemapping,
    /// The process may lock no more memory.
    LockedMemory {
        /// The bytes that it needs.
        bytes: usize,
    },
    /// There is no huge page, which a card without an IOMMU takes.
    NoHugePage,
    /// The process may not know where its memory is, which a card without an IOMMU takes.
    NoPhysicalAddress,
    /// The card's registers cannot be mapped.
    NoRegisters,
    /// The card takes addresses of the IOMMU for those of the bus.
    PastIommu,
    /// The memory of the process's cards is another's, behind an IOMMU or not.
    OtherMemory,
    /// The card has an address of its own, and cannot take another.
    OwnAddress,
    /// The card does not do as its driver wants.
    Refused(Cause),
    /// The system has asked for the card back.
    Withdrawn,
    /// The card does not answer any more.
    Gone,
}

impl PciError {
    /// Returns true if the card will not come back.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Withdrawn | Self::Gone)
    }

    /// Writes the reason, of the card at this address.
    pub(crate) fn tell(&self, address: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice { others } if others.is_empty() => {
                write!(f, "no PCI device is at {address}, and no network card on PCI is here")
            }
            Self::NoDevice { others } => {
                write!(f, "no PCI device is at {address}; network cards are {}", others.join(", "))
            }
            Self::Unsupported { numbers } => unsupported(address, *numbers, f),
            Self::NotHandedOver { .. } | Self::NoVfio { .. } => self.tell_hand_over(address, f),
            Self::Version { version } => {
                write!(f, "{address}: this system speaks version {version} of VFIO, and not 0")
            }
            Self::NoPermission { path, has_iommu: true } => write!(
                f,
                "no permission for {address}: {path} is another user's; give it to the user \
                 (sudo chown $USER {path}), or run as root"
            ),
            Self::NoPermission { path, has_iommu: false } => write!(
                f,
                "no permission for {address}: {path}; a card that no IOMMU keeps from the memory of others takes \
                 CAP_SYS_RAWIO and CAP_SYS_ADMIN: run as root"
            ),
            Self::NotViable { others } => write!(
                f,
                "{address} shares its IOMMU group with {}, which the system's drivers have: hand them to vfio-pci \
                 too, or unbind them",
                others.join(", ")
            ),
            Self::InUse => {
                write!(
                    f,
                    "another process has {address}, or a card of its IOMMU group; each rank needs a card of its own"
                )
            }
            Self::NoType1 => write!(f, "the IOMMU of {address} is not of type 1: modprobe vfio_iommu_type1"),
            Self::NoInterruptRemapping => write!(
                f,
                "the system does not hand over {address}, since its IOMMU does not remap interrupts: turn that on in \
                 the firmware, or trust the card: echo Y > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
            ),
            Self::LockedMemory { bytes } => write!(
                f,
                "the process may not lock {} KiB of memory for {address}; raise the limit (ulimit -l)",
                bytes.div_ceil(1024)
            ),
            Self::NoHugePage => write!(
                f,
                "no huge page for {address}, which has no IOMMU: \
                 echo 8 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
            ),
            Self::NoPhysicalAddress => write!(
                f,
                "the process may not know where its memory is, which {address} takes without an IOMMU: \
                 CAP_SYS_ADMIN is missing; run as root"
            ),
            Self::NoRegisters => write!(f, "{address}: the registers cannot be mapped"),
            Self::PastIommu => write!(
                f,
                "{address} goes past the IOMMU: it does not offer VIRTIO_F_ACCESS_PLATFORM \
                 (QEMU: iommu_platform=on)"
            ),
            Self::OtherMemory => {
                write!(
                    f,
                    "{address}: of two virtio cards of a process either both are behind an IOMMU, or none"
                )
            }
            Self::OwnAddress => {
                write!(f, "{address} has an address of its own: name it as the first of two cards")
            }
            Self::Refused(cause) => write!(f, "{address} does not do as its driver wants: {cause}"),
            Self::Withdrawn => write!(
                f,
                "the system has asked for {address} back: vfio-pci was unbound from it, or it is being removed"
            ),
            Self::Gone => write!(f, "{address} does not answer any more"),
        }
    }

    /// Writes how a card is handed to a process.
    fn tell_hand_over(&self, address: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (has_iommu, unbind) = match self {
            Self::NotHandedOver { driver: Some(driver), interface, has_iommu } => {
                write!(f, "the system's driver {driver} has {address}")?;
                interface.as_ref().map_or(Ok(()), |interface| write!(f, " ({interface})"))?;
                (has_iommu, true)
            }
            Self::NotHandedOver { has_iommu, .. } => {
                write!(f, "no driver has {address}")?;
                (has_iommu, false)
            }
            Self::NoVfio { has_iommu } => {
                write!(f, "{address}: there is no {}", aldis_sys::vfio::CONTAINER)?;
                (has_iommu, false)
            }
            _ => return Ok(()),
        };
        f.write_str("; hand it to vfio-pci, as root: modprobe vfio-pci; ")?;
        if !has_iommu {
            f.write_str("echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode; ")?;
        }
        write!(f, "echo vfio-pci > /sys/bus/pci/devices/{address}/driver_override; ")?;
        if unbind {
            write!(f, "echo {address} > /sys/bus/pci/devices/{address}/driver/unbind; ")?;
        }
        write!(f, "echo {address} > /sys/bus/pci/drivers_probe")?;
        if *has_iommu {
            return Ok(());
        }
        f.write_str(" (there is no IOMMU: the card can then write to all memory)")
    }
}

/// Writes which devices there are drivers for.
fn unsupported(address: &str, [vendor, device]: [u16; 2], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{address} is {vendor:04x}:{device:04x}, for which there is no driver here; there are drivers for "
    )?;
    for ([vendor, device], name) in e1000e::DEVICES {
        write!(f, "{vendor:04x}:{device:04x} ({name}), ")?;
    }
    let [modern, transitional] =
        aldis_drivers::virtio::DEVICES.map(|[vendor, device]| format!("{vendor:04x}:{device:04x}"));
    write!(f, "{modern} and {transitional} (virtio-net)")
}
