//! Under construction.

/// Peers.
pub const MAX_RANKS: u32 = 64;
