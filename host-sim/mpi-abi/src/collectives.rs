//! Collectives (MPI 5.0, chapter 6) over intracommunicators, blocking and nonblocking: what C describes is put into the shape that
//! `aldis-coll` takes, in place where data are in one piece, else in memory of their own, and back.

use core::ffi::c_int;

use aldis_coll::erased::Erased;
use aldis_coll::layout::Block;
use aldis_coll::{Collective, Options};
use aldis_hal::Operation;
use aldis_kernel::datatype::Form;
use aldis_kernel::{Comm, Rank};

use crate::abi::{
    Handle, MPI_ERR_COUNT, MPI_ERR_ROOT, MPI_ERR_TRUNCATE, MPI_ERR_UNSUPPORTED_OPERATION, MPI_IN_PLACE,
};
use crate::communicators::{self, rank_in};
use crate::datatypes::{Data, look};
use crate::edge::{Address, Ptr, lasting};
use crate::engine::{self, Engine};
use crate::errors::Fault;
use crate::operations;
use crate::requests::{self, After, Running};

mod blocks;

use blocks::{Blocks, put, shifted};

/// The elements of a reduction as they lie in memory, gaps and all: what its function expects.
pub(crate) struct Operand(Vec<u64>, usize);

impl Operand {
    /// A copy of the program's.
    pub(crate) fn read(from: Address, count: i64, datatype: Handle) -> Result<Self, Fault> {
        let (data, extent, is_dense) = Self::shape(from, count, datatype)?;
        let bytes = (count * extent) as usize;
        let mut own = Self(vec![0; bytes.div_ceil(8)], bytes);
        match data.dense()? {
            Some(dense) if is_dense => own.bytes().copy_from_slice(dense),
            _ => own.data(count, datatype)?.unpack_from(Form::Native, &data.packed()?, &mut 0)?,
        }
        Ok(own)
    }

    fn shape(from: Address, count: i64, datatype: Handle) -> Result<(Data, i64, bool), Fault> {
        let data = Data::new(from, count, datatype)?;
        let (extent, is_dense) = look(datatype, |known| (known.extent.max(known.size), known.is_dense()))?;
        Ok((data, extent, is_dense))
    }

    /// The same as data.
    fn data(&mut self, count: i64, datatype: Handle) -> Result<Data, Fault> {
        Data::new(Address::at(self.0.as_mut_ptr().expose_provenance()), count, datatype)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let start = Address::at(self.0.as_mut_ptr().expose_provenance());
        start.bytes(0, self.1).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        let start = Address::at(self.0.as_ptr().expose_provenance());
        start.bytes(0, self.1).unwrap_or_default()
    }

    /// Puts it where the program wants it.
    pub(crate) fn write_to(&mut self, into: Address, count: i64, datatype: Handle) -> Result<(), Fault> {
        let (place, _, is_dense) = Self::shape(into, count, datatype)?;
        match place.dense()? {
            Some(dense) if is_dense => dense.copy_from_slice(self.as_bytes()),
            _ => {
                let stream = self.data(count, datatype)?.packed()?;
                place.unpack_from(Form::Native, &stream, &mut 0)?;
            }
        }
        Ok(())
    }
}

/// What a collective is, on bytes.
enum What {
    Barrier,
    Bcast(&'static mut [u8], Rank),
    Reduce(Erased, &'static mut [u8], &'static mut [u8]),
    Gather(&'static mut [u8], &'static [Block], Rank),
    Scatter(&'static mut [u8], &'static [Block], Rank),
    Allgather(&'static mut [u8], &'static [Block]),
    Alltoall(&'static [u8], &'static [Block], &'static mut [u8], &'static [Block]),
}

/// A collective with what belongs to it.
struct Call {
    comm: Comm,
    handle: Handle,
    what: What,
    memory: Vec<Vec<u8>>,
    blocks: Vec<Vec<Block>>,
    after: Option<After>,
}

impl Call {
    fn new(handle: Handle) -> Result<Self, Fault> {
        let comm = communicators::of(handle)?;
        if comm.is_inter() {
            let text = "collectives over intercommunicators are not in this interface yet";
            return Err(Fault::new(MPI_ERR_UNSUPPORTED_OPERATION, text));
        }
        let (memory, blocks) = (Vec::new(), Vec::new());
        Ok(Self { comm, handle, what: What::Barrier, memory, blocks, after: None })
    }

    /// Memory for the call.
    fn own(&mut self, mut bytes: Vec<u8>) -> &'static mut [u8] {
        let memory = lasting(&mut bytes);
        self.memory.push(bytes);
        memory
    }

    fn own_blocks(&mut self, mut blocks: Vec<Block>) -> &'static [Block] {
        let lent = lasting(&mut blocks);
        self.blocks.push(blocks);
        lent
    }

    fn root(&self, root: c_int) -> Result<Rank, Fault> {
        rank_in(root, self.comm.size(), MPI_ERR_ROOT)
    }

    fn me(&self) -> usize {
        self.comm.rank().0 as usize
    }

    /// Carries it out.
    fn run(self) -> Result<(), Fault> {
        if requests::are_running() {
            let comm = self.handle;
            let running = self.start()?;
            return requests::wait(requests::of_collective(comm, running)?).map(|_| ());
        }
        let (comm, options) = (self.comm, Options::default());
        engine::with(|engine| {
            let ep = engine.endpoint();
            match self.what {
                What::Barrier => options.barrier(ep, &comm)?,
                What::Bcast(data, root) => options.bcast(ep, &comm, data, root)?,
                What::Reduce(erased, data, scratch) => options.reduce_by(ep, &comm, erased, data, scratch)?,
                What::Gather(data, blocks, root) => match even(blocks) {
                    true => options.gather(ep, &comm, data, &mut [], root)?,
                    false => options.gatherv(ep, &comm, data, blocks, root)?,
                },
                What::Scatter(data, blocks, root) => match even(blocks) {
                    true => options.scatter(ep, &comm, data, &mut [], root)?,
                    false => options.scatterv(ep, &comm, data, blocks, root)?,
                },
                What::Allgather(data, blocks) => match even(blocks) {
                    true => options.allgather(ep, &comm, data)?,
                    false => options.allgatherv(ep, &comm, data, blocks)?,
                },
                What::Alltoall(input, given, data, blocks) => match even(given) && even(blocks) {
                    true => options.alltoall(ep, &comm, input, data, &mut [])?,
                    false => options.alltoallv(ep, &comm, input, given, data, blocks)?,
                },
            }
            Ok(())
        })?;
        self.after.map_or(Ok(()), |after| after())
    }

    /// Starts it.
    fn start(self) -> Result<Running, Fault> {
        let (comm, options) = (self.comm, Options::default());
        let collective: Collective<'static> = engine::with(|Engine { scope, .. }| {
            Ok(match self.what {
                What::Barrier => options.ibarrier(scope, &comm)?,
                What::Bcast(data, root) => options.ibcast(scope, &comm, data, root)?,
                What::Reduce(erased, data, scratch) => {
                    options.ireduce_by(scope, &comm, erased, data, scratch)?
                }
                What::Gather(data, blocks, root) => match even(blocks) {
                    true => options.igather(scope, &comm, data, &mut [], root)?,
                    false => options.igatherv(scope, &comm, data, blocks, root)?,
                },
                What::Scatter(data, blocks, root) => match even(blocks) {
                    true => options.iscatter(scope, &comm, data, &mut [], root)?,
                    false => options.iscatterv(scope, &comm, data, blocks, root)?,
                },
                What::Allgather(data, blocks) => match even(blocks) {
                    true => options.iallgather(scope, &comm, data)?,
                    false => options.iallgatherv(scope, &comm, data, blocks)?,
                },
                What::Alltoall(input, given, data, blocks) => match even(given) && even(blocks) {
                    true => options.ialltoall(scope, &comm, input, data, &mut [])?,
                    false => options.ialltoallv(scope, &comm, input, given, data, blocks)?,
                },
            })
        })?;
        Ok(Running { collective, after: self.after, _memory: self.memory, _blocks: self.blocks })
    }

    fn begin(self, request: Ptr<Handle>) -> Result<(), Fault> {
        let comm = self.handle;
        let running = self.start()?;
        request.set(requests::of_collective(comm, running)?)
    }
}

/// No list stands for blocks of one length.
const fn even(blocks: &[Block]) -> bool {
    blocks.is_empty()
}

fn is_in_place(address: Address) -> bool {
    address.address() == MPI_IN_PLACE
}

fn barrier(comm: Handle) -> Result<Call, Fault> {
    Call::new(comm)
}

fn bcast(data: Address, count: i64, datatype: Handle, root: c_int, comm: Handle) -> Result<Call, Fault> {
    let mut call = Call::new(comm)?;
    let (root, data) = (call.root(root)?, Data::new(data, count, datatype)?);
    let bytes = match data.dense()? {
        Some(bytes) => bytes,
        None => {
            let is_root = call.comm.rank() == root;
            let packed = if is_root { data.packed()? } else { vec![0; data.bytes] };
            let bytes = call.own(packed);
            let found: &'static [u8] = lasting(bytes);
            call.after = (!is_root)
                .then(|| -> After { Box::new(move || data.unpack_from(Form::Native, found, &mut 0)) });
            bytes
        }
    };
    call.what = What::Bcast(bytes, root);
    Ok(call)
}

/// The arguments of a reduction.
#[derive(Clone, Copy)]
struct Reduction {
    input: Address,
    into: Address,
    count: i64,
    datatype: Handle,
    op: Handle,
    comm: Handle,
}

/// A reduction; `root` for that to one rank.
fn reduce(operation: Operation, reduction: Reduction, root: Option<c_int>) -> Result<Call, Fault> {
    let Reduction { input, into, count, datatype, op, comm } = reduction;
    let mut call = Call::new(comm)?;
    if count < 0 {
        return Err(Fault::new(MPI_ERR_COUNT, format!("a count of {count}")));
    }
    let root = root.map_or(Ok(Rank(0)), |root| call.root(root))?;
    let kernel = operations::kernel(op, datatype)?;
    let me = call.comm.rank();
    let has_result = match operation {
        Operation::Reduce => me == root,
        Operation::Exscan => me != Rank(0),
        _ => true,
    };
    let given = if is_in_place(input) { into } else { input };
    let mut operand = Operand::read(given, count, datatype)?;
    let data = lasting(operand.bytes());
    let scratch = call.own(vec![0; data.len() + 8]);
    // Aligned as the elements are.
    let skipped = scratch.as_ptr().align_offset(8);
    let scratch = scratch.get_mut(skipped..).and_then(|rest| rest.get_mut(..data.len())).unwrap_or_default();
    call.after = Some(Box::new(move || match has_result {
        true => operand.write_to(into, count, datatype),
        false => {
            drop(operand);
            Ok(())
        }
    }));
    call.what = What::Reduce(Erased { operation, kernel, root }, data, scratch);
    Ok(call)
}

/// A reduction of which each rank gets a part: of a reduction for all.
fn reduce_scatter(reduction: Reduction, counts: &[i64]) -> Result<Call, Fault> {
    let Reduction { input, into, datatype, comm, .. } = reduction;
    let of = communicators::of(comm)?;
    let (total, me) = (counts.iter().sum(), of.rank().0 as usize);
    let before: i64 = counts.iter().take(me).sum();
    let own = counts.get(me).copied().unwrap_or(0);
    let mut call = reduce(Operation::Allreduce, Reduction { count: total, ..reduction }, None)?;
    // The whole is in the call's memory; a part of it goes to the program's.
    let What::Reduce(erased, data, scratch) = call.what else { return Err(Fault::unsupported()) };
    let kept = call.after.take();
    let whole = Address::at(data.as_mut_ptr().expose_provenance());
    let extent = look(datatype, |known| known.extent)?;
    let place = Data::new(into, own, datatype)?;
    let _ = input;
    call.after = Some(Box::new(move || {
        let part = Data::new(shifted(whole, before * extent), own, datatype)?;
        let told = place.unpack_from(Form::Native, &part.packed()?, &mut 0);
        drop(kept);
        told
    }));
    call.what = What::Reduce(erased, data, scratch);
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
    fn data(self) -> Result<Data, Fault> {
        Data::new(self.address, self.count, self.datatype)
    }
}

fn gather(
    own: Given,
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
    root: c_int,
    comm: Handle,
) -> Result<Call, Fault> {
    let mut call = Call::new(comm)?;
    let root = call.root(root)?;
    let me = call.me();
    if call.comm.rank() != root {
        let data = own.data()?;
        let packed = data.packed()?;
        let len = packed.len();
        let bytes = call.own(packed);
        // Whether the others' blocks are of this length is for the root to know: it lists them.
        let list = call.own_blocks(vec![Block { start: 0, len }; call.comm.size() as usize]);
        call.what = What::Gather(bytes, list, root);
        return Ok(call);
    }
    let blocks = blocks(call.comm.size())?;
    let mut stream = blocks.packed(|rank| rank == me && is_in_place(own.address))?;
    if !is_in_place(own.address) {
        put(&mut stream, &blocks, me, own.data()?)?;
    }
    let list = Blocks { is_even: false, parts: blocks.parts.clone() }.list(&mut call);
    let bytes = call.own(stream);
    let found: &'static [u8] = lasting(bytes);
    call.after = Some(Box::new(move || blocks.unpack(found, |rank| rank != me || !is_in_place(own.address))));
    call.what = What::Gather(bytes, list, root);
    Ok(call)
}

fn scatter(
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
    own: Given,
    root: c_int,
    comm: Handle,
) -> Result<Call, Fault> {
    let mut call = Call::new(comm)?;
    let root = call.root(root)?;
    let me = call.me();
    if call.comm.rank() != root {
        let data = own.data()?;
        let bytes = call.own(vec![0; data.bytes]);
        let list = call.own_blocks(vec![Block { start: 0, len: data.bytes }; call.comm.size() as usize]);
        let found: &'static [u8] = lasting(bytes);
        call.after = Some(Box::new(move || data.unpack_from(Form::Native, found, &mut 0)));
        call.what = What::Scatter(bytes, list, root);
        return Ok(call);
    }
    let blocks = blocks(call.comm.size())?;
    let stream = blocks.packed(|_| true)?;
    let list = Blocks { is_even: false, parts: blocks.parts.clone() }.list(&mut call);
    let bytes = call.own(stream);
    let Block { start, len } = list.get(me).copied().unwrap_or_default();
    if !is_in_place(own.address) {
        let data = own.data()?;
        if len > data.bytes {
            return Err(Fault::new(MPI_ERR_TRUNCATE, format!("a block of {len} bytes into {}", data.bytes)));
        }
        data.unpack_from(Form::Native, bytes.get(start..start + len).unwrap_or_default(), &mut 0)?;
    }
    call.what = What::Scatter(bytes, list, root);
    Ok(call)
}

fn allgather(
    own: Given,
    blocks: impl FnOnce(u32) -> Result<Blocks, Fault>,
    comm: Handle,
) -> Result<Call, Fault> {
    let mut call = Call::new(comm)?;
    let me = call.me();
    let blocks = blocks(call.comm.size())?;
    let list = blocks.list(&mut call);
    if let Some(bytes) = blocks.in_place()? {
        if !is_in_place(own.address) {
            put(bytes, &blocks, me, own.data()?)?;
        }
        call.what = What::Allgather(bytes, list);
        return Ok(call);
    }
    let mut stream = blocks.packed(|rank| rank == me && is_in_place(own.address))?;
    if !is_in_place(own.address) {
        put(&mut stream, &blocks, me, own.data()?)?;
    }
    let bytes = call.own(stream);
    let found: &'static [u8] = lasting(bytes);
    call.after = Some(Box::new(move || blocks.unpack(found, |_| true)));
    call.what = What::Allgather(bytes, list);
    Ok(call)
}

fn alltoall(given: Option<Blocks>, taken: Blocks, comm: Handle) -> Result<Call, Fault> {
    let mut call = Call::new(comm)?;
    // In place, what is given is where the rest goes: a copy of it.
    let input = given.as_ref().unwrap_or(&taken);
    let (from, to) = (input.list(&mut call), taken.list(&mut call));
    let input = match (given.is_some(), input.in_place()?) {
        (true, Some(bytes)) => bytes,
        _ => call.own(input.packed(|_| true)?),
    };
    let bytes = match taken.in_place()? {
        Some(bytes) => bytes,
        None => {
            let bytes = call.own(vec![0; taken.parts.iter().map(|part| part.bytes).sum()]);
            let found: &'static [u8] = lasting(bytes);
            call.after = Some(Box::new(move || taken.unpack(found, |_| true)));
            bytes
        }
    };
    call.what = What::Alltoall(input, from, bytes, to);
    Ok(call)
}

/// Numbers of the program's, an `int` or more each, one a rank.
fn wide<T: Copy + 'static>(
    array: Ptr<T>,
    comm: Handle,
    number: impl Fn(T) -> i64,
) -> Result<Vec<i64>, Fault> {
    let size = communicators::of(comm)?.size() as usize;
    Ok(array.slice(size)?.iter().map(|value| number(*value)).collect())
}

fn ints(array: Ptr<c_int>, comm: Handle) -> Result<Vec<i64>, Fault> {
    wide(array, comm, i64::from)
}

fn counts(array: Ptr<i64>, comm: Handle) -> Result<Vec<i64>, Fault> {
    wide(array, comm, |count| count)
}

fn places(array: Ptr<isize>, comm: Handle) -> Result<Vec<i64>, Fault> {
    wide(array, comm, |place| place as i64)
}

fn given_even(data: Address, count: i64, datatype: Handle, comm: Handle) -> Result<Option<Blocks>, Fault> {
    if is_in_place(data) {
        return Ok(None);
    }
    Blocks::even(data, count, datatype, communicators::of(comm)?.size()).map(Some)
}

fn taken_even(into: Address, room: i64, kind: Handle, comm: Handle) -> Result<Blocks, Fault> {
    Blocks::even(into, room, kind, communicators::of(comm)?.size())
}

fn kinds_of(of: Ptr<Handle>, comm: Handle) -> Result<&'static [Handle], Fault> {
    of.slice(communicators::of(comm)?.size() as usize)
}

include!("collectives/calls.rs");
