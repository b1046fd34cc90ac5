//! Jobs over network cards: frames of cables and bridges in networks of the tests' own. Where the
//! system lets users have none, the tests say that they were skipped.

use core::time::Duration;
use std::process::Command;

use aldis_kit::network::{CABLE, HOSTS, TAPS, TWO_BRIDGES, command};

use crate::harness::{Ended, Job, RANK, behave, launch, program};

/// A job in a network of this layout. `None` where there can be none.
fn begin_inside(layout: &str, options: &str, behaviour: &str) -> Option<Job> {
    let mut job = command(layout, program("aldis-run"))?;
    job.args(options.split_whitespace()).args([RANK, behaviour]);
    Some(launch(job))
}

fn run_inside(layout: &str, options: &str, behaviour: &str) -> Option<Ended> {
    begin_inside(layout, options, behaviour).map(Job::wait)
}

#[test]
fn ranks_exchange_frames_over_cables_and_bridges() {
    for (layout, options) in [
        (CABLE, "-n 2 --transport ethernet --nic packet:v%r"),
        (CABLE, "-n 2 --transport ethernet --nic packet:v%r,udp"),
        (CABLE, "-n 2 --transport ethernet --nic packet:v%r,auth"),
        (CABLE, "-n 2 --transport ethernet --nic packet:v%r,mac=interface"),
        (TWO_BRIDGES, "-n 2 --transport ethernet --nic packet:a%r+packet:b%r"),
        (TWO_BRIDGES, "-n 2 --transport ethernet --nic packet:b%r,udp+packet:a%r"),
        // All on one interface.
        (CABLE, "-n 4 --transport ethernet --nic packet:v0"),
        (TAPS, "-n 2 --transport ethernet --nic tap:t%r"),
        (HOSTS, "-n 4 --host netns:left,netns:right --transport ethernet --nic packet:eth0"),
        (HOSTS, "-n 4 --host netns:left,netns:right --transport shm-ethernet --nic packet:eth0"),
        (HOSTS, "-n 4 --host netns:left,netns:right --nic packet:eth0"),
        (HOSTS, "-n 4 --host netns:left,netns:right --transport shm-ethernet --nic packet:eth0,udp,auth"),
    ] {
        let Some(ended) = run_inside(layout, options, "levels") else { return };
        assert_eq!(ended.code, Some(0), "{options}: {ended:#?}");
    }
}

#[test]
fn what_a_card_cannot_do_is_told_with_what_to_do() {
    for (options, texts) in [
        ("--nic packet:v7", ["over ethernet: no interface is called v7 here; there are ", "v0"]),
        ("--nic tap:v0", ["rank ", "over ethernet: "]),
        (
            "--nic packet:v0,mac=interface",
            ["over ethernet: it has the same address", "leave mac=interface out"],
        ),
    ] {
        let options = format!("-n 2 --transport ethernet {options}");
        let Some(ended) = run_inside(CABLE, &options, "greet") else { return };
        ended.says(1, &texts);
    }
    // A rank that would take frames of anybody.
    let mut unlike = command(CABLE, program("aldis-run")).expect("as above");
    unlike.args("-n 2 --transport ethernet --nic packet:v%r,auth".split(' '));
    let script = format!("[ $ALDIS_RANK = 0 ] || export ALDIS_NIC=packet:v1; exec {RANK} greet");
    unlike.args(["sh", "-c", &script]);
    launch(unlike).wait().says(1, &["has tags on its frames (auth)"]);
    let unlike = format!("{CABLE}; ip link set v1 mtu 1400");
    if let Some(ended) = run_inside(&unlike, "-n 2 --transport ethernet --nic packet:v%r", "greet") {
        ended.says(1, &["give both the same MTU"]);
    }
    behave(2, &["--transport", "ethernet"], "greet")
        .says(2, &["needs a card: --nic packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS"]);
    behave(2, &["--transport", "tcp", "--nic", "packet:v0"], "greet")
        .says(2, &["is for --transport auto, ethernet and shm-ethernet"]);
    behave(2, &["--transport", "ethernet", "--nic", "packet:v0+packet:v0"], "greet")
        .says(2, &["named twice"]);
    behave(2, &["--nic", "eth0"], "greet")
        .says(2, &["it is packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS"]);
}

/// Runs commands of a shell in the network of a job's rank.
fn inside_of(job: &mut Job, commands: &str) {
    let pid = job.pids(2)[0].to_string();
    let entered = ["--target", &pid, "--user", "--net", "--preserve-credentials", "sh", "-ec", commands];
    let status = Command::new("nsenter").args(entered).status().expect("nsenter");
    assert!(status.success(), "{commands}");
}

#[test]
fn a_cable_that_is_pulled_for_a_moment_loses_nothing() {
    let options = "-n 2 --transport ethernet --nic packet:v%r";
    let Some(mut job) = begin_inside(CABLE, options, "rounds") else { return };
    inside_of(&mut job, "ip link set v0 down; sleep 1; ip link set v0 up");
    let ended = job.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 2, "{ended:#?}");
}

#[test]
fn a_rank_with_two_cards_goes_on_by_the_one_that_is_left() {
    for pulled in [
        // Its own interface, which it sees.
        "ip link set b0 down",
        // A cable behind a switch, which no rank sees.
        "ip link set pa1 nomaster",
        // One after the other, the first of which is put back.
        "ip link set a0 down; sleep 1; ip link set a0 up; sleep 1; ip link set b1 down",
    ] {
        let options = "-n 2 --transport ethernet --nic packet:a%r,patience=2+packet:b%r";
        let Some(mut job) = begin_inside(TWO_BRIDGES, options, "rounds") else { return };
        inside_of(&mut job, pulled);
        let ended = job.wait();
        assert_eq!(ended.code, Some(0), "{pulled}: {ended:#?}");
        assert_eq!(ended.out.matches("all came back").count(), 2, "{pulled}: {ended:#?}");
    }
    // Without either, the job ends as it does without its only one.
    let options = "-n 2 --transport ethernet --nic packet:a%r,patience=1+packet:b%r";
    let Some(mut job) = begin_inside(TWO_BRIDGES, options, "hang") else { return };
    inside_of(&mut job, "ip link set b0 down; ip link set a0 down");
    job.wait().says(1, &["a0 is down; bring it up: ip link set a0 up"]);
}

#[test]
fn an_interface_that_stays_down_or_becomes_too_small_ends_the_job() {
    for (change, text) in [
        ("ip link set v0 down", "v0 is down; bring it up: ip link set v0 up"),
        ("ip link set v0 mtu 1000; ip link set v1 mtu 1000", "mtu 1500"),
    ] {
        let options = "-n 2 --transport ethernet --nic packet:v%r,patience=1";
        let Some(mut job) = begin_inside(CABLE, options, "hang") else { return };
        inside_of(&mut job, change);
        let ended = job.wait();
        ended.says(1, &[text]);
        assert!(ended.took < Duration::from_secs(30), "{ended:#?}");
    }
}
