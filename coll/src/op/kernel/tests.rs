use zerocopy::{Immutable, IntoBytes};

use super::*;
use crate::op::Sum;

fn run<R: Reduce<E>, E: Element>(into: &mut [E], from: &[E], order: Order) -> Result<(), Cause> {
    Kernel::of::<R, E>().run(into.as_mut_bytes(), from.as_bytes(), order)
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

/// `2 right - left` on bytes, and `token` added: neither associative nor commutative, and called
/// with the token it was made with.
const UNLIKE: Function = |token, into, from, order| {
    for (into, &from) in into.iter_mut().zip(from) {
        let (left, right) = if order == Order::IntoFirst { (*into, from) } else { (from, *into) };
        *into = right.wrapping_mul(2).wrapping_sub(left).wrapping_add(token as u8);
    }
    Ok(())
};

#[test]
fn a_function_hears_its_token_and_the_order() {
    let kernel = Kernel::of_function(UNLIKE, 100, NonZeroU32::MIN, false);
    assert_eq!((kernel.element_bytes(), kernel.commutes()), (1, false));
    let mut into = [7, 9];
    kernel.run(&mut into, &[1, 2], Order::IntoFirst).unwrap();
    assert_eq!(into, [95, 95]);
    kernel.run(&mut into, &[1, 2], Order::FromFirst).unwrap();
    assert_eq!(into, [33, 32]);
}
