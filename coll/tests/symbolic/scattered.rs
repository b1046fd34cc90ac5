//! The published figures of reductions that are scattered, and of what they say of blocks.

use aldis_coll::reduce_scatter::{
    Butterfly, Linear, Nonoverlapping, Pairwise, RecursiveDoubling, RecursiveHalving, Ring,
};
use aldis_coll::schedule::{Priced, Work, least_scratch};

use crate::check;

/// Elements of a block.
const EACH: u64 = 3;

/// Rounds with messages, elements sent and reduced on the critical path, checked as a whole.
fn figures(schedule: &'static dyn Priced, size: u32) -> (u64, u64, u64) {
    let job = check(schedule, size, 0, EACH as usize);
    let job = job.unwrap_or_else(|fault| panic!("{} size {size}: {fault:?}", schedule.name()));
    let work = job.work();
    assert_eq!(work, schedule.work(size, EACH as usize), "{} size {size}", schedule.name());
    let Work { rounds, elements, reduced, .. } = work;
    (rounds, elements, reduced)
}

fn powers_of_two() -> impl Iterator<Item = (u32, u64, u64)> {
    (0..=6).map(|bits: u32| (1 << bits, u64::from(bits), 1 << bits))
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.3: log2 p alpha + (p - 1)/p n beta + (p - 1)/p n
/// gamma; Traeff 2005: a round of n/p more, for a permutation that changes something.
#[test]
fn halving() {
    for (size, bits, p) in powers_of_two() {
        let halved = (p - 1) * EACH;
        assert_eq!(figures(&RecursiveHalving, size), (bits, halved, halved));
        let swap = u64::from(bits > 1);
        assert_eq!(figures(&Butterfly, size), (bits + swap, halved + swap * EACH, halved));
    }
}

/// MPICH and Open MPI: of r = p - p' ranks beyond a power of two, r pairs act as one: n elements
/// more before, which are reduced, and a block after. The actors halve blocks of at most two ranks
/// each.
#[test]
fn halving_with_ranks_beyond_a_power_of_two() {
    for size in (3..=64u32).filter(|size| !size.is_power_of_two()) {
        let (p, bits, power) = (u64::from(size), u64::from(size.ilog2()), 1 << size.ilog2());
        let beyond = p - power;
        // The first of the actors have the most blocks.
        let halved: u64 = (0..bits).map(|bit| (1 << bit) + beyond.min(1 << bit)).sum();
        let reduced = (halved + p) * EACH;
        assert_eq!(figures(&RecursiveHalving, size), (bits + 2, reduced + EACH, reduced), "{size}");
        let last = if beyond > 1 { 2 } else { 1 };
        assert_eq!(figures(&Butterfly, size), (bits + 2, reduced + last * EACH, reduced), "{size}");
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.3: log2 p alpha + n (log2 p - (p - 1)/p) beta for
/// powers of two. Reduced is less than all that comes: nothing of what no rank asks for any more.
#[test]
fn recursive_doubling() {
    for (size, bits, p) in powers_of_two() {
        let sent = (p * bits - (p - 1)) * EACH;
        let reduced = (p * bits + bits - 2 * (p - 1)) * EACH;
        assert_eq!(figures(&RecursiveDoubling, size), (bits, sent, reduced));
    }
    for size in (3..=64u32).filter(|size| !size.is_power_of_two()) {
        let (rounds, ..) = figures(&RecursiveDoubling, size);
        assert_eq!(rounds, u64::from(size.ilog2()) + 2);
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.3, and Patarasuk, Yuan 2009: (p - 1) (alpha + n/p
/// beta + n/p gamma); pairwise, two sums are put together besides.
#[test]
fn around_the_ring_and_in_pairs() {
    for size in 1..=64u32 {
        let others = u64::from(size) - 1;
        assert_eq!(figures(&Ring, size), (others, others * EACH, others * EACH));
        let more = u64::from(size > 2);
        assert_eq!(figures(&Pairwise, size), (others, others * EACH, (others + more) * EACH));
        let job = check(&Pairwise, size, 0, EACH as usize).unwrap();
        let messages = u64::from(size) * others;
        assert_eq!((job.total.messages, job.total.elements), (messages, messages * EACH));
    }
}

/// Open MPI: p - 1 messages of n elements to rank 0, or ceil(log2 p) rounds of them; then a block
/// to each other.
#[test]
fn through_rank_0() {
    for size in 1..=64u32 {
        let (p, others, turns) = (u64::from(size), u64::from(size) - 1, (u64::from(size) - 1).div_ceil(8));
        let log2 = (f64::from(size)).log2().ceil() as u64;
        for (schedule, reductions) in [(&Linear as &dyn Priced, others), (&Nonoverlapping, log2)] {
            let (reduced, scattered) = (reductions * p * EACH, others * EACH);
            assert_eq!(figures(schedule, size), (reductions + turns, reduced + scattered, reduced), "{size}");
            let job = check(schedule, size, 0, EACH as usize).unwrap();
            assert_eq!(job.total.messages, 2 * others);
        }
    }
}

/// The least scratch is what the calls say of it.
#[test]
fn three_elements_of_scratch_are_enough_and_two_inputs_never_too_few() {
    for size in 2..=64 {
        assert_eq!(least_scratch(&Pairwise, size), size.min(3) as usize);
        assert_eq!(least_scratch(&Ring, size), (size - 1).min(2) as usize);
        let all: [&dyn Priced; 5] =
            [&RecursiveHalving, &Butterfly, &RecursiveDoubling, &Nonoverlapping, &Linear];
        assert!(all.iter().all(|known| known.capacity(size, 2 * size as usize * 5) >= 5));
    }
}
