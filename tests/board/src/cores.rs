//! Cores of a board that are ranks: by rings in the memory that all of them have, or by queues of
//! the board's card, over which they reach other boards too. Or they are one rank together, and
//! share its endpoint.
//!
//! The core that boots lays out the rings or the queues, leaves each other core its end of them,
//! and starts it. With rings all make their endpoints and show each other their cards; with queues
//! they find each other as boards do. The others write what they have to say into memory; the first
//! tells it when all have ended, before its own verdict.

use core::convert::Infallible;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use aldis_drivers::Shm;
use aldis_drivers::ethernet::{Ipv4, Udp};
use aldis_drivers::shm::{Cores, CoresSetup};
use aldis_drivers::steering::Steering;
use aldis_hal::{Cause, Cost, Epoch, Instant, Nic, PeerId, Platform};
use aldis_kernel::Shared;
use aldis_programs::{
    Facts, Link, Options, Program, ProgramFailure, give_verdict, leave, refuse, run_to_end,
};
use aldis_protocols::Card;
use heapless::{String, Vec};
use spin::Once;
use spin::mutex::SpinMutex;

use crate::any_nic::AnyNic;
use crate::any_wire::AnyWire;
use crate::arch::{self, Machine};
use crate::devices::{self, CardQueue, GigabitQueue};
use crate::memory::{self, CORES, inbox};
use crate::rank::{BoardEndpoint, BoardNic, TAKEN, Trouble, assemble};
use crate::wire;

/// The cost of a message between two cores, of an emulator that has two.
const COST: Cost = Cost { overhead_ns: 500, latency_ns: 1_000, per_kib_ns: 1_000 };

/// The time that the cores may take to appear, and beyond the program's own deadline to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Events that a core handles at a time once its program has ended.
pub(crate) const POLL_EVENTS: u32 = 64;

/// The memory for what another core has to say.
const SAID_BYTES: usize = 2048;

/// The work of another core: its way to the others, and what the job is.
struct CoreTask {
    options: Options,
    way: CoreWay,
}

/// The way of another core to the other ranks.
#[allow(clippy::large_enum_variant, reason = "there is one a core, in a static")]
enum CoreWay {
    /// An end of the rings, of all cores' epoch.
    Rings(Shm<'static>, Epoch),
    /// A queue of the card.
    Card(CardQueue),
    /// A queue of one of Intel's.
    Gigabit(GigabitQueue),
    /// None of its own: the endpoint that it shares with the first.
    Shared,
}

/// The place of the endpoint that the cores of a board share.
pub(crate) type SharedPlace<M> = Once<Shared<BoardEndpoint<BoardNic<M>, <M as Machine>::Clock>>>;

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
        let options = Options { rank: core, ..*options };
        *task.lock() = Some(CoreTask { options, way: CoreWay::Rings(end?, epoch) });
        if !machine.start_core(core) {
            return Err(Trouble::NoCore(core));
        }
    }
    meet(assemble(options, AnyWire::Inboxes(own), clock, epoch)?)
}

/// The endpoint of the core that boots, on the first queue of the board's card, once all others
/// have started with theirs and all ranks have been found.
pub(crate) fn join_by_queues<M: Machine>(
    options: &Options,
    machine: &mut M,
    clock: M::Clock,
) -> Result<BoardEndpoint<BoardNic<M>, M::Clock>, Trouble> {
    let (first, cores) = (options.rank, options.cores as usize);
    let mut addresses = [Ipv4::default(); CORES];
    for (address, rank) in addresses.iter_mut().zip(first..) {
        *address = Udp::of_rank(rank).address;
    }
    let addresses = addresses.get(..cores).ok_or(Trouble::NoCore(CORES as u32))?;
    // They follow each other, so that a card tells them apart.
    let steering = Steering::to(addresses).map_err(|_| Cause::Incompatible)?;
    let ways: Vec<CoreWay, CORES> = match options.link {
        Link::E1000e => {
            devices::gigabit_queues(machine, cores, &steering)?.into_iter().map(CoreWay::Gigabit).collect()
        }
        _ => devices::network_queues(machine, cores, &steering)?.into_iter().map(CoreWay::Card).collect(),
    };
    let mut ways = (0..options.cores).zip(ways);
    let (_, own) = ways.next().ok_or(Trouble::NoCore(0))?;
    for (core, way) in ways {
        let task = TASKS.get(core as usize).ok_or(Trouble::NoCore(core))?;
        *task.lock() = Some(CoreTask { options: Options { rank: first + core, ..*options }, way });
        if !machine.start_core(core) {
            return Err(Trouble::NoCore(core));
        }
    }
    join_by::<M>(options, own, clock)
}

/// The endpoint of a core, introduced to all other ranks.
fn join_by<M: Machine>(
    options: &Options,
    way: CoreWay,
    clock: M::Clock,
) -> Result<BoardEndpoint<BoardNic<M>, M::Clock>, Trouble> {
    match way {
        CoreWay::Rings(end, epoch) => meet(assemble(options, AnyWire::Inboxes(end), clock, epoch)?),
        CoreWay::Card(queue) => wire::join(options, AnyNic::VirtioQueue(queue), wire::NETWORK, clock),
        CoreWay::Gigabit(queue) => wire::join(options, AnyNic::GigabitQueue(queue), wire::NETWORK, clock),
        CoreWay::Shared => Err(Trouble::Missing("second endpoint")),
    }
}

/// The program of every core but the first.
pub(crate) fn main<M: Machine>(core: u32) -> ! {
    if let Some(report) = REPORTS.get(core as usize) {
        let out = &mut Telling(report);
        let Err(trouble) = play::<M>(core, report);
        refuse(&trouble, out);
        report.lock().is_good = Some(false);
    }
    // The first core ends the emulator.
    loop {
        core::hint::spin_loop();
    }
}

/// Joins the job, runs its program, and reports what came of it; then it hands over what comes by
/// its queue for other cores.
fn play<M: Machine>(core: u32, report: &'static SpinMutex<CoreReport>) -> Result<Infallible, Trouble> {
    let out = &mut Telling(report);
    let task = TASKS.get(core as usize).and_then(|task| task.lock().take());
    let CoreTask { options, way } = task.ok_or(Trouble::Missing("work for this core"))?;
    let clock = M::core_clock(core).ok_or(Trouble::Missing("clock"))?;
    if let CoreWay::Shared = way {
        let shared = M::shared_endpoint().get().ok_or(Trouble::Missing("endpoint to share"))?;
        let mut own = shared.core(clock);
        let sent = options.parameters.talk().play_core(&mut own, core);
        let is_good = give_verdict(options.program, sent.map(Facts::Messages), out).is_ok();
        report.lock().is_good = Some(is_good);
        loop {
            // The first core makes progress for all.
            core::hint::spin_loop();
        }
    }
    let mut endpoint = join_by::<M>(&options, way, clock)?;
    let ended = run_to_end(options.program, &mut endpoint, &options.parameters, out);
    // A report that is full says so.
    let _ = wire::tell_of_queue(endpoint.transport(), out);
    let is_good = give_verdict(options.program, ended, out).is_ok();
    report.lock().is_good = Some(is_good);
    loop {
        endpoint.poll(POLL_EVENTS);
    }
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

/// Returns true if the cores of the board share its endpoint.
pub(crate) fn are_sharing(options: &Options) -> bool {
    let &Options { program, link, cores, .. } = options;
    program == Program::Sharing && cores == 1 && link != Link::Cores && options.parameters.sharing > 1
}

/// Shares the endpoint with other cores, which are started, plays the part of the first, and leaves
/// the job once all have ended. The outer error has not been told yet, the inner one has.
pub(crate) fn share<M: Machine>(
    options: &Options,
    machine: &mut M,
    endpoint: BoardEndpoint<BoardNic<M>, M::Clock>,
) -> Result<Result<(), ProgramFailure>, Trouble> {
    let (out, cores) = (&mut arch::console(), options.parameters.sharing);
    let shared = M::shared_endpoint().call_once(|| Shared::new(endpoint));
    for core in 1..cores {
        let task = TASKS.get(core as usize).ok_or(Trouble::NoCore(core))?;
        *task.lock() = Some(CoreTask { options: *options, way: CoreWay::Shared });
        if !machine.start_core(core) {
            return Err(Trouble::NoCore(core));
        }
    }
    let clock = M::core_clock(0).ok_or(Trouble::Missing("clock"))?;
    let mut own = shared.core(clock);
    let sent = options.parameters.talk().play_core(&mut own, 0);
    let poll = || {
        let mut endpoint = own.lock();
        endpoint.poll(POLL_EVENTS);
        endpoint.platform().now()
    };
    let others = tell_of_others(options, cores, poll, out);
    let mut endpoint = own.lock();
    let received = endpoint.counters().messages_received;
    let told = writeln!(out, "endpoint: {received} messages to {cores} cores")
        .and_then(|()| wire::tell(endpoint.transport(), out));
    let played = sent.and_then(|sent| Ok(told.map(|()| Facts::Messages(sent))?));
    let ended = leave(played, &mut endpoint, &options.parameters);
    if ended.is_ok() {
        others?;
    }
    Ok(give_verdict(options.program, ended, out))
}

/// Waits until the other cores of a board have ended, and tells what they have said. Meanwhile it
/// polls for those for whom something comes by this core's queue or endpoint; the poll tells the
/// time.
///
/// # Errors
/// The first of them that was not good, or has not ended.
pub(crate) fn tell_of_others(
    options: &Options,
    cores: u32,
    mut poll: impl FnMut() -> Instant,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let deadline = poll().after(options.parameters.deadline + PATIENCE);
    let mut failed = None;
    for (core, report) in (1..cores).zip(&REPORTS[1..]) {
        let is_good = loop {
            let is_good = report.lock().is_good;
            if is_good.is_some() || poll() >= deadline {
                break is_good;
            }
        };
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
