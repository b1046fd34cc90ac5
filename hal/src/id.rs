//! Identities: small, `Copy`, and checked by generation wherever they cross the wire.

use core::fmt;

/// A process of the job, by its dense index in `0..size`: the rank in the world communicator.
/// Kernel and transports share this numbering, so no translation stands between them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PeerId(pub u32);

impl PeerId {
    /// The index into a table with one entry a peer.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// A boot id: drawn from entropy when a process starts, so that messages of an earlier life of the
/// same rank are recognised and discarded. Never zero for a running process; zero means "unknown".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Epoch(pub u32);

impl Epoch {
    /// An epoch from raw entropy; the one forbidden value, zero, becomes one.
    pub const fn from_entropy(entropy: u64) -> Self {
        let folded = (entropy ^ (entropy >> 32)) as u32;
        Self(if folded == 0 { 1 } else { folded })
    }
}

/// A slot of a static table together with the generation that slot had when the handle was made. A
/// handle whose generation no longer fits is stale: it names something that has been freed. This is
/// the only kind of reference that ever stands on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Handle {
    /// Index of the slot in its table.
    pub slot: u32,
    /// The slot's generation; odd while the slot is in use, so that an all-zero handle is never
    /// live.
    pub generation: u32,
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// The token by which a queued post is completed: the kernel's own request handle, opaque to the
/// transport.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Token(pub Handle);

/// A registered memory region of one transport, checked by generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegionId(pub Handle);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_never_zero() {
        assert_eq!(Epoch::from_entropy(0), Epoch(1));
        assert_eq!(Epoch::from_entropy(0x5_0000_0005), Epoch(1), "halves that cancel out");
        assert_eq!(Epoch::from_entropy(7), Epoch(7));
    }
}
