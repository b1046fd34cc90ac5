//! This module holds `unsafe` code: data of the program's in one piece, lent to a collective while
//! it runs.
//!
//! Collectives on blocks in one piece, carried out straight from the arguments: what
//! [`CollectiveCall`](super::CollectiveCall) writes down takes longer than a short one does. Each
//! returns false, with nothing done, for a call that takes more, and for one whose arguments are
//! wrong, which is told there.

use core::ffi::c_int;

use aldis_coll::layout::Block;
use aldis_coll::{BlockCall, NeighborCall};
use aldis_kernel::{Comm, Rank};

use super::call::{BlockingCall, ByteCall, CallComm, CallForm};
use super::{Given, alltoall_scratch_bytes};
use crate::abi::{Handle, MPI_ERR_ROOT};
use crate::fault::CallFault;
use crate::ffi::{Address, Array, Region};
use crate::objects::communicators::{self, rank_in};
use crate::objects::datatypes::piece_memory;
use crate::process::engine;
use crate::process::spare::Spare;

/// Returns true if a call on this communicator is of one group, and can be carried out at once in
/// this form.
#[inline(always)]
fn is_plain(comm: &Comm, form: CallForm) -> bool {
    !comm.is_inter() && form.takes_fast_path()
}

/// The data of so many ranks as one piece, if they are one.
#[inline(always)]
fn whole(data: Given, ranks: u32) -> Option<Region> {
    let count = data.count.checked_mul(ranks.into()).filter(|_| !data.address.is_in_place())?;
    piece_memory(data.address, count, data.datatype)
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
    #[inline(always)]
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

/// Carries a call out in this form.
///
/// # Safety
/// Its data are the program's, which leaves them alone until it is over.
#[inline(always)]
unsafe fn run(
    form: CallForm,
    describe: impl FnOnce() -> BlockCall<'static>,
    on: CallComm<'_>,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { form.carry_out(describe, on) }?;
    Ok(true)
}

/// Carries out a call among neighbours in a grid, with data for so many destinations and from so
/// many sources.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
unsafe fn try_in_grid(
    form: CallForm,
    [given, taken]: [Given; 2],
    handle: Handle,
    call: NeighborForm,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !is_plain(comm, form) {
        return Ok(false);
    }
    let topology = communicators::topology(handle)?;
    let [sources, destinations] = topology.degrees();
    let blocks = if call.is_gather { 1 } else { destinations };
    let (Some(given), Some(taken)) = (whole(given, blocks), whole(taken, sources)) else {
        return Ok(false);
    };
    let is_even = given.len().checked_mul(sources as usize) == taken.len().checked_mul(blocks as usize);
    if !topology.is_grid() || !is_even || given.overlaps(taken) {
        return Ok(false);
    }
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    unsafe {
        let call = (call.describe)(given.shown(), taken.bytes());
        form.carry_out(|| ByteCall::Neighbors(call, topology), CallComm { handle, comm })?;
    }
    Ok(true)
}

/// A call among neighbours on blocks of one length.
struct NeighborForm {
    describe: fn(&'static [u8], &'static mut [u8]) -> NeighborCall<'static>,
    /// True if all neighbours are given the same.
    is_gather: bool,
}

/// A gather from neighbours.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_neighbor_allgather(
    form: CallForm,
    own: Given,
    blocks: Given,
    comm: Handle,
) -> Result<bool, CallFault> {
    let describe = |given, taken| aldis_coll::neighbor_allgather(given, taken);
    // SAFETY: the caller's promise.
    unsafe { try_in_grid(form, [own, blocks], comm, NeighborForm { describe, is_gather: true }) }
}

/// An exchange of blocks with neighbours.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_neighbor_alltoall(
    form: CallForm,
    given: Given,
    taken: Given,
    comm: Handle,
) -> Result<bool, CallFault> {
    let describe = |given, taken| aldis_coll::neighbor_alltoall(given, taken);
    // SAFETY: the caller's promise.
    unsafe { try_in_grid(form, [given, taken], comm, NeighborForm { describe, is_gather: false }) }
}

/// A gather or a scatter of blocks of one length.
struct RootedCall<D, C> {
    handle: Handle,
    /// Describes it on data of this rank.
    describe: D,
    /// Moves this rank's own data to their block among all, or from it, at the root.
    copy: C,
}

/// Carries out such a call at a root, on a communicator.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new); the copy writes one of
/// the two.
#[inline(always)]
unsafe fn try_rooted(
    form: CallForm,
    [own, blocks]: [Given; 2],
    root: c_int,
    rooted: RootedCall<
        impl FnOnce(&'static mut [u8], Rank) -> BlockCall<'static>,
        impl FnOnce(&mut [u8], Region),
    >,
) -> Result<bool, CallFault> {
    let RootedCall { handle, describe, copy } = rooted;
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !is_plain(comm, form) {
        return Ok(false);
    }
    let root = rank_in(root, comm.size(), MPI_ERR_ROOT)?;
    let data = if comm.rank() == root {
        let Some(OwnAndBlocks { blocks, own }) = OwnAndBlocks::of(own, blocks, comm.size()) else {
            return Ok(false);
        };
        if let Some(own) = own {
            // SAFETY: the program leaves them alone until the call is over; what is this rank's own
            // is apart.
            copy(block_of(unsafe { blocks.bytes() }, root, own.len()), own);
        }
        blocks
    } else {
        let Some(own) = whole(own, 1) else { return Ok(false) };
        own
    };
    // SAFETY: as above.
    unsafe { run(form, || describe(data.bytes(), root), CallComm { handle, comm }) }
}

/// A gather of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_gather(
    form: CallForm,
    own: Given,
    blocks: Given,
    root: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is read and is apart from its block.
    unsafe {
        let copy = |block: &mut [u8], own: Region| block.copy_from_slice(own.shown());
        let describe = |data, root| aldis_coll::gather(data, &mut [], root);
        try_rooted(form, [own, blocks], root, RootedCall { handle: comm, describe, copy })
    }
}

/// A scatter of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
#[inline(always)]
pub(super) unsafe fn try_scatter(
    form: CallForm,
    blocks: Given,
    own: Given,
    root: c_int,
    comm: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is written and is apart from its block.
    unsafe {
        let copy = |block: &mut [u8], own: Region| own.bytes().copy_from_slice(block);
        let describe = |data, root| aldis_coll::scatter(data, &mut [], root);
        try_rooted(form, [own, blocks], root, RootedCall { handle: comm, describe, copy })
    }
}

/// A gather of blocks of one length for all.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_allgather(
    form: CallForm,
    own: Given,
    blocks: Given,
    handle: Handle,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !is_plain(comm, form) {
        return Ok(false);
    }
    let Some(OwnAndBlocks { blocks, own }) = OwnAndBlocks::of(own, blocks, comm.size()) else {
        return Ok(false);
    };
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (blocks, own) = unsafe { (blocks.bytes(), own.map(|own| own.shown())) };
    let call = match own {
        Some(own) => aldis_coll::allgather_from(own, blocks),
        None => aldis_coll::allgather(blocks),
    };
    // SAFETY: as above.
    unsafe { run(form, || call, CallComm { handle, comm }) }
}

/// A number of the program's, an `int` or more.
pub(super) trait ListedNumber: Copy + 'static {
    fn wide(self) -> i64;
}

impl ListedNumber for c_int {
    fn wide(self) -> i64 {
        self.into()
    }
}

impl ListedNumber for i64 {
    fn wide(self) -> i64 {
        self
    }
}

impl ListedNumber for isize {
    fn wide(self) -> i64 {
        self as i64
    }
}

/// The datatypes of listed blocks.
pub(super) enum ListedTypes<'call> {
    /// That of all, in whose elements their places are.
    One(Handle),
    /// Those of the ranks, whose places are in bytes.
    Each(Array<'call, Handle>),
}

/// The blocks of all ranks as a program lists them, by their count and place.
pub(super) struct ListedBlocks<'call, C, P> {
    pub(super) address: Address,
    pub(super) counts: Array<'call, C>,
    pub(super) places: Array<'call, P>,
    pub(super) types: ListedTypes<'call>,
}

impl<C: ListedNumber, P: ListedNumber> ListedBlocks<'_, C, P> {
    /// Returns the memory of all, and in `list` where in it each is; `None` if they are not one
    /// behind the other, in the order of ranks: what stands between is not the call's.
    #[inline(always)]
    fn pieces(&self, list: &mut ShortList) -> Option<Region> {
        let bytes_of = |datatype| Some(piece_memory(self.address, 1, datatype)?.len());
        let (mut element, mut unit) = (0, 1);
        if let ListedTypes::One(datatype) = self.types {
            element = bytes_of(datatype)?;
            unit = i64::try_from(element).ok()?;
        }
        let (mut end, mut first) = (0_usize, None);
        for (rank, block) in list.resize(self.counts.len()).iter_mut().enumerate() {
            let (count, place) = (self.counts.get(rank)?.wide(), self.places.get(rank)?.wide());
            if let ListedTypes::Each(types) = self.types {
                element = if count == 0 { 0 } else { bytes_of(types.get(rank)?)? };
            }
            let (start, len) = (end, usize::try_from(count).ok()?.checked_mul(element)?);
            if len > 0 {
                let place = place.checked_mul(unit)?;
                let before = place.checked_sub(*first.get_or_insert(place))?;
                (usize::try_from(before).ok()? == start).then_some(())?;
                end = start.checked_add(len)?;
            }
            *block = Block { start, len };
        }
        let Some(first) = first else { return Some(Region::NONE) };
        self.address.region_in_memory(isize::try_from(first).ok()?, end)
    }
}

/// Blocks of a call that is over when it returns: on the stack, if they are few. Made where they
/// stay: to move them takes longer than a short call does.
#[derive(Default)]
pub(super) struct ShortList {
    few: [Block; Self::FEW],
    many: Vec<Block>,
    len: usize,
}

impl ShortList {
    const FEW: usize = 8;

    /// Makes room for so many, and returns them.
    #[inline(always)]
    pub(super) fn resize(&mut self, len: usize) -> &mut [Block] {
        self.len = len;
        if len > Self::FEW {
            self.many.resize(len, Block::default());
            return &mut self.many;
        }
        self.few.get_mut(..len).unwrap_or_default()
    }

    #[inline(always)]
    pub(super) fn blocks(&self) -> &[Block] {
        if self.len > Self::FEW { &self.many } else { self.few.get(..self.len).unwrap_or_default() }
    }
}

/// A rank's own data beside the blocks of all, if they are not in place.
#[derive(Clone, Copy)]
struct OwnAndListed {
    blocks: Region,
    /// This rank's block among them.
    place: Block,
    own: Option<Region>,
}

impl OwnAndListed {
    /// The two of a call, if both are in one piece, apart, and a rank's block is as long as its own
    /// data; in `list` where the blocks are.
    #[inline(always)]
    fn of(
        own: Given,
        blocks: &ListedBlocks<'_, impl ListedNumber, impl ListedNumber>,
        rank: Rank,
        list: &mut ShortList,
    ) -> Option<Self> {
        let blocks = blocks.pieces(list)?;
        let place = *list.blocks().get(rank.0 as usize)?;
        if own.address.is_in_place() {
            return Some(Self { blocks, place, own: None });
        }
        let own = whole(own, 1)?;
        (place.len == own.len() && !own.overlaps(blocks)).then_some(Self { blocks, place, own: Some(own) })
    }

    /// Moves this rank's own data to their block among all, or from it, unless they are in place.
    ///
    /// # Safety
    /// The program leaves both alone until the call is over; the copy writes one of the two.
    #[inline(always)]
    unsafe fn copy(self, copy: impl FnOnce(&mut [u8], Region)) {
        let Self { own: Some(own), place, .. } = self else { return };
        // SAFETY: the caller's promise; what is this rank's own is apart.
        let bytes = unsafe { self.blocks.bytes() };
        copy(bytes.get_mut(place.start..place.start + place.len).unwrap_or_default(), own);
    }
}

/// A gather for all of blocks as listed, if it is to be carried out at once.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_allgatherv<'call, C: ListedNumber, P: ListedNumber>(
    form: CallForm,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<ListedBlocks<'call, C, P>, CallFault>,
    handle: Handle,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !(form.is_blocking() && is_plain(comm, form)) {
        return Ok(false);
    }
    let me = comm.rank();
    let mut list = ShortList::default();
    let Some(listed) = OwnAndListed::of(own, &blocks(comm.size())?, me, &mut list) else { return Ok(false) };
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (bytes, own) = unsafe { (listed.blocks.bytes(), listed.own.map(|own| own.shown())) };
    let blocks = list.blocks();
    let call = match own {
        Some(own) => aldis_coll::allgatherv_from(own, bytes, blocks),
        None => aldis_coll::allgatherv(bytes, blocks),
    };
    engine::with(|engine| Ok(call.run(engine.endpoint(), comm)?))?;
    Ok(true)
}

/// A gather or a scatter of blocks as the root lists them.
struct ListedCall<B, C> {
    handle: Handle,
    /// Asks the root for those of so many ranks.
    blocks: B,
    /// Describes it on data of this rank.
    describe: for<'m> fn(&'m mut [u8], &'m [Block], Rank) -> BlockCall<'m>,
    /// Moves this rank's own data to their block among all, or from it, at the root.
    copy: C,
}

/// Carries out such a call, if it is to be carried out at once.
///
/// # Safety
/// As for [`try_rooted`].
unsafe fn try_listed<'call, C: ListedNumber, P: ListedNumber>(
    form: CallForm,
    own: Given,
    root: c_int,
    call: ListedCall<
        impl FnOnce(u32) -> Result<ListedBlocks<'call, C, P>, CallFault>,
        impl FnOnce(&mut [u8], Region),
    >,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(call.handle, &mut place)?;
    if !(form.is_blocking() && is_plain(comm, form)) {
        return Ok(false);
    }
    let root = rank_in(root, comm.size(), MPI_ERR_ROOT)?;
    let mut list = ShortList::default();
    let data = if comm.rank() == root {
        let blocks = (call.blocks)(comm.size())?;
        let Some(listed) = OwnAndListed::of(own, &blocks, root, &mut list) else { return Ok(false) };
        // SAFETY: the caller's promise.
        unsafe { listed.copy(call.copy) };
        listed.blocks
    } else {
        let Some(own) = whole(own, 1) else { return Ok(false) };
        own
    };
    // SAFETY: the program leaves it alone until the call is over.
    let call = (call.describe)(unsafe { data.bytes() }, list.blocks(), root);
    engine::with(|engine| Ok(call.run(engine.endpoint(), comm)?))?;
    Ok(true)
}

/// A gather of blocks as the root lists them.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_gatherv<'call, C: ListedNumber, P: ListedNumber>(
    form: CallForm,
    own: Given,
    blocks: impl FnOnce(u32) -> Result<ListedBlocks<'call, C, P>, CallFault>,
    root: c_int,
    handle: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is read and is apart from its block.
    unsafe {
        let copy = |block: &mut [u8], own: Region| block.copy_from_slice(own.shown());
        let describe = aldis_coll::gatherv;
        try_listed(form, own, root, ListedCall { handle, blocks, describe, copy })
    }
}

/// A scatter of blocks as the root lists them.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_scatterv<'call, C: ListedNumber, P: ListedNumber>(
    form: CallForm,
    blocks: impl FnOnce(u32) -> Result<ListedBlocks<'call, C, P>, CallFault>,
    own: Given,
    root: c_int,
    handle: Handle,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise; it is written and is apart from its block.
    unsafe {
        let copy = |block: &mut [u8], own: Region| own.bytes().copy_from_slice(block);
        let describe = aldis_coll::scatterv;
        try_listed(form, own, root, ListedCall { handle, blocks, describe, copy })
    }
}

/// An exchange of blocks as listed, first those given at an address, then those taken, if it is to
/// be carried out at once.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_alltoallv<'call, C: ListedNumber, P: ListedNumber>(
    form: CallForm,
    given: Address,
    blocks: impl FnOnce(u32) -> Result<[ListedBlocks<'call, C, P>; 2], CallFault>,
    handle: Handle,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !(form.is_blocking() && is_plain(comm, form)) {
        return Ok(false);
    }
    if given.is_in_place() {
        return Ok(false);
    }
    let [given, taken] = blocks(comm.size())?;
    let (mut from, mut to) = (ShortList::default(), ShortList::default());
    let (Some(given), Some(taken)) = (given.pieces(&mut from), taken.pieces(&mut to)) else {
        return Ok(false);
    };
    let own = |list: &ShortList| list.blocks().get(comm.rank().0 as usize).map(|block| block.len);
    if own(&from) != own(&to) || given.overlaps(taken) {
        return Ok(false);
    }
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let call = unsafe { aldis_coll::alltoallv(given.shown(), from.blocks(), taken.bytes(), to.blocks()) };
    engine::with(|engine| Ok(call.run(engine.endpoint(), comm)?))?;
    Ok(true)
}

/// An exchange of blocks of one length.
///
/// # Safety
/// As for [`ProgramData::new`](crate::objects::datatypes::ProgramData::new).
pub(super) unsafe fn try_alltoall(
    form: CallForm,
    given: Given,
    taken: Given,
    handle: Handle,
) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(handle, &mut place)?;
    if !is_plain(comm, form) {
        return Ok(false);
    }
    let ranks = comm.size();
    let (Some(given), Some(taken)) = (whole(given, ranks), whole(taken, ranks)) else {
        return Ok(false);
    };
    if given.len() != taken.len() || given.overlaps(taken) {
        return Ok(false);
    }
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (given, taken) = unsafe { (given.shown(), taken.bytes()) };
    let on = CallComm { handle, comm };
    let scratch_bytes = alltoall_scratch_bytes(ranks, taken.len());
    if scratch_bytes == 0 {
        // SAFETY: as above.
        return unsafe { run(form, || aldis_coll::alltoall(given, taken, &mut []), on) };
    }
    let mut scratch = Spare::new(scratch_bytes)?;
    // SAFETY: it is there until the call is over: here, or with its request.
    let call = unsafe { aldis_coll::alltoall(given, taken, scratch.region().bytes()) };
    match form {
        CallForm::Blocking => engine::with(|engine| call.run_on(engine.endpoint(), comm))?,
        // SAFETY: as above; the scratch is kept with it.
        CallForm::Nonblocking(request) => unsafe {
            ByteCall::Blocks(call).start(on, [scratch, Spare::default()], request)?;
        },
    }
    Ok(true)
}
