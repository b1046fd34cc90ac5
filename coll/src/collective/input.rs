//! The input of an operation on blocks.

use core::ops::Deref;

use zerocopy::IntoBytes;

use super::{BlockMemory, CallMemory};
use crate::layout::Layout;
use crate::op::Element;

/// The input of an operation, which it reads and leaves as it is. References to slices, arrays and
/// the like become an input: a shared one is shown, an exclusive one is lent, so that it can be
/// [edited](super::Collective::edit_input) between one start and the next.
#[derive(Debug)]
pub enum Input<'m, E> {
    /// Memory that is only read.
    Shown(&'m [E]),
    /// Memory that may be written between starts.
    Lent(&'m mut [E]),
}

impl<'m, E: Element> Input<'m, E> {
    /// No input.
    pub const NONE: Self = Self::Shown(&[]);

    pub(crate) fn into_bytes(self) -> Input<'m, u8> {
        match self {
            Self::Shown(memory) => Input::Shown(memory.as_bytes()),
            Self::Lent(memory) => Input::Lent(memory.as_mut_bytes()),
        }
    }
}

impl<'m, E> Input<'m, E> {
    /// Returns the elements, which may only be read from then on.
    #[inline]
    pub(crate) fn show(&mut self) -> &'m [E] {
        let memory: &'m [E] = match core::mem::replace(self, Self::Shown(&[])) {
            Self::Shown(memory) => memory,
            Self::Lent(memory) => memory,
        };
        *self = Self::Shown(memory);
        memory
    }
}

impl<E> Deref for Input<'_, E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match self {
            Self::Shown(memory) => memory,
            Self::Lent(memory) => memory,
        }
    }
}

impl<'m, E, M: AsRef<[E]> + ?Sized> From<&'m M> for Input<'m, E> {
    fn from(memory: &'m M) -> Self {
        Self::Shown(memory.as_ref())
    }
}

impl<'m, E, M: AsMut<[E]> + ?Sized> From<&'m mut M> for Input<'m, E> {
    fn from(memory: &'m mut M) -> Self {
        Self::Lent(memory.as_mut())
    }
}

impl<'m> CallMemory<'m> {
    /// Returns this memory with data and input divided by `layouts`.
    pub(crate) fn divided(self, layouts: [Layout<'m>; 2]) -> Self {
        Self { blocks: BlockMemory { layouts, ..self.blocks }, ..self }
    }

    /// Returns this memory with `input`.
    pub(crate) fn given(self, input: Input<'m, u8>) -> Self {
        Self { blocks: BlockMemory { input, ..self.blocks }, ..self }
    }
}
