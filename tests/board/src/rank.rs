//! From the command line to the verdict.

use core::fmt;

use aldis_drivers::Loopback;
use aldis_hal::{Cause, Epoch, PeerId, Platform, Transport};
use aldis_kernel::{Config, Endpoint, Error};
use aldis_programs::{Failure, Link, OptionError, Options, refuse, run};

use crate::arch::{self, Machine};
use crate::memory::{FRAME_BYTES, FRAMES_MEMORY, STORAGE};

/// Why a rank does not come to run its program.
enum Trouble {
    /// The command line is wrong.
    Options(OptionError<'static>),
    /// The board lacks something.
    Missing(&'static str),
    /// A device or the endpoint refuses.
    Refused(Cause),
    /// The job does not come together.
    Kernel(Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(error) => error.fmt(f),
            Self::Missing(what) => write!(f, "this board has no {what}"),
            Self::Refused(cause) => cause.fmt(f),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl From<Cause> for Trouble {
    fn from(cause: Cause) -> Self {
        Self::Refused(cause)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

/// What every board does: one job, one verdict, and the end.
pub(crate) fn main<M: Machine>(mut machine: M) -> ! {
    let mut out = arch::console();
    let ended = play(&mut machine);
    if let Err(trouble) = &ended {
        refuse(trouble, &mut out);
    }
    arch::exit(matches!(ended, Ok(Ok(()))))
}

/// Runs the program that the command line names. The outer error has not been told yet, the inner one has.
fn play<M: Machine>(machine: &mut M) -> Result<Result<(), Failure>, Trouble> {
    let line = machine.command_line().unwrap_or_default();
    let options = Options::parse(line).map_err(Trouble::Options)?;
    let clock = machine.clock().ok_or(Trouble::Missing("clock"))?;
    match options.link {
        Link::Loopback => alone(&options, clock),
        _ => Err(Trouble::Missing("link of that kind")),
    }
}

/// A job of this rank alone.
fn alone(options: &Options, mut clock: impl Platform) -> Result<Result<(), Failure>, Trouble> {
    let epoch = Epoch::from_entropy(clock.entropy());
    let endpoint = assemble(options, itself(options)?, clock, epoch)?;
    Ok(job(options, endpoint))
}

/// Messages of the rank to itself.
fn itself(options: &Options) -> Result<Loopback<'static>, Trouble> {
    let memory = FRAMES_MEMORY.take().ok_or(Trouble::Missing("second job"))?;
    Ok(Loopback::new(PeerId(options.rank), memory, FRAME_BYTES)?)
}

fn assemble<T: Transport, P: Platform>(
    options: &Options,
    transport: T,
    clock: P,
    epoch: Epoch,
) -> Result<Endpoint<'static, T, P>, Trouble> {
    let memory = STORAGE.take().ok_or(Trouble::Missing("second job"))?;
    let config = Config { me: PeerId(options.rank), size: options.size, epoch };
    Ok(Endpoint::new(memory, transport, clock, config)?)
}

/// The program, which tells its own verdict.
fn job<T: Transport, P: Platform>(
    options: &Options,
    mut endpoint: Endpoint<'static, T, P>,
) -> Result<(), Failure> {
    run(options.program, &mut endpoint, &options.parameters, &mut arch::console())
}
