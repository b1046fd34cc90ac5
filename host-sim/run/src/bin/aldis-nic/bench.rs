//! Round trips and rates of raw frames.

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use aldis_hal::Nic;
use aldis_hal::nic::{MAC_HEADER_BYTES, Mac};
use serde_json::json;

use crate::cli::BenchOptions;
use crate::echo::{answer, rest, until};
use crate::station::{ALL, BenchFrame, BenchFrameKind, BenchStation, FRAME_BYTES_MIN, WrittenMac};

/// The longest search for an echo.
const SEARCH: Duration = Duration::from_secs(5);
/// The time after which a frame that is not answered is lost.
const LOST: Duration = Duration::from_millis(100);

/// The figures of a card.
struct CardFigures {
    /// Round trips, in ns, in order.
    trips: Vec<u64>,
    lost: u64,
    /// Frames that came back in so many seconds.
    frames: u64,
    seconds: f64,
    /// The way by which frames come, of a card that has several.
    manner: Option<&'static str>,
}

/// Measures.
pub(crate) fn run(options: &BenchOptions, as_json: bool) -> Result<String, Box<dyn Error>> {
    let mut station = BenchStation::open(&options.card)?;
    let longest = station.0.mtu() + MAC_HEADER_BYTES;
    if !(FRAME_BYTES_MIN..=longest).contains(&options.size) {
        return Err(format!("--size is {FRAME_BYTES_MIN} to {longest} on {}", options.card).into());
    }
    let stop = AtomicBool::new(false);
    let (echoed, figures) = thread::scope(|scope| {
        // A card may be the other end of this one, which answers while it is looked for.
        let echo = options.echo.as_ref().map(|card| {
            let stop = &stop;
            scope.spawn(move || BenchStation::open(card).map(|mut echo| answer(&mut echo, until(stop))))
        });
        let measured = find(&mut station).and_then(|peer| Ok((peer, measure(&mut station, peer, options)?)));
        stop.store(true, Ordering::Relaxed);
        (echo.and_then(|echo| echo.join().ok()).transpose(), measured)
    });
    echoed?;
    let (peer, figures) = figures?;
    Ok(figures.tell(options, peer, as_json))
}

/// Finds an echo on the wire.
fn find(station: &mut BenchStation) -> Result<Mac, String> {
    let (start, mut asked, mut idle) = (Instant::now(), None::<Instant>, 0);
    while start.elapsed() < SEARCH {
        if asked.is_none_or(|at| at.elapsed() > LOST) {
            station.send(ALL, BenchFrameKind::Asks, u64::MAX, FRAME_BYTES_MIN);
            asked = Some(Instant::now());
        }
        match station.receive() {
            Some(BenchFrame { kind: BenchFrameKind::Answers, from, .. }) => return Ok(from),
            Some(_) => {}
            None => rest(&mut idle),
        }
    }
    let card = station.0.choice().clone();
    let trouble = station.0.probe().map_or_else(String::new, |trouble| format!(": {trouble}"));
    Err(format!("no echo answers on {card}{trouble}; start one at the other end: aldis-nic echo CARD"))
}

/// Measures round trips one by one, then the rate.
fn measure(station: &mut BenchStation, peer: Mac, options: &BenchOptions) -> Result<CardFigures, String> {
    let manner = station.0.manner();
    let mut figures = CardFigures { trips: Vec::new(), lost: 0, frames: 0, seconds: 0.0, manner };
    for number in 0..u64::from(options.rounds.get()) {
        let start = Instant::now();
        station.send(peer, BenchFrameKind::Asks, number, options.size);
        if awaits(station, number, start) {
            figures.trips.push(start.elapsed().as_nanos() as u64);
        } else {
            figures.lost += 1;
        }
    }
    figures.trips.sort_unstable();
    let window = u64::from(options.window.get());
    let (start, mut idle, mut sent, mut last) = (Instant::now(), 0, 0, Instant::now());
    let first = 1 << 32;
    while start.elapsed() < options.seconds {
        while sent - figures.frames < window
            && station.send(peer, BenchFrameKind::Asks, first + sent, options.size)
        {
            sent += 1;
        }
        match station.receive() {
            Some(BenchFrame { kind: BenchFrameKind::Answers, number, .. }) if number >= first => {
                figures.frames += 1;
                (last, idle) = (Instant::now(), 0);
            }
            Some(_) => {}
            None if last.elapsed() > LOST => {
                figures.lost += sent - figures.frames;
                (sent, last) = (figures.frames, Instant::now());
            }
            None => rest(&mut idle),
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    if figures.trips.is_empty() { Err("nothing comes back".into()) } else { Ok(figures) }
}

/// Waits for the answer to this number; false if it is lost.
fn awaits(station: &mut BenchStation, number: u64, start: Instant) -> bool {
    let mut idle = 0;
    loop {
        match station.receive() {
            Some(frame) if frame.kind == BenchFrameKind::Answers && frame.number == number => return true,
            Some(_) => {}
            None if start.elapsed() > LOST => return false,
            None => rest(&mut idle),
        }
    }
}

impl CardFigures {
    /// A part of the round trips that is no longer than this one, in ns.
    fn percentile(&self, percent: usize) -> u64 {
        let last = self.trips.len().saturating_sub(1);
        self.trips.get(last * percent / 100).copied().unwrap_or_default()
    }

    fn tell(&self, options: &BenchOptions, peer: Mac, as_json: bool) -> String {
        let mean = self.trips.iter().sum::<u64>() / (self.trips.len() as u64).max(1);
        let [low, median, high] = [1, 50, 99].map(|percent| self.percentile(percent));
        let rate = self.frames as f64 / self.seconds;
        let bandwidth = rate * options.size as f64 * 8.0 / 1e9;
        let (card, peer, size) = (options.card.to_string(), WrittenMac(peer).to_string(), options.size);
        if as_json {
            return json!({
                "card": card, "manner": self.manner, "peer": peer, "size": size, "rounds": self.trips.len(), "lost": self.lost,
                "round_trip_ns": {"p1": low, "median": median, "mean": mean, "p99": high},
                "frames_per_second": rate, "gigabits_per_second": bandwidth,
            })
            .to_string();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let manner = self.manner.map_or_else(String::new, |manner| format!(" ({manner})"));
        format!(
            "{card}{manner} to {peer}, frames of {size} bytes\n\
             round trip  median {:.2} us, mean {:.2}, 1 % below {:.2}, 99 % below {:.2}; {} of them\n\
             rate        {rate:.0} frames/s each way, {bandwidth:.3} Gbit/s, {} under way\n\
             lost        {}",
            us(median),
            us(mean),
            us(low),
            us(high),
            self.trips.len(),
            options.window,
            self.lost
        )
    }
}
