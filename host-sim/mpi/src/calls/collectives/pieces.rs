//! This module holds `unsafe` code: data of the program's in one piece, lent to a collective while
//! it runs.
//!
//! Collectives on blocks in one piece, carried out straight from the arguments: what
//! [`CollectiveCall`](super::CollectiveCall) writes down takes longer than a short one does. Each
//! returns false, with nothing done, for a call that takes more, and for one whose arguments are
//! wrong, which is told there.

use core::ffi::c_int;

use aldis_coll::BlockCall;
use aldis_kernel::{Comm, Rank};

use super::Given;
use crate::abi::{Handle, MPI_ERR_ROOT};
use crate::fault::CallFault;
use crate::ffi::Region;
use crate::objects::communicators::{self, rank_in};
use crate::objects::datatypes::{ContiguousData, piece};
use crate::process::engine;
use crate::requests::is_alone;

/// The communicator of a call, if it is of one group and nothing else has to go on meanwhile.
fn plain(comm: Handle) -> Result<Option<Comm>, CallFault> {
    let of = communicators::of(comm)?;
    Ok(Some(of).filter(|of| !of.is_inter() && is_alone()))
}

/// The data of so many ranks as one piece, if they are one.
fn whole(data: Given, ranks: u32) -> Option<Region> {
    let count = data.count.checked_mul(ranks.into()).filter(|_| !data.address.is_in_place())?;
    match piece(data.address, count, data.datatype) {
        Some(ContiguousData::Bytes(bytes) | ContiguousData::Elements(bytes, ..)) => Some(bytes),
        None => None,
    }
}

/// The blocks of all ranks in one piece, and this rank's own data beside it, if those are not in
/// place.
struct OwnAndBlocks {
    blocks: Region,
    own: Option<Region>,
}

impl OwnAndBlocks {
    /// The two of a call, if both are in one piece, apart, and this rank's block is as long as its
    /// own data.
    fn of(own: Given, blocks: Given, ranks: u32) -> Option<Self> {
        let blocks = whole(blocks, ranks)?;
        if own.address.is_in_place() {
            return Some(Self { blocks, own: None });
        }
        let own = whole(own, 1)?;
        let is_like = own.len().checked_mul(ranks as usize) == Some(blocks.len());
        (is_like && !own.overlaps(blocks)).then_some(Self { blocks, own: Some(own) })
    }
}

/// This rank's block among those of all.
fn block_of(blocks: &mut [u8], rank: Rank, len: usize) -> &mut [u8] {
    let start = rank.0 as usize * len;
    blocks.get_mut(start..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
}

/// Carries a call out.
fn run(call: BlockCall<'_>, comm: &Comm) -> Result<bool, CallFault> {
    engine::with(|engine| Ok(call.run(engine.endpoint(), comm)?))?;
    Ok(true)
}

/// Carries out a gather or a scatter of blocks of one length, as `call` describes it on data of
/// this rank. `copy` moves this rank's own data to their block among all, or from it, at the root.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new); `copy` writes one of
/// the two.
unsafe fn try_rooted(
    call: for<'m> fn(&'m mut [u8], &'m mut [u8], Rank) -> BlockCall<'m>,
    [own, blocks]: [Given; 2],
    root: c_int,
    comm: Handle,
    copy: impl FnOnce(&mut [u8], Region),
) -> Result<bool, CallFault> {
    let Some(comm) = plain(comm)? else { return Ok(false) };
    let root = rank_in(root, comm.size(), MPI_ERR_ROOT)?;
    if comm.rank() != root {
        let Some(own) = whole(own, 1) else { return Ok(false) };
        // SAFETY: the program leaves them alone until the call is over.
        return run(call(unsafe { own.bytes() }, &mut [], root), &comm);
    }
    let Some(OwnAndBlocks { blocks, own }) = OwnAndBlocks::of(own, blocks, comm.size()) else {
        return Ok(false);
    };
    // SAFETY: as above; what is this rank's own is apart.
    let blocks = unsafe { blocks.bytes() };
    if let Some(own) = own {
        copy(block_of(blocks, root, own.len()), own);
    }
    run(call(blocks, &mut [], root), &comm)
}

/// A gather of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_gather(
    own: Given,
    blocks: Given,
    root: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is read and is apart from its block.
    unsafe {
        try_rooted(aldis_coll::gather, [own, blocks], root, comm, |block, own| {
            block.copy_from_slice(own.shown());
        })
    }
}

/// A scatter of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_scatter(
    blocks: Given,
    own: Given,
    root: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is written and is apart from its block.
    unsafe {
        try_rooted(aldis_coll::scatter, [own, blocks], root, comm, |block, own| {
            own.bytes().copy_from_slice(block);
        })
    }
}

/// A gather of blocks of one length for all.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_allgather(own: Given, blocks: Given, comm: Handle) -> Result<bool, CallFault> {
    let Some(comm) = plain(comm)? else { return Ok(false) };
    let Some(OwnAndBlocks { blocks, own }) = OwnAndBlocks::of(own, blocks, comm.size()) else {
        return Ok(false);
    };
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (blocks, own) = unsafe { (blocks.bytes(), own.map(|own| own.shown())) };
    if let Some(own) = own {
        block_of(blocks, comm.rank(), own.len()).copy_from_slice(own);
    }
    run(aldis_coll::allgather(blocks), &comm)
}

/// An exchange of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_alltoall(given: Given, taken: Given, comm: Handle) -> Result<bool, CallFault> {
    let Some(comm) = plain(comm)? else { return Ok(false) };
    let ranks = comm.size();
    let (Some(given), Some(taken)) = (whole(given, ranks), whole(taken, ranks)) else {
        return Ok(false);
    };
    if given.len() != taken.len() || given.overlaps(taken) {
        return Ok(false);
    }
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (given, taken) = unsafe { (given.shown(), taken.bytes()) };
    run(aldis_coll::alltoall(given, taken, &mut []), &comm)
}
