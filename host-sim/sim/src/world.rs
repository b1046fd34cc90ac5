//! The virtual network and its time: a queue of events ordered by virtual time and, where that
//! ties, by the order in which they were made. Nothing here knows of coroutines: [`World::step`]
//! says which node is to run next. The wire of messages is in `lanes`, that of frames in `frames`,
//! death and rebirth in `lives`.

mod frames;
mod lanes;
mod lives;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aldis_kernel::hal::{Activity, Cause, Epoch};

use super::config::{SimConfig, Wire};
use super::faults::RunFault;
use super::ledger::Ledger;
use super::plan::{FaultPlan, HEALED_NS, faults};
use super::queue::{Delivery, EventKind, EventQueue};
use super::random::Random;
use super::record::Record;
use super::report::RunProgress;
use super::watch::JobWatch;
use lanes::NodeLane;
pub(crate) use lives::Life;

/// Nodes begin at random within so many ns.
const START_NS_MAX: u64 = 20_000;
/// The cost of a look at the clock, ns: a loop that only looks must see time pass.
const CLOCK_NS: u64 = 20;

/// A virtual machine.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) life: Life,
    /// The number of times that it has booted before, and the epoch of this life.
    pub(crate) boots: u32,
    pub(crate) epoch: Epoch,
    /// Its own time: ahead of the world's by the work that it has done since it was woken.
    clock: u64,
    inbox: VecDeque<Delivery>,
    /// Lanes to others, made when first used.
    lanes: BTreeMap<u32, NodeLane>,
    /// The nodes that it cannot send to any more, and why.
    gone: BTreeMap<u32, Cause>,
    /// The nodes that it knows in another life than the first.
    known: BTreeMap<u32, Epoch>,
    /// The times at which the frames that wait to be sent will have left its network card.
    departures: VecDeque<u64>,
    /// A frame was refused since the last one left.
    full: bool,
    /// The time at which it was last woken, by its own clock.
    turn_start: u64,
    /// The time at which it wakes; `None` while it runs.
    wakes: Option<u64>,
    paused_until: u64,
    /// The time at which its transport wants to be polled again, whatever comes.
    pub(crate) timer: u64,
    /// Polls in a row that found nothing, without a rest in between.
    pub(crate) idle_polls: u32,
    pub(crate) activity: Activity,
    pub(crate) entropy: Random,
}

/// The counts of what has happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Events handled: arrivals, wakings, faults.
    pub events: u64,
    /// Messages posted to the wire of messages.
    pub messages: u64,
    /// Frames sent on the wire of frames.
    pub frames: u64,
    /// Bytes of messages and frames, headers included.
    pub bytes: u64,
    /// Messages and frames that were refused for want of room.
    pub refusals: u64,
    /// Frames that were lost on their way.
    pub lost: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were damaged.
    pub damaged: u64,
    /// Frames that were lost because their receiver held too many.
    pub overflowed: u64,
}

/// The next step of the runner.
pub(crate) enum RunnerStep {
    /// Let the node's program run.
    Resume(u32),
    /// End the node's program where it stands.
    Kill(u32),
    /// Start the node's program from the beginning.
    Boot(u32),
    /// Ask again.
    Nothing,
    /// Give up: the time is over.
    Late,
}

pub(crate) struct World {
    pub(crate) config: SimConfig,
    plan: FaultPlan,
    pub(crate) now: u64,
    limit: u64,
    queue: EventQueue,
    pub(crate) nodes: Vec<Node>,
    /// The time until which each link is busy.
    links: Vec<u64>,
    random: Random,
    hash: u64,
    pub(crate) totals: Totals,
    /// The events so far, if they are to be recorded.
    pub(crate) records: Option<Vec<Record>>,
    /// The nodes that have died and booted again.
    reborn: BTreeSet<u32>,
    /// Nodes whose program has not come to its end and still can.
    pub(crate) programs: u32,
    /// Looks at every message between kernels.
    pub(crate) watch: JobWatch,
    /// The accounts of the ranks with each other in the end.
    pub(crate) ledger: Ledger,
}

impl World {
    pub(crate) fn new(config: &SimConfig) -> Self {
        let plan = FaultPlan::drawn(config);
        let mut world = Self {
            config: config.clone(),
            now: 0,
            limit: HEALED_NS.saturating_add(config.patience_ns),
            queue: EventQueue::default(),
            nodes: (0..config.ranks).map(|node| Node::new(config.seed, node, 0)).collect(),
            links: vec![0; config.topology.links(config.ranks) as usize],
            random: Random::new(config.seed, 4),
            hash: 0,
            totals: Totals::default(),
            records: config.record.then(Vec::new),
            reborn: BTreeSet::new(),
            programs: config.ranks,
            watch: JobWatch::new(config.ranks),
            ledger: Ledger::default(),
            plan,
        };
        for node in 0..config.ranks {
            let start = world.random.below(START_NS_MAX);
            world.sleep(node, start);
        }
        for fault in faults(config) {
            match fault {
                RunFault::Pause { node, span } => {
                    world.push(span.start, EventKind::Pause { node, until: span.end })
                }
                RunFault::Crash { node, at } => world.push(at, EventKind::Crash { node, back: None }),
                RunFault::Restart { node, span } => {
                    world.push(span.start, EventKind::Crash { node, back: Some(span.end) });
                }
                _ => {}
            }
        }
        world
    }

    /// The progress of a run whose ranks are all made.
    pub(crate) const fn progress(&self) -> RunProgress {
        let ranks = self.config.ranks;
        let over = ranks.saturating_sub(self.programs);
        RunProgress { made: ranks, over, ranks, events: self.totals.events, virtual_ns: self.now }
    }

    /// The hash of the history so far.
    pub(crate) const fn hash(&self) -> u64 {
        let mixed = (self.hash ^ (self.hash >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 32)
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn record(&mut self, record: impl FnOnce() -> Record) {
        if let Some(records) = &mut self.records {
            records.push(record());
        }
    }

    fn push(&mut self, at: u64, what: EventKind) {
        self.queue.push(at.max(self.now), what);
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) -> RunnerStep {
        let Some((at, what)) = self.queue.pop() else { return RunnerStep::Late };
        if at > self.limit {
            return RunnerStep::Late;
        }
        self.now = at;
        match what {
            EventKind::Wake(node) => self.wake(node),
            EventKind::Deliver { node, delivery } => {
                self.count(&[1, at, u64::from(node)]);
                self.arrive(node, delivery);
                RunnerStep::Nothing
            }
            EventKind::Pause { node, until } => {
                self.count(&[2, at, u64::from(node), until]);
                self.record(|| Record::Pause { node, at, until });
                self.nodes[node as usize].paused_until = until;
                RunnerStep::Nothing
            }
            EventKind::Crash { node, back } => {
                self.count(&[3, at, u64::from(node)]);
                self.die(node, back)
            }
            EventKind::Boot(node) => {
                self.count(&[5, at, u64::from(node)]);
                self.boot(node);
                RunnerStep::Boot(node)
            }
            EventKind::Departed(node) => {
                self.count(&[6, at, u64::from(node)]);
                self.nodes[node as usize].full = false;
                self.rouse(node);
                RunnerStep::Nothing
            }
        }
    }

    fn count(&mut self, words: &[u64]) {
        self.totals.events += 1;
        words.iter().for_each(|word| self.mix(*word));
    }

    fn wake(&mut self, index: u32) -> RunnerStep {
        let (now, node) = (self.now, &mut self.nodes[index as usize]);
        if !node.life.runs() {
            return RunnerStep::Nothing;
        }
        if node.paused_until > now {
            let until = node.paused_until;
            node.wakes = Some(until);
            self.queue.wake(until, index);
            return RunnerStep::Nothing;
        }
        node.clock = node.clock.max(now);
        node.wakes = None;
        node.turn_start = node.clock;
        self.count(&[4, now, u64::from(index)]);
        RunnerStep::Resume(index)
    }

    /// The node rests until `at` or until something arrives, whichever is first.
    fn sleep(&mut self, index: u32, at: u64) {
        let node = &mut self.nodes[index as usize];
        let at = if node.inbox.is_empty() { at } else { node.clock };
        node.wakes = Some(at);
        self.queue.wake(at.max(self.now), index);
    }

    /// A node that rests goes on: there is something for it.
    fn rouse(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        let at = self.now.max(node.clock);
        if node.wakes.is_some_and(|wakes| wakes > at) {
            self.sleep(index, at);
        }
    }

    fn arrive(&mut self, index: u32, delivery: Delivery) {
        match &delivery {
            Delivery::Message(message) => {
                if !self.is_welcome(index, message) {
                    return self.made_room(message.from, message.epoch, index);
                }
                self.mix_bytes(&message.bytes);
                self.mix(u64::from(message.from));
            }
            Delivery::Frame(frame) => {
                if !self.is_caught(index, frame) {
                    return;
                }
                self.mix_bytes(&frame.bytes);
                self.mix(u64::from(frame.from));
            }
            Delivery::Ready(peer) => self.mix(u64::from(*peer)),
            Delivery::Lost { peer, epoch, cause } => {
                if self.knows(index, *peer) != *epoch {
                    return;
                }
                // What one has sent that has left is taken first.
                if *cause == Cause::PeerDead {
                    self.nodes[index as usize].gone.insert(*peer, *cause);
                }
                self.mix(u64::from(*peer));
            }
        }
        self.nodes[index as usize].inbox.push_back(delivery);
        self.rouse(index);
    }

    /// The kernel of a node has handed a message to its transport, which has taken it.
    pub(crate) fn posted(&mut self, from: u32, to: u32, message: &[u8]) {
        self.watch.posted(from, to, message, self.now);
    }

    /// The next thing for the node's transport to deliver.
    pub(crate) fn take(&mut self, index: u32) -> Option<Delivery> {
        let delivery = self.nodes[index as usize].inbox.pop_front()?;
        match &delivery {
            Delivery::Message(message) => {
                let at = self.work(index);
                self.record(|| Record::Taken { from: message.from, to: index, at });
                self.made_room(message.from, message.epoch, index);
            }
            Delivery::Frame(frame) => {
                let at = self.work(index);
                self.record(|| Record::FrameTaken { frame: frame.id, from: frame.from, to: index, at });
            }
            Delivery::Lost { peer, cause, .. } => {
                self.nodes[index as usize].gone.insert(*peer, *cause);
            }
            Delivery::Ready(_) => {}
        }
        Some(delivery)
    }

    /// The node is busy for one message.
    fn work(&mut self, index: u32) -> u64 {
        let slowness = self.plan.slowness(self.now, index);
        let node = &mut self.nodes[index as usize];
        node.clock += self.config.network.overhead_ns * slowness;
        node.clock
    }

    /// The node's own time.
    pub(crate) fn clock(&mut self, index: u32) -> u64 {
        let node = &mut self.nodes[index as usize];
        node.clock += CLOCK_NS;
        node.clock
    }

    /// Returns the time until the node's transport wants to be polled, ns.
    pub(crate) fn until_timer_ns(&self, index: u32) -> u64 {
        let node = &self.nodes[index as usize];
        node.timer.saturating_sub(node.clock)
    }

    /// The node's turn is over: it rests for `ns` or until something arrives.
    pub(crate) fn rest(&mut self, index: u32, ns: u64) {
        let until = self.clock(index).saturating_add(ns);
        let node = &mut self.nodes[index as usize];
        node.idle_polls = 0;
        let (start, end) = (node.turn_start, node.clock);
        self.record(|| Record::Turn { node: index, start, end });
        self.sleep(index, until);
    }

    /// Sends `bytes` over the links from one node to another: when they have left the first, and
    /// when they arrive at the last. Messages that share a link wait for those that were sent
    /// before, however far they have to go until there: a link that was kept free for one from afar
    /// would hold up all others, and those the next.
    fn carry(&mut self, from: u32, to: u32, bytes: usize, mut start: u64) -> (u64, u64) {
        let network = self.config.network;
        let wire_ns = bytes as u64 * network.per_kib_ns / 1024;
        let (links, mut latency_ns, mut left) = (&mut self.links, 0, None);
        self.config.topology.route(self.config.ranks, from, to, |link| {
            let busy = &mut links[link];
            start = start.max(*busy);
            *busy = start + wire_ns;
            left.get_or_insert(*busy);
            latency_ns += network.latency_ns;
        });
        let at = start + latency_ns + wire_ns + self.random.below(network.jitter_ns + 1);
        (left.unwrap_or(at), at)
    }
}

impl Node {
    fn new(seed: u64, node: u32, boots: u32) -> Self {
        let stream = u64::from(boots) << 32 | u64::from(node);
        Self {
            life: Life::Alive,
            boots,
            epoch: lives::epoch(seed, node, boots),
            clock: 0,
            inbox: VecDeque::new(),
            lanes: BTreeMap::new(),
            gone: BTreeMap::new(),
            known: BTreeMap::new(),
            departures: VecDeque::new(),
            full: false,
            turn_start: 0,
            wakes: None,
            paused_until: 0,
            timer: u64::MAX,
            idle_polls: 0,
            activity: Activity::default(),
            entropy: Random::new(seed ^ 5, stream),
        }
    }

    /// Returns the number of arrivals that are not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.len()
    }
}
