//! Declares `unsafe` functions and holds no other unsafe code.
//!
//! Control slots, *slots* for short: memory of a node's ranks through which they carry out
//! collectives together, without messages.
//!
//! Every rank has a few *sets* of slots. A set serves one communicator at a time, by the same
//! number on all its ranks. In it the rank has, for all ranks of the communicator to read and for
//! itself alone to write:
//!
//! * **slots**, used in turn: the k-th collective of the communicator has slot `k mod slots`, in
//!   which the rank says what it does and how many bytes it contributes; few enough stand in the
//!   slot itself;
//! * **chunks**, used in turn: for more bytes. They are one stream of *positions*, the same ones on
//!   all ranks, which collectives take in order, a run of positions each. A rank fills the
//!   positions that its algorithm gives it;
//! * instead of chunks, the address of what it *lends*: memory of its own that stays as it is until
//!   the others are done with the position that stands for it, and that they read from where it is;
//! * how far it has come: the collectives that it has *finished*, and the positions it is *done*
//!   with.
//!
//! # Why nothing is overwritten that a rank still reads
//!
//! A rank writes its slot of collective `n` once every rank of the communicator has finished
//! collective `n - slots`, and a chunk at position `k` once every rank is done with position `k -
//! chunks`. So a rank is ahead of the slowest by at most `slots` collectives and `chunks`
//! positions, and a reader that has not finished finds what was published to it. Two would do for
//! correctness, as the next collective cannot end before this one was begun by all; more let a root
//! run ahead.
//!
//! Nothing here waits: what is not there yet is `None` or `false`, and asked for again.

use core::ops::Range;

use crate::cause::Cause;
use crate::copy::Store;
use crate::id::PeerId;

/// The number of slots of a set, and their sizes. The same on all ranks of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ControlSlotsShape {
    /// Slots of a set: collectives of one communicator that can be under way at a time. A power of
    /// two.
    pub slots: u32,
    /// Bytes that stand in a slot.
    pub slot_bytes: u32,
    /// Chunks of a set. A power of two.
    pub chunks: u32,
    /// Bytes of a chunk; chunks are aligned to 64.
    pub chunk_bytes: u32,
    /// Bytes of data that two ranks pass each other sooner in a message than in chunks, or more;
    /// zero if nobody has measured that, or they never do.
    pub pair_message_bytes_min: u32,
    /// Bytes of data that one of two ranks [reads](SharedControl::read) sooner from the other's
    /// memory than out of chunks, or more; zero if nobody has measured that, or it never does.
    pub pair_read_bytes_min: u32,
}

/// A rank's note on its part in a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Note {
    /// The collective that the rank is in, as a number: a rank in another one has made a mistake.
    pub operation: u8,
    /// The root's rank, modulo 32; zero where there is none.
    pub root: u8,
    /// Bytes it contributes or, at a root, gives; below 2^48.
    pub bytes: u64,
}

/// A note that another rank has given. Its numbers are that rank's, and not to be trusted.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// The note itself.
    pub note: Note,
    /// The contents of its slot: as many bytes as it says it contributes, or of more than a slot
    /// holds [`START_BYTES`].
    pub payload: &'a [u8],
}

/// A chunk of this rank's own, to be filled.
#[derive(Debug)]
pub struct OwnChunk<'a> {
    /// All its bytes.
    pub bytes: &'a mut [u8],
    /// The stores by which it is filled [best](crate::copy::publish).
    pub store: Store,
}

/// The progress of a rank, or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Progress {
    /// All collectives before this one are finished.
    pub finished: u32,
    /// All positions before this one are done with.
    pub done: u32,
}

/// Returns true if one of these numbers is earlier than another. They count from an arbitrary start
/// and are not far from each other.
pub const fn is_earlier(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// The contents of the slot of a rank whose contribution does not stand there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The first position of its chunks, or the one that stands for what it lends.
    pub position: u32,
    /// The address of what it lends, in its own memory; zero if it lends nothing.
    pub address: u64,
}

/// Bytes of a [`Start`] in a slot. What stands after them, if that contribution could be in the
/// slot, is of no meaning.
pub const START_BYTES: usize = 12;

impl Start {
    /// Writes it as it stands in a slot, little-endian.
    pub const fn emit(self) -> [u8; START_BYTES] {
        let ([a, b, c, d], [e, f, g, h, i, j, k, l]) =
            (self.position.to_le_bytes(), self.address.to_le_bytes());
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// Reads what stands in a slot; `None` if it is shorter.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (position, rest) = payload.split_first_chunk()?;
        let address = u64::from_le_bytes(*rest.first_chunk()?);
        Some(Self { position: u32::from_le_bytes(*position), address })
    }
}

/// The slots of this rank and, to be read, those of others. A set is used by the caller that has
/// opened it, and only then.
///
/// A rank is lent what it reads where another rank writes, so all of this rests on what those
/// who open sets and clear them promise. Everything else is safe, whatever a caller does.
///
/// Numbers of collectives and positions are counted from an arbitrary start, the same on all ranks,
/// and wrap around.
pub trait SharedControl {
    /// Returns the number of sets: communicators that are served at a time. The same on all ranks
    /// of a job.
    fn sets(&self) -> u32;

    /// Returns the number of slots of a set, and their sizes.
    fn shape(&self, set: u32) -> ControlSlotsShape;

    /// Checks that the slots of `peer` can be read here.
    ///
    /// # Errors
    /// Why not.
    fn reach(&self, peer: PeerId) -> Result<(), Cause>;

    /// Returns the number of processes of each node of the job, if nodes are runs of so many
    /// process numbers and the last has what is left; 0 if they are not, or it is not known. The
    /// same on every rank.
    fn ranks_per_node(&self) -> u32 {
        0
    }

    /// Makes a set that of the communicator with this context, unless it is that already. Neither
    /// zero nor `u32::MAX` is a context.
    ///
    /// # Safety
    /// What the set was used for before is over: no rank reads slots or chunks of it any more. And
    /// `members` are the processes that are counted in [`clear`](Self::clear), a bit each by their
    /// number; or zero, if the context says which they are.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if there is no such set. [`Cause::Stale`] if a rank that is reached
    /// has opened it by this context for other members, or has gone on in it without this one: then
    /// the set is of no communicator.
    unsafe fn open(&mut self, set: u32, context: u32, members: u64) -> Result<(), Cause>;

    /// This rank has left the communicator that has a set: it reads nothing of it any more and
    /// begins nothing in it, as its [`progress`](Self::progress) then says to others. What it has
    /// published stays until the set is opened for another.
    fn leave(&mut self, set: u32);

    /// Starts the next collective: its number.
    fn begin(&mut self, set: u32) -> u32;

    /// Returns true if a collective has a slot: false while one so far before it is not finished on
    /// this rank that they share it.
    fn admits(&self, set: u32, number: u32) -> bool;

    /// Writes this rank's slot of a collective, with `payload`. False, and nothing done, while
    /// another rank has not finished with what stands in it, as far as is known since the last
    /// [`clear`](Self::clear); and once it has been published, since others read it from then on.
    /// Also false once for a payload that would stand in a better place if it were known that the
    /// others are as far: the caller may look how far they are, and is not refused again for that.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for a payload that is longer than its note says, or than
    /// [`START_BYTES`] where that is more than a slot holds.
    fn publish(&mut self, set: u32, number: u32, note: Note, payload: &[u8]) -> Result<bool, Cause>;

    /// Returns the memory of this rank's slot of a collective in which a payload stands that is as
    /// long as its [note](Note::bytes) says, to be written before it is
    /// [published](Self::publish) by that note, with no other payload then; `None` where that would
    /// return false.
    fn slot(&mut self, set: u32, number: u32, bytes: u64) -> Option<&mut [u8]>;

    /// Looks at the slot of `peer`, which may be this rank itself, for a collective that is not
    /// finished here; `None` if it is not written yet.
    ///
    /// # Errors
    /// [`Cause::Malformed`] for what cannot be; [`Cause::PeerDead`] or [`Cause::Unreachable`] if it
    /// cannot be read.
    fn look(&self, set: u32, number: u32, peer: PeerId) -> Result<Option<Notice<'_>>, Cause>;

    /// This rank reads no slot and no chunk of this collective any more, and writes none.
    fn finish(&mut self, set: u32, number: u32);

    /// Does what [`finish`](Self::finish) does, for a collective in which this rank, as a rule, has
    /// waited for no other: it may write its next slots at once, so that these may be made ready. A
    /// hint; without it a slot comes back from the core of its last reader only once it is written.
    fn finish_ahead(&mut self, set: u32, number: u32) {
        self.finish(set, number);
    }

    /// Does what [`finish`](Self::finish) does, for every collective that was begun, in all sets.
    fn abandon(&mut self);

    /// Gives the stream of chunks to a collective: its next position. `None` while another of this
    /// rank has it.
    fn take_chunks(&mut self, set: u32, number: u32) -> Option<u32>;

    /// The collective that has the stream uses `len` positions from `first` on, where ranks may
    /// have come to further than this one. What is before is over on all ranks. When the collective
    /// is finished, this rank is done with them all.
    fn run(&mut self, set: u32, first: u32, len: u32);

    /// This rank's chunk at `position`, to be filled; `None` while another rank is not done with
    /// what stands in it, as far as is known.
    fn fill(&mut self, set: u32, position: u32) -> Option<OwnChunk<'_>>;

    /// Publishes this rank's chunks up to and with `position`.
    fn filled(&mut self, set: u32, position: u32);

    /// The chunk of `peer`, which may be this rank itself, at a position that this rank is not done
    /// with; `None` if it is not filled yet.
    ///
    /// # Errors
    /// [`Cause::Malformed`] for what cannot be; [`Cause::PeerDead`] or [`Cause::Unreachable`] if it
    /// cannot be read, like [`look`](Self::look).
    fn chunk(&self, set: u32, position: u32, peer: PeerId) -> Result<Option<&[u8]>, Cause>;

    /// Records that this rank is done with all ranks' chunks up to and with `position`.
    fn done(&mut self, set: u32, position: u32);

    /// Reads so many bytes from an address in the memory of `peer`, which has told it. Whether they
    /// were what it has lent all the while is known only after that, by its
    /// [`progress`](Self::progress): it has not finished the collective.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] where memory of peers is not read; [`Cause::Device`] if the system
    /// refuses it.
    fn read(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> Result<(), Cause> {
        let _ = (peer, address, into);
        Err(Cause::Unsupported)
    }

    /// Reads what stands at these addresses like [`read`](Self::read), but into the beginning of
    /// this rank's own chunk at `position`, which is not published by that.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); [`Cause::Stale`] if the chunk cannot be
    /// [filled](Self::fill) now, or is shorter.
    fn read_chunk(&mut self, set: u32, position: u32, peer: PeerId, from: Range<u64>) -> Result<(), Cause> {
        let _ = (set, position, peer, from);
        Err(Cause::Unsupported)
    }

    /// Returns how far `peer` has come, which may be this rank itself; all the way, once it has
    /// left or its set is another communicator's.
    ///
    /// # Errors
    /// [`Cause::Malformed`] for what cannot be; [`Cause::PeerDead`] or [`Cause::Unreachable`] if it
    /// cannot be read, like [`look`](Self::look).
    fn progress(&self, set: u32, peer: PeerId) -> Result<Progress, Cause>;

    /// Makes what is before this place free to be written again.
    ///
    /// # Safety
    /// All other ranks of the communicator that has the set have come so far, by their
    /// [`progress`](Self::progress) in it since it was opened.
    unsafe fn clear(&mut self, set: u32, progress: Progress);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_read_as_it_was_written_and_none_from_less() {
        for start in [
            Start { position: 0, address: 0 },
            Start { position: 0x0102_0304, address: 0x1112_1314_1516_1718 },
            Start { position: u32::MAX, address: u64::MAX },
        ] {
            let bytes = start.emit();
            assert_eq!(Start::parse(&bytes), Some(start));
            assert!((0..START_BYTES).all(|len| bytes.get(..len).and_then(Start::parse).is_none()));
        }
    }
}
