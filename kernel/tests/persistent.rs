//! Persistent requests (MPI 4.1 section 3.9).

use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Rank, Request, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern, settle, together};

fn worlds(ranks: &[rig::Rank<'_>]) -> Vec<Comm> {
    ranks.iter().map(|rank| rank.world()).collect()
}

/// Sizes for which the message is inline, eager, deferred now and then, and in fragments.
const SIZES: [usize; 5] = [0, 8, 60, 64, 700];

#[test]
fn started_again_and_again_each_start_is_one_message() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    for len in SIZES {
        let (mut out, mut into) = (vec![0u8; len], vec![0u8; len + 3]);
        together(&mut ranks, |one, other| {
            let (out, into) = (one.lend(&mut out), other.lend(&mut into));
            let mut sends = [
                one.send_init(&worlds[0], out, 0..len, Rank(1), Tag(1))?,
                one.ssend_init(&worlds[0], out, 0..len, Rank(1), Tag(1))?,
                one.rsend_init(&worlds[0], out, 0..len, Rank(1), Tag(1))?,
            ];
            let mut receive = other.recv_init(&worlds[1], into, 0..len + 3, Source::Any, TagMatch::Any)?;
            for round in 0..12u32 {
                let send = &mut sends[round as usize % 3];
                // A ready send needs its receive; the others meet it posted or not.
                let first = round % 3 == 2 || round % 2 == 0;
                if first {
                    other.start(&mut receive)?;
                    settle(one, other);
                }
                one.edit(out, 0..len, |bytes| bytes.copy_from_slice(&pattern(round, len)))?;
                one.start(send)?;
                assert_eq!(one.start(send).unwrap_err().cause, Cause::Busy);
                settle(one, other);
                if !first {
                    other.start(&mut receive)?;
                    settle(one, other);
                }
                let status = other.wait_for(&mut receive)?;
                assert_eq!((status.source, status.tag, status.bytes), (Rank(0), Tag(1), len as u64));
                assert!(receive.is_null() && other.test(&mut receive)?.is_none(), "it can be started again");
                other.edit(into, 0..len, |bytes| assert_eq!(bytes, pattern(round, len)))?;
                one.wait_for(send)?;
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(
        (ranks[0].diagnostics().requests_in_use(), ranks[1].diagnostics().requests_in_use()),
        (0, 0),
        "a scope's end frees them"
    );
}

#[test]
fn they_are_waited_for_among_others_and_cancelled() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into, mut plain) = ([5u8; 8], [0u8; 16], [0u8; 8]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let mut sending = one.send_init(&worlds[0], out, 0..8, Rank(1), Tag(1))?;
        let mut receiving = [
            other.recv_init(&worlds[1], into, 0..8, Rank(0), Tag(1))?,
            other.recv_init(&worlds[1], into, 8..16, Rank(0), Tag(2))?,
            other.irecv(&worlds[1], &mut plain, Rank(0), Tag(3))?,
        ];
        assert_eq!(other.start(&mut receiving[2]).unwrap_err().cause, Cause::Stale, "not a persistent one");
        other.start_all(&mut receiving[..2])?;
        assert!(other.edit(into, 0..8, |_| ()).is_err(), "it is under way");
        one.start(&mut sending)?;
        settle(one, other);
        let (index, status) = other.wait_any(&mut receiving)?.unwrap();
        assert_eq!((index, status.bytes), (0, 8));
        assert!(other.cancel(&mut receiving[1]), "it has not been sent");
        assert!(!other.cancel(&mut receiving[1]), "it is over");
        assert!(other.wait_for(&mut receiving[1])?.is_cancelled());
        assert!(!other.cancel(&mut receiving[1]), "it is idle");
        other.start(&mut receiving[1])?;
        assert!(other.cancel(&mut receiving[1]) && other.cancel(&mut receiving[2]));
        let mut cancelled = 0;
        while let Some((_, status)) = other.wait_any(&mut receiving)? {
            assert!(status.is_cancelled());
            cancelled += 1;
        }
        assert_eq!(cancelled, 2);
        one.wait_all(core::slice::from_mut(&mut sending))?;
        one.start(&mut sending)?;
        settle(one, other);
        other.start(&mut receiving[0])?;
        settle(one, other);
        assert_eq!(other.wait_for(&mut receiving[0])?.bytes, 8);
        Ok(())
    })
    .unwrap();
    assert_eq!(ranks[1].diagnostics().queue_depths(), (0, 0));
}

/// The receiver is moved by the test itself alone.
#[test]
fn a_test_of_a_started_request_makes_progress() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let mut into = [0u8; 8];
    together(&mut ranks, |one, other| {
        let into = other.lend(&mut into);
        let mut receive = other.recv_init(&worlds[1], into, 0..8, Rank(0), Tag(1))?;
        for _ in 0..2 {
            other.start(&mut receive)?;
            let sending = one.isend(&worlds[0], &[7u8; 8], Rank(1), Tag(1))?;
            assert_eq!(other.test(&mut receive)?.map(|status| status.bytes), Some(8));
            one.wait(sending)?;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(into, [7; 8]);
}

#[test]
fn to_the_null_rank_to_the_dead_and_past_the_envelopes() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut out, mut into) = ([1u8; 8], [0u8; 8]);
    let (mut flood, mut wanted) = ([[0u8; 8]; REQUESTS - 3], [0u8; 8]);
    together(&mut ranks, |one, other| {
        let (out, into) = (one.lend(&mut out), other.lend(&mut into));
        let mut null = other.recv_init(&worlds[1], into, 0..8, Rank::NULL, Tag(1))?;
        for _ in 0..2 {
            other.start(&mut null)?;
            assert_eq!(other.wait_for(&mut null)?.source, Rank::NULL);
        }
        let mut sends = Vec::new();
        for tag in 0..REQUESTS as u32 - 2 {
            sends.push(one.send_init(&worlds[0], out, 0..8, Rank(1), Tag(tag))?);
        }
        one.start_all(&mut sends)?;
        settle(one, other);
        let wanted = other.lend(&mut wanted);
        let mut last = other.recv_init(&worlds[1], wanted, 0..8, Rank(0), Tag(REQUESTS as u32 - 3))?;
        other.start(&mut last)?;
        settle(one, other);
        assert_eq!(other.wait_for(&mut last)?.bytes, 8, "it was matched at its sender");
        for (tag, buffer) in (0..).zip(&mut flood) {
            let receiving = other.irecv(&worlds[1], buffer, Rank(0), Tag(tag))?;
            settle(one, other);
            other.wait(receiving)?;
        }
        one.wait_all(&mut sends)?;
        dead.set(Some(0));
        settle(one, other);
        assert_eq!(other.start(&mut last).unwrap_err().cause, Cause::PeerDead);
        assert!(sends.iter().all(Request::is_null));
        Ok(())
    })
    .unwrap();
}
