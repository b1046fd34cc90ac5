//! Cases in the simulator, with faults: one seed is one history.

use aldis_sim::{Profile, Report, SimConfig, Topology, Wire, simulate_nodes};
use aldis_tests::storage::{REQUESTS, Room, boxed};

use super::plan::CasePlan;
use super::rank::play;

/// Stack of a rank, bytes: a storage is copied a few times in a debug build before it is on the
/// heap.
const STACK_BYTES: usize = 512 << 10;

/// Runs a case on `ranks` virtual nodes. The seed draws wiring, network, faults and the size of the
/// storages.
///
/// # Errors
/// What went wrong, and the faults there were.
pub(super) fn run(plan: &CasePlan, wire: Wire) -> Result<(), String> {
    let &CasePlan { case, seed, ranks } = plan;
    let topology = Topology::ALL[seed as usize % Topology::ALL.len()];
    let config = SimConfig {
        topology,
        wire,
        faults: Profile::Swarm,
        stack_bytes: STACK_BYTES,
        ..SimConfig::new(seed, ranks)
    };
    let room = Room::ALL[seed as usize / Topology::ALL.len() % Room::ALL.len()];
    let report = simulate_nodes(&config, move |node| {
        let mut storage = boxed(room);
        node.with_memory(storage.memory()).run(|endpoint| play(case, seed, endpoint, REQUESTS))
    });
    match report {
        Ok(Report { failure: None, .. }) => Ok(()),
        Ok(Report { failure: Some(failure), .. }) => {
            Err(format!("{failure}\nwith {room:?} room, {}", config.tell_faults()))
        }
        Err(error) => Err(error.to_string()),
    }
}
