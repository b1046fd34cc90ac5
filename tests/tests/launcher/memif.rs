//! Jobs whose ranks have memifs: of a server of the rank's own, and through DPDK's testpmd.

use core::time::Duration;
use std::path::Path;
use std::process::Command;

use aldis_kit::scratch::ScratchFolder;
use aldis_kit::testpmd::Testpmd;

use crate::harness::{Ended, Job, RANK, behave, launch, program};

/// Starts two ranks with this card, on the core that testpmd does not forward on: it never yields.
fn begin(card: &str, behaviour: &str) -> Job {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program("aldis-run"));
    command.args(["-n", "2", "--transport", "ethernet", "--nic", card, RANK, behaviour]);
    launch(command)
}

/// Starts the switch, once what is to run beside it is built.
fn start_switch(socket: &Path) -> Testpmd {
    program("aldis-run");
    Testpmd::start(socket)
}

fn run(card: &str, behaviour: &str) -> Ended {
    begin(card, behaviour).wait()
}

#[test]
fn a_card_that_is_no_memif_is_told() {
    let folder = ScratchFolder::new("launcher-memif");
    let card = format!("memif:{},id=%r", folder.path().join("sock").display());
    let ended = behave(2, &["--transport", "ethernet", "--nic", &card], "greet");
    ended.says(1, &["over ethernet: no memif server is at ", "start one, such as dpdk-testpmd"]);
    behave(2, &["--transport", "ethernet", "--nic", "memif:m,id"], "greet").says(2, &["id=NUMBER or id=%r"]);
}

#[test]
fn two_ranks_are_either_end_of_a_memif() {
    let folder = ScratchFolder::new("launcher-memif");
    let [server, client] =
        [",server", ""].map(|word| format!("memif:{}{word}", folder.path().join("sock").display()));
    let mut command = Command::new(program("aldis-run"));
    command.args(["-n", "1", "--transport", "ethernet", "--nic", &server, RANK, "levels"]);
    command.args([":", "-n", "1", "--nic", &client, RANK, "levels"]);
    let ended = launch(command).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for dpdk-testpmd"]
fn memif_ranks_exchange_messages_through_testpmd() {
    let folder = ScratchFolder::new("launcher-testpmd");
    let socket = folder.path().join("sock");
    let card = format!("memif:{},id=%r", socket.display());
    for words in ["", ",udp", ",mtu=9000"] {
        let _switch = start_switch(&socket);
        let card = format!("{card}{words}");
        let ended = run(&card, "levels");
        assert_eq!(ended.code, Some(0), "{words}: {ended:#?}");
    }
    // All ranks want the same interface.
    let _switch = start_switch(&socket);
    let card = format!("memif:{}", socket.display());
    let ended = run(&card, "greet");
    ended.says(1, &["the peer refuses: Already connected", "id=%r"]);
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for dpdk-testpmd"]
fn memif_ranks_lose_nothing_when_testpmd_is_killed_and_started_again() {
    let folder = ScratchFolder::new("launcher-testpmd");
    let socket = folder.path().join("sock");
    let switch = start_switch(&socket);
    let card = format!("memif:{},id=%r", socket.display());
    let mut job = begin(&card, "rounds");
    job.line("a third is done");
    drop(switch);
    std::thread::sleep(Duration::from_millis(300));
    let _switch = start_switch(&socket);
    let ended = job.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 2, "{ended:#?}");
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for dpdk-testpmd"]
fn memif_ranks_whose_testpmd_stays_away_end_the_job() {
    let folder = ScratchFolder::new("launcher-testpmd");
    let socket = folder.path().join("sock");
    let switch = start_switch(&socket);
    let card = format!("memif:{},id=%r,patience=1", socket.display());
    let mut job = begin(&card, "hang");
    job.pids(2);
    drop(switch);
    let ended = job.wait();
    ended.says(1, &["the memif server at ", "has gone; remove the socket, and start it again"]);
    assert!(ended.took < Duration::from_secs(30), "{ended:#?}");
}
