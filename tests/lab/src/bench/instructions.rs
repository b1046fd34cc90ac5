//! `cargo xtask bench instructions`: instructions of a message and of small collectives over shared
//! memory, natively and by the C interface of MPI, counted by callgrind.

mod c_interface;

use std::process::Command;

use aldis_shell::baselines::{Cost, Gate};
use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::table::Table;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::program_with;

/// No count varies between runs; between machines, those of what libraries choose by processor do.
const GATE: Gate =
    Gate { section: "instructions", tolerance: 2.0, command: "cargo xtask bench instructions" };

/// Repetitions of the longer and the shorter run; their difference leaves start-up and first
/// touches out.
const RUNS: [u32; 2] = [1100, 100];
/// The calls that are counted: the call's name, the function of `bench_instructions` that makes it,
/// and how the message is received there or the name of the collective.
const CALLS: [(&str, &str, &str); 22] = [
    ("isend", "start_send", "blocking"),
    ("recv, the message in the ring", "take_receive", "blocking"),
    ("recv, the message taken in before", "take_receive", "unexpected"),
    ("irecv", "post_receive", "posted"),
    ("poll that takes the message in", "poll_arrival", "posted"),
    ("wait for what is complete", "finish_receive", "posted"),
    ("isend", "start_element_send", "element"),
    ("irecv", "post_element_receive", "element"),
    ("poll that takes the message in", "poll_arrival", "element"),
    ("wait for what is complete", "finish_receive", "element"),
    ("bcast, who gives", "give_collective", "bcast"),
    ("bcast, who takes", "take_collective", "bcast"),
    ("gather, who gives", "give_collective", "gather"),
    ("gather, who takes", "take_collective", "gather"),
    ("gatherv, who gives", "give_collective", "gatherv"),
    ("gatherv, who takes", "take_collective", "gatherv"),
    ("scatter, who gives", "give_collective", "scatter"),
    ("scatter, who takes", "take_collective", "scatter"),
    ("scatterv, who gives", "give_collective", "scatterv"),
    ("scatterv, who takes", "take_collective", "scatterv"),
    ("exscan, who gives", "give_collective", "exscan"),
    ("exscan, who takes", "take_collective", "exscan"),
];

/// Counts the instructions of an 8-byte message and of collectives of two ranks over shared memory,
/// natively and by the C interface of MPI, under callgrind.
///
/// The count is of the calls as a user makes them, checks of their arguments and all, with their
/// share of the credits that go back, and does not vary with the machine's mood. Each has a name in
/// its interface and a type of data; native messages are of bytes or of one f64. It needs valgrind
/// and a C compiler (Debian: apt-get install valgrind gcc).
#[derive(Args)]
pub(crate) struct Instructions {
    /// Print one JSON object a line instead of the table; interface, call and datatype together
    /// name a count
    #[arg(long)]
    json: bool,
    /// Count the calls of this interface alone
    #[arg(long)]
    interface: Option<Interface>,
    /// Write the counts into baselines.json, which the step `instructions` of `cargo xtask test`
    /// holds them to
    #[arg(long, conflicts_with = "interface")]
    update: bool,
}

impl Instructions {
    pub(crate) fn run(self) -> Result<()> {
        let counts = counts(self.interface)?;
        if self.update {
            GATE.update(&costs(&counts))?;
        }
        if !self.json {
            println!("{TITLE}\n{}", tabulated(&counts));
            return Ok(());
        }
        for count in counts {
            let line = serde_json::json!({ "bench": "instructions", "interface": count.interface.name(),
                "call": count.call, "datatype": count.datatype, "bytes": 8, "transport": "shm",
                "receive": count.receive, "instructions": count.each });
            println!("{line}");
        }
        Ok(())
    }
}

/// The step of `cargo xtask test`: no call takes more instructions than its baseline allows.
pub(super) fn check() -> Result<Outcome> {
    if let Some(install) = missing() {
        return Ok(Outcome::Skipped { why: "nothing to count with".into(), enable: install.into() });
    }
    let costs = costs(&counts(None)?);
    eprintln!("{}", GATE.table(&costs)?);
    GATE.hold(&costs)?;
    Ok(Outcome::Passed(format!("{} calls", costs.len())))
}

/// Counts and writes the baselines anew.
pub(super) fn update() -> Result<()> {
    GATE.update(&costs(&counts(None)?))
}

fn costs(counts: &[Count]) -> Vec<Cost> {
    let cost = |Count { interface, call, datatype, each, .. }: &Count| Cost {
        name: format!("{}: {call}, {datatype}", interface.name()),
        value: (10.0 * each).round() / 10.0,
    };
    counts.iter().map(cost).collect()
}

/// The interface whose calls are counted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Interface {
    Native,
    C,
}

impl Interface {
    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::C => "C",
        }
    }
}

/// The instructions of a call.
struct Count {
    interface: Interface,
    call: &'static str,
    datatype: &'static str,
    /// The way in which the message is received, or the name of the collective, where
    /// `bench_instructions` is told.
    receive: Option<&'static str>,
    each: f64,
}

/// Returns the command that installs what counts, where it is not there.
pub(super) fn missing() -> Option<&'static str> {
    let needs = [("valgrind", "apt-get install valgrind"), ("cc", "apt-get install gcc")];
    needs.into_iter().find(|(program, _)| !shell::has(program)).map(|(_, install)| install)
}

/// The counts with their title.
pub(super) fn table() -> Result<(String, Table)> {
    Ok((TITLE.into(), tabulated(&counts(None)?)))
}

const TITLE: &str =
    "Instructions of a message of 8 bytes, and of collectives of two ranks, over shared memory";

fn tabulated(counts: &[Count]) -> Table {
    let mut table = Table::new(["call", "data", "instructions"]);
    for Count { call, datatype, each, .. } in counts {
        table.row([(*call).into(), (*datatype).into(), format!("{each:.0}")]);
    }
    table
}

/// The counts of one interface, or of both.
fn counts(wanted: Option<Interface>) -> Result<Vec<Count>> {
    if let Some(install) = missing() {
        bail!("what counts instructions is not installed: {install}");
    }
    let mut counts = Vec::new();
    if wanted != Some(Interface::C) {
        counts.append(&mut native_counts()?);
    }
    if wanted != Some(Interface::Native) {
        counts.append(&mut c_interface::counts()?);
    }
    Ok(counts)
}

fn native_counts() -> Result<Vec<Count>> {
    // Nothing of a host is in it, nor built for it.
    let measured = program_with("bench_instructions", &["--no-default-features"])?;
    let [long, short] = RUNS;
    let each = |(call, function, receive)| {
        let (most, least) =
            (count(&measured, function, long, receive)?, count(&measured, function, short, receive)?);
        let each = (most - least) as f64 / f64::from(long - short);
        let datatype = if receive == "element" { "f64" } else { "bytes" };
        Ok(Count { interface: Interface::Native, call, datatype, receive: Some(receive), each })
    };
    CALLS.into_iter().map(each).collect()
}

/// Instructions in `function` over so many messages.
fn count(measured: &Command, function: &str, repetitions: u32, receive: &str) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=bench_instructions::*{function}*"))
        .arg(measured.get_program())
        .arg(repetitions.to_string())
        .arg(receive);
    collected(&mut command)
}

/// Instructions that callgrind has collected of a command.
fn collected(command: &mut Command) -> Result<u64> {
    let line = shell::spell(command);
    let output = command.output().with_context(|| format!("starting `{line}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match collected_of(&said) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => bail!("`{line}` counted nothing: {}\n{}", output.status, said.trim_end()),
    }
}

/// The number of instructions that callgrind says it has collected.
fn collected_of(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected : "))?;
    count.trim().parse().ok()
}
