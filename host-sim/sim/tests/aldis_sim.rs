//! The command line of the simulator: what it prints, what it replays, what it makes smaller.
#![allow(missing_docs)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn sim(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aldis-sim"));
    command.args(line.split_whitespace()).output().expect("starting aldis-sim")
}

/// Returns what a command says in JSON, and true if it went well.
fn said(line: &str) -> (Value, bool) {
    let output = sim(line);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|error| panic!("{line}: {error}: {errors}")), output.status.success())
}

/// Runs the command that a report gives, for JSON.
fn replayed(line: &Value) -> (Value, bool) {
    let line = line.as_str().expect("a command");
    said(&line.replace("aldis-sim run ", "run --json "))
}

/// A file of this test in the target folder.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// No time after the faults have healed: a rank that stands still until then makes a seed fail that
/// would pass.
const IMPATIENT: &str = "seeds --count 300 --ranks 4-9 --patience 0 --wire messages --json ring";

#[test]
fn a_line_that_is_printed_replays_the_same_history() {
    for seed in 0..4 {
        for options in ["", "--faults crash --wire messages", "--fast --faults calm", "--topology dragonfly"]
        {
            let line = format!("seeds --from {seed} --count 1 --ranks 2-9 {options} --json mixed");
            let (first, well) = said(&line);
            assert!(well, "{line}: {first}");
            let (again, _) = replayed(&first["last_replay"]);
            assert_eq!(first["last_trace"], again["trace"], "{line}");
            assert_eq!(first["last_replay"], again["replay"], "{line}");
        }
    }
}

#[test]
fn a_failing_seed_is_made_smaller_and_both_lines_replay_it() {
    let (campaign, well) = said(IMPATIENT);
    assert!(!well);
    let failure = &campaign["failure"];
    assert_eq!(failure["what"], "not over 0 ms after the faults have healed");
    let (again, well) = replayed(&failure["replay"]);
    assert_eq!((&again["failure"]["what"], well), (&failure["what"], false));
    assert_eq!(again["trace"], campaign["last_trace"]);
    assert_eq!((&again["seed"], &again["failure"]["faults"]), (&campaign["last_seed"], &failure["faults"]));
    let shrunk = &failure["shrunk"];
    let (smaller, well) = replayed(&shrunk["replay"]);
    assert_eq!((&smaller["failure"]["what"], well), (&shrunk["what"], false), "{shrunk}");
    assert_eq!(smaller["failure"]["faults"], shrunk["faults"]);
    let faults = |failure: &Value| failure["faults"].as_array().expect("faults").len();
    assert!(faults(shrunk) < faults(failure) || shrunk["ranks"].as_u64() < again["ranks"].as_u64());
    assert_eq!(shrunk["minimal"], true);
    // One fault less than are left, and it passes.
    let numbers =
        |line: &Value| line.as_str().and_then(|line| Some(line.split_whitespace().next()?.to_owned()));
    let left: Vec<String> = shrunk["faults"].as_array().into_iter().flatten().filter_map(numbers).collect();
    let replay = shrunk["replay"].as_str().expect("a command");
    let replay = replay.split(" --only-faults ").next().expect("a command");
    assert!(!left.is_empty(), "{replay}");
    for out in &left {
        let others: Vec<&str> = left.iter().filter(|fault| *fault != out).map(String::as_str).collect();
        let others = if others.is_empty() { "none".into() } else { others.join(",") };
        let line = format!(
            "{} --only-faults {others} --patience 0 ring",
            replay.trim_end_matches(" --patience 0 ring")
        );
        assert!(replayed(&line.as_str().into()).1, "{line}");
    }
}

#[test]
fn threads_change_nothing_but_the_time() {
    for line in ["seeds --count 20 --ranks 2-9 --json mixed", IMPATIENT] {
        let campaign = |jobs: &str| {
            let (mut campaign, well) = said(&format!("{line} {jobs}"));
            for time in ["seconds", "events_per_second"] {
                campaign.as_object_mut().expect("an object").remove(time);
            }
            (campaign, well)
        };
        let one = campaign("--jobs 1");
        assert_eq!(one, campaign("--jobs 3"));
        assert_eq!(one, campaign("--jobs 3 --minutes 10"));
    }
}

#[test]
fn a_campaign_ends_when_its_time_is_over() {
    let (campaign, well) = said("seeds --minutes 0 --json mixed");
    assert_eq!((&campaign["seeds"], &campaign["last_seed"], well), (&0.into(), &Value::Null, true));
}

#[test]
fn a_failure_is_told_in_words() {
    let output = sim(&IMPATIENT.replace("--json ", ""));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in [
        " FAILED: not over 0 ms",
        "  rank 0 is in ",
        "faults:\n  0  ",
        "replay with\n  aldis-sim run",
        "smaller, found in ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let kept = sim(&(IMPATIENT.replace("--json ", "") + " --no-shrink"));
    assert!(!String::from_utf8_lossy(&kept.stdout).contains("smaller"), "{kept:?}");
}

#[test]
fn a_run_is_drawn_and_traced() {
    let (svg, trace) = (file("run.svg"), file("run.json"));
    let line = format!("run --seed 7 --ranks 4 --trace {} --svg {}", trace.display(), svg.display());
    let (report, well) = said(&format!("{line} --json ring"));
    assert!(well);
    let plain = said("run --seed 7 --ranks 4 --json ring").0;
    assert_eq!(report["trace"], plain["trace"], "recording is no part of a history");
    let picture = fs::read_to_string(&svg).expect("the picture");
    assert!(
        picture.starts_with("<svg") && picture.contains("aldis-sim run --seed 7 --ranks 4 "),
        "{picture}"
    );
    let events: Value = serde_json::from_slice(&fs::read(trace).expect("the trace")).expect("JSON");
    assert!(events.as_array().expect("events").len() > 10);
    said(&format!("run --seed 7 --ranks 4 --svg {} --window 0..20 --json ring", svg.display()));
    let part = fs::read_to_string(&svg).expect("the picture");
    assert!(part.len() < picture.len());
    let output = sim("run --svg /no/such/folder/file ring");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_can_be_named_is_listed() {
    let (list, _) = said("list --json");
    let words = String::from_utf8(sim("list").stdout).expect("text");
    let workloads = list["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), words.lines().count());
    assert!(list["faults"].as_array().expect("profiles").contains(&"swarm".into()));
}

#[test]
fn a_large_job_takes_memory_for_active_peers_alone() {
    let job = |ranks: u32| {
        said(&format!("run --ranks {ranks} --active 20 --faults calm --fast --json barrier-allreduce"))
    };
    let ([(small, _), (large, well)], bytes) = ([270, 540].map(job), "storage_bytes_per_rank");
    assert!(well, "{large}");
    assert_eq!(small[bytes], large[bytes]);
    assert!(large[bytes].as_u64().is_some_and(|bytes| bytes < 64 << 10), "{large}");
    assert!(large["replay"].as_str().is_some_and(|line| line.contains("--active 20")), "{large}");
}

#[test]
fn a_job_that_memory_has_no_room_for_is_refused_before_it_is_made() {
    let output = sim("run --ranks 1000000 --active all barrier-allreduce");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for words in ["1000000 ranks of ", " bytes needed, ", " available"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for line in ["list", "run --ranks 2 ring", "seeds --count 2 --ranks 2 ring"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aldis-sim"));
        let closed = std::io::pipe().expect("a pipe").1;
        let output =
            command.args(line.split_whitespace()).stdout(closed).output().expect("starting aldis-sim");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{line}: {said}");
    }
}
