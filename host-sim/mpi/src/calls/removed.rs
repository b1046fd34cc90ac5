//! Functions that MPI 3.0 removed (MPI 5.0, chapter 18) and that old programs still call, which
//! other implementations export too. `mpi.h` does not declare them.

use core::ffi::c_int;

use crate::abi::{Handle, MPI_COMM_SELF};
use crate::calls::constructors::{MPI_Type_create_hindexed, MPI_Type_create_hvector, MPI_Type_create_struct};
use crate::calls::environment::MPI_Get_address;
use crate::calls::errors::{MPI_Comm_create_errhandler, MPI_Comm_get_errhandler, MPI_Comm_set_errhandler};
use crate::ffi::{Address, Ptr};
use crate::objects::datatypes::look;

mpi! { fn MPI_Address(place: Address, address: Ptr<isize>) as MPI_Get_address(place, address) }

mpi! { fn MPI_Errhandler_create(function: usize, handler: Ptr<Handle>) as MPI_Comm_create_errhandler(function, handler) }

mpi! { fn MPI_Errhandler_get(comm: Handle, handler: Ptr<Handle>) as MPI_Comm_get_errhandler(comm, handler) }

mpi! { fn MPI_Errhandler_set(comm: Handle, handler: Handle) as MPI_Comm_set_errhandler(comm, handler) }

mpi! { fn MPI_Type_extent(datatype: Handle, extent: Ptr<isize>) on MPI_COMM_SELF => {
    extent.set(look(datatype, |known| known.extent)? as isize)?;
} }

mpi! { fn MPI_Type_lb(datatype: Handle, bound: Ptr<isize>) on MPI_COMM_SELF => {
    bound.set(look(datatype, |known| known.lower_bound)? as isize)?;
} }

mpi! { fn MPI_Type_ub(datatype: Handle, bound: Ptr<isize>) on MPI_COMM_SELF => {
    bound.set(look(datatype, |known| known.lower_bound.saturating_add(known.extent))? as isize)?;
} }

mpi! { fn MPI_Type_hindexed(
    count: c_int, lengths: Ptr<c_int>, places: Ptr<isize>, of: Handle, made: Ptr<Handle>,
) as MPI_Type_create_hindexed(count, lengths, places, of, made) }

mpi! { fn MPI_Type_hvector(
    count: c_int, length: c_int, stride: isize, of: Handle, made: Ptr<Handle>,
) as MPI_Type_create_hvector(count, length, stride, of, made) }

mpi! { fn MPI_Type_struct(
    count: c_int, lengths: Ptr<c_int>, places: Ptr<isize>, of: Ptr<Handle>, made: Ptr<Handle>,
) as MPI_Type_create_struct(count, lengths, places, of, made) }
