//! How the shared memory of the cores is divided.

use aldis_drivers::shm::Geometry;

/// Cores of the device, each a rank.
pub(crate) const PEERS: usize = 4;

/// The division of every inbox.
pub(crate) const GEOMETRY: Geometry = Geometry { peers: PEERS as u32, slots: 8, blocks: 2, block_bytes: 512 };

/// Bytes of one inbox.
pub(crate) const INBOX_BYTES: usize = GEOMETRY.inbox_bytes();

const _: () = assert!(GEOMETRY.check().is_ok() && INBOX_BYTES.is_multiple_of(64));
