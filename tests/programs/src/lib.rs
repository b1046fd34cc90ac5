//! # aldis-programs: what a rank runs
//!
//! Small programs over an [`Endpoint`] of any transport and platform: the same source runs in a
//! firmware image, in a thread and in a process of a host, without a heap. Each verifies what it
//! receives.
//!
//! | program | what it does | needs of the [storage](mod@aldis_kernel::storage) |
//! |---|---|---|
//! | [`pingpong`] | messages there and back between pairs of ranks, timed | - |
//! | [`heat`] | the heat equation on strips of a plate, halos by `isend` and `irecv` | 8 requests |
//! | [`collectives`] | barriers, broadcasts, all-reductions; others up to 16 ranks | 8 requests |
//! | [`flood`] | all send rank 0 more than it has room for | [`flood::BURST`] + 5 requests |
//! | [`sharing`] | cores of each rank talk by its endpoint | a request and a pooled block a core |
//!
//! The digest of `heat` on any number of ranks is that of one rank. `collectives` runs several
//! types, lengths and algorithms; the others are gatherv, alltoallw and reduce_scatter. In `flood`
//! rank 0 reads late. `sharing` is played by as many cores as there are, each by [`sharing::Talk`];
//! a rank of one core plays them all in turn.
//!
//! [`run`] runs one by name and ends the job: with good-bye, or with an abort that frees the ranks
//! that wait. Its last line is the verdict, by which a launcher judges a rank that has only a
//! serial line to say it on:
//!
//! ```text
//! verdict: OK heat steps=100 digest=0123456789abcdef
//! verdict: FAILED recv with rank 2, tag 7: the deadline passed
//! ```
//!
//! [`Options`] is the command line that says which program a rank runs, and as whom.
#![no_std]
#![forbid(unsafe_code)]

pub mod collectives;
pub mod flood;
pub mod heat;
mod options;
pub mod pingpong;
pub mod sharing;

use core::fmt::{self, Write};
use core::time::Duration;

use aldis_kernel::hal::{Platform, Transport};
use aldis_kernel::{Endpoint, Error};
pub use options::{Framing, Link, OptionError, Options, Program};

/// The parameters of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// The number of rounds; `None` for what suits the program.
    pub count: Option<u32>,
    /// The longest that it waits for any one thing.
    pub deadline: Duration,
    /// Cores of each rank that share its endpoint, in the program that is about them.
    pub sharing: u32,
}

impl Parameters {
    /// The talk of each core in [`Program::Sharing`].
    #[must_use]
    pub fn talk(&self) -> sharing::Talk {
        sharing::Talk { cores: self.sharing, count: self.count.unwrap_or(30), limit: self.deadline }
    }
}

/// The reason why a program ended otherwise than it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProgramFailure {
    /// A call on the endpoint failed.
    Kernel(Error),
    /// A message or a result is not what it should be.
    Wrong {
        /// The name of what is wrong.
        what: &'static str,
        /// The number of the one among several.
        at: u64,
        /// The value that was found.
        found: u64,
        /// The value that is right.
        expected: u64,
    },
    /// The program does not work with so few or so many ranks.
    Ranks {
        /// Fewest.
        min: u32,
        /// Most.
        max: u32,
    },
    /// The console takes nothing.
    Output,
}

impl ProgramFailure {
    /// Fails unless `found` is `expected`.
    ///
    /// # Errors
    /// [`ProgramFailure::Wrong`].
    pub fn unless_equal(what: &'static str, at: u64, found: u64, expected: u64) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::Wrong { what, at, found, expected }) }
    }
}

impl From<Error> for ProgramFailure {
    fn from(error: Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<fmt::Error> for ProgramFailure {
    fn from(_: fmt::Error) -> Self {
        Self::Output
    }
}

impl fmt::Display for ProgramFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => error.fmt(f),
            Self::Wrong { what, at, found, expected } => {
                write!(f, "{what} {at}: {found:#x} where {expected:#x} is right")
            }
            Self::Ranks { min, max } => write!(f, "the program needs {min} to {max} ranks"),
            Self::Output => f.write_str("the console takes nothing"),
        }
    }
}

impl core::error::Error for ProgramFailure {}

/// Frames in flight between two ranks of a job that exchange frames, and bytes of the longest
/// message in one: what the ranks of an Ethernet transport must agree on, be they boards or
/// processes. A message and its headers fit an MTU of 1500, in UDP and with a
/// tag too.
pub const WINDOW: usize = 32;
/// See [`WINDOW`].
pub const MESSAGE_BYTES: usize = 1416;

/// The code with which a rank that fails ends the job.
const FAILED: i32 = 1;

/// Runs `program` on this rank, leaves the job or aborts it, and writes the verdict to `out`.
///
/// # Errors
/// The failure that the verdict tells.
pub fn run<T: Transport, P: Platform>(
    program: Program,
    ep: &mut Endpoint<'_, T, P>,
    parameters: &Parameters,
    out: &mut dyn Write,
) -> Result<(), ProgramFailure> {
    let ended = run_to_end(program, ep, parameters, out);
    give_verdict(program, ended, out)
}

/// Runs `program` on this rank, and leaves the job or aborts it.
///
/// # Errors
/// The failure of the program, or why the rank cannot leave.
pub fn run_to_end<T: Transport, P: Platform>(
    program: Program,
    ep: &mut Endpoint<'_, T, P>,
    parameters: &Parameters,
    out: &mut dyn Write,
) -> Result<Facts, ProgramFailure> {
    let played = play(program, ep, parameters, out);
    leave(played, ep, parameters)
}

/// Leaves the job once a program has been played, or aborts it.
///
/// # Errors
/// The failure of the program, or why the rank cannot leave.
pub fn leave<T: Transport, P: Platform>(
    played: Result<Facts, ProgramFailure>,
    ep: &mut Endpoint<'_, T, P>,
    parameters: &Parameters,
) -> Result<Facts, ProgramFailure> {
    let ended = played.and_then(|facts| Ok((facts, ep.leave(parameters.deadline)?)));
    if ended.is_err() {
        ep.abort(FAILED);
    }
    ended.map(|(facts, ())| facts)
}

/// Writes the verdict of a rank whose program has ended.
///
/// # Errors
/// The failure that the verdict tells.
pub fn give_verdict(
    program: Program,
    ended: Result<Facts, ProgramFailure>,
    out: &mut dyn Write,
) -> Result<(), ProgramFailure> {
    match ended {
        Ok(facts) => Ok(writeln!(out, "verdict: OK {program} {facts}")?),
        Err(failure) => {
            refuse(&failure, out);
            Err(failure)
        }
    }
}

/// Writes the verdict of a rank that came to nothing.
pub fn refuse(why: &dyn fmt::Display, out: &mut dyn Write) {
    // A rank without a console has no verdict: the launcher takes silence for a failure.
    let _ = writeln!(out, "verdict: FAILED {why}");
}

fn play<T: Transport, P: Platform>(
    program: Program,
    ep: &mut Endpoint<'_, T, P>,
    parameters: &Parameters,
    out: &mut dyn Write,
) -> Result<Facts, ProgramFailure> {
    let count = |usual: u32| parameters.count.unwrap_or(usual);
    let limit = parameters.deadline;
    Ok(match program {
        Program::Pingpong => Facts::Messages(pingpong::run(ep, limit, count(1000), out)?),
        Program::Heat => heat::run(ep, limit, count(100))?,
        Program::Collectives => collectives::run(ep, limit, count(10), out)?,
        Program::Flood => Facts::Messages(flood::run(ep, limit, count(20))?),
        Program::Sharing => Facts::Messages(parameters.talk().play_all(ep)?),
    })
}

/// The facts that a good verdict tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Facts {
    /// Messages that were sent and verified.
    Messages(u64),
    /// A result that is the same on all ranks, after so many steps or calls.
    Digest {
        /// Steps or calls.
        steps: u32,
        /// A hash of the result.
        digest: u64,
    },
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages(messages) => write!(f, "messages={messages}"),
            Self::Digest { steps, digest } => write!(f, "steps={steps} digest={digest:016x}"),
        }
    }
}

/// Folds a value into a digest: FNV-1a (Fowler, Noll, Vo), a word at a time.
#[must_use]
pub const fn digest(of: u64, value: u64) -> u64 {
    (of ^ value).wrapping_mul(0x0000_0100_0000_01B3)
}

/// The value that a digest starts from.
pub const DIGEST: u64 = 0xCBF2_9CE4_8422_2325;
