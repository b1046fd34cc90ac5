//! The catalogue to choose from: every collective operation and its algorithms, as a table.

use core::fmt;

use aldis_kernel::hal::Operation;

use crate::algorithms::blocks::alltoall::InPlace;
use crate::algorithms::{across, hierarchy, inter};
pub use crate::algorithms::{algorithms, priced};
use crate::schedule::{Candidate, alike};
use crate::select::slots;

/// Every collective operation.
pub const COLLECTIVES: [Operation; 22] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Gather,
    Operation::Gatherv,
    Operation::Scatter,
    Operation::Scatterv,
    Operation::Allgather,
    Operation::Allgatherv,
    Operation::Alltoall,
    Operation::Alltoallv,
    Operation::Alltoallw,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatterBlock,
    Operation::ReduceScatter,
    Operation::Scan,
    Operation::Exscan,
    Operation::NeighborAllgather,
    Operation::NeighborAllgatherv,
    Operation::NeighborAlltoall,
    Operation::NeighborAlltoallv,
    Operation::NeighborAlltoallw,
];

/// The algorithm of the all-to-all in place, which no other call takes.
const IN_PLACE: Candidate = &InPlace;

/// Displays as a table: operation, algorithm by the name that selects it, whether it is over one
/// group, over the two of an intercommunicator or over either, and where it is published.
#[derive(Clone, Copy, Debug, Default)]
pub struct Catalog;

impl fmt::Display for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20} {:<36} {:<6} source", "operation", "algorithm", "groups")?;
        for operation in COLLECTIVES {
            let mut line = |name: &str, groups: &str, source: &str| {
                write!(f, "\n{operation:<20} {name:<36} {groups:<6} {source}")
            };
            let groups = groups(operation);
            algorithms(operation).iter().try_for_each(|known| line(known.name(), groups, known.source()))?;
            hierarchy::algorithm(operation)
                .iter()
                .try_for_each(|known| line(known.name(), "one", known.source()))?;
            across(operation).try_for_each(|known| line(known.name(), "two", known.source()))?;
            if alike(operation) == Operation::Alltoall {
                line(IN_PLACE.name(), "one", IN_PLACE.source())?;
            }
            if slots::serves(operation) {
                line(
                    slots::NAME,
                    "one",
                    "control slots in memory that the ranks of a node share; Open MPI coll/xhc",
                )?;
            }
        }
        Ok(())
    }
}

/// Names the groups that an operation's algorithms for one group are over: one, or any.
fn groups(operation: Operation) -> &'static str {
    let serves_both = inter::algorithms(operation).iter().any(|known| !known.crosses());
    if serves_both { "any" } else { "one" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::string::ToString;

    use super::*;
    use crate::select::Choice;

    #[test]
    fn every_line_names_an_algorithm_that_can_be_selected_and_its_source() {
        let text = Catalog.to_string();
        let mut seen = BTreeSet::new();
        for line in text.lines().skip(1) {
            let mut words = line.split_whitespace();
            let (operation, name) = (words.next().unwrap(), words.next().unwrap());
            assert!(words.next().is_some(), "no source: {line}");
            assert!(seen.insert((operation, name)), "twice: {line}");
            let operation = COLLECTIVES.into_iter().find(|known| known.to_string() == operation).unwrap();
            assert!(name == "in_place" || Choice::named(operation, name).is_ok(), "{line}");
        }
        assert!(COLLECTIVES.iter().all(|operation| seen.iter().any(|(of, _)| *of == operation.to_string())));
        assert_eq!(seen.len(), text.lines().count() - 1);
    }
}
