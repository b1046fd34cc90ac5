//! The structures of `aldis.h`.

use core::ffi::c_void;
use core::time::Duration;

use aldis_drivers::ethernet::{Framing, Udp};
use aldis_drivers::serial;
use aldis_hal::Cost;
use aldis_kernel::StorageSizes;
use aldis_protocols::reliable::LinkConfig;

/// The cost of messages by a network card.
const COST: Cost = Cost { overhead_ns: 5_000, latency_ns: 30_000, per_kib_ns: 2_000 };

/// `aldis_card`: a network card by callbacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CardCallbacks {
    /// Handed to each call.
    pub context: *mut c_void,
    /// The card's address.
    pub mac: [u8; 6],
    /// Bytes of the largest frame without addresses and type.
    pub mtu: u16,
    /// The next frame and its length.
    pub receive: Option<unsafe extern "C" fn(context: *mut c_void, len: *mut usize) -> *const u8>,
    /// Ends the use of that frame.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Memory for a frame to send.
    pub reserve: Option<unsafe extern "C" fn(context: *mut c_void, len: usize) -> *mut u8>,
    /// Sends it.
    pub commit: Option<unsafe extern "C" fn(context: *mut c_void, len: usize)>,
}

/// `aldis_serial`: a serial line by callbacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SerialCallbacks {
    /// Handed to each call.
    pub context: *mut c_void,
    /// Takes what has come, up to so many bytes, and returns how many.
    pub read: Option<unsafe extern "C" fn(context: *mut c_void, bytes: *mut u8, room: usize) -> usize>,
    /// Gives what fits of so many bytes, and returns how many.
    pub write: Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, count: usize) -> usize>,
}

/// `aldis_platform`: the machine by callbacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PlatformCallbacks {
    /// Handed to each call.
    pub context: *mut c_void,
    /// Monotonic time, ns.
    pub now_ns: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// A number that differs between boots.
    pub entropy: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Rests after so many polls in a row that found nothing.
    pub relax: Option<unsafe extern "C" fn(context: *mut c_void, idle: u32)>,
}

/// The flag of `aldis_config` for UDP.
pub const UDP: u32 = 1;
/// The flag of `aldis_config` for a wire on which a frame takes a tenth of a second.
pub const SLOW: u32 = 2;

/// `aldis_config`: a rank and the sizes of its tables; zero is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RankConfig {
    /// The job's key in discovery and handshakes.
    pub job: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// [`UDP`] and [`SLOW`], or none.
    pub flags: u32,
    /// Frames in flight each way with a peer.
    pub window: u32,
    /// Bytes of the largest message in a frame.
    pub message_bytes: u32,
    /// Sends and receives under way at a time.
    pub requests: u32,
    /// Unmatched messages of each peer.
    pub envelopes: u32,
    /// Eager payloads above 24 bytes among them.
    pub blocks: u32,
    /// Bytes of the largest eager message.
    pub block_bytes: u32,
    /// Time in which all ranks must be found, ns.
    pub join_timeout_ns: u64,
    /// 16 bytes by which frames are authenticated, or null.
    pub key: *const u8,
}

/// The value, or what stands for zero.
const fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

impl RankConfig {
    /// A job of `size` ranks with every table by default.
    pub const fn new(job: u64, rank: u32, size: u32) -> Self {
        Self {
            job,
            rank,
            size,
            flags: 0,
            window: 0,
            message_bytes: 0,
            requests: 0,
            envelopes: 0,
            blocks: 0,
            block_bytes: 0,
            join_timeout_ns: 0,
            key: core::ptr::null(),
        }
    }

    /// The configuration with its defaults filled in, if there can be such a rank.
    pub(crate) fn filled(&self) -> Option<Self> {
        let &Self { rank, size, flags, .. } = self;
        let filled = Self {
            window: or(self.window, 32),
            message_bytes: or(self.message_bytes, 1416),
            requests: or(self.requests, 32),
            envelopes: or(self.envelopes, 16),
            blocks: or(self.blocks, 4),
            block_bytes: or(self.block_bytes, 1024),
            join_timeout_ns: if self.join_timeout_ns == 0 { 60_000_000_000 } else { self.join_timeout_ns },
            ..*self
        };
        (rank < size && flags & !(UDP | SLOW) == 0).then_some(filled)
    }

    /// The framing that the flags ask for.
    pub(crate) const fn framing(&self) -> Framing {
        if self.flags & UDP == 0 { Framing::Ethernet } else { Framing::Udp(Udp::of_rank(self.rank)) }
    }

    /// The cost of messages, by which protocols are selected, and how soon a frame is missed.
    pub(crate) const fn pace(&self) -> (Cost, LinkConfig) {
        if self.flags & SLOW == 0 { (COST, LinkConfig::DEFAULT) } else { (serial::COST, serial::LINK) }
    }

    /// The kernel's tables.
    pub(crate) const fn storage(&self) -> StorageSizes {
        StorageSizes {
            peers: self.size as usize,
            requests: self.requests as usize,
            communicators: 2,
            envelopes: self.envelopes as usize,
            blocks: self.blocks as usize,
            block_bytes: self.block_bytes as usize,
            pooled: 0,
            bins: 64,
            pieces: 0,
        }
    }
}

/// The duration of a time-out, [`u64::MAX`] for ever.
pub(crate) const fn limit(timeout_ns: u64) -> Duration {
    if timeout_ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(timeout_ns) }
}

/// `aldis_status`: what a receive found.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageStatus {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
    /// Its length.
    pub bytes: u64,
}

/// `aldis_request`: a message under way; all zero is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestHandle {
    /// [`RequestHandle::NONE`], [`RequestHandle::PENDING`] or [`RequestHandle::DONE`].
    pub state: u32,
    /// The slot of a pending one.
    pub slot: u32,
    /// Its generation.
    pub generation: u32,
    /// The source of one that was over at once.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
    /// Zero.
    pub reserved: u32,
    /// Its bytes.
    pub bytes: u64,
}

impl RequestHandle {
    /// No request.
    pub const NONE: u32 = 0;
    /// A request in a slot of the kernel's.
    pub const PENDING: u32 = 1;
    /// A request that was over at once.
    pub const DONE: u32 = 2;
}
