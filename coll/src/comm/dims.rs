//! Layout of ranks in dimensions that are as equal as can be.

use core::cmp::Reverse;

use aldis_kernel::hal::Cause;

use super::Dimension;

/// Dimensions above one at most: each at least doubles the ranks.
const LEVELS: usize = 32;

/// Steps of the search, after which the best layout so far is taken: far more than a grid of a few
/// dimensions needs.
const STEPS: u32 = 1 << 14;

/// Chooses the extents of a grid of `ranks` (MPI_Dims_create, MPI 4.1 section 8.5.2): those that
/// are given as zero, of which the first ones become the larger. The largest of them is as little
/// above the smallest as can be; of such layouts one with the largest smallest extent, then with
/// the least sum, and then with the largest first extents is taken, as MPICH does. All others stay.
/// Takes time proportional to the square root of the ranks, a few times.
///
/// ```
/// use aldis_coll::comm::{Dimension, dims_create};
///
/// let mut dimensions = [0, 3, 0].map(|extent| Dimension { extent, is_periodic: false });
/// dims_create(72, &mut dimensions)?;
/// assert_eq!(dimensions.map(|dimension| dimension.extent), [6, 3, 4]);
/// # Ok::<(), aldis_kernel::hal::Cause>(())
/// ```
///
/// # Errors
/// [`Cause::LengthMismatch`] if the ranks are no multiple of the product of the extents that are
/// given, or, if all are, are not as many. Nothing has changed then.
pub fn dims_create(ranks: u32, dimensions: &mut [Dimension]) -> Result<(), Cause> {
    let given = dimensions.iter().map(|dimension| u64::from(dimension.extent)).filter(|&extent| extent > 0);
    let given = given.fold(1_u64, u64::saturating_mul);
    let free = dimensions.iter().filter(|dimension| dimension.extent == 0).count();
    let fits = ranks > 0 && u64::from(ranks).is_multiple_of(given);
    if !fits || (free == 0 && given != u64::from(ranks)) {
        return Err(Cause::LengthMismatch { left: ranks.into(), right: given });
    }
    let extents = factors((u64::from(ranks) / given) as u32, free).into_iter().chain(core::iter::repeat(1));
    let chosen = dimensions.iter_mut().filter(|dimension| dimension.extent == 0);
    chosen.zip(extents).for_each(|(dimension, extent)| dimension.extent = extent);
    Ok(())
}

/// Falling factors of `number`, `count` of them above one at most, of which the first is as little
/// above the last as can be; then with the largest last one, the least sum and the largest first
/// ones. Goes through the divisors from the least that can be the largest factor on, and back where
/// what is left does not divide into smaller ones, or only into some that are further apart.
fn factors(number: u32, count: usize) -> [u32; LEVELS] {
    let (count, mut chosen) = (count.min(LEVELS), [1; LEVELS]);
    let (mut best, mut best_key, mut steps) = (chosen, None, 0);
    let (mut level, mut rest, mut least) = (0, number, root(number, count));
    while steps < STEPS || best_key.is_none() {
        steps += 1;
        if level == count {
            let key = key(&chosen, count);
            // A later one of two alike has larger first factors.
            if best_key.is_none_or(|best_key| key <= best_key) {
                (best, best_key) = (chosen, Some(key));
            }
        }
        let bound = level.checked_sub(1).and_then(|before| chosen.get(before)).copied().unwrap_or(number);
        let next = match count.saturating_sub(level) {
            0 => None,
            1 => Some(rest),
            left => divisor(rest, least).filter(|next| {
                let first = chosen.first().copied().filter(|_| level > 0).unwrap_or(*next);
                let apart = first - floor_root(rest / next, left - 1).min(*next);
                best_key.is_none_or(|(best, ..)| apart <= best)
            }),
        };
        match next.filter(|next| (least..=bound).contains(next)) {
            Some(next) => {
                if let Some(factor) = chosen.get_mut(level) {
                    *factor = next;
                }
                (level, rest) = (level + 1, rest / next);
                least = root(rest, count - level);
            }
            None if level == 0 => break,
            None => {
                level -= 1;
                let factor = chosen.get_mut(level).map_or(1, |factor| core::mem::replace(factor, 1));
                (rest, least) = (rest * factor, factor + 1);
            }
        }
    }
    best
}

/// Returns what is the least for the best factors, of which the first `count` fall: how far the
/// first is above the last, the last in reverse, and their sum.
fn key(factors: &[u32; LEVELS], count: usize) -> (u32, Reverse<u32>, u64) {
    let chosen = factors.get(..count).unwrap_or_default();
    let (first, last) = chosen.first().zip(chosen.last()).unwrap_or((&1, &1));
    (first - last, Reverse(*last), chosen.iter().copied().map(u64::from).sum())
}

/// The largest number whose power is not above `number`: the smallest of so many factors of it is
/// at most that.
fn floor_root(number: u32, power: usize) -> u32 {
    root(number.saturating_add(1), power).saturating_sub(1).max(1)
}

/// The least number whose power is not below `number`.
fn root(number: u32, power: usize) -> u32 {
    let reaches = |root: u32| {
        let power = (0..power).try_fold(1_u32, |product, _| product.checked_mul(root));
        power.is_none_or(|power| power >= number)
    };
    let (mut low, mut high) = (1, number);
    while low < high {
        let middle = low + (high - low) / 2;
        if reaches(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The least divisor of `number` from `least` on.
fn divisor(number: u32, least: u32) -> Option<u32> {
    let (middle, least) = (number.isqrt(), least.max(1));
    let small = (least..=middle).find(|&small| number.is_multiple_of(small));
    // Those above the square root, in rising order, belong to those below in falling order.
    small.or_else(|| {
        let partners = (1..=middle.min(number / least)).rev();
        partners.into_iter().find(|&partner| number.is_multiple_of(partner)).map(|partner| number / partner)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn create(ranks: u32, extents: &[u32]) -> Result<Vec<u32>, Cause> {
        let mut dimensions: Vec<Dimension> =
            extents.iter().map(|&extent| Dimension { extent, is_periodic: false }).collect();
        dims_create(ranks, &mut dimensions)?;
        Ok(dimensions.iter().map(|dimension| dimension.extent).collect())
    }

    /// All falling lists of `count` numbers with that product.
    fn lists(product: u32, count: usize, bound: u32) -> Vec<Vec<u32>> {
        if count == 0 {
            return if product == 1 { std::vec![std::vec![]] } else { std::vec![] };
        }
        let firsts = (1..=bound.min(product)).filter(|first| product.is_multiple_of(*first));
        let with = |first| {
            let rest = lists(product / first, count - 1, first).into_iter();
            rest.map(move |rest| [std::vec![first], rest].concat())
        };
        firsts.flat_map(with).collect()
    }

    /// Returns the one whose first and last are the least apart, then with the largest last one,
    /// the least sum, and the largest first ones.
    fn best(product: u32, count: usize) -> Option<Vec<u32>> {
        let key = |list: &Vec<u32>| {
            // All is given already where there is no first.
            let [first, last] = [list.first(), list.last()].map(|extent| extent.copied().unwrap_or(0));
            (first - last, Reverse(last), list.iter().sum::<u32>(), Reverse(list.clone()))
        };
        lists(product, count, product).into_iter().min_by_key(key)
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(create(6, &[0, 0]), Ok(std::vec![3, 2]));
        assert_eq!(create(7, &[0, 0]), Ok(std::vec![7, 1]));
        assert_eq!(create(6, &[0, 3, 0]), Ok(std::vec![2, 3, 1]));
        assert_eq!(create(7, &[0, 3, 0]), Err(Cause::LengthMismatch { left: 7, right: 3 }));
    }

    /// Grids where the layout with the least largest extent is another, or that with the least sum
    /// and then the largest smallest extent.
    #[test]
    fn grids_are_those_of_mpich() {
        for grid in [[21, 16, 15], [26, 16, 15], [27, 20, 20], [33, 24, 24], [38, 24, 21], [46, 28, 27]]
            .into_iter()
            .chain([[24, 21, 13], [27, 25, 11], [35, 27, 13], [32, 27, 17], [52, 51, 29], [56, 54, 31]])
        {
            assert_eq!(create(grid.iter().product(), &[0; 3]), Ok(grid.to_vec()));
        }
        assert_eq!(create(13104, &[0; 4]), Ok(std::vec![14, 13, 9, 8]));
        assert_eq!(create(17_712, &[0; 4]), Ok(std::vec![41, 9, 8, 6]));
        assert_eq!(create(590_520, &[0; 4]), Ok(std::vec![38, 37, 21, 20]));
        assert_eq!(create(98784, &[0; 5]), Ok(std::vec![14, 14, 9, 8, 7]));
    }

    #[test]
    fn every_number_to_600_is_laid_out_as_equally_as_can_be() {
        for ranks in 1..=600 {
            for count in 1..=5 {
                assert_eq!(create(ranks, &std::vec![0; count]).ok(), best(ranks, count), "{ranks}");
            }
        }
    }

    #[test]
    fn the_hardest_numbers_are_done_at_once() {
        // A prime, the number with the most divisors, and a square of a prime.
        for ranks in [u32::MAX - 4, 3_491_888_400, 65_521 * 65_521, 1 << 31, 735_134_400] {
            for count in [1, 2, 3, 4, 7, 31, 32, 40] {
                let extents = create(ranks, &std::vec![0; count]).unwrap();
                assert!(extents.is_sorted_by(|left, right| left >= right));
                assert_eq!(extents.iter().map(|&extent| u64::from(extent)).product::<u64>(), ranks.into());
            }
        }
        assert_eq!(create(0, &[0]), Err(Cause::LengthMismatch { left: 0, right: 1 }));
        assert_eq!(create(4, &[2, 3]), Err(Cause::LengthMismatch { left: 4, right: 6 }));
        assert_eq!(
            (create(4, &[]), create(1, &[])),
            (Err(Cause::LengthMismatch { left: 4, right: 1 }), Ok(std::vec![]))
        );
    }

    proptest! {
        #[test]
        fn what_is_given_stays(ranks in 1..5000_u32, extents in prop::collection::vec(0..5_u32, 0..6)) {
            let given: u64 = extents.iter().filter(|&&extent| extent > 0).map(|&extent| u64::from(extent)).product();
            match create(ranks, &extents) {
                Ok(chosen) => {
                    let product: u64 = chosen.iter().map(|&extent| u64::from(extent)).product();
                    prop_assert_eq!(product, u64::from(ranks));
                    for (given, chosen) in extents.iter().zip(&chosen) {
                        prop_assert!(*given == 0 || given == chosen);
                    }
                    let free = extents.iter().zip(&chosen).filter(|(given, _)| **given == 0).map(|(_, chosen)| *chosen);
                    let free: Vec<u32> = free.collect();
                    prop_assert_eq!(Some(free.clone()), best(free.iter().product(), free.len()));
                }
                Err(cause) => {
                    prop_assert_eq!(cause, Cause::LengthMismatch { left: ranks.into(), right: given });
                    let all_given = !extents.contains(&0);
                    prop_assert!(!u64::from(ranks).is_multiple_of(given) || (all_given && given != u64::from(ranks)));
                }
            }
        }
    }
}
