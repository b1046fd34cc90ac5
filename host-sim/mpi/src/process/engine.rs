//! This module holds `unsafe` code: the one endpoint of the process.
//!
//! The process's endpoint, from `MPI_Init` to `MPI_Finalize`, or from the first session until the
//! process exits.
//!
//! Its storage: the job's ranks, 2^20 requests, 4096 communicators, 2^20 derived datatypes with 2
//! GiB of words, 128 envelopes and 32 blocks of 64 KiB a peer; [mapped](aldis_linux::lazy), so that
//! what is not used takes no memory. Where the system refuses so much address space (`ulimit -v`):
//! 4096 requests, 1024 communicators, 1024 derived datatypes with 64 Ki words. What does not fit is
//! `MPI_ERR_NO_MEM`, of what the message tells.

use core::cell::{OnceCell, RefCell};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::process;

use aldis_hal::{Activity, Operation};
use aldis_kernel::datatype::{TypeTable, Types};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Memory, Request, StorageSizes};
use aldis_linux::transport::failures;
use aldis_linux::{HostEndpoint, Job, JoinError, lazy};
use aldis_sys::process::atexit;

use crate::abi::{Handle, MPI_ERR_INTERN, MPI_ERR_NO_MEM, MPI_ERR_OTHER};
use crate::fault::CallFault;
use crate::ffi::Address;
use crate::process::Owned;
use crate::process::messages::MessageNotes;
use crate::process::scope::{self, StaticScope};
use crate::process::threads;

/// The memory of a rank of a job of so many: large, or small where address space is short.
fn storage(ranks: u32) -> Result<Memory<'static>, JoinError> {
    let large = StorageSizes {
        peers: ranks as usize,
        requests: 1 << 20,
        communicators: 4096,
        envelopes: 128,
        blocks: 32,
        block_bytes: 64 << 10,
        pooled: 16,
        bins: 1 << 16,
        pieces: 17 << 12,
    };
    let small = StorageSizes {
        requests: 4096,
        communicators: 1024,
        block_bytes: 8 << 10,
        bins: 1024,
        pieces: 17 << 10,
        ..large
    };
    lazy::storage(&[large, small])
}

/// Memory for derived datatypes, and for the words that describe them.
fn datatypes() -> Types<'static> {
    lazy::types::<{ 1 << 20 }, { 1 << 28 }>()
        .unwrap_or_else(|| Box::leak(Box::new(TypeTable::<1024, 65536>::new())).types())
}

/// The endpoint and the job of this process.
pub(crate) struct ProcessEngine {
    pub(crate) scope: StaticScope,
    /// The messages under way that the program has handles of.
    pub(crate) messages: MessageNotes,
    job: Option<Job>,
    /// Requests that the program has freed before they were over.
    pub(crate) freed: Vec<Request<'static>>,
    /// Memory of the library that some of them work on.
    pub(crate) memory_of_freed: Vec<Vec<u8>>,
    /// Memory for buffered sends, as the program gave it.
    pub(crate) attached: Option<(Address, i64)>,
    /// Looks in vain, one after the other, of calls that do not wait.
    idle_looks: u32,
}

/// The phase of this process: before, within or after MPI, or ended by an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ProcessPhase {
    Before,
    Running,
    After,
    /// The process is ending by an error.
    Aborting,
}

// SAFETY: only calls of MPI use it.
static ENGINE: Owned<OnceCell<RefCell<ProcessEngine>>> = unsafe { Owned::new(OnceCell::new()) };

/// A [`ProcessPhase`], for which threads may ask at any time.
static PHASE: AtomicU8 = AtomicU8::new(ProcessPhase::Before as u8);

/// The phase of the World Model alone: from `MPI_Init` to `MPI_Finalize`, with or without sessions
/// beside it.
static WORLD: AtomicU8 = AtomicU8::new(ProcessPhase::Before as u8);

/// Returns the phase of this process.
pub(crate) fn phase() -> ProcessPhase {
    phase_of(PHASE.load(Ordering::Relaxed))
}

/// Returns the phase of the World Model.
pub(crate) fn world_phase() -> ProcessPhase {
    phase_of(WORLD.load(Ordering::Relaxed))
}

/// Notes that the World Model begins or ends.
pub(crate) fn enter_world_phase(phase: ProcessPhase) {
    WORLD.store(phase as u8, Ordering::Relaxed);
}

const fn phase_of(number: u8) -> ProcessPhase {
    const RUNNING: u8 = ProcessPhase::Running as u8;
    const AFTER: u8 = ProcessPhase::After as u8;
    const ABORTING: u8 = ProcessPhase::Aborting as u8;
    match number {
        RUNNING => ProcessPhase::Running,
        AFTER => ProcessPhase::After,
        ABORTING => ProcessPhase::Aborting,
        _ => ProcessPhase::Before,
    }
}

/// The engine.
#[inline]
pub(crate) fn cell() -> Result<&'static RefCell<ProcessEngine>, CallFault> {
    match (phase(), ENGINE.get()) {
        (ProcessPhase::After, _) => Err(untimely(AFTER)),
        (_, Some(engine)) => Ok(engine),
        (_, None) => Err(untimely(BEFORE)),
    }
}

#[cold]
fn untimely(when: &str) -> CallFault {
    CallFault::new(MPI_ERR_OTHER, when)
}

/// Works with the engine.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&mut ProcessEngine) -> Result<R, CallFault>) -> Result<R, CallFault> {
    work(&mut *cell()?.try_borrow_mut().map_err(|_| untimely(INSIDE))?)
}

const BEFORE: &str = "called before MPI_Init";
const INSIDE: &str = "called from inside of another call of MPI, such as a reduction function";
const AFTER: &str = "called after MPI_Finalize, or after the last session was finalized";

impl ProcessEngine {
    /// For blocking calls.
    pub(crate) fn endpoint(&mut self) -> &mut HostEndpoint {
        scope::endpoint(&mut self.scope)
    }

    /// Accounts for a look of a call that does not wait. After some in vain the core is given away
    /// where ranks outnumber cores; of several threads none does so, as the others would wait too.
    #[inline]
    pub(crate) fn account_look(&mut self, events: u32, found: bool) {
        if events > 0 {
            self.idle_looks = 0;
        } else if !found && !threads::are_many() {
            self.idle_looks = self.idle_looks.saturating_add(1);
            let idle = self.idle_looks;
            self.endpoint().platform().yield_between_looks(idle);
        }
    }

    /// The table of datatypes.
    pub(crate) fn types(&mut self) -> Result<&mut Types<'static>, CallFault> {
        Ok(self.scope.types()?)
    }

    /// Returns the request of a message under way, if that is what the handle is of.
    #[inline]
    pub(crate) fn message(&mut self, handle: Handle) -> Option<Request<'static>> {
        message(&self.messages, &mut self.scope, handle)
    }

    /// Lets freed requests that are over go.
    #[inline]
    pub(crate) fn reap(&mut self) {
        if !(self.freed.is_empty() && self.memory_of_freed.is_empty()) {
            self.reap_all();
        }
    }

    #[cold]
    fn reap_all(&mut self) {
        let scope = &mut self.scope;
        // A caller that frees a request is not told how it ends.
        for mut request in core::mem::take(&mut self.freed) {
            match scope.test(&mut request) {
                Ok(None) => self.freed.push(request),
                // A persistent one has its slot still.
                _ => scope.detach(request),
            }
        }
        if self.freed.is_empty() {
            self.memory_of_freed.clear();
        }
    }
}

/// Returns the request of a message under way, if that is what the handle is of.
#[inline]
pub(crate) fn message(
    notes: &MessageNotes,
    scope: &mut StaticScope,
    handle: Handle,
) -> Option<Request<'static>> {
    let message = notes.find(handle).filter(|message| scope.is_live(*message))?;
    // SAFETY: it was noted when a request of this scope had been started.
    Some(unsafe { scope.request_of(message) })
}

/// Refuses a second `MPI_Init`.
pub(crate) fn check_world_is_new() -> Result<(), CallFault> {
    match world_phase() {
        ProcessPhase::Before => Ok(()),
        ProcessPhase::Running | ProcessPhase::Aborting => Err(untimely("called a second time")),
        ProcessPhase::After => Err(untimely(AFTER)),
    }
}

/// Becomes a rank: world and self of the job; `None` if the process is one, or has only
/// [paused](pause).
pub(crate) fn start() -> Result<Option<[Comm; 2]>, CallFault> {
    match phase() {
        ProcessPhase::Before => {}
        ProcessPhase::Running => return Ok(None),
        ProcessPhase::Aborting => return Err(untimely("called while the process ends by an error")),
        ProcessPhase::After if is_paused() => {
            PHASE.store(ProcessPhase::Running as u8, Ordering::Relaxed);
            return Ok(None);
        }
        ProcessPhase::After => return Err(untimely(AFTER)),
    }
    let joined = Job::join_sized(storage);
    let (job, mut endpoint) = joined.unwrap_or_else(|error| {
        // There is no handler yet that could be asked.
        eprintln!("MPI_Init: {error}");
        process::exit(1)
    });
    endpoint.attach_types(datatypes())?;
    let comms = [endpoint.world(), endpoint.itself()];
    let (freed, memory_of_freed) = (Vec::new(), Vec::new());
    // SAFETY: the process joins its job once, so there is no other endpoint.
    let scope = unsafe { scope::create(endpoint) };
    let (job, messages, attached) = (Some(job), MessageNotes::new(), None);
    let engine = ProcessEngine { scope, messages, job, freed, memory_of_freed, attached, idle_looks: 0 };
    if ENGINE.set(RefCell::new(engine)).is_err() {
        return Err(CallFault::new(MPI_ERR_INTERN, "there is an engine"));
    }
    PHASE.store(ProcessPhase::Running as u8, Ordering::Relaxed);
    Ok(Some(comms))
}

/// Returns true if the process is still in its job, though nothing of MPI is in use.
fn is_paused() -> bool {
    phase() == ProcessPhase::After
        && ENGINE.get().is_some_and(|engine| engine.try_borrow().is_ok_and(|engine| engine.job.is_some()))
}

/// Waits until all freed requests are over, but for receives that have met no message.
pub(crate) fn settle() -> Result<(), CallFault> {
    with(|ProcessEngine { scope, freed, .. }| {
        let activity = Activity { operation: Operation::Leave, ..Activity::default() };
        Ok(scope.wait_until(activity, |scope| {
            // A caller that frees a request is not told how it ends.
            freed.retain_mut(|request| matches!(scope.result(request), Ok(None)));
            Ok(freed.iter().all(|request| scope.is_unmatched(request)).then_some(()))
        })?)
    })
}

impl ProcessEngine {
    /// Leaves the job: what was sent is delivered, since this rank has [settled](settle).
    fn leave(&mut self) -> Result<(), CallFault> {
        // No message is left for these.
        for mut request in core::mem::take(&mut self.freed) {
            self.scope.cancel(&mut request);
        }
        match self.job.take() {
            Some(job) => Ok(job.leave(self.endpoint())?),
            None => Ok(()),
        }
    }
}

/// Leaves the job, for good: all ranks have [settled](settle) before any comes here.
pub(crate) fn finish() -> Result<(), CallFault> {
    settle()?;
    with(ProcessEngine::leave)?;
    PHASE.store(ProcessPhase::After as u8, Ordering::Relaxed);
    Ok(())
}

/// Stops until the next session, or until the process exits, which is when it leaves the job: a
/// job is joined once, and sessions may come and go (MPI 5.0, 11.3).
pub(crate) fn pause() -> Result<(), CallFault> {
    settle()?;
    PHASE.store(ProcessPhase::After as u8, Ordering::Relaxed);
    Ok(())
}

/// The process that has asked for a call at its exit: a fork of it has the request too.
static LEAVES_AT_EXIT: AtomicU32 = AtomicU32::new(0);

/// Has the process leave the job at its exit, if it is [paused](pause) then.
pub(crate) fn leave_at_exit() -> Result<(), CallFault> {
    if LEAVES_AT_EXIT.swap(process::id(), Ordering::Relaxed) != 0 {
        return Ok(());
    }
    atexit(at_exit).map_err(|error| CallFault::new(MPI_ERR_NO_MEM, format!("no call at exit: {error}")))
}

extern "C" fn at_exit() {
    let Some(_turn) = threads::turn_at_exit() else { return };
    if LEAVES_AT_EXIT.load(Ordering::Relaxed) != process::id() || phase() != ProcessPhase::After {
        return;
    }
    if let Some(Ok(mut engine)) = ENGINE.get().map(RefCell::try_borrow_mut) {
        // The job has been told; nobody is left to be told here.
        let _ = engine.leave();
    }
}

/// Ends the job with a message, said once: by the launcher, or here without one.
pub(crate) fn abort(code: c_int, text: &str) -> ! {
    end(code, text, |job, endpoint, text| job.abort(endpoint, code, text))
}

/// Ends this rank because another has ended, whose error is the one to be reported.
pub(crate) fn follow(code: c_int, text: &str) -> ! {
    end(code, text, |job, _, text| job.fail(text, true))
}

fn end(code: c_int, text: &str, last_word: impl FnOnce(Job, &mut HostEndpoint, &str)) -> ! {
    if PHASE.swap(ProcessPhase::Aborting as u8, Ordering::Relaxed) != ProcessPhase::Aborting as u8 {
        let told = ENGINE.get().is_some_and(|engine| {
            let Ok(mut engine) = engine.try_borrow_mut() else { return false };
            let Some(job) = engine.job.take() else { return false };
            let is_launched = job.is_launched();
            let endpoint = engine.endpoint();
            let text = text.to_owned() + &failures(endpoint);
            last_word(job, endpoint, &text);
            is_launched
        });
        if !told {
            eprintln!("{text}");
        }
    }
    process::exit((code & 0xFF).max(1))
}
