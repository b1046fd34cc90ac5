//! This module holds `unsafe` code: the memory of a collective is lent to the kernel.
//!
//! Collectives over intercommunicators (MPI 5.0, sections 6.2.2 and 6.2.3): what a group has goes
//! to the remote group. Data are packed into memory of the call, and out of it.

use core::ffi::c_int;

use aldis_coll::inter::{self, InterCall, Root};
use aldis_coll::op::Sum;
use aldis_hal::Operation;
use aldis_kernel::Rank;
use aldis_kernel::datatype::Form;

use super::Given;
use super::blocks::RankBlocks;
use super::call::{BlockList, ByteOperation, CollectiveCall};
use crate::abi::{MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_ROOT, MPI_PROC_NULL, MPI_ROOT};
use crate::fault::CallFault;
use crate::ffi::{Address, Region};
use crate::objects::communicators::rank_in;
use crate::objects::datatypes::ProgramData;

/// The destination of a reduction's result.
pub(super) enum Where {
    /// To this rank of the one group, or to all of them.
    Within(Rank),
    /// To all ranks of the other group.
    ToAll,
    /// To this rank of two groups.
    To(Root),
}

impl Where {
    /// Of a reduction over two groups.
    pub(super) fn across(
        call: &CollectiveCall,
        operation: Operation,
        to: Option<c_int>,
    ) -> Result<Self, CallFault> {
        match (operation, to) {
            (_, Some(to)) => root(call, to).map(Self::To),
            (Operation::Allreduce, None) => Ok(Self::ToAll),
            _ => Err(CallFault::new(MPI_ERR_COMM, format!("{operation} is for the ranks of one group"))),
        }
    }

    /// Returns true if this rank's data are a part of the result.
    pub(super) const fn gives(&self) -> bool {
        !matches!(self, Self::To(Root::This))
    }
}

/// The root, as the program names it.
fn root(call: &CollectiveCall, root: c_int) -> Result<Root, CallFault> {
    match root {
        MPI_ROOT => Ok(Root::This),
        MPI_PROC_NULL => Ok(Root::Beside),
        rank => rank_in(rank, call.comm.remote_size(), MPI_ERR_ROOT).map(Root::Remote),
    }
}

/// Refuses `MPI_IN_PLACE` for an intercommunicator: data go to another group there.
pub(super) fn no_place(call: &CollectiveCall, address: Address) -> Result<(), CallFault> {
    if call.comm.is_inter() { address.check("sendbuf of an intercommunicator") } else { Ok(()) }
}

/// Returns the data that this rank gives.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn given(call: &mut CollectiveCall, given: Given) -> Result<Region, CallFault> {
    // SAFETY: the caller's promise.
    let data = unsafe { given.data("sendbuf of an intercommunicator") }?;
    let bytes = call.own(data.bytes)?;
    call.before(bytes, move |stream| data.pack_into(Form::Native, stream, &mut 0));
    Ok(bytes)
}

/// Returns the memory in which this rank receives.
fn taken(call: &mut CollectiveCall, data: ProgramData) -> Result<Region, CallFault> {
    let bytes = call.own(data.bytes)?;
    call.after(bytes, move |stream| data.unpack_from(Form::Native, stream, &mut 0));
    Ok(bytes)
}

/// Returns the data that this rank gives, in blocks.
fn given_blocks(call: &mut CollectiveCall, blocks: RankBlocks) -> Result<Region, CallFault> {
    let bytes = call.own(blocks.bytes())?;
    call.before(bytes, move |stream| blocks.pack(stream, |_| true));
    Ok(bytes)
}

fn taken_blocks(call: &mut CollectiveCall, blocks: RankBlocks) -> Result<Region, CallFault> {
    let bytes = call.own(blocks.bytes())?;
    call.after(bytes, move |stream| blocks.unpack(stream, |_| true));
    Ok(bytes)
}

/// The part of a rank beside the root in a reduction, for which nothing that it says of data and
/// operation counts.
pub(super) fn no_reduction(mut call: CollectiveCall) -> CollectiveCall {
    call.what = across(|| inter::reduce::<Sum, u8>(Sum, &mut [], &mut [], Root::Beside));
    call
}

/// A collective over two groups. It is made when it is started, and no reference to its memory
/// before.
pub(super) fn across(make: impl FnOnce() -> InterCall<'static> + 'static) -> ByteOperation {
    ByteOperation::Across(Box::new(make))
}

pub(super) fn barrier(mut call: CollectiveCall) -> CollectiveCall {
    call.what = across(inter::barrier);
    call
}

/// A broadcast.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn bcast(
    mut call: CollectiveCall,
    own: Given,
    to: c_int,
) -> Result<CollectiveCall, CallFault> {
    let root = root(&call, to)?;
    let bytes = match root {
        // SAFETY: the caller's promise.
        Root::This => unsafe { given(&mut call, own) }?,
        // SAFETY: as above.
        Root::Remote(_) => taken(&mut call, unsafe { own.data("buffer") }?)?,
        Root::Beside => Region::NONE,
    };
    // SAFETY: it is memory of the call, which nothing else touches while the collective is under
    // way.
    call.what = across(move || inter::bcast(unsafe { bytes.bytes() }, root));
    Ok(call)
}

/// A gather.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn gather(
    mut call: CollectiveCall,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    to: c_int,
) -> Result<CollectiveCall, CallFault> {
    let root = root(&call, to)?;
    let (bytes, list): (Region, BlockList) = match root {
        Root::This => {
            let blocks = blocks(call.comm.remote_size())?.in_memory("recvbuf of the root")?;
            let list = blocks.listing(&mut call);
            (taken_blocks(&mut call, blocks)?, list)
        }
        // SAFETY: the caller's promise.
        Root::Remote(_) => (unsafe { given(&mut call, own) }?, BlockList::EVEN),
        Root::Beside => (Region::NONE, BlockList::EVEN),
    };
    // SAFETY: they are memory of the call, which is kept, and which nothing else touches while the
    // collective is under way.
    call.what = across(move || unsafe { inter::gatherv(bytes.bytes(), list.list(), root) });
    Ok(call)
}

/// A scatter.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn scatter(
    mut call: CollectiveCall,
    blocks: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    own: Given,
    from: c_int,
) -> Result<CollectiveCall, CallFault> {
    let root = root(&call, from)?;
    let (bytes, list): (Region, BlockList) = match root {
        Root::This => {
            let blocks = blocks(call.comm.remote_size())?.in_memory("sendbuf of the root")?;
            let list = blocks.listing(&mut call);
            (given_blocks(&mut call, blocks)?, list)
        }
        Root::Remote(_) => {
            // SAFETY: the caller's promise.
            (taken(&mut call, unsafe { own.data("recvbuf") }?)?, BlockList::EVEN)
        }
        Root::Beside => (Region::NONE, BlockList::EVEN),
    };
    // SAFETY: as in `gather`.
    call.what = across(move || unsafe { inter::scatterv(bytes.bytes(), list.list(), root) });
    Ok(call)
}

/// A gather for all.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn allgather(
    mut call: CollectiveCall,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
) -> Result<CollectiveCall, CallFault> {
    // SAFETY: the caller's promise.
    let input = unsafe { given(&mut call, own) }?;
    let blocks = blocks(call.comm.remote_size())?.in_memory("recvbuf")?;
    let list = blocks.listing(&mut call);
    let bytes = taken_blocks(&mut call, blocks)?;
    // SAFETY: both are memory of the call, each its own, which nothing else touches while the
    // collective is under way.
    call.what = across(move || unsafe { inter::allgatherv(input.shown(), bytes.bytes(), list.list()) });
    Ok(call)
}

pub(super) fn alltoall(
    mut call: CollectiveCall,
    given: Option<RankBlocks>,
    taken: RankBlocks,
) -> Result<CollectiveCall, CallFault> {
    let Some(given) = given else {
        return Err(CallFault::new(
            MPI_ERR_BUFFER,
            "MPI_IN_PLACE as sendbuf of an intercommunicator, which is to be memory",
        ));
    };
    let (from, to) = (given.listing(&mut call), taken.listing(&mut call));
    let input = given_blocks(&mut call, given)?;
    let bytes = taken_blocks(&mut call, taken)?;
    // SAFETY: as in `allgather`.
    call.what =
        across(move || unsafe { inter::alltoallv(input.shown(), from.list(), bytes.bytes(), to.list()) });
    Ok(call)
}
