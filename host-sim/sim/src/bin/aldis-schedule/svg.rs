//! The schedule as a space-time diagram: a line a rank, time from left to right as it was
//! simulated, messages aslant.

use core::error::Error;
use core::iter::once;

use aldis_sim::whatif::watch::{Message, ProcessorWork, WorkKind};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::types::RangedCoordf64;
use plotters::element::{EmptyElement, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{Cartesian2d, IntoDrawingArea, SVGBackend};
use plotters::style::{Color, Palette, Palette99, RGBColor, WHITE};

use crate::study::Study;

/// Pixels.
const WIDTH: u32 = 1200;
const RANK_HEIGHT: u32 = 44;
const RANKS_HEIGHT_MAX: u32 = 6000;
const FRAME_HEIGHT: u32 = 120;

/// The most messages that are drawn, and that have their bytes beside them.
const MESSAGES_MAX: usize = 20_000;
const LABELS_MAX: usize = 120;

const LINE: RGBColor = RGBColor(215, 215, 215);
const OVERHEAD: RGBColor = RGBColor(66, 133, 180);
const LOCAL: RGBColor = RGBColor(230, 140, 30);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn Error>>;

/// The picture as SVG. Messages of a round have one colour, sending and receiving is blue and local
/// work orange.
pub(crate) fn draw(study: &Study) -> Result<String, String> {
    let messages = study.trace.messages();
    if messages.len() > MESSAGES_MAX {
        return Err(format!("--svg: {} messages, and {MESSAGES_MAX} are the most", messages.len()));
    }
    let mut svg = String::new();
    chart(&mut svg, study, &messages).map_err(|error| format!("--svg: {error}"))?;
    Ok(svg)
}

fn chart(svg: &mut String, study: &Study, messages: &[Message]) -> Drawn {
    let (run, end) = (&study.run, us(study.outcome.time_ps).max(1e-3));
    let height = FRAME_HEIGHT + (RANK_HEIGHT * run.size).min(RANKS_HEIGHT_MAX);
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let bytes = run.count as u64 * u64::from(run.element_bytes);
    let title = format!("{} {}: {} ranks, {bytes} bytes", study.operation, study.candidate.name(), run.size);
    let root = root.titled(&title, ("sans-serif", 18))?;
    let rank = |height: &f64| {
        let whole = height.fract() == 0.0 && *height <= 0.0;
        if whole { format!("{:.0}", height.abs()) } else { String::new() }
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..end * 1.02, 0.4 - f64::from(run.size)..0.6)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_desc("predicted time, us")
        .y_desc("rank")
        .y_labels(run.size.min(64) as usize + 2)
        .y_label_formatter(&rank)
        .label_style(("sans-serif", 14))
        .draw()?;
    for rank in 0..run.size {
        let line = [(0.0, place(rank)), (end, place(rank))];
        chart.draw_series(once(PathElement::new(line, LINE.stroke_width(1))))?;
    }
    for act in study.trace.acts() {
        bar(&mut chart, act)?;
    }
    for message in messages {
        arrow(&mut chart, message, messages.len() <= LABELS_MAX)?;
    }
    drop(chart);
    root.present()?;
    Ok(())
}

/// Draws what a processor does.
fn bar(chart: &mut Chart<'_, '_>, act: &ProcessorWork) -> Drawn {
    let (colour, half) = if act.what == WorkKind::Works { (LOCAL, 0.16) } else { (OVERHEAD, 0.09) };
    let corners = [(us(act.start_ps), place(act.rank) - half), (us(act.end_ps), place(act.rank) + half)];
    chart.draw_series(once(Rectangle::new(corners, colour.filled())))?;
    Ok(())
}

/// From where its sender is done with it to where its last byte has come, with a head of some
/// pixels.
fn arrow(chart: &mut Chart<'_, '_>, message: &Message, is_labelled: bool) -> Drawn {
    let Message { sent, received } = message;
    let came = match received.what {
        WorkKind::Receives { came_ps, .. } => came_ps,
        WorkKind::Sends { .. } | WorkKind::Works => received.start_ps,
    };
    let (start, end) = ((us(sent.end_ps), place(sent.rank)), (us(came), place(received.rank)));
    let colour = Palette99::pick(sent.round as usize).to_rgba();
    chart.draw_series(once(PathElement::new([start, end], colour.stroke_width(1))))?;
    let (from, to) = (chart.backend_coord(&start), chart.backend_coord(&end));
    let (x, y) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length = x.hypot(y).max(1.0);
    let (along, across) = ((x / length, y / length), (-y / length, x / length));
    let corner = |side: f64| {
        let pixel = |along: f64, across: f64| (-8.0 * along + side * 3.0 * across).round() as i32;
        (pixel(along.0, across.0), pixel(along.1, across.1))
    };
    let head = Polygon::new([(0, 0), corner(1.0), corner(-1.0)], colour.filled());
    chart.draw_series(once(EmptyElement::at(end) + head))?;
    if is_labelled {
        // A third of the way: messages of a round cross in the middle.
        let part = |from: f64, to: f64| from + (to - from) / 3.0;
        let at = (part(start.0, end.0), part(start.1, end.1));
        let label = Text::new(format!("{} B", sent.bytes), at, ("sans-serif", 11));
        chart.draw_series(once(label))?;
    }
    Ok(())
}

fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// Rank 0 is on top.
fn place(rank: u32) -> f64 {
    -f64::from(rank)
}
