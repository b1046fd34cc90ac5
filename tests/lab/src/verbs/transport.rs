//! The transport over verbs in a guest: its own tests, the conformance suite, collectives, and its
//! figures.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::thread;

use aldis_shell::artifact::Artifact;
use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::wild::Wild;
use aldis_shell::workspace;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::console::Ran;
use super::guest::{GuestClock, GuestKind, address};
use super::pingpong::{self, PingpongLine, SHORT_SIZES, SIZES};
use super::session::{self, Session};
use crate::conformance;

/// The files by which the libraries' headers are found.
const HEADERS: [&str; 2] = ["/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h"];
/// The command that installs what builds the transport.
const PACKAGES: &str = "apt-get install libibverbs-dev librdmacm-dev libclang-dev";
/// The tests that need a device; the others need that there is none.
const MODULE: &str = "rxe::";

/// The feature with which there is a transport over verbs.
pub const FEATURE: &str = "verbs";

/// Returns true if what the transport needs to build is here.
pub fn can_build() -> bool {
    HEADERS.iter().all(|header| Path::new(header).exists())
}

/// The time that each guest of the tests may take: many times what they need alone.
pub(super) const LIMIT: Duration = Duration::from_secs(600);

/// Returns the arguments of cargo with which programs of these packages have the transport, where
/// it can be built: steps that do so share what they build.
pub(crate) fn features(packages: &[&str]) -> Vec<String> {
    let features = packages.iter().filter(|_| can_build()).map(|package| format!("{package}/{FEATURE}"));
    features.flat_map(|feature| ["--features".into(), feature]).collect()
}

/// The variable that chooses the maker of connections; without it, ranks make them.
const MANAGED: &str = "ALDIS_VERBS=manager=rdma_cm";

/// Ranks of the job of processes that does every allreduce.
const RANKS: u32 = 4;

/// Bytes that are reduced at most: so many that they are read from where they lie, and a few
/// datagrams.
const LONG: u32 = 256 << 10;
const SHORT: u32 = 8 << 10;

/// The findings of the tests.
#[derive(Debug)]
pub(super) struct Findings {
    /// Tests of the transport that are good, with each manager of connections.
    pub(super) tests: usize,
    /// Runs of the conformance suite that are.
    pub(super) runs: u64,
    pub(super) figures: Vec<PingpongLine>,
}

/// The runs of the conformance suite in a guest and between two, and with them what else takes
/// long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Across {
    /// All of them.
    All,
    /// The runs that the commit draws: one in a guest, and one between two.
    Drawn,
}

impl Across {
    /// The sizes that are measured.
    const fn sizes(self) -> &'static [(u32, u32)] {
        match self {
            Self::All => &SIZES,
            Self::Drawn => &SHORT_SIZES,
        }
    }
}

/// A step of `cargo xtask test`.
pub fn step() -> Result<Outcome> {
    judge(Across::Drawn)
}

/// Runs the step with every run of the suite between guests.
pub fn step_in_full() -> Result<Outcome> {
    judge(Across::All)
}

fn judge(across: Across) -> Result<Outcome> {
    if let Some(missing) = session::missing() {
        return Ok(missing);
    }
    if !can_build() {
        return Ok(Outcome::Skipped {
            why: "no libibverbs and librdmacm to build with".into(),
            enable: PACKAGES.into(),
        });
    }
    let Findings { tests, runs, figures } = examine(LIMIT, false, across)?;
    let short = pingpong::short(&figures).context("nothing was measured")?;
    Ok(Outcome::Passed(format!(
        "{tests} tests, {runs} runs of the suite; 8 bytes in {short:.2} times what ibv_rc_pingpong takes"
    )))
}

/// Builds all of it and runs it in one guest, and then in two. Beside the one runs another, whose
/// clock counts its instructions: what else the machine does is not in its figures.
pub(super) fn examine(limit: Duration, loud: bool, across: Across) -> Result<Findings> {
    let programs = build()?;
    // Once, for all of them.
    session::packages()?;
    let (tested, measured) = thread::scope(|scope| {
        let measuring = scope.spawn(|| figures(&programs, limit, loud, across.sizes()));
        (in_one_guest(&programs, limit, loud, across), measuring.join())
    });
    let (tests, runs) = tested?;
    let mut figures = measured.map_err(|_| anyhow!("what measures has panicked"))??;
    let (more, between) = in_two_guests(&programs, limit, loud, across)?;
    figures.extend(between);
    Ok(Findings { tests, runs: runs + more, figures })
}

/// Every allreduce of up to so many bytes, by as many processes as the launcher's words say.
fn allreduce(words: &str, most: u32, limit: Duration) -> String {
    let limit = limit.as_secs();
    format!("aldis-run -n {RANKS} {words} --timeout {limit} allreduce --max-bytes {most} --calls 2")
}

/// Returns the number of tests and of runs of the suite that were good.
fn in_one_guest(programs: &[PathBuf], limit: Duration, loud: bool, across: Across) -> Result<(usize, u64)> {
    let names = programs.iter().filter_map(|path| path.file_name()?.to_str());
    let tests = names
        .into_iter()
        .find(|name| name.starts_with("verbs-"))
        .context("cargo has named no test program")?;
    let all_tests = format!("{tests} {MODULE} --test-threads=1 --nocapture");
    let suites = suites_in_one_guest(across);
    let mut commands = vec![all_tests.clone()];
    commands.extend(suites.iter().cloned());
    commands.push(allreduce("--transport verbs", LONG, limit));
    commands.push(format!("ALDIS_VERBS=mode=ud {}", allreduce("--transport verbs", SHORT, limit)));
    // These leave a device of another name.
    commands.push(format!("{MANAGED} {all_tests}"));
    let (programs, clock) = (programs.to_vec(), GuestClock::Wall);
    let session = Session { kind: GuestKind::Rdma, programs, commands: vec![commands], clock, limit, loud };
    let guests = session.play().context("the transport in a guest")?;
    let ran = guests.first().map_or(&[][..], Vec::as_slice);
    let [tests, others @ .., managed_tests] = ran else { bail!("not all was run") };
    let ran = others.get(..suites.len()).context("not all was run")?;
    let good = |ran: &Ran| passed(&ran.text()).with_context(|| format!("no count of tests:\n{}", ran.text()));
    let runs = ran.iter().map(runs).sum::<Result<u64>>()?;
    Ok((good(tests)? + good(managed_tests)?, runs))
}

/// The runs of the suite in one guest. The first seed has long messages read, the second has them
/// written.
fn suites_in_one_guest(across: Across) -> Vec<String> {
    let suite = |seed, medium| format!("conformance run {seed} 1 all {medium}");
    let all = vec![suite(0, "verbs"), format!("{MANAGED} {}", suite(1, "verbs")), suite(0, "datagrams")];
    if across == Across::Drawn { vec![draw("verbs in a guest", all)] } else { all }
}

/// The one of several that the commit draws.
fn draw<V>(step: &str, mut several: Vec<V>) -> V {
    let drawn = Wild::of(step).from % several.len() as u64;
    several.swap_remove(drawn as usize)
}

/// Returns the figures of two ranks of one guest, beside the stack itself.
fn figures(
    programs: &[PathBuf],
    limit: Duration,
    loud: bool,
    sizes: &[(u32, u32)],
) -> Result<Vec<PingpongLine>> {
    let (programs, clock) = (programs.to_vec(), GuestClock::Instructions);
    let commands = vec![pingpong::in_one_guest(false, sizes, limit)];
    let session = Session { kind: GuestKind::Rdma, programs, commands, clock, limit, loud };
    let guests = session.play().context("the figures of a guest")?;
    pingpong::of_one_guest(sizes, guests.first().map_or(&[], Vec::as_slice))
}

/// The ranks of each run of the suite between two guests, and the launcher's words by which they
/// talk.
fn suites(across: Across) -> Vec<(u32, String)> {
    let managed = format!("verbs --env {MANAGED}");
    let all = vec![(2, "verbs".into()), (4, "verbs".into()), (4, managed), (4, "shm-verbs".into())];
    if across == Across::Drawn { vec![draw("verbs", all)] } else { all }
}

/// Ranks of two guests, half of them in each: how many runs of the suite were good, and the
/// figures.
fn in_two_guests(
    programs: &[PathBuf],
    limit: Duration,
    loud: bool,
    across: Across,
) -> Result<(u64, Vec<PingpongLine>)> {
    let other = address(1);
    let hosts =
        |each: u32| format!(" --host localhost:{each},{other}:{each} --ssh rsh --agent /usr/bin/aldis-run");
    let suite = |(ranks, transport): &(u32, String)| {
        let (words, limit) = (hosts(ranks / 2), limit.as_secs());
        format!(
            "aldis-run -n {ranks}{words} --transport {transport} --output plain --timeout {limit} conformance rank all 0"
        )
    };
    let [mut first, mut second] = pingpong::in_two_guests(across.sizes());
    let bases = first.len();
    first.push(pingpong::ranks(&hosts(1), across.sizes(), limit));
    let suites = suites(across);
    eprintln!(
        "between two guests: {}",
        suites.iter().map(|(ranks, by)| format!("{ranks} ranks by {by}")).collect::<Vec<_>>().join(", ")
    );
    first.extend(suites.iter().map(suite));
    first.push(allreduce(&format!("{} --transport shm-verbs", hosts(RANKS / 2)), LONG, limit));
    // The other guest serves until this one is through.
    first.push(format!("rsh {other} touch /tmp/over < /dev/null"));
    second.push("until [ -e /tmp/over ]; do usleep 100000; done".into());
    let (programs, clock) = (programs.to_vec(), GuestClock::Wall);
    let commands = vec![first, second];
    let session = Session { kind: GuestKind::Rdma, programs, commands, clock, limit, loud };
    let guests = session.play().context("the transport between two guests")?;
    let [first, second] = guests.as_slice() else { bail!("not all guests were run") };
    let ran = first.get(bases + 1..=bases + suites.len()).unwrap_or_default();
    let runs = ran.iter().map(runs).sum::<Result<u64>>()?;
    let figures =
        pingpong::of_two_guests(across.sizes(), second.get(..bases).unwrap_or_default(), first.get(bases))?;
    Ok((runs, figures))
}

fn need_library() -> Result<()> {
    if !can_build() {
        bail!("the transport needs libibverbs and librdmacm to build; to enable: {PACKAGES}");
    }
    Ok(())
}

/// Builds it as it is used, and its tests. Where the programs are.
fn build() -> Result<Vec<PathBuf>> {
    need_library()?;
    let missing = || format!("what is missing may come with {PACKAGES}");
    let suite = conformance::build().with_context(missing)?;
    eprintln!("building the transport's tests and the examples in release");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "--quiet", "--message-format", "json"]);
    // Beside the suite, and so with the features that it was built with.
    cargo.args(conformance::PROGRAMS).args(features(&conformance::PACKAGES));
    cargo.args(["-p", "aldis-linux"]).args(features(&["aldis-linux"]));
    cargo.args(["--example", "pingpong", "--example", "allreduce", "--test", "verbs"]);
    let text = shell::output(&mut cargo).with_context(missing)?;
    let wanted = ["verbs", "pingpong", "allreduce"];
    let mut programs = vec![suite.with_file_name("aldis-run"), suite];
    programs.extend(text.lines().filter_map(|line| executable(line, &wanted)));
    Ok(programs)
}

/// Returns the number of runs of the suite that were good: one JSON object a line. It has ended
/// with an error if one was not.
fn runs(ran: &Ran) -> Result<u64> {
    let objects = ran.lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let runs = objects.filter_map(|object| object["runs"].as_u64()).sum();
    if runs == 0 {
        bail!("the conformance suite has run nothing:\n{}", ran.text());
    }
    Ok(runs)
}

/// Returns the number of tests that passed, as their harness says in the end. None is no number.
fn passed(said: &str) -> Option<usize> {
    let line = said.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "))?;
    line.split(' ').next()?.parse().ok().filter(|count| *count > 0)
}

/// A program of these names, if a line of what cargo says has built it.
fn executable(line: &str, wanted: &[&str]) -> Option<PathBuf> {
    let Artifact { target, executable, .. } = Artifact::parse(line)?;
    executable.filter(|_| wanted.contains(&target.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_runs_are_counted() {
        let said = "test rxe::a ... ok\n\ntest result: ok. 9 passed; 0 failed; 0 ignored";
        assert_eq!(passed(said), Some(9));
        assert_eq!(passed("test result: ok. 0 passed; 0 failed"), None);
        assert_eq!(passed("test result: FAILED. 1 passed; 8 failed"), None);
        let line = |runs| format!(r#"{{"case":"a","medium":"verbs","runs":{runs},"failure":null}}"#);
        let ran = |lines| Ran { lines, code: Some(0) };
        assert_eq!(runs(&ran(vec![line(1), "x".into(), line(2)])).unwrap(), 3);
        assert!(runs(&ran(vec![line(0)])).is_err());
    }

    #[test]
    fn a_commit_draws_one_run_in_a_guest_and_one_between_two() {
        let (all, drawn) = (suites(Across::All), suites(Across::Drawn));
        assert_eq!((all.len(), drawn.len()), (4, 1));
        assert!(drawn.iter().all(|one| all.contains(one)));
        let (all, drawn) = (suites_in_one_guest(Across::All), suites_in_one_guest(Across::Drawn));
        assert_eq!((all.len(), drawn.len()), (3, 1));
        assert!(drawn.iter().all(|one| all.contains(one)));
    }

    #[test]
    fn programs_are_found_among_what_cargo_says() {
        let line = r#"{"target":{"name":"verbs"},"executable":"/t/verbs-1"}"#;
        assert_eq!(executable(line, &["pingpong", "verbs"]), Some("/t/verbs-1".into()));
        assert_eq!(executable(line, &["pingpong"]), None);
        assert_eq!(executable(r#"{"target":{"name":"verbs"},"executable":null}"#, &["verbs"]), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#, &["verbs"]), None);
    }
}
