//! This module holds `unsafe` code: the arguments of collectives, as the program gives them.
//!
//! The collectives' C functions (MPI 5.0, chapter 6): each blocking, nonblocking and persistent,
//! with counts of either width.

use core::ffi::c_int;

use aldis_hal::Operation;

use super::blocks::{AllBlocks, RankBlocks};
use super::call::CallForm;
use super::pieces::ListedTypes::{Each, One};
use super::pieces::{
    ListedBlocks, try_allgather, try_allgatherv, try_alltoall, try_alltoallv, try_gather, try_gatherv,
    try_scatter, try_scatterv,
};
use super::{
    Given, Reduction, ResultParts, allgather, alltoall, barrier, bcast, counts, gather, given_even, ints,
    kinds_of, of_ranks, parts, places, reduce, reduce_scatter, scatter, taken_even, try_barrier, try_bcast,
    try_reduce, try_reduce_scatter, try_reduce_scatter_block,
};
use crate::abi::Handle;
use crate::ffi::{Address, Ptr};
use crate::objects::info;

/// The three forms of a collective, of which the blocking one may take a fast path.
macro_rules! collective {
    (fn $blocking:ident, fn $started:ident, fn $kept:ident $args:tt on $comm:expr => |$form:ident| $fast_path:expr, else $call:expr) => {
        mpi! { fn $blocking $args on $comm => {
            let $form = CallForm::Blocking;
            // SAFETY: the arguments are the program's, each as long as the standard has it
            // (MPI 5.0, chapter 6).
            if !unsafe { $fast_path }? { unsafe { $call }?.run()?; }
        } }
        collective! { started fn $started $args on $comm => |$form| $fast_path, else $call }
        collective! { kept fn $kept $args on $comm => $call }
    };
    (fn $blocking:ident, fn $started:ident, fn $kept:ident $args:tt on $comm:expr => $call:expr) => {
        mpi! { fn $blocking $args on $comm => {
            // SAFETY: the arguments are the program's, each as long as the standard has it
            // (MPI 5.0, chapter 6).
            unsafe { $call }?.run()?;
        } }
        collective! { requests fn $started, fn $kept $args on $comm => $call }
    };
    (requests fn $started:ident, fn $kept:ident $args:tt on $comm:expr => $call:expr) => {
        collective! { started fn $started $args on $comm => $call }
        collective! { kept fn $kept $args on $comm => $call }
    };
    (started fn $started:ident ($($arg:ident: $kind:ty),* $(,)?) on $comm:expr => |$form:ident| $fast_path:expr, else $call:expr) => {
        mpi! { fn $started($($arg: $kind,)* request: Ptr<Handle>) on $comm => {
            request.check_place()?;
            let $form = CallForm::Nonblocking(request);
            // SAFETY: as for the blocking one, and the program keeps the data there until the
            // request is complete.
            if !unsafe { $fast_path }? {
                // SAFETY: as above.
                let (call, types) = $crate::objects::used_types::of(|| unsafe { $call })?;
                call.using(types).begin(request)?;
            }
        } }
    };
    (started fn $started:ident ($($arg:ident: $kind:ty),* $(,)?) on $comm:expr => $call:expr) => {
        mpi! { fn $started($($arg: $kind,)* request: Ptr<Handle>) on $comm => {
            request.check_place()?;
            // SAFETY: as for the blocking one, and the program keeps the data there until the
            // request is complete.
            $crate::objects::used_types::of(|| unsafe { $call }).and_then(|(call, types)| call.using(types).begin(request))?;
        } }
    };
    (kept fn $kept:ident ($($arg:ident: $kind:ty),* $(,)?) on $comm:expr => $call:expr) => {
        mpi! { fn $kept($($arg: $kind,)* info: Handle, request: Ptr<Handle>) on $comm => {
            $crate::objects::info::check(info)?;
            request.check_place()?;
            // SAFETY: as for the blocking one, and the program keeps the data there until the
            // request is freed.
            $crate::objects::used_types::of(|| unsafe { $call }).and_then(|(call, types)| call.using(types).keep(request))?;
        } }
    };
}

pub(super) use collective;

mpi! { fn MPI_Barrier(comm: Handle) on comm => {
    if !try_barrier(CallForm::Blocking, comm)? { barrier(comm)?.run()?; }
} }
mpi! { fn MPI_Ibarrier(comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    if !try_barrier(CallForm::Nonblocking(request), comm)? { barrier(comm)?.begin(request)?; }
} }
mpi! { fn MPI_Barrier_init(comm: Handle, info: Handle, request: Ptr<Handle>) on comm => {
    info::check(info)?;
    request.check_place()?;
    barrier(comm)?.keep(request)?;
} }

collective! {
    fn MPI_Bcast_c, fn MPI_Ibcast_c, fn MPI_Bcast_init_c(
        data: Address, count: i64, datatype: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_bcast(form, data, count, datatype, root, comm), else bcast(data, count, datatype, root, comm)
}
mpi! { fn MPI_Bcast(
    buffer: Address, count: c_int, datatype: Handle, root: c_int, comm: Handle,
) as MPI_Bcast_c(buffer, count.into(), datatype, root, comm) }
mpi! { fn MPI_Ibcast(
    buffer: Address, count: c_int, datatype: Handle, root: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Ibcast_c(buffer, count.into(), datatype, root, comm, request) }
mpi! { fn MPI_Bcast_init(
    buffer: Address, count: c_int, datatype: Handle, root: c_int, comm: Handle, info: Handle,
    request: Ptr<Handle>,
) as MPI_Bcast_init_c(buffer, count.into(), datatype, root, comm, info, request) }

collective! {
    fn MPI_Reduce_c, fn MPI_Ireduce_c, fn MPI_Reduce_init_c(
        input: Address, into: Address, count: i64, datatype: Handle, op: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_reduce(form, Operation::Reduce, Reduction { input, into, count, datatype, op, comm }, Some(root)),
        else reduce(Operation::Reduce, Reduction { input, into, count, datatype, op, comm }, Some(root))
}
mpi! { fn MPI_Reduce(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, root: c_int, comm: Handle,
) as MPI_Reduce_c(sendbuf, recvbuf, count.into(), datatype, op, root, comm) }
mpi! { fn MPI_Ireduce(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, root: c_int, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Ireduce_c(sendbuf, recvbuf, count.into(), datatype, op, root, comm, request) }
mpi! { fn MPI_Reduce_init(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, root: c_int, comm: Handle,
    info: Handle, request: Ptr<Handle>,
) as MPI_Reduce_init_c(sendbuf, recvbuf, count.into(), datatype, op, root, comm, info, request) }

collective! {
    fn MPI_Allreduce_c, fn MPI_Iallreduce_c, fn MPI_Allreduce_init_c(
        input: Address, into: Address, count: i64, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce(form, Operation::Allreduce, Reduction { input, into, count, datatype, op, comm }, None),
        else reduce(Operation::Allreduce, Reduction { input, into, count, datatype, op, comm }, None)
}
mpi! { fn MPI_Allreduce(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
) as MPI_Allreduce_c(sendbuf, recvbuf, count.into(), datatype, op, comm) }
mpi! { fn MPI_Iallreduce(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Iallreduce_c(sendbuf, recvbuf, count.into(), datatype, op, comm, request) }
mpi! { fn MPI_Allreduce_init(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    info: Handle, request: Ptr<Handle>,
) as MPI_Allreduce_init_c(sendbuf, recvbuf, count.into(), datatype, op, comm, info, request) }

collective! {
    fn MPI_Scan_c, fn MPI_Iscan_c, fn MPI_Scan_init_c(
        input: Address, into: Address, count: i64, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce(form, Operation::Scan, Reduction { input, into, count, datatype, op, comm }, None),
        else reduce(Operation::Scan, Reduction { input, into, count, datatype, op, comm }, None)
}
mpi! { fn MPI_Scan(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
) as MPI_Scan_c(sendbuf, recvbuf, count.into(), datatype, op, comm) }
mpi! { fn MPI_Iscan(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Iscan_c(sendbuf, recvbuf, count.into(), datatype, op, comm, request) }
mpi! { fn MPI_Scan_init(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    info: Handle, request: Ptr<Handle>,
) as MPI_Scan_init_c(sendbuf, recvbuf, count.into(), datatype, op, comm, info, request) }

collective! {
    fn MPI_Exscan_c, fn MPI_Iexscan_c, fn MPI_Exscan_init_c(
        input: Address, into: Address, count: i64, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce(form, Operation::Exscan, Reduction { input, into, count, datatype, op, comm }, None),
        else reduce(Operation::Exscan, Reduction { input, into, count, datatype, op, comm }, None)
}
mpi! { fn MPI_Exscan(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
) as MPI_Exscan_c(sendbuf, recvbuf, count.into(), datatype, op, comm) }
mpi! { fn MPI_Iexscan(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Iexscan_c(sendbuf, recvbuf, count.into(), datatype, op, comm, request) }
mpi! { fn MPI_Exscan_init(
    sendbuf: Address, recvbuf: Address, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    info: Handle, request: Ptr<Handle>,
) as MPI_Exscan_init_c(sendbuf, recvbuf, count.into(), datatype, op, comm, info, request) }

collective! {
    fn MPI_Gather_c, fn MPI_Igather_c, fn MPI_Gather_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, root: c_int,
        comm: Handle,
    ) on comm =>
        |form| try_gather(form, Given::new(data, count, datatype), Given::new(into, room, kind), root, comm),
        else gather(Given::new(data, count, datatype), AllBlocks::even(|size| RankBlocks::even(into, room, kind, size)), root, comm)
}
mpi! { fn MPI_Gather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle,
) as MPI_Gather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm) }
mpi! { fn MPI_Igather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Igather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm, request) }
mpi! { fn MPI_Gather_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Gather_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm, info, request) }

collective! {
    fn MPI_Scatter_c, fn MPI_Iscatter_c, fn MPI_Scatter_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, root: c_int,
        comm: Handle,
    ) on comm =>
        |form| try_scatter(form, Given::new(data, count, datatype), Given::new(into, room, kind), root, comm),
        else scatter(AllBlocks::even(|size| RankBlocks::even(data, count, datatype, size)), Given::new(into, room, kind), root, comm)
}
mpi! { fn MPI_Scatter(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle,
) as MPI_Scatter_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm) }
mpi! { fn MPI_Iscatter(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Iscatter_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm, request) }
mpi! { fn MPI_Scatter_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, root: c_int, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Scatter_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, root, comm, info, request) }

collective! {
    fn MPI_Allgather_c, fn MPI_Iallgather_c, fn MPI_Allgather_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_allgather(form, Given::new(data, count, datatype), Given::new(into, room, kind), comm),
        else allgather(Given::new(data, count, datatype), |size| RankBlocks::even(into, room, kind, size), comm)
}
mpi! { fn MPI_Allgather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle,
) as MPI_Allgather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm) }
mpi! { fn MPI_Iallgather(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, request: Ptr<Handle>,
) as MPI_Iallgather_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, request) }
mpi! { fn MPI_Allgather_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Allgather_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, info, request) }

collective! {
    fn MPI_Alltoall_c, fn MPI_Ialltoall_c, fn MPI_Alltoall_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, room: i64, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_alltoall(form, Given::new(data, count, datatype), Given::new(into, room, kind), comm),
        else alltoall(given_even(data, count, datatype, comm)?, taken_even(into, room, kind, comm)?, comm)
}
mpi! { fn MPI_Alltoall(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle,
) as MPI_Alltoall_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm) }
mpi! { fn MPI_Ialltoall(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, request: Ptr<Handle>,
) as MPI_Ialltoall_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, request) }
mpi! { fn MPI_Alltoall_init(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, recvbuf: Address, recvcount: c_int,
    recvtype: Handle, comm: Handle, info: Handle, request: Ptr<Handle>,
) as MPI_Alltoall_init_c(sendbuf, sendcount.into(), sendtype, recvbuf, recvcount.into(), recvtype, comm, info, request) }

collective! {
    fn MPI_Gatherv, fn MPI_Igatherv, fn MPI_Gatherv_init(
        data: Address, count: c_int, datatype: Handle, into: Address, rooms: Ptr<c_int>, starts: Ptr<c_int>,
        kind: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_gatherv(form, Given::new(data, count.into(), datatype), |ranks| Ok(ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&starts, ranks)?, types: One(kind) }), root, comm),
        else gather(Given::new(data, count.into(), datatype), AllBlocks::listed(|_| RankBlocks::listed(into, &ints(rooms, comm)?, &ints(starts, comm)?, kind)), root, comm)
}

collective! {
    fn MPI_Scatterv, fn MPI_Iscatterv, fn MPI_Scatterv_init(
        data: Address, lens: Ptr<c_int>, starts: Ptr<c_int>, datatype: Handle, into: Address, room: c_int,
        kind: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_scatterv(form, |ranks| Ok(ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: One(datatype) }), Given::new(into, room.into(), kind), root, comm),
        else scatter(AllBlocks::listed(|_| RankBlocks::listed(data, &ints(lens, comm)?, &ints(starts, comm)?, datatype)), Given::new(into, room.into(), kind), root, comm)
}

collective! {
    fn MPI_Allgatherv, fn MPI_Iallgatherv, fn MPI_Allgatherv_init(
        data: Address, count: c_int, datatype: Handle, into: Address, rooms: Ptr<c_int>, starts: Ptr<c_int>,
        kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_allgatherv(form, Given::new(data, count.into(), datatype), |ranks| Ok(ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&starts, ranks)?, types: One(kind) }), comm),
        else allgather(Given::new(data, count.into(), datatype), |_| RankBlocks::listed(into, &ints(rooms, comm)?, &ints(starts, comm)?, kind), comm)
}

collective! {
    fn MPI_Alltoallv, fn MPI_Ialltoallv, fn MPI_Alltoallv_init(
        data: Address, lens: Ptr<c_int>, starts: Ptr<c_int>, datatype: Handle, into: Address,
        rooms: Ptr<c_int>, ends: Ptr<c_int>, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_alltoallv(form, data, |ranks| Ok([
            ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: One(datatype) },
            ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&ends, ranks)?, types: One(kind) },
        ]), comm),
        else alltoall(
            if data.is_in_place() { None } else { Some(RankBlocks::listed(data, &ints(lens, comm)?, &ints(starts, comm)?, datatype)?) },
            RankBlocks::listed(into, &ints(rooms, comm)?, &ints(ends, comm)?, kind)?, comm)
}

collective! {
    fn MPI_Alltoallw, fn MPI_Ialltoallw, fn MPI_Alltoallw_init(
        data: Address, lens: Ptr<c_int>, starts: Ptr<c_int>, of: Ptr<Handle>, into: Address,
        rooms: Ptr<c_int>, ends: Ptr<c_int>, kinds: Ptr<Handle>, comm: Handle,
    ) on comm =>
        |form| try_alltoallv(form, data, |ranks| Ok([
            ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: Each(of_ranks(&of, ranks)?) },
            ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&ends, ranks)?, types: Each(of_ranks(&kinds, ranks)?) },
        ]), comm),
        else alltoall(
            if data.is_in_place() { None } else { Some(RankBlocks::unlike(data, &ints(lens, comm)?, &ints(starts, comm)?, &kinds_of(of, comm)?)?) },
            RankBlocks::unlike(into, &ints(rooms, comm)?, &ints(ends, comm)?, &kinds_of(kinds, comm)?)?, comm)
}

collective! {
    fn MPI_Reduce_scatter, fn MPI_Ireduce_scatter, fn MPI_Reduce_scatter_init(
        input: Address, into: Address, lens: Ptr<c_int>, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce_scatter(form, Reduction { input, into, count: 0, datatype, op, comm }, || parts(lens, comm)),
        else reduce_scatter(Reduction { input, into, count: 0, datatype, op, comm }, ResultParts::Listed(&parts(lens, comm)?))
}

collective! {
    fn MPI_Gatherv_c, fn MPI_Igatherv_c, fn MPI_Gatherv_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, rooms: Ptr<i64>, starts: Ptr<isize>,
        kind: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_gatherv(form, Given::new(data, count, datatype), |ranks| Ok(ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&starts, ranks)?, types: One(kind) }), root, comm),
        else gather(Given::new(data, count, datatype), AllBlocks::listed(|_| RankBlocks::listed(into, &counts(rooms, comm)?, &places(starts, comm)?, kind)), root, comm)
}

collective! {
    fn MPI_Scatterv_c, fn MPI_Iscatterv_c, fn MPI_Scatterv_init_c(
        data: Address, lens: Ptr<i64>, starts: Ptr<isize>, datatype: Handle, into: Address, room: i64,
        kind: Handle, root: c_int, comm: Handle,
    ) on comm =>
        |form| try_scatterv(form, |ranks| Ok(ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: One(datatype) }), Given::new(into, room, kind), root, comm),
        else scatter(AllBlocks::listed(|_| RankBlocks::listed(data, &counts(lens, comm)?, &places(starts, comm)?, datatype)), Given::new(into, room, kind), root, comm)
}

collective! {
    fn MPI_Allgatherv_c, fn MPI_Iallgatherv_c, fn MPI_Allgatherv_init_c(
        data: Address, count: i64, datatype: Handle, into: Address, rooms: Ptr<i64>, starts: Ptr<isize>,
        kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_allgatherv(form, Given::new(data, count, datatype), |ranks| Ok(ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&starts, ranks)?, types: One(kind) }), comm),
        else allgather(Given::new(data, count, datatype), |_| RankBlocks::listed(into, &counts(rooms, comm)?, &places(starts, comm)?, kind), comm)
}

collective! {
    fn MPI_Alltoallv_c, fn MPI_Ialltoallv_c, fn MPI_Alltoallv_init_c(
        data: Address, lens: Ptr<i64>, starts: Ptr<isize>, datatype: Handle, into: Address, rooms: Ptr<i64>,
        ends: Ptr<isize>, kind: Handle, comm: Handle,
    ) on comm =>
        |form| try_alltoallv(form, data, |ranks| Ok([
            ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: One(datatype) },
            ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&ends, ranks)?, types: One(kind) },
        ]), comm),
        else alltoall(
            if data.is_in_place() { None } else { Some(RankBlocks::listed(data, &counts(lens, comm)?, &places(starts, comm)?, datatype)?) },
            RankBlocks::listed(into, &counts(rooms, comm)?, &places(ends, comm)?, kind)?, comm)
}

collective! {
    fn MPI_Alltoallw_c, fn MPI_Ialltoallw_c, fn MPI_Alltoallw_init_c(
        data: Address, lens: Ptr<i64>, starts: Ptr<isize>, of: Ptr<Handle>, into: Address, rooms: Ptr<i64>,
        ends: Ptr<isize>, kinds: Ptr<Handle>, comm: Handle,
    ) on comm =>
        |form| try_alltoallv(form, data, |ranks| Ok([
            ListedBlocks { address: data, counts: of_ranks(&lens, ranks)?, places: of_ranks(&starts, ranks)?, types: Each(of_ranks(&of, ranks)?) },
            ListedBlocks { address: into, counts: of_ranks(&rooms, ranks)?, places: of_ranks(&ends, ranks)?, types: Each(of_ranks(&kinds, ranks)?) },
        ]), comm),
        else alltoall(
            if data.is_in_place() { None } else { Some(RankBlocks::unlike(data, &counts(lens, comm)?, &places(starts, comm)?, &kinds_of(of, comm)?)?) },
            RankBlocks::unlike(into, &counts(rooms, comm)?, &places(ends, comm)?, &kinds_of(kinds, comm)?)?, comm)
}

collective! {
    fn MPI_Reduce_scatter_c, fn MPI_Ireduce_scatter_c, fn MPI_Reduce_scatter_init_c(
        input: Address, into: Address, lens: Ptr<i64>, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce_scatter(form, Reduction { input, into, count: 0, datatype, op, comm }, || parts(lens, comm)),
        else reduce_scatter(Reduction { input, into, count: 0, datatype, op, comm }, ResultParts::Listed(&parts(lens, comm)?))
}

collective! {
    fn MPI_Reduce_scatter_block_c, fn MPI_Ireduce_scatter_block_c, fn MPI_Reduce_scatter_block_init_c(
        input: Address, into: Address, count: i64, datatype: Handle, op: Handle, comm: Handle,
    ) on comm =>
        |form| try_reduce_scatter_block(form, Reduction { input, into, count, datatype, op, comm }),
        else reduce_scatter(Reduction { input, into, count, datatype, op, comm }, ResultParts::Even)
}
mpi! { fn MPI_Reduce_scatter_block(
    sendbuf: Address, recvbuf: Address, recvcount: c_int, datatype: Handle, op: Handle, comm: Handle,
) as MPI_Reduce_scatter_block_c(sendbuf, recvbuf, recvcount.into(), datatype, op, comm) }
mpi! { fn MPI_Ireduce_scatter_block(
    sendbuf: Address, recvbuf: Address, recvcount: c_int, datatype: Handle, op: Handle, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Ireduce_scatter_block_c(sendbuf, recvbuf, recvcount.into(), datatype, op, comm, request) }
mpi! { fn MPI_Reduce_scatter_block_init(
    sendbuf: Address, recvbuf: Address, recvcount: c_int, datatype: Handle, op: Handle, comm: Handle,
    info: Handle, request: Ptr<Handle>,
) as MPI_Reduce_scatter_block_init_c(sendbuf, recvbuf, recvcount.into(), datatype, op, comm, info, request) }
