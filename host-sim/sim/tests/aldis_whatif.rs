//! `aldis-whatif` as its users call it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn whatif(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aldis-whatif"));
    command.args(line.split_whitespace()).output().expect("starting aldis-whatif")
}

/// Returns what it prints when all is well.
fn printed(line: &str) -> String {
    let output = whatif(line);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// The algorithms that these tests look at.
const PLAIN: &str =
    "--algorithm dissemination --algorithm binomial --algorithm recursive_doubling --algorithm ring";

/// A file of this test in the target folder.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_table_lines_up_and_marks_the_fastest() {
    let expected = "  operation  algorithm           ranks  bytes      us  messages   sent  fastest
  allreduce  recursive_doubling      4      8   3.001         8     64  *
  allreduce  recursive_doubling      4   4096   3.737         8  32768  *
  allreduce  recursive_doubling      8      8   4.502        24    192  *
  allreduce  recursive_doubling      8   4096   5.606        24  98304  *
  allreduce  ring                    4      8   9.003         6     48
  allreduce  ring                    4   4096   9.399        24  24576
  allreduce  ring                    8      8  21.007        14    112
  allreduce  ring                    8   4096  21.465       112  57344
";
    let line = "allreduce --algorithm recursive_doubling --algorithm ring --ranks 4,8 --bytes 8,4Ki";
    let table = printed(line);
    assert_eq!(table, expected);
    assert_eq!(printed(line), table, "the same command, the same times");
}

#[test]
fn csv_json_and_plot_hold_every_point() {
    let (csv, svg) = (file("points.csv"), file("points.svg"));
    fs::write(&csv, "x".repeat(100_000)).expect("a longer file, to be replaced");
    let line = format!(
        "barrier bcast allreduce reduce {PLAIN} --ranks 2..16 --json --csv {} --svg {}",
        csv.display(),
        svg.display()
    );
    let json: serde_json::Value = serde_json::from_str(&printed(&line)).expect("JSON");
    let points = json.as_array().expect("an array");
    // A broadcast by one of them, the other three operations by two; four rank counts.
    assert_eq!(points.len(), 28);
    assert_eq!(points[0]["time_ns"], 1500.0);
    let csv = fs::read_to_string(csv).expect("the CSV file");
    assert_eq!(csv.lines().count(), 29);
    assert!(
        csv.starts_with("operation,algorithm,ranks,bytes,time_ns,messages,sent_bytes,fastest\n"),
        "{csv}"
    );
    assert!(csv.contains("\nbarrier,dissemination,2,0,1500.000,2,0,true\n"), "{csv}");
    let svg = fs::read_to_string(svg).expect("the SVG file");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for words in ["barrier dissemination", "bcast binomial, 8 B", "allreduce ring, 8 B", "ranks"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    // A dot for each point in a line, and nothing that is no number.
    assert_eq!((svg.matches("<circle").count(), svg.contains("NaN")), (28, false));
}

#[test]
fn bytes_are_those_of_a_block_where_there_is_one_for_every_rank() {
    // o + 7 G + L + o a round.
    let row = |line: &str| {
        printed(line).lines().last().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let ring = row("allgather --algorithm ring --ranks 4 --bytes 8");
    assert_eq!(ring.as_deref(), Some("allgather ring 4 8 4.501 12 96 *"));
    // And a rank's own block is copied, 50 ps a byte.
    let swap = row("alltoall --algorithm two_processes --ranks 2 --bytes 8");
    assert_eq!(swap.as_deref(), Some("alltoall two_processes 2 8 1.501 2 16 *"));
}

#[test]
fn one_rank_count_is_drawn_against_bytes() {
    let svg = file("bytes.svg");
    let algorithms = "--algorithm recursive_doubling --algorithm ring";
    printed(&format!("allreduce {algorithms} --ranks 16 --bytes 8..1Mi*8 --svg {}", svg.display()));
    let svg = fs::read_to_string(svg).expect("the SVG file");
    assert!(svg.contains("bytes") && svg.matches("<circle").count() == 12, "{svg}");
}

#[test]
fn points_that_are_too_much_work_are_left_out_and_named() {
    let output = whatif(
        "allreduce --algorithm recursive_doubling --algorithm ring --ranks 64,4096 --bytes 8 --work-max 100000",
    );
    assert!(output.status.success());
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last: Vec<&str> =
        table.lines().last().map(|line| line.split_whitespace().collect()).unwrap_or_default();
    assert_eq!(last, ["allreduce", "ring", "4096", "8", "-", "-", "-"]);
    assert!(errors.contains("ring over 4096 ranks: 33546240 rounds of ranks"), "{errors}");
    assert!(errors.contains("raise --work-max"), "{errors}");
}

#[test]
fn everything_that_can_be_named_is_listed() {
    let list = printed("--list");
    for words in ["barrier    dissemination", "bcast      binomial", "Patarasuk", "dragonfly[:ROUTERSxNODES]"]
    {
        assert!(list.contains(words), "{words}: {list}");
    }
    assert!(printed("--help").contains("Examples:"));
}

#[test]
fn what_is_wrong_is_answered_with_what_would_be_right() {
    for (line, code, answer) in [
        ("barrier --ranks 0", 1, "0 ranks; there must be 1 to"),
        ("barrier --ranks 2..", 2, "2..64 (doubling)"),
        (
            "allreduce --algorithm rng",
            1,
            "none is called `rng`; known: recursive_doubling, rabenseifner, ring",
        ),
        ("gatherv", 2, "known: barrier, bcast, gather, scatter, allgather, alltoall, "),
        ("--topology tree", 2, "known: crossbar, ring, torus[:COLUMNS]"),
        ("--bytes 12", 1, "no whole number of elements of 8"),
        ("bcast --ranks 4,8 --root 4", 1, "--root 4: there is no such rank among 4"),
        ("allreduce --ranks 4 --scratch-bytes 7", 1, "scratch"),
        ("allreduce --algorithm ring --ranks 65536", 1, "8589803520 rounds of ranks"),
        ("barrier --ranks 4 --csv /no/such/folder/file", 1, "/no/such/folder/file: No such file"),
        ("barrier --ranks 4 --csv /dev/full", 1, "/dev/full: No space left on device"),
        ("barrier --ranks 4,8 --svg /dev/full", 1, "/dev/full: No space left on device"),
        ("barrier --ranks 1 --svg /dev/null", 1, "no point with a size and a time above 0"),
    ] {
        let output = whatif(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {errors}");
        assert!(errors.contains(answer), "{line}: {errors}");
    }
}

#[test]
fn a_run_that_fails_leaves_no_file() {
    let (csv, svg) = (file("none.csv"), file("none.svg"));
    let output = whatif(&format!("allreduce --algorithm ring --ranks 65536 --csv {}", csv.display()));
    assert_eq!((output.status.code(), csv.exists()), (Some(1), false));
    let output = whatif(&format!("barrier --ranks 1 --svg {}", svg.display()));
    assert_eq!((output.status.code(), svg.exists()), (Some(1), false));
}
