//! This module holds `unsafe` code: copies out of peers' memory that is mapped here. What moves
//! long messages between the ranks of a node: the processor, out of a peer's
//! [`arena`](crate::arena), and the system for all other memory.
//!
//! A peer shows its memory by addresses of its own. Those between its arena's beginning, as it has
//! told in its segment, and the end are found in the mapping that this process has; nothing of what
//! the peer says can lead outside of that. Reading there is a plain copy, which begins at once; a
//! half of a long one the owner still takes over by writing through the system, where that is
//! allowed: a write of its own hands could not be revoked while it is stopped.

use core::cell::Cell;
use core::fmt;
use core::hint::black_box;
use core::ptr::NonNull;

use aldis_drivers::direct::{ChunkPlace, CopyEngine};
use aldis_hal::copy::{copy, copy_raw, is_slow_in_linux};
use aldis_hal::memory::{Mapped, Memory};
use aldis_hal::{Cause, Cost, PeerId};

use crate::arena::Arena;
use crate::cma::{self, Cma, Stand};
use crate::error::JoinError;

/// The place of a rank's arena in its segment, which is the same for all ranks of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPlace {
    /// Bytes from the rank's stand to its arena.
    pub(crate) behind: usize,
    /// Bytes of the arena.
    pub(crate) bytes: usize,
}

/// A peer's arena, mapped here.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The place where the peer tells the address at which it begins there, and behind which it is
    /// mapped here.
    stand: Stand,
    /// That address, once it has been asked for; zero before.
    there: Cell<u64>,
}

// SAFETY: the mapping is memory of the process, bound to no thread, and is read by the one that
// holds this.
unsafe impl Send for Window {}

impl Window {
    /// The bytes at the place behind this stand, which its peer has as its arena; `None` if there
    /// are none. Nothing is looked at there yet.
    ///
    /// # Safety
    /// They are initialised and valid for reads for the rest of the process, by the pointer that
    /// the stand was made of, and the window is looked through with this place alone.
    pub(crate) unsafe fn new(stand: Stand, place: WindowPlace) -> Option<Self> {
        (place.bytes > 0).then_some(Self { stand, there: Cell::new(0) })
    }

    /// Returns the address at which the arena begins in the peer, if the peer has told of it.
    #[inline]
    fn there(&self) -> Option<u64> {
        if self.there.get() == 0 {
            self.there.set(self.stand.arena());
        }
        Some(self.there.get()).filter(|there| *there > 0)
    }

    /// Returns the address here of `len` bytes at `from` of the peer, if they are all in its arena.
    fn find(&self, place: WindowPlace, from: u64, len: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(from.checked_sub(self.there()?)?).ok()?;
        let inside = offset.checked_add(len)? <= place.bytes;
        // SAFETY: it is inside of the mapping, as `new`'s caller vouched for this place.
        inside.then(|| unsafe { self.stand.start().add(place.behind).add(offset) })
    }
}

/// The variable that says what a read of mapped memory costs, as [`cma::COST_VARIABLE`] does for
/// all other.
pub const COST_VARIABLE: &str = "ALDIS_MAPPED_COST";

/// Returns the cost of a read of mapped memory: as the variable says, or as measured by copying
/// this process's own, in a tenth of a millisecond.
pub(crate) fn mapped_cost() -> Result<Cost, JoinError> {
    cma::cost_of(COST_VARIABLE, || {
        cma::measured(|from, into| {
            copy(into, black_box(from));
            black_box(into);
            true
        })
    })
}

/// Returns the variables by which a launcher tells its ranks what copies cost, as measured here
/// once for all of them: those that are not set. Ranks that outnumber their cores would measure
/// each other's crowd, a millisecond each.
pub fn measured_costs() -> Vec<(&'static str, String)> {
    let is_free = |name| std::env::var_os(name).is_none();
    let told = |name, cost: Result<Cost, JoinError>| {
        let Cost { latency_ns, per_kib_ns, .. } = cost.ok()?;
        Some((name, format!("{latency_ns}:{per_kib_ns}")))
    };
    let read = is_free(cma::COST_VARIABLE).then(|| told(cma::COST_VARIABLE, cma::read_cost()));
    let mapped = is_free(COST_VARIABLE).then(|| told(COST_VARIABLE, mapped_cost()));
    [read, mapped].into_iter().flatten().flatten().collect()
}

/// Bytes that are kept of each rank, besides those of [`cma`].
pub(crate) const BYTES_PER_PEER: usize = size_of::<Option<Window>>();

/// Copies from and to the other ranks of the node.
pub struct Copier {
    cma: Cma,
    arena: &'static Arena,
    /// The place of each peer's arena.
    place: WindowPlace,
    /// By rank.
    windows: Vec<Option<Window>>,
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copier").field("cma", &self.cma).field("arena", self.arena).finish_non_exhaustive()
    }
}

impl Copier {
    /// Returns a copier for `ranks` ranks, whose arenas are at this place, that reads none yet.
    pub(crate) fn new(cma: Cma, arena: &'static Arena, place: WindowPlace, ranks: u32) -> Self {
        Self { cma, arena, place, windows: vec![None; ranks as usize] }
    }

    /// The copies of the system.
    pub(crate) const fn cma(&self) -> &Cma {
        &self.cma
    }

    /// The copies of the system, to be told of peers.
    pub(crate) const fn cma_mut(&mut self) -> &mut Cma {
        &mut self.cma
    }

    /// Reads the arena of `peer`, behind its stand, where it is mapped from now on.
    ///
    /// # Safety
    /// As of [`Window::new`], with the place that this was made for.
    pub(crate) unsafe fn open(&mut self, peer: PeerId, stand: Stand) {
        if let Some(row) = self.windows.get_mut(peer.index()) {
            // SAFETY: as the caller vouches.
            *row = unsafe { Window::new(stand, self.place) };
        }
    }

    /// This rank's own arena.
    pub const fn arena(&self) -> &'static Arena {
        self.arena
    }

    fn window(&self, peer: PeerId) -> Option<&Window> {
        self.windows.get(peer.index())?.as_ref()
    }
}

// SAFETY: what `Cma` promises, and `read` writes nothing but the memory it is given here too.
unsafe impl CopyEngine for Copier {
    fn reads(&self, peer: PeerId) -> Result<(), &'static str> {
        if self.window(peer).is_some() { Ok(()) } else { self.cma.reads(peer) }
    }

    fn expects(&self, peer: PeerId) -> bool {
        // The system is asked in any case: `reads_all` tells what was found.
        let reads = self.cma.expects(peer);
        reads || self.maps(peer)
    }

    fn shows(&self, peer: PeerId, memory: Memory) -> bool {
        self.cma.reads(peer).is_ok() || self.is_mapped(peer, memory)
    }

    #[inline]
    fn reads_all(&self, peer: PeerId) -> bool {
        self.cma.reads_all(peer)
    }

    fn maps(&self, peer: PeerId) -> bool {
        self.window(peer).is_some()
    }

    /// All ranks of a job have arenas, or none has, and each has mapped those of its node.
    fn is_mapped(&self, peer: PeerId, memory: Memory) -> bool {
        self.maps(peer) && self.arena.holds(memory)
    }

    fn remark(&self, peer: PeerId) -> Option<&'static str> {
        // What is staged is nothing that a user has sent from an arena.
        let window = self.window(peer).filter(|_| self.arena.bytes() > 0);
        match (window, self.cma.reads(peer)) {
            (Some(_), Ok(())) => Some("what is sent from an arena is read where it is mapped"),
            (Some(_), Err(_)) => Some(
                "only what is sent from an arena is read, where it is mapped: see ALDIS_CMA for other memory",
            ),
            (None, reads) => reads.err(),
        }
    }

    fn mapped(&self, peer: PeerId, from: u64, len: usize) -> Option<Mapped<'_>> {
        let found = self.window(peer)?.find(self.place, from, len)?;
        // SAFETY: a window is readable for the rest of the process, and is another rank's memory as
        // mapped for this one, where nothing writes.
        Some(unsafe { Mapped::new(found, len) })
    }

    fn writes(&self, peer: PeerId) -> bool {
        self.cma.writes(peer)
    }

    fn shares(&self, peer: PeerId, from: u64, into: u64) -> bool {
        self.writes(peer) && !is_slow_in_linux(into as usize, from as usize)
    }

    #[inline]
    unsafe fn read(&mut self, peer: PeerId, from: u64, into: *mut u8, len: usize) -> Result<(), Cause> {
        match self.window(peer).and_then(|window| window.find(self.place, from, len)) {
            Some(found) => {
                // SAFETY: the caller vouches for `into`, and what is found is another rank's memory
                // as mapped for this one, and so apart. Its owner may write there meanwhile, once
                // it has taken the memory back: what has been read is void then, as the entry's
                // generation tells.
                unsafe { copy_raw(found.as_ptr(), into, len) };
                Ok(())
            }
            // SAFETY: as the caller vouches.
            None => unsafe { self.cma.read(peer, from, into, len) },
        }
    }

    unsafe fn write(
        &mut self,
        peer: PeerId,
        from: *const u8,
        place: &ChunkPlace,
        len: usize,
    ) -> Result<(), Cause> {
        // SAFETY: as the caller vouches.
        unsafe { self.cma.write(peer, from, place, len) }
    }

    fn thread(&self) -> u32 {
        self.cma.thread()
    }

    fn is_within(&mut self, peer: PeerId, thread: u32) -> bool {
        self.cma.is_within(peer, thread)
    }

    fn await_end(&mut self, peer: PeerId, thread: u32, is_over: &dyn Fn() -> bool) {
        self.cma.await_end(peer, thread, is_over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cma::STAND_BYTES;

    /// Whatever a peer says: nothing outside of the mapping is found.
    #[test]
    fn what_is_found_is_inside() {
        // The last page of what a stand has is the arena here.
        let place = WindowPlace { behind: STAND_BYTES - 4096, bytes: 4096 };
        let window = |there| {
            let stand = cma::tests::stand();
            stand.take_up(there);
            // SAFETY: nothing here reads it.
            let window = unsafe { Window::new(stand, place) }.unwrap();
            (window, stand.start().addr().get() + place.behind)
        };
        assert_eq!(window(None).0.find(place, 0, 1), None, "it has told of none");
        // SAFETY: as above.
        assert!(unsafe { Window::new(cma::tests::stand(), WindowPlace { bytes: 0, ..place }) }.is_none());
        for there in [1, 0x7000_0000, u64::MAX - 4095, u64::MAX] {
            let (window, here) = window(Some(there as usize));
            let find = |from, len| window.find(place, from, len);
            assert_eq!(find(there, 4096).map(|found| found.addr().get()), Some(here));
            assert_eq!(find(there, 4097), None);
            assert_eq!(find(there, usize::MAX), None);
            assert_eq!(find(there - 1, 1), None);
            for (from, len) in [(1, 4095), (4095, 1), (4096, 0)] {
                let expected = there.checked_add(from).map(|_| here + from as usize);
                let found = there.checked_add(from).and_then(|from| find(from, len));
                assert_eq!(found.map(|found| found.addr().get()), expected);
            }
            assert_eq!(there.checked_add(4095).and_then(|from| find(from, 2)), None);
        }
    }
}
