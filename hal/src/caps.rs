//! Capabilities of a transport: what it can do, how much of it, and at what price.

use bitflags::bitflags;

bitflags! {
    /// Capabilities of a transport towards one peer.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Features: u32 {
        /// Active messages that are copied into one slot before the post returns.
        const SHORT = 1 << 0;
        /// Reserve, fill, commit: the caller packs straight into the transport's memory.
        const BCOPY = 1 << 1;
        /// Gather lists sent from the user's memory, completed by token.
        const ZCOPY = 1 << 2;
        /// A one-sided write.
        const PUT = 1 << 3;
        /// A one-sided read, of any memory.
        const GET = 1 << 4;
        /// Fetch-and-add on 64-bit words.
        const ATOMIC_ADD = 1 << 5;
        /// Compare-and-swap on 64-bit words.
        const ATOMIC_CAS = 1 << 6;
        /// Messages to one peer arrive in the order of their posts.
        const ORDERED = 1 << 8;
        /// Every message arrives exactly once or the peer is reported lost.
        const RELIABLE = 1 << 9;
        /// A completion means that the data is visible at the target.
        const REMOTE_COMPLETION = 1 << 10;
        /// Some memory of the peer's is mapped here and can be read one-sided, and some of this
        /// side's is mapped there.
        const MAPPABLE = 1 << 11;
        /// `poll` needs a fresh `now` at every call (retransmission or keep-alive timers). Without
        /// it a cached instant is good enough, and the idle loop saves the clock read.
        const TIMED = 1 << 15;
    }
}

defmt_bits!(Features);

/// Largest sizes of each class, in bytes of header and payload together. Zero where the class is
/// missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Limits {
    /// Largest short message.
    pub short_bytes_max: u32,
    /// Largest reserved slot.
    pub bcopy_bytes_max: u32,
    /// Largest gathered message.
    pub zcopy_bytes_max: u64,
    /// Largest one-sided read or write of one post.
    pub direct_bytes_max: u64,
    /// Entries of a gather list.
    pub gather_max: u16,
    /// Regions that can be registered at a time.
    pub regions_max: u16,
    /// Bytes of a packed region key.
    pub key_bytes: u16,
    /// Alignment that one-sided operations need, in bytes.
    pub align: u16,
}

/// The price of a message of n bytes, after LogGP (Alexandrov et al., SPAA 1995): the CPU is busy
/// for `overhead_ns`, the message arrives `latency_ns` later, and every further KiB takes
/// `per_kib_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Cost {
    /// Processor time per message at each side, ns.
    pub overhead_ns: u32,
    /// Wire time of the first byte, ns.
    pub latency_ns: u32,
    /// Time per KiB beyond, ns.
    pub per_kib_ns: u32,
}

impl Cost {
    /// Predicted time of one message of `bytes` bytes from post to delivery, in ns.
    #[inline]
    pub const fn message_ns(&self, bytes: u64) -> u64 {
        let fixed = 2 * self.overhead_ns as u64 + self.latency_ns as u64;
        fixed
            .saturating_add((bytes / 1024).saturating_mul(self.per_kib_ns as u64))
            .saturating_add((bytes % 1024) * self.per_kib_ns as u64 / 1024)
    }
}

/// The properties of a transport towards a peer that protocol selection needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Caps {
    /// The features that it has.
    pub features: Features,
    /// The limits of what it can do.
    pub limits: Limits,
    /// At what price.
    pub cost: Cost,
    /// The price of a one-sided read of that many bytes, with [`Features::GET`].
    pub read_cost: Cost,
    /// The price of a one-sided write until it can be seen there, with [`Features::PUT`].
    pub write_cost: Cost,
    /// The price of a read of memory that is mapped, with [`Features::MAPPABLE`].
    pub mapped_cost: Cost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_grows_with_bytes_and_saturates() {
        let cost = Cost { overhead_ns: 10, latency_ns: 100, per_kib_ns: 1024 };
        assert_eq!(cost.message_ns(0), 120);
        assert_eq!(cost.message_ns(1), 121);
        assert_eq!(cost.message_ns(2048), 120 + 2048);
        assert_eq!(Cost { per_kib_ns: u32::MAX, ..cost }.message_ns(u64::MAX), u64::MAX);
    }
}
