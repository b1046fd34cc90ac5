//! The targets that Aldis is to reach: ratios to the machine's own limit and to the best peer,
//! within one run.

use super::client::ClientRow;
use super::figure::BenchCase;
use super::implementation::{Implementation, Transport};
use super::workload::BenchWorkload;

/// Bounds of a point: at most for times, at least for rates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct PointTarget {
    pub(crate) to_raw: Option<f64>,
    pub(crate) to_best_peer: Option<f64>,
}

impl PointTarget {
    /// The bounds of `which`, one that is Aldis, for a workload at a size.
    pub(crate) fn of(which: Implementation, case: BenchCase) -> Self {
        let BenchCase { workload, transport, ranks, bytes, .. } = case;
        if which == Implementation::Arena {
            let is_aim =
                matches!(workload, BenchWorkload::Bandwidth | BenchWorkload::Consume | BenchWorkload::Loaned)
                    && bytes >= 64 << 10;
            return Self { to_raw: None, to_best_peer: is_aim.then_some(2.0) };
        }
        let (to_raw, to_best_peer) = match (transport, workload) {
            (Transport::Tcp, BenchWorkload::Client(_)) => (None, Some(1.0)),
            (_, BenchWorkload::Client(ClientRow::Pingpong | ClientRow::Window))
                if bytes <= 1024 && ranks == 2 =>
            {
                (None, Some(0.8))
            }
            (_, BenchWorkload::Client(_)) => (None, Some(1.0)),
            (Transport::Tcp, BenchWorkload::Latency) => (Some(1.1), Some(1.0)),
            (Transport::Tcp, BenchWorkload::Bandwidth) => (Some(0.95), Some(1.0)),
            (Transport::Tcp, collective) if collective.is_collective() => (None, Some(1.0)),
            (Transport::Tcp, _) => (None, None),
            (_, BenchWorkload::Latency) if bytes <= 64 => (Some(1.3), Some(0.6)),
            (_, BenchWorkload::Latency) if (1024..=8192).contains(&bytes) => (None, Some(0.7)),
            (_, BenchWorkload::Bandwidth) if bytes >= 64 << 10 => (None, Some(1.2)),
            (_, BenchWorkload::Rate) => (None, Some(2.0)),
            (
                _,
                BenchWorkload::Barrier
                | BenchWorkload::Bcast
                | BenchWorkload::Reduce
                | BenchWorkload::Allreduce,
            ) if ranks == 2 => (None, Some(0.7)),
            (_, collective) if collective.is_collective() => (None, Some(1.0)),
            _ => (None, None),
        };
        Self { to_raw, to_best_peer }
    }

    /// The bounds in words.
    pub(crate) fn spell(self, is_rate: bool) -> String {
        let sign = if is_rate { ">=" } else { "<=" };
        let bound = |of: &str, bound: Option<f64>| bound.map(|bound| format!("{sign} {bound} {of}"));
        let bounds: Vec<_> =
            [bound("raw", self.to_raw), bound("peer", self.to_best_peer)].into_iter().flatten().collect();
        if bounds.is_empty() { "-".into() } else { bounds.join(", ") }
    }

    /// Returns true if the ratios keep to the bounds; `None` where there is nothing to compare.
    pub(crate) fn is_met(
        self,
        is_rate: bool,
        to_raw: Option<f64>,
        to_best_peer: Option<f64>,
    ) -> Option<bool> {
        let keeps = |bound: Option<f64>, ratio: Option<f64>| {
            let (bound, ratio) = (bound?, ratio?);
            Some(if is_rate { ratio >= bound } else { ratio <= bound })
        };
        let both = [keeps(self.to_raw, to_raw), keeps(self.to_best_peer, to_best_peer)];
        both.into_iter().flatten().reduce(|one, other| one && other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::statistics::Placement;

    const fn case(workload: BenchWorkload, bytes: usize) -> BenchCase {
        BenchCase { workload, transport: Transport::Shm, ranks: 2, bytes, placement: Placement::Near }
    }

    #[test]
    fn times_have_ceilings_and_rates_have_floors() {
        let latency = PointTarget::of(Implementation::Native, case(BenchWorkload::Latency, 8));
        assert_eq!(latency.is_met(false, Some(1.29), Some(0.59)), Some(true));
        assert_eq!(latency.is_met(false, Some(1.31), Some(0.59)), Some(false));
        assert_eq!(latency.is_met(false, None, Some(0.61)), Some(false));
        let bandwidth = PointTarget::of(Implementation::Native, case(BenchWorkload::Bandwidth, 1 << 20));
        assert_eq!(bandwidth.is_met(true, Some(0.5), Some(1.3)), Some(true));
        assert_eq!(bandwidth.is_met(true, None, None), None);
        let arena = PointTarget::of(Implementation::Arena, case(BenchWorkload::Bandwidth, 1 << 20));
        assert_eq!(arena.is_met(true, Some(0.5), Some(1.9)), Some(false));
        assert_eq!(PointTarget::default().is_met(false, Some(9.0), Some(9.0)), None);
    }
}
