//! Tests of ranks that may have fewer connections than peers.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::AsFd as _;

use aldis_hal::Resource;
use aldis_hal::cause::Malformed;
use aldis_protocols::stream::StreamFrame;

use super::super::connection::ConnectionStage;
use super::super::engine::TcpEngine;
use super::super::frame::TcpFrame;
use super::pair::departures;
use super::*;

fn engine(rank: &mut Rank) -> &mut TcpEngine {
    rank.tcp.engine.as_mut().unwrap()
}

/// The socket of the link of rank 1 to rank 0, to do harm with.
fn socket(rank: &mut Rank) -> TcpStream {
    let slot = engine(rank).links.first_of(PeerId(0));
    let socket = engine(rank).connections.peek(slot).unwrap().wire.socket().as_fd();
    socket.try_clone_to_owned().unwrap().into()
}

fn few(connections: u32) -> TcpConfig {
    TcpConfig { connections: Some(connections), ..config(Family::V4) }
}

/// A generator of numbers in no order (xorshift).
fn draw(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below as u64) as usize
}

/// Every rank sends to every other in each round, in a drawn order and of drawn lengths, and all
/// polls are drawn too. Each message comes once and in order, no rank has more connections than it
/// may, and no peer is lost.
fn exchange_all(seed: u64, ranks: usize, connections: u32, rounds: usize) -> u64 {
    let mut state = seed;
    let mut all = job(ranks as u32, &few(connections));
    let mut posts: Vec<VecDeque<(usize, usize)>> = vec![VecDeque::new(); ranks * ranks];
    for round in 0..rounds {
        for _ in 0..ranks * ranks {
            let (from, to) = (draw(&mut state, ranks), draw(&mut state, ranks));
            if from != to {
                let length = [1, 200, 5000, 70_000][draw(&mut state, 4)];
                posts[from * ranks + to].push_back((round, length));
            }
        }
    }
    let expected: Vec<Vec<_>> = posts.iter().map(|posts| posts.iter().copied().collect()).collect();
    let (total, start) = (posts.iter().map(VecDeque::len).sum::<usize>(), Clock::now());
    let mut arrived = 0;
    while arrived < total {
        for (pair, posts) in posts.iter_mut().enumerate() {
            let (from, to) = (pair / ranks, pair % ranks);
            let Some(&(round, length)) = posts.front().filter(|_| draw(&mut state, 3) == 0) else {
                continue;
            };
            match all[from].tcp.short(PeerId(to as u32), b"", &pattern(round, length)) {
                Post::Done => drop(posts.pop_front()),
                Post::Again(_) => {}
                other => panic!("seed {seed}: {from} to {to}: {other:?}"),
            }
        }
        for rank in &mut all {
            rank.poll(1 + draw(&mut state, 20) as u32);
            let open = engine(rank).connections.count();
            assert!(open <= connections as usize, "seed {seed}: {open} connections");
            assert!(rank.log.lost.is_empty(), "seed {seed}: {:?}", rank.log.lost);
        }
        arrived = all.iter().map(|rank| rank.log.messages.len()).sum();
        if start.elapsed() > Duration::from_secs(60) {
            for rank in &all {
                eprintln!("{:?}: {}", rank.tcp.me(), rank.counters());
            }
            panic!("seed {seed} hangs at {arrived} of {total}");
        }
    }
    for (to, rank) in all.iter().enumerate() {
        for from in 0..ranks {
            let of = rank.log.messages.iter().filter(|(sender, _)| *sender as usize == from);
            let came: Vec<_> = of.map(|(_, bytes)| bytes).collect();
            let sent = &expected[from * ranks + to];
            assert_eq!(came.len(), sent.len(), "seed {seed}: {from} to {to}");
            for (bytes, (round, length)) in came.into_iter().zip(sent) {
                assert!(*bytes == pattern(*round, *length), "seed {seed}: {from} to {to}: round {round}");
            }
        }
    }
    all.iter().map(|rank| rank.counters().rested).sum()
}

#[test]
fn eight_ranks_exchange_over_three_connections_each() {
    let rested: u64 = (1..=4).map(|seed| exchange_all(seed * 0x9E37_79B9, 8, 3, 6)).sum();
    assert!(rested > 100, "{rested}");
}

/// Polls until nothing counts as being in use.
fn settle(ranks: &mut [Rank]) {
    for _ in 0..32 {
        ranks.iter_mut().for_each(|rank| {
            rank.poll(8);
        });
    }
}

/// Two ranks that have exchanged messages and are quiet.
fn quiet() -> Vec<Rank> {
    let mut ranks = job(2, &few(3));
    for (from, to) in [(0, 1), (1, 0)] {
        send(&mut ranks, from, to as u32, [b"", b"before"]);
        until(&mut ranks, "arrival", |ranks| ranks[to].log.messages.len() == 1);
    }
    settle(&mut ranks);
    ranks
}

fn is_rested(ranks: &mut [Rank]) -> bool {
    ranks.iter_mut().all(|rank| engine(rank).connections.count() == 0)
}

#[test]
fn whoever_asks_messages_go_on_over_a_new_connection() {
    for askers in [&[0][..], &[1], &[0, 1]] {
        let mut ranks = quiet();
        for round in 1..20 {
            for asker in askers {
                engine(&mut ranks[*asker]).ask_for_room();
            }
            // A message that is posted meanwhile is not lost.
            let (from, to) = (round % 2, (round + 1) % 2);
            if round % 3 != 0 {
                until(&mut ranks, "rest", is_rested);
            }
            send(&mut ranks, from, to as u32, [b"", &pattern(round, 100 * round)]);
            until(&mut ranks, "arrival", |ranks| {
                ranks[to].log.messages.last().is_some_and(|last| last.1 == pattern(round, 100 * round))
            });
            settle(&mut ranks);
        }
        until(&mut ranks, "end", |ranks| {
            ranks.iter().map(|rank| rank.log.messages.len()).sum::<usize>() == 21
        });
        assert!(ranks.iter().all(|rank| rank.log.lost.is_empty() && rank.counters().rested > 10));
    }
}

#[test]
fn a_peer_that_leaves_while_its_connection_rests_is_told_as_such() {
    let (table, departures) = departures(2);
    let mut ranks = quiet();
    ranks[0].tcp.look_who_has_left(Some(departures));
    ranks[0].tcp.expect(PeerId(1));
    engine(&mut ranks[1]).ask_for_room();
    until(&mut ranks, "rest", is_rested);
    assert!(ranks.iter().all(|rank| rank.tcp.is_idle()));
    assert!(ranks[1].tcp.tells_departure(PeerId(0)));
    table.mark(1);
    drop(ranks.pop());
    until(&mut ranks, "departure", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::PeerLeft)]);
}

#[test]
fn a_peer_that_dies_while_its_connection_rests_is_found_dead() {
    let brief = TcpConfig { connect_timeout: Duration::from_millis(300), ..few(3) };
    let mut ranks = job(2, &brief);
    send(&mut ranks, 0, 1, [b"", b"before"]);
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.len() == 1);
    ranks[0].tcp.expect(PeerId(1));
    settle(&mut ranks);
    engine(&mut ranks[1]).ask_for_room();
    until(&mut ranks, "rest", is_rested);
    drop(ranks.pop());
    until(&mut ranks, "death", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::PeerDead)]);
}

#[test]
fn a_peer_that_closes_the_connection_first_is_not_taken_for_dead() {
    let mut ranks = quiet();
    let mut asker = ranks.remove(0);
    engine(&mut asker).ask_for_room();
    let slot = engine(&mut ranks[0]).links.first_of(PeerId(0));
    until(&mut ranks, "answer", |ranks| {
        engine(&mut ranks[0]).connections.get(slot).unwrap().link().unwrap().rest.is_over()
    });
    until(core::slice::from_mut(&mut asker), "end", is_rested);
    // The rest of the poll in which it answered.
    let Rank { tcp, log } = &mut ranks[0];
    let engine = tcp.engine.as_mut().unwrap();
    engine.connections.get(slot).unwrap().may_read = true;
    engine.serve(slot, 8, log);
    settle(&mut ranks);
    assert_eq!((&ranks[0].log.lost[..], ranks[0].counters().rested), (&[][..], 1));
}

#[test]
fn who_leaves_while_it_asks_for_a_rest_has_left() {
    for leaver in 0..2 {
        let mut ranks = quiet();
        engine(&mut ranks[leaver]).ask_for_room();
        drop(ranks.remove(leaver));
        until(&mut ranks, "departure", |ranks| !ranks[0].log.lost.is_empty());
        assert_eq!(ranks[0].log.lost, [(leaver as u32, Cause::PeerLeft)]);
    }
}

#[test]
fn a_message_after_the_word_that_none_follows_is_refused() {
    for length in [1, 70_000] {
        let mut ranks = quiet();
        ranks[0].log.runway = Some(Vec::new());
        let mut socket = socket(&mut ranks[1]);
        engine(&mut ranks[1]).ask_for_room();
        let message = [&TcpFrame::data(length, 1).emit()[..], &pattern(1, length)].concat();
        let mut written = socket.write(&message).unwrap();
        until(&mut ranks[..1], "refusal", |ranks| {
            written += socket.write(&message[written..]).unwrap_or(0);
            !ranks[0].log.lost.is_empty()
        });
        assert_eq!(ranks[0].log.lost, [(1, Cause::Malformed(Malformed::Control))]);
        assert_eq!(ranks[0].log.runway, Some(Vec::new()), "nothing of it has landed");
    }
}

#[test]
fn a_word_that_none_follows_is_refused_with_several_links() {
    let mut ranks = job(2, &TcpConfig { links: 2, ..config(Family::V4) });
    send(&mut ranks, 1, 0, [b"", b"before"]);
    until(&mut ranks, "arrival", |ranks| ranks[0].log.messages.len() == 1);
    let word = TcpFrame { kind: StreamFrame::Rest, number: 1 };
    socket(&mut ranks[1]).write_all(&word.emit()).unwrap();
    until(&mut ranks[..1], "refusal", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::Malformed(Malformed::Control))]);
}

#[test]
fn a_rank_that_is_full_of_all_its_peers_closes_none() {
    let mut ranks = job(4, &few(3));
    for round in 0..4 {
        for peer in 1..4 {
            send(&mut ranks, peer, 0, [b"", &pattern(round, 100)]);
            send(&mut ranks, 0, peer as u32, [b"", &pattern(round, 100)]);
            settle(&mut ranks);
        }
    }
    assert_eq!(engine(&mut ranks[0]).connections.count(), 3);
    assert!(ranks.iter().all(|rank| rank.counters().rested == 0));
    assert!(ranks.iter_mut().all(|rank| !engine(rank).room.is_agreeing()));
}

/// Posts a message that has to wait for a connection.
fn post_in_vain(rank: &mut Rank, peer: u32) {
    assert!(matches!(rank.tcp.short(PeerId(peer), b"", b"x"), Post::Again(_)));
}

/// The peers with which a rank is known to be shaking hands.
fn greeted(rank: &mut Rank) -> Vec<u32> {
    (0..16).filter(|peer| engine(rank).is_greeted(PeerId(*peer))).collect()
}

#[test]
fn peers_that_wait_for_room_get_it_in_turn() {
    let mut ranks = job(7, &few(3));
    let rank = &mut ranks[0];
    (1..=5).for_each(|peer| post_in_vain(rank, peer));
    assert_eq!(greeted(rank), [1, 2]);
    engine(rank).drop_connections(PeerId(1));
    post_in_vain(rank, 6);
    assert_eq!(greeted(rank), [2], "others have waited for longer");
    rank.poll(8);
    assert_eq!(greeted(rank), [2, 3]);
    engine(rank).drop_connections(PeerId(2));
    rank.poll(8);
    assert_eq!(greeted(rank), [3, 4]);
}

#[test]
fn a_peer_that_made_room_for_another_is_connected_to_after_it() {
    let mut ranks = job(4, &few(3));
    for peer in 1..3 {
        send(&mut ranks, 0, peer, [b"", b"before"]);
        settle(&mut ranks);
    }
    post_in_vain(&mut ranks[0], 3);
    post_in_vain(&mut ranks[0], 1);
    assert!(engine(&mut ranks[0]).room.is_agreeing());
    until(&mut ranks, "room", |ranks| {
        let is_next = engine(&mut ranks[0]).is_in_touch(PeerId(3));
        assert!(is_next || !greeted(&mut ranks[0]).contains(&1));
        is_next
    });
    for peer in [1, 3] {
        send(&mut ranks, 0, peer, [b"", b"behind"]);
        until(&mut ranks, "arrival", |ranks| {
            ranks[peer as usize].log.messages.last().is_some_and(|last| last.1 == b"behind")
        });
    }
}

#[test]
fn few_are_asked_for_room_that_do_not_answer() {
    let mut ranks = job(12, &few(14));
    for peer in 1..12 {
        send(&mut ranks, 0, peer, [b"", b"before"]);
    }
    settle(&mut ranks);
    let (rank, start) = (&mut ranks[0], Clock::now());
    let mut asked = 0;
    while start.elapsed() < Duration::from_millis(200) {
        engine(rank).ask_for_room();
        rank.poll(8);
        let engine = engine(rank);
        let is_asked = |slot: &u32| match engine.connections.peek(*slot).map(|one| &one.stage) {
            Some(ConnectionStage::Open(link)) => !link.rest.is_none(),
            _ => false,
        };
        asked = (0..engine.connections.slots()).filter(is_asked).count();
    }
    assert_eq!(asked, 1, "no link waits for room");
}

#[test]
fn time_for_a_peer_without_room_begins_anew_with_each_connection() {
    let limit = Duration::from_secs(2);
    let mut ranks = job(5, &TcpConfig { connect_timeout: limit, ..few(3) });
    for peer in 1..3 {
        send(&mut ranks, 0, peer, [b"", b"before"]);
    }
    post_in_vain(&mut ranks[0], 3);
    std::thread::sleep(limit / 4);
    let mut opened = Clock::now();
    while ranks[0].counters().opened == 2 {
        opened = Clock::now();
        // Behind the last poll of this rank it answers nothing.
        let _: Post = ranks[4].tcp.short(PeerId(0), b"", b"x");
        ranks[4].poll(8);
        ranks[0].poll(8);
    }
    until(&mut ranks[..1], "loss", |ranks| !ranks[0].log.lost.is_empty());
    assert!(opened.elapsed() >= limit, "{:?}", opened.elapsed());
    assert_eq!(ranks[0].log.lost, [(3, Cause::Full(Resource::Descriptors))]);
}
