//! Datatypes (MPI 5.0, chapter 5): committing, freeing and asking about them. The constructors are
//! in `constructors`.

use core::ffi::{c_char, c_int};

use crate::abi::{Handle, MPI_COMM_SELF, MPI_DATATYPE_NULL, MPI_MAX_OBJECT_NAME};
use crate::ffi::Ptr;
use crate::objects::datatypes::{change, free, look, of_number, small};
use crate::process::handles::to_int;

mpi! { fn MPI_Type_commit(datatype: Ptr<Handle>) on MPI_COMM_SELF => {
    change(datatype.get()?, |known| known.set_committed(true))?;
} }

mpi! { fn MPI_Type_free(datatype: Ptr<Handle>) on MPI_COMM_SELF => {
    free(datatype.get()?)?;
    datatype.set(MPI_DATATYPE_NULL)?;
} }

mpi! { fn MPI_Type_size_c(datatype: Handle, size: Ptr<i64>) on MPI_COMM_SELF => {
    size.set(look(datatype, |known| known.size)?)?;
} }

mpi! { fn MPI_Type_size(datatype: Handle, size: Ptr<c_int>) on MPI_COMM_SELF => {
    size.set(small(look(datatype, |known| known.size)?))?;
} }

mpi! { fn MPI_Type_size_x(datatype: Handle, size: Ptr<i64>) as MPI_Type_size_c(datatype, size) }

mpi! { fn MPI_Type_get_extent_c(datatype: Handle, lower_bound: Ptr<i64>, extent: Ptr<i64>) on MPI_COMM_SELF => {
    let bounds = look(datatype, |known| (known.lower_bound, known.extent))?;
    lower_bound.set(bounds.0)?;
    extent.set(bounds.1)?;
} }

mpi! { fn MPI_Type_get_extent(datatype: Handle, lower_bound: Ptr<isize>, extent: Ptr<isize>) as MPI_Type_get_extent_c(datatype, lower_bound.wide(), extent.wide()) }

mpi! { fn MPI_Type_get_extent_x(datatype: Handle, lower_bound: Ptr<i64>, extent: Ptr<i64>) as MPI_Type_get_extent_c(datatype, lower_bound, extent) }

mpi! { fn MPI_Type_get_true_extent_c(datatype: Handle, lower_bound: Ptr<i64>, extent: Ptr<i64>) on MPI_COMM_SELF => {
    let bounds = look(datatype, |known| (known.true_lower_bound, known.true_extent))?;
    lower_bound.set(bounds.0)?;
    extent.set(bounds.1)?;
} }

mpi! { fn MPI_Type_get_true_extent(datatype: Handle, lower_bound: Ptr<isize>, extent: Ptr<isize>) as MPI_Type_get_true_extent_c(datatype, lower_bound.wide(), extent.wide()) }

mpi! { fn MPI_Type_get_true_extent_x(datatype: Handle, lower_bound: Ptr<i64>, extent: Ptr<i64>) as MPI_Type_get_true_extent_c(datatype, lower_bound, extent) }

mpi! { fn MPI_Type_set_name(datatype: Handle, name: Ptr<c_char>) on MPI_COMM_SELF => {
    let name = name.text()?;
    change(datatype, |known| known.name = name)?;
} }

mpi! { fn MPI_Type_get_name(datatype: Handle, name: Ptr<c_char>, len: Ptr<c_int>) on MPI_COMM_SELF => {
    let known = match datatype {
        MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
        datatype => look(datatype, |known| known.name.clone())?,
    };
    len.set(name.set_text(&known, MPI_MAX_OBJECT_NAME as usize)? as c_int)?;
} }

mpi! { fn MPI_Type_toint(datatype: Handle) -> c_int { to_int(datatype) } }

mpi! { fn MPI_Type_fromint(number: c_int) -> Handle { of_number(number) } }
