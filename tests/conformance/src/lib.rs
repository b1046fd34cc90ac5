//! The conformance suite: what MPI says of every call, as small rank programs in the order of the
//! standard's chapters, each with the section of MPI 4.1 that it is about.
//!
//! A case is generic over transport and platform and knows every result that it must see. It says
//! nothing of timing: what the standard leaves open, a case leaves open too, so one that fails has
//! found a bug. All cases are in one list, and all that they run over in another, [`media()`]:
//! [`run`] puts any of the one on any of the other. A new transport is a line there, and a new case
//! a line at the end of its chapter.
//!
//! | module | what it holds |
//! |---|---|
//! | `chapter_03_*` to `chapter_09_*` | the cases |
//! | `sequences` | those of chapter 6 that draw what they do |
//! | `media` | what cases run over |
//! | `connected`, `launched` | ranks as threads over connections; as processes |
//! | `wired`, `simulated` | ranks as threads that take turns on a lossy wire; in the simulator |
//! | `rank` | one rank of a case, and what is checked of its endpoint whatever the case |

pub mod cards;
#[macro_use]
mod chapter;
mod chapter_03_point_to_point;
mod chapter_04_partitioned;
mod chapter_05_datatypes;
mod chapter_06_collectives;
mod chapter_07_communicators;
mod chapter_08_topologies;
mod chapter_09_environment;
mod connected;
pub mod launched;
mod media;
mod plan;
mod rank;
#[cfg(feature = "verbs")]
mod registered;
mod sequences;
mod simulated;
mod wired;

pub use chapter::{Case, Outcome, cases};
pub use media::{CasePlan, MediaFailure, Medium, media, run};
