//! The program of `cargo xtask bench matching`: a message of 8 bytes from a rank to itself, past
//! ever more receives that are posted, or messages that are unexpected, each with a tag of its own.
//! One line of JSON for each figure.

use core::error::Error;
use std::time::Instant as Clock;

use aldis_bench::Still;
use aldis_drivers::Loopback;
use aldis_hal::{Epoch, PeerId};
use aldis_kernel::{Config, Endpoint, Rank, Tag, storage_type};

/// The deepest queue, and a few for what is under way.
const DEPTH_MAX: usize = 10_000;
type Wide = storage_type!(1, DEPTH_MAX + 16, 2, DEPTH_MAX + 16, 0, 0, 0, 16_384);
type Itself<'m> = Endpoint<'m, Loopback<'m>, Still>;

/// Messages of a batch: the clock's own cost is spread over them.
const BATCH: usize = 64;

/// The entry that is taken.
#[derive(Clone, Copy)]
enum Position {
    First,
    Last,
    Random,
}

impl Position {
    const ALL: [(Self, &'static str); 3] =
        [(Self::First, "first"), (Self::Last, "last"), (Self::Random, "random")];

    /// The entry to take next, of the `depth` that stand in `order` of their posting; it goes to
    /// the end.
    fn pick(self, order: &mut EntryOrder, random: &mut u64) -> u32 {
        let depth = order.entries.len();
        let place = match self {
            Self::First => 0,
            Self::Last => depth - 1,
            Self::Random => {
                // Knuth's MMIX generator.
                *random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*random >> 33) as usize % depth
            }
        };
        order.take(place)
    }
}

/// Entries by age, the oldest at `start`. Taking the oldest or the newest moves no other; taking
/// another one swaps it with the oldest, which makes no difference to a random order.
struct EntryOrder {
    entries: Vec<u32>,
    start: usize,
}

impl EntryOrder {
    fn new(depth: usize) -> Self {
        Self { entries: (0..depth as u32).collect(), start: 0 }
    }

    fn take(&mut self, place: usize) -> u32 {
        let depth = self.entries.len();
        let at = (self.start + place) % depth;
        let entry = self.entries[at];
        if place + 1 < depth {
            self.entries.swap(at, self.start);
            self.start = (self.start + 1) % depth;
        }
        entry
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: BATCHES DEPTH[,DEPTH...], each depth from 1 to 10000";
    let mut words = std::env::args().skip(1);
    let (Some(batches), Some(depths), None) = (words.next(), words.next(), words.next()) else {
        return Err(usage.into());
    };
    let batches: usize = batches.parse().map_err(|_| usage)?;
    for depth in depths.split(',') {
        let depth = depth.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth)).ok_or(usage)?;
        for (position, name) in Position::ALL {
            report("posted", depth, name, posted(depth, position, batches)?);
            report("unexpected", depth, name, unexpected(depth, position, batches)?);
        }
    }
    Ok(())
}

fn report(queue: &str, depth: usize, position: &str, mut ns: Vec<f64>) {
    ns.sort_by(f64::total_cmp);
    let at = |percent: usize| ns[(ns.len() - 1) * percent / 100];
    println!(
        r#"{{"queue":"{queue}","depth":{depth},"position":"{position}","p5_ns":{:.1},"p50_ns":{:.1},"samples":{}}}"#,
        at(5),
        at(50),
        ns.len()
    );
}

/// Runs `work` with an endpoint that reaches itself.
fn alone<R>(work: impl FnOnce(&mut Itself<'_>) -> R) -> Result<R, Box<dyn Error>> {
    let mut storage = Box::new(Wide::new());
    let mut memory = vec![0; 64 << 10];
    let config = Config { me: PeerId(0), size: 1, epoch: Epoch(1) };
    let loopback = Loopback::new(config.me, &mut memory, 256)?;
    let mut endpoint = Endpoint::new(storage.memory(), loopback, Still, config)?;
    Ok(work(&mut endpoint))
}

/// Nanoseconds a message in each batch: sent, matched with one of `depth` posted receives,
/// received, and the receive posted again.
fn posted(depth: usize, position: Position, batches: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let (mut memory, data) = (vec![0_u8; depth * 8], [7_u8; 8]);
    let (mut order, mut random) = (EntryOrder::new(depth), 1);
    let measured = alone(|endpoint| {
        let world = endpoint.world();
        endpoint.scope(|scope| {
            let memory = scope.lend(&mut memory);
            let mut receives = Vec::new();
            for tag in 0..depth {
                let range = tag * 8..tag * 8 + 8;
                receives.push(scope.recv_init(&world, memory, range, Rank(0), Tag(tag as u32))?);
            }
            scope.start_all(&mut receives)?;
            let mut samples = Vec::with_capacity(batches);
            for _ in 0..batches {
                let start = Clock::now();
                for _ in 0..BATCH {
                    let tag = position.pick(&mut order, &mut random);
                    let sending = scope.isend(&world, &data, Rank(0), Tag(tag))?;
                    let receive = &mut receives[tag as usize];
                    scope.wait_for(receive)?;
                    scope.start(receive)?;
                    scope.wait(sending)?;
                }
                samples.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
            }
            receives.iter_mut().for_each(|receive| assert!(scope.cancel(receive), "all wait again"));
            Ok(samples)
        })
    })?;
    Ok(measured?)
}

/// Nanoseconds a message in each batch: one of `depth` unexpected messages received, and sent
/// again.
fn unexpected(depth: usize, position: Position, batches: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let (mut order, mut random) = (EntryOrder::new(depth), 1);
    alone(|endpoint| {
        let (world, mut buffer) = (endpoint.world(), [0_u8; 8]);
        let send = |endpoint: &mut Itself<'_>, tag: u32| -> Result<(), Box<dyn Error>> {
            endpoint.send(&world, &[7_u8; 8], Rank(0), Tag(tag))?;
            endpoint.poll(1);
            Ok(())
        };
        (0..depth as u32).try_for_each(|tag| send(endpoint, tag))?;
        let mut samples = Vec::with_capacity(batches);
        for _ in 0..batches {
            let start = Clock::now();
            for _ in 0..BATCH {
                let tag = position.pick(&mut order, &mut random);
                endpoint.recv(&world, &mut buffer, Rank(0), Tag(tag))?;
                send(endpoint, tag)?;
            }
            samples.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
        }
        if endpoint.diagnostics().queue_depths() != (0, depth as u32) {
            return Err("a message was lost".into());
        }
        Ok(samples)
    })?
}
