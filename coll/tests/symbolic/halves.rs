//! The published figures of algorithms that share the data out and gather it again, or exchange all
//! of it in groups.

use aldis_coll::allreduce::{
    AllgatherReduce, Bcube, HalvingDoubling, Linear, Nonoverlapping, Rabenseifner, RecursiveMultiplying,
    SegmentedRing,
};
use aldis_coll::bcast::{ScatterRecursiveDoublingAllgather, ScatterRingAllgather};
use aldis_coll::schedule::{Priced, Work};
use aldis_coll::{bcast, reduce};

use crate::check;

/// Rounds, elements sent and reduced on the critical path for `each` elements a rank, checked as a
/// whole.
fn figures(schedule: &'static dyn Priced, size: u32, root: u32, each: u64) -> (u64, u64, u64) {
    let job = check(schedule, size, root, each as usize * size as usize);
    let job = job.unwrap_or_else(|fault| panic!("{} size {size}: {fault:?}", schedule.name()));
    let work = job.work();
    assert_eq!(work, schedule.work(size, each as usize * size as usize), "{} size {size}", schedule.name());
    let Work { rounds, elements, reduced, copied: 0, .. } = work else { panic!("nothing is copied") };
    (rounds, elements, reduced)
}

fn powers_of_two() -> impl Iterator<Item = (u32, u64, u64)> {
    (0..=7).map(|bits: u32| (1 << bits, u64::from(bits), 1 << bits))
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.5: 2 log2 p alpha + 2 (p - 1)/p n beta + (p - 1)/p n
/// gamma; gloo's binary blocks and its cube of base 2 are the same there.
#[test]
fn rabenseifner() {
    let alike: [&'static dyn Priced; 3] = [&Rabenseifner, &HalvingDoubling, &Bcube::<2>];
    for (size, bits, p) in powers_of_two() {
        for schedule in alike {
            let expected = (2 * bits, 2 * (p - 1) * 6, (p - 1) * 6);
            assert_eq!(figures(schedule, size, 0, 6), expected, "{} {size}", schedule.name());
        }
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.5, for p' the largest power of two below p: a round
/// of n elements more before, which are reduced, and one after.
#[test]
fn rabenseifner_with_ranks_beyond_a_power_of_two() {
    for size in (3..=64u32).filter(|size| !size.is_power_of_two()) {
        let (bits, power) = (u64::from(size.ilog2()), 1u64 << size.ilog2());
        // A multiple of p' elements for every rank makes all parts even.
        let n = u64::from(size) * power;
        let halves = n / power * (power - 1);
        let expected = (2 * bits + 2, 2 * halves + 2 * n, halves + n);
        assert_eq!(figures(&Rabenseifner, size, 0, power), expected, "{size}");
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.4: 2 log2 p alpha + 2 (p - 1)/p n beta + (p - 1)/p n
/// gamma, for any root.
#[test]
fn rabenseifner_reduction() {
    for (size, bits, p) in powers_of_two() {
        for root in [0, size / 3, size - 1] {
            let expected = (2 * bits, 2 * (p - 1) * 5, (p - 1) * 5);
            assert_eq!(figures(&reduce::Rabenseifner, size, root, 5), expected);
        }
    }
}

/// gloo: a reduce-scatter around the ring, (p - 1) (alpha + n/p beta + n/p gamma), and n/p elements
/// of each of the others to the root.
#[test]
fn ring_reduction() {
    for size in 1..=64u32 {
        let turn = u64::from(size) - 1;
        let rounds = turn.div_ceil(8);
        let expected = (turn + rounds, (turn + turn) * 5, turn * 5);
        assert_eq!(figures(&reduce::Ring, size, size / 2, 5), expected);
        let job = check(&reduce::Ring, size, size / 2, 5 * size as usize).unwrap();
        assert_eq!(job.total.messages, u64::from(size) * turn + turn);
    }
}

/// Blocks of 2^a > 2^b > .. ranks: 2 a rounds of halving and doubling, and 2 for every pair of
/// neighbouring blocks, if the larger one is at most eight times as large.
#[test]
fn binary_blocks() {
    for size in 1..=64u32 {
        let bits: Vec<u32> = (0..7).filter(|bit| size >> bit & 1 == 1).collect();
        let joins: u64 = bits.windows(2).map(|pair| (1u64 << (pair[1] - pair[0])).div_ceil(8)).sum();
        let (rounds, ..) = figures(&HalvingDoubling, size, 0, 64);
        assert_eq!(rounds, 2 * u64::from(size.ilog2()) + 2 * joins, "{size}");
        let job = check(&HalvingDoubling, size, 0, 64 * size as usize).unwrap();
        let inside: u64 = bits.iter().map(|&bit| (2 * u64::from(bit)) << bit).sum();
        let between: u64 = bits.windows(2).map(|pair| 2 << pair[1]).sum();
        assert_eq!(job.total.messages, inside + between, "{size}");
    }
}

/// gloo's bcube, of base b: 2 (b - 1) log_b p rounds here, 2 (p - 1)/p n elements; a prime takes
/// one stage of all ranks.
#[test]
fn bcube() {
    let of = |size: u32, rounds: u64, schedule: &'static dyn Priced| {
        let others = u64::from(size) - 1;
        assert_eq!(figures(schedule, size, 0, 4), (2 * rounds, 2 * others * 4, others * 4), "{size}");
    };
    for exponent in 0..=3 {
        of(3u32.pow(exponent), 2 * u64::from(exponent), &Bcube::<3>);
        of(4u32.pow(exponent), 3 * u64::from(exponent), &Bcube::<4>);
        of(5u32.pow(exponent), 4 * u64::from(exponent), &Bcube::<5>);
    }
    for prime in [3, 7, 13, 61] {
        of(prime, u64::from(prime) - 1, &Bcube::<2>);
    }
    of(12, 1 + 1 + 2, &Bcube::<2>);
}

/// Ruefenacht, Bull, Booth 2017: log_k p (alpha + (k - 1) n beta + (k - 1) n gamma) for powers of
/// k.
#[test]
fn recursive_multiplying() {
    fn of<const RADIX: u32>() {
        for exponent in 0..=3 {
            let size = RADIX.pow(exponent);
            let (stages, others, n) = (u64::from(exponent), u64::from(RADIX) - 1, 2 * u64::from(size));
            let sent = stages * others * n;
            assert_eq!(figures(&RecursiveMultiplying::<RADIX>, size, 0, 2), (stages, sent, sent));
        }
        for size in 1..=130 {
            let (rounds, ..) = figures(&RecursiveMultiplying::<RADIX>, size, 0, 1);
            let stages = size.ilog(RADIX);
            let folds = if RADIX.pow(stages) < size { 2 } else { 0 };
            assert_eq!(rounds, u64::from(stages + folds));
        }
    }
    of::<2>();
    of::<3>();
    of::<4>();
    of::<5>();
}

/// Bruck 1997: ceil(log2 p) rounds, (p - 1) n elements; then all of them are reduced.
#[test]
fn allgather_reduce() {
    for size in 1..=64u32 {
        let (rounds, others) = ((f64::from(size)).log2().ceil() as u64, u64::from(size) - 1);
        let n = 2 * u64::from(size);
        assert_eq!(figures(&AllgatherReduce, size, 0, 2), (rounds, others * n, others * n));
    }
}

/// Open MPI: the reduction's rounds, then the broadcast's.
#[test]
fn nonoverlapping() {
    for size in 1..=64u32 {
        let rounds = (f64::from(size)).log2().ceil() as u64;
        let n = 2 * u64::from(size);
        assert_eq!(figures(&Nonoverlapping, size, 0, 2), (2 * rounds, 2 * rounds * n, rounds * n));
    }
}

/// Open MPI: rank 0 receives from each of the others and sends to each of them.
#[test]
fn linear() {
    for size in 1..=64u32 {
        let others = u64::from(size) - 1;
        let n = 2 * u64::from(size);
        let (_, elements, reduced) = figures(&Linear, size, 0, 2);
        assert_eq!((elements, reduced), (2 * others * n, others * n));
    }
}

/// Open MPI, of two segments: (2 + 1) (p - 1) rounds, the ring's bytes.
#[test]
fn segmented_ring() {
    for size in 1..=64u32 {
        let turn = u64::from(size) - 1;
        assert_eq!(figures(&SegmentedRing, size, 0, 6), (3 * turn, 2 * turn * 6, turn * 6));
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.2: (log2 p + log2 p) alpha + 2 (p - 1)/p n beta for
/// powers of two; here a round of n elements more for other sizes.
#[test]
fn scatter_recursive_doubling_allgather() {
    for (size, bits, p) in powers_of_two() {
        let expected = (2 * bits, 2 * (p - 1) * 3, 0);
        assert_eq!(figures(&ScatterRecursiveDoublingAllgather, size, size / 3, 3), expected);
    }
    for size in (3..=64u32).filter(|size| !size.is_power_of_two()) {
        let (bits, power) = (u64::from(size.ilog2()), 1u64 << size.ilog2());
        let n = u64::from(size) * power;
        let expected = (2 * bits + 1, 2 * (n / power * (power - 1)) + n, 0);
        assert_eq!(figures(&ScatterRecursiveDoublingAllgather, size, size / 3, power), expected);
    }
}

/// Thakur, Rabenseifner, Gropp 2005, section 4.2: (ceil(log2 p) + p - 1) alpha + 2 (p - 1)/p n
/// beta, for any p.
#[test]
fn scatter_ring_allgather() {
    for size in 1..=64u32 {
        let turn = u64::from(size) - 1;
        let rounds = (f64::from(size)).log2().ceil() as u64 + turn;
        assert_eq!(figures(&ScatterRingAllgather, size, size / 3, 3), (rounds, 2 * turn * 3, 0));
        let job = check(&bcast::ScatterRingAllgather, size, 0, 3 * size as usize).unwrap();
        assert_eq!(job.total.messages, turn + u64::from(size) * turn);
    }
}
