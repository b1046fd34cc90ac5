//! Jobs whose ranks have cards by AF_XDP, in networks that are root's: nobody else may load a
//! program for frames.

use core::time::Duration;
use std::process::Command;

use aldis_kit::network::{CABLE, HOSTS, NetworkOwner};

use crate::harness::{Ended, Job, RANK, launch, program};

/// A bridge, and a cable to it for each of four ranks.
const BRIDGE: &str = "ip link add br0 type bridge; ip link set br0 up; \
                      for rank in 0 1 2 3; do ip link add v$rank type veth peer name p$rank; \
                      ip link set p$rank master br0 up; ip link set v$rank up; done";

/// Starts a job in a network of this layout.
fn begin(layout: &str, options: &str, behaviour: &str) -> Job {
    let job = NetworkOwner::Root.command(layout, program("aldis-run"));
    let mut job = job.expect("a network of root's");
    job.args(options.split_whitespace()).args([RANK, behaviour]);
    launch(job)
}

fn run(layout: &str, options: &str, behaviour: &str) -> Ended {
    begin(layout, options, behaviour).wait()
}

/// Runs commands of a shell in the network of a job's rank.
fn inside_of(job: &mut Job, commands: &str) {
    let pid = job.pids(2)[0].to_string();
    let entered = ["--target", &pid, "--net", "sh", "-ec", commands];
    let status = Command::new("nsenter").args(entered).status().expect("nsenter");
    assert!(status.success(), "{commands}");
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for root"]
fn xdp_ranks_exchange_messages_over_a_cable() {
    let long = format!("{CABLE}; ip link set v0 mtu 3000; ip link set v1 mtu 3000");
    for (layout, options) in [
        (CABLE, "-n 2 --transport ethernet --nic xdp:v%r"),
        (CABLE, "-n 2 --transport ethernet --nic xdp:v%r,udp"),
        (CABLE, "-n 2 --transport ethernet --nic xdp:v%r,udp,mac=interface"),
        (CABLE, "-n 2 --transport ethernet --nic xdp:v%r,generic"),
        (&long, "-n 2 --transport ethernet --nic xdp:v%r,native,copy"),
        (BRIDGE, "-n 4 --transport ethernet --nic xdp:v%r"),
        (HOSTS, "-n 2 --host netns:left:1,netns:right:1 --transport shm-ethernet --nic xdp:eth0"),
    ] {
        let ended = run(layout, options, "levels");
        assert_eq!(ended.code, Some(0), "{options}: {ended:#?}");
    }
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for root"]
fn a_second_xdp_rank_on_an_interface_is_refused_with_a_remedy() {
    for (card, texts) in [
        ("xdp:v0", ["over ethernet: v0 has an XDP program already", "and packet:v0 is for several"]),
        ("xdp:v%r,zerocopy", ["over ethernet: the driver of v", "leave zerocopy out"]),
        ("xdp:v%r,queue=9", ["has no queue 9 for AF_XDP", "ethtool -l v"]),
    ] {
        let ended = run(CABLE, &format!("-n 2 --transport ethernet --nic {card}"), "greet");
        ended.says(1, &texts);
    }
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for root"]
fn xdp_ranks_lose_nothing_when_the_cable_is_pulled_for_a_moment() {
    let mut job = begin(CABLE, "-n 2 --transport ethernet --nic xdp:v%r", "rounds");
    inside_of(&mut job, "ip link set v0 down; sleep 1; ip link set v0 up");
    let ended = job.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.out.matches("all came back").count(), 2, "{ended:#?}");
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for root"]
fn xdp_ranks_whose_interface_stays_down_or_shrinks_end_the_job() {
    for (change, text) in [
        ("ip link set v0 down", "v0 is down; bring it up: ip link set v0 up"),
        ("ip link set v0 mtu 1000; ip link set v1 mtu 1000", "mtu 1500"),
    ] {
        let mut job = begin(CABLE, "-n 2 --transport ethernet --nic xdp:v%r,patience=1", "hang");
        inside_of(&mut job, change);
        let ended = job.wait();
        ended.says(1, &[text]);
        assert!(ended.took < Duration::from_secs(30), "{ended:#?}");
    }
}
