//! Messages that are looked at where their sender has them, if that can be, and are the same in any
//! case.

use core::time::Duration;

use aldis_bench::bytes::Bytes;
use aldis_kernel::hal::Cause;
use aldis_kernel::{Comm, Rank, Source, Tag, TagMatch};
use aldis_linux::{HostEndpoint, ShmArena};

use crate::{Outcome, SIZES, check, pattern};

const VIEWED: Tag = Tag(20);
const ANSWER: Tag = Tag(21);
const HEAP: Tag = Tag(22);

/// The time that a sender waits for a receiver that looks for too long.
const PATIENCE: Duration = Duration::from_millis(50);

/// Looks at messages of every size from either rank; how many there were that were not copied.
pub(crate) fn views(ep: &mut HostEndpoint, world: &Comm) -> Result<u32, Box<dyn core::error::Error>> {
    let mut borrowed = 0;
    for (round, &len) in (0..).zip(&SIZES) {
        for sender in [Rank(0), Rank(1)] {
            // One after the other, so that a message comes before its receive or after it.
            for early in [true, false] {
                if world.rank() == sender {
                    send(ep, round, len, early)?;
                } else {
                    borrowed += look(ep, round, len, early)?;
                }
            }
        }
    }
    truncated(ep, world)?;
    withdrawn(ep, world)?;
    Ok(borrowed)
}

/// Sends from the arena, if there is one, and from the heap; before the other has said that it
/// receives, or after.
fn send(ep: &mut HostEndpoint, round: u32, len: usize, early: bool) -> Outcome {
    let world = &ep.world();
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    let mut data = Bytes::of(ep.shm_arena(), &pattern(me, round, len))?;
    let heap = pattern(me, round + 50, len);
    let mut token = [0u8];
    if !early {
        ep.recv(world, &mut token, other, ANSWER)?;
    }
    ep.scope(|s| {
        let first = s.isend(world, &data[..], other, VIEWED)?;
        let second = s.isend(world, &heap[..], other, HEAP)?;
        if early {
            let told = s.isend(world, &token, other, ANSWER)?;
            s.wait(told)?;
        }
        s.wait(first)?;
        s.wait(second).map(drop)
    })?;
    // A receiver that looks at it still is found out.
    data.fill(0xDD);
    Ok(())
}

/// The other side of [`send`]; how many of the two messages were not copied.
fn look(
    ep: &mut HostEndpoint,
    round: u32,
    len: usize,
    early: bool,
) -> Result<u32, Box<dyn core::error::Error>> {
    let world = &ep.world();
    let other = Rank(1 - world.rank().0);
    let mut token = [0u8];
    if early {
        ep.recv(world, &mut token, other, ANSWER)?;
    } else {
        ep.send(world, &token, other, ANSWER)?;
    }
    let mut borrowed = 0;
    let (mut fallback, mut copy) = (vec![0xEE; len + 3], vec![0; len]);
    let (from, tag) = if round.is_multiple_of(2) {
        (Source::Any, TagMatch::Tag(VIEWED))
    } else {
        (Source::Rank(other), TagMatch::Any)
    };
    for (from, tag, seed) in [(from, tag, round), (Source::Rank(other), HEAP.into(), round + 50)] {
        let mut view = ep.recv_view(world, &mut fallback, from, tag)?;
        // Served meanwhile, for some time.
        (0..100).for_each(|_| _ = view.poll(8));
        let elements = view.elements()?;
        if !elements.copy_to(0, &mut copy) || elements.len() != len || elements.get(len).is_some() {
            return Err(format!("{} of {len} bytes are seen", elements.len()).into());
        }
        check("looked at", &copy, &pattern(other, seed, len))?;
        if len < 1 << 17 && !elements.iter().eq(copy.iter().copied()) {
            return Err("what is looked at is not what is copied".into());
        }
        borrowed += u32::from(view.is_borrowed());
        let status = view.finish()?;
        if (status.source, status.bytes) != (other, len as u64) {
            return Err(format!("{status:?} of {len} bytes").into());
        }
    }
    Ok(borrowed)
}

/// A message that is longer than the fallback is truncated, wherever it is.
fn truncated(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    let data = Bytes::of(ep.shm_arena(), &pattern(Rank(0), 99, 100_000))?;
    if world.rank() == Rank(0) {
        ep.send(world, &data[..], Rank(1), VIEWED)?;
        return Ok(());
    }
    let mut fallback = vec![0; 99_999];
    let error = ep.recv_view(world, &mut fallback, Rank(0), VIEWED).map(drop).expect_err("it does not fit");
    if error.cause != (Cause::Truncated { sent: 100_000, room: 99_999 }) {
        return Err(error.into());
    }
    check("what fits", &fallback, &data[..99_999])
}

/// A message that is looked at for longer than its sender waits: the sender has its memory back in
/// time, and the receiver that looks is told.
fn withdrawn(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    const LEN: usize = 500_000;
    if world.rank() == Rank(0) {
        let mut data = Bytes::of(ep.shm_arena(), &pattern(Rank(0), 97, LEN))?;
        let late = match ep.within(PATIENCE).send(world, &data[..], Rank(1), VIEWED) {
            Ok(_) => 0u8,
            Err(error) if error.cause == Cause::TimedOut => 1,
            Err(error) => return Err(error.into()),
        };
        data.fill(0xDD);
        ep.send(world, &[late], Rank(1), ANSWER)?;
        // No rank leaves while the other still looks.
        ep.recv(world, &mut [0u8], Rank(1), ANSWER)?;
        return Ok(());
    }
    let mut fallback = vec![0; LEN];
    let whole = match ep.recv_view(world, &mut fallback, Rank(0), VIEWED) {
        Ok(mut view) if view.is_borrowed() => {
            while view.elements().is_ok() {
                view.poll(8);
            }
            match view.finish() {
                Err(error) if error.cause == Cause::Withdrawn => false,
                other => return Err(format!("{other:?} of what was withdrawn").into()),
            }
        }
        Ok(view) => view.finish().map(|_| true)?,
        // It came too late even for that.
        Err(error) if error.cause == Cause::Withdrawn => false,
        Err(error) => return Err(error.into()),
    };
    if whole {
        check("not given up", &fallback, &pattern(Rank(0), 97, LEN))?;
    }
    let mut late = [0u8];
    ep.recv(world, &mut late, Rank(0), ANSWER)?;
    ep.send(world, &[0u8], Rank(0), ANSWER)?;
    if whole || late == [1] { Ok(()) } else { Err("its sender has not noticed".into()) }
}

/// Rank 1 dies while it looks at a message of rank 0, which waits.
pub(crate) fn die(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    let data = Bytes::of(ep.shm_arena(), &pattern(Rank(0), 1, 100_000))?;
    if world.rank() == Rank(0) {
        ep.send(world, &data[..], Rank(1), VIEWED)?;
        return Err("it was not even looked at".into());
    }
    let mut fallback = vec![0; 100_000];
    let view = ep.recv_view(world, &mut fallback, Rank(0), VIEWED)?;
    if view.is_borrowed() {
        println!("rank 1 looks, and dies");
        std::process::abort();
    }
    Ok(())
}
