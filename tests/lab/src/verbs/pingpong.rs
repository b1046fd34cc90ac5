//! A message and its answer: by `ibv_rc_pingpong`, which comes with the verbs library and shows
//! what the stack itself needs, and by two ranks under `aldis-run`.

use core::time::Duration;

use aldis_shell::table::Table;
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::console::Ran;
use super::guest::{DEVICE, GID_INDEX, address};

/// Sizes of messages, and how many there are of each; those that the example `pingpong` has. The
/// base begins its first message before it takes the time: there are enough others.
pub(super) const SIZES: [(u32, u32); 5] =
    [(8, 500), (4096, 200), (32 << 10, 60), (1 << 20, 60), (4 << 20, 40)];
/// Those of the step of each day: an emulator takes most of the time for the longest.
pub(super) const SHORT_SIZES: [(u32, u32); 3] = [SIZES[0], SIZES[1], SIZES[2]];

/// The program that shows what the stack needs.
const BASE: &str = "ibv_rc_pingpong";
/// The name under which the figures of Aldis stand.
const RANKS: &str = "aldis";

/// The place of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SidesPlace {
    /// Two processes of one guest.
    OneGuest,
    /// A process in each of two guests.
    TwoGuests,
}

/// A line of the table.
#[derive(Debug)]
pub(super) struct PingpongLine {
    program: &'static str,
    place: SidesPlace,
    bytes: u32,
    /// Half of a round trip.
    half_us: f64,
}

impl PingpongLine {
    fn mbit_per_second(&self) -> f64 {
        f64::from(self.bytes) * 8.0 / self.half_us
    }
}

impl SidesPlace {
    const fn name(self) -> &'static str {
        match self {
            Self::OneGuest => "one guest",
            Self::TwoGuests => "two guests",
        }
    }
}

/// Returns the command of one side of the base.
fn base(bytes: u32, count: u32) -> String {
    // It sleeps while it waits: on one processor a process that polls keeps the driver from
    // running, until the next tick of the clock.
    format!("{BASE} -d {DEVICE} -g {GID_INDEX} -e -s {bytes} -n {count}")
}

/// Two ranks, where the launcher's further words say.
pub(super) fn ranks(words: &str, sizes: &[(u32, u32)], limit: Duration) -> String {
    let (most, limit) = (sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0), limit.as_secs());
    format!(
        "aldis-run -n 2{words} --transport verbs --output plain --timeout {limit} pingpong --json --millis 200 --max-bytes {most}"
    )
}

/// Returns the commands that one guest runs: the base at each of these sizes, and two ranks at all
/// of them unless it is the `base_alone`.
pub(super) fn in_one_guest(base_alone: bool, sizes: &[(u32, u32)], limit: Duration) -> Vec<String> {
    let server = address(0);
    let both = |(bytes, count): &(u32, u32)| {
        let one = base(*bytes, *count);
        format!("{one} > /tmp/server & retry {one} {server} && wait $!")
    };
    let ranks = (!base_alone).then(|| ranks("", sizes, limit));
    sizes.iter().map(both).chain(ranks).collect()
}

/// Returns the figures from what they have said.
pub(super) fn of_one_guest(sizes: &[(u32, u32)], ran: &[Ran]) -> Result<Vec<PingpongLine>> {
    figures(SidesPlace::OneGuest, sizes, ran, ran.get(sizes.len()))
}

/// Returns the commands that two guests run: the base at each of these sizes, which the last of
/// them begins. A wire takes its time: a quarter as often.
pub(super) fn in_two_guests(sizes: &[(u32, u32)]) -> [Vec<String>; 2] {
    let servers: Vec<String> = sizes.iter().map(|(bytes, count)| base(*bytes, count / 4)).collect();
    let clients = servers.iter().map(|base| format!("retry {base} {}", address(0))).collect();
    [servers, clients]
}

/// Returns the figures from what the base of the last guest has said, and two ranks if there were
/// any.
pub(super) fn of_two_guests(
    sizes: &[(u32, u32)],
    ran: &[Ran],
    ranks: Option<&Ran>,
) -> Result<Vec<PingpongLine>> {
    figures(SidesPlace::TwoGuests, sizes, ran, ranks)
}

fn figures(
    place: SidesPlace,
    sizes: &[(u32, u32)],
    bases: &[Ran],
    ranks: Option<&Ran>,
) -> Result<Vec<PingpongLine>> {
    let figure =
        |program, bytes, half_us: Result<f64>| Ok(PingpongLine { program, place, bytes, half_us: half_us? });
    let bases = sizes.iter().zip(bases).map(|((bytes, _), ran)| figure(BASE, *bytes, base_half_us(ran)));
    let ranks = ranks.into_iter().flat_map(|ran| sizes.iter().map(move |(bytes, _)| (*bytes, ran)));
    bases.chain(ranks.map(|(bytes, ran)| figure(RANKS, bytes, ranks_half_us(bytes, ran)))).collect()
}

fn base_half_us(ran: &Ran) -> Result<f64> {
    Ok(number(ran, "usec/iter").with_context(|| unclear(ran))? / 2.0)
}

/// From the line of a size: one JSON object each.
fn ranks_half_us(bytes: u32, ran: &Ran) -> Result<f64> {
    let objects = ran.lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let object = objects.into_iter().find(|object| object["bytes"] == bytes);
    let half_ns = object.and_then(|object| object["p50_ns"].as_f64());
    Ok(half_ns.with_context(|| format!("no figure for {bytes} bytes:\n{}", ran.text()))? / 1e3)
}

/// The number in front of a unit.
fn number(ran: &Ran, unit: &str) -> Option<f64> {
    let line = ran.lines.iter().rev().find_map(|line| line.trim_end().strip_suffix(unit))?;
    line.split_whitespace().last()?.parse().ok()
}

fn unclear(ran: &Ran) -> String {
    format!("ibv_rc_pingpong did not tell its figures:\n{}", ran.text())
}

/// The figures for people: how they stand to those of the base at the same place.
pub(super) fn table(figures: &[PingpongLine]) -> Table {
    let mut table =
        Table::new(["program", "place", "bytes", "half round trip us", "Mbit/s", "x ibv_rc_pingpong"]);
    for figure in figures {
        let PingpongLine { program, place, bytes, half_us } = figure;
        table.row([
            (*program).into(),
            place.name().into(),
            bytes.to_string(),
            format!("{half_us:.1}"),
            format!("{:.1}", figure.mbit_per_second()),
            ratio(figures, figure).map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    table
}

/// Returns the ratio of half a round trip of 8 bytes of two ranks in one guest to the base's.
pub(super) fn short(figures: &[PingpongLine]) -> Option<f64> {
    let is_it = |figure: &&PingpongLine| {
        (figure.program, figure.place, figure.bytes) == (RANKS, SidesPlace::OneGuest, SIZES[0].0)
    };
    ratio(figures, figures.iter().find(is_it)?)
}

/// The time of a figure as a multiple of the base's.
fn ratio(figures: &[PingpongLine], figure: &PingpongLine) -> Option<f64> {
    let is_base = |other: &&PingpongLine| {
        other.program == BASE && (other.place, other.bytes) == (figure.place, figure.bytes)
    };
    let base = figures.iter().find(is_base)?;
    (figure.program != BASE).then(|| figure.half_us / base.half_us)
}

/// A figure for programs.
pub(super) fn json(figures: &[PingpongLine], figure: &PingpongLine) -> Value {
    let PingpongLine { program, place, bytes, half_us } = figure;
    json!({
        "program": program,
        "place": place.name(),
        "bytes": bytes,
        "half_round_trip_us": half_us,
        "mbit_per_second": figure.mbit_per_second(),
        "ratio": ratio(figures, figure),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Ran {
        Ran { lines: text.lines().map(Into::into).collect(), code: Some(0) }
    }

    /// A guest in which the base has needed so many microseconds a round trip, and the ranks so
    /// many half a one.
    fn guest(us: u32, half: Option<u32>) -> Vec<Ran> {
        let base =
            |_| ran(&format!("  local address:  LID 0x0000\n500 iters in 0.20 seconds = {us}.00 usec/iter"));
        let line = |us| move |(bytes, _)| format!("{{\"bytes\": {bytes}, \"p50_ns\": {us}000.0}}\n");
        let ranks = |us| ran(&format!("[launcher] x\n{}", SIZES.map(line(us)).concat()));
        SIZES.map(base).into_iter().chain(half.map(ranks)).collect()
    }

    #[test]
    fn ranks_are_set_beside_the_base() {
        let figures = of_one_guest(&SIZES, &guest(200, Some(90))).unwrap();
        assert_eq!(figures.len(), 2 * SIZES.len());
        let of_ranks = &figures[SIZES.len()];
        assert_eq!((figures[0].half_us, of_ranks.half_us), (100.0, 90.0));
        assert_eq!(figures[0].mbit_per_second(), 0.64);
        assert_eq!(json(&figures, of_ranks)["ratio"], 0.9);
        assert!(table(&figures).to_string().contains("aldis            one guest        8"));
    }

    #[test]
    fn the_base_may_stand_alone() {
        let figures = of_one_guest(&SIZES, &guest(200, None)).unwrap();
        assert_eq!(figures.len(), SIZES.len());
        assert_eq!(ratio(&figures, &figures[0]), None);
    }

    #[test]
    fn what_tells_no_figures_is_shown() {
        let error = base_half_us(&ran("Couldn't connect to 10.0.0.1:18515")).unwrap_err();
        assert!(error.to_string().contains("Couldn't connect"), "{error}");
        assert!(ranks_half_us(9, &ran("x")).unwrap_err().to_string().contains("no figure for 9 bytes"));
    }

    #[test]
    fn one_guest_runs_both_sides() {
        let one = in_one_guest(true, &SIZES, Duration::from_secs(9));
        assert!(
            one.len() == SIZES.len() && one[0].contains("-e -s 8 -n 500 > /tmp/server & retry "),
            "{one:?}"
        );
        let short = in_one_guest(false, &SHORT_SIZES, Duration::from_secs(9));
        assert!(
            short[SHORT_SIZES.len()].contains("--timeout 9 pingpong --json --millis 200 --max-bytes 32768")
        );
    }
}
