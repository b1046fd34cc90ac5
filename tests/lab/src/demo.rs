//! `cargo xtask demo`: the main job. Builds in release, runs every example program on ranks over
//! shared memory, and judges what they report: each verifies its own results to the last byte and
//! says so in JSON.

use std::process::Command;
use std::time::Instant;

use aldis_shell::shell;
use aldis_shell::table::Table;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value};

use crate::verbs;

/// The programs of `host-sim/linux/examples`, and what each of them proves.
const PROGRAMS: [(&str, &str); 12] = [
    ("pingpong", "messages of 0 B to 4 MiB between two ranks, every byte verified"),
    ("ring", "a token round all ranks, verified at every step"),
    ("heat", "halo exchange; the result is bit for bit that of one rank"),
    ("allreduce", "every rank's result compared with the sum worked out alone"),
    ("kmeans", "clusters of points by all-reduces; every centre is that of one rank's run"),
    ("samplesort", "numbers sorted over all ranks by allgather and all-to-all; in order and all there"),
    ("stencil", "a persistent all-to-all among neighbours on a grid; bit for bit that of one rank"),
    ("life", "persistent requests on a grid of ranks; every cell is that of one rank's run"),
    ("coupled", "two models over an intercommunicator; every cell is that of one rank's run"),
    ("farm", "tasks to the rank that is free, by receives from any source; every result verified"),
    ("flood", "more messages than there is room for: memory bounded, the last received first"),
    ("errors", "every mistake has an error of its own, and the job goes on"),
];

/// Fields that say what an object is, not what was measured.
const LABELS: [&str; 5] = ["bench", "impl", "transport", "ranks", "verified"];

/// Runs the example programs on ranks over shared memory and verifies their results.
#[derive(Args)]
pub struct Demo {
    /// Ranks of each job
    #[arg(long, default_value_t = 4)]
    ranks: u32,
    /// Print what the programs report, one JSON object a line, and a verdict as the last
    #[arg(long)]
    json: bool,
    /// End a program that takes longer, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u32,
}

type Object = Map<String, Value>;

/// The report of a program; an error if it failed, or verified less than everything.
type DemoReport = Result<Vec<Object>>;

impl Demo {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        eprintln!("building aldis-run and {} programs in release", PROGRAMS.len());
        let mut cargo = workspace::cargo();
        cargo.args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "-p",
            "aldis-linux",
            "-p",
            "aldis-run",
            "--bin",
            "aldis-run",
        ]);
        cargo.args(verbs::features(&["aldis-linux", "aldis-run"]));
        for (program, _) in PROGRAMS {
            cargo.args(["--example", program]);
        }
        shell::run(&mut cargo)?;
        let mut summary = Table::new(["program", "verified", "seconds", "what it shows"]);
        let mut failed = Vec::new();
        for (program, shows) in PROGRAMS {
            eprintln!("{program} on {} ranks", self.ranks);
            let start = Instant::now();
            let report = self.play(&workspace, program);
            let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
            self.show(program, &report)?;
            let verified = if report.is_ok() { "yes" } else { "NO" };
            summary.row([program.into(), verified.into(), seconds, shows.into()]);
            failed.extend(report.is_err().then_some(program));
        }
        self.judge(&summary, &failed)
    }

    fn play(&self, workspace: &Workspace, program: &str) -> DemoReport {
        let release = workspace.target.join("release");
        let mut run = Command::new(release.join("aldis-run"));
        run.args([
            "-n",
            &self.ranks.to_string(),
            "--transport",
            "shm",
            "--bind",
            "core",
            "--output",
            "plain",
        ])
        .args(["--timeout", &self.timeout.to_string()])
        .arg(release.join("examples").join(program))
        .arg("--json");
        let (success, text) = shell::capture(&mut run)?;
        if !success {
            bail!("`{}` failed", shell::spell(&run));
        }
        read_report(&text).with_context(|| format!("what {program} reported"))
    }

    fn show(&self, program: &str, report: &DemoReport) -> Result<()> {
        match report {
            Ok(objects) if self.json => {
                for object in objects {
                    println!("{}", serde_json::to_string(object)?);
                }
            }
            Ok(objects) => println!("{program}\n{}", figures(objects)),
            Err(error) => eprintln!("{error:#}"),
        }
        Ok(())
    }

    fn judge(&self, summary: &Table, failed: &[&str]) -> Result<()> {
        let (ranks, programs) = (self.ranks, PROGRAMS.len());
        if self.json {
            let verified = failed.is_empty();
            println!(
                "{}",
                serde_json::json!({"bench": "demo", "ranks": ranks, "verified": verified, "failed": failed})
            );
        } else {
            println!("{summary}");
        }
        if !failed.is_empty() {
            bail!(
                "verdict: {} of {programs} programs failed on {ranks} ranks: {}",
                failed.len(),
                failed.join(", ")
            );
        }
        if !self.json {
            println!(
                "verdict: {programs} programs on {ranks} ranks over shared memory, every result as it must be"
            );
        }
        Ok(())
    }
}

/// Reads one JSON object a line, each of which must say that it was verified.
fn read_report(text: &str) -> DemoReport {
    let mut objects = Vec::new();
    for line in text.lines() {
        let object: Object =
            serde_json::from_str(line).with_context(|| format!("not an object: {line:?}"))?;
        if object.get("verified") != Some(&Value::Bool(true)) {
            bail!("not verified: {line}");
        }
        objects.push(object);
    }
    if objects.is_empty() {
        bail!("nothing was reported");
    }
    Ok(objects)
}

/// Returns the table of what was measured, a row an object; the first object's fields are the
/// columns, the message's size first.
fn figures(objects: &[Object]) -> Table {
    let mut keys: Vec<&str> = objects.first().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    keys.retain(|key| !LABELS.contains(key));
    keys.sort_by_key(|key| *key != "bytes");
    let mut table = Table::from_head(keys.iter().copied());
    for object in objects {
        table.push(keys.iter().map(|key| object.get(*key).map_or_else(|| "-".into(), spell)));
    }
    table
}

/// Counts as they are, everything else with one decimal.
fn spell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(|| number.to_string(), |number| format!("{number:.1}"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_verified_nothing_or_less_is_refused() {
        assert!(read_report("{\"bench\": \"ring\", \"verified\": true}\n").is_ok());
        for bad in ["", "{}", "{\"verified\": false}", "{\"verified\": true}\noops", "[1]"] {
            assert!(read_report(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn figures_leave_out_the_labels_and_begin_with_the_size() {
        let objects = read_report("{\"bench\":\"x\",\"a_ns\":1.25,\"bytes\":8,\"verified\":true}").unwrap();
        assert_eq!(figures(&objects).to_string(), "  bytes  a_ns\n  -----------\n      8   1.2\n");
    }
}
