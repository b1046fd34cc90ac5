//! Several links between two ranks.

use super::pair::{
    WAYS, comes_before_it_is_lost, is_told_who_left_unmet, says_goodbye_on_what_it_has_chosen,
};
use super::*;

#[test]
fn long_messages_are_dealt_out_and_arrive_in_order() {
    let striped =
        TcpConfig { links: 3, send_buffer: Some(8192), receive_buffer: Some(8192), ..config(Family::V4) };
    let mut ranks = job(2, &striped);
    send(&mut ranks, 0, 1, [b"", b"begin"]);
    until(&mut ranks, "links", |ranks| ranks.iter().all(|rank| rank.counters().opened == 3));
    let lengths: Vec<_> =
        (0..60).map(|number| if number % 3 == 0 { 10 + number } else { 20_000 + number * 997 }).collect();
    ranks[1].log.messages.clear();
    for (number, length) in lengths.iter().enumerate() {
        send(&mut ranks, 0, 1, [b"", &pattern(number, *length)]);
    }
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == lengths.len());
    for (number, length) in lengths.iter().enumerate() {
        assert!(ranks[1].log.messages[number].1 == pattern(number, *length), "message {number}");
    }
    until(&mut ranks, "idle", |ranks| ranks[0].tcp.is_idle());
    drop(ranks.remove(0));
    until(&mut ranks, "goodbye", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(0, Cause::PeerLeft)]);
}

#[test]
fn ranks_that_do_not_agree_on_links_do_not_connect() {
    let one = Rank::listen(0, 2, &config(Family::V4));
    let other = Rank::listen(1, 2, &TcpConfig { links: 2, ..config(Family::V4) });
    let mut ranks = vec![one, other];
    let address = ranks[1].tcp.address();
    ranks[0].meet(1, &address);
    ranks[0].tcp.expect(PeerId(1));
    until(&mut ranks, "refusal", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::Incompatible)]);
}

#[test]
fn there_is_no_transport_of_no_links() {
    for links in [0, 17] {
        let refused = Tcp::listen(identity(0, 1), &TcpConfig { links, ..config(Family::V4) });
        assert_eq!(refused.unwrap_err(), crate::tcp::TcpError::Links { links });
    }
}

#[test]
fn departures_are_told_whatever_the_links() {
    let two = TcpConfig { links: 2, ..config(Family::V4) };
    is_told_who_left_unmet(job(4, &two));
    WAYS.into_iter().for_each(|way| comes_before_it_is_lost(job(2, &two), way));
    (0..2).for_each(|dials| says_goodbye_on_what_it_has_chosen(job(2, &two), dials));
}
