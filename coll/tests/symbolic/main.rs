//! Every schedule, checked on symbolic values: it ends, every message matches, every rank ends with
//! the right expression in the same order of operands, and rounds and bytes are those of the
//! publication.
#![allow(missing_docs)]

mod bits;
mod blocks;
mod halves;
mod hierarchy;
mod inter;
mod lanes;
mod model;
mod mutation;
mod radix;
mod scattered;

use aldis_coll::allreduce::Ring;
use aldis_coll::alltoall::InPlace;
use aldis_coll::catalog::algorithms;
use aldis_coll::schedule::{Buffer, Instance, Priced, Schedule, Span, Step, Work, log2_ceil, on_blocks};
use aldis_kernel::hal::Operation;
use model::{Job, JobShape, ScheduleFault};

const OPERATIONS: [Operation; 11] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Allreduce,
    Operation::Reduce,
    Operation::Scan,
    Operation::Exscan,
    Operation::Gather,
    Operation::Scatter,
    Operation::Allgather,
    Operation::Alltoall,
    Operation::ReduceScatterBlock,
];

/// The least scratch with which `count` elements fit into one segment.
fn scratch_for(schedule: &dyn Schedule, size: u32, count: usize) -> usize {
    let (mut few, mut enough) = (0, count * (2 * size as usize + 2));
    assert!(schedule.capacity(size, enough) >= count, "some scratch is enough");
    while few < enough {
        let half = (few + enough) / 2;
        if schedule.capacity(size, half) >= count { enough = half } else { few = half + 1 }
    }
    enough
}

/// Runs and checks one case, the closed form of its work included.
fn check<'a>(
    schedule: &'a dyn Schedule,
    size: u32,
    root: u32,
    count: usize,
) -> Result<Job<'a>, ScheduleFault> {
    let scratch = scratch_for(schedule, inter::nominal(schedule, size, root), count);
    let job = Job::run(schedule, JobShape { size, root, count }, scratch)?;
    match schedule.operation() {
        _ if schedule.crosses() => job.check_crossing()?,
        Operation::Barrier => job.check_barrier()?,
        Operation::Bcast => job.check_bcast()?,
        Operation::Allreduce => job.check_allreduce()?,
        Operation::Reduce => job.check_reduce()?,
        Operation::Scan => job.check_scan()?,
        Operation::Exscan => job.check_exscan()?,
        Operation::ReduceScatterBlock => {
            job.check_reduce_scatter()?;
            Job::run_in_place(schedule, size, count, scratch)?.check_reduce_scatter()?;
        }
        other if on_blocks(other) => job.check_blocks()?,
        other => panic!("no check for {other}"),
    }
    Ok(job)
}

/// Returns true if the work depends on the root, so that the closed form is of the worst: the last
/// rank.
fn depends_on_root(operation: Operation) -> bool {
    matches!(operation, Operation::Gather | Operation::Scatter)
}

/// The closed forms hold: the work exactly; the share exactly where it is less than that, and never
/// too little.
fn check_prices(job: &Job<'_>, priced: &dyn Priced, size: u32, case: &str) {
    let (work, share) = (priced.work(size, job.count), priced.share(size, job.count));
    let all = |work: &Work| [work.rounds, work.fan, work.elements, work.reduced, work.copied];
    if depends_on_root(priced.operation()) && job.root + 1 != size {
        let seen = job.work();
        assert!(all(&seen).iter().zip(all(&work)).all(|(seen, work)| *seen <= work), "{case}: {seen:?}");
    } else {
        assert_eq!(job.work(), work, "{case}");
    }
    let seen = job.share();
    if share == work {
        assert!(all(&seen).iter().zip(all(&share)).all(|(seen, share)| *seen <= share), "{case}: {seen:?}");
    } else {
        assert_eq!(seen, share, "share, {case}");
    }
}

fn counts(operation: Operation, size: u32) -> Vec<usize> {
    let size = size as usize;
    match operation {
        Operation::Barrier => vec![0],
        Operation::ReduceScatterBlock => vec![0, 1, 3],
        _ if size > 32 => vec![0, 1, size.div_ceil(2), size + 1],
        operation if on_blocks(operation) => vec![0, 1, 3],
        _ => vec![0, 1, size.div_ceil(2), size, 2 * size + 1],
    }
}

fn check_all(operation: Operation, size: u32, roots: impl Iterator<Item = u32> + Clone) {
    for &schedule in algorithms(operation).iter().filter(|schedule| schedule.serves(size)) {
        for root in roots.clone() {
            for count in counts_for(operation, size, root) {
                let case = format!("{} size {size} root {root} count {count}", schedule.name());
                match check(schedule, size, root, count) {
                    Ok(job) => check_prices(&job, schedule, size, &case),
                    Err(fault) => panic!("{case}: {fault:?}"),
                }
            }
        }
    }
}

/// Every count for the first root, the last and one between; one of them in turn for each of the
/// others.
fn counts_for(operation: Operation, size: u32, root: u32) -> Vec<usize> {
    let all = counts(operation, size);
    if [0, size / 2, size - 1].contains(&root) {
        return all;
    }
    vec![all[(size + root) as usize % all.len()]]
}

#[test]
fn every_barrier_up_to_64() {
    (1..=64).for_each(|size| check_all(Operation::Barrier, size, 0..1));
}

#[test]
fn every_bcast_up_to_64_from_every_root() {
    (1..=64).for_each(|size| check_all(Operation::Bcast, size, 0..size));
}

#[test]
fn every_allreduce_up_to_64() {
    (1..=64).for_each(|size| check_all(Operation::Allreduce, size, 0..1));
}

#[test]
fn every_reduce_up_to_64_to_every_root() {
    (1..=64).for_each(|size| check_all(Operation::Reduce, size, 0..size));
}

#[test]
fn every_scan_up_to_64() {
    (1..=64).for_each(|size| check_all(Operation::Scan, size, 0..1));
    (1..=64).for_each(|size| check_all(Operation::Exscan, size, 0..1));
}

#[test]
fn every_gather_and_scatter_up_to_64_from_every_root() {
    (1..=64).for_each(|size| check_all(Operation::Gather, size, 0..size));
    (1..=64).for_each(|size| check_all(Operation::Scatter, size, 0..size));
}

#[test]
fn every_allgather_and_alltoall_up_to_64() {
    (1..=64).for_each(|size| check_all(Operation::Allgather, size, 0..1));
    (1..=64).for_each(|size| check_all(Operation::Alltoall, size, 0..1));
    for size in 1..=64 {
        for count in [0, 1, 3] {
            let job = check(&InPlace, size, 0, count).unwrap_or_else(|fault| panic!("{size}: {fault:?}"));
            assert_eq!(job.work(), InPlace.work(size, count), "{size}");
        }
    }
}

#[test]
fn every_reduce_scatter_up_to_64() {
    (1..=64).for_each(|size| check_all(Operation::ReduceScatterBlock, size, 0..1));
}

#[test]
fn sampled_sizes_to_4096() {
    for size in [65, 100, 127, 128, 129, 255, 257, 511, 1000, 1023, 1024, 1025, 2048, 3000, 4095, 4096] {
        for operation in OPERATIONS {
            for &schedule in algorithms(operation).iter().filter(|schedule| schedule.serves(size)) {
                // Where rounds, operands or blocks grow with the size, the largest are not run;
                // they are checked below without values.
                let work = schedule.work(size, 3);
                let run_max = if on_blocks(operation) { 129 } else { u32::MAX };
                if size > run_max || work.rounds.max(work.reduced / 3) * u64::from(size) > 200_000 {
                    continue;
                }
                let count = if operation == Operation::Barrier { 0 } else { 3 };
                let rooted = matches!(operation, Operation::Bcast | Operation::Reduce);
                let root = if rooted { size / 3 } else { 0 };
                let job = check(schedule, size, root, count);
                let case = format!("{} size {size}", schedule.name());
                check_prices(&job.unwrap_or_else(|fault| panic!("{case}: {fault:?}")), schedule, size, &case);
            }
        }
    }
}

/// Returns the messages that a rank sends or receives in a round, in the order of its steps: the
/// other rank, elements, and where they are cut.
fn messages(
    schedule: &dyn Schedule,
    instance: &Instance,
    round: u32,
    sends: bool,
) -> Vec<(u32, usize, usize)> {
    let circle = instance.size() as usize * instance.count();
    let cut = |span: Span| {
        let held = span.first_held() as usize * instance.count();
        let start = if span.buffer == Buffer::Scratch { held } else { span.start };
        if start + span.len > circle { circle - start } else { 0 }
    };
    let steps = (0..).map_while(|index| schedule.step(instance, round, index).filter(Step::is_message));
    let wanted = steps.filter_map(|step| match step {
        Step::Send { to, from } if sends => Some((to, from.len, cut(from))),
        Step::Recv { from, into } if !sends => Some((from, into.len, cut(into))),
        _ => None,
    });
    wanted.collect()
}

/// Beyond the sizes that are run, operations on blocks are sampled: what is sent in a round is
/// received in it.
#[test]
fn large_operations_on_blocks_pair_up() {
    for operation in OPERATIONS.into_iter().filter(|operation| on_blocks(*operation)) {
        for size in [258, 511, 1000, 1024, 1025, 3000, 4095, 4096] {
            for &schedule in algorithms(operation).iter().filter(|schedule| schedule.serves(size)) {
                let instance = |rank| Instance::new(rank, size, size / 3, 2).unwrap();
                let rounds = schedule.rounds(&instance(0));
                let sampled = (0..rounds).filter(|round| rounds < 40 || round % (rounds / 20) < 2);
                for (round, rank) in
                    sampled.flat_map(|round| (0..size).step_by(37).map(move |rank| (round, rank)))
                {
                    let case = format!("{} size {size} round {round} rank {rank}", schedule.name());
                    for sends in [true, false] {
                        for (other, len, cut) in messages(schedule, &instance(rank), round, sends) {
                            let back = messages(schedule, &instance(other), round, !sends);
                            assert!(back.contains(&(rank, len, cut)), "{case}: {other}, {len} elements");
                        }
                    }
                }
            }
        }
    }
}

/// In a ring every message is the same data range on both sides, and is sent to the next rank.
#[test]
fn large_rings_pair_up() {
    let message = |rank: u32, size: u32, count: usize, round: u32, sends: bool| {
        let instance = Instance::new(rank, size, 0, count).unwrap();
        let steps = || (0..).map_while(|index| Ring.step(&instance, round, index));
        let reduced = steps().find_map(|step| match step {
            Step::Reduce { into, .. } => Some(into),
            _ => None,
        });
        steps().find_map(|step| match step {
            Step::Send { to, from } if sends => Some((to, from)),
            Step::Recv { from, into } if !sends => Some((from, reduced.unwrap_or(into))),
            _ => None,
        })
    };
    for (size, count) in [(1025, 3), (3000, 10_000), (4096, 4095), (65_536, 100_000)] {
        let rounds = 2 * (size - 1);
        for round in [0, 1, size / 3, size - 2, size - 1, size, rounds - 2, rounds - 1] {
            for rank in (0..size).step_by(size as usize / 1000) {
                let next = (rank + 1) % size;
                let sent = message(rank, size, count, round, true);
                let received = message(next, size, count, round, false);
                assert_eq!(sent.map(|(_, span)| span), received.map(|(_, span)| span));
                assert!(
                    sent.is_none_or(|(to, _)| to == next) && received.is_none_or(|(from, _)| from == rank)
                );
            }
        }
    }
}

/// The published figures, written as published.
mod formula {
    use super::{Schedule, check, log2_ceil};
    use aldis_coll::allreduce::{RecursiveDoubling, Ring};
    use aldis_coll::barrier::Dissemination;
    use aldis_coll::{barrier, bcast, exscan, reduce, scan};

    /// Hensgen, Finkel, Manber 1988: ceil(log2 p) rounds, in each of which every rank sends once.
    #[test]
    fn dissemination() {
        for size in 1..=64u32 {
            let job = check(&Dissemination, size, 0, 0).unwrap();
            let rounds = (f64::from(size)).log2().ceil() as u64;
            assert_eq!((job.rounds.len() as u64, u64::from(log2_ceil(size))), (rounds, rounds));
            assert_eq!(job.total.messages, rounds * u64::from(size));
        }
    }

    /// Open MPI's linear barrier: every rank signals rank 0, which answers each: 2 (p - 1)
    /// messages, here at most 8 of them at once. Its tree: ceil(log2 p) rounds up and as many down,
    /// and as many messages.
    #[test]
    fn barriers_through_rank_0() {
        for size in 1..=64u64 {
            let linear = check(&barrier::Linear, size as u32, 0, 0).unwrap();
            assert_eq!(linear.rounds.len() as u64, 2 * (size - 1).div_ceil(8));
            let tree = check(&barrier::Tree, size as u32, 0, 0).unwrap();
            assert_eq!(tree.rounds.len(), 2 * (size as f64).log2().ceil() as usize);
            assert_eq!([linear.total.messages, tree.total.messages], [2 * (size - 1); 2]);
        }
    }

    /// Open MPI's double ring: 2 p messages, one a round; less the last two, which carry no news to
    /// any rank.
    #[test]
    fn double_ring() {
        for size in 2..=64u64 {
            let job = check(&barrier::DoubleRing, size as u32, 0, 0).unwrap();
            assert_eq!((job.rounds.len() as u64, job.total.messages), (2 * size - 2, 2 * size - 2));
        }
    }

    /// Open MPI's recursive doubling barrier: log2 p' rounds of the p' ranks of the largest power
    /// of two, and one more before and one after if there are others. Its barrier of two processes:
    /// one exchange.
    #[test]
    fn doubling_barriers() {
        for size in 1..=64u32 {
            let job = check(&barrier::RecursiveDoubling, size, 0, 0).unwrap();
            let (exponent, beyond) = (u64::from(size.ilog2()), u64::from(size - (1 << size.ilog2())));
            assert_eq!(job.rounds.len() as u64, exponent + if beyond > 0 { 2 } else { 0 });
            assert_eq!(job.total.messages, (exponent << exponent) + 2 * beyond);
        }
        let job = check(&barrier::TwoProcesses, 2, 0, 0).unwrap();
        assert_eq!((job.rounds.len(), job.total.messages), (1, 2));
    }

    /// Thakur, Rabenseifner, Gropp 2005, section 4.2: ceil(log2 p) (alpha + n beta); p - 1 messages
    /// in all.
    #[test]
    fn binomial() {
        for size in 1..=64u32 {
            let job = check(&bcast::Binomial, size, size / 2, 10).unwrap();
            assert_eq!(job.rounds.len(), (f64::from(size)).log2().ceil() as usize);
            assert_eq!(job.total.messages, u64::from(size) - 1);
            assert_eq!(job.total.elements, 10 * (u64::from(size) - 1));
        }
    }

    /// Along a tree p - 1 messages of n elements. Open MPI's linear: all of them of the root, here
    /// 8 a round; pipeline: one a round; chain: as long as the longest of four, which begin a round
    /// apart; binary: a level a round; k-nomial: log4 p.
    #[test]
    fn broadcasts_along_trees() {
        for size in 1..=64u64 {
            let behind = size - 1;
            let chains = if behind < 4 { behind } else { 3 + behind.div_euclid(4) };
            let log4 = (0..).find(|rounds| 4u64.pow(*rounds) >= size).unwrap();
            let trees: [(&dyn Schedule, u64); 5] = [
                (&bcast::Linear, behind.div_ceil(8)),
                (&bcast::Pipeline, behind),
                (&bcast::Chain, chains),
                (&bcast::Binary, size.ilog2().into()),
                (&bcast::Knomial, log4.into()),
            ];
            for (tree, rounds) in trees {
                let job = check(tree, size as u32, size as u32 / 2, 10).unwrap();
                assert_eq!(job.rounds.len() as u64, rounds, "{}", tree.name());
                assert_eq!((job.total.messages, job.total.elements), (behind, 10 * behind));
            }
        }
    }

    /// Open MPI's split binary tree: half the data along each subtree, which is as deep as the
    /// whole tree less one; then every rank but the root gets the half that it lacks.
    #[test]
    fn split_binary() {
        for size in 2..=64u64 {
            let job = check(&bcast::SplitBinary, size as u32, size as u32 / 2, 10).unwrap();
            assert_eq!(job.rounds.len() as u64, 2 + u64::from((size / 2).ilog2()));
            assert_eq!((job.total.messages, job.total.elements), (2 * (size - 1), 10 * (size - 1)));
        }
    }

    /// Thakur, Rabenseifner, Gropp 2005, section 4.4: ceil(log2 p) (alpha + n beta + n gamma); p -
    /// 1 messages in all.
    #[test]
    fn binomial_reduction() {
        for size in 1..=64u32 {
            let job = check(&reduce::Binomial, size, size / 2, 10).unwrap();
            assert_eq!(job.rounds.len(), (f64::from(size)).log2().ceil() as usize);
            assert_eq!(job.total.messages, u64::from(size) - 1);
            assert_eq!(
                job.rounds.iter().map(|round| round.reduced).sum::<u64>(),
                10 * job.rounds.len() as u64
            );
        }
    }

    /// Every rank but the root sends n elements once. Open MPI's linear: one a round; pipeline: one
    /// a round; chain: as long as the longest of four, which end a round apart; binary: two a
    /// level; k-nomial: k - 1 a digit; in-order binary (Sanders, Speck, Traeff 2009): two a level,
    /// of which the highest has one if it is a whole tree.
    #[test]
    fn reductions_along_trees() {
        for size in 2..=64u64 {
            let (behind, log2) = (size - 1, u64::from(size.ilog2()));
            let chains = if behind < 4 { behind } else { 3 + behind.div_euclid(4) };
            let deepest = size - ((1 << log2) - 1);
            let digits = (0..).find(|digits| 4u64.pow(*digits) >= size).unwrap();
            let highest = behind.div_euclid(4u64.pow(digits - 1));
            let trees: [(&dyn Schedule, u64); 6] = [
                (&reduce::Linear, behind),
                (&reduce::Pipeline, behind),
                (&reduce::Chain, chains),
                (&reduce::Binary, 2 * log2 - u64::from(deepest == 1)),
                (&reduce::InOrderBinary, 2 * log2 - u64::from(size.is_power_of_two())),
                (&reduce::Knomial, 3 * u64::from(digits - 1) + highest),
            ];
            for (tree, rounds) in trees {
                let job = check(tree, size as u32, size as u32 / 2, 10).unwrap();
                assert_eq!(job.rounds.len() as u64, rounds, "{} {size}", tree.name());
                assert_eq!((job.total.messages, job.total.elements), (behind, 10 * behind));
            }
        }
    }

    /// Open MPI's linear scans: p - 1 messages, one a round. Hillis, Steele 1986: ceil(log2 p)
    /// rounds, in round k of which all but the first 2^k ranks receive; the exclusive one is that
    /// of p - 1 ranks after a shift of one place.
    #[test]
    fn scans() {
        let doubling = |size: u64| {
            let rounds = (0..).find(|rounds| 1u64 << rounds >= size).unwrap();
            (rounds, (0..rounds).map(|round| size - (1 << round)).sum::<u64>())
        };
        for size in 2..=64u64 {
            let (shifted, (rounds, messages)) = (doubling(size - 1), doubling(size));
            let published: [(&dyn Schedule, u64, u64); 4] = [
                (&scan::Linear, size - 1, size - 1),
                (&scan::RecursiveDoubling, rounds, messages),
                (&exscan::Linear, size - 1, size - 1),
                (&exscan::RecursiveDoubling, 1 + shifted.0, size - 1 + shifted.1),
            ];
            for (scan, rounds, messages) in published {
                let job = check(scan, size as u32, 0, 10).unwrap();
                let seen = (job.rounds.len() as u64, job.total.messages, job.total.elements);
                assert_eq!(seen, (rounds, messages, 10 * messages), "{:?} {size}", scan.name());
            }
        }
    }

    /// The expression that a rank works out depends on the algorithm and the rank, not on the size;
    /// an exclusive scan is the scan of the rank before.
    #[test]
    fn a_prefix_is_one_expression_per_rank() {
        let expressions = |scan: &dyn Schedule, size: u32| {
            let job = check(scan, size, 0, 1).unwrap();
            (0..size).map(|rank| job.expression(rank)).collect::<Vec<_>>()
        };
        let largest = [expressions(&scan::Linear, 64), expressions(&scan::RecursiveDoubling, 64)];
        assert_eq!(largest.each_ref().map(|all| all[4].as_str()), ["((((0 1) 2) 3) 4)", "(0 ((1 2) (3 4)))"]);
        let algorithms: [[&dyn Schedule; 2]; 2] =
            [[&scan::Linear, &exscan::Linear], [&scan::RecursiveDoubling, &exscan::RecursiveDoubling]];
        for ([scan, exscan], largest) in algorithms.into_iter().zip(largest) {
            for size in 2..64 {
                assert_eq!(expressions(scan, size), largest[..size as usize]);
                assert_eq!(expressions(exscan, size)[1..], largest[..size as usize - 1]);
            }
        }
    }

    /// Thakur, Rabenseifner, Gropp 2005, section 4.5: log2 p (alpha + n beta + n gamma) for powers
    /// of two p'; with r = p - p' ranks beyond, two more rounds, of which the first reduces.
    #[test]
    fn recursive_doubling() {
        for size in 1..=64u32 {
            let job = check(&RecursiveDoubling, size, 0, 7).unwrap();
            let power = 1u64 << size.ilog2();
            let (exponent, beyond) = (u64::from(size.ilog2()), u64::from(size) - power);
            let folds = u64::from(beyond > 0);
            assert_eq!(job.rounds.len() as u64, exponent + 2 * folds);
            assert_eq!(job.total.messages, power * exponent + 2 * beyond);
            assert_eq!(job.total.elements, 7 * job.total.messages);
            assert_eq!(job.rounds.iter().map(|round| round.reduced).sum::<u64>(), 7 * (exponent + folds));
        }
    }

    /// Patarasuk, Yuan 2009: 2 (p - 1) rounds; each rank sends 2 (p - 1) / p n elements, the lower
    /// bound.
    #[test]
    fn ring() {
        for size in 1..=64u32 {
            let (p, each) = (u64::from(size), 3);
            let job = check(&Ring, size, 0, each * size as usize).unwrap();
            assert_eq!(job.rounds.len() as u64, 2 * (p - 1));
            assert_eq!(job.total.elements, p * 2 * (p - 1) * each as u64);
            assert!(job.rounds.iter().all(|round| round.elements == each as u64));
        }
    }
}
