//! The system's connection manager, rdma_cm: all calls of a rank.

use core::mem;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use aldis_hal::{Cause, Epoch, Instant, PeerId, Post};

use super::super::super::address::Address;
use super::super::super::error::VerbsError;
use super::super::super::open_device::OpenDevice;
use super::super::super::sys::{CmId, Events, FlushKey, ManagerEvent, ManagerEventKind, Offered};
use super::super::super::wire::Identity;
use super::super::control::{ControlKind, ControlLane, ControlMessage};
use super::super::memory::cause_of;
use super::call::{ConnectCall, Connecting, Parties};
use super::letter::Letter;
use super::{Heard, Manager, News};

/// The mark of what listens. That of a call tells its peer and lane.
const LISTENER: usize = usize::MAX;
/// The time for which events are not looked for after they were: each look is a call of the system.
const LOOK_NS: u64 = 20_000;
const LANES: [ControlLane; 2] = [ControlLane::Messages, ControlLane::Memory];

/// The calls of a rank.
pub(in super::super) struct Rdma {
    rows: Vec<RdmaRow>,
    /// Held, so that others find this rank.
    _listener: CmId,
    port: u16,
    events: Rc<Events>,
    here: Rc<OpenDevice>,
    at: IpAddr,
    me: PeerId,
    epoch: Epoch,
    heard: News,
    /// The time at which events were last looked for.
    now: Instant,
    /// The time before that for which nothing was looked for.
    deaf_ns: u64,
    /// Calls that are to be made again at some time.
    put_off: bool,
    /// The device is gone.
    removed: bool,
}

/// A peer.
#[derive(Default)]
struct RdmaRow {
    /// The life that was introduced, and where it is.
    life: Option<(Epoch, SocketAddr)>,
    calls: [ConnectCall<CmId>; 2],
    /// Requests of a life that has not been introduced yet, the last of each lane.
    early: [Option<(CmId, Letter)>; 2],
}

/// The data that a call of this side needs.
pub(in super::super) struct To {
    events: Rc<Events>,
    mark: usize,
    from: IpAddr,
    to: SocketAddr,
}

impl Default for ConnectCall<CmId> {
    fn default() -> Self {
        Self::new()
    }
}

impl Rdma {
    /// Listens at the address that was chosen.
    pub(in super::super) fn open(here: &Rc<OpenDevice>, who: Identity) -> Result<Self, VerbsError> {
        let at = here.choice.gid.ip().ok_or(VerbsError::NoManager)?;
        let events = Events::new()?;
        let listener = CmId::new(&events, LISTENER)?;
        let port = listener.listen(at)?;
        let Identity { me, epoch, ranks } = who;
        let rows = (0..ranks).map(|_| RdmaRow::default()).collect();
        let (here, heard, now) = (Rc::clone(here), VecDeque::new(), Instant(0));
        Ok(Self {
            rows,
            _listener: listener,
            port,
            events,
            here,
            at,
            me,
            epoch,
            heard,
            now,
            deaf_ns: 0,
            put_off: false,
            removed: false,
        })
    }

    /// Does something with a call of a peer that has been introduced.
    fn with<R>(
        &mut self,
        peer: PeerId,
        lane: ControlLane,
        act: impl FnOnce(&mut ConnectCall<CmId>, &Parties<'_, CmId>, &mut dyn FnMut(Heard)) -> R,
    ) -> Option<R> {
        let Self { rows, events, here, at, me, epoch, heard, now, deaf_ns, put_off, .. } = self;
        let row = rows.get_mut(peer.index())?;
        let (life, to) = row.life?;
        let to = To { events: Rc::clone(events), mark: mark(peer, lane), from: *at, to };
        let parties = Parties {
            ranks: (*me, peer),
            epochs: (*epoch, life),
            to: &to,
            now: *now,
            patience_ns: here.patience_ns(),
            deaf_ns: *deaf_ns,
        };
        let call = row.calls.get_mut(lane as usize)?;
        let done = act(call, &parties, &mut |what| heard.push_back((peer, what)));
        *put_off |= call.is_put_off();
        Some(done)
    }

    fn take(&mut self, event: ManagerEvent) {
        match event.what {
            ManagerEventKind::Removed => {
                self.removed = true;
                let everybody = (0..self.rows.len() as u32).map(PeerId);
                self.heard.extend(everybody.map(|peer| (peer, Heard::Lost(Cause::Device))));
            }
            ManagerEventKind::Request(line, letter) => match Letter::decode(&letter) {
                Some(letter) => self.request(line, letter),
                // No rank of the job.
                None => line.reject(&[]),
            },
            what => {
                if let Some((peer, lane)) = unmark(event.mark) {
                    self.with(peer, lane, |call, parties, tell| call.hear(event.key, what, parties, tell));
                }
            }
        }
    }

    fn request(&mut self, mut line: CmId, letter: Letter) {
        let Letter { from, epochs: (life, mine), control } = letter;
        let is_peer = from != self.me && control.kind == ControlKind::Offer;
        let Some(row) = self.rows.get_mut(from.index()).filter(|_| is_peer && mine == self.epoch) else {
            // It means another life of this rank, or another job.
            let refusal = ControlMessage::bare(control.lane, ControlKind::Refuse, control.serial);
            let letter = Letter { from: self.me, epochs: (mine, life), control: refusal };
            return line.reject(&letter.encode());
        };
        line.mark(mark(from, control.lane));
        match row.life {
            Some((known, _)) if known == life => {
                self.with(from, control.lane, |call, parties, tell| {
                    call.request(line, letter, parties, tell);
                });
            }
            _ => row.early[control.lane as usize] = Some((line, letter)),
        }
    }

    fn resume(&mut self) {
        if mem::take(&mut self.put_off) {
            for peer in 0..self.rows.len() as u32 {
                for lane in LANES {
                    self.with(PeerId(peer), lane, |call, parties, tell| call.resume(parties, tell));
                }
            }
        }
    }
}

impl Manager for Rdma {
    fn address(&self) -> Address {
        let choice = &self.here.choice;
        let (gid, lid, mtu, number) = (choice.gid.raw, choice.lid, choice.mtu, self.port.into());
        Address { mode: self.here.config.mode, gid, lid, mtu, number, flush: FlushKey::default() }
    }

    fn introduce(&mut self, peer: PeerId, epoch: Epoch, address: &Address) -> Result<(), Cause> {
        let (at, port) = (address.ip().ok_or(Cause::Unreachable)?, u16::try_from(address.number));
        let to = SocketAddr::new(at, port.map_err(|_| Cause::Unreachable)?);
        let row = self.rows.get_mut(peer.index()).ok_or(Cause::Unreachable)?;
        row.life = Some((epoch, to));
        row.calls = Default::default();
        self.heard.retain(|(from, _)| *from != peer);
        let is_its = |(_, letter): &mut (CmId, Letter)| letter.epochs.0 == epoch;
        let early = row.early.each_mut().map(|early| early.take_if(is_its));
        for (line, letter) in early.into_iter().flatten() {
            self.request(line, letter);
        }
        Ok(())
    }

    fn say(&mut self, peer: PeerId, control: &ControlMessage) -> Post {
        if self.removed {
            return Post::Never(Cause::Device);
        }
        let said = self.with(peer, control.lane, |call, parties, _| call.say(control, parties));
        said.map_or(Post::Never(Cause::Unreachable), |()| Post::Done)
    }

    fn listen(&mut self, budget: u32, now: Instant, heard: &mut News) {
        let deaf_ns = now.since(self.now);
        if deaf_ns < LOOK_NS && self.heard.is_empty() {
            return;
        }
        (self.now, self.deaf_ns) = (now, deaf_ns);
        for _ in 0..budget {
            let Some(event) = self.events.next() else { break };
            self.take(event);
        }
        self.resume();
        heard.append(&mut self.heard);
    }

    fn settle(&mut self, peer: PeerId) {
        for lane in LANES {
            self.with(peer, lane, |call, parties, _| call.settle(parties));
        }
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.events.file())
    }

    fn line(&self, peer: PeerId, control: &ControlMessage) -> Option<&CmId> {
        self.rows.get(peer.index())?.calls.get(control.lane as usize)?.line(control)
    }
}

impl Connecting for CmId {
    type To = To;

    fn resolve(to: &To) -> Result<Self, Cause> {
        let line = Self::new(&to.events, to.mark).map_err(cause_of)?;
        Self::resolve(&line, to.from, to.to).map_err(cause_of)?;
        Ok(line)
    }

    fn route(&self) -> Result<(), Cause> {
        Self::route(self).map_err(cause_of)
    }

    fn ask(&self, letter: &Letter) -> Result<(), Cause> {
        let ControlMessage { number, depth, .. } = letter.control;
        Self::ask(self, Offered { number, depth }, &letter.encode()).map_err(cause_of)
    }

    fn accept(&self, letter: &Letter, depth: u8) {
        Self::accept(self, Offered { number: letter.control.number, depth }, &letter.encode());
    }

    fn reject(&self, letter: &Letter) {
        Self::reject(self, &letter.encode());
    }

    fn establish(&self) {
        Self::establish(self);
    }

    fn disconnect(&self) {
        Self::disconnect(self);
    }

    fn key(&self) -> usize {
        Self::key(self)
    }
}

/// The mark of a call.
const fn mark(peer: PeerId, lane: ControlLane) -> usize {
    (peer.0 as usize) << 1 | lane as usize
}

/// The call of a mark.
const fn unmark(mark: usize) -> Option<(PeerId, ControlLane)> {
    let lane = if mark & 1 == 0 { ControlLane::Messages } else { ControlLane::Memory };
    if mark == LISTENER { None } else { Some((PeerId((mark >> 1) as u32), lane)) }
}
