//! Every case of the conformance suite over everything that can hold its ranks.
#![allow(missing_docs)]

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use aldis_drivers::Loopback;
use aldis_tests::conformance::launched::{LaunchedPrograms, PROGRAMS};
use aldis_tests::conformance::threads::Host;
use aldis_tests::conformance::{cases, media, run};
use aldis_tests::jobs::program;

/// Seeds of which each case has one on each medium, in turn: one for each size of storage. The step
/// "conformance" of `cargo xtask test` runs 300 of each case, and so all of these.
const SEEDS: u64 = 3;
/// Jobs at once: most wait for each other's threads and processes.
const WORKERS: usize = 6;

#[test]
fn every_case_passes_over_every_medium() {
    let programs =
        LaunchedPrograms { launcher: program("aldis-run"), rank: env!("CARGO_BIN_EXE_conformance").into() };
    PROGRAMS.set(programs).unwrap();
    let all = cases::<Loopback<'_>, Host<'_>>();
    let count = all.len();
    let (next, failures, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    let work = || {
        loop {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= count {
                return;
            }
            for (turn, medium) in media().enumerate() {
                let seed = (case + turn) as u64 % medium.seeds_of(SEEDS, all[case].is_drawn);
                match run(case, medium, seed) {
                    None => {}
                    Some(Ok(())) => drop(runs.fetch_add(1, Ordering::Relaxed)),
                    Some(Err(failure)) => failures.lock().unwrap().push(failure.to_string()),
                }
            }
        }
    };
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of the runs failed:\n\n{}", failures.len(), failures.join("\n\n"));
    let runs = runs.into_inner();
    println!("{runs} runs of {count} cases");
    assert!(runs >= count * 5, "{runs} runs of {count} cases");
}

#[test]
fn cases_are_told_apart_by_name_and_cite_their_section() {
    let mut names = Vec::new();
    for case in cases::<Loopback<'_>, Host<'_>>() {
        assert!(!names.contains(&case.name), "{case:?}");
        let mut numbers = case.section.split('.').map(str::parse::<u32>);
        assert!(numbers.all(|number| number.is_ok()) && case.ranks > 0, "{case:?}");
        names.push(case.name);
    }
}
