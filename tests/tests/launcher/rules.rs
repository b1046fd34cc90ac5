//! Rules for collectives: a file that the launcher reads once for all ranks.

use std::fs;

use crate::harness::{RANK, run};
use crate::hosts::folder;

#[test]
fn every_rank_on_every_host_is_given_the_same_rules() {
    let path = folder("rules").join("tuned.rules");
    fs::write(&path, "# tuned by hand\nallreduce * 1M- ring\nallreduce 3 4K bcube segment=1K # here\n")
        .unwrap();
    let path = path.to_str().unwrap();
    // What a user says of the variable is not what ranks get.
    let stray = "ALDIS_COLL_RULES_TEXT=x\nallreduce * * linear";
    let arguments = ["-n", "3", "--host", "local:a:1,local:b:1,local:c:1", "--env", stray];
    let ended = run(arguments.into_iter().chain(["--coll-rules", path, RANK, "explain"]));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for rank in 0..3 {
        let taken = format!("; taken, named by rule {path}:3");
        let line =
            ended.out.lines().find(|line| line.starts_with(&format!("[{rank}]")) && line.contains(&taken));
        assert!(
            line.is_some_and(
                |line| line.contains(" bcube ") && line.contains("segments of 128 (4, 4 at once)")
            ),
            "{ended:#?}"
        );
    }
    let ended = run(["-n", "2", "--env", stray, RANK, "explain"]);
    assert!(ended.code == Some(0) && !ended.out.contains("rule"), "{ended:#?}");
}

#[test]
fn wrong_rules_end_the_job_before_it_starts() {
    let path = folder("wrong-rules").join("tuned.rules");
    fs::write(&path, "\nallreduce * * rong\n").unwrap();
    let path = path.to_str().unwrap();
    let told =
        format!("{path}:2: `rong`: no allreduce algorithm is called `rong`; known: auto, recursive_doubling");
    run(["-n", "2", "--coll-rules", path, RANK, "explain"]).says(2, &[&told]);
    run(["-n", "2", "--coll-rules", "/no/such.rules", RANK]).says(2, &["/no/such.rules: No such file"]);
}

#[test]
fn a_choice_is_explained_without_a_job() {
    let path = folder("explained-rules").join("tuned.rules");
    fs::write(&path, "allreduce 8 * ring\n").unwrap();
    let ended = run(["--coll-rules", path.to_str().unwrap(), "--explain-collective", "allreduce:8:1M"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.out.contains("allreduce over 8 ranks, 131072 elements of 8 bytes"), "{ended:#?}");
    assert!(ended.out.contains(&format!("; taken, named by rule {}:1", path.display())), "{ended:#?}");
    run(["--explain-collective", "allreduce:8"]).says(2, &["OPERATION:RANKS:BYTES, such as allreduce:8:1M"]);
}
