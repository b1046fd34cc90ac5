//! This module holds `unsafe` code: memory of collectives that are not under way.
//!
//! Collectives behind a request: their progress, and the memory, blocks and types that they keep
//! until they are over.

use std::rc::Rc;

use aldis_coll::layout::Block;
use aldis_coll::{Collective, SlotCollective, Started};
use aldis_kernel::Error;

use super::{COLLECTIVES, Work, kept, messages, started};
use crate::abi::{Handle, Status};
use crate::fault::CallFault;
use crate::ffi::Region;
use crate::objects::freed_comms::OwnComm;
use crate::objects::topologies::CommTopology;
use crate::objects::used_types::{self, UsedTypes};
use crate::process::scope::StaticScope;
use crate::process::spare::Spare;

/// Works on memory of a collective.
type MemoryWork = Box<dyn FnMut(&mut [u8]) -> Result<(), CallFault>>;

/// Work on memory of a collective, before it begins or with its result.
pub(crate) struct MemoryStep {
    pub(crate) on: Region,
    pub(crate) work: MemoryWork,
}

/// Does what is to be done before or after a collective.
///
/// # Safety
/// The collective is not under way.
pub(crate) unsafe fn run_steps(steps: &mut [MemoryStep]) -> Result<(), CallFault> {
    // SAFETY: what a collective works on is left alone by the program as long as it exists, and by
    // the kernel while it is not under way; one step after the other works on it.
    steps.iter_mut().try_for_each(|step| (step.work)(unsafe { step.on.bytes() }))
}

/// The progress of a collective: by control slots, which takes little memory, or by messages.
#[expect(clippy::large_enum_variant, reason = "short ones are to take no memory beside their request's")]
pub(crate) enum CollectiveProgress {
    /// Nothing is left to do since the start.
    Over,
    InSlots(SlotCollective<'static>),
    /// By messages, or made to be started, by either.
    Kept(Box<Collective<'static>>),
}

impl CollectiveProgress {
    /// Returns the progress of a collective that was started; `None` if it is over.
    ///
    /// # Errors
    /// The failure of its start.
    #[inline]
    pub(crate) fn of(started: Result<Started<'static>, Error>) -> Result<Option<Self>, CallFault> {
        match started {
            Ok(Started::Over(_)) => Ok(None),
            Ok(Started::InSlots(flat)) => Ok(Some(Self::InSlots(flat))),
            Ok(Started::ByMessages(collective)) => Ok(Some(Self::Kept(Box::new(collective)))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if it goes by control slots.
    #[inline]
    pub(super) fn is_in_slots(&self) -> bool {
        match self {
            Self::Over => false,
            Self::InSlots(_) => true,
            Self::Kept(collective) => collective.is_in_slots(),
        }
    }

    /// Goes on as far as it can without waiting, and looks so many times for what other ranks write
    /// to control slots; the result, once it is over.
    pub(super) fn advance(
        &mut self,
        scope: &mut StaticScope,
        looks: u32,
    ) -> Option<Result<Status, CallFault>> {
        let progress = match self {
            Self::Over => Ok(true),
            Self::InSlots(flat) => flat.watch(scope, looks),
            Self::Kept(collective) => collective.watch(scope, looks),
        };
        match progress {
            Ok(false) => None,
            Ok(true) => Some(Ok(Status::EMPTY)),
            Err(error) if matches!(error.cause, aldis_hal::Cause::Full(_)) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// A collective with what it works on. Its memory is dropped after it.
pub(crate) struct RunningCollective {
    pub(crate) progress: CollectiveProgress,
    pub(crate) before: Vec<MemoryStep>,
    pub(crate) after: Vec<MemoryStep>,
    pub(crate) _memory: Vec<Spare>,
    /// The memory of one whose data are in one piece.
    pub(crate) _of_piece: [Spare; 2],
    pub(crate) _blocks: Vec<Vec<Block>>,
    pub(crate) _topology: Option<Rc<CommTopology>>,
    /// The communicator that it has to itself, if it has one.
    pub(crate) _comm: Option<OwnComm>,
    pub(crate) _types: UsedTypes,
    /// True once what is left to do when it is over has been done.
    pub(crate) is_finished: bool,
}

impl RunningCollective {
    /// Makes one whose data are in one piece of the program's memory or of this.
    fn of_piece(progress: CollectiveProgress, memory: [Spare; 2]) -> Self {
        Self {
            progress,
            before: Vec::new(),
            after: Vec::new(),
            _memory: Vec::new(),
            _of_piece: memory,
            _blocks: Vec::new(),
            _topology: None,
            _comm: None,
            _types: UsedTypes::default(),
            is_finished: false,
        }
    }

    /// Returns true if nothing is left to do when it is over, or all of that has been done.
    pub(super) const fn is_all_done(&self) -> bool {
        self.after.is_empty() || self.is_finished
    }

    /// Does what is left when it is over, once, as the caller that finishes a request or asks for
    /// its status has seen.
    #[inline(never)]
    pub(super) fn finish(&mut self) -> Result<(), CallFault> {
        if core::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        // SAFETY: it is not under way.
        used_types::working(|| unsafe { run_steps(&mut self.after) })
    }
}

/// A handle for a collective under way.
pub(crate) fn of_collective(comm: Handle, running: RunningCollective) -> Result<Handle, CallFault> {
    let handle = started(comm, Work::Collective(Box::new(running)))?;
    COLLECTIVES.borrow_mut().push(handle);
    Ok(handle)
}

/// A handle for a collective whose data are in one piece, of the program's memory or of this; that
/// of all which are over at once, if it is.
#[inline]
pub(crate) fn of_started(
    comm: Handle,
    progress: Option<CollectiveProgress>,
    memory: [Spare; 2],
    topology: Option<Rc<CommTopology>>,
) -> Result<Handle, CallFault> {
    let Some(progress) = progress else { return Ok(messages::COMPLETED) };
    let running = RunningCollective::of_piece(progress, memory);
    of_collective(comm, RunningCollective { _topology: topology, ..running })
}

/// A handle for a collective that can be started again and again.
pub(crate) fn of_kept(comm: Handle, running: RunningCollective) -> Result<Handle, CallFault> {
    kept(comm, Work::Collective(Box::new(running)))
}
