//! Two ranks that exchange long messages in every way, check every byte, and tell how the bytes
//! have moved: what the tests of single copies start. In a job with an arena what is sent lies
//! there, and what is received too. With the argument `die` one of them dies while it looks at a
//! message of the other's.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;

use aldis_bench::bytes::Bytes;
use aldis_kernel::hal::Cause;
use aldis_kernel::plane::prelude::*;
use aldis_kernel::{Comm, Rank, Request, Tag};
use aldis_linux::HostEndpoint;
use aldis_linux::ShmArena;

mod views;

type Outcome = Result<(), Box<dyn Error>>;

/// Around the sizes at which protocols and chunks end, in bytes.
const SIZES: [usize; 13] = [
    1,
    8 << 10,
    (8 << 10) + 1,
    (16 << 10) - 1,
    16 << 10,
    (16 << 10) + 1,
    (32 << 10) + 5,
    (64 << 10) - 1,
    64 << 10,
    (64 << 10) + 1,
    256 << 10,
    (1 << 20) - 3,
    (4 << 20) + 1,
];

fn main() -> ExitCode {
    aldis_linux::run(|ep: &mut HostEndpoint| {
        let world = ep.world();
        if std::env::args().nth(1).as_deref() == Some("die") {
            return views::die(ep, &world);
        }
        for (round, &len) in SIZES.iter().enumerate() {
            exchange(ep, &world, round as u32, len)?;
        }
        apart(ep, &world)?;
        truncated(ep, &world)?;
        many(ep, &world)?;
        abandoned(ep, &world)?;
        let borrowed = views::views(ep, &world)?;
        let (reads, unread) = (ep.counters().reads, ep.counters().unread);
        let other = Rank(1 - world.rank().0);
        let explanation = ep.explain(other, 1 << 20)?.to_string();
        println!("rank {} has read {reads} messages, and {unread} were not\n{explanation}", world.rank());
        let inside = Bytes::new(ep.shm_arena(), 9000, 1)?;
        for (place, bytes) in [("inside", &inside[..]), ("outside", &[0; 9000])] {
            let explanation = ep.explain_buffer(other, bytes)?.to_string();
            let line = explanation.lines().find(|line| line.contains("mapped memory")).unwrap_or_default();
            println!("{place}: {line}");
        }
        println!("of them it has looked at {borrowed} where they are");
        Ok(())
    })
}

/// Bytes that tell where they belong, differently in every round and from every rank.
fn pattern(from: Rank, round: u32, len: usize) -> Vec<u8> {
    let seed = (from.0 + 1).wrapping_mul(0x9E37) ^ round.wrapping_mul(0x85EB);
    let piece: Vec<u8> =
        (0..251u32).map(|index| (index.wrapping_mul(31).wrapping_add(seed) >> 3) as u8).collect();
    let mut bytes = piece.repeat(len / piece.len() + 1);
    bytes.truncate(len);
    bytes
}

fn check(what: &str, got: &[u8], expected: &[u8]) -> Outcome {
    if got == expected {
        return Ok(());
    }
    let at = got.iter().zip(expected).position(|(one, other)| one != other);
    Err(format!("{what}, {} bytes: byte {at:?} is wrong", expected.len()).into())
}

/// Both ways at a time, and one way in synchronous mode to a receive that comes late.
fn exchange(ep: &mut HostEndpoint, world: &Comm, round: u32, len: usize) -> Outcome {
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    let data = Bytes::of(ep.shm_arena(), &pattern(me, round, len))?;
    let mut buffer = Bytes::new(ep.shm_arena(), len, 0xEE)?;
    ep.sendrecv(world, &data[..], other, Tag(1), &mut buffer[..], other, Tag(1))?;
    check("both ways", &buffer, &pattern(other, round, len))?;
    if me == Rank(0) {
        ep.ssend(world, &data[..], other, Tag(2))?;
    } else {
        let matched = ep.mprobe(world, other, Tag(2))?;
        buffer.fill(0xEE);
        ep.mrecv(matched, &mut buffer[..])?;
        check("after a probe", &buffer, &pattern(other, round, len))?;
    }
    Ok(())
}

/// From and to every place within a line of memory, the arena's at one end and the heap's at the
/// other.
fn apart(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    const SPAN: usize = 70_000;
    let other = Rank(1 - world.rank().0);
    let whole = Bytes::of(ep.shm_arena(), &pattern(Rank(0), 98, SPAN + 64))?;
    for place in 0..64 {
        let (to, len) = ((place * 7) % 64, SPAN - 61 * place);
        if world.rank() == Rank(0) {
            ep.send(world, &whole[place..place + len], other, Tag(6))?;
            continue;
        }
        let mut heap = vec![0xEE; SPAN + 64];
        ep.recv(world, &mut heap[to..to + len], other, Tag(6))?;
        check("between places", &heap[to..to + len], &whole[place..place + len])?;
        check("before a place", &heap[..to], &vec![0xEE; to])?;
        check("behind a place", &heap[to + len..], &vec![0xEE; SPAN + 64 - to - len])?;
    }
    Ok(())
}

/// A message longer than the buffer: its first bytes, and nothing behind them.
fn truncated(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    let data = Bytes::of(ep.shm_arena(), &pattern(Rank(0), 99, 300_000))?;
    if world.rank() == Rank(0) {
        ep.send(world, &data[..], Rank(1), Tag(3))?;
        return Ok(());
    }
    let mut buffer = Bytes::new(ep.shm_arena(), 200_000, 0xEE)?;
    let error = ep.recv(world, &mut buffer[..150_001], Rank(0), Tag(3)).expect_err("it does not fit");
    if error.cause != (Cause::Truncated { sent: 300_000, room: 150_001 }) {
        return Err(error.into());
    }
    check("what fits", &buffer[..150_001], &data[..150_001])?;
    check("what is behind it", &buffer[150_001..], &[0xEE; 49_999])
}

/// More messages at a time than there are regions.
fn many(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    let arena = ep.shm_arena();
    let data = (0..80).map(|round| Bytes::of(arena, &pattern(me, round, 70_000)));
    let data = data.collect::<Result<Vec<_>, _>>()?;
    let buffers = (0..80).map(|_| Bytes::new(arena, 70_000, 0xEE));
    let mut buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    ep.scope(|s| {
        let mut all: Vec<Request<'_>> = Vec::new();
        for buffer in &mut buffers {
            all.push(s.irecv(world, &mut buffer[..], other, Tag(4))?);
        }
        for message in &data {
            all.push(s.isend(world, &message[..], other, Tag(4))?);
        }
        s.wait_all(&mut all)
    })?;
    for (round, buffer) in (0..).zip(&buffers) {
        check("one of many", buffer, &pattern(other, round, 70_000))?;
    }
    Ok(())
}

/// Bytes of a message that is given up.
const LEN: usize = 1 << 20;

/// Receives and sends that are given up while their data moves, at whatever moment: what was let go
/// of is not touched, and the ranks still understand each other.
fn abandoned(ep: &mut HostEndpoint, world: &Comm) -> Outcome {
    for round in 0..24u32 {
        let sends = (round + world.rank().0).is_multiple_of(2);
        let sender_gives_up = round % 4 < 2;
        // From nothing to about the time that the message takes.
        let limit = Duration::from_micros(u64::from(round) * 30);
        match (sends, sender_gives_up) {
            (true, true) => send_for(ep, world, round, limit)?,
            (true, false) => send_for(ep, world, round, Duration::from_secs(20))?,
            (false, true) => receive_what_comes(ep, world, round)?,
            (false, false) => receive_for(ep, world, round, limit)?,
        }
    }
    // No rank leaves before the other is through.
    let other = Rank(1 - world.rank().0);
    ep.sendrecv(world, &[0u8], other, Tag(5), &mut [0u8], other, Tag(5))?;
    Ok(())
}

/// Sends for a time, and says that this is over.
fn send_for(ep: &mut HostEndpoint, world: &Comm, round: u32, limit: Duration) -> Outcome {
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    let mut bytes = Bytes::of(ep.shm_arena(), &pattern(me, round, LEN))?;
    match ep.within(limit).send(world, &bytes[..], other, Tag(100 + round)) {
        Err(error) if error.cause != Cause::TimedOut => return Err(error.into()),
        _ => {}
    }
    // A receiver that takes this for the message is found out.
    bytes.fill(0xDD);
    ep.send(world, &[0u8], other, Tag(5))?;
    Ok(())
}

/// Receives a message that may be given up by its sender: all of it, or nothing.
fn receive_what_comes(ep: &mut HostEndpoint, world: &Comm, round: u32) -> Outcome {
    let other = Rank(1 - world.rank().0);
    let (mut bytes, mut told) = (Bytes::new(ep.shm_arena(), LEN, 0xEE)?, [0u8]);
    let whole = ep.scope(|s| {
        let mut receiving = s.irecv(world, &mut bytes[..], other, Tag(100 + round))?;
        let over = s.irecv(world, &mut told, other, Tag(5))?;
        s.wait(over)?;
        loop {
            match s.test(&mut receiving) {
                Ok(Some(_)) => return Ok(true),
                // It was not even announced.
                Ok(None) if s.cancel(&mut receiving) => return Ok(false),
                Ok(None) => {}
                Err(error) if error.cause == Cause::Withdrawn => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    })?;
    if whole { check("not given up", &bytes, &pattern(other, round, LEN)) } else { Ok(()) }
}

/// Receives for a time; what comes later is discarded.
fn receive_for(ep: &mut HostEndpoint, world: &Comm, round: u32, limit: Duration) -> Outcome {
    let other = Rank(1 - world.rank().0);
    let (mut bytes, mut told) = (Bytes::new(ep.shm_arena(), LEN, 0xEE)?, [0u8]);
    match ep.within(limit).recv(world, &mut bytes[..], other, Tag(100 + round)) {
        Ok(_) => check("in time", &bytes, &pattern(other, round, LEN))?,
        Err(error) if error.cause == Cause::TimedOut => {}
        Err(error) => return Err(error.into()),
    }
    bytes.fill(0xDD);
    ep.scope(|s| {
        let mut over = s.irecv(world, &mut told, other, Tag(5))?;
        while s.test(&mut over)?.is_none() {
            if let Some(message) = s.improbe(world, other, Tag(100 + round))? {
                s.discard_matched(message)?;
            }
        }
        Ok(())
    })?;
    check("let go of", &bytes, &vec![0xDD; LEN])
}
