//! Graphs: communicators whose ranks have neighbours of any number (MPI 4.1 sections 8.5.3
//! and 8.5.4). Ranks are not reordered, which the standard leaves open.

use core::iter::Empty;

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform, Resource, Transport};
use aldis_kernel::{Comm, Error, Members, Rank};

use super::creation::make;
use super::local_ranks::LocalRanks;
use super::messenger::{Blocking, Messenger, now};
use super::participants::Participants;
use super::topology::{Topology, TopologyKind};
use crate::blocking_endpoint::BlockingEndpoint;

/// Edges that one message of an exchange holds.
const CHUNK: usize = 16;

/// A communicator and the graph that its ranks form, all of which every rank knows. The lists stay
/// the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Graph<'g> {
    comm: Comm,
    index: &'g [u32],
    edges: &'g [u32],
}

impl<'g> Graph<'g> {
    /// A graph of the first ranks of `comm`, as many as `index` has entries; `None` for the others
    /// (MPI_Graph_create, without reordering). Entry `i` of `index` is how many neighbours the
    /// ranks up to `i` have together; `edges` lists all neighbours, those of rank 0 first. A rank
    /// may be its own neighbour, and one rank a neighbour of another several times.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if there are more entries than ranks or if the index does not rise
    /// to the number of edges, [`Cause::RankOutOfRange`] for an edge to a rank that is not in the
    /// graph, [`Cause::Disagreement`] if the ranks' lists differ; else as [`dup`](super::dup).
    pub fn create<'s, T: Transport, P: Platform>(
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
        index: &'g [u32],
        edges: &'g [u32],
    ) -> Result<Option<Self>, Error> {
        now(Self::icreate(&mut Blocking(ep), comm, index, edges))
    }

    /// Makes a graph like [`create`](Self::create), by a [`Messenger`].
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if there are more entries than ranks or if the index does not rise
    /// to the number of edges, [`Cause::RankOutOfRange`] for an edge to a rank that is not in the
    /// graph, [`Cause::Disagreement`] if the ranks' lists differ; the rest as
    /// [`create`](Self::create).
    pub async fn icreate<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        index: &'g [u32],
        edges: &'g [u32],
    ) -> Result<Option<Self>, Error> {
        let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Create)?;
        let digest = digest(index, edges);
        let mut digests = [digest, !digest];
        local_ranks.agree(messenger, &mut digests, |_, mine, theirs| mine.max(theirs)).await?;
        let alike = if digests == [digest, !digest] { Ok(()) } else { Err(Cause::Disagreement) };
        let members = check(comm, index, edges).and(alike).map(|()| {
            let nodes = index.len() as u32;
            (comm.rank().0 < nodes).then_some(Members::<Empty<PeerId>>::First(*comm, nodes))
        });
        Ok(make(messenger, &local_ranks, members).await?.map(|comm| Self { comm, index, edges }))
    }

    /// The rank that this process would have in such a graph; `None` if it has no place for it
    /// (MPI_Graph_map).
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] if there are more entries than ranks or if the index does not rise
    /// to the number of edges, [`Cause::RankOutOfRange`] for an edge to a rank that is not in the
    /// graph.
    pub fn map(comm: &Comm, index: &[u32], edges: &[u32]) -> Result<Option<Rank>, Cause> {
        check(comm, index, edges)?;
        Ok(Some(comm.rank()).filter(|rank| (rank.0 as usize) < index.len()))
    }

    /// Returns the numbers of ranks and of edges that it has (MPI_Graphdims_get).
    pub const fn dims(&self) -> (u32, u32) {
        (self.index.len() as u32, self.edges.len() as u32)
    }

    /// Its index and its edges (MPI_Graph_get).
    pub const fn lists(&self) -> (&'g [u32], &'g [u32]) {
        (self.index, self.edges)
    }

    /// The neighbours of a rank, in the order of the list (MPI_Graph_neighbors); how many there are
    /// is their length (MPI_Graph_neighbors_count).
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`].
    pub fn neighbours(&self, rank: Rank) -> Result<impl ExactSizeIterator<Item = Rank> + use<'g>, Cause> {
        let end = self.index.get(rank.0 as usize);
        let &end = end.ok_or(Cause::RankOutOfRange { rank: rank.0, size: self.comm.size() })?;
        let start = rank.0.checked_sub(1).and_then(|before| self.index.get(before as usize));
        let list = self.edges.get(start.map_or(0, |&start| start as usize)..end as usize);
        Ok(list.unwrap_or_default().iter().map(|&rank| Rank(rank)))
    }

    fn own(&self) -> impl Iterator<Item = Rank> + use<'g> {
        self.neighbours(self.comm.rank()).into_iter().flatten()
    }
}

impl Topology for Graph<'_> {
    const KIND: TopologyKind = TopologyKind::Graph;

    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn sources(&self) -> impl Iterator<Item = Rank> {
        self.own()
    }

    fn destinations(&self) -> impl Iterator<Item = Rank> {
        self.own()
    }
}

fn check(comm: &Comm, index: &[u32], edges: &[u32]) -> Result<(), Cause> {
    let (nodes, size) = (index.len() as u64, comm.size());
    if nodes > size.into() {
        return Err(Cause::LengthMismatch { left: nodes, right: size.into() });
    }
    let ends = index.last().copied().unwrap_or(0);
    if !index.is_sorted() || ends as usize != edges.len() {
        return Err(Cause::LengthMismatch { left: ends.into(), right: edges.len() as u64 });
    }
    match edges.iter().find(|&&edge| u64::from(edge) >= nodes) {
        Some(&rank) => Err(Cause::RankOutOfRange { rank, size: nodes as u32 }),
        None => Ok(()),
    }
}

/// FNV-1a (Fowler, Noll and Vo), by words.
fn digest(index: &[u32], edges: &[u32]) -> u64 {
    let words = [index.len() as u32].into_iter().chain(index.iter().copied()).chain(edges.iter().copied());
    words.fold(0xCBF2_9CE4_8422_2325, |hash, word| (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01B3))
}

/// A neighbour in a distributed graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Neighbour {
    /// Its rank.
    pub rank: Rank,
    /// The weight of the edge, if edges have weights: the user's measure of how much passes over
    /// it.
    pub weight: Option<u32>,
}

impl Neighbour {
    /// No neighbour, for memory to lend.
    pub const NONE: Self = Self { rank: Rank::NULL, weight: None };
}

/// An edge of a distributed graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Edge {
    /// The rank that sends along the edge.
    pub source: Rank,
    /// The rank that receives.
    pub destination: Rank,
    /// The weight of the edge, if edges have weights.
    pub weight: Option<u32>,
}

/// A communicator and this rank's neighbours in a graph of which no rank knows more than its own.
/// The lists stay the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DistributedGraph<'g> {
    comm: Comm,
    sources: &'g [Neighbour],
    destinations: &'g [Neighbour],
}

impl<'g> DistributedGraph<'g> {
    /// A graph of all ranks of `comm`, each of which gives the ranks it receives from and those it
    /// sends to (MPI_Dist_graph_create_adjacent, without reordering): if a rank names another as a
    /// destination, the other names it as a source as often.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for a neighbour that is not there; else as [`dup`](super::dup).
    pub fn create_adjacent<'s, T: Transport, P: Platform>(
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
        sources: &'g [Neighbour],
        destinations: &'g [Neighbour],
    ) -> Result<Self, Error> {
        now(Self::icreate_adjacent(&mut Blocking(ep), comm, sources, destinations))
    }

    /// Makes a graph like [`create_adjacent`](Self::create_adjacent), by a [`Messenger`].
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for a neighbour that is not there; the rest as
    /// [`create_adjacent`](Self::create_adjacent).
    pub async fn icreate_adjacent<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        sources: &'g [Neighbour],
        destinations: &'g [Neighbour],
    ) -> Result<Self, Error> {
        let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Create)?;
        let size = comm.size();
        let outside = sources.iter().chain(destinations).find(|neighbour| neighbour.rank.0 >= size);
        let members = match outside {
            Some(neighbour) => Err(Cause::RankOutOfRange { rank: neighbour.rank.0, size }),
            None => Ok(Some(Members::<Empty<PeerId>>::Of(*comm))),
        };
        let comm = make(messenger, &local_ranks, members)
            .await?
            .ok_or(Error::new(Operation::Create, Cause::Stale))?;
        Ok(Self { comm, sources, destinations })
    }

    /// A graph of all ranks of `comm`, of which each gives any edges, of whatever ranks; together
    /// they give each once (MPI_Dist_graph_create, without reordering). `memory` has an entry for
    /// each edge that ends and each that starts at this rank. Neighbours are in the order of the
    /// ranks that gave them, from this one downwards.
    ///
    /// Each pair of ranks exchanges what concerns the other: as many rounds as there are ranks.
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for an edge between ranks that are not there; on all ranks
    /// [`Cause::Full`] if any has too little memory (on the rank itself [`Cause::TooSmall`] says
    /// how much is needed); else as [`dup`](super::dup).
    pub fn create<'s, T: Transport, P: Platform>(
        ep: &mut impl BlockingEndpoint<'s, T, P>,
        comm: &Comm,
        edges: &[Edge],
        memory: &'g mut [Neighbour],
    ) -> Result<Self, Error> {
        now(Self::icreate(&mut Blocking(ep), comm, edges, memory))
    }

    /// Makes a graph like [`create`](Self::create), by a [`Messenger`].
    ///
    /// # Errors
    /// [`Cause::RankOutOfRange`] for an edge between ranks that are not there, [`Cause::Full`] on
    /// all ranks if any has too little memory; the rest as [`create`](Self::create).
    pub async fn icreate<'s, T: Transport, P: Platform>(
        messenger: &mut impl Messenger<'s, T, P>,
        comm: &Comm,
        edges: &[Edge],
        memory: &'g mut [Neighbour],
    ) -> Result<Self, Error> {
        let local_ranks = LocalRanks::of_all(messenger, comm, Operation::Create)?;
        let size = comm.size();
        let outside =
            edges.iter().flat_map(|edge| [edge.source, edge.destination]).find(|rank| rank.0 >= size);
        local_ranks.meet(messenger, outside.map(|rank| Cause::RankOutOfRange { rank: rank.0, size })).await?;
        let mut found = Found { memory, sources: 0, destinations: 0 };
        ends(edges, comm.rank()).for_each(|end| found.add(end));
        for distance in 1..size {
            found.exchange(messenger, &local_ranks, comm, edges, distance).await?;
        }
        let have = found.memory.len() as u32;
        let need = (found.sources + found.destinations) as u32;
        let short = Cause::TooSmall { what: Resource::Scratch, need, have };
        let members = if need > have { Err(short) } else { Ok(Some(Members::<Empty<PeerId>>::Of(*comm))) };
        let made = make(messenger, &local_ranks, members).await?;
        let (sources, destinations) = found.lists();
        let comm = made.ok_or(Error::new(Operation::Create, Cause::Stale))?;
        Ok(Self { comm, sources, destinations })
    }

    /// The neighbours that this rank receives from (MPI_Dist_graph_neighbors); their number is the
    /// length (MPI_Dist_graph_neighbors_count).
    pub const fn sources(&self) -> &'g [Neighbour] {
        self.sources
    }

    /// The neighbours that this rank sends to.
    pub const fn destinations(&self) -> &'g [Neighbour] {
        self.destinations
    }

    /// Returns true if its edges have weights, as far as this rank knows them.
    pub fn is_weighted(&self) -> bool {
        self.sources.iter().chain(self.destinations).any(|neighbour| neighbour.weight.is_some())
    }
}

impl Topology for DistributedGraph<'_> {
    const KIND: TopologyKind = TopologyKind::DistributedGraph;

    fn comm(&self) -> &Comm {
        &self.comm
    }

    fn sources(&self) -> impl Iterator<Item = Rank> {
        self.sources.iter().map(|neighbour| neighbour.rank)
    }

    fn destinations(&self) -> impl Iterator<Item = Rank> {
        self.destinations.iter().map(|neighbour| neighbour.rank)
    }
}

/// An end of an edge on the wire: the other rank, the weight, and what it is.
type EdgeEnd = [u32; 3];
const IS_SOURCE: u32 = 1;
const IS_WEIGHTED: u32 = 2;

/// The ends of `edges` at `rank`.
fn ends(edges: &[Edge], rank: Rank) -> impl Iterator<Item = EdgeEnd> + Clone {
    edges.iter().flat_map(move |edge| {
        let weight = edge.weight.unwrap_or(0);
        let weighted = if edge.weight.is_some() { IS_WEIGHTED } else { 0 };
        let starts = (edge.source == rank).then_some([edge.destination.0, weight, weighted]);
        let stops = (edge.destination == rank).then_some([edge.source.0, weight, weighted | IS_SOURCE]);
        [starts, stops].into_iter().flatten()
    })
}

/// This rank's neighbours, as they are found out: sources from the front of the memory on,
/// destinations from its end.
struct Found<'g> {
    memory: &'g mut [Neighbour],
    sources: usize,
    destinations: usize,
}

impl<'g> Found<'g> {
    /// Sends the rank `distance` places further on what it is to know, and receives from the one as
    /// many places back.
    async fn exchange<'s, T: Transport, P: Platform>(
        &mut self,
        messenger: &mut impl Messenger<'s, T, P>,
        local_ranks: &LocalRanks<'_>,
        comm: &Comm,
        edges: &[Edge],
        distance: u32,
    ) -> Result<(), Error> {
        let to = Rank(((u64::from(comm.rank().0) + u64::from(distance)) % u64::from(comm.size())) as u32);
        let (mut mine, mut there) = (ends(edges, to), [0_u64]);
        let mut out = mine.clone().count();
        local_ranks.shift(messenger, distance, &[out as u64], &mut there).await?;
        let [there] = there;
        let mut into = usize::try_from(there).unwrap_or(usize::MAX);
        while out > 0 || into > 0 {
            let (mut sending, mut receiving) = ([EdgeEnd::default(); CHUNK], [EdgeEnd::default(); CHUNK]);
            let (ours, theirs) = (out.min(CHUNK), into.min(CHUNK));
            sending.iter_mut().zip(mine.by_ref()).for_each(|(end, mine)| *end = mine);
            let sending = sending.get(..ours).unwrap_or_default();
            let receiving = receiving.get_mut(..theirs).unwrap_or_default();
            local_ranks.shift_nonempty(messenger, distance, sending, receiving).await?;
            receiving.iter().for_each(|&end| self.add(end));
            (out, into) = (out - ours, into - theirs);
        }
        Ok(())
    }

    fn add(&mut self, [rank, weight, kind]: EdgeEnd) {
        let weight = (kind & IS_WEIGHTED != 0).then_some(weight);
        let at = if kind & IS_SOURCE != 0 {
            self.sources += 1;
            self.sources.checked_sub(1)
        } else {
            self.destinations += 1;
            self.memory.len().checked_sub(self.destinations)
        };
        // What has no room is counted all the same: the sum is what is needed.
        if self.sources + self.destinations <= self.memory.len()
            && let Some(neighbour) = at.and_then(|at| self.memory.get_mut(at))
        {
            *neighbour = Neighbour { rank: Rank(rank), weight };
        }
    }

    fn lists(self) -> (&'g [Neighbour], &'g [Neighbour]) {
        let Self { memory, sources, destinations } = self;
        let first = memory.len().saturating_sub(destinations);
        if let Some(destinations) = memory.get_mut(first..) {
            destinations.reverse();
        }
        let memory = &*memory;
        (memory.get(..sources).unwrap_or_default(), memory.get(first..).unwrap_or_default())
    }
}
