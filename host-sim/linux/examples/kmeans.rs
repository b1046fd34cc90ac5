//! Clusters points by k-means: each rank has a share of the points, and the centres of all are
//! found by all-reduces of their sums and numbers. Coordinates are whole numbers, so that every
//! centre is exactly that of one rank alone.
//!
//! ```text
//! aldis-run -n 4 target/release/examples/kmeans --points 100000 --clusters 16
//! ```

use core::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::op::Sum;
use aldis_coll::{allreduce, bcast};
use aldis_kernel::{Comm, Rank};
use aldis_linux::HostEndpoint;
use clap::Parser;

/// Find the centres of clusters of points that are spread over the ranks, and compare them with one
/// rank's.
#[derive(Parser)]
struct Options {
    /// Points in all
    #[arg(long, default_value_t = 20_000)]
    points: u64,
    /// Clusters
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1024))]
    clusters: u64,
    /// Steps at most; it ends earlier when no centre moves
    #[arg(long, default_value_t = 20)]
    steps: u32,
    /// Print one JSON object instead of a sentence
    #[arg(long)]
    json: bool,
}

/// A place in the plane.
type PlanePoint = [i64; 2];

/// Of each cluster: the sums of its points' coordinates, and their number.
type Sums = Vec<[i64; 3]>;

fn main() -> ExitCode {
    let options = Options::parse();
    aldis_linux::run(|ep| kmeans(ep, &options))
}

fn kmeans(ep: &mut HostEndpoint, options: &Options) -> Result<(), Box<dyn Error>> {
    let world = ep.world();
    let (me, size) = (u64::from(world.rank().0), u64::from(world.size()));
    let share = options.points * me / size..options.points * (me + 1) / size;
    let points: Vec<PlanePoint> = share.map(|number| point(number, options.clusters)).collect();

    let start = Instant::now();
    let mut centres = first_centres(options);
    bcast(&mut centres, Rank(0)).run(ep, &world)?;
    let mut steps = 0;
    while steps < options.steps {
        let mut sums = assign(&points, &centres);
        add_up(ep, &world, &mut sums)?;
        steps += 1;
        if !move_centres(&mut centres, &sums) {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();

    if centres != alone(options) {
        return Err("the centres are not those of one rank alone".into());
    }
    if me == 0 {
        let (points, clusters) = (options.points, options.clusters);
        if options.json {
            println!(
                "{{\"bench\":\"kmeans\",\"ranks\":{size},\"points\":{points},\"clusters\":{clusters},\
                 \"steps\":{steps},\"seconds\":{seconds:.6},\"verified\":true}}"
            );
        } else {
            println!(
                "{points} points in {clusters} clusters over {size} ranks: {steps} steps in {seconds:.3} s, \
                 every centre as of one rank alone"
            );
        }
    }
    Ok(())
}

/// The sums of all ranks on all of them.
fn add_up(ep: &mut HostEndpoint, world: &Comm, sums: &mut Sums) -> Result<(), Box<dyn Error>> {
    let flat = sums.as_flattened_mut();
    allreduce(Sum, flat, &mut vec![0; flat.len()]).run(ep, world)?;
    Ok(())
}

/// A point of one of the clusters: where it lies is a matter of its number.
fn point(number: u64, clusters: u64) -> PlanePoint {
    let noise = |salt: u64| {
        let mixed = (number ^ (salt << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 48) as i64
    };
    let cluster = (number % clusters) as i64;
    [(cluster % 7) * 150_000 + noise(1), (cluster / 7) * 150_000 + noise(2)]
}

/// All in one cluster, so that there is something to find.
fn first_centres(options: &Options) -> Vec<PlanePoint> {
    (0..options.clusters).map(|number| point(number * options.clusters, options.clusters)).collect()
}

/// Adds up the points by the centre that is next to each.
fn assign(points: &[PlanePoint], centres: &[PlanePoint]) -> Sums {
    let mut sums = vec![[0; 3]; centres.len()];
    for point in points {
        let distance = |centre: &PlanePoint| (point[0] - centre[0]).pow(2) + (point[1] - centre[1]).pow(2);
        let nearest = centres.iter().zip(&mut sums).min_by_key(|(centre, _)| distance(centre));
        if let Some((_, sum)) = nearest {
            sum[0] += point[0];
            sum[1] += point[1];
            sum[2] += 1;
        }
    }
    sums
}

/// Puts each centre in the middle of its points; whether one has moved. One without points stays.
fn move_centres(centres: &mut [PlanePoint], sums: &Sums) -> bool {
    let mut moved = false;
    for (centre, [x, y, number]) in centres.iter_mut().zip(sums).filter(|(_, [.., number])| *number > 0) {
        let middle = [x.div_euclid(*number), y.div_euclid(*number)];
        moved |= *centre != middle;
        *centre = middle;
    }
    moved
}

/// Computes the same centres on one rank.
fn alone(options: &Options) -> Vec<PlanePoint> {
    let points: Vec<PlanePoint> = (0..options.points).map(|number| point(number, options.clusters)).collect();
    let mut centres = first_centres(options);
    for _ in 0..options.steps {
        let sums = assign(&points, &centres);
        if !move_centres(&mut centres, &sums) {
            break;
        }
    }
    centres
}
