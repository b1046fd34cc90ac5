use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::op::tests::agrees;

/// Parts: numbers, infinities, which make NaNs of products, zeros of both signs, and anything.
fn part() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e3..1e3,
        1 => prop::sample::select(&[f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0][..]),
        1 => prop::num::f64::ANY,
    ]
}

fn canonical(re: f64, im: f64) -> Complex<f64> {
    let quiet = |part: f64| if part.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { part };
    Complex::new(quiet(re), quiet(im))
}

fn short(number: Complex<f64>) -> Complex<f32> {
    Complex::new(number.re() as f32, number.im() as f32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The formulas part by part; exchanged operands give the same bits, which `agrees` looks at.
    #[test]
    fn operations(parts in prop::collection::vec((part(), part(), part(), part()), 0..200)) {
        let (left, right): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|(a, b, c, d)| (Complex::new(a, b), Complex::new(c, d))).unzip();
        agrees::<Sum, _>(&left, &right, |left, right| {
            canonical(left.re() + right.re(), left.im() + right.im())
        });
        agrees::<Product, _>(&left, &right, |left, right| {
            let (a, b, c, d) = (left.re(), left.im(), right.re(), right.im());
            canonical(a * c - b * d, a * d + b * c)
        });
        let (left, right): (Vec<_>, Vec<_>) = left.into_iter().zip(right).map(|(left, right)| (short(left), short(right))).unzip();
        let quiet = |part: f32| if part.is_nan() { f32::from_bits(0x7fc0_0000) } else { part };
        agrees::<Sum, _>(&left, &right, |left, right| {
            Complex::new(quiet(left.re() + right.re()), quiet(left.im() + right.im()))
        });
        agrees::<Product, _>(&left, &right, |left, right| {
            let (a, b, c, d) = (left.re(), left.im(), right.re(), right.im());
            Complex::new(quiet(a * c - b * d), quiet(a * d + b * c))
        });
    }
}

#[test]
fn i_squared_is_minus_one() {
    let i = Complex::new(0.0_f32, 1.0);
    assert_eq!(Product::reduce(i, i), Complex::new(-1.0, 0.0));
    assert_eq!((size_of::<Complex<f64>>(), align_of::<Complex<f64>>()), (16, align_of::<f64>()));
}
