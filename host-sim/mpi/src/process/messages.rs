//! Messages under way, by the slots of their requests in the kernel: a handle of the program's is
//! the kernel's, and all that is kept beside it is the communicator whose error handler is called.

use core::ffi::c_int;

use aldis_hal::Handle as KernelHandle;

use crate::abi::Handle;
use crate::process::handles::{HandleKind, generation_of, is_int_of, pack, slot_of};

/// The last message that had a slot; a handle of zero is none.
#[derive(Clone, Copy, Debug)]
struct MessageNote {
    handle: Handle,
    comm: Handle,
}

impl MessageNote {
    const NONE: Self = Self { handle: 0, comm: 0 };
}

/// The messages that the program has handles of, or has had.
#[derive(Debug)]
pub(crate) struct MessageNotes(Vec<MessageNote>);

impl MessageNotes {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Notes a message that was started on a communicator, and returns its handle.
    #[inline]
    pub(crate) fn note(&mut self, request: KernelHandle, comm: Handle) -> Handle {
        let KernelHandle { slot, generation } = request;
        let handle = pack(HandleKind::MessageRequest, slot, generation);
        match self.0.get_mut(slot as usize) {
            Some(note) => *note = MessageNote { handle, comm },
            None => self.note_fresh(slot, MessageNote { handle, comm }),
        }
        handle
    }

    /// Notes a message whose slot was never used before.
    #[cold]
    #[inline(never)]
    fn note_fresh(&mut self, slot: u32, fresh: MessageNote) {
        self.0.resize((slot as usize + 1).next_power_of_two().max(64), MessageNote::NONE);
        if let Some(note) = self.0.get_mut(slot as usize) {
            *note = fresh;
        }
    }

    /// Returns the kernel's handle of a message, which is stale if its result has been taken.
    #[inline]
    pub(crate) fn find(&self, handle: Handle) -> Option<KernelHandle> {
        let slot = slot_of(handle);
        let note = self.0.get(slot as usize)?;
        let found = KernelHandle { slot, generation: generation_of(handle) };
        (note.handle == handle && handle != 0).then_some(found)
    }

    /// Returns the communicator of a message; that of another one if it is [found](Self::find) no
    /// more.
    pub(crate) fn comm_of(&self, handle: Handle) -> Handle {
        self.0.get(slot_of(handle) as usize).map_or(0, |note| note.comm)
    }

    /// Takes the handle of a message away.
    pub(crate) fn forget(&mut self, handle: Handle) {
        if let Some(note) = self.0.get_mut(slot_of(handle) as usize) {
            *note = MessageNote::NONE;
        }
    }

    /// Returns the handle whose `int` this is, if it is that of a message.
    pub(crate) fn handle_of(&self, number: c_int) -> Option<Handle> {
        let note = self.0.get(slot_of(number as Handle) as usize)?;
        (note.handle != 0 && is_int_of(number, note.handle)).then_some(note.handle)
    }

    /// All messages, those whose results have been taken too, with their communicators.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (KernelHandle, Handle)> {
        let noted = self.0.iter().filter(|note| note.handle != 0);
        noted.map(|note| {
            let (slot, generation) = (slot_of(note.handle), generation_of(note.handle));
            (KernelHandle { slot, generation }, note.comm)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_by_its_own_handle_alone() {
        let mut notes = MessageNotes::new();
        let kernel = |slot, generation| KernelHandle { slot, generation };
        let first = notes.note(kernel(5, 1), 7);
        assert_eq!((notes.find(first), notes.comm_of(first)), (Some(kernel(5, 1)), 7));
        let second = notes.note(kernel(5, 3), 8);
        assert_ne!(first, second);
        assert_eq!((notes.find(first), notes.find(second)), (None, Some(kernel(5, 3))));
        assert_eq!((notes.find(0), notes.find(pack(HandleKind::Comm, 5, 3))), (None, None));
        assert_eq!(notes.iter().collect::<Vec<_>>(), [(kernel(5, 3), 8)]);
        notes.forget(second);
        assert_eq!(notes.find(second), None);
    }

    #[test]
    fn many_messages_are_found_by_their_ints() {
        let mut notes = MessageNotes::new();
        let handles: Vec<_> =
            (0..100_000).map(|slot| notes.note(KernelHandle { slot, generation: 2 * slot + 1 }, 1)).collect();
        for handle in handles {
            let number = crate::process::handles::to_int(handle);
            assert!(number > 0xFFF);
            assert_eq!(notes.handle_of(number), Some(handle));
        }
        assert_eq!(notes.handle_of(0), None);
    }
}
