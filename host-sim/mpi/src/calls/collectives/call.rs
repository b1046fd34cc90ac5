//! This module holds `unsafe` code: the memory of a collective is lent to the kernel, and worked on
//! before and after.
//!
//! A collective on bytes, and the ways in which it is carried out.

use core::ffi::c_int;
use std::rc::Rc;

use aldis_coll::dyn_op::{DynReduction, reduce_by, reduce_scatter_block_by, reduce_scatter_by};
use aldis_coll::inter::InterCall;
use aldis_coll::layout::Block;
use aldis_coll::op::Kernel;
use aldis_coll::{
    BlockCall, ContiguousCall, InputBlocks, NeighborCall, StartMode, Started, allgather, allgatherv,
    alltoall, alltoallv, barrier, bcast, gather, gatherv, neighbor_allgather, neighbor_allgatherv,
    neighbor_alltoall, neighbor_alltoallv, scatter, scatterv,
};
use aldis_kernel::{Comm, Rank};
use aldis_linux::HostEndpoint;

use crate::abi::{Handle, MPI_ERR_INTERN, MPI_ERR_ROOT};
use crate::calls::communicators::dedicated;
use crate::fault::CallFault;
use crate::ffi::{Ptr, Region};
use crate::objects::communicators::{self, rank_in};
use crate::objects::datatypes::aliased;
use crate::objects::freed_comms::OwnComm;
use crate::objects::topologies::CommTopology;
use crate::objects::used_types::UsedTypes;
use crate::process::engine::{self, ProcessEngine};
use crate::process::scope::StaticScope;
use crate::process::spare::Spare;
use crate::requests::{self, CollectiveProgress, MemoryStep, RunningCollective, is_alone, run_steps};

/// Blocks that a call keeps, by address and number; none stand for blocks of one length.
#[derive(Clone, Copy)]
pub(super) struct BlockList {
    start: *const Block,
    len: usize,
}

impl BlockList {
    /// Blocks of one length.
    pub(super) const EVEN: Self = Self { start: core::ptr::dangling(), len: 0 };

    pub(super) const fn is_even(self) -> bool {
        self.len == 0
    }

    /// The blocks for an operation.
    ///
    /// # Safety
    /// The call whose they are is kept until the operation is over, or what it was made into.
    pub(super) unsafe fn list(self) -> &'static [Block] {
        // SAFETY: the call keeps them, where they are and unchanged, as the caller promises.
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }
}

/// A collective operation on bytes.
pub(super) enum ByteOperation {
    Barrier,
    Bcast(Region, Rank),
    Reduce(DynReduction, Region, Region),
    /// The input, the part that this rank gets, and scratch; blocks in elements.
    ReduceScatter(Kernel, [Region; 3], BlockList),
    Gather(Region, BlockList, Rank),
    Scatter(Region, BlockList, Rank),
    Allgather(Region, BlockList),
    /// The input, its blocks, the data, their blocks, and scratch.
    Alltoall(Region, BlockList, Region, BlockList, Region),
    NeighborAllgather(Rc<CommTopology>, Region, Region, BlockList),
    NeighborAlltoall(Rc<CommTopology>, Region, BlockList, Region, BlockList),
    /// Over two groups: made when it is started.
    Across(Box<dyn FnOnce() -> InterCall<'static>>),
}

impl ByteOperation {
    /// Returns true if a blocking call takes the same way as a collective that is started and
    /// waited for: unless it is over two groups, or among neighbours that are in no grid or have
    /// blocks of unlike lengths.
    fn is_waited(&self) -> bool {
        match self {
            Self::Barrier | Self::Bcast(..) | Self::Reduce(..) => true,
            Self::Gather(..) | Self::Scatter(..) | Self::Allgather(..) => true,
            Self::Alltoall(..) | Self::ReduceScatter(..) => true,
            Self::NeighborAllgather(topo, _, _, blocks) => blocks.is_even() && topo.is_grid(),
            Self::NeighborAlltoall(topo, _, given, _, blocks) => {
                given.is_even() && blocks.is_even() && topo.is_grid()
            }
            _ => false,
        }
    }

    /// # Errors
    /// The data that is given and that which comes share memory.
    fn check(&self) -> Result<(), CallFault> {
        match self {
            Self::Alltoall(input, _, data, ..)
            | Self::NeighborAllgather(_, input, data, _)
            | Self::NeighborAlltoall(_, input, _, data, _)
                if input.overlaps(*data) =>
            {
                Err(aliased())
            }
            _ => Ok(()),
        }
    }

    /// Returns the call of `aldis-coll` that it is.
    ///
    /// # Safety
    /// Its memory, blocks and topology are there until the call is over, its regions are apart, and
    /// nothing else touches the memory while it is under way.
    unsafe fn call(self) -> ByteCall {
        // SAFETY: the caller's promise.
        unsafe {
            ByteCall::Blocks(match self {
                Self::Barrier => return ByteCall::Contiguous(barrier()),
                Self::Bcast(data, root) => return ByteCall::Contiguous(bcast(data.bytes(), root)),
                Self::Reduce(reduction, data, scratch) => {
                    return ByteCall::Contiguous(reduce_by(reduction, data.bytes(), scratch.bytes()));
                }
                Self::Across(make) => return ByteCall::Across(make()),
                Self::NeighborAllgather(topo, input, data, blocks) => {
                    let (input, data) = (input.shown(), data.bytes());
                    let call = match blocks.is_even() {
                        true => neighbor_allgather(input, data),
                        false => neighbor_allgatherv(input, data, blocks.list()),
                    };
                    return ByteCall::Neighbors(call, topo);
                }
                Self::NeighborAlltoall(topo, input, given, data, blocks) => {
                    let (input, data) = (input.shown(), data.bytes());
                    let call = match given.is_even() && blocks.is_even() {
                        true => neighbor_alltoall(input, data),
                        false => neighbor_alltoallv(input, given.list(), data, blocks.list()),
                    };
                    return ByteCall::Neighbors(call, topo);
                }
                Self::Gather(data, blocks, root) => match blocks.is_even() {
                    true => gather(data.bytes(), &mut [], root),
                    false => gatherv(data.bytes(), blocks.list(), root),
                },
                Self::Scatter(data, blocks, root) => match blocks.is_even() {
                    true => scatter(data.bytes(), &mut [], root),
                    false => scatterv(data.bytes(), blocks.list(), root),
                },
                Self::Allgather(data, blocks) => match blocks.is_even() {
                    true => allgather(data.bytes()),
                    false => allgatherv(data.bytes(), blocks.list()),
                },
                Self::Alltoall(input, given, data, blocks, scratch) => {
                    match given.is_even() && blocks.is_even() {
                        true => alltoall(input.shown(), data.bytes(), scratch.bytes()),
                        false => alltoallv(input.shown(), given.list(), data.bytes(), blocks.list()),
                    }
                }
                Self::ReduceScatter(kernel, [input, data, scratch], blocks) => {
                    let (input, data, scratch) = (input.shown(), data.bytes(), scratch.bytes());
                    match blocks.is_even() {
                        true => reduce_scatter_block_by(kernel, input, data, scratch),
                        false => {
                            reduce_scatter_by(kernel, InputBlocks::new(input, blocks.list()), data, scratch)
                        }
                    }
                }
            })
        }
    }
}

/// The communicator of a call, as the program and as the kernel name it. The kernel's stays where
/// it was found: what is copied at once, in other pieces than it was written in, waits until every
/// store before has left the core.
#[derive(Clone, Copy)]
pub(super) struct CallComm<'c> {
    pub(super) handle: Handle,
    pub(super) comm: &'c Comm,
}

/// A call of `aldis-coll` on memory that lasts.
pub(super) enum ByteCall {
    Contiguous(ContiguousCall<'static>),
    Blocks(BlockCall<'static>),
    Across(InterCall<'static>),
    Neighbors(NeighborCall<'static>, Rc<CommTopology>),
}

impl ByteCall {
    /// Begins it, and gives out the topology that is to be kept with it.
    ///
    /// # Safety
    /// The topology is kept until it is over.
    unsafe fn begin(
        self,
        scope: &mut StaticScope,
        comm: &Comm,
        topology: &mut Option<Rc<CommTopology>>,
        mode: StartMode,
    ) -> Result<Option<CollectiveProgress>, CallFault> {
        CollectiveProgress::of(match self {
            Self::Contiguous(call) => call.launch(scope, comm, mode),
            Self::Blocks(call) => call.launch(scope, comm, mode),
            Self::Across(call) => call.begin(scope, comm, mode).map(Started::ByMessages),
            Self::Neighbors(call, topo) => {
                // SAFETY: the caller's promise.
                let neighbors = unsafe { topology.insert(topo).extend() }?;
                call.launch(scope, neighbors, mode)
            }
        })
    }

    /// Starts it for a request of the program's, on data in one piece and this memory of the
    /// library's.
    ///
    /// # Safety
    /// It is on a communicator, and its data are there until it is over, in the program's memory or
    /// in this.
    #[inline(never)]
    pub(super) unsafe fn start(
        self,
        on: CallComm<'_>,
        memory: [Spare; 2],
        request: Ptr<Handle>,
    ) -> Result<(), CallFault> {
        let mut topology = None;
        // SAFETY: the topology is kept with it.
        let begun = engine::with(|ProcessEngine { scope, .. }| unsafe {
            self.begin(scope, on.comm, &mut topology, StartMode::Driven)
        })?;
        request.set(requests::of_started(on.handle, begun, memory, topology)?)
    }
}

/// The form of a call that is carried out straight from its arguments.
#[derive(Clone, Copy)]
pub(super) enum CallForm {
    Blocking,
    /// Started, for a request there.
    Nonblocking(Ptr<Handle>),
}

impl CallForm {
    pub(super) const fn is_blocking(self) -> bool {
        matches!(self, Self::Blocking)
    }

    /// Returns true if it can be: a blocking one is if nothing else has to go on meanwhile.
    #[inline(always)]
    pub(super) fn takes_fast_path(self) -> bool {
        match self {
            Self::Blocking => is_alone(),
            Self::Nonblocking(_) => true,
        }
    }

    /// Carries out a call whose data are in one piece of the program's memory. A blocking one is
    /// described where it runs, so that no more of it is written down than it reads.
    ///
    /// # Safety
    /// As for [`ByteCall::start`].
    #[inline(always)]
    pub(super) unsafe fn carry_out<C: BlockingCall>(
        self,
        describe: impl FnOnce() -> C,
        on: CallComm<'_>,
    ) -> Result<(), CallFault> {
        match self {
            Self::Blocking => engine::with(|engine| describe().run_on(engine.endpoint(), on.comm)),
            // SAFETY: the caller's promise.
            Self::Nonblocking(request) => unsafe {
                describe().into().start(on, <[Spare; 2]>::default(), request)
            },
        }
    }
}

/// A call that can be carried out where it is made.
pub(super) trait BlockingCall: Into<ByteCall> {
    /// Carries it out on these ranks.
    fn run_on(self, endpoint: &mut HostEndpoint, comm: &Comm) -> Result<(), CallFault>;
}

impl BlockingCall for ContiguousCall<'static> {
    #[inline(always)]
    fn run_on(self, endpoint: &mut HostEndpoint, comm: &Comm) -> Result<(), CallFault> {
        Ok(self.run(endpoint, comm)?)
    }
}

impl From<ContiguousCall<'static>> for ByteCall {
    #[inline(always)]
    fn from(call: ContiguousCall<'static>) -> Self {
        Self::Contiguous(call)
    }
}

impl BlockingCall for BlockCall<'static> {
    #[inline(always)]
    fn run_on(self, endpoint: &mut HostEndpoint, comm: &Comm) -> Result<(), CallFault> {
        Ok(self.run(endpoint, comm)?)
    }
}

impl From<BlockCall<'static>> for ByteCall {
    #[inline(always)]
    fn from(call: BlockCall<'static>) -> Self {
        Self::Blocks(call)
    }
}

impl BlockingCall for ByteCall {
    /// Carries out a call that is [waited](ByteOperation::is_waited) for.
    fn run_on(self, endpoint: &mut HostEndpoint, comm: &Comm) -> Result<(), CallFault> {
        match self {
            Self::Contiguous(call) => call.run_on(endpoint, comm),
            Self::Blocks(call) => call.run_on(endpoint, comm),
            Self::Neighbors(call, topo) => Ok(call.run(endpoint, topo.neighbors()?)?),
            Self::Across(_) => Err(CallFault::new(MPI_ERR_INTERN, "a collective that has to be started")),
        }
    }
}

/// A collective with what belongs to it.
pub(super) struct CollectiveCall {
    pub(super) comm: Comm,
    handle: Handle,
    pub(super) what: ByteOperation,
    memory: Vec<Spare>,
    blocks: Vec<Vec<Block>>,
    before: Vec<MemoryStep>,
    after: Vec<MemoryStep>,
    types: UsedTypes,
}

impl CollectiveCall {
    pub(super) fn new(handle: Handle) -> Result<Self, CallFault> {
        let comm = communicators::of(handle)?;
        let (memory, blocks, before, after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let types = UsedTypes::default();
        Ok(Self { comm, handle, what: ByteOperation::Barrier, memory, blocks, before, after, types })
    }

    /// This call with the types that it works by, which the program may free before it is over.
    pub(super) fn using(self, types: UsedTypes) -> Self {
        Self { types, ..self }
    }

    /// Memory for the call, aligned as any element is. Its contents are not known.
    pub(super) fn own(&mut self, bytes: usize) -> Result<Region, CallFault> {
        let mut spare = Spare::new(bytes)?;
        let region = spare.region();
        self.memory.push(spare);
        Ok(region)
    }

    /// Adds work on memory of the collective, to be done each time before it begins.
    pub(super) fn before(
        &mut self,
        on: Region,
        work: impl FnMut(&mut [u8]) -> Result<(), CallFault> + 'static,
    ) {
        self.before.push(MemoryStep { on, work: Box::new(work) });
    }

    /// Adds work on memory of the collective, to be done each time it is complete.
    pub(super) fn after(
        &mut self,
        on: Region,
        work: impl FnMut(&mut [u8]) -> Result<(), CallFault> + 'static,
    ) {
        self.after.push(MemoryStep { on, work: Box::new(work) });
    }

    /// A list of blocks that is kept with the call.
    pub(super) fn own_blocks(&mut self, blocks: Vec<Block>) -> BlockList {
        let list = BlockList { start: blocks.as_ptr(), len: blocks.len() };
        self.blocks.push(blocks);
        list
    }

    pub(super) fn root(&self, root: c_int) -> Result<Rank, CallFault> {
        rank_in(root, self.comm.size(), MPI_ERR_ROOT)
    }

    pub(super) fn me(&self) -> usize {
        self.comm.rank().0 as usize
    }

    /// Carries it out. All ranks must take one way, and whether something else is under way, which
    /// goes on meanwhile, differs between them: what is started here is
    /// [waited](StartMode::Waited) for, and meets what the others' blocking calls
    /// do.
    pub(super) fn run(mut self) -> Result<(), CallFault> {
        if self.what.is_waited() && is_alone() {
            // SAFETY: the collective has not begun.
            unsafe { run_steps(&mut self.before) }?;
            let Self { comm, what, .. } = &mut self;
            let what = core::mem::replace(what, ByteOperation::Barrier);
            what.check()?;
            // SAFETY: what is of the call is kept until it is over, and apart; the program leaves
            // its own alone.
            engine::with(|engine| unsafe { what.call() }.run_on(engine.endpoint(), comm))?;
            // SAFETY: it is over.
            return unsafe { run_steps(&mut self.after) };
        }
        let comm = self.handle;
        let running = self.start(StartMode::Waited)?;
        requests::wait(requests::of_collective(comm, running)?).map(|_| ())
    }

    /// Starts it.
    fn start(mut self, mode: StartMode) -> Result<RunningCollective, CallFault> {
        self.what.check()?;
        // SAFETY: the collective has not begun.
        unsafe { run_steps(&mut self.before) }?;
        self.make(mode)
    }

    /// Makes it, to be started by the request, or started as well.
    fn make(self, mode: StartMode) -> Result<RunningCollective, CallFault> {
        self.what.check()?;
        let (comm, mut topology) = (self.comm, None);
        // SAFETY: nothing else touches the memory until the collective is over: what is done before
        // and after is done when it is not under way, and the program leaves its own alone. The
        // regions of a collective are apart (`check`; what is of the call is). The kernel keeps no
        // reference. `RunningCollective` keeps memory, blocks and topology, and drops them after
        // the collective.
        let begun = engine::with(|ProcessEngine { scope, .. }| unsafe {
            self.what.call().begin(scope, &comm, &mut topology, mode)
        })?;
        Ok(RunningCollective {
            progress: begun.unwrap_or(CollectiveProgress::Over),
            before: self.before,
            after: self.after,
            _memory: self.memory,
            _of_piece: <[Spare; 2]>::default(),
            _blocks: self.blocks,
            _topology: topology,
            _comm: None,
            _types: self.types,
            is_finished: false,
        })
    }

    pub(super) fn begin(self, request: Ptr<Handle>) -> Result<(), CallFault> {
        let comm = self.handle;
        let running = self.start(StartMode::Driven)?;
        request.set(requests::of_collective(comm, running)?)
    }

    /// Makes it, for a request that can be started again and again: on a communicator of its own if
    /// it goes by control slots there, since ranks may start it before or after others.
    pub(super) fn keep(mut self, request: Ptr<Handle>) -> Result<(), CallFault> {
        let comm = self.handle;
        let dedicated = match &self.what {
            ByteOperation::Barrier | ByteOperation::Bcast(..) | ByteOperation::Reduce(..)
                if !self.comm.is_inter() =>
            {
                dedicated(comm)?
            }
            _ => None,
        };
        let mut mode = StartMode::Persistent;
        if let Some(OwnComm(own)) = dedicated {
            (self.comm, mode) = (own, StartMode::Dedicated);
        }
        let running = self.make(mode)?;
        request.set(requests::of_kept(comm, RunningCollective { _comm: dedicated, ..running })?)
    }
}
