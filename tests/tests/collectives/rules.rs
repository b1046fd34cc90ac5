//! Rules and reproducible results over the real kernel: what decides, and that bits stay the
//! same.

use core::num::NonZeroU64;
use core::ops::Range;

use aldis_coll::catalog::algorithms;
use aldis_coll::exscan;
use aldis_coll::layout::Block;
use aldis_coll::op::Sum;
use aldis_coll::reduce;
use aldis_coll::rules::{self, Extent, Rule, Rules};
use aldis_coll::scan;
use aldis_coll::schedule::{Algorithm, Candidate};
use aldis_coll::select::{Call, Choice};
use aldis_coll::{InputBlocks, Options, allreduce, barrier, bcast, comm, reduce_scatter};
use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Comm, Error, Rank};
use aldis_tests::thread_jobs::{Endpoint, run};
use proptest::prelude::*;

const fn by(operation: Operation, algorithm: Algorithm) -> Rule {
    Rule { operation: Some(operation), choice: Choice::Named(algorithm), ..Rule::AUTO }
}

static EVERYWHERE: [Rule; 3] = [
    Rule { bytes: Extent { least: 0, most: 100 }, ..by(Operation::Allreduce, &allreduce::Linear) },
    Rule { segment_bytes: NonZeroU64::new(64), ..by(Operation::Allreduce, &allreduce::Ring) },
    Rule { choice: Choice::Shared, ..Rule::AUTO },
];
static JOBS: Rules = Rules::new("JOBS", &EVERYWHERE);
static OWN: [Rule; 1] = [by(Operation::Allreduce, &allreduce::Bcube::<2>)];
static COMMS: Rules = Rules::new("COMMS", &OWN);

/// The algorithm and the segment by which a plain call is carried out.
fn taken(endpoint: &mut Endpoint<'_, '_>, on: &Comm, count: usize) -> (&'static str, usize) {
    let (mut data, mut scratch) = (vec![1_u64; count], vec![0; count]);
    let (lent, spare) = (&mut data, &mut scratch);
    let mut plan = ("", 0);
    endpoint
        .scope(|scope| {
            let mut sum = allreduce(Sum, lent, spare).start(scope, on)?;
            plan = (sum.plan().algorithm.name(), sum.plan().segment);
            sum.wait(scope)
        })
        .unwrap();
    assert_eq!(data, vec![u64::from(on.size()); count]);
    plan
}

/// A communicator's own rules go before those of all, which go before the cost model; blocking
/// calls follow them too.
#[test]
fn plain_calls_follow_the_rules_in_force() {
    run(5, |endpoint| {
        let world = endpoint.world();
        let duplicate = comm::dup(endpoint, &world).unwrap();
        assert_eq!(taken(endpoint, &world, 10), ("recursive_doubling", 10));
        rules::set(endpoint, Some(&JOBS));
        rules::set_on(endpoint, &duplicate, Some(&COMMS)).unwrap();
        assert_eq!(taken(endpoint, &world, 10), ("linear", 10));
        assert_eq!(taken(endpoint, &world, 100), ("ring", 8));
        assert_eq!(taken(endpoint, &duplicate, 10), ("bcube", 10));
        let (mut data, mut scratch) = ([1_u64; 100], [0; 100]);
        for (on, name) in [(&world, "ring"), (&duplicate, "bcube")] {
            data = [1; 100];
            aldis_coll::allreduce(Sum, &mut data, &mut scratch).run(endpoint, on).unwrap();
            assert_eq!(data, [5; 100]);
            let told = Call::allreduce::<Sum, u64>(5, 100, 100).explain(&Options::default()).on(endpoint, on);
            assert_eq!(told.selected().unwrap().algorithm.name(), name);
            assert!(!told.is_shared(), "{told}");
        }
        // What a call names goes before all of them.
        let named = Options::using(&allreduce::Rabenseifner);
        allreduce(Sum, &mut data, &mut scratch).with(&named).run(endpoint, &duplicate).unwrap();
        assert_eq!(data, [25; 100]);
        let told = Call::barrier(5).explain(&Options::default()).on(endpoint, &world);
        assert!(told.is_shared() && told.to_string().ends_with("decided by rule 3 of JOBS"), "{told}");
        barrier().run(endpoint, &world).unwrap();
        bcast(&mut data, Rank(2)).run(endpoint, &world).unwrap();
        rules::set(endpoint, None);
        assert_eq!(taken(endpoint, &world, 10), ("recursive_doubling", 10));
        comm::free(endpoint, duplicate).unwrap();
        assert!(rules::set_on(endpoint, &duplicate, None).is_err(), "it is freed");
    });
}

/// Fractions that add up to something else in every order.
fn fractions(seed: u64, rank: u32, count: usize) -> Vec<f64> {
    let share = |place: u64| {
        let mixed = (seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(u64::from(rank) * 2 + 3);
        (mixed >> 11) as f64 * 10_f64.powi((mixed % 13) as i32 - 6)
    };
    (0..count as u64).map(share).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The elements of a rank's block, if so many are divided among so many ranks.
fn share(rank: u32, size: u32, count: usize) -> Range<usize> {
    let first = |rank: u32| count * rank as usize / size as usize;
    first(rank)..first(rank + 1)
}

/// Returns what a reduction to blocks leaves to this rank.
fn scattered(
    endpoint: &mut Endpoint<'_, '_>,
    options: &Options,
    data: &[f64],
    scratch: usize,
) -> Result<Vec<u64>, Error> {
    let world = endpoint.world();
    let size = world.size();
    let blocks = (0..size).map(|rank| share(rank, size, data.len()));
    let list: Vec<Block> = blocks.map(|block| Block { start: block.start, len: block.len() }).collect();
    // All algorithms work with two elements a rank.
    let mut spare = vec![0.0; scratch.max(2 * size as usize)];
    let mut own = vec![0.0; list[world.rank().0 as usize].len];
    reduce_scatter(Sum, InputBlocks::new(data, &list), &mut own, &mut spare)
        .with(options)
        .run(endpoint, &world)?;
    Ok(bits(&own))
}

/// A reduction of this rank's fractions.
#[derive(Clone, Copy)]
struct FractionSum<'a> {
    operation: Operation,
    root: Rank,
    data: &'a [f64],
}

/// Reduces once, and returns what this rank ends with.
fn reduced(
    endpoint: &mut Endpoint<'_, '_>,
    options: &Options,
    sum: FractionSum<'_>,
    scratch: usize,
) -> Result<Vec<u64>, Error> {
    let FractionSum { operation, root, data } = sum;
    if operation == Operation::ReduceScatter {
        return scattered(endpoint, options, data, scratch);
    }
    let (world, mut data, mut spare) = (endpoint.world(), data.to_vec(), vec![0.0; scratch]);
    match operation {
        Operation::Reduce => reduce(Sum, &mut data, &mut spare, root).with(options).run(endpoint, &world),
        Operation::Allreduce => allreduce(Sum, &mut data, &mut spare).with(options).run(endpoint, &world),
        Operation::Scan => scan(Sum, &mut data, &mut spare).with(options).run(endpoint, &world),
        _ => exscan(Sum, &mut data, &mut spare).with(options).run(endpoint, &world),
    }?;
    Ok(if operation == Operation::Reduce && world.rank() != root { Vec::new() } else { bits(&data) })
}

/// The pair tree by hand: what every reproducible sum over all ranks is.
fn by_hand(seed: u64, size: u32, count: usize) -> Vec<u64> {
    let excess = (size - (1 << size.ilog2())) as usize;
    let mut operands: Vec<Vec<f64>> = (0..size).map(|rank| fractions(seed, rank, count)).collect();
    let add = |pair: &[Vec<f64>]| match pair {
        [left, right] => left.iter().zip(right).map(|(left, right)| left + right).collect(),
        _ => pair.concat(),
    };
    let single = operands.split_off(2 * excess);
    operands = operands.chunks(2).map(add).chain(single).collect();
    while operands.len() > 1 {
        operands = operands.chunks(2).map(add).collect();
    }
    bits(&operands.concat())
}

const REDUCING: [Operation; 5] =
    [Operation::Reduce, Operation::Allreduce, Operation::ReduceScatter, Operation::Scan, Operation::Exscan];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the algorithm, the scratch, the segments, the root; alone or by a rule.
    #[test]
    fn reproducible_sums_have_the_same_bits(
        size in 1..=9u32,
        count in prop_oneof![1..40usize, 40..3000usize],
        scratch in prop_oneof![1..8usize, 8..4000usize],
        root in 0..9u32,
        seed: u64,
    ) {
        static SURE: [Rule; 1] = [Rule { reproducible: true, segment_bytes: NonZeroU64::new(200), ..Rule::AUTO }];
        static SURELY: Rules = Rules::new("SURE", &SURE);
        let (expected, root) = (by_hand(seed, size, count), Rank(root % size));
        run(size, |endpoint| {
            let rank = endpoint.world().rank();
            let data = fractions(seed, rank.0, count);
            let auto = Options { reproducible: true, ..Options::default() };
            for operation in REDUCING {
                let what = FractionSum { operation, root, data: &data };
                let first = reduced(endpoint, &auto, what, count).unwrap();
                if operation == Operation::Allreduce || (operation == Operation::Reduce && rank == root) {
                    assert_eq!(first, expected, "{operation}");
                }
                if operation == Operation::ReduceScatter {
                    assert_eq!(first, expected[share(rank.0, size, count)], "{operation}");
                }
                let named = |candidate: &&Candidate| candidate.reproduces(size);
                for &candidate in algorithms(operation).iter().filter(named) {
                    let options = Options { choice: Choice::Named(candidate), ..auto };
                    let again = reduced(endpoint, &options, what, scratch).unwrap();
                    assert_eq!(again, first, "{operation} {}", candidate.name());
                }
                rules::set(endpoint, Some(&SURELY));
                assert_eq!(reduced(endpoint, &Options::default(), what, scratch).unwrap(), first);
                rules::set(endpoint, None);
            }
        });
    }
}

#[test]
fn algorithms_of_other_bits_are_refused_by_name() {
    run(3, |endpoint| {
        let sure = Options { reproducible: true, ..Options::default() };
        for operation in REDUCING {
            let what = FractionSum { operation, root: Rank(0), data: &[1.0] };
            for &candidate in algorithms(operation).iter().filter(|candidate| !candidate.reproduces(3)) {
                let options = Options { choice: Choice::Named(candidate), ..sure };
                let error = reduced(endpoint, &options, what, 1).unwrap_err();
                assert_eq!((error.operation, error.cause), (operation, Cause::Irreproducible));
            }
        }
        let shared = Options { choice: Choice::Shared, ..sure };
        let what = FractionSum { operation: Operation::Allreduce, root: Rank(0), data: &[1.0] };
        let error = reduced(endpoint, &shared, what, 1).unwrap_err();
        assert_eq!(error.cause, Cause::Irreproducible);
        // What reduces nothing is not asked.
        barrier().with(&shared).run(endpoint, &endpoint.world()).unwrap();
    });
}
