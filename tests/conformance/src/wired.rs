//! Ranks as threads that take turns, on an Ethernet in memory that loses, doubles, damages and
//! delays frames. One runs at a time, until it has nothing to do, under a clock that moves when all
//! have had their turn: so a run depends on nothing but its seed.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};

use aldis_drivers::ethernet::{Config, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_drivers::{Ethernet, Loopback, Shm};
use aldis_hal::nic::{LinkState, Mac, Nic};
use aldis_hal::{Activity, Cost, Instant, PeerId, Platform};
use aldis_kernel::Composite;
use aldis_kit::hub::{Faults, Hub, HubNic};
use aldis_linux::cores::{self, CoreMeeting};
use aldis_linux::platform::allowed_cores;
use aldis_tests::storage::{RANKS_MAX, REQUESTS, boxed};
use aldis_tests::threads::{EPOCH, endpoint, frames, loopback, rank_config, rings, setup};
use aldis_tests::watch::{Watch, verdict, words};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::plan::CasePlan;
use super::rank::play;

/// The longest message of a frame.
const MESSAGE_BYTES: usize = 256;
/// Ranks but oneself.
const OTHERS: usize = RANKS_MAX - 1;
/// Frames that one rank may have under way to another.
const WINDOW: usize = 16;
const COST: Cost = Cost { overhead_ns: 1_500, latency_ns: 20_000, per_kib_ns: 8_500 };
/// The time by which the clock moves when all ranks have had their turn.
const ROUND_NS: u64 = 20_000;
/// A job that takes longer hangs, by the clock of the wire.
const HANG: Duration = Duration::from_secs(20);
/// Looks at an empty queue after which a rank's turn is over.
const LOOKS: u32 = 4;

/// Frames in a thousand that something happens to.
const FAULTS: Faults =
    Faults { lose: 30, duplicate: 20, corrupt: 20, cut: 10, delay: 50, delay_ns_max: 500_000 };

/// The turns that the ranks take. A rank whose turn it is not is parked.
struct Turns {
    now: AtomicUsize,
    ranks: Vec<RankTurn>,
    /// The core that all ranks run on: as there is but one that has something to do, a turn is then
    /// handed over by a switch, and not by waking another core.
    core: usize,
    hub: Hub,
}

/// A rank as the others see it.
#[derive(Default)]
struct RankTurn {
    thread: OnceLock<Thread>,
    is_over: AtomicBool,
}

/// Jobs so far: each has the next of the cores.
static JOBS: AtomicUsize = AtomicUsize::new(0);

impl Turns {
    fn new(size: u32, hub: Hub) -> Arc<Self> {
        let cores = allowed_cores();
        let core = cores.get(JOBS.fetch_add(1, Ordering::Relaxed) % cores.len().max(1)).copied();
        let ranks = (0..size).map(|_| RankTurn::default()).collect();
        Arc::new(Self { now: AtomicUsize::new(0), ranks, core: core.unwrap_or_default(), hub })
    }

    /// Takes this thread to the core of its job. One that has to stay elsewhere is only slower.
    fn settle(&self) {
        let mut set = CpuSet::new();
        let _ = set.set(self.core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    }

    /// Waits for the first turn of a rank.
    fn enter(&self, me: usize) {
        self.ranks[me].thread.get_or_init(thread::current);
        // Either the rank before sees the thread, or this one sees that it is its turn.
        fence(Ordering::SeqCst);
        self.wait(me);
    }

    fn wait(&self, me: usize) {
        while self.now.load(Ordering::SeqCst) != me {
            thread::park();
        }
    }

    /// Hands over to the next rank and waits until it is this one's turn again; not if it is over.
    fn pass(&self, me: usize, is_over: bool) {
        self.ranks[me].is_over.store(is_over, Ordering::SeqCst);
        let size = self.ranks.len();
        let is_in = |rank: &usize| !self.ranks[*rank].is_over.load(Ordering::SeqCst);
        let Some(next) = (1..=size).map(|step| (me + step) % size).find(is_in) else {
            return;
        };
        if next <= me {
            self.hub.advance(ROUND_NS);
        }
        self.now.store(next, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // One that has not come yet looks whose turn it is when it comes.
        if let Some(thread) = self.ranks[next].thread.get().filter(|_| next != me) {
            thread.unpark();
        }
        if !is_over {
            self.wait(me);
        }
    }
}

/// The knowledge that a rank has of its job.
struct HubPlatform<'w> {
    turns: Arc<Turns>,
    me: u32,
    watch: &'w Watch,
    activity: Cell<Activity>,
}

impl<'w> HubPlatform<'w> {
    fn new(me: u32, turns: &Arc<Turns>, watch: &'w Watch) -> Self {
        Self { turns: turns.clone(), me, watch, activity: Cell::default() }
    }

    /// The others' turn, unless the job hangs.
    fn rest(&self) {
        let spent = || Duration::from_nanos(self.turns.hub.now().0);
        self.watch.look(self.me, 0, &self.activity.get(), spent);
        self.turns.pass(self.me as usize, false);
    }
}

/// A rank's card on the hub: a rank that looks for frames in vain again and again loses its turn.
struct HubCard<'w> {
    nic: HubNic,
    platform: HubPlatform<'w>,
    looks: u32,
}

impl Nic for HubCard<'_> {
    type Rx<'a>
        = <HubNic as Nic>::Rx<'a>
    where
        Self: 'a;
    type Tx<'a>
        = <HubNic as Nic>::Tx<'a>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            self.platform.rest();
        }
        let frame = self.nic.receive()?;
        self.looks = 0;
        Some(frame)
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        self.nic.transmit(len)
    }

    fn flush(&mut self) {
        self.nic.flush();
    }

    fn mtu(&self) -> usize {
        self.nic.mtu()
    }

    fn mac(&self) -> Mac {
        self.nic.mac()
    }

    fn link(&self) -> LinkState {
        self.nic.link()
    }
}

/// A rank's clock is the hub's, and its rest is the others' turn.
impl Platform for HubPlatform<'_> {
    fn now(&self) -> Instant {
        self.turns.hub.now()
    }
    fn relax(&mut self, _: u32) {
        self.rest();
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, activity: Activity) {
        self.activity.set(activity);
    }
}

/// Itself by the loopback, its mates by shared memory, the others by Ethernet.
type Ways<'m, 'w> = Composite<Loopback<'m>, Composite<Shm<'m>, Ethernet<'m, HubCard<'w>>>>;

/// A case over Ethernet alone.
pub(super) fn ethernet(plan: &CasePlan) -> Result<(), String> {
    run(plan, |_, _| false)
}

/// A case over shared memory within each half of the job, and Ethernet between them: the ranks are
/// dealt in turn.
pub(super) fn composite(plan: &CasePlan) -> Result<(), String> {
    run(plan, |one, other| one.0 % 2 == other.0 % 2)
}

/// Runs a case on a hub, with shared memory between mates.
fn run(plan: &CasePlan, mates: fn(PeerId, PeerId) -> bool) -> Result<(), String> {
    let &CasePlan { case, seed, ranks: size } = plan;
    let hub = Hub::new(seed);
    hub.set_faults(FAULTS);
    let nic = |me| Mutex::new(Some(hub.nic(me as u8 + 1, MESSAGE_BYTES + MTU_OVERHEAD_BYTES)));
    let nics: Vec<_> = (0..size).map(nic).collect();
    let (watch, meeting, turns) = (Watch::new(size, HANG), CoreMeeting::of(size), Turns::new(size, hub));
    let rank = |me: u32, shm: Shm<'_>| {
        turns.settle();
        let (mut storage, mut link, mut frames) = (boxed(plan.room()), storage(), frames());
        let platform = || HubPlatform::new(me, &turns, &watch);
        let nic = nics[me as usize].lock().expect("no panic yet").take().expect("a card of its own");
        let card = HubCard { nic, platform: platform(), looks: 0 };
        let config = Config::new(PeerId(me), EPOCH, 1, COST);
        let ethernet = Ethernet::new(card, link.memory(), config).expect("a sound configuration");
        let ways: Ways<'_, '_> = Composite::new(loopback(me, &mut frames), Composite::new(shm, ethernet));
        let mut endpoint = endpoint(storage.memory(), ways, platform(), rank_config(me, size));
        let mut own = endpoint.card();
        let address = endpoint.transport().second().second().address();
        own.address.extend_from_slice(&address).expect("room for an address");
        meeting.join(&mut endpoint, own).expect("ranks of one job");
        turns.enter(me as usize);
        let rest = platform();
        let went = watch.run(
            &mut endpoint,
            |_| rest.rest(),
            |endpoint| play(case, seed, endpoint, REQUESTS).map_err(|error| error.to_string()),
        );
        turns.pass(me as usize, true);
        went
    };
    let ended = cores::spread(setup(rings(size)), mates, rank);
    let ended = ended.map_err(|cause| cause.to_string())?;
    verdict(ended.into_iter().map(|rank| rank.unwrap_or_else(|panic| Err(words(&*panic)))).collect())
        .map(drop)
}

/// A link's memory, in a frame of its own.
#[inline(never)]
fn storage() -> Box<EthernetStorage<OTHERS, WINDOW, MESSAGE_BYTES>> {
    Box::new(EthernetStorage::new())
}
