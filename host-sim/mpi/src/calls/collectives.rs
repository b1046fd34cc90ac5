//! This module holds `unsafe` code: the arguments of collectives, as the program gives them.
//!
//! Collectives (MPI 5.0, chapter 6), blocking, nonblocking and persistent, over one group or
//! ([`across`]) over two: what C describes is put into the shape that `aldis-coll` takes, in place
//! where data are in one piece, else in memory of their own, and back.

use core::ffi::c_int;
use std::rc::Rc;

use aldis_coll::layout::Block;
use aldis_hal::Operation;
use aldis_kernel::datatype::Form;

use crate::abi::{
    Handle, MPI_COMM_WORLD, MPI_ERR_ROOT, MPI_ERR_TRUNCATE, MPI_IN_PLACE, MPI_SUM, MPI_UINT64_T,
};
use crate::fault::CallFault;
use crate::ffi::{Address, Array, Ptr, Region};
use crate::objects::communicators::{self, rank_in};
use crate::objects::datatypes::{self, ProgramData};

mod across;
mod blocks;
mod call;
pub(crate) mod calls;
pub(crate) mod neighbors;
mod operand;
mod pieces;
mod reductions;

use blocks::{AllBlocks, RankBlocks, put};
use call::{BlockList, ByteOperation, CallComm, CallForm, CollectiveCall};
pub(crate) use operand::Operand;
use reductions::{
    Reduction, ResultParts, reduce, reduce_scatter, try_reduce, try_reduce_scatter, try_reduce_scatter_block,
};

fn barrier(comm: Handle) -> Result<CollectiveCall, CallFault> {
    let call = CollectiveCall::new(comm)?;
    if call.comm.is_inter() { Ok(across::barrier(call)) } else { Ok(call) }
}

/// Waits until all ranks of the job are at its end: a rank that still receives from any source
/// would else be told that some have left. What fails here has another cause, which is told.
pub(crate) fn finish() {
    let _ = barrier(MPI_COMM_WORLD).and_then(CollectiveCall::run);
}

/// The sum of what the ranks have.
pub(crate) fn sum(comm: Handle, mut own: u64) -> Result<u64, CallFault> {
    let into = Address::of(core::ptr::from_mut(&mut own).expose_provenance());
    let reduction = Reduction {
        input: Address::of(MPI_IN_PLACE),
        into,
        count: 1,
        datatype: MPI_UINT64_T,
        op: MPI_SUM,
        comm,
    };
    // SAFETY: the number is there until the call returns.
    unsafe { reduce(Operation::Allreduce, reduction, None) }?.run()?;
    Ok(own)
}

/// Carries out a barrier straight from the arguments: what [`CollectiveCall`] writes down takes as
/// long as a barrier does. False if it takes more.
#[inline(always)]
fn try_barrier(form: CallForm, comm: Handle) -> Result<bool, CallFault> {
    let mut place = None;
    let of = communicators::find(comm, &mut place)?;
    if of.is_inter() || !form.takes_fast_path() {
        return Ok(false);
    }
    // SAFETY: there are no data.
    unsafe { form.carry_out(aldis_coll::barrier, CallComm { handle: comm, comm: of }) }?;
    Ok(true)
}

/// Carries out a broadcast of data in one piece straight from the arguments. False if it takes
/// more.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(always)]
unsafe fn try_bcast(
    form: CallForm,
    data: Address,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    let mut place = None;
    let of = communicators::find(comm, &mut place)?;
    if of.is_inter() || !form.takes_fast_path() {
        return Ok(false);
    }
    let root = rank_in(root, of.size(), MPI_ERR_ROOT)?;
    let Some(bytes) = datatypes::piece_memory(data, count, datatype) else { return Ok(false) };
    // SAFETY: the caller promised that nothing touches them until the call is over.
    let bytes = unsafe { bytes.bytes() };
    // SAFETY: as above.
    unsafe { form.carry_out(|| aldis_coll::bcast(bytes, root), CallComm { handle: comm, comm: of }) }?;
    Ok(true)
}

/// A broadcast.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn bcast(
    data: Address,
    count: i64,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    data.check("buffer")?;
    if call.comm.is_inter() {
        // SAFETY: the caller's promise.
        return unsafe { across::bcast(call, Given { address: data, count, datatype }, root) };
    }
    // SAFETY: the caller's promise.
    let (root, data) = (call.root(root)?, unsafe { ProgramData::new(data, count, datatype) }?.there()?);
    let bytes = match data.dense()? {
        Some(bytes) => bytes,
        None => {
            let bytes = call.own(data.bytes)?;
            match call.comm.rank() == root {
                true => call.before(bytes, move |stream| data.pack_into(Form::Native, stream, &mut 0)),
                false => call.after(bytes, move |stream| data.unpack_from(Form::Native, stream, &mut 0)),
            }
            bytes
        }
    };
    call.what = ByteOperation::Bcast(bytes, root);
    Ok(call)
}

/// A buffer as a call names it.
#[derive(Clone, Copy)]
struct Given {
    address: Address,
    count: i64,
    datatype: Handle,
}

impl Given {
    const fn new(address: Address, count: i64, datatype: Handle) -> Self {
        Self { address, count, datatype }
    }

    /// Data that are in memory.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    unsafe fn data(self, argument: &str) -> Result<ProgramData, CallFault> {
        self.address.check(argument)?;
        // SAFETY: the caller's promise.
        unsafe { ProgramData::new(self.address, self.count, self.datatype) }?.there()
    }

    /// The data, if they are apart from the result: `None` where the block is in its place.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    unsafe fn apart(self) -> Result<Option<ProgramData>, CallFault> {
        if self.address.is_in_place() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { ProgramData::new(self.address, self.count, self.datatype) }?.there().map(Some)
    }
}

/// A gather; blocks are asked for where they are.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn gather(
    own: Given,
    blocks: AllBlocks<impl FnOnce(u32) -> Result<RankBlocks, CallFault>>,
    root: c_int,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    if call.comm.is_inter() {
        // SAFETY: the caller's promise.
        return unsafe { across::gather(call, own, blocks.describe, root) };
    }
    let root = call.root(root)?;
    let me = call.me();
    if call.comm.rank() != root {
        // SAFETY: the caller's promise.
        let data = unsafe { own.data("sendbuf of a rank that is not the root") }?;
        let bytes = call.own(data.bytes)?;
        call.before(bytes, move |stream| data.pack_into(Form::Native, stream, &mut 0));
        call.what = ByteOperation::Gather(bytes, of_others(&mut call, data, blocks.is_even), root);
        return Ok(call);
    }
    let blocks = Rc::new((blocks.describe)(call.comm.size())?.in_memory("recvbuf of the root")?);
    let list = blocks.list(&mut call);
    let bytes = call.own(blocks.bytes())?;
    // SAFETY: the caller's promise.
    let (apart, there) = (unsafe { own.apart() }?, Rc::clone(&blocks));
    blocks.check_apart(apart)?;
    // The others give their blocks all the same, so an own one that is too long is told at the end.
    let room = blocks.own(me)?.bytes;
    let too_long = apart.map(|data| data.bytes).filter(|given| *given > room);
    call.before(bytes, move |stream| match apart {
        Some(_) if too_long.is_some() => Ok(()),
        Some(data) => put(stream, &there, me, data),
        None => there.pack(stream, |rank| rank == me),
    });
    call.after(bytes, move |stream| match too_long {
        Some(given) => Err(blocks::too_long(given, room)),
        None => blocks.unpack(stream, |rank| rank != me || apart.is_some()),
    });
    call.what = ByteOperation::Gather(bytes, list, root);
    Ok(call)
}

/// Lists the blocks of all ranks on one that is not the root: unless they are of one length, those
/// of the others are for the root to know.
fn of_others(call: &mut CollectiveCall, own: ProgramData, is_even: bool) -> BlockList {
    let block = Block { start: 0, len: own.bytes };
    if is_even { BlockList::EVEN } else { call.own_blocks(vec![block; call.comm.size() as usize]) }
}

/// A scatter.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn scatter(
    blocks: AllBlocks<impl FnOnce(u32) -> Result<RankBlocks, CallFault>>,
    own: Given,
    root: c_int,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    if call.comm.is_inter() {
        // SAFETY: the caller's promise.
        return unsafe { across::scatter(call, blocks.describe, own, root) };
    }
    let root = call.root(root)?;
    let me = call.me();
    if call.comm.rank() != root {
        // SAFETY: the caller's promise.
        let data = unsafe { own.data("recvbuf of a rank that is not the root") }?;
        let bytes = call.own(data.bytes)?;
        let list = of_others(&mut call, data, blocks.is_even);
        call.after(bytes, move |stream| data.unpack_from(Form::Native, stream, &mut 0));
        call.what = ByteOperation::Scatter(bytes, list, root);
        return Ok(call);
    }
    let blocks = (blocks.describe)(call.comm.size())?.in_memory("sendbuf of the root")?;
    let list = blocks.list(&mut call);
    let bytes = call.own(blocks.bytes())?;
    let Block { start, len } = blocks.block(me);
    // SAFETY: the caller's promise.
    let apart = unsafe { own.apart() }?;
    blocks.check_apart(apart)?;
    if let Some(data) = apart.filter(|data| len > data.bytes) {
        return Err(CallFault::new(MPI_ERR_TRUNCATE, format!("a block of {len} bytes into {}", data.bytes)));
    }
    call.before(bytes, move |stream| {
        blocks.pack(stream, |_| true)?;
        let own = stream.get(start..start + len).unwrap_or_default();
        apart.map_or(Ok(()), |data| data.unpack_from(Form::Native, own, &mut 0))
    });
    call.what = ByteOperation::Scatter(bytes, list, root);
    Ok(call)
}

/// A gather for all.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn allgather(
    own: Given,
    blocks: impl FnOnce(u32) -> Result<RankBlocks, CallFault>,
    comm: Handle,
) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    if call.comm.is_inter() {
        // SAFETY: the caller's promise.
        return unsafe { across::allgather(call, own, blocks) };
    }
    let me = call.me();
    let blocks = Rc::new(blocks(call.comm.size())?.in_memory("recvbuf")?);
    let list = blocks.list(&mut call);
    // SAFETY: the caller's promise.
    let (apart, there) = (unsafe { own.apart() }?, Rc::clone(&blocks));
    let in_place = match (blocks.in_place()?, apart) {
        (Some(bytes), Some(data)) if !data.is_apart(bytes)? => None,
        (in_place, _) => in_place,
    };
    if let Some(bytes) = in_place {
        if let Some(data) = apart {
            call.before(bytes, move |stream| put(stream, &there, me, data));
        }
        call.what = ByteOperation::Allgather(bytes, list);
        return Ok(call);
    }
    blocks.check_apart(apart)?;
    let bytes = call.own(blocks.bytes())?;
    call.before(bytes, move |stream| match apart {
        Some(data) => put(stream, &there, me, data),
        None => there.pack(stream, |rank| rank == me),
    });
    call.after(bytes, move |stream| blocks.unpack(stream, |_| true));
    call.what = ByteOperation::Allgather(bytes, list);
    Ok(call)
}

fn alltoall(given: Option<RankBlocks>, taken: RankBlocks, comm: Handle) -> Result<CollectiveCall, CallFault> {
    let mut call = CollectiveCall::new(comm)?;
    let given = given.map(|given| given.in_memory("sendbuf")).transpose()?;
    let taken = taken.in_memory("recvbuf")?;
    if call.comm.is_inter() {
        return across::alltoall(call, given, taken);
    }
    let taken = Rc::new(taken);
    // In place, what is given is where the rest goes: a copy of it.
    let is_copied = given.is_none();
    if let Some(given) = &given {
        given.check_all_apart(&taken)?;
    }
    let given = given.map_or_else(|| Rc::clone(&taken), Rc::new);
    given.check_rooms(call.me(), &taken)?;
    let (from, to) = (given.list(&mut call), taken.list(&mut call));
    let input = given_of(&mut call, given, is_copied)?;
    let bytes = taken_of(&mut call, taken, |_| true)?;
    let is_even = from.is_even() && to.is_even();
    let scratch = if is_even { alltoall_scratch_bytes(call.comm.size(), bytes.len()) } else { 0 };
    let scratch = call.own(scratch)?;
    call.what = ByteOperation::Alltoall(input, from, bytes, to, scratch);
    Ok(call)
}

/// Ranks of an exchange from which on messages may be shared by blocks, and the most bytes of
/// scratch for that.
const SHARING_RANKS_MIN: u32 = 8;
const SHARING_BYTES_MAX: usize = 64 << 10;

/// Returns the bytes of scratch for an exchange of so many bytes in blocks of one length: of few
/// ranks, or for long blocks, none, as each block is then a message. All ranks come to the same.
fn alltoall_scratch_bytes(ranks: u32, bytes: usize) -> usize {
    let scratch = bytes.saturating_mul(2);
    if ranks >= SHARING_RANKS_MIN && scratch <= SHARING_BYTES_MAX { scratch } else { 0 }
}

/// Returns what is given of an exchange in one piece, as it stands or as a copy.
fn given_of(call: &mut CollectiveCall, given: Rc<RankBlocks>, is_copied: bool) -> Result<Region, CallFault> {
    if let (false, Some(bytes)) = (is_copied, given.in_place()?) {
        return Ok(bytes);
    }
    let bytes = call.own(given.bytes())?;
    call.before(bytes, move |stream| given.pack(stream, |_| true));
    Ok(bytes)
}

/// Returns the memory, in one piece, to which the wanted blocks of an exchange come.
fn taken_of(
    call: &mut CollectiveCall,
    taken: Rc<RankBlocks>,
    is_wanted: impl Fn(usize) -> bool + 'static,
) -> Result<Region, CallFault> {
    if let Some(bytes) = taken.in_place()? {
        return Ok(bytes);
    }
    let bytes = call.own(taken.bytes())?;
    call.after(bytes, move |stream| taken.unpack(stream, &is_wanted));
    Ok(bytes)
}

/// Returns the number of ranks that data are exchanged with: those of the other group, if there is
/// one.
fn partners(comm: Handle) -> Result<u32, CallFault> {
    let comm = communicators::of(comm)?;
    Ok(if comm.is_inter() { comm.remote_size() } else { comm.size() })
}

/// Returns what the program lists for so many ranks, to be read where it stands.
///
/// # Safety
/// There is one for each, unless it is null.
#[inline(always)]
unsafe fn of_ranks<T: Copy + 'static>(list: &Ptr<T>, ranks: u32) -> Result<Array<'_, T>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { list.array(ranks as usize) }
}

/// Numbers of the program's, an `int` or more each, one a rank.
///
/// # Safety
/// There are so many, unless it is null.
unsafe fn wide<T: Copy + 'static>(
    array: Ptr<T>,
    ranks: u32,
    number: impl Fn(T) -> i64,
) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    Ok(unsafe { array.array(ranks as usize) }?.iter().map(number).collect())
}

/// Such numbers.
///
/// # Safety
/// There is one for each partner, unless it is null.
unsafe fn ints(array: Ptr<c_int>, comm: Handle) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { wide(array, partners(comm)?, i64::from) }
}

/// Such numbers.
///
/// # Safety
/// There is one for each partner, unless it is null.
unsafe fn counts(array: Ptr<i64>, comm: Handle) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { wide(array, partners(comm)?, |count| count) }
}

/// Such numbers.
///
/// # Safety
/// There is one for each partner, unless it is null.
unsafe fn places(array: Ptr<isize>, comm: Handle) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { wide(array, partners(comm)?, |place| place as i64) }
}

/// The parts that the ranks of the own group get of a result.
///
/// # Safety
/// As for [`wide`].
unsafe fn parts<T: Copy + Into<i64> + 'static>(array: Ptr<T>, comm: Handle) -> Result<Vec<i64>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { wide(array, communicators::of(comm)?.size(), Into::into) }
}

/// Returns the data that are given, unless they are in place.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn given_even(
    data: Address,
    count: i64,
    datatype: Handle,
    comm: Handle,
) -> Result<Option<RankBlocks>, CallFault> {
    if data.is_in_place() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { RankBlocks::even(data, count, datatype, partners(comm)?) }.map(Some)
}

/// Returns the memory of the blocks that are received.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn taken_even(into: Address, room: i64, kind: Handle, comm: Handle) -> Result<RankBlocks, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { RankBlocks::even(into, room, kind, partners(comm)?) }
}

/// The types of blocks.
///
/// # Safety
/// There is one for each partner, unless it is null.
unsafe fn kinds_of(of: Ptr<Handle>, comm: Handle) -> Result<Vec<Handle>, CallFault> {
    // SAFETY: the caller's promise.
    Ok(unsafe { of.array(partners(comm)? as usize) }?.to_vec())
}
