//! Messages that are sent from lent memory, and messages that leave together.

use core::ptr::NonNull;

use aldis_hal::memory::{Access, Gather, Memory};
use aldis_hal::{Handle, RegionId};

use super::*;

const LENGTHS: [usize; 8] = [60_000, 1, 200_000, 262_000, 16_384, 100, 20_000, 150_000];

fn lend(rank: &mut Rank, to: u32, bytes: &[u8]) -> RegionId {
    let memory = Memory { start: NonNull::from(bytes).cast(), len: bytes.len() };
    // SAFETY: each test keeps its memory, and only reads it, until it has taken the region back or
    // its ranks are gone.
    unsafe { rank.tcp.register(PeerId(to), memory, Access::LOCAL_READ) }.unwrap()
}

const fn token(number: usize) -> Token {
    Token(Handle { slot: number as u32, generation: 0 })
}

/// Posts all but the first byte of a region, until that is taken.
fn send_lent(ranks: &mut [Rank], region: RegionId, number: usize, length: usize) {
    let piece = Gather { region, offset: 1, len: length };
    until(ranks, "send", |ranks| {
        match ranks[0].tcp.zcopy(PeerId(1), &[number as u8; 48], &[piece], token(number)) {
            Post::Queued => true,
            Post::Again(_) => false,
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn lent_memory_arrives_in_order_with_short_messages_between() {
    let little = Some(4096);
    let tiny = TcpConfig { send_buffer: little, receive_buffer: little, ..config(Family::V4) };
    let striped = TcpConfig { links: 3, ..tiny.clone() };
    for config in [config(Family::V4), tiny, striped] {
        let mut ranks = job(2, &config);
        let messages: Vec<_> =
            LENGTHS.into_iter().enumerate().map(|(number, len)| pattern(number, len + 1)).collect();
        let regions: Vec<_> = messages.iter().map(|bytes| lend(&mut ranks[0], 1, bytes)).collect();
        for (number, length) in LENGTHS.into_iter().enumerate() {
            send_lent(&mut ranks, regions[number], number, length);
            send(&mut ranks, 0, 1, [b"between", &[number as u8]]);
        }
        until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == 2 * LENGTHS.len());
        until(&mut ranks, "completions", |ranks| ranks[0].log.completed.len() == LENGTHS.len());
        for (number, bytes) in messages.iter().enumerate() {
            let expected = [&[number as u8; 48], &bytes[1..]].concat();
            assert!(ranks[1].log.messages[2 * number].1 == expected, "message {number}");
            assert_eq!(ranks[1].log.messages[2 * number + 1].1, [&b"between"[..], &[number as u8]].concat());
            assert!(ranks[0].log.completed.contains(&token(number)));
        }
        assert!(ranks[0].tcp.is_idle());
        assert!(regions.iter().all(|region| ranks[0].tcp.deregister(*region) == Ok(())));
        assert_eq!(ranks[0].tcp.deregister(regions[0]), Err(Cause::Stale));
    }
}

/// Memory that was taken back is sent no more, the stream goes on behind it, and its sender is not
/// told that it was sent.
#[test]
fn memory_that_was_taken_back_is_touched_no_more() {
    let tiny = TcpConfig { send_buffer: Some(4096), receive_buffer: Some(4096), ..config(Family::V4) };
    let mut ranks = job(2, &tiny);
    send(&mut ranks, 0, 1, [b"", b"first"]);
    let mut taken_back = vec![1_u8; 200_001];
    let region = lend(&mut ranks[0], 1, &taken_back);
    send_lent(&mut ranks, region, 0, 200_000);
    ranks[0].poll(8);
    assert_eq!(ranks[0].tcp.deregister(region), Ok(()));
    taken_back.fill(2);
    let kept = vec![3_u8; 50_001];
    let region = lend(&mut ranks[0], 1, &kept);
    send_lent(&mut ranks, region, 1, 50_000);
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == 3);
    let messages = &ranks[1].log.messages;
    assert_eq!(messages[1].1.len(), 48 + 200_000);
    assert!(
        messages[1].1[48..].iter().all(|byte| *byte < 2),
        "it was looked at after it had been taken back"
    );
    assert!(messages[2].1[48..].iter().all(|byte| *byte == 3));
    until(&mut ranks, "completion", |ranks| !ranks[0].log.completed.is_empty());
    assert_eq!(ranks[0].log.completed, [token(1)]);
}

#[test]
fn what_is_not_in_a_region_is_refused() {
    let mut ranks = job(3, &config(Family::V4));
    send(&mut ranks, 0, 1, [b"", b"first"]);
    let bytes = [1; 100];
    let region = lend(&mut ranks[0], 1, &bytes);
    let mut post = |peer, offset, len| {
        ranks[0].tcp.zcopy(PeerId(peer), &[0; 48], &[Gather { region, offset, len }], token(0))
    };
    for (peer, offset, len) in [(1, 0, 101), (1, usize::MAX, 2), (1, 0, 0), (2, 0, 100)] {
        assert_eq!(post(peer, offset, len), Post::Never(Cause::BadRegion), "{peer} {offset} {len}");
    }
    assert_eq!(post(1, 99, 1), Post::Queued);
    let memory = Memory { start: NonNull::from(&bytes).cast(), len: 100 };
    // SAFETY: it is refused.
    let shown = unsafe { ranks[0].tcp.register(PeerId(1), memory, Access::REMOTE_READ) };
    assert_eq!(shown, Err(Cause::Unsupported), "no peer reads over a socket");
}

#[test]
fn what_is_posted_together_leaves_by_one_call() {
    let mut ranks = job(2, &config(Family::V4));
    send(&mut ranks, 0, 1, [b"", b"first"]);
    until(&mut ranks, "first", |ranks| ranks[1].log.messages.len() == 1);
    let before = ranks[0].counters().send_calls;
    let post = |rank: &mut Rank, corked: Option<bool>| {
        if corked.is_some() {
            rank.tcp.cork();
        }
        assert_eq!(rank.tcp.short(PeerId(1), b"h", b"x"), Post::Done);
        assert_eq!(rank.tcp.short(PeerId(1), b"h", b"y"), Post::Done);
        if let Some(more) = corked {
            rank.tcp.uncork(more);
        }
        rank.counters().send_calls - before
    };
    assert_eq!(post(&mut ranks[0], Some(false)), 1);
    assert_eq!(post(&mut ranks[0], None), 3);
    assert_eq!(post(&mut ranks[0], Some(true)), 4, "the first since a poll");
    assert_eq!(post(&mut ranks[0], Some(true)), 4, "what follows waits");
    assert!(!ranks[0].tcp.is_idle());
    assert_eq!(post(&mut ranks[0], None), 6, "for the next post");
    assert_eq!(post(&mut ranks[0], Some(true)), 6);
    ranks[0].poll(8);
    assert_eq!(ranks[0].counters().send_calls - before, 7, "or the next poll");
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == 13);
}
