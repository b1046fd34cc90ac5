//! A call as selection and execution look at it.

use super::Call;
use crate::op::Kernel;
use crate::schedule::Candidate;

/// A call but for its memory: what is carried out, and what there is to choose from.
#[derive(Clone, Copy)]
pub(crate) struct CallSpec {
    pub(crate) call: Call,
    pub(crate) root: u32,
    /// The reduction, where there is one.
    pub(crate) kernel: Option<Kernel>,
    pub(crate) candidates: &'static [Candidate],
}

impl CallSpec {
    /// Returns this call over so many ranks.
    #[inline(always)]
    pub(crate) const fn over(self, size: u32) -> Self {
        Self { call: Call { size, ..self.call }, ..self }
    }
}
