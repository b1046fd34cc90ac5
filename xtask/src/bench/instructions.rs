//! `cargo xtask bench instructions`: instructions of a message and of small collectives over shared memory, counted by
//! callgrind.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::program;
use crate::shell;
use crate::table::Table;

/// Repetitions of the longer and the shorter run; their difference leaves start-up and first touches out.
const RUNS: [u32; 2] = [1100, 100];
/// What is counted: the call, the function of `bench_instructions` that makes it, and how the message is received there or the
/// name of the collective.
const CALLS: [(&str, &str, &str); 18] = [
    ("isend", "start_send", "blocking"),
    ("recv, the message in the ring", "take_receive", "blocking"),
    ("recv, the message taken in before", "take_receive", "unexpected"),
    ("irecv", "post_receive", "posted"),
    ("poll that takes the message in", "poll_arrival", "posted"),
    ("wait for what is complete", "finish_receive", "posted"),
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

/// Counts the instructions of an 8-byte message and of collectives of two ranks over shared memory, under callgrind.
///
/// The count is of the calls as a user makes them, checks of their arguments and all, with their share of the credits that
/// go back, and does not vary with the machine's mood. It needs valgrind (Debian: apt-get install valgrind).
#[derive(Args)]
pub(crate) struct Instructions {
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

impl Instructions {
    pub(crate) fn run(self) -> Result<()> {
        let counts = counts()?;
        if !self.json {
            println!("{TITLE}\n{}", tabulated(&counts));
            return Ok(());
        }
        for (call, receive, each) in counts {
            let line = serde_json::json!({ "bench": "instructions", "call": call, "bytes": 8,
                "transport": "shm", "receive": receive, "instructions": each });
            println!("{line}");
        }
        Ok(())
    }
}

/// How to install what counts, where it is not there.
pub(super) fn missing() -> Option<&'static str> {
    if shell::has("valgrind") { None } else { Some("apt-get install valgrind") }
}

/// The counts with their title.
pub(super) fn table() -> Result<(String, Table)> {
    Ok((TITLE.into(), tabulated(&counts()?)))
}

const TITLE: &str =
    "Instructions of a message of 8 bytes, and of collectives of two ranks, over shared memory";

fn tabulated(counts: &[(&str, &str, f64)]) -> Table {
    let mut table = Table::new(["call", "instructions"]);
    for (call, _, each) in counts {
        table.row([(*call).into(), format!("{each:.0}")]);
    }
    table
}

/// For each call: its name, how the message is received, and its instructions.
fn counts() -> Result<Vec<(&'static str, &'static str, f64)>> {
    if let Some(install) = missing() {
        bail!("valgrind is not installed: {install}");
    }
    let measured = program("bench_instructions")?;
    let [long, short] = RUNS;
    let each = |(call, function, receive)| {
        let (most, least) =
            (count(&measured, function, long, receive)?, count(&measured, function, short, receive)?);
        Ok((call, receive, (most - least) as f64 / f64::from(long - short)))
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
    let line = shell::spell(&command);
    let output = command.output().with_context(|| format!("starting `{line}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, count)| count.trim().parse().ok()) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => bail!("`{line}` counted nothing: {}\n{}", output.status, said.trim_end()),
    }
}
