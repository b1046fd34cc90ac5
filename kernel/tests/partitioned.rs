//! Partitioned communication (MPI 4.1 chapter 4): parts go as they get ready, rounds follow each
//! other, and every misuse has its own error.

use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Rank, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, Shape, pattern, settle, together};
use proptest::prelude::*;

const TAG: Tag = Tag(3);

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// A channel and what is done with it.
#[derive(Clone, Debug)]
struct ChannelPlan {
    own: u32,
    theirs: u32,
    /// Bytes in each of `own * theirs` pieces.
    scale: usize,
    receiver_first: bool,
    depth: usize,
    /// The order in which partitions get ready, for each round.
    orders: Vec<Vec<u32>>,
    /// After how many of them the receiver starts.
    late: usize,
}

fn plans() -> impl Strategy<Value = ChannelPlan> {
    (1u32..=12, 1u32..=12, 0usize..9, any::<bool>(), 1usize..6, 0usize..14).prop_flat_map(
        |(own, theirs, scale, receiver_first, depth, late)| {
            let order = Just((0..own).collect::<Vec<_>>()).prop_shuffle();
            proptest::collection::vec(order, 1..4).prop_map(move |orders| ChannelPlan {
                own,
                theirs,
                scale,
                receiver_first,
                depth,
                orders,
                late,
            })
        },
    )
}

proptest! {
    /// Data that has arrived is right to the byte and can be read before the rest is there.
    #[test]
    fn parts_come_as_they_get_ready(plan in plans()) {
        let ChannelPlan { own, theirs, scale, receiver_first, depth, ref orders, late } = plan;
        let len = (own * theirs) as usize * scale;
        let mut job = Job::new(2, Shape { depth, bcopy_bytes_max: 96 });
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (mut out, mut into) = (vec![0u8; len], vec![0u8; len]);
        together(&mut ranks, |one, other| {
            let (out, into) = (one.lend(&mut out), other.lend(&mut into));
            let mut receive = None;
            if receiver_first {
                receive = Some(other.precv_init(&worlds[1], into, 0..len, theirs, Rank(0), TAG)?);
            }
            let mut send = one.psend_init(&worlds[0], out, 0..len, own, Rank(1), TAG)?;
            settle(one, other);
            let mut receive = match receive {
                Some(receive) => receive,
                None => other.precv_init(&worlds[1], into, 0..len, theirs, Rank(0), TAG)?,
            };
            for (round, order) in orders.iter().enumerate() {
                let due = pattern(round as u32, len);
                one.start(&mut send)?;
                assert_eq!(one.start(&mut send).unwrap_err().cause, Cause::Busy);
                let mut is_started = false;
                for (turn, &partition) in order.iter().enumerate() {
                    if turn >= late && !is_started {
                        other.start(&mut receive)?;
                        is_started = true;
                    }
                    let bytes = partition as usize * len / own as usize..(partition as usize + 1) * len / own as usize;
                    one.edit(out, bytes.clone(), |part| part.copy_from_slice(&due[bytes.clone()]))?;
                    one.partitions(&send).ready(partition)?;
                    if !bytes.is_empty() && turn + 1 < order.len() {
                        assert_eq!(one.edit(out, bytes, |_| {}).unwrap_err().cause, Cause::Busy);
                    }
                    settle(one, other);
                    if is_started {
                        let ready = &order[..=turn];
                        let overlaps = |own_part: u32, part: u32| {
                            own_part * theirs < (part + 1) * own && part * own < (own_part + 1) * theirs
                        };
                        for part in 0..theirs {
                            let whole = (0..own).all(|one| ready.contains(&one) || !overlaps(one, part));
                            let whole = if len == 0 { ready.len() == own as usize } else { whole };
                            assert_eq!(other.partitions(&receive).has_arrived(part)?, whole);
                            let bytes = part as usize * len / theirs as usize..(part as usize + 1) * len / theirs as usize;
                            let read = other.edit(into, bytes.clone(), |part| assert_eq!(part, &due[bytes]));
                            assert_eq!(read.is_ok(), whole || len == 0);
                        }
                    }
                }
                if !is_started {
                    assert!(one.test(&mut send)?.is_none(), "it has not been asked for");
                    other.start(&mut receive)?;
                }
                settle(one, other);
                let status = other.wait_for(&mut receive)?;
                assert_eq!((status.source, status.tag, status.bytes), (Rank(0), TAG, len as u64));
                assert_eq!(one.wait_for(&mut send)?.bytes, len as u64);
                assert!(other.partitions(&receive).has_arrived(theirs - 1)?, "between rounds as in the last one");
                other.edit(into, 0..len, |bytes| assert_eq!(bytes, due))?;
            }
            Ok(())
        })
        .unwrap();
        for rank in &mut ranks {
            while rank.poll(64) > 0 {}
        }
        prop_assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
        prop_assert_eq!((ranks[0].diagnostics().queue_depths(), ranks[1].diagnostics().queue_depths()), ((0, 0), (0, 0)));
    }
}

#[test]
fn channels_are_matched_in_the_order_of_their_init_and_apart_from_messages() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into, mut plain) = ([1u8, 2, 9], [0u8; 2], [0u8; 1]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let any = other.irecv(&worlds[1], &mut plain, Source::Any, TagMatch::Any)?;
        let mut first = one.psend_init(&worlds[0], out, 0..1, 1, Rank(1), TAG)?;
        let mut second = one.psend_init(&worlds[0], out, 1..2, 1, Rank(1), TAG)?;
        settle(one, other);
        let mut into_first = other.precv_init(&worlds[1], into, 0..1, 1, Rank(0), TAG)?;
        let mut into_second = other.precv_init(&worlds[1], into, 1..2, 1, Rank(0), TAG)?;
        for (send, receive) in [(&mut second, &mut into_second), (&mut first, &mut into_first)] {
            one.start(send)?;
            one.partitions(send).ready(0)?;
            other.start(receive)?;
            settle(one, other);
            one.wait_for(send)?;
            other.wait_for(receive)?;
        }
        let sent = one.isend_part(&worlds[0], out, 2..3, Rank(1), TAG)?;
        settle(one, other);
        assert_eq!(other.wait(any)?.tag, TAG, "the wildcard waited for a message");
        one.wait(sent).map(drop)
    })
    .unwrap();
    assert_eq!((into, plain), ([1, 2], [9]));
}

#[test]
fn a_channel_is_matched_at_its_sender_when_the_envelopes_are_full() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    // One more than there are envelopes for.
    let (numbers, mut received) = ([[1u8], [2], [3], [4], [5]], [[0u8]; 5]);
    let (mut out, mut into) = ([7u8; 30], [0u8; 30]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let mut sends = Vec::new();
        for number in &numbers {
            sends.push(one.isend(&worlds[0], number, Rank(1), Tag(1))?);
        }
        let mut send = one.psend_init(&worlds[0], out, 0..30, 3, Rank(1), TAG)?;
        settle(one, other);
        let mut receive = other.precv_init(&worlds[1], into, 0..30, 2, Rank(0), TAG)?;
        settle(one, other);
        one.start(&mut send)?;
        one.partitions(&send).ready_range(0..3)?;
        other.start(&mut receive)?;
        settle(one, other);
        one.wait_for(&mut send)?;
        other.wait_for(&mut receive)?;
        let mut receives = Vec::new();
        for number in &mut received {
            receives.push(other.irecv(&worlds[1], number, Rank(0), Tag(1))?);
        }
        settle(one, other);
        one.wait_all(&mut sends)?;
        other.wait_all(&mut receives)
    })
    .unwrap();
    assert_eq!((into, received), ([7; 30], numbers));
    assert_eq!(ranks[0].counters().overflows, 1, "the channel has overtaken what there was no room for");
}

#[test]
fn every_misuse_has_its_error() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into) = ([0u8; 12], [0u8; 12]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let world = &worlds[0];
        for (partitions, len) in [(0, 12), (5, 12), (65, 0), (u32::MAX, 0)] {
            let error = one.psend_init(world, out, 0..len, partitions, Rank(1), TAG).unwrap_err();
            assert_eq!(error.cause, Cause::Partitions { partitions, bytes: len as u64 });
        }
        let error = one.psend_init(world, out, 0..12, 3, Rank(2), TAG).unwrap_err();
        assert_eq!(error.cause, Cause::RankOutOfRange { rank: 2, size: 2 });
        let error = one.psend_init(world, out, 0..12, 3, Rank(1), Tag::MAX).unwrap_err();
        assert!(matches!(error.cause, Cause::TagOutOfRange { .. }), "{error}");
        let error = one.precv_init(world, out, 0..13, 1, Rank(1), TAG).unwrap_err();
        assert_eq!(error.cause, Cause::TooBig { len: 13, max: 12 });

        let mut send = one.psend_init(world, out, 0..12, 4, Rank(1), TAG)?;
        let mut receive = other.precv_init(&worlds[1], into, 0..12, 2, Rank(0), TAG)?;
        assert_eq!(one.partitions(&send).ready(0).unwrap_err().cause, Cause::Inactive);
        one.start(&mut send)?;
        other.start(&mut receive)?;
        one.partitions(&send).ready_list(&[1, 2])?;
        let out_of_range = Cause::PartitionOutOfRange { partition: 4, partitions: 4 };
        assert_eq!(one.partitions(&send).ready_range(3..5).unwrap_err().cause, out_of_range);
        assert_eq!(one.partitions(&send).ready(u32::MAX).unwrap_err().peer(), Some(Rank(1)));
        assert_eq!(
            one.partitions(&send).ready_range(0..2).unwrap_err().cause,
            Cause::PartitionReady { partition: 1 }
        );
        assert_eq!(one.partitions(&send).has_arrived(0).unwrap_err().cause, Cause::Stale);
        assert_eq!(other.partitions(&receive).ready(0).unwrap_err().cause, Cause::Stale);
        let out_of_range = Cause::PartitionOutOfRange { partition: 2, partitions: 2 };
        assert_eq!(other.partitions(&receive).has_arrived(2).unwrap_err().cause, out_of_range);
        assert!(!one.cancel(&mut send) && !other.cancel(&mut receive), "a round is not cancelled");
        one.partitions(&send).ready_list(&[3, 0])?;
        settle(one, other);
        other.wait_for(&mut receive)?;
        one.wait_for(&mut send).map(drop)
    })
    .unwrap();
}

#[test]
fn sides_that_do_not_agree_both_hear_of_it() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into) = ([0u8; 12], [0u8; 8]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let mut send = one.psend_init(&worlds[0], out, 0..12, 1, Rank(1), TAG)?;
        one.start(&mut send)?;
        let mut receive = other.precv_init(&worlds[1], into, 0..8, 1, Rank(0), TAG)?;
        settle(one, other);
        let mismatch = Cause::LengthMismatch { left: 8, right: 12 };
        assert_eq!(other.start(&mut receive).unwrap_err().cause, mismatch);
        let mismatch = Cause::LengthMismatch { left: 12, right: 8 };
        assert_eq!(one.wait_for(&mut send).unwrap_err().cause, mismatch);
        assert_eq!(one.start(&mut send).unwrap_err().cause, mismatch);
        Ok(())
    })
    .unwrap();
    assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
}

/// The receiver has found out, and is gone before it could send the error.
#[test]
fn a_sender_hears_that_lengths_differ_from_a_receiver_that_is_gone() {
    let mut job = Job::new(2, Shape { depth: 1, bcopy_bytes_max: 128 });
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into) = ([0u8; 12], [0u8; 8]);
    let [first, second] = &mut ranks[..] else { panic!("two ranks") };
    first
        .scope(|one| {
            let out = one.lend(&mut out);
            let mut send = one.psend_init(&worlds[0], out, 0..12, 1, Rank(1), TAG)?;
            one.start(&mut send)?;
            // The only place of the wire is taken, so that nothing can be sent in the scope.
            while second.poll(64) > 0 {}
            second.send(&worlds[1], &[1u8], Rank(0), TAG)?;
            second.scope(|other| {
                let into = other.lend(&mut into);
                let mut receive = other.precv_init(&worlds[1], into, 0..8, 1, Rank(0), TAG)?;
                let mismatch = Cause::LengthMismatch { left: 8, right: 12 };
                assert_eq!(other.start(&mut receive).unwrap_err().cause, mismatch);
                Ok(())
            })?;
            assert_eq!(second.diagnostics().requests_in_use(), 1, "it has to tell the sender");
            while one.poll(64) + second.poll(64) > 0 {}
            let mismatch = Cause::LengthMismatch { left: 12, right: 8 };
            assert_eq!(one.wait_for(&mut send).unwrap_err().cause, mismatch);
            Ok(())
        })
        .unwrap();
    assert_eq!((ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()), (0, 0));
}

#[test]
fn who_goes_on_alone_hears_that_the_other_is_gone() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into) = ([0u8; 12], [0u8; 12]);
    for rounds in 0..2 {
        let [first, second] = &mut ranks[..] else { panic!("two ranks") };
        second
            .scope(|other| {
                let into = other.lend(&mut into);
                let mut receive = other.precv_init(&worlds[1], into, 0..12, 3, Rank(0), TAG)?;
                first.scope(|one| {
                    let out = one.lend(&mut out);
                    let mut send = one.psend_init(&worlds[0], out, 0..12, 1, Rank(1), TAG)?;
                    for _ in 0..rounds {
                        one.start(&mut send)?;
                        other.start(&mut receive)?;
                        one.partitions(&send).ready(0)?;
                        settle(one, other);
                        one.wait_for(&mut send)?;
                        other.wait_for(&mut receive)?;
                    }
                    Ok(())
                })?;
                other.start(&mut receive)?;
                while first.poll(64) + other.poll(64) > 0 {}
                assert_eq!(other.wait_for(&mut receive).unwrap_err().cause, Cause::Withdrawn);
                assert_eq!(other.start(&mut receive).unwrap_err().cause, Cause::Withdrawn);
                Ok(())
            })
            .unwrap();
        while ranks.iter_mut().map(|rank| rank.poll(64)).sum::<u32>() > 0 {}
        assert_eq!(
            (ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()),
            (0, 0)
        );
    }
}

#[test]
fn a_dead_peer_ends_rounds_under_way_and_those_that_would_come() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut memory = [0u8; 12];
    ranks[0]
        .scope(|s| {
            let memory = s.lend(&mut memory);
            let mut send = s.psend_init(&world, memory, 0..6, 3, Rank(1), TAG)?;
            let mut idle = s.psend_init(&world, memory, 0..6, 3, Rank(1), TAG)?;
            let mut receive = s.precv_init(&world, memory, 6..12, 3, Rank(1), TAG)?;
            s.start_all(core::slice::from_mut(&mut send))?;
            s.start(&mut receive)?;
            dead.set(Some(1));
            s.poll(64);
            assert_eq!(s.wait_for(&mut send).unwrap_err().cause, Cause::PeerDead);
            assert_eq!(s.wait_for(&mut receive).unwrap_err().cause, Cause::PeerDead);
            for request in [&mut send, &mut idle, &mut receive] {
                assert_eq!(s.start(request).unwrap_err().cause, Cause::PeerDead);
            }
            assert_eq!(
                s.psend_init(&world, memory, 0..6, 3, Rank(1), TAG).unwrap_err().cause,
                Cause::PeerDead
            );
            Ok(())
        })
        .unwrap();
    assert_eq!(ranks[0].diagnostics().requests_in_use(), 0);
}

#[test]
fn the_null_rank_takes_and_sends_parts_at_once() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut memory = [5u8; 12];
    ranks[0]
        .scope(|s| {
            let memory = s.lend(&mut memory);
            let mut send = s.psend_init(&world, memory, 0..6, 3, Rank::NULL, TAG)?;
            let mut receive = s.precv_init(&world, memory, 6..12, 3, Rank::NULL, TAG)?;
            for _ in 0..2 {
                s.start(&mut send)?;
                s.start(&mut receive)?;
                s.partitions(&send).ready_range(0..3)?;
                assert!(s.partitions(&receive).has_arrived(2)?);
                assert_eq!(s.wait_for(&mut send)?.source, Rank::NULL);
                assert_eq!(s.wait_for(&mut receive)?.bytes, 0);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((memory, ranks[0].diagnostics().requests_in_use()), ([5; 12], 0));
}

#[test]
fn a_rank_sends_parts_to_itself() {
    let mut job = Job::new(1, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[0].world();
    let mut memory = [1u8, 2, 3, 4, 0, 0, 0, 0];
    ranks[0]
        .scope(|s| {
            let memory = s.lend(&mut memory);
            let mut send = s.psend_init(&world, memory, 0..4, 4, Rank(0), TAG)?;
            let mut receive = s.precv_init(&world, memory, 4..8, 1, Rank(0), TAG)?;
            s.start(&mut receive)?;
            s.start(&mut send)?;
            s.partitions(&send).ready_list(&[3, 1, 0, 2])?;
            s.wait_for(&mut receive)?;
            s.wait_for(&mut send).map(drop)
        })
        .unwrap();
    assert_eq!(memory, [1, 2, 3, 4, 1, 2, 3, 4]);
}

/// A peer that sends a whole message with the tag of a channel, as no kernel does, is cut off;
/// nothing is written.
#[test]
fn a_channel_takes_no_whole_message() {
    use aldis_kernel::hal::Epoch;
    use aldis_kernel::protocols::credit::CreditLimits;
    use aldis_kernel::protocols::{Header, Kind};

    for bytes in [0u64, 4, 12] {
        let mut job = Job::new(2, Shape::default());
        let queue = job.queue(0, 1);
        let mut ranks = job.ranks();
        let world = ranks[1].world();
        let mut memory = [0u8; 12];
        ranks[1]
            .scope(|s| {
                let memory = s.lend(&mut memory);
                let mut receive = s.precv_init(&world, memory, 0..12, 3, Rank(0), TAG)?;
                let header = Header {
                    kind: Kind::Eager,
                    limits: CreditLimits { envelopes: 4, blocks: 2 },
                    epoch: Epoch(100),
                    context: world.collective().context(),
                    source: 0,
                    tag: TAG.0 | 1 << 31,
                    sequence: 0,
                    length: bytes,
                };
                queue.borrow_mut().push_back([&header.emit()[..], &vec![9; bytes as usize]].concat());
                s.poll(64);
                let error = s.start(&mut receive).unwrap_err();
                assert!(matches!(error.cause, Cause::Malformed(_)), "{error}");
                Ok(())
            })
            .unwrap();
        assert_eq!((memory, ranks[1].counters().malformed), ([0; 12], 1));
    }
}
