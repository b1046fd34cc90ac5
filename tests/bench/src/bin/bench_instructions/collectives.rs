//! Collectives of two ranks in which one gives and the other takes: each side's call a function of
//! its own.

use core::error::Error;
use core::hint::black_box;

use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::{bcast, exscan, gather, gatherv, scatter, scatterv};
use aldis_kernel::{Comm, Error as Refused, Rank};

use super::One;

/// Bytes that are given.
const BYTES: usize = 8;

#[derive(Clone, Copy)]
pub(crate) enum CollectiveKind {
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Exscan,
}

impl CollectiveKind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bcast" => Self::Bcast,
            "gather" => Self::Gather,
            "gatherv" => Self::Gatherv,
            "scatter" => Self::Scatter,
            "scatterv" => Self::Scatterv,
            "exscan" => Self::Exscan,
            _ => return None,
        })
    }

    /// Rank 0 gives, and rank 1 takes.
    #[inline(always)]
    fn call(
        self,
        is_taker: bool,
        rank: &mut One,
        world: &Comm,
        data: &mut [u8],
        own: &mut [u8],
    ) -> Result<(), Refused> {
        match self {
            Self::Bcast => give_or_take(rank, world, own),
            Self::Gather => gather_block(rank, world, if is_taker { data } else { own }),
            Self::Gatherv => gather_listed(rank, world, if is_taker { data } else { own }),
            Self::Scatter => scatter_block(rank, world, if is_taker { own } else { data }),
            Self::Scatterv => scatter_listed(rank, world, if is_taker { own } else { data }),
            Self::Exscan => sum_before(rank, world, own),
        }
    }
}

/// A broadcast as a function of its own: it is all inlined where it is called.
#[inline(never)]
fn give_or_take(rank: &mut One, world: &Comm, own: &mut [u8]) -> Result<(), Refused> {
    bcast(own, Rank(0)).run(rank, world)
}

/// A gather, likewise.
#[inline(never)]
fn gather_block(rank: &mut One, world: &Comm, data: &mut [u8]) -> Result<(), Refused> {
    gather(data, &mut [], Rank(1)).run(rank, world)
}

/// A gather of blocks that are listed, likewise.
#[inline(never)]
fn gather_listed(rank: &mut One, world: &Comm, data: &mut [u8]) -> Result<(), Refused> {
    gatherv(data, &Block::packed([BYTES; 2]), Rank(1)).run(rank, world)
}

/// A scatter, likewise.
#[inline(never)]
fn scatter_block(rank: &mut One, world: &Comm, data: &mut [u8]) -> Result<(), Refused> {
    scatter(data, &mut [], Rank(0)).run(rank, world)
}

/// A scatter of blocks that are listed, likewise.
#[inline(never)]
fn scatter_listed(rank: &mut One, world: &Comm, data: &mut [u8]) -> Result<(), Refused> {
    scatterv(data, &Block::packed([BYTES; 2]), Rank(0)).run(rank, world)
}

/// An exclusive scan, likewise.
#[inline(never)]
fn sum_before(rank: &mut One, world: &Comm, own: &mut [u8]) -> Result<(), Refused> {
    exscan(Sum, own, &mut [0_u8; BYTES]).run(rank, world)
}

/// The call of the rank that gives.
#[inline(never)]
fn give_collective(
    kind: CollectiveKind,
    rank: &mut One,
    world: &Comm,
    data: &mut [u8],
    own: &mut [u8],
) -> Result<(), Refused> {
    kind.call(false, rank, world, data, own)
}

/// The call of the rank that takes what has been given.
#[inline(never)]
fn take_collective(
    kind: CollectiveKind,
    rank: &mut One,
    world: &Comm,
    data: &mut [u8],
    own: &mut [u8],
) -> Result<(), Refused> {
    kind.call(true, rank, world, data, own)
}

/// So many collectives, what is given in the last of them seen to arrive.
pub(crate) fn run(
    kind: CollectiveKind,
    repetitions: u32,
    [one, other]: &mut [One; 2],
) -> Result<(), Box<dyn Error>> {
    let (here, there) = (one.world(), other.world());
    let (mut given, mut taken) = (black_box([7_u8; 2 * BYTES]), [0_u8; 2 * BYTES]);
    let (mut own, mut others) = ([7_u8; BYTES], [0_u8; BYTES]);
    for _ in 0..repetitions {
        give_collective(kind, one, &here, &mut given, &mut own)?;
        take_collective(kind, other, &there, &mut taken, &mut others)?;
    }
    if taken.contains(&7) || others == [7; BYTES] { Ok(()) } else { Err("nothing arrived".into()) }
}
