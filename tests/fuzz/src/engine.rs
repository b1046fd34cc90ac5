//! The engine of one rank between a peer that sends anything at all and one that is honest.
//!
//! The script posts, cancels and tries operations towards the hostile peer, makes frames up or
//! takes ones that went to that peer and sends them back changed, so that handles in them are
//! genuine. Whatever happens: no panic, nothing is written beside a buffer, and the honest peer's
//! message arrives whole.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;

use aldis_hal::caps::Features;
use aldis_hal::transport::Quiesce;
use aldis_hal::{
    Again, Caps, Cause, Epoch, Extras, Instant, Limits, PeerId, Platform, Post, Refusal, RemoteMemory, Sink,
    Slot, Transport,
};
use aldis_kernel::{Comm, Config, Endpoint, Rank, Scope, Source, Storage, Tag, storage_type};
use aldis_protocols::credit::CreditLimits as Credits;
use aldis_protocols::{Card, Control, Header, Kind};

use crate::script::Script;

/// The rank that reads what it is sent, the one that sends anything, and the honest one.
const VICTIM: usize = 1;
const STRANGER: usize = 0;
const FRIEND: usize = 2;
const DEPTH: usize = 8;
const SLOT_BYTES_MAX: u32 = 160;

type Message = Vec<u8>;

/// Messages under way, `[from][to]`.
#[derive(Default)]
struct Wire {
    queues: [[RefCell<VecDeque<Message>>; 3]; 3],
    /// The stranger has died.
    stranger_died: Cell<bool>,
    /// The stranger has ended a process, as any rank of a job may.
    stranger_aborted: Cell<bool>,
}

fn is_abort(message: &[u8]) -> bool {
    Header::parse(message).is_ok_and(|(header, body)| {
        header.kind == Kind::Control && matches!(Control::decode(body), Ok(Control::Abort { .. }))
    })
}

struct EngineEnd {
    me: usize,
    caps: Caps,
    wire: Rc<Wire>,
    starved: [bool; 3],
}

struct EnginePlace<'a>(&'a RefCell<VecDeque<Message>>, Message);

impl Slot for EnginePlace<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.1
    }
    fn commit(self) {
        self.0.borrow_mut().push_back(self.1);
    }
}

impl EngineEnd {
    fn room(&mut self, peer: PeerId) -> Result<&RefCell<VecDeque<Message>>, Refusal> {
        let queue = &self.wire.queues[self.me][peer.index()];
        if peer.index() == STRANGER && self.wire.stranger_died.get() {
            return Err(Refusal::Never(Cause::PeerDead));
        }
        if queue.borrow().len() >= DEPTH {
            self.starved[peer.index()] = true;
            return Err(Refusal::Again(Again::NoSlot));
        }
        Ok(queue)
    }
}

impl Transport for EngineEnd {
    type Slot<'a> = EnginePlace<'a>;

    fn name(&self) -> &'static str {
        "fuzz"
    }
    fn features(&self) -> Features {
        self.caps.features
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        if peer.index() < 3 { Ok(&self.caps) } else { Err(Cause::Unreachable) }
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self.room(peer) {
            Ok(queue) => {
                queue.borrow_mut().push_back([header, payload].concat());
                Post::Done
            }
            Err(refusal) => refusal.into(),
        }
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<EnginePlace<'_>, Refusal> {
        assert!(len <= SLOT_BYTES_MAX as usize, "a slot is within the limit");
        Ok(EnginePlace(self.room(peer)?, vec![0xEE; len]))
    }
    fn quiesce(&mut self, _: Quiesce) -> Result<(), Cause> {
        Ok(())
    }
    fn poll<S: Sink>(&mut self, budget: u32, _: Instant, sink: &mut S) -> u32 {
        let mut handled = 0;
        if self.wire.stranger_died.get() {
            sink.lost(PeerId(STRANGER as u32), Cause::PeerDead);
        }
        for peer in 0..3 {
            if self.starved[peer] && self.wire.queues[self.me][peer].borrow().len() < DEPTH {
                self.starved[peer] = false;
                sink.ready(PeerId(peer as u32));
            }
            while handled < budget {
                let Some(message) = self.wire.queues[peer][self.me].borrow_mut().pop_front() else { break };
                if peer == STRANGER && is_abort(&message) {
                    self.wire.stranger_aborted.set(true);
                }
                sink.arrived(PeerId(peer as u32), &message);
                handled += 1;
            }
        }
        handled
    }
}

impl Extras for EngineEnd {}

impl RemoteMemory for EngineEnd {}

/// A clock that moves by a microsecond with each idle poll.
#[derive(Clone, Default)]
struct IdleClock(Rc<Cell<u64>>);

impl Platform for IdleClock {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }
    fn relax(&mut self, _: u32) {
        self.0.set(self.0.get() + 1000);
    }
    fn entropy(&mut self) -> u64 {
        1
    }
}

type Node<'s> = Endpoint<'s, EngineEnd, IdleClock>;
/// 3 peers, 24 requests, 3 communicators; a peer has 4 envelopes and 2 blocks of 128 bytes; 2
/// pooled; 4 bins.
type Room = storage_type!(3, 24, 3, 4, 2, 128, 2, 4);

fn epoch(rank: usize) -> Epoch {
    Epoch(100 + rank as u32)
}

fn node<'s>(room: &'s mut Room, me: usize, wire: &Rc<Wire>, clock: &IdleClock) -> Node<'s> {
    let caps = Caps {
        features: Features::SHORT | Features::BCOPY | Features::ORDERED | Features::RELIABLE,
        limits: Limits { short_bytes_max: 56, bcopy_bytes_max: SLOT_BYTES_MAX, ..Limits::default() },
        ..Caps::default()
    };
    let end = EngineEnd { me, caps, wire: wire.clone(), starved: [false; 3] };
    let config = Config { me: PeerId(me as u32), size: 3, epoch: epoch(me) };
    Endpoint::new(room.memory(), end, clock.clone(), config).expect("the sizes are sound")
}

/// A frame of the script's own with a header that passes the first checks, or nearly.
fn made(script: &mut Script<'_>) -> Message {
    let kind = script.byte();
    let body = script.byte();
    let source = script.byte();
    let header = Header {
        kind: Kind::Eager,
        limits: Credits { envelopes: u16::from(script.byte()), blocks: u16::from(script.byte()) },
        epoch: if source == 255 { Epoch(script.word()) } else { epoch(STRANGER) },
        context: u32::from(script.byte() % 4),
        source: if source >= 128 { u32::from(source % 4) } else { 0 },
        tag: u32::from(script.byte() % 8),
        sequence: u16::from(script.byte() % 16),
        length: if body >= 192 { u64::from(script.word()) } else { u64::from(body % 96) },
    };
    let mut message = [&header.emit()[..], script.bytes(usize::from(body % 96))].concat();
    message[0] = kind % 32;
    message
}

/// Returns a message that went to the stranger, as it sends it back: of another kind perhaps, with
/// a byte changed, cut or as it was.
fn returned(wire: &Wire, script: &mut Script<'_>) -> Option<Message> {
    let queue = wire.queues[VICTIM][STRANGER].borrow();
    let mut message = queue.get(usize::from(script.byte()) % queue.len().max(1))?.clone();
    let (kind, at, mask) = (script.byte(), usize::from(script.byte()), script.byte());
    if let Some(first) = message.first_mut().filter(|_| kind < 32) {
        *first = kind;
    }
    // The sender's epoch and rank, so that it is no stale one.
    let own = Header { epoch: epoch(STRANGER), source: 0, ..Header::parse(&message).ok()?.0 }.emit();
    message[..own.len()].copy_from_slice(&own);
    let len = message.len();
    message[at % len] ^= mask;
    message.truncate(if script.byte() == 0 { at % len } else { len });
    Some(message)
}

const ROOMS: usize = 8;
const ROOM_BYTES: usize = 300;
const GAP_BYTES: usize = 20;
const CANARY: u8 = 0xC5;

/// The memory of a scope: where receives take what comes, and what sends give.
struct ScopeMemory<'scope> {
    rooms: &'scope mut [u8],
    data: &'scope [u8],
}

/// A script, and the wire on which it plays the stranger.
struct ScriptedWire<'w, 's> {
    wire: &'w Wire,
    script: &'w mut Script<'s>,
}

/// Plays the script in a scope: what it ends with does not matter.
fn play<'scope>(
    scope: &mut Scope<'scope, '_, '_, EngineEnd, IdleClock>,
    world: &Comm,
    memory: ScopeMemory<'scope>,
    played: ScriptedWire<'_, '_>,
) {
    let ScopeMemory { rooms, data } = memory;
    let ScriptedWire { wire, script } = played;
    let mut rooms = rooms.chunks_mut(ROOM_BYTES + GAP_BYTES).map(|chunk| &mut chunk[..ROOM_BYTES]);
    let mut requests = Vec::new();
    while !script.is_over() {
        match script.byte() % 10 {
            0 => {
                let (len, any) = (usize::from(script.byte()), script.byte());
                if let Some(room) = rooms.next() {
                    let from = if any % 4 == 0 { Source::Any } else { Source::Rank(Rank(0)) };
                    let tag = Tag(u32::from(any / 4 % 4));
                    requests.extend(scope.irecv(world, &mut room[..len], from, tag));
                }
            }
            1 => {
                let (len, tag) = (usize::from(script.byte()), Tag(u32::from(script.byte() % 4)));
                requests.extend(scope.isend(world, &data[..len * 2], Rank(0), tag));
            }
            2 => {
                let which = usize::from(script.byte());
                if let Some(count) = requests.len().checked_sub(1) {
                    scope.cancel(&mut requests[which % (count + 1)]);
                }
            }
            3 => {
                let which = usize::from(script.byte());
                if let Some(count) = requests.len().checked_sub(1) {
                    let _ = scope.test(&mut requests[which % (count + 1)]);
                }
            }
            4 => {
                let taken = usize::from(script.byte());
                let mut queue = wire.queues[VICTIM][STRANGER].borrow_mut();
                let count = taken % (queue.len() + 1);
                queue.drain(..count);
            }
            5 | 6 => {
                let message = returned(wire, script);
                wire.queues[STRANGER][VICTIM].borrow_mut().extend(message);
            }
            7 | 8 => {
                let message = made(script);
                wire.queues[STRANGER][VICTIM].borrow_mut().push_back(message);
            }
            _ => drop(scope.poll(1 + u32::from(script.byte() % 16))),
        }
    }
    scope.poll(64);
    wire.stranger_died.set(true);
}

pub(crate) fn engine(bytes: &[u8]) {
    let mut script = Script(bytes);
    let (wire, clock) = (Rc::new(Wire::default()), IdleClock::default());
    let (mut own, mut friends) = (Box::new(Storage::new()), Box::new(Storage::new()));
    let mut victim = node(&mut own, VICTIM, &wire, &clock);
    let mut friend = node(&mut friends, FRIEND, &wire, &clock);
    let (card, friends_card) = (victim.card(), friend.card());
    let strangers = Card::new(PeerId(STRANGER as u32), epoch(STRANGER), card.room);
    victim.connect(&strangers).expect("its card is sound");
    victim.connect(&friends_card).expect("its card is sound");
    friend.connect(&card).expect("its card is sound");

    let (mut memory, data) = (vec![CANARY; ROOMS * (ROOM_BYTES + GAP_BYTES)], vec![0xDA; 600]);
    let world = victim.world();
    let mut played = false;
    let _ = victim.within(Duration::from_micros(300)).scope(|scope| {
        let memory = ScopeMemory { rooms: &mut memory, data: &data };
        play(scope, &world, memory, ScriptedWire { wire: &wire, script: &mut script });
        played = true;
        Ok(())
    });
    assert!(played, "a script ends");
    for chunk in memory.chunks(ROOM_BYTES + GAP_BYTES) {
        assert_eq!(chunk[ROOM_BYTES..], [CANARY; GAP_BYTES], "written beside a buffer");
    }
    wire.queues[STRANGER][VICTIM].borrow_mut().clear();
    if !wire.stranger_aborted.get() {
        honest(&mut victim, &mut friend);
    }
}

/// A long message from the friend, by rendezvous.
fn honest(victim: &mut Node<'_>, friend: &mut Node<'_>) {
    let (ours, theirs) = (victim.world(), friend.world());
    let (mut got, sent) = ([0_u8; 700], [7_u8; 700]);
    victim
        .scope(|one| {
            friend.scope(|other| {
                let receiving = one.irecv(&ours, &mut got, Rank(FRIEND as u32), Tag(1))?;
                let sending = other.isend(&theirs, &sent, Rank(VICTIM as u32), Tag(1))?;
                while one.poll(64) + other.poll(64) > 0 {}
                other.wait(sending)?;
                one.wait(receiving)
            })
        })
        .expect("the honest peer is not disturbed");
    assert_eq!(got, sent);
}
