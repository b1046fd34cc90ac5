//! A failing run as it is told: what went wrong, the faults in words, and a smaller run that fails
//! too; and the check of a user's own program that tells it.

use std::io;

use super::config::SimConfig;
use super::faults;
use super::report::{Report, RunFailure};
use super::run::simulate;
use super::shrink::{Shrunk, shrink};
use super::virtual_node::{Outcome, SimEndpoint};

/// Runs that [`check`] takes at most to look for a smaller one.
const TRIALS_MAX: u32 = 200;

/// A failing run, and a smaller one.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The run.
    pub config: SimConfig,
    /// The failure.
    pub failure: RunFailure,
    /// A run with fewer faults or ranks that fails in the same way, and why it does; `None` if
    /// there is none.
    pub smaller: Option<(Shrunk, RunFailure)>,
}

impl Finding {
    /// Finds what there is to tell of a run, nothing if it went well. Up to `trials_max` runs look
    /// for a smaller one that fails in the same way: a job that does not come to its end, or a rank
    /// that found something wrong.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn of(
        report: &Report,
        trials_max: u32,
        mut run: impl FnMut(&SimConfig) -> io::Result<Report>,
    ) -> io::Result<Option<Self>> {
        let Some(failure) = report.failure.clone() else { return Ok(None) };
        let config = SimConfig { record: false, ..report.config.clone() };
        let shrunk = shrink(&config, trials_max, |config| {
            let found = run(config).ok().and_then(|report| report.failure);
            found.is_some_and(|found| found.rank.is_some() == failure.rank.is_some())
        });
        let is_smaller = shrunk.config.only != config.only || shrunk.config.ranks != config.ranks;
        let again = if is_smaller { run(&shrunk.config)?.failure } else { None };
        Ok(Some(Self { config, failure, smaller: again.map(|failure| (shrunk, failure)) }))
    }

    /// All of it in words; `replay` says how a run is repeated.
    pub fn tell(&self, replay: impl Fn(&SimConfig) -> String) -> String {
        let Self { config, failure, smaller } = self;
        let again =
            |config: &SimConfig| format!("{}\n\nreplay with\n  {}", config.tell_faults(), replay(config));
        let mut text = format!("seed {} FAILED: {failure}\n\n{}", config.seed, again(config));
        if let Some((Shrunk { config, trials, minimal }, failure)) = smaller {
            let ranks = config.ranks;
            text += &format!(
                "\n\nsmaller, found in {trials} runs: {ranks} ranks: {failure}\n\n{}",
                again(config)
            );
            if !minimal {
                text += "\n(there were no more runs to find out whether all of these faults are needed)";
            }
        }
        text
    }
}

impl SimConfig {
    /// The faults of this run in words, each under its number in the list of all that the seed
    /// draws.
    pub fn faults_in_words(&self) -> Vec<String> {
        let all = faults(&Self { only: None, ..self.clone() });
        let is_there = |index: &u16| self.only.as_ref().is_none_or(|only| only.contains(index));
        let there = (0..).zip(all).filter(|(index, _)| is_there(index));
        there.map(|(index, fault)| format!("{index:>3}  {fault}")).collect()
    }

    /// The faults of this run in words, below each other and under a head.
    pub fn tell_faults(&self) -> String {
        let words = self.faults_in_words();
        match words.len() {
            0 => "no faults".into(),
            1 => format!("1 fault:\n{}", words.join("\n")),
            count => format!("{count} faults:\n{}", words.join("\n")),
        }
    }

    /// This run as Rust code, for a test that repeats it; a network, a room or a patience that are
    /// neither drawn nor the default are left out.
    pub fn code(&self) -> String {
        let Self { seed, ranks, topology, wire, faults, only, .. } = self;
        let only = only.as_ref().map_or_else(String::new, |only| format!(" only: Some(vec!{only:?}),"));
        format!(
            "Config {{ topology: \"{topology}\".parse().unwrap(), wire: Wire::{wire:?}, faults: Profile::{faults:?},{only} \
             ..Config::new({seed}, {ranks}) }}"
        )
    }
}

/// Runs `program` on every rank, for a test of one's own.
///
/// # Panics
/// When the run fails, or cannot be run, with all that is known of it: what went wrong, the faults
/// in words, a smaller run that fails too, and the code that repeats either.
pub fn check(
    config: &SimConfig,
    program: impl Fn(&mut SimEndpoint<'_>) -> Outcome + Clone + 'static,
) -> Report {
    let run = |config: &SimConfig| simulate(config, program.clone());
    let told = run(config).and_then(|report| Ok((Finding::of(&report, TRIALS_MAX, run)?, report)));
    match told {
        Ok((None, report)) => report,
        Ok((Some(finding), _)) => panic!("{}", finding.tell(SimConfig::code)),
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Profile, Topology, Wire};
    use super::*;

    /// A program that takes no message later than 200 us after it has begun.
    fn hasty(ep: &mut SimEndpoint<'_>) -> Outcome {
        let world = ep.world();
        let (me, size) = (world.rank().0, world.size());
        let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
        let mut token = [0_u32];
        let mut hasty = ep.within(core::time::Duration::from_micros(200));
        let (next, previous, tag) =
            (aldis_kernel::Rank(next), aldis_kernel::Rank(previous), aldis_kernel::Tag(0));
        hasty.sendrecv(&world, &[me], next, tag, &mut token, previous, tag)?;
        Ok(())
    }

    fn config(seed: u64) -> SimConfig {
        SimConfig { topology: Topology::Ring, ..SimConfig::new(seed, 12) }
    }

    #[test]
    fn the_faults_that_a_real_failure_needs_are_found() {
        let run = |config: &SimConfig| simulate(config, hasty);
        let failing = (0..100).map(config).filter(|config| faults(config).len() > 3);
        let failing =
            failing.filter_map(|config| run(&config).ok().filter(|report| report.failure.is_some()));
        let mut found = 0;
        for report in failing.take(3) {
            let finding = Finding::of(&report, 400, run).unwrap().unwrap();
            let (shrunk, failure) = finding.smaller.as_ref().unwrap();
            assert!(failure.what.contains("deadline"), "{failure}");
            let left = shrunk.config.only.clone().unwrap_or_default();
            assert!(shrunk.minimal && left.len() < faults(&report.config).len());
            assert!(run(&shrunk.config).unwrap().failure.is_some());
            for out in &left {
                let only = Some(left.iter().filter(|index| *index != out).copied().collect());
                let passes = run(&SimConfig { only, ..shrunk.config.clone() }).unwrap();
                assert_eq!(passes.failure, None, "fault {out} of {left:?} is not needed");
            }
            found += 1;
        }
        assert_eq!(found, 3);
    }

    #[test]
    fn a_failing_check_tells_everything() {
        let fails = |config: &SimConfig| simulate(config, hasty).unwrap().failure.is_some();
        let failing = (0..100).map(config).find(|config| faults(config).len() > 3 && fails(config)).unwrap();
        let passing = (0..100).map(config).find(|config| !fails(config)).unwrap();
        assert_eq!(check(&passing, hasty).failure, None);
        let panic = std::panic::catch_unwind(|| check(&failing, hasty)).unwrap_err();
        let told = panic.downcast_ref::<String>().unwrap();
        for words in [
            " FAILED: rank ",
            "faults:\n  0  from ",
            "replay with\n  Config { ",
            "smaller, found in ",
            "only: Some(vec![",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn a_run_is_told_as_code() {
        let config =
            SimConfig { wire: Wire::Frames, faults: Profile::Crash, only: Some(vec![2, 7]), ..config(9) };
        let code = "Config { topology: \"ring\".parse().unwrap(), wire: Wire::Frames, faults: Profile::Crash, \
                    only: Some(vec![2, 7]), ..Config::new(9, 12) }";
        assert_eq!(config.code(), code);
    }
}
