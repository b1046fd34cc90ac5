//! This module holds `unsafe` code: it divides one memory into the inboxes of several cores.
//!
//! The cores of one machine image - threads of a process, cores of a firmware - joined by rings in
//! memory that all of them have: each core is a rank of its own, with a transport and an endpoint
//! of its own, and no lock between them.
//!
//! ```
//! use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
//! use aldis_hal::{Cause, Cost, Epoch, PeerId, Transport};
//!
//! const CORES: Geometry =
//!     Geometry { peers: 2, slots: 4, lanes: 1, blocks: 1, block_bytes: 64, sets: 0 };
//! let mut memory = [0u8; Cores::memory_bytes(&CORES)];
//! let mut lanes = [const { Lane::EMPTY }; Cores::lanes(&CORES)];
//! let cost = Cost { overhead_ns: 40, latency_ns: 100, per_kib_ns: 100 };
//! let setup = CoresSetup { geometry: CORES, epoch: Epoch(1), cost };
//! let mut cores = Cores::new(&mut memory, &mut lanes, setup)?;
//! let (first, second) = (cores.next().unwrap()?, cores.next().unwrap()?);
//! assert!(first.reach(PeerId(1)).is_ok() && second.reach(PeerId(0)).is_ok());
//! assert!(cores.next().is_none());
//! # Ok::<(), Cause>(())
//! ```

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice::ChunksExactMut;

use aldis_hal::{Cause, Cost, Epoch, PeerId, Resource};

use super::geometry::{Geometry, Identity, LINE_BYTES};
use super::lane::Lane;
use super::region::{Region, format};
use super::transport::Shm;

/// The transports of the cores of one machine image, handed out in the order of their ranks: an
/// iterator.
pub struct Cores<'m> {
    start: NonNull<u8>,
    geometry: Geometry,
    epoch: Epoch,
    cost: Cost,
    lanes: ChunksExactMut<'m, Lane>,
    next: u32,
    mates: fn(PeerId, PeerId) -> bool,
    memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: the pointer leads into memory that is borrowed for `'m` and reached through regions only,
// which are `Send`.
unsafe impl Send for Cores<'_> {}

/// The shape of a [`Cores`].
#[derive(Clone, Copy, Debug)]
pub struct CoresSetup {
    /// The division of each inbox.
    pub geometry: Geometry,
    /// The boot id of all cores: they boot together.
    pub epoch: Epoch,
    /// The cost of a message, measured or assumed for this machine.
    pub cost: Cost,
}

impl<'m> Cores<'m> {
    /// Bytes of memory for the inboxes of all cores; up to 63 of them go to alignment.
    pub const fn memory_bytes(geometry: &Geometry) -> usize {
        let inboxes = geometry.inbox_bytes().saturating_mul(geometry.peers as usize);
        inboxes.saturating_add(LINE_BYTES as usize - 1)
    }

    /// Entries of the tables of lanes of all cores together.
    pub const fn lanes(geometry: &Geometry) -> usize {
        (geometry.peers as usize).saturating_mul(geometry.lane_entries())
    }

    /// Lays out an inbox for each of the geometry's ranks in `memory`, which each is written by all
    /// others.
    ///
    /// # Errors
    /// [`Cause::TooBig`] for too little memory, [`Cause::TooSmall`] for too few lanes,
    /// [`Cause::Incompatible`] for an epoch of zero; the rest as [`format`].
    pub fn new(memory: &'m mut [u8], lanes: &'m mut [Lane], setup: CoresSetup) -> Result<Self, Cause> {
        let CoresSetup { geometry, epoch, cost } = setup;
        geometry.check()?;
        let (need, have) = (Self::lanes(&geometry), lanes.len());
        let Some(lanes) = lanes.get_mut(..need) else {
            let what = Resource::Peers;
            return Err(Cause::TooSmall {
                what,
                need: need.try_into().unwrap_or(u32::MAX),
                have: have as u32,
            });
        };
        let skip = memory.as_ptr().align_offset(LINE_BYTES as usize);
        let max = memory.len() as u64;
        let len = Self::memory_bytes(&geometry) - (LINE_BYTES as usize - 1);
        let whole = skip.checked_add(len).and_then(|end| memory.get_mut(skip..end));
        let whole = whole.ok_or(Cause::TooBig { len: len as u64, max })?;
        let start = NonNull::from(whole).cast();
        let lanes = lanes.chunks_exact_mut(geometry.lane_entries());
        let mates = |_, _| true;
        let cores = Self { start, geometry, epoch, cost, lanes, next: 0, mates, memory: PhantomData };
        for owner in 0..geometry.peers {
            format(&cores.region(owner), geometry, cores.identity(owner))?;
        }
        Ok(cores)
    }

    /// Joins only those pairs of cores for which `mates` is true, asked both ways round: the others
    /// have another way to each other.
    #[must_use]
    pub const fn among(self, mates: fn(PeerId, PeerId) -> bool) -> Self {
        Self { mates, ..self }
    }

    const fn identity(&self, owner: u32) -> Identity {
        // The memory has no other users that a job's number could keep apart.
        Identity { job: 0, owner: PeerId(owner), epoch: self.epoch }
    }

    /// The inbox of `owner`, a rank of the geometry.
    fn region(&self, owner: u32) -> Region<'m> {
        let bytes = self.geometry.inbox_bytes();
        // SAFETY: `new` found room for the inboxes of all ranks behind each other in memory that it
        // borrowed for 'm; it is initialised, used through such regions alone, and only by
        // transports made here, of which there is one for each rank and which keep the protocols of
        // the rings and of the control slots.
        unsafe { Region::new(self.start.add(bytes * owner as usize), bytes) }
    }

    fn transport(&self, me: u32, lanes: &'m mut [Lane]) -> Result<Shm<'m>, Cause> {
        let mut shm = Shm::new(self.identity(me), self.region(me), lanes, self.cost)?;
        let mates = |peer: &u32| *peer != me && (self.mates)(PeerId(me), PeerId(*peer));
        for peer in (0..self.geometry.peers).filter(mates) {
            shm.attach(PeerId(peer), self.region(peer), self.identity(peer))?;
        }
        Ok(shm)
    }
}

impl<'m> Iterator for Cores<'m> {
    type Item = Result<Shm<'m>, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        let lanes = self.lanes.next()?;
        let me = self.next;
        self.next = me.wrapping_add(1);
        Some(self.transport(me, lanes))
    }
}

impl fmt::Debug for Cores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cores").field("geometry", &self.geometry).field("next", &self.next).finish()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use aldis_hal::{Instant, Post, Sink, Token, Transport};

    use super::*;

    const GEOMETRY: Geometry =
        Geometry { peers: 3, slots: 4, lanes: 32, blocks: 2, block_bytes: 128, sets: 0 };
    const COST: Cost = Cost { overhead_ns: 1, latency_ns: 1, per_kib_ns: 1 };

    #[derive(Default)]
    struct Heard(Vec<(u32, Vec<u8>)>);

    impl Sink for Heard {
        fn arrived(&mut self, from: PeerId, message: &[u8]) {
            self.0.push((from.0, message.to_vec()));
        }
        fn completed(&mut self, _: Token, _: Result<(), Cause>) {}
        fn ready(&mut self, _: PeerId) {}
        fn lost(&mut self, peer: PeerId, cause: Cause) {
            panic!("{peer} is lost: {cause}");
        }
    }

    #[test]
    fn every_core_reaches_every_other_wherever_the_memory_begins() {
        let mut memory = vec![0xA5; Cores::memory_bytes(&GEOMETRY) + 64];
        for skip in 0..64 {
            let mut lanes = [const { Lane::EMPTY }; Cores::lanes(&GEOMETRY)];
            let cores = Cores::new(
                &mut memory[skip..],
                &mut lanes,
                CoresSetup { geometry: GEOMETRY, epoch: Epoch(9), cost: COST },
            )
            .unwrap();
            let mut cores: Vec<Shm<'_>> = cores.map(Result::unwrap).collect();
            assert_eq!(cores.len(), 3);
            for (from, core) in (0_u8..).zip(&mut cores) {
                for to in (0..3).filter(|to| *to != from) {
                    assert_eq!(core.short(PeerId(u32::from(to)), &[from, to], b"!"), Post::Done);
                }
            }
            for (to, core) in (0_u8..).zip(&mut cores) {
                let mut heard = Heard::default();
                while core.poll(8, Instant(0), &mut heard) > 0 {}
                heard.0.sort();
                let others = (0_u8..3).filter(|from| *from != to);
                let expected: Vec<_> = others.map(|from| (u32::from(from), vec![from, to, b'!'])).collect();
                assert_eq!(heard.0, expected);
            }
        }
    }

    #[test]
    fn only_mates_are_joined() {
        let mut memory = vec![0; Cores::memory_bytes(&GEOMETRY)];
        let mut lanes = [const { Lane::EMPTY }; Cores::lanes(&GEOMETRY)];
        let cores = Cores::new(
            &mut memory,
            &mut lanes,
            CoresSetup { geometry: GEOMETRY, epoch: Epoch(9), cost: COST },
        )
        .unwrap();
        let pair = |one: PeerId, other: PeerId| one.0 < 2 && other.0 < 2;
        let cores: Vec<Shm<'_>> = cores.among(pair).map(Result::unwrap).collect();
        let joined = |from: u32, to: u32| cores[from as usize].reach(PeerId(to)).is_ok();
        assert!(joined(0, 1) && joined(1, 0));
        assert!(!joined(0, 2) && !joined(2, 0) && !joined(1, 2) && !joined(2, 1));
    }

    #[test]
    fn too_little_is_refused_by_name() {
        let mut lanes = [const { Lane::EMPTY }; Cores::lanes(&GEOMETRY)];
        let mut memory = vec![0; Cores::memory_bytes(&GEOMETRY)];
        let short = Cores::new(
            &mut memory[..64],
            &mut lanes,
            CoresSetup { geometry: GEOMETRY, epoch: Epoch(1), cost: COST },
        )
        .unwrap_err();
        assert!(matches!(short, Cause::TooBig { .. }), "{short}");
        let few = Cores::new(
            &mut memory,
            &mut lanes[1..],
            CoresSetup { geometry: GEOMETRY, epoch: Epoch(1), cost: COST },
        )
        .unwrap_err();
        assert_eq!(few, Cause::TooSmall { what: Resource::Peers, need: 27, have: 26 });
        let none = Cores::new(
            &mut memory,
            &mut lanes,
            CoresSetup { geometry: GEOMETRY, epoch: Epoch(0), cost: COST },
        )
        .unwrap_err();
        assert_eq!(none, Cause::Incompatible);
    }
}
