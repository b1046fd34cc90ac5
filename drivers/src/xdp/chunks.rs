//! The chunks of the memory for frames, each of them with its owner: so that the system gives back
//! what it was lent and nothing else.

/// The owner of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChunkOwner {
    /// This program.
    Program,
    /// The system, for a frame that comes.
    Fill,
    /// The system, to send a frame.
    Transmit,
}

/// The owners of all chunks, and those that are free to send from: the last that came back is taken
/// first, since a cache may hold it still.
#[derive(Debug)]
pub(super) struct ChunkTable<const CHUNKS: usize> {
    owners: [ChunkOwner; CHUNKS],
    free: [u16; CHUNKS],
    free_count: usize,
}

impl<const CHUNKS: usize> ChunkTable<CHUNKS> {
    /// Compiles only if each chunk has a number.
    const NUMBERED: () = assert!(CHUNKS <= 1 << 16, "chunks have numbers of 16 bits");

    /// All chunks are the program's, and none is free to send from.
    pub(super) const fn new() -> Self {
        let () = Self::NUMBERED;
        Self { owners: [ChunkOwner::Program; CHUNKS], free: [0; CHUNKS], free_count: 0 }
    }

    /// The owner of a chunk, if there is such a chunk.
    pub(super) fn owner(&self, chunk: u16) -> Option<ChunkOwner> {
        self.owners.get(usize::from(chunk)).copied()
    }

    /// Hands a chunk from one owner to another. Returns false, with nothing changed, if it is not
    /// the first one's.
    pub(super) fn hand(&mut self, chunk: u16, from: ChunkOwner, to: ChunkOwner) -> bool {
        match self.owners.get_mut(usize::from(chunk)) {
            Some(owner) if *owner == from => {
                *owner = to;
                true
            }
            _ => false,
        }
    }

    /// Makes a chunk of the program's free to send from. The caller has just got it.
    pub(super) fn release(&mut self, chunk: u16) {
        if let Some(place) = self.free.get_mut(self.free_count) {
            *place = chunk;
            self.free_count += 1;
        }
    }

    /// Takes a chunk to send from.
    pub(super) fn take_free(&mut self) -> Option<u16> {
        let last = self.free_count.checked_sub(1)?;
        let chunk = *self.free.get(last)?;
        self.free_count = last;
        Some(chunk)
    }

    /// The number of chunks that the system has to send from.
    pub(super) fn under_way(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == ChunkOwner::Transmit).count()
    }
}
