//! This module holds `unsafe` code: instructions of the x87, for `long double`, a type that Rust
//! does not have.
//!
//! On x86-64 it has 80 bits, in 16 bytes (System V ABI, 3.1.2). Elsewhere there is no operation for
//! it.

use core::arch::asm;

use aldis_coll::op::{Function, Kernel};
use aldis_coll::schedule::Order;
use core::num::NonZeroU32;

use crate::abi::{Handle, MPI_MAX, MPI_MAXLOC, MPI_MIN, MPI_MINLOC, MPI_PROD, MPI_SUM};

/// Bytes of one.
const BYTES: usize = 16;

type Long = [u8; BYTES];

/// An instruction with two operands, whose result takes the second one's place on the stack.
macro_rules! combined {
    ($($name:ident $instruction:literal;)*) => { $(
        fn $name(left: Long, right: Long) -> Long {
            let mut result = [0; BYTES];
            // SAFETY: ten bytes are read of each operand and written to the result, which have
            // sixteen; what is put on the stack of registers is taken off again.
            unsafe {
                asm!(
                    "fld tbyte ptr [{left}]",
                    "fld tbyte ptr [{right}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    left = in(reg) left.as_ptr(),
                    right = in(reg) right.as_ptr(),
                    result = in(reg) result.as_mut_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    )* };
}

combined! {
    sum "faddp st(1), st";
    difference "fsubp st(1), st";
    product "fmulp st(1), st";
}

fn is_less(left: Long, right: Long) -> bool {
    let is_less: u8;
    // SAFETY: as above; nothing is written.
    unsafe {
        asm!(
            "fld tbyte ptr [{right}]",
            "fld tbyte ptr [{left}]",
            "fcomip st, st(1)",
            "setb {is_less}",
            "fstp st(0)",
            left = in(reg) left.as_ptr(),
            right = in(reg) right.as_ptr(),
            is_less = out(reg_byte) is_less,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack, readonly),
        );
    }
    is_less != 0
}

fn max(left: Long, right: Long) -> Long {
    if is_less(left, right) { right } else { left }
}

fn min(left: Long, right: Long) -> Long {
    if is_less(right, left) { right } else { left }
}

/// The product of two complex numbers, real parts in front.
fn complex_product([a, b]: [Long; 2], [c, d]: [Long; 2]) -> [Long; 2] {
    [difference(product(a, c), product(b, d)), sum(product(a, d), product(b, c))]
}

type Combine = fn(Long, Long) -> Long;

/// Operations on single numbers, by the token of their kernels.
const OF_ONE: [(Handle, Combine); 4] = [(MPI_SUM, sum), (MPI_PROD, product), (MPI_MAX, max), (MPI_MIN, min)];

const EACH: Function = |token, into, from, order| {
    let (_, operation) = OF_ONE.get(token).ok_or(aldis_hal::Cause::Stale)?;
    let ((into, _), (from, _)) = (into.as_chunks_mut(), from.as_chunks());
    for (into, from) in into.iter_mut().zip(from) {
        *into = if order == Order::IntoFirst { operation(*into, *from) } else { operation(*from, *into) };
    }
    Ok(())
};

const EACH_COMPLEX_PRODUCT: Function = |_, into, from, _| {
    let ((into, _), (from, _)) = (into.as_chunks_mut::<BYTES>(), from.as_chunks::<BYTES>());
    let ((into, _), (from, _)) = (into.as_chunks_mut(), from.as_chunks());
    for (into, from) in into.iter_mut().zip(from) {
        *into = complex_product(*into, *from);
    }
    Ok(())
};

/// The operation on numbers, or on complex ones.
pub(crate) fn kernel(op: Handle, is_complex: bool) -> Option<Kernel> {
    let of = |function, token, longs: usize| {
        Some(Kernel::of_function(function, token, NonZeroU32::new((BYTES * longs) as u32)?, true))
    };
    match (op, is_complex) {
        (MPI_PROD, true) => of(EACH_COMPLEX_PRODUCT, 0, 2),
        (MPI_MAX | MPI_MIN, true) => None,
        (_, is_complex) => {
            let token = OF_ONE.iter().position(|(known, _)| *known == op)?;
            of(EACH, token, 1 + usize::from(is_complex))
        }
    }
}

/// The greater, or the lesser, of two numbers with the index behind it; of equal ones the lesser
/// index.
const LOCATE: Function = |token, into, from, _| {
    let ((into, _), (from, _)) = (into.as_chunks_mut::<PAIR_BYTES>(), from.as_chunks::<PAIR_BYTES>());
    for (into, from) in into.iter_mut().zip(from) {
        let ((ours, our_index), (theirs, their_index)) = (parts(into), parts(from));
        let (is_greater, is_less) = (is_less(theirs, ours), is_less(ours, theirs));
        let theirs_is_it = if token == OF_MAX { is_less } else { is_greater };
        if theirs_is_it || (!is_greater && !is_less && their_index < our_index) {
            *into = *from;
        }
    }
    Ok(())
};

/// Bytes of a number and an index, padded.
const PAIR_BYTES: usize = 2 * BYTES;
/// The token of `LOCATE` for the greatest.
const OF_MAX: usize = 0;

fn parts(pair: &[u8; PAIR_BYTES]) -> (Long, i32) {
    let (number, rest) = pair.split_at(BYTES);
    let index = rest.first_chunk().map_or(0, |index| i32::from_ne_bytes(*index));
    (number.first_chunk().copied().unwrap_or_default(), index)
}

/// `MPI_MAXLOC` or `MPI_MINLOC` of numbers with an index.
pub(crate) fn located(op: Handle) -> Option<Kernel> {
    let token = match op {
        MPI_MAXLOC => OF_MAX,
        MPI_MINLOC => OF_MAX + 1,
        _ => return None,
    };
    Some(Kernel::of_function(LOCATE, token, NonZeroU32::new(PAIR_BYTES as u32)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_greatest_and_of_the_least() {
        let pair = |value: i64, index: i32| {
            let mut pair = [0; PAIR_BYTES];
            pair[..BYTES].copy_from_slice(&long(value));
            pair[BYTES..BYTES + 4].copy_from_slice(&index.to_ne_bytes());
            pair
        };
        for (op, theirs, expected) in [
            (MPI_MAXLOC, pair(9, 4), pair(9, 4)),
            (MPI_MAXLOC, pair(-9, 0), pair(5, 3)),
            (MPI_MINLOC, pair(-9, 4), pair(-9, 4)),
            (MPI_MINLOC, pair(9, 0), pair(5, 3)),
            (MPI_MAXLOC, pair(5, 1), pair(5, 1)),
            (MPI_MINLOC, pair(5, 7), pair(5, 3)),
        ] {
            let mut into = pair(5, 3);
            located(op).unwrap().run(&mut into, &theirs, Order::IntoFirst).unwrap();
            assert_eq!(into, expected);
        }
        assert!(located(MPI_SUM).is_none());
    }

    /// A whole number: the leading bit stands for itself.
    fn long(value: i64) -> Long {
        let mut long = [0; BYTES];
        if value != 0 {
            let magnitude = value.unsigned_abs();
            let zeros = magnitude.leading_zeros();
            let exponent = (16_383 + 63 - zeros as u16) | if value < 0 { 0x8000 } else { 0 };
            long[..8].copy_from_slice(&(magnitude << zeros).to_le_bytes());
            long[8..10].copy_from_slice(&exponent.to_le_bytes());
        }
        long
    }

    #[test]
    fn each_is_what_the_numbers_give() {
        // Beyond what 53 bits hold.
        let (a, b) = ((1_i64 << 60) + 1, -3);
        for (op, expected) in [(MPI_SUM, a + b), (MPI_MAX, a), (MPI_MIN, b)] {
            let mut into = long(a);
            kernel(op, false).unwrap().run(&mut into, &long(b), Order::IntoFirst).unwrap();
            assert_eq!(into, long(expected), "{op:#x}");
        }
        let mut into = long(7);
        kernel(MPI_PROD, false).unwrap().run(&mut into, &long(b), Order::FromFirst).unwrap();
        assert_eq!(into, long(-21));
    }

    #[test]
    fn complex_ones_are_multiplied_as_such() {
        let pair = |real, imaginary| [long(real), long(imaginary)].concat();
        let mut into = pair(2, 3);
        kernel(MPI_PROD, true).unwrap().run(&mut into, &pair(-5, 7), Order::IntoFirst).unwrap();
        assert_eq!(into, pair(-31, -1));
        kernel(MPI_SUM, true).unwrap().run(&mut into, &pair(1, 1), Order::IntoFirst).unwrap();
        assert_eq!(into, pair(-30, 0));
        assert!(kernel(MPI_MAX, true).is_none());
    }
}
