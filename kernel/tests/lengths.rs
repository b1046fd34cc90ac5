//! Lengths and offsets near 2^32 and 2^64, honest and hostile: a peer can announce anything, and is
//! answered within bounds or cut off by name.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use aldis_kernel::hal::cause::Malformed;
use aldis_kernel::hal::{Cause, Epoch, Handle};
use aldis_kernel::protocols::header::{
    self, Body, Finish, Header, Kind, Label, Packet, about, clear_to_send,
};
use aldis_kernel::{Rank, Sleeper, Tag};
use aldis_kit::rig::{Job, REQUESTS, RigQueue, Shape, pattern};

/// The request of rank 0 that is announced to rank 1.
const SENDER: Handle = Handle { slot: 7, generation: 9 };

/// A message of rank 0, which no endpoint has sent.
fn header(kind: Kind, context: u32, length: u64) -> Header {
    let (epoch, limits, tag) = (Epoch(100), Default::default(), u32::from(kind.is_matchable()));
    Header { kind, limits, epoch, context, source: 0, tag, sequence: 0, length }
}

/// Returns what rank 1 asks rank 0 for, taken off the wire: its request, the range, and whether
/// more will follow.
fn asked(queue: &RigQueue) -> Option<(Handle, u64, u64, bool)> {
    let found = queue.borrow_mut().drain(..).collect::<Vec<_>>();
    found.iter().find_map(|message| match Packet::parse(message).unwrap() {
        Packet { header, body: Body::ClearToSend { sender, receiver, offset, more, .. } } => {
            assert_eq!(sender, SENDER);
            Some((receiver, offset, header.length, more))
        }
        _ => None,
    })
}

fn whole(header: Header, body: &[u8]) -> Vec<u8> {
    [&header.emit()[..], body].concat()
}

/// A fragment of rank 0.
fn data(receiver: Handle, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let header = header(Kind::Data, 0, bytes.len() as u64);
    [&header.emit_data(receiver, offset)[..], bytes].concat()
}

fn finish(receiver: Handle) -> Vec<u8> {
    whole(header(Kind::Finish, 0, 0), &header::finish(receiver, Finish::Complete, &Label::NONE))
}

#[test]
fn any_announced_length_is_received_as_far_as_there_is_room() {
    for sent in [9, u64::from(u32::MAX), 1 << 32, (1 << 32) + 5, u64::MAX - 1, u64::MAX] {
        let mut job = Job::new(2, Shape::default());
        let (there, back) = (job.queue(0, 1), job.queue(1, 0));
        let mut ranks = job.ranks();
        let world = ranks[1].world();
        there.borrow_mut().push_back(whole(header(Kind::Announce, world.context(), sent), &about(SENDER)));
        let found = ranks[1].probe(&world, Rank(0), Tag(1)).unwrap();
        assert_eq!(found.bytes, sent);
        let mut buffer = [0_u8; 8];
        let error = ranks[1]
            .scope(|scope| {
                let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
                scope.poll(8);
                let (receiver, start, end, more) = asked(&back).unwrap();
                assert_eq!((start, end, more), (0, 8, false));
                there.borrow_mut().push_back(data(receiver, 0, b"received"));
                there.borrow_mut().push_back(finish(receiver));
                scope.wait(receiving)
            })
            .unwrap_err();
        assert_eq!((error.cause, error.bytes_done), (Cause::Truncated { sent, room: 8 }, 8));
        assert_eq!(&buffer, b"received");
    }
}

#[test]
fn a_future_asks_for_as_much_as_it_has_room_for_of_a_message_without_end() {
    let mut job = Job::new(2, Shape::default());
    let (there, back) = (job.queue(0, 1), job.queue(1, 0));
    let mut ranks = job.ranks();
    let world = ranks[1].world();
    there.borrow_mut().push_back(whole(header(Kind::Announce, world.context(), u64::MAX), &about(SENDER)));
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let futures = ranks[1].futures(&mut sleepers).unwrap();
    let (whole, mut buffer) = (pattern(1, 150), [0_u8; 150]);
    let result = {
        let mut receiving = pin!(futures.recv(&world, &mut buffer, Rank(0), Tag(1)));
        let mut context = Context::from_waker(Waker::noop());
        let mut asks = Vec::new();
        loop {
            if let Poll::Ready(result) = receiving.as_mut().poll(&mut context) {
                assert_eq!(asks, [(0, 64, true), (64, 128, true), (128, 150, false)]);
                break result;
            }
            let Some((receiver, start, end, more)) = asked(&back) else { continue };
            asks.push((start, end, more));
            there.borrow_mut().push_back(data(receiver, start, &whole[start as usize..end as usize]));
            if !more {
                there.borrow_mut().push_back(finish(receiver));
            }
        }
    };
    assert_eq!(result.unwrap_err().cause, Cause::Truncated { sent: u64::MAX, room: 150 });
    assert_eq!(buffer[..], whole);
}

/// Returns the cause by which rank 0 is lost when it sends a fragment that was not asked for.
fn after_fragment(offset: u64) -> Cause {
    let mut job = Job::new(2, Shape::default());
    let (there, back) = (job.queue(0, 1), job.queue(1, 0));
    let mut ranks = job.ranks();
    let world = ranks[1].world();
    there.borrow_mut().push_back(whole(header(Kind::Announce, world.context(), 1 << 33), &about(SENDER)));
    ranks[1].poll(8);
    let mut buffer = [0x55_u8; 64];
    let error = ranks[1]
        .scope(|scope| {
            let receiving = scope.irecv(&world, &mut buffer, Rank(0), Tag(1))?;
            scope.poll(8);
            let (receiver, ..) = asked(&back).unwrap();
            there.borrow_mut().push_back(data(receiver, offset, &[0; 16]));
            scope.wait(receiving)
        })
        .unwrap_err();
    assert_eq!(buffer, [0x55; 64], "nothing was written");
    error.cause
}

#[test]
fn fragments_that_were_not_asked_for_are_written_nowhere() {
    for offset in [1, 64, 1 << 32, (1 << 32) + 1, u64::MAX - 16, u64::MAX - 15, u64::MAX] {
        assert_eq!(after_fragment(offset), Cause::Malformed(Malformed::Length), "offset {offset:#x}");
    }
}

#[test]
fn ranges_beyond_a_message_are_not_sent() {
    let wrong = [
        (0, 201, false),
        (0, 1 << 32, false),
        (0, u64::MAX, false),
        (u64::MAX, u64::MAX, false),
        (201, 201, false),
        (1 << 32, (1 << 32) + 8, true),
        (5, 5, true),
    ];
    for (start, end, more) in wrong {
        let mut job = Job::new(2, Shape::default());
        let (there, back) = (job.queue(0, 1), job.queue(1, 0));
        let mut ranks = job.ranks();
        let world = ranks[0].world();
        let data = pattern(2, 200);
        let error = ranks[0]
            .scope(|scope| {
                let sending = scope.isend(&world, &data, Rank(1), Tag(1))?;
                scope.poll(8);
                let announced = there.borrow_mut().pop_front().unwrap();
                let Body::Announce { sender, .. } = Packet::parse(&announced).unwrap().body else {
                    panic!("a message of several fragments is announced");
                };
                let clear = Header {
                    epoch: Epoch(101),
                    tag: u32::from(more) << 1,
                    ..header(Kind::ClearToSend, 0, end)
                };
                back.borrow_mut().push_back(whole(clear, &clear_to_send(sender, SENDER, start)));
                scope.wait(sending)
            })
            .unwrap_err();
        assert_eq!(error.cause, Cause::Malformed(Malformed::Length), "{start:#x}..{end:#x}, {more}");
        assert!(there.borrow().is_empty(), "nothing was sent");
    }
}
