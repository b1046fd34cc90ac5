//! `MPI_MAXLOC` and `MPI_MINLOC` of pairs of Fortran, whose index is a number of the value's type
//! (MPI 5.0, 6.9.4).

use core::num::NonZeroU32;

use aldis_coll::op::{Element, Function, Kernel};
use aldis_coll::schedule::Order;
use zerocopy::FromBytes;

use crate::abi::{Handle, MPI_MAXLOC, MPI_MINLOC};

/// A number of Fortran: a `REAL` or a `DOUBLE PRECISION`.
pub(crate) trait Real: Element + PartialOrd {
    const BYTES: usize;
}

impl Real for f32 {
    const BYTES: usize = size_of::<Self>();
}

impl Real for f64 {
    const BYTES: usize = size_of::<Self>();
}

/// Returns true if the second pair is the result. A value that is no number is if there is one, so
/// that all ranks have the same.
fn is_second<T: Real>([value, index]: [T; 2], [other, place]: [T; 2], is_max: bool) -> bool {
    let is_none = |value: &T| value.partial_cmp(value).is_none();
    match (is_none(&value), is_none(&other)) {
        (true, true) => place < index,
        (true, false) => false,
        (false, true) => true,
        _ if value == other => place < index,
        _ => (other > value) == is_max,
    }
}

fn locate<T: Real>(into: &mut [u8], from: &[u8], is_max: bool) {
    let pairs = into.chunks_exact_mut(2 * T::BYTES).zip(from.chunks_exact(2 * T::BYTES));
    for (into, from) in pairs {
        if let (Ok(ours), Ok(theirs)) = (<[T; 2]>::read_from_bytes(into), <[T; 2]>::read_from_bytes(from))
            && is_second(ours, theirs, is_max)
        {
            into.copy_from_slice(from);
        }
    }
}

/// The operation on pairs of such numbers.
pub(crate) fn kernel<T: Real>(op: Handle) -> Option<Kernel> {
    let function: Function = match op {
        MPI_MAXLOC => |_, into, from, _: Order| {
            locate::<T>(into, from, true);
            Ok(())
        },
        MPI_MINLOC => |_, into, from, _: Order| {
            locate::<T>(into, from, false);
            Ok(())
        },
        _ => return None,
    };
    Some(Kernel::of_function(function, 0, NonZeroU32::new(2 * T::BYTES as u32)?, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_index_of_equal_values_is_the_result_whoever_combines() {
        let none = f64::NAN;
        for (op, left, right, expected) in [
            (MPI_MAXLOC, [1.0, 4.0], [2.0, 9.0], [2.0, 9.0]),
            (MPI_MINLOC, [1.0, 4.0], [2.0, 9.0], [1.0, 4.0]),
            (MPI_MAXLOC, [2.0, 9.0], [2.0, 4.0], [2.0, 4.0]),
            (MPI_MINLOC, [0.0, 4.0], [-0.0, 9.0], [0.0, 4.0]),
            (MPI_MINLOC, [-7.0, 0.0], [none, 1.0], [none, 1.0]),
        ] {
            for (ours, theirs) in [(left, right), (right, left)] {
                let (mut into, from) = (bytes(ours), bytes(theirs));
                kernel::<f64>(op).unwrap().run(&mut into, &from, Order::IntoFirst).unwrap();
                assert_eq!(into, bytes(expected));
            }
        }
        assert!(kernel::<f32>(crate::abi::MPI_SUM).is_none());
    }

    fn bytes(pair: [f64; 2]) -> Vec<u8> {
        pair.map(f64::to_ne_bytes).concat()
    }
}
