//! Ranks as threads of this process that talk through its RDMA device.

use aldis_hal::{Cost, PeerId};
use aldis_host_sim::verbs::{Config, Verbs};

use super::connected::run_over;
use super::storage::Room;
use super::threads::EPOCH;

/// What a seed draws: whether every message that is announced is read, or as few as an adapter's prices say.
fn config(seed: u64) -> Config {
    let read_cost = (seed & 1 == 0).then_some(Cost { overhead_ns: 0, latency_ns: 0, per_kib_ns: 1 });
    Config { read_cost, ..Config::default() }
}

/// Runs a case.
pub(super) fn run(drawn: (usize, u64), size: u32, room: Room) -> Result<(), String> {
    let open = |me| Verbs::open(PeerId(me), EPOCH, size, &config(drawn.1)).map_err(|error| error.to_string());
    run_over(drawn, size, room, open, Verbs::address)
}
