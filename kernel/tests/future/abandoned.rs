//! Futures that are dropped and forgotten whenever it is least convenient.

use core::future::Future;
use core::mem::ManuallyDrop;
use core::task::{Context, Poll, Waker};

use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Error, Rank, Sleeper, Source, Status, Tag, TagMatch};
use aldis_kit::rig::{self, Job, REQUESTS, Shape, pattern};
use proptest::prelude::*;

use super::Ends;

/// The fate of a future after some polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FutureFate {
    /// The future is polled to its end, or for long.
    Completed,
    Dropped,
    Forgotten,
}

#[derive(Clone, Copy, Debug)]
struct Half {
    len: usize,
    polls: u32,
    fate: FutureFate,
}

fn half() -> impl Strategy<Value = Half> {
    let fate = prop_oneof![3 => Just(FutureFate::Completed), 1 => Just(FutureFate::Dropped), 1 => Just(FutureFate::Forgotten)];
    (prop_oneof![0usize..70, 0usize..600], 1u32..30, fate).prop_map(|(len, polls, fate)| Half {
        len,
        polls,
        fate,
    })
}

/// Polls a future as its fate wants it, and both endpoints in between.
fn meet<F: Future<Output = Result<Status, Error>>>(
    ends: &Ends<'_, '_>,
    half: Half,
    future: F,
) -> Option<F::Output> {
    let mut future = ManuallyDrop::new(Box::pin(future));
    let mut context = Context::from_waker(Waker::noop());
    let polls = if half.fate == FutureFate::Completed { 200 } else { half.polls };
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            drop(ManuallyDrop::into_inner(future));
            return Some(output);
        }
        ends[0].poll(2);
        ends[1].poll(2);
    }
    if half.fate != FutureFate::Forgotten {
        drop(ManuallyDrop::into_inner(future));
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whenever futures are dropped and forgotten: what is received is what was sent, memory that
    /// is no longer lent is neither written nor sent, and when the futures are gone every slot is
    /// there again.
    #[test]
    fn forgotten_and_dropped_futures_corrupt_nothing(rounds in proptest::collection::vec((half(), half(), any::<bool>()), 1..12)) {
        let mut job = Job::new(2, Shape::default());
        let mut ranks = job.ranks();
        let worlds = [ranks[0].world(), ranks[1].world()];
        {
            let mut sleepers = [const { [const { Sleeper::EMPTY }; REQUESTS] }; 2];
            let [one, other] = &mut sleepers;
            let [first, second] = &mut ranks[..] else { panic!("two ranks") };
            let ends = [first.futures(one).unwrap(), second.futures(other).unwrap()];
            for (tag, (send, receive, receive_first)) in (0..).zip(rounds) {
                let (mut data, mut buffer) = (pattern(tag, send.len), vec![0x55; receive.len]);
                let mut done = [false; 2];
                for receiving in [receive_first, !receive_first] {
                    if receiving {
                        let future = ends[1].recv(&worlds[1], &mut buffer, Source::Any, TagMatch::Any);
                        match meet(&ends, receive, future) {
                            Some(Ok(status)) => {
                                let bytes = status.bytes as usize;
                                prop_assert_eq!(&buffer[..bytes], &pattern(status.tag.0, bytes)[..]);
                                done[1] = true;
                            }
                            Some(Err(error)) => {
                                let known = matches!(
                                    error.cause,
                                    Cause::Truncated { .. } | Cause::Withdrawn | Cause::Full(_)
                                );
                                prop_assert!(known, "{}", error);
                            }
                            None => {}
                        }
                        if !done[1] {
                            buffer.fill(0x55);
                        }
                    } else {
                        let future = ends[0].send(&worlds[0], &data, Rank(1), Tag(tag));
                        if let Some(Err(error)) = meet(&ends, send, future) {
                            prop_assert!(matches!(error.cause, Cause::Full(_)), "{}", error);
                        }
                        data.fill(0xEE);
                        done[0] = true;
                    }
                }
                for _ in 0..20 {
                    ends[0].poll(8);
                    ends[1].poll(8);
                }
                if !done[1] {
                    prop_assert!(buffer.iter().all(|byte| *byte == 0x55), "written after its future was gone");
                }
            }
        }
        drain(&mut ranks, &worlds);
        all_slots_are_there(&mut ranks, &worlds);
    }
}

/// Receives what is left.
fn drain(ranks: &mut [rig::Rank<'_>], worlds: &[Comm]) {
    let mut buffer = vec![0; 600];
    let mut quiet = 0;
    while quiet < 10 {
        ranks[0].poll(64);
        let found = ranks[1].iprobe(&worlds[1], Source::Any, TagMatch::Any).unwrap();
        quiet = if found.is_some() { 0 } else { quiet + 1 };
        if found.is_some() {
            let result = rig::together(ranks, |one, other| {
                let receiving = other.irecv(&worlds[1], &mut buffer, Source::Any, TagMatch::Any)?;
                rig::settle(one, other);
                other.wait(receiving)
            });
            match result {
                Ok(status) => {
                    let bytes = status.bytes as usize;
                    assert_eq!(buffer[..bytes], pattern(status.tag.0, bytes));
                }
                Err(error) => assert_eq!(error.cause, Cause::Withdrawn),
            }
        }
    }
}

/// Every request slot of both ranks can be used at a time.
fn all_slots_are_there(ranks: &mut [rig::Rank<'_>], worlds: &[Comm]) {
    let data = pattern(77, 200);
    let mut buffers = [[0_u8; 200]; REQUESTS];
    rig::together(ranks, |one, other| {
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        for (tag, buffer) in (0..).zip(&mut buffers) {
            receiving.push(other.irecv(&worlds[1], &mut buffer[..], Rank(0), Tag(tag))?);
            sending.push(one.isend(&worlds[0], &data, Rank(1), Tag(tag))?);
        }
        rig::settle(one, other);
        other.wait_all(&mut receiving)?;
        one.wait_all(&mut sending)
    })
    .unwrap();
    assert!(buffers.iter().all(|buffer| buffer[..] == data));
    assert_eq!(
        (ranks[0].diagnostics().queue_depths(), ranks[1].diagnostics().queue_depths()),
        ((0, 0), (0, 0))
    );
}
