//! Names of datatypes: the user's handles, and the references that types hold to each other.

use super::Basic;

/// Marks a handle of a basic type, whose code is the rest of the slot.
const BASIC: u32 = 1 << 31;

/// A datatype: a basic one, or one of a [`Types`](super::Types) table by slot and generation. A
/// handle to a type that was freed is recognised; the all-zero handle never lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Datatype {
    slot: u32,
    generation: u32,
}

impl Datatype {
    pub(super) const fn derived(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The basic type that this is; `None` for a derived one.
    #[inline]
    pub fn basic(self) -> Option<Basic> {
        (self.slot & BASIC != 0).then(|| Basic::from_code(u64::from(self.slot & !BASIC))).flatten()
    }

    pub(super) const fn slot(self) -> u32 {
        self.slot
    }

    pub(super) const fn generation(self) -> u32 {
        self.generation
    }
}

impl From<Basic> for Datatype {
    fn from(basic: Basic) -> Self {
        Self { slot: BASIC | basic.code() as u32, generation: 0 }
    }
}

/// A datatype that has been committed (MPI 4.1, 5.1.9): what pack, unpack and communication take.
/// Basic types are committed from the start. That only these can be communicated is the compiler's
/// business, not an error at run time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Committed(pub(super) Datatype);

impl From<Basic> for Committed {
    fn from(basic: Basic) -> Self {
        Self(basic.into())
    }
}

impl From<Committed> for Datatype {
    fn from(committed: Committed) -> Self {
        committed.0
    }
}

/// A part that a type is made of: a basic type, or the slot of another one, which is kept alive by
/// the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Child {
    Basic(Basic),
    Slot(u32),
}

impl Child {
    /// Returns it as a word of the table: slots from zero up, basic types below zero.
    pub(super) fn word(self) -> i64 {
        match self {
            Self::Basic(basic) => -i64::from(basic.code()),
            Self::Slot(slot) => i64::from(slot),
        }
    }

    pub(super) fn from_word(word: i64) -> Option<Self> {
        match u32::try_from(word) {
            Ok(slot) => Some(Self::Slot(slot)),
            Err(_) => Basic::from_code(word.unsigned_abs()).map(Self::Basic),
        }
    }
}
