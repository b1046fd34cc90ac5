//! `aldis-schedule` as its users call it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use aldis_coll::catalog::COLLECTIVES;
use aldis_coll::catalog::algorithms;

fn schedule(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aldis-schedule"));
    command.args(line.split_whitespace()).output().expect("starting aldis-schedule")
}

/// Returns what it prints when all is well.
fn printed(line: &str) -> String {
    let output = schedule(line);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&printed(&format!("{line} --json"))).expect("JSON")
}

#[test]
fn the_picture_has_a_line_a_rank_and_a_column_a_round() {
    let expected = "       round 0  round 1
       8 B      8 B
rank 0 ─●─▲─█────●─▲─────█──
rank 1 ─▼─●─█────┼─┼─●─▲─█──
rank 2 ─●─▲─█────▼─●─┼─┼─█──
rank 3 ─▼─●─█────────▼─●─█──
";
    let text = printed("allreduce recursive_doubling --ranks 4");
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn figures_are_those_of_the_schedule() {
    let text = printed("bcast binomial --ranks 8 --bytes 1024");
    for words in [
        "bcast binomial: 8 ranks, 1024 bytes\n",
        "rounds         3\n",
        "messages       7, of 7168 bytes together\n",
        "sends 3072 bytes at most, and receives 1024\n",
        "critical path  3 messages; ranks 0, 4, 6, 7\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let ring = json("allgather ring --ranks 5 --bytes 80");
    assert_eq!((&ring["messages"], &ring["bytes"]), (&20.into(), &1600.into()));
    assert_eq!((&ring["links"], &ring["busiest_link"]["bytes"]), (&5.into(), &320.into()));
    assert_eq!(ring["steps"].as_array().map(Vec::len), Some(20));
}

#[test]
fn prediction_and_simulation_agree_where_no_rank_waits_for_two() {
    for line in [
        "allreduce recursive_doubling --ranks 16",
        "barrier dissemination --ranks 9",
        "allgather ring --ranks 6",
    ] {
        let said = json(line);
        let (simulated, closed) =
            (said["simulated_ns"].as_f64().unwrap(), said["closed_form_ns"].as_f64().unwrap());
        assert!((simulated - closed).abs() <= 0.02 * closed, "{line}: {simulated} and {closed}");
    }
}

#[test]
fn short_scratch_cuts_the_data() {
    let text = printed("allreduce recursive_doubling --ranks 2 --bytes 64 --scratch 16");
    assert!(text.contains("for each of 4 segments"), "{text}");
    assert_eq!(json("allreduce recursive_doubling --ranks 2 --bytes 64 --scratch 16")["messages"], 8);
}

#[test]
fn every_schedule_there_is_can_be_drawn() {
    for operation in COLLECTIVES {
        for known in algorithms(operation) {
            let ranks = [6, 2].into_iter().find(|&ranks| known.serves(ranks)).expect("6 ranks or 2");
            let text = printed(&format!("{operation} {} --ranks {ranks} --bytes 48", known.name()));
            assert!(text.contains("critical path"), "{operation} {}: {text}", known.name());
        }
    }
    assert!(printed("alltoall in_place --ranks 3").contains("alltoall in_place: 3 ranks, 8 bytes a block"));
}

#[test]
fn the_drawing_is_a_picture_with_every_message() {
    let svg = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schedule.svg");
    printed(&format!("bcast binomial --ranks 6 --bytes 24 --svg {}", svg.display()));
    let drawn = fs::read_to_string(svg).expect("the SVG file");
    assert!(drawn.starts_with("<svg") && drawn.contains("bcast binomial: 6 ranks, 24 bytes"), "{drawn}");
    // An arrow head a message.
    assert_eq!((drawn.matches("<polygon").count(), drawn.contains("NaN")), (5, false), "{drawn}");
}

#[test]
fn what_is_wrong_is_answered_with_what_would_be_right() {
    for (line, code, answer) in [
        ("allreduce ring", 2, "--ranks <N>"),
        (
            "allreduce rng --ranks 4",
            1,
            "no allreduce algorithm is called `rng`; known: auto, recursive_doubling",
        ),
        ("allreduse --ranks 4", 1, "no operation is called `allreduse`; known: barrier, bcast"),
        ("allreduce shared --ranks 4", 1, "`shared` of allreduce sends no messages"),
        (
            "barrier two_processes --ranks 4",
            1,
            "barrier by two_processes over 4 ranks: it is not made for so many",
        ),
        ("bcast linear --ranks 4 --root 4", 1, "there is no such rank among 4"),
        ("bcast linear --ranks 4 --bytes 9", 1, "no whole number of elements of 8"),
        ("bcast linear --ranks 4097", 2, "1..=4096"),
        ("bcast linear --ranks 4 --svg /no/such/folder/file", 1, "/no/such/folder/file: No such file"),
    ] {
        let output = schedule(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {errors}");
        assert!(errors.contains(answer), "{line}: {errors}");
    }
}
