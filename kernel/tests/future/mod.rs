//! Sends, receives and probes as futures: two ranks' tasks on small executors, in one thread.

mod abandoned;
mod checked;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use aldis_kernel::hal::{Cause, Operation, Resource};
use aldis_kernel::{Comm, Error, Futures, Rank, Sleeper, Source, Status, Tag, TagMatch};
use aldis_kit::rig::{Clock, Job, REQUESTS, Shape, Wire, pattern};

/// Turns after which a program that has not come to its end hangs.
const TURNS: u32 = 20_000;
/// Lengths that every protocol has some of, to many blocks of 64 bytes.
const LENGTHS: [usize; 11] = [0, 1, 8, 24, 25, 60, 64, 65, 128, 500, 5000];

type Ends<'e, 's> = [Futures<'e, 's, Wire, Clock>; 2];

/// Gives the futures of two ranks, and their worlds, to `body`.
fn pair<R>(body: impl FnOnce(&Ends<'_, '_>, [Comm; 2]) -> R) -> R {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let worlds = [ranks[0].world(), ranks[1].world()];
    let mut sleepers = [const { [const { Sleeper::EMPTY }; REQUESTS] }; 2];
    let [one, other] = &mut sleepers;
    let [first, second] = &mut ranks[..] else { panic!("two ranks") };
    body(&[first.futures(one).unwrap(), second.futures(other).unwrap()], worlds)
}

/// Polls both until both are over, whether they are woken or not.
fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut outputs = (None, None);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..TURNS {
        if outputs.0.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(&mut context)
        {
            outputs.0 = Some(output);
        }
        if outputs.1.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(&mut context)
        {
            outputs.1 = Some(output);
        }
        outputs = match outputs {
            (Some(one), Some(other)) => return (one, other),
            waiting => waiting,
        };
    }
    panic!("the futures hang");
}

/// Counts how often it is woken.
#[derive(Default)]
struct WakeCount(AtomicU32);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl WakeCount {
    fn take(&self) -> u32 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Polls tasks when they are woken and at no other time, and both endpoints in between. Returns how
/// often tasks were polled.
fn execute(ends: &Ends<'_, '_>, tasks: Vec<Task<'_>>) -> u32 {
    let counts: Vec<Arc<WakeCount>> = tasks.iter().map(|_| Arc::new(WakeCount(AtomicU32::new(1)))).collect();
    let mut tasks: Vec<Option<Task<'_>>> = tasks.into_iter().map(Some).collect();
    let mut polls = 0;
    for _ in 0..TURNS {
        for (slot, count) in tasks.iter_mut().zip(&counts) {
            if let Some(task) = slot
                && count.take() > 0
            {
                polls += 1;
                if task.as_mut().poll(&mut Context::from_waker(&count.clone().into())).is_ready() {
                    *slot = None;
                }
            }
        }
        if tasks.iter().all(Option::is_none) {
            return polls;
        }
        ends[0].poll(3);
        ends[1].poll(3);
    }
    panic!("a task was not woken");
}

#[test]
fn messages_of_every_length_arrive() {
    pair(|[a, b], [here, there]| {
        for (tag, len) in (1..).zip(LENGTHS) {
            let (data, mut buffer) = (pattern(tag, len), vec![0; len]);
            for synchronous in [false, true] {
                buffer.fill(0);
                let sending = if synchronous {
                    a.ssend(&here, &data, Rank(1), Tag(tag))
                } else {
                    a.send(&here, &data, Rank(1), Tag(tag))
                };
                let receiving = b.recv(&there, &mut buffer, Source::Any, TagMatch::Any);
                let (sent, received) = both(sending, receiving);
                let bytes = len as u64;
                assert_eq!(sent, Ok(Status { source: Rank(1), tag: Tag(tag), bytes }));
                assert_eq!(received, Ok(Status { source: Rank(0), tag: Tag(tag), bytes }));
                assert_eq!(buffer, data);
            }
        }
    });
}

#[test]
fn futures_meet_messages_that_came_before_them_and_messages_to_oneself() {
    pair(|[a, b], [here, there]| {
        let data: Vec<Vec<u8>> = LENGTHS.iter().map(|len| pattern(3, *len)).collect();
        let program = async {
            for data in &data {
                a.send(&here, data, Rank(1), Tag(1)).await?;
            }
            Ok::<_, Error>(())
        };
        let other = async {
            let mut buffer = vec![0; 5000];
            for data in &data {
                let found = b.probe(&there, Source::Any, TagMatch::Any).await?;
                assert_eq!(found.bytes, data.len() as u64);
                let status = b.recv(&there, &mut buffer, Rank(0), Tag(1)).await?;
                assert_eq!(&buffer[..status.bytes as usize], &data[..]);
            }
            Ok::<_, Error>(())
        };
        let (sent, received) = both(program, other);
        sent.and(received).unwrap();
    });
}

#[test]
fn tasks_are_woken_when_they_can_go_on_and_receive_in_the_order_of_posting() {
    for len in [8, 60, 700] {
        pair(|ends, [here, there]| {
            let [a, b] = ends;
            let order = core::cell::RefCell::new(Vec::new());
            let mut tasks: Vec<Task<'_>> = Vec::new();
            for turn in 0..2_u32 {
                let order = &order;
                tasks.push(Box::pin(async move {
                    let mut buffer = vec![0; len];
                    for round in 0..4 {
                        // Both wait for the same messages; who is polled first is served first.
                        let status = b.recv(&there, &mut buffer, Rank(0), TagMatch::Any).await.unwrap();
                        assert_eq!(buffer, pattern(status.tag.0, len), "round {round}");
                        order.borrow_mut().push((turn, status.tag.0));
                    }
                }));
            }
            tasks.push(Box::pin(async move {
                for tag in 0..8 {
                    a.send(&here, &pattern(tag, len), Rank(1), Tag(tag)).await.unwrap();
                }
            }));
            let polls = execute(ends, tasks);
            assert!(polls < 400, "tasks are polled when there is something to do: {polls}");
            let order = order.into_inner();
            assert_eq!(order[0].1, 0);
            for turn in 0..2 {
                let tags: Vec<u32> =
                    order.iter().filter(|entry| entry.0 == turn).map(|entry| entry.1).collect();
                assert!(tags.is_sorted() && tags.len() == 4, "{order:?}");
            }
        });
    }
}

#[test]
fn a_receive_that_waits_is_woken_once_and_only_by_its_message() {
    pair(|[a, b], [here, there]| {
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let mut buffer = [0_u8; 4];
        let mut receiving = b.recv(&there, &mut buffer, Rank(0), Tag(2));
        assert!(Pin::new(&mut receiving).poll(&mut context).is_pending());
        a.block_on(a.send(&here, b"else", Rank(1), Tag(1))).unwrap();
        for _ in 0..10 {
            b.poll(64);
        }
        assert_eq!(count.take(), 0, "that was another message");
        a.block_on(a.send(&here, b"this", Rank(1), Tag(2))).unwrap();
        for _ in 0..10 {
            b.poll(64);
        }
        assert_eq!(count.take(), 1);
        let result = Pin::new(&mut receiving).poll(&mut context);
        assert!(matches!(result, Poll::Ready(Ok(status)) if status.bytes == 4));
        let again = Pin::new(&mut receiving).poll(&mut context);
        assert!(matches!(again, Poll::Ready(Err(Error { cause: Cause::Stale, .. }))));
        drop(receiving);
        assert_eq!(&buffer, b"this");
    });
}

#[test]
fn deadlines_pass_and_take_nothing_with_them() {
    pair(|[a, b], [here, there]| {
        let limit = Duration::from_micros(5);
        let mut buffer = [0_u8; 300];
        let error = b.block_on(b.recv(&there, &mut buffer, Rank(0), Tag(1)).within(limit)).unwrap_err();
        assert_eq!(
            (error.operation, error.cause, error.peer()),
            (Operation::Recv, Cause::TimedOut, Some(Rank(0)))
        );
        assert!(error.elapsed_ns >= 5000);
        let error = b.block_on(b.probe(&there, Source::Any, Tag(1)).within(limit)).unwrap_err();
        assert_eq!((error.operation, error.cause, error.peer()), (Operation::Probe, Cause::TimedOut, None));
        let data = pattern(9, 300);
        let error = a.block_on(a.send(&here, &data, Rank(1), Tag(1)).within(limit)).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Send, Cause::TimedOut));
        // The receiver gets the error that the announced message was withdrawn; the next one comes
        // as ever.
        let withdrawn = b.recv(&there, &mut buffer, Rank(0), Tag(1));
        let mut turns = 0;
        let (result, ()) = both(
            withdrawn,
            core::future::poll_fn(|_| {
                a.poll(64);
                turns += 1;
                if turns < 20 { Poll::Pending } else { Poll::Ready(()) }
            }),
        );
        assert_eq!(result.unwrap_err().cause, Cause::Withdrawn);
        let (sent, received) =
            both(a.send(&here, &data, Rank(1), Tag(1)), b.recv(&there, &mut buffer, Rank(0), Tag(1)));
        assert_eq!((sent.unwrap().bytes, received.unwrap().bytes), (300, 300));
        assert_eq!(buffer[..], data);
    });
}

#[test]
fn a_deadline_wakes_its_task() {
    pair(|[_, b], [_, there]| {
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let mut buffer = [0_u8; 4];
        let mut receiving =
            pin!(b.recv(&there, &mut buffer, Rank(0), Tag(2)).within(Duration::from_micros(50)));
        assert!(receiving.as_mut().poll(&mut context).is_pending());
        b.poll(1);
        assert_eq!(count.take(), 0);
        // Another future's waiting moves the clock.
        let mut other = [0_u8; 4];
        let limit = Duration::from_micros(100);
        b.block_on(b.recv(&there, &mut other, Rank(0), Tag(3)).within(limit)).unwrap_err();
        assert_eq!(count.take(), 1);
        assert!(matches!(
            receiving.poll(&mut context),
            Poll::Ready(Err(Error { cause: Cause::TimedOut, .. }))
        ));
    });
}

#[test]
fn a_message_that_is_too_long_fails_by_name_and_fills_the_buffer() {
    pair(|[a, b], [here, there]| {
        for len in LENGTHS {
            for room in LENGTHS.into_iter().filter(|room| *room < len) {
                let (data, mut buffer) = (pattern(5, len), vec![0; room]);
                let receiving = b.recv(&there, &mut buffer, Rank(0), Tag(1));
                let (sent, received) = both(a.send(&here, &data, Rank(1), Tag(1)), receiving);
                sent.unwrap();
                let (sent, room) = (len as u64, room as u64);
                let error = received.unwrap_err();
                assert_eq!((error.cause, error.bytes_done), (Cause::Truncated { sent, room }, room));
                assert_eq!(buffer, data[..room as usize]);
            }
        }
    });
}

#[test]
fn probes_find_messages_that_their_sender_holds_back() {
    pair(|[a, b], [here, there]| {
        let flood = async {
            let mut sending: Vec<_> = (0..10).map(|_| a.send(&here, &[7_u8; 30], Rank(1), Tag(1))).collect();
            sending.push(a.send(&here, &[9_u8; 30], Rank(1), Tag(2)));
            let mut sending: Vec<_> = sending.into_iter().map(Some).collect();
            core::future::poll_fn(|context| {
                for slot in &mut sending {
                    if let Some(send) = slot
                        && let Poll::Ready(result) = Pin::new(send).poll(context)
                    {
                        result.unwrap();
                        *slot = None;
                    }
                }
                if sending.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        };
        let search = async {
            let found = b.probe(&there, Source::Any, Tag(2)).await.unwrap();
            assert_eq!((found.bytes, found.tag), (30, Tag(2)));
            let mut buffer = [0_u8; 30];
            b.recv(&there, &mut buffer, Rank(0), Tag(2)).await.unwrap();
            assert_eq!(buffer, [9; 30]);
            for _ in 0..10 {
                b.recv(&there, &mut buffer, Rank(0), Tag(1)).await.unwrap();
                assert_eq!(buffer, [7; 30]);
            }
        };
        both(flood, search);
    });
}

#[test]
fn bounds_are_met_by_name() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let world = ranks[1].world();
    let mut few = [const { Sleeper::EMPTY }; REQUESTS - 1];
    let error = ranks[1].futures(&mut few).unwrap_err();
    let (need, have) = (REQUESTS as u32, REQUESTS as u32 - 1);
    assert_eq!(error.cause, Cause::TooSmall { what: Resource::Sleepers, need, have });

    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let futures = ranks[1].futures(&mut sleepers).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut buffers = [[0_u8; 4]; 3];
    let [one, two, three] = &mut buffers;
    let mut poll =
        |receiving: Pin<&mut dyn Future<Output = Result<Status, Error>>>| receiving.poll(&mut context);
    let mut first = pin!(futures.recv(&world, one, Rank(0), Tag(1)));
    assert!(poll(first.as_mut()).is_pending());
    {
        let second = pin!(futures.recv(&world, two, Rank(0), Tag(1)));
        assert!(poll(second).is_pending());
        let third = pin!(futures.recv(&world, &mut three[..], Rank(0), Tag(1)));
        let Poll::Ready(Err(error)) = poll(third) else { panic!("two blocks are pooled") };
        assert_eq!(error.cause, Cause::Full(Resource::PooledBlocks));
    }
    let third = pin!(futures.recv(&world, &mut three[..], Rank(0), Tag(1)));
    assert!(poll(third).is_pending(), "the second is dropped");

    let null = futures.block_on(futures.send(&world, &[1_u8], Rank::NULL, Tag(1))).unwrap();
    assert_eq!(null.bytes, 0);
    let error = futures.block_on(futures.send(&world, &[1_u8], Rank(2), Tag(1))).unwrap_err();
    assert_eq!(error.cause, Cause::RankOutOfRange { rank: 2, size: 2 });
    let error = futures.block_on(futures.probe(&world, Rank(0), Tag(u32::MAX - 1))).unwrap_err();
    assert!(matches!(error.cause, Cause::TagOutOfRange { .. }));
}

#[test]
fn who_waits_for_a_rank_that_dies_is_woken() {
    let mut job = Job::new(2, Shape::default());
    let dead = job.dead.clone();
    let mut ranks = job.ranks();
    let world = ranks[1].world();
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let futures = ranks[1].futures(&mut sleepers).unwrap();
    let count = Arc::new(WakeCount::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let (mut buffer, data) = ([0_u8; 200], [1_u8; 200]);
    let mut receiving = pin!(futures.recv(&world, &mut buffer, Rank(0), Tag(1)));
    let mut sending = pin!(futures.send(&world, &data, Rank(0), Tag(1)));
    let mut probing = pin!(futures.probe(&world, Source::Any, Tag(9)));
    assert!(receiving.as_mut().poll(&mut context).is_pending());
    assert!(sending.as_mut().poll(&mut context).is_pending());
    assert!(probing.as_mut().poll(&mut context).is_pending());
    dead.set(Some(0));
    futures.poll(64);
    assert_eq!(count.take(), 3);
    for result in [receiving.poll(&mut context), sending.poll(&mut context), probing.poll(&mut context)] {
        assert!(matches!(result, Poll::Ready(Err(Error { cause: Cause::PeerDead, .. }))), "{result:?}");
    }
}

/// A matched probe takes what it finds, a future's probe never does: not even if a matched one was
/// made before, and the future is dropped before it learns of its message.
#[test]
fn a_dropped_probe_holds_no_message_that_its_sender_holds_back() {
    let mut job = Job::new(2, Shape::default());
    let mut ranks = job.ranks();
    let [here, there] = [ranks[0].world(), ranks[1].world()];
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let [first, second] = &mut ranks[..] else { panic!("two ranks") };
    let mut context = Context::from_waker(Waker::noop());
    first
        .scope(|one| {
            let mut sending = Vec::new();
            for tag in [1, 1, 1, 1, 1, 2] {
                sending.push(one.isend(&here, &[7_u8; 8], Rank(1), Tag(tag))?);
            }
            while one.poll(64) + second.poll(64) > 0 {}
            assert!(second.improbe(&there, Source::Any, Tag(3))?.is_none(), "a matched probe is under way");
            while one.poll(64) + second.poll(64) > 0 {}
            let futures = second.futures(&mut sleepers)?;
            {
                let mut probing = pin!(futures.probe(&there, Source::Any, Tag(2)));
                assert!(probing.as_mut().poll(&mut context).is_pending());
                while one.poll(64) + futures.poll(64) > 0 {}
            }
            let mut buffer = [0_u8; 8];
            let mut receiving = pin!(futures.recv(&there, &mut buffer, Rank(0), Tag(2)));
            let received = (0..TURNS).find_map(|_| {
                one.poll(64);
                match receiving.as_mut().poll(&mut context) {
                    Poll::Ready(received) => Some(received),
                    Poll::Pending => None,
                }
            });
            assert_eq!(received.expect("it hangs")?.tag, Tag(2));
            for _ in 0..5 {
                let mut buffer = [0_u8; 8];
                futures.block_on(futures.recv(&there, &mut buffer, Rank(0), Tag(1)))?;
                while one.poll(64) + futures.poll(64) > 0 {}
            }
            one.wait_all(&mut sending)
        })
        .unwrap();
}
