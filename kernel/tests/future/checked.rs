//! A message with a checksum, received by a future through a block that is smaller than the
//! message.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use aldis_kernel::datatype::{Basic, TypeTable};
use aldis_kernel::hal::Cause;
use aldis_kernel::{Error, Rank, Sleeper, Status, Tag, Typed};
use aldis_kit::rig::{Job, REQUESTS, Shape, pattern};

use super::TURNS;

/// Sends `len` bytes with a checksum to a future with room for `room`; if `spoil`, one of the
/// fragments is damaged.
fn exchange(len: usize, room: usize, spoil: Option<usize>) -> (Result<Status, Error>, Vec<u8>) {
    let (mut job, mut tables) = (Job::new(2, Shape::default()), [const { TypeTable::<1, 1>::new() }; 2]);
    let queue = job.queue(0, 1);
    let mut ranks = job.ranks();
    for (rank, table) in ranks.iter_mut().zip(&mut tables) {
        rank.attach_types(table.types()).unwrap();
    }
    let mut sleepers = [const { Sleeper::EMPTY }; REQUESTS];
    let [one, other] = &mut ranks[..] else { panic!("two ranks") };
    let (data, mut buffer) = (pattern(5, len), vec![0; room]);
    let (world, there) = (one.world(), other.world());
    let result = one.scope(|s| {
        let here = Typed::new(&data, len as u64, Basic::U8).checked();
        let sending = s.isend_typed(&world, here, Rank(1), Tag(1))?;
        let futures = other.futures(&mut sleepers).unwrap();
        let mut receiving = pin!(futures.recv(&there, &mut buffer, Rank(0), Tag(1)));
        let (mut context, mut left) = (Context::from_waker(Waker::noop()), spoil);
        for _ in 0..TURNS {
            s.poll(1);
            let mut wire = queue.borrow_mut();
            if let Some(bytes) = wire.back_mut().filter(|bytes| bytes[0] == 5 && left.is_some()) {
                left = left.and_then(|left| left.checked_sub(1)).or_else(|| {
                    *bytes.last_mut().unwrap() ^= 4;
                    None
                });
            }
            drop(wire);
            if let Poll::Ready(result) = receiving.as_mut().poll(&mut context) {
                while s.poll(8) > 0 {}
                s.wait(sending)?;
                return Ok(result);
            }
        }
        panic!("it hangs")
    });
    (result.unwrap(), buffer)
}

#[test]
fn all_pieces_are_checked_together() {
    // Blocks have 64 bytes.
    for len in [65, 128, 500, 3000] {
        let (received, buffer) = exchange(len, len, None);
        assert_eq!((received.unwrap().bytes, buffer), (len as u64, pattern(5, len)));
        for fragment in [0, 1, 3] {
            if fragment > 0 && len < 500 {
                continue;
            }
            let (received, buffer) = exchange(len, len + 7, Some(fragment));
            let error = received.unwrap_err();
            assert!(
                matches!(error.cause, Cause::Corrupt { .. }),
                "{len} bytes, fragment {fragment}: {error}"
            );
            assert_eq!(buffer.iter().zip(pattern(5, len)).filter(|(got, sent)| *got != sent).count(), 1);
        }
        let (received, buffer) = exchange(len, len - 1, Some(0));
        assert_eq!(received.unwrap_err().cause, Cause::Truncated { sent: len as u64, room: len as u64 - 1 });
        assert_eq!(buffer.len(), len - 1);
    }
}
