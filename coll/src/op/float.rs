//! `f32` and `f64`.

use super::{Max, Min, Product, Reduce, Sum};

/// An operation whose NaNs are made one afterwards.
macro_rules! arithmetic {
    ($operation:ty: $($float:ty)+ => |$left:ident, $right:ident| $result:expr) => {$(
        impl Reduce<$float> for $operation {
            const COMMUTES: bool = true;

            #[inline]
            fn reduce($left: $float, $right: $float) -> $float {
                ($result).canonical()
            }

            #[inline]
            fn reduce_all(into: &mut [$float], from: &[$float]) {
                in_blocks(into, from, |$left, $right| $result);
            }
        }
    )+};
}

/// Combines two slices in blocks, and makes the NaNs of a block one if there are any: to look for
/// them costs less than to choose for each element (doubles in cache, AMD EPYC: 51 GB/s, and 29 in
/// one loop).
#[inline]
pub(super) fn in_blocks<C: Canonical>(into: &mut [C], from: &[C], combine: impl Fn(C, C) -> C) {
    let ((blocks, rest), (others, last)) = (into.as_chunks_mut::<BLOCK>(), from.as_chunks::<BLOCK>());
    for (into, from) in blocks.iter_mut().zip(others) {
        let mut has_nan = false;
        for (into, from) in into.iter_mut().zip(from) {
            *into = combine(*into, *from);
            has_nan |= into.is_unordered();
        }
        if has_nan {
            into.iter_mut().for_each(|value| *value = value.canonical());
        }
    }
    rest.iter_mut().zip(last).for_each(|(into, from)| *into = combine(*into, *from).canonical());
}

/// Elements of a block.
const BLOCK: usize = 64;

/// A type that can hold a NaN.
pub(super) trait Canonical: Copy {
    /// Returns true if it holds a NaN.
    fn is_unordered(self) -> bool;
    /// Returns the value with every NaN replaced by the positive quiet one without a payload.
    fn canonical(self) -> Self;
}

/// The order of IEEE 754-2019, in forms without branches, which vectorise as compares and blends.
pub(super) trait Ordered: Copy {
    /// `minimum`.
    fn least(self, other: Self) -> Self;
    /// `maximum`.
    fn most(self, other: Self) -> Self;
}

macro_rules! float {
    ($float:ident, $quiet_nan:literal) => {
        impl Canonical for $float {
            #[inline]
            fn is_unordered(self) -> bool {
                self.is_nan()
            }

            #[inline]
            fn canonical(self) -> Self {
                if self.is_nan() { $float::from_bits($quiet_nan) } else { self }
            }
        }

        impl Ordered for $float {
            #[inline]
            fn least(self, other: Self) -> Self {
                // Equal bits, or the two zeros: the sign of either makes the result negative.
                let equal = $float::from_bits(self.to_bits() | other.to_bits());
                let less = if self < other { self } else { other };
                let ordered = if self == other { equal } else { less };
                if self.is_nan() | other.is_nan() { $float::from_bits($quiet_nan) } else { ordered }
            }

            #[inline]
            fn most(self, other: Self) -> Self {
                let equal = $float::from_bits(self.to_bits() & other.to_bits());
                let more = if self > other { self } else { other };
                let ordered = if self == other { equal } else { more };
                if self.is_nan() | other.is_nan() { $float::from_bits($quiet_nan) } else { ordered }
            }
        }
    };
}

float!(f32, 0x7fc0_0000);
float!(f64, 0x7ff8_0000_0000_0000);

arithmetic!(Sum: f32 f64 => |left, right| left + right);
arithmetic!(Product: f32 f64 => |left, right| left * right);
reduce!(Min: f32 f64 => |left, right| left.least(right));
reduce!(Max: f32 f64 => |left, right| left.most(right));

#[cfg(test)]
mod tests;
