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

/// Runs two ranks at either end of a memif, with these words of their cards.
fn run_pair(folder: &ScratchFolder, words: &str) -> Ended {
    let [server, client] =
        [",server", ""].map(|end| format!("memif:{}{end}{words}", folder.path().join("sock").display()));
    let mut command = Command::new(program("aldis-run"));
    command.args(["-n", "1", "--transport", "ethernet", "--nic", &server, RANK, "levels"]);
    command.args([":", "-n", "1", "--nic", &client, RANK, "levels"]);
    let ended = launch(command).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended
}

#[test]
fn two_ranks_are_either_end_of_a_memif() {
    run_pair(&ScratchFolder::new("launcher-memif"), "");
}

/// The number behind a word of the counters of a rank's card.
fn counter(ended: &Ended, rank: u32, word: &str) -> u64 {
    let start = format!("rank {rank}: memif:");
    let line = ended.err.lines().find_map(|line| line.split_once(&start)).expect("counters").1;
    let found = line.split_whitespace().find_map(|text| text.strip_prefix(word)?.strip_prefix('='));
    found.and_then(|number| number.parse().ok()).expect("a counter")
}

#[test]
fn the_frames_of_a_card_are_counted_and_captured() {
    let folder = ScratchFolder::new("launcher-memif");
    let ended = run_pair(&folder, &format!(",pcap={}/%r.pcap,counters", folder.path().display()));
    for (rank, other) in [(0, 1), (1, 0)] {
        // The other may have gone before the last has come.
        let [sent, received] = [counter(&ended, rank, "sent"), counter(&ended, other, "received")];
        assert!(received > 0 && received <= sent, "{ended:#?}");
        let captured =
            std::fs::metadata(folder.path().join(format!("{rank}.pcap"))).expect("a capture").len();
        let frames = sent + counter(&ended, rank, "received");
        let bytes = counter(&ended, rank, "sent_bytes") + counter(&ended, rank, "received_bytes");
        assert_eq!(captured, 24 + 16 * frames + bytes, "{ended:#?}");
    }
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for tshark"]
fn tshark_reads_what_a_rank_has_captured() {
    let folder = ScratchFolder::new("launcher-tshark");
    for (words, fields, expected) in [
        ("", ["eth.type", "frame.protocols"], "0x88b5\teth:ethertype:data"),
        ("auth,", ["eth.type", "frame.protocols"], "0x88b5\teth:ethertype:data"),
        ("udp,", ["udp.dstport", "udp.checksum.status"], "53665\t1"),
    ] {
        let ended = run_pair(&folder, &format!(",{words}pcap={}/%r.pcap,counters", folder.path().display()));
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(folder.path().join("1.pcap")).args([
            "-o",
            "udp.check_checksum:TRUE",
            "-T",
            "fields",
        ]);
        let said = tshark.args(fields.map(|field| ["-e", field]).as_flattened()).output().expect("tshark");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let unlike = said.lines().find(|line| *line != expected);
        assert_eq!(unlike, None, "{words}");
        let frames = counter(&ended, 1, "sent") + counter(&ended, 1, "received");
        assert_eq!(said.lines().count() as u64, frames, "{words}");
    }
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
