//! The parts of a status beside its public words (MPI 5.0, 3.2.5 and 3.8).

use core::ffi::c_int;

use crate::abi::{Handle, MPI_COMM_SELF, MPI_ERR_COUNT, MPI_UNDEFINED, Status};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::datatypes::{look, small};
use crate::objects::elements;

mpi! { fn MPI_Test_cancelled(status: Ptr<Status>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    flag.set(status.get()?.is_cancelled().into())?;
} }

mpi! { fn MPI_Status_set_cancelled(status: Ptr<Status>, flag: c_int) on MPI_COMM_SELF => {
    let mut changed = status.get()?;
    changed.set_cancelled(flag != 0);
    status.set(changed)?;
} }

mpi! { fn MPI_Status_get_source(status: Ptr<Status>, source: Ptr<c_int>) on MPI_COMM_SELF => { source.set(status.get()?.source)?; } }
mpi! { fn MPI_Status_get_tag(status: Ptr<Status>, tag: Ptr<c_int>) on MPI_COMM_SELF => { tag.set(status.get()?.tag)?; } }
mpi! { fn MPI_Status_get_error(status: Ptr<Status>, error: Ptr<c_int>) on MPI_COMM_SELF => { error.set(status.get()?.error)?; } }
mpi! { fn MPI_Status_set_source(status: Ptr<Status>, source: c_int) on MPI_COMM_SELF => { status.set(Status { source, ..status.get()? })?; } }
mpi! { fn MPI_Status_set_tag(status: Ptr<Status>, tag: c_int) on MPI_COMM_SELF => { status.set(Status { tag, ..status.get()? })?; } }
mpi! { fn MPI_Status_set_error(status: Ptr<Status>, error: c_int) on MPI_COMM_SELF => { status.set(Status { error, ..status.get()? })?; } }

fn count_in(status: Ptr<Status>, datatype: Handle) -> Result<i64, CallFault> {
    let (bytes, size) = (status.get()?.bytes().cast_signed(), look(datatype, |known| known.size)?);
    Ok(match bytes.checked_rem(size) {
        Some(0) => bytes / size,
        None if bytes == 0 => 0,
        _ => i64::from(MPI_UNDEFINED),
    })
}

fn elements_in(status: Ptr<Status>, datatype: Handle) -> Result<i64, CallFault> {
    let bytes = status.get()?.bytes().cast_signed();
    Ok(look(datatype, |known| elements::count(known, bytes))??.unwrap_or_else(|| MPI_UNDEFINED.into()))
}

fn set_elements(status: Ptr<Status>, datatype: Handle, count: i64) -> Result<(), CallFault> {
    if count < 0 {
        return Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")));
    }
    let bytes = look(datatype, |known| elements::bytes(known, count))??;
    let mut changed = status.get()?;
    changed.set_bytes(bytes.cast_unsigned());
    status.set(changed)
}

mpi! { fn MPI_Get_count_c(status: Ptr<Status>, datatype: Handle, count: Ptr<i64>) on MPI_COMM_SELF => {
    count.set(count_in(status, datatype)?)?;
} }

mpi! { fn MPI_Get_count(status: Ptr<Status>, datatype: Handle, count: Ptr<c_int>) on MPI_COMM_SELF => {
    count.set(small(count_in(status, datatype)?))?;
} }

mpi! { fn MPI_Get_elements_c(status: Ptr<Status>, datatype: Handle, count: Ptr<i64>) on MPI_COMM_SELF => {
    count.set(elements_in(status, datatype)?)?;
} }

mpi! { fn MPI_Get_elements(status: Ptr<Status>, datatype: Handle, count: Ptr<c_int>) on MPI_COMM_SELF => {
    count.set(small(elements_in(status, datatype)?))?;
} }

mpi! { fn MPI_Get_elements_x(status: Ptr<Status>, datatype: Handle, count: Ptr<i64>) as MPI_Get_elements_c(status, datatype, count) }

mpi! { fn MPI_Status_set_elements_c(status: Ptr<Status>, datatype: Handle, count: i64) on MPI_COMM_SELF => {
    set_elements(status, datatype, count)?;
} }

mpi! { fn MPI_Status_set_elements(
    status: Ptr<Status>, datatype: Handle, count: c_int,
) as MPI_Status_set_elements_c(status, datatype, count.into()) }

mpi! { fn MPI_Status_set_elements_x(status: Ptr<Status>, datatype: Handle, count: i64) as MPI_Status_set_elements_c(status, datatype, count) }
