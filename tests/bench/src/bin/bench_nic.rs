//! Two ranks over a network card: round trips one by one, then windows of messages both ways at
//! once, every message verified. `cargo xtask bench nic` puts the figures beside those of raw
//! frames of the same card.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::{Comm, Rank, Tag};
use aldis_linux::HostEndpoint;
use serde_json::json;

/// Round trips that are not counted, and those that are.
const WARM_UP: usize = 200;
const ROUNDS: usize = 20_000;
/// Bytes of a message that goes there and back.
const SHORT: usize = 8;
/// Windows: bytes of a message, and how many are under way each way.
const WINDOWS: [(usize, usize); 3] = [(64, 32), (64 << 10, 4), (1 << 20, 2)];
/// The time that each kind of window is measured for.
const SPAN: Duration = Duration::from_secs(1);

const DATA: Tag = Tag(0);

fn main() -> ExitCode {
    aldis_linux::run(|endpoint: &mut HostEndpoint| {
        let world = endpoint.world();
        if world.size() != 2 {
            return Err(format!("two ranks are measured, not {}", world.size()).into());
        }
        let pair = RankPair { endpoint, world, other: Rank(1 - world.rank().0) };
        pair.measure()
    })
}

/// A rank of the two.
struct RankPair<'e> {
    endpoint: &'e mut HostEndpoint,
    world: Comm,
    other: Rank,
}

impl RankPair<'_> {
    /// Measures all; rank 0 says each figure in a line of JSON.
    fn measure(mut self) -> Result<(), Box<dyn Error>> {
        let first = self.world.rank() == Rank(0);
        let mut trips = self.round_trips()?;
        trips.sort_unstable();
        if first {
            let median = trips.get(trips.len() / 2).copied().unwrap_or_default();
            let mean = trips.iter().sum::<u64>() / (trips.len() as u64).max(1);
            println!("{}", json!({ "bytes": SHORT, "round_trip_ns": { "median": median, "mean": mean } }));
        }
        for (bytes, window) in WINDOWS {
            let (messages, span) = self.windows(bytes, window)?;
            let rate = messages as f64 / span.as_secs_f64();
            if first {
                let bandwidth = rate * bytes as f64 * 8.0 / 1e9;
                println!(
                    "{}",
                    json!({ "bytes": bytes, "window": window, "messages_per_second": rate, "gigabits_per_second": bandwidth })
                );
            }
        }
        Ok(())
    }

    /// Nanoseconds of each round trip; of rank 1 the rest of the loop.
    fn round_trips(&mut self) -> Result<Vec<u64>, Box<dyn Error>> {
        let Self { endpoint, world, other } = self;
        let (mut trips, mut back) = (Vec::with_capacity(ROUNDS), [0; SHORT]);
        for round in 0..WARM_UP + ROUNDS {
            let (out, start) = ((round as u64).to_le_bytes(), Instant::now());
            if *other == Rank(1) {
                endpoint.send(world, &out, *other, DATA)?;
                endpoint.recv(world, &mut back, *other, DATA)?;
            } else {
                endpoint.recv(world, &mut back, *other, DATA)?;
                endpoint.send(world, &back, *other, DATA)?;
            }
            if back != out {
                return Err(format!("round trip {round} brought other bytes").into());
            }
            if round >= WARM_UP {
                trips.push(start.elapsed().as_nanos() as u64);
            }
        }
        Ok(trips)
    }

    /// The messages that have gone each way, and the time that they took. The first byte of a
    /// message tells if its window is the last; rank 0 says so.
    fn windows(&mut self, bytes: usize, window: usize) -> Result<(u64, Duration), Box<dyn Error>> {
        let Self { endpoint, world, other } = self;
        let (mut out, mut back) = (vec![0_u8; bytes * window], vec![0_u8; bytes * window]);
        let (start, mut messages) = (Instant::now(), 0);
        loop {
            let (mark, last) = (messages as u8 | 1, *other == Rank(1) && start.elapsed() > SPAN);
            out.fill(mark);
            out.chunks_mut(bytes)
                .filter_map(|message| message.first_mut())
                .for_each(|byte| *byte = last.into());
            endpoint.scope(|scope| {
                let mut requests = Vec::with_capacity(2 * window);
                for message in back.chunks_mut(bytes) {
                    requests.push(scope.irecv(world, message, *other, DATA)?);
                }
                for message in out.chunks(bytes) {
                    requests.push(scope.isend(world, message, *other, DATA)?);
                }
                scope.wait_all(&mut requests)
            })?;
            messages += window as u64;
            let mut is_last = last;
            // Compared with what this rank has sent, a block at a time: a byte at a time would take
            // longer than the card.
            for (message, sent) in back.chunks(bytes).zip(out.chunks(bytes)) {
                let Some((told, rest)) = message.split_first() else { continue };
                is_last |= *told != 0;
                if rest != sent.get(1..).unwrap_or_default() {
                    return Err(format!("a message of {bytes} bytes has come changed").into());
                }
            }
            if is_last {
                // Rank 1 has heard it in this window, and its own is the last as well.
                return Ok((messages, start.elapsed()));
            }
        }
    }
}
