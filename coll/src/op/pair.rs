//! Values with an index, and where the least and the largest of them are (MPI 4.1, 6.9.4).
//!
//! A pair has the layout of the C structure that MPI names it after, the gap included: an array of
//! C's can be reduced where it lies. The gap is a field here, because an
//! [`Element`](super::Element) has no padding; it is ignored, and zero in a result, so that equal
//! results have equal bits. MPI counts neither gap among a pair's bytes: a message packed by
//! datatype has none.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::float::{Canonical, Ordered};
use super::{MaxLoc, MinLoc, Reduce};

macro_rules! pair {
    ($(#[$meta:meta])* $name:ident, $value:ty, gaps $between:literal $after:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(C)]
        pub struct $name {
            value: $value,
            between: [u8; $between],
            index: i32,
            after: [u8; $after],
        }

        impl $name {
            /// A value, and where it is.
            pub const fn new(value: $value, index: i32) -> Self {
                Self { value, between: [0; $between], index, after: [0; $after] }
            }

            /// The value.
            pub const fn value(&self) -> $value {
                self.value
            }

            /// Returns the index of the value.
            pub const fn index(&self) -> i32 {
                self.index
            }
        }

        /// The gaps are not compared.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                (self.value, self.index) == (other.value, other.index)
            }
        }

        reduce!(MinLoc: $name => |left, right| {
            let value = left.value.least(right.value);
            $name::new(value, index_of(value, [left.value, right.value], [left.index, right.index]))
        });
        reduce!(MaxLoc: $name => |left, right| {
            let value = left.value.most(right.value);
            $name::new(value, index_of(value, [left.value, right.value], [left.index, right.index]))
        });
    };
}

pair!(
    /// MPI's `MPI_FLOAT_INT`.
    FloatInt, f32, gaps 0 0
);
pair!(
    /// MPI's `MPI_DOUBLE_INT`: 16 bytes, of which the last 4 are a gap.
    DoubleInt, f64, gaps 0 4
);
pair!(
    /// MPI's `MPI_2INT`.
    TwoInt, i32, gaps 0 0
);
pair!(
    /// MPI's `MPI_LONG_INT` where `long` has 64 bits: 16 bytes, of which the last 4 are a gap.
    /// Elsewhere it is [`TwoInt`].
    LongInt, i64, gaps 0 4
);
pair!(
    /// MPI's `MPI_SHORT_INT`: 8 bytes, with a gap of 2 after the value.
    ShortInt, i16, gaps 2 0
);

/// The lower index of those whose value is the result, as MPI says. A NaN is the result if there is
/// one, and any is equal to it; so are the two zeros to each other.
#[inline]
fn index_of<V: Canonical + PartialEq>(result: V, values: [V; 2], indices: [i32; 2]) -> i32 {
    let is_result = |value: V| (value == result) | (value.is_unordered() & result.is_unordered());
    let ([left, right], [at, there]) = (values.map(is_result), indices);
    if left & right {
        at.min(there)
    } else if left {
        at
    } else {
        there
    }
}

macro_rules! integer {
    ($($integer:ty)+) => {$(
        impl Canonical for $integer {
            #[inline]
            fn is_unordered(self) -> bool {
                false
            }

            #[inline]
            fn canonical(self) -> Self {
                self
            }
        }

        impl Ordered for $integer {
            #[inline]
            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline]
            fn most(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )+};
}

integer!(i16 i32 i64);

#[cfg(test)]
mod tests;
