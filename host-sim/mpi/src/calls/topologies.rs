//! This module holds `unsafe` code: lists that the program gives.
//!
//! Virtual topologies (MPI 5.0, chapter 8).

use core::ffi::c_int;

use aldis_coll::comm::{
    Dimension, DistributedGraph, Edge, Graph, Grid, Neighbour, SplitChoice, Topology, dims_create,
};
use aldis_hal::Cause;
use aldis_kernel::Rank;

use crate::abi::{
    Handle, MPI_CART, MPI_COMM_NULL, MPI_COMM_SELF, MPI_DIST_GRAPH, MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_RANK,
    MPI_GRAPH, MPI_PROC_NULL, MPI_UNDEFINED, MPI_UNWEIGHTED,
};
use crate::calls::collectives;
use crate::calls::communicators::made;
use crate::fault::CallFault;
use crate::ffi::{Ptr, extend_mut};
use crate::objects::communicators::{self, rank_in};
use crate::objects::info;
use crate::objects::topologies::{CommTopology, TopologyLists, TopologyShape};

/// A number of things, which a program may give as a negative one.
fn natural(number: c_int, what: &str) -> Result<u32, CallFault> {
    u32::try_from(number).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("{number} {what}")))
}

/// A list of numbers.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn list(array: Ptr<c_int>, len: c_int, what: &str) -> Result<Vec<u32>, CallFault> {
    let len = natural(len, what)? as usize;
    // SAFETY: the caller's promise.
    unsafe { array.array(len) }?.iter().map(|number| natural(number, what)).collect()
}

/// The dimensions of a grid.
///
/// # Safety
/// There are so many of both, unless they are null.
unsafe fn dimensions(len: c_int, dims: Ptr<c_int>, periods: Ptr<c_int>) -> Result<Vec<Dimension>, CallFault> {
    // SAFETY: the caller's promise.
    let extents = unsafe { list(dims, len, "dimensions") }?;
    // SAFETY: as above.
    let periods = unsafe { periods.array(extents.len()) }?;
    let dimension = |(&extent, period): (&u32, c_int)| Dimension { extent, is_periodic: period != 0 };
    Ok(extents.iter().zip(periods.iter()).map(dimension).collect())
}

/// Of a cause that is about dimensions.
fn about_dimensions(cause: Cause) -> CallFault {
    CallFault::new(MPI_ERR_DIMS, cause.to_string())
}

/// Writes as many as there is room for.
///
/// # Safety
/// There is, unless it is null.
unsafe fn fill(
    into: Ptr<c_int>,
    room: c_int,
    numbers: impl IntoIterator<Item = c_int>,
) -> Result<(), CallFault> {
    let numbers: Vec<c_int> = numbers.into_iter().take(natural(room, "places")? as usize).collect();
    // SAFETY: the caller's promise.
    unsafe { into.array(numbers.len()) }?.fill(numbers);
    Ok(())
}

fn number(rank: Rank) -> c_int {
    if rank == Rank::NULL { MPI_PROC_NULL } else { rank.0.cast_signed() }
}

fn create(parent: Handle, lists: TopologyLists, new: Ptr<Handle>) -> Result<(), CallFault> {
    new.check_place()?;
    let created = made(parent, async move |poster, comm| CommTopology::create(poster, &comm, lists).await)?;
    new.set(match created {
        Some((comm, topology)) => communicators::insert_with(comm, parent, topology)?,
        None => MPI_COMM_NULL,
    })
}

mpi! { fn MPI_Topo_test(comm: Handle, kind: Ptr<c_int>) on comm => {
    communicators::check(comm)?;
    kind.set(match communicators::topology(comm).as_deref().map(|topology| &topology.shape) {
        Ok(TopologyShape::Grid(_)) => MPI_CART,
        Ok(TopologyShape::Graph(_)) => MPI_GRAPH,
        Ok(TopologyShape::Distributed(_)) => MPI_DIST_GRAPH,
        Err(_) => MPI_UNDEFINED,
    })?;
} }

mpi! { fn MPI_Dims_create(nodes: c_int, count: c_int, dims: Ptr<c_int>) on MPI_COMM_SELF => {
    let refused = |text| CallFault::new(MPI_ERR_DIMS, text);
    let len = natural(count, "dimensions")? as usize;
    // SAFETY: the program gives so many (MPI 5.0, 8.5.2).
    let places = unsafe { dims.array(len) }?;
    let extent = |extent: c_int| match u32::try_from(extent) {
        Ok(extent) => Ok(Dimension { extent, is_periodic: false }),
        Err(_) => Err(refused(format!("a dimension of {extent}"))),
    };
    let mut chosen = places.iter().map(extent).collect::<Result<Vec<_>, _>>()?;
    let nodes = u32::try_from(nodes).map_err(|_| refused(format!("{nodes} nodes")))?;
    if nodes != 1 || count != 0 {
        dims_create(nodes, &mut chosen).map_err(about_dimensions)?;
    }
    places.fill(chosen.into_iter().map(|dimension| dimension.extent.cast_signed()));
} }

mpi! { fn MPI_Cart_create(parent: Handle, count: c_int, dims: Ptr<c_int>, periods: Ptr<c_int>, _reorder: c_int, made: Ptr<Handle>) on parent => {
    made.set(MPI_COMM_NULL)?;
    // SAFETY: the program gives so many (MPI 5.0, 8.5.1).
    let dimensions = unsafe { dimensions(count, dims, periods) }?;
    create(parent, TopologyLists::Grid(dimensions), made)?;
} }

mpi! { fn MPI_Cart_map(comm: Handle, count: c_int, dims: Ptr<c_int>, periods: Ptr<c_int>, rank: Ptr<c_int>) on comm => {
    // SAFETY: the program gives so many (MPI 5.0, 8.5.8).
    let dimensions = unsafe { dimensions(count, dims, periods) }?;
    // No process has a place in a grid without any.
    let is_empty = dimensions.iter().any(|dimension| dimension.extent == 0);
    let place = if is_empty { None } else { Grid::map(&communicators::of(comm)?, &dimensions).map_err(about_dimensions)? };
    rank.set(place.map_or(MPI_UNDEFINED, number))?;
} }

mpi! { fn MPI_Cartdim_get(comm: Handle, count: Ptr<c_int>) on comm => {
    count.set(communicators::topology(comm)?.grid()?.dimensions().len() as c_int)?;
} }

fn coordinates(grid: &Grid<'_>, rank: Rank) -> Result<Vec<c_int>, CallFault> {
    let mut coordinates = vec![0; grid.dimensions().len()];
    grid.coordinates(rank, &mut coordinates)?;
    Ok(coordinates.into_iter().map(u32::cast_signed).collect())
}

mpi! { fn MPI_Cart_get(comm: Handle, room: c_int, dims: Ptr<c_int>, periods: Ptr<c_int>, coords: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let grid = topology.grid()?;
    // SAFETY: the program says how much room there is.
    unsafe { fill(dims, room, grid.dimensions().iter().map(|dimension| dimension.extent.cast_signed())) }?;
    // SAFETY: as above.
    unsafe { fill(periods, room, grid.dimensions().iter().map(|dimension| dimension.is_periodic.into())) }?;
    // SAFETY: the program says how much room there is.
    unsafe { fill(coords, room, coordinates(grid, grid.comm().rank())?) }?;
} }

mpi! { fn MPI_Cart_rank(comm: Handle, coords: Ptr<c_int>, rank: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let grid = topology.grid()?;
    // SAFETY: the program gives one for each dimension (MPI 5.0, 8.5.5).
    let coords = unsafe { coords.array(grid.dimensions().len()) }?.to_vec();
    let place = grid.rank(&coords);
    rank.set(number(place.map_err(|cause| CallFault::new(MPI_ERR_ARG, cause.to_string()))?))?;
} }

mpi! { fn MPI_Cart_coords(comm: Handle, rank: c_int, room: c_int, coords: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let grid = topology.grid()?;
    let rank = rank_in(rank, grid.comm().size(), MPI_ERR_RANK)?;
    // SAFETY: the program says how much room there is.
    unsafe { fill(coords, room, coordinates(grid, rank)?) }?;
} }

mpi! { fn MPI_Cart_shift(comm: Handle, direction: c_int, distance: c_int, source: Ptr<c_int>, destination: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let grid = topology.grid()?;
    let along = usize::try_from(direction).unwrap_or(usize::MAX);
    if along >= grid.dimensions().len() {
        return Err(CallFault::new(MPI_ERR_DIMS, format!("dimension {direction} of {}", grid.dimensions().len())));
    }
    let (from, to) = grid.shift(along, distance)?;
    source.set(number(from))?;
    destination.set(number(to))?;
} }

mpi! { fn MPI_Cart_sub(comm: Handle, remain: Ptr<c_int>, new: Ptr<Handle>) on comm => {
    new.set(MPI_COMM_NULL)?;
    let topology = communicators::topology(comm)?;
    let dimensions = topology.grid()?.dimensions().len();
    // SAFETY: the program gives one for each dimension (MPI 5.0, 8.5.7).
    let keep: Vec<bool> = unsafe { remain.array(dimensions) }?.iter().map(|keep| keep != 0).collect();
    let mut kept = vec![Dimension::default(); keep.iter().filter(|keep| **keep).count()];
    // SAFETY: it moves into the new topology, beside the grid, and is only read from now on.
    let memory = unsafe { extend_mut(&mut kept) };
    let part = made(comm, async move |poster, comm| {
        let mut scratch = vec![SplitChoice::NONE; comm.size() as usize];
        Ok(topology.grid()?.isub(poster, &keep, memory, &mut scratch).await?)
    })?;
    let (part, new_topology) = CommTopology::new(TopologyShape::Grid(part), TopologyLists::Grid(kept));
    new.set(communicators::insert_with(part, comm, new_topology)?)?;
} }

/// The lists of a graph.
///
/// # Safety
/// There are so many nodes, and edges as the last of them says, unless they are null.
unsafe fn graph_lists(
    nodes: c_int,
    index: Ptr<c_int>,
    edges: Ptr<c_int>,
) -> Result<(Vec<u32>, Vec<u32>), CallFault> {
    // SAFETY: the caller's promise.
    let index = unsafe { list(index, nodes, "nodes") }?;
    let count = index.last().copied().unwrap_or(0);
    // SAFETY: as above.
    let edges = unsafe { list(edges, count.cast_signed(), "as a neighbour") }?;
    Ok((index, edges))
}

mpi! { fn MPI_Graph_create(parent: Handle, nodes: c_int, index: Ptr<c_int>, edges: Ptr<c_int>, _reorder: c_int, made: Ptr<Handle>) on parent => {
    made.set(MPI_COMM_NULL)?;
    // SAFETY: the program gives so many (MPI 5.0, 8.5.3).
    let (index, edges) = unsafe { graph_lists(nodes, index, edges) }?;
    create(parent, TopologyLists::Graph { index, edges }, made)?;
} }

mpi! { fn MPI_Graph_map(comm: Handle, nodes: c_int, index: Ptr<c_int>, edges: Ptr<c_int>, rank: Ptr<c_int>) on comm => {
    // SAFETY: the program gives so many (MPI 5.0, 8.5.3).
    let (index, edges) = unsafe { graph_lists(nodes, index, edges) }?;
    rank.set(Graph::map(&communicators::of(comm)?, &index, &edges)?.map_or(MPI_UNDEFINED, number))?;
} }

mpi! { fn MPI_Graphdims_get(comm: Handle, nodes: Ptr<c_int>, edges: Ptr<c_int>) on comm => {
    let dims = communicators::topology(comm)?.graph()?.dims();
    nodes.set(dims.0.cast_signed())?;
    edges.set(dims.1.cast_signed())?;
} }

mpi! { fn MPI_Graph_get(comm: Handle, index_room: c_int, edge_room: c_int, index: Ptr<c_int>, edges: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let lists = topology.graph()?.lists();
    // SAFETY: the program says how much room there is.
    unsafe { fill(index, index_room, lists.0.iter().map(|end| end.cast_signed())) }?;
    // SAFETY: as above.
    unsafe { fill(edges, edge_room, lists.1.iter().map(|rank| rank.cast_signed())) }?;
} }

fn graph_neighbours(comm: Handle, rank: c_int) -> Result<Vec<c_int>, CallFault> {
    let topology = communicators::topology(comm)?;
    let graph = topology.graph()?;
    let rank = rank_in(rank, graph.comm().size(), MPI_ERR_RANK)?;
    Ok(graph.neighbours(rank)?.map(number).collect())
}

mpi! { fn MPI_Graph_neighbors_count(comm: Handle, rank: c_int, count: Ptr<c_int>) on comm => {
    count.set(graph_neighbours(comm, rank)?.len() as c_int)?;
} }

mpi! { fn MPI_Graph_neighbors(comm: Handle, rank: c_int, room: c_int, neighbours: Ptr<c_int>) on comm => {
    // SAFETY: the program says how much room there is.
    unsafe { fill(neighbours, room, graph_neighbours(comm, rank)?) }?;
} }

/// Weights as a program gives them: an array, or one of two addresses that stand for none.
///
/// # Safety
/// There are so many, unless it is null or such an address.
unsafe fn weights(array: Ptr<c_int>, count: usize) -> Result<Vec<Option<u32>>, CallFault> {
    if array.address() == MPI_UNWEIGHTED {
        return Ok(vec![None; count]);
    }
    // SAFETY: the caller's promise.
    unsafe { array.array(count) }?.iter().map(|weight| natural(weight, "as a weight").map(Some)).collect()
}

/// Neighbours with their weights.
///
/// # Safety
/// There are so many of both, as [`list`] and [`weights`] have it.
unsafe fn neighbours(
    count: c_int,
    ranks: Ptr<c_int>,
    weighing: Ptr<c_int>,
) -> Result<Vec<Neighbour>, CallFault> {
    // SAFETY: the caller's promise.
    let ranks = unsafe { list(ranks, count, "as a neighbour") }?;
    // SAFETY: as above.
    let weights = unsafe { weights(weighing, ranks.len()) }?;
    let neighbour = |(&rank, weight): (&u32, Option<u32>)| Neighbour { rank: Rank(rank), weight };
    Ok(ranks.iter().zip(weights).map(neighbour).collect())
}

mpi! { fn MPI_Dist_graph_create_adjacent(
    parent: Handle, indegree: c_int, sources: Ptr<c_int>, source_weights: Ptr<c_int>,
    outdegree: c_int, destinations: Ptr<c_int>, destination_weights: Ptr<c_int>, info: Handle, _reorder: c_int, made: Ptr<Handle>,
) on parent => {
    made.set(MPI_COMM_NULL)?;
    info::check(info)?;
    let is_weighted = source_weights.address() != MPI_UNWEIGHTED;
    // SAFETY: the program gives so many (MPI 5.0, 8.5.4).
    let sources = unsafe { neighbours(indegree, sources, source_weights) }?;
    // SAFETY: as above.
    let destinations = unsafe { neighbours(outdegree, destinations, destination_weights) }?;
    create(parent, TopologyLists::Distributed { sources, destinations, is_weighted }, made)?;
} }

/// The edges that this rank tells of: so many for each of the sources, one list behind the other.
///
/// # Safety
/// There are so many sources and degrees, and as many of the others as the degrees say, as [`list`]
/// and [`weights`] have it.
unsafe fn told_edges(
    count: c_int,
    sources: Ptr<c_int>,
    degrees: Ptr<c_int>,
    destinations: Ptr<c_int>,
    weighing: Ptr<c_int>,
) -> Result<Vec<Edge>, CallFault> {
    // SAFETY: the caller's promise.
    let (sources, degrees) =
        unsafe { (list(sources, count, "as a source")?, list(degrees, count, "edges")?) };
    let total = degrees.iter().map(|degree| *degree as usize).sum();
    let count = c_int::try_from(total).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("{total} edges")))?;
    // SAFETY: the caller's promise.
    let destinations = unsafe { list(destinations, count, "as a destination") }?;
    // SAFETY: as above.
    let weights = unsafe { weights(weighing, total) }?;
    let starts = sources.iter().zip(&degrees).flat_map(|(source, degree)| (0..*degree).map(|_| *source));
    let ends = destinations.iter().zip(weights);
    let edge = |(source, (&destination, weight))| Edge {
        source: Rank(source),
        destination: Rank(destination),
        weight,
    };
    Ok(starts.zip(ends).map(edge).collect())
}

mpi! { fn MPI_Dist_graph_create(
    parent: Handle, count: c_int, sources: Ptr<c_int>, degrees: Ptr<c_int>, destinations: Ptr<c_int>, weights: Ptr<c_int>,
    info: Handle, _reorder: c_int, new: Ptr<Handle>,
) on parent => {
    new.set(MPI_COMM_NULL)?;
    info::check(info)?;
    let is_weighted = weights.address() != MPI_UNWEIGHTED;
    // SAFETY: the program gives so many (MPI 5.0, 8.5.4).
    let edges = unsafe { told_edges(count, sources, degrees, destinations, weights) }?;
    // A rank does not know which ranks name it: it has room for both ends of all edges, and then
    // makes lists of what there is.
    let total = collectives::sum(parent, edges.len() as u64)?;
    let (sources, destinations) = made(parent, async move |poster, comm| {
        let mut memory = vec![Neighbour::NONE; 2 * total as usize];
        let graph = DistributedGraph::icreate(poster, &comm, &edges, &mut memory).await?;
        let lists = (graph.sources().to_vec(), graph.destinations().to_vec());
        aldis_coll::comm::ifree(poster, *graph.comm()).await?;
        Ok(lists)
    })?;
    create(parent, TopologyLists::Distributed { sources, destinations, is_weighted }, new)?;
} }

mpi! { fn MPI_Dist_graph_neighbors_count(comm: Handle, indegree: Ptr<c_int>, outdegree: Ptr<c_int>, weighted: Ptr<c_int>) on comm => {
    let topology = communicators::topology(comm)?;
    let (graph, is_weighted) = topology.distributed()?;
    indegree.set(graph.sources().len() as c_int)?;
    outdegree.set(graph.destinations().len() as c_int)?;
    weighted.set(is_weighted.into())?;
} }

/// Tells of neighbours, as many as there is room for.
///
/// # Safety
/// There is, unless it is null.
unsafe fn write_neighbours(
    list: &[Neighbour],
    room: c_int,
    ranks: Ptr<c_int>,
    weights: Option<Ptr<c_int>>,
) -> Result<(), CallFault> {
    // SAFETY: the caller's promise.
    unsafe { fill(ranks, room, list.iter().map(|neighbour| number(neighbour.rank))) }?;
    let weighing = list.iter().map(|neighbour| neighbour.weight.unwrap_or(1).cast_signed());
    // SAFETY: the caller's promise.
    weights.map_or(Ok(()), |weights| unsafe { fill(weights, room, weighing) })
}

mpi! { fn MPI_Dist_graph_neighbors(
    comm: Handle, in_room: c_int, sources: Ptr<c_int>, source_weights: Ptr<c_int>,
    out_room: c_int, destinations: Ptr<c_int>, destination_weights: Ptr<c_int>,
) on comm => {
    let topology = communicators::topology(comm)?;
    let (graph, is_weighted) = topology.distributed()?;
    let weights_of = |weights: Ptr<c_int>| Some(weights).filter(|weights| is_weighted && weights.address() != MPI_UNWEIGHTED);
    // SAFETY: the program says how much room there is.
    unsafe { write_neighbours(graph.sources(), in_room, sources, weights_of(source_weights)) }?;
    // SAFETY: the program says how much room there is.
    unsafe { write_neighbours(graph.destinations(), out_room, destinations, weights_of(destination_weights)) }?;
} }
