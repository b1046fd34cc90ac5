//! Connections that do not belong here: refused by name, in bounded time and bytes.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use aldis_hal::{Epoch, Instant, PeerId};
use proptest::prelude::*;

use super::super::{
    Dial, GREETING_BYTES, HEAD_BYTES, Handshake, PROOF_BYTES, StreamEvent, StreamLink, StreamRefusal,
    StreamSetup, job_name,
};
use super::paths::{NOW, Rank, TestKey, dialled, exchange, pair};
use crate::sabotage::{Defect, with};

const fn refused(why: StreamRefusal) -> StreamEvent {
    StreamEvent::Ended { why, told: false }
}

const fn told(why: StreamRefusal) -> StreamEvent {
    StreamEvent::Ended { why, told: true }
}

/// Returns the events that the dialler and the acceptor get if one of them is not as the other
/// expects.
fn meet(mut ranks: [Rank; 2]) -> [Vec<StreamEvent>; 2] {
    let mut handshakes = [ranks[0].dial(2, 1), ranks[1].accept()];
    let events = exchange(&mut ranks, &mut handshakes, 200);
    assert!(handshakes.iter().all(|handshake| handshake.is_over() && handshake.poll_timeout().is_none()));
    assert!(ranks.iter().all(|rank| rank.links.iter().all(|link| !link.is_open())));
    let again = ranks[0].links[5].poll_timeout().unwrap();
    assert_eq!(again, Instant(NOW.0 + ranks[0].setup.retry_first_ns), "and it is tried again");
    events
}

#[test]
fn who_does_not_fit_is_refused_by_name() {
    type GreetingChange = fn(&mut Rank);
    let changes: [(GreetingChange, StreamRefusal); 9] = [
        (|rank| rank.setup.job ^= 1, StreamRefusal::Job),
        (|rank| rank.setup.ranks = 5, StreamRefusal::Ranks),
        (|rank| (rank.setup.links, rank.links) = (1, vec![rank.links[0]; 4]), StreamRefusal::Links),
        (|rank| (rank.setup.links, rank.links) = (3, vec![rank.links[0]; 12]), StreamRefusal::Links),
        (|rank| rank.setup.rank = PeerId(3), StreamRefusal::Rank),
        (|rank| rank.setup.epoch = Epoch(9), StreamRefusal::Epoch),
        (|rank| rank.links[3].forget(), StreamRefusal::Unknown),
        (|rank| assert!(rank.links[3].introduce(Epoch(9))), StreamRefusal::Unknown),
        (|rank| rank.links.truncate(1), StreamRefusal::Busy),
    ];
    for (change, why) in changes {
        let mut ranks = pair();
        change(&mut ranks[1]);
        assert_eq!(meet(ranks), [vec![told(why)], vec![refused(why)]], "{why}");
    }
}

#[test]
fn a_wrong_key_is_seen_by_either() {
    let mut ranks = pair();
    ranks[1].key = TestKey(8);
    assert_eq!(meet(ranks), [vec![refused(StreamRefusal::Key)], vec![told(StreamRefusal::Key)]]);

    // A dialler that does not mind goes on; so do the acceptor's checks.
    let mut ranks = pair();
    ranks[0].key = TestKey(8);
    let mut handshakes = dialled(&mut ranks, 0);
    let events = with(Some(Defect::TrustsTags), || {
        let greeting = handshakes[0].output().to_vec();
        handshakes[0].transmitted(greeting.len());
        handshakes[1].handle(&mut ranks[1].node(), &greeting, NOW);
        let answer = handshakes[1].output().to_vec();
        handshakes[0].handle(&mut ranks[0].node(), &answer, NOW)
    });
    assert_eq!(events.1, None);
    let proof = handshakes[0].output().to_vec();
    let (count, event) = handshakes[1].handle(&mut ranks[1].node(), &proof, NOW);
    assert_eq!((count, event), (PROOF_BYTES, Some(refused(StreamRefusal::Key))));
    assert_eq!(handshakes[1].claim(), None);
}

/// Three messages of one good handshake: greeting, proof with selection; and the acceptor's answer.
fn recorded() -> [Vec<u8>; 3] {
    let mut ranks = pair();
    let mut handshakes = dialled(&mut ranks, 0);
    let greeting = handshakes[0].output().to_vec();
    handshakes[0].transmitted(greeting.len());
    handshakes[1].handle(&mut ranks[1].node(), &greeting, NOW);
    let answer = handshakes[1].output().to_vec();
    handshakes[0].handle(&mut ranks[0].node(), &answer, NOW);
    [greeting, handshakes[0].output().to_vec(), answer]
}

#[test]
fn what_was_recorded_proves_nothing() {
    let [greeting, proof, answer] = recorded();
    let mut ranks = pair();
    let mut accepted = Handshake::accept(5, &ranks[1].setup, [0xAD; 16], NOW);
    assert_eq!(accepted.handle(&mut ranks[1].node(), &greeting, NOW).1, None);
    assert_eq!(accepted.handle(&mut ranks[1].node(), &proof, NOW).1, Some(refused(StreamRefusal::Key)));

    // The acceptor's own tag, sent back to it.
    let mut accepted = Handshake::accept(6, &ranks[1].setup, [0xAC; 16], NOW);
    assert_eq!(accepted.handle(&mut ranks[1].node(), &greeting, NOW).1, None);
    let mut reflected = proof.clone();
    reflected[HEAD_BYTES..PROOF_BYTES].copy_from_slice(&answer[GREETING_BYTES..]);
    assert_eq!(accepted.handle(&mut ranks[1].node(), &reflected, NOW).1, Some(refused(StreamRefusal::Key)));

    // An old answer to a new greeting.
    let mut node = ranks[0].node();
    assert!(node.link(PeerId(2), 1).unwrap().want(&pair()[0].setup, NOW));
    let mut dialled =
        Handshake::dial(&mut node, Dial { key: 7, peer: PeerId(2), link: 1, nonce: [0xD2; 16] }, NOW)
            .unwrap();
    assert_eq!(dialled.handle(&mut node, &answer, NOW).1, Some(refused(StreamRefusal::Key)));
}

#[test]
fn an_answer_for_another_dialler_is_none() {
    let [.., answer] = recorded();
    for (at, why) in [
        (8, StreamRefusal::Rank),
        (16, StreamRefusal::Epoch),
        (12, StreamRefusal::Malformed),
        (28, StreamRefusal::Malformed),
    ] {
        let mut ranks = pair();
        let [mut one, _] = dialled(&mut ranks, 0);
        let mut changed = answer.clone();
        changed[at] ^= 2;
        assert_eq!(one.handle(&mut ranks[0].node(), &changed, NOW).1, Some(refused(why)), "byte {at}");
    }
}

#[test]
fn another_version_is_refused_by_its_head_alone() {
    let mut ranks = pair();
    let handshakes = dialled(&mut ranks, 0);
    let mut greeting = handshakes[0].output().to_vec();
    greeting[4] = 200;
    let mut accepted = ranks[1].accept();
    let (count, event) = accepted.handle(&mut ranks[1].node(), &greeting, NOW);
    assert_eq!((count, event), (HEAD_BYTES, Some(refused(StreamRefusal::Version))));
    let [mut dialler, _] = handshakes;
    let mut refusal = accepted.output().to_vec();
    refusal[4] = 200;
    assert_eq!(dialler.handle(&mut ranks[0].node(), &refusal, NOW).1, Some(told(StreamRefusal::Version)));
    assert!(StreamRefusal::Version.is_final() && !StreamRefusal::Version.is_ordinary());
}

#[test]
fn what_is_no_greeting_gets_no_word() {
    let mut ranks = pair();
    for (stranger, taken) in
        [(&b"GET / HTTP/1.1\r\n\r\n"[..], 1), (b"Al", 2), (b"AldX", 4), (b"\x16\x03\x01", 1)]
    {
        let mut accepted = ranks[1].accept();
        let mut events = vec![];
        for &byte in stranger {
            if accepted.is_over() {
                break;
            }
            events.extend(accepted.handle(&mut ranks[1].node(), &[byte], NOW).1);
        }
        let foreign = stranger != b"Al";
        assert_eq!(events, vec![refused(StreamRefusal::Foreign); foreign.into()]);
        assert!(accepted.output().is_empty() && accepted.claim().is_none(), "{taken} bytes");
        assert_eq!(accepted.is_over(), foreign);
        assert_eq!(accepted.handle(&mut ranks[1].node(), b"more", NOW).1.is_none(), foreign);
    }
}

#[test]
fn who_says_too_little_is_told_apart() {
    let [greeting, proof, _] = recorded();
    let whole = [greeting, proof].concat();
    for length in 0..whole.len() - 1 {
        let mut ranks = pair();
        let mut accepted = ranks[1].accept();
        let (count, event) = accepted.handle(&mut ranks[1].node(), &whole[..length], NOW);
        assert_eq!((count, event), (length, None));
        let mut slow = accepted;
        let why = if length == 0 { StreamRefusal::Silent } else { StreamRefusal::Truncated };
        assert_eq!(accepted.hang_up(&mut ranks[1].node(), NOW), Some(refused(why)));
        assert_eq!(accepted.hang_up(&mut ranks[1].node(), NOW), None);

        let until = slow.poll_timeout().unwrap();
        assert_eq!(until, Instant(NOW.0 + ranks[1].setup.handshake_ns), "bytes give no more time");
        assert_eq!(slow.handle_timeout(&mut ranks[1].node(), Instant(until.0 - 1)), None);
        assert_eq!(slow.handle_timeout(&mut ranks[1].node(), until), Some(refused(StreamRefusal::Slow)));
        assert_eq!(slow.refuse(&mut ranks[1].node(), StreamRefusal::Busy, NOW), None);
    }
}

#[test]
fn every_reason_has_a_place_a_name_and_a_text() {
    for (at, why) in StreamRefusal::ALL.into_iter().enumerate() {
        assert_eq!(why.index(), at);
        assert!(why.to_string().len() > why.name().len());
        assert_eq!(StreamRefusal::from_wire(why as u8), why.is_sent().then_some(why));
        assert!(!(why.is_final() && why.is_ordinary()));
    }
    assert_eq!((StreamRefusal::from_wire(0), StreamRefusal::from_wire(19)), (None, None));
}

#[test]
fn a_link_outside_the_table_is_none() {
    let mut ranks = pair();
    let mut node = ranks[0].node();
    assert!(node.link(PeerId(2), 2).is_none() && node.link(PeerId(4), 0).is_none());
    assert!(node.link(PeerId(u32::MAX), 1).is_none() && node.link(PeerId(3), 1).is_some());
    assert!(
        Handshake::dial(&mut node, Dial { key: 1, peer: PeerId(2), link: 9, nonce: [0; 16] }, NOW).is_none()
    );
    let setup = StreamSetup { job: job_name(&TestKey(7)), ..StreamSetup::DEFAULT };
    let mut closed = StreamLink::NONE;
    assert!(!closed.want(&setup, NOW) && !closed.wants_dial(), "no peer is there to be connected to");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever comes, in whatever pieces, to either side: no connection opens, at most one message
    /// is sent besides the answer, and no more is read than a handshake has.
    #[test]
    fn any_bytes_at_all(
        which in 0..2_usize,
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..8),
        begins_well in any::<bool>(),
    ) {
        let mut ranks = pair();
        let mut handshakes = dialled(&mut ranks, 0);
        let own = handshakes[which].output().len();
        let mut taken = 0;
        let begin = if begins_well { b"AldS\x02".to_vec() } else { vec![] };
        for piece in [begin].into_iter().chain(pieces) {
            let (count, event) = handshakes[which].handle(&mut ranks[which].node(), &piece, NOW);
            taken += count;
            let opened = matches!(event, Some(StreamEvent::Opened { .. }));
            prop_assert!(!opened);
        }
        prop_assert!(taken <= 144 && handshakes[which].output().len() <= own + HEAD_BYTES);
    }

    /// Flips a bit of the good handshake, on its way to either side: nothing opens there.
    #[test]
    fn one_bit_is_enough(bit in 0..8 * 104_usize) {
        let [greeting, proof, answer] = recorded();
        let mut bytes = [greeting, proof].concat();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut ranks = pair();
        let mut accepted = ranks[1].accept();
        let mut rest = &bytes[..];
        let mut events = vec![];
        while !rest.is_empty() && !accepted.is_over() {
            let (count, event) = accepted.handle(&mut ranks[1].node(), rest, NOW);
            rest = &rest[count..];
            events.extend(event);
        }
        let opened = events.iter().any(|event| matches!(event, StreamEvent::Opened { .. }));
        prop_assert!(!opened);

        let mut answer = answer;
        if let Some(byte) = answer.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
            let [mut one, _] = dialled(&mut pair(), 0);
            let mut ranks = pair();
            let [mut other, _] = dialled(&mut ranks, 0);
            let (_, event) = other.handle(&mut ranks[0].node(), &answer, NOW);
            prop_assert!(!other.is_proven() || event.is_some());
            prop_assert!(one.hang_up(&mut pair()[0].node(), NOW).is_some());
        }
    }
}
