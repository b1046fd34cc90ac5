//! Two sides, and the connection managers of their systems between them, in every order of what can
//! happen.

use core::cell::RefCell;
use std::collections::{HashSet, VecDeque};

use super::super::super::connection::{self, ConnectionEnd, PeerConnection};
use super::super::super::control::ControlLane;
use super::*;

/// A connection here.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Fake(u16);

/// A request to the system about a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum CallStep {
    Ask(ControlMessage),
    Accept(ControlMessage),
    Reject(ControlMessage),
    Establish,
    Disconnect,
    Destroy,
}

thread_local! {
    static ACTS: RefCell<Vec<(u16, CallStep)>> = const { RefCell::new(Vec::new()) };
    static NEXT: RefCell<u16> = const { RefCell::new(0) };
}

fn act(of: &Fake, what: CallStep) {
    ACTS.with_borrow_mut(|acts| acts.push((of.0, what)));
}

fn new() -> Fake {
    NEXT.with_borrow_mut(|next| {
        *next += 1;
        Fake(*next)
    })
}

/// Of a world, not of a connection.
impl Clone for Fake {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        act(self, CallStep::Destroy);
    }
}

impl Connecting for Fake {
    type To = ();

    fn resolve((): &()) -> Result<Self, Cause> {
        Ok(new())
    }
    fn route(&self) -> Result<(), Cause> {
        Ok(())
    }
    fn ask(&self, letter: &Letter) -> Result<(), Cause> {
        act(self, CallStep::Ask(letter.control));
        Ok(())
    }
    fn accept(&self, letter: &Letter, _depth: u8) {
        act(self, CallStep::Accept(letter.control));
    }
    fn reject(&self, letter: &Letter) {
        act(self, CallStep::Reject(letter.control));
    }
    fn establish(&self) {
        act(self, CallStep::Establish);
    }
    fn disconnect(&self) {
        act(self, CallStep::Disconnect);
    }
    fn key(&self) -> usize {
        self.0.into()
    }
}

/// A queue pair, and the one that it is connected to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Queues {
    number: u32,
    to: u32,
}

impl ConnectionEnd for Queues {
    type Maker<'a> = u32;

    fn make(number: &u32) -> Result<Self, Cause> {
        Ok(Self { number: *number, to: 0 })
    }
    fn number(&self, _maker: &u32) -> (u32, u8) {
        (self.number, 1)
    }
    fn connect(&mut self, _maker: &u32, control: &ControlMessage) -> Result<(), Cause> {
        self.to = control.number;
        Ok(())
    }
}

/// An event that a side has still to receive, about the connection of that number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToldCall {
    Request(ControlMessage),
    Accepted(ControlMessage),
    Established,
    Rejected(Option<ControlMessage>),
    Unreachable,
    Over,
}

/// The progress of an end of a connection, in the system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum System {
    None,
    Asked,
    Replied,
    Up,
    Dead,
}

/// A connection between the two systems: the ends of the side that asked and of the one that was
/// asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ConnectedPair {
    asker: usize,
    keys: [u16; 2],
    ends: [System; 2],
    /// The answer has not been read for too long.
    is_late: bool,
}

/// A packet on its way, to the end of that number of a pair.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Packet {
    Request(ControlMessage),
    Reply(ControlMessage),
    Ready,
    Reject(Option<ControlMessage>),
    Disconnect,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CallSide {
    connection: PeerConnection<Queues>,
    call: ConnectCall<Fake>,
    events: VecDeque<(u16, ToldCall)>,
    needs: u8,
    ends: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CallWorld {
    sides: [CallSide; 2],
    pairs: Vec<ConnectedPair>,
    packets: Vec<(usize, usize, Packet)>,
    made: u32,
    next: u16,
    /// The number of times that something may find no answer in time that would have been answered.
    delays: u8,
}

const LIFE: [Epoch; 2] = [Epoch(5), Epoch(6)];
const RANKS: [PeerId; 2] = [PeerId(0), PeerId(1)];

fn parties(at: usize, is_late: bool) -> Parties<'static, Fake> {
    Parties {
        ranks: (RANKS[at], RANKS[1 - at]),
        epochs: (LIFE[at], LIFE[1 - at]),
        to: &(),
        now: if is_late { Instant::NEVER } else { Instant(0).after(AGAIN) },
        patience_ns: u64::MAX,
        deaf_ns: if is_late { u64::MAX } else { 0 },
    }
}

fn bytes(from: usize, control: ControlMessage) -> [u8; LETTER_BYTES] {
    let letter = Letter { from: RANKS[from], epochs: (LIFE[from], LIFE[1 - from]), control };
    let mut bytes = [0; LETTER_BYTES];
    let written = letter.encode();
    bytes[..written.len()].copy_from_slice(&written);
    bytes
}

impl CallWorld {
    fn new(counts: [(u8, u8); 2], delays: u8) -> Self {
        let side = |is_lower, (needs, ends)| CallSide {
            connection: PeerConnection::new(ControlLane::Messages, is_lower),
            call: ConnectCall::new(),
            events: VecDeque::new(),
            needs,
            ends,
        };
        let [one, other] = counts;
        let sides = [side(true, one), side(false, other)];
        Self { sides, pairs: Vec::new(), packets: Vec::new(), made: 0, next: 0, delays }
    }

    /// Does something with a side, and then what it has asked of the system.
    fn with(&mut self, at: usize, what: impl FnOnce(&mut CallSide, u32, &mut Vec<Heard>)) {
        ACTS.with_borrow_mut(Vec::clear);
        NEXT.set(self.next);
        let (number, mut heard) = (self.made + 1, Vec::new());
        what(&mut self.sides[at], number, &mut heard);
        for heard in heard {
            let connection = &mut self.sides[at].connection;
            match heard {
                Heard::ControlMessage(control) => {
                    connection.hear(&control, &number);
                }
                Heard::Lapsed(_, serial) => connection.lapse(serial),
                Heard::Lost(cause) => panic!("{cause}"),
            }
        }
        let is_used = self.sides[at].connection.end().is_some_and(|end| end.number == number);
        self.made += u32::from(is_used);
        // The way is found at once.
        let key = self.sides[at].call.now.as_ref().and_then(|now| Some(now.line.as_ref()?.key()));
        if let Some(key) = key {
            for what in [ManagerEventKind::Resolved, ManagerEventKind::Routed] {
                self.sides[at].call.hear(key, what, &parties(at, false), |_| unreachable!());
            }
        }
        self.next = NEXT.take();
        for (key, act) in ACTS.take() {
            self.system(at, key, act);
        }
    }

    fn system(&mut self, at: usize, key: u16, act: CallStep) {
        if let CallStep::Ask(control) = act {
            let (keys, ends) = ([key, 0], [System::Asked, System::None]);
            self.pairs.push(ConnectedPair { asker: at, keys, ends, is_late: false });
            return self.packets.push((self.pairs.len() - 1, 1, Packet::Request(control)));
        }
        let is_its = |pair: &ConnectedPair| pair.keys.contains(&key) && key != 0;
        let Some(number) = self.pairs.iter().position(is_its) else { return };
        let pair = &mut self.pairs[number];
        let end = usize::from(pair.keys[1] == key);
        let was = pair.ends[end];
        if act == CallStep::Destroy {
            self.sides[at].events.retain(|(of, _)| *of != key);
        }
        let (now, packet) = match (act, was, end) {
            (CallStep::Accept(control), System::Asked, 1) => (System::Replied, Some(Packet::Reply(control))),
            (CallStep::Reject(control), System::Asked, 1)
            | (CallStep::Reject(control), System::Replied, 0) => {
                (System::Dead, Some(Packet::Reject(Some(control))))
            }
            (CallStep::Establish, System::Replied, 0) => (System::Up, Some(Packet::Ready)),
            (CallStep::Disconnect | CallStep::Destroy, System::Up, _) => {
                (System::Dead, Some(Packet::Disconnect))
            }
            (CallStep::Destroy, System::Asked | System::Replied, _) => {
                (System::Dead, Some(Packet::Reject(None)))
            }
            _ => (was, None),
        };
        pair.ends[end] = now;
        self.packets.extend(packet.map(|packet| (number, 1 - end, packet)));
    }

    /// A packet arrives.
    fn deliver(&mut self, at: usize) {
        let (number, end, packet) = self.packets.remove(at);
        let pair = &mut self.pairs[number];
        let side = if end == 0 { pair.asker } else { 1 - pair.asker };
        let (now, told) = match (packet, pair.ends[end]) {
            (Packet::Request(control), System::None) => {
                self.next += 1;
                pair.keys[1] = self.next;
                (System::Asked, ToldCall::Request(control))
            }
            (Packet::Reply(control), System::Asked) => (System::Replied, ToldCall::Accepted(control)),
            (Packet::Ready, System::Replied) => (System::Up, ToldCall::Established),
            (Packet::Reject(control), System::Asked | System::Replied | System::Up) => {
                (System::Dead, ToldCall::Rejected(control))
            }
            (Packet::Disconnect, System::Replied | System::Up) => (System::Dead, ToldCall::Over),
            _ => return,
        };
        pair.ends[end] = now;
        self.sides[side].events.push_back((pair.keys[end], told));
    }

    /// The system of an end has repeated for too long what it says.
    fn give_up(&mut self, number: usize, end: usize) {
        let pair = &mut self.pairs[number];
        pair.ends[end] = System::Dead;
        pair.is_late = end == 1;
        let side = if end == 0 { pair.asker } else { 1 - pair.asker };
        self.sides[side].events.push_back((pair.keys[end], ToldCall::Unreachable));
    }

    fn hear(&mut self, at: usize) {
        let Some((key, told)) = self.sides[at].events.pop_front() else { return };
        let is_late = self.pairs.iter().any(|pair| pair.keys[0] == key && pair.is_late);
        self.with(at, |side, _, heard| {
            let mut tell = |what| heard.push(what);
            let what = match told {
                ToldCall::Request(control) => {
                    let letter = Letter { from: RANKS[1 - at], epochs: (LIFE[1 - at], LIFE[at]), control };
                    return side.call.request(Fake(key), letter, &parties(at, false), tell);
                }
                ToldCall::Accepted(control) => ManagerEventKind::Accepted(bytes(1 - at, control)),
                ToldCall::Established => ManagerEventKind::Established,
                ToldCall::Rejected(control) => {
                    let letter = control.map_or([0; LETTER_BYTES], |control| bytes(1 - at, control));
                    ManagerEventKind::Rejected { is_there: true, letter }
                }
                ToldCall::Unreachable => ManagerEventKind::Unreachable,
                ToldCall::Over => ManagerEventKind::Over,
            };
            side.call.hear(key.into(), what, &parties(at, is_late), &mut tell);
        });
    }

    /// Everything that can happen next.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut add = |what: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            what(&mut world);
            next.push(world);
        };
        for at in 0..2 {
            let side = &self.sides[at];
            if side.needs > 0 && side.connection.state() == connection::ConnectionState::Closed {
                add(&|world| {
                    world.sides[at].needs -= 1;
                    world.with(at, |side, number, _| side.connection.need(&number).unwrap());
                });
            }
            if side.ends > 0 && side.connection.end().is_some() {
                add(&|world| {
                    world.sides[at].ends -= 1;
                    world.with(at, |side, _, _| {
                        side.connection.close();
                    });
                });
            }
            let is_asking = matches!(side.call.now, Some(Current { stage: CallStage::Asking, .. }));
            if !side.connection.is_silent() || is_asking {
                add(&|world| {
                    world.with(at, |side, _, _| {
                        if let Some(control) = side.connection.control() {
                            side.call.say(&control, &parties(at, false));
                        }
                        if side.connection.is_silent() {
                            side.call.settle(&parties(at, false));
                        }
                    });
                });
            }
            if side.call.is_put_off() {
                add(&|world| {
                    world.with(at, |side, _, heard| {
                        let later = Parties { now: Instant::NEVER, ..parties(at, false) };
                        side.call
                            .resume(&Parties { patience_ns: u64::MAX, ..later }, |what| heard.push(what));
                    });
                });
            }
            if !side.events.is_empty() {
                add(&|world| world.hear(at));
            }
        }
        for at in 0..self.packets.len() {
            add(&|world| world.deliver(at));
        }
        for (number, pair) in self.pairs.iter().enumerate() {
            let on_its_way = self.packets.iter().any(|(of, ..)| *of == number);
            let [asker, asked] = pair.ends;
            // Requests that will never be answered, and those that could have been.
            let is_vain = !on_its_way && asked == System::Dead;
            if asker == System::Asked && (is_vain || (self.delays > 0 && asked == System::Asked)) {
                add(&|world| {
                    world.delays -= u8::from(!is_vain);
                    world.give_up(number, 0);
                });
            }
            let is_vain = !on_its_way && asker == System::Dead;
            let is_unread =
                |(key, told): &(u16, ToldCall)| *key == pair.keys[0] && matches!(told, ToldCall::Accepted(_));
            let is_unread = asker == System::Replied && self.sides[pair.asker].events.iter().any(is_unread);
            if asked == System::Replied && (is_vain || (self.delays > 0 && is_unread)) {
                add(&|world| {
                    world.delays -= u8::from(!is_vain);
                    world.give_up(number, 1);
                });
            }
        }
        next
    }

    /// Asserts that both have the same connection or none, once nothing can happen any more.
    fn check(&self) {
        let [one, other] = &self.sides;
        let states = [one.connection.state(), other.connection.state()];
        match states {
            [connection::ConnectionState::Open, connection::ConnectionState::Open] => {
                let ends = [one, other].map(|side| side.connection.end().unwrap());
                assert_eq!((ends[0].to, ends[1].to), (ends[1].number, ends[0].number), "{self:#?}");
            }
            [connection::ConnectionState::Closed, connection::ConnectionState::Closed] => {
                assert!(self.sides.iter().all(|side| side.call.now.is_none()), "{self:#?}");
            }
            _ => panic!("{self:#?}"),
        }
    }
}

#[test]
fn both_sides_come_to_agree_in_every_order() {
    let (mut states, mut ended) = (0, 0);
    for (counts, delays) in
        [([(1, 0), (1, 0)], 1), ([(2, 1), (0, 0)], 1), ([(1, 1), (1, 0)], 0), ([(1, 0), (0, 1)], 1)]
    {
        let first = CallWorld::new(counts, delays);
        let mut seen = HashSet::from([first.clone()]);
        let mut open = vec![first];
        while let Some(world) = open.pop() {
            let next = world.next();
            if next.is_empty() {
                world.check();
                ended += 1;
            }
            for next in next {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        println!("{counts:?} {delays}: {} states", seen.len());
        states += seen.len();
    }
    println!("{states} states, {ended} of them ends");
    assert!(states > 1000 && ended > 10);
}
