//! Reductions: operations as types, typed by what they can be applied to.
//!
//! `Sum` on `f64` is an implementation of [`Reduce<f64>`]; `BitAnd` on `f64` has none and does not compile. A user's
//! own operation is a unit struct with its own implementation, and its own element type is any plain
//! [`Element`], so value-index pairs need nothing new.
//!
//! | operation | integers | floating point |
//! |---|---|---|
//! | [`Sum`], [`Product`] | wrap around at the type's width | IEEE 754, round to nearest; a NaN result is the canonical quiet NaN |
//! | [`Min`], [`Max`] | - | `minimum` and `maximum` of IEEE 754-2019: any NaN gives the canonical NaN, -0 is below +0 |
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | bitwise | do not compile |
//! | [`And`], [`Or`], [`Xor`] | logical as in C: nonzero is true, the result is 0 or 1 | do not compile |
//!
//! ```
//! # use aldis_coll::op::{BitAnd, Kernel};
//! let kernel = Kernel::of::<BitAnd, u64>();
//! ```
//! ```compile_fail,E0277
//! # use aldis_coll::op::{BitAnd, Kernel};
//! let kernel = Kernel::of::<BitAnd, f64>();
//! ```
//!
//! With canonical NaNs every operation here commutes to the last bit, so that two ranks that combine the same pair
//! have the same result whichever operand each calls its own.

use aldis_kernel::hal::Cause;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::schedule::Order;

/// What can be an element: plain data without padding, for which every bit pattern is a value.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy + 'static {}

impl<E: FromBytes + IntoBytes + Immutable + Copy + 'static> Element for E {}

/// An associative operation on two elements.
///
/// Implemented for types, not values: the operation is known when the program is compiled, so that its loop is
/// compiled for it alone and vectorised. The same types must be used on every rank.
pub trait Reduce<E: Element> {
    /// Whether `reduce(a, b)` and `reduce(b, a)` have the same bits. If not, only algorithms that keep the order of
    /// ranks are used.
    const COMMUTES: bool;

    /// Combines two elements; `left` comes from lower ranks where the algorithm keeps rank order.
    fn reduce(left: E, right: E) -> E;

    /// Combines the elements of two slices of one length into the first, the left one, each as [`reduce`](Self::reduce) does.
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

macro_rules! integers {
    ($($element:ty)+) => {
        reduce!(Sum: $($element)+ => |left, right| left.wrapping_add(right));
        reduce!(Product: $($element)+ => |left, right| left.wrapping_mul(right));
        reduce!(Min: $($element)+ => |left, right| left.min(right));
        reduce!(Max: $($element)+ => |left, right| left.max(right));
        reduce!(BitAnd: $($element)+ => |left, right| left & right);
        reduce!(BitOr: $($element)+ => |left, right| left | right);
        reduce!(BitXor: $($element)+ => |left, right| left ^ right);
        reduce!(And: $($element)+ => |left, right| ((left != 0) & (right != 0)).into());
        reduce!(Or: $($element)+ => |left, right| ((left | right) != 0).into());
        reduce!(Xor: $($element)+ => |left, right| ((left != 0) ^ (right != 0)).into());
    };
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

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

/// Combines two slices in blocks, and makes the NaNs of a block one if there are any: to look for them costs less than to
/// choose for each element (doubles in cache, AMD EPYC: 51 GB/s, and 29 in one loop).
#[inline]
fn in_blocks<F: Float>(into: &mut [F], from: &[F], combine: impl Fn(F, F) -> F) {
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

macro_rules! floats {
    ($($float:ty)+) => {
        arithmetic!(Sum: $($float)+ => |left, right| left + right);
        arithmetic!(Product: $($float)+ => |left, right| left * right);
        reduce!(Min: $($float)+ => |left, right| left.least(right));
        reduce!(Max: $($float)+ => |left, right| left.most(right));
    };
}

/// Branch-free forms, which vectorise as compares and blends.
trait Float: Copy {
    /// Whether it is a NaN.
    fn is_unordered(self) -> bool;
    /// The same with every NaN replaced by one.
    fn canonical(self) -> Self;
    /// IEEE 754-2019 `minimum`.
    fn least(self, other: Self) -> Self;
    /// IEEE 754-2019 `maximum`.
    fn most(self, other: Self) -> Self;
}

macro_rules! float {
    ($float:ident, $quiet_nan:literal) => {
        impl Float for $float {
            #[inline]
            fn is_unordered(self) -> bool {
                self.is_nan()
            }

            #[inline]
            fn canonical(self) -> Self {
                if self.is_nan() { $float::from_bits($quiet_nan) } else { self }
            }

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
floats!(f32 f64);

/// Reduces the bytes of one slice into those of another.
type Loop = fn(&mut [u8], &[u8], Order) -> Result<(), Cause>;

/// An operation on an element type with the types erased: what the executor carries.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    run: Loop,
    element_bytes: u32,
    commutes: bool,
}

impl Kernel {
    /// The loop of operation `R` over elements `E`.
    pub const fn of<R: Reduce<E>, E: Element>() -> Self {
        const { assert!(size_of::<E>() > 0, "an element needs at least one byte") };
        Self { run: reduce_bytes::<R, E>, element_bytes: size_of::<E>() as u32, commutes: R::COMMUTES }
    }

    /// Bytes of an element.
    pub const fn element_bytes(&self) -> u32 {
        self.element_bytes
    }

    /// Whether the operation commutes.
    pub const fn commutes(&self) -> bool {
        self.commutes
    }

    /// Reduces `from` into `into`, both the bytes of a slice of the element type.
    ///
    /// # Errors
    /// [`Cause::LengthMismatch`] when they are not the same whole number of elements, [`Cause::Unaligned`] when one
    /// is not aligned as the element type is.
    pub fn run(&self, into: &mut [u8], from: &[u8], order: Order) -> Result<(), Cause> {
        (self.run)(into, from, order)
    }
}

/// Copies `from` into `into`: what a collective does that reduces nothing. Without a way to a panic, which the library's own
/// copying of slices leaves in small builds.
///
/// # Errors
/// [`Cause::LengthMismatch`].
pub(crate) fn copy(into: &mut [u8], from: &[u8]) -> Result<(), Cause> {
    if into.len() != from.len() {
        return Err(Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 });
    }
    into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
    Ok(())
}

fn reduce_bytes<R: Reduce<E>, E: Element>(into: &mut [u8], from: &[u8], order: Order) -> Result<(), Cause> {
    let mismatch = Cause::LengthMismatch { left: into.len() as u64, right: from.len() as u64 };
    let unaligned = Cause::Unaligned { need: align_of::<E>() as u32 };
    if into.len() != from.len() || !into.len().is_multiple_of(size_of::<E>()) {
        return Err(mismatch);
    }
    let into = <[E]>::mut_from_bytes(into).map_err(|_| unaligned)?;
    let from = <[E]>::ref_from_bytes(from).map_err(|_| unaligned)?;
    // One loop where the order cannot be told from the result: half the code.
    if R::COMMUTES || order == Order::IntoFirst {
        R::reduce_all(into, from);
    } else {
        for (into, from) in into.iter_mut().zip(from) {
            *into = R::reduce(*from, *into);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
