use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn run<R: Reduce<E>, E: Element>(into: &mut [E], from: &[E], order: Order) -> Result<(), Cause> {
    Kernel::of::<R, E>().run(into.as_mut_bytes(), from.as_bytes(), order)
}

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

#[test]
fn the_smaller_zero_is_the_negative_one() {
    for (left, right) in [(0.0f64, -0.0), (-0.0, 0.0)] {
        assert!(Min::reduce(left, right).is_sign_negative());
        assert!(Max::reduce(left, right).is_sign_positive());
    }
    assert!(Max::reduce(-0.0f32, -0.0).is_sign_negative());
}

#[test]
fn kernels_check_lengths_and_alignment() {
    let mut into = [1u32, 2, 3];
    assert_eq!(
        run::<Sum, _>(&mut into, &[1, 1], Order::IntoFirst),
        Err(Cause::LengthMismatch { left: 12, right: 8 })
    );
    let from = [0u8; 12];
    let into = into.as_mut_bytes();
    let kernel = Kernel::of::<Sum, u32>();
    assert!(matches!(
        kernel.run(&mut into[..3], &from[..3], Order::IntoFirst),
        Err(Cause::LengthMismatch { .. })
    ));
    assert_eq!(kernel.run(&mut into[1..5], &from[1..5], Order::IntoFirst), Err(Cause::Unaligned { need: 4 }));
}

/// Composition of affine maps x -> a x + b over u32: associative, does not commute.
#[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Affine {
    a: u32,
    b: u32,
}

struct Compose;
impl Reduce<Affine> for Compose {
    const COMMUTES: bool = false;
    fn reduce(left: Affine, right: Affine) -> Affine {
        Affine { a: left.a.wrapping_mul(right.a), b: left.a.wrapping_mul(right.b).wrapping_add(left.b) }
    }
}

#[test]
fn a_users_operation_on_a_users_type_keeps_its_order() {
    let (f, g) = (Affine { a: 2, b: 3 }, Affine { a: 5, b: 7 });
    let mut into = [f];
    run::<Compose, _>(&mut into, &[g], Order::IntoFirst).unwrap();
    assert_eq!(into, [Affine { a: 10, b: 17 }]);
    let mut into = [f];
    run::<Compose, _>(&mut into, &[g], Order::FromFirst).unwrap();
    assert_eq!(into, [Affine { a: 10, b: 22 }]);
}

fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), Just(0.0), Just(-0.0), Just(f32::NAN), Just(1.0)]
}

proptest! {
    /// Every operation on floats commutes to the last bit, NaNs included, and min and max associate.
    #[test]
    fn floats_commute_bitwise(a in any_f32(), b in any_f32(), c in any_f32()) {
        fn check<R: Reduce<f32>>(a: f32, b: f32) -> bool {
            R::reduce(a, b).to_bits() == R::reduce(b, a).to_bits()
        }
        prop_assert!(check::<Sum>(a, b) && check::<Product>(a, b) && check::<Min>(a, b) && check::<Max>(a, b));
        fn associates<R: Reduce<f32>>(a: f32, b: f32, c: f32) -> bool {
            let left = R::reduce(R::reduce(a, b), c);
            let right = R::reduce(a, R::reduce(b, c));
            left.to_bits() == right.to_bits()
        }
        prop_assert!(associates::<Min>(a, b, c) && associates::<Max>(a, b, c));
        prop_assert_eq!(Min::reduce(a, b).is_nan(), a.is_nan() || b.is_nan());
        if !a.is_nan() && !b.is_nan() {
            prop_assert_eq!(Min::reduce(a, b), a.min(b));
            prop_assert_eq!(Max::reduce(a, b), a.max(b));
        }
    }

    /// The loop over a slice, vectorised or not, gives the bits of the operation on each pair.
    #[test]
    fn loops_agree_with_single_pairs(pairs in prop::collection::vec((any_f32(), any_f32()), 0..70)) {
        let from: Vec<f32> = pairs.iter().map(|pair| pair.1).collect();
        for order in [Order::IntoFirst, Order::FromFirst] {
            let mut into: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
            run::<Min, _>(&mut into, &from, order).unwrap();
            let mut sums: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
            run::<Sum, _>(&mut sums, &from, order).unwrap();
            for ((least, sum), (a, b)) in into.iter().zip(&sums).zip(&pairs) {
                prop_assert_eq!(least.to_bits(), Min::reduce(*a, *b).to_bits());
                prop_assert_eq!(sum.to_bits(), Sum::reduce(*a, *b).to_bits());
            }
        }
    }
}

/// Numbers, infinities of both signs, whose sum is a NaN, and NaNs of any bits.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -1e3..1e3,
        1 => prop::sample::select(&[f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0][..]),
        1 => any::<u64>().prop_map(|bits| f64::from_bits(bits | 0x7ff0_0000_0000_0001)),
    ]
}

proptest! {
    /// In blocks as one by one, to the last bit, with the rest that fills no block.
    #[test]
    fn slices_are_combined_as_their_elements_are(pairs in prop::collection::vec((float(), float()), 0..300)) {
        let (left, right): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let same = |all: fn(&mut [f64], &[f64]), one: fn(f64, f64) -> f64| {
            let mut whole = left.clone();
            all(&mut whole, &right);
            let each = left.iter().zip(&right).map(|(left, right)| one(*left, *right).to_bits());
            whole.iter().map(|value| value.to_bits()).eq(each)
        };
        prop_assert!(same(Sum::reduce_all, Sum::reduce) && same(Product::reduce_all, Product::reduce));
        prop_assert!(same(Min::reduce_all, Min::reduce) && same(Max::reduce_all, Max::reduce));
    }
}
