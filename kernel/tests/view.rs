//! Receives that copy nothing: the message is looked at where its sender has it, and given back.

use core::mem;
use core::time::Duration;
use std::collections::VecDeque;

use aldis_kernel::hal::{Cause, Operation};
use aldis_kernel::{Error, Hints, Rank as R, Source, Tag, TagMatch};
use aldis_kit::rig::{Job, Powers, Rank, Shape, pattern};
use proptest::prelude::*;

const MAPPED: Powers = Powers { reads: Some(300), maps: true, regions: 8, ..Powers::NONE };

fn job(powers: Powers) -> Job {
    let mut job = Job::new(2, Shape::default());
    job.powers = powers;
    job
}

/// A message that comes before its receive or after it, to one that names its sender or takes any:
/// it is looked at where it is, and its sender has it back when that is over and not before.
#[test]
fn a_message_is_looked_at_where_it_is() {
    let named = (Source::Rank(R(0)), TagMatch::Tag(Tag(3)));
    for (posted, (from, tag)) in [
        (false, named),
        (true, named),
        (false, (Source::Any, TagMatch::Any)),
        (true, (Source::Any, TagMatch::Any)),
    ] {
        let mut job = job(MAPPED);
        let (table, queue, event) = (job.table.clone(), job.queue(0, 1), job.clock.event.clone());
        let mut ranks = job.ranks();
        let world = [ranks[0].world(), ranks[1].world()];
        let data = pattern(7, 5000);
        let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
        one.scope(|s| {
            let mut sending = s.isend(&world[0], &data, R(1), Tag(3))?;
            s.poll(8);
            if posted {
                // On its way for 20 us.
                let held: VecDeque<_> = mem::take(&mut *queue.borrow_mut());
                assert_eq!(held.len(), 1);
                *event.borrow_mut() = Some((20_000, Box::new(move || *queue.borrow_mut() = held)));
            }
            let mut fallback = [0xEE; 6000];
            let view = other.recv_view(&world[1], &mut fallback, from, tag)?;
            assert!(view.is_borrowed());
            let status = view.status();
            assert_eq!((status.source, status.tag, status.bytes), (R(0), Tag(3), 5000));
            let elements = view.elements()?;
            assert!(elements.iter().eq(data.iter().copied()));
            assert_eq!(
                (elements.len(), elements.get(4999), elements.get(5000)),
                (5000, Some(data[4999]), None)
            );
            let mut some = [0; 100];
            assert!(elements.copy_to(4900, &mut some) && some == data[4900..]);
            assert!(!elements.copy_to(4901, &mut some) && !elements.copy_to(usize::MAX, &mut some));
            // SAFETY: nothing lets go of the send before the view is over.
            let slice = unsafe { elements.as_slice() };
            assert_eq!(slice.as_ptr(), data.as_ptr(), "it is the sender's own memory");
            assert!(s.test(&mut sending)?.is_none(), "the sender is to wait");
            assert_eq!(view.finish()?, status);
            assert!(s.test(&mut sending)?.is_some(), "it was given back, and told at once");
            assert!(fallback.iter().all(|&byte| byte == 0xEE), "nothing is copied");
            Ok(())
        })
        .unwrap();
        assert_eq!([table.borrow().live(0), table.borrow().live(1)], [0, 0]);
        let counters = ranks[1].counters();
        assert_eq!((counters.reads, counters.bytes_received), (1, 5000));
    }
}

/// Elements longer than a byte, and a message that does not stand where they must: it is copied.
#[test]
fn what_is_not_aligned_is_copied() {
    let mut job = job(MAPPED);
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let words: Vec<u64> = (0..100u64).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let bytes = pattern(5, 800);
    let odd = &bytes[bytes.as_ptr().align_offset(8) + 1..];
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let sending = s.isend(&world[0], &words, R(1), Tag(0))?;
        s.poll(8);
        let mut fallback = [0u64; 100];
        let view = other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        assert!(view.is_borrowed() && view.elements()?.iter().eq(words.iter().copied()));
        drop(view);
        s.wait(sending)?;
        assert!(!odd.as_ptr().cast::<u64>().is_aligned());
        let sending = s.isend(&world[0], odd, R(1), Tag(0))?;
        s.poll(8);
        let view = other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        assert!(!view.is_borrowed());
        assert_eq!(view.elements()?.len(), odd.len() / 8);
        let found: Vec<u8> = view.elements()?.iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(found, odd[..odd.len() / 8 * 8]);
        view.finish()?;
        s.wait(sending).map(drop)
    })
    .unwrap();
}

/// A transport may find a message at another place each time that it is asked.
#[test]
fn what_is_mapped_elsewhere_later_is_not_read_askew() {
    let mut job = job(MAPPED);
    let table = job.table.clone();
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let words: Vec<u64> = (0..100).collect();
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let sending = s.isend(&world[0], &words, R(1), Tag(0))?;
        s.poll(8);
        let mut fallback = [0u64; 100];
        let view = other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        assert!(view.is_borrowed());
        table.borrow_mut().skip(1);
        assert_eq!(view.elements().unwrap_err().cause, Cause::Unaligned { need: 8 });
        table.borrow_mut().skip(8);
        assert!(view.elements()?.iter().eq(words[1..].iter().copied()));
        table.borrow_mut().skip(0);
        assert!(view.elements()?.iter().eq(words.iter().copied()));
        view.finish()?;
        s.wait(sending).map(drop)
    })
    .unwrap();
}

proptest! {
    /// Whatever the transport can, and whatever the sizes: a program sees the same message, or the
    /// same error, and nothing is left registered.
    #[test]
    fn every_message_is_seen(
        len in 0usize..2000, room in 0usize..2000, reads in 100u64..900, maps in any::<bool>(),
        polls in 0u32..3, regions in 1usize..3, finishes in any::<bool>(),
    ) {
        let mut job = job(Powers { reads: Some(reads), maps, polls, regions, ..Powers::NONE });
        let table = job.table.clone();
        let mut ranks = job.ranks();
        let world = [ranks[0].world(), ranks[1].world()];
        let data = pattern(3, len);
        let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
        one.scope(|s| {
            let mut sending = s.isend(&world[0], &data, R(1), Tag(0))?;
            s.poll(8);
            let mut fallback = vec![0xEE; room];
            let truncated = match other.recv_view(&world[1], &mut fallback, R(0), Tag(0)) {
                Ok(view) => {
                    assert!(len <= room);
                    assert_eq!(view.is_borrowed(), len > 64 && maps);
                    assert!(view.elements()?.iter().eq(data.iter().copied()));
                    if finishes {
                        assert_eq!(view.finish()?.bytes, len as u64);
                    }
                    false
                }
                Err(error) => {
                    assert_eq!(error.cause, Cause::Truncated { sent: len as u64, room: room as u64 });
                    true
                }
            };
            assert!(!truncated || fallback == data[..room]);
            assert!(s.test(&mut sending)?.is_some(), "the sender hangs");
            Ok(())
        })
        .unwrap();
        prop_assert_eq!([table.borrow().live(0), table.borrow().live(1)], [0, 0]);
    }
}

/// `explain` says of a buffer whether its message is looked at where it is, and why not.
#[test]
fn explain_tells_mapped_memory_from_other() {
    for maps in [true, false] {
        let mut job = job(Powers { maps, ..MAPPED });
        let mut ranks = job.ranks();
        let data = pattern(1, 500);
        let text = ranks[0].explain_buffer(R(1), &data).unwrap().to_string();
        let line = text.lines().find(|line| line.contains("mapped memory")).unwrap();
        assert_eq!(line.ends_with(", taken"), maps, "{text}");
        assert_eq!(text.contains("none of this process is mapped by this peer"), !maps, "{text}");
        let text = ranks[0].explain(R(1), 500).unwrap().to_string();
        assert!(text.lines().any(|line| line.contains("by reading") && line.ends_with(", taken")), "{text}");
        let eager = ranks[0].explain_buffer(R(1), &data[..30]).unwrap().to_string();
        assert!(
            eager.lines().any(|line| line.contains("protocol eager") && line.ends_with(", taken")),
            "{eager}"
        );
    }
}

/// A promise of exact lengths is kept watch over as in any receive.
#[test]
fn a_message_of_another_length_than_promised_is_not_borrowed() {
    let mut job = job(MAPPED);
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let data = pattern(3, 500);
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    other.comm_mut(&world[1]).set_hints(Hints::EXACT_LENGTH).unwrap();
    one.scope(|s| {
        for (room, exact) in [(501, false), (500, true)] {
            let sending = s.isend(&world[0], &data, R(1), Tag(0))?;
            s.poll(8);
            let mut fallback = vec![0u8; room];
            match other.recv_view(&world[1], &mut fallback, R(0), Tag(0)) {
                Ok(view) => assert!(exact && view.is_borrowed()),
                Err(error) => {
                    assert_eq!((exact, error.cause), (false, Cause::NotExact { sent: 500, room: 501 }))
                }
            }
            s.wait(sending)?;
        }
        Ok(())
    })
    .unwrap();
}

/// A deadline that passes before the message comes: the fallback is free, and the message is for
/// the next receive.
#[test]
fn a_deadline_ends_the_wait_for_a_message() {
    let mut job = job(MAPPED);
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let data = pattern(3, 500);
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    let mut fallback = [0; 500];
    let late = other.within(Duration::from_millis(1)).recv_view(&world[1], &mut fallback, R(0), Tag(0));
    assert_eq!(late.unwrap_err().cause, Cause::TimedOut);
    one.scope(|s| {
        let sending = s.isend(&world[0], &data, R(1), Tag(0))?;
        s.poll(8);
        let view =
            other.within(Duration::from_millis(1)).recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        assert!(view.is_borrowed() && view.elements()?.iter().eq(data.iter().copied()));
        view.finish()?;
        s.wait(sending).map(drop)
    })
    .unwrap();
}

/// The sender takes its memory back while it is looked at: the receiver that looks gets the error,
/// the sender does not wait, and the two still understand each other.
#[test]
fn a_sender_that_lets_go_is_found_out() {
    let mut job = job(MAPPED);
    let table = job.table.clone();
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let mut data = pattern(3, 500);
    let mut fallback = [0; 500];
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    for asks_before in [true, false] {
        let mut view = None;
        let left: Result<(), Error> = one.scope(|s| {
            let _sending = s.isend(&world[0], &data, R(1), Tag(0))?;
            s.poll(8);
            view = Some(other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?);
            // A scope that ends by an error waits for no peer.
            Err(Error::new(Operation::Send, Cause::Cancelled))
        });
        assert_eq!(left.unwrap_err().cause, Cause::Cancelled);
        assert_eq!(table.borrow().live(0), 0, "the memory is the sender's again");
        data.fill(0xDD);
        let view = view.expect("it was received");
        assert!(view.is_borrowed());
        if asks_before {
            assert_eq!(view.elements().unwrap_err().cause, Cause::Withdrawn);
        }
        let error = view.finish().unwrap_err();
        assert_eq!((error.cause, error.operation), (Cause::Withdrawn, Operation::Recv));
        one.poll(8);
        assert_eq!(one.diagnostics().queue_depths(), (0, 0));
    }
    assert_eq!([table.borrow().live(0), table.borrow().live(1)], [0, 0]);
    follow_up(one, other);
}

/// Sends one more message, which is borrowed.
fn follow_up(one: &mut Rank<'_>, other: &mut Rank<'_>) {
    let data = pattern(9, 700);
    let world = [one.world(), other.world()];
    one.scope(|s| {
        let mut sending = s.isend(&world[0], &data, R(1), Tag(9))?;
        s.poll(8);
        let mut fallback = [0; 700];
        let view = other.recv_view(&world[1], &mut fallback, R(0), Tag(9))?;
        assert!(view.is_borrowed() && view.elements()?.iter().eq(data.iter().copied()));
        view.finish()?;
        assert!(s.test(&mut sending)?.is_some());
        Ok(())
    })
    .unwrap();
}

/// The sender dies while its message is looked at: that is reported, and the memory can still be
/// read.
#[test]
fn a_senders_death_is_told_at_the_end() {
    let mut job = job(MAPPED);
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let data = pattern(3, 500);
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let _sending = s.isend(&world[0], &data, R(1), Tag(0))?;
        s.poll(8);
        let mut fallback = [0; 500];
        let mut view = other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        dead.set(Some(0));
        view.poll(8);
        assert!(view.elements()?.iter().eq(data.iter().copied()));
        assert_eq!(view.finish().unwrap_err().cause, Cause::PeerDead);
        // What is left of it here is nothing: its slot can be used again.
        assert_eq!(other.send(&world[1], &data, R(0), Tag(0)).unwrap_err().cause, Cause::PeerDead);
        Err::<(), _>(Error::new(Operation::Send, Cause::Cancelled))
    })
    .unwrap_err();
}

/// The receiver dies while it looks at a message: its sender does not wait for ever, and has its
/// memory back.
#[test]
fn a_receivers_death_ends_the_send() {
    let mut job = job(MAPPED);
    let (dead, table) = (job.dead.clone(), job.table.clone());
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let data = pattern(3, 500);
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let sending = s.isend(&world[0], &data, R(1), Tag(0))?;
        s.poll(8);
        let mut fallback = [0; 500];
        let view = other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?;
        dead.set(Some(1));
        assert_eq!(s.wait(sending).unwrap_err().cause, Cause::PeerDead);
        assert_eq!(table.borrow().live(0), 0);
        drop(view);
        Ok(())
    })
    .unwrap();
}

/// A view that is forgotten keeps its sender waiting until that has a deadline, and takes nothing
/// else along.
#[test]
fn a_forgotten_view_holds_up_its_sender_alone() {
    let mut job = job(MAPPED);
    let table = job.table.clone();
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let mut data = pattern(3, 500);
    let mut fallback = [0xEE; 500];
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    let left: Result<(), Error> = one.scope(|s| {
        let mut sending = s.isend(&world[0], &data, R(1), Tag(0))?;
        s.poll(8);
        #[expect(clippy::mem_forget, reason = "this is what is tested")]
        mem::forget(other.recv_view(&world[1], &mut fallback, R(0), Tag(0))?);
        for _ in 0..100 {
            other.poll(8);
            assert!(s.test(&mut sending)?.is_none());
        }
        Err(Error::new(Operation::Send, Cause::Cancelled))
    });
    assert!(left.is_err());
    data.fill(0xDD);
    (0..100).for_each(|_| _ = one.poll(8) + other.poll(8));
    assert!(fallback.iter().all(|&byte| byte == 0xEE), "memory that was let go of was written");
    assert_eq!(table.borrow().live(0), 0);
    follow_up(one, other);
}

/// While a message is looked at others arrive, and several are looked at in turn.
#[test]
fn a_view_can_be_held_over_many_polls() {
    let mut job = job(MAPPED);
    let mut ranks = job.ranks();
    let world = [ranks[0].world(), ranks[1].world()];
    let data: Vec<_> = (0..3).map(|seed| pattern(seed, 500)).collect();
    let [one, other] = ranks.get_disjoint_mut([0, 1]).unwrap();
    one.scope(|s| {
        let mut sending = Vec::new();
        for (message, tag) in data.iter().zip(0..) {
            sending.push(s.isend(&world[0], message, R(1), Tag(tag))?);
        }
        s.poll(8);
        let mut fallback = [0; 500];
        for (message, tag) in data.iter().zip(0..) {
            let mut view = other.recv_view(&world[1], &mut fallback, R(0), Tag(tag))?;
            for _ in 0..50 {
                view.poll(8);
                s.poll(8);
                assert!(s.result(&mut sending[tag as usize])?.is_none());
                assert!(view.elements()?.iter().eq(message.iter().copied()));
            }
            view.finish()?;
            assert!(s.test(&mut sending[tag as usize])?.is_some());
        }
        s.wait_all(&mut sending)
    })
    .unwrap();
    let mut none = [1u8; 0];
    let view = other.recv_view(&world[1], &mut none, R::NULL, Tag(0)).unwrap();
    assert!(!view.is_borrowed() && view.elements().unwrap().is_empty());
}
