//! This program holds `unsafe` code: inboxes of many ranks in one process's memory.
//!
//! What `cargo xtask bench memory` and `cargo xtask bench poll` show: what a peer takes of a rank's
//! memory, and what a poll costs when so many peers are connected and all of them are idle. One
//! line of JSON for each number of peers.

use core::error::Error;
use core::hint::black_box;
use core::ptr::NonNull;
use std::time::Instant;

use aldis_bench::Still;
use aldis_drivers::shm::{Geometry, Identity, Lane, Region, format};
use aldis_drivers::{Loopback, Shm};
use aldis_hal::{Cost, Epoch, PeerId};
use aldis_kernel::storage::{BYTES_PER_COMMUNICATOR, BYTES_PER_REQUEST, bytes_per_peer};
use aldis_kernel::{Composite, Config, Endpoint, storage_type};
use aldis_linux::shape::NodePlan;

const PEERS: [u32; 4] = [4, 16, 64, 256];

/// Polls of a batch, and batches.
const BATCH: u32 = 1000;
const BATCHES: usize = 500;

/// Polls before the first batch: a ring that stays empty has left the round by then.
const WARM_UP: u32 = 20_000;

type Room = storage_type!(257, 64, 2, 2, 1, 64, 2, 64);

fn main() -> Result<(), Box<dyn Error>> {
    for peers in PEERS {
        let mut ns = poll(peers)?;
        ns.sort_by(f64::total_cmp);
        let at = |percent: usize| ns[(ns.len() - 1) * percent / 100];
        // The host's own storage: see `aldis_linux::storage`.
        let per_peer = bytes_per_peer(128, 32, 8192) + size_of::<Lane>();
        let segment = NodePlan::of(peers).map(|plan| plan.segment_bytes);
        let line = serde_json::json!({ "bench": "peers", "peers": peers, "poll_p5_ns": at(5), "poll_p50_ns": at(50),
            "bytes_per_peer": per_peer, "bytes_per_request": BYTES_PER_REQUEST,
            "bytes_per_communicator": BYTES_PER_COMMUNICATOR,
            "segment_bytes": segment, "segment_bytes_per_peer": segment.map(|bytes| bytes / peers as usize) });
        println!("{line}");
    }
    Ok(())
}

/// Nanoseconds of a poll that finds nothing, in each batch.
fn poll(peers: u32) -> Result<Vec<f64>, Box<dyn Error>> {
    let geometry = Geometry {
        peers: peers + 1,
        slots: 8,
        lanes: Geometry::LANES_MAX,
        blocks: 1,
        block_bytes: 256,
        sets: 0,
    };
    let bytes = geometry.inbox_bytes();
    let identity = |rank: u32| Identity { job: 1, owner: PeerId(rank), epoch: Epoch(rank + 1) };
    let mut memory: Vec<Vec<u64>> = (0..=peers).map(|_| vec![0; bytes / 8 + 16]).collect();
    let inboxes: Vec<NonNull<u8>> = memory.iter_mut().map(|inbox| aligned(inbox)).collect();
    for (rank, inbox) in (0..).zip(&inboxes) {
        // SAFETY: the inbox is as long as this, aligned to a line, and outlives the endpoint below.
        format(&unsafe { Region::new(*inbox, bytes) }, geometry, identity(rank))?;
    }
    let mut lanes: Vec<Lane> = (0..geometry.lane_entries()).map(|_| Lane::EMPTY).collect();
    let cost = Cost { overhead_ns: 20, latency_ns: 150, per_kib_ns: 100 };
    let mut others = (0..).zip(&inboxes);
    let (_, mine) = others.next().ok_or("no inbox")?;
    // SAFETY: as above; nothing else uses it.
    let mut shm = Shm::new(identity(0), unsafe { Region::new(*mine, bytes) }, &mut lanes, cost)?;
    for (rank, inbox) in others {
        // SAFETY: as above.
        shm.attach(PeerId(rank), unsafe { Region::new(*inbox, bytes) }, identity(rank))?;
    }
    let mut frames = vec![0; 65536];
    let loopback = Loopback::new(PeerId(0), &mut frames, 8192)?;
    let config = Config { me: PeerId(0), size: peers + 1, epoch: Epoch(1) };
    let mut storage = Box::new(Room::new());
    let mut endpoint = Endpoint::new(storage.memory(), Composite::new(loopback, shm), Still, config)?;
    let events: u32 = (0..WARM_UP).map(|_| endpoint.poll(8)).sum();
    let mut samples = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(endpoint.poll(8));
        }
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    if events == 0 { Ok(samples) } else { Err("an idle rank had events".into()) }
}

/// The first cache line of the memory, which is two lines longer than an inbox.
fn aligned(memory: &mut [u64]) -> NonNull<u8> {
    let start = NonNull::from(memory).cast::<u8>();
    // SAFETY: the memory is 128 bytes longer than what is used of it.
    unsafe { start.add(start.align_offset(64)) }
}
