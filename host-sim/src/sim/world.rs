//! The virtual network and its time: a queue of events ordered by virtual time and, where that ties, by the order in
//! which they were made. Nothing here knows of coroutines: [`World::step`] says who is to run next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aldis_kernel::hal::Activity;

use super::config::Config;
use super::faults::{Fault, HEALED_NS, Plan, faults};
use super::queue::{Delivery, Queue, What};
use super::random::Random;
use super::record::Record;

/// Nodes begin at random within so many ns.
const START_NS_MAX: u64 = 20_000;
/// A death is noticed within so many ns.
const DETECT_NS_MAX: u64 = 200_000;
/// What a look at the clock costs, ns: a loop that only looks must see time pass.
const CLOCK_NS: u64 = 20;

/// Whether a node's program goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Alive,
    /// Its program has returned.
    Over,
    Dead,
}

/// The messages from one node to another.
#[derive(Debug, Default)]
struct Lane {
    /// Under way or arrived and not taken.
    held: u32,
    /// A post was refused since the sender last heard that there is room.
    waiting: bool,
    /// When the last one arrives.
    last_ns: u64,
}

/// One virtual machine.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) life: Life,
    /// Its own time: ahead of the world's by the work that it has done since it was woken.
    clock: u64,
    inbox: VecDeque<Delivery>,
    /// Lanes to others, made when first used.
    lanes: BTreeMap<u32, Lane>,
    /// Whom it cannot talk to any more.
    gone: BTreeSet<u32>,
    /// Counts its wakings; one that was scheduled for an earlier turn is void.
    turn: u64,
    /// When it was last woken, by its own time.
    turn_start: u64,
    /// When it wakes; `None` while it runs.
    wakes: Option<u64>,
    paused_until: u64,
    /// Polls in a row that found nothing, without a rest in between.
    pub(crate) idle_polls: u32,
    pub(crate) activity: Activity,
    pub(crate) entropy: Random,
}

/// What has happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Events handled: arrivals, wakings, faults.
    pub events: u64,
    /// Messages posted to the network.
    pub messages: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Posts that were refused for want of room.
    pub refusals: u64,
}

/// What the runner is to do.
pub(crate) enum Step {
    /// Let the node's program run.
    Resume(u32),
    /// End the node's program where it stands.
    Kill(u32),
    /// Ask again.
    Nothing,
    /// Give up: the time is over.
    Late,
}

pub(crate) struct World {
    pub(crate) config: Config,
    plan: Plan,
    pub(crate) now: u64,
    limit: u64,
    queue: Queue,
    pub(crate) nodes: Vec<Node>,
    /// Until when each link is busy.
    links: Vec<u64>,
    random: Random,
    hash: u64,
    pub(crate) totals: Totals,
    /// What happened, if it is to be recorded.
    pub(crate) records: Option<Vec<Record>>,
    /// Nodes whose program has not come to its end.
    pub(crate) programs: u32,
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        let plan = Plan::drawn(config);
        let mut world = Self {
            config: config.clone(),
            now: 0,
            limit: HEALED_NS.saturating_add(config.patience_ns),
            queue: Queue::default(),
            nodes: (0..config.ranks).map(|node| Node::new(config.seed, node)).collect(),
            links: vec![0; config.topology.links(config.ranks) as usize],
            random: Random::new(config.seed, 4),
            hash: 0,
            totals: Totals::default(),
            records: config.record.then(Vec::new),
            programs: config.ranks,
            plan,
        };
        for node in 0..config.ranks {
            let start = world.random.below(START_NS_MAX);
            world.sleep(node, start);
        }
        for fault in faults(config) {
            match fault {
                Fault::Pause { node, span } => world.push(span.start, What::Pause { node, until: span.end }),
                Fault::Crash { node, at } => world.push(at, What::Crash(node)),
                Fault::Clog { .. } | Fault::Slow { .. } => {}
            }
        }
        world
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

    fn push(&mut self, at: u64, what: What) {
        self.queue.push(at.max(self.now), what);
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) -> Step {
        let Some((at, what)) = self.queue.pop() else { return Step::Late };
        if at > self.limit {
            return Step::Late;
        }
        self.now = at;
        match what {
            What::Wake { node, turn } => self.wake(node, turn),
            What::Deliver { node, delivery } => {
                self.count(&[1, at, u64::from(node)]);
                self.arrive(node, delivery);
                Step::Nothing
            }
            What::Pause { node, until } => {
                self.count(&[2, at, u64::from(node), until]);
                self.record(|| Record::Pause { node, at, until });
                self.nodes[node as usize].paused_until = until;
                Step::Nothing
            }
            What::Crash(node) => {
                self.count(&[3, at, u64::from(node)]);
                self.record(|| Record::Crash { node, at });
                self.die(node)
            }
        }
    }

    fn count(&mut self, words: &[u64]) {
        self.totals.events += 1;
        words.iter().for_each(|word| self.mix(*word));
    }

    fn wake(&mut self, index: u32, turn: u64) -> Step {
        let (now, node) = (self.now, &mut self.nodes[index as usize]);
        if node.turn != turn || node.life != Life::Alive {
            return Step::Nothing;
        }
        if node.paused_until > now {
            let until = node.paused_until;
            node.wakes = Some(until);
            self.push(until, What::Wake { node: index, turn });
            return Step::Nothing;
        }
        node.clock = node.clock.max(now);
        node.turn += 1;
        node.wakes = None;
        node.turn_start = node.clock;
        self.count(&[4, now, u64::from(index)]);
        Step::Resume(index)
    }

    /// The node rests until `at` or until something arrives, whichever is first.
    fn sleep(&mut self, index: u32, at: u64) {
        let node = &mut self.nodes[index as usize];
        node.turn += 1;
        let at = if node.inbox.is_empty() { at } else { node.clock };
        node.wakes = Some(at);
        let turn = node.turn;
        self.push(at, What::Wake { node: index, turn });
    }

    fn arrive(&mut self, index: u32, delivery: Delivery) {
        let (now, node) = (self.now, &mut self.nodes[index as usize]);
        let from = match delivery {
            Delivery::Message(from, ref bytes) => {
                if node.life != Life::Alive || node.gone.contains(&from) {
                    return self.taken(from, index);
                }
                self.mix_bytes(bytes);
                from
            }
            Delivery::Ready(peer) => peer,
            Delivery::Lost(peer) => {
                node.gone.insert(peer);
                peer
            }
        };
        self.mix(u64::from(from));
        let node = &mut self.nodes[index as usize];
        node.inbox.push_back(delivery);
        let at = now.max(node.clock);
        if node.wakes.is_some_and(|wakes| wakes > at) {
            self.sleep(index, at);
        }
    }

    /// The node's program ends by itself, well or not.
    pub(crate) fn end(&mut self, node: u32, well: bool) {
        if well {
            self.nodes[node as usize].life = Life::Over;
            self.empty(node);
        } else {
            self.die(node);
        }
    }

    /// The node is gone; every other hears of it in a while.
    fn die(&mut self, node: u32) -> Step {
        if self.nodes[node as usize].life != Life::Alive {
            return Step::Nothing;
        }
        self.nodes[node as usize].life = Life::Dead;
        self.empty(node);
        for other in (0..self.config.ranks).filter(|other| *other != node) {
            let at = self.now + self.random.below(DETECT_NS_MAX);
            self.push(at, What::Deliver { node: other, delivery: Delivery::Lost(node) });
        }
        Step::Kill(node)
    }

    /// What has come for a node that is no more is nobody's.
    fn empty(&mut self, index: u32) {
        for delivery in core::mem::take(&mut self.nodes[index as usize].inbox) {
            if let Delivery::Message(from, _) = delivery {
                self.taken(from, index);
            }
        }
    }

    /// The next thing for the node's transport to deliver.
    pub(crate) fn take(&mut self, index: u32) -> Option<Delivery> {
        let delivery = self.nodes[index as usize].inbox.pop_front()?;
        if let Delivery::Message(from, _) = delivery {
            let at = self.work(index);
            self.record(|| Record::Taken { from, to: index, at });
            self.taken(from, index);
        }
        Some(delivery)
    }

    /// A message has made room behind it.
    fn taken(&mut self, from: u32, to: u32) {
        let latency = self.config.network.latency_ns;
        let at = self.now.max(self.nodes[to as usize].clock) + latency;
        let Some(lane) = self.nodes[from as usize].lanes.get_mut(&to) else { return };
        lane.held = lane.held.saturating_sub(1);
        if core::mem::take(&mut lane.waiting) {
            self.push(at, What::Deliver { node: from, delivery: Delivery::Ready(to) });
        }
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

    /// The node's turn is over: it rests for `ns` or until something arrives.
    pub(crate) fn rest(&mut self, index: u32, ns: u64) {
        let until = self.clock(index).saturating_add(ns);
        let node = &mut self.nodes[index as usize];
        node.idle_polls = 0;
        let (start, end) = (node.turn_start, node.clock);
        self.record(|| Record::Turn { node: index, start, end });
        self.sleep(index, until);
    }

    /// Whether `from` lets nothing more to `to` through.
    pub(crate) fn is_gone(&self, from: u32, to: u32) -> bool {
        self.nodes[from as usize].gone.contains(&to)
    }

    /// `from` lets go of `to`.
    pub(crate) fn let_go(&mut self, from: u32, to: u32) {
        let node = &mut self.nodes[from as usize];
        node.gone.insert(to);
        node.inbox.retain(|delivery| !matches!(delivery, Delivery::Message(peer, _) if *peer == to));
    }

    /// Whether there is room for one more message; if not, the sender is told when there is.
    pub(crate) fn has_room(&mut self, from: u32, to: u32) -> bool {
        let depth = self.config.network.depth;
        let lane = self.nodes[from as usize].lanes.entry(to).or_default();
        if lane.held < depth {
            return true;
        }
        lane.waiting = true;
        self.totals.refusals += 1;
        false
    }

    /// Sends a message for which there is room.
    pub(crate) fn post(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        let network = self.config.network;
        let mut at = self.work(from);
        let len = bytes.len();
        self.record(|| Record::Sent { from, to, at, bytes: len });
        let wire_ns = bytes.len() as u64 * network.per_kib_ns / 1024;
        let links = &mut self.links;
        self.config.topology.route(self.config.ranks, from, to, |link| {
            let busy = &mut links[link];
            let start = at.max(*busy);
            *busy = start + wire_ns;
            at = start + network.latency_ns;
        });
        at += wire_ns + self.random.below(network.jitter_ns + 1) + self.plan.clogged_ns(self.now, from, to);
        let Some(lane) = self.nodes[from as usize].lanes.get_mut(&to) else { return };
        at = at.max(lane.last_ns);
        lane.last_ns = at;
        lane.held += 1;
        self.totals.messages += 1;
        self.totals.bytes += bytes.len() as u64;
        self.push(at, What::Deliver { node: to, delivery: Delivery::Message(from, bytes) });
    }
}

impl Node {
    fn new(seed: u64, node: u32) -> Self {
        Self {
            life: Life::Alive,
            clock: 0,
            inbox: VecDeque::new(),
            lanes: BTreeMap::new(),
            gone: BTreeSet::new(),
            turn: 0,
            turn_start: 0,
            wakes: None,
            paused_until: 0,
            idle_polls: 0,
            activity: Activity::default(),
            entropy: Random::new(seed ^ 5, u64::from(node)),
        }
    }

    /// What has arrived and is not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.len()
    }
}
