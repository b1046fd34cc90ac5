//! This module holds `unsafe` code: lists of requests that the program gives.
//!
//! Starting, freeing and cancelling requests (MPI 5.0, 3.7, 3.8.4 and 3.9), and generalized
//! requests (13.2).

use core::ffi::{c_int, c_void};

use super::completion::count_of;
use crate::abi::{Handle, MPI_COMM_SELF, MPI_REQUEST_NULL};
use crate::ffi::Ptr;
use crate::process::handles::to_int;
use crate::requests::{self, GeneralizedRequest, start};

mpi! { fn MPI_Request_free(request: Ptr<Handle>) on MPI_COMM_SELF => {
    requests::free(request.get()?)?;
    request.set(MPI_REQUEST_NULL)?;
} }

mpi! { fn MPI_Cancel(request: Ptr<Handle>) on MPI_COMM_SELF => { requests::cancel(request.get()?)?; } }

mpi! { fn MPI_Start(request: Ptr<Handle>) on MPI_COMM_SELF => { start(request.get()?)?; } }

mpi! { fn MPI_Startall(count: c_int, requests: Ptr<Handle>) on MPI_COMM_SELF => {
    // SAFETY: the program gives so many (MPI 5.0, 3.9).
    unsafe { requests.array(count_of(count)?) }?.iter().try_for_each(start)?;
} }

mpi! { fn MPI_Grequest_start(query: usize, free: usize, cancel: usize, extra: Ptr<c_void>, request: Ptr<Handle>) on MPI_COMM_SELF => {
    request.check_place()?;
    request.set(requests::of_generalized(GeneralizedRequest::new([query, free, cancel], extra))?)?;
} }

mpi! { fn MPI_Grequest_complete(request: Handle) on MPI_COMM_SELF => { requests::complete_generalized(request)?; } }

mpi! { fn MPI_Request_toint(request: Handle) -> c_int { to_int(request) } }
mpi! { fn MPI_Request_fromint(number: c_int) -> Handle { requests::of_number(number) } }
