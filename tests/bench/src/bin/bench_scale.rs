//! The program that `cargo xtask bench scale` measures Aldis with in Rust: the calls of
//! `tests/bench/peers/scale.c`, each looked at, and the memory that a rank then holds. The first
//! rank says it in one line of JSON.

use core::error::Error;
use std::fs::{read_dir, read_to_string};
use std::process::ExitCode;
use std::time::Instant;

use aldis_coll::op::{Max, Sum};
use aldis_coll::{allreduce, alltoall, barrier, bcast, gather, reduce};
use aldis_kernel::{Comm, Rank, Tag};
use aldis_linux::HostEndpoint;
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Turns of each call.
const TURNS: i32 = 3;
/// Bytes of a broadcast.
const LONG: usize = 64 << 10;
/// Numbers that a rank sends each neighbour.
const HALO: usize = 128;

/// A call that is measured; it returns false if it has given wrong data.
type MeasuredCall<'e> = fn(&mut ScaleRank<'e>, i32) -> Outcome<bool>;

/// A rank, and the memory of its calls.
struct ScaleRank<'e> {
    endpoint: &'e mut HostEndpoint,
    world: Comm,
    longs: Vec<u8>,
    /// Two numbers a rank.
    given: Vec<i32>,
    taken: Vec<i32>,
    scratch: Vec<i32>,
}

fn main() -> ExitCode {
    aldis_linux::run(|endpoint: &mut HostEndpoint| {
        let world = endpoint.world();
        if std::env::args().nth(1).is_some_and(|asked| asked == "hello") {
            return Ok(barrier().run(endpoint, &world)?);
        }
        let numbers = 2 * world.size() as usize;
        let (longs, given, taken) = (vec![0; LONG], vec![0; numbers], vec![0; numbers]);
        // What the interface of MPI has for such short blocks.
        let scratch = vec![0; 4 * numbers];
        ScaleRank { endpoint, world, longs, given, taken, scratch }.run()
    })
}

impl<'e> ScaleRank<'e> {
    fn run(&mut self) -> Outcome<()> {
        let calls: [(&str, MeasuredCall<'e>); 6] = [
            ("barrier", Self::barrier),
            ("allreduce", Self::allreduce),
            ("bcast", Self::bcast),
            ("gather", Self::gather),
            ("alltoall", Self::alltoall),
            ("halo", Self::halo),
        ];
        let mut slowest = [0.0; 6];
        for ((name, call), slowest) in calls.iter().zip(&mut slowest) {
            barrier().run(self.endpoint, &self.world)?;
            let start = Instant::now();
            for turn in 0..TURNS {
                if !call(self, turn)? {
                    return Err(format!("{name}: wrong data at rank {}", self.world.rank().0).into());
                }
            }
            *slowest = start.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS);
        }
        let Self { endpoint, world, .. } = self;
        reduce(Max, &mut slowest, &mut [0.0; 6], Rank(0)).run(*endpoint, world)?;
        barrier().run(*endpoint, world)?;
        let mut sums = [memory("Pss")?, memory("Pss_Shmem")?];
        let mut most = [descriptors()?];
        reduce(Sum, &mut sums, &mut [0.0; 2], Rank(0)).run(*endpoint, world)?;
        reduce(Max, &mut most, &mut [0.0], Rank(0)).run(*endpoint, world)?;
        if world.rank().0 == 0 {
            let mut said = json!({
                "pss_bytes": sums[0] / f64::from(world.size()),
                "shared_bytes": sums[1],
                "descriptors": most[0],
            });
            for ((name, _), us) in calls.iter().zip(slowest) {
                said[format!("{name}_us")] = us.into();
            }
            println!("{said}");
        }
        Ok(())
    }

    fn barrier(&mut self, _turn: i32) -> Outcome<bool> {
        barrier().run(self.endpoint, &self.world)?;
        Ok(true)
    }

    fn allreduce(&mut self, turn: i32) -> Outcome<bool> {
        let (rank, size) = (f64::from(self.world.rank().0), f64::from(self.world.size()));
        let mut sum = [rank + f64::from(turn)];
        allreduce(Sum, &mut sum, &mut [0.0]).run(self.endpoint, &self.world)?;
        // Numbers that a double holds exactly.
        Ok(sum == [size * (size - 1.0) / 2.0 + size * f64::from(turn)])
    }

    fn bcast(&mut self, turn: i32) -> Outcome<bool> {
        let expected = turn as u8 + 1;
        if self.world.rank().0 == 0 {
            self.longs.fill(expected);
        }
        bcast(&mut self.longs, Rank(0)).run(self.endpoint, &self.world)?;
        Ok(self.longs.iter().all(|byte| *byte == expected))
    }

    fn gather(&mut self, turn: i32) -> Outcome<bool> {
        let Self { endpoint, world, taken, .. } = self;
        let rank = world.rank().0 as i32;
        // The root's own block is the first of all.
        let data = if rank == 0 { &mut taken[..] } else { &mut taken[..2] };
        data[..2].copy_from_slice(&[rank, turn]);
        gather(data, &mut [], Rank(0)).run(*endpoint, world)?;
        Ok(rank != 0 || taken.chunks(2).zip(0..).all(|(block, of)| block == [of, turn]))
    }

    fn alltoall(&mut self, turn: i32) -> Outcome<bool> {
        let Self { endpoint, world, given, taken, scratch, .. } = self;
        let (rank, size) = (world.rank().0 as i32, world.size() as i32);
        for (block, to) in given.chunks_mut(2).zip(0..) {
            block.copy_from_slice(&[rank * size + to, turn]);
        }
        alltoall(&given[..], taken, scratch).run(*endpoint, world)?;
        Ok(taken.chunks(2).zip(0..).all(|(block, of)| block == [of * size + rank, turn]))
    }

    fn halo(&mut self, turn: i32) -> Outcome<bool> {
        let Self { endpoint, world, .. } = self;
        let (rank, size) = (world.rank().0, world.size());
        let neighbors = [(rank + size - 1) % size, (rank + 1) % size];
        let number = |rank: u32| f64::from(rank) * 1000.0 + f64::from(turn);
        let own = [number(rank); HALO];
        let (mut left, mut right) = ([0.0; HALO], [0.0; HALO]);
        let [to_left, to_right] = neighbors.map(Rank);
        endpoint.scope(|scope| {
            let mut requests = vec![
                scope.irecv(world, &mut left, to_left, Tag(1))?,
                scope.irecv(world, &mut right, to_right, Tag(2))?,
                scope.isend(world, &own, to_right, Tag(1))?,
                scope.isend(world, &own, to_left, Tag(2))?,
            ];
            scope.wait_all(&mut requests)
        })?;
        let arrived = [left, right].into_iter().zip(neighbors);
        Ok(arrived.into_iter().all(|(halo, of)| halo.iter().all(|got| *got == number(of))))
    }
}

/// Returns a line of `/proc/self/smaps_rollup`, in bytes.
fn memory(name: &str) -> Outcome<f64> {
    let all = read_to_string("/proc/self/smaps_rollup")?;
    let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kib.ok_or("no such line in smaps_rollup")? * 1024.0)
}

/// Returns the descriptors that are open, but for that of the folder.
fn descriptors() -> Outcome<f64> {
    Ok(read_dir("/proc/self/fd")?.count() as f64 - 1.0)
}
