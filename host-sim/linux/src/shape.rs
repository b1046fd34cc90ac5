//! The sizes of the inboxes of a node: many ranks get smaller blocks, so that the whole stays
//! bounded.
//!
//! A rank has a lane for each other rank, up to 32; with more ranks the lanes go to those that
//! talk, and what else comes has an inbox of 64 slots, each as large as a block. So the memory of a
//! node is proportional to its ranks from 34 on. A lane is a ring of 128-byte slots and blocks for
//! what does not fit into a slot:
//!
//! | ranks | slots | blocks | a lane | the node |
//! |---|---|---|---|---|
//! | 1..=8 | 128 | 16 x 32 KiB | 528 KiB | up to 160 MiB |
//! | 9..=16 | 64 | 8 x 32 KiB | 264 KiB | up to 138 MiB |
//! | 17..=32 | 64 | 8 x 16 KiB | 136 KiB | up to 219 MiB |
//! | 33..=64 | 32 | 8 x 8 KiB | 68 KiB | up to 240 MiB |
//! | 65..=128 | 16 | 4 x 3 KiB | 14.4 KiB | up to 141 MiB |
//! | 129..=256 | 8 | 2 x 2 KiB | 5.4 KiB | up to 186 MiB |
//! | 257 and more | 8 | 2 x 2 KiB | 5.4 KiB | 345 KiB a rank |
//!
//! That includes what stands beside the lanes: the sets of control slots, 29 KiB a rank for
//! [`cma`](crate::cma), the memory in which messages are staged, and from 9 ranks on the table in
//! which the records of all ranks' sets stand. Arenas come on top, as the user wants them.

use aldis_drivers::shm::Geometry;

use crate::calibration::WORDS_BYTES;
use crate::segment::{FileShape, LEAST_BYTES, PAGE_BYTES};
use crate::wireup::Shape;

/// Most ranks of a job: those that the driver can tell apart. How many a machine has, its memory
/// and its limits of processes and descriptors decide.
pub const JOB_RANKS_MAX: u32 = Geometry::PEERS_MAX;

/// The sizes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePlan {
    /// Ranks that share memory.
    pub ranks: u32,
    /// The division of every inbox.
    pub shape: Shape,
    /// Bytes of a rank's segment: board, stand, inbox, staging memory and arena.
    pub segment_bytes: usize,
    /// Bytes of the table of all ranks' records, where their segments stand in one file.
    pub record_table_bytes: usize,
}

impl NodePlan {
    /// The plan for so many ranks; `None` for none or more than [`JOB_RANKS_MAX`].
    pub fn of(ranks: u32) -> Option<Self> {
        let (slots, blocks, block_bytes) = match ranks {
            1..=8 => (128, 16, 32 << 10),
            9..=16 => (64, 8, 32 << 10),
            17..=32 => (64, 8, 16 << 10),
            // What the largest job has for all of its memory.
            33..=64 => (32, 8, (8 << 10) - 256),
            65..=128 => (16, 4, 3 << 10),
            129..=JOB_RANKS_MAX => (8, 2, 2 << 10),
            _ => return None,
        };
        let shape = Shape { slots, blocks, block_bytes };
        let geometry = geometry(ranks, shape);
        let inbox = LEAST_BYTES + geometry.inbox_bytes();
        let record_table_bytes = record_table_bytes(&geometry);
        let plan = Self { ranks, shape, segment_bytes: inbox, record_table_bytes };
        Some(plan.with_arena(staging_bytes(ranks)))
    }

    /// The file of all segments.
    pub const fn file(self) -> FileShape {
        let Self { ranks, segment_bytes, record_table_bytes: table_bytes, .. } = self;
        FileShape { ranks, segment_bytes, table_bytes }
    }

    /// This plan with an arena of so many bytes more behind every inbox; whole pages of them.
    #[must_use]
    pub const fn with_arena(self, bytes: usize) -> Self {
        if bytes == 0 {
            return self;
        }
        let end = self.segment_bytes.next_multiple_of(PAGE_BYTES);
        Self { segment_bytes: end.saturating_add(bytes.next_multiple_of(PAGE_BYTES)), ..self }
    }
}

/// Bytes in which a rank of so many stages messages for those that it shares memory with, a part of
/// its arena: more than the second-level caches of two cores hold, where memory allows, and the
/// words by which two of them [measure](crate::calibration) in front.
pub const fn staging_bytes(ranks: u32) -> usize {
    match ranks {
        2..=8 => WORDS_BYTES + (4 << 20),
        9..=16 => WORDS_BYTES + (2 << 20),
        17..=32 => WORDS_BYTES + (1 << 20),
        _ => 0,
    }
}

/// Bytes of the table in which the records of all ranks of a node stand, by which they carry out
/// collectives together; none where ranks are so few that theirs stand on few pages anyway.
pub(crate) const fn record_table_bytes(geometry: &Geometry) -> usize {
    if geometry.peers > FEW_RANKS { geometry.record_table_bytes() } else { 0 }
}

/// Ranks whose records stand in their own inboxes.
const FEW_RANKS: u32 = 8;

/// Sets of control slots: as many communicators, the world among them, have collectives by them. A
/// set takes 83 KiB of each rank and its chunks: 2 MiB of them in each of the first four of a job
/// of up to 8 ranks, else eight blocks, or 64 KiB between two ranks. None for more than 256 ranks,
/// each of which would look at as many others.
const fn sets(ranks: u32) -> u32 {
    match ranks {
        0..=2 => 32,
        3..=8 => 16,
        9..=64 => 8,
        65..=256 => 4,
        _ => 0,
    }
}

/// Returns true if each of so many ranks makes at its start the pages of its own that the world's
/// long collectives and staged messages pass through: it takes a rank 1.5 ms, as to use them does
/// if they are not made before.
pub(crate) const fn makes_own_pages(ranks: u32) -> bool {
    matches!(ranks, 2..=4)
}

/// Returns true if each of so many ranks makes those of the others too: of more than one other that
/// takes too long.
pub(crate) const fn makes_pages_of_others(ranks: u32) -> bool {
    ranks == 2
}

/// The driver's form of a shape.
pub const fn geometry(ranks: u32, shape: Shape) -> Geometry {
    let Shape { slots, blocks, block_bytes } = shape;
    Geometry { peers: ranks, slots, lanes: Geometry::LANES_MAX, blocks, block_bytes, sets: sets(ranks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_size_has_a_sound_plan_proportional_to_its_ranks() {
        for ranks in 1..=JOB_RANKS_MAX {
            let plan = NodePlan::of(ranks).unwrap();
            let geometry = geometry(ranks, plan.shape);
            assert_eq!(geometry.check(), Ok(()), "{ranks} ranks");
            // By messages the collectives of some hundred ranks take several times as long.
            assert_eq!(geometry.sets > 0, ranks <= 256, "{ranks} ranks");
            // Beside the rest, an entry of four bytes for each rank in the log of departures.
            let each = (350 << 10) + 4 * ranks as usize;
            let most = if ranks <= 256 { 300 << 20 } else { ranks as usize * each };
            assert!(plan.file().bytes() <= most, "{ranks} ranks");
        }
        assert_eq!(NodePlan::of(0), None);
        assert_eq!(NodePlan::of(JOB_RANKS_MAX + 1), None);
    }
}
