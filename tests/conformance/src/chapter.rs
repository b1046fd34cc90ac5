//! The type of a case, and the list of all.

use core::error::Error;
use core::fmt;

use aldis_hal::{Platform, Transport};
use aldis_kernel::Endpoint;

use super::{
    chapter_03_point_to_point, chapter_04_partitioned, chapter_05_datatypes, chapter_06_collectives,
    chapter_07_communicators, chapter_08_topologies, chapter_09_environment, sequences,
};

/// The end of a rank's part of a case. A wrong result is a panic, which every medium catches and
/// tells of.
pub type Outcome = Result<(), Box<dyn Error>>;

/// A rank program, and what it is about.
pub struct Case<T, P> {
    /// Its name, which says what must hold.
    pub name: &'static str,
    /// The section of MPI 4.1.
    pub section: &'static str,
    /// Ranks that it has to have.
    pub ranks: u32,
    /// True if the program draws from the seed: many are worth their time then, on every medium.
    pub is_drawn: bool,
    /// The program, run by every rank with the seed.
    pub run: fn(&mut Endpoint<'_, T, P>, u64) -> Outcome,
}

impl<T, P> fmt::Debug for Case<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (MPI 4.1 section {}, {} ranks)", self.name, self.section, self.ranks)
    }
}

/// All cases for endpoints of one kind, chapter by chapter. The order is the same for every kind.
pub fn cases<T: Transport, P: Platform>() -> Vec<Case<T, P>> {
    let mut cases = chapter_03_point_to_point::cases();
    cases.extend(chapter_04_partitioned::cases());
    cases.extend(chapter_05_datatypes::cases());
    cases.extend(chapter_06_collectives::cases());
    cases.extend(sequences::cases());
    cases.extend(chapter_07_communicators::cases());
    cases.extend(chapter_08_topologies::cases());
    cases.extend(chapter_09_environment::cases());
    cases
}

/// The cases of a file: section, ranks and program of each.
macro_rules! cases {
    ($($section:literal, $ranks:literal: $name:ident;)*) => {
        /// The cases of this file.
        pub(super) fn cases<T: aldis_hal::Transport, P: aldis_hal::Platform>()
        -> Vec<$crate::Case<T, P>> {
            vec![$($crate::Case {
                name: stringify!($name),
                section: $section,
                ranks: $ranks,
                is_drawn: false,
                run: |endpoint, _| $name(endpoint),
            }),*]
        }
    };
}
