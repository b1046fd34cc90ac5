//! A collective on bytes, and the ways in which it is carried out.

use core::ffi::c_int;
use std::rc::Rc;

use aldis_coll::erased::Erased;
use aldis_coll::inter::Crossing;
use aldis_coll::layout::Block;
use aldis_coll::{Collective, Options};
use aldis_hal::Operation;
use aldis_host_sim::HostEndpoint;
use aldis_kernel::{Comm, Rank};

use crate::abi::{Handle, MPI_ERR_INTERN, MPI_ERR_ROOT};
use crate::communicators::{self, rank_in};
use crate::edge::{Place, Ptr, lasting};
use crate::engine::{self, Engine};
use crate::errors::Fault;
use crate::requests::{self, Running, Step, is_alone};
use crate::spare::Spare;
use crate::topologies::Topo;
use crate::used_types::UsedTypes;

/// What a collective is, on bytes.
pub(super) enum What {
    Barrier,
    Bcast(&'static mut [u8], Rank),
    Reduce(Erased, &'static mut [u8], &'static mut [u8]),
    Gather(&'static mut [u8], &'static [Block], Rank),
    Scatter(&'static mut [u8], &'static [Block], Rank),
    Allgather(&'static mut [u8], &'static [Block]),
    Alltoall(&'static [u8], &'static [Block], &'static mut [u8], &'static [Block]),
    NeighborAllgather(Rc<Topo>, &'static [u8], &'static mut [u8], &'static [Block]),
    NeighborAlltoall(Rc<Topo>, &'static [u8], &'static [Block], &'static mut [u8], &'static [Block]),
    /// Over two groups.
    Across(Crossing<'static>),
}

impl What {
    /// Whether the kernel's blocking call takes the way of one that is started and waited for.
    const fn is_waited(&self) -> bool {
        match self {
            Self::Barrier | Self::Bcast(..) => true,
            Self::Reduce(erased, ..) => matches!(erased.operation, Operation::Reduce | Operation::Allreduce),
            _ => false,
        }
    }

    /// Carries it out by such a call.
    fn wait(self, endpoint: &mut HostEndpoint, comm: &Comm) -> Result<(), Fault> {
        let options = Options::default();
        match self {
            Self::Barrier => options.barrier(endpoint, comm)?,
            Self::Bcast(data, root) => options.bcast(endpoint, comm, data, root)?,
            Self::Reduce(erased, data, scratch) => {
                options.reduce_by(endpoint, comm, erased, data, scratch)?
            }
            _ => return Err(Fault::new(MPI_ERR_INTERN, "a collective that has to be started")),
        }
        Ok(())
    }
}

/// A collective with what belongs to it.
pub(super) struct Call {
    pub(super) comm: Comm,
    handle: Handle,
    pub(super) what: What,
    memory: Vec<Spare>,
    blocks: Vec<Vec<Block>>,
    before: Vec<Step>,
    after: Vec<Step>,
    types: UsedTypes,
}

impl Call {
    pub(super) fn new(handle: Handle) -> Result<Self, Fault> {
        let comm = communicators::of(handle)?;
        let (memory, blocks, before, after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let types = UsedTypes::default();
        Ok(Self { comm, handle, what: What::Barrier, memory, blocks, before, after, types })
    }

    /// With the types that it works by, which the program may free before it is over.
    pub(super) fn using(self, types: UsedTypes) -> Self {
        Self { types, ..self }
    }

    /// Memory for the call, aligned as any element is, and where it is. Nobody knows what is in it.
    pub(super) fn own(&mut self, bytes: usize) -> (&'static mut [u8], Place) {
        let mut spare = Spare::new(bytes);
        let memory = lasting(spare.bytes());
        self.memory.push(spare);
        let place = Place::of(memory);
        (memory, place)
    }

    /// What is to be done each time before it begins.
    pub(super) fn before(&mut self, step: impl FnMut() -> Result<(), Fault> + 'static) {
        self.before.push(Box::new(step));
    }

    /// What is to be done each time it is complete.
    pub(super) fn after(&mut self, step: impl FnMut() -> Result<(), Fault> + 'static) {
        self.after.push(Box::new(step));
    }

    pub(super) fn own_blocks(&mut self, mut blocks: Vec<Block>) -> &'static [Block] {
        let lent = lasting(&mut blocks);
        self.blocks.push(blocks);
        lent
    }

    pub(super) fn root(&self, root: c_int) -> Result<Rank, Fault> {
        rank_in(root, self.comm.size(), MPI_ERR_ROOT)
    }

    pub(super) fn me(&self) -> usize {
        self.comm.rank().0 as usize
    }

    /// Carries it out. All ranks must take one way, and whether something else is under way, which goes on meanwhile, differs between
    /// them: what is started here is [waited](Options::waited) for, and meets what the others' blocking calls do.
    pub(super) fn run(mut self) -> Result<(), Fault> {
        if self.what.is_waited() && is_alone() {
            self.before.iter_mut().try_for_each(|step| step())?;
            let Self { comm, what, .. } = self;
            engine::with(|engine| what.wait(engine.endpoint(), &comm))?;
            return self.after.iter_mut().try_for_each(|step| step());
        }
        let comm = self.handle;
        let running = self.start(Options::default().waited())?;
        requests::wait(requests::of_collective(comm, running)?).map(|_| ())
    }

    /// Starts it.
    fn start(mut self, options: Options) -> Result<Running, Fault> {
        self.before.iter_mut().try_for_each(|step| step())?;
        self.make(options)
    }

    /// Makes it, to be started by the request, or started as well.
    fn make(self, options: Options) -> Result<Running, Fault> {
        let (comm, mut topology) = (self.comm, None);
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
                What::Across(crossing) => crossing.by(&options).start(scope, &comm)?,
                What::NeighborAllgather(topo, input, data, blocks) => {
                    let around = topology.insert(topo).lasting()?;
                    match even(blocks) {
                        true => options.ineighbor_allgather(scope, around, input, data)?,
                        false => options.ineighbor_allgatherv(scope, around, input, data, blocks)?,
                    }
                }
                What::NeighborAlltoall(topo, input, given, data, blocks) => {
                    let around = topology.insert(topo).lasting()?;
                    match even(given) && even(blocks) {
                        true => options.ineighbor_alltoall(scope, around, input, data)?,
                        false => options.ineighbor_alltoallv(scope, around, input, given, data, blocks)?,
                    }
                }
            })
        })?;
        Ok(Running {
            collective,
            before: self.before,
            after: self.after,
            _memory: self.memory,
            _blocks: self.blocks,
            _topology: topology,
            _types: self.types,
        })
    }

    pub(super) fn begin(self, request: Ptr<Handle>) -> Result<(), Fault> {
        let comm = self.handle;
        let running = self.start(Options::default())?;
        request.set(requests::of_collective(comm, running)?)
    }

    /// Makes it, for a request that can be started again and again.
    pub(super) fn keep(self, request: Ptr<Handle>) -> Result<(), Fault> {
        let comm = self.handle;
        let running = self.make(Options::default().persistent())?;
        request.set(requests::of_kept(comm, running)?)
    }
}

/// No list stands for blocks of one length.
const fn even(blocks: &[Block]) -> bool {
    blocks.is_empty()
}
