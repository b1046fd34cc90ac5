//! The program behind `cargo xtask conformance`: lists the cases of the conformance suite, or runs
//! some of them on many seeds. It says one JSON object a line.
//!
//! `conformance cases`, `conformance media`, or `conformance run FROM SEEDS CASE MEDIUM`, with
//! `all` for every case or medium; with `drawn` instead of `run`, those alone that differ from seed
//! to seed. `conformance cards SEED` runs jobs over network cards. `conformance rank CASE SEED` is
//! a rank of a job that it starts itself; `conformance rank all SEED` one of a job that plays all
//! cases of its size of chapters 3 to 6: `aldis-run -n 4 conformance rank all 1`.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use aldis_conformance::cards::{self, CardsJob};
use aldis_conformance::launched::{self, LaunchedPrograms, PROGRAMS};
use aldis_conformance::{Case, Medium, cases, media, run};
use aldis_drivers::Loopback;
use aldis_tests::threads::Host;
use serde_json::json;

/// The argument that stands for every case and every medium.
const ALL: &str = "all";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Any kind of endpoint will do to read the list.
    let all = cases::<Loopback<'_>, Host<'_>>();
    match words[..] {
        ["cases"] => {
            for Case { name, section, ranks, .. } in all {
                println!("{}", json!({"case": name, "section": section, "ranks": ranks}));
            }
            ExitCode::SUCCESS
        }
        ["media"] => {
            for Medium { name, about, .. } in media() {
                println!("{}", json!({"medium": name, "about": about}));
            }
            ExitCode::SUCCESS
        }
        ["cards", seed] => seed.parse().map_or_else(|_| usage(), over_cards),
        ["rank", ALL, seed] => seed.parse().map_or_else(|_| usage(), launched::rank_of_all),
        ["rank", case, seed] => match (case.parse(), seed.parse()) {
            (Ok(case), Ok(seed)) => launched::rank(case, seed),
            _ => usage(),
        },
        [how @ ("run" | "drawn"), from, seeds, case, medium] => match (from.parse(), seeds.parse()) {
            (Ok(from), Ok(seeds)) => {
                campaign(&all, CaseCampaign { from, seeds, case, medium, only_drawn: how == "drawn" })
            }
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "conformance cases | media | run FROM SEEDS CASE MEDIUM | drawn FROM SEEDS CASE MEDIUM | cards SEED"
    );
    ExitCode::from(2)
}

/// Notes where both programs are: where this one is.
fn find_programs() {
    if let Ok(own) = std::env::current_exe() {
        PROGRAMS.get_or_init(|| LaunchedPrograms { launcher: own.with_file_name("aldis-run"), rank: own });
    }
}

/// A job over each kind of card.
fn over_cards(seed: u64) -> ExitCode {
    find_programs();
    let mut is_good = true;
    for CardsJob { options, seconds, failure } in cards::jobs(seed) {
        println!("{}", json!({"job": options, "seconds": seconds, "failure": failure}));
        is_good &= failure.is_none();
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A campaign: so many seeds, of cases over media, each a name or all.
struct CaseCampaign<'a> {
    from: u64,
    seeds: u64,
    case: &'a str,
    medium: &'a str,
    /// Leave out cases on media where no seed draws anything.
    only_drawn: bool,
}

/// Every case that is asked for over every medium that is, each up to its first seed that fails.
fn campaign<T, P>(all: &[Case<T, P>], campaign: CaseCampaign<'_>) -> ExitCode {
    let CaseCampaign { from, seeds, case, medium, only_drawn } = campaign;
    let is = |wanted: &str, name: &str| wanted == ALL || wanted == name;
    let media = || media().filter(|one| is(medium, one.name));
    let chosen = all.iter().enumerate().filter(|(_, one)| is(case, one.name));
    let is_drawn = |case: usize| all.get(case).is_some_and(|case| case.is_drawn);
    let work: Vec<(usize, &Medium)> = chosen
        .flat_map(|(index, _)| media().map(move |medium| (index, medium)))
        .filter(|(case, medium)| !only_drawn || medium.draws(is_drawn(*case)))
        .collect();
    let seeds = |case, one: &Medium| if medium == ALL { one.seeds_of(seeds, is_drawn(case)) } else { seeds };
    find_programs();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some((case, medium)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (start, mut runs) = (Instant::now(), 0);
            let mut failure = None;
            for seed in from..from + seeds(*case, medium) {
                let Some(went) = run(*case, medium, seed) else { break };
                runs += 1;
                if let Err(found) = went {
                    failed.fetch_add(1, Ordering::Relaxed);
                    failure = Some(found.to_string());
                    break;
                }
            }
            let (name, seconds) = (all.get(*case).map(|case| case.name), start.elapsed().as_secs_f64());
            println!(
                "{}",
                json!({"case": name, "medium": medium.name, "runs": runs, "seconds": seconds, "failure": failure})
            );
        }
    };
    // Jobs of threads and processes wait for each other half of their time.
    let workers = 3 * thread::available_parallelism().map_or(1, core::num::NonZero::get);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    if work.is_empty() {
        eprintln!("no such case or medium; `conformance cases` and `conformance media` tell which there are");
        return ExitCode::from(2);
    }
    if failed.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
