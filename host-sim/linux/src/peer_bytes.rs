//! Bytes that a rank sets aside for another, exactly: what `cargo xtask size` prints and holds.
//!
//! An idle peer is a rank that this one does not talk to. The kernel keeps nothing of it where a
//! storage has fewer rows than the job has ranks ([`peer_rows`](crate::peer_rows)), and a row where
//! it has one for all; a transport keeps what it found out of each at the start. An active peer has
//! a row, and the places for its messages: addresses, of which memory is taken as they are used.

use aldis_drivers::direct::Table;
use aldis_drivers::shm::Lane;
use aldis_kernel::storage::bytes_per_peer;

use crate::{cma, copier, ethernet, storage, tcp};

/// A figure and the words for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerBytes {
    /// The words.
    pub name: &'static str,
    /// Bytes.
    pub bytes: usize,
}

/// The row of a peer in the kernel, without places for messages.
const ROW: usize = bytes_per_peer(0, 0, 0);

/// All figures.
pub const ALL: [PeerBytes; 5] = [
    PeerBytes { name: "Linux: bytes per idle peer, its row where all ranks have one", bytes: ROW },
    PeerBytes {
        name: "Linux: bytes per idle peer, shared memory",
        bytes: size_of::<Lane>()
            + size_of::<Option<Table<'static>>>()
            + cma::BYTES_PER_PEER
            + copier::BYTES_PER_PEER,
    },
    PeerBytes {
        name: "Linux: bytes per idle peer, TCP with one address and link",
        bytes: tcp::BYTES_PER_PEER,
    },
    PeerBytes { name: "Linux: bytes per idle peer, Ethernet", bytes: ethernet::BYTES_PER_PEER },
    PeerBytes {
        name: "Linux: bytes per active peer, its row and places",
        bytes: bytes_per_peer(storage::ENVELOPES, storage::BLOCKS, storage::BLOCK_BYTES),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_idle_costs_a_small_part_of_an_active_one() {
        let [row, shm, tcp, ethernet, active] = ALL.map(|figure| figure.bytes);
        assert!(row + shm.max(tcp).max(ethernet) < active / 100, "{ALL:?}");
    }
}
