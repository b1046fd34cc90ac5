//! Two nodes, the connections between them, and everything that can happen next.

use core::hash::{Hash, Hasher};
use std::collections::hash_map::DefaultHasher;
use std::vec::Vec;
use std::{format, vec};

use aldis_hal::{Epoch, Instant, PeerId};

use super::super::link::LinkPhase as Chosen;
use super::super::{Dial, Handshake, Node, StreamEvent, StreamLink, StreamRefusal, StreamSetup, job_name};
use super::paths::TestKey;
use crate::explore::{self, Broken};
use crate::timer::Timer;

macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err(format!($($text)*));
        }
    };
}

const KEY: TestKey = TestKey(7);
const NOW: Instant = Instant(0);

/// The events that may still happen. Those that are not listed are bounded by those that are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Budget {
    /// Connections that are reset, with what is on its way in them.
    pub(super) resets: u8,
    /// Connections that cannot be made.
    pub(super) unreachable: u8,
    /// Lives that end, each replaced by a new one.
    pub(super) restarts: u8,
    /// Attempts after one that failed.
    pub(super) retries: u8,
    /// Handshakes that take too long.
    pub(super) slow: u8,
    /// Links that are given up at their deadline.
    pub(super) ends: u8,
    /// Times that a user wants the link.
    pub(super) wants: u8,
}

/// The state of one end of a connection.
#[derive(Clone, Debug)]
pub(super) enum WorldEnd {
    /// The system has it and its node has not accepted it yet.
    Waiting,
    Shaking(std::boxed::Box<Handshake>),
    Open,
    /// Closed by its node, or with its node.
    Gone,
}

impl Hash for WorldEnd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
        if let Self::Shaking(handshake) = self {
            handshake.hash(state);
        }
    }
}

/// A connection and what is on its way to each end.
#[derive(Clone, Hash, Debug)]
pub(super) struct StreamConnection {
    key: u32,
    /// The lives of the two ends.
    lives: [u32; 2],
    pub(super) ends: [WorldEnd; 2],
    wire: [Vec<Vec<u8>>; 2],
    reset: bool,
}

#[derive(Clone, Hash, Debug)]
pub(super) struct Side {
    pub(super) life: u32,
    pub(super) link: StreamLink,
}

/// An event that can happen. The first number is a connection's place, the other an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamStep {
    Want(usize),
    Accept(usize, usize),
    Deliver(usize, usize),
    /// An end learns that its connection is over.
    Notice(usize, usize),
    Reset(usize),
    Slow(usize, usize),
    Retry(usize),
    /// A retry whose connection cannot be made.
    RetryUnreachable(usize),
    WantUnreachable(usize),
    End(usize),
    Introduce(usize),
    Restart(usize),
}

#[derive(Clone, Debug)]
pub(super) struct StreamWorld {
    pub(super) sides: [Side; 2],
    pub(super) connections: Vec<StreamConnection>,
    next_key: u32,
    pub(super) budget: Budget,
}

fn setup(i: usize, life: u32) -> StreamSetup {
    StreamSetup {
        job: job_name(&KEY),
        ranks: 2,
        rank: PeerId(i as u32),
        epoch: epoch(i, life),
        handshake_ns: 2,
        retry_first_ns: 1,
        retry_max_ns: 1,
        deadline_ns: 100,
        ..StreamSetup::DEFAULT
    }
}

/// Lives of a node have epochs of their own.
pub(super) fn epoch(i: usize, life: u32) -> Epoch {
    Epoch(0x100 * life + 0x10 * (i as u32 + 1))
}

impl Side {
    /// Runs `act` with a table of links, that to itself never used.
    fn with<R>(&mut self, i: usize, act: impl FnOnce(&mut Node<'_>) -> R) -> R {
        let setup = setup(i, self.life);
        let mut links = [StreamLink::NONE; 2];
        links[1 - i] = self.link;
        let result = act(&mut Node { setup: &setup, mac: &KEY, links: &mut links });
        self.link = links[1 - i];
        // When the next attempt is due, and why there is one, make no difference to what can
        // happen.
        (self.link.doublings, self.link.last) = (0, None);
        if self.link.retry != Timer::OFF {
            self.link.retry.set(NOW, 1);
        }
        result
    }
}

impl explore::World for StreamWorld {
    type Step = StreamStep;

    /// 64 bits for the state.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.sides, &self.connections, self.budget).hash(&mut hasher);
        hasher.finish()
    }

    /// The steps that can happen next within the budget.
    fn steps(&self) -> Vec<StreamStep> {
        let mut steps = vec![];
        for at in 0..self.connections.len() {
            if self.budget.resets > 0 && !self.connections[at].reset {
                steps.push(StreamStep::Reset(at));
            }
            for i in 0..2 {
                steps.extend(self.steps_of(at, i));
            }
        }
        for i in 0..2 {
            let (side, peer) = (&self.sides[i], &self.sides[1 - i]);
            let known = side.link.admitted() == Some(epoch(1 - i, peer.life));
            let closed = side.link.admitted().is_some() && !side.link.is_open() && !side.link.wanted;
            let due = side.link.retry.at().is_some();
            let (wants, retries) = (self.budget.wants > 0 && closed, self.budget.retries > 0 && due);
            let can = [
                (!known, StreamStep::Introduce(i)),
                (wants, StreamStep::Want(i)),
                (wants && self.budget.unreachable > 0, StreamStep::WantUnreachable(i)),
                (retries, StreamStep::Retry(i)),
                (retries && self.budget.unreachable > 0, StreamStep::RetryUnreachable(i)),
                (self.budget.ends > 0 && side.link.wanted, StreamStep::End(i)),
                (self.budget.restarts > 0, StreamStep::Restart(i)),
            ];
            steps.extend(can.into_iter().filter_map(|(can, step)| can.then_some(step)));
        }
        steps
    }

    /// Lets it happen.
    fn apply(&mut self, step: StreamStep) -> Result<(), Broken> {
        let before = self.shared();
        self.happen(step)?;
        self.dial(0, false)?;
        self.dial(1, false)?;
        self.connections.retain(|one| !matches!(one.ends, [WorldEnd::Gone, WorldEnd::Gone]));
        let fault = matches!(
            step,
            StreamStep::Reset(_) | StreamStep::Restart(_) | StreamStep::End(_) | StreamStep::Notice(..)
        );
        // A life that is introduced ends the connections with another one, which is dead.
        let kept =
            before.is_none() || fault || matches!(step, StreamStep::Introduce(_)) || before == self.shared();
        ensure!(kept, "a connection that both hold is ended");
        self.check()
    }
}

impl StreamWorld {
    pub(super) fn new(budget: Budget) -> Self {
        let side = Side { life: 1, link: StreamLink::NONE };
        Self { sides: [side.clone(), side], connections: vec![], next_key: 1, budget }
    }

    /// Returns the events that can happen at one end of a connection.
    pub(super) fn steps_of(&self, at: usize, i: usize) -> Vec<StreamStep> {
        let connection = &self.connections[at];
        let over = connection.reset || matches!(connection.ends[1 - i], WorldEnd::Gone);
        let waits = !connection.wire[i].is_empty();
        let can = match &connection.ends[i] {
            WorldEnd::Gone => return vec![],
            WorldEnd::Waiting => [
                (true, StreamStep::Accept(at, i)),
                (connection.reset, StreamStep::Notice(at, i)),
                (false, StreamStep::Slow(at, i)),
            ],
            WorldEnd::Shaking(handshake) => [
                (waits, StreamStep::Deliver(at, i)),
                (over, StreamStep::Notice(at, i)),
                (self.budget.slow > 0 && handshake.poll_timeout().is_some(), StreamStep::Slow(at, i)),
            ],
            WorldEnd::Open => [
                (false, StreamStep::Deliver(at, i)),
                (over, StreamStep::Notice(at, i)),
                (false, StreamStep::Slow(at, i)),
            ],
        };
        can.into_iter().filter_map(|(can, step)| can.then_some(step)).collect()
    }

    /// The connection that is whole and open at both ends.
    pub(super) fn shared(&self) -> Option<u32> {
        let whole =
            |one: &&StreamConnection| !one.reset && matches!(one.ends, [WorldEnd::Open, WorldEnd::Open]);
        self.connections.iter().find(whole).map(|one| one.key)
    }

    fn happen(&mut self, step: StreamStep) -> Result<(), Broken> {
        let budget = &mut self.budget;
        match step {
            StreamStep::Want(i) | StreamStep::WantUnreachable(i) => {
                budget.wants = budget.wants.saturating_sub(1);
                let wanted = self.sides[i].with(i, |node| {
                    let setup = *node.setup;
                    node.links[1 - i].want(&setup, NOW)
                });
                ensure!(wanted, "it cannot be wanted");
                self.dial(i, step == StreamStep::WantUnreachable(i))?;
            }
            StreamStep::Retry(i) | StreamStep::RetryUnreachable(i) => {
                budget.retries = budget.retries.saturating_sub(1);
                let failed = self.sides[i].link.handle_timeout(Instant(9));
                ensure!(failed.is_none(), "a retry ends the link");
                self.dial(i, step == StreamStep::RetryUnreachable(i))?;
            }
            StreamStep::Accept(at, i) => {
                let connection = &mut self.connections[at];
                let nonce = [connection.key as u8 * 2 + 1; 16];
                let accepted = Handshake::accept(connection.key, &setup(i, self.sides[i].life), nonce, NOW);
                connection.ends[i] = WorldEnd::Shaking(accepted.into());
            }
            StreamStep::Deliver(at, i) => {
                let bytes = self.connections[at].wire[i].remove(0);
                self.shake(at, i, |handshake, node| handshake.handle(node, &bytes, NOW).1)?;
            }
            StreamStep::Notice(at, i) => self.notice(at, i)?,
            StreamStep::Reset(at) => {
                budget.resets -= 1;
                self.connections[at].reset = true;
                self.connections[at].wire = [vec![], vec![]];
            }
            StreamStep::Slow(at, i) => {
                budget.slow = budget.slow.saturating_sub(1);
                self.shake(at, i, |handshake, node| handshake.handle_timeout(node, Instant(2)))?;
            }
            StreamStep::End(i) => {
                budget.ends = budget.ends.saturating_sub(1);
                let failed = self.sides[i].link.handle_timeout(Instant(100));
                ensure!(failed.is_some(), "the deadline passes and nothing comes of it");
                self.drop_all(i);
            }
            StreamStep::Introduce(i) => {
                let life = self.sides[1 - i].life;
                ensure!(self.sides[i].link.introduce(epoch(1 - i, life)), "an introduction is no news");
                self.drop_all(i);
            }
            StreamStep::Restart(i) => {
                budget.restarts -= 1;
                self.drop_all(i);
                let waiting = |one: &&mut StreamConnection| matches!(one.ends[i], WorldEnd::Waiting);
                self.connections.iter_mut().filter(waiting).for_each(|one| one.ends[i] = WorldEnd::Gone);
                self.sides[i] = Side { life: self.sides[i].life + 1, link: StreamLink::NONE };
            }
        }
        Ok(())
    }

    /// Makes a connection if the link wants one.
    fn dial(&mut self, i: usize, unreachable: bool) -> Result<(), Broken> {
        if !self.sides[i].link.wants_dial() {
            return Ok(());
        }
        let key = self.next_key;
        self.next_key += 1;
        let nonce = [key as u8 * 2; 16];
        let dialled = self.sides[i].with(i, |node| {
            Handshake::dial(node, Dial { key, peer: PeerId(1 - i as u32), link: 0, nonce }, NOW)
        });
        let Some(mut dialled) = dialled else { return Err("it wants to dial and cannot".into()) };
        if unreachable {
            self.budget.unreachable -= 1;
            self.sides[i].with(i, |node| dialled.hang_up(node, NOW));
            return Ok(());
        }
        let mut ends = [WorldEnd::Waiting, WorldEnd::Waiting];
        ends[i] = WorldEnd::Shaking(dialled.into());
        let lives = [self.sides[0].life, self.sides[1].life];
        self.connections.push(StreamConnection { key, lives, ends, wire: [vec![], vec![]], reset: false });
        self.flush(self.connections.len() - 1, i);
        Ok(())
    }

    /// Sends what the handshake has to say, unless the connection is over.
    fn flush(&mut self, at: usize, i: usize) {
        let connection = &mut self.connections[at];
        let WorldEnd::Shaking(handshake) = &mut connection.ends[i] else { return };
        let output = handshake.output().to_vec();
        handshake.transmitted(output.len());
        if !output.is_empty() && !connection.reset && !matches!(connection.ends[1 - i], WorldEnd::Gone) {
            connection.wire[1 - i].push(output);
        }
    }

    /// Applies `act` to a handshake.
    fn shake(
        &mut self,
        at: usize,
        i: usize,
        act: impl FnOnce(&mut Handshake, &mut Node<'_>) -> Option<StreamEvent>,
    ) -> Result<(), Broken> {
        let WorldEnd::Shaking(handshake) = &mut self.connections[at].ends[i] else { return Ok(()) };
        let event = self.sides[i].with(i, |node| act(handshake, node));
        self.flush(at, i);
        match event {
            None => Ok(()),
            Some(StreamEvent::Opened { peer, link }) => {
                ensure!((peer.index(), link) == (1 - i, 0), "another peer or link");
                self.opened(at, i)
            }
            Some(StreamEvent::Ended { why, .. }) => {
                self.close(at, i);
                let can = !matches!(
                    why,
                    StreamRefusal::Key
                        | StreamRefusal::Job
                        | StreamRefusal::Rank
                        | StreamRefusal::Malformed
                        | StreamRefusal::Foreign
                );
                ensure!(can, "{why} between peers that fit");
                Ok(())
            }
        }
    }

    fn opened(&mut self, at: usize, i: usize) -> Result<(), Broken> {
        let before = self.connections.iter().any(|one| matches!(one.ends[i], WorldEnd::Open));
        ensure!(!before, "a second connection is opened at node {i}");
        let connection = &mut self.connections[at];
        let admitted = self.sides[i].link.admitted();
        ensure!(admitted == Some(epoch(1 - i, connection.lives[1 - i])), "opened to life {admitted:?}");
        ensure!(self.sides[i].link.is_open_on(connection.key), "opened, and another connection is held");
        connection.ends[i] = WorldEnd::Open;
        for other in 0..self.connections.len() {
            let claims = match &self.connections[other].ends[i] {
                WorldEnd::Shaking(handshake) => handshake.claim().is_some(),
                _ => false,
            };
            if claims && other != at {
                self.shake(other, i, |handshake, node| handshake.refuse(node, StreamRefusal::Crossed, NOW))?;
            }
        }
        Ok(())
    }

    fn notice(&mut self, at: usize, i: usize) -> Result<(), Broken> {
        self.connections[at].wire[i].clear();
        match self.connections[at].ends[i] {
            WorldEnd::Open => {
                self.sides[i].link.forget();
                self.drop_all(i);
            }
            _ => self.shake(at, i, |handshake, node| handshake.hang_up(node, NOW))?,
        }
        self.close(at, i);
        Ok(())
    }

    fn close(&mut self, at: usize, i: usize) {
        self.connections[at].ends[i] = WorldEnd::Gone;
        self.connections[at].wire[i].clear();
    }

    /// The node drops all its connections of the link; it does not know whose those are that it has
    /// not accepted.
    fn drop_all(&mut self, i: usize) {
        for at in 0..self.connections.len() {
            if !matches!(self.connections[at].ends[i], WorldEnd::Waiting) {
                self.close(at, i);
            }
        }
    }

    /// Checks the invariants, which hold in every state.
    fn check(&self) -> Result<(), Broken> {
        let whole =
            |one: &StreamConnection| !one.reset && !one.ends.iter().any(|end| matches!(end, WorldEnd::Gone));
        let open =
            |i: usize| self.connections.iter().filter(move |one| matches!(one.ends[i], WorldEnd::Open));
        for i in 0..2 {
            let link = &self.sides[i].link;
            ensure!(open(i).count() == usize::from(link.is_open()), "node {i} holds {}", open(i).count());
            if let Chosen::Selected { key, .. } = link.phase {
                ensure!(i == 0, "the higher rank chooses");
                ensure!(self.connections.iter().any(|one| one.key == key), "chosen, and not there");
            }
            let waits = link.poll_timeout().is_some();
            ensure!(waits == (link.wanted || link.retry != Timer::OFF), "node {i} waits without a timer");
            for one in open(i).filter(|one| whole(one)) {
                let peer = &self.sides[1 - i].link;
                let chosen = matches!(peer.phase, Chosen::Selected { key, .. } if key == one.key);
                ensure!(chosen || peer.is_open_on(one.key), "node {i} holds what the other does not");
            }
        }
        let both = open(0).find(|one| whole(one)).zip(open(1).find(|one| whole(one)));
        ensure!(both.is_none_or(|(one, other)| one.key == other.key), "each holds another connection");
        Ok(())
    }
}
