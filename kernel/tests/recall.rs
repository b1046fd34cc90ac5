//! Sends that their receivers know of are cancelled if no receive has matched them, and the wait
//! for them ends whatever their receivers' programs do.

use aldis_kernel::hal::Cause;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Rank, Request, Scope, Source, Tag, TagMatch};
use aldis_kit::rig::{self, Clock, Job, Powers, REQUESTS, Shape, Wire, pattern, settle, together};

/// Wires by which announced data is sent, read and written.
const WIRES: [Powers; 3] = [
    Powers::NONE,
    Powers { reads: Some(300), regions: 8, ..Powers::NONE },
    Powers { reads: None, writes: Some(300), regions: 8, ..Powers::NONE },
];

fn worlds(ranks: &[rig::Rank<'_>]) -> [Comm; 2] {
    [ranks[0].world(), ranks[1].world()]
}

/// Returns true if the send was cancelled; it is over.
fn is_cancelled<'scope>(
    scope: &mut Scope<'scope, '_, '_, Wire, Clock>,
    sending: &mut Request<'scope>,
) -> bool {
    let status = scope.test(sending).unwrap().expect("it is over");
    status.is_cancelled()
}

/// More often than there are envelopes and requests, so that none is lost by it.
#[test]
fn an_announced_send_without_a_receive_is_cancelled_and_leaves_nothing() {
    for powers in WIRES {
        let mut job = Job::new(2, Shape::default());
        job.powers = powers;
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let long = pattern(1, 700);
        for round in 0..2 * REQUESTS {
            let mut buffer = [0; 8];
            together(&mut ranks, |one, other| {
                let mut sends = [
                    one.isend(&worlds[0], &long, Rank(1), Tag(1))?,
                    one.issend(&worlds[0], &[1_u8; 8], Rank(1), Tag(1))?,
                ];
                settle(one, other);
                for sending in &mut sends {
                    assert!(!one.recall(sending), "the receiver is to be asked");
                    assert!(!one.recall(sending), "once is enough");
                }
                settle(one, other);
                for sending in &mut sends {
                    assert!(is_cancelled(one, sending));
                }
                // What comes behind them is first.
                let receiving = other.irecv(&worlds[1], &mut buffer, Source::Any, TagMatch::Any)?;
                let sending = one.isend(&worlds[0], &[2_u8; 8], Rank(1), Tag(2))?;
                settle(one, other);
                assert_eq!(other.wait(receiving)?.tag, Tag(2), "round {round}");
                one.wait(sending)
            })
            .unwrap();
        }
    }
}

#[test]
fn a_recall_before_anything_has_left_is_over_at_once() {
    let mut job = Job::new(2, Shape { depth: 0, ..Shape::default() });
    let mut ranks = job.ranks();
    let (world, first) = (ranks[0].world(), &mut ranks[0]);
    first
        .scope(|scope| {
            let mut sending = scope.isend(&world, &[1_u8; 8], Rank(1), Tag(1))?;
            assert!(scope.recall(&mut sending) && is_cancelled(scope, &mut sending));
            Ok(())
        })
        .unwrap();
}

/// The recall and the clear-to-send are under way at a time, or the recall comes to what has been
/// matched long ago.
#[test]
fn a_matched_send_is_received_although_it_is_recalled() {
    for (powers, polls) in WIRES.into_iter().flat_map(|powers| (0..5).map(move |polls| (powers, polls))) {
        let mut job = Job::new(2, Shape::default());
        job.powers = powers;
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (long, mut buffer) = (pattern(1, 700), vec![0; 700]);
        together(&mut ranks, |one, other| {
            let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
            let mut sending = one.isend(&worlds[0], &long, Rank(1), Tag(1))?;
            one.poll(64);
            for _ in 0..polls {
                other.poll(64);
                one.poll(1);
            }
            one.recall(&mut sending);
            settle(one, other);
            assert!(!is_cancelled(one, &mut sending));
            assert_eq!(other.wait(receiving)?.bytes, 700);
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, long, "after {polls} polls");
    }
}

/// A send that is held back for want of an envelope is offered to a receive, which takes it, or is
/// cancelled before.
#[test]
fn an_offered_send_is_cancelled_if_its_offer_is_declined() {
    for declined in [false, true] {
        let mut job = Job::new(2, Shape::default());
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let (mut buffer, mut rest) = ([0_u8; 8], [[0_u8; 8]; 4]);
        together(&mut ranks, |one, other| {
            let mut before = Vec::new();
            for _ in 0..4 {
                before.push(one.isend(&worlds[0], &[1_u8; 8], Rank(1), Tag(1))?);
            }
            let mut sending = one.isend(&worlds[0], &[2_u8; 8], Rank(1), Tag(2))?;
            settle(one, other);
            let mut receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(2))?;
            // The question is sent, the offer comes back, and is not yet looked at.
            other.poll(64);
            one.poll(64);
            assert!(!one.recall(&mut sending), "it may have been taken already");
            assert!(!declined || other.cancel(&mut receiving));
            settle(one, other);
            assert_eq!(is_cancelled(one, &mut sending), declined);
            assert_eq!(other.wait(receiving)?.is_cancelled(), declined);
            for rest in &mut rest {
                let receiving = other.irecv(&worlds[1], rest, Rank(0), Tag(1))?;
                settle(one, other);
                other.wait(receiving)?;
            }
            one.wait_all(&mut before)
        })
        .unwrap();
        assert_eq!(buffer, if declined { [0; 8] } else { [2; 8] });
    }
}

#[test]
fn a_message_is_given_back_once_its_receiver_has_a_request_slot() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (long, mut buffers) = (pattern(1, 700), [[0_u8; 8]; REQUESTS]);
    together(&mut ranks, |one, other| {
        let mut sending = one.isend(&worlds[0], &long, Rank(1), Tag(1))?;
        settle(one, other);
        let mut posted = Vec::new();
        for buffer in &mut buffers {
            posted.push(other.irecv(&worlds[1], buffer, Rank(0), Tag(2))?);
        }
        one.recall(&mut sending);
        settle(one, other);
        assert!(one.test(&mut sending)?.is_none(), "there is no slot");
        assert_eq!(other.iprobe(&worlds[1], Rank(0), Tag(1))?, None, "it is decided");
        for mut receiving in posted {
            assert!(other.cancel(&mut receiving));
        }
        settle(one, other);
        assert!(is_cancelled(one, &mut sending));
        Ok(())
    })
    .unwrap();
}

/// It is the program's from the probe on.
#[test]
fn a_message_that_a_matched_probe_has_taken_is_received_although_it_is_recalled() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (long, mut buffer) = (pattern(1, 700), vec![0; 700]);
    let [first, second] = &mut ranks[..] else { unreachable!() };
    first
        .scope(|one| {
            let mut sending = one.isend(&worlds[0], &long, Rank(1), Tag(1))?;
            while one.poll(64) + second.poll(64) > 0 {}
            let matched = second.improbe(&worlds[1], Rank(0), Tag(1))?.expect("it is here");
            one.recall(&mut sending);
            while one.poll(64) + second.poll(64) > 0 {}
            assert!(one.test(&mut sending)?.is_none());
            second.scope(|other| {
                let receiving = other.imrecv(matched, &mut buffer)?;
                settle(one, other);
                assert_eq!(other.wait(receiving)?.bytes, 700);
                Ok(())
            })?;
            assert!(!is_cancelled(one, &mut sending));
            Ok(())
        })
        .unwrap();
    assert_eq!(buffer, long);
}

#[test]
fn a_persistent_send_is_recalled_and_started_again() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let (mut long, mut buffer) = (pattern(1, 700), vec![0; 700]);
    together(&mut ranks, |one, other| {
        let loan = one.lend(&mut long);
        let mut sending = one.send_init(&worlds[0], loan, 0..700, Rank(1), Tag(1))?;
        for _ in 0..3 {
            one.start(&mut sending)?;
            settle(one, other);
            one.recall(&mut sending);
            settle(one, other);
            assert!(is_cancelled(one, &mut sending));
        }
        one.start(&mut sending)?;
        let receiving = other.irecv(&worlds[1], &mut buffer, Rank(0), Tag(1))?;
        settle(one, other);
        assert_eq!(other.wait(receiving)?.bytes, 700);
        assert!(!is_cancelled(one, &mut sending));
        Ok(())
    })
    .unwrap();
    assert_eq!(buffer, pattern(1, 700));
}

/// The scope ends while the question is under way.
#[test]
fn a_recalled_send_can_be_given_up() {
    for polls in 0..4 {
        let mut job = Job::new(2, Shape::default());
        let mut ranks = job.ranks();
        let worlds = worlds(&ranks);
        let [first, second] = &mut ranks[..] else { unreachable!() };
        let long = pattern(1, 700);
        let ended = first.scope(|one| {
            let mut sending = one.isend(&worlds[0], &long, Rank(1), Tag(1))?;
            while one.poll(64) + second.poll(64) > 0 {}
            one.recall(&mut sending);
            for _ in 0..polls {
                one.poll(64);
                second.poll(64);
            }
            one.wait(Request::null()).map(|_| ())
        });
        assert_eq!(ended.unwrap_err().cause, Cause::Stale);
        while first.poll(64) + second.poll(64) > 0 {}
        assert_eq!(second.iprobe(&worlds[1], Rank(0), Tag(1)).unwrap(), None);
        assert_eq!((first.counters().malformed, second.counters().malformed), (0, 0));
    }
}

#[test]
fn the_death_of_a_receiver_ends_the_wait_for_a_recalled_send() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let worlds = worlds(&ranks);
    let long = pattern(1, 700);
    let result = together(&mut ranks, |one, other| {
        let mut sending = one.isend(&worlds[0], &long, Rank(1), Tag(1))?;
        settle(one, other);
        one.recall(&mut sending);
        dead.set(Some(1));
        one.wait(sending)
    });
    assert_eq!(result.unwrap_err().cause, Cause::PeerDead);
}
