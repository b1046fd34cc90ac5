//! Jobs as threads of this process, with small storages.

use aldis_drivers::shm::Geometry;
use aldis_kernel::storage_type;

use crate::storage::Store;
use crate::threads::{Host, Job, ThreadEndpoint, Threads, run_in};

/// An endpoint of the job.
pub type Endpoint<'m, 'w> = ThreadEndpoint<'m, 'w>;
/// A scope of it.
pub type Scope<'scope, 'env, 's, 'w> = aldis_kernel::Scope<'scope, 'env, 's, Threads<'s>, Host<'w>>;

/// Ranks that the storage has room for.
const PEERS: usize = 9;
/// Communicators that a rank has room for, world and self included.
pub const COMMUNICATORS: usize = 10;
/// Pieces of groups in communicators.
pub const PIECES: usize = 9;

type Sized<const REQUESTS: usize> = storage_type!(PEERS, REQUESTS, COMMUNICATORS, 8, 2, 256, 0, 16, PIECES);

/// Runs `body` on every rank of a job of `size` and gives their results.
pub fn run<R: Send>(size: u32, body: impl Fn(&mut Endpoint<'_, '_>) -> R + Sync) -> Vec<R> {
    run_with_requests::<64, R>(size, body)
}

/// Like [`run`], but with `REQUESTS` request slots a rank.
pub fn run_with_requests<const REQUESTS: usize, R: Send>(
    size: u32,
    body: impl Fn(&mut Endpoint<'_, '_>) -> R + Sync,
) -> Vec<R> {
    let rings = Geometry {
        peers: size,
        slots: 16,
        lanes: Geometry::LANES_MAX,
        blocks: 4,
        block_bytes: 1024,
        sets: 3,
    };
    let store = || -> Box<dyn Store> { Box::new(<Sized<REQUESTS>>::new()) };
    let job = Job { rings, store, may_leave: true };
    run_in(job, |endpoint| Ok(body(endpoint))).unwrap_or_else(|told| panic!("{told}"))
}
