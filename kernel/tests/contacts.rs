//! Jobs of more ranks than each rank has rows for: contacts are made at the first message and
//! closed for others, and what has arrived outlives them.

use core::time::Duration;

use aldis_kernel::hal::{Cause, Operation, PeerId, Platform};
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Error, Members, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Clock, Job, Shape, pattern};

/// A message, and the memory of its receive.
struct TestMessage<'a> {
    data: &'a [u8],
    buffer: &'a mut [u8],
}

/// Polls ranks, and lets time pass, until nothing has happened for long.
fn settle(clock: &mut Clock, polls: &mut [&mut dyn FnMut() -> u32]) {
    let mut idle = 0;
    while idle < 300 {
        let events: u32 = polls.iter_mut().map(|poll| poll()).sum();
        idle = if events == 0 { idle + 1 } else { 0 };
        (0..20).for_each(|_| clock.relax(0));
    }
}

/// Every rank of six sends to every other, of which each has two rows at a time: short messages,
/// some in blocks, and long ones.
#[test]
fn every_pair_of_a_job_can_talk_over_three_rows() {
    let mut job = Job::new(6, Shape::default());
    let mut clock = job.clock.clone();
    let mut ranks = job.ranks();
    for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (from, to))).filter(|(a, b)| a != b) {
        let len = [8, 60, 700][(from + to) % 3];
        let (data, mut buffer) = (pattern(from as u32, len), vec![0_u8; len]);
        exchange(&mut ranks, &mut clock, [from, to], TestMessage { data: &data, buffer: &mut buffer });
        assert_eq!(buffer, data, "from {from} to {to}");
    }
    let rows = |rank: &rig::Rank<'_>| {
        (0..6).filter(|peer| rank.diagnostics().credits(PeerId(*peer)).is_some()).count()
    };
    assert!(ranks.iter().all(|rank| rows(rank) <= 3), "as many as there are rows");
}

/// Sends from one rank of a pair to the other while all serve each other.
fn exchange(ranks: &mut [rig::Rank<'_>], clock: &mut Clock, pair: [usize; 2], data: TestMessage<'_>) {
    let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
    let (head, tail) = ranks.split_at_mut(high);
    let (before, one) = head.split_at_mut(low);
    let [one, between @ ..] = one else { panic!("a rank") };
    let [other, after @ ..] = tail else { panic!("a rank") };
    let (sender, receiver) = if pair[0] == low { (one, other) } else { (other, one) };
    let worlds = (sender.world(), receiver.world());
    sender
        .scope(|sender| {
            receiver.scope(|receiver| {
                let mut sending = sender.isend(&worlds.0, data.data, Rank(pair[1] as u32), Tag(1))?;
                let mut receiving = receiver.irecv(&worlds.1, data.buffer, Rank(pair[0] as u32), Tag(1))?;
                let mut rest = || {
                    before.iter_mut().chain(&mut *between).chain(&mut *after).map(|rank| rank.poll(64)).sum()
                };
                settle(clock, &mut [&mut || sender.poll(64), &mut || receiver.poll(64), &mut rest]);
                assert!(sender.test(&mut sending)?.is_some(), "{pair:?}");
                assert!(receiver.test(&mut receiving)?.is_some(), "{pair:?}");
                Ok(())
            })
        })
        .unwrap();
}

/// Sends 8 bytes from a rank to rank 0, which posts nothing.
fn send_to_first(ranks: &mut [rig::Rank<'_>], clock: &mut Clock, from: usize, data: &[u8]) {
    let (before, after) = ranks.split_at_mut(from);
    let [one, after @ ..] = after else { panic!("a rank") };
    let world = one.world();
    one.scope(|one| {
        let mut sending = one.isend(&world, data, Rank(0), Tag(2))?;
        let mut rest = || before.iter_mut().chain(&mut *after).map(|rank| rank.poll(64)).sum();
        settle(clock, &mut [&mut || one.poll(64), &mut rest]);
        assert!(one.test(&mut sending)?.is_some(), "of rank {from}");
        Ok(())
    })
    .unwrap();
}

/// Rank 0 has messages of two ranks, and a communicator with a third, of which no row tells.
fn pair_with_a_stranger(ranks: &mut [rig::Rank<'_>], clock: &mut Clock) -> Comm {
    (1..3).for_each(|from| send_to_first(ranks, clock, from, &[7; 8]));
    ranks[0].install(2, 1, &Members::These([PeerId(3), PeerId(0)].into_iter())).unwrap()
}

/// There are twelve envelopes, of which four are for what the rank sends to itself.
#[test]
fn unexpected_messages_outlive_the_contact_of_their_source() {
    let mut job = Job::new(6, Shape::default());
    let mut clock = job.clock.clone();
    let mut ranks = job.ranks();
    // In turns, so that a peer comes back whose first message is still kept.
    let order = [1, 2, 3, 4, 5, 1, 2, 3];
    for (number, from) in order.into_iter().enumerate() {
        send_to_first(&mut ranks, &mut clock, from, &[number as u8; 8]);
    }
    assert_eq!(ranks[0].counters().unexpected_peak, 8);
    // No envelope is left: what is received now is matched at its sender.
    let (data, mut buffer) = (pattern(4, 24), [0; 24]);
    send_and_receive_next(&mut ranks, &mut clock, TestMessage { data: &data, buffer: &mut buffer });
    assert_eq!(buffer[..], data);
    let world = ranks[0].world();
    for (number, from) in order.into_iter().enumerate() {
        let mut buffer = [0; 8];
        ranks[0].recv(&world, &mut buffer, Rank(from as u32), Tag(2)).unwrap();
        assert_eq!(buffer, [number as u8; 8]);
    }
    assert_eq!(ranks[0].diagnostics().queue_depths(), (0, 0));
}

/// The pool is empty when the contact begins: its messages are held back until places of others
/// are free, and then need no receive.
#[test]
fn a_contact_that_began_without_credit_gets_it_when_places_are_free() {
    let mut job = Job::new(6, Shape::default());
    let mut clock = job.clock.clone();
    let mut ranks = job.ranks();
    for from in [1, 2, 3, 5, 1, 2, 3, 5] {
        send_to_first(&mut ranks, &mut clock, from, &[7; 8]);
    }
    let [zero, one, two, three, four, five] = &mut ranks[..] else { panic!("six ranks") };
    let (worlds, data) = ((zero.world(), four.world()), [4_u8; 8]);
    four.scope(|four| {
        let mut sending = four.isend(&worlds.1, &data, Rank(0), Tag(2))?;
        let mut rest = || one.poll(64) + two.poll(64) + three.poll(64) + five.poll(64);
        settle(&mut clock, &mut [&mut || four.poll(64), &mut || zero.poll(64), &mut rest]);
        assert!(four.test(&mut sending)?.is_none(), "there is no envelope");
        for from in [1, 2, 3] {
            let mut buffer = [0; 8];
            zero.recv(&worlds.0, &mut buffer, Rank(from), Tag(2))?;
        }
        settle(&mut clock, &mut [&mut || four.poll(64), &mut || zero.poll(64), &mut rest]);
        assert!(four.test(&mut sending)?.is_some(), "no receive was needed");
        Ok(())
    })
    .unwrap();
    let mut buffer = [0; 8];
    ranks[0].recv(&worlds.0, &mut buffer, Rank(4), Tag(2)).unwrap();
    assert_eq!(buffer, data);
}

/// Sends from rank 4 to rank 0, which receives it by its tag once it is held back.
fn send_and_receive_next(ranks: &mut [rig::Rank<'_>], clock: &mut Clock, data: TestMessage<'_>) {
    let [zero, one, two, three, four, five] = ranks else { panic!("six ranks") };
    let worlds = (zero.world(), four.world());
    four.scope(|four| {
        let mut sending = four.isend(&worlds.1, data.data, Rank(0), Tag(5))?;
        let mut rest = || one.poll(64) + two.poll(64) + three.poll(64) + five.poll(64);
        settle(clock, &mut [&mut || four.poll(64), &mut || zero.poll(64), &mut rest]);
        assert!(four.test(&mut sending)?.is_none(), "there is no envelope");
        zero.scope(|zero| {
            let mut receiving = zero.irecv(&worlds.0, data.buffer, Source::Any, Tag(5))?;
            settle(clock, &mut [&mut || four.poll(64), &mut || zero.poll(64), &mut rest]);
            assert_eq!(zero.test(&mut receiving)?.map(|status| status.source), Some(Rank(4)));
            Ok(())
        })?;
        assert!(four.test(&mut sending)?.is_some());
        Ok(())
    })
    .unwrap();
}

/// Four ranks announce long messages to one with rows for two of them, which asks for the data in
/// another order than they came in.
#[test]
fn announced_messages_hold_no_row() {
    let mut job = Job::new(5, Shape::default());
    let mut clock = job.clock.clone();
    let mut ranks = job.ranks();
    let data: Vec<_> = (0..4).map(|from| pattern(from, 700)).collect();
    let mut buffers = vec![vec![0_u8; 700]; 4];
    let [zero, a, b, c, d] = &mut ranks[..] else { panic!("five ranks") };
    let worlds = [zero.world(), a.world(), b.world(), c.world(), d.world()];
    let ended = a.scope(|a| {
        b.scope(|b| {
            c.scope(|c| {
                d.scope(|d| {
                    let mut sending = (
                        a.isend(&worlds[1], &data[0], Rank(0), Tag(3))?,
                        b.isend(&worlds[2], &data[1], Rank(0), Tag(3))?,
                        c.isend(&worlds[3], &data[2], Rank(0), Tag(3))?,
                        d.isend(&worlds[4], &data[3], Rank(0), Tag(3))?,
                    );
                    let others: &mut [&mut dyn FnMut() -> u32] =
                        &mut [&mut || a.poll(64), &mut || b.poll(64), &mut || c.poll(64), &mut || d.poll(64)];
                    let mut rest = || others.iter_mut().map(|poll| poll()).sum();
                    settle(&mut clock, &mut [&mut || zero.poll(64), &mut rest]);
                    assert_eq!(zero.counters().unexpected_peak, 4, "all are announced");
                    zero.scope(|zero| {
                        for (from, buffer) in (1..5).zip(&mut buffers).rev() {
                            let mut receiving = zero.irecv(&worlds[0], buffer, Rank(from), TagMatch::Any)?;
                            settle(&mut clock, &mut [&mut || zero.poll(64), &mut rest]);
                            assert!(zero.test(&mut receiving)?.is_some(), "of rank {from}");
                        }
                        Ok(())
                    })?;
                    let sent = [
                        a.test(&mut sending.0)?,
                        b.test(&mut sending.1)?,
                        c.test(&mut sending.2)?,
                        d.test(&mut sending.3)?,
                    ];
                    Ok(sent.iter().all(Option::is_some))
                })
            })
        })
    });
    assert_eq!((ended, buffers), (Ok(true), data));
}

#[test]
fn a_lost_peer_without_a_row_fails_what_waits_for_it() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    dead.set(Some(3));
    let world = ranks[0].world();
    let (mut buffer, first) = ([0_u8; 8], &mut ranks[0]);
    first
        .scope(|first| {
            let receiving = first.irecv(&world, &mut buffer, Rank(3), Tag(1))?;
            let sending = first.isend(&world, &[1_u8; 8], Rank(3), Tag(1))?;
            settle(&mut clock, &mut [&mut || first.poll(64)]);
            assert_eq!(first.wait(sending).unwrap_err().cause, Cause::PeerDead);
            assert_eq!(first.wait(receiving).unwrap_err().cause, Cause::PeerDead);
            Ok(())
        })
        .unwrap();
    assert_eq!(first.send(&world, &[1_u8; 8], Rank(3), Tag(1)).unwrap_err().cause, Cause::PeerDead);
}

/// A rank may ask one peer at a time over three rows: one that never answers holds up all others,
/// but no longer than it lives.
#[test]
fn a_peer_that_ends_unanswered_leaves_its_row_to_those_that_wait() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    let [zero, one, ..] = &mut ranks[..] else { panic!("five ranks") };
    let (world, data, mut buffer) = (zero.world(), pattern(0, 8), [0_u8; 8]);
    zero.scope(|zero| {
        let mut deaf = zero.isend(&world, &[1_u8; 8], Rank(3), Tag(1))?;
        settle(&mut clock, &mut [&mut || zero.poll(64)]);
        let mut sending = zero.isend(&world, &data, Rank(1), Tag(2))?;
        settle(&mut clock, &mut [&mut || zero.poll(64), &mut || one.poll(64)]);
        assert!(zero.test(&mut deaf)?.is_none() && zero.test(&mut sending)?.is_none());
        dead.set(Some(3));
        settle(&mut clock, &mut [&mut || zero.poll(64), &mut || one.poll(64)]);
        assert_eq!(zero.test(&mut deaf).unwrap_err().cause, Cause::PeerDead);
        assert!(zero.test(&mut sending)?.is_some(), "the row is free");
        Ok(())
    })
    .unwrap();
    dead.set(None);
    let world = one.world();
    assert_eq!(one.recv(&world, &mut buffer, Rank(0), Tag(2)).unwrap().bytes, 8);
    assert_eq!(buffer[..], data);
}

/// The transport tells a loss once, and no row is free to keep it in: what waits for the peer later
/// is told all the same.
#[test]
fn requests_to_a_lost_peer_without_a_row_fail_also_when_made_later() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    // Two contacts, which hold the rows.
    (1..3).for_each(|from| send_to_first(&mut ranks, &mut clock, from, &[7; 8]));
    dead.set(Some(3));
    let (world, first) = (ranks[0].world(), &mut ranks[0]);
    first.poll(64);
    let (mut buffers, long) = ([[0_u8; 8]; 2], [0_u8; 700]);
    first
        .scope(|first| {
            let [one, other] = &mut buffers;
            let mut requests = [
                first.irecv(&world, one, Rank(3), Tag(1))?,
                first.irecv(&world, other, Rank(3), TagMatch::Any)?,
                first.isend(&world, &long, Rank(3), Tag(1))?,
            ];
            settle(&mut clock, &mut [&mut || first.poll(64)]);
            for request in &mut requests {
                assert_eq!(first.test(request).unwrap_err().cause, Cause::PeerDead);
            }
            Ok(())
        })
        .unwrap();
    // A probe has no request; it is told from the second on at the latest.
    let _ = first.iprobe(&world, Rank(3), Tag(1));
    assert_eq!(first.iprobe(&world, Rank(3), Tag(1)).unwrap_err().cause, Cause::PeerDead);
    assert_eq!(first.recv(&world, &mut buffers[0], Rank(3), Tag(1)).unwrap_err().cause, Cause::PeerDead);
    assert_eq!(first.mprobe(&world, Rank(3), Tag(1)).unwrap_err().cause, Cause::PeerDead);
    // Those that live are not concerned.
    assert_eq!(first.recv(&world, &mut buffers[0], Rank(1), Tag(2)).unwrap().bytes, 8);
    assert_eq!(first.iprobe(&world, Rank(4), Tag(1)).unwrap(), None);
}

/// The rows of a rank that leaves are of peers that have let go of it, none of which would answer a
/// close: a rank that asked it for contact was kept waiting for a row.
#[test]
fn a_rank_that_leaves_answers_who_asks_for_contact_by_goodbye() {
    let mut job = Job::new(5, Shape::default());
    let mut clock = job.clock.clone();
    let mut ranks = job.ranks();
    (1..3).for_each(|from| send_to_first(&mut ranks, &mut clock, from, &[7; 8]));
    let (world, mut buffer) = (ranks[3].world(), [0_u8; 8]);
    let [zero, one, two, three, _] = &mut ranks[..] else { panic!("five ranks") };
    zero.leave(Duration::from_secs(1)).unwrap();
    three
        .scope(|three| {
            let mut sending = three.isend(&world, &[1_u8; 8], Rank(0), Tag(1))?;
            let mut receiving = three.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            let mut rest = || zero.poll(64) + one.poll(64) + two.poll(64);
            settle(&mut clock, &mut [&mut || three.poll(64), &mut rest]);
            assert_eq!(three.test(&mut sending).unwrap_err().cause, Cause::PeerLeft);
            assert_eq!(three.test(&mut receiving).unwrap_err().cause, Cause::PeerLeft);
            Ok(())
        })
        .unwrap();
    // Once more, also when others have had the row in which its end was kept.
    let data = [8_u8; 8];
    for to in [1, 2, 4] {
        let mut buffer = [0_u8; 8];
        exchange(&mut ranks, &mut clock, [3, to], TestMessage { data: &data, buffer: &mut buffer });
        assert_eq!(buffer, data, "to {to}");
    }
    let [zero, one, two, three, four] = &mut ranks[..] else { panic!("five ranks") };
    three
        .scope(|three| {
            let mut sending = three.isend(&world, &data, Rank(0), Tag(1))?;
            let mut rest = || zero.poll(64) + one.poll(64) + two.poll(64) + four.poll(64);
            settle(&mut clock, &mut [&mut || three.poll(64), &mut rest]);
            assert_eq!(three.test(&mut sending).unwrap_err().cause, Cause::PeerLeft);
            Ok(())
        })
        .unwrap();
}

/// Of the others none has a row that could tell.
#[test]
fn a_receive_of_any_source_fails_once_all_others_are_lost() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    let pair = pair_with_a_stranger(&mut ranks, &mut clock);
    let (world, first) = (ranks[0].world(), &mut ranks[0]);
    let mut buffers = [[0_u8; 8]; 3];
    let [before, on_world, later] = &mut buffers;
    first
        .scope(|first| {
            let mut before = first.irecv(&pair, before, Source::Any, Tag(1))?;
            let mut on_world = first.irecv(&world, on_world, Source::Any, Tag(1))?;
            settle(&mut clock, &mut [&mut || first.poll(64)]);
            assert!(first.test(&mut before)?.is_none(), "it lives");
            dead.set(Some(3));
            settle(&mut clock, &mut [&mut || first.poll(64)]);
            let error = first.test(&mut before).unwrap_err();
            assert_eq!((error.cause, error.peer()), (Cause::PeerDead, Some(Rank(0))));
            let later = first.irecv(&pair, later, Source::Any, TagMatch::Any)?;
            assert_eq!(first.wait(later).unwrap_err().cause, Cause::PeerDead);
            assert!(first.test(&mut on_world)?.is_none(), "others live");
            first.cancel(&mut on_world);
            Ok(())
        })
        .unwrap();
}

/// Of the others none has a row that could tell, and a probe has no request that is looked at.
#[test]
fn a_probe_of_any_source_fails_once_all_others_are_lost() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    let pair = pair_with_a_stranger(&mut ranks, &mut clock);
    let (world, first) = (ranks[0].world(), &mut ranks[0]);
    for _ in 0..20 {
        assert_eq!(first.iprobe(&pair, Source::Any, Tag(1)).unwrap(), None, "it lives");
    }
    dead.set(Some(3));
    let error = first.within(Duration::from_secs(1)).probe(&pair, Source::Any, Tag(1)).unwrap_err();
    assert_eq!((error.cause, error.operation), (Cause::PeerDead, Operation::Probe));
    let error = first.within(Duration::from_secs(1)).mprobe(&pair, Source::Any, TagMatch::Any).unwrap_err();
    assert_eq!(error.cause, Cause::PeerDead);
    let error = first.within(Duration::from_millis(1)).probe(&world, Source::Any, Tag(1)).unwrap_err();
    assert_eq!(error.cause, Cause::TimedOut, "others live");
    let found = first.probe(&world, Source::Any, Tag(2)).unwrap();
    assert_eq!(found.tag, Tag(2), "what has come is there");
}

#[test]
fn a_matched_message_of_a_lost_peer_without_a_row_is_refused_with_its_loss() {
    let mut job = Job::new(5, Shape::default());
    let (mut clock, dead) = (job.clock.clone(), job.dead.clone());
    let mut ranks = job.ranks();
    let (world, long) = (ranks[3].world(), pattern(3, 700));
    let mut token = None;
    let [zero, others @ ..] = &mut ranks[..] else { panic!("ranks") };
    let ended = others[2].scope(|three| {
        let _sending = three.isend(&world, &long, Rank(0), Tag(2))?;
        settle(&mut clock, &mut [&mut || three.poll(64), &mut || zero.poll(64)]);
        token = zero.improbe(&world, Rank(3), Tag(2))?;
        // It takes its memory back, and has told no other.
        Err::<(), _>(Error::new(Operation::None, Cause::Cancelled))
    });
    assert!(ended.is_err());
    let token = token.expect("it is announced");
    // Others want the rows.
    [1, 2, 4].into_iter().for_each(|from| send_to_first(&mut ranks, &mut clock, from, &[7; 8]));
    dead.set(Some(3));
    let mut buffer = vec![0_u8; 700];
    ranks[0].poll(64);
    assert_eq!(ranks[0].mrecv(token, &mut buffer).unwrap_err().cause, Cause::PeerDead);
}
