//! Frames from strangers, liars and broken machines.

use std::vec;

use aldis_hal::cause::Malformed;
use aldis_protocols::reliable::{FRAME_BYTES, Frame, FrameKind, seal};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::header::{EthernetHeader, HEADER_BYTES, SUBTYPE};
use super::super::{EthernetCounters, HEADERS_BYTES};
use super::*;

/// A frame as rank 0 might have sent it to rank 1.
fn forged(frame: Frame, payload: &[u8]) -> Vec<u8> {
    let header = EthernetHeader::new(mac(station(1)), mac(station(0)), SUBTYPE);
    let frame = seal(frame, payload).unwrap();
    [header.as_bytes(), frame.as_bytes(), payload].concat()
}

/// A frame that rank 0 has really sent to rank 1, and its header; it still arrives.
fn genuine(net: &mut Net) -> (Vec<u8>, Frame) {
    assert_eq!(net.nodes[0].short(1, b"genuine"), Post::Done);
    let bytes = net.hub.waiting(station(1)).pop().unwrap();
    let frame = Frame::read_from_bytes(&bytes[HEADER_BYTES..HEADERS_BYTES]).unwrap();
    (bytes, frame)
}

/// Returns what rank 1 counts for a frame, which has no other effect.
fn counted(net: &mut Net, bytes: &[u8], counter: fn(&EthernetCounters) -> u64) -> u64 {
    let before = counter(&net.nodes[1].ethernet.counters());
    net.hub.inject(station(1), bytes);
    net.poll(1, 1);
    assert_eq!(net.nodes[1].take().events(), 0);
    counter(&net.nodes[1].ethernet.counters()) - before
}

/// Checks that both ways still work.
fn undisturbed(net: &mut Net) {
    net.nodes.iter_mut().for_each(|node| drop(node.take()));
    net.send(0, 1, b"there");
    net.send(1, 0, b"back");
    net.settle();
    let (back, there) = (net.nodes[0].take(), net.nodes[1].take());
    assert_eq!((back.lost.len(), back.arrived), (0, vec![(1, b"back".to_vec())]));
    assert_eq!((there.lost.len(), there.arrived), (0, vec![(0, b"there".to_vec())]));
}

#[test]
fn every_kind_of_nonsense_is_counted_and_harmless() {
    let mut net = Net::pair();
    let (bytes, frame) = genuine(&mut net);
    net.settle();
    net.nodes[1].take();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(counted(&mut net, &with(12, 0x08), |c| c.foreign), 1, "another EtherType");
    assert_eq!(counted(&mut net, &with(14, 0), |c| c.foreign), 1, "another experiment");
    assert_eq!(counted(&mut net, &with(0, 0xFF), |c| c.foreign), 1, "not for us");
    assert_eq!(counted(&mut net, &with(15, 9), |c| c.version), 1, "another version");
    assert_eq!(counted(&mut net, &with(11, 9), |c| c.impostor), 1, "from another station");
    assert_eq!(counted(&mut net, &with(50, 0), |c| c.checksum), 1, "a damaged payload");
    assert_eq!(counted(&mut net, &[], |c| c.truncated), 1);
    assert_eq!(counted(&mut net, &bytes[..15], |c| c.truncated), 1);
    assert_eq!(counted(&mut net, &bytes[..HEADERS_BYTES - 1], |c| c.truncated), 1);
    assert_eq!(counted(&mut net, &bytes[..HEADERS_BYTES + 2], |c| c.truncated), 1);
    assert_eq!(counted(&mut net, &[0xA5; 70_000], |c| c.foreign), 1, "a giant");
    assert_eq!(counted(&mut net, &bytes, |c| c.duplicates), 1, "a replay");
    let number = frame.connection.get();
    for other in [0, 1, number ^ 1 << 16, number ^ 1, u32::MAX] {
        let stale = forged(Frame { connection: U32::new(other), ..frame }, b"genuine");
        assert_eq!(counted(&mut net, &stale, |c| c.stale), 1, "connection {other:#x}");
    }
    let babble = forged(Frame::new(FrameKind::Handshake), b"babble");
    assert_eq!(counted(&mut net, &babble, |c| c.malformed), 1);
    undisturbed(&mut net);
}

#[test]
fn a_peer_that_lies_on_its_own_connection_is_lost_once() {
    let lies: [fn(&mut Frame); 3] = [
        |frame| frame.sequence = U32::new(frame.sequence.get().wrapping_add(1000)),
        |frame| frame.cumulative = U32::new(frame.cumulative.get().wrapping_add(1000)),
        |frame| frame.limit = U32::new(frame.limit.get().wrapping_add(1000)),
    ];
    for lie in lies {
        let mut net = Net::pair();
        let (_, mut frame) = genuine(&mut net);
        lie(&mut frame);
        net.hub.inject(station(1), &forged(frame, b"lie"));
        net.until("the loss", |net| !net.nodes[1].log.lost.is_empty());
        for _ in 0..50 {
            net.step(16);
        }
        let log = net.nodes[1].take();
        assert!(matches!(log.lost[..], [(0, Cause::Malformed(_))]), "{:?}", log.lost);
        assert!(log.arrived.iter().all(|(_, message)| message == b"genuine"));
        assert_eq!(net.nodes[1].short(0, b"x"), Post::Never(Cause::PeerDead));
    }
}

#[test]
fn a_message_longer_than_was_agreed_is_a_lie() {
    let mut net = Net::pair();
    let (_, frame) = genuine(&mut net);
    net.settle();
    net.nodes[1].take();
    let next = Frame { sequence: U32::new(frame.sequence.get().wrapping_add(1)), ..frame };
    net.hub.inject(station(1), &forged(next, &[0; BYTES + 1]));
    net.poll(1, 4);
    assert_eq!(net.nodes[1].take().lost, [(0, Cause::Malformed(Malformed::Length))]);
}

#[test]
fn old_handshakes_change_nothing() {
    let mut net = Net::new(2, 1);
    assert!(matches!(net.nodes[0].short(1, b"x"), Post::Again(_)));
    let mut recorded = Vec::new();
    net.until("the connection", |net| {
        for to in [0, 1] {
            recorded.extend(net.hub.waiting(station(to)).into_iter().map(|frame| (to, frame)));
        }
        net.nodes[0].log.ready == [1]
    });
    assert!(recorded.len() >= 2);
    for _ in 0..3 {
        for (to, frame) in &recorded {
            net.hub.inject(station(*to), frame);
        }
        net.settle();
        undisturbed(&mut net);
    }
    assert!(net.nodes.iter().all(|node| node.ethernet.counters().opened == 1));
}

#[test]
fn a_handshake_counts_only_from_where_its_rank_lives() {
    let mut net = Net::new(2, 1);
    assert!(matches!(net.nodes[0].short(1, b"x"), Post::Again(_)));
    net.poll(0, 1);
    let mut hello = net.hub.waiting(station(1)).pop().unwrap();
    net.hub.unplug(station(0));
    hello[11] = 9;
    assert_eq!(counted(&mut net, &hello, |c| c.impostor), 1);
    hello[11] = station(0);
    assert_eq!(counted(&mut net, &hello, |c| c.impostor), 0);
    assert_eq!(net.nodes[1].ethernet.counters().malformed, 0);
}

/// A frame to throw at rank 1: noise, or a genuine one of rank 0 with changes.
#[derive(Clone, Debug)]
enum Throw {
    Noise(Vec<u8>),
    /// Bytes changed, the checksum left as it was.
    Damaged(Vec<(usize, u8)>),
    /// Any header but with another connection's number, and a checksum that fits.
    Forged {
        kind: u8,
        connection: u32,
        words: [u32; 3],
        bitmap: u64,
        payload: Vec<u8>,
    },
}

fn throws() -> impl Strategy<Value = Throw> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..400);
    prop_oneof![
        bytes().prop_map(Throw::Noise),
        proptest::collection::vec((0usize..HEADERS_BYTES + 7, 1u8..), 1..4).prop_map(Throw::Damaged),
        (prop_oneof![Just(1u8), Just(3), 0u8..4], any::<u32>(), any::<[u32; 3]>(), any::<u64>(), bytes())
            .prop_map(|(kind, connection, words, bitmap, payload)| {
                Throw::Forged { kind, connection, words, bitmap, payload }
            }),
    ]
}

impl Throw {
    fn frame(self, genuine: &[u8], of: &Frame) -> Vec<u8> {
        match self {
            Self::Noise(bytes) => bytes,
            Self::Damaged(changes) => {
                let mut bytes = genuine.to_vec();
                for (at, change) in changes {
                    bytes[at] ^= change;
                }
                bytes
            }
            Self::Forged { kind, mut connection, words, bitmap, payload } => {
                if connection == of.connection.get() {
                    connection ^= 1 << 16;
                }
                let payload = if kind % 2 == 0 { &[][..] } else { &payload };
                let [sequence, cumulative, limit] = words.map(U32::new);
                let connection = U32::new(connection);
                let frame =
                    Frame { kind, connection, sequence, cumulative, limit, bitmap: U64::new(bitmap), ..*of };
                forged(frame, payload)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_thrown_from_outside_disturbs_a_connection(thrown in proptest::collection::vec(throws(), 1..40)) {
        let mut net = Net::pair();
        let (genuine, frame) = genuine(&mut net);
        net.settle();
        net.nodes[1].take();
        let before = net.nodes[1].ethernet.counters();
        let count = thrown.len() as u64;
        for throw in thrown {
            net.hub.inject(station(1), &throw.frame(&genuine, &frame));
        }
        while net.poll(1, 16) != 0 {}
        let after = net.nodes[1].ethernet.counters();
        prop_assert_eq!(net.nodes[1].take().events(), 0);
        prop_assert_eq!(after.frames_received - before.frames_received, count);
        let refused = |c: &EthernetCounters| {
            c.foreign + c.truncated + c.checksum + c.version + c.stale + c.impostor + c.unknown + c.malformed
        };
        // Damage can undo itself: two changes of one byte. Then it is a replay.
        let counted = refused(&after) + after.duplicates - refused(&before) - before.duplicates;
        prop_assert_eq!(counted, count);
        undisturbed(&mut net);
    }

    #[test]
    fn whatever_a_peer_says_on_its_connection_is_survived(
        said in proptest::collection::vec((0u8..3, any::<[u16; 3]>(), any::<u64>(), 0usize..BYTES + 40), 1..30),
    ) {
        let mut net = Net::pair();
        let (_, frame) = genuine(&mut net);
        net.settle();
        let near = |base: U32, by: u16| U32::new(base.get().wrapping_add(u32::from(by)).wrapping_sub(4));
        for (kind, [sequence, cumulative, limit], bitmap, len) in said {
            let frame = Frame {
                kind,
                sequence: near(frame.sequence, sequence % 16),
                cumulative: near(frame.cumulative, cumulative % 8),
                limit: near(frame.limit, limit % 8),
                bitmap: U64::new(bitmap & 3),
                ..frame
            };
            net.hub.inject(station(1), &forged(frame, &[7; BYTES + 40][..if kind == 1 { len } else { 0 }]));
            net.poll(1, 16);
        }
        for _ in 0..20 {
            net.step(16);
        }
        let log = net.nodes[1].take();
        prop_assert!(log.lost.len() <= 1);
        prop_assert!(log.arrived.iter().all(|(from, message)| *from == 0 && message.len() <= BYTES));
        prop_assert_eq!(FRAME_BYTES + HEADER_BYTES, HEADERS_BYTES);
    }
}
