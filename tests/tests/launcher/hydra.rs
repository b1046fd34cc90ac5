//! Jobs that Hydra starts: `mpiexec.hydra` of MPICH. Where there is none the tests say that they
//! were skipped.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};

use crate::harness::{Ended, RANK, becomes, is_alive, launch, program};
use crate::hosts::folder;
use crate::namespaces::NamespacePair;

/// `mpiexec.hydra` with this line behind it; `None` where there is none.
fn hydra(line: &str) -> Option<Command> {
    let known = Command::new("mpiexec.hydra").arg("-version").output();
    if let Err(error) = known {
        eprintln!("skipped: mpiexec.hydra: {error}; apt-get install mpich");
        return None;
    }
    let mut command = Command::new("mpiexec.hydra");
    command.args(line.split_whitespace());
    Some(command)
}

fn play(line: &str) -> Option<Ended> {
    hydra(line).map(|command| launch(command).wait())
}

/// Every line of output is of a verified run, and there is no other.
#[track_caller]
pub(crate) fn verified(ended: &Ended, lines: usize) {
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:#?}");
    let good = ended.out.lines().filter(|line| line.contains("\"verified\":true")).count();
    assert_eq!((good, ended.out.lines().count()), (lines, lines), "{ended:#?}");
}

#[test]
fn examples_run_under_either_version_on_every_transport() {
    let example = |name: &str| program("examples").join(name).display().to_string();
    let (heat, pingpong) = (example("heat"), example("pingpong"));
    for transport in ["auto", "shm", "tcp"] {
        for version in [1, 2] {
            let options = format!("-genv ALDIS_TRANSPORT {transport} -genv ALDIS_PMI {version}");
            let size = "--json --width 50 --height 61 --steps 40";
            let Some(ended) = play(&format!("-n 4 {options} {heat} {size}")) else { return };
            verified(&ended, 1);
            let size = "--json --millis 5 --max-bytes 4096";
            let Some(ended) = play(&format!("-n 2 {options} {pingpong} {size}")) else { return };
            verified(&ended, ended.out.lines().count().max(1));
        }
    }
}

#[test]
fn hydra_exits_as_the_job_does() {
    for (behaviour, code, told) in [
        ("abort", 42, "rank 2 aborted the job with code 42: nothing to be done"),
        ("fail", 1, "rank 2 failed: the input makes no sense"),
    ] {
        let Some(ended) = play(&format!("-n 3 {RANK} {behaviour}")) else { return };
        ended.says(code, &[told]);
        assert_eq!(ended.err.matches("rank ").count(), 1, "{ended:#?}");
    }
    let Some(ended) = play(&format!("-n 2 -genv ALDIS_TRANSPORT pigeon {RANK} rounds")) else { return };
    ended.says(
        1,
        &["rank 0: cannot join the job: ALDIS_TRANSPORT cannot be \"pigeon\": it is auto, shm, tcp, verbs, shm-verbs, ethernet or shm-ethernet"],
    );
    assert_eq!(ended.err.matches("cannot join").count(), 1, "{ended:#?}");
}

#[test]
fn a_killed_rank_ends_the_job() {
    let Some(command) = hydra(&format!("-n 3 {RANK} stream")) else { return };
    let mut job = launch(command);
    let pids = job.pids(3);
    kill(pids[1], Signal::SIGKILL).unwrap();
    let gone = || !pids.iter().any(|pid| is_alive(*pid));
    assert!(becomes(Duration::from_secs(5), gone), "others live on");
    assert_ne!(job.wait().code, Some(0));
}

#[test]
fn nodes_in_network_namespaces_talk_over_tcp() {
    let Some(pair) = NamespacePair::new("hydra") else { return };
    let [one, other] = &pair.names;
    // What Hydra takes for ssh: options, a host, and a command.
    let script = folder("hydra").join("enter");
    let lines = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\ncase $1 in 10.77.0.1) host={one};; *) host={other};; esac\n\
         shift\nexec ip netns exec $host sh -c \"$*\"\n"
    );
    fs::write(&script, lines).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    // The proxies call back, so that Hydra has to be in a namespace itself.
    let play = |hosts: &str, more: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", one, "mpiexec.hydra", "-iface", "eth0", "-launcher", "ssh"]);
        command.arg("-launcher-exec").arg(&script).args(["-hosts", hosts]).args(more.split_whitespace());
        hydra("").map(|_| launch(command).wait())
    };
    for hosts in ["10.77.0.1:2,10.77.0.2:2", "10.77.0.1:1,10.77.0.2:1"] {
        let Some(ended) = play(hosts, &format!("-n 4 {RANK} rounds")) else { return };
        assert_eq!(ended.code, Some(0), "{hosts}: {ended:#?}");
        assert_eq!(ended.out.matches("all came back").count(), 4, "{hosts}: {ended:#?}");
    }
    // A card that is named is what lies between hosts.
    let line = format!("-n 4 -genv ALDIS_NIC packet:eth0,counters {RANK} rounds");
    let Some(ended) = play("10.77.0.1:2,10.77.0.2:2", &line) else { return };
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 4, "{ended:#?}");
    assert_eq!(ended.err.matches(": ethernet: received=").count(), 4, "{ended:#?}");
    let line = format!("-n 2 -genv ALDIS_TRANSPORT shm {RANK} rounds");
    let Some(ended) = play("10.77.0.1:1,10.77.0.2:1", &line) else { return };
    ended.says(1, &["no memory can be shared with rank", "ALDIS_TRANSPORT=auto reaches it over TCP"]);
}
