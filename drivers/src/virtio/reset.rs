//! The reset of a device whose driver is dropped, which ends however the device behaves.

use core::mem::ManuallyDrop;

use virtio_drivers::transport::{DeviceStatus, Transport};

/// Looks at the status of a device before it is given up: a second or less where a look takes ten
/// microseconds.
const LOOKS: u32 = 100_000;

/// A transport whose device is reset when it is dropped. That of PCI waits in its own drop until
/// the device says that it was, and so for ever for one that is gone, whose registers read as all
/// ones: the transport of a device that does not reset is not dropped.
pub(super) struct ResetTransport<T: Transport>(
    /// `None` only while it is dropped.
    Option<T>,
);

impl<T: Transport> ResetTransport<T> {
    pub(super) const fn new(transport: T) -> Self {
        Self(Some(transport))
    }

    #[inline]
    pub(super) const fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    #[inline]
    pub(super) const fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }
}

impl<T: Transport> Drop for ResetTransport<T> {
    fn drop(&mut self) {
        let Some(mut transport) = self.0.take() else { return };
        // A reset ends every access of the device to memory.
        if !reset(&mut transport) {
            let _given_up = ManuallyDrop::new(transport);
        }
    }
}

/// Resets a device. Returns false for one that is gone, or does not say in time that it was reset.
fn reset(transport: &mut impl Transport) -> bool {
    transport.set_status(DeviceStatus::empty());
    for _ in 0..LOOKS {
        let status = transport.get_status();
        if status.is_empty() {
            return true;
        }
        if status.contains(DeviceStatus::all()) {
            return false;
        }
        core::hint::spin_loop();
    }
    false
}
