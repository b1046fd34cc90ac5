//! The points as a plot: time against ranks or bytes, both axes logarithmic, a line for each
//! algorithm.

use core::fmt::Display;
use core::ops::Range;

use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoDrawingArea, IntoLogRange, SVGBackend};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, Palette, Palette99, WHITE};

use crate::study::PredictedPoint;

const SIZE: (u32, u32) = (960, 600);

/// A line of the plot: its name and its points.
type PlotLine = (String, Vec<(f64, f64)>);

/// The plot as SVG.
pub(crate) fn draw(points: &[PredictedPoint], title: &str) -> Result<String, String> {
    let by_ranks = points.iter().any(|point| Some(point.ranks) != points.first().map(|first| first.ranks));
    let lines = lines(points, by_ranks);
    let places = || lines.iter().flat_map(|(_, places)| places);
    let (Some(x), Some(y)) = (span(places().map(|place| place.0)), span(places().map(|place| place.1)))
    else {
        return Err("--svg: there is no point with a size and a time above 0 to draw".into());
    };
    let mut svg = String::new();
    let across = if by_ranks { "ranks" } else { "bytes" };
    chart(&mut svg, &lines, title, PlotAxes { x, y, across })?;
    Ok(svg)
}

/// Points of one algorithm belong together, and of one size where ranks are on the axis.
fn lines(points: &[PredictedPoint], by_ranks: bool) -> Vec<PlotLine> {
    let mut lines: Vec<PlotLine> = Vec::new();
    for point in points {
        let name = match (by_ranks, point.bytes) {
            (true, 1..) => format!("{} {}, {} B", point.operation, point.algorithm, point.bytes),
            _ => format!("{} {}", point.operation, point.algorithm),
        };
        let x = if by_ranks { point.ranks.into() } else { point.bytes as f64 };
        // A logarithm has no zero.
        let Some(us) = point.time_ns.map(|ns| ns / 1e3).filter(|us| *us > 0.0 && x > 0.0) else { continue };
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, places)) => places.push((x, us)),
            None => lines.push((name, vec![(x, us)])),
        }
    }
    lines
}

/// From the least to the greatest, with some room.
fn span(numbers: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (least, most) =
        numbers.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
    (least <= most).then_some(least / 1.3..most * 1.3)
}

/// The axes of the plot: their ends, and what is on the one across.
struct PlotAxes<'a> {
    x: Range<f64>,
    y: Range<f64>,
    across: &'a str,
}

fn chart(svg: &mut String, lines: &[PlotLine], title: &str, axes: PlotAxes<'_>) -> Result<(), String> {
    let PlotAxes { x, y, across } = axes;
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 26))
        .margin(16)
        .x_label_area_size(45)
        .y_label_area_size(75)
        .build_cartesian_2d(x.log_scale(), y.log_scale())
        .map_err(failed)?;
    let number = |number: &f64| format!("{number}");
    let mut mesh = chart.configure_mesh();
    mesh.axis_desc_style(("sans-serif", 18))
        .x_desc(across)
        .y_desc("predicted time, us")
        .light_line_style(WHITE.mix(0.0));
    mesh.x_label_formatter(&number).y_label_formatter(&number).label_style(("sans-serif", 18));
    mesh.draw().map_err(failed)?;
    for ((name, places), index) in lines.iter().zip(0..) {
        let colour = Palette99::pick(index).to_rgba();
        let style = colour.stroke_width(2);
        let line = chart.draw_series(LineSeries::new(places.iter().copied(), style)).map_err(failed)?;
        line.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        let dots = places.iter().map(|place| Circle::new(*place, 3, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8)).border_style(BLACK);
    labels.label_font(("sans-serif", 18)).draw().map_err(failed)?;
    root.present().map_err(failed)
}

fn failed(error: impl Display) -> String {
    format!("--svg: {error}")
}
