//! The command line of `cargo xtask verbs`.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use super::guest::{GuestClock, GuestKind};
use super::pingpong::{self, PingpongLine, SIZES};
use super::session::Session;
use super::transport::{self, Across, Findings};

/// Soft RoCE in emulated machines: RDMA without a device
#[derive(Subcommand)]
#[allow(missing_docs, reason = "each is the command of its name, whose arguments hold the help text")]
pub enum VerbsCommand {
    Test(Test),
    Run(VerbsRun),
}

impl VerbsCommand {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Test(test) => test.run(),
            Self::Run(run) => run.run(),
        }
    }
}

/// The needs of both commands.
const NEEDS: &str = "\
Needs Debian and apt-get install qemu-system-x86; for the transport also libibverbs-dev librdmacm-dev libclang-dev. The kernel and the
programs of the guests are packages that are fetched once (80 MB) and unpacked below target/verbs; no step needs root.";

/// Tests the transport over verbs, and measures it beside the stack itself: `ibv_rc_pingpong`.
///
/// In one guest: the transport's own tests, with faults; the conformance suite over it; every
/// allreduce of four processes. In two guests: the conformance suite on two and four processes, and
/// every allreduce, over verbs alone and with shared memory within a guest. In both: ping-pong of
/// two processes and of `ibv_rc_pingpong`, which with --baseline is all.
///
/// Each guest is a PC with Debian's kernel, one processor, and an RDMA device `rxe0` (soft RoCE
/// v2). A boot takes 10 s on a quiet machine and a minute on a busy one. What fails is told with
/// what the guest said; a guest that hangs shows its processes, queue pairs and kernel messages.
#[derive(Args)]
#[command(after_long_help = NEEDS)]
pub struct Test {
    #[command(flatten)]
    options: Options,
    /// Measure `ibv_rc_pingpong` alone, and build nothing
    #[arg(long)]
    baseline: bool,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs commands in guests that have an RDMA device, and passes on how they ended.
///
/// A COMMAND is a line of the shell. Commands run one after the other; the first that ends with a
/// code other than zero is an error, once all have run. `N: COMMAND` is for guest N alone, others
/// are for all. Guest N has the address 10.0.0.(N+1), the device rxe0 and this address at GID
/// index 1. There are busybox, rdma, ibv_devinfo, ibv_rc_pingpong, ibv_ud_pingpong,
/// ibv_srq_pingpong, and `retry COMMAND..`, which repeats a command until it succeeds, for 20 s.
#[derive(Args)]
#[command(after_long_help = RUN_EXAMPLES)]
pub struct VerbsRun {
    /// Guests; two are joined by a virtual Ethernet
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    guests: u8,
    /// A program of this machine to put into /usr/bin, with the libraries that it needs
    #[arg(long = "with", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// Let the guest's clock count its instructions, a nanosecond each: what it measures does not
    /// depend on what else this machine does. For one guest
    #[arg(long, conflicts_with = "guests")]
    icount: bool,
    #[command(flatten)]
    options: Options,
    /// Commands that the guests run
    #[arg(required = true, value_name = "COMMAND")]
    commands: Vec<String>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  cargo xtask verbs run 'ibv_devinfo -v' 'rdma link'
      what the device can do
  cargo xtask verbs run 'ibv_rc_pingpong -g 1 -e & retry ibv_rc_pingpong -g 1 -e 10.0.0.1'
      two processes of one guest
  cargo xtask verbs run --guests 2 '0: ibv_rc_pingpong -g 1' '1: retry ibv_rc_pingpong -g 1 10.0.0.1'
      a process in each of two guests
  cargo xtask verbs run --with target/debug/my-program 'my-program --verbose'
      a program of your own";

/// The time that a guest may take that runs a user's commands.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Args)]
struct Options {
    /// End the commands of a guest after so many seconds, and show what it is doing; 120, or 600
    /// for the tests
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
    /// Show what the guests say while they run, on standard error
    #[arg(long, short)]
    verbose: bool,
}

impl Options {
    /// Returns the time that a guest may take: `unless_told`, if nothing else is said.
    fn limit(&self, unless_told: Duration) -> Duration {
        self.deadline.map_or(unless_told, Duration::from_secs)
    }
}

impl Test {
    fn run(self) -> Result<()> {
        let (limit, loud) = (self.options.limit(transport::LIMIT), self.options.verbose);
        let (figures, good) = if self.baseline {
            (baseline(limit, loud)?, String::new())
        } else {
            let Findings { tests, runs, figures } = transport::examine(limit, loud, Across::All)?;
            let good =
                format!("; {tests} tests of the transport and {runs} runs of the conformance suite are good");
            (figures, good)
        };
        if self.json {
            figures.iter().for_each(|figure| println!("{}", pingpong::json(&figures, figure)));
        } else {
            println!("{}", pingpong::table(&figures));
            println!("verdict: ibv_rc_pingpong runs in one guest and between two{good}");
        }
        Ok(())
    }
}

/// `ibv_rc_pingpong` alone.
fn baseline(limit: Duration, loud: bool) -> Result<Vec<PingpongLine>> {
    let play = |commands, clock, place| {
        let kind = GuestKind::Rdma;
        let session = Session { kind, programs: Vec::new(), commands, clock, limit, loud };
        session.play().with_context(|| format!("ibv_rc_pingpong {place}"))
    };
    let one =
        play(vec![pingpong::in_one_guest(true, &SIZES, limit)], GuestClock::Instructions, "in one guest")?;
    let mut figures = pingpong::of_one_guest(&SIZES, &one.concat())?;
    let two = play(pingpong::in_two_guests(&SIZES).into(), GuestClock::Wall, "between two guests")?;
    figures.extend(pingpong::of_two_guests(&SIZES, two.last().map_or(&[], Vec::as_slice), None)?);
    Ok(figures)
}

impl VerbsRun {
    fn run(self) -> Result<()> {
        let commands = by_guest(&self.commands, usize::from(self.guests))?;
        let (limit, loud) = (self.options.limit(LIMIT), self.options.verbose);
        let clock = if self.icount { GuestClock::Instructions } else { GuestClock::Wall };
        let kind = GuestKind::Rdma;
        let session =
            Session { kind, programs: self.programs, commands: commands.clone(), clock, limit, loud };
        for (guest, ran) in session.play()?.iter().enumerate() {
            for (command, ran) in commands[guest].iter().zip(ran) {
                println!("[guest {guest}] $ {command}\n{}", ran.text());
            }
        }
        Ok(())
    }
}

/// The commands that each guest runs.
fn by_guest(commands: &[String], guests: usize) -> Result<Vec<Vec<String>>> {
    let mut lists = vec![Vec::new(); guests];
    for command in commands {
        let number =
            command.split_once(':').and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest)));
        match number {
            None => lists.iter_mut().for_each(|list| list.push(command.clone())),
            Some((number, rest)) => match lists.get_mut(number) {
                Some(list) => list.push(rest.trim().into()),
                None => bail!(
                    "`{command}` is for guest {number}; there are {guests} guests, counted from 0: --guests"
                ),
            },
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_front_names_the_guest() {
        let commands = ["0: a b", "1: c", "d:e"].map(String::from);
        assert_eq!(by_guest(&commands, 2).unwrap(), [["a b", "d:e"], ["c", "d:e"]]);
        let error = by_guest(&commands, 1).unwrap_err().to_string();
        assert!(error.contains("`1: c` is for guest 1"), "{error}");
    }
}
