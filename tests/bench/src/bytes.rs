//! Buffers of the programs that are started by tests and benchmarks: from the rank's arena if the
//! job was started with one.

use core::ops::{Deref, DerefMut};

use aldis_linux::arena::{Arena, ArenaBlock, ArenaError};
use aldis_linux::paged::Paged;

/// Bytes on the heap or in the rank's arena.
#[derive(Debug)]
pub enum Bytes {
    /// On the heap.
    Heap(Paged),
    /// In the arena.
    Arena(ArenaBlock<u8>),
}

impl Bytes {
    /// `len` times `byte`, in `arena` unless there is none.
    ///
    /// # Errors
    /// The arena is full.
    pub fn new(arena: &'static Arena, len: usize, byte: u8) -> Result<Self, ArenaError> {
        if arena.bytes() == 0 {
            let mut bytes = Paged::new(len);
            bytes.fill(byte);
            return Ok(Self::Heap(bytes));
        }
        let mut block = arena.allocate(len)?;
        block.fill(byte);
        Ok(Self::Arena(block))
    }

    /// These bytes, in `arena` unless there is none.
    ///
    /// # Errors
    /// The arena is full.
    pub fn of(arena: &'static Arena, bytes: &[u8]) -> Result<Self, ArenaError> {
        let mut block = Self::new(arena, bytes.len(), 0)?;
        block.copy_from_slice(bytes);
        Ok(block)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Arena(block) => block,
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Arena(block) => block,
        }
    }
}
