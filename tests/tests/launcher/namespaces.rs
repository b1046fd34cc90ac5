//! Nodes in network namespaces: two hosts with addresses of their own, as far as TCP can tell. They
//! take root and `ip`; where there are none, the test says that it was skipped.

use core::time::Duration;
use std::process::Command;

use nix::sys::signal::{Signal, kill};

use crate::harness::{becomes, begin, behave, is_alive};

/// Two namespaces with a cable between them; gone on drop.
pub(crate) struct NamespacePair {
    hosts: String,
    pub(crate) names: [String; 2],
}

fn ip(line: &str) -> Result<(), String> {
    let output = Command::new("ip").args(line.split_whitespace()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let said = || format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

impl NamespacePair {
    /// `None` where there can be none, with the reason on standard error.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let names = ["a", "b"].map(|end| format!("aldis-{name}-{}-{end}", std::process::id()));
        let pair = Self { hosts: format!("netns:{},netns:{}", names[0], names[1]), names };
        pair.lay().inspect_err(|error| eprintln!("skipped: no network namespaces here: {error}")).ok()?;
        Some(pair)
    }

    fn lay(&self) -> Result<(), String> {
        let [one, other] = &self.names;
        ip(&format!("netns add {one}"))?;
        ip(&format!("netns add {other}"))?;
        ip(&format!("link add eth0 netns {one} type veth peer name eth0 netns {other}"))?;
        for (host, name) in (1..).zip(&self.names) {
            ip(&format!("-n {name} address add 10.77.0.{host}/24 dev eth0"))?;
            ip(&format!("-n {name} address add fd77::{host}/64 dev eth0 nodad"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(())
    }

    fn options<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["--host", &self.hosts][..], more].concat()
    }
}

impl Drop for NamespacePair {
    fn drop(&mut self) {
        for name in &self.names {
            // The cable goes with its ends.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

#[test]
fn nodes_with_addresses_of_their_own_talk_by_either_family() {
    let Some(pair) = NamespacePair::new("talk") else { return };
    for family in
        [&[][..], &["--tcp-family", "6"], &["--tcp-include", "10.77.0.0/16", "--tcp-ports", "4100-4109"]]
    {
        let ended = behave(4, &pair.options(family), "rounds");
        assert_eq!(ended.code, Some(0), "{family:?}: {ended:#?}");
        assert_eq!(ended.out.matches("all came back").count(), 4, "{family:?}: {ended:#?}");
    }
    behave(2, &pair.options(&["--tcp-exclude", "eth0,lo"]), "greet")
        .says(1, &["cannot join the job: rank ", "over TCP: "]);
}

/// The connections that have been begun in a namespace.
fn begun_in(name: &str) -> u64 {
    let output = Command::new("ip").args(["netns", "exec", name, "cat", "/proc/net/snmp"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Tcp: ")).collect();
    let [names, values] = rows[..] else { panic!("{text}") };
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    columns.find(|(name, _)| *name == "ActiveOpens").unwrap().1.parse().unwrap()
}

/// A start or an end in which every rank connects to every other would make it quadratic.
#[test]
fn ranks_that_send_nothing_make_no_connection() {
    let Some(pair) = NamespacePair::new("idle") else { return };
    let tree = pair.options(&["--transport", "tcp", "--fanout", "1"]);
    let ended = behave(12, &tree, "greet");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(pair.names.each_ref().map(|name| begun_in(name)), [0, 0]);
    let ended = behave(12, &tree, "rounds");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(begun_in(&pair.names[0]) > 0, "nothing is counted");
}

#[test]
fn a_rank_killed_in_another_namespace_is_reported_within_a_second() {
    let Some(pair) = NamespacePair::new("kill") else { return };
    let mut job = begin(4, &pair.options(&[]), "stream");
    let pids = job.pids(4);
    kill(pids[3], Signal::SIGKILL).unwrap();
    let gone = || !pids.iter().any(|pid| is_alive(*pid));
    assert!(becomes(Duration::from_secs(1), gone), "others live on for a second");
    let killed = format!("rank 3 (pid {} on netns:{}) was killed by SIGKILL", pids[3], pair.names[1]);
    job.wait().says(137, &[&killed, "3 other ranks were ended"]);
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    behave(2, &["--host", "netns:no-such-namespace"], "greet")
        .says(1, &["host netns:no-such-namespace: cannot be reached: "]);
}
