//! Figures: one line of a result, and how each stands to the raw limit and to the best peer.

use serde_json::json;

use super::implementation::{Implementation, Transport};
use super::series::Summary;
use super::statistics::Placement;
use super::workload::BenchWorkload;

/// A case that is measured: a workload at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchCase {
    pub(crate) workload: BenchWorkload,
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    pub(crate) bytes: usize,
    pub(crate) placement: Placement,
}

/// A line of a result.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) case: BenchCase,
    pub(crate) which: Implementation,
    /// The best batch's, in the workload's unit.
    pub(crate) value: f64,
    pub(crate) median: f64,
    pub(crate) mean: f64,
    pub(crate) samples: usize,
}

/// The figures of one workload at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a>(pub(crate) &'a [Figure]);

impl Figure {
    pub(crate) fn new(case: BenchCase, which: Implementation, summary: Summary) -> Self {
        let Summary { best, median, mean, samples } = summary;
        let [value, median, mean] = [best, median, mean].map(|cost| case.workload.figure(case.bytes, cost));
        Self { case, which, value, median, mean, samples }
    }

    pub(crate) fn json(&self, point: Point<'_>) -> serde_json::Value {
        let BenchCase { workload, transport, ranks, bytes, placement } = self.case;
        json!({
            "row": workload.row(),
            "impl": self.which.name(),
            "transport": transport.name(),
            "over": self.which.over(transport),
            "ranks": ranks,
            "cores": placement.name(),
            "bytes": bytes,
            "unit": workload.unit().name(),
            "best": round(self.value),
            "median": round(self.median),
            "mean": round(self.mean),
            "samples": self.samples,
            "to_raw": point.to_raw(self).map(round),
            "to_best_peer": point.to_best_peer(self).map(round),
            "median_to_best_peer": point.median_to_best_peer(self).map(round),
        })
    }
}

/// More digits than a batch can tell are noise.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl<'a> Point<'a> {
    pub(crate) fn of(self, which: Implementation) -> Option<&'a Figure> {
        self.0.iter().find(|figure| figure.which == which)
    }

    /// The figures in one line.
    pub(crate) fn line(self) -> String {
        let Some(first) = self.0.first() else { return "nothing was measured".into() };
        let BenchCase { workload, transport, ranks, bytes, placement } = first.case;
        let (row, unit, over, cores) = (workload.row(), workload.unit(), transport.name(), placement.name());
        let mut line = format!("{row} of {bytes} B, {over}, {ranks} ranks, {cores}, {}:", unit.name());
        for figure in self.0 {
            line += &format!(" {} {}", figure.which.name(), unit.spell(figure.value));
        }
        let own = self.0.iter().find(|figure| Implementation::OWN.contains(&figure.which));
        if let Some(ratio) = own.and_then(|own| self.to_best_peer(own)) {
            line += &format!(" ({ratio:.2} of the best peer)");
        }
        line
    }

    /// Returns the ratio of a figure to what the machine alone can do.
    pub(crate) fn to_raw(self, figure: &Figure) -> Option<f64> {
        ratio(figure.value, self.of(Implementation::Raw)?.value)
    }

    /// Returns the ratio of a figure to the best peer's.
    pub(crate) fn to_best_peer(self, figure: &Figure) -> Option<f64> {
        ratio(figure.value, self.best_peer(figure, |peer| peer.value)?)
    }

    /// Returns the ratio of a median to the best peer's.
    pub(crate) fn median_to_best_peer(self, figure: &Figure) -> Option<f64> {
        ratio(figure.median, self.best_peer(figure, |peer| peer.median)?)
    }

    fn best_peer(self, figure: &Figure, of: impl Fn(&Figure) -> f64) -> Option<f64> {
        let peers = Implementation::PEERS.into_iter().filter_map(|peer| self.of(peer)).map(of);
        let is_rate = figure.case.workload.unit().is_rate();
        if is_rate { peers.max_by(f64::total_cmp) } else { peers.min_by(f64::total_cmp) }
    }
}

fn ratio(value: f64, to: f64) -> Option<f64> {
    (to > 0.0).then_some(value / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(which: Implementation, workload: BenchWorkload, value: f64) -> Figure {
        let (transport, placement) = (Transport::Shm, Placement::Near);
        let case = BenchCase { workload, transport, ranks: 2, bytes: 8, placement };
        Figure { case, which, value, median: 2.0 * value, mean: value, samples: 1 }
    }

    #[test]
    fn the_best_peer_is_the_fastest() {
        use Implementation::{Mpich5, Native, OpenMpi5, Raw};
        for (workload, best) in [(BenchWorkload::Latency, 0.75), (BenchWorkload::Rate, 0.6)] {
            let figures = [(Raw, 150.0), (Native, 300.0), (OpenMpi5, 400.0), (Mpich5, 500.0)];
            let figures = figures.map(|(which, value)| figure(which, workload, value));
            let point = Point(&figures);
            let [_, native, ..] = &figures;
            assert_eq!(point.to_raw(native), Some(2.0));
            assert_eq!(
                (point.to_best_peer(native), point.median_to_best_peer(native)),
                (Some(best), Some(best))
            );
            assert_eq!(native.json(point)["to_best_peer"], best);
            assert!(point.line().ends_with(&format!("({best:.2} of the best peer)")), "{}", point.line());
        }
    }

    #[test]
    fn nothing_to_compare_with_is_no_ratio() {
        let alone = [figure(Implementation::Aldis, BenchWorkload::Latency, 1.0)];
        let [aldis] = &alone;
        assert_eq!((Point(&alone).to_raw(aldis), Point(&alone).to_best_peer(aldis)), (None, None));
    }
}
