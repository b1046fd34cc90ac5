//! The sizes of this firmware.

use aldis_drivers::shm::Geometry;

/// Cores of the device, each a rank.
pub(crate) const PEERS: usize = 4;

/// Bytes of the largest eager message; a longer one goes by rendezvous.
pub(crate) const EAGER_BYTES_MAX: usize = 256;

/// Bytes of the largest message of all.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024;

/// The division of every inbox. A block holds the largest eager message and its header.
pub(crate) const GEOMETRY: Geometry =
    Geometry { peers: PEERS as u32, slots: 8, lanes: 3, blocks: 2, block_bytes: 320, sets: 0 };

/// Bytes of one inbox.
pub(crate) const INBOX_BYTES: usize = GEOMETRY.inbox_bytes();

/// Entries of a core's table of lanes.
pub(crate) const LANES_LEN: usize = GEOMETRY.lane_entries();

const _: () = assert!(GEOMETRY.check().is_ok() && INBOX_BYTES.is_multiple_of(64));
