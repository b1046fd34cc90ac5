//! Truth values.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{And, Or, Reduce, Xor};

/// A truth value in a byte, as C's `_Bool` is.
///
/// Rust's `bool` cannot be an [`Element`](super::Element): a byte other than 0 and 1 is none, and
/// what a message carries is not to be trusted. Here, as in C, whatever is not 0 is true; what an
/// operation makes is 0 or 1.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// Returns true if the value is true.
    pub const fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.is_true()
    }
}

/// All that are true are equal.
impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.is_true() == other.is_true()
    }
}

impl Eq for Bool {}

impl core::fmt::Debug for Bool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.is_true().fmt(f)
    }
}

reduce!(And: Bool => |left, right| Bool(And::reduce(left.0, right.0)));
reduce!(Or: Bool => |left, right| Bool(Or::reduce(left.0, right.0)));
reduce!(Xor: Bool => |left, right| Bool(Xor::reduce(left.0, right.0)));
