//! Reductions: operations as types, typed by what they can be applied to.
//!
//! `Sum` on `f64` is an implementation of [`Reduce<f64>`]; `BitAnd` on `f64` has none and does not
//! compile. Which operation goes with which type is MPI 4.1's table of them (6.9.2):
//!
//! | operation | integers | `f32` `f64` `f16` `bf16` | [`Complex`] | [`Bool`] | pairs |
//! |---|---|---|---|---|---|
//! | [`Sum`], [`Product`] | wrap around | IEEE 754, to nearest | by parts, as in algebra | - | - |
//! | [`Min`], [`Max`] | yes | `minimum`, `maximum` of IEEE 754-2019 | - | - | - |
//! | [`And`], [`Or`], [`Xor`] | as in C: the result is 0 or 1 | - | - | yes | - |
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | yes | - | - | - | - |
//! | [`MinLoc`], [`MaxLoc`] | - | - | - | - | of equal values the lower index |
//! | [`Replace`], [`NoOp`] | yes | yes | yes | yes | yes |
//!
//! Integers are `i8` to `i64` and `u8` to `u64`; MPI's byte is `u8`. `f16` and `bf16` are the types
//! of the crate `half`, behind this crate's feature `half`: they are added and multiplied in `f32`,
//! and each result is rounded. Pairs are [`FloatInt`], [`DoubleInt`], [`LongInt`], [`TwoInt`] and
//! [`ShortInt`].
//!
//! An operation of one's own is a unit struct with its own implementation, commutative or not, on
//! any plain [`Element`]; one that is known only when the program runs is a [`Function`].
//!
//! ```
//! # use aldis_coll::op::{BitAnd, Kernel};
//! let kernel = Kernel::of::<BitAnd, u64>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{BitAnd, Kernel};
//! let kernel = Kernel::of::<BitAnd, f64>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{And, Kernel};
//! let kernel = Kernel::of::<And, f32>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{Complex, Kernel, Max};
//! let kernel = Kernel::of::<Max, Complex<f64>>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{Bool, Kernel, Sum};
//! let kernel = Kernel::of::<Sum, Bool>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{Kernel, MinLoc};
//! let kernel = Kernel::of::<MinLoc, f64>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{DoubleInt, Kernel, Min};
//! let kernel = Kernel::of::<Min, DoubleInt>();
//! ```
//!
//! **The same bits.** A NaN result is the canonical quiet NaN (positive, no payload), any NaN makes
//! a minimum or maximum one, -0 is below +0, no product is fused with a sum, and subnormals are
//! kept. So every operation here but `Replace` and `NoOp` commutes to the last bit: two ranks that
//! combine the same pair have the same result whichever operand each calls its own, on any target.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A type of elements: plain data without padding, for which every bit pattern is a value.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy + 'static {}

impl<E: FromBytes + IntoBytes + Immutable + Copy + 'static> Element for E {}

/// An associative operation on two elements.
///
/// Implemented for types, not values: the operation is known when the program is compiled, so that
/// its loop is compiled for it alone and vectorised. The same types must be used on every rank.
pub trait Reduce<E: Element> {
    /// True if `reduce(a, b)` and `reduce(b, a)` have the same bits. If not, only algorithms that
    /// keep the order of ranks are used.
    const COMMUTES: bool;

    /// Combines two elements; `left` comes from lower ranks where the algorithm keeps rank order.
    fn reduce(left: E, right: E) -> E;

    /// Combines the elements of two slices of one length into the first, the left one, each as
    /// [`reduce`](Self::reduce) does.
    #[inline]
    fn reduce_all(into: &mut [E], from: &[E]) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into = Self::reduce(*into, *from));
    }
}

/// Addition.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sum;
/// Multiplication.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Product;
/// The smallest.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Min;
/// The largest.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Max;
/// Bitwise and.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BitAnd;
/// Bitwise or.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BitOr;
/// Bitwise exclusive or.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BitXor;
/// Logical and.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct And;
/// Logical or.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Or;
/// Logical exclusive or.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Xor;

/// Of pairs, the smallest value and where it is.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MinLoc;
/// Of pairs, the largest value and where it is.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MaxLoc;
/// The right one: of a whole communicator, that of the last rank. Does not commute.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Replace;
/// The left one, unchanged: of a whole communicator, that of the first rank. Does not commute.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoOp;

impl<E: Element> Reduce<E> for Replace {
    const COMMUTES: bool = false;

    #[inline]
    fn reduce(_left: E, right: E) -> E {
        right
    }
}

impl<E: Element> Reduce<E> for NoOp {
    const COMMUTES: bool = false;

    #[inline]
    fn reduce(left: E, _right: E) -> E {
        left
    }
}

/// Implements an operation that commutes.
macro_rules! reduce {
    ($operation:ty: $($element:ty)+ => |$left:ident, $right:ident| $result:expr) => {$(
        impl Reduce<$element> for $operation {
            const COMMUTES: bool = true;

            #[inline]
            fn reduce($left: $element, $right: $element) -> $element {
                $result
            }
        }
    )+};
}

mod complex;
mod float;
#[cfg(feature = "half")]
mod half;
mod integer;
mod kernel;
mod logical;
mod pair;

#[cfg(feature = "half")]
pub use ::half::{bf16, f16};
pub use complex::Complex;
pub use kernel::{Function, Kernel};
pub use logical::Bool;
pub use pair::{DoubleInt, FloatInt, LongInt, ShortInt, TwoInt};

pub(crate) use kernel::{combine, copy, publish};

#[cfg(test)]
mod tests;
