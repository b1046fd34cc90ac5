//! A flood: every rank but 0 sends far more than rank 0 has room for, all at a time, and rank 0
//! receives nothing at first. Memory stays what it was, the flooding ranks still exchange messages
//! with each other, and when rank 0 asks for the message that was sent last, it gets it at once:
//! what there is no room for waits at its sender, and is matched there.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/flood --messages 900
//! ```

use core::error::Error;
use std::process::ExitCode;

use aldis_kernel::{Comm, Rank, Request, Source, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Flood rank 0, receive the last message first, and show that memory was bounded.
#[derive(Parser)]
struct Options {
    /// Messages from each rank; all are under way at a time, so at most 1000
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=1000))]
    messages: u64,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

const COMMON: Tag = Tag(1);
const LAST: Tag = Tag(2);
const ASIDE: Tag = Tag(3);
/// The default storage's envelopes a peer: what rank 0 may be made to hold.
const ENVELOPES: u32 = 128;

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let world = ep.world();
        if world.rank() == Rank(0) { drain(ep, &world, &options) } else { flood(ep, &world, &options) }
    })
}

fn flood(ep: &mut HostEndpoint, world: &Comm, options: &Options) -> Result<(), Box<dyn Error>> {
    let numbers: Vec<[u64; 1]> = (0..options.messages).map(|number| [number]).collect();
    let neighbour = Rank(world.rank().0 ^ 1);
    let talks = neighbour.0 > 0 && neighbour.0 < world.size();
    let (mine, mut theirs) = ([u64::from(world.rank().0)], [0_u64]);
    ep.scope(|s| {
        let mut sends: Vec<Request<'_>> = Vec::new();
        for number in &numbers {
            sends.push(s.isend(world, number, Rank(0), COMMON)?);
        }
        sends.push(s.isend(world, &[u64::MAX], Rank(0), LAST)?);
        if talks {
            // Full as rank 0 is, no other rank waits for it.
            let heard = s.irecv(world, &mut theirs, neighbour, ASIDE)?;
            let said = s.isend(world, &mine, neighbour, ASIDE)?;
            s.wait_all(&mut [heard, said])?;
        }
        s.wait_all(&mut sends)
    })?;
    if talks && theirs != [u64::from(neighbour.0)] {
        return Err(format!("{neighbour} said {theirs:?}").into());
    }
    Ok(())
}

fn drain(ep: &mut HostEndpoint, world: &Comm, options: &Options) -> Result<(), Box<dyn Error>> {
    let others = world.size() - 1;
    let mut number = [0_u64];
    for _ in 0..others {
        ep.recv(world, &mut number, Source::Any, LAST)?;
    }
    let mut next = vec![0; world.size() as usize];
    for _ in 0..options.messages * u64::from(others) {
        let status = ep.recv(world, &mut number, Source::Any, COMMON)?;
        let due = &mut next[status.source.0 as usize];
        if number != [*due] {
            return Err(format!("{} from rank {}, {due} was due", number[0], status.source).into());
        }
        *due += 1;
    }
    let counters = *ep.counters();
    if counters.unexpected_peak > ENVELOPES * world.size() {
        return Err(format!("{} messages were held at a time", counters.unexpected_peak).into());
    }
    report(options, world, &counters);
    Ok(())
}

fn report(options: &Options, world: &Comm, counters: &aldis_kernel::Counters) {
    let (messages, peak) = (counters.messages_received, counters.unexpected_peak);
    if options.json {
        let line = serde_json::json!({
            "bench": "flood", "impl": "aldis", "ranks": world.size(), "messages": messages, "held_peak": peak,
            "per_rank": options.messages, "verified": true,
        });
        println!("{line}");
    } else {
        println!("{messages} messages, in order, the last of each rank first; held here at a time: {peak}");
    }
}
