//! Names of datatypes: the user's handles, and the references that types hold to each other.

use super::Basic;

/// Marks a handle of a basic type. The rest of the slot is what most messages are made by: its code
/// in bits 0..8, its bytes in 8..16, and the code of the type that it is in messages in 16..24.
const BASIC: u32 = 1 << 31;
const BYTES: u32 = 8;
const IN_MESSAGES: u32 = 16;

/// The facts about a basic type by which elements of it are sent.
pub(super) struct BasicFacts {
    pub(super) bytes: u64,
    /// The code of the type that it is in messages.
    pub(super) code: u32,
}

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

    /// Returns true for a derived type.
    #[inline(always)]
    pub(crate) const fn is_derived(self) -> bool {
        self.slot & BASIC == 0
    }

    /// The basic type that this is; `None` for a derived one.
    #[inline]
    pub fn basic(self) -> Option<Basic> {
        (self.slot & BASIC != 0).then(|| Basic::from_code(u64::from(self.slot & 0xFF))).flatten()
    }

    /// Returns what messages are made by, if this is a basic type: read off the handle.
    #[inline(always)]
    pub(super) const fn basic_facts(self) -> Option<BasicFacts> {
        if self.slot & BASIC == 0 {
            return None;
        }
        let (bytes, code) = (self.slot >> BYTES & 0xFF, self.slot >> IN_MESSAGES & 0xFF);
        Some(BasicFacts { bytes: bytes as u64, code })
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
        let (code, bytes) = (basic.code() as u32, basic.size() as u32);
        let in_messages = basic.in_messages().code() as u32;
        Self { slot: BASIC | code | bytes << BYTES | in_messages << IN_MESSAGES, generation: 0 }
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

#[cfg(test)]
mod tests {
    use super::super::Signature;
    use super::super::signature::folded;
    use super::*;

    #[test]
    fn a_basic_type_tells_its_facts_by_its_handle() {
        for basic in Basic::ALL {
            let handle = Datatype::from(basic);
            let facts = handle.basic_facts().unwrap();
            assert_eq!((handle.basic(), facts.bytes), (Some(basic), basic.size() as u64));
            assert_eq!(folded(facts.code, 3), Signature::of(basic).repeated(3));
        }
        assert!(
            Datatype::default().basic_facts().is_none() && Datatype::derived(7, 1).basic_facts().is_none()
        );
    }
}
