//! A run from its first event to its report: a coroutine a rank, resumed one at a time in the order
//! of virtual time.

use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::io;
use std::panic::catch_unwind;
use std::rc::Rc;

use aldis_kernel::Error;
use aldis_kernel::hal::{Cause, Operation};
use aldis_linux::segment::{FileShape, check_room};
use corosensei::{Coroutine, CoroutineResult};

use super::config::{SimConfig, Wire};
use super::links::{FRAME_RANKS_MAX, FrameLinks, LinkSizes};
use super::node::Cpu;
use super::report::{Report, RunEnd, RunFailure, RunProgress};
use super::stack::RankStack;
use super::storage::{RANKS_MAX, SimStorage, SimTypeTable};
use super::virtual_node::{Outcome, SimEndpoint, VirtualNode};
use super::world::{Life, RunnerStep, World};

type SimProgram = Coroutine<(), (), Outcome, RankStack>;

/// Ranks from which on a job is looked at for whether there is memory for it before it is made:
/// smaller ones always fit, and there are many of them.
const LARGE_RANKS: u32 = 1024;
/// The memory of a rank besides its storage, bytes: what it touches of its stack, and what the
/// observer and the network keep of each peer that it has talked to.
const RANK_BYTES: usize = 36 << 10;
const MET_BYTES: usize = 640;
/// Ranks that are made, and events, from one look at the progress to the next.
const PROGRESS_RANKS: u32 = 1024;
const PROGRESS_EVENTS: u64 = 1 << 16;

/// Runs `program` on every rank and tells how it went.
///
/// # Errors
/// The machine has no memory for the ranks, or the job is empty or above [`RANKS_MAX`], or above
/// [`FRAME_RANKS_MAX`] on the wire of frames.
pub fn simulate(
    config: &SimConfig,
    program: impl Fn(&mut SimEndpoint<'_>) -> Outcome + 'static,
) -> io::Result<Report> {
    simulate_watched(config, program, |_| {})
}

/// Runs `program` on every rank, as [`simulate`] does, and tells `watch` from time to time how far
/// it has come: for a display, of jobs that take a while.
///
/// # Errors
/// Those of [`simulate`].
pub fn simulate_watched(
    config: &SimConfig,
    program: impl Fn(&mut SimEndpoint<'_>) -> Outcome + 'static,
    mut watch: impl FnMut(RunProgress),
) -> io::Result<Report> {
    run_nodes(config, move |node| node.run(&program), &mut watch)
}

/// Runs `program` on every rank with what an endpoint is made of, for programs with transports of
/// their own.
///
/// # Errors
/// Those of [`simulate`].
pub fn simulate_nodes(
    config: &SimConfig,
    program: impl Fn(VirtualNode<'_>) -> Outcome + 'static,
) -> io::Result<Report> {
    run_nodes(config, program, &mut |_| {})
}

fn run_nodes(
    config: &SimConfig,
    program: impl Fn(VirtualNode<'_>) -> Outcome + 'static,
    watch: &mut dyn FnMut(RunProgress),
) -> io::Result<Report> {
    let storage_bytes = check(config)?;
    let world = Rc::new(RefCell::new(World::new(config)));
    let program = Rc::new(program);
    let start = {
        let (world, config) = (world.clone(), config.clone());
        move |node| -> io::Result<SimProgram> {
            let mut storage =
                SimStorage::new(config.ranks, config.active, config.room).ok_or_else(too_large)?;
            let mut types = Box::new(SimTypeTable::new());
            let mut links = match config.wire {
                Wire::Messages => None,
                Wire::Frames => Some(FrameLinks::new(&config).ok_or_else(too_large)?),
            };
            let (world, program) = (world.clone(), program.clone());
            let stack = RankStack::new(config.stack_bytes)?;
            Ok(SimProgram::with_stack(stack, move |yielder, ()| {
                let links = links.as_mut().map(FrameLinks::memory);
                let (memory, types) = (storage.memory(), types.types());
                program(VirtualNode { cpu: Cpu { world, node, yielder }, memory, types, links })
            }))
        }
    };
    let make = |node: u32| {
        if node.is_multiple_of(PROGRESS_RANKS) {
            watch(RunProgress { made: node, ..world.borrow().progress() });
        }
        start(node).map(Some)
    };
    let mut programs = (0..config.ranks).map(make).collect::<io::Result<Vec<_>>>()?;
    let end = drive(config, &world, &mut programs, start, watch)?;
    drop(programs);
    let mut world = world.borrow_mut();
    Ok(Report::new(&mut world, storage_bytes, end))
}

/// Fails unless there is memory for the job, before any of it is made. Returns the bytes of a
/// rank's storage.
fn check(config: &SimConfig) -> io::Result<usize> {
    let bytes = SimStorage::bytes_of(config.ranks, config.active, config.room).ok_or_else(too_large)?;
    if config.ranks >= LARGE_RANKS {
        let rows = config.active.unwrap_or(config.ranks) as usize;
        let links = match config.wire {
            Wire::Messages => 0,
            Wire::Frames => LinkSizes::of(config).ok_or_else(too_large)?.bytes(),
        };
        let rank = bytes + size_of::<SimTypeTable>() + RANK_BYTES + MET_BYTES * rows + links;
        check_room(config.ranks, FileShape::of_one(rank)).map_err(|error| {
            let what = format!("{} ranks of {rank} bytes, {bytes} of them storage: {error}", config.ranks);
            io::Error::new(io::ErrorKind::OutOfMemory, what)
        })?;
        RankStack::check_mappings(config.ranks)?;
    }
    Ok(bytes)
}

fn too_large() -> io::Error {
    let what =
        format!("a simulation has 1 to {RANKS_MAX} ranks, and 1 to {FRAME_RANKS_MAX} on the wire of frames");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Resumes programs until all are over or one has failed. A node that boots again gets its program
/// from `start`.
fn drive(
    config: &SimConfig,
    world: &Rc<RefCell<World>>,
    programs: &mut [Option<SimProgram>],
    start: impl Fn(u32) -> io::Result<SimProgram>,
    watch: &mut dyn FnMut(RunProgress),
) -> io::Result<RunEnd> {
    let mut due = 0;
    loop {
        if world.borrow().programs == 0 {
            return Ok(RunEnd::Well);
        }
        if world.borrow().totals.events >= due {
            due += PROGRESS_EVENTS;
            watch(world.borrow().progress());
        }
        let step = world.borrow_mut().step();
        let node = match step {
            RunnerStep::Resume(node) => node,
            RunnerStep::Kill(node) => {
                // Unwinds its stack, as far as it got.
                programs[node as usize] = None;
                continue;
            }
            RunnerStep::Boot(node) => {
                programs[node as usize] = Some(start(node)?);
                continue;
            }
            RunnerStep::Nothing => continue,
            RunnerStep::Late => return Ok(late(config, &world.borrow())),
        };
        let Some(program) = &mut programs[node as usize] else { continue };
        let resumed = catch_unwind(AssertUnwindSafe(|| program.resume(())));
        if let Some(violation) = world.borrow_mut().watch.violation() {
            let rank = Some(violation.rank());
            return Ok(RunEnd::Failed(RunFailure { rank, what: violation.to_string(), ranks: Vec::new() }));
        }
        let outcome = match resumed {
            Ok(CoroutineResult::Yield(())) => continue,
            Ok(CoroutineResult::Return(outcome)) => outcome.map_err(|error| {
                let excused = config.faults.kills() && follows_from_death(&*error);
                (!excused).then(|| error.to_string())
            }),
            Err(panic) => Err(Some(words(&*panic))),
        };
        programs[node as usize] = None;
        world.borrow_mut().end(node, outcome.is_ok());
        if let Err(Some(what)) = outcome {
            return Ok(RunEnd::Failed(RunFailure { rank: Some(node), what, ranks: Vec::new() }));
        }
    }
}

/// Returns true if a program may end so when some node has died.
fn follows_from_death(error: &(dyn core::error::Error + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| {
        let told = matches!(error.cause, Cause::Withdrawn | Cause::Declined);
        told || matches!(error.cause, Cause::PeerDead | Cause::PeerLeft | Cause::TimedOut)
    })
}

/// The time is over. Where a node has died, a rank may wait for any of the others for ever, and
/// others for it; so may one that has booted again among others that know nothing of it. None may
/// wait for a life that is over.
fn late(config: &SimConfig, world: &World) -> RunEnd {
    let alive = || world.nodes.iter().zip(0..).filter(|(node, _)| node.life == Life::Alive);
    let waits_for_all = alive().any(|(node, _)| {
        let waits = matches!(node.activity.operation, Operation::Recv | Operation::Probe | Operation::Wait);
        waits && node.activity.peer.is_none() || node.boots > 0
    });
    let waits_for_none = alive().any(|(node, index)| {
        let peer = node.activity.peer.filter(|peer| peer.0 < config.ranks);
        peer.is_some_and(|peer| {
            let other = &world.nodes[peer.index()];
            let met = node.boots == 0 || world.knows(peer.0, index) == node.epoch;
            met && (other.life != Life::Alive || world.knows(index, peer.0) != other.epoch)
        })
    });
    let excused = config.faults.kills() && waits_for_all && !waits_for_none;
    let ranks = RunFailure::ranks(world);
    if excused {
        return RunEnd::Stranded(ranks);
    }
    let what = format!("not over {} ms after the faults have healed", config.patience_ns / 1_000_000);
    RunEnd::Failed(RunFailure { rank: None, what, ranks })
}

fn words(panic: &(dyn core::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", words.unwrap_or("without words"))
}
