//! Complex numbers.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::float::{Canonical, in_blocks};
use super::{Product, Reduce, Sum};

/// A complex number with parts of type `T`, laid out as C's `_Complex` and Fortran's `COMPLEX`: the
/// real part, then the imaginary one, aligned as a part is (C11, 6.2.5).
///
/// A type of its own because `num-complex` has none of the traits that [`Element`](super::Element)
/// asks for.
#[derive(Clone, Copy, PartialEq, Default, Debug, FromBytes, IntoBytes, Immutable)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Complex<T>([T; 2]);

impl<T: Copy> Complex<T> {
    /// `re` + `im` i.
    pub const fn new(re: T, im: T) -> Self {
        Self([re, im])
    }

    /// The real part.
    pub const fn re(&self) -> T {
        let [re, _] = self.0;
        re
    }

    /// The imaginary part.
    pub const fn im(&self) -> T {
        let [_, im] = self.0;
        im
    }
}

impl<T: Canonical> Canonical for Complex<T> {
    #[inline]
    fn is_unordered(self) -> bool {
        self.0.into_iter().fold(false, |found, part| found | part.is_unordered())
    }

    #[inline]
    fn canonical(self) -> Self {
        Self(self.0.map(Canonical::canonical))
    }
}

macro_rules! complex {
    ($($part:ty)+) => {$(
        impl Reduce<Complex<$part>> for Sum {
            const COMMUTES: bool = true;

            #[inline]
            fn reduce(left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                let (Complex([a, b]), Complex([c, d])) = (left, right);
                Complex([Self::reduce(a, c), Self::reduce(b, d)])
            }

            #[inline]
            fn reduce_all(into: &mut [Complex<$part>], from: &[Complex<$part>]) {
                // Part by part, as one slice of twice as many numbers.
                let parts = <[$part]>::mut_from_bytes(into.as_mut_bytes());
                if let (Ok(into), Ok(from)) = (parts, <[$part]>::ref_from_bytes(from.as_bytes())) {
                    Self::reduce_all(into, from);
                }
            }
        }

        /// (a + bi)(c + di) = (ac - bd) + (ad + cb)i, each of the six operations rounded and none
        /// fused: the other way round it is (ca - db) + (cb + ad)i, the same products and sums with
        /// their operands exchanged, so the same bits. Infinities that a NaN hides are not
        /// recovered (as C's Annex G proposes, and Fortran does not).
        impl Reduce<Complex<$part>> for Product {
            const COMMUTES: bool = true;

            #[inline]
            fn reduce(left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                multiply(left, right).canonical()
            }

            #[inline]
            fn reduce_all(into: &mut [Complex<$part>], from: &[Complex<$part>]) {
                in_blocks(into, from, multiply);
            }
        }
    )+};
}

/// The product, with whatever NaNs it has.
#[inline]
fn multiply<T>(Complex([a, b]): Complex<T>, Complex([c, d]): Complex<T>) -> Complex<T>
where
    T: Copy + core::ops::Mul<Output = T> + core::ops::Add<Output = T> + core::ops::Sub<Output = T>,
{
    Complex([a * c - b * d, a * d + b * c])
}

complex!(f32 f64);

#[cfg(test)]
mod tests;
