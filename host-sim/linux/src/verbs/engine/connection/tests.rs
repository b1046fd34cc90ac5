//! Two sides and what is on its way between them, in every order.

use std::collections::{HashSet, VecDeque};

use super::super::control::CONTROL_BYTES;
use super::*;

/// A queue pair by its number, and the one that it is connected to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Fake {
    number: u32,
    to: u32,
}

struct Maker {
    number: u32,
}

impl ConnectionEnd for Fake {
    type Maker<'a> = Maker;

    fn make(maker: &Maker) -> Result<Self, Cause> {
        if maker.number == 0 { Err(Cause::Device) } else { Ok(Self { number: maker.number, to: 0 }) }
    }

    fn number(&self, _maker: &Maker) -> (u32, u8) {
        (self.number, 1)
    }

    fn connect(&mut self, _maker: &Maker, control: &ControlMessage) -> Result<(), Cause> {
        self.to = control.number;
        Ok(())
    }
}

/// A side: its connection, what is on its way to it, and how often it may still need one, and end
/// it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Side {
    connection: PeerConnection<Fake>,
    words: VecDeque<[u8; CONTROL_BYTES]>,
    needs: u8,
    ends: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ConnectionWorld {
    sides: [Side; 2],
    made: u32,
}

impl ConnectionWorld {
    fn new(counts: [(u8, u8); 2]) -> Self {
        let side = |is_lower, (needs, ends)| {
            let (connection, words) = (PeerConnection::new(ControlLane::Messages, is_lower), VecDeque::new());
            Side { connection, words, needs, ends }
        };
        let [one, other] = counts;
        Self { sides: [side(true, one), side(false, other)], made: 0 }
    }

    fn maker(&mut self) -> Maker {
        self.made += 1;
        Maker { number: self.made }
    }

    /// Everything that can happen next.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for at in 0..2 {
            let mut add = |what: &dyn Fn(&mut Self)| {
                let mut world = self.clone();
                what(&mut world);
                next.push(world);
            };
            let side = &self.sides[at];
            if side.needs > 0 && side.connection.state() == ConnectionState::Closed {
                add(&|world| {
                    let maker = world.maker();
                    world.sides[at].needs -= 1;
                    world.sides[at].connection.need(&maker).unwrap();
                });
            }
            if side.ends > 0 && side.connection.end().is_some() {
                add(&|world| {
                    world.sides[at].ends -= 1;
                    world.sides[at].connection.close();
                });
            }
            if !side.connection.is_silent() {
                add(&|world| {
                    let control = world.sides[at].connection.control().unwrap();
                    world.sides[1 - at].words.push_back(control.encode());
                });
            }
            if !side.words.is_empty() {
                add(&|world| {
                    let maker = world.maker();
                    let control = world.sides[at].words.pop_front().unwrap();
                    world.sides[at].connection.hear(&ControlMessage::decode(&control).unwrap(), &maker);
                });
            }
        }
        next
    }

    fn check(&self) {
        let [one, other] = &self.sides;
        if one.connection.state() == ConnectionState::Open
            && other.connection.state() == ConnectionState::Open
        {
            let ends = [one, other].map(|side| side.connection.end().unwrap());
            let agree = ends[0].to == ends[1].number && ends[1].to == ends[0].number;
            // Unless one of them is about to learn that its connection is over.
            let is_over = |side: &Side, of: &Side| !of.connection.is_silent() || !side.words.is_empty();
            assert!(agree || is_over(one, other) || is_over(other, one), "{self:?}");
        }
        let quiet = self.sides.iter().all(|side| side.words.is_empty() && side.connection.is_silent());
        if quiet {
            let states = [one.connection.state(), other.connection.state()];
            assert!(
                matches!(
                    states,
                    [ConnectionState::Open, ConnectionState::Open]
                        | [ConnectionState::Closed, ConnectionState::Closed]
                ),
                "{self:?}"
            );
        }
    }
}

/// Whatever both need and end, in whatever order: when all control messages are received, both have
/// the same connection or none.
#[test]
fn both_sides_come_to_agree_in_every_order() {
    let mut states = 0;
    for counts in [[(1, 0), (1, 0)], [(2, 1), (1, 1)], [(1, 1), (2, 1)], [(2, 2), (2, 0)]] {
        let first = ConnectionWorld::new(counts);
        let mut seen = HashSet::from([first.clone()]);
        let mut open = vec![first];
        while let Some(world) = open.pop() {
            world.check();
            for next in world.next() {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        states += seen.len();
    }
    println!("{states} states");
    assert!(states > 1000);
}

#[test]
fn a_device_that_cannot_is_told_to_both() {
    let (able, unable) = (Maker { number: 7 }, Maker { number: 0 });
    let (mut one, mut other) = (
        PeerConnection::<Fake>::new(ControlLane::Memory, true),
        PeerConnection::<Fake>::new(ControlLane::Memory, false),
    );
    assert_eq!(one.need(&able), Ok(()));
    let offer = one.control().unwrap();
    assert_eq!(other.hear(&offer, &unable), News::Refused(Cause::Device));
    assert_eq!(one.hear(&other.control().unwrap(), &able), News::Refused(Cause::Unreachable));
    assert_eq!((one.state(), other.state()), (ConnectionState::Refused, ConnectionState::Refused));
    assert_eq!(one.need(&able), Ok(()));
    assert_eq!((one.state(), one.control()), (ConnectionState::Refused, None));
}

#[test]
fn a_word_that_could_not_be_said_is_said_later_unless_it_is_overtaken() {
    let maker = Maker { number: 3 };
    let mut connection = PeerConnection::<Fake>::new(ControlLane::Messages, true);
    connection.need(&maker).unwrap();
    let offer = connection.control().unwrap();
    connection.unsay(offer);
    assert_eq!(connection.control(), Some(offer));
    connection.close();
    connection.unsay(offer);
    assert_eq!(
        connection.control(),
        Some(ControlMessage::bare(ControlLane::Messages, ControlKind::Close, 2))
    );
}
