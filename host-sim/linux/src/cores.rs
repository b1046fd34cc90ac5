//! Cores as ranks: a job whose ranks are threads of this process, each with an endpoint of its own,
//! joined by the shared-memory driver's rings in plain memory of the process. Nothing is locked and
//! no core waits for a turn.
//!
//! ```
//! use aldis_linux::cores;
//! use aldis_kernel::{Rank, Tag};
//!
//! let heard = cores::run(3, |ep| {
//!     let (world, mut token) = (ep.world(), [0_u32]);
//!     let (me, size) = (world.rank().0, world.size());
//!     let (next, previous) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
//!     ep.sendrecv(&world, &[me], next, Tag(0), &mut token, previous, Tag(0))?;
//!     Ok(token[0])
//! })?;
//! assert_eq!(heard, [2, 0, 1]);
//! # Ok::<(), aldis_linux::cores::CoreFailure>(())
//! ```
//!
//! When to take which:
//!
//! - A program whose threads each talk for themselves, much or in large messages, takes this: an
//!   endpoint a core. Every core is a rank, and a message for it reaches it without passing
//!   another.
//! - A program whose threads seldom talk, or share the messages of one rank (MPI_THREAD_MULTIPLE),
//!   takes [`Shared`](aldis_kernel::Shared): one endpoint, one rank, behind a spin lock.
//!
//! A message from elsewhere reaches the right core because the core is its address: over a wire
//! each core has a transport of its own beside its rings, in a [`Composite`].

use core::error::Error;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

use aldis_drivers::shm::{Cores, CoresSetup, Geometry, Lane};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cause, Epoch, PeerId, Platform, Transport};
use aldis_kernel::{Composite, Config, Endpoint, Storage, storage_type};
use aldis_protocols::Card;

use crate::entropy;
use crate::platform::{HostPlatform, Patience, allowed_cores};
use crate::transport::{COST, FRAME_BYTES};

/// A core's endpoint; on a platform of one's own with [`run_on`].
pub type CoreEndpoint<'m, P = HostPlatform> = Endpoint<'m, Composite<Loopback<'m>, Shm<'m>>, P>;

/// The reason why a core failed.
pub type CoreFailure = Box<dyn Error + Send + Sync>;

/// Cores of the largest job.
pub const CORES_MAX: u32 = 16;

/// 256 requests, 16 communicators; 32 envelopes a peer and 8 blocks of 2 KiB; 16 pooled.
type CoreStorage = storage_type!(CORES_MAX as usize, 256, 16, 32, 8, 2048, 16, 256, 64);

/// Frames of a core's loopback.
const FRAMES: usize = 8;
/// The longest that leaving may take: others may compute for a long time before they receive a
/// pending message.
const LEAVE_LIMIT: Duration = Duration::from_secs(3600);
/// The code with which a core that fails aborts the job.
const FAILED: i32 = 1;

/// Runs `program` on so many threads, each of which is a rank, and returns what each came to, by
/// rank.
///
/// # Errors
/// [`Cause::TooBig`] for no core or more than [`CORES_MAX`]; what the first core to fail said,
/// whereupon the others fail with [`Cause::Aborted`].
///
/// # Panics
/// If the program does, on any core, once all have ended.
pub fn run<R: Send>(
    cores: u32,
    program: impl Fn(&mut CoreEndpoint<'_>) -> Result<R, CoreFailure> + Sync,
) -> Result<Vec<R>, CoreFailure> {
    let patience = Patience::of(cores, allowed_cores().len() as u32, false);
    run_on(cores, |_| HostPlatform::unwatched(patience), program)
}

/// Runs `program` like [`run`], but each core on what `platform` makes for it: a clock and a way to
/// rest of one's own.
///
/// # Errors
/// [`Cause::TooBig`] for no core or more than [`CORES_MAX`]; the failure of the first core to fail.
///
/// # Panics
/// If the program does, on any core, once all have ended.
pub fn run_on<P: Platform, R: Send>(
    cores: u32,
    platform: impl Fn(u32) -> P + Sync,
    program: impl Fn(&mut CoreEndpoint<'_, P>) -> Result<R, CoreFailure> + Sync,
) -> Result<Vec<R>, CoreFailure> {
    if cores == 0 || cores > CORES_MAX {
        return Err(Cause::TooBig { len: u64::from(cores), max: u64::from(CORES_MAX) }.into());
    }
    let geometry = Geometry {
        peers: cores,
        slots: 64,
        lanes: Geometry::LANES_MAX,
        blocks: 8,
        block_bytes: 16 << 10,
        sets: 4,
    };
    let (meeting, first) = (CoreMeeting::of(cores), Mutex::new(None));
    let epoch = Epoch::from_entropy(entropy::distinct());
    let core = |me: u32, end: Shm<'_>| {
        let mut storage = boxed();
        let mut frames = vec![0; FRAMES * (FRAME_BYTES as usize + 16)];
        let config = Config { me: PeerId(me), size: cores, epoch };
        let memory = CoreMemory { storage: &mut storage, frames: &mut frames };
        let joined = join(memory.endpoint(config, end, platform(me)), &meeting);
        finish(joined, &program, &first)
    };
    let ended = spread(CoresSetup { geometry, epoch, cost: COST }, |_, _| true, core)?;
    // Joined all before one's panic goes on: the others end, since it has aborted the job.
    let results = ended.into_iter().map(|result| result.unwrap_or_else(|panic| panic::resume_unwind(panic)));
    let results: Vec<Option<R>> = results.collect();
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(results.into_iter().flatten().collect()),
    }
}

/// Threads for the ranks of `setup`, each with its end of rings in memory of this process to all
/// that are its `mates`. What each came to, by rank.
///
/// # Errors
/// [`Cause::TooBig`], [`Cause::Unaligned`] or [`Cause::Incompatible`] for a geometry that no inbox
/// can have, [`Cause::Incompatible`] for an epoch of zero; the rest as [`Cores::new`].
pub fn spread<R: Send>(
    setup: CoresSetup,
    mates: fn(PeerId, PeerId) -> bool,
    core: impl Fn(u32, Shm<'_>) -> R + Sync,
) -> Result<Vec<thread::Result<R>>, Cause> {
    let mut memory = vec![0; Cores::memory_bytes(&setup.geometry)];
    let mut lanes: Vec<Lane> = (0..Cores::lanes(&setup.geometry)).map(|_| Lane::EMPTY).collect();
    let ends = Cores::new(&mut memory, &mut lanes, setup)?.among(mates);
    let ends: Vec<Shm<'_>> = ends.collect::<Result<_, _>>()?;
    let core = &core;
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (0..).zip(ends).map(|(me, end)| scope.spawn(move || core(me, end))).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    }))
}

/// The place where the cores of a job introduce themselves to each other. Every core comes, or
/// tells that it does not.
#[derive(Debug)]
pub struct CoreMeeting {
    cards: Mutex<Vec<Card>>,
    met: Barrier,
}

impl CoreMeeting {
    /// A meeting of so many.
    pub fn of(cores: u32) -> Self {
        Self { cards: Mutex::default(), met: Barrier::new(cores as usize) }
    }

    /// Connects an endpoint, of which `card` is the card, with those of all others that come.
    /// Returns when all have done so.
    ///
    /// # Errors
    /// [`Cause::Incompatible`] for a card of another version, [`Cause::RankOutOfRange`] for a rank
    /// outside the job, or why the transport cannot reach it.
    pub fn join<T: Transport, P: Platform>(
        &self,
        endpoint: &mut Endpoint<'_, T, P>,
        card: Card,
    ) -> Result<(), aldis_kernel::Error> {
        let me = card.peer();
        self.cards().push(card);
        self.met.wait();
        let cards = self.cards().clone();
        let connected =
            cards.iter().filter(|card| card.peer() != me).try_for_each(|card| endpoint.connect(card));
        // No rank sends before all have been introduced.
        self.met.wait();
        connected
    }

    /// Takes part without an endpoint, so that the others do not wait for this core.
    pub fn miss(&self) {
        self.met.wait();
        self.met.wait();
    }

    fn cards(&self) -> MutexGuard<'_, Vec<Card>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a core's endpoint.
struct CoreMemory<'m> {
    storage: &'m mut CoreStorage,
    /// Of its loopback.
    frames: &'m mut [u8],
}

impl<'m> CoreMemory<'m> {
    /// Makes the endpoint of a core from its end of the rings.
    fn endpoint<P: Platform>(
        self,
        config: Config,
        end: Shm<'m>,
        platform: P,
    ) -> Result<CoreEndpoint<'m, P>, CoreFailure> {
        let own = Loopback::new(config.me, self.frames, FRAME_BYTES)?;
        Ok(Endpoint::new(self.storage.memory(), Composite::new(own, end), platform, config)?)
    }
}

/// Connects a core's endpoint to all others; without one, tells them so.
fn join<'m, P: Platform>(
    made: Result<CoreEndpoint<'m, P>, CoreFailure>,
    meeting: &CoreMeeting,
) -> Result<CoreEndpoint<'m, P>, CoreFailure> {
    let Ok(mut endpoint) = made else {
        meeting.miss();
        return made;
    };
    let card = endpoint.card();
    meeting.join(&mut endpoint, card)?;
    Ok(endpoint)
}

/// Runs the program on a core and leaves. A failure is kept if it is the first.
fn finish<P: Platform, R>(
    joined: Result<CoreEndpoint<'_, P>, CoreFailure>,
    program: impl Fn(&mut CoreEndpoint<'_, P>) -> Result<R, CoreFailure>,
    first: &Mutex<Option<CoreFailure>>,
) -> Option<R> {
    let result = joined.and_then(|mut endpoint| {
        match panic::catch_unwind(AssertUnwindSafe(|| program(&mut endpoint))) {
            Ok(Ok(result)) => endpoint.leave(LEAVE_LIMIT).map(|()| result).map_err(CoreFailure::from),
            Ok(Err(failure)) => {
                keep(first, failure);
                endpoint.abort(FAILED);
                Err(Cause::Aborted { code: FAILED }.into())
            }
            Err(panic) => {
                endpoint.abort(FAILED);
                panic::resume_unwind(panic)
            }
        }
    });
    result.map_err(|failure| keep(first, failure)).ok()
}

/// Keeps the first failure.
fn keep(first: &Mutex<Option<CoreFailure>>, failure: CoreFailure) {
    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// In a frame of its own: a storage is large.
#[inline(never)]
fn boxed() -> Box<CoreStorage> {
    Box::new(Storage::new())
}

#[cfg(test)]
mod tests {
    use aldis_kernel::{Rank, Tag};

    use super::*;

    #[test]
    fn a_core_that_fails_ends_the_others() {
        let failed = run(3, |ep| {
            let (world, mut byte) = (ep.world(), [0_u8]);
            if world.rank() == Rank(1) {
                return Err("out of paper".into());
            }
            ep.recv(&world, &mut byte, Rank(1), Tag(1))?;
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "out of paper");
    }

    #[test]
    fn a_panic_comes_out_when_all_have_ended() {
        let panicked = panic::catch_unwind(|| {
            run(2, |ep| {
                let (world, mut byte) = (ep.world(), [0_u8]);
                assert_ne!(world.rank(), Rank(1), "torn");
                ep.recv(&world, &mut byte, Rank(1), Tag(1))?;
                Ok(())
            })
        });
        assert!(panicked.is_err());
    }

    #[test]
    fn jobs_of_one_and_of_the_most_cores() {
        assert_eq!(run(1, |ep| Ok(ep.world().size())).unwrap(), [1]);
        assert_eq!(run(CORES_MAX, |ep| Ok(ep.world().rank().0)).unwrap(), Vec::from_iter(0..CORES_MAX));
        assert!(run(0, |_| Ok(())).is_err() && run(CORES_MAX + 1, |_| Ok(())).is_err());
    }
}
