//! A message and its answer: by `ibv_rc_pingpong`, which comes with the verbs library and shows what the stack itself needs,
//! and by two ranks under `aldis-run`.

use core::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::console::Ran;
use super::guest::{DEVICE, GID_INDEX, address};
use super::session::Session;
use super::transport;
use crate::table::Table;

/// Sizes of messages, and how many there are of each.
const SIZES: [(u32, u32); 3] = [(8, 1000), (4096, 500), (32768, 100)];

/// What shows what the stack needs.
const BASE: &str = "ibv_rc_pingpong";

/// Where the two sides are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Two processes of one guest.
    OneGuest,
    /// A process in each of two guests.
    TwoGuests,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Figure {
    program: &'static str,
    place: Place,
    bytes: u32,
    /// Half of a round trip.
    half_us: f64,
    /// Both directions together, as the program counts.
    mbit_per_second: f64,
}

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Self::OneGuest => "one guest",
            Self::TwoGuests => "two guests",
        }
    }

    /// The guests' commands: one for each size.
    fn commands(self) -> Vec<Vec<String>> {
        let pingpong = |(bytes, count)| {
            // It sleeps while it waits: on one processor who polls keeps the driver from running, until the next tick of the clock.
            format!("{BASE} -d {DEVICE} -g {GID_INDEX} -e -s {bytes} -n {count}")
        };
        let server = address(0);
        match self {
            Self::OneGuest => {
                let both = |size| {
                    let one = pingpong(size);
                    format!("{one} > /tmp/server & retry {one} {server} && wait $!")
                };
                vec![SIZES.map(both).into()]
            }
            Self::TwoGuests => {
                let client = |size| format!("retry {} {server}", pingpong(size));
                vec![SIZES.map(pingpong).into(), SIZES.map(client).into()]
            }
        }
    }

    /// Measures all sizes.
    pub(super) fn measure(self, limit: Duration, loud: bool) -> Result<Vec<Figure>> {
        let session = Session { programs: Vec::new(), commands: self.commands(), limit, loud };
        let guests = session.play().with_context(|| format!("ibv_rc_pingpong in {}", self.name()))?;
        // Both sides tell the same; the last guest's is the client.
        let ran = guests.last().map_or(&[][..], Vec::as_slice);
        SIZES.iter().zip(ran).map(|((bytes, _), ran)| self.figure(*bytes, ran)).collect()
    }

    fn figure(self, bytes: u32, ran: &Ran) -> Result<Figure> {
        let round_us = number(ran, "usec/iter").with_context(|| unclear(ran))?;
        let mbit_per_second = number(ran, "Mbit/sec").with_context(|| unclear(ran))?;
        Ok(Figure { program: BASE, place: self, bytes, half_us: round_us / 2.0, mbit_per_second })
    }
}

/// Measures two ranks in one guest, at the same sizes.
pub(super) fn measure_ranks(limit: Duration, loud: bool) -> Result<Vec<Figure>> {
    let programs = transport::build_pingpong()?;
    let most = SIZES.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let command = format!(
        "aldis-run -n 2 --transport verbs --output plain --timeout {} pingpong --json --millis 500 --max-bytes {most}",
        limit.as_secs()
    );
    let session = Session { programs, commands: vec![vec![command]], limit, loud };
    let guests = session.play().context("two ranks over verbs in one guest")?;
    let ran = guests.first().and_then(|ran| ran.first()).context("nothing was run")?;
    SIZES.iter().map(|(bytes, _)| rank_figure(*bytes, ran)).collect()
}

/// The line of a size: one JSON object each.
fn rank_figure(bytes: u32, ran: &Ran) -> Result<Figure> {
    let objects = ran.lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let object = objects.into_iter().find(|object| object["bytes"] == bytes);
    let half_ns = object.and_then(|object| object["p50_ns"].as_f64());
    let half_us = half_ns.with_context(|| format!("no figure for {bytes} bytes:\n{}", ran.text()))? / 1e3;
    let mbit_per_second = f64::from(8 * bytes) / half_us;
    Ok(Figure { program: "aldis", place: Place::OneGuest, bytes, half_us, mbit_per_second })
}

/// The number in front of a unit.
fn number(ran: &Ran, unit: &str) -> Option<f64> {
    let line = ran.lines.iter().rev().find_map(|line| line.trim_end().strip_suffix(unit))?;
    line.split_whitespace().last()?.parse().ok()
}

fn unclear(ran: &Ran) -> String {
    format!("ibv_rc_pingpong did not tell its figures:\n{}", ran.text())
}

/// The figures for people.
pub(super) fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["program", "place", "bytes", "half round trip us", "Mbit/s"]);
    for Figure { program, place, bytes, half_us, mbit_per_second } in figures {
        table.row([
            (*program).into(),
            place.name().into(),
            bytes.to_string(),
            format!("{half_us:.1}"),
            format!("{mbit_per_second:.1}"),
        ]);
    }
    table
}

/// A figure for programs.
pub(super) fn json(figure: &Figure) -> Value {
    let Figure { program, place, bytes, half_us, mbit_per_second } = figure;
    json!({
        "program": program,
        "place": place.name(),
        "bytes": bytes,
        "half_round_trip_us": half_us,
        "mbit_per_second": mbit_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Ran {
        Ran { lines: text.lines().map(Into::into).collect(), code: Some(0) }
    }

    #[test]
    fn figures_are_read() {
        let ran = ran("  local address:  LID 0x0000, QPN 0x000012, PSN 0xa1, GID ::ffff:10.0.0.1\n\
                       16000 bytes in 0.20 seconds = 0.64 Mbit/sec\n1000 iters in 0.20 seconds = 199.50 usec/iter");
        let figure = Place::TwoGuests.figure(8, &ran).unwrap();
        assert_eq!((figure.half_us, figure.mbit_per_second), (99.75, 0.64));
        assert_eq!(json(&figure)["half_round_trip_us"], 99.75);
        assert!(table(&[figure]).to_string().contains("ibv_rc_pingpong  two guests      8"));
    }

    #[test]
    fn figures_of_ranks_are_read() {
        let ran =
            ran("[launcher] x\n{\"bytes\": 8, \"p50_ns\": 64000.0}\n{\"bytes\": 4096, \"p50_ns\": 1.0}");
        let figure = rank_figure(8, &ran).unwrap();
        assert_eq!((figure.half_us, figure.mbit_per_second), (64.0, 1.0));
        assert!(rank_figure(9, &ran).unwrap_err().to_string().contains("no figure for 9 bytes"));
    }

    #[test]
    fn what_tells_no_figures_is_shown() {
        let error = Place::OneGuest.figure(8, &ran("Couldn't connect to 10.0.0.1:18515")).unwrap_err();
        assert!(error.to_string().contains("Couldn't connect"), "{error}");
    }

    #[test]
    fn one_guest_runs_both_sides_and_two_run_one_each() {
        let one = Place::OneGuest.commands();
        assert!(one.len() == 1 && one[0][0].contains("-e -s 8 -n 1000 > /tmp/server & retry "), "{one:?}");
        let two = Place::TwoGuests.commands();
        assert_eq!(two[1][0], format!("retry {} 10.0.0.1", two[0][0]));
    }
}
