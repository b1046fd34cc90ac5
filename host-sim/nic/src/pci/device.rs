//! A PCI device in the hands of this process, by VFIO.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use aldis_sys::event::eventfd;
use aldis_sys::file::{OpenOptions, open, pread, read};
use aldis_sys::vfio::{
    CONFIGURATION, CONTAINER, VERSION, VfioIommu, VfioRegion, announce_request, api_version, has_iommu,
    is_viable, open_device, region, set_container, set_iommu,
};
use aldis_sys::{Call, Errno, errno_of};

use super::error::PciError;
use super::found::{DEVICES, FoundCard, PciGroup};
use crate::error::CardError;

/// The value that is read where no device answers, of a vendor's number.
const NOTHING: [u8; 2] = [0xFF; 2];

/// The device. Closed, it is reset, and the system has it again. The fields are closed in their
/// order.
#[derive(Debug)]
pub(super) struct VfioDevice {
    file: OwnedFd,
    configuration: VfioRegion,
    /// A counter that the system adds to when it asks for the device.
    request: OwnedFd,
    _group: OwnedFd,
    container: OwnedFd,
    pub(super) iommu: VfioIommu,
}

/// The state of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VfioState {
    There,
    /// The system asks for it.
    Requested,
    /// It does not answer.
    Gone,
}

impl VfioDevice {
    /// Opens the device of a card that is handed to processes.
    ///
    /// # Errors
    /// The causes that [`PciError`] names: no VFIO, no permission, a group that is not viable,
    /// another process that has it.
    pub(super) fn open(card: &FoundCard, group: &PciGroup) -> Result<Self, CardError> {
        let refused = |call| system(card, call);
        let (container, file) = open_group(card, group)?;
        set_container(&file, &container).map_err(refused(Call::Ioctl))?;
        let iommu = if group.has_iommu { VfioIommu::Type1 } else { VfioIommu::None };
        if !has_iommu(&container, iommu).map_err(refused(Call::Ioctl))? {
            return Err(of(card, PciError::NoType1));
        }
        set_iommu(&container, iommu).map_err(|errno| match errno {
            Errno::EPERM if group.has_iommu => of(card, PciError::NoInterruptRemapping),
            errno => refused(Call::Ioctl)(errno),
        })?;
        let name = CString::new(card.address.to_string()).unwrap_or_default();
        let device = open_device(&file, &name).map_err(refused(Call::Ioctl))?;
        let configuration = region(&device, CONFIGURATION).map_err(refused(Call::Ioctl))?;
        let request = eventfd().map_err(refused(Call::Eventfd))?;
        announce_request(&device, &request).map_err(refused(Call::Ioctl))?;
        Ok(Self { file: device, configuration, request, _group: file, container, iommu })
    }

    /// The container, whose devices reach the same memory.
    pub(super) fn container(&self) -> BorrowedFd<'_> {
        self.container.as_fd()
    }

    /// The place of the configuration space in the device's file.
    pub(super) const fn configuration(&self) -> VfioRegion {
        self.configuration
    }

    /// Looks at the device.
    pub(super) fn look(&self) -> VfioState {
        let mut count = [0; size_of::<u64>()];
        if read(&self.request, &mut count).is_ok() {
            return VfioState::Requested;
        }
        let mut vendor = NOTHING;
        match pread(&self.file, &mut vendor, self.configuration.offset) {
            Err(Errno::EINTR) => VfioState::There,
            Ok(_) if vendor != NOTHING => VfioState::There,
            _ => VfioState::Gone,
        }
    }
}

impl AsFd for VfioDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A container, and a group that a process can have.
///
/// # Errors
/// The causes that [`PciError`] names.
pub(super) fn open_group(card: &FoundCard, group: &PciGroup) -> Result<(OwnedFd, OwnedFd), CardError> {
    let refused = |call| system(card, call);
    let container = open_file(card, group, CONTAINER)?;
    let version = api_version(&container).map_err(refused(Call::Ioctl))?;
    if version != VERSION {
        return Err(of(card, PciError::Version { version }));
    }
    let file = open_file(card, group, &group.path())?;
    if is_viable(&file).map_err(refused(Call::Ioctl))? {
        return Ok((container, file));
    }
    let others = card.neighbours(Path::new(DEVICES));
    Err(of(card, PciError::NotViable { others }))
}

fn open_file(card: &FoundCard, group: &PciGroup, path: &str) -> Result<OwnedFd, CardError> {
    let has_iommu = group.has_iommu;
    let opened = open(path, OpenOptions::new().read(true).write(true));
    opened.map(OwnedFd::from).map_err(|error| match errno_of(error) {
        Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => of(card, PciError::NoVfio { has_iommu }),
        Errno::EACCES | Errno::EPERM => of(card, PciError::NoPermission { path: path.into(), has_iommu }),
        Errno::EBUSY => of(card, PciError::InUse),
        errno => system(card, Call::Open)(errno),
    })
}

/// The error of a card.
pub(super) fn of(card: &FoundCard, error: PciError) -> CardError {
    CardError::Pci { address: card.address, error }
}

/// The error of a call that the system refused.
pub(super) fn system(card: &FoundCard, call: Call) -> impl Fn(Errno) -> CardError {
    move |errno| match errno {
        Errno::EBUSY => of(card, PciError::InUse),
        errno => CardError::System { interface: card.address.to_string(), call, errno },
    }
}
