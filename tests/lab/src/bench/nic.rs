//! `cargo xtask bench nic`: messages over network cards beside raw frames of the same cards.

use core::ops::RangeInclusive;
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::table::Table;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The aims: a message's round trip in those of a raw frame, messages in raw frames, and bytes of
/// long messages in those of the longest raw frames.
const AIMS: [&str; 3] = ["<= 1.3", ">= 0.8", ">= 0.85"];
/// Bytes of a short raw frame, of what stands before a frame's payload, and of a message that is
/// counted.
const SHORT_FRAME: usize = 64;
const MAC_HEADER: usize = 14;
const COUNTED: usize = 64;
const LONG: usize = 64 << 10;
/// The longest MTU of AF_XDP's frames, and the MTUs that a memif may have (docs/cards.md).
const XDP_MTU_MAX: usize = 3826;
const MEMIF_MTUS: RangeInclusive<usize> = 576..=9216;
/// Seconds that the ranks may take.
const LIMIT_S: &str = "60";

/// Measures messages on the reliable link beside raw frames, over the same two cards in one run.
///
/// For each kind of card: round trips, 64-byte messages a second and bandwidth of long messages
/// between two ranks, both ways at once, and what `aldis-nic bench` moves of raw frames between the
/// two ends: frames of 64 bytes, and of the longest that the MTU allows. Without cards it lays a
/// cable between two interfaces in a network of its own, for AF_PACKET and AF_XDP (as root, or with
/// users' namespaces for AF_PACKET alone), and connects two memifs. A kind that cannot have the MTU
/// is left out, which is said. Every message is verified.
#[derive(Args)]
pub(crate) struct NicBench {
    /// Cards of this machine instead: those of rank 0 and rank 1, as `aldis-run --nic` takes them
    #[arg(value_name = "CARD", num_args = 2)]
    cards: Vec<String>,
    /// The MTU of interfaces and memifs
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: usize,
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
}

/// The two ends of a wire.
struct WireEnds {
    name: String,
    cards: [String; 2],
    /// True if they stand in a network of their own.
    is_own: bool,
}

/// A figure of raw frames: a line of `aldis-nic bench --json`, as far as it is used.
#[derive(Deserialize)]
struct RawFigures {
    round_trip_ns: RoundTrips,
    frames_per_second: f64,
    gigabits_per_second: f64,
    lost: u64,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct RoundTrips {
    median: f64,
    mean: f64,
}

/// A line of the measured ranks.
#[derive(Deserialize)]
struct RankFigures {
    bytes: usize,
    round_trip_ns: Option<RoundTrips>,
    messages_per_second: Option<f64>,
    gigabits_per_second: Option<f64>,
}

/// A row: what is compared, of messages and of raw frames, and the ratio.
struct NicRow {
    what: &'static str,
    unit: &'static str,
    message: f64,
    raw: f64,
    aim: &'static str,
}

impl NicBench {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        eprintln!("building aldis-run, aldis-nic and bench_nic in release");
        let mut cargo = workspace::cargo();
        cargo.args([
            "build",
            "--release",
            "--quiet",
            "-p",
            "aldis-run",
            "--bin",
            "aldis-run",
            "--bin",
            "aldis-nic",
        ]);
        shell::run(cargo.args(["-p", "aldis-bench", "--bin", "bench_nic"]))?;
        let mut failed = Vec::new();
        for ends in self.wires(nix::unistd::geteuid().is_root()) {
            eprintln!("{}: {} and {}", ends.name, ends.cards[0], ends.cards[1]);
            let rows = match self.measure(&workspace, &ends) {
                Ok(rows) => rows,
                Err(error) => {
                    eprintln!("{}: {error:#}", ends.name);
                    failed.push(ends.name);
                    continue;
                }
            };
            let mut table = Table::new(["cards", "row", "unit", "messages", "raw frames", "ratio", "aim"]);
            for row in rows {
                let ratio = row.message / row.raw;
                if self.json {
                    let NicRow { what, unit, message, raw, aim } = &row;
                    println!(
                        "{}",
                        json!({ "bench": "nic", "cards": ends.name, "row": what, "unit": unit, "messages": message,
                            "raw": raw, "ratio": ratio, "aim": aim })
                    );
                    continue;
                }
                table.row([
                    ends.name.clone(),
                    row.what.into(),
                    row.unit.into(),
                    format!("{:.2}", row.message),
                    format!("{:.2}", row.raw),
                    format!("{ratio:.2}"),
                    row.aim.into(),
                ]);
            }
            // As they come: what fails later takes nothing away.
            if !self.json {
                println!("{table}");
            }
        }
        ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
        Ok(())
    }

    /// The wires that are measured.
    fn wires(&self, is_root: bool) -> Vec<WireEnds> {
        if let [one, other] = &self.cards[..] {
            let cards = [one.clone(), other.clone()];
            return vec![WireEnds { name: format!("{one}, {other}"), cards, is_own: false }];
        }
        let cable = |kind: &str| WireEnds {
            name: kind.into(),
            cards: [0, 1].map(|end| format!("{kind}:v{end}")),
            is_own: true,
        };
        let socket = std::env::temp_dir().join(format!("aldis-bench-nic-{}.sock", std::process::id()));
        let socket = socket.display();
        let memif = WireEnds {
            name: "memif".into(),
            cards: [",server", ""].map(|end| format!("memif:{socket}{end},mtu={}", self.mtu)),
            is_own: false,
        };
        let mut wires = vec![cable("packet")];
        if !is_root {
            eprintln!("without xdp: its program is root's to load");
        } else if self.mtu > XDP_MTU_MAX {
            eprintln!("without xdp: its frames have an MTU of at most {XDP_MTU_MAX}");
        } else {
            wires.push(cable("xdp"));
        }
        if MEMIF_MTUS.contains(&self.mtu) {
            wires.push(memif);
        } else {
            let (least, most) = (MEMIF_MTUS.start(), MEMIF_MTUS.end());
            eprintln!("without memif: its MTU is {least} to {most}");
        }
        wires
    }

    /// Measures raw frames, then messages, then raw frames again: the better of the two is what the
    /// cards can do.
    fn measure(&self, workspace: &Workspace, ends: &WireEnds) -> Result<[NicRow; 4]> {
        let longest = self.mtu + MAC_HEADER;
        let raw = |size: usize| -> Result<RawFigures> {
            let mut command = self.command(workspace, ends, "aldis-nic");
            command.args(["bench", "--json", "--size", &size.to_string()]).args(&ends.cards);
            let text = shell::output(&mut command)?;
            let figures: RawFigures = serde_json::from_str(text.trim())
                .with_context(|| format!("`{}` said {text:?}", shell::spell(&command)))?;
            if figures.lost > 0 {
                eprintln!("  {} of the raw frames of {size} bytes were lost", figures.lost);
            }
            Ok(figures)
        };
        let (short, long) = (raw(SHORT_FRAME)?, raw(longest)?);
        let figures = self.ranks(workspace, ends)?;
        let (again, long_again) = (raw(SHORT_FRAME)?, raw(longest)?);
        let of = |bytes: usize| {
            figures
                .iter()
                .find(|line| line.bytes == bytes)
                .with_context(|| format!("no figure of {bytes} bytes"))
        };
        let trips = figures.iter().find_map(|line| line.round_trip_ns).context("no round trips")?;
        let (raw_trips, raw_again) = (short.round_trip_ns, again.round_trip_ns);
        let bandwidth = long.gigabits_per_second.max(long_again.gigabits_per_second);
        let us = |ns: f64| ns / 1e3;
        let row = |what, unit, message, raw, aim| NicRow { what, unit, message, raw, aim };
        Ok([
            row(
                "round trip, median",
                "us",
                us(trips.median),
                us(raw_trips.median.min(raw_again.median)),
                AIMS[0],
            ),
            row("round trip, mean", "us", us(trips.mean), us(raw_trips.mean.min(raw_again.mean)), AIMS[0]),
            row(
                "64 bytes each way",
                "k/s",
                of(COUNTED)?.messages_per_second.unwrap_or_default() / 1e3,
                short.frames_per_second.max(again.frames_per_second) / 1e3,
                AIMS[1],
            ),
            row(
                "64 KiB each way",
                "Gbit/s",
                of(LONG)?.gigabits_per_second.unwrap_or_default(),
                bandwidth,
                AIMS[2],
            ),
        ])
    }

    /// Runs the two ranks, and returns their figures.
    fn ranks(&self, workspace: &Workspace, ends: &WireEnds) -> Result<Vec<RankFigures>> {
        let program = workspace.target.join("release/bench_nic");
        let [one, other] = &ends.cards;
        let mut command = self.command(workspace, ends, "aldis-run");
        command.args(["-n", "1", "--transport", "ethernet", "--output", "plain", "--timeout", LIMIT_S]);
        command.args(["--nic", one]).arg(&program).args([":", "-n", "1", "--nic", other]).arg(&program);
        let text = shell::output(&mut command)?;
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("the ranks said {line:?}")))
            .collect()
    }

    /// A program of the workspace, in a network with a cable if the ends are of one.
    fn command(&self, workspace: &Workspace, ends: &WireEnds, program: &str) -> Command {
        let program = workspace.target.join("release").join(program);
        if !ends.is_own {
            return Command::new(program);
        }
        let cable = format!(
            "set -e; ip link set lo up; sysctl -qw net.ipv6.conf.default.disable_ipv6=1 || true; \
             ip link add v0 mtu {mtu} type veth peer name v1 mtu {mtu}; ip link set v0 up; ip link set v1 up; exec \"$@\"",
            mtu = self.mtu
        );
        let mut command = Command::new("unshare");
        let options = if nix::unistd::geteuid().is_root() { "-nm" } else { "-Urnm" };
        command.args([options, "sh", "-c", &cable, "sh"]).arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_has_the_mtu_or_is_left_out() {
        let wires = |mtu, is_root| {
            let wires = NicBench { cards: Vec::new(), mtu, json: false }.wires(is_root);
            wires.iter().map(|ends| ends.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(wires(1500, true), "packet xdp memif");
        assert_eq!(wires(1500, false), "packet memif");
        assert_eq!(wires(XDP_MTU_MAX + 1, true), "packet memif");
        assert_eq!(wires(65_000, true), "packet");
        let bench = NicBench { cards: Vec::new(), mtu: 9000, json: false };
        let wires = bench.wires(true);
        let memif = wires.iter().find(|ends| ends.name == "memif").unwrap();
        assert!(memif.cards.iter().all(|card| card.ends_with(",mtu=9000")), "{:?}", memif.cards);
        let cards = ["packet:a", "packet:b"].map(str::to_owned).to_vec();
        let named = NicBench { cards: cards.clone(), mtu: 65_000, json: false }.wires(true);
        assert!(named.len() == 1 && named.iter().all(|ends| ends.cards[..] == cards));
    }
}
