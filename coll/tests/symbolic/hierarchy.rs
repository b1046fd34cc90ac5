//! Algorithms in two levels, with nodes of all sizes.

use aldis_coll::hierarchy::{TwoLevel, algorithm};
use aldis_coll::schedule::{IN_FLIGHT_MAX, Instance, Schedule, Step, Work, least_scratch, log2_ceil};
use aldis_kernel::hal::Operation;

use crate::model::Job;
use crate::{OPERATIONS, check, counts_for, depends_on_root, messages};

/// An algorithm on nodes of so many ranks.
#[derive(Clone, Copy)]
struct On {
    inner: &'static dyn TwoLevel,
    node: u32,
}

impl Schedule for On {
    fn operation(&self) -> Operation {
        self.inner.operation()
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn rounds(&self, instance: &Instance) -> u32 {
        self.inner.rounds(&instance.with_cut(self.node))
    }
    fn step(&self, instance: &Instance, round: u32, index: u32) -> Option<Step> {
        self.inner.step(&instance.with_cut(self.node), round, index)
    }
    fn capacity(&self, size: u32, scratch: usize) -> usize {
        self.inner.capacity(size, scratch)
    }
    fn keeps_rank_order(&self) -> bool {
        self.inner.keeps_rank_order()
    }
}

fn all(operation: Operation, node: u32) -> Option<On> {
    algorithm(operation).map(|inner| On { inner, node })
}

/// Fields of both levels together.
fn together([near, far]: [Work; 2]) -> [u64; 5] {
    let fields = |work: Work| [work.rounds, work.fan, work.elements, work.reduced, work.copied];
    let (near, far) = (fields(near), fields(far));
    core::array::from_fn(|at| near[at] + far[at])
}

fn check_on_nodes(on: On, size: u32, root: u32) {
    // All elements of a block go the same way, and an all-to-all has blocks enough.
    let is_all_to_all = on.operation() == Operation::Alltoall;
    let counts = if is_all_to_all { vec![0, 1, 3] } else { counts_for(on.operation(), size, root) };
    for count in counts {
        let case = format!("{} size {size} node {} root {root} count {count}", on.operation(), on.node);
        let job = check(&on, size, root, count).unwrap_or_else(|fault| panic!("{case}: {fault:?}"));
        let (seen, price) =
            (together([job.work(), Work::default()]), together(on.inner.work(size, on.node, count)));
        // What the ranks of a shorter last node carry is given roughly.
        let is_shorter = is_all_to_all && !size.is_multiple_of(on.node.clamp(1, size));
        if is_shorter || depends_on_root(on.operation()) && root + 1 != size {
            assert!(seen.iter().zip(price).all(|(seen, price)| *seen <= price), "{case}: {seen:?} {price:?}");
        } else {
            assert_eq!(seen, price, "{case}");
        }
    }
}

fn sizes_of_nodes(size: u32) -> Vec<u32> {
    let mut sizes = vec![0, 1, 2, 3, 4, 7, 8, 16, size / 2, size - 1, size, size + 1];
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[test]
fn every_two_level_algorithm_up_to_64_on_nodes_of_many_sizes() {
    for size in 1..=64 {
        for node in sizes_of_nodes(size) {
            for on in OPERATIONS.into_iter().filter_map(|operation| all(operation, node)) {
                let rooted = matches!(on.operation(), Operation::Bcast | Operation::Reduce);
                let roots = match rooted || depends_on_root(on.operation()) {
                    true if size <= 16 => (0..size).collect(),
                    true => vec![0, size / 2, size - 1],
                    false => vec![0],
                };
                roots.into_iter().for_each(|root| check_on_nodes(on, size, root));
            }
        }
    }
}

/// Beyond the sizes that are run with values, the all-to-all is sampled: what is sent in a round is
/// received in it, by few enough at a time.
#[test]
fn large_two_level_exchanges_pair_up() {
    for (size, node) in [(65, 8), (129, 16), (129, 64)] {
        check_on_nodes(all(Operation::Alltoall, node).unwrap(), size, 0);
    }
    for (size, node) in [(1000, 48), (1025, 1024), (1025, 2), (3000, 128), (4095, 64), (4096, 64), (4096, 7)]
    {
        let on = all(Operation::Alltoall, node).unwrap();
        let instance = |rank| Instance::new(rank, size, 0, 2).unwrap();
        let rounds = on.rounds(&instance(0));
        let sampled = (0..rounds).filter(|round| rounds < 40 || round % (rounds / 20) < 2);
        let ranks = || (0..size).step_by(37).chain([size - 1]);
        for (round, rank) in sampled.flat_map(|round| ranks().map(move |rank| (round, rank))) {
            let both = [true, false].map(|sends| messages(&on, &instance(rank), round, sends));
            assert!(both.concat().len() <= IN_FLIGHT_MAX, "size {size} node {node} round {round}");
            for (sends, (other, len, cut)) in [true, false]
                .into_iter()
                .zip(both)
                .flat_map(|(sends, all)| all.into_iter().map(move |one| (sends, one)))
            {
                let back = messages(&on, &instance(other), round, !sends);
                assert!(
                    back.contains(&(rank, len, cut)),
                    "size {size} node {node} round {round}: {rank} {other}"
                );
            }
        }
    }
}

/// Few messages pass between nodes: a message for every other node, or the leaders' own algorithm;
/// never more.
#[test]
fn few_messages_pass_between_nodes() {
    let far = |on: &On, size: u32, count: usize| {
        let of_rank = |rank: u32| {
            let instance = Instance::new(rank, size, 0, count).unwrap();
            let rounds = on.rounds(&instance);
            let steps = move |round| (0..).map_while(move |index| on.step(&instance, round, index));
            (0..rounds).flat_map(steps).filter(move |step| match step {
                Step::Send { to, .. } => to / on.node != rank / on.node,
                _ => false,
            })
        };
        (0..size).flat_map(of_rank).count() as u32
    };
    for (size, node) in (2..=64u32).flat_map(|size| (1..=size).map(move |node| (size, node))) {
        let nodes = size.div_ceil(node);
        let on = |operation| all(operation, node).unwrap();
        for operation in [Operation::Bcast, Operation::Reduce, Operation::Gather, Operation::Scatter] {
            assert_eq!(far(&on(operation), size, 2), nodes - 1, "{operation} {size} {node}");
        }
        assert_eq!(far(&on(Operation::Barrier), size, 0), nodes * log2_ceil(nodes));
        assert_eq!(far(&on(Operation::Allgather), size, 2), nodes * (nodes - 1));
        assert_eq!(far(&on(Operation::Alltoall), size, 2), size * (nodes - 1));
        let (power, beyond) = (1 << nodes.ilog2(), nodes - (1 << nodes.ilog2()));
        assert_eq!(far(&on(Operation::Allreduce), size, 2), power * nodes.ilog2() + 2 * beyond);
    }
}

/// The longest way of a whole job, as published for Open MPI's coll/han: near and far rounds.
#[test]
fn rounds_are_those_of_both_levels() {
    for (size, node) in (1..=64u32).flat_map(|size| (1..=size).map(move |node| (size, node))) {
        let (near, far) = (log2_ceil(node), log2_ceil(size.div_ceil(node)));
        let rounds = |operation, count| {
            all(operation, node).unwrap().rounds(&Instance::new(0, size, 0, count).unwrap())
        };
        assert_eq!(rounds(Operation::Barrier, 0), 2 * near + far);
        assert_eq!([Operation::Bcast, Operation::Reduce].map(|of| rounds(of, 1)), [near + far; 2]);
        let fans = (node - 1).div_ceil(8) + (size.div_ceil(node) - 1).div_ceil(8);
        assert_eq!([Operation::Gather, Operation::Scatter].map(|of| rounds(of, 1)), [fans; 2]);
        assert_eq!(rounds(Operation::Allgather, 1), (node - 1).div_ceil(8) + near + size.div_ceil(node) - 1);
    }
}

/// Traeff, Hunold 2020: within nodes every rank sends on all blocks for other nodes but those that
/// it carries itself, and between nodes all of them, each once; here four messages a round. No rank
/// needs more than the scratch that Bruck's takes.
#[test]
fn an_all_to_all_passes_every_block_once_within_and_once_between() {
    let two_level = |node| all(Operation::Alltoall, node).unwrap();
    for (node, nodes) in (1..=8u32).flat_map(|node| (2..=8).map(move |nodes| (node, nodes))) {
        let (on, size, each) = (two_level(node), node * nodes, 3);
        let job = check(&on, size, 0, each).unwrap();
        let (p, k, n) = (u64::from(size), u64::from(node), u64::from(nodes));
        assert_eq!(job.total.messages, p * ((k - 1) * 2 + n - 1));
        assert_eq!(job.total.elements, p * ((k - 1) + (k - 1) * (n - 1) + (p - k)) * each as u64);
        let [near, far] = algorithm(Operation::Alltoall).unwrap().work(size, node, each);
        assert_eq!([near.rounds, far.rounds], [2 * (k - 1).div_ceil(4), (n - 1).div_ceil(4)]);
        assert_eq!(near.copied, if node > 1 { 1 + 2 * k * (n - 1) } else { 1 } * each as u64);
    }
    for size in 3..=64 {
        assert_eq!(least_scratch(&two_level(2), size), 2 * size as usize);
    }
}

/// Returns a schedule with nodes of `node` ranks that lives as long as the program, so that it can
/// be broken like the others.
pub(crate) fn leaked(operation: Operation, node: u32) -> Option<&'static dyn Schedule> {
    all(operation, node).map(|on| &*Box::leak(Box::new(on)) as &'static dyn Schedule)
}

#[test]
fn nodes_of_one_rank_are_what_leaders_do() {
    for size in 1..=16 {
        let flat = |schedule: &dyn Schedule, count| total(check(schedule, size, 0, count).unwrap());
        let on = |operation| all(operation, 1).unwrap();
        assert_eq!(flat(&on(Operation::Bcast), 3), flat(&aldis_coll::bcast::Binomial, 3));
        assert_eq!(flat(&on(Operation::Reduce), 3), flat(&aldis_coll::reduce::Binomial, 3));
        assert_eq!(flat(&on(Operation::Barrier), 0), flat(&aldis_coll::barrier::Dissemination, 0));
        assert_eq!(flat(&on(Operation::Allreduce), 3), flat(&aldis_coll::allreduce::RecursiveDoubling, 3));
        assert_eq!(flat(&on(Operation::Alltoall), 3), flat(&aldis_coll::alltoall::Linear, 3));
    }
}

fn total(job: Job<'_>) -> (u64, u64, Work) {
    (job.total.messages, job.total.elements, job.work())
}
