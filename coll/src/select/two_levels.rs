//! The choice of an algorithm in two levels, where the ranks of nodes are known.

use aldis_kernel::hal::Cause;

use super::{Call, Options, Prices, Selected};
use crate::algorithms::hierarchy::algorithm;
use crate::schedule::Work;

impl Call {
    /// Selects two levels, if these options know how many ranks a node has and it is cheaper than
    /// what is `selected`: near messages have their price, far ones that of [`Options::far`].
    pub(crate) fn select_in_two_levels(
        &self,
        selected: Result<Selected, Cause>,
        near: &Options,
    ) -> Result<Selected, Cause> {
        let Options { node, prices, far, .. } = *near;
        let Some(two_level) = algorithm(self.operation).filter(|_| (1..self.size).contains(&node)) else {
            return selected;
        };
        let Ok(plan) = self.plan(two_level) else { return selected };
        let plan = plan.with_node(node);
        let ns = |count: usize| {
            let [within, between] = two_level.work(self.size, node, count);
            let of = |prices: &Prices, work: &Work| prices.of(work, self.element_bytes);
            of(&prices, &within).saturating_add(of(&far, &between))
        };
        let others = plan.segments(self.count) - 1;
        let last = self.count.saturating_sub(others.saturating_mul(plan.segment));
        let ns = ns(plan.segment).saturating_mul(others as u64).saturating_add(ns(last));
        match selected {
            Ok(flat) if flat.ns <= ns => Ok(flat),
            _ => Ok(Selected { plan, ns }),
        }
    }
}

#[cfg(test)]
mod tests {
    use aldis_kernel::hal::Operation;

    use super::*;
    use crate::algorithms::algorithms;
    use crate::algorithms::hierarchy::NAME;
    use crate::op::Max;

    #[test]
    fn far_messages_are_saved_where_nodes_are_known() {
        let far = Prices::SOCKET;
        let alltoall = Call { operation: Operation::Alltoall, scratch: 1280, ..Call::bcast::<u64>(64, 10) };
        let allreduce = Call::allreduce::<Max, u64>(64, 10, 10);
        for call in [Call::barrier(64), Call::bcast::<u64>(64, 100), allreduce, alltoall] {
            let flat =
                call.select(algorithms(call.operation), &Options { prices: far, ..Options::default() });
            let selected =
                |node| call.select_in_two_levels(flat, &Options { node, far, ..Options::default() }).unwrap();
            for node in [0, 1, 64, 65] {
                assert_eq!(selected(node).ns, flat.unwrap().ns, "{} {node}", call.operation);
            }
            assert!(selected(16).ns < flat.unwrap().ns, "{}", call.operation);
            assert_eq!(selected(16).plan.algorithm.name(), NAME);
        }
    }
}
