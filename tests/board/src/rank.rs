//! From the command line to the verdict.

use core::fmt::{self, Write};

use aldis_drivers::Loopback;
use aldis_drivers::discovery::Overdue;
use aldis_drivers::serial::SerialNic;
use aldis_hal::nic::Mac;
use aldis_hal::{Cause, Epoch, PeerId, Platform, Transport};
use aldis_kernel::{Config, Endpoint, Error};
use aldis_programs::{Link, OptionError, Options, ProgramFailure, give_verdict, refuse, run_to_end};

use crate::any_nic::AnyNic;
use crate::arch::{self, Machine};
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
    match options.link {
        Link::Loopback => {
            let epoch = Epoch::from_entropy(clock.entropy());
            let itself = itself(&options)?;
            let endpoint = assemble(&options, itself, clock, epoch)?;
            Ok(job(&options, endpoint, |_, _| Ok(())))
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
            Ok(job(&options, wire::join(&options, nic, pace, clock)?, wire::tell))
        }
        Link::Ivshmem => {
            let shared = devices::shared_memory(machine)?;
            Ok(job(&options, shared::join(&options, &shared, clock)?, |_, _| Ok(())))
        }
        Link::Nic => Err(Trouble::Missing("network card of its own")),
    }
}

/// The error of a rank that wants more memory than there is.
pub(crate) const TAKEN: Trouble = Trouble::Missing("memory for a second job");

/// The address of a rank that has no card with one of its own.
const fn mac(rank: u32) -> Mac {
    let [_, _, high, low] = rank.to_be_bytes();
    Mac([0x02, 0xA1, 0xD1, 0, high, low])
}

/// Messages of the rank to itself.
pub(crate) fn itself(options: &Options) -> Result<Loopback<'static>, Trouble> {
    let memory = memory::LOOPBACK.take().ok_or(TAKEN)?;
    Ok(Loopback::new(PeerId(options.rank), memory, memory::FRAME_BYTES)?)
}

/// An endpoint that knows itself alone. The console tells its epoch, by which others know this life
/// of the board from others.
pub(crate) fn assemble<T: Transport, P: Platform>(
    options: &Options,
    transport: T,
    clock: P,
    epoch: Epoch,
) -> Result<Endpoint<'static, T, P>, Trouble> {
    let memory = memory::STORAGE.take().ok_or(TAKEN)?;
    let _ = writeln!(arch::console(), "info: epoch {:08x}", epoch.0);
    let config = Config { me: PeerId(options.rank), size: options.size, epoch };
    Ok(Endpoint::new(memory, transport, clock, config)?)
}

/// The program, which tells its own verdict.
fn job<T: Transport, P: Platform>(
    options: &Options,
    mut endpoint: Endpoint<'static, T, P>,
    tell: impl FnOnce(&T, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<(), ProgramFailure> {
    let (program, out) = (options.program, &mut arch::console());
    let ended = run_to_end(program, &mut endpoint, &options.parameters, out);
    tell(endpoint.transport(), out)?;
    give_verdict(program, ended, out)
}
