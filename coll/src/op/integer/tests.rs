use proptest::prelude::*;

use super::*;
use crate::op::tests::{agrees, operands};

#[test]
fn integers_wrap() {
    assert_eq!(Sum::reduce(i8::MAX, 1), i8::MIN);
    assert_eq!(Sum::reduce(u64::MAX, 2), 1);
    assert_eq!(Product::reduce(i32::MIN, -1), i32::MIN);
}

#[test]
fn logical_operations_give_zero_or_one() {
    assert_eq!([And::reduce(6u8, 1), And::reduce(6u8, 0)], [1, 0]);
    assert_eq!([Or::reduce(-6i16, 0), Or::reduce(0i16, 0)], [1, 0]);
    assert_eq!([Xor::reduce(6u32, 1), Xor::reduce(6u32, 0)], [0, 1]);
}

macro_rules! against_wide_arithmetic {
    ($($integer:ident)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
            /// Every operation, beside 128-bit arithmetic cut to the width.
            #[test]
            fn $integer((left, right) in operands::<$integer>()) {
                let cut = |wide: fn(i128, i128) -> i128| {
                    move |left: $integer, right: $integer| wide(left.into(), right.into()) as $integer
                };
                let truth = |truth: fn(bool, bool) -> bool| {
                    move |left: $integer, right: $integer| $integer::from(truth(left != 0, right != 0))
                };
                agrees::<Sum, _>(&left, &right, cut(|left, right| left + right));
                agrees::<Product, _>(&left, &right, cut(|left, right| left.wrapping_mul(right)));
                agrees::<Min, _>(&left, &right, cut(|left, right| if left < right { left } else { right }));
                agrees::<Max, _>(&left, &right, cut(|left, right| if left < right { right } else { left }));
                agrees::<BitAnd, _>(&left, &right, cut(|left, right| !(!left | !right)));
                agrees::<BitOr, _>(&left, &right, cut(|left, right| !(!left & !right)));
                agrees::<BitXor, _>(&left, &right, cut(|left, right| (left | right) & !(left & right)));
                agrees::<And, _>(&left, &right, truth(|left, right| left && right));
                agrees::<Or, _>(&left, &right, truth(|left, right| left || right));
                agrees::<Xor, _>(&left, &right, truth(|left, right| left != right));
            }
        )+}
    };
}

against_wide_arithmetic!(i8 i16 i32 i64 u8 u16 u32 u64);
