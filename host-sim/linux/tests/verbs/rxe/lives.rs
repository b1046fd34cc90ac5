//! The ways in which ranks find each other, when they need to: connections, lives, and datagrams.

use aldis_hal::{Again, Cause, Epoch, PeerId, Post, Transport};
use aldis_linux::verbs::{Mode, VerbsConfig};

use super::{Rank, config, connected, epoch, introduce, job, job_of, pattern, send, until};

/// A rank's next life.
const NEXT: Epoch = Epoch(7);

#[test]
fn a_connection_is_made_when_it_is_needed() {
    let mut ranks = job(3);
    assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Again(Again::Connecting));
    until(&mut ranks, "ready", |ranks| ranks[0].log.ready == [1]);
    assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Done);
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.len() == 1);
    assert_eq!(ranks[1].verbs.short(PeerId(0), b"y", b""), Post::Done, "it goes both ways");
    assert_eq!(ranks[1].verbs.short(PeerId(2), b"y", b""), Post::Again(Again::Connecting), "no other peer");
}

/// All need all others at once, so that every two offers cross.
#[test]
fn both_may_need_it_at_once() {
    for round in 0..5 {
        let mut ranks = job(3);
        let pairs = || (0..3_usize).flat_map(|me| (0..3_usize).map(move |other| (me, other)));
        for (me, other) in pairs().filter(|(me, other)| me != other) {
            let connecting = ranks[me].verbs.short(PeerId(other as u32), b"x", b"");
            assert_eq!(connecting, Post::Again(Again::Connecting));
        }
        for (me, other) in pairs().filter(|(me, other)| me != other) {
            send(&mut ranks, me, other as u32, &pattern(me, 100));
        }
        until(&mut ranks, "arrivals", |ranks| ranks.iter().all(|rank| rank.log.messages.len() == 2));
        assert!(ranks.iter().all(|rank| rank.log.lost.is_empty()), "round {round}");
    }
}

/// Rank 1 dies and comes back: it is lost once, if its device `answers` for the living, and
/// connected again when it is introduced anew.
fn a_new_life(config: &VerbsConfig, answers: bool) {
    let mut ranks = job_of(2, config);
    send(&mut ranks, 0, 1, b"to the first");
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages.len() == 1);
    ranks[1] = Rank::open(1, NEXT, 2, config);
    introduce(&mut ranks, 1, 0, epoch(0));
    // The rank that was alive does not know yet, and is not known to be the one that was meant.
    assert!(matches!(ranks[1].verbs.short(PeerId(0), b"hello", b""), Post::Again(Again::Connecting)));
    _ = ranks[0].verbs.short(PeerId(1), b"to no peer", b"");
    if answers {
        until(&mut ranks, "loss", |ranks| !ranks[0].log.lost.is_empty());
        assert_eq!(ranks[0].log.lost, [(1, Cause::PeerDead)]);
        assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Never(Cause::PeerDead));
    }
    introduce(&mut ranks, 0, 1, NEXT);
    send(&mut ranks, 0, 1, b"to the second");
    until(&mut ranks, "arrival", |ranks| !ranks[1].log.messages.is_empty());
    assert_eq!(ranks[1].log.messages, [(0, b"to the second".to_vec())]);
    send(&mut ranks, 1, 0, b"from the second");
    until(&mut ranks, "arrival", |ranks| ranks[0].log.messages.len() == 1);
    assert_eq!((ranks[0].log.lost.len(), ranks[1].log.lost.len()), (answers.into(), 0));
}

#[test]
fn a_peer_comes_back_in_a_new_life() {
    a_new_life(&config(), true);
}

/// Checks that what was under way is drained, that both are told why, and that messages go again
/// with a new life of one. `sender` finds it out.
fn a_queue_pair_fails(sender: usize, lost: [(u32, Cause); 2]) {
    let mut ranks = connected();
    assert_eq!(ranks[0].verbs.fail(PeerId(1)), Ok(()));
    let late = ranks[sender].verbs.short(PeerId(1 - sender as u32), b"too late", b"");
    assert_eq!(late, Post::Done);
    until(&mut ranks, "loss", |ranks| ranks.iter().all(|rank| !rank.log.lost.is_empty()));
    assert_eq!([ranks[0].log.lost[0], ranks[1].log.lost[0]], lost);
    assert!(ranks.iter().all(|rank| rank.verbs.is_idle() && rank.log.messages.is_empty()));
    assert_eq!(ranks[0].verbs.fail(PeerId(1)), Err(Cause::Stale));
    let (_, cause) = lost[0];
    assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Never(cause));
    ranks[1] = Rank::open(1, NEXT, 2, &config());
    introduce(&mut ranks, 0, 1, NEXT);
    introduce(&mut ranks, 1, 0, epoch(0));
    send(&mut ranks, 0, 1, b"again");
    until(&mut ranks, "arrival", |ranks| ranks[1].log.messages == [(0, b"again".to_vec())]);
    assert_eq!(ranks[0].log.lost.len(), 1);
}

#[test]
fn a_queue_pair_that_fails_is_made_anew() {
    a_queue_pair_fails(0, [(1, Cause::Device), (0, Cause::PeerDead)]);
}

#[test]
fn a_queue_pair_that_fails_is_noticed_by_the_other() {
    a_queue_pair_fails(1, [(1, Cause::PeerDead), (0, Cause::PeerDead)]);
}

/// A rank that waits for a message of a peer that has died is told of it, without ever sending.
#[test]
fn a_death_is_noticed_while_only_waiting() {
    let mut ranks = connected();
    ranks[0].verbs.expect(PeerId(1));
    until(&mut ranks, "idle", |ranks| ranks[0].verbs.is_idle());
    drop(ranks.pop());
    until(&mut ranks, "loss", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::PeerDead)]);
}

/// A rank connects to a peer that it expects, though nothing is sent.
#[test]
fn who_is_expected_is_connected_to() {
    let mut ranks = job(2);
    ranks[0].verbs.expect(PeerId(1));
    until(&mut ranks, "connection", |ranks| ranks[0].verbs.fail(PeerId(1)).is_ok());
    until(&mut ranks, "loss", |ranks| ranks.iter().all(|rank| !rank.log.lost.is_empty()));
}

/// A peer that was let go of, or has let go, refuses: no rank waits for it.
#[test]
fn who_was_let_go_of_is_told_when_it_asks() {
    let mut ranks = job(2);
    ranks[1].verbs.quiesce(aldis_hal::transport::Quiesce::Peer(PeerId(0))).unwrap();
    assert_eq!(ranks[0].verbs.short(PeerId(1), b"x", b""), Post::Again(Again::Connecting));
    until(&mut ranks, "loss", |ranks| !ranks[0].log.lost.is_empty());
    assert_eq!(ranks[0].log.lost, [(1, Cause::Unreachable)]);
}

fn datagrams() -> VerbsConfig {
    VerbsConfig { mode: Mode::Datagrams, ..config() }
}

#[test]
fn datagrams_arrive_in_order_each_once() {
    let mut ranks = job_of(3, &datagrams());
    let longest = ranks[0].verbs.reach(PeerId(1)).unwrap().limits.bcopy_bytes_max as usize;
    assert_eq!(longest, 976, "a packet of 1024 bytes without headers");
    let sizes: Vec<usize> = (0..200).map(|at| [0, 1, 8, 64, 65, 500, longest][at % 7]).collect();
    for (seed, size) in sizes.iter().enumerate() {
        send(&mut ranks, 0, 1, &pattern(seed, *size));
        send(&mut ranks, 2, 1, &pattern(seed + 1000, *size));
    }
    until(&mut ranks, "arrivals", |ranks| ranks[1].log.messages.len() == 2 * sizes.len());
    for (from, first) in [(0, 0), (2, 1000)] {
        let came = ranks[1].log.messages.iter().filter(|(rank, _)| *rank == from);
        for ((_, message), (seed, size)) in came.zip(sizes.iter().enumerate()) {
            assert_eq!(*message, pattern(seed + first, *size), "{size} bytes from rank {from}");
        }
    }
    until(&mut ranks, "idle", |ranks| ranks.iter().all(|rank| rank.verbs.is_idle()));
    let too_big = ranks[0].verbs.reserve(PeerId(1), longest + 1).err();
    assert!(matches!(too_big, Some(aldis_hal::Refusal::Never(Cause::TooBig { .. }))), "{too_big:?}");
}

/// More than a rank that does not poll has room for: the device drops them, and they are said
/// again.
#[test]
fn datagrams_that_are_dropped_are_repeated() {
    let mut ranks = job_of(4, &datagrams());
    for from in [1, 2, 3] {
        send(&mut ranks, from, 0, b"first");
    }
    until(&mut ranks, "arrivals", |ranks| ranks[0].log.messages.len() == 3);
    // Rank 0 does not poll while all windows are filled three times over, as far as they go.
    let mut sent = [0_u8; 4];
    for _ in 0..50 {
        for from in [1, 2, 3] {
            while ranks[from].verbs.short(PeerId(0), &[sent[from]], b"") == Post::Done {
                sent[from] += 1;
            }
            ranks[from].poll(64);
        }
    }
    let all = 3 + sent.iter().map(|count| usize::from(*count)).sum::<usize>();
    assert!(all > 3 + 45, "{sent:?}");
    until(&mut ranks, "arrivals", |ranks| ranks[0].log.messages.len() == all);
    for from in [1, 2, 3] {
        let came = ranks[0].log.messages.iter().filter(|(rank, _)| *rank == from).skip(1);
        let numbers: Vec<u8> = came.map(|(_, message)| message[0]).collect();
        assert_eq!(numbers, (0..sent[from as usize]).collect::<Vec<_>>());
    }
}

#[test]
fn datagrams_reach_a_peer_in_a_new_life() {
    a_new_life(&datagrams(), false);
}
