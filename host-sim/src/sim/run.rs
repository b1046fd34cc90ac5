//! A run from its first event to its report: a coroutine a rank, resumed one at a time in the order of virtual time.

use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::io;
use std::panic::catch_unwind;
use std::rc::Rc;

use aldis_kernel::Error;
use aldis_kernel::hal::{Cause, Operation};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::config::{Config, Profile};
use super::node::Cpu;
use super::report::{End, Failure, Report};
use super::seat::{Outcome, Seat, SimEndpoint};
use super::storage::{RANKS_MAX, boxed};
use super::world::{Life, Step, World};

type Program = Coroutine<(), (), Outcome>;

/// Runs `program` on every rank and tells how it went.
///
/// # Errors
/// The machine has no memory for the stacks, or the job is empty or above [`RANKS_MAX`].
pub fn simulate(
    config: &Config,
    program: impl Fn(&mut SimEndpoint<'_>) -> Outcome + 'static,
) -> io::Result<Report> {
    simulate_seats(config, move |seat| seat.run(&program))
}

/// Runs `program` on every rank with what an endpoint is made of, for programs with transports of their own.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_seats(
    config: &Config,
    program: impl Fn(Seat<'_>) -> Outcome + 'static,
) -> io::Result<Report> {
    let world = Rc::new(RefCell::new(World::new(config)));
    let program = Rc::new(program);
    let mut storage_bytes = 0;
    let mut programs = Vec::new();
    for node in 0..config.ranks {
        let storage = boxed(config.ranks, config.room).ok_or_else(too_large)?;
        storage_bytes = storage.bytes();
        let (world, program) = (world.clone(), program.clone());
        let stack = DefaultStack::new(config.stack_bytes)?;
        programs.push(Some(Program::with_stack(stack, move |yielder, ()| {
            let mut storage = storage;
            program(Seat { cpu: Cpu { world, node, yielder }, memory: storage.memory() })
        })));
    }
    if programs.is_empty() {
        return Err(too_large());
    }
    let end = drive(config, &world, &mut programs);
    drop(programs);
    let mut world = world.borrow_mut();
    Ok(Report::new(&mut world, storage_bytes, end))
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("a simulation has 1 to {RANKS_MAX} ranks"))
}

/// Resumes programs until all are over or one has failed.
fn drive(config: &Config, world: &Rc<RefCell<World>>, programs: &mut [Option<Program>]) -> End {
    let goodbyes = config.leave || config.faults == Profile::Crash;
    let mut alive = programs.len();
    loop {
        if alive == 0 || (!goodbyes && world.borrow().programs == 0) {
            return End::Well;
        }
        let step = world.borrow_mut().step();
        let node = match step {
            Step::Resume(node) => node,
            Step::Kill(node) => {
                // Unwinds its stack, as far as it got.
                programs[node as usize] = None;
                alive -= 1;
                continue;
            }
            Step::Nothing => continue,
            Step::Late => return late(config, &world.borrow()),
        };
        let Some(program) = &mut programs[node as usize] else { continue };
        let outcome = match catch_unwind(AssertUnwindSafe(|| program.resume(()))) {
            Ok(CoroutineResult::Yield(())) => continue,
            Ok(CoroutineResult::Return(outcome)) => outcome.map_err(|error| {
                let excused = config.faults == Profile::Crash && follows_from_death(&*error);
                (!excused).then(|| error.to_string())
            }),
            Err(panic) => Err(Some(words(&*panic))),
        };
        programs[node as usize] = None;
        alive -= 1;
        world.borrow_mut().end(node, outcome.is_ok());
        if let Err(Some(what)) = outcome {
            return End::Failed(Failure { rank: Some(node), what, ranks: Vec::new() });
        }
    }
}

/// Whether a program may end so when some node has died.
fn follows_from_death(error: &(dyn core::error::Error + 'static)) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| {
        matches!(error.cause, Cause::PeerDead | Cause::PeerLeft | Cause::Withdrawn | Cause::TimedOut)
    })
}

/// The time is over. Where a node has died, a rank may wait for any of the others for ever, and others for it; none may
/// wait for one that is gone.
fn late(config: &Config, world: &World) -> End {
    let alive = || world.nodes.iter().filter(|node| node.life == Life::Alive);
    let waits_for_all = alive().any(|node| {
        let waits = matches!(node.activity.operation, Operation::Recv | Operation::Probe | Operation::Wait);
        waits && node.activity.peer.is_none()
    });
    let waits_for_none = alive().any(|node| {
        let peer = node.activity.peer.and_then(|peer| world.nodes.get(peer.index()));
        peer.is_some_and(|peer| peer.life != Life::Alive)
    });
    let excused = config.faults == Profile::Crash && waits_for_all && !waits_for_none;
    let ranks = Failure::ranks(world);
    if excused {
        return End::Stranded(ranks);
    }
    let what = format!("not over {} ms after the faults have healed", config.patience_ns / 1_000_000);
    End::Failed(Failure { rank: None, what, ranks })
}

fn words(panic: &(dyn core::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", words.unwrap_or("without words"))
}
