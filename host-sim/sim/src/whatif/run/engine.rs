//! The simulation: every rank through its rounds, messages in the order of virtual time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use aldis_coll::schedule::{IN_FLIGHT_MAX, Instance, Step};
use aldis_coll::select::Plan;

use super::{Outcome, Run, RunError};
use crate::whatif::network::{LinkTimes, ReadyMessage, ScheduleNetwork};
use crate::whatif::watch::{ProcessorWork, Watch, WorkKind};

/// The state of a rank.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The time from which its processor is free.
    cpu: u64,
    /// The time from which its network interface may send.
    out: u64,
    /// The time from which its network interface may receive.
    inn: u64,
    /// The time at which the messages of its round that are complete were so.
    landed: u64,
    /// First element of its segment.
    base: usize,
    round: u32,
    /// The receives of its round that are incomplete, by the index of their step.
    open: u8,
    done: bool,
    /// Messages that came before they were asked for: first and last in [`RunEngine::early`].
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

/// A message on its way. Earliest first; of equals the one that was sent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flight {
    at: u64,
    number: u64,
    from: u32,
    to: u32,
    bytes: u64,
    /// True while it has still to enter the shared links.
    enters: bool,
}

/// A message that came before it was asked for.
#[derive(Clone, Copy, Debug)]
struct Early {
    from: u32,
    next: u32,
    bytes: u64,
    /// The time at which its last byte came.
    at: u64,
}

/// A run in progress.
pub(super) struct RunEngine<'r, W> {
    run: &'r Run,
    network: &'r ScheduleNetwork,
    watch: &'r mut W,
    plan: Plan,
    links: LinkTimes,
    nodes: Vec<Node>,
    flights: BinaryHeap<Reverse<Flight>>,
    early: Vec<Early>,
    /// First free place in `early`.
    spare: u32,
    waiting: u64,
    sent: u64,
    bytes: u64,
}

impl<'r, W: Watch> RunEngine<'r, W> {
    pub(super) fn new(run: &'r Run, network: &'r ScheduleNetwork, plan: Plan, watch: &'r mut W) -> Self {
        let node = Node {
            cpu: 0,
            out: 0,
            inn: 0,
            landed: 0,
            base: 0,
            round: 0,
            open: 0,
            done: false,
            first: NONE,
            last: NONE,
        };
        Self {
            run,
            network,
            watch,
            plan,
            links: LinkTimes::new(network, run.size),
            nodes: vec![node; run.size as usize],
            flights: BinaryHeap::with_capacity(run.size as usize),
            early: Vec::new(),
            spare: NONE,
            waiting: 0,
            sent: 0,
            bytes: 0,
        }
    }

    pub(super) fn all(&mut self) -> Result<(), RunError> {
        for rank in 0..self.run.size {
            let first = self.instance(rank)?;
            if self.run.algorithm.rounds(&first) == 0 {
                self.nodes[rank as usize].done = true;
            } else {
                self.go(rank)?;
            }
        }
        let mut delivered = 0_u64;
        while let Some(Reverse(flight)) = self.flights.pop() {
            if flight.enters {
                self.enter(flight);
                continue;
            }
            self.arrive(flight)?;
            delivered += 1;
            if delivered.is_multiple_of(1 << 16) {
                self.watch.delivered(delivered);
            }
        }
        Ok(())
    }

    pub(super) fn outcome(&self) -> Result<Outcome, RunError> {
        let stuck = self.nodes.iter().zip(0..).find(|(node, _)| !node.done);
        if let Some((node, rank)) = stuck {
            return Err(RunError::Stuck { rank, round: node.round });
        }
        if self.waiting > 0 {
            return Err(RunError::LeftOver(self.waiting));
        }
        let ends = self.nodes.iter().map(|node| node.landed);
        let time_ps = ends.clone().max().unwrap_or(0);
        if time_ps == u64::MAX {
            return Err(RunError::TooLong);
        }
        Ok(Outcome {
            time_ps,
            first_ps: ends.min().unwrap_or(0),
            messages: self.sent,
            bytes: self.bytes,
            memory: self.memory(),
        })
    }

    fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.flights.capacity() * size_of::<Flight>()
            + self.early.capacity() * size_of::<Early>()
            + self.links.memory()
    }

    /// The segment that a rank works on, as the schedule sees it.
    fn instance(&self, rank: u32) -> Result<Instance, RunError> {
        let Run { size, root, count, .. } = *self.run;
        let left = count.saturating_sub(self.nodes[rank as usize].base);
        Instance::new(rank, size, root, left.min(self.plan.segment)).map_err(RunError::Refused)
    }

    const fn bytes_of(&self, elements: usize) -> u64 {
        (elements as u64).saturating_mul(self.run.element_bytes as u64)
    }

    /// Begins a rank's round, and the next ones while they need nothing that is not there.
    fn go(&mut self, rank: u32) -> Result<(), RunError> {
        loop {
            let instance = self.instance(rank)?;
            let messages = self.post(&instance)?;
            self.take_early(&instance)?;
            if self.nodes[rank as usize].open != 0 || self.finish(&instance, messages) {
                return Ok(());
            }
        }
    }

    /// A rank whose round is complete but for its local steps.
    fn resume(&mut self, instance: &Instance) -> Result<(), RunError> {
        let round = self.nodes[instance.rank() as usize].round;
        let step = |index| self.run.algorithm.step(instance, round, index);
        let messages = (0..).find(|index| !step(*index).is_some_and(|step| step.is_message()));
        if self.finish(instance, messages.unwrap_or(0)) { Ok(()) } else { self.go(instance.rank()) }
    }

    /// Posts a round's messages; how many there are.
    fn post(&mut self, instance: &Instance) -> Result<u32, RunError> {
        let rank = instance.rank();
        let round = self.nodes[rank as usize].round;
        let mut index = 0;
        loop {
            let step = self.run.algorithm.step(instance, round, index);
            let broken = RunError::Broken { rank, round };
            match step {
                Some(step) if step.is_message() && index as usize >= IN_FLIGHT_MAX => return Err(broken),
                Some(Step::Recv { .. }) => self.nodes[rank as usize].open |= 1 << index,
                Some(Step::Send { to, .. }) if to >= self.run.size => return Err(broken),
                Some(Step::Send { to, from }) => self.send(rank, to, self.bytes_of(from.len)),
                _ => return Ok(index),
            }
            index += 1;
        }
    }

    fn send(&mut self, rank: u32, to: u32, bytes: u64) {
        let cost = self.network.cost();
        let node = &mut self.nodes[rank as usize];
        let start = node.cpu.max(node.out);
        let stream = cost.stream_ps(bytes);
        let leaves = start.saturating_add(self.network.processor_ps(rank, cost.overhead_ps));
        node.cpu = leaves;
        node.out = start.saturating_add(cost.gap_ps).saturating_add(stream);
        let gone_ps = leaves.saturating_add(stream);
        node.landed = node.landed.max(gone_ps);
        let (base, round, what) = (node.base, node.round, WorkKind::Sends { to, gone_ps });
        self.watch.acts(ProcessorWork { rank, base, round, what, bytes, start_ps: start, end_ps: leaves });
        let enters = self.network.has_contention();
        let way = if enters { 0 } else { self.network.latency_ps(self.run.size, rank, to) };
        let (at, number) = (leaves.saturating_add(way), self.sent);
        self.flights.push(Reverse(Flight { at, number, from: rank, to, bytes, enters }));
        self.sent += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// A message enters the shared links.
    fn enter(&mut self, flight: Flight) {
        let Flight { at, from, to, bytes, .. } = flight;
        let size = self.run.size;
        let start = self.links.enter(self.network, size, &ReadyMessage { from, to, bytes, ready_ps: at });
        let at = start.saturating_add(self.network.latency_ps(size, from, to));
        self.flights.push(Reverse(Flight { at, enters: false, ..flight }));
    }

    /// A message's first byte is at its receiver.
    fn arrive(&mut self, flight: Flight) -> Result<(), RunError> {
        let Flight { at, from, to, bytes, .. } = flight;
        let cost = self.network.cost();
        let stream = cost.stream_ps(bytes);
        let node = &mut self.nodes[to as usize];
        let start = at.max(node.inn);
        node.inn = start.saturating_add(cost.gap_ps).saturating_add(stream);
        let early = Early { from, next: NONE, bytes, at: start.saturating_add(stream) };
        if node.open != 0 {
            let instance = self.instance(to)?;
            if self.land(&instance, &early)? {
                return if self.nodes[to as usize].open == 0 { self.resume(&instance) } else { Ok(()) };
            }
        }
        self.keep(to, early);
        Ok(())
    }

    /// Gives a message to the first open receive that it is for, if there is one.
    fn land(&mut self, instance: &Instance, message: &Early) -> Result<bool, RunError> {
        let rank = instance.rank();
        let Node { round, open, .. } = self.nodes[rank as usize];
        for index in (0..IN_FLIGHT_MAX as u32).filter(|index| open & (1 << index) != 0) {
            let Some(Step::Recv { from, into }) = self.run.algorithm.step(instance, round, index) else {
                continue;
            };
            if from != message.from {
                continue;
            }
            if self.bytes_of(into.len) != message.bytes {
                return Err(RunError::Length { rank, round, from });
            }
            let overhead = self.network.processor_ps(rank, self.network.cost().overhead_ps);
            let node = &mut self.nodes[rank as usize];
            node.open &= !(1 << index);
            let start_ps = node.cpu.max(message.at);
            node.cpu = start_ps.saturating_add(overhead);
            node.landed = node.landed.max(node.cpu);
            let (base, what, bytes) =
                (node.base, WorkKind::Receives { from, came_ps: message.at }, message.bytes);
            self.watch.acts(ProcessorWork { rank, base, round, what, bytes, start_ps, end_ps: node.cpu });
            return Ok(true);
        }
        Ok(false)
    }

    /// Keeps a message until it is asked for.
    fn keep(&mut self, rank: u32, message: Early) {
        let place = match self.early.get_mut(self.spare as usize) {
            Some(spare) => {
                let place = core::mem::replace(&mut self.spare, spare.next);
                *spare = message;
                place
            }
            None => {
                self.early.push(message);
                self.early.len() as u32 - 1
            }
        };
        let last = core::mem::replace(&mut self.nodes[rank as usize].last, place);
        match self.early.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => self.nodes[rank as usize].first = place,
        }
        self.waiting += 1;
    }

    /// Gives the messages that came early to the receives of the round that has begun.
    fn take_early(&mut self, instance: &Instance) -> Result<(), RunError> {
        let rank = instance.rank() as usize;
        let (mut before, mut place) = (NONE, self.nodes[rank].first);
        while place != NONE && self.nodes[rank].open != 0 {
            let message = self.early[place as usize];
            if !self.land(instance, &message)? {
                before = place;
                place = message.next;
                continue;
            }
            match self.early.get_mut(before as usize) {
                Some(before) => before.next = message.next,
                None => self.nodes[rank].first = message.next,
            }
            if message.next == NONE {
                self.nodes[rank].last = before;
            }
            self.early[place as usize].next = core::mem::replace(&mut self.spare, place);
            self.waiting -= 1;
            place = message.next;
        }
        Ok(())
    }

    /// Carries out a round's local steps and goes on to the next; whether that was the last.
    fn finish(&mut self, instance: &Instance, messages: u32) -> bool {
        let rank = instance.rank();
        let node = self.nodes[rank as usize];
        let mut elements = 0_usize;
        let mut index = messages;
        while let Some(step) = self.run.algorithm.step(instance, node.round, index) {
            if let Step::Reduce { into, .. } | Step::Copy { into, .. } = step {
                elements = elements.saturating_add(into.len);
            }
            index += 1;
        }
        let local = self.network.cost().local_byte_ps.saturating_mul(self.bytes_of(elements));
        let (start_ps, bytes) = (node.cpu.max(node.landed), self.bytes_of(elements));
        let now = start_ps.saturating_add(self.network.processor_ps(rank, local));
        if elements > 0 {
            let (base, round, what) = (node.base, node.round, WorkKind::Works);
            self.watch.acts(ProcessorWork { rank, base, round, what, bytes, start_ps, end_ps: now });
        }
        let last_round = node.round + 1 >= self.run.algorithm.rounds(instance);
        let base = if last_round { node.base.saturating_add(self.plan.segment) } else { node.base };
        let round = if last_round { 0 } else { node.round + 1 };
        let done = last_round && base >= self.run.count;
        self.nodes[rank as usize] = Node { cpu: now, landed: now, base, round, done, ..node };
        done
    }
}
