//! Long messages between two processes, with single copies by the system and without, from arenas
//! and from elsewhere.

use std::process::{Command, Stdio};

use aldis_sys::fault::PLAN_VARIABLE;

use crate::harness::program;

/// The rank that exchanges long messages in every way.
const RANK: &str = env!("CARGO_BIN_EXE_copy_rank");

/// Nothing is staged: what is tested is the other ways.
const NOT_STAGED: (&str, &str) = ("ALDIS_STAGING", "off");

/// Nothing is measured in pairs, which copies by the system too.
const NOT_CALIBRATED: (&str, &str) = ("ALDIS_CALIBRATION", "off");

/// Runs two of them with variables of the environment; the launcher's exit code and all that was
/// said.
fn exchange(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    exchange_over("auto", variables, &[])
}

/// Like [`exchange`], over a transport and with arguments for the ranks.
fn exchange_over(transport: &str, variables: &[(&str, &str)], rest: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program("aldis-run"));
    command.args(["-n", "2", "--timeout", "55", "--transport", transport, RANK]).args(rest);
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().expect("aldis-run");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), said.concat())
}

/// Messages that both ranks say they have read.
fn reads(said: &str) -> Vec<u32> {
    let counts =
        said.lines().filter_map(|line| line.split_once("has read ")?.1.split(' ').next()?.parse().ok());
    counts.collect()
}

/// Messages that both ranks say they have looked at where they are.
fn looks(said: &str) -> Vec<u32> {
    let counts =
        said.lines().filter_map(|line| line.split_once("looked at ")?.1.split(' ').next()?.parse().ok());
    counts.collect()
}

/// The line of a protocol in what `explain` says.
fn protocol<'a>(said: &'a str, name: &str) -> &'a str {
    said.lines().find(|line| line.contains(name)).unwrap_or("")
}

#[test]
fn long_messages_are_read_where_they_are() {
    // Whatever it costs: the way is what is tested.
    let (code, said) = exchange(&[("ALDIS_READ_COST", "0:1"), NOT_STAGED]);
    assert_eq!(code, Some(0), "{said}");
    assert!(protocol(&said, "rendezvous by reading").ends_with("taken"), "{said}");
    assert!(reads(&said).iter().all(|&count| count > 20) && reads(&said).len() == 2, "{said}");
    assert_eq!(looks(&said), [0, 0], "nothing is mapped: {said}");
    assert!(protocol(&said, "inside: ").contains("in memory that the peer has not mapped"), "{said}");
}

#[test]
fn reading_goes_without_the_owners_help() {
    let (code, said) = exchange(&[("ALDIS_READ_COST", "0:1"), ("ALDIS_CMA", "read"), NOT_STAGED]);
    assert_eq!(code, Some(0), "{said}");
    assert!(reads(&said).iter().all(|&count| count > 20), "{said}");
}

#[test]
fn what_the_system_refuses_goes_in_fragments_and_explain_says_so() {
    let (code, said) = exchange(&[("ALDIS_CMA", "off"), NOT_STAGED]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(reads(&said), [0, 0], "{said}");
    assert_eq!(looks(&said), [0, 0], "{said}");
    assert!(said.contains("transport shm: taken; its memory is not read: ALDIS_CMA is off"), "{said}");
    assert!(protocol(&said, "rendezvous by fragments").ends_with("taken"), "{said}");
}

/// Runs a ring of `ranks` under a plan of faults of the system; all that was said.
fn ring(ranks: &str, words: &str, plan: &str) -> String {
    let mut command = Command::new(program("aldis-run"));
    command.args(["-n", ranks, "--timeout", "55"]).arg(program("examples").join("ring"));
    command.args(["--laps", "3", "--words", words]).stdin(Stdio::null());
    command.envs([("ALDIS_READ_COST", "0:1"), NOT_STAGED, NOT_CALIBRATED, (PLAN_VARIABLE, plan)]);
    let output = command.output().expect("aldis-run");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(output.status.code(), Some(0), "{said:?}");
    said.concat()
}

/// A rank stops for good when it looks at the memory of a second one: with short messages none
/// does.
#[test]
fn memory_of_one_neighbor_is_looked_at_before_the_first_contact() {
    for ranks in ["8", "36"] {
        let said = ring(ranks, "4", "process_vm_readv@2..=stop");
        assert!(said.contains("every token verified"), "{said}");
    }
}

/// Rank 0 reads memory of rank 1 and expects so of rank 2, where it is refused when it comes to it.
#[test]
fn memory_that_is_refused_at_the_first_contact_goes_in_fragments() {
    for plan in ["rank0:process_vm_readv@2..=EPERM", "process_vm_readv@2..=EPERM"] {
        let said = ring("3", "40000", plan);
        assert!(said.contains("every token verified"), "{said}");
    }
}

/// Without any help of the system, whatever it allows.
#[test]
fn messages_of_middle_length_are_staged() {
    for cma in ["on", "off"] {
        let (code, said) = exchange(&[("ALDIS_CMA", cma), ("ALDIS_MAPPED_COST", "0:1"), NOT_CALIBRATED]);
        assert_eq!(code, Some(0), "{cma}: {said}");
        assert!(reads(&said).iter().all(|&count| count > 20) && reads(&said).len() == 2, "{cma}: {said}");
        assert!(looks(&said).iter().all(|&count| count > 10), "seen where they are: {cma}: {said}");
        assert!(said.contains("protocol staging memory: at most 262144 bytes fit"), "{cma}: {said}");
    }
}

/// Whatever they find, and also where the system makes some of the copies or none.
#[test]
fn two_ranks_measure_together_when_they_join() {
    let refused = |plan| vec![(PLAN_VARIABLE, plan)];
    for variables in [
        vec![],
        vec![NOT_CALIBRATED],
        vec![("ALDIS_CMA", "read")],
        refused("process_vm_writev@1..=EPERM"),
        refused("rank1:process_vm_readv@1..=EPERM"),
    ] {
        let (code, said) = exchange(&variables);
        assert_eq!(code, Some(0), "{variables:?}: {said}");
        assert_eq!(reads(&said).len(), 2, "{variables:?}: {said}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_distance_that_is_given_is_explained() {
    for (value, says) in [("near", "written through the caches"), ("far", "written past the caches")] {
        let (code, said) = exchange(&[("ALDIS_DISTANCE", value)]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("; {value}, as given: {says}")), "{said}");
    }
}

#[test]
fn arenas_are_read_where_they_are_mapped() {
    for cma in ["on", "read", "off"] {
        let variables = [("ALDIS_ARENA", "32M"), ("ALDIS_MAPPED_COST", "0:1"), ("ALDIS_CMA", cma)];
        let (code, said) = exchange(&variables);
        assert_eq!(code, Some(0), "{cma}: {said}");
        assert!(reads(&said).iter().all(|&count| count > 20) && reads(&said).len() == 2, "{cma}: {said}");
        // Of each size above 8 KiB one that comes before its receive and one that comes after it.
        assert!(looks(&said).iter().all(|&count| count >= 22) && looks(&said).len() == 2, "{cma}: {said}");
        assert!(protocol(&said, "inside: ").ends_with("taken"), "{cma}: {said}");
        assert!(
            protocol(&said, "outside: ").contains("in memory that the peer has not mapped"),
            "{cma}: {said}"
        );
        let remark =
            if cma == "off" { "only what is sent from an arena is read" } else { "read where it is mapped" };
        assert!(said.contains(remark), "{cma}: {said}");
    }
}

#[test]
fn what_comes_by_sockets_is_seen_in_the_fallback() {
    let (code, said) = exchange_over("tcp", &[("ALDIS_ARENA", "32M")], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(looks(&said), [0, 0], "{said}");
}

#[test]
fn a_rank_that_dies_while_it_looks_ends_the_job() {
    let (code, said) = exchange_over("auto", &[("ALDIS_ARENA", "32M")], &["die"]);
    assert!(said.contains("rank 1 looks, and dies"), "{said}");
    assert_eq!(code, Some(128 + 6), "{said}");
}

#[test]
fn an_arena_that_does_not_fit_is_told_with_a_remedy() {
    let (code, said) = exchange(&[("ALDIS_ARENA", "900G")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not enough memory") && said.contains("a smaller --arena"), "{said}");
    let (code, said) = exchange(&[("ALDIS_ARENA", "1M")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("start the job with a larger --arena"), "{said}");
}

#[test]
fn a_variable_that_makes_no_sense_is_refused() {
    for (name, value) in [
        ("ALDIS_CMA", "perhaps"),
        ("ALDIS_READ_COST", "cheap"),
        ("ALDIS_MAPPED_COST", "1"),
        ("ALDIS_DISTANCE", "middling"),
        ("ALDIS_STAGING", "some"),
        ("ALDIS_SLEEP", "well"),
        ("ALDIS_CALIBRATION", "twice"),
    ] {
        let (code, said) = exchange(&[(name, value)]);
        assert_ne!(code, Some(0));
        assert!(said.contains(&format!("{name} cannot be \"{value}\"")), "{said}");
    }
}
