//! Frames in lent memory: order, refusal, readiness, dropped slots, letting go.

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Again, Cause, Instant, Loopback, PeerId, Post, Quiesce, Sink, Slot, Transport};

const ME: PeerId = PeerId(3);

#[derive(Default)]
struct LoopbackLog {
    arrived: Vec<Vec<u8>>,
    ready: u32,
}

impl Sink for LoopbackLog {
    fn arrived(&mut self, from: PeerId, message: &[u8]) {
        assert_eq!(from, ME);
        assert_eq!(message.as_ptr().align_offset(8), 0, "messages start 8-byte aligned");
        self.arrived.push(message.to_vec());
    }
    fn completed(&mut self, _token: aldis_hal::Token, _result: Result<(), Cause>) {
        unreachable!("nothing is ever queued");
    }
    fn ready(&mut self, peer: PeerId) {
        assert_eq!(peer, ME);
        self.ready += 1;
    }
    fn lost(&mut self, _peer: PeerId, cause: Cause) {
        unreachable!("one is never lost to oneself: {cause}");
    }
}

fn poll(loopback: &mut Loopback<'_>, budget: u32) -> LoopbackLog {
    let mut log = LoopbackLog::default();
    let events = loopback.poll(budget, Instant(0), &mut log);
    assert!(events <= budget);
    assert_eq!(events as usize, log.arrived.len() + log.ready as usize);
    log
}

#[test]
fn messages_come_back_in_order_and_whole() {
    let mut memory = [0; 100];
    let mut loopback = Loopback::new(ME, &mut memory, 20).unwrap();
    for number in 0..10u8 {
        assert_eq!(loopback.short(ME, &[number], &[number; 19]), Post::Done);
        let mut slot = loopback.reserve(ME, 5).unwrap();
        slot.bytes().copy_from_slice(&[number; 5]);
        slot.commit();
        assert_eq!(poll(&mut loopback, 9).arrived, [vec![number; 20], vec![number; 5]]);
    }
}

#[test]
fn a_full_ring_refuses_and_tells_when_there_is_room() {
    let mut memory = [0; 2 * 16 + 7];
    let mut loopback = Loopback::new(ME, &mut memory, 8).unwrap();
    assert_eq!(loopback.short(ME, &[1], &[]), Post::Done);
    assert_eq!(loopback.short(ME, &[2], &[]), Post::Done);
    assert_eq!(loopback.short(ME, &[3], &[]), Post::Again(Again::NoSlot));
    assert_eq!(poll(&mut loopback, 0).arrived.len(), 0);
    assert_eq!(poll(&mut loopback, 1).arrived, [[1]]);
    let log = poll(&mut loopback, 2);
    assert_eq!((log.arrived, log.ready), (vec![vec![2]], 1));
    assert_eq!(poll(&mut loopback, 2).ready, 0, "told once");
}

#[test]
fn a_dropped_slot_has_taken_nothing() {
    let mut memory = [0; 23];
    let mut loopback = Loopback::new(ME, &mut memory, 8).unwrap();
    for _ in 0..5 {
        loopback.reserve(ME, 8).unwrap().bytes().fill(0xEE);
    }
    assert_eq!(loopback.short(ME, &[1], &[2]), Post::Done);
    assert_eq!(poll(&mut loopback, 9).arrived, [[1, 2]]);
}

#[test]
fn what_cannot_go_is_told() {
    let mut memory = [0; 100];
    let mut loopback = Loopback::new(ME, &mut memory, 20).unwrap();
    assert_eq!(loopback.short(PeerId(0), &[], &[]), Post::Never(Cause::Unreachable));
    assert_eq!(loopback.short(ME, &[0; 10], &[0; 11]), Post::Never(Cause::TooBig { len: 21, max: 20 }));
    assert_eq!(loopback.reach(ME).unwrap().limits.short_bytes_max, 20);
    assert_eq!(loopback.reach(PeerId(0)), Err(Cause::Unreachable));
    for frame_bytes in [93, u32::MAX] {
        let refused = Loopback::new(ME, &mut [0; 100], frame_bytes).err();
        assert!(matches!(refused, Some(Cause::TooBig { max: 100, .. })), "no room for a frame");
    }
    assert!(Loopback::new(ME, &mut [], 0).is_err());
}

#[test]
fn letting_go_discards_what_is_under_way() {
    let mut memory = [0; 100];
    let mut loopback = Loopback::new(ME, &mut memory, 20).unwrap();
    assert_eq!(loopback.short(ME, &[1], &[]), Post::Done);
    assert_eq!(loopback.quiesce(Quiesce::Peer(PeerId(0))), Err(Cause::Stale));
    assert_eq!(loopback.quiesce(Quiesce::Peer(ME)), Ok(()));
    assert_eq!(poll(&mut loopback, 9).arrived.len(), 0);
    assert_eq!(loopback.short(ME, &[1], &[]), Post::Never(Cause::PeerDead));
    assert_eq!(loopback.reach(ME), Err(Cause::PeerDead));
}

proptest! {
    #[test]
    fn it_is_a_queue(
        skew in 0usize..8,
        room in 0usize..300,
        frame_bytes in 0u32..40,
        steps in proptest::collection::vec(prop_oneof![(0usize..40).prop_map(Some), Just(None)], 1..200),
    ) {
        let mut memory = vec![0; skew + room];
        let Ok(mut loopback) = Loopback::new(ME, &mut memory[skew..], frame_bytes) else { return Ok(()) };
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let mut waiting = false;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Some(len) => {
                    let message = vec![number as u8; len];
                    match loopback.short(ME, &message[..len / 2], &message[len / 2..]) {
                        Post::Done => model.push_back(message),
                        Post::Again(Again::NoSlot) => waiting = true,
                        Post::Never(Cause::TooBig { .. }) => prop_assert!(len > frame_bytes as usize),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                None => {
                    let log = poll(&mut loopback, 3);
                    for message in log.arrived {
                        prop_assert_eq!(Some(message), model.pop_front());
                    }
                    waiting &= log.ready == 0;
                }
            }
        }
        while !model.is_empty() || waiting {
            let log = poll(&mut loopback, 3);
            prop_assert!(log.ready + log.arrived.len() as u32 > 0, "a message or a promise was forgotten");
            for message in log.arrived {
                prop_assert_eq!(Some(message), model.pop_front());
            }
            waiting &= log.ready == 0;
        }
    }
}
