//! A bound is never a deadlock: far more messages are outstanding than the receiver has envelopes,
//! and each receive gets its message all the same, at once, wherever it waits. On both wires of the
//! simulator, under faults.

use core::fmt;

use aldis_kernel::{Error, Rank, Request, Source, Status, Tag, storage_type};
use aldis_sim::{Outcome, Profile, RunFault, SimConfig, SimEndpoint, Wire, faults, simulate_nodes};

/// Sends outstanding with one tag.
const FLOOD: usize = 10_000;
/// 8 envelopes a peer, no eager blocks, and a request for each send.
type Wide<const REQUESTS: usize> = storage_type!(9, REQUESTS, 2, 8, 0, 0, 0, 16);

const COMMON: Tag = Tag(1);
const WANTED: Tag = Tag(2);

fn config(seed: u64, ranks: u32, wire: Wire) -> SimConfig {
    SimConfig { wire, faults: Profile::Swarm, ..SimConfig::new(seed, ranks) }
}

/// Seeds, as many as are asked for, in whose runs frames get lost.
fn lossy(ranks: u32, count: usize) -> impl Iterator<Item = u64> {
    let loses = move |seed: &u64| {
        let faults = faults(&config(*seed, ranks, Wire::Frames));
        faults.iter().any(|fault| matches!(fault, RunFault::Loss { .. } | RunFault::Partition { .. }))
    };
    (0..).filter(loses).take(count)
}

/// Runs `program` on `ranks` nodes, each with a storage of its own, and panics with the report if
/// it fails.
fn run<const REQUESTS: usize>(
    seed: u64,
    ranks: u32,
    wire: Wire,
    program: fn(&mut SimEndpoint<'_>) -> Outcome,
) {
    // The storage is made on the rank's stack, copied a few times in a debug build, before it moves
    // to the heap.
    let stack_bytes = (256 << 10) + 8 * size_of::<Wide<REQUESTS>>();
    let config = config(seed, ranks, wire);
    let config = SimConfig { stack_bytes, ..config };
    let report = simulate_nodes(&config, move |node| {
        let mut storage = Box::new(Wide::<REQUESTS>::new());
        node.with_memory(storage.memory()).run(program)
    });
    let report = report.unwrap();
    assert_eq!(report.failure, None, "{report}");
}

/// Sends `count` numbered messages with the common tag and then one with the other, all at a time.
fn send_all(ep: &mut SimEndpoint<'_>, count: usize, to: Rank) -> Result<(), Error> {
    let (world, last) = (ep.world(), [u64::MAX]);
    let numbers: Vec<[u64; 1]> = (0..count as u64).map(|number| [number]).collect();
    ep.scope(|scope| {
        let mut sends: Vec<Request<'_>> = Vec::with_capacity(count + 1);
        for number in &numbers {
            sends.push(scope.isend(&world, number, to, COMMON)?);
        }
        sends.push(scope.isend(&world, &last, to, WANTED)?);
        scope.wait_all(&mut sends)
    })
}

/// A message that is due.
struct NumberedMessage {
    from: u32,
    tag: Tag,
    number: u64,
}

fn expect(status: Status, buffer: [u64; 1], due: &NumberedMessage) -> Outcome {
    let &NumberedMessage { from, tag, number } = due;
    if (status.source.0, status.tag, buffer) == (from, tag, [number]) {
        return Ok(());
    }
    Err(Wrong { status, number: buffer[0], due: number }.into())
}

#[derive(Debug)]
struct Wrong {
    status: Status,
    number: u64,
    due: u64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {} came where {} was due", self.status, self.number, self.due)
    }
}

impl core::error::Error for Wrong {}

fn last_first(ep: &mut SimEndpoint<'_>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0]);
    if world.rank() == Rank(1) {
        return Ok(send_all(ep, FLOOD, Rank(0))?);
    }
    let status = ep.recv(&world, &mut buffer, Rank(1), WANTED)?;
    expect(status, buffer, &NumberedMessage { from: 1, tag: WANTED, number: u64::MAX })?;
    for number in 0..FLOOD as u64 {
        let status = ep.recv(&world, &mut buffer, Rank(1), COMMON)?;
        expect(status, buffer, &NumberedMessage { from: 1, tag: COMMON, number })?;
    }
    if ep.counters().unexpected_peak > 8 {
        Err("more messages were kept than there is room for".into())
    } else {
        Ok(())
    }
}

#[test]
fn ten_thousand_sends_are_outstanding_and_the_last_is_received_first() {
    run::<{ FLOOD + 16 }>(1, 2, Wire::Messages, last_first);
    for seed in lossy(2, 4) {
        run::<{ FLOOD + 16 }>(seed, 2, Wire::Frames, last_first);
    }
}

/// Sends of each of the eight, when all of them flood one.
const EACH: usize = FLOOD / 8;

fn eight_to_one(ep: &mut SimEndpoint<'_>) -> Outcome {
    let (world, mut buffer) = (ep.world(), [0]);
    if world.rank() != Rank(0) {
        return Ok(send_all(ep, EACH, Rank(0))?);
    }
    let mut seen = [false; 9];
    for _ in 1..world.size() {
        let status = ep.recv(&world, &mut buffer, Source::Any, WANTED)?;
        expect(status, buffer, &NumberedMessage { from: status.source.0, tag: WANTED, number: u64::MAX })?;
        if core::mem::replace(&mut seen[status.source.0 as usize], true) {
            return Err("a message was received twice".into());
        }
    }
    let mut next = [0; 9];
    for _ in 0..EACH * 8 {
        let status = ep.recv(&world, &mut buffer, Source::Any, COMMON)?;
        let number = &mut next[status.source.0 as usize];
        expect(status, buffer, &NumberedMessage { from: status.source.0, tag: COMMON, number: *number })?;
        *number += 1;
    }
    Ok(())
}

#[test]
fn eight_flood_one_and_wildcards_take_what_each_holds_back() {
    run::<{ EACH + 16 }>(1, 9, Wire::Messages, eight_to_one);
    for seed in lossy(9, 2) {
        run::<{ EACH + 16 }>(seed, 9, Wire::Frames, eight_to_one);
    }
}
