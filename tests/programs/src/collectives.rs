//! Collectives of most kinds, over lengths from nothing to several messages, by every algorithm;
//! each rank verifies all it gets, and that sums of fractions have the same bits on all ranks.

mod blocks;

use core::fmt::Write;
use core::time::Duration;

use aldis_coll::barrier;
use aldis_coll::bcast;
use aldis_coll::catalog::algorithms;
use aldis_coll::op::{BitXor, Element, Max, Min, Reduce, Sum};
use aldis_coll::schedule::Candidate;
use aldis_coll::{Options as Choice, allreduce};
use aldis_kernel::hal::{Operation, Platform, Transport};
use aldis_kernel::{Comm, Endpoint, Rank};

use crate::{DIGEST, Facts, ProgramFailure, digest};

/// Elements of the vectors: none, one, an odd number, and more than an eager message holds.
const COUNTS: [usize; 4] = [0, 1, 17, COUNT_MAX];
const COUNT_MAX: usize = 300;
/// Elements of working memory: the longest vectors are cut into segments.
const SCRATCH: usize = 128;

/// A rank's end of the job with what every call needs.
struct RankPart<'e, 's, T, P> {
    ep: &'e mut Endpoint<'s, T, P>,
    world: Comm,
    limit: Duration,
    calls: u32,
    digest: u64,
}

/// Runs them `count` times, by every algorithm. The digest is of all results that are the same on
/// every rank.
///
/// # Errors
/// A call that fails, or a result that is not right.
pub fn run<T: Transport, P: Platform>(
    ep: &mut Endpoint<'_, T, P>,
    limit: Duration,
    count: u32,
    out: &mut dyn Write,
) -> Result<Facts, ProgramFailure> {
    let world = ep.world();
    let mut part = RankPart { ep, world, limit, calls: 0, digest: DIGEST };
    let start = part.ep.platform().now();
    for round in 0..count {
        part.barriers()?;
        part.broadcasts(round)?;
        part.reductions(round)?;
        part.same_bits()?;
        part.blocks(round)?;
    }
    let (calls, ns) = (part.calls, part.ep.platform().now().since(start));
    if world.rank() == Rank(0) && calls > 0 {
        writeln!(out, "{calls} collectives over {} ranks: mean {} ns", world.size(), ns / u64::from(calls))?;
    }
    Ok(Facts::Digest { steps: calls, digest: part.digest })
}

impl<T: Transport, P: Platform> RankPart<'_, '_, T, P> {
    fn barriers(&mut self) -> Result<(), ProgramFailure> {
        let serves = |known: &&Candidate| known.serves(self.world.size());
        for &algorithm in algorithms(Operation::Barrier).iter().filter(serves) {
            barrier().with(&Choice::using(algorithm)).run(&mut self.ep.within(self.limit), &self.world)?;
            self.calls += 1;
        }
        Ok(())
    }

    /// From every rank.
    fn broadcasts(&mut self, round: u32) -> Result<(), ProgramFailure> {
        for root in 0..self.world.size() {
            for (algorithm, count) in each(Operation::Bcast) {
                let word = |place: usize| (round << 24) ^ (root << 16) ^ place as u32;
                let mut data = [0_u32; COUNT_MAX];
                let data = &mut data[..count];
                if self.world.rank() == Rank(root) {
                    data.iter_mut().enumerate().for_each(|(place, element)| *element = word(place));
                }
                let within = &mut self.ep.within(self.limit);
                bcast(data, Rank(root)).with(&Choice::using(algorithm)).run(within, &self.world)?;
                for (place, element) in data.iter().enumerate() {
                    let (found, expected) = (u64::from(*element), u64::from(word(place)));
                    ProgramFailure::unless_equal("element of a broadcast", place as u64, found, expected)?;
                }
                self.took_part(data.iter().map(|element| u64::from(*element)));
            }
        }
        Ok(())
    }

    /// Of whole numbers, whose results are known.
    fn reductions(&mut self, round: u32) -> Result<(), ProgramFailure> {
        self.reduce::<_, u64>(Sum, round, |left, right| left + right)?;
        self.reduce::<_, u32>(Min, round, u64::min)?;
        self.reduce::<_, u16>(Max, round, u64::max)?;
        self.reduce::<_, u8>(BitXor, round, |left, right| left ^ right)
    }

    fn reduce<R: Reduce<E> + Copy, E: Element + From<u8> + Into<u64>>(
        &mut self,
        op: R,
        round: u32,
        alone: fn(u64, u64) -> u64,
    ) -> Result<(), ProgramFailure> {
        let (me, size) = (self.world.rank().0, self.world.size());
        let share = |rank: u32, place: usize| ((rank * 31 + round + place as u32) % 251) as u8;
        for (algorithm, count) in each(Operation::Allreduce) {
            let (mut data, mut scratch) = ([E::from(0); COUNT_MAX], [E::from(0); SCRATCH]);
            let data = &mut data[..count];
            data.iter_mut().enumerate().for_each(|(place, element)| *element = share(me, place).into());
            let within = &mut self.ep.within(self.limit);
            allreduce(op, data, &mut scratch).with(&Choice::using(algorithm)).run(within, &self.world)?;
            for (place, element) in data.iter().enumerate() {
                let shares = (0..size).map(|rank| u64::from(share(rank, place)));
                let expected = shares.reduce(alone).unwrap_or_default();
                ProgramFailure::unless_equal(
                    "element of a reduction",
                    place as u64,
                    (*element).into(),
                    expected,
                )?;
            }
            self.took_part(data.iter().map(|element| (*element).into()));
        }
        Ok(())
    }

    /// Fractions do not add up the same in every order: their least and greatest bit pattern over
    /// all ranks is one.
    fn same_bits(&mut self) -> Result<(), ProgramFailure> {
        const FRACTIONS: usize = 33;
        let (me, limit, world) = (self.world.rank().0, self.limit, &self.world);
        let mut sums: [f64; FRACTIONS] =
            core::array::from_fn(|place| 1.0 / f64::from(1 + place as u32 + 7 * me));
        allreduce(Sum, &mut sums, &mut [0.0; FRACTIONS]).run(&mut self.ep.within(limit), world)?;
        let bits = sums.map(f64::to_bits);
        let (mut least, mut greatest, mut scratch) = (bits, bits, [0; FRACTIONS]);
        allreduce(Min, &mut least, &mut scratch).run(&mut self.ep.within(limit), world)?;
        allreduce(Max, &mut greatest, &mut scratch).run(&mut self.ep.within(limit), world)?;
        for (place, (least, greatest)) in (0..).zip(least.iter().zip(&greatest)) {
            ProgramFailure::unless_equal("bits of fraction", place, *least, *greatest)?;
        }
        self.took_part(bits.into_iter());
        Ok(())
    }

    /// Folds the results of a call into the digest.
    fn took_part(&mut self, results: impl Iterator<Item = u64>) {
        self.calls += 1;
        self.digest = results.fold(self.digest, digest);
    }
}

/// Each algorithm of an operation with each length.
fn each(operation: Operation) -> impl Iterator<Item = (Candidate, usize)> {
    let known = algorithms(operation).iter();
    known.flat_map(|algorithm| COUNTS.map(|count| (*algorithm, count)))
}
