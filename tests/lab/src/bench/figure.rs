//! Figures: one line of a result, and how each stands to the raw limit and to the best peer.

use aldis_shell::table::Table;

use serde_json::json;

use super::implementation::{Implementation, Transport};
use super::series::Summary;
use super::workload::BenchWorkload;

/// A case that is measured: a workload at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchCase {
    pub(crate) workload: BenchWorkload,
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    pub(crate) bytes: usize,
}

/// A line of a result.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) workload: BenchWorkload,
    pub(crate) transport: Transport,
    pub(crate) ranks: usize,
    pub(crate) bytes: usize,
    pub(crate) which: Implementation,
    /// At the 5th percentile of the cost, in the workload's unit.
    pub(crate) value: f64,
    pub(crate) median: f64,
    pub(crate) samples: usize,
}

/// The figures of one workload at one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point<'a>(pub(crate) &'a [Figure]);

impl Figure {
    pub(crate) fn new(case: BenchCase, which: Implementation, summary: Summary) -> Self {
        let BenchCase { workload, transport, ranks, bytes } = case;
        let Summary { best, median, samples } = summary;
        let (value, median) = (workload.figure(bytes, best), workload.figure(bytes, median));
        Self { workload, transport, ranks, bytes, which, value, median, samples }
    }

    /// Returns the case that was measured.
    pub(crate) const fn case(&self) -> BenchCase {
        let &Self { workload, transport, ranks, bytes, .. } = self;
        BenchCase { workload, transport, ranks, bytes }
    }

    pub(crate) fn json(&self, point: Point<'_>) -> serde_json::Value {
        json!({
            "bench": self.workload.name(),
            "impl": self.which.name(),
            "transport": self.transport.name(),
            "over": self.which.over(self.transport),
            "ranks": self.ranks,
            "bytes": self.bytes,
            "unit": self.workload.unit().name(),
            "p5": round(self.value),
            "p50": round(self.median),
            "samples": self.samples,
            "to_raw": point.to_raw(self).map(round),
            "to_best_peer": point.to_best_peer(self).map(round),
        })
    }
}

/// More digits than a batch can tell are noise.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl Point<'_> {
    fn of(&self, which: Implementation) -> Option<f64> {
        self.0.iter().find(|figure| figure.which == which).map(|figure| figure.value)
    }

    /// Returns the ratio of a figure to what the machine alone can do.
    pub(crate) fn to_raw(self, figure: &Figure) -> Option<f64> {
        ratio(figure.value, self.of(Implementation::Raw)?)
    }

    /// Returns the ratio of a figure to the best peer's.
    pub(crate) fn to_best_peer(self, figure: &Figure) -> Option<f64> {
        let peers = Implementation::PEERS.into_iter().filter_map(|peer| self.of(peer));
        let best = if figure.workload.unit().is_rate() {
            peers.max_by(f64::total_cmp)
        } else {
            peers.min_by(f64::total_cmp)
        };
        ratio(figure.value, best?)
    }

    /// The figures as a table under what they are of.
    pub(crate) fn table(&self) -> String {
        let Some(first) = self.0.first() else { return String::new() };
        let unit = first.workload.unit();
        let head =
            ["impl", "over", &format!("p5 {}", unit.name()), "p50", "samples", "to raw", "to best peer"];
        let mut table = Table::from_head(head);
        let spell = |ratio: Option<f64>| ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
        for figure in self.0 {
            table.row([
                figure.which.name().into(),
                figure.which.over(figure.transport).into(),
                unit.spell(figure.value),
                unit.spell(figure.median),
                figure.samples.to_string(),
                spell(self.to_raw(figure)),
                spell(self.to_best_peer(figure)),
            ]);
        }
        let Figure { workload, transport, ranks, bytes, .. } = first;
        let (name, title, transport) = (workload.name(), workload.title(), transport.name());
        format!("{name} over {transport}, {ranks} ranks on two cores, {bytes} B: {title}\n{table}")
    }
}

fn ratio(value: f64, to: f64) -> Option<f64> {
    (to > 0.0).then_some(value / to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(which: Implementation, workload: BenchWorkload, value: f64) -> Figure {
        let transport = Transport::Shm;
        Figure { workload, transport, ranks: 2, bytes: 8, which, value, median: value, samples: 1 }
    }

    #[test]
    fn the_best_peer_is_the_fastest() {
        use Implementation::{Aldis, Mpich, OpenMpi, Raw};
        for (workload, best) in [(BenchWorkload::Latency, 0.75), (BenchWorkload::Rate, 0.6)] {
            let figures = [(Raw, 150.0), (Aldis, 300.0), (OpenMpi, 400.0), (Mpich, 500.0)];
            let figures = figures.map(|(which, value)| figure(which, workload, value));
            let point = Point(&figures);
            let [_, aldis, ..] = &figures;
            assert_eq!(point.to_raw(aldis), Some(2.0));
            assert_eq!(point.to_best_peer(aldis), Some(best));
            assert!(point.table().lines().any(|line| line.split_whitespace().take(2).eq(["aldis", "shm"])));
        }
    }

    #[test]
    fn nothing_to_compare_with_is_no_ratio() {
        let alone = [figure(Implementation::Aldis, BenchWorkload::Latency, 1.0)];
        let [aldis] = &alone;
        assert_eq!((Point(&alone).to_raw(aldis), Point(&alone).to_best_peer(aldis)), (None, None));
    }
}
