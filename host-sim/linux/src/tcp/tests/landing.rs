//! Long messages that are read straight to where they belong.

use super::*;

const LENGTHS: [usize; 9] = [60_000, 5, 200_000, 262_144, 16_384, 100, 20_000, 1, 150_000];

/// Sends messages of all those lengths, of which the long ones land.
fn sent(config: &TcpConfig, lends: Option<u32>) -> Vec<Rank> {
    let mut ranks = job(2, config);
    ranks[1].log.runway = Some(Vec::new());
    ranks[1].log.lends = lends;
    for (number, length) in LENGTHS.into_iter().enumerate() {
        send(&mut ranks, 0, 1, [&[number as u8; 48], &pattern(number, length)]);
    }
    ranks
}

#[test]
fn long_messages_land_in_their_order_with_short_ones_between() {
    let little = Some(4096);
    let tiny = TcpConfig { send_buffer: little, receive_buffer: little, ..config(Family::V4) };
    let striped = TcpConfig { links: 3, ..tiny.clone() };
    for config in [config(Family::V4), tiny, striped] {
        let mut ranks = sent(&config, None);
        until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == LENGTHS.len());
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let expected = [&[number as u8; 48], &pattern(number, length)[..]].concat();
            assert!(ranks[1].log.messages[number].1 == expected, "message {number}");
        }
        assert!(config.links > 1 || ranks[1].log.landed > 0, "{}", ranks[1].counters());
    }
}

/// Its memory is touched no more, the stream goes on behind it, and the sink is told where it
/// ended.
#[test]
fn the_rest_of_a_message_that_was_let_go_of_goes_nowhere() {
    let tiny = TcpConfig { send_buffer: Some(4096), receive_buffer: Some(4096), ..config(Family::V4) };
    let mut ranks = sent(&tiny, Some(2));
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == LENGTHS.len());
    let log = &ranks[1].log;
    assert_eq!((log.lends, log.landed), (Some(0), 1));
    let (first, expected) = (&log.messages[0].1, [&[0; 48], &pattern(0, LENGTHS[0])[..]].concat());
    assert!(*first != expected && first[..100] == expected[..100], "its beginning had landed");
    for (number, length) in LENGTHS.into_iter().enumerate().skip(1) {
        let expected = [&[number as u8; 48], &pattern(number, length)[..]].concat();
        assert!(log.messages[number].1 == expected, "message {number}");
    }
}
