//! The common interface of virtual topologies (MPI 4.1 chapter 8): kind, communicator, and the
//! neighbours of this rank.

use aldis_kernel::{Comm, Rank};

/// The kinds of topologies (MPI_Topo_test).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TopologyKind {
    /// A [`Grid`](super::Grid) (MPI_CART).
    Grid,
    /// A [`Graph`](super::Graph) (MPI_GRAPH).
    Graph,
    /// A [`DistributedGraph`](super::DistributedGraph) (MPI_DIST_GRAPH).
    DistributedGraph,
}

/// A communicator with neighbours. It is a value of the user's, so its type tells its kind; code
/// that works on any topology takes this.
pub trait Topology {
    /// Its kind.
    const KIND: TopologyKind;

    /// Its communicator, for messages and to be freed.
    fn comm(&self) -> &Comm;

    /// The ranks that this rank receives from in an exchange of neighbours, in the order of such
    /// exchanges (MPI 4.1 section 8.6). [`Rank::NULL`] stands for a neighbour that is not there.
    fn sources(&self) -> impl Iterator<Item = Rank>;

    /// The ranks that it sends to, in the same way.
    fn destinations(&self) -> impl Iterator<Item = Rank>;
}
