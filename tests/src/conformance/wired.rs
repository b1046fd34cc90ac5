//! Ranks as threads that take turns, on an Ethernet in memory that loses, doubles, damages and delays frames. One runs
//! at a time, until it has nothing to do, under a clock that moves when all have had their turn: so a run depends on
//! nothing but its seed.

use core::cell::Cell;
use core::iter::zip;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;

use aldis_drivers::ethernet::{Config, EthernetStorage, MTU_OVERHEAD_BYTES};
use aldis_drivers::shm::Lane;
use aldis_drivers::{Ethernet, Loopback, Shm};
use aldis_hal::nic::{Link, Mac, Nic};
use aldis_hal::{Activity, Cost, Epoch, Instant, PeerId, Platform};
use aldis_kernel::Composite;

use self::hub::{Faults, Hub, HubNic};
use super::rank::{Watch, play, verdict};
use super::storage::{RANKS_MAX, REQUESTS, Room, boxed};
use super::threads::{Inboxes, endpoint, frames, loopback, shm};

#[path = "../../../drivers/src/ethernet/tests/hub.rs"]
#[allow(dead_code, reason = "the file is shared with tests that use other parts of it")]
mod hub;

/// The longest message of a frame.
const MESSAGE_BYTES: usize = 256;
/// Ranks but oneself.
const OTHERS: usize = RANKS_MAX - 1;
/// Frames that one rank may have under way to another.
const WINDOW: usize = 16;
const COST: Cost = Cost { overhead_ns: 1_500, latency_ns: 20_000, per_kib_ns: 8_500 };
/// What the clock moves by when all ranks have had their turn.
const ROUND_NS: u64 = 20_000;
/// Looks at an empty queue after which a rank's turn is over.
const LOOKS: u32 = 4;

/// Frames in a thousand that something happens to.
const FAULTS: Faults =
    Faults { lose: 30, duplicate: 20, corrupt: 20, cut: 10, delay: 50, delay_ns_max: 500_000 };

/// Whose turn it is.
struct Turns {
    state: Mutex<State>,
    come: Vec<Condvar>,
    hub: Hub,
}

struct State {
    now: usize,
    over: Vec<bool>,
}

impl Turns {
    fn new(size: u32, hub: Hub) -> Arc<Self> {
        let state = Mutex::new(State { now: 0, over: vec![false; size as usize] });
        Arc::new(Self { state, come: (0..size).map(|_| Condvar::new()).collect(), hub })
    }

    /// Waits for the first turn of a rank.
    fn enter(&self, me: usize) {
        let state = self.state.lock().expect("no panic with the lock");
        drop(self.come[me].wait_while(state, |state| state.now != me).expect("no panic with the lock"));
    }

    /// Hands over to the next rank and waits until it is this one's turn again; not if it is over.
    fn pass(&self, me: usize, is_over: bool) {
        let mut state = self.state.lock().expect("no panic with the lock");
        state.over[me] = is_over;
        let (size, before) = (state.over.len(), state.now);
        let Some(next) = (1..=size).map(|step| (before + step) % size).find(|rank| !state.over[*rank]) else {
            return;
        };
        if next <= before {
            self.hub.advance(ROUND_NS);
        }
        state.now = next;
        self.come[next].notify_one();
        if !is_over {
            drop(self.come[me].wait_while(state, |state| state.now != me).expect("no panic with the lock"));
        }
    }
}

/// A rank's card on the hub: a rank that looks for frames in vain again and again loses its turn.
struct Card {
    nic: HubNic,
    turns: Arc<Turns>,
    me: usize,
    looks: u32,
}

impl Nic for Card {
    type Rx<'a> = <HubNic as Nic>::Rx<'a>;
    type Tx<'a> = <HubNic as Nic>::Tx<'a>;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            self.turns.pass(self.me, false);
        }
        let frame = self.nic.receive()?;
        self.looks = 0;
        Some(frame)
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        self.nic.transmit(len)
    }

    fn mtu(&self) -> usize {
        self.nic.mtu()
    }

    fn mac(&self) -> Mac {
        self.nic.mac()
    }

    fn link(&self) -> Link {
        self.nic.link()
    }
}

/// A rank's clock is the hub's, and its rest is the others' turn.
struct Board<'w> {
    turns: Arc<Turns>,
    me: usize,
    watch: &'w Watch,
    activity: Cell<Activity>,
}

impl Platform for Board<'_> {
    fn now(&self) -> Instant {
        self.turns.hub.now()
    }
    fn relax(&mut self, idle: u32) {
        self.watch.look(idle, &self.activity.get());
        self.turns.pass(self.me, false);
    }
    fn entropy(&mut self) -> u64 {
        1
    }
    fn note(&mut self, activity: Activity) {
        self.activity.set(activity);
    }
}

/// Itself by the loopback, its mates by shared memory, the others by Ethernet.
type Ways<'m> = Composite<Loopback<'m>, Composite<Shm<'m>, Ethernet<'m, Card>>>;

/// A case over Ethernet alone.
pub(super) fn ethernet(case: usize, size: u32, room: Room, seed: u64) -> Result<(), String> {
    run(case, size, room, seed, |_, _| false)
}

/// A case over shared memory within each half of the job, and Ethernet between them.
pub(super) fn composite(case: usize, size: u32, room: Room, seed: u64) -> Result<(), String> {
    let half = |rank| rank < size / 2;
    run(case, size, room, seed, |one, other| half(one) == half(other))
}

/// Runs a case on a hub, with shared memory between mates.
fn run(
    case: usize,
    size: u32,
    room: Room,
    seed: u64,
    mates: impl Fn(u32, u32) -> bool + Sync,
) -> Result<(), String> {
    let hub = Hub::new(seed);
    hub.set_faults(FAULTS);
    let (mut inboxes, watch, turns) = (Inboxes::new(size), Watch::new(size), Turns::new(size, hub.clone()));
    let (cards, met) = (Mutex::new(Vec::new()), Barrier::new(size as usize));
    let rank = |me: u32, regions, nic| {
        let (mut storage, mut link) = (boxed(room), storage());
        let mut lanes = [const { Lane::EMPTY }; RANKS_MAX];
        let mut frames = frames();
        let lanes = lanes.get_mut(..size as usize).expect("lanes for all ranks");
        let index = me as usize;
        let card = Card { nic, turns: turns.clone(), me: index, looks: 0 };
        let config = Config::new(PeerId(me), Epoch(me + 1), 1, COST);
        let ethernet = Ethernet::new(card, link.memory(), config).expect("a sound configuration");
        let shm = shm(me, regions, lanes, |peer| mates(me, peer));
        let ways: Ways<'_> = Composite::new(loopback(me, &mut frames), Composite::new(shm, ethernet));
        let board = Board { turns: turns.clone(), me: index, watch: &watch, activity: Cell::default() };
        let mut endpoint = endpoint(storage.memory(), ways, board, me, size);
        let mut own = endpoint.card();
        let address = endpoint.transport().second().second().address();
        own.address.extend_from_slice(&address).expect("room for an address");
        cards.lock().expect("no panic yet").push(own);
        met.wait();
        for card in cards.lock().expect("no panic yet").iter().filter(|card| card.peer() != PeerId(me)) {
            endpoint.connect(card).expect("a rank of the job");
        }
        met.wait();
        turns.enter(index);
        let rest = |idle| {
            watch.look(idle, &Activity::default());
            turns.pass(index, false);
        };
        let went = watch.run(&mut endpoint, rest, |endpoint| {
            play(case, endpoint, REQUESTS).map_err(|error| error.to_string())
        });
        turns.pass(index, true);
        went
    };
    let nics: Vec<_> =
        (0..size).map(|me| hub.nic(me as u8 + 1, MESSAGE_BYTES + MTU_OVERHEAD_BYTES)).collect();
    let regions: Vec<_> = (0..size).map(|_| inboxes.regions()).collect();
    let ranks = thread::scope(|scope| {
        let rank = &rank;
        let parts = (0..).zip(zip(regions, nics));
        let ranks: Vec<_> =
            parts.map(|(me, (regions, nic))| scope.spawn(move || rank(me, regions, nic))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("its start failed".into()))).collect()
    });
    verdict(ranks).map(drop)
}

/// A link's memory, in a frame of its own.
#[inline(never)]
fn storage() -> Box<EthernetStorage<OTHERS, WINDOW, MESSAGE_BYTES>> {
    Box::new(EthernetStorage::new())
}
