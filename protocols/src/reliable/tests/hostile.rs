//! Frames that no honest peer sends: refused, and nothing has changed; or harmless.

use std::format;
use std::vec::Vec;

use aldis_hal::Instant;
use aldis_hal::cause::Malformed;
use proptest::prelude::*;
use zerocopy::little_endian::{U32, U64};

use super::super::{DeliveryOrder, Frame, FrameFate, FrameKind, Link, LinkConfig, LinkEnds};
use super::pair::{Broken, CONFIG};

const ENDS: LinkEnds = LinkEnds { ours: u32::MAX - 2, theirs: u32::MAX - 4, peer_window: 16 };

/// A link that has sent eight payloads and received three.
fn busy(config: &LinkConfig) -> Link {
    let mut link = Link::open(config, ENDS, Instant(0));
    for _ in 0..8 {
        assert!(link.queue(config, Instant(0)).is_some());
    }
    while let Some(transmit) = link.poll_transmit() {
        link.transmitted(config, &transmit, Instant(0));
    }
    for index in 0..3 {
        assert_eq!(link.handle_frame(config, &data(index), Instant(5)).unwrap().fate, FrameFate::Deliver);
    }
    link
}

/// A frame that acknowledges nothing and grants nothing new.
fn ack() -> Frame {
    Frame {
        connection: U32::new(ENDS.ours),
        cumulative: U32::new(ENDS.theirs),
        limit: U32::new(ENDS.theirs.wrapping_add(16)),
        ..Frame::new(FrameKind::Ack)
    }
}

fn data(index: u32) -> Frame {
    Frame { kind: FrameKind::Data as u8, sequence: U32::new(ENDS.ours.wrapping_add(index)), ..ack() }
}

fn out(index: u32) -> U32 {
    U32::new(ENDS.theirs.wrapping_add(index))
}

/// Each of them must be refused and change nothing.
pub(super) fn lies() -> Result<(), Broken> {
    let limit = Malformed::Credit;
    let sequence = |got: u32| Malformed::Sequence {
        got: ENDS.theirs.wrapping_add(got) as u16,
        need: ENDS.theirs.wrapping_add(8) as u16,
    };
    let far = 1 << 31;
    let lies = [
        (Frame { cumulative: out(9), ..ack() }, sequence(9)),
        (Frame { cumulative: out(far), ..ack() }, sequence(far)),
        (Frame { bitmap: U64::new(1 << 7), ..ack() }, sequence(0)),
        (Frame { bitmap: U64::new(u64::MAX), ..ack() }, sequence(0)),
        (Frame { cumulative: out(8), bitmap: U64::new(1), ..ack() }, sequence(8)),
        (Frame { limit: out(8 + 17), ..ack() }, limit),
        (Frame { limit: out(far - 1), ..ack() }, limit),
        (data(3 + 16), limit),
        (data(far - 1), limit),
        (Frame { kind: FrameKind::Handshake as u8, ..ack() }, Malformed::Kind(3)),
        (Frame { kind: 77, ..ack() }, Malformed::Kind(77)),
    ];
    for (lie, named) in lies {
        let mut link = busy(&CONFIG);
        let before = link;
        let verdict = link.handle_frame(&CONFIG, &lie, Instant(9));
        if verdict != Err(named) || link != before {
            return Err(format!("{lie:?}: {verdict:?} where {named:?} is due"));
        }
    }
    Ok(())
}

#[test]
fn lies_are_named_and_change_nothing() {
    lies().unwrap();
}

#[test]
fn what_is_old_changes_nothing_that_counts() {
    let mut link = busy(&CONFIG);
    let news = Frame { cumulative: out(4), limit: out(20), bitmap: U64::new(1), ..ack() };
    assert_eq!(link.handle_frame(&CONFIG, &news, Instant(7)).unwrap().released, 4);
    let known = link;
    for old in [
        news,
        ack(),
        Frame { limit: out(0), ..ack() },
        Frame { cumulative: out(2), bitmap: U64::new(u64::MAX), ..ack() },
        Frame { cumulative: out(0).get().wrapping_sub(1 << 30).into(), ..ack() },
        Frame { limit: out(0).get().wrapping_sub(1 << 30).into(), ..ack() },
        Frame { bitmap: U64::ZERO, ..news },
    ] {
        assert_eq!(link.handle_frame(&CONFIG, &old, Instant(7)).unwrap().released, 0);
        assert_eq!(link, known);
    }
    for nothing_stored in [0, 2, 3, 19, 1 << 30] {
        link.stored(ENDS.ours.wrapping_add(nothing_stored));
        assert_eq!(link, known);
    }
    let foreign = Frame { connection: U32::new(ENDS.ours ^ 1), ..news };
    assert_eq!(link.handle_frame(&CONFIG, &foreign, Instant(8)).unwrap().fate, FrameFate::Stale);
    assert_eq!(link.counters().stale, 1);
    assert_eq!(
        Link::CLOSED.clone().handle_frame(&CONFIG, &ack(), Instant(8)).unwrap().fate,
        FrameFate::Stale
    );
}

fn anything() -> impl Strategy<Value = Frame> {
    let near = |base: u32| prop_oneof![4 => (0u32..90).prop_map(move |i| base.wrapping_add(i).wrapping_sub(20)), 1 => any::<u32>()];
    let fields = (0u8..5, near(ENDS.ours), near(ENDS.theirs), near(ENDS.theirs), any::<u64>(), 0u32..64);
    fields.prop_map(|(kind, sequence, cumulative, limit, bitmap, shift)| Frame {
        kind,
        sequence: U32::new(sequence),
        cumulative: U32::new(cumulative),
        limit: U32::new(limit),
        bitmap: U64::new(bitmap >> shift),
        ..ack()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Neither panics nor hands up or releases what is not there, whatever comes between its own
    /// doings.
    #[test]
    fn any_frames_at_all(frames: Vec<bool>, hostile in prop::collection::vec(anything(), 0..120), unordered: bool, window in 0u32..7) {
        let order = if unordered { DeliveryOrder::Unordered } else { DeliveryOrder::InOrder };
        let config = LinkConfig { window: 1 << window, order, ..CONFIG };
        let mut link = Link::open(&config, ENDS, Instant(0));
        let (mut queued, mut released, mut sent, mut now) = (0u32, 0u32, 0u32, 0u64);
        for (i, frame) in hostile.iter().enumerate() {
            now += 1_000;
            if frames.get(i).copied().unwrap_or(true) {
                queued += u32::from(link.queue(&config, Instant(now)).is_some());
            }
            let before = link;
            match link.handle_frame(&config, frame, Instant(now)) {
                Ok(taken) => {
                    released += taken.released;
                    if taken.fate == FrameFate::Store {
                        link.stored(frame.sequence.get());
                    }
                    while link.next_stored().is_some() {}
                }
                Err(_) => prop_assert_eq!(before, link),
            }
            prop_assert!(released <= sent && queued - released <= u32::from(config.window));
            prop_assert!(link.handle_timeout(&config, Instant(now)).is_ok());
            prop_assert!(link.poll_timeout().is_none_or(|at| at.0 > now));
            for turn in 0.. {
                let Some(transmit) = link.poll_transmit() else { break };
                prop_assert!(turn < 140, "it never stops sending");
                link.transmitted(&config, &transmit, Instant(now));
                let counters = link.counters();
                sent = counters.sent - counters.repeated;
                prop_assert!(sent <= queued);
            }
        }
    }
}
