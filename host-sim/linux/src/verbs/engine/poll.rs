//! The work of a poll.

use aldis_hal::{Cause, Instant, PeerId, Resource, Sink};

use super::super::sys::{BATCH, Ending};
use super::control::{ControlKind, ControlLane};
use super::manager::Heard;
use super::memory::cause_of;
use super::peer::{IS_MESSAGE, VerbsPeer};
use super::{BUSY_POLLS, PROBE_NS, VerbsEngine};

impl VerbsEngine {
    /// See [`Transport::poll`](aldis_hal::Transport::poll).
    pub(in super::super) fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let found = self.look(budget, now, sink);
        if self.watch.is_due(found, &self.tools.here.channel) {
            self.arm();
            return self.look(budget, now, sink);
        }
        found
    }

    /// Has the device wake a rank that sleeps: for what comes, and for what is sent if that is
    /// waited for.
    fn arm(&mut self) {
        let waits = |row: &VerbsPeer| row.waiting || !row.direct.is_idle();
        let sent = self.peers.iter().any(waits).then_some(&self.tools.sent);
        let queues = [Some(&self.tools.received), sent];
        let armed = queues.into_iter().flatten().all(|queue| queue.completions.arm().is_ok());
        self.manager.arm();
        self.check(armed);
    }

    fn look<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        let mut events = self.take_arrivals(budget as usize, sink);
        events += self.take_sent((budget - events) as usize, sink);
        self.busy += 1;
        if events == 0 || self.busy >= BUSY_POLLS {
            self.busy = 0;
            self.listen(budget, now);
            self.probe(now);
        }
        let mut next = 0;
        while let Some(peer) = self.due.take(next) {
            next = peer + 1;
            events += self.serve(PeerId(peer as u32), budget - events, sink);
        }
        events
    }

    fn take_arrivals<S: Sink>(&mut self, budget: usize, sink: &mut S) -> u32 {
        let (mut found, asked) = (0, budget.min(BATCH));
        let Self { tools, peers, due, .. } = self;
        let completions = std::rc::Rc::clone(&tools.received.completions);
        let polled = completions.poll(asked, |done| {
            found += 1;
            let slot = tools.receives.take(&done);
            let owner = tools.owner(done.pair).map(|(peer, _)| peer);
            let mut row = owner.and_then(|peer| Some((peer, peers.get_mut(peer.index())?)));
            if let Some((peer, row)) = &mut row {
                match row.accept(&done) {
                    Ok(true) => sink.arrived(*peer, tools.receives.bytes(slot, done.len)),
                    Ok(false) => {}
                    Err(cause) => row.part(cause),
                }
            }
            // Before its place is granted again.
            let is_posted = tools.receives.post(slot).is_ok();
            if let Some((peer, row)) = row {
                due.insert(peer.index());
                match is_posted {
                    true if done.immediate & IS_MESSAGE != 0 => row.grant.free(),
                    true => {}
                    false => row.part(Cause::Device),
                }
            }
        });
        tools.received.note(found, asked);
        self.check(polled.is_ok());
        found as u32
    }

    fn take_sent<S: Sink>(&mut self, budget: usize, sink: &mut S) -> u32 {
        let (mut found, asked) = (0, budget.min(BATCH));
        let Self { tools, peers, due, .. } = self;
        let completions = std::rc::Rc::clone(&tools.sent.completions);
        let polled = completions.poll(asked, |done| {
            found += 1;
            let Some((peer, lane)) = tools.owner(done.pair) else { return };
            let Some(row) = peers.get_mut(peer.index()) else { return };
            due.insert(peer.index());
            match lane {
                ControlLane::Messages => row.sent(&done),
                ControlLane::Memory => {
                    // It may be the peer that does not answer, or its queue pair alone.
                    row.expected |= done.ending == Ending::NoAnswer;
                    if let Some((token, result)) = row.direct.ended(&done) {
                        sink.completed(token, result);
                    }
                }
            }
        });
        tools.sent.note(found, asked);
        self.check(polled.is_ok());
        found as u32
    }

    /// Marks the device as lost if it does not answer: it reaches no peer any more.
    fn check(&mut self, answers: bool) {
        if !answers {
            for (peer, row) in self.peers.iter_mut().enumerate() {
                row.part(Cause::Device);
                self.due.insert(peer);
            }
        }
    }

    /// Receives what peers say of connections. A new queue pair has to be told from all that there
    /// have been.
    fn listen(&mut self, budget: u32, now: Instant) {
        if self.heard.is_empty() {
            self.manager.listen(budget, now, &mut self.heard);
        }
        while self.tools.is_clean()
            && let Some((peer, heard)) = self.heard.pop_front()
        {
            let heard = match heard {
                Heard::ControlMessage(control)
                    if (control.lane, control.kind) == (ControlLane::Messages, ControlKind::Offer) =>
                {
                    self.make_room(peer).map_or_else(Heard::Lost, |()| Heard::ControlMessage(control))
                }
                heard => heard,
            };
            let Self { peers, tools, manager, .. } = self;
            let Some(row) = peers.get_mut(peer.index()) else { continue };
            match heard {
                Heard::ControlMessage(control) => row.hear(&control, &tools.maker(peer, row, &**manager)),
                Heard::Lapsed(lane, serial) => row.lapse(lane, serial),
                Heard::Lost(cause) => row.part(cause),
            }
            self.note(peer);
        }
    }

    /// Receives for a connection with a peer, beside those that there are with others.
    fn make_room(&mut self, peer: PeerId) -> Result<(), Cause> {
        let connections = self.tools.connections_beside(peer) + 1;
        if connections > self.connections_most {
            return Err(Cause::Full(Resource::Peers));
        }
        self.tools.receives.grow(connections).map_err(cause_of)
    }

    /// Asks peers that something is expected of whether they live, now and then, and the device
    /// whether it still works.
    fn probe(&mut self, now: Instant) {
        if now.since(self.probed) < PROBE_NS {
            return;
        }
        self.probed = now;
        self.check(!self.tools.here.domain.device().has_failed());
        for (peer, row) in self.peers.iter_mut().enumerate().filter(|(_, row)| row.expected) {
            row.probe();
            self.due.insert(peer);
        }
    }

    /// Connects to a peer if that is needed, sends what it is to be told, and tells the sink, in at
    /// most so many events.
    fn serve<S: Sink>(&mut self, peer: PeerId, budget: u32, sink: &mut S) -> u32 {
        self.connect(peer);
        let Self { peers, tools, manager, heard, due, .. } = self;
        let Some(row) = peers.get_mut(peer.index()) else { return 0 };
        row.speak(|control| manager.say(peer, control));
        if heard.is_empty() && row.is_silent() {
            manager.settle(peer);
        }
        let told = row.tell(peer, budget, sink);
        tools.note(peer, row);
        if told == budget || !row.is_quiet() {
            due.insert(peer.index());
        }
        told
    }

    fn connect(&mut self, peer: PeerId) {
        let is_needed = self.peers.get(peer.index()).is_some_and(|row| row.needs_connection());
        if !is_needed || !self.tools.is_clean() {
            return;
        }
        let room = self.make_room(peer);
        let Self { peers, tools, manager, .. } = self;
        if let Some(row) = peers.get_mut(peer.index()) {
            let made = room.and_then(|()| row.connection.need(&tools.maker(peer, row, &**manager)));
            if let Err(cause) = made {
                row.part(cause);
            }
        }
    }
}
