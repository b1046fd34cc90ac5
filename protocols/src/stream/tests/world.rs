//! Two nodes, the connections between them, and everything that can happen next.

use core::hash::{Hash, Hasher};
use std::collections::hash_map::DefaultHasher;
use std::vec::Vec;
use std::{format, vec};

use aldis_hal::{Epoch, Instant, PeerId};

use super::super::link::LinkPhase as Chosen;
use super::super::{
    Dial, FRAME_HEAD_BYTES, Handshake, Node, Rest, StreamEvent, StreamFrame, StreamLink, StreamRefusal,
    StreamSetup, job_name,
};
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
    /// Messages that are sent, of either side.
    pub(super) sends: u8,
    /// Times that a side wants the connection closed, and both to go on.
    pub(super) rests: u8,
}

/// The state of one end of a connection.
#[derive(Clone, Debug)]
pub(super) enum WorldEnd {
    /// The system has it and its node has not accepted it yet.
    Waiting,
    Shaking(std::boxed::Box<Handshake>),
    Open(Rest),
    /// Closed by its node, or with its node.
    Gone,
    /// Closed by its node in agreement.
    Rested,
}

impl Hash for WorldEnd {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
        match self {
            Self::Shaking(handshake) => handshake.hash(state),
            Self::Open(rest) => rest.hash(state),
            _ => {}
        }
    }
}

impl WorldEnd {
    pub(super) const fn is_closed(&self) -> bool {
        matches!(self, Self::Gone | Self::Rested)
    }
}

/// A connection and what is on its way to each end.
#[derive(Clone, Hash, Debug)]
pub(super) struct StreamConnection {
    key: u32,
    /// The lives of the two ends.
    lives: [u32; 2],
    pub(super) ends: [WorldEnd; 2],
    pub(super) wire: [Vec<Vec<u8>>; 2],
    reset: bool,
}

#[derive(Clone, Hash, Debug)]
pub(super) struct Side {
    pub(super) life: u32,
    pub(super) link: StreamLink,
    /// The numbers of the next message to the other side, and of the next from it.
    pub(super) sent: u8,
    pub(super) received: u8,
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
    /// A side sends a message.
    Send(usize, usize),
    /// A side wants the connection closed.
    Rest(usize, usize),
    /// A side agrees to that.
    Agree(usize, usize),
}

#[derive(Clone, Debug)]
pub(super) struct StreamWorld {
    pub(super) sides: [Side; 2],
    pub(super) connections: Vec<StreamConnection>,
    next_key: u32,
    pub(super) budget: Budget,
    /// Nothing happens by which messages are lost.
    pub(super) is_lossless: bool,
    /// This step has closed an end in agreement.
    has_rested: bool,
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
        self.connections.retain(|one| !one.ends.iter().all(WorldEnd::is_closed));
        let fault = matches!(
            step,
            StreamStep::Reset(_) | StreamStep::Restart(_) | StreamStep::End(_) | StreamStep::Notice(..)
        );
        // A life that is introduced ends the connections with another one, which is dead.
        let rests = core::mem::take(&mut self.has_rested);
        let kept = before.is_none()
            || fault
            || rests
            || matches!(step, StreamStep::Introduce(_))
            || before == self.shared();
        ensure!(kept, "a connection that both hold is ended");
        self.check()
    }
}

impl StreamWorld {
    pub(super) fn new(budget: Budget) -> Self {
        let side = Side { life: 1, link: StreamLink::NONE, sent: 0, received: 0 };
        let is_lossless = budget.resets + budget.restarts + budget.ends == 0;
        let sides = [side.clone(), side];
        Self { sides, connections: vec![], next_key: 1, budget, is_lossless, has_rested: false }
    }

    /// Returns the events that can happen at one end of a connection.
    pub(super) fn steps_of(&self, at: usize, i: usize) -> Vec<StreamStep> {
        let connection = &self.connections[at];
        let over = connection.reset || connection.ends[1 - i].is_closed();
        let waits = !connection.wire[i].is_empty();
        let can = match &connection.ends[i] {
            WorldEnd::Gone | WorldEnd::Rested => return vec![],
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
            WorldEnd::Open(rest) => {
                let budget = &self.budget;
                // The end of a connection that was closed in good order comes behind all else.
                let is_last =
                    connection.reset || !waits || !matches!(connection.ends[1 - i], WorldEnd::Rested);
                let can = [
                    (waits, StreamStep::Deliver(at, i)),
                    (over && is_last, StreamStep::Notice(at, i)),
                    (budget.sends > 0 && rest.may_send(), StreamStep::Send(at, i)),
                    (budget.rests > 0 && rest.is_none(), StreamStep::Rest(at, i)),
                    (rest.is_due(), StreamStep::Agree(at, i)),
                ];
                return can.into_iter().filter_map(|(can, step)| can.then_some(step)).collect();
            }
        };
        can.into_iter().filter_map(|(can, step)| can.then_some(step)).collect()
    }

    /// The connection that is whole and open at both ends.
    pub(super) fn shared(&self) -> Option<u32> {
        let whole = |one: &&StreamConnection| {
            !one.reset && matches!(one.ends, [WorldEnd::Open(_), WorldEnd::Open(_)])
        };
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
            StreamStep::Send(at, i) => {
                budget.sends -= 1;
                let number = self.sides[i].sent;
                self.sides[i].sent += 1;
                self.put(at, i, StreamFrame::Data(1), number);
            }
            StreamStep::Rest(at, i) => {
                budget.rests -= 1;
                if let WorldEnd::Open(rest) = &mut self.connections[at].ends[i] {
                    rest.ask();
                }
                self.agree(at, i)?;
            }
            StreamStep::Agree(at, i) => self.agree(at, i)?,
            StreamStep::Deliver(at, i) => {
                let bytes = self.connections[at].wire[i].remove(0);
                if matches!(self.connections[at].ends[i], WorldEnd::Open(_)) {
                    return self.receive(at, i, &bytes);
                }
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
                let life = self.sides[i].life + 1;
                self.sides[i] = Side { life, link: StreamLink::NONE, sent: 0, received: 0 };
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
        if !output.is_empty() && !connection.reset && !connection.ends[1 - i].is_closed() {
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
        let before = self.connections.iter().any(|one| matches!(one.ends[i], WorldEnd::Open(_)));
        ensure!(!before, "a second connection is opened at node {i}");
        let connection = &mut self.connections[at];
        let admitted = self.sides[i].link.admitted();
        ensure!(admitted == Some(epoch(1 - i, connection.lives[1 - i])), "opened to life {admitted:?}");
        ensure!(self.sides[i].link.is_open_on(connection.key), "opened, and another connection is held");
        connection.ends[i] = WorldEnd::Open(Rest::NONE);
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

    /// Puts a frame on the wire.
    fn put(&mut self, at: usize, i: usize, frame: StreamFrame, number: u8) {
        let connection = &mut self.connections[at];
        if !connection.reset && !connection.ends[1 - i].is_closed() {
            let head = frame.encode().expect("a short frame");
            connection.wire[1 - i].push([&head[..], &[number]].concat());
        }
    }

    /// Says what is due of the connection's end.
    fn agree(&mut self, at: usize, i: usize) -> Result<(), Broken> {
        let WorldEnd::Open(rest) = &mut self.connections[at].ends[i] else { return Ok(()) };
        ensure!(rest.poll_transmit() == Some(StreamFrame::Rest), "nothing is due");
        rest.transmitted();
        let number = self.sides[i].sent;
        self.put(at, i, StreamFrame::Rest, number);
        self.end_in_agreement(at, i)
    }

    /// A frame comes over an open connection.
    fn receive(&mut self, at: usize, i: usize, bytes: &[u8]) -> Result<(), Broken> {
        let Some((head, &[number])) = bytes.split_first_chunk::<FRAME_HEAD_BYTES>() else {
            return Err("no frame on an open connection".into());
        };
        let frame = StreamFrame::decode(*head, 1).map_err(|what| format!("{what:?}"))?;
        let side = &mut self.sides[i];
        ensure!(!self.is_lossless || number == side.received, "{frame:?} {number} at {}", side.received);
        side.received += u8::from(frame == StreamFrame::Data(1));
        let WorldEnd::Open(rest) = &mut self.connections[at].ends[i] else { return Ok(()) };
        rest.handle(frame).map_err(|what| format!("{what:?} for {frame:?}"))?;
        self.end_in_agreement(at, i)
    }

    /// Closes an end at which both have said that nothing follows.
    fn end_in_agreement(&mut self, at: usize, i: usize) -> Result<(), Broken> {
        let connection = &mut self.connections[at];
        if matches!(&connection.ends[i], WorldEnd::Open(rest) if rest.is_over()) {
            connection.ends[i] = WorldEnd::Rested;
            self.has_rested = true;
            let before = self.sides[i].link.admitted();
            self.sides[i].link.rest();
            ensure!(self.sides[i].link.admitted() == before, "the life that may connect is forgotten");
            let (sent, received) = (self.sides[1 - i].sent, self.sides[i].received);
            ensure!(!self.is_lossless || sent == received, "closed at {received} of {sent} messages");
        }
        Ok(())
    }

    fn notice(&mut self, at: usize, i: usize) -> Result<(), Broken> {
        self.connections[at].wire[i].clear();
        match self.connections[at].ends[i] {
            WorldEnd::Open(_) => {
                ensure!(
                    !self.is_lossless,
                    "a connection that was closed in agreement is a death at node {i}"
                );
                (self.sides[i].sent, self.sides[i].received) = (0, 0);
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
            if !matches!(self.connections[at].ends[i], WorldEnd::Waiting | WorldEnd::Rested) {
                self.close(at, i);
            }
        }
    }

    /// Checks the invariants, which hold in every state.
    fn check(&self) -> Result<(), Broken> {
        let whole = |one: &StreamConnection| !one.reset && !one.ends.iter().any(WorldEnd::is_closed);
        let open =
            |i: usize| self.connections.iter().filter(move |one| matches!(one.ends[i], WorldEnd::Open(_)));
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
