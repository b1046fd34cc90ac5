//! Tests of single situations, over bytes.

use std::vec::Vec;

use aldis_hal::{Epoch, Instant, PeerId};

use super::super::{
    ANSWER_BYTES, Dial, GREETING_BYTES, HEAD_BYTES, Handshake, Mac, Node, PROOF_BYTES, StreamEvent,
    StreamLink, StreamRefusal, StreamSetup, Tag, chooses, job_name,
};

pub(super) const NOW: Instant = Instant(1);

/// Not a keyed hash for any real use: enough that other bytes have other tags.
#[derive(Clone, Copy)]
pub(super) struct TestKey(pub(super) u8);

impl Mac for TestKey {
    fn tag(&self, message: &[u8]) -> Tag {
        let mut tag = [self.0; 32];
        for (i, &byte) in message.iter().enumerate() {
            let at = i % 32;
            tag[at] = tag[at].wrapping_mul(5).wrapping_add(byte ^ i as u8);
        }
        tag
    }
}

/// A rank of a job of four, with what it holds.
pub(super) struct Rank {
    pub(super) setup: StreamSetup,
    pub(super) key: TestKey,
    pub(super) links: Vec<StreamLink>,
}

impl Rank {
    fn new(rank: u32, key: TestKey) -> Self {
        let setup = StreamSetup {
            job: job_name(&TestKey(7)),
            ranks: 4,
            links: 2,
            rank: PeerId(rank),
            epoch: Epoch(0x100 + rank),
            ..StreamSetup::DEFAULT
        };
        let mut links = std::vec![StreamLink::NONE; 8];
        for (i, link) in links.iter_mut().enumerate() {
            assert!(link.introduce(Epoch(0x100 + i as u32 / 2)));
        }
        Self { setup, key, links }
    }

    pub(super) fn node(&mut self) -> Node<'_> {
        Node { setup: &self.setup, mac: &self.key, links: &mut self.links }
    }

    pub(super) fn dial(&mut self, peer: u32, link: u8) -> Handshake {
        let setup = self.setup;
        let mut node = self.node();
        let wanted = node.link(PeerId(peer), link).unwrap();
        assert!(wanted.want(&setup, NOW) && wanted.wants_dial());
        Handshake::dial(&mut node, Dial { key: 11, peer: PeerId(peer), link, nonce: [0xD1; 16] }, NOW)
            .unwrap()
    }

    pub(super) fn accept(&self) -> Handshake {
        Handshake::accept(12, &self.setup, [0xAC; 16], NOW)
    }
}

pub(super) fn pair() -> [Rank; 2] {
    [1, 2].map(|rank| Rank::new(rank, TestKey(7)))
}

/// Passes bytes to and fro, `piece` at a time, until there are none; the events that the two got.
pub(super) fn exchange(
    ranks: &mut [Rank; 2],
    handshakes: &mut [Handshake; 2],
    piece: usize,
) -> [Vec<StreamEvent>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    while handshakes.iter().any(|handshake| !handshake.output().is_empty()) {
        for from in 0..2 {
            let output = handshakes[from].output();
            let bytes = output[..piece.min(output.len())].to_vec();
            handshakes[from].transmitted(bytes.len());
            let (count, event) = handshakes[1 - from].handle(&mut ranks[1 - from].node(), &bytes, NOW);
            assert!(count == bytes.len() || handshakes[1 - from].is_over());
            events[1 - from].extend(event);
        }
    }
    events
}

/// The lower or the higher rank dials the other for link 1.
pub(super) fn dialled(ranks: &mut [Rank; 2], dialler: usize) -> [Handshake; 2] {
    let peer = ranks[1 - dialler].setup.rank.0;
    let mut handshakes = [ranks[dialler].dial(peer, 1), ranks[1 - dialler].accept()];
    if dialler == 1 {
        handshakes.reverse();
    }
    handshakes
}

#[test]
fn whoever_dials_both_are_told() {
    for dialler in 0..2 {
        for piece in [1, 3, 88, 200] {
            let mut ranks = pair();
            let mut handshakes = dialled(&mut ranks, dialler);
            let events = exchange(&mut ranks, &mut handshakes, piece);
            let opened = |peer| std::vec![StreamEvent::Opened { peer: PeerId(peer), link: 1 }];
            assert_eq!(events, [opened(2), opened(1)]);
            assert!(ranks[0].links[5].is_open_on(handshakes[0].key()));
            assert!(ranks[1].links[3].is_open_on(handshakes[1].key()));
            assert!(handshakes.iter().all(|one| one.is_over() && one.poll_timeout().is_none()));
            assert!(ranks.iter().all(|rank| rank.links.iter().all(|link| link.poll_timeout().is_none())));
        }
    }
    assert!(chooses(PeerId(0), PeerId(1)) && !chooses(PeerId(1), PeerId(0)));
}

#[test]
fn golden_bytes() {
    let mut ranks = pair();
    let [mut one, mut other] = dialled(&mut ranks, 0);
    let greeting = one.output().to_vec();
    let job = job_name(&TestKey(7)).to_le_bytes();
    let head = [b'A', b'l', b'd', b'S', 2, 1, 1, 2];
    let ends = [1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 0, 2, 1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(greeting, [&head[..], &ends, &job, &[0xD1; 16]].concat());
    assert_eq!(greeting.len(), GREETING_BYTES);

    assert_eq!(other.handle(&mut ranks[1].node(), &greeting, NOW), (GREETING_BYTES, None));
    let answer = other.output().to_vec();
    let ends = [2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 1, 1, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0];
    let theirs = [&[b'A', b'l', b'd', b'S', 2, 2, 1, 2][..], &ends, &job, &[0xAC; 16]].concat();
    let tag = TestKey(7).tag(&[b"aldis acceptor 1", &greeting[..], &theirs].concat());
    assert_eq!(answer, [&theirs[..], &tag].concat());
    assert_eq!(answer.len(), ANSWER_BYTES);

    assert_eq!(one.handle(&mut ranks[0].node(), &answer, NOW), (ANSWER_BYTES, None));
    one.transmitted(greeting.len());
    let proof = one.output().to_vec();
    let tag = TestKey(7).tag(&[b"aldis dialler  1", &greeting[..], &theirs].concat());
    let select = [b'A', b'l', b'd', b'S', 2, 4, 0, 0];
    assert_eq!(proof, [&[b'A', b'l', b'd', b'S', 2, 3, 0, 0][..], &tag, &select].concat());
    assert_eq!(proof.len(), PROOF_BYTES + HEAD_BYTES);

    let opened = Some(StreamEvent::Opened { peer: PeerId(1), link: 1 });
    assert_eq!(other.handle(&mut ranks[1].node(), &proof, NOW), (proof.len(), opened));
    other.transmitted(ANSWER_BYTES);
    assert_eq!(other.output(), [b'A', b'l', b'd', b'S', 2, 5, 0, 0]);
    other.transmitted(3);
    assert_eq!(other.output(), [b'S', 2, 5, 0, 0]);
    let mut refused = ranks[1].accept();
    let event = refused.refuse(&mut ranks[1].node(), StreamRefusal::Busy, NOW);
    assert_eq!(event, Some(StreamEvent::Ended { why: StreamRefusal::Busy, told: false }));
    assert_eq!(refused.output(), [b'A', b'l', b'd', b'S', 2, 6, 12, 0]);
}

#[test]
fn a_newer_attempt_replaces_what_was_chosen_and_not_taken() {
    let mut ranks = pair();
    let [mut accepted, mut first] = dialled(&mut ranks, 1);
    for _ in 0..2 {
        let bytes = first.output().to_vec();
        first.transmitted(bytes.len());
        assert_eq!(accepted.handle(&mut ranks[0].node(), &bytes, NOW).1, None);
        let bytes = accepted.output().to_vec();
        accepted.transmitted(bytes.len().min(ANSWER_BYTES));
        if !first.output().is_empty() || bytes.len() < ANSWER_BYTES {
            break;
        }
        assert_eq!(first.handle(&mut ranks[1].node(), &bytes, NOW).1, None);
    }
    assert!(
        accepted.is_proven() && accepted.poll_timeout().is_none(),
        "chosen: the higher rank may have taken it"
    );

    // The choice never arrives; the higher rank loses patience, and no message about that arrives
    // either.
    let slow = first.poll_timeout().unwrap();
    assert!(first.handle_timeout(&mut ranks[1].node(), slow).is_some());
    let retry = ranks[1].links[3].poll_timeout().unwrap();
    assert_eq!(ranks[1].links[3].handle_timeout(retry), None);
    let second = Handshake::dial(
        &mut ranks[1].node(),
        Dial { key: 21, peer: PeerId(1), link: 1, nonce: [0xD3; 16] },
        retry,
    )
    .unwrap();
    let mut handshakes = [Handshake::accept(22, &ranks[0].setup, [0xAE; 16], retry), second];
    let events = exchange(&mut ranks, &mut handshakes, 200);
    assert_eq!(events.map(|events| events.len()), [1, 1]);
    assert!(ranks[0].links[5].is_open_on(22) && ranks[1].links[3].is_open_on(21));

    let confirm = [b'A', b'l', b'd', b'S', 2, 5, 0, 0];
    let late = accepted.handle(&mut ranks[0].node(), &confirm, NOW).1;
    assert_eq!(late, Some(StreamEvent::Ended { why: StreamRefusal::Stale, told: false }));
    assert!(ranks[0].links[5].is_open_on(22), "the old one takes nothing with it");
}

#[test]
fn attempts_back_off_and_end() {
    let mut ranks = pair();
    let mut dialled = ranks[0].dial(2, 1);
    let mut at = NOW;
    let mut attempts = 1;
    let failed = loop {
        dialled.hang_up(&mut ranks[0].node(), at);
        assert!(!ranks[0].links[5].wants_dial(), "not at once");
        let next = ranks[0].links[5].poll_timeout().unwrap();
        assert!(next > at);
        at = next;
        let setup = ranks[0].setup;
        assert!(ranks[0].links[5].want(&setup, at), "wanting it again gives it no more time");
        if let Some(failed) = ranks[0].links[5].handle_timeout(at) {
            break failed;
        }
        dialled = Handshake::dial(
            &mut ranks[0].node(),
            Dial { key: attempts, peer: PeerId(2), link: 1, nonce: [3; 16] },
            at,
        )
        .unwrap();
        attempts += 1;
    };
    assert_eq!((failed.last, at.0), (Some(StreamRefusal::Unreachable), NOW.0 + ranks[0].setup.deadline_ns));
    // At once, after 10, 20, ... 640 ms, and then each second.
    assert_eq!(attempts, 8 + 18);
    let link = &mut ranks[0].links[5];
    assert!(link.admitted().is_none() && link.poll_timeout().is_none() && !link.wants_dial());
    assert!(link.introduce(Epoch(0x102)), "it has to be introduced anew");
}

#[test]
fn time_for_a_link_begins_anew_until_it_is_tried() {
    let mut ranks = pair();
    let (setup, deadline) =
        (ranks[0].setup, |now: Instant, setup: &StreamSetup| Instant(now.0 + setup.deadline_ns));
    let link = &mut ranks[0].links[5];
    link.postpone(&setup, NOW);
    assert_eq!(link.poll_timeout(), None, "nobody wants it");
    assert!(link.want(&setup, NOW));
    let [later, last] = [7, 9].map(|ns| Instant(NOW.0 + ns));
    link.postpone(&setup, later);
    assert_eq!(link.poll_timeout(), Some(deadline(later, &setup)));
    let dial = Dial { key: 1, peer: PeerId(2), link: 1, nonce: [3; 16] };
    let mut dialled = Handshake::dial(&mut ranks[0].node(), dial, later).unwrap();
    ranks[0].links[5].postpone(&setup, last);
    dialled.hang_up(&mut ranks[0].node(), later);
    ranks[0].links[5].postpone(&setup, last);
    assert!(ranks[0].links[5].handle_timeout(deadline(later, &setup)).is_some());
}

#[test]
fn each_link_has_its_own_connection() {
    let mut ranks = pair();
    for link in 0..2 {
        let mut handshakes = [ranks[0].dial(2, link), ranks[1].accept()];
        let [events, _] = exchange(&mut ranks, &mut handshakes, 200);
        assert_eq!(events, [StreamEvent::Opened { peer: PeerId(2), link }]);
    }
    assert!(ranks[0].links[4].is_open() && ranks[0].links[5].is_open());
    let mut node = ranks[0].node();
    assert!(
        Handshake::dial(&mut node, Dial { key: 1, peer: PeerId(2), link: 0, nonce: [0; 16] }, NOW).is_none(),
        "it is open"
    );
}
