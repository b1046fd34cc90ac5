//! A run as a picture: a line a rank, virtual time from left to right, messages aslant from sender
//! to receiver.

use core::error::Error;
use core::iter::once;
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::io;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::types::RangedCoordf64;
use plotters::element::{Cross, PathElement};
use plotters::prelude::{Cartesian2d, IntoDrawingArea, SVGBackend};
use plotters::style::{Color, RGBColor, ShapeStyle, WHITE};

use super::record::Record;

/// The part of a run that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Virtual time, ns; all if `None`.
    pub window: Option<Range<u64>>,
    /// Messages, or frames, at most: the picture ends where the next one would begin.
    pub messages_max: usize,
}

impl Default for View {
    /// All of it, up to a thousand messages: a file of some 150 KB.
    fn default() -> Self {
        Self { window: None, messages_max: 1000 }
    }
}

/// Pixels.
const WIDTH: u32 = 1200;
const RANK_HEIGHT: u32 = 36;
const RANKS_HEIGHT_MAX: u32 = 4000;
const FRAME_HEIGHT: u32 = 110;

const LINE: RGBColor = RGBColor(215, 215, 215);
const AWAKE: RGBColor = RGBColor(66, 133, 180);
const PAUSED: RGBColor = RGBColor(150, 150, 150);
const MESSAGE: RGBColor = RGBColor(40, 40, 40);
const LOST: RGBColor = RGBColor(200, 30, 30);
const BOOTED: RGBColor = RGBColor(30, 140, 60);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

type Drawn = Result<(), Box<dyn Error>>;

/// A message from its sending to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flight {
    from: u32,
    to: u32,
    sent: u64,
    end: ArrowEnd,
}

/// The end of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ArrowEnd {
    Taken(u64),
    /// The message was lost, and would have arrived then.
    Lost(u64),
    /// No rank took it.
    Open,
}

/// Draws `records` of a run on `ranks` ranks as SVG under a title of some lines, for which
/// [`SimConfig::replay`] is a good choice.
///
/// A rank's line is thick while it is awake, grey while it stands still, ends in a red cross where
/// it dies, and begins anew at a green bar where it boots again. A message runs from where it was
/// sent to where it was taken; one that was lost, or that no rank took, ends in a red cross.
///
/// [`SimConfig::replay`]: super::SimConfig::replay
///
/// # Errors
/// The window is empty.
pub fn space_time(ranks: u32, records: &[Record], title: &str, view: &View) -> io::Result<String> {
    let end = records.iter().map(instant).max().unwrap_or(0).saturating_add(1);
    let mut window = view.window.clone().unwrap_or(0..end);
    if window.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the window of virtual time is empty"));
    }
    let mut flights = flights(records);
    flights.retain(|flight| flight.sent < window.end && flight.arrival() >= window.start);
    if let Some(first) = flights.get(view.messages_max) {
        window.end = first.sent.max(window.start + 1);
        flights.truncate(view.messages_max);
    }
    let mut svg = String::new();
    Picture { ranks, records, flights, window }
        .draw(&mut svg, title)
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(svg)
}

/// The last moment of a record.
const fn instant(record: &Record) -> u64 {
    match record {
        Record::Turn { end, .. } => *end,
        Record::Sent { at, .. }
        | Record::Taken { at, .. }
        | Record::Pause { at, .. }
        | Record::Crash { at, .. }
        | Record::Boot { at, .. }
        | Record::FrameSent { at, .. }
        | Record::FrameTaken { at, .. }
        | Record::FrameLost { at, .. } => *at,
    }
}

/// All messages, or frames, in the order in which they were sent; one that arrived twice is there
/// twice.
fn flights(records: &[Record]) -> Vec<Flight> {
    let mut flights: Vec<Flight> = Vec::new();
    let mut messages: BTreeMap<(u32, u32), VecDeque<usize>> = BTreeMap::new();
    let mut frames: BTreeMap<u64, usize> = BTreeMap::new();
    for record in records {
        let (sent, end) = match *record {
            Record::Sent { from, to, at, .. } => {
                messages.entry((from, to)).or_default().push_back(flights.len());
                flights.push(Flight { from, to, sent: at, end: ArrowEnd::Open });
                continue;
            }
            Record::FrameSent { frame, from, to, at, .. } => {
                frames.insert(frame, flights.len());
                flights.push(Flight { from, to, sent: at, end: ArrowEnd::Open });
                continue;
            }
            Record::Taken { from, to, at } => {
                (messages.get_mut(&(from, to)).and_then(VecDeque::pop_front), ArrowEnd::Taken(at))
            }
            Record::FrameTaken { frame, at, .. } => (frames.get(&frame).copied(), ArrowEnd::Taken(at)),
            Record::FrameLost { frame, at, .. } => (frames.get(&frame).copied(), ArrowEnd::Lost(at)),
            Record::Turn { .. } | Record::Pause { .. } | Record::Crash { .. } | Record::Boot { .. } => {
                continue;
            }
        };
        let Some(flight) = sent.and_then(|index| flights.get_mut(index)) else { continue };
        let again = Flight { end, ..*flight };
        match flight.end {
            ArrowEnd::Open => flight.end = end,
            ArrowEnd::Taken(_) | ArrowEnd::Lost(_) => flights.push(again),
        }
    }
    flights.sort_by_key(|flight| flight.sent);
    flights
}

/// The part of a run that is drawn.
struct Picture<'a> {
    ranks: u32,
    records: &'a [Record],
    flights: Vec<Flight>,
    window: Range<u64>,
}

impl Picture<'_> {
    fn draw(self, svg: &mut String, title: &str) -> Drawn {
        let Self { ranks, records, flights, window } = self;
        let height = FRAME_HEIGHT + (RANK_HEIGHT * ranks.max(1)).min(RANKS_HEIGHT_MAX);
        let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, ("sans-serif", 16))?;
        let (bottom, top) = (0.3 - f64::from(ranks.max(1)), 0.7);
        let rank = |height: &f64| {
            let whole = height.fract() == 0.0 && *height <= 0.0;
            if whole { format!("{:.0}", height.abs()) } else { String::new() }
        };
        let us = |ns: u64| ns as f64 / 1000.0;
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(30)
            .x_label_area_size(40)
            .y_label_area_size(50)
            .build_cartesian_2d(us(window.start)..us(window.end), bottom..top)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE.mix(0.0))
            .x_desc("virtual time, us")
            .y_desc("rank")
            .y_labels(ranks.min(64) as usize + 2)
            .y_label_formatter(&rank)
            .label_style(("sans-serif", 14))
            .draw()?;
        let mut canvas = Canvas { chart, window };
        for rank in 0..ranks {
            canvas.rank(rank, records)?;
        }
        flights.iter().try_for_each(|flight| canvas.flight(flight))?;
        canvas.marks(records)?;
        drop(canvas);
        root.present()?;
        Ok(())
    }
}

impl Flight {
    /// The time at which it came to its end, or can have come to it at the earliest.
    const fn arrival(&self) -> u64 {
        match self.end {
            ArrowEnd::Taken(at) | ArrowEnd::Lost(at) => at,
            ArrowEnd::Open => self.sent,
        }
    }
}

/// The part of the picture with coordinates: us, and ranks below each other.
struct Canvas<'a, 'b> {
    chart: Chart<'a, 'b>,
    window: Range<u64>,
}

/// A point of the picture: a time in ns, and a height.
#[derive(Clone, Copy)]
struct CanvasPoint(u64, f64);

impl Canvas<'_, '_> {
    /// A line from one point to another, cut at the edges of the window.
    fn line(&mut self, from: CanvasPoint, to: CanvasPoint, style: ShapeStyle) -> Drawn {
        let (start, end) = (self.window.start.max(from.0), self.window.end.min(to.0));
        if start > end {
            return Ok(());
        }
        let at = |ns: u64| {
            let part = (ns - from.0) as f64 / (to.0 - from.0).max(1) as f64;
            (ns as f64 / 1000.0, from.1 + part * (to.1 - from.1))
        };
        self.chart.draw_series(once(PathElement::new([at(start), at(end)], style)))?;
        Ok(())
    }

    fn cross(&mut self, ns: u64, height: f64, size: i32, style: ShapeStyle) -> Drawn {
        if (self.window.start..=self.window.end).contains(&ns) {
            self.chart.draw_series(once(Cross::new((ns as f64 / 1000.0, height), size, style)))?;
        }
        Ok(())
    }

    /// A rank's line: alive, awake, and standing still.
    fn rank(&mut self, rank: u32, records: &[Record]) -> Drawn {
        let height = height(rank);
        for span in alive(rank, records) {
            self.line(CanvasPoint(span.start, height), CanvasPoint(span.end, height), LINE.stroke_width(1))?;
        }
        for record in records {
            if let Record::Pause { node, at, until } = *record
                && node == rank
            {
                self.line(CanvasPoint(at, height), CanvasPoint(until, height), PAUSED.stroke_width(9))?;
            }
        }
        let pixel = (self.window.end - self.window.start) / u64::from(WIDTH);
        for span in awake(rank, records, pixel) {
            self.line(CanvasPoint(span.start, height), CanvasPoint(span.end, height), AWAKE.stroke_width(5))?;
        }
        Ok(())
    }

    fn flight(&mut self, flight: &Flight) -> Drawn {
        let (from, to) = (CanvasPoint(flight.sent, height(flight.from)), height(flight.to));
        match flight.end {
            ArrowEnd::Taken(at) => self.line(from, CanvasPoint(at, to), MESSAGE.stroke_width(1)),
            ArrowEnd::Lost(at) => {
                // It did not get there.
                let (at, place) = (flight.sent.midpoint(at), from.1.midpoint(to));
                self.line(from, CanvasPoint(at, place), LOST.stroke_width(1))?;
                self.cross(at, place, 4, LOST.stroke_width(1))
            }
            ArrowEnd::Open => {
                let place = from.1 + 0.3 * (to - from.1).signum();
                let at = flight.sent + (self.window.end - self.window.start) / 100;
                self.line(from, CanvasPoint(at, place), LOST.stroke_width(1))?;
                self.cross(at, place, 4, LOST.stroke_width(1))
            }
        }
    }

    /// Deaths and boots.
    fn marks(&mut self, records: &[Record]) -> Drawn {
        for record in records {
            match *record {
                Record::Crash { node, at } => self.cross(at, height(node), 9, LOST.stroke_width(3))?,
                Record::Boot { node, at } => {
                    let (high, low) = (height(node) + 0.3, height(node) - 0.3);
                    self.line(CanvasPoint(at, high), CanvasPoint(at, low), BOOTED.stroke_width(3))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Rank 0 is on top.
fn height(rank: u32) -> f64 {
    -f64::from(rank)
}

/// The times during which a rank's node lived.
fn alive(rank: u32, records: &[Record]) -> Vec<Range<u64>> {
    let (mut spans, mut born) = (Vec::new(), Some(0));
    for record in records {
        match *record {
            Record::Crash { node, at } if node == rank => spans.extend(born.take().map(|born| born..at)),
            Record::Boot { node, at } if node == rank => born = Some(at),
            _ => {}
        }
    }
    spans.extend(born.map(|born| born..u64::MAX));
    spans
}

/// The times during which a rank was awake; those nearer than `gap` ns are one.
fn awake(rank: u32, records: &[Record], gap: u64) -> Vec<Range<u64>> {
    let turns = records.iter().filter_map(|record| match *record {
        Record::Turn { node, start, end } if node == rank => Some(start..end.max(start + gap)),
        _ => None,
    });
    let mut turns: Vec<Range<u64>> = turns.collect();
    turns.sort_by_key(|turn| turn.start);
    turns.dedup_by(|next, last| {
        let near = next.start <= last.end + gap;
        if near {
            last.end = last.end.max(next.end);
        }
        near
    });
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        vec![
            Record::Turn { node: 0, start: 0, end: 1_500 },
            Record::Sent { from: 0, to: 1, at: 1_000, bytes: 32 },
            Record::Sent { from: 0, to: 1, at: 1_200, bytes: 32 },
            Record::Taken { from: 0, to: 1, at: 2_500 },
            Record::Turn { node: 0, start: 1_501, end: 1_700 },
            Record::Sent { from: 1, to: 0, at: 2_600, bytes: 8 },
            Record::Pause { node: 1, at: 3_000, until: 9_000 },
            Record::Crash { node: 0, at: 4_000 },
        ]
    }

    #[test]
    fn messages_are_paired_in_order_and_the_unreceived_stay_open() {
        let flight = |from, to, sent, end| Flight { from, to, sent, end };
        let due = [
            flight(0, 1, 1_000, ArrowEnd::Taken(2_500)),
            flight(0, 1, 1_200, ArrowEnd::Open),
            flight(1, 0, 2_600, ArrowEnd::Open),
        ];
        assert_eq!(flights(&records()), due);
    }

    #[test]
    fn frames_are_known_by_number_and_may_end_twice() {
        let records = [
            Record::FrameSent { frame: 7, from: 0, to: 1, at: 10, bytes: 60 },
            Record::FrameSent { frame: 8, from: 0, to: 1, at: 20, bytes: 60 },
            Record::FrameTaken { frame: 8, from: 0, to: 1, at: 30 },
            Record::FrameLost { frame: 7, from: 0, to: 1, at: 40 },
            Record::FrameTaken { frame: 8, from: 0, to: 1, at: 50 },
        ];
        let ends: Vec<(u64, ArrowEnd)> =
            flights(&records).iter().map(|flight| (flight.sent, flight.end)).collect();
        assert_eq!(ends, [(10, ArrowEnd::Lost(40)), (20, ArrowEnd::Taken(30)), (20, ArrowEnd::Taken(50))]);
    }

    #[test]
    fn a_rank_is_awake_without_invisible_gaps_and_alive_until_it_dies() {
        let turns = |gap| awake(0, &records(), gap).iter().map(|it| (it.start, it.end)).collect::<Vec<_>>();
        assert_eq!((turns(10), turns(0)), (vec![(0, 1_700)], vec![(0, 1_500), (1_501, 1_700)]));
        let mut records = records();
        let lives =
            |rank, records: &[Record]| alive(rank, records).iter().map(|it| (it.start, it.end)).collect();
        let (first, other): (Vec<_>, Vec<_>) = (lives(0, &records), lives(1, &records));
        assert_eq!((first, other), (vec![(0, 4_000)], vec![(0, u64::MAX)]));
        records.push(Record::Boot { node: 0, at: 5_000 });
        let first: Vec<_> = lives(0, &records);
        assert_eq!(first, [(0, 4_000), (5_000, u64::MAX)]);
    }

    fn picture(window: Option<Range<u64>>, messages_max: usize) -> String {
        space_time(2, &records(), "the title", &View { window, messages_max }).unwrap()
    }

    #[test]
    fn a_picture_has_everything_in_its_window() {
        let colour = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        let count = |svg: &str, of: RGBColor| svg.matches(&colour(of)).count();
        let all = picture(None, 10);
        assert!(all.starts_with("<svg") && all.contains("the title") && all.contains("virtual time, us"));
        assert!(!all.contains("NaN"));
        // A message is a line; one that no rank took is a line and the two of its cross, a death
        // two more.
        assert_eq!((count(&all, MESSAGE), count(&all, LOST), count(&all, PAUSED)), (1, 3 + 3 + 2, 1));
        let late = picture(Some(2_550..10_000), 10);
        assert_eq!((count(&late, MESSAGE), count(&late, LOST), count(&late, AWAKE)), (0, 3 + 2, 0));
        let one = picture(None, 1);
        assert_eq!((count(&one, MESSAGE), count(&one, LOST)), (1, 0));
    }

    #[test]
    fn an_empty_window_is_refused() {
        let view = View { window: Some(5..5), messages_max: 10 };
        assert!(space_time(2, &records(), "", &view).is_err());
    }
}
