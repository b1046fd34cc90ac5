//! Half round trips between ranks 0 and 1 from 0 B to 4 MiB, with every byte of every message
//! verified.
//!
//! ```text
//! aldis-run -n 2 --bind core target/release/examples/pingpong
//! ```

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use aldis_kernel::{Comm, Rank, Tag};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Measure and verify messages between ranks 0 and 1 (or of a lone rank to itself).
#[derive(Parser)]
struct Options {
    /// Largest message in bytes
    #[arg(long, default_value_t = 4 << 20)]
    max_bytes: usize,
    /// Time to measure each size for, in milliseconds
    #[arg(long, default_value_t = 200)]
    millis: u64,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

const PING: Tag = Tag(1);
const PONG: Tag = Tag(2);
const STOP: Tag = Tag(3);

/// Sizes of the table, in bytes.
const SIZES: [usize; 13] =
    [0, 1, 8, 56, 64, 512, 4 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20];

/// Round trips between two looks at the clock, for small messages.
const BATCH: usize = 16;
const BATCHED_BYTES_MAX: usize = 4 << 10;

/// Fewest samples of a size, however long they take.
const SAMPLES_MIN: usize = 20;

/// Fewest samples that are not counted, so that caches and branch predictors know their way.
const WARM_UP: usize = 5;

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| {
        let world = ep.world();
        match (world.rank(), world.size()) {
            (Rank(0), _) => ping(ep, &options),
            (Rank(1), _) => pong(ep, &options),
            // Two ranks play, the others leave.
            _ => Ok(()),
        }
    })
}

/// Rank 0: sends, receives, times, verifies.
fn ping(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let mut seed = 1;
    if !options.json {
        let way = if ep.world().size() == 1 { "to itself" } else { "between ranks 0 and 1" };
        println!("half round trips {way}, every byte verified");
        println!("{:>10} {:>12} {:>12} {:>12} {:>9}", "bytes", "p5 us", "p50 us", "p50 MB/s", "samples");
    }
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= options.max_bytes) {
        let samples = measure(ep, bytes, Duration::from_millis(options.millis), &mut seed)?;
        let other = Rank(u32::from(ep.world().size() > 1));
        let transport = ep.explain(other, bytes as u64)?.transport().unwrap_or("none");
        report(options, transport, bytes, &samples);
    }
    if ep.world().size() > 1 {
        ep.send::<u8>(&ep.world(), &[], Rank(1), STOP)?;
    }
    Ok(())
}

/// Rank 1: returns everything as it came, until told to stop.
fn pong(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let mut buffer = vec![0_u8; options.max_bytes];
    loop {
        let status = ep.recv(&world, &mut buffer, Rank(0), aldis_kernel::TagMatch::Any)?;
        if status.tag == STOP {
            return Ok(());
        }
        let message = buffer.get(..status.bytes as usize).unwrap_or_default();
        ep.send(&world, message, Rank(0), PONG)?;
    }
}

/// Nanoseconds of half a round trip, sample by sample. Messages are written before the clock starts
/// and verified after it has stopped, so that every one is fresh and none is assumed.
fn measure(
    ep: &mut HostEndpoint,
    bytes: usize,
    span: Duration,
    seed: &mut u64,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let world = ep.world();
    let batch = if bytes <= BATCHED_BYTES_MAX { BATCH } else { 1 };
    let mut out = vec![vec![0_u8; bytes]; batch];
    let mut back = vec![vec![0_u8; bytes]; batch];
    let mut samples = Vec::new();
    let end = Instant::now() + span;
    while samples.len() < SAMPLES_MIN + WARM_UP || Instant::now() < end {
        for (message, back) in out.iter_mut().zip(&mut back) {
            *seed += 1;
            fill(message, *seed);
            back.fill(0);
        }
        let start = Instant::now();
        for (message, back) in out.iter().zip(&mut back) {
            exchange(ep, &world, message, back)?;
        }
        let halves = if world.size() == 1 { batch } else { 2 * batch };
        samples.push(start.elapsed().as_nanos() as f64 / halves as f64);
        if let Some(place) = out.iter().zip(&back).position(|(message, back)| message != back) {
            return Err(format!("{bytes} bytes came back changed (message {place} of {batch})").into());
        }
    }
    samples.drain(..WARM_UP);
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// Makes one round trip; a lone rank's message comes back at once.
fn exchange(
    ep: &mut HostEndpoint,
    world: &Comm,
    message: &[u8],
    back: &mut [u8],
) -> Result<(), aldis_kernel::Error> {
    if world.size() == 1 {
        ep.sendrecv(world, message, Rank(0), PING, back, Rank(0), PING)?;
    } else {
        ep.send(world, message, Rank(1), PING)?;
        ep.recv(world, back, Rank(1), PONG)?;
    }
    Ok(())
}

/// Bytes that differ from message to message and from place to place: SplitMix64 (Steele, Lea,
/// Flood 2014).
fn fill(message: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for word in message.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        for (byte, value) in word.iter_mut().zip((z ^ (z >> 31)).to_le_bytes()) {
            *byte = value;
        }
    }
}

/// A sample by rank among the sorted ones.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}

fn report(options: &Options, transport: &str, bytes: usize, samples: &[f64]) {
    let (p5, p50) = (percentile(samples, 5), percentile(samples, 50));
    // Bytes a nanosecond are GB a second.
    let megabytes = 1e3 * bytes as f64 / p50;
    if options.json {
        let line = serde_json::json!({
            "bench": "pingpong", "impl": "aldis", "transport": transport, "bytes": bytes, "p5_ns": p5,
            "p50_ns": p50, "mb_per_s": megabytes, "samples": samples.len(), "verified": true,
        });
        println!("{line}");
    } else {
        let (p5, p50) = (p5 / 1e3, p50 / 1e3);
        println!("{bytes:>10} {p5:>12.3} {p50:>12.3} {megabytes:>12.1} {:>9}", samples.len());
    }
}
