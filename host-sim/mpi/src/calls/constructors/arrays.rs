//! This module holds `unsafe` code: lists that the program gives.
//!
//! Pieces of arrays of several dimensions (MPI 5.0, 5.1.3 and 5.1.4).

use core::ffi::c_int;

use aldis_kernel::datatype::{Distribution, Order, Slice, Spread};

use super::{ConstructorArguments, first, many, natural, wide};
use crate::abi::{
    Handle, MPI_COMBINER_DARRAY, MPI_COMBINER_SUBARRAY, MPI_COMM_SELF, MPI_DISTRIBUTE_BLOCK,
    MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_NONE, MPI_ERR_ARG, MPI_ORDER_C,
    MPI_ORDER_FORTRAN,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;

fn way(order: c_int) -> Result<Order, CallFault> {
    match order {
        MPI_ORDER_C => Ok(Order::C),
        MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        other => Err(CallFault::new(MPI_ERR_ARG, format!("{other} is no order of an array"))),
    }
}

fn subarray(
    is_large: bool,
    shape: [&[i64]; 3],
    order: c_int,
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let [sizes, counts, starts] = shape;
    let way = way(order)?;
    let mut slices = Vec::new();
    for ((size, count), start) in sizes.iter().zip(counts).zip(starts) {
        let slice = Slice { size: natural(*size)?, count: natural(*count)?, start: natural(*start)? };
        if slice.count == 0 || slice.count > slice.size || slice.start > slice.size - slice.count {
            let why = format!("{count} elements from {start} on of a dimension of {size}");
            return Err(CallFault::new(MPI_ERR_ARG, why));
        }
        slices.push(slice);
    }
    let (dimensions, order) = (sizes.len() as i64, i64::from(order));
    let all = sizes.iter().chain(counts).chain(starts).copied();
    let arguments =
        ConstructorArguments::new(MPI_COMBINER_SUBARRAY, is_large).always(&[dimensions]).integers(all);
    arguments.always(&[order]).make(&[of], made, |types, parts| types.subarray(&slices, way, first(parts)?))
}

/// The distribution of an array over a grid of processes, as a program gives it, by dimension.
struct ProcessGrid<'a> {
    distributions: &'a [i64],
    arguments: &'a [i64],
    processes: &'a [i64],
}

impl ProcessGrid<'_> {
    /// Of an array of these sizes, over so many processes.
    fn spreads(&self, sizes: &[i64], size: c_int) -> Result<Vec<Spread>, CallFault> {
        let mut spreads = Vec::new();
        let ways = self.distributions.iter().zip(self.arguments).zip(self.processes);
        for (whole, ((distribution, argument), processes)) in sizes.iter().zip(ways) {
            let is_default = *argument == i64::from(MPI_DISTRIBUTE_DFLT_DARG);
            let each = if is_default { None } else { Some(natural(*argument)?) };
            if each == Some(0) {
                return Err(CallFault::new(MPI_ERR_ARG, "a distribution of no elements at a time"));
            }
            let distribution = match c_int::try_from(*distribution) {
                Ok(MPI_DISTRIBUTE_NONE) => Distribution::None,
                Ok(MPI_DISTRIBUTE_BLOCK) => Distribution::Block(each),
                Ok(MPI_DISTRIBUTE_CYCLIC) => Distribution::Cyclic(each),
                _ => return Err(CallFault::new(MPI_ERR_ARG, format!("{distribution} is no distribution"))),
            };
            spreads.push(Spread { size: natural(*whole)?, distribution, processes: natural(*processes)? });
        }
        let in_grid = self.processes.iter().fold(1_i64, |all, one| all.saturating_mul(*one));
        if in_grid == i64::from(size) {
            Ok(spreads)
        } else {
            Err(CallFault::new(MPI_ERR_ARG, format!("a grid of {in_grid} for {size} processes")))
        }
    }
}

fn distributed(
    is_large: bool,
    [size, rank]: [c_int; 2],
    sizes: &[i64],
    grid: &ProcessGrid<'_>,
    order: c_int,
    of: Handle,
    made: Ptr<Handle>,
) -> Result<(), CallFault> {
    let (spreads, way) = (grid.spreads(sizes, size)?, way(order)?);
    let place = u32::try_from(rank).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("rank {rank}")))?;
    ConstructorArguments::new(MPI_COMBINER_DARRAY, is_large)
        .always(&[size.into(), rank.into(), sizes.len() as i64])
        .integers(sizes.iter().copied())
        .always(grid.distributions)
        .always(grid.arguments)
        .always(grid.processes)
        .always(&[order.into()])
        .make(&[of], made, |types, parts| types.darray(place, &spreads, way, first(parts)?))
}

mpi! { fn MPI_Type_create_subarray(dimensions: c_int, sizes: Ptr<c_int>, counts: Ptr<c_int>, starts: Ptr<c_int>, order: c_int, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let dimensions = many(dimensions.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1.3).
    let [sizes, counts, starts] = unsafe { [wide(sizes, dimensions)?, wide(counts, dimensions)?, wide(starts, dimensions)?] };
    subarray(false, [&sizes, &counts, &starts], order, of, made)?;
} }
mpi! { fn MPI_Type_create_subarray_c(dimensions: c_int, sizes: Ptr<i64>, counts: Ptr<i64>, starts: Ptr<i64>, order: c_int, of: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let dimensions = many(dimensions.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1.3).
    let [sizes, counts, starts] = unsafe { [wide(sizes, dimensions)?, wide(counts, dimensions)?, wide(starts, dimensions)?] };
    subarray(true, [&sizes, &counts, &starts], order, of, made)?;
} }

mpi! { fn MPI_Type_create_darray(
    size: c_int, rank: c_int, dimensions: c_int, sizes: Ptr<c_int>, distributions: Ptr<c_int>, arguments: Ptr<c_int>,
    processes: Ptr<c_int>, order: c_int, of: Handle, made: Ptr<Handle>,
) on MPI_COMM_SELF => {
    let dimensions = many(dimensions.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1.4).
    let [sizes, distributions, arguments, processes] = unsafe {
        [wide(sizes, dimensions)?, wide(distributions, dimensions)?, wide(arguments, dimensions)?, wide(processes, dimensions)?]
    };
    let grid = ProcessGrid { distributions: &distributions, arguments: &arguments, processes: &processes };
    distributed(false, [size, rank], &sizes, &grid, order, of, made)?;
} }
mpi! { fn MPI_Type_create_darray_c(
    size: c_int, rank: c_int, dimensions: c_int, sizes: Ptr<i64>, distributions: Ptr<c_int>, arguments: Ptr<c_int>,
    processes: Ptr<c_int>, order: c_int, of: Handle, made: Ptr<Handle>,
) on MPI_COMM_SELF => {
    let dimensions = many(dimensions.into())?;
    // SAFETY: the program gives so many (MPI 5.0, 5.1.4).
    let [distributions, arguments, processes] =
        unsafe { [wide(distributions, dimensions)?, wide(arguments, dimensions)?, wide(processes, dimensions)?] };
    // SAFETY: as above.
    let sizes = unsafe { wide(sizes, dimensions) }?;
    let grid = ProcessGrid { distributions: &distributions, arguments: &arguments, processes: &processes };
    distributed(true, [size, rank], &sizes, &grid, order, of, made)?;
} }
