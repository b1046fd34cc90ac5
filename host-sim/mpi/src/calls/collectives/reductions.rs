//! This module holds `unsafe` code: the operands of reductions, as the program gives them.
//!
//! Reductions: in the program's memory where they can be, else in memory of the library's.

use core::ffi::c_int;

use aldis_coll::dyn_op::{
    DynReduction, reduce_by, reduce_by_from, reduce_scatter_block_by, reduce_scatter_by,
};
use aldis_coll::layout::Block;
use aldis_coll::op::Kernel;
use aldis_coll::shared::SLOT_BYTES;
use aldis_coll::{InputBlocks, StartMode, inter};
use aldis_hal::Operation;
use aldis_kernel::{Comm, Rank};

use super::Operand;
use super::across::{self, Where};
use super::call::{BlockList, ByteCall, ByteOperation, CallComm, CallForm, CollectiveCall};
use super::pieces::ShortList;
use crate::abi::{Handle, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_ROOT, MPI_PROC_NULL, MPI_ROOT};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr, Region};
use crate::objects::communicators::{self, rank_in};
use crate::objects::datatypes::{self, ProgramData};
use crate::objects::operations;
use crate::process::engine;
use crate::process::spare::{ShortSpare, Spare};
use crate::requests::{self, CollectiveProgress};

/// The arguments of a reduction.
#[derive(Clone, Copy)]
pub(super) struct Reduction {
    pub(super) input: Address,
    pub(super) into: Address,
    pub(super) count: i64,
    pub(super) datatype: Handle,
    pub(super) op: Handle,
    pub(super) comm: Handle,
}

impl Reduction {
    /// The call, in memory of its own, which is read before and is not written back; and where that
    /// is.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    unsafe fn call(
        self,
        operation: Operation,
        root: Option<c_int>,
    ) -> Result<(CollectiveCall, Operand, Region), CallFault> {
        let Self { input, into, count, datatype, op, comm } = self;
        let mut call = CollectiveCall::new(comm)?;
        if count < 0 {
            return Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")));
        }
        let kernel = operations::kernel(op, datatype)?;
        let place = match root {
            _ if call.comm.is_inter() => Where::across(&call, operation, root)?,
            root => Where::Within(root.map_or(Ok(Rank(0)), |root| call.root(root))?),
        };
        let given = if input.is_in_place() { into } else { input };
        let operand = Operand::new(count, datatype)?;
        let (data, scratch) = (call.own(operand.bytes())?, call.own(operand.bytes())?);
        if place.gives() {
            across::no_place(&call, input)?;
            // SAFETY: the caller's promise.
            let given = unsafe { operand.data(given) }?;
            call.before(data, move |memory| operand.read(&given, memory));
        }
        call.what = match place {
            Where::Within(root) => {
                ByteOperation::Reduce(DynReduction { operation, kernel, root }, data, scratch)
            }
            Where::ToAll => across::across(move || {
                // SAFETY: both are memory of the call, each its own, which nothing else touches
                // while the collective is under way.
                unsafe { inter::allreduce_by(kernel, data.bytes(), scratch.bytes()) }
            }),
            Where::To(root) => across::across(move || {
                // SAFETY: as above.
                unsafe { inter::reduce_by(kernel, data.bytes(), scratch.bytes(), root) }
            }),
        };
        Ok((call, operand, data))
    }

    /// Refuses `MPI_IN_PLACE` for the result, and for what a rank gives that has none.
    fn check(&self, operation: Operation, root: Option<c_int>) -> Result<(), CallFault> {
        let comm = communicators::of(self.comm)?;
        let is_beside = !has_result(&comm, operation, root);
        if operation == Operation::Reduce && is_beside {
            return if comm.is_inter() {
                Ok(())
            } else {
                self.input.check("sendbuf of a rank that is not the root")
            };
        }
        // What is given lies there, where there is no result too.
        if is_beside && !self.input.is_in_place() { Ok(()) } else { self.into.check("recvbuf") }
    }

    /// Refuses data in one piece that share memory with the part of the result that this rank gets.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    unsafe fn check_apart(&self, part: i64) -> Result<(), CallFault> {
        let &Self { input, into, count, datatype, .. } = self;
        if input.is_in_place() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let [given, result] =
            unsafe { [ProgramData::new(input, count, datatype)?, ProgramData::new(into, part, datatype)?] };
        if given.overlaps(&result)? { Err(CallFault::new(MPI_ERR_BUFFER, ALIASED)) } else { Ok(()) }
    }

    /// The data, if they are in one piece and aligned as elements are, of one group: put together
    /// where the result goes, if this rank has one, else in a copy.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    #[inline(always)]
    unsafe fn piece<'c>(
        &self,
        comm: &'c Comm,
        operation: Operation,
        root: Option<c_int>,
    ) -> Result<Option<ReductionPiece<'c>>, CallFault> {
        let &Self { input, into, count, datatype, op, .. } = self;
        if comm.is_inter() {
            return Ok(None);
        }
        let me = comm.rank();
        let root = root.map_or(Ok(me), |root| rank_in(root, comm.size(), MPI_ERR_ROOT))?;
        let has_result = match operation {
            Operation::Reduce => root == me,
            Operation::Exscan => me != Rank(0),
            _ => true,
        };
        if operation == Operation::Exscan && !has_result {
            // As the other ranks do.
            // SAFETY: the caller's promise.
            unsafe { self.check_apart(count) }?;
        }
        let what = DynReduction { operation, kernel: operations::kernel(op, datatype)?, root };
        // SAFETY: the caller's promise.
        let dense = |address| unsafe { dense(address, count, datatype) };
        let given = if input.is_in_place() { None } else { dense(input)? };
        let of_result = || dense(into).map_err(|fault| into.named("recvbuf", fault));
        let result = if has_result { of_result()? } else { None };
        // The rank that has no result of a prefix gets the others' error all the same.
        let is_same =
            !has_result && operation == Operation::Exscan && input.address() == into.address() && count > 0;
        Ok(match (given, result) {
            (Some(_), None) if is_same => return Err(CallFault::new(MPI_ERR_BUFFER, ALIASED)),
            (Some(given), None) if !has_result => {
                Some(ReductionPiece { comm, what, given: Some(given), result: None })
            }
            (given, Some(result)) if is_aligned(result, &what.kernel) => {
                if given.is_some_and(|given| given.overlaps(result)) {
                    return Err(CallFault::new(MPI_ERR_BUFFER, ALIASED));
                }
                Some(ReductionPiece { comm, what, given, result: Some(result) })
            }
            _ => None,
        })
    }
}

/// Returns the memory of data in one piece: a look at the datatype, for most.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(always)]
unsafe fn dense(address: Address, count: i64, datatype: Handle) -> Result<Option<Region>, CallFault> {
    Ok(match datatypes::piece_memory(address, count, datatype) {
        Some(memory) => Some(memory),
        // SAFETY: the caller's promise.
        None => unsafe { described(address, count, datatype) }?,
    })
}

/// Returns the memory of data that more has to be looked up for.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(never)]
unsafe fn described(address: Address, count: i64, datatype: Handle) -> Result<Option<Region>, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { ProgramData::new(address, count, datatype) }?.dense()
}

/// Data of a reduction in one piece. What is given and where the result goes are apart.
struct ReductionPiece<'c> {
    comm: &'c Comm,
    what: DynReduction,
    /// The data that this rank gives, unless they are in place.
    given: Option<Region>,
    /// The memory of the result, if this rank has one.
    result: Option<Region>,
}

impl ReductionPiece<'_> {
    /// The call on it.
    fn call(self, comm: Handle) -> Result<CollectiveCall, CallFault> {
        let Self { what, given, result, .. } = self;
        let mut call = CollectiveCall::new(comm)?;
        let len = given.map_or(0, Region::len);
        let data = result.map_or_else(|| call.own(len), Ok)?;
        if let Some(given) = given {
            call.before(data, move |data| {
                // SAFETY: it is apart from `data`, and the program leaves it as it is until the
                // operation is over.
                data.copy_from_slice(unsafe { given.shown() });
                Ok(())
            });
        }
        let scratch = call.own(data.len())?;
        call.what = ByteOperation::Reduce(what, data, scratch);
        Ok(call)
    }

    /// Carries it out.
    #[inline(always)]
    fn run(self) -> Result<(), CallFault> {
        let Self { comm, what, given, result } = self;
        // Each by itself: a pair is copied in other pieces than it was written in, and so waits
        // until every store before has left the core.
        let mut own = ShortSpare::default();
        let mut scratch = ShortSpare::default();
        let data = match result {
            // SAFETY: the program leaves it alone until the call is over; what is given is apart.
            Some(result) => unsafe { result.bytes() },
            None => own.bytes(given.map_or(0, Region::len))?,
        };
        if let Some(given) = given {
            // SAFETY: the program leaves it as it is until the call is over.
            data.copy_from_slice(unsafe { given.shown() });
        }
        let scratch = scratch.bytes(data.len())?;
        engine::with(|engine| Ok(reduce_by(what, data, scratch).run(engine.endpoint(), comm)?))
    }

    /// Returns true if what this rank gives is worth leaving where it is: more than a control slot
    /// holds. Fewer bytes are copied sooner than it is asked where they stand.
    fn leaves_operand(&self) -> bool {
        let is_long = |given: Region| given.len() as u64 > SLOT_BYTES && is_aligned(given, &self.what.kernel);
        self.given.is_some_and(is_long)
    }

    /// Carries it out like [`run`](Self::run), but leaves what this rank gives where it is.
    fn run_apart(self) -> Result<(), CallFault> {
        let Self { comm, what, given, result } = self;
        let len = given.map_or(0, Region::len);
        let (mut scratch, mut own) = (Spare::new(len)?, Spare::new(if result.is_some() { 0 } else { len })?);
        let data = match result {
            // SAFETY: the program leaves it alone until the call is over; what is given is apart.
            Some(result) => unsafe { result.bytes() },
            None => own.bytes(),
        };
        // SAFETY: the program leaves it as it is until the call is over.
        let operand = given.map_or(&[][..], |given| unsafe { given.shown() });
        let call = reduce_by_from(what, operand, data, scratch.bytes());
        engine::with(|engine| Ok(call.run(engine.endpoint(), comm)?))
    }

    /// Starts it on the communicator with this handle, for a request of the program's.
    fn start(self, on: Handle, request: Ptr<Handle>) -> Result<(), CallFault> {
        let Self { comm, what, given, result } = self;
        let mut own = Spare::new(if result.is_none() { given.map_or(0, Region::len) } else { 0 })?;
        let data = result.unwrap_or_else(|| own.region());
        let mut scratch = Spare::new(data.len())?;
        // SAFETY: the program leaves its data alone until the collective is over, and what is the
        // library's is kept with it; what is given is apart.
        unsafe {
            if let Some(given) = given {
                data.bytes().copy_from_slice(given.shown());
            }
            let begun = engine::with(|engine| {
                let call = reduce_by(what, data.bytes(), scratch.region().bytes());
                CollectiveProgress::of(call.launch(&mut engine.scope, comm, StartMode::Driven))
            })?;
            request.set(requests::of_started(on, begun, [own, scratch], None)?)
        }
    }
}

/// Returns true if elements that begin with these bytes lie as their type is aligned, which is to
/// eight bytes at most.
fn is_aligned(bytes: Region, kernel: &Kernel) -> bool {
    bytes.address().address().is_multiple_of(1 << kernel.element_bytes().trailing_zeros().min(3))
}

const ALIASED: &str = "the input of a reduction lies in its result; MPI_IN_PLACE says that they are one";

/// Carries out a reduction to one or all, or a scan, straight from the arguments: see
/// [`try_barrier`](super::try_barrier).
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(always)]
pub(super) unsafe fn try_reduce(
    form: CallForm,
    operation: Operation,
    reduction: Reduction,
    root: Option<c_int>,
) -> Result<bool, CallFault> {
    // What is started may outlive the types that a function of the program's is called for.
    let is_for_it = match form {
        CallForm::Blocking => true,
        CallForm::Nonblocking(_) => operations::is_predefined(reduction.op),
    };
    if !(is_for_it && form.takes_fast_path()) {
        return Ok(false);
    }
    if let CallForm::Nonblocking(_) = form {
        reduction.check(operation, root)?;
    }
    if let (CallForm::Blocking, Operation::Reduce) = (form, operation)
        && reduction.count >= MANY_ELEMENTS
    {
        // SAFETY: the caller's promise.
        return unsafe { try_long_reduce(reduction, root) };
    }
    let mut place = None;
    let comm = communicators::find(reduction.comm, &mut place)?;
    // SAFETY: the caller's promise.
    let piece = unsafe { reduction.piece(comm, operation, root) }?;
    let Some(piece) = piece else { return Ok(false) };
    match form {
        CallForm::Blocking => piece.run()?,
        CallForm::Nonblocking(request) => piece.start(reduction.comm, request)?,
    }
    Ok(true)
}

/// Elements that may be more bytes than a control slot holds.
const MANY_ELEMENTS: i64 = SLOT_BYTES as i64 / 32;

/// Carries out a reduction to one rank like [`try_reduce`], out of the way of short ones.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(never)]
unsafe fn try_long_reduce(reduction: Reduction, root: Option<c_int>) -> Result<bool, CallFault> {
    let mut place = None;
    let comm = communicators::find(reduction.comm, &mut place)?;
    // SAFETY: the caller's promise.
    let piece = unsafe { reduction.piece(comm, Operation::Reduce, root) }?;
    let Some(piece) = piece else { return Ok(false) };
    if piece.leaves_operand() {
        piece.run_apart()?
    } else {
        piece.run()?
    }
    Ok(true)
}

/// Returns true if this rank has the result of a reduction.
fn has_result(comm: &Comm, operation: Operation, root: Option<c_int>) -> bool {
    match operation {
        Operation::Reduce if comm.is_inter() => root == Some(MPI_ROOT),
        Operation::Reduce => root == Some(comm.rank().0 as c_int),
        Operation::Exscan => comm.rank() != Rank(0),
        _ => true,
    }
}

/// A reduction; `root` for that to one rank.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn reduce(
    operation: Operation,
    reduction: Reduction,
    root: Option<c_int>,
) -> Result<CollectiveCall, CallFault> {
    let Reduction { into, comm, .. } = reduction;
    if root == Some(MPI_PROC_NULL) && communicators::of(comm)?.is_inter() {
        return Ok(across::no_reduction(CollectiveCall::new(comm)?));
    }
    reduction.check(operation, root)?;
    let mut place = None;
    let found = communicators::find(comm, &mut place)?;
    // SAFETY: the caller's promise.
    if let Some(piece) = unsafe { reduction.piece(found, operation, root) }? {
        return piece.call(comm);
    }
    // SAFETY: as above.
    let (mut call, operand, data) = unsafe { reduction.call(operation, root) }?;
    if has_result(&call.comm, operation, root) {
        // SAFETY: as above.
        let into = unsafe { operand.data(into) }?;
        call.after(data, move |memory| operand.write(memory, &into));
    }
    Ok(call)
}

/// The division of the result of a reduction of which each rank gets a part.
#[derive(Clone, Copy)]
pub(super) enum ResultParts<'c> {
    /// The count of the reduction for each.
    Even,
    /// So many elements, by rank.
    Listed(&'c [i64]),
}

impl ResultParts<'_> {
    /// Returns the elements of all parts and of this rank's, where each has `count` unless they are
    /// listed; `None` for what is no number of elements.
    fn counts(&self, count: i64, comm: &Comm) -> Option<[i64; 2]> {
        match self {
            Self::Even => Some([count.checked_mul(comm.size().into())?, count]),
            Self::Listed(counts) => {
                let add = |sum: i64, count: &i64| sum.checked_add(*count).filter(|_| *count >= 0);
                Some([counts.iter().try_fold(0, add)?, *counts.get(comm.rank().0 as usize)?])
            }
        }
    }

    /// Lists the blocks of the input; none if they are of one length.
    fn list_in<'l>(&self, list: &'l mut ShortList) -> &'l [Block] {
        let (Self::Listed(counts), mut start) = (self, 0) else { return &[] };
        for (block, count) in list.resize(counts.len()).iter_mut().zip(*counts) {
            let len = count.unsigned_abs() as usize;
            *block = Block { start, len };
            start += len;
        }
        list.blocks()
    }
}

/// Carries out a reduction of which each rank gets a part, as listed, straight from the arguments:
/// see [`try_barrier`](super::try_barrier).
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn try_reduce_scatter(
    form: CallForm,
    reduction: Reduction,
    counts: impl FnOnce() -> Result<Vec<i64>, CallFault>,
) -> Result<bool, CallFault> {
    let CallForm::Blocking = form else { return Ok(false) };
    if communicators::of(reduction.comm)?.is_inter() || !form.takes_fast_path() {
        return Ok(false);
    }
    // SAFETY: the caller's promise.
    unsafe { try_scattered(form, reduction, ResultParts::Listed(&counts()?)) }
}

/// Carries out a reduction of which each rank gets a part of one length straight from the
/// arguments: see [`try_barrier`](super::try_barrier).
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn try_reduce_scatter_block(
    form: CallForm,
    reduction: Reduction,
) -> Result<bool, CallFault> {
    // SAFETY: the caller's promise.
    unsafe { try_scattered(form, reduction, ResultParts::Even) }
}

/// Carries out a reduction of which each rank gets such a part straight from the arguments. Parts
/// are listed for a blocking call alone.
///
/// # Safety
/// As for [`ProgramData::new`].
unsafe fn try_scattered(
    form: CallForm,
    reduction: Reduction,
    parts: ResultParts<'_>,
) -> Result<bool, CallFault> {
    let Reduction { input, into, datatype, op, comm, .. } = reduction;
    let mut place = None;
    let of = communicators::find(comm, &mut place)?;
    let takes_it = form.takes_fast_path()
        && match form {
            CallForm::Blocking => true,
            CallForm::Nonblocking(_) => operations::is_predefined(op),
        };
    let counts = parts.counts(reduction.count, of);
    let (false, false, true, Some([total, count])) = (of.is_inter(), input.is_in_place(), takes_it, counts)
    else {
        return Ok(false);
    };
    let kernel = operations::kernel(op, datatype)?;
    // SAFETY: the caller's promise.
    let [input, own] = unsafe { [dense(input, total, datatype), dense(into, count, datatype)] };
    let (Ok(Some(input)), Ok(Some(own))) = (input, own) else {
        return Ok(false);
    };
    if input.overlaps(own) || !is_aligned(own, &kernel) || !is_aligned(input, &kernel) {
        return Ok(false);
    }
    let scratch_len = scratch_bytes(input.len());
    // SAFETY: the program leaves both alone until the call is over, and they are apart.
    let (input, own) = unsafe { (input.shown(), own.bytes()) };
    match form {
        CallForm::Blocking => {
            let (mut list, mut scratch) = (ShortList::default(), ShortSpare::default());
            let blocks = parts.list_in(&mut list);
            let scratch = scratch.bytes(scratch_len)?;
            let call = match parts {
                ResultParts::Even => reduce_scatter_block_by(kernel, input, own, scratch),
                ResultParts::Listed(_) => {
                    reduce_scatter_by(kernel, InputBlocks::new(input, blocks), own, scratch)
                }
            };
            engine::with(|engine| Ok(call.run(engine.endpoint(), of)?))?;
        }
        CallForm::Nonblocking(request) => {
            let mut scratch = Spare::new(scratch_len)?;
            // SAFETY: as above; the scratch is kept with it.
            unsafe {
                let call = reduce_scatter_block_by(kernel, input, own, scratch.region().bytes());
                let on = CallComm { handle: comm, comm: of };
                ByteCall::Blocks(call).start(on, [scratch, Spare::default()], request)?;
            }
        }
    }
    Ok(true)
}

/// Bytes of working memory up to which a reduction that is scattered has all that any algorithm
/// has use for.
const SCRATCH_BYTES_MAX: usize = 8 << 20;

/// The working memory of a reduction that is scattered: at least what long messages are worth.
const fn scratch_bytes(input: usize) -> usize {
    let all = input.saturating_mul(2);
    if all <= SCRATCH_BYTES_MAX { all } else { input }
}

/// A reduction of which each rank gets a part.
///
/// # Safety
/// As for [`ProgramData::new`].
pub(super) unsafe fn reduce_scatter(
    reduction: Reduction,
    parts: ResultParts<'_>,
) -> Result<CollectiveCall, CallFault> {
    let Reduction { input, into, count, datatype, op, comm } = reduction;
    into.check("recvbuf")?;
    let of = communicators::of(comm)?;
    let me = of.rank().0 as usize;
    let even;
    let counts = match parts {
        ResultParts::Even => {
            even = vec![count; of.size() as usize];
            &even[..]
        }
        ResultParts::Listed(counts) => counts,
    };
    let total = counts.iter().sum();
    let own_count = counts.get(me).copied().unwrap_or(0);
    let own = Operand::new(own_count, datatype)?;
    let all = Reduction { count: total, ..reduction };
    // SAFETY: the caller's promise.
    unsafe { all.check_apart(own_count) }?;
    if of.is_inter() {
        let before: i64 = counts.iter().take(me).sum();
        let start = Operand::new(before, datatype)?.bytes();
        // SAFETY: the caller's promise.
        let (mut call, _, data) = unsafe { all.call(Operation::Allreduce, None) }?;
        // SAFETY: as above.
        let place = unsafe { own.data(into) }?;
        call.after(data, move |memory| own.write(memory.get(start..).unwrap_or_default(), &place));
        return Ok(call);
    }
    if let Some(count) = counts.iter().find(|count| **count < 0) {
        return Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")));
    }
    let mut call = CollectiveCall::new(comm)?;
    let kernel = operations::kernel(op, datatype)?;
    let whole = Operand::new(total, datatype)?;
    let given = call.own(whole.bytes())?;
    // SAFETY: the caller's promise.
    let from = unsafe { whole.data(if input.is_in_place() { into } else { input }) }?;
    call.before(given, move |memory| whole.read(&from, memory));
    let (data, scratch) = (call.own(own.bytes())?, call.own(scratch_bytes(given.len()))?);
    // SAFETY: as above.
    let place = unsafe { own.data(into) }?;
    call.after(data, move |memory| own.write(memory, &place));
    let list = match parts {
        ResultParts::Even => BlockList::EVEN,
        ResultParts::Listed(_) => call.own_blocks(parts.list_in(&mut ShortList::default()).to_vec()),
    };
    call.what = ByteOperation::ReduceScatter(kernel, [given, data, scratch], list);
    Ok(call)
}
