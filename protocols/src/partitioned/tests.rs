use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SENDING: Handle = Handle { slot: 1, generation: 1 };
const RECEIVING: Handle = Handle { slot: 2, generation: 3 };

/// A channel with both its ends matched.
fn channel(own: u32, theirs: u32, length: u64) -> (PartSender, PartReceiver) {
    let (mut sender, mut receiver) = (PartSender::new(own), PartReceiver::new(theirs));
    receiver.matched(SENDING);
    assert_eq!(receiver.due(), Some(GrantDue { sender: SENDING, partitions: theirs, started: false }));
    receiver.granted();
    sender.granted(RECEIVING, theirs, length, false).unwrap();
    (sender, receiver)
}

/// Sends all that can be sent; how often the round was over.
fn pump(sender: &mut PartSender, receiver: &mut PartReceiver, length: u64, fragment: u32) -> u32 {
    let mut over = 0;
    while let PartStep::Data { receiver: to, offset, len } = sender.step(length, fragment) {
        assert_eq!(to, RECEIVING);
        assert!(u64::from(len) <= length - offset && len <= fragment);
        let sent = sender.sent(length, len);
        assert_eq!(receiver.data(length, offset, len.into()), Ok(sent), "both see the end of a round");
        over += u32::from(sent);
    }
    over
}

fn start(sender: &mut PartSender, receiver: &mut PartReceiver, length: u64) {
    sender.start();
    receiver.start();
    let due = receiver.due().unwrap();
    assert!(due.started);
    receiver.granted();
    assert_eq!(receiver.due(), None);
    sender.granted(RECEIVING, due.partitions, length, true).unwrap();
}

proptest! {
    /// Partitions get ready in any order, at either side in any number: each of the receiver's has
    /// arrived exactly when all of the sender's that it overlaps have been made ready, over several
    /// rounds.
    #[test]
    fn partitions_arrive_once_all_they_overlap_are_ready(
        (own, theirs) in (1u32..=64, 1u32..=64),
        scale in 0u64..5,
        fragment in 1u32..40,
        orders in proptest::collection::vec(any::<proptest::sample::Index>(), 1..200),
    ) {
        let length = u64::from(own) * u64::from(theirs) * scale;
        let (mut sender, mut receiver) = channel(own, theirs, length);
        let mut picks = orders.iter().cycle();
        for _ in 0..2 {
            start(&mut sender, &mut receiver, length);
            let mut left: Vec<u32> = (0..own).collect();
            let mut over = 0;
            while !left.is_empty() {
                let at = picks.next().unwrap().index(left.len());
                sender.ready(left[at]..left[at] + 1).unwrap();
                left.swap_remove(at);
                over += pump(&mut sender, &mut receiver, length, fragment);
                for partition in 0..theirs {
                    // Bytes of a partition of the one and of the other, in common units.
                    let overlaps = |one: u32| one * theirs < (partition + 1) * own && partition * own < (one + 1) * theirs;
                    let due = if length == 0 { left.is_empty() } else { !left.iter().any(|one| overlaps(*one)) };
                    prop_assert_eq!(receiver.has_arrived(partition), Ok(due));
                }
            }
            prop_assert_eq!((over, sender.is_active(), receiver.is_active()), (1, false, false));
            prop_assert_eq!((sender.bytes_sent(length), receiver.bytes_received()), (length, length));
        }
    }

    /// Whatever bytes claim, nothing is taken twice, outside, or before it was granted; and nothing
    /// panics.
    #[test]
    fn hostile_fragments_are_refused(
        theirs in 1u32..=64,
        each in 0u64..9,
        fragments in proptest::collection::vec((any::<u64>(), 0u64..12, any::<bool>()), 1..60),
    ) {
        let length = u64::from(theirs) * each;
        let (_, mut receiver) = channel(1, theirs, length);
        prop_assert_eq!(receiver.data(length, 0, 1), Err(Malformed::Control));
        receiver.start();
        receiver.granted();
        let (mut taken, mut seen) = (0, vec![false; length as usize]);
        for (offset, len, near) in fragments {
            let offset = if near { offset % (length + 2) } else { offset };
            if !receiver.is_active() {
                prop_assert_eq!(receiver.data(length, offset, len), Err(Malformed::Control));
            } else if receiver.data(length, offset, len).is_ok() {
                for byte in offset..offset + len {
                    prop_assert!(!core::mem::replace(&mut seen[byte as usize], true));
                }
                taken += len;
            }
        }
        prop_assert!(taken <= length && (taken == length || receiver.is_active()));
    }
}

#[test]
fn a_range_is_made_ready_as_a_whole_or_not_at_all() {
    let mut sender = PartSender::new(8);
    assert_eq!(sender.ready(0..1), Err(Cause::Inactive));
    sender.start();
    assert_eq!(sender.ready(7..9), Err(Cause::PartitionOutOfRange { partition: 8, partitions: 8 }));
    assert_eq!(sender.ready(9..9), Err(Cause::PartitionOutOfRange { partition: 9, partitions: 8 }));
    sender.ready(2..4).unwrap();
    assert_eq!(sender.ready(0..3), Err(Cause::PartitionReady { partition: 2 }));
    sender.ready(0..2).unwrap();
    sender.ready(5..5).unwrap();
    assert!(sender.has_ready(0..1, 80) && sender.has_ready(39..41, 80) && !sender.has_ready(40..80, 80));
}

#[test]
fn grants_that_make_no_sense_are_refused() {
    let mut sender = PartSender::new(4);
    assert_eq!(sender.granted(RECEIVING, 0, 8, true), Err(Malformed::Length));
    assert_eq!(sender.granted(RECEIVING, 65, 65, true), Err(Malformed::Length));
    assert_eq!(sender.granted(RECEIVING, 3, 8, true), Err(Malformed::Length));
    sender.granted(RECEIVING, 2, 8, true).unwrap();
    assert_eq!(sender.granted(RECEIVING, 2, 8, true), Err(Malformed::Control), "it waits already");
    let (mut sender, _) = channel(4, 2, 8);
    assert_eq!(sender.granted(SENDING, 2, 8, true), Err(Malformed::Control), "another receiver");
    assert_eq!(sender.granted(RECEIVING, 2, 8, false), Err(Malformed::Control), "it is known to be matched");
    assert_eq!(sender.step(8, 100), PartStep::Wait);
}

#[test]
fn a_round_that_the_receiver_starts_late_waits_for_its_grant() {
    let (mut sender, mut receiver) = channel(2, 1, 8);
    sender.start();
    sender.ready(0..2).unwrap();
    assert_eq!(sender.step(8, 100), PartStep::Wait);
    receiver.start();
    receiver.granted();
    sender.granted(RECEIVING, 1, 8, true).unwrap();
    assert_eq!(sender.step(8, 5), PartStep::Data { receiver: RECEIVING, offset: 0, len: 5 });
    assert_eq!(pump(&mut sender, &mut receiver, 8, 5), 1);
    assert!(check(3, 8).is_err() && check(0, 0).is_err() && check(65, 0).is_err() && check(64, 0).is_ok());
}
