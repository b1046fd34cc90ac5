//! Integers: every operation but those on pairs. Loops over them are vectorised by the compiler as
//! they stand.

use super::{And, BitAnd, BitOr, BitXor, Max, Min, Or, Product, Reduce, Sum, Xor};

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

#[cfg(test)]
mod tests;
