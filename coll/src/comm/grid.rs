//! Grids: communicators whose ranks have coordinates (Cartesian topologies, MPI 4.1 section 8.5).
//! Ranks are numbered in row-major order: the last coordinate varies fastest.

use core::iter::Empty;

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_kernel::{Comm, Error, Members, Rank};

use super::creation::make;
use super::local_ranks::LocalRanks;
use super::messenger::{Blocking, Messenger, now};
use super::participants::Participants;
use super::split::{SplitChoice, isplit};
use super::topology::{Topology, TopologyKind};
use crate::blocking_endpoint::BlockingEndpoint;

/// A dimension of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dimension {
    /// Ranks along it, at least one.
    pub extent: u32,
    /// True if the last is a neighbour of the first.
    pub is_periodic: bool,
}

impl Dimension {
    /// The coordinate that `at` stands for, if there is one.
    fn coordinate(&self, at: i64) -> Option<u32> {
        let extent = i64::from(self.extent);
        let at = if self.is_periodic { at.checked_rem_euclid(extent)? } else { at };
        (0..extent).contains(&at).then_some(at as u32)
    }
}

/// A communicator and the grid that its ranks form. The dimensions stay the caller's; they are
/// alike on all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid<'d> {
    comm: Comm,
    dimensions: &'d [Dimension],
}

impl<'d> Grid<'d> {
    /// A grid of the first ranks of `comm`; `None` for those that it has no place for
    /// (MPI_Cart_create, without reordering).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if it has no place at all or more than `comm` has ranks; else as
    /// [`dup`](super::dup).
    pub fn create<'s, T: Transport, P: Platform>(
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
        dimensions: &'d [Dimension],
    ) -> Result<Option<Self>, Error> {
        now(Self::icreate(&mut Blocking(ep), comm, dimensions))
    }

    /// Makes a grid like [`create`](Self::create), by a [`Messenger`].
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if it has no place at all or more than `comm` has ranks; the rest
    /// as [`create`](Self::create).
    pub async fn icreate<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        dimensions: &'d [Dimension],
    ) -> Result<Option<Self>, Error> {
        let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Create)?;
        let members = check_places(comm, dimensions)
            .map(|places| (comm.rank().0 < places).then_some(Members::<Empty<PeerId>>::First(*comm, places)));
        Ok(make(messenger, &local_ranks, members).await?.map(|comm| Self { comm, dimensions }))
    }

    /// The rank that this process would have in such a grid; `None` if it has no place for it
    /// (MPI_Cart_map).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if it has no place at all or more than `comm` has ranks.
    pub fn map(comm: &Comm, dimensions: &[Dimension]) -> Result<Option<Rank>, Cause> {
        let places = check_places(comm, dimensions)?;
        Ok(Some(comm.rank()).filter(|rank| rank.0 < places))
    }

    /// Its communicator, for messages and to be freed.
    pub const fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Its dimensions (MPI_Cart_get).
    pub const fn dimensions(&self) -> &'d [Dimension] {
        self.dimensions
    }

    /// The rank at these coordinates; those of periodic dimensions may lie outside (MPI_Cart_rank).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] for another number of coordinates than dimensions,
    /// [`Cause::RankOutOfRange`] for one outside a dimension that is not periodic.
    pub fn rank(&self, coordinates: &[i32]) -> Result<Rank, Cause> {
        self.check_len(coordinates.len())?;
        let mut rank = 0;
        for (dimension, &at) in self.dimensions.iter().zip(coordinates) {
            let outside = Cause::RankOutOfRange { rank: at.cast_unsigned(), size: dimension.extent };
            let coordinate = dimension.coordinate(at.into()).ok_or(outside)?;
            rank = dimension.extent.wrapping_mul(rank).wrapping_add(coordinate);
        }
        Ok(Rank(rank))
    }

    /// The coordinates of a rank (MPI_Cart_coords).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] for another number of coordinates than dimensions,
    /// [`Cause::RankOutOfRange`].
    pub fn coordinates(&self, rank: Rank, into: &mut [u32]) -> Result<(), Cause> {
        self.check_len(into.len())?;
        self.check_rank(rank)?;
        let mut left = rank.0;
        for (dimension, into) in self.dimensions.iter().zip(into).rev() {
            let extent = dimension.extent.max(1);
            (*into, left) = (left % extent, left / extent);
        }
        Ok(())
    }

    /// The ranks that this rank receives from and sends to when all shift their data by `distance`
    /// along a dimension; [`Rank::NULL`] beyond an end (MPI_Cart_shift).
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for a dimension that is not there.
    pub fn shift(&self, dimension: usize, distance: i32) -> Result<(Rank, Rank), Cause> {
        let (dimensions, me) = (self.dimensions.len() as u32, self.comm.rank().0);
        let outside = Cause::RankOutOfRange { rank: dimension as u32, size: dimensions };
        let along = self.dimensions.get(dimension).ok_or(outside)?;
        let inner = self.dimensions.iter().skip(dimension + 1);
        let stride = inner.fold(1, |stride: u32, inner| stride.wrapping_mul(inner.extent)).max(1);
        let own = me / stride % along.extent.max(1);
        let neighbour = |distance: i64| match along.coordinate(i64::from(own) + distance) {
            Some(there) => Rank(me.wrapping_add(there.wrapping_sub(own).wrapping_mul(stride))),
            None => Rank::NULL,
        };
        Ok((neighbour(-i64::from(distance)), neighbour(distance.into())))
    }

    /// The slice through this rank of the dimensions that are kept (MPI_Cart_sub): ranks that agree
    /// in all others. `kept` is given their dimensions, `scratch` has an entry for each rank of the
    /// grid.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if `keep` has another length than the dimensions,
    /// [`Cause::TooSmall`] if `kept` is too short; else as [`split`](super::split()).
    pub fn sub<'s, 'k, T: Transport, P: Platform>(
        &self,
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        keep: &[bool],
        kept: &'k mut [Dimension],
        scratch: &mut [SplitChoice],
    ) -> Result<Grid<'k>, Error> {
        now(self.isub(&mut Blocking(ep), keep, kept, scratch))
    }

    /// Makes the grid of the kept dimensions like [`sub`](Self::sub), by a [`Messenger`].
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if `keep` has another length than the dimensions,
    /// [`Cause::TooSmall`] if `kept` is too short; the rest as [`sub`](Self::sub).
    pub async fn isub<'s, 'k, T: Transport, P: Platform>(
        &self,
        messenger: &mut impl Messenger<'s, T, P>,
        keep: &[bool],
        kept: &'k mut [Dimension],
        scratch: &mut [SplitChoice],
    ) -> Result<Grid<'k>, Error> {
        let refused = |cause| Error::new(Operation::Split, cause);
        let (have, need) = (kept.len() as u32, keep.iter().filter(|&&keep| keep).count() as u32);
        let short = Cause::TooSmall { what: Resource::Scratch, need, have };
        let fits = if need > have { Err(short) } else { self.check_len(keep.len()) };
        LocalRanks::of_all(messenger, &self.comm, Operation::Split)?.meet(messenger, fits.err()).await?;
        let kept = kept.get_mut(..need as usize).ok_or(refused(short))?;
        // Row-major numbers among the dimensions that are kept, and among the others, from the last
        // dimension on.
        let (mut left, mut next) = (self.comm.rank().0, kept.iter_mut().rev());
        let (mut within, mut among) = ((0, 1), (0, 1));
        for (dimension, &keep) in self.dimensions.iter().zip(keep).rev() {
            let extent = dimension.extent.max(1);
            let (number, stride) = if keep { &mut within } else { &mut among };
            *number += left % extent * *stride;
            *stride *= extent;
            left /= extent;
            if keep && let Some(into) = next.next() {
                *into = *dimension;
            }
        }
        let slice = isplit(messenger, &self.comm, Some(among.0), within.0 as i32, scratch).await?;
        let comm = slice.ok_or(refused(Cause::Stale))?;
        Ok(Grid { comm, dimensions: kept })
    }

    fn check_len(&self, len: usize) -> Result<(), Cause> {
        let (left, right) = (len as u64, self.dimensions.len() as u64);
        if left == right { Ok(()) } else { Err(Cause::LengthMismatch { left, right }) }
    }

    fn check_rank(&self, rank: Rank) -> Result<(), Cause> {
        let size = self.comm.size();
        if rank.0 < size { Ok(()) } else { Err(Cause::RankOutOfRange { rank: rank.0, size }) }
    }
}

impl Topology for Grid<'_> {
    const KIND: TopologyKind = TopologyKind::Grid;

    fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Along each dimension the one before and the one behind.
    fn sources(&self) -> impl Iterator<Item = Rank> {
        (0..self.dimensions.len())
            .filter_map(|dimension| self.shift(dimension, 1).ok())
            .flat_map(<[Rank; 2]>::from)
    }

    fn destinations(&self) -> impl Iterator<Item = Rank> {
        self.sources()
    }
}

/// Places in a grid, if the communicator has as many ranks.
fn check_places(comm: &Comm, dimensions: &[Dimension]) -> Result<u32, Cause> {
    let extents = dimensions.iter().map(|dimension| u64::from(dimension.extent));
    match extents.fold(1, u64::saturating_mul) {
        places if (1..=u64::from(comm.size())).contains(&places) => Ok(places as u32),
        left => Err(Cause::LengthMismatch { left, right: comm.size().into() }),
    }
}
