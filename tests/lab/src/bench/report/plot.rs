//! A workload's figures against message size as SVG, both axes logarithmic, a line for each
//! implementation.

use core::ops::Range;

use anyhow::{Result, anyhow};
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{IntoDrawingArea, IntoLogRange, SVGBackend};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, Palette, Palette99, WHITE};

const SIZE: (u32, u32) = (720, 440);

/// A line of the plot: its name and its points.
pub(crate) type PlotLine = (&'static str, Vec<(f64, f64)>);

/// The plot as SVG; `None` where there are no two sizes to draw a line between.
pub(crate) fn draw(lines: &[PlotLine], title: &str, unit: &str) -> Result<Option<String>> {
    let places = || lines.iter().flat_map(|(_, places)| places);
    let (x, y) = (span(places().map(|place| place.0)), span(places().map(|place| place.1)));
    let mut svg = String::new();
    match (x, y) {
        (Some(x), Some(y)) if lines.iter().any(|(_, places)| places.len() > 1) => {
            // plotters' own error names the backend's error type, which says no more than its text.
            chart(&mut svg, lines, title, PlotAxes { x, y, unit })
                .map_err(|error| anyhow!("drawing {title}: {error}"))?;
            Ok(Some(svg))
        }
        _ => Ok(None),
    }
}

/// From the least to the greatest, with some room; a logarithm has no zero.
fn span(numbers: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let positive = numbers.filter(|&number| number > 0.0);
    let (least, most) =
        positive.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
    (least <= most).then_some(least / 1.3..most * 1.3)
}

/// The axes of the plot: their ends, and the unit of the upright one.
struct PlotAxes<'a> {
    x: Range<f64>,
    y: Range<f64>,
    unit: &'a str,
}

fn chart(
    svg: &mut String,
    lines: &[PlotLine],
    title: &str,
    axes: PlotAxes<'_>,
) -> Result<(), Box<dyn core::error::Error>> {
    let PlotAxes { x, y, unit } = axes;
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(boxed)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(x.log_scale(), y.log_scale())
        .map_err(boxed)?;
    let number = |number: &f64| format!("{number}");
    let mut mesh = chart.configure_mesh();
    mesh.axis_desc_style(("sans-serif", 15)).x_desc("bytes").y_desc(unit).light_line_style(WHITE.mix(0.0));
    mesh.x_label_formatter(&number).y_label_formatter(&number).label_style(("sans-serif", 15));
    mesh.draw().map_err(boxed)?;
    for ((name, places), index) in lines.iter().zip(0..) {
        let colour = Palette99::pick(index).to_rgba();
        let style = colour.stroke_width(2);
        let places = || places.iter().copied().filter(|place| place.0 > 0.0 && place.1 > 0.0);
        let line = chart.draw_series(LineSeries::new(places(), style)).map_err(boxed)?;
        line.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(places().map(|place| Circle::new(place, 3, colour.filled()))).map_err(boxed)?;
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8)).border_style(BLACK);
    labels.label_font(("sans-serif", 15)).draw().map_err(boxed)?;
    root.present().map_err(boxed)
}

fn boxed(error: impl core::fmt::Display) -> Box<dyn core::error::Error> {
    error.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_two_sizes() {
        let drawn = draw(&[("aldis", vec![(8.0, 200.0), (4096.0, 900.0)])], "latency", "ns").unwrap();
        let svg = drawn.unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("aldis"), "{svg}");
        assert_eq!(draw(&[("aldis", vec![(8.0, 200.0)])], "latency", "ns").unwrap(), None);
        assert_eq!(draw(&[("aldis", vec![(0.0, 0.0), (0.0, 0.0)])], "latency", "ns").unwrap(), None);
    }
}
