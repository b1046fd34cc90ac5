//! Ranks as threads of this process that are joined by its RDMA device.

use aldis_hal::{Cost, PeerId};
use aldis_linux::verbs::{Mode, Verbs, VerbsConfig};
use aldis_tests::threads::EPOCH;

use super::connected::run_over;
use super::plan::CasePlan;

/// The folder in which the system lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Returns true if there is a device.
pub(super) fn is_here() -> bool {
    std::fs::read_dir(DEVICES).is_ok_and(|mut devices| devices.next().is_some())
}

/// Returns the device and the manager that the environment chooses.
fn chosen() -> Result<VerbsConfig, String> {
    VerbsConfig::from_environment().map_err(|error| error.to_string())
}

/// Runs a case over connections. A seed draws whether every message that is announced is read, or
/// every one is written, or as few are read as an adapter's prices say.
pub(super) fn connected(plan: &CasePlan) -> Result<(), String> {
    let cheap = Some(Cost { overhead_ns: 0, latency_ns: 0, per_kib_ns: 1 });
    let dear = Some(Cost { overhead_ns: 0, latency_ns: u32::MAX, per_kib_ns: 0 });
    let config = match plan.seed % 3 {
        0 => VerbsConfig { read_cost: cheap, ..chosen()? },
        1 => VerbsConfig { read_cost: dear, write_cost: cheap, ..chosen()? },
        _ => chosen()?,
    };
    run(plan, &config)
}

/// Runs a case in datagrams.
pub(super) fn datagrams(plan: &CasePlan) -> Result<(), String> {
    run(plan, &VerbsConfig { mode: Mode::Datagrams, ..chosen()? })
}

fn run(plan: &CasePlan, config: &VerbsConfig) -> Result<(), String> {
    let open = |me| Verbs::open(PeerId(me), EPOCH, plan.ranks, config).map_err(|error| error.to_string());
    run_over(plan, open, Verbs::address)
}
