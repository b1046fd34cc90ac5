//! The sizing rule, as a program sees it: with the smallest storage that compiles - one envelope a
//! peer, no eager block, and the request slots of one blocking call - every exchange of blocking
//! calls ends, under faults, on both wires.

use core::fmt;

use aldis_kernel::sizing::REQUESTS_MIN;
use aldis_kernel::{Rank, Source, Tag, TagMatch, storage_type};
use aldis_sim::{Outcome, Profile, SimConfig, SimEndpoint, Wire, simulate_nodes};

const RANKS: u32 = 5;
const ROUNDS: usize = 12;
const SEEDS: u64 = 24;
type LeastStorage = storage_type!(RANKS as usize, REQUESTS_MIN, 2, 1, 0, 0, 0, 1);

const RING: Tag = Tag(1);
const REPORT: Tag = Tag(2);
const TOKEN: Tag = Tag(3);

#[derive(Debug)]
struct WrongMessage(&'static str, u32);

impl fmt::Display for WrongMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from rank {}", self.0, self.1)
    }
}

impl core::error::Error for WrongMessage {}

/// Returns the data that `rank` sends in `round`, from nothing to several fragments.
fn payload(rank: u32, round: usize) -> Vec<u32> {
    let count = round * round * 5;
    (0..count as u32).map(|index| index ^ (rank << 20)).collect()
}

/// Every rank sends to the right at a time.
fn ring(ep: &mut SimEndpoint<'_>, round: usize) -> Outcome {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (right, left) = (Rank((me + 1) % size), Rank((me + size - 1) % size));
    let (data, due) = (payload(me, round), payload(left.0, round));
    let mut buffer = vec![0; due.len()];
    ep.sendrecv(&world, &data, right, RING, &mut buffer, left, RING)?;
    if buffer == due { Ok(()) } else { Err(WrongMessage("wrong bytes", left.0).into()) }
}

/// All to the first, which looks what there is before it takes it, and takes the last that reports
/// first.
fn report(ep: &mut SimEndpoint<'_>, round: usize) -> Outcome {
    let (world, me) = (ep.world(), ep.world().rank().0);
    if me > 0 {
        ep.send(&world, &payload(me, round), Rank(0), REPORT)?;
        return Ok(());
    }
    for _ in 1..RANKS {
        let status = loop {
            if let Some(status) = ep.iprobe(&world, Source::Any, TagMatch::Any)? {
                break status;
            }
        };
        let due = payload(status.source.0, round);
        let mut buffer = vec![0; due.len()];
        ep.recv(&world, &mut buffer, status.source, REPORT)?;
        if buffer != due {
            return Err(WrongMessage("wrong report", status.source.0).into());
        }
    }
    Ok(())
}

/// A token around, each step synchronous.
fn token(ep: &mut SimEndpoint<'_>) -> Outcome {
    let (world, me) = (ep.world(), ep.world().rank().0);
    let (right, left) = (Rank((me + 1) % RANKS), Rank((me + RANKS - 1) % RANKS));
    let mut hops = [0u32];
    if me > 0 {
        ep.recv(&world, &mut hops, left, TOKEN)?;
        hops[0] += 1;
    }
    ep.ssend(&world, &hops, right, TOKEN)?;
    if me == 0 {
        ep.recv(&world, &mut hops, left, TOKEN)?;
        if hops != [RANKS - 1] {
            return Err(WrongMessage("wrong token", left.0).into());
        }
    }
    Ok(())
}

fn program(ep: &mut SimEndpoint<'_>) -> Outcome {
    for round in 0..ROUNDS {
        ring(ep, round)?;
        report(ep, round)?;
        token(ep)?;
    }
    Ok(())
}

#[test]
fn the_smallest_storage_runs_every_exchange_of_blocking_calls() {
    for seed in 0..SEEDS {
        let wire = Wire::ALL[seed as usize % 2];
        let config = SimConfig { wire, faults: Profile::Swarm, ..SimConfig::new(seed, RANKS) };
        let report = simulate_nodes(&config, |node| {
            let mut storage = Box::new(LeastStorage::new());
            node.with_memory(storage.memory()).run(program)
        });
        let report = report.unwrap();
        assert_eq!(report.failure, None, "{report}");
    }
}
