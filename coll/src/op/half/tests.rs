use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::op::tests::{agrees, operands};

/// Every value of 16 bits widens as the crate `half` has it; NaNs stay NaNs.
#[test]
fn widening_is_exact() {
    for bits in 0..=u16::MAX {
        let (value, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
        for (wide, expected) in [(value.widen(), value.to_f32()), (brain.widen(), brain.to_f32())] {
            assert!(wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan(), "{bits:#x}");
        }
    }
}

/// Returns the bits that `half` rounds to, or the canonical NaN.
fn rounded<H: Half>(value: f32, nearest: H) -> u16 {
    if value.is_nan() { H::QUIET } else { nearest.bits() }
}

fn rounds(value: f32) -> bool {
    f16::narrow(value).bits() == rounded(value, f16::from_f32(value))
        && bf16::narrow(value).bits() == rounded(value, bf16::from_f32(value))
}

/// Every boundary between two values of 16 bits, and what is next to it.
#[test]
fn ties_go_to_the_even_one() {
    for bits in 0..=u16::MAX {
        let (value, brain) =
            (f16::from_bits(bits).widen().to_bits(), bf16::from_bits(bits).widen().to_bits());
        // Half a unit of a normal number; for subnormals the same distance is a whole number of
        // their units or a tie.
        for bits in [
            value,
            value + 0xfff,
            value + 0x1000,
            value + 0x1001,
            brain,
            brain + 0x7fff,
            brain + 0x8000,
            brain + 0x8001,
        ] {
            assert!(rounds(f32::from_bits(bits)), "{bits:#x}");
        }
    }
    for tie in 0..1024 {
        let between = (tie as f32 + 0.5) * f32::from_bits(0x3380_0000);
        for value in [between.next_down(), between, between.next_up()] {
            assert!(rounds(value) && rounds(-value), "{value:e}");
        }
    }
}

/// The value nearest to what `f64` has exactly, of two the even one: by distance, among the
/// neighbours of what `narrow` says. (`from_f64` of the crate `half` drops the lower half of the
/// number, and takes what is just above a tie for one.)
fn nearest<H: Half>(exact: f64) -> H {
    if exact.is_nan() {
        return H::of_bits(H::QUIET);
    }
    let wide = |bits: u16| f64::from(H::of_bits(bits).widen());
    // What follows the largest number stands in for infinity, which is that far off when it comes
    // to rounding.
    let place = |bits: u16| {
        if bits == H::INFINITE { 2.0 * wide(bits - 1) - wide(bits - 2) } else { wide(bits) }
    };
    let about = H::narrow(exact.abs() as f32).bits();
    let candidates = about.saturating_sub(1)..=(about + 1).min(H::INFINITE);
    let distance = |bits: &u16| (exact.abs().min(f64::MAX) - place(*bits)).abs();
    let better =
        |one: &u16, other: &u16| distance(one).total_cmp(&distance(other)).then((one & 1).cmp(&(other & 1)));
    let sign = if exact.is_sign_negative() { 0x8000 } else { 0 };
    H::of_bits(candidates.min_by(better).unwrap_or(about) | sign)
}

/// The order of the values as `f64`, and of the signs of zeros.
fn chosen<H: Half>(left: H, right: H, first: bool) -> H {
    let (wide, other) = (left.widen(), right.widen());
    if wide.is_nan() || other.is_nan() {
        return H::of_bits(H::QUIET);
    }
    if wide.total_cmp(&other).is_lt() == first { left } else { right }
}

macro_rules! halves {
    ($($half:ident)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(
            #[test]
            fn $half((left, right) in operands::<$half>()) {
                let wide = |value: $half| value.to_f64();
                agrees::<Sum, _>(&left, &right, |left, right| nearest(wide(left) + wide(right)));
                agrees::<Product, _>(&left, &right, |left, right| nearest(wide(left) * wide(right)));
                for (&left, &right) in left.iter().zip(&right) {
                    let (sum, product) = (Sum::reduce(left, right), Product::reduce(left, right));
                    prop_assert_eq!(sum.to_bits(), nearest::<$half>(wide(left) + wide(right)).to_bits());
                    prop_assert_eq!(product.to_bits(), nearest::<$half>(wide(left) * wide(right)).to_bits());
                }
                agrees::<Min, _>(&left, &right, |left, right| chosen(left, right, true));
                agrees::<Max, _>(&left, &right, |left, right| chosen(left, right, false));
            }
        )+

            #[test]
            fn numbers_are_rounded_to_the_nearest(bits in prop::collection::vec(any::<u32>(), 0..200)) {
                let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
                prop_assert!(values.into_iter().all(rounds));
            }
        }
    };
}

halves!(f16 bf16);
