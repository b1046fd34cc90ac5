//! Neighbourhood collectives: each rank exchanges with its neighbours in a topology, and with no
//! other rank (MPI 4.1 section 8.6).
//!
//! A [`NeighborList`] is made once of a [`Grid`](crate::comm::Grid), a
//! [`Graph`](crate::comm::Graph) or a [`DistributedGraph`](crate::comm::DistributedGraph); any
//! number of operations use it. Blocks stand in the order of its [`sources`](Topology::sources)
//! and [`destinations`](Topology::destinations): in a grid for each dimension that before and that
//! behind. A neighbour beyond an open border has a block all the same, which is left alone.
//!
//! ```
//! use aldis_coll::comm::{Dimension, Grid};
//! use aldis_coll::neighbor::{NeighborEntry, NeighborList, neighbor_alltoall};
//! use aldis_kernel::{Endpoint, Error, hal::{Platform, Transport}};
//!
//! /// What the ranks before and behind have for this one, on a ring.
//! fn swap<T: Transport, P: Platform>(
//!     ep: &mut Endpoint<'_, T, P>,
//!     given: [f64; 2],
//! ) -> Result<[f64; 2], Error> {
//!     let (world, mut entries, mut got) = (ep.world(), [NeighborEntry::NONE; 4], [0.0; 2]);
//!     let ring = [Dimension { extent: world.size(), is_periodic: true }];
//!     if let Some(grid) = Grid::create(ep, &world, &ring)? {
//!         let neighbors = NeighborList::new(&grid, &mut entries)?;
//!         neighbor_alltoall(&given, &mut got).run(ep, &neighbors)?;
//!     }
//!     Ok(got)
//! }
//! ```

mod allgather;
mod alltoall;
mod call;

use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Comm, Error, Rank};
pub use allgather::{neighbor_allgather, neighbor_allgatherv};
pub use alltoall::{neighbor_alltoall, neighbor_alltoallv, neighbor_alltoallw, neighbor_alltoallw_typed};
pub use call::NeighborCall;

use crate::algorithms::neighbor::arrange;
pub use crate::algorithms::neighbor::{EXCHANGES, GATHERS, Linear, NeighborEntry};
use crate::comm::{Topology, TopologyKind};
use crate::schedule::IN_FLIGHT_MAX;

/// The neighbours that a rank exchanges with, in an order in which no rank waits for ever. Good for
/// any number of operations at a time.
#[derive(Clone, Copy, Debug)]
pub struct NeighborList<'m> {
    comm: Comm,
    gather: Linear<'m>,
    exchange: Linear<'m>,
    sources: u32,
    destinations: u32,
    /// True for a grid, where what a rank sends one way arrives from the other.
    is_grid: bool,
}

impl<'m> NeighborList<'m> {
    /// Of a topology. `entries` has an entry for each source and each destination that is there.
    /// Local, but all ranks exchange by one of the same topology.
    ///
    /// # Errors
    /// [`Cause::TooSmall`] says how many entries are needed; [`Cause::Disagreement`] for a rank
    /// that is another number of times among its own sources than among its destinations.
    pub fn new<G: Topology>(topology: &G, entries: &'m mut [NeighborEntry]) -> Result<Self, Error> {
        let comm = *topology.comm();
        Self::of(topology, entries).map_err(|cause| Error::new(Operation::Group, cause).on(&comm))
    }

    fn of<G: Topology>(topology: &G, entries: &'m mut [NeighborEntry]) -> Result<Self, Cause> {
        let comm = *topology.comm();
        // What is sent one way along a dimension arrives from the other.
        let turn = |place: u32| if G::KIND == TopologyKind::Grid { place ^ 1 } else { place };
        let there = |(_, rank): &(u32, Rank)| *rank != Rank::NULL;
        let sources = (0..).zip(topology.sources());
        let destinations = (0..).zip(topology.destinations());
        let received =
            sources.filter(there).map(|(place, rank)| NeighborEntry::receive(rank.0, place, turn(place)));
        let sent = destinations.filter(there).map(|(place, rank)| NeighborEntry::send(rank.0, place));
        let (mut need, have) = (0, entries.len() as u32);
        for entry in received.chain(sent) {
            if let Some(into) = entries.get_mut(need as usize) {
                *into = entry;
            }
            need += 1;
        }
        let short = Cause::TooSmall { what: Resource::Scratch, need, have };
        let entries = entries.get_mut(..need as usize).ok_or(short)?;
        let used = arrange(entries, comm.rank().0, comm.size(), IN_FLIGHT_MAX).ok_or(Cause::Disagreement)?;
        let entries: &'m [NeighborEntry] = entries.get(..used).unwrap_or_default();
        Ok(Self {
            comm,
            gather: Linear { operation: Operation::NeighborAllgather, entries },
            exchange: Linear { operation: Operation::NeighborAlltoall, entries },
            sources: topology.sources().count() as u32,
            destinations: topology.destinations().count() as u32,
            is_grid: G::KIND == TopologyKind::Grid,
        })
    }

    /// Its communicator.
    pub const fn comm(&self) -> &Comm {
        &self.comm
    }

    /// Blocks that come here, those of neighbours that are not there included.
    pub const fn sources(&self) -> u32 {
        self.sources
    }

    /// Blocks that go from here, in the same way.
    pub const fn destinations(&self) -> u32 {
        self.destinations
    }
}
