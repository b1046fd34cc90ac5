//! The parts of a status beside its public words (MPI 5.0, 3.2.5 and 3.8).

use core::ffi::c_int;

use crate::abi::{MPI_COMM_SELF, Status};
use crate::edge::Ptr;

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
