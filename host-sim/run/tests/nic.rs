//! `aldis-nic` as its users call it, in networks of the tests' own.

use std::process::{Command, Output, Stdio};

use aldis_kit::network::{CABLE, NetworkOwner, command};
use aldis_kit::scratch::ScratchFolder;
use aldis_kit::testpmd::Testpmd;

const NIC: &str = env!("CARGO_BIN_EXE_aldis-nic");

/// Runs it in a network of this layout. `None` where there can be none.
fn inside(layout: &str, line: &str) -> Option<(Option<i32>, String)> {
    command(layout, NIC).map(|mut command| told(command.args(line.split_whitespace()).output().unwrap()))
}

/// Returns the exit code, and all that was said.
fn told(output: Output) -> (Option<i32>, String) {
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), said.concat())
}

#[test]
fn cards_are_listed_with_why_one_cannot_be_used() {
    let Some((code, text)) = inside(&format!("{CABLE}; ip link set v1 down"), "list") else { return };
    assert_eq!(code, Some(0), "{text}");
    let line = |card: &str| text.lines().find(|line| line.starts_with(card)).unwrap_or_default();
    assert!(line("packet:v1 ").contains("no: v1 is down; bring it up: ip link set v1 up"), "{text}");
    assert!(line("packet:lo ").ends_with("yes") && line("tap:IF ").contains("yes"), "{text}");
    let (_, text) = inside(CABLE, "list --json").unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cards = json["cards"].as_array().unwrap();
    let v0 = cards.iter().find(|card| card["card"] == "packet:v0").unwrap();
    assert!(v0["refused"].is_null() && v0["mtu"] == 1500, "{text}");
    // No program is loaded by users of a network's own.
    let v0 = cards.iter().find(|card| card["card"] == "xdp:v0").unwrap();
    assert!(v0["refused"].as_str().unwrap().contains("packet:v0"), "{text}");
}

#[test]
fn a_bench_measures_what_comes_back() {
    let line = "bench packet:v0 packet:v1 --rounds 100 --seconds 0.2 --size 200 --json";
    let Some((code, text)) = inside(CABLE, line) else { return };
    assert_eq!(code, Some(0), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["rounds"].as_u64() > Some(50) && json["frames_per_second"].as_f64() > Some(10.0), "{text}");
    let trip = &json["round_trip_ns"];
    assert!(trip["p1"].as_u64() <= trip["median"].as_u64() && trip["median"].as_u64() > Some(0), "{text}");
    let (code, text) = inside(CABLE, "bench packet:v0 packet:v1 --rounds 50 --seconds 0.1").unwrap();
    assert!(
        code == Some(0) && text.contains("round trip  median ") && text.contains("frames/s each way"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_measured_is_told() {
    let Some((code, text)) = inside(CABLE, "bench packet:v0 --size 1515") else { return };
    assert!(code == Some(1) && text.contains("--size is 64 to 1514 on packet:v0"), "{text}");
    let (code, text) = inside(CABLE, "bench packet:v0").unwrap();
    assert!(code == Some(1) && text.contains("no echo answers on packet:v0; start one"), "{text}");
    let (code, text) = inside(CABLE, "echo packet:v0 --seconds 0.1").unwrap();
    assert!(code == Some(0) && text.contains("packet:v0: 0 frames answered"), "{text}");
    let (code, text) = told(Command::new(NIC).args(["echo", "eth0"]).output().unwrap());
    assert!(
        code == Some(2) && text.contains("packet:IF, xdp:IF, tap:IF, memif:PATH or pci:ADDRESS"),
        "{text}"
    );
}

/// Both ends in one process: the echo connects to the bench.
#[test]
fn a_bench_measures_a_memif_without_a_switch() {
    let folder = ScratchFolder::new("nic-memif");
    let socket = format!("memif:{}", folder.path().join("sock").display());
    let line =
        ["bench", &format!("{socket},server"), &socket, "--rounds", "100", "--seconds", "0.2", "--json"];
    let (code, text) = told(Command::new(NIC).args(line).output().unwrap());
    assert_eq!(code, Some(0), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["rounds"].as_u64() > Some(50) && json["frames_per_second"].as_f64() > Some(10.0), "{text}");
    let (code, text) = told(Command::new(NIC).args(["bench", &socket]).output().unwrap());
    assert!(code == Some(1) && text.contains("no memif server is at "), "{text}");
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for dpdk-testpmd"]
fn memif_frames_go_through_testpmd() {
    let folder = ScratchFolder::new("nic-testpmd");
    let socket = folder.path().join("sock");
    let card = |words| format!("memif:{}{words}", socket.display());
    for size in ["64", "1514"] {
        let _switch = Testpmd::start(&socket);
        let line = ["bench", &card(",id=0"), &card(",id=1"), "--size", size, "--rounds", "200"];
        let rest = ["--seconds", "0.3", "--json"];
        let (code, text) = told(Command::new(NIC).args(line).args(rest).output().unwrap());
        assert_eq!(code, Some(0), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(
            json["rounds"].as_u64() > Some(100) && json["frames_per_second"].as_f64() > Some(10.0),
            "{text}"
        );
    }
    // One that is not there, and one that another has.
    let _switch = Testpmd::start(&socket);
    let (code, text) = told(Command::new(NIC).args(["echo", &card(",id=9")]).output().unwrap());
    assert!(code == Some(1) && text.contains("the peer refuses: ID not found"), "{text}");
    // Of two that want the same one, whichever comes first has it.
    let echo = || {
        let mut command = Command::new(NIC);
        command.args(["echo", &card(",id=0"), "--seconds", "60"]).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut both = [echo(), echo()];
    let second = loop {
        let ended = both.iter_mut().position(|echo| echo.try_wait().unwrap().is_some());
        match ended {
            Some(second) => break second,
            None => std::thread::yield_now(),
        }
    };
    let [one, other] = both;
    let (second, mut first) = if second == 0 { (one, other) } else { (other, one) };
    let (code, text) = told(second.wait_with_output().unwrap());
    assert!(code == Some(1) && text.contains("the peer refuses: Already connected"), "{text}");
    assert!(text.contains("id=%r"), "{text}");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
#[ignore = "`cargo xtask test --step cards` runs it, which asks for root"]
fn xdp_frames_go_over_a_cable() {
    let inside = |line: &str| {
        let command = NetworkOwner::Root.command(CABLE, NIC);
        told(command.unwrap().args(line.split_whitespace()).output().unwrap())
    };
    let (code, text) = inside("list");
    let line = text.lines().find(|line| line.starts_with("xdp:v0 ")).unwrap_or_default();
    assert!(code == Some(0) && line.ends_with("yes"), "{text}");
    for cards in ["xdp:v0 xdp:v1", "xdp:v0 packet:v1", "packet:v0 xdp:v1,generic"] {
        let (code, text) = inside(&format!("bench {cards} --size 1514 --rounds 200 --seconds 0.2 --json"));
        assert_eq!(code, Some(0), "{cards}: {text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rate = json["frames_per_second"].as_f64();
        assert!(json["rounds"].as_u64() > Some(100) && rate > Some(10.0), "{cards}: {text}");
    }
    let (code, text) = inside("bench xdp:v0 xdp:v1 --rounds 50 --seconds 0.1");
    assert!(code == Some(0) && text.contains("xdp:v0 (native, copied) to "), "{text}");
    let (code, text) = inside("bench xdp:v0 xdp:v0");
    assert!(code == Some(1) && text.contains("v0 has an XDP program already"), "{text}");
}
