//! Type signatures: the sequence of basic types, boiled down to a few numbers.

use super::Basic;

/// A prime, so that no structure of a sequence (as with a power of two) makes hashes collide: the
/// Mersenne prime 2^61 - 1.
const MODULUS: u64 = (1 << 61) - 1;
/// The base of the polynomial: an arbitrary odd number below the modulus (the golden ratio's bits).
const BASE: u64 = 0x1e37_79b9_7f4a_7c15;

/// The signature of a message (MPI 4.1, 5.1: the type map without its displacements, and the same
/// on every machine, whatever its widths): how many basic elements, and a polynomial hash (Karp and
/// Rabin, 1987) of their sequence. Two messages whose signatures differ do not match; equal ones
/// match but for a chance of about elements / 2^61.
///
/// The hash of a concatenation follows from the hashes of its parts, so a signature of any count
/// costs O(log count).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Signature {
    elements: u64,
    hash: u64,
    /// The base to the power of `elements`.
    shift: u64,
    /// The one type that all elements are of.
    uniform: Option<Basic>,
}

/// Bits of a folded signature that count elements, where one type is all that there is besides.
const COUNT_BITS: u32 = 24;

impl Signature {
    /// The signature of nothing.
    pub const EMPTY: Self = Self { elements: 0, hash: 0, shift: 1, uniform: None };

    /// All-zero: the signature of a slot that is free, never of a type.
    pub(super) const UNUSED: Self = Self { elements: 0, hash: 0, shift: 0, uniform: None };

    #[inline]
    pub(super) const fn of(basic: Basic) -> Self {
        let basic = basic.in_messages();
        Self { elements: 1, hash: basic.code() as u64, shift: BASE, uniform: Some(basic) }
    }

    /// Basic elements in the sequence.
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// The hash of the sequence, below 2^61.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The one basic type that all elements are of, if there is one.
    pub(super) const fn uniform(&self) -> Option<Basic> {
        self.uniform
    }

    /// The signature in 32 bits, as messages carry it: of elements that are all of one type, that
    /// type and how many they are, which of most messages is known without a hash; of others the
    /// hash.
    pub(crate) const fn folded(&self) -> u32 {
        match self.uniform {
            Some(basic) => folded(basic.code() as u32, self.elements),
            None => (self.hash ^ (self.hash >> 32)) as u32,
        }
    }

    /// Returns what [`folded`](Self::folded) is of `count` such sequences.
    pub(super) fn repeated(&self, count: u64) -> u32 {
        match self.uniform {
            Some(basic) => folded(basic.code() as u32, self.elements.wrapping_mul(count)),
            None => self.repeat(count).folded(),
        }
    }

    /// The signature of this sequence with `other` behind it.
    #[must_use]
    pub fn then(self, other: Self) -> Self {
        if self == Self::EMPTY {
            return other;
        }
        let hash = reduced(times(self.hash, other.shift) + other.hash);
        let elements = self.elements.wrapping_add(other.elements);
        let uniform = if other == Self::EMPTY || self.uniform == other.uniform { self.uniform } else { None };
        Self { elements, hash, shift: times(self.shift, other.shift), uniform }
    }

    /// The signature of `count` such sequences, one behind the other.
    #[must_use]
    pub fn repeat(self, mut count: u64) -> Self {
        let (mut all, mut power) = (Self::EMPTY, self);
        loop {
            if count & 1 == 1 {
                all = all.then(power);
            }
            count >>= 1;
            if count == 0 {
                return all;
            }
            power = power.then(power);
        }
    }
}

/// The folded signature of so many elements that are of the basic type of this code in messages.
#[inline]
pub(super) const fn folded(code: u32, elements: u64) -> u32 {
    code << COUNT_BITS | elements as u32 & ((1 << COUNT_BITS) - 1)
}

/// The product of two numbers below the modulus. A power of two that is 1 by the modulus divides by
/// it: the high bits are added to the low ones. A division of 128 bits is a call that takes tens of
/// nanoseconds.
fn times(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    let (high, low) = ((product >> 61) as u64, product as u64 & MODULUS);
    reduced(high + low)
}

/// A number below twice the modulus by the modulus.
const fn reduced(number: u64) -> u64 {
    if number >= MODULUS { number - MODULUS } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_is_a_concatenation() {
        let pair = Signature::of(Basic::F64).then(Signature::of(Basic::I32));
        let mut seven = Signature::EMPTY;
        (0..7).for_each(|_| seven = seven.then(pair));
        assert_eq!(pair.repeat(7), seven);
        assert_eq!(pair.repeat(0), Signature::EMPTY);
        assert_eq!(seven.elements(), 14);
    }

    #[test]
    fn products_are_those_of_a_division() {
        let divided = |left: u64, right: u64| u128::from(left) * u128::from(right) % u128::from(MODULUS);
        let edges = [0, 1, 2, BASE, 1 << 60, MODULUS / 2, MODULUS - 2, MODULUS - 1];
        for (left, right) in edges.into_iter().flat_map(|left| edges.map(|right| (left, right))) {
            assert_eq!(u128::from(times(left, right)), divided(left, right), "{left} {right}");
        }
        let mut number = BASE;
        for _ in 0..10_000 {
            let next = times(number, BASE);
            assert_eq!(u128::from(next), divided(number, BASE));
            number = next;
        }
    }

    #[test]
    fn order_and_kind_count() {
        let (left, right) = (Signature::of(Basic::F64), Signature::of(Basic::I64));
        assert_ne!(left.then(right), right.then(left));
        assert_ne!(left, right);
        assert_ne!(left.repeat(2), left.repeat(3));
    }

    #[test]
    fn elements_of_one_type_are_known_for_that() {
        let (floats, words) = (Signature::of(Basic::F32).repeat(6), Signature::of(Basic::U64));
        let two = Signature::of(Basic::F32).then(Signature::of(Basic::F32));
        assert_eq!((floats.uniform(), floats.then(words).uniform()), (Some(Basic::F32), None));
        for same in [two.repeat(3), Signature::EMPTY.then(floats), floats.then(Signature::EMPTY)] {
            assert_eq!((same, same.folded()), (floats, two.repeated(3)));
        }
        let mixed = floats.then(words);
        assert_eq!(mixed.repeated(5), mixed.repeat(5).folded());
        let others = Basic::ALL.into_iter().filter(|basic| basic.in_messages() == *basic);
        let all: std::vec::Vec<_> = others.map(|basic| Signature::of(basic).repeat(3).folded()).collect();
        assert!((0..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
        assert_eq!(Signature::of(Basic::Long), Signature::of(Basic::I64));
    }
}
