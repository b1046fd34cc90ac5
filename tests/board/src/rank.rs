//! From the command line to the verdict.

use core::fmt::{self, Write};

use aldis_drivers::Loopback;
use aldis_drivers::discovery::Overdue;
use aldis_drivers::serial::SerialNic;
use aldis_hal::nic::Mac;
use aldis_hal::{Cause, Epoch, Nic, PeerId, Platform};
use aldis_kernel::{Composite, Config, Endpoint, Error};
use aldis_programs::{Link, OptionError, Options, ProgramFailure, give_verdict, refuse, run_to_end};

use crate::any_nic::AnyNic;
use crate::any_wire::AnyWire;
use crate::arch::{self, Machine};
#[cfg(not(target_arch = "arm"))]
use crate::cores;
use crate::{devices, memory, shared, wire};

/// The reason why a rank does not come to run its program.
pub(crate) enum Trouble {
    /// The command line is wrong.
    Options(OptionError<'static>),
    /// The board lacks something.
    Missing(&'static str),
    /// A device or the endpoint refuses.
    Refused(Cause),
    /// The job does not come together.
    Kernel(Error),
    /// Ranks are missing.
    Overdue(Overdue),
    /// A rank is missing.
    Absent(PeerId, Cause),
    /// The board has no core of this number, or it does not start.
    #[cfg(not(target_arch = "arm"))]
    NoCore(u32),
    /// A core that was started has failed, or does not end.
    #[cfg(not(target_arch = "arm"))]
    Core(u32),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::Missing(what) => write!(f, "this board has no {what}"),
            Self::Refused(cause) => cause.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Overdue(report) => report.fmt(f),
            Self::Absent(peer, cause) => write!(f, "rank {} does not appear: {cause}", peer.0),
            #[cfg(not(target_arch = "arm"))]
            Self::NoCore(core) => write!(f, "core {core} does not start: the board has fewer, or one only"),
            #[cfg(not(target_arch = "arm"))]
            Self::Core(core) => write!(f, "core {core} has failed, or has not ended"),
        }
    }
}

impl From<Cause> for Trouble {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause)
    }
}

impl From<Overdue> for Trouble {
    fn from(report: Overdue) -> Self {
        Self::Overdue(report)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

/// Runs the program of every board: one job, one verdict, and the end.
pub(crate) fn main<M: Machine>(mut machine: M) -> ! {
    let mut out = arch::console();
    let ended = play(&mut machine);
    if let Err(trouble) = &ended {
        refuse(trouble, &mut out);
    }
    arch::exit(matches!(ended, Ok(Ok(()))))
}

/// Joins the job of the command line and runs its program. The outer error has not been told yet,
/// the inner one has.
fn play<M: Machine>(machine: &mut M) -> Result<Result<(), ProgramFailure>, Trouble> {
    let line = machine.command_line().unwrap_or_default();
    let options = Options::parse(line).map_err(Trouble::Options)?;
    let mut clock = machine.clock().ok_or(Trouble::Missing("clock"))?;
    let mut endpoint = match options.link {
        #[cfg(not(target_arch = "arm"))]
        Link::VirtioNet | Link::E1000e if options.cores > 1 => {
            cores::join_by_queues(&options, machine, clock)?
        }
        Link::Loopback => {
            let epoch = Epoch::from_entropy(clock.entropy());
            assemble(&options, AnyWire::Vacant, clock, epoch)?
        }
        Link::Serial | Link::VirtioNet | Link::E1000e => {
            let (nic, pace) = match options.link {
                Link::Serial => {
                    let line = machine.serial().ok_or(Trouble::Missing("second serial line"))?;
                    let memory = memory::LINE.take().ok_or(TAKEN)?.memory();
                    (AnyNic::Serial(SerialNic::new(line, memory, mac(options.rank))), wire::SERIAL)
                }
                Link::E1000e => (AnyNic::Gigabit(devices::gigabit_card(machine)?), wire::NETWORK),
                _ => (AnyNic::Virtio(devices::network_card(machine)?), wire::NETWORK),
            };
            wire::join(&options, nic, pace, clock)?
        }
        Link::Ivshmem => shared::join(&options, &devices::shared_memory(machine)?, clock)?,
        #[cfg(target_arch = "arm")]
        Link::Cores => return Err(Trouble::Missing("second core")),
        #[cfg(not(target_arch = "arm"))]
        Link::Cores => cores::join(&options, machine, clock)?,
        Link::Nic => return Err(Trouble::Missing("network card of its own")),
    };
    #[cfg(not(target_arch = "arm"))]
    if cores::are_sharing(&options) {
        return cores::share(&options, machine, endpoint);
    }
    job::<M>(&options, &mut endpoint)
}

/// The error of a rank that wants more memory than there is.
pub(crate) const TAKEN: Trouble = Trouble::Missing("memory for a second job");

/// The address of a rank that has no card with one of its own.
const fn mac(rank: u32) -> Mac {
    let [_, _, high, low] = rank.to_be_bytes();
    Mac([0x02, 0xA1, 0xD1, 0, high, low])
}

/// The card of a board, whichever it is.
pub(crate) type BoardNic<M> = AnyNic<
    devices::Card,
    devices::GigabitCard,
    SerialNic<'static, <M as Machine>::Serial>,
    devices::CardQueue,
    devices::GigabitQueue,
>;

/// The ways of a board's messages: to itself, and to others.
pub(crate) type Wire<N> = Composite<Loopback<'static>, AnyWire<N>>;

/// The endpoint of a board.
pub(crate) type BoardEndpoint<N, P> = Endpoint<'static, Wire<N>, P>;

/// The core of its board that a rank is.
pub(crate) const fn core_of(options: &Options) -> usize {
    match options.link {
        Link::Cores => options.rank as usize,
        _ => (options.rank % options.cores) as usize,
    }
}

/// An endpoint that knows itself alone. The console tells its epoch, by which others know this life
/// of the board from others; of several cores, by that of the first.
pub(crate) fn assemble<N: Nic, P: Platform>(
    options: &Options,
    wire: AnyWire<N>,
    clock: P,
    epoch: Epoch,
) -> Result<BoardEndpoint<N, P>, Trouble> {
    let core = core_of(options);
    let frames = memory::LOOPBACK.get(core).and_then(memory::Once::take).ok_or(TAKEN)?;
    let memory = memory::STORAGE.get(core).and_then(|storage| storage.take()).ok_or(TAKEN)?;
    let me = PeerId(options.rank);
    let itself = Loopback::new(me, frames, memory::FRAME_BYTES)?;
    if core == 0 {
        let _ = writeln!(arch::console(), "info: epoch {:08x}", epoch.0);
    }
    let config = Config { me, size: options.size, epoch };
    Ok(Endpoint::new(memory, Composite::new(itself, wire), clock, config)?)
}

/// The program, which tells its own verdict, after those of the board's other cores. The outer
/// error has not been told yet, the inner one has.
fn job<M: Machine>(
    options: &Options,
    endpoint: &mut BoardEndpoint<BoardNic<M>, M::Clock>,
) -> Result<Result<(), ProgramFailure>, Trouble> {
    let (program, out) = (options.program, &mut arch::console());
    let ended = run_to_end(program, endpoint, &options.parameters, out);
    let told =
        wire::tell(endpoint.transport(), out).and_then(|()| wire::tell_of_queue(endpoint.transport(), out));
    let ended = told.map_err(Into::into).and(ended);
    #[cfg(not(target_arch = "arm"))]
    if options.link == Link::Cores || options.cores > 1 {
        let cores = if options.link == Link::Cores { options.size } else { options.cores };
        let poll = || {
            endpoint.poll(cores::POLL_EVENTS);
            endpoint.platform().now()
        };
        let others = cores::tell_of_others(options, cores, poll, out);
        if ended.is_ok() {
            others?;
        }
    }
    Ok(give_verdict(program, ended, out))
}
