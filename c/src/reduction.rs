//! Types and operations of reductions by their numbers in `aldis.h`.

use aldis_coll::op::{BitAnd, BitOr, BitXor, Kernel, Max, Min, Product, Sum};

/// The kernel of an operation on any number.
macro_rules! of_number {
    ($op:expr, $element:ty) => {
        match $op {
            0 => Some(Kernel::of::<Sum, $element>()),
            1 => Some(Kernel::of::<Product, $element>()),
            2 => Some(Kernel::of::<Min, $element>()),
            3 => Some(Kernel::of::<Max, $element>()),
            _ => None,
        }
    };
}

/// The kernel of an operation on integers.
macro_rules! of_integer {
    ($op:expr, $element:ty) => {
        match $op {
            4 => Some(Kernel::of::<BitAnd, $element>()),
            5 => Some(Kernel::of::<BitOr, $element>()),
            6 => Some(Kernel::of::<BitXor, $element>()),
            _ => of_number!($op, $element),
        }
    };
}

/// The kernel of an `aldis_type` and an `aldis_op`; `None` if there is none.
pub(crate) fn kernel(element: u32, op: u32) -> Option<Kernel> {
    match element {
        0 | 5 => of_integer!(op, u8),
        1 => of_integer!(op, i8),
        2 => of_integer!(op, i16),
        3 => of_integer!(op, i32),
        4 => of_integer!(op, i64),
        6 => of_integer!(op, u16),
        7 => of_integer!(op, u32),
        8 => of_integer!(op, u64),
        9 => of_number!(op, f32),
        10 => of_number!(op, f64),
        _ => None,
    }
}
