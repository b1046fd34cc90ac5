//! A job of the cores of one board: each is a rank, by rings in the memory that all of them have.
//!
//! The core that boots lays out the rings, leaves each other core its end of them, and starts it.
//! All make their endpoints, show each other their cards, and run the program. The others write
//! what they have to say into memory; the first tells it when all have ended, before its own
//! verdict.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use aldis_drivers::Shm;
use aldis_drivers::e1000e::{E1000e, MappedRegisters};
use aldis_drivers::serial::SerialNic;
use aldis_drivers::shm::{Cores, CoresSetup};
use aldis_hal::{Cause, Cost, Epoch, Instant, Nic, PeerId, Platform};
use aldis_programs::{Options, give_verdict, refuse, run_to_end};
use aldis_protocols::Card;
use heapless::String;
use spin::mutex::SpinMutex;

use crate::any_nic::AnyNic;
use crate::any_wire::AnyWire;
use crate::arch::Machine;
use crate::devices;
use crate::memory::{self, CORES, inbox};
use crate::rank::{BoardEndpoint, TAKEN, Trouble, assemble};

/// The cost of a message between two cores, of an emulator that has two.
const COST: Cost = Cost { overhead_ns: 500, latency_ns: 1_000, per_kib_ns: 1_000 };

/// The time that the cores may take to appear, and beyond the program's own deadline to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The memory for what another core has to say.
const SAID_BYTES: usize = 2048;

/// The card of a board, whichever it is.
type BoardNic<M> = AnyNic<
    devices::Card,
    E1000e<MappedRegisters, { memory::QUEUE }>,
    SerialNic<'static, <M as Machine>::Serial>,
>;

/// The work of another core: its end of the rings, and what the job is.
struct CoreTask {
    options: Options,
    end: Shm<'static>,
    epoch: Epoch,
}

/// The outcome of another core.
struct CoreReport {
    said: String<SAID_BYTES>,
    /// True once more was said than there is memory for.
    is_cut: bool,
    /// True if it was good, false if not; nothing before it has ended.
    is_good: Option<bool>,
}

static TASKS: [SpinMutex<Option<CoreTask>>; CORES] = [const { SpinMutex::new(None) }; CORES];
static REPORTS: [SpinMutex<CoreReport>; CORES] =
    [const { SpinMutex::new(CoreReport { said: String::new(), is_cut: false, is_good: None }) }; CORES];

/// The cards of all cores, as far as they have shown them.
static CARDS: SpinMutex<[Option<Card>; CORES]> = SpinMutex::new([const { None }; CORES]);
/// Cores that have been introduced to all others.
static INTRODUCED: AtomicU32 = AtomicU32::new(0);

/// Writes what a core has to say into its report.
struct Telling(&'static SpinMutex<CoreReport>);

impl Write for Telling {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut report = self.0.lock();
        let is_whole = report.said.push_str(text).is_ok();
        report.is_cut |= !is_whole;
        Ok(())
    }
}

/// The endpoint of the core that boots, once all others have started and been introduced.
pub(crate) fn join<M: Machine>(
    options: &Options,
    machine: &mut M,
    mut clock: M::Clock,
) -> Result<BoardEndpoint<BoardNic<M>, M::Clock>, Trouble> {
    let size = options.size;
    if size as usize > CORES {
        return Err(Trouble::NoCore(CORES as u32));
    }
    let epoch = Epoch::from_entropy(clock.entropy());
    let setup = CoresSetup { geometry: inbox(size), epoch, cost: COST };
    let rings = memory::CORE_RINGS.take().ok_or(TAKEN)?;
    let mut ends = Cores::new(rings, &mut memory::CORE_LANES.take().ok_or(TAKEN)?.0, setup)?;
    let own = ends.next().ok_or(Trouble::Missing("core"))??;
    for ((core, task), end) in (1..).zip(&TASKS[1..]).zip(ends) {
        *task.lock() = Some(CoreTask { options: Options { rank: core, ..*options }, end: end?, epoch });
        if !machine.start_core(core) {
            return Err(Trouble::NoCore(core));
        }
    }
    meet(assemble(options, AnyWire::Inboxes(own), clock, epoch)?)
}

/// The program of every core but the first.
pub(crate) fn main<M: Machine>(core: u32) -> ! {
    if let Some(report) = REPORTS.get(core as usize) {
        let out = &mut Telling(report);
        let ended = play::<M>(core, out);
        if let Err(trouble) = &ended {
            refuse(trouble, out);
        }
        report.lock().is_good = Some(matches!(ended, Ok(true)));
    }
    // The first core ends the emulator.
    loop {
        core::hint::spin_loop();
    }
}

/// Joins the job and runs its program. Returns true if that was good; what it was has been told.
fn play<M: Machine>(core: u32, out: &mut Telling) -> Result<bool, Trouble> {
    let task = TASKS.get(core as usize).and_then(|task| task.lock().take());
    let CoreTask { options, end, epoch } = task.ok_or(Trouble::Missing("work for this core"))?;
    let clock = M::core_clock(core).ok_or(Trouble::Missing("clock"))?;
    let wire: AnyWire<BoardNic<M>> = AnyWire::Inboxes(end);
    let mut endpoint = meet(assemble(&options, wire, clock, epoch)?)?;
    let ended = run_to_end(options.program, &mut endpoint, &options.parameters, out);
    Ok(give_verdict(options.program, ended, out).is_ok())
}

/// Introduces this core and all others to each other.
fn meet<N: Nic, P: Platform>(mut endpoint: BoardEndpoint<N, P>) -> Result<BoardEndpoint<N, P>, Trouble> {
    let (me, size) = (endpoint.card().peer(), endpoint.world().size());
    let deadline = endpoint.platform().now().after(PATIENCE);
    if let Some(place) = CARDS.lock().get_mut(me.index()) {
        *place = Some(endpoint.card());
    }
    for peer in (0..size).map(PeerId).filter(|peer| *peer != me) {
        let card = || CARDS.lock().get(peer.index()).cloned().flatten();
        let card =
            until(endpoint.platform(), deadline, card).ok_or(Trouble::Absent(peer, Cause::TimedOut))?;
        endpoint.connect(&card)?;
    }
    // None sends before all have been introduced.
    INTRODUCED.fetch_add(1, Ordering::AcqRel);
    let all = || (INTRODUCED.load(Ordering::Acquire) == size).then_some(());
    until(endpoint.platform(), deadline, all).ok_or(Trouble::Missing("core that has met all others"))?;
    Ok(endpoint)
}

/// Asks until there is an answer; none by the deadline is none.
fn until<R>(clock: &impl Platform, deadline: Instant, mut ask: impl FnMut() -> Option<R>) -> Option<R> {
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if clock.now() >= deadline {
            return None;
        }
        core::hint::spin_loop();
    }
}

/// Waits until the other cores of a job have ended, and tells what they have said.
///
/// # Errors
/// The first of them that was not good, or has not ended.
pub(crate) fn tell_of_others(
    options: &Options,
    clock: &impl Platform,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let deadline = clock.now().after(options.parameters.deadline + PATIENCE);
    let mut failed = None;
    for (core, report) in (1..options.size).zip(&REPORTS[1..]) {
        let is_good = until(clock, deadline, || report.lock().is_good);
        let report = report.lock();
        let told = |line| writeln!(out, "core {core}: {line}");
        // A console that takes nothing fails with the verdict.
        let _ = report.said.lines().try_for_each(told);
        if report.is_cut {
            let _ = writeln!(out, "core {core}: and more, for which there is no memory");
        }
        if is_good != Some(true) {
            failed.get_or_insert(core);
        }
    }
    failed.map_or(Ok(()), |core| Err(Trouble::Core(core)))
}
