//! Algorithms for two groups: what a group has is sent to the other group, for every pair of sizes.

use aldis_coll::inter::{self, algorithms};
use aldis_coll::schedule::{Candidate, Instance, Schedule, log2_ceil};
use aldis_kernel::hal::Operation;

use crate::model::{Job, JobShape, ScheduleFault, UNDEFINED, Value};
use crate::{check, check_prices};

/// The operations without a root, and of them those that move blocks.
const OF_BOTH: [Operation; 4] =
    [Operation::Allreduce, Operation::Allgather, Operation::Alltoall, Operation::ReduceScatterBlock];

/// All that are for two groups alone.
pub(crate) fn crossing() -> impl Iterator<Item = Candidate> {
    let all = [Operation::Reduce].into_iter().chain(OF_BOTH).flat_map(algorithms);
    all.copied().filter(|known| known.crosses())
}

/// A rank of a schedule. One that crosses is cut at `root`, and has its root there, if it has any.
pub(crate) fn instance(schedule: &dyn Schedule, rank: u32, shape: JobShape) -> Instance {
    let JobShape { size, root, count } = shape;
    let of = |root| Instance::new(rank, size, root, count).unwrap();
    match (schedule.crosses(), schedule.operation()) {
        (false, _) => of(root),
        (true, Operation::Reduce) => of(root).with_cut(root),
        (true, _) => of(0).with_cut(root),
    }
}

/// The size that capacity and work are asked for.
pub(crate) fn nominal(schedule: &dyn Schedule, size: u32, root: u32) -> u32 {
    let of_both = schedule.crosses() && schedule.operation() != Operation::Reduce;
    if of_both { 2 * root.max(size - root) } else { size }
}

/// Data and input that a rank of a schedule that crosses starts with, where these are blocks.
pub(crate) fn initial(schedule: &dyn Schedule, instance: &Instance) -> (Vec<Value>, Vec<Value>) {
    let (count, [_, others]) = (instance.count(), instance.groups());
    let first = instance.rank() as usize * count;
    let all = others.len() * count;
    let given = match schedule.operation() {
        Operation::Allgather => first..first + count,
        _ => first * instance.size() as usize..first * instance.size() as usize + all,
    };
    let got = if schedule.operation() == Operation::ReduceScatterBlock { count } else { all };
    (vec![UNDEFINED; got], given.collect())
}

impl Job<'_> {
    /// Every rank ends with what the operation says.
    pub(crate) fn check_crossing(&self) -> Result<(), ScheduleFault> {
        match self.schedule.operation() {
            Operation::Reduce => self.check_operands(self.root, 0..self.root),
            Operation::Allreduce => self.check_crossing_allreduce(),
            Operation::ReduceScatterBlock => self.check_crossing_reduce_scatter(),
            _ => self.check_crossing_blocks(),
        }
    }

    fn check_crossing_allreduce(&self) -> Result<(), ScheduleFault> {
        for state in &self.ranks {
            let [own, others] = state.instance.groups();
            let first = &self.ranks[own.start as usize].data;
            if let Some(element) = (0..self.count).find(|&at| state.data[at] != first[at]) {
                return Err(ScheduleFault::Wrong { rank: state.instance.rank(), element });
            }
            self.check_operands(own.start, others)?;
        }
        Ok(())
    }

    /// Every rank has an expression for each element in which what each rank of the other group has
    /// for it stands once.
    fn check_crossing_reduce_scatter(&self) -> Result<(), ScheduleFault> {
        let all = self.size as usize * self.count;
        for state in &self.ranks {
            let ([own, others], rank) = (state.instance.groups(), state.instance.rank());
            let before = (rank - own.start) as usize * self.count;
            for element in 0..self.count {
                let given = others.clone().map(|other| other as usize * all + before + element);
                self.check_element_of(rank, element, given)?;
            }
        }
        Ok(())
    }

    fn check_crossing_blocks(&self) -> Result<(), ScheduleFault> {
        for state in &self.ranks {
            let ([own, others], rank) = (state.instance.groups(), state.instance.rank());
            for (element, &value) in state.data.iter().enumerate() {
                let from = others.start as usize + element / self.count;
                let expected = match self.schedule.operation() {
                    Operation::Allgather => from * self.count,
                    _ => (from * self.size as usize + (rank - own.start) as usize) * self.count,
                };
                if value != expected + element % self.count {
                    return Err(ScheduleFault::Wrong { rank, element });
                }
            }
        }
        Ok(())
    }
}

fn check_pair(operation: Operation, first: u32, second: u32) {
    for &schedule in algorithms(operation).iter().filter(|known| known.crosses()) {
        for count in [0, 1, 3] {
            let case = format!("{} {operation} {first} + {second} count {count}", schedule.name());
            let job = check(schedule, first + second, first, count)
                .unwrap_or_else(|fault| panic!("{case}: {fault:?}"));
            let size = nominal(schedule, first + second, first);
            if size == first + second {
                check_prices(&job, schedule, size, &case);
                continue;
            }
            let all = |work: aldis_coll::schedule::Work| {
                [work.rounds, work.fan, work.elements, work.reduced, work.copied]
            };
            let (seen, price) = (all(job.work()), all(schedule.work(size, count)));
            assert!(seen.iter().zip(price).all(|(seen, price)| *seen <= price), "{case}: {seen:?} {price:?}");
        }
    }
}

#[test]
fn every_pair_of_groups_up_to_16() {
    for (first, second) in (1..=16).flat_map(|first| (1..=16).map(move |second| (first, second))) {
        OF_BOTH.into_iter().for_each(|operation| check_pair(operation, first, second));
    }
    (1..=64).for_each(|group| check_pair(Operation::Reduce, group, 1));
}

#[test]
fn sampled_pairs_of_larger_groups() {
    for (first, second) in [(1, 64), (64, 1), (17, 64), (33, 32), (64, 64), (65, 3), (100, 27), (2, 129)] {
        OF_BOTH.into_iter().for_each(|operation| check_pair(operation, first, second));
    }
    [255, 1000, 4095].into_iter().for_each(|group| check_pair(Operation::Reduce, group, 1));
}

/// A group that the other is not: no rank's data come back.
#[test]
fn every_operation_has_algorithms_for_two_groups() {
    use Operation::{Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Barrier, Bcast};
    use Operation::{Alltoallw, Exscan, Gather, Gatherv, Reduce, Scan, Scatter, Scatterv};
    let has = [Barrier, Bcast, Gather, Gatherv, Scatter, Scatterv, Reduce, Allreduce];
    let of_both = [Allgather, Allgatherv, Alltoall, Alltoallv, Alltoallw];
    let scattering = [Operation::ReduceScatter, Operation::ReduceScatterBlock];
    for operation in has.into_iter().chain(of_both).chain(scattering) {
        assert!(!algorithms(operation).is_empty(), "{operation}");
    }
    // MPI has none either.
    assert!(algorithms(Scan).is_empty() && algorithms(Exscan).is_empty());
}

/// The published figures, for groups of p and q ranks.
mod formula {
    use super::{Schedule, check, inter, log2_ceil};

    fn pairs() -> impl Iterator<Item = (u32, u32)> {
        (1..=16).flat_map(|p| (1..=16).map(move |q| (p, q)))
    }

    /// MPICH: a reduction along a tree and one message; Open MPI's linear one: p messages, one a
    /// round.
    #[test]
    fn reductions() {
        for p in 1..=64u64 {
            let size = p as u32 + 1;
            let rounds = [1 + (p as f64).log2().ceil() as usize, p as usize];
            let both: [&dyn Schedule; 2] = [&inter::reduce::LocalReduceRemoteSend, &inter::reduce::Linear];
            for (schedule, rounds) in both.into_iter().zip(rounds) {
                let job = check(schedule, size, size - 1, 10).unwrap();
                assert_eq!((job.rounds.len(), job.total.messages), (rounds, p), "{}", schedule.name());
                assert_eq!(job.total.elements, 10 * p);
            }
        }
    }

    /// MPICH: two reductions, one exchange, two broadcasts, along trees: 2 (p - 1) + 2 (q - 1) + 2
    /// messages of n elements.
    #[test]
    fn all_reductions() {
        for (p, q) in pairs() {
            let job = check(&inter::allreduce::ReduceExchangeBcast, p + q, p, 10).unwrap();
            let messages = u64::from(2 * (p - 1) + 2 * (q - 1) + 2);
            assert_eq!(job.rounds.len() as u32, 1 + 2 * log2_ceil(p.max(q)));
            assert_eq!((job.total.messages, job.total.elements), (messages, 10 * messages));
        }
    }

    /// MPICH's three ways of an allgather, in elements of n a block: straight, 2 p q n; to one rank
    /// and from there along a tree, (p + q) n + (p - 1) q n + (q - 1) p n; and gathered along a
    /// tree before, which takes the sum over all merged groups.
    #[test]
    fn allgathers() {
        for (p, q) in pairs() {
            let (a, b, n) = (u64::from(p), u64::from(q), 10);
            let told = ((a - 1) * b + (b - 1) * a) * n;
            let job = check(&inter::allgather::RemoteGatherLocalBcast, p + q, p, 10).unwrap();
            assert_eq!(job.rounds.len() as u32, p.max(q).div_ceil(7) + log2_ceil(p.max(q)));
            assert_eq!(job.total.messages, (a + b) + (a - 1) + (b - 1));
            assert_eq!(job.total.elements, (a + b) * n + told);
            let job = check(&inter::allgather::LocalGatherRemoteBcast, p + q, p, 10).unwrap();
            // In round k the upper one of each pair of groups of 2^k passes all it has.
            let gathered = |p: u32| -> u64 {
                let upper = |bits: u32| (0..p).filter(move |rank| rank >> bits & 1 == 1).count() as u64;
                (0..log2_ceil(p)).map(upper).sum()
            };
            assert_eq!(job.rounds.len() as u32, 1 + 2 * log2_ceil(p.max(q)));
            assert_eq!(job.total.messages, 2 * (a - 1) + 2 * (b - 1) + 2);
            assert_eq!(job.total.elements, (gathered(p) + gathered(q) + a + b) * n + told);
            let job = check(&inter::allgather::PairwiseExchange, p + q, p, 10).unwrap();
            assert_eq!(job.rounds.len() as u32, p.max(q).div_ceil(4));
            assert_eq!((job.total.messages, job.total.elements), (2 * a * b, 2 * a * b * n));
        }
    }

    /// MPICH: max(p, q) rounds, in which every rank meets every rank of the other group once; Open
    /// MPI: all at once, here four.
    #[test]
    fn all_to_alls() {
        for (p, q) in pairs() {
            let both: [(&dyn Schedule, u32); 2] =
                [(&inter::alltoall::PairwiseExchange, 1), (&inter::alltoall::Linear, 4)];
            for (schedule, width) in both {
                let job = check(schedule, p + q, p, 10).unwrap();
                let messages = u64::from(2 * p * q);
                assert_eq!(job.rounds.len() as u32, p.max(q).div_ceil(width), "{}", schedule.name());
                assert_eq!((job.total.messages, job.total.elements), (messages, 10 * messages));
            }
        }
    }

    /// To one rank and from there: (p - 1) q n + (q - 1) p n elements along trees, and p + q blocks
    /// of n. Straight: each rank of p sends q blocks and gets as many, and adds up q of them,
    /// max(p, q) rounds; Thakur, Rabenseifner, Gropp 2005, section 4.3.
    #[test]
    fn reductions_that_are_scattered() {
        for (p, q) in pairs() {
            let (a, b, n) = (u64::from(p), u64::from(q), 10);
            let job = check(&inter::reduce_scatter::LocalReduceRemoteScatter, p + q, p, 10).unwrap();
            assert_eq!(job.rounds.len() as u32, log2_ceil(p.max(q)) + p.max(q).div_ceil(7));
            assert_eq!(job.total.messages, (a - 1) + (b - 1) + a + b);
            assert_eq!(job.total.elements, ((a - 1) * b + (b - 1) * a + a + b) * n);
            let job = check(&inter::reduce_scatter::PairwiseExchange, p + q, p, 10).unwrap();
            assert_eq!(job.rounds.len() as u32, p.max(q));
            assert_eq!((job.total.messages, job.total.elements), (2 * a * b, 2 * a * b * n));
            assert_eq!(job.share().reduced, (a.max(b) - 1) * n);
        }
    }
}
