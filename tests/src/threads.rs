//! Ranks as threads of this process: shared-memory rings on the heap between them, a loopback for
//! each to itself.

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant as Clock;

use aldis_drivers::shm::{CoresSetup, Geometry};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Activity, Cost, Epoch, Instant, PeerId, Platform, Transport};
use aldis_kernel::{Composite, Config, Endpoint, Memory};
use aldis_linux::cores::{self, CoreMeeting};
use aldis_sys::clock::sleep;
use nix::time::{ClockId, clock_gettime};

use crate::storage::{Room, Store, boxed};
use crate::watch::{Watch, verdict, words};

/// The transport of a rank.
pub type Threads<'m> = Composite<Loopback<'m>, Shm<'m>>;
/// A rank's endpoint.
pub type ThreadEndpoint<'m, 'w> = Endpoint<'m, Threads<'m>, Host<'w>>;

/// The cost that the rings tell of.
pub const COST: Cost = Cost { overhead_ns: 60, latency_ns: 120, per_kib_ns: 100 };
/// The boot id of all ranks.
pub const EPOCH: Epoch = Epoch(1);
/// Bytes of a loopback frame, and how many there are.
const FRAME_BYTES: u32 = 256;
const FRAMES: usize = 6;
/// Time on a core and asleep that a rank may use for its part: many times what any of them needs.
/// While it waits it gives its core away, so that the others of its job have had as much by then.
pub const HANG: Duration = Duration::from_secs(20);

/// Idle turns in which a rank gives its core away, before it sleeps for so long at a time: mostly
/// there are more ranks than cores, and those that wait would have all that the others need.
const YIELDS: u32 = 8;
const NAP: Duration = Duration::from_micros(20);

/// The host's clock, and its scheduler to rest with.
#[derive(Debug)]
pub struct Host<'w> {
    me: u32,
    start: Clock,
    used: Duration,
    naps: Cell<u32>,
    watch: &'w Watch,
    activity: Cell<Activity>,
}

impl<'w> Host<'w> {
    /// The platform of rank `me`, made on the thread that it is for.
    pub fn new(me: u32, watch: &'w Watch) -> Self {
        let naps = Cell::default();
        Self { me, start: Clock::now(), used: used(), naps, watch, activity: Cell::default() }
    }

    fn rest(&self, idle: u32) {
        // What it has slept counts as what it meant to: however late a busy machine wakes it.
        let spent = || used().saturating_sub(self.used) + NAP * self.naps.get();
        self.watch.look(self.me, idle, &self.activity.get(), spent);
        if idle < YIELDS {
            thread::yield_now();
        } else {
            self.naps.set(self.naps.get() + 1);
            sleep(NAP);
        }
    }
}

/// Time that this thread has had on a core.
fn used() -> Duration {
    // The call cannot fail for this clock.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

impl Platform for Host<'_> {
    fn now(&self) -> Instant {
        Instant(self.start.elapsed().as_nanos() as u64)
    }
    fn relax(&mut self, idle: u32) {
        self.rest(idle);
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, activity: Activity) {
        self.activity.set(activity);
    }
}

/// Memory for [`loopback`].
pub fn frames() -> Vec<u8> {
    vec![0; FRAMES * (FRAME_BYTES as usize + 16)]
}

/// A rank's way to itself.
pub fn loopback(me: u32, frames: &mut [u8]) -> Loopback<'_> {
    Loopback::new(PeerId(me), frames, FRAME_BYTES).expect("room for a frame")
}

/// Cores whose inboxes are divided so.
pub const fn setup(geometry: Geometry) -> CoresSetup {
    CoresSetup { geometry, epoch: EPOCH, cost: COST }
}

/// Rank `me` of so many.
pub const fn rank_config(me: u32, size: u32) -> Config {
    Config { me: PeerId(me), size, epoch: EPOCH }
}

/// The endpoint of a rank.
pub fn endpoint<'m, T: Transport, P: Platform>(
    memory: Memory<'m>,
    transport: T,
    platform: P,
    config: Config,
) -> Endpoint<'m, T, P> {
    Endpoint::new(memory, transport, platform, config).expect("a storage for the job")
}

/// The rings of a job of so many ranks.
pub const fn rings(size: u32) -> Geometry {
    Geometry { peers: size, slots: 8, lanes: Geometry::LANES_MAX, blocks: 2, block_bytes: 512, sets: 4 }
}

/// Runs `body` on every rank of a job of `size` and gives their results, or what went wrong on
/// which.
///
/// # Errors
/// What the ranks said that failed, panicked or hang.
pub fn run<R: Send>(
    size: u32,
    room: Room,
    body: impl Fn(&mut ThreadEndpoint<'_, '_>) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    run_in(Job { rings: rings(size), store: || boxed(room), may_leave: false }, body)
}

/// The parts of a job.
#[derive(Clone, Copy, Debug)]
pub struct Job<S> {
    /// The rings, and how many ranks there are.
    pub rings: Geometry,
    /// Makes the storage of a rank.
    pub store: S,
    /// True if ranks may be over with messages and requests left.
    pub may_leave: bool,
}

/// Like [`run`], but for a job of the caller's own make.
///
/// # Errors
/// What the ranks said that failed, panicked or hang.
pub fn run_in<R: Send>(
    Job { rings, store, may_leave }: Job<impl Fn() -> Box<dyn Store> + Sync>,
    body: impl Fn(&mut ThreadEndpoint<'_, '_>) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let watch = Watch::new(rings.peers, HANG).that_may_leave(may_leave);
    let meeting = CoreMeeting::of(rings.peers);
    let rank = |me: u32, end: Shm<'_>| {
        let (mut storage, mut frames) = (store(), frames());
        let transport = Composite::new(loopback(me, &mut frames), end);
        let config = rank_config(me, rings.peers);
        let mut endpoint = endpoint(storage.memory(), transport, Host::new(me, &watch), config);
        let card = endpoint.card();
        meeting.join(&mut endpoint, card).expect("ranks of one job");
        serve(&watch, &mut endpoint, &body)
    };
    let ended = cores::spread(setup(rings), |_, _| true, rank).map_err(|cause| cause.to_string())?;
    verdict(ended.into_iter().map(|rank| rank.unwrap_or_else(|panic| Err(words(&*panic)))).collect())
}

/// A rank's part, and what it does for the others afterwards.
pub fn serve<'s, T: Transport, R>(
    watch: &Watch,
    endpoint: &mut Endpoint<'s, T, Host<'_>>,
    body: impl FnOnce(&mut Endpoint<'s, T, Host<'_>>) -> Result<R, String>,
) -> Result<R, String> {
    let host = Host::new(endpoint.world().rank().0, watch);
    watch.run(endpoint, |idle| host.rest(idle), body)
}

/// Runs `body` on a job of one rank that has nothing but itself.
///
/// # Errors
/// What the rank said if it failed, panicked or hangs.
pub fn run_alone(
    room: Room,
    body: impl Fn(&mut Endpoint<'_, Loopback<'_>, Host<'_>>) -> Result<(), String>,
) -> Result<(), String> {
    let (watch, mut storage, mut frames) = (Watch::new(1, HANG), boxed(room), frames());
    let alone = loopback(0, &mut frames);
    let mut endpoint = endpoint(storage.memory(), alone, Host::new(0, &watch), rank_config(0, 1));
    verdict(vec![serve(&watch, &mut endpoint, body)]).map(drop)
}

/// Runs `body` on the cores of a job of [`cores::run_on`], with the storage and rings that it has.
///
/// # Errors
/// What the ranks said that failed, panicked or hang.
pub fn run_on_cores(
    size: u32,
    body: impl Fn(&mut ThreadEndpoint<'_, '_>) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let (watch, told) = (Watch::new(size, HANG), Mutex::new(Vec::new()));
    let program = |endpoint: &mut ThreadEndpoint<'_, '_>| {
        let me = endpoint.world().rank().0;
        let went = serve(&watch, endpoint, &body);
        let failed = went.as_ref().err().cloned();
        told.lock().unwrap_or_else(PoisonError::into_inner).push((me, went));
        failed.map_or(Ok(()), |what| Err(what.into()))
    };
    let run = || cores::run_on(size, |me| Host::new(me, &watch), program);
    let went = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(&*panic).into()));
    let mut told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    told.sort_by_key(|(me, _)| *me);
    verdict(told.into_iter().map(|(_, went)| went).collect())?;
    went.map(drop).map_err(|failure| failure.to_string())
}
