//! Sorts numbers that are spread over the ranks: each sorts its own, all agree on splitters by an
//! allgather of samples, and an all-to-all of unlike blocks brings every number to the rank that it
//! belongs to (Frazer, McKellar 1970; Blelloch et al. 1991).
//!
//! ```text
//! aldis-run -n 4 target/release/examples/samplesort --numbers 1000000
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::layout::Block;
use aldis_coll::op::{BitXor, Sum};
use aldis_coll::{allgather, allreduce, alltoall, alltoallv};
use aldis_kernel::Comm;
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Sort numbers over all ranks, and verify that they are in order and all there.
#[derive(Parser)]
struct Options {
    /// Numbers of each rank
    #[arg(long, default_value_t = 100_000)]
    numbers: usize,
    /// Number of times other numbers are sorted
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Draw from so few values that many are alike; 0 for all
    #[arg(long, default_value_t = 0)]
    values: u64,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| sort_all(ep, &options))
}

fn sort_all(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let (me, size) = (world.rank().0, world.size());
    let (mut seconds, mut largest) = (0.0, 0);
    for round in 0..options.rounds {
        let mut own: Vec<u64> = (0..options.numbers as u64).map(|at| draw(options, me, round, at)).collect();
        let before = fingerprint(ep, &world, &own)?;
        let start = Instant::now();
        own.sort_unstable();
        let sorted = exchange(ep, &world, &own)?;
        seconds += start.elapsed().as_secs_f64();
        largest = largest.max(sorted.len());
        verify(ep, &world, &sorted)?;
        if fingerprint(ep, &world, &sorted)? != before {
            return Err("some numbers are not those that were there".into());
        }
    }
    if me == 0 {
        let (numbers, rounds) = (options.numbers, options.rounds);
        if options.json {
            println!(
                "{{\"bench\":\"samplesort\",\"ranks\":{size},\"numbers\":{numbers},\"rounds\":{rounds},\
                 \"largest\":{largest},\"seconds\":{seconds:.6},\"verified\":true}}"
            );
        } else {
            println!(
                "{numbers} numbers a rank over {size} ranks, {rounds} times in {seconds:.3} s; all in order, \
                 rank 0 had up to {largest}"
            );
        }
    }
    Ok(())
}

/// A number, by rank, round and place.
fn draw(options: &Options, rank: u32, round: u64, at: u64) -> u64 {
    let mixed = (at ^ (u64::from(rank) << 32) ^ (round << 50)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (mixed ^ (mixed >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (mixed >> 27);
    if options.values == 0 { number } else { number % options.values }
}

/// Brings every number of sorted `own` to its rank, and sorts there.
fn exchange(ep: &mut HostEndpoint, world: &Comm, own: &[u64]) -> Result<Vec<u64>, Box<dyn Error>> {
    let splitters = splitters(ep, world, own)?;
    // Numbers that are alike go to one rank: the blocks end where the next splitter's begin.
    let ends = splitters.iter().map(|splitter| own.partition_point(|number| number < splitter));
    let mut start = 0;
    let given: Vec<Block> = (ends.chain([own.len()]))
        .map(|end| {
            let block = Block { start, len: end - start };
            start = end;
            block
        })
        .collect();
    let lens: Vec<u64> = given.iter().map(|block| block.len as u64).collect();
    let mut coming = vec![0; lens.len()];
    alltoall(&lens, &mut coming, &mut []).run(ep, world)?;
    let mut end = 0;
    let blocks: Vec<Block> = coming
        .iter()
        .map(|len| {
            let block = Block { start: end, len: *len as usize };
            end += block.len;
            block
        })
        .collect();
    let mut sorted = vec![0; end];
    alltoallv(own, &given, &mut sorted, &blocks).run(ep, world)?;
    sorted.sort_unstable();
    Ok(sorted)
}

/// Numbers that divide those of all ranks into about even parts, one fewer than there are ranks:
/// every rank picks its own at even distances, and of all that are picked every p-th is taken.
fn splitters(ep: &mut HostEndpoint, world: &Comm, own: &[u64]) -> Result<Vec<u64>, Box<dyn Error>> {
    let (me, size) = (world.rank().0 as usize, world.size() as usize);
    let mut picked = vec![u64::MAX; size * size];
    for (at, sample) in picked[me * size..][..size].iter_mut().enumerate() {
        if let Some(number) = own.get(at * own.len() / size) {
            *sample = *number;
        }
    }
    allgather(&mut picked).run(ep, world)?;
    picked.sort_unstable();
    Ok((1..size).map(|part| picked[part * size]).collect())
}

/// Returns the count, the sum and the exclusive-or of all numbers, whatever their order.
fn fingerprint(ep: &mut HostEndpoint, world: &Comm, own: &[u64]) -> Result<[u64; 3], Box<dyn Error>> {
    let sum = own.iter().fold(0, |sum: u64, number| sum.wrapping_add(*number));
    let (mut sums, mut bits) = ([own.len() as u64, sum], [own.iter().fold(0, |bits, number| bits ^ number)]);
    allreduce(Sum, &mut sums, &mut [0; 2]).run(ep, world)?;
    allreduce(BitXor, &mut bits, &mut [0]).run(ep, world)?;
    Ok([sums[0], sums[1], bits[0]])
}

/// In order here, and no rank has a number below one of the rank before it.
fn verify(ep: &mut HostEndpoint, world: &Comm, sorted: &[u64]) -> Result<(), Box<dyn Error>> {
    let me = world.rank().0 as usize;
    let mut bounds = vec![[0; 3]; world.size() as usize];
    bounds[me] = match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) => [1, *first, *last],
        _ => [0; 3],
    };
    allgather(bounds.as_flattened_mut()).run(ep, world)?;
    let there: Vec<&[u64; 3]> = bounds.iter().filter(|[is_there, ..]| *is_there == 1).collect();
    if !sorted.is_sorted() || there.windows(2).any(|pair| pair[0][2] > pair[1][1]) {
        return Err("the numbers are not in order".into());
    }
    Ok(())
}
