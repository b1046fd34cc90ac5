//! The agreement of device and driver on features, and what the device's configuration says.

use aldis_hal::Cause;
use aldis_hal::nic::{MAC_HEADER_BYTES, Mac};
use bitflags::bitflags;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::FRAME_BYTES_MAX;
use super::arena;

bitflags! {
    /// Features of the device (VIRTIO 1.2, 5.1.3 and 6) that this driver knows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct Features: u64 {
        /// The device computes checksums of frames that are sent.
        const CHECKSUM = 1 << 0;
        /// The device may say of received frames that their checksums are right.
        const GUEST_CHECKSUM = 1 << 1;
        /// The device tells its MTU.
        const MTU = 1 << 3;
        /// The device tells its address.
        const MAC = 1 << 5;
        /// The device tells the state of the link.
        const STATUS = 1 << 16;
        /// The device takes commands by a queue of their own.
        const CONTROL_QUEUE = 1 << 17;
        /// The device has several pairs of queues.
        const MULTIQUEUE = 1 << 22;
        /// The device is no legacy device.
        const VERSION_1 = 1 << 32;
        /// The device reaches memory as others on its bus do, by an IOMMU where there is one.
        const ACCESS_PLATFORM = 1 << 33;
        /// The device chooses queues by a hash of addresses, a key and a table.
        const RSS = 1 << 60;
    }
}

impl Features {
    /// The features that a card of one pair of queues asks for.
    pub(super) const PLAIN: Self =
        Self::MTU.union(Self::MAC).union(Self::STATUS).union(Self::VERSION_1).union(Self::ACCESS_PLATFORM);
    /// Checksums either way.
    pub(super) const CHECKSUMS: Self = Self::CHECKSUM.union(Self::GUEST_CHECKSUM);
    /// Several pairs of queues.
    pub(super) const QUEUES: Self = Self::CONTROL_QUEUE.union(Self::MULTIQUEUE);
}

/// The offsets of the fields of the device's configuration (5.1.4), all little-endian.
const MAC_AT: usize = 0;
const STATUS_AT: usize = 6;
const PAIRS_AT: usize = 8;
const MTU_AT: usize = 10;
const KEY_BYTES_AT: usize = 17;
const TABLE_ENTRIES_AT: usize = 18;
const HASH_TYPES_AT: usize = 20;
/// The link is up.
const LINK_UP: u16 = 1;
/// The most pairs that a device may have (5.1.4.1).
const PAIRS_MAX: u16 = 0x8000;
/// The longest key and the table that a device has at least (5.1.4.1).
const KEY_BYTES_MIN: u8 = 40;
const TABLE_ENTRIES_MIN: u16 = 128;

/// The outcome.
pub(super) struct Negotiated {
    pub(super) features: Features,
    pub(super) mac: Mac,
    pub(super) mtu: usize,
}

impl Negotiated {
    /// Returns true if frames have the shorter header.
    pub(super) const fn is_legacy(&self) -> bool {
        !self.features.contains(Features::VERSION_1)
    }
}

/// Resets the device, and agrees on those of the features `wanted` that it offers.
pub(super) fn negotiate<T: Transport>(
    transport: &mut T,
    frame_bytes: usize,
    wanted: Features,
) -> Result<Negotiated, Cause> {
    if transport.device_type() != DeviceType::Network {
        return Err(Cause::Unsupported);
    }
    if frame_bytes > FRAME_BYTES_MAX {
        return Err(Cause::TooBig { len: frame_bytes as u64, max: FRAME_BYTES_MAX as u64 });
    }
    let features = transport.begin_init(wanted);
    let is_modern = features.contains(Features::VERSION_1);
    if is_modern && !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
        return Err(Cause::Device);
    }
    check_addresses(features, arena::is_translated())?;
    if !features.contains(Features::MAC) {
        return Err(Cause::Unsupported);
    }
    let device = |_| Cause::Device;
    let mac = transport.read_consistent(|| transport.read_config_space(MAC_AT)).map_err(device)?;
    let mut mtu = frame_bytes.saturating_sub(MAC_HEADER_BYTES);
    if features.contains(Features::MTU) {
        let told: u16 = transport.read_config_space(MTU_AT).map_err(device)?;
        mtu = mtu.min(usize::from(u16::from_le(told)));
    }
    Ok(Negotiated { features, mac: Mac(mac), mtu })
}

/// Returns an error for a device that takes addresses of an IOMMU for those of the bus (VIRTIO 1.2,
/// 6.3).
fn check_addresses(features: Features, is_translated: bool) -> Result<(), Cause> {
    if is_translated && !features.contains(Features::ACCESS_PLATFORM) {
        return Err(Cause::Incompatible);
    }
    Ok(())
}

/// Returns true if the device says that its link is up.
pub(super) fn is_link_up<T: Transport>(transport: &T) -> bool {
    transport.read_config_space::<u16>(STATUS_AT).is_ok_and(|status| u16::from_le(status) & LINK_UP != 0)
}

/// The pairs of queues that the device has; one, if it does not tell.
///
/// # Errors
/// [`Cause::Device`] for a number that cannot be, or without the queue by which pairs are taken
/// into use.
pub(super) fn pairs<T: Transport>(transport: &T, features: Features) -> Result<u16, Cause> {
    if !features.intersects(Features::MULTIQUEUE | Features::RSS) {
        return Ok(1);
    }
    let told = transport.read_config_space(PAIRS_AT).map_err(|_| Cause::Device)?;
    let pairs = u16::from_le(told);
    let can_be = (1..=PAIRS_MAX).contains(&pairs) && features.contains(Features::CONTROL_QUEUE);
    if can_be { Ok(pairs) } else { Err(Cause::Device) }
}

/// Returns true if the device chooses queues by this kind of hash.
///
/// # Errors
/// [`Cause::Device`] if its key or its table is shorter than any device's.
pub(super) fn hashes<T: Transport>(transport: &T, features: Features, hash_type: u32) -> Result<bool, Cause> {
    if !features.contains(Features::RSS) {
        return Ok(false);
    }
    let device = |_| Cause::Device;
    let key_bytes: u8 = transport.read_config_space(KEY_BYTES_AT).map_err(device)?;
    let entries: u16 = transport.read_config_space(TABLE_ENTRIES_AT).map_err(device)?;
    let types: u32 = transport.read_config_space(HASH_TYPES_AT).map_err(device)?;
    if key_bytes < KEY_BYTES_MIN || u16::from_le(entries) < TABLE_ENTRIES_MIN {
        return Err(Cause::Device);
    }
    Ok(u32::from_le(types) & hash_type != 0)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_goes_past_the_iommu_is_refused_behind_one() {
        let modern = Features::VERSION_1 | Features::MAC;
        assert_eq!(check_addresses(modern, true), Err(Cause::Incompatible));
        assert_eq!(check_addresses(modern, false), Ok(()));
        assert_eq!(check_addresses(modern | Features::ACCESS_PLATFORM, true), Ok(()));
    }
}
