//! The simulator: one seed is one history, correct programs pass on every seed, and what is planted
//! is found.
#![allow(missing_docs)]

use aldis_kernel::hal::transport::Quiesce;
use aldis_kernel::hal::{
    Caps, Cause, Extras, Features, Instant, PeerId, Post, Refusal, RemoteMemory, Sink, Slot, Transport,
};
use aldis_kernel::{Rank, Source, Tag};
use aldis_sim::workloads::{WORKLOADS, Workload, mixed};
use aldis_sim::{
    Outcome, Profile, Report, SimConfig, SimEndpoint, SimTransport, Topology, VirtualNode, Wire, simulate,
    simulate_nodes,
};

/// A run whose size, wiring, rows and faults are drawn from its seed as well.
fn config(seed: u64) -> SimConfig {
    let mut config = SimConfig::new(seed, 2 + (seed % 8) as u32);
    config.topology = Topology::ALL[(seed / 8) as usize % Topology::ALL.len()];
    config.with_drawn_rows()
}

fn run(name: &str, config: &SimConfig) -> Report {
    let workload = Workload::named(name).unwrap();
    let seed = config.seed;
    let report = simulate(config, move |ep| (workload.run)(ep, seed)).unwrap();
    if let Some(failure) = &report.failure {
        panic!("{failure}\n{report}\n{}", report.replay(name));
    }
    report
}

#[test]
fn one_seed_is_one_history_and_another_is_another() {
    for seed in 0..10 {
        let (one, again) = (run("mixed", &config(seed)), run("mixed", &config(seed)));
        assert_eq!((one.hash, one.totals, one.virtual_ns), (again.hash, again.totals, again.virtual_ns));
        assert_ne!(one.hash, run("mixed", &config(seed + 8)).hash);
    }
}

#[test]
fn every_workload_passes_on_every_topology() {
    for workload in WORKLOADS {
        for seed in 0..20 {
            run(workload.name, &config(seed * 8 + seed % 8));
        }
    }
}

/// Tells workloads that need a request for every rank.
#[test]
fn every_workload_passes_in_a_job_of_more_ranks_than_requests() {
    for (workload, seed) in WORKLOADS.iter().zip(900..) {
        let config = SimConfig { wire: Wire::Messages, faults: Profile::Calm, ..SimConfig::new(seed, 100) };
        run(workload.name, &config);
    }
}

#[test]
fn two_hundred_seeds_of_the_mixed_workload_pass() {
    for seed in 1000..1200 {
        run("mixed", &config(seed));
    }
}

#[test]
fn a_death_ends_what_depends_on_it_and_hangs_nothing() {
    for seed in 0..100 {
        run("mixed", &SimConfig { faults: Profile::Crash, ..config(seed) });
    }
}

/// Of a rank that leaves, its goodbye tells those that are in contact with it, and its transport
/// all others.
#[test]
fn a_rank_that_has_left_is_known_to_those_without_a_row_for_it() {
    let program = |ep: &mut SimEndpoint<'_>| -> Outcome {
        let (world, mut buffer) = (ep.world(), [0; 8]);
        match world.rank().0 {
            0 => {
                // What it has sent before it left is there.
                assert_eq!(ep.recv(&world, &mut buffer, Rank(3), Tag(1)).map(|status| status.bytes), Ok(8));
                let left = ep.recv(&world, &mut buffer, Rank(4), Tag(2)).unwrap_err();
                let never = ep.ssend(&world, &buffer, Rank(5), Tag(2)).unwrap_err();
                assert_eq!((left.cause, never.cause), (Cause::PeerLeft, Cause::PeerLeft));
            }
            3 => drop(ep.send(&world, &[7_u8; 8], Rank(0), Tag(1)).unwrap()),
            _ => {}
        }
        Ok(())
    };
    for seed in 0..40 {
        let active = (seed % 2 == 0).then_some(3);
        // With a profile of deaths, of which none happens, no rank waits for the others at its end.
        let (faults, only) = (Profile::Crash, Some(vec![]));
        let config = SimConfig { active, faults, only, wire: Wire::Messages, ..SimConfig::new(seed, 6) };
        let report = simulate(&config, program).unwrap();
        assert!(report.failure.is_none(), "{active:?}, {report}");
    }
}

/// A rank kept a row for a peer that had left without a word, and what waited for a row waited for
/// ever.
#[test]
fn a_job_of_three_rows_that_once_hung_ends() {
    for faults in [Profile::Crash, Profile::Restart] {
        let (active, topology, wire) = (Some(3), Topology::Ring, Wire::Messages);
        run("mixed", &SimConfig { active, topology, wire, faults, ..SimConfig::new(4_001_516, 13) });
    }
}

/// A rank that had said goodbye closed contacts of peers that had let go of it, and gave no row to
/// those that asked.
#[test]
fn a_job_whose_ranks_leave_at_different_times_ends() {
    let (active, topology, wire) = (Some(3), Topology::DRAGONFLY, Wire::Frames);
    let only = Some(vec![0, 2, 4, 9, 10, 11, 15, 16, 17, 19, 20]);
    let faults = Profile::Swarm;
    run("mixed", &SimConfig { active, topology, wire, faults, only, ..SimConfig::new(4_500_452, 10) });
}

#[test]
fn two_hundred_and_fifty_six_ranks_meet() {
    let report =
        run("barrier-allreduce", &SimConfig { topology: Topology::FAT_TREE, ..SimConfig::new(5, 256) });
    assert!(report.totals.messages >= 2 * 256 * 8, "{report}");
}

#[test]
fn a_job_that_cannot_end_says_what_everybody_waits_for() {
    let program = |ep: &mut SimEndpoint<'_>| -> Outcome {
        let world = ep.world();
        if world.rank() == Rank(0) {
            ep.recv(&world, &mut [0_u8; 4], Source::Rank(Rank(1)), Tag(77))?;
        }
        aldis_coll::barrier().run(ep, &world)?;
        Ok(())
    };
    let config = SimConfig { leave: false, ..SimConfig::new(3, 3) };
    let report = simulate(&config, program).unwrap();
    let failure = report.failure.as_ref().unwrap().to_string();
    assert!(failure.contains("rank 0 is in recv with rank 1, tag 77, 4 bytes"), "{failure}");
    assert!(failure.contains("rank 2 is in "), "{failure}");
    assert!(report.replay("mixed").starts_with("aldis-sim run --seed 3 --ranks 3 "));
}

#[test]
fn a_panic_and_a_wrong_result_name_their_rank() {
    let wrong = |ep: &mut SimEndpoint<'_>| -> Outcome {
        if ep.world().rank() == Rank(1) { Err("a wrong result".into()) } else { Ok(()) }
    };
    let failure = simulate(&SimConfig::new(1, 3), wrong).unwrap().failure.unwrap();
    assert_eq!((failure.rank, &*failure.what), (Some(1), "a wrong result"));
    let panics = |ep: &mut SimEndpoint<'_>| -> Outcome {
        let world = ep.world();
        assert!(world.rank() != Rank(2), "planted");
        // The others are in the middle of a receive when their stacks are unwound.
        ep.recv(&world, &mut [0_u8; 4], Rank(2), Tag(0))?;
        Ok(())
    };
    let failure = simulate(&SimConfig::new(1, 3), panics).unwrap().failure.unwrap();
    assert_eq!((failure.rank, &*failure.what), (Some(2), "panic: planted"));
}

#[test]
fn a_program_that_only_tests_lets_the_others_run() {
    let program = |ep: &mut SimEndpoint<'_>| -> Outcome {
        let (world, mut token) = (ep.world(), [0_u8]);
        if world.rank() == Rank(1) {
            ep.send(&world, &[9_u8], Rank(0), Tag(1))?;
            return Ok(());
        }
        ep.scope(|scope| {
            let mut receiving = scope.irecv(&world, &mut token, Rank(1), Tag(1))?;
            while scope.test(&mut receiving)?.is_none() {}
            Ok(())
        })?;
        if token == [9] { Ok(()) } else { Err("a wrong token".into()) }
    };
    assert_eq!(simulate(&SimConfig::new(2, 2), program).unwrap().failure, None);
}

/// A fault of a planted transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// Holds it back until the next one to that peer has gone.
    Reorder,
    Lose,
    /// Changes its last byte.
    Damage,
    Double,
}

/// A transport that does something wrong to every tenth message.
struct Planted<'a> {
    inner: SimTransport<'a>,
    bug: Bug,
    count: u32,
    held: Option<(PeerId, Vec<u8>)>,
}

impl Planted<'_> {
    fn pass(&mut self, peer: PeerId, mut message: Vec<u8>) -> Result<(), Refusal> {
        self.count += 1;
        if self.count.is_multiple_of(10) {
            match self.bug {
                Bug::Lose => return Ok(()),
                Bug::Reorder if self.held.is_none() => {
                    self.held = Some((peer, message));
                    return Ok(());
                }
                Bug::Reorder => {}
                Bug::Damage => *message.last_mut().unwrap() ^= 0x40,
                Bug::Double => put(&mut self.inner, peer, &message)?,
            }
        }
        put(&mut self.inner, peer, &message)?;
        if let Some((_, held)) = self.held.take_if(|(to, _)| *to == peer) {
            let _ = put(&mut self.inner, peer, &held);
        }
        Ok(())
    }
}

fn put(transport: &mut SimTransport<'_>, peer: PeerId, message: &[u8]) -> Result<(), Refusal> {
    let mut slot = transport.reserve(peer, message.len())?;
    slot.bytes().copy_from_slice(message);
    slot.commit();
    Ok(())
}

struct PlantedSlot<'t, 'a> {
    planted: &'t mut Planted<'a>,
    peer: PeerId,
    bytes: Vec<u8>,
}

impl Slot for PlantedSlot<'_, '_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn commit(self) {
        let _ = self.planted.pass(self.peer, self.bytes);
    }
}

impl<'a> Transport for Planted<'a> {
    type Slot<'t>
        = PlantedSlot<'t, 'a>
    where
        Self: 't;

    fn name(&self) -> &'static str {
        "planted"
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn reach(&self, peer: PeerId) -> Result<&Caps, Cause> {
        self.inner.reach(peer)
    }
    fn short(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) -> Post {
        match self.pass(peer, [header, payload].concat()) {
            Ok(()) => Post::Done,
            Err(refusal) => refusal.into(),
        }
    }
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<PlantedSlot<'_, 'a>, Refusal> {
        // Whether there is room is asked by a slot that is given back.
        drop(self.inner.reserve(peer, len)?);
        Ok(PlantedSlot { planted: self, peer, bytes: vec![0; len] })
    }
    fn quiesce(&mut self, what: Quiesce) -> Result<(), Cause> {
        self.inner.quiesce(what)
    }
    fn poll<S: Sink>(&mut self, budget: u32, now: Instant, sink: &mut S) -> u32 {
        self.inner.poll(budget, now, sink)
    }
}

impl Extras for Planted<'_> {}

impl RemoteMemory for Planted<'_> {}

#[test]
fn what_is_planted_is_found() {
    for bug in [Bug::Reorder, Bug::Lose, Bug::Damage, Bug::Double] {
        let found = (0..200).find(|seed| {
            let seed = *seed;
            let program = move |node: VirtualNode<'_>| {
                let plant = |inner| Planted { inner, bug, count: 0, held: None };
                node.run_over(plant, |ep| mixed(ep, seed))
            };
            simulate_nodes(&config(seed), program).unwrap().failure.is_some()
        });
        assert!(found.is_some(), "{bug:?} passes on all seeds");
        println!("{bug:?}: seed {}", found.unwrap());
    }
}
