use core::mem::offset_of;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::op::tests::{agrees, operands};

#[test]
fn layouts_are_those_of_c() {
    assert_eq!((size_of::<FloatInt>(), offset_of!(FloatInt, index)), (8, 4));
    assert_eq!((size_of::<DoubleInt>(), offset_of!(DoubleInt, index)), (16, 8));
    assert_eq!((size_of::<LongInt>(), offset_of!(LongInt, index)), (16, 8));
    assert_eq!((size_of::<TwoInt>(), offset_of!(TwoInt, index)), (8, 4));
    assert_eq!((size_of::<ShortInt>(), offset_of!(ShortInt, index)), (8, 4));
}

/// The definition in the standard: the better value, and of equal ones the lower index.
macro_rules! defined {
    ($pair:ident, $better:tt) => {
        |left: $pair, right: $pair| {
            if left.value $better right.value {
                $pair::new(left.value, left.index)
            } else if right.value $better left.value {
                $pair::new(right.value, right.index)
            } else {
                $pair::new(left.value, if left.index < right.index { left.index } else { right.index })
            }
        }
    };
}

/// Pairs of which many are equal in value, with gaps of any bits.
macro_rules! integers {
    ($($pair:ident, $test:ident;)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
            #[test]
            fn $test((mut left, mut right) in operands::<$pair>(), few in any::<bool>()) {
                if few {
                    left.iter_mut().chain(&mut right).for_each(|pair| pair.value &= 1);
                }
                agrees::<MinLoc, _>(&left, &right, defined!($pair, <));
                agrees::<MaxLoc, _>(&left, &right, defined!($pair, >));
            }
        )+}
    };
}

integers! {
    TwoInt, two_int;
    LongInt, long_int;
    ShortInt, short_int;
}

/// The values that are ordered in an unusual way, and a few others.
const VALUES: [f64; 7] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn floating() -> impl Strategy<Value = DoubleInt> {
    (prop::sample::select(&VALUES[..]), -3..3_i32).prop_map(|(value, index)| DoubleInt::new(value, index))
}

/// The result for any number of pairs at once: any NaN, else the extreme value, the better of two
/// zeros; and the lowest index of those that are equal to it.
fn extreme(pairs: &[DoubleInt], is_least: bool) -> DoubleInt {
    let ordered =
        |value: &f64, other: &f64| if is_least { value.total_cmp(other) } else { other.total_cmp(value) };
    let unordered = pairs.iter().any(|pair| pair.value.is_nan());
    let value =
        if unordered { f64::NAN } else { pairs.iter().map(|pair| pair.value).min_by(ordered).unwrap() };
    let equal = |pair: &&DoubleInt| pair.value == value || pair.value.is_nan();
    let index = pairs.iter().filter(equal).map(|pair| pair.index).min().unwrap();
    DoubleInt::new(if unordered { f64::from_bits(0x7ff8_0000_0000_0000) } else { value }, index)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also with NaNs and zeros, in any grouping: the operation on three pairs either way is that
    /// on all at once.
    #[test]
    fn floats_are_as_ordered_and_associate(pairs in prop::collection::vec((floating(), floating(), floating()), 0..100)) {
        let (left, right): (Vec<_>, Vec<_>) = pairs.iter().map(|&(left, right, _)| (left, right)).unzip();
        agrees::<MinLoc, _>(&left, &right, |left, right| extreme(&[left, right], true));
        agrees::<MaxLoc, _>(&left, &right, |left, right| extreme(&[left, right], false));
        let same = |one: DoubleInt, other: DoubleInt| one.as_bytes() == other.as_bytes();
        for (a, b, c) in pairs {
            prop_assert!(same(MinLoc::reduce(MinLoc::reduce(a, b), c), extreme(&[a, b, c], true)));
            prop_assert!(same(MinLoc::reduce(a, MinLoc::reduce(b, c)), extreme(&[a, b, c], true)));
            prop_assert!(same(MaxLoc::reduce(MaxLoc::reduce(a, b), c), extreme(&[a, b, c], false)));
            prop_assert!(same(MaxLoc::reduce(a, MaxLoc::reduce(b, c)), extreme(&[a, b, c], false)));
            let (short, other) = (FloatInt::new(a.value as f32, a.index), FloatInt::new(b.value as f32, b.index));
            let wide = MinLoc::reduce(a, b);
            let found = MinLoc::reduce(short, other);
            prop_assert!(found == FloatInt::new(wide.value as f32, wide.index) || wide.value.is_nan() && found.value.is_nan());
        }
    }
}
