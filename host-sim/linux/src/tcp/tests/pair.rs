//! Two ranks in good order.

use aldis_hal::transport::{Quiesce, Slot};
use aldis_hal::{Again, Refusal};

use std::os::fd::AsFd;

use aldis_sys::event::{PollFd, PollFlags, ppoll};

use super::super::engine::MESSAGE_BYTES_MAX;
use super::*;
use crate::segment::{DepartureTable, Departures};

fn ping_pong(family: Family) {
    let mut ranks = job(2, &config(family));
    for round in 0..50 {
        let (from, to) = (round % 2, (round + 1) % 2);
        send(&mut ranks, from, to as u32, [b"head", &pattern(round, round * 7)]);
        until(&mut ranks, "arrival", |ranks| !ranks[to].log.messages.is_empty());
        let (sender, message) = ranks[to].log.messages.pop().unwrap();
        assert_eq!(sender, from as u32);
        assert_eq!(message, [b"head", &pattern(round, round * 7)[..]].concat());
    }
    for rank in &ranks {
        assert_eq!((rank.counters().opened, rank.counters().messages_sent), (1, 25));
        assert!(rank.log.lost.is_empty());
    }
}

#[test]
fn messages_go_both_ways_over_ipv4() {
    ping_pong(Family::V4);
}

#[test]
fn messages_go_both_ways_over_ipv6() {
    ping_pong(Family::V6);
}

/// Returns true if the file by which a rank that sleeps is woken can be read.
fn rings(rank: &Rank) -> bool {
    let bell = rank.tcp.bell().unwrap();
    let mut files = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
    ppoll(&mut files, Some(Duration::ZERO.into()), None).unwrap() == 1
}

/// A rank whose polls find nothing sleeps; what comes then wakes it, and once taken in does not
/// wake it again.
#[test]
fn a_rank_that_sleeps_is_woken_by_what_comes() {
    let mut ranks = job(3, &config(Family::V4));
    for from in [0, 2] {
        send(&mut ranks, from, 1, [b"the", b"first"]);
    }
    until(&mut ranks, "arrivals", |ranks| ranks[1].log.messages.len() == 2);
    ranks[1].tcp.watch_all();
    // Also by one that has sent many in a row, and is read without asking.
    for from in [0; 200].into_iter().chain([2, 0, 0]) {
        ranks[1].log.messages.clear();
        until(&mut ranks, "silence", |ranks| !rings(&ranks[1]));
        assert!((0..100).all(|_| ranks[1].poll(8) == 0 && !rings(&ranks[1])));
        assert_eq!(ranks[from].tcp.short(PeerId(1), b"head", b"message"), Post::Done);
        let start = Clock::now();
        while !rings(&ranks[1]) {
            ranks[from].poll(8);
            assert!(start.elapsed() < Duration::from_secs(20), "is not woken");
        }
        until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.len() == 1);
    }
}

#[test]
fn nothing_is_connected_before_it_is_needed() {
    let mut ranks = job(3, &config(Family::V4));
    for _ in 0..200 {
        assert_eq!(ranks.iter_mut().map(|rank| rank.poll(8)).sum::<u32>(), 0);
    }
    assert!(ranks.iter().all(|rank| rank.counters().begun == 0));
    ranks[2].tcp.expect(PeerId(0));
    until(&mut ranks, "connection", |ranks| {
        ranks[0].counters().opened == 1 && ranks[2].counters().opened == 1
    });
    assert_eq!(ranks[1].counters().accepted, 0);
}

#[test]
fn both_may_connect_at_once_and_keep_the_same_connection() {
    for _ in 0..20 {
        let mut ranks = job(2, &config(Family::V4));
        ranks[0].tcp.expect(PeerId(1));
        ranks[1].tcp.expect(PeerId(0));
        send(&mut ranks, 0, 1, [b"", b"to one"]);
        send(&mut ranks, 1, 0, [b"", b"to zero"]);
        until(&mut ranks, "arrivals", |ranks| ranks.iter().all(|rank| rank.log.messages.len() == 1));
        assert!(ranks.iter().all(|rank| rank.counters().opened == 1 && rank.log.lost.is_empty()));
    }
}

/// Many sizes, so that heads and messages are cut anywhere; tiny system buffers, so that sends are
/// cut too.
#[test]
fn everything_arrives_in_order_however_little_the_sockets_take() {
    let tiny = TcpConfig { send_buffer: Some(4096), receive_buffer: Some(4096), ..config(Family::V4) };
    let mut ranks = job(2, &tiny);
    let lengths = [1, 100, 2047, 2048, 5000, 70_000, 3, MESSAGE_BYTES_MAX - 5, 1, 60_000, 200_000, 40];
    for (number, length) in lengths.into_iter().enumerate() {
        send(&mut ranks, 0, 1, [b"head.", &pattern(number, length)]);
    }
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == lengths.len());
    for (number, length) in lengths.into_iter().enumerate() {
        assert_eq!(
            ranks[1].log.messages[number].1,
            [b"head.", &pattern(number, length)[..]].concat(),
            "{number}"
        );
    }
    assert!(ranks[0].counters().partial_sends > 0, "{}", ranks[0].counters());
    assert!(ranks[0].tcp.is_idle());
}

#[test]
fn a_full_link_says_again_and_ready() {
    let tiny = TcpConfig { send_buffer: Some(4096), receive_buffer: Some(4096), ..config(Family::V4) };
    let mut ranks = job(2, &tiny);
    send(&mut ranks, 0, 1, [b"", b"first"]);
    ranks[0].log.ready.clear();
    let payload = pattern(1, 100_000);
    let mut taken = 0;
    let refused = loop {
        match ranks[0].tcp.short(PeerId(1), b"", &payload) {
            Post::Done => taken += 1,
            other => break other,
        }
    };
    assert_eq!(refused, Post::Again(Again::NoSlot));
    assert!(!ranks[0].tcp.is_idle());
    until(&mut ranks, "room", |ranks| ranks[0].log.ready == [1]);
    until(&mut ranks, "all", |ranks| ranks[1].log.messages.len() == 1 + taken);
    assert!(matches!(ranks[0].tcp.short(PeerId(1), b"", &payload), Post::Done));
}

#[test]
fn a_slot_that_is_dropped_has_taken_nothing() {
    let mut ranks = job(2, &config(Family::V4));
    send(&mut ranks, 0, 1, [b"", b"first"]);
    ranks[0].tcp.reserve(PeerId(1), 300).unwrap().bytes().fill(9);
    let mut slot = ranks[0].tcp.reserve(PeerId(1), 5).unwrap();
    assert_eq!(slot.bytes().len(), 5);
    slot.bytes().copy_from_slice(b"third");
    slot.commit();
    until(&mut ranks, "two", |ranks| ranks[1].log.messages.len() == 2);
    assert_eq!(ranks[1].log.messages[1].1, b"third");
    let too_long = ranks[0].tcp.reserve(PeerId(1), MESSAGE_BYTES_MAX + 1).unwrap_err();
    let (len, max) = (MESSAGE_BYTES_MAX as u64 + 1, MESSAGE_BYTES_MAX as u64);
    assert_eq!(too_long, Refusal::Never(Cause::TooBig { len, max }));
}

#[test]
fn a_budget_of_one_is_kept_and_shared() {
    let mut ranks = job(3, &config(Family::V4));
    for round in 0..20_u8 {
        send(&mut ranks, 0, 2, [b"", &[round]]);
        send(&mut ranks, 1, 2, [b"", &[round]]);
    }
    until(&mut ranks, "all", |ranks| ranks[2].log.messages.len() == 40);
    ranks[2].log.messages.clear();
    // What is sent stays in the socket: neither side reads between here and the polls below.
    for from in [0, 1] {
        for number in 0..50_u8 {
            assert_eq!(ranks[from].tcp.short(PeerId(2), b"", &[number]), Post::Done);
        }
    }
    let start = Clock::now();
    while ranks[2].log.messages.len() < 100 {
        ranks[2].poll(1);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    let messages = &ranks[2].log.messages;
    for from in [0, 1] {
        let of: Vec<_> =
            messages.iter().filter(|(sender, _)| *sender == from).map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(of, (0..50).collect::<Vec<_>>(), "in order");
    }
    let first = messages.iter().take(60).filter(|(sender, _)| *sender == 0).count();
    assert!((10..=50).contains(&first), "neither is starved: {first} of 60");
}

/// Calls are counted as on a real wire: one call to send a message, one to receive it, and the
/// system is seldom asked what is ready.
#[test]
fn a_small_message_costs_one_call_on_each_side() {
    let mut ranks = job(2, &config(Family::V4));
    for _ in 0..20 {
        send(&mut ranks, 0, 1, [b"h", b"warm"]);
        until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.pop().is_some());
    }
    let before = ranks.iter().map(|rank| *rank.counters()).collect::<Vec<_>>();
    for _ in 0..64 {
        assert_eq!(ranks[0].tcp.short(PeerId(1), b"header", b"payload!"), Post::Done);
        // The loopback has delivered it when the call returns.
        assert_eq!(ranks[1].poll(64), 1);
    }
    let sent = ranks[0].counters().send_calls - before[0].send_calls;
    let received = ranks[1].counters().receive_calls - before[1].receive_calls;
    let looks = ranks[1].counters().looks - before[1].looks;
    assert_eq!((sent, received), (64, 64));
    assert!(looks <= 2, "{looks}");
}

/// The system does not look after a connection that alone has been in use for long: blocked sends,
/// others and its end are noticed all the same.
#[test]
fn who_is_left_alone_is_heard_of_all_the_same() {
    let mut ranks = job(3, &config(Family::V4));
    let left_alone = |rank: &Rank| rank.tcp.engine.as_ref().is_some_and(|engine| engine.alone.is_some());
    let talk = |ranks: &mut [Rank], from: usize, to: usize, length: usize| {
        send(ranks, from, to as u32, [b"head", &pattern(from, length)]);
        until(ranks, "arrival", |ranks| !ranks[to].log.messages.is_empty());
        let message = ranks[to].log.messages.pop().unwrap();
        assert_eq!(message, (from as u32, [b"head", &pattern(from, length)[..]].concat()));
    };
    for _ in 0..100 {
        talk(&mut ranks, 0, 1, 8);
        talk(&mut ranks, 1, 0, 8);
    }
    assert!(left_alone(&ranks[0]) && left_alone(&ranks[1]));
    for _ in 0..30 {
        talk(&mut ranks, 0, 1, 250_000);
    }
    talk(&mut ranks, 2, 1, 100);
    until(&mut ranks, "attention", |ranks| !left_alone(&ranks[1]));
    for _ in 0..100 {
        talk(&mut ranks, 0, 1, 8);
    }
    assert!(left_alone(&ranks[1]));
    drop(ranks.remove(0));
    until(&mut ranks, "goodbye", |ranks| ranks[0].log.lost == [(0, Cause::PeerLeft)]);
    send(&mut ranks, 1, 1, [b"", b"still"]);
    until(&mut ranks, "arrival", |ranks| ranks[0].log.messages == [(2, b"still".to_vec())]);
    assert!(!left_alone(&ranks[0]));
}

#[test]
fn a_peer_out_of_touch_needs_no_goodbye() {
    let mut ranks = job(3, &config(Family::V4));
    let needs_none = |ranks: &[Rank], rank: usize, peer: u32| ranks[rank].tcp.tells_departure(PeerId(peer));
    assert!(needs_none(&ranks, 0, 1) && needs_none(&ranks, 0, 2) && needs_none(&ranks, 1, 0));
    ranks[0].tcp.expect(PeerId(1));
    assert!(!needs_none(&ranks, 0, 1), "a connection to it is being made");
    until(&mut ranks, "connection", |ranks| {
        ranks.iter().map(|rank| rank.counters().opened).sum::<u64>() == 2
    });
    assert!(!needs_none(&ranks, 0, 1) && !needs_none(&ranks, 1, 0), "who may wait is told");
    assert!(needs_none(&ranks, 0, 2) && needs_none(&ranks, 2, 0) && needs_none(&ranks, 1, 2));
}

#[test]
fn a_rank_that_leaves_says_so_after_everything_else() {
    let mut ranks = job(2, &config(Family::V4));
    send(&mut ranks, 1, 0, [b"", b"hello"]);
    until(&mut ranks, "hello", |ranks| ranks[0].log.messages.len() == 1);
    send(&mut ranks, 1, 0, [b"", b"last"]);
    drop(ranks.pop());
    until(&mut ranks, "goodbye", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.messages[1].1, b"last");
    assert_eq!(ranks[0].log.lost, [(1, Cause::PeerLeft)]);
    assert_eq!(ranks[0].counters().left, 1);
    assert_eq!(ranks[0].tcp.short(PeerId(1), b"", b"x"), Post::Never(Cause::PeerLeft));
}

#[test]
fn who_was_let_go_of_is_touched_no_more_and_can_be_introduced_anew() {
    let mut ranks = job(2, &config(Family::V4));
    send(&mut ranks, 0, 1, [b"", b"one"]);
    assert_eq!(ranks[0].tcp.quiesce(Quiesce::Peer(PeerId(1))), Ok(()));
    assert_eq!(ranks[0].tcp.reach(PeerId(1)).err(), Some(Cause::PeerDead));
    until(&mut ranks, "death", |ranks| ranks[1].log.lost == [(0, Cause::PeerDead)]);
    assert!(ranks[0].log.lost.is_empty(), "who lets go is not told");
    let addresses = [ranks[0].tcp.address(), ranks[1].tcp.address()];
    ranks[0].meet(1, &addresses[1]);
    ranks[1].meet(0, &addresses[0]);
    ranks[1].log.messages.clear();
    send(&mut ranks, 0, 1, [b"", b"two"]);
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages == [(0, b"two".to_vec())]);
}

#[test]
fn a_vacant_transport_reaches_no_peer() {
    let mut tcp = Tcp::vacant(PeerId(3));
    let mut log = Log::default();
    assert_eq!(tcp.poll(64, Instant(0), &mut log), 0);
    assert_eq!(tcp.reach(PeerId(0)).err(), Some(Cause::Unreachable));
    assert_eq!(tcp.introduce(PeerId(0), Epoch(1), &[]), Err(Cause::Unreachable));
    assert!(tcp.is_idle() && tcp.address().is_empty() && tcp.features().is_empty());
}

/// A table of the ranks of a job that have left, and the same as a rank reads it.
pub(super) fn departures(ranks: u32) -> (DepartureTable, &'static Departures) {
    let table = DepartureTable::create(1, ranks).unwrap();
    let departures = Departures::map(&table.file().try_clone_to_owned().unwrap(), ranks).unwrap();
    (table, Box::leak(Box::new(departures)))
}

/// A peer that has left without ever having been met is told as such, also where it is found while
/// connections to it are being tried; one that is there is heard all the same.
pub(super) fn is_told_who_left_unmet(mut ranks: Vec<Rank>) {
    let (table, departures) = departures(4);
    ranks[0].tcp.look_who_has_left(Some(departures));
    ranks.drain(1..3);
    table.mark(1);
    // As of a receive from any rank.
    (1..4).for_each(|peer| ranks[0].tcp.expect(PeerId(peer)));
    until(&mut ranks, "the first is told", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::PeerLeft)]);
    assert_eq!(ranks[0].tcp.short(PeerId(1), &[], &[]), Post::Never(Cause::PeerLeft));
    table.mark(2);
    until(&mut ranks, "the second is told", |ranks| ranks[0].log.lost.len() > 1);
    assert_eq!(ranks[0].log.lost[1], (2, Cause::PeerLeft));
    send(&mut ranks, 1, 0, [b"", b"here"]);
    until(&mut ranks, "the last is heard", |ranks| ranks[0].log.messages == [(3, b"here".to_vec())]);
    assert_eq!(ranks[0].log.lost.len(), 2);
}

#[test]
fn a_peer_that_left_unmet_is_told_without_its_goodbye() {
    is_told_who_left_unmet(job(4, &config(Family::V4)));
}

/// The ways in which two ranks come to make a connection.
pub(super) const WAYS: [Meeting; 8] = {
    let mut ways = [Meeting { from: 0, is_expected: false, is_crossed: false }; 8];
    let mut at = 0;
    while at < ways.len() {
        ways[at] = Meeting { from: at & 1, is_expected: at & 2 != 0, is_crossed: at & 4 != 0 };
        at += 1;
    }
    ways
};

/// The way in which a rank that sends a message meets its receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// The sender; the receiver is the other of two.
    pub(super) from: usize,
    /// True if the receiver makes a connection too.
    pub(super) is_expected: bool,
    /// True if both make it before either has seen the other's.
    pub(super) is_crossed: bool,
}

/// Messages that a peer has sent before it left come, though it is known to have left as soon as
/// the system has taken them.
pub(super) fn comes_before_it_is_lost(mut ranks: Vec<Rank>, meeting: Meeting) {
    let Meeting { from, is_expected, is_crossed } = meeting;
    let to = 1 - from;
    let (table, departures) = departures(2);
    ranks[to].tcp.look_who_has_left(Some(departures));
    if is_crossed {
        ranks[from].tcp.expect(PeerId(to as u32));
    }
    if is_expected {
        ranks[to].tcp.expect(PeerId(from as u32));
    }
    // The receiver comes no further than the sender needs.
    let start = Clock::now();
    while ranks[from].tcp.short(PeerId(to as u32), b"last", &[]) != Post::Done {
        for _ in 0..8 {
            ranks[from].poll(64);
        }
        ranks[to].poll(1);
        assert!(start.elapsed().as_secs() < 20, "{meeting:?}: it is not sent");
    }
    until(&mut ranks[from..=from], "it may leave", |ranks| ranks[0].tcp.is_idle());
    table.mark(from as u32);
    drop(ranks.remove(from));
    ranks[0].tcp.expect(PeerId(from as u32));
    until(&mut ranks, "it is told", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.messages, [(from as u32, b"last".to_vec())], "{meeting:?}");
    assert_eq!(ranks[0].log.lost, [(from as u32, Cause::PeerLeft)], "{meeting:?}");
}

#[test]
fn what_a_peer_sent_before_it_left_comes_first() {
    WAYS.into_iter().for_each(|way| comes_before_it_is_lost(job(2, &config(Family::V4)), way));
}

/// Brings two ranks, of which the one of number `dials` makes a connection, to where the first has
/// chosen it and has no word of whether the other has taken it.
fn choose(ranks: &mut [Rank], dials: usize) {
    ranks[dials].tcp.expect(PeerId(1 - dials as u32));
    let start = Clock::now();
    let has_chosen =
        |rank: &Rank| rank.tcp.engine.as_ref().is_some_and(|engine| engine.awaits_confirmation());
    while !has_chosen(&ranks[0]) {
        ranks[1].poll(1);
        ranks[0].poll(1);
        assert!(start.elapsed().as_secs() < 20, "none is chosen");
    }
}

/// A rank that ends while a peer may hold a connection for open says goodbye on it.
pub(super) fn says_goodbye_on_what_it_has_chosen(mut ranks: Vec<Rank>, dials: usize) {
    choose(&mut ranks, dials);
    until(&mut ranks, "it may leave", |ranks| ranks[0].tcp.is_idle());
    drop(ranks.remove(0));
    until(&mut ranks, "goodbye", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(0, Cause::PeerLeft)], "{dials}");
}

#[test]
fn who_leaves_within_a_handshake_is_not_taken_for_dead() {
    (0..2).for_each(|dials| says_goodbye_on_what_it_has_chosen(job(2, &config(Family::V4)), dials));
}

#[test]
fn who_leaves_waits_no_longer_than_a_handshake_may_take() {
    let brief = TcpConfig { connect_timeout: Duration::from_millis(500), ..config(Family::V4) };
    let mut ranks = job(2, &brief);
    choose(&mut ranks, 1);
    assert!(!ranks[0].tcp.is_idle());
    let start = Clock::now();
    until(&mut ranks[..1], "the time is up", |ranks| ranks[0].tcp.is_idle());
    assert!(start.elapsed() <= Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(ranks[0].counters().opened, 0);
}
