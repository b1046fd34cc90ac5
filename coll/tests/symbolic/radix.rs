//! The published figures of algorithms that go by digits of a radix.

use aldis_coll::schedule::{Priced, Work};
use aldis_coll::{allgather, alltoall, barrier};

use crate::check;

/// Stages and messages of a rank, at distances 1, k, k^2, ..; and the rounds, of four exchanges.
fn digits(size: u64, radix: u64) -> (u64, u64, u64) {
    let stages = (0..).find(|stages| radix.pow(*stages) >= size).unwrap();
    let of = |stage| (size - 1).div_euclid(radix.pow(stage)).min(radix - 1);
    (stages.into(), (0..stages).map(of).sum(), (0..stages).map(|stage| of(stage).div_ceil(4)).sum())
}

fn work(schedule: &'static dyn Priced, size: u64, count: usize) -> Work {
    let job = check(schedule, size as u32, 0, count);
    let job = job.unwrap_or_else(|fault| panic!("{} size {size}: {fault:?}", schedule.name()));
    assert_eq!(job.work(), schedule.work(size as u32, count), "{} size {size}", schedule.name());
    job.work()
}

/// MPICH's k-dissemination: ceil(log_k p) stages; k - 1 signals of every rank in each but the last,
/// where distances of p and more are left out.
#[test]
fn dissemination() {
    fn of<const RADIX: u32>() {
        for size in 1..=64u64 {
            let (stages, signals, rounds) = digits(size, RADIX.into());
            let seen = work(&barrier::DisseminationRadix::<RADIX>, size, 0);
            assert_eq!(seen, Work { rounds, fan: signals - rounds, ..Work::default() }, "{RADIX} {size}");
            assert!(RADIX > 5 || rounds == stages);
        }
    }
    of::<2>();
    of::<3>();
    of::<4>();
    of::<8>();
}

/// Bruck 1997: with k - 1 ports ceil(log_k p) rounds; every block comes once.
#[test]
fn allgather_of_bruck() {
    fn of<const RADIX: u32>() {
        for size in 1..=64u64 {
            let (stages, messages, rounds) = digits(size, RADIX.into());
            let seen = work(&allgather::Bruck::<RADIX>, size, 2);
            let elements = 2 * (size - 1);
            assert_eq!(seen, Work { rounds, fan: messages - rounds, elements, ..Work::default() });
            assert!(RADIX > 5 || rounds == stages);
        }
    }
    of::<2>();
    of::<3>();
    of::<4>();
    of::<8>();
}

/// Bruck 1997: a block travels as many times as its distance has digits other than 0: of powers of
/// k, (k - 1)/k p log_k p blocks.
#[test]
fn alltoall_of_bruck() {
    fn of<const RADIX: u32>() {
        for size in 1..=64u64 {
            let radix = u64::from(RADIX);
            let (_, messages, rounds) = digits(size, radix);
            let travels = |way: u64| {
                (0..7).filter(|digit| !(way / radix.pow(*digit)).is_multiple_of(radix)).count() as u64
            };
            let blocks: u64 = (0..size).map(travels).sum();
            let seen = work(&alltoall::Bruck::<RADIX>, size, 2);
            assert_eq!((seen.rounds, seen.fan, seen.elements), (rounds, messages - rounds, 2 * blocks));
        }
        for stages in 0..=2 {
            let size = u64::from(RADIX).pow(stages);
            let blocks = (size - size / u64::from(RADIX)) * u64::from(stages);
            assert_eq!(work(&alltoall::Bruck::<RADIX>, size, 1).elements, blocks);
        }
    }
    of::<2>();
    of::<3>();
    of::<4>();
    of::<8>();
}
