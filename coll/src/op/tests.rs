//! The common part of the tests of all kinds of elements, and the operations that are for all of
//! them.

use core::fmt::Debug;
use std::vec::Vec;

use aldis_kernel::vector::Width;
use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::kernel::PairwiseLoop;
use super::{Bool, DoubleInt, Element, Kernel, NoOp, Or, Reduce, Replace, Xor};
use crate::op::And;
use crate::schedule::Order;

/// Checks that the operation's loops, in either order, give the bits of `oracle` for every pair of
/// elements, and the same bits with the operands exchanged if it is said to commute, and in vectors
/// of any width.
pub(super) fn agrees<R: Reduce<E>, E: Element>(left: &[E], right: &[E], oracle: impl Fn(E, E) -> E) {
    let run = |into: &[E], from: &[E], order| {
        let mut into = into.to_vec();
        Kernel::of::<R, E>().run(into.as_mut_slice().as_mut_bytes(), from.as_bytes(), order).unwrap();
        into.as_slice().as_bytes().to_vec()
    };
    let expected: Vec<E> = left.iter().zip(right).map(|(&left, &right)| oracle(left, right)).collect();
    let expected = expected.as_slice().as_bytes();
    assert_eq!(run(left, right, Order::IntoFirst), expected);
    assert_eq!(run(right, left, Order::FromFirst), expected);
    if R::COMMUTES {
        assert_eq!(run(right, left, Order::IntoFirst), expected);
    }
    for width in Width::all() {
        let mut into = left.to_vec();
        width.run(PairwiseLoop::<R, E>::new(&mut into, right));
        assert_eq!(into.as_slice().as_bytes(), expected, "{}", width.name());
    }
}

/// Two slices of up to some hundred elements of any bits, most of which fill no whole number of
/// vectors.
pub(super) fn operands<E: Element + Debug>() -> impl Strategy<Value = (Vec<E>, Vec<E>)> {
    let words = || prop::collection::vec(any::<u64>(), 0..300 * size_of::<E>() / 8);
    let elements = |words: Vec<u64>| {
        let bytes = words.as_slice().as_bytes().chunks_exact(size_of::<E>());
        bytes.map(|bytes| E::read_from_bytes(bytes).unwrap()).collect::<Vec<E>>()
    };
    (words(), words()).prop_map(move |(left, right)| {
        let (mut left, mut right) = (elements(left), elements(right));
        let count = left.len().min(right.len());
        left.truncate(count);
        right.truncate(count);
        (left, right)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For all elements alike.
    #[test]
    fn to_replace_is_to_take_the_right_and_to_do_nothing_the_left(
        (left, right) in operands::<i16>(), (pairs, others) in operands::<DoubleInt>(),
    ) {
        agrees::<Replace, _>(&left, &right, |_, right| right);
        agrees::<NoOp, _>(&left, &right, |left, _| left);
        agrees::<Replace, _>(&pairs, &others, |_, right| right);
        agrees::<NoOp, _>(&pairs, &others, |left, _| left);
    }

    /// Truth values are combined as by C's operators, whatever the bytes.
    #[test]
    fn truth_is_as_in_c((left, right) in operands::<Bool>()) {
        agrees::<And, _>(&left, &right, |left, right| (left.is_true() && right.is_true()).into());
        agrees::<Or, _>(&left, &right, |left, right| (left.is_true() || right.is_true()).into());
        agrees::<Xor, _>(&left, &right, |left, right| (left != right).into());
    }
}
