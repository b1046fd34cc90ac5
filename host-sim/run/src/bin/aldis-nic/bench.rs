//! Round trips and rates of raw frames.

use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
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

/// The number of the first frame of those whose rate is measured.
const RATED: u64 = 1 << 32;
/// Windows of frames that may be sent after one that is not lost.
const OVERTAKEN: usize = 8;

/// Sets the flag when it goes, by a panic too: a thread that waits for it ends.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The frames whose rate is measured that are under way. Each has a number of its own, so that an
/// answer that comes late or twice is told from the first.
struct FrameWindow {
    /// The most of them.
    most: usize,
    /// The number of the first that is not yet done with.
    base: u64,
    /// Of each from there on, true if it has been answered.
    answered: VecDeque<bool>,
    /// Those that have not.
    under_way: usize,
    lost: u64,
}

impl FrameWindow {
    const fn new(most: usize) -> Self {
        Self { most, base: RATED, answered: VecDeque::new(), under_way: 0, lost: 0 }
    }

    /// The number of the next frame; `None` if there are enough under way.
    fn next(&self) -> Option<u64> {
        (self.under_way < self.most).then(|| self.base.saturating_add(self.answered.len() as u64))
    }

    /// Notes that the next frame was sent. Those that too many have overtaken are lost.
    fn sent(&mut self) {
        self.answered.push_back(false);
        self.under_way += 1;
        while self.answered.len() > self.most.saturating_mul(OVERTAKEN) {
            self.drop_first();
        }
    }

    /// Notes an answer; true if it is the first to a frame under way.
    fn is_answer(&mut self, number: u64) -> bool {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let Some(answered) = at.and_then(|at| self.answered.get_mut(at)).filter(|answered| !**answered)
        else {
            return false;
        };
        *answered = true;
        self.under_way = self.under_way.saturating_sub(1);
        while self.answered.front() == Some(&true) {
            self.drop_first();
        }
        true
    }

    /// Gives up those that are under way.
    fn give_up(&mut self) {
        while !self.answered.is_empty() {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(is_answered) = self.answered.pop_front() {
            self.base = self.base.saturating_add(1);
            if !is_answered {
                self.under_way = self.under_way.saturating_sub(1);
                self.lost += 1;
            }
        }
    }
}

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
        let guard = StopOnDrop(&stop);
        let measured = find(&mut station).and_then(|peer| Ok((peer, measure(&mut station, peer, options)?)));
        drop(guard);
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
        if awaits(|| station.receive(), number, start) {
            figures.trips.push(start.elapsed().as_nanos() as u64);
        } else {
            figures.lost += 1;
        }
    }
    figures.trips.sort_unstable();
    let mut window = FrameWindow::new(options.window.get() as usize);
    let (start, mut idle, mut last) = (Instant::now(), 0, Instant::now());
    while start.elapsed() < options.seconds {
        while let Some(number) = window.next() {
            if !station.send(peer, BenchFrameKind::Asks, number, options.size) {
                break;
            }
            window.sent();
        }
        match station.receive() {
            Some(BenchFrame { kind: BenchFrameKind::Answers, number, .. }) if window.is_answer(number) => {
                figures.frames += 1;
                (last, idle) = (Instant::now(), 0);
            }
            _ if last.elapsed() > LOST => {
                window.give_up();
                last = Instant::now();
            }
            Some(_) => {}
            None => rest(&mut idle),
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    figures.lost += window.lost;
    if figures.trips.is_empty() { Err("nothing comes back".into()) } else { Ok(figures) }
}

/// Waits for the answer to this number; false if it is lost, whatever else comes.
fn awaits(mut receive: impl FnMut() -> Option<BenchFrame>, number: u64, start: Instant) -> bool {
    let mut idle = 0;
    loop {
        match receive() {
            Some(frame) if frame.kind == BenchFrameKind::Answers && frame.number == number => return true,
            _ if start.elapsed() > LOST => return false,
            Some(_) => {}
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

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use aldis_kit::scratch::ScratchFolder;

    use super::*;

    #[test]
    fn an_answer_counts_once_and_only_of_a_frame_under_way() {
        let mut window = FrameWindow::new(4);
        let send = |window: &mut FrameWindow| {
            let number = window.next().unwrap();
            window.sent();
            number
        };
        assert_eq!([(); 4].map(|()| send(&mut window)), [0, 1, 2, 3].map(|number| RATED + number));
        assert_eq!(window.next(), None);
        for (number, counts) in [(1, true), (1, false), (0, true), (0, false), (4, false)] {
            assert_eq!(window.is_answer(RATED + number), counts, "{number}");
        }
        assert!(![0, RATED - 1, u64::MAX].into_iter().any(|number| window.is_answer(number)));
        assert_eq!((window.under_way, window.lost), (2, 0));
        // Those that are given up, and their late answers.
        window.give_up();
        assert_eq!((window.under_way, window.lost), (0, 2));
        assert!(!window.is_answer(RATED + 2) && !window.is_answer(RATED + 3));
        // One that is never answered is lost when enough have passed it, and its place is free.
        let never = send(&mut window);
        for _ in 0..4 * OVERTAKEN {
            let number = send(&mut window);
            assert!(window.is_answer(number));
        }
        assert_eq!((never, window.under_way, window.lost), (RATED + 4, 0, 3));
        assert!(window.answered.len() <= 4 * OVERTAKEN);
    }

    /// Two ends of a memif, and the second one's work meanwhile.
    fn beside<T>(
        name: &str,
        work: impl FnOnce(&mut BenchStation, &AtomicBool) + Send,
        measured: impl FnOnce(&mut BenchStation) -> T,
    ) -> T {
        let folder = ScratchFolder::new(name);
        let socket = folder.path().join("sock").display().to_string();
        let mut station = BenchStation::open(&format!("memif:{socket},server").parse().unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let client = format!("memif:{socket}").parse().unwrap();
                work(&mut BenchStation::open(&client).unwrap(), &stop);
            });
            let _stop = StopOnDrop(&stop);
            while station.0.probe().is_some() {
                let _ = station.receive();
            }
            measured(&mut station)
        })
    }

    fn options() -> BenchOptions {
        BenchOptions {
            card: "memif:/measured".parse().unwrap(),
            echo: None,
            size: 64,
            rounds: NonZeroU32::MIN,
            seconds: Duration::from_millis(300),
            window: NonZeroU32::new(8).unwrap(),
        }
    }

    #[test]
    fn an_echo_that_answers_twice_and_what_nobody_asked_spoils_no_figure() {
        let echo = |echo: &mut BenchStation, stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                let Some(frame) = echo.receive() else { continue };
                let twice = [frame.number; 8].into_iter().chain([frame.number | 1 << 40, RATED - 1]);
                for number in twice {
                    let _ = echo.send(frame.from, BenchFrameKind::Answers, number, frame.bytes);
                }
            }
        };
        let figures = beside("twice", echo, |station| {
            let peer = find(station).unwrap();
            measure(station, peer, &options())
        });
        let figures = figures.unwrap();
        assert!(figures.frames > 0 && figures.trips.len() == 1);
        assert!(figures.lost < 1 << 32, "{}", figures.lost);
    }

    #[test]
    fn frames_that_answer_nothing_do_not_hold_up_a_bench() {
        let frame = |kind, number| BenchFrame { kind, from: ALL, number, bytes: 64 };
        let mut seen = 0;
        let others = || {
            seen += 1;
            Some(if seen % 2 == 0 {
                frame(BenchFrameKind::Asks, 3)
            } else {
                frame(BenchFrameKind::Answers, 4)
            })
        };
        assert!(!awaits(others, 3, Instant::now()));
        assert!(seen > 1 && awaits(|| Some(frame(BenchFrameKind::Answers, 3)), 3, Instant::now()));
    }
}
