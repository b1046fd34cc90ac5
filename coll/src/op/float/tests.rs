use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::op::tests::agrees;

#[test]
fn the_smaller_zero_is_the_negative_one() {
    for (left, right) in [(0.0f64, -0.0), (-0.0, 0.0)] {
        assert!(Min::reduce(left, right).is_sign_negative());
        assert!(Max::reduce(left, right).is_sign_positive());
    }
    assert!(Max::reduce(-0.0f32, -0.0).is_sign_negative());
}

macro_rules! floats {
    ($($float:ident, $quiet_nan:literal;)+) => {$(
        mod $float {
            use super::*;

            /// Numbers, zeros, infinities whose sum is a NaN, subnormals, and NaNs of any bits.
            fn any() -> impl Strategy<Value = $float> {
                let unlike = [$float::INFINITY, $float::NEG_INFINITY, 0.0, -0.0, $float::MIN_POSITIVE / 4.0, $float::MAX];
                prop_oneof![
                    6 => -1e3 as $float..1e3,
                    3 => prop::num::$float::ANY,
                    2 => prop::sample::select(unlike.to_vec()),
                    1 => prop::num::$float::QUIET_NAN | prop::num::$float::SIGNALING_NAN,
                ]
            }

            fn canonical(value: $float) -> $float {
                if value.is_nan() { $float::from_bits($quiet_nan) } else { value }
            }

            /// The first in the total order of IEEE 754, and a NaN for any.
            fn chosen(left: $float, right: $float, first: bool) -> $float {
                if left.is_nan() || right.is_nan() {
                    return $float::from_bits($quiet_nan);
                }
                if left.total_cmp(&right).is_lt() == first { left } else { right }
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(64))]

                /// Every operation on pairs and in loops, with rests that fill no block, to the
                /// last bit.
                #[test]
                fn operations(pairs in prop::collection::vec((any(), any()), 0..300)) {
                    let (left, right): (Vec<$float>, Vec<$float>) = pairs.into_iter().unzip();
                    agrees::<Sum, _>(&left, &right, |left, right| canonical(left + right));
                    agrees::<Product, _>(&left, &right, |left, right| canonical(left * right));
                    agrees::<Min, _>(&left, &right, |left, right| chosen(left, right, true));
                    agrees::<Max, _>(&left, &right, |left, right| chosen(left, right, false));
                    for (&left, &right) in left.iter().zip(&right) {
                        prop_assert_eq!(Sum::reduce(left, right).to_bits(), canonical(left + right).to_bits());
                        prop_assert_eq!(Product::reduce(left, right).to_bits(), canonical(left * right).to_bits());
                    }
                }

                #[test]
                fn minimum_and_maximum_associate(a in any(), b in any(), c in any()) {
                    fn associates<R: Reduce<$float>>(a: $float, b: $float, c: $float) -> bool {
                        R::reduce(R::reduce(a, b), c).to_bits() == R::reduce(a, R::reduce(b, c)).to_bits()
                    }
                    prop_assert!(associates::<Min>(a, b, c) && associates::<Max>(a, b, c));
                }
            }
        }
    )+};
}

floats! {
    f32, 0x7fc0_0000;
    f64, 0x7ff8_0000_0000_0000;
}
