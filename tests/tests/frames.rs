//! The simulator's wire of frames: the Ethernet transport, its links and its handshake under loss,
//! damage, doubling, reordering and partitions, and nodes that die and boot again, on both wires.
#![allow(missing_docs)]

use core::cell::Cell;
use std::rc::Rc;

use aldis_sim::workloads::{WORKLOADS, Workload};
use aldis_sim::{Network, Profile, Record, Report, SimConfig, Topology, Totals, Wire, faults, simulate};

/// A run whose size and wiring are drawn from its seed as well.
fn config(seed: u64, wire: Wire, faults: Profile) -> SimConfig {
    let mut config = SimConfig { wire, faults, ..SimConfig::new(seed, 2 + (seed % 8) as u32) };
    config.topology = Topology::ALL[(seed / 8) as usize % Topology::ALL.len()];
    config
}

/// Runs a workload; how it went, and how many ranks have come to its end.
fn run(name: &str, config: &SimConfig) -> (Report, u32) {
    let workload = Workload::named(name).unwrap();
    let (seed, done) = (config.seed, Rc::new(Cell::new(0)));
    let count = done.clone();
    let report = simulate(config, move |ep| {
        (workload.run)(ep, seed)?;
        count.set(count.get() + 1);
        Ok(())
    });
    let report = report.unwrap();
    if let Some(failure) = &report.failure {
        let faults: Vec<String> = faults(config).iter().map(ToString::to_string).collect();
        panic!("{name} over {}: {failure}\n{report}\n{}", config.wire, faults.join("\n"));
    }
    (report, done.get())
}

#[test]
fn one_seed_is_one_history_on_either_wire_and_under_all_faults() {
    for (wire, profile) in Wire::ALL.into_iter().flat_map(|wire| Profile::ALL.map(|profile| (wire, profile)))
    {
        for seed in 0..3 {
            let config = config(seed, wire, profile);
            let (one, again) = (run("mixed", &config).0, run("mixed", &config).0);
            assert_eq!((one.hash, one.totals, one.virtual_ns), (again.hash, again.totals, again.virtual_ns));
        }
    }
}

#[test]
fn every_workload_passes_over_a_wire_that_loses_doubles_damages_and_reorders() {
    let mut sum = Totals::default();
    for (workload, first) in WORKLOADS.iter().zip((0..).step_by(1000)) {
        for seed in first..first + 8 {
            let (report, done) = run(workload.name, &config(seed, Wire::Frames, Profile::Swarm));
            assert_eq!(done, report.config.ranks);
            sum.frames += report.totals.frames;
            sum.lost += report.totals.lost;
            sum.duplicated += report.totals.duplicated;
            sum.damaged += report.totals.damaged;
            sum.overflowed += report.totals.overflowed;
        }
    }
    println!("{sum:?}");
    assert!([sum.lost, sum.duplicated, sum.damaged, sum.overflowed].iter().all(|count| *count > 100));
}

/// Rows and links for three peers or a few more, in jobs of more: links are passed on all the time.
#[test]
fn every_workload_passes_over_links_that_are_fewer_than_peers() {
    let mut fewer = 0;
    for (workload, first) in WORKLOADS.iter().zip((0..).step_by(1000)) {
        for seed in first..first + 6 {
            let drawn = SimConfig { wire: Wire::Frames, ..SimConfig::new(seed, 6 + (seed % 10) as u32) };
            let config = drawn.with_drawn_rows();
            fewer += u32::from(config.active.is_some());
            assert_eq!(run(workload.name, &config).1, config.ranks);
        }
    }
    assert!(fewer > 20, "{fewer}");
}

#[test]
fn a_death_over_links_that_are_fewer_than_peers_ends_what_depends_on_it() {
    for (seed, profile) in (300..312).flat_map(|seed| [(seed, Profile::Crash), (seed, Profile::Restart)]) {
        let ranks = 5 + (seed % 6) as u32;
        let active = Some(3 + (seed % 3) as u32);
        let config = SimConfig { wire: Wire::Frames, faults: profile, active, ..SimConfig::new(seed, ranks) };
        run("mixed", &config);
    }
}

#[test]
fn a_large_job_over_frames_has_links_for_few_peers() {
    let network = Network::default();
    let config = SimConfig { wire: Wire::Frames, faults: Profile::Calm, network, ..SimConfig::new(3, 300) };
    assert!(config.active.is_some_and(|rows| rows < 24));
    assert_eq!(run("barrier-allreduce", &config).1, 300);
}

#[test]
fn without_faults_nothing_is_lost_but_what_overflows() {
    for seed in 0..20 {
        let totals = run("all-to-all", &config(seed, Wire::Frames, Profile::Calm)).0.totals;
        assert_eq!((totals.lost, totals.duplicated, totals.damaged, totals.messages), (0, 0, 0, 0));
        assert!(totals.frames > 0);
    }
}

#[test]
fn an_unreported_death_ends_what_depends_on_it() {
    for seed in 0..25 {
        run("mixed", &config(seed, Wire::Frames, Profile::Crash));
    }
}

/// A rank receives from any source while one of the others dies before the two have met: it is told
/// of that death as well, and once all others have gone or died its wait fails by name.
#[test]
fn a_receiver_of_any_source_hears_of_every_death() {
    for seed in 20000..20040 {
        let config = SimConfig {
            wire: Wire::Frames,
            faults: Profile::Crash,
            patience_ns: 2_000_000_000,
            ..SimConfig::new(seed, 6)
        };
        let (report, _) = run("flood", &config);
        assert_eq!(report.stranded, Vec::<String>::new(), "{report}");
    }
}

#[test]
fn a_rank_that_boots_again_takes_part_again() {
    for wire in Wire::ALL {
        let (mut reborn, mut complete) = (0, 0);
        for seed in 0..30 {
            let config = SimConfig { record: true, ..config(seed, wire, Profile::Restart) };
            let (report, done) = run("reboot", &config);
            let booted = report.records.iter().any(|record| matches!(record, Record::Boot { .. }));
            reborn += u32::from(booted);
            complete += u32::from(booted && done >= config.ranks);
        }
        println!("{wire}: {reborn} runs with a second life, {complete} of them complete with it");
        // Where a rank dies before another has begun, the latter has no peer to connect to.
        assert!(reborn > 25 && complete * 5 > reborn * 4, "{wire}: {complete} of {reborn}");
    }
}

#[test]
fn other_programs_end_or_wait_for_no_rank_that_is_gone() {
    for seed in 0..12 {
        for wire in Wire::ALL {
            run("mixed", &config(seed, wire, Profile::Restart));
        }
    }
}

#[test]
fn a_history_without_some_of_its_faults_is_one_too() {
    let all = config(5, Wire::Frames, Profile::Swarm);
    assert!(faults(&all).len() > 4, "{:?}", faults(&all));
    let some = SimConfig { only: Some(vec![1, 3]), ..all.clone() };
    let none = SimConfig { only: Some(Vec::new()), ..all.clone() };
    let hashes = [&all, &some, &none].map(|config| run("mixed", config).0.hash);
    assert_eq!(hashes, [&all, &some, &none].map(|config| run("mixed", config).0.hash));
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
}
