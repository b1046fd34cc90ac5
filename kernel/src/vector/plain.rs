//! Processors whose vectors, if they have any, are part of what every program is compiled for.

use super::Work;

/// The width that loops can be compiled for: there is one only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(());

impl Width {
    /// The width that the program is compiled for anyway.
    pub const BASELINE: Self = Self(());

    /// The widest there is.
    #[inline(always)]
    pub const fn widest() -> Self {
        Self::BASELINE
    }

    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::BASELINE].into_iter()
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        "baseline"
    }

    /// Runs `work`.
    #[inline(always)]
    pub fn run(self, work: impl Work) {
        work.run();
    }
}

/// The processor's own conversion between floats of 16 bits and 32: none that this build makes use
/// of.
#[derive(Clone, Copy, Debug)]
pub enum Halves {}

impl Halves {
    /// The conversion of this processor, if it has one.
    #[inline(always)]
    pub const fn of_processor() -> Option<Self> {
        None
    }

    /// Returns the same values as floats of 32 bits.
    pub const fn widen(self, _: [u16; 8]) -> [f32; 8] {
        match self {}
    }

    /// The nearest values.
    pub const fn narrow(self, _: [f32; 8]) -> [u16; 8] {
        match self {}
    }
}
