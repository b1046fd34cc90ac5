//! `cargo xtask bench instructions`: instructions of a message over shared memory, counted by callgrind.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::program;
use crate::shell;
use crate::table::Table;

/// Repetitions of the longer and the shorter run; their difference leaves start-up and first touches out.
const RUNS: [u32; 2] = [1100, 100];
/// What is counted, and the function of `bench_instructions` that is.
const CALLS: [(&str, &str); 2] = [("isend", "*start_send*"), ("recv", "*take_receive*")];

/// Counts the instructions of an 8-byte isend and of its receive over shared memory, under callgrind.
///
/// The count is of the calls as a user makes them, checks of their arguments and all, and does not vary with the machine's
/// mood. It needs valgrind (Debian: apt-get install valgrind).
#[derive(Args)]
pub(crate) struct Instructions {
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

impl Instructions {
    pub(crate) fn run(self) -> Result<()> {
        if !shell::has("valgrind") {
            bail!("valgrind is not installed: apt-get install valgrind");
        }
        let measured = program("bench_instructions")?;
        let mut table = Table::new(["call", "receive", "instructions"]);
        for unexpected in [false, true] {
            for (call, function) in CALLS {
                let [long, short] = RUNS;
                let counts = (
                    count(&measured, function, long, unexpected)?,
                    count(&measured, function, short, unexpected)?,
                );
                let each = (counts.0 - counts.1) as f64 / f64::from(long - short);
                let receive = if unexpected { "after the message" } else { "with the message" };
                if self.json {
                    let line = serde_json::json!({ "bench": "instructions", "call": call, "bytes": 8,
                        "transport": "shm", "unexpected": unexpected, "instructions": each });
                    println!("{line}");
                }
                table.row([call.into(), receive.into(), format!("{each:.0}")]);
            }
        }
        if !self.json {
            println!("instructions of a message of 8 bytes over shared memory\n{table}");
        }
        Ok(())
    }
}

/// Instructions in `function` over so many messages.
fn count(measured: &Command, function: &str, repetitions: u32, unexpected: bool) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(measured.get_program())
        .arg(repetitions.to_string())
        .args(unexpected.then_some("unexpected"));
    let line = shell::spell(&command);
    let output = command.output().with_context(|| format!("starting `{line}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, count)| count.trim().parse().ok()) {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => bail!("`{line}` counted nothing: {}\n{}", output.status, said.trim_end()),
    }
}
