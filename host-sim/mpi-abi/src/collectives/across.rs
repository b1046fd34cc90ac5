//! Collectives over intercommunicators (MPI 5.0, sections 6.2.2 and 6.2.3): what a group has goes to the other one. Data are packed
//! into memory of the call, and out of it.

use core::ffi::c_int;

use aldis_coll::inter::{self, Root};
use aldis_coll::op::Sum;
use aldis_hal::Operation;
use aldis_kernel::Rank;
use aldis_kernel::datatype::Form;

use super::Given;
use super::blocks::Blocks;
use super::call::{Call, What};
use crate::abi::{MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_ROOT, MPI_PROC_NULL, MPI_ROOT};
use crate::communicators::rank_in;
use crate::datatypes::Data;
use crate::edge::Address;
use crate::errors::Fault;

/// Where the result of a reduction goes.
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
    pub(super) fn across(call: &Call, operation: Operation, to: Option<c_int>) -> Result<Self, Fault> {
        match (operation, to) {
            (_, Some(to)) => root(call, to).map(Self::To),
            (Operation::Allreduce, None) => Ok(Self::ToAll),
            _ => Err(Fault::new(MPI_ERR_COMM, format!("{operation} is for the ranks of one group"))),
        }
    }

    /// Whether this rank's data are a part of the result.
    pub(super) const fn gives(&self) -> bool {
        !matches!(self, Self::To(Root::This))
    }
}

/// The root, as the program names it.
fn root(call: &Call, root: c_int) -> Result<Root, Fault> {
    match root {
        MPI_ROOT => Ok(Root::This),
        MPI_PROC_NULL => Ok(Root::Beside),
        rank => rank_in(rank, call.comm.remote_size(), MPI_ERR_ROOT).map(Root::Remote),
    }
}

/// What goes to another group than it comes from is nowhere in its place.
pub(super) fn no_place(call: &Call, address: Address) -> Result<(), Fault> {
    if call.comm.is_inter() { address.check("sendbuf of an intercommunicator") } else { Ok(()) }
}

/// What this rank gives.
fn given(call: &mut Call, given: Given) -> Result<&'static mut [u8], Fault> {
    let data = given.data("sendbuf of an intercommunicator")?;
    let (bytes, place) = call.own(data.bytes);
    call.before(move || data.pack_into(Form::Native, place.bytes()?, &mut 0));
    Ok(bytes)
}

/// Where it gets what comes.
fn taken(call: &mut Call, data: Data) -> &'static mut [u8] {
    let (bytes, place) = call.own(data.bytes);
    call.after(move || data.unpack_from(Form::Native, place.bytes()?, &mut 0));
    bytes
}

/// The same in blocks.
fn given_blocks(call: &mut Call, blocks: Blocks) -> &'static mut [u8] {
    let (bytes, place) = call.own(blocks.bytes());
    call.before(move || blocks.pack(place.bytes()?, |_| true));
    bytes
}

fn taken_blocks(call: &mut Call, blocks: Blocks) -> &'static mut [u8] {
    let (bytes, place) = call.own(blocks.bytes());
    call.after(move || blocks.unpack(place.bytes()?, |_| true));
    bytes
}

/// The part of a rank beside the root in a reduction, for which nothing that it says of data and operation counts.
pub(super) fn no_reduction(mut call: Call) -> Call {
    call.what = What::Across(inter::reduce::<Sum, u8>(Sum, &mut [], &mut [], Root::Beside));
    call
}

pub(super) fn barrier(mut call: Call) -> Call {
    call.what = What::Across(inter::barrier());
    call
}

pub(super) fn bcast(mut call: Call, own: Given, to: c_int) -> Result<Call, Fault> {
    let root = root(&call, to)?;
    let bytes = match root {
        Root::This => given(&mut call, own)?,
        Root::Remote(_) => taken(&mut call, own.data("buffer")?),
        Root::Beside => &mut [],
    };
    call.what = What::Across(inter::bcast(bytes, root));
    Ok(call)
}

pub(super) fn gather(
    mut call: Call,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
    to: c_int,
) -> Result<Call, Fault> {
    let root = root(&call, to)?;
    let gathered = match root {
        Root::This => {
            let blocks = blocks(call.comm.remote_size())?.in_memory("recvbuf of the root")?;
            let list = blocks.listing(&mut call);
            inter::gatherv(taken_blocks(&mut call, blocks), list, root)
        }
        Root::Remote(_) => inter::gatherv(given(&mut call, own)?, &[], root),
        Root::Beside => inter::gatherv::<u8>(&mut [], &[], root),
    };
    call.what = What::Across(gathered);
    Ok(call)
}

pub(super) fn scatter(
    mut call: Call,
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
    own: Given,
    from: c_int,
) -> Result<Call, Fault> {
    let root = root(&call, from)?;
    let scattered = match root {
        Root::This => {
            let blocks = blocks(call.comm.remote_size())?.in_memory("sendbuf of the root")?;
            let list = blocks.listing(&mut call);
            inter::scatterv(given_blocks(&mut call, blocks), list, root)
        }
        Root::Remote(_) => inter::scatterv(taken(&mut call, own.data("recvbuf")?), &[], root),
        Root::Beside => inter::scatterv::<u8>(&mut [], &[], root),
    };
    call.what = What::Across(scattered);
    Ok(call)
}

pub(super) fn allgather(
    mut call: Call,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
) -> Result<Call, Fault> {
    let input: &'static [u8] = given(&mut call, own)?;
    let blocks = blocks(call.comm.remote_size())?.in_memory("recvbuf")?;
    let list = blocks.listing(&mut call);
    let bytes = taken_blocks(&mut call, blocks);
    call.what = What::Across(inter::allgatherv(input, bytes, list));
    Ok(call)
}

pub(super) fn alltoall(mut call: Call, given: Option<Blocks>, taken: Blocks) -> Result<Call, Fault> {
    let Some(given) = given else {
        return Err(Fault::new(
            MPI_ERR_BUFFER,
            "MPI_IN_PLACE as sendbuf of an intercommunicator, which is to be memory",
        ));
    };
    let (from, to) = (given.listing(&mut call), taken.listing(&mut call));
    let input: &'static [u8] = given_blocks(&mut call, given);
    let bytes = taken_blocks(&mut call, taken);
    call.what = What::Across(inter::alltoallv(input, from, bytes, to));
    Ok(call)
}
