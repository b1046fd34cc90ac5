//! The example programs on 1, 2 and 4 ranks: each verifies itself and says so.

use aldis_coll::allreduce::ALGORITHMS;

use crate::harness::{RANK, program, run};

/// Runs an example on so many ranks and returns its JSON lines.
fn play(name: &str, ranks: u32, arguments: &[&str]) -> Vec<String> {
    play_with(&[], name, ranks, arguments)
}

/// Like [`play`], but with options of the launcher.
fn play_with(options: &[&str], name: &str, ranks: u32, arguments: &[&str]) -> Vec<String> {
    let (ranks, path) = (ranks.to_string(), program("examples").join(name));
    let mut line = vec!["-n", &ranks, "--timeout", "50", "--output", "plain"];
    line.extend(options);
    line.push(path.to_str().unwrap());
    line.extend(arguments);
    let ended = run(line);
    assert_eq!(ended.code, Some(0), "{name} on {ranks} ranks: {ended:#?}");
    let lines: Vec<String> = ended.out.lines().map(str::to_owned).collect();
    assert!(
        lines.iter().all(|line| line.contains("\"verified\":true")),
        "{name} on {ranks} ranks: {lines:#?}"
    );
    lines
}

#[test]
fn pingpong_returns_every_byte() {
    for ranks in [1, 2, 4] {
        let lines = play("pingpong", ranks, &["--json", "--millis", "10", "--max-bytes", "1048576"]);
        assert_eq!(lines.len(), 12, "a line for every size to 1 MiB");
    }
}

/// More ranks than a rank has lanes: all reach all, and many have no lane.
#[test]
fn a_crowd_reaches_all() {
    let ended = run(["-n", "48", "--transport", "shm", "--timeout", "50", RANK, "crowd"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 48);
    assert_eq!(play("ring", 200, &["--json", "--laps", "3"]).len(), 1);
}

#[test]
fn ring_passes_the_token() {
    for ranks in [1, 2, 4] {
        assert_eq!(play("ring", ranks, &["--json", "--laps", "100"]).len(), 1);
        assert_eq!(play("ring", ranks, &["--json", "--laps", "5", "--words", "40000"]).len(), 1);
    }
}

#[test]
fn a_job_beyond_the_scanned_rings_works_by_doorbells() {
    assert_eq!(play("ring", 17, &["--json", "--laps", "3"]).len(), 1);
}

#[test]
fn a_hundred_ranks_share_a_machine() {
    assert_eq!(play("ring", 100, &["--json", "--laps", "1"]).len(), 1);
}

#[test]
fn fields_from_the_arena_are_verified() {
    for ranks in [1, 3] {
        let size = ["--json", "--rounds", "5", "--numbers", "40000"];
        assert_eq!(play_with(&["--arena", "1M"], "arena", ranks, &size).len(), 2);
    }
}

#[test]
fn heat_is_bit_identical_with_one_rank() {
    for ranks in [1, 2, 4] {
        let size = ["--json", "--width", "50", "--height", "61", "--steps", "40"];
        assert_eq!(play("heat", ranks, &size).len(), 1);
    }
}

#[test]
fn coupled_models_are_bit_identical_with_one_rank() {
    for ranks in [2, 4, 5] {
        let size = ["--json", "--cells", "92", "--steps", "20"];
        assert_eq!(play("coupled", ranks, &size).len(), 1);
    }
}

#[test]
fn a_matrix_is_transposed_by_datatypes() {
    for ranks in [1, 2, 4] {
        assert_eq!(play("transpose", ranks, &["--json", "--rows", "90", "--rounds", "3"]).len(), 1);
        assert_eq!(play("transpose", ranks, &["--json", "--rows", "200", "--checked"]).len(), 1);
    }
}

#[test]
fn allreduce_agrees_on_every_rank() {
    for ranks in [1, 2, 4] {
        let lines = play("allreduce", ranks, &["--json", "--calls", "2", "--max-bytes", "16384"]);
        assert_eq!(lines.len(), 4 * (1 + ALGORITHMS.len()), "every size with every algorithm");
    }
}

#[test]
fn a_tube_is_bit_identical_with_one_rank() {
    for ranks in [1, 2, 4, 6] {
        assert_eq!(play("stencil", ranks, &["--json", "--side", "17", "--steps", "30"]).len(), 1);
        assert_eq!(play("stencil", ranks, &["--json", "--side", "1", "--steps", "9"]).len(), 1);
    }
}

#[test]
fn centres_are_those_of_one_rank() {
    for ranks in [1, 2, 4, 5] {
        let size = ["--json", "--points", "3001", "--clusters", "9"];
        assert_eq!(play("kmeans", ranks, &size).len(), 1);
    }
}

#[test]
fn numbers_are_sorted_also_where_many_are_alike_or_few_are_there() {
    for ranks in [1, 2, 4, 5] {
        assert_eq!(play("samplesort", ranks, &["--json", "--numbers", "5000"]).len(), 1);
        assert_eq!(play("samplesort", ranks, &["--json", "--numbers", "5000", "--values", "3"]).len(), 1);
        assert_eq!(play("samplesort", ranks, &["--json", "--numbers", "2"]).len(), 1);
    }
}

#[test]
fn examples_explain_themselves() {
    for name in [
        "pingpong",
        "ring",
        "heat",
        "coupled",
        "allreduce",
        "transpose",
        "arena",
        "kmeans",
        "samplesort",
        "stencil",
    ] {
        let output =
            std::process::Command::new(program("examples").join(name)).arg("--help").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("--json"), "{name}: {text}");
    }
}
