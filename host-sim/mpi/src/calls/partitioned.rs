//! This module holds `unsafe` code: messages are made of the program's arguments.
//!
//! Partitioned communication (MPI 5.0, chapter 4): a message whose parts are ready, or there, one
//! by one.

use core::ffi::c_int;
use core::ops::Range;

use aldis_hal::Cause;
use aldis_kernel::Rank;

use crate::abi::{Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_REQUEST, MPI_REQUEST_NULL};
use crate::calls::completion::count_of;
use crate::calls::messages::{rank, tag};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::datatypes::ProgramData;
use crate::objects::{communicators, info};
use crate::process::engine;
use crate::requests;
use crate::requests::bundles::Bundles;

/// A message in so many parts.
struct PartitionedMessage {
    address: Address,
    partitions: c_int,
    count: i64,
    datatype: Handle,
    comm: Handle,
}

impl PartitionedMessage {
    /// Sets it up.
    ///
    /// # Safety
    /// The data of all parts are as [`ProgramData::new`] has them.
    unsafe fn keep(self, peer: c_int, number: c_int, sends: bool) -> Result<Handle, CallFault> {
        let of = communicators::of(self.comm)?;
        let refused = || CallFault::new(MPI_ERR_ARG, format!("{} partitions", self.partitions));
        let partitions = u32::try_from(self.partitions).map_err(|_| refused())?;
        let total = self.count.checked_mul(i64::from(partitions)).ok_or_else(|| {
            CallFault::new(MPI_ERR_COUNT, format!("{partitions} partitions of {} elements", self.count))
        })?;
        let (peer, tag): (Rank, _) = (rank(peer)?, tag(number)?);
        // SAFETY: the caller's promise.
        let data = unsafe { ProgramData::new(self.address, total, self.datatype) }?;
        let data = if peer == Rank::NULL { data.without_peer() } else { data };
        let bundles = Bundles::of(partitions, sends);
        let partitions = bundles.as_ref().map_or(partitions, Bundles::count);
        let request = engine::with(|engine| {
            let scope = &mut engine.scope;
            Ok(match (data.dense()?, sends) {
                (Some(bytes), sends) => {
                    let whole = 0..bytes.len();
                    // SAFETY: the caller's promise; the kernel keeps no reference.
                    let lent = scope.lend(unsafe { bytes.bytes() });
                    match sends {
                        true => scope.psend_init(&of, lent, whole, partitions, peer, tag)?,
                        false => scope.precv_init(&of, lent, whole, partitions, peer, tag)?,
                    }
                }
                (None, true) => {
                    // SAFETY: it is handed over at once.
                    let typed = unsafe { data.typed() }?;
                    scope.psend_init_typed(&of, typed, partitions, peer, tag)?
                }
                (None, false) => {
                    // SAFETY: it is handed over at once.
                    let typed = unsafe { data.typed_mut() }?;
                    scope.precv_init_typed(&of, typed, partitions, peer, tag)?
                }
            })
        })?;
        match bundles {
            Some(bundles) => requests::of_bundles(self.comm, request, bundles),
            None => requests::of_persistent(self.comm, request),
        }
    }
}

mpi! { fn MPI_Psend_init_c(address: Address, partitions: c_int, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, info: Handle, request: Ptr<Handle>) on comm => {
    info::check(info)?;
    request.check_place()?;
    // SAFETY: the arguments are the program's (MPI 5.0, 4.2).
    request.set(unsafe { PartitionedMessage { address, partitions, count, datatype, comm }.keep(to, tag, true) }?)?;
} }

mpi! { fn MPI_Psend_init(address: Address, partitions: c_int, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, info: Handle, request: Ptr<Handle>) as MPI_Psend_init_c(address, partitions, count, datatype, to, tag, comm, info, request) }

mpi! { fn MPI_Precv_init_c(address: Address, partitions: c_int, count: i64, datatype: Handle, from: c_int, tag: c_int, comm: Handle, info: Handle, request: Ptr<Handle>) on comm => {
    info::check(info)?;
    request.check_place()?;
    // SAFETY: the arguments are the program's (MPI 5.0, 4.2).
    request.set(unsafe { PartitionedMessage { address, partitions, count, datatype, comm }.keep(from, tag, false) }?)?;
} }

mpi! { fn MPI_Precv_init(address: Address, partitions: c_int, count: i64, datatype: Handle, from: c_int, tag: c_int, comm: Handle, info: Handle, request: Ptr<Handle>) as MPI_Precv_init_c(address, partitions, count, datatype, from, tag, comm, info, request) }

fn partition(number: c_int) -> Result<u32, CallFault> {
    u32::try_from(number).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("partition {number}")))
}

/// Of an error of a part: a request of another kind of operation is none of a message in parts.
fn of_part(error: aldis_kernel::Error) -> CallFault {
    match error.cause {
        Cause::Stale => {
            CallFault::new(MPI_ERR_REQUEST, "no request of a partitioned message of this direction")
        }
        _ => error.into(),
    }
}

fn ready(handle: Handle, partitions: Range<u32>) -> Result<(), CallFault> {
    let is_active = requests::is_under_way(handle);
    requests::with_parts(handle, |scope, request, bundles| {
        let Some(bundles) = bundles else {
            return scope.partitions(request).ready_range(partitions).map_err(of_part);
        };
        if !is_active {
            return Err(CallFault::new(MPI_ERR_REQUEST, "a request that has not been started"));
        }
        for part in partitions {
            if let Some(bundle) = bundles.declare(part)? {
                scope.partitions(request).ready(bundle).map_err(of_part)?;
            }
        }
        Ok(())
    })
}

mpi! { fn MPI_Pready(number: c_int, request: Handle) on MPI_COMM_SELF => {
    let number = partition(number)?;
    ready(request, number..number.saturating_add(1))?;
} }

mpi! { fn MPI_Pready_range(low: c_int, high: c_int, request: Handle) on MPI_COMM_SELF => {
    let (first, last) = (partition(low)?, partition(high)?);
    if last < first {
        return Err(CallFault::new(MPI_ERR_ARG, format!("partitions {low} to {high}")));
    }
    ready(request, first..last.saturating_add(1))?;
} }

mpi! { fn MPI_Pready_list(len: c_int, list: Ptr<c_int>, request: Handle) on MPI_COMM_SELF => {
    // SAFETY: the program gives a list of so many (MPI 5.0, 4.2.2).
    let list = unsafe { list.array(count_of(len)?) }?;
    for number in list.iter() {
        let number = partition(number)?;
        ready(request, number..number.saturating_add(1))?;
    }
} }

mpi! { fn MPI_Parrived(request: Handle, number: c_int, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    let number = partition(number)?;
    if request == MPI_REQUEST_NULL {
        // As of one that is inactive (MPI 4.1, 4.2.2).
        return flag.set(1);
    }
    let is_there = requests::with_parts(request, |scope, request, bundles| {
        let part = bundles.map_or(Ok(number), |bundles| bundles.bundle(number))?;
        scope.partitions(request).has_arrived(part).map_err(of_part)
    })?;
    flag.set(is_there.into())?;
} }
