//! What the user types.

use core::time::Duration;
use std::ffi::OsString;

use aldis_host_sim::shape::Plan;
use aldis_host_sim::storage::MAX_RANKS;
use clap::{Parser, ValueEnum};

/// Start a job of N ranks on this machine and end it as one.
///
/// Every rank runs PROGRAM with ARGS. The ranks find each other through the launcher and then exchange messages
/// over shared memory. When a rank dies, fails or aborts, the others are ended within a second and one report says
/// which rank, why, and what every rank was doing. Nothing is left behind, whatever is killed when.
#[derive(Debug, Parser)]
#[command(name = "aldis-run", version, about, long_about, after_long_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Options {
    /// Ranks of the job
    #[arg(short = 'n', value_name = "N", value_parser = ranks)]
    pub(crate) plan: Plan,

    /// How messages travel between the ranks
    #[arg(long, value_enum, default_value_t = TransportName::Shm)]
    pub(crate) transport: TransportName,

    /// End the job after so many seconds, with a report of what every rank is doing; exit code 124
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,

    /// How long the ranks may take to find each other, in seconds
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = seconds, default_value = "30")]
    pub(crate) join_timeout: Duration,

    /// Pin ranks to cores
    #[arg(long, value_enum, default_value_t = Bind::None)]
    pub(crate) bind: Bind,

    /// What to do with what the ranks print
    #[arg(long, value_enum, default_value_t = Output::Prefix)]
    pub(crate) output: Output,

    /// Close with the report as one line of JSON on standard error, also when all went well
    #[arg(long)]
    pub(crate) json: bool,

    /// The program and its arguments; everything from here on is the program's
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    pub(crate) command: Vec<OsString>,
}

/// The transports that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TransportName {
    /// Shared memory of this machine
    Shm,
}

/// Where ranks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Bind {
    /// Rank r on the r-th core that the launcher may use, physical cores first, round and round
    Core,
    /// Wherever the system puts them
    None,
}

/// How output is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Output {
    /// Line by line as it comes, `[rank] ` in front
    Prefix,
    /// Held back, in memory, and shown rank by rank at the end
    Group,
    /// Untouched: the ranks write to the launcher's own output
    Plain,
}

const EXAMPLES: &str = "\
Examples:
  aldis-run -n 4 target/release/examples/ring
      four ranks, their lines prefixed by [rank]
  aldis-run -n 2 --bind core target/release/examples/pingpong --json
      two ranks on cores of their own; arguments after the program are the program's
  aldis-run -n 4 --timeout 60 --output group ./solver input.toml
      at most a minute, output rank by rank at the end
  kill -USR1 <pid of aldis-run>
      signals sent to the launcher reach every rank; a second Ctrl-C kills them

Exit code:
  0 all ranks left in order; a failing rank's own code, or 128 + signal; 124 after --timeout;
  126 or 127 when PROGRAM cannot be started; 2 for a wrong command line

The ranks' environment:
  ALDIS_RANK and ALDIS_SIZE for scripts, ALDIS_WIREUP_FD for the library.
  Rank 0 inherits the launcher's input unless that is a terminal; the others read nothing.

A program takes part by calling `aldis_host_sim::run`; started without aldis-run it is a job of one rank.";

/// A number of ranks that the storage has room for.
fn ranks(text: &str) -> Result<Plan, String> {
    let ranks: u32 = text.parse().map_err(|_| format!("not a number of ranks from 1 to {MAX_RANKS}"))?;
    if ranks == 0 {
        return Err("a job needs at least one rank; try -n 1".into());
    }
    Plan::of(ranks).ok_or_else(|| {
        format!("the host storage (aldis_host_sim::storage) has room for {MAX_RANKS} peers; try -n {MAX_RANKS} or fewer")
    })
}

/// A positive number of seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|span| !span.is_zero()).ok_or_else(|| "not a positive number of seconds".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn everything_after_the_program_is_the_programs() {
        let options = parse("aldis-run -n 3 --timeout 1.5 prog --bogus -n 7 -- x").unwrap();
        assert_eq!(options.plan.ranks, 3);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.command, ["prog", "--bogus", "-n", "7", "--", "x"]);
    }

    #[test]
    fn wrong_lines_are_answered_with_what_would_be_right() {
        for (line, answer) in [
            ("aldis-run -n 0 prog", "at least one rank"),
            ("aldis-run -n 65 prog", "room for 64 peers"),
            ("aldis-run -n many prog", "from 1 to 64"),
            ("aldis-run prog", "-n <N>"),
            ("aldis-run -n 2", "PROGRAM"),
            ("aldis-run -n 2 --transport tcp prog", "[possible values: shm]"),
            ("aldis-run -n 2 --bogus prog", "unexpected argument '--bogus'"),
            ("aldis-run -n 2 --timeout 0 prog", "positive number of seconds"),
            ("aldis-run -n 2 --timeout -1 prog", "positive number of seconds"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line}: {error}");
        }
    }
}
