//! Two nodes, what is on the wire between them, and everything that can happen next.

use core::hash::{Hash, Hasher};
use std::collections::hash_map::DefaultHasher;
use std::vec::Vec;
use std::{format, vec};

use aldis_hal::{Epoch, Instant};

use super::super::machine::ConnectPhase;
use super::super::{Connect, HandshakeEvent, HandshakeSetup, Message};
use crate::explore::{self, Broken};

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

/// The events that may still happen. Those that are not listed are bounded by those that are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Budget {
    /// Frames lost.
    pub(super) lost: u8,
    /// Frames delivered that stay on the wire.
    pub(super) repeated: u8,
    /// Lives that end, each replaced by a new one.
    pub(super) restarts: u8,
    /// Repetitions of a message for want of an answer.
    pub(super) retries: u8,
    /// Attempts that pass their deadline, and links that give their peer up.
    pub(super) ends: u8,
    /// Times that a user asks for the connection.
    pub(super) attempts: u8,
    /// Data frames.
    pub(super) data: u8,
    /// Open connections that a side ends in good order.
    pub(super) closes: u8,
}

/// A frame on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct TestFrame {
    to: usize,
    /// The life of the sender.
    life: u32,
    what: TestEvent,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum TestEvent {
    Message(Message),
    /// A data frame to this number, from the holder of this pair of numbers.
    Data {
        ours: u32,
        theirs: u32,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Node {
    life: u32,
    machine: Connect,
    /// The newest life of the peer that a connection was opened with.
    opened: u32,
}

/// An event that can happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectStep {
    Deliver(usize),
    DeliverAndKeep(usize),
    Lose(usize),
    Introduce(usize),
    Ask(usize),
    Retry(usize),
    End(usize),
    Restart(usize),
    Data(usize),
    Close(usize),
    /// The close of the peer is followed.
    Follow(usize),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    nodes: [Node; 2],
    wire: Vec<TestFrame>,
    pub(super) budget: Budget,
    /// A node has begun a new life, or given the other up.
    broken: bool,
}

/// Lives of a node have epochs whose numbers do not meet; the first ones wrap soon.
fn epoch(node: usize, life: u32) -> Epoch {
    Epoch(if life == 1 { 0xFFFE } else { 0x0100 * life + 0x10 * node as u32 })
}

fn life(node: usize, of: Epoch) -> u32 {
    (1..9).find(|&life| epoch(node, life) == of).unwrap_or(0)
}

fn setup(node: usize, life: u32) -> HandshakeSetup {
    let epoch = epoch(node, life);
    HandshakeSetup {
        rank: node as u32,
        epoch,
        retry_first_ns: 1,
        retry_max_ns: 1,
        deadline_ns: 2,
        ..HandshakeSetup::DEFAULT
    }
}

impl Node {
    fn new(node: usize, life: u32) -> Self {
        let machine = Connect::new(&setup(node, life), 1 - node as u32, 5 + node as u16);
        Self { life, machine, opened: 0 }
    }

    fn phase(&self) -> ConnectPhase {
        self.machine.phase
    }

    fn numbers(&self) -> (u32, u32) {
        (self.machine.ours, self.machine.theirs)
    }
}

impl explore::World for World {
    type Step = ConnectStep;

    /// 64 bits for the state; the order of what is on the wire does not count.
    fn fingerprint(&self) -> u64 {
        let hash = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            what(&mut hasher);
            hasher.finish()
        };
        let frames = self.wire.iter().map(|frame| hash(&|hasher| frame.hash(hasher)));
        frames.fold(hash(&|hasher| (self.nodes, self.budget, self.broken).hash(hasher)), u64::wrapping_add)
    }

    /// The steps that can happen next within the budget.
    fn steps(&self) -> Vec<ConnectStep> {
        let mut steps = vec![];
        for at in 0..self.wire.len() {
            if self.wire[..at].contains(&self.wire[at]) {
                continue;
            }
            steps.push(ConnectStep::Deliver(at));
            if self.budget.repeated > 0 {
                steps.push(ConnectStep::DeliverAndKeep(at));
            }
            if self.budget.lost > 0 {
                steps.push(ConnectStep::Lose(at));
            }
        }
        for i in 0..2 {
            let (node, peer) = (&self.nodes[i], &self.nodes[1 - i]);
            let phase = node.phase();
            let connecting = node.machine.is_connecting();
            let admitted = node.machine.admitted();
            let can = [
                (admitted != Some(epoch(1 - i, peer.life)), ConnectStep::Introduce(i)),
                (
                    self.budget.attempts > 0
                        && admitted.is_some()
                        && !node.machine.is_open()
                        && !node.machine.is_closing(),
                    ConnectStep::Ask(i),
                ),
                (self.budget.retries > 0 && (connecting || node.machine.is_closing()), ConnectStep::Retry(i)),
                (self.budget.ends > 0 && phase != ConnectPhase::Closed, ConnectStep::End(i)),
                (self.budget.restarts > 0, ConnectStep::Restart(i)),
                (self.budget.data > 0 && node.machine.is_open(), ConnectStep::Data(i)),
                (self.budget.closes > 0 && phase == ConnectPhase::Open, ConnectStep::Close(i)),
                (phase == ConnectPhase::Left, ConnectStep::Follow(i)),
            ];
            steps.extend(can.into_iter().filter_map(|(can, step)| can.then_some(step)));
        }
        steps
    }

    /// Lets it happen.
    fn apply(&mut self, step: ConnectStep) -> Result<(), Broken> {
        let budget = &mut self.budget;
        match step {
            ConnectStep::Deliver(at) => {
                let frame = self.wire.remove(at);
                self.deliver(frame)?;
            }
            ConnectStep::DeliverAndKeep(at) => {
                budget.repeated -= 1;
                self.deliver(self.wire[at])?;
            }
            ConnectStep::Lose(at) => {
                budget.lost -= 1;
                self.wire.remove(at);
            }
            ConnectStep::Introduce(i) => {
                let peer = epoch(1 - i, self.nodes[1 - i].life);
                ensure!(self.nodes[i].machine.introduce(peer), "an introduction is no news");
            }
            ConnectStep::Ask(i) => {
                budget.attempts = budget.attempts.saturating_sub(1);
                let node = &mut self.nodes[i];
                ensure!(node.machine.connect(&setup(i, node.life), Instant(0)), "it cannot ask");
            }
            ConnectStep::Retry(i) => {
                budget.retries = budget.retries.saturating_sub(1);
                let event = self.nodes[i].machine.handle_timeout(Instant(1));
                ensure!(event.is_none(), "an event of a repetition: {event:?}");
            }
            ConnectStep::End(i) => {
                budget.ends = budget.ends.saturating_sub(1);
                self.end(i)?;
            }
            ConnectStep::Restart(i) => {
                budget.restarts -= 1;
                self.broken = true;
                self.nodes[i] = Node::new(i, self.nodes[i].life + 1);
            }
            ConnectStep::Data(i) => {
                budget.data -= 1;
                let (ours, theirs) = self.nodes[i].numbers();
                let life = self.nodes[i].life;
                self.wire.push(TestFrame { to: 1 - i, life, what: TestEvent::Data { ours, theirs } });
            }
            ConnectStep::Close(i) => {
                budget.closes -= 1;
                self.close(i);
            }
            ConnectStep::Follow(i) => self.close(i),
        }
        self.pump();
        self.check()
    }
}

impl World {
    pub(super) fn new(budget: Budget) -> Self {
        Self { nodes: [Node::new(0, 1), Node::new(1, 1)], wire: vec![], budget, broken: false }
    }

    /// A node ends its connection, or follows.
    fn close(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        node.machine.close(&setup(i, node.life), Instant(0));
    }

    /// The deadline of an attempt passes, or the link gives the peer up.
    fn end(&mut self, i: usize) -> Result<(), Broken> {
        self.broken = true;
        let machine = &mut self.nodes[i].machine;
        if machine.is_open() {
            machine.abandon();
            return Ok(());
        }
        let wanted = machine.wanted || machine.is_closing();
        let event = machine.handle_timeout(Instant(2));
        ensure!(event == wanted.then_some(HandshakeEvent::TimedOut), "at the deadline: {event:?}");
        Ok(())
    }

    fn deliver(&mut self, frame: TestFrame) -> Result<(), Broken> {
        let i = frame.to;
        let before = self.nodes[i];
        let machine = &mut self.nodes[i].machine;
        let event = match frame.what {
            TestEvent::Message(message) => machine.handle(&setup(i, before.life), &message, Instant(0)),
            TestEvent::Data { theirs, .. } => machine.handle_data(theirs),
        };
        if let TestEvent::Data { ours, theirs } = frame.what
            && (self.nodes[i].machine.is_open() || self.nodes[i].machine.is_closing())
            && self.nodes[i].machine.number() == theirs
        {
            let same =
                self.nodes[i].machine.theirs == ours && before.machine.admitted == epoch(1 - i, frame.life).0;
            ensure!(same, "data of another connection is taken in");
        }
        event.map_or(Ok(()), |event| self.happened(i, &before, event))
    }

    /// Checks that the caller may get this event, and now.
    fn happened(&mut self, i: usize, before: &Node, event: HandshakeEvent) -> Result<(), Broken> {
        let peer = self.nodes[1 - i];
        let node = &mut self.nodes[i];
        let admitted = life(1 - i, Epoch(before.machine.admitted));
        match event {
            HandshakeEvent::Opened(opened) => {
                let with = life(1 - i, opened.epoch);
                ensure!(with == admitted && with >= node.opened, "life {with} after {}", node.opened);
                ensure!(node.phase() == ConnectPhase::Open, "opened, and it is not");
                ensure!(node.numbers() == (opened.ends.ours, opened.ends.theirs), "other numbers");
                let held =
                    peer.machine.chosen == opened.ends.theirs || peer.machine.ours == opened.ends.theirs;
                ensure!(peer.life != with || held || peer.machine.chosen != 0, "a number that no node chose");
                node.opened = with;
            }
            HandshakeEvent::Restarted(by) => {
                ensure!(self.broken, "a peer is given up that has done nothing but to close");
                let by = life(1 - i, by);
                ensure!(by >= admitted && by <= peer.life, "life {by} ends life {admitted}");
                let mirrored =
                    (peer.machine.theirs, peer.machine.ours) == (before.machine.ours, before.machine.theirs);
                let alive = peer.life == admitted && peer.phase() != ConnectPhase::Closed && mirrored;
                ensure!(
                    !alive || before.phase() != ConnectPhase::Open,
                    "a connection that both hold is ended"
                );
                ensure!(
                    by > admitted || before.phase() == ConnectPhase::Open,
                    "nothing was there to be ended"
                );
            }
            HandshakeEvent::Closing => {
                let held = peer.numbers() == (before.machine.theirs, before.machine.ours);
                let closes = held && peer.phase() == ConnectPhase::Closing;
                ensure!(closes || self.broken, "the peer has not closed");
            }
            HandshakeEvent::Closed => {
                let held = peer.numbers() == (before.machine.theirs, before.machine.ours);
                let holds = held && peer.machine.is_open();
                ensure!(!holds || self.broken, "a connection is over that the peer holds");
            }
            HandshakeEvent::TurnedAway => {
                ensure!(node.phase() == ConnectPhase::Asking, "turned away, and nothing is asked");
            }
            HandshakeEvent::Refused(_) | HandshakeEvent::TimedOut => {
                return Err(format!("{event:?} between peers that fit"));
            }
        }
        Ok(())
    }

    /// Both send what is due, at once. Of a machine that is over all but the record is dropped, as
    /// by a caller that has fewer machines than peers.
    fn pump(&mut self) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            let setup = setup(i, node.life);
            while let Some(message) = node.machine.poll_transmit(&setup) {
                node.machine.transmitted(&setup, &message, Instant(0));
                self.wire.push(TestFrame { to: 1 - i, life: node.life, what: TestEvent::Message(message) });
            }
            node.machine.doublings = 0;
            if node.machine.is_over() {
                let machine = &mut node.machine;
                *machine = Connect::resume(machine.record(), 1 - i as u32, 5 + i as u16);
            }
        }
    }

    /// Checks the invariants, which hold in every state.
    fn check(&self) -> Result<(), Broken> {
        for i in 0..2 {
            let (node, peer) = (&self.nodes[i], &self.nodes[1 - i]);
            let waits = node.machine.poll_timeout().is_some();
            ensure!(
                waits == (node.machine.is_connecting() || node.machine.is_closing()),
                "node {i} waits without a timer, or has one for nothing"
            );
            let heard = node.phase() == ConnectPhase::Open && peer.phase() == ConnectPhase::Open;
            if heard && node.machine.theirs == peer.machine.ours {
                let lives = node.machine.admitted == epoch(1 - i, peer.life).0
                    && peer.machine.admitted == epoch(i, node.life).0;
                ensure!(lives, "open between lives that have not admitted each other");
                ensure!(peer.machine.theirs == node.machine.ours, "one hears the other and not the reverse");
            }
        }
        Ok(())
    }

    /// Returns true if both hold the same connection and nothing is on the wire.
    pub(super) fn is_settled(&self) -> bool {
        let [one, other] = &self.nodes;
        let (ours, theirs) = other.numbers();
        let open = one.phase() == ConnectPhase::Open && other.phase() == ConnectPhase::Open;
        open && one.numbers() == (theirs, ours) && self.wire.is_empty()
    }

    /// Returns the next steps of a fair network, patient users and kernels that learn of new lives:
    /// nothing more is lost; a peer that has to be introduced is; `asker` asks when it has nothing;
    /// a link whose peer answers nothing gives it up.
    pub(super) fn fair_steps(&self, asker: usize) -> Vec<ConnectStep> {
        let nodes = [asker, 1 - asker];
        let machine = |i: usize| &self.nodes[i].machine;
        let all = |which: &dyn Fn(usize) -> bool, step: fn(usize) -> ConnectStep| -> Vec<ConnectStep> {
            nodes.into_iter().filter(|&i| which(i)).map(step).collect()
        };
        if !self.wire.is_empty() {
            return vec![ConnectStep::Deliver(0)];
        }
        let introduced = all(&|i| machine(i).admitted().is_none(), ConnectStep::Introduce);
        if !introduced.is_empty() {
            return introduced;
        }
        let left = all(&|i| machine(i).phase == ConnectPhase::Left, ConnectStep::Follow);
        if !left.is_empty() {
            return left;
        }
        if machine(asker).phase == ConnectPhase::Closed {
            return vec![ConnectStep::Ask(asker)];
        }
        let retries = all(&|i| machine(i).is_connecting() || machine(i).is_closing(), ConnectStep::Retry);
        if retries.is_empty() { all(&|i| machine(i).is_open(), ConnectStep::End) } else { retries }
    }

    /// This state with no faults left in the budget.
    pub(super) fn healed(&self) -> Self {
        let budget = Budget {
            lost: 0,
            repeated: 0,
            restarts: 0,
            retries: 0,
            ends: 0,
            attempts: 0,
            data: 0,
            closes: 0,
        };
        Self { budget, ..self.clone() }
    }
}
