//! Barrier: no rank leaves before every rank has entered.

mod dissemination;

pub use dissemination::Dissemination;

use crate::schedule::Algorithm;

/// Every algorithm for it.
pub static ALGORITHMS: [Algorithm; 1] = [&Dissemination];
