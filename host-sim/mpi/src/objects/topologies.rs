//! This module holds `unsafe` code: topologies in memory that is kept beside them.
//!
//! Virtual topologies of communicators: grids, graphs and distributed graphs, which are
//! `aldis-coll`'s.

use std::rc::Rc;

use aldis_coll::comm::{Dimension, DistributedGraph, Graph, Grid, Neighbour, Topology};
use aldis_coll::neighbor::{NeighborEntry, NeighborList};
use aldis_kernel::{Comm, Error, Rank};

use crate::abi::MPI_ERR_TOPOLOGY;
use crate::fault::CallFault;
use crate::ffi::{self, extend_mut};
use crate::process::poster::Poster;

/// The lists that a topology is made of.
#[derive(Clone, Debug)]
pub(crate) enum TopologyLists {
    Grid(Vec<Dimension>),
    Graph { index: Vec<u32>, edges: Vec<u32> },
    Distributed { sources: Vec<Neighbour>, destinations: Vec<Neighbour>, is_weighted: bool },
}

/// The topology in the memory of its lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TopologyShape {
    Grid(Grid<'static>),
    Graph(Graph<'static>),
    Distributed(DistributedGraph<'static>),
}

/// The topology of a communicator. It is shared with operations under way, as a communicator may be
/// freed before they are over.
#[derive(Debug)]
pub(crate) struct CommTopology {
    neighbors: Result<NeighborList<'static>, Error>,
    /// The number of sources and of destinations.
    degrees: [u32; 2],
    pub(crate) shape: TopologyShape,
    /// The memory of the two above: dropped after them.
    _entries: Vec<NeighborEntry>,
    lists: TopologyLists,
}

impl CommTopology {
    /// A new communicator of so many of the ranks of `parent` as have a place; none for the others.
    /// Collective.
    pub(crate) async fn create(
        poster: &mut Poster,
        parent: &Comm,
        mut lists: TopologyLists,
    ) -> Result<Option<(Comm, Self)>, CallFault> {
        let shape = match &mut lists {
            TopologyLists::Grid(dimensions) => {
                // SAFETY: the lists stay here until they move beside what is made of them, which is
                // dropped first.
                let dimensions = unsafe { extend_mut(dimensions) };
                Grid::icreate(poster, parent, dimensions).await?.map(TopologyShape::Grid)
            }
            TopologyLists::Graph { index, edges } => {
                // SAFETY: as above.
                let (index, edges) = unsafe { (extend_mut(index), extend_mut(edges)) };
                Graph::icreate(poster, parent, index, edges).await?.map(TopologyShape::Graph)
            }
            TopologyLists::Distributed { sources, destinations, .. } => {
                // SAFETY: as above.
                let (from, to) = unsafe { (extend_mut(sources), extend_mut(destinations)) };
                let made = DistributedGraph::icreate_adjacent(poster, parent, from, to).await?;
                Some(TopologyShape::Distributed(made))
            }
        };
        Ok(shape.map(|shape| Self::new(shape, lists)))
    }

    pub(crate) fn new(shape: TopologyShape, lists: TopologyLists) -> (Comm, Self) {
        let (sources, destinations) = shape.neighbours();
        let mut entries = vec![NeighborEntry::NONE; sources.len() + destinations.len()];
        // SAFETY: they move beside what is made of them, which is dropped first.
        let memory = unsafe { extend_mut(&mut entries) };
        let neighbors = match &shape {
            TopologyShape::Grid(grid) => NeighborList::new(grid, memory),
            TopologyShape::Graph(graph) => NeighborList::new(graph, memory),
            TopologyShape::Distributed(graph) => NeighborList::new(graph, memory),
        };
        let degrees = [sources.len() as u32, destinations.len() as u32];
        (*shape.comm(), Self { neighbors, degrees, shape, _entries: entries, lists })
    }

    /// Creates this topology again on a new communicator of the ranks of `comm`. Collective.
    pub(crate) async fn duplicate(
        &self,
        poster: &mut Poster,
        comm: &Comm,
    ) -> Result<(Comm, Self), CallFault> {
        let made = Self::create(poster, comm, self.lists.clone()).await?;
        made.ok_or_else(|| CallFault::new(MPI_ERR_TOPOLOGY, "a topology without a place for this rank"))
    }

    /// The neighbours with which this rank exchanges.
    pub(crate) fn neighbors(&self) -> Result<&NeighborList<'static>, CallFault> {
        self.neighbors.as_ref().map_err(|error| CallFault::new(MPI_ERR_TOPOLOGY, error.to_string()))
    }

    /// The neighbors of this rank for an operation.
    ///
    /// # Safety
    /// The operation holds this topology until it is over.
    pub(crate) unsafe fn extend(self: &Rc<Self>) -> Result<&'static NeighborList<'static>, CallFault> {
        // SAFETY: it is counted, so it does not move, and the operation holds a count.
        self.neighbors().map(|neighbors| unsafe { ffi::extend(neighbors) })
    }

    /// Returns the number of sources and of destinations, there or not.
    pub(crate) const fn degrees(&self) -> [u32; 2] {
        self.degrees
    }

    /// Returns true if it is a grid, where all ranks know what others exchange.
    pub(crate) const fn is_grid(&self) -> bool {
        matches!(self.shape, TopologyShape::Grid(_))
    }

    pub(crate) fn grid(&self) -> Result<&Grid<'_>, CallFault> {
        match &self.shape {
            TopologyShape::Grid(grid) => Ok(grid),
            _ => Err(CallFault::new(MPI_ERR_TOPOLOGY, "a communicator that is no grid")),
        }
    }

    pub(crate) fn graph(&self) -> Result<&Graph<'_>, CallFault> {
        match &self.shape {
            TopologyShape::Graph(graph) => Ok(graph),
            _ => Err(CallFault::new(MPI_ERR_TOPOLOGY, "a communicator that is no graph")),
        }
    }

    pub(crate) fn distributed(&self) -> Result<(&DistributedGraph<'_>, bool), CallFault> {
        match (&self.shape, &self.lists) {
            (TopologyShape::Distributed(graph), TopologyLists::Distributed { is_weighted, .. }) => {
                Ok((graph, *is_weighted))
            }
            _ => Err(CallFault::new(MPI_ERR_TOPOLOGY, "a communicator that is no distributed graph")),
        }
    }

    /// Returns, for each source and each destination, whether it is a rank and not `MPI_PROC_NULL`.
    pub(crate) fn presence(&self) -> (Vec<bool>, Vec<bool>) {
        let (sources, destinations) = self.shape.neighbours();
        let there = |ranks: Vec<Rank>| ranks.into_iter().map(|rank| rank != Rank::NULL).collect();
        (there(sources), there(destinations))
    }
}

impl TopologyShape {
    fn comm(&self) -> &Comm {
        match self {
            Self::Grid(grid) => Topology::comm(grid),
            Self::Graph(graph) => graph.comm(),
            Self::Distributed(graph) => graph.comm(),
        }
    }

    fn neighbours(&self) -> (Vec<Rank>, Vec<Rank>) {
        fn of<G: Topology>(topology: &G) -> (Vec<Rank>, Vec<Rank>) {
            (topology.sources().collect(), topology.destinations().collect())
        }
        match self {
            Self::Grid(grid) => of(grid),
            Self::Graph(graph) => of(graph),
            Self::Distributed(graph) => of(graph),
        }
    }
}
