//! Modules of mpi4py's own tests, with one build of mpi4py: over the reference library, MPICH, and
//! over Aldis, compared test by test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aldis_shell::shell;
use aldis_shell::table::Table;
use aldis_shell::workspace::checkout;
use anyhow::{Context, Result, bail};

use super::folder;
use super::gaps::Gaps;
use super::install::Folders;
use super::record::Recording;

/// The reference library and what its programs need, as of docs/mpi.md.
const PACKAGES: [&str; 3] = ["mpich==5.0.2", "numpy", "setuptools"];
const MPI4PY: &str = "mpi4py==4.1.2";

/// The modules that docs/mpi.md counts.
const ALL: [&str; 19] = [
    "test_comm",
    "test_group",
    "test_status",
    "test_request",
    "test_op",
    "test_info",
    "test_attributes",
    "test_errhandler",
    "test_datatype",
    "test_pack",
    "test_p2p_buf",
    "test_p2p_obj",
    "test_cco_buf",
    "test_cco_obj",
    "test_cco_vec",
    "test_cco_buf_inter",
    "test_cco_obj_inter",
    "test_cco_vec_inter",
    "test_comm_topo",
];

/// Ranks that each is run with.
pub(super) const RANKS: [u32; 3] = [1, 2, 4];
/// Ranks that they are run with every day, and of which there is a [record](Recording).
pub(super) const RANKS_DAILY: u32 = 2;

/// Ranks of the example in Python.
const EXAMPLE_RANKS: u32 = 4;

/// The check for what a virtual environment and mpi4py's build need.
const PYTHON_CHECK: &str =
    "import ensurepip, os, sysconfig; os.stat(os.path.join(sysconfig.get_path('include'), 'Python.h'))";

/// The command that installs them.
pub(super) const PYTHON_NEEDS: &str = "apt-get install python3-venv python3-dev";

/// Returns true if they can be made here.
pub(super) fn has_python() -> bool {
    let mut check = Command::new("python3");
    check.args(["-c", PYTHON_CHECK]).stdout(Stdio::null()).stderr(Stdio::null());
    check.status().is_ok_and(|status| status.success())
}

/// # Errors
/// If they cannot.
pub(super) fn need_python() -> Result<()> {
    if has_python() { Ok(()) } else { bail!("no Python to build mpi4py with: {PYTHON_NEEDS}") }
}

/// Seconds that a job may take, of which both launchers know; and those after which it is ended
/// without being asked.
const LIMIT: &str = "120";
const LIMIT_OF_LAUNCHER: &str = "140";

/// Lines of what a job said last that are shown of one that ended in the middle of a test.
const LAST_WORDS: usize = 6;

/// Jobs of a module: each goes on after the test in which the one before it ended.
const JOBS: usize = 12;

/// The script that runs a module's tests.
const EACH: &str = "tests/lab/src/mpi/each.py";

/// The outcome of a test, on all ranks together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Skipped,
    Passed,
    /// The reason, from the first rank that says so.
    Failed(String),
}

/// Every test of a module by its name.
type Module = BTreeMap<String, Outcome>;

/// An implementation of MPI.
pub(super) struct Library {
    pub(super) launcher: PathBuf,
    pub(super) libraries: PathBuf,
}

impl Library {
    /// Aldis, as it is installed.
    pub(super) fn aldis(prefix: &Path) -> Self {
        Self { launcher: prefix.join("bin/aldis-mpiexec"), libraries: prefix.join("lib") }
    }

    /// The reference library, installed into a virtual environment unless it is there.
    pub(super) fn reference(home: &Path) -> Result<Self> {
        if !home.join("bin/python").exists() {
            shell::run(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        }
        let library = Self { launcher: home.join("bin/mpiexec"), libraries: home.join("lib") };
        if !library.launcher.exists() {
            shell::run(Command::new(home.join("bin/pip")).args(["install", "-q"]).args(PACKAGES))?;
        }
        Ok(library)
    }

    /// A job of so many ranks that is ended when it takes too long, and knows that.
    pub(super) fn job(&self, ranks: u32) -> Command {
        let mut job = Command::new("timeout");
        job.args(["--kill-after=10", LIMIT_OF_LAUNCHER]).env("MPIEXEC_TIMEOUT", LIMIT).arg(&self.launcher);
        job.args(["-n", &ranks.to_string()]).env("LD_LIBRARY_PATH", &self.libraries).stdin(Stdio::null());
        job
    }
}

/// Returns the folder of the virtual environment with the reference library.
pub(super) fn environment(target: &Path) -> PathBuf {
    target.join("mpi-python")
}

/// The folders of mpi4py.
struct Python {
    home: PathBuf,
    sources: PathBuf,
}

/// The source of what the reference library does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// It runs beside Aldis.
    Run,
    /// So too, and what passes at [`RANKS_DAILY`] is recorded.
    Record,
    /// The [record](Recording).
    Recorded,
}

/// The modules that are run, and how.
pub(super) struct ModulesPlan<'a> {
    /// Their names; all that docs/mpi.md counts if there are none.
    pub(super) modules: &'a [String],
    /// The numbers of ranks that each is run with.
    pub(super) ranks: &'a [u32],
    pub(super) control: Control,
    /// Print JSON instead of the table.
    pub(super) is_json: bool,
}

/// Runs the modules at each number of ranks, and shows how many of the tests that pass over the
/// reference library pass over Aldis, and which do not; what came of all of them.
///
/// # Errors
/// A test that is behind and not among the known gaps, or one of those that passes.
pub(super) fn run(folders: &Folders, plan: &ModulesPlan<'_>) -> Result<String> {
    let ModulesPlan { modules: wanted, ranks, control: kind, is_json } = *plan;
    let (home, aldis) = (environment(&folders.target), Library::aldis(&folders.prefix));
    let reference = Library::reference(&home)?;
    let python = Python::prepare(&home)?;
    println!("{}", python.example(&aldis)?);
    let modules: Vec<&str> =
        if wanted.is_empty() { ALL.to_vec() } else { wanted.iter().map(String::as_str).collect() };
    let mut gaps = Gaps::read(&folder().join("table/gaps.txt"))?;
    let [reference_package, ..] = PACKAGES;
    let empty = || Recording::new(MPI4PY, reference_package, RANKS_DAILY);
    if kind == Control::Record && !ranks.contains(&RANKS_DAILY) {
        bail!("what is recorded is of {RANKS_DAILY} ranks: --ranks has to have them");
    }
    let mut record = empty();
    let recorded = if kind == Control::Record { empty() } else { Recording::read(&record)? };
    let mut table = Table::new(["module", "ranks", "reference", "Aldis", "known gaps", "behind"]);
    let [mut good, mut known, mut behind] = [0; 3];
    for module in modules {
        for &ranks in ranks {
            eprintln!("{module}, {ranks} ranks");
            let control = match kind {
                Control::Run | Control::Record => Some(python.module(&reference, module, ranks)?),
                Control::Recorded => None,
            };
            let went = python.module(&aldis, module, ranks)?;
            let passing = control.as_ref().map_or_else(|| recorded.module(module), passing);
            if ranks == RANKS_DAILY {
                record.add(passing.iter().copied());
            }
            let counts = compare(&passing, &went, ranks, &mut gaps);
            for (sum, count) in [&mut good, &mut known, &mut behind].into_iter().zip(&counts[1..]) {
                *sum += count;
            }
            let [passed, same, gaps, worse] = counts.map(|count| count.to_string());
            table.row([module.to_owned(), ranks.to_string(), passed, same, gaps, worse]);
        }
    }
    if is_json {
        for record in table.records() {
            println!("{}", serde_json::to_string(&record.into_iter().collect::<BTreeMap<_, _>>())?);
        }
    } else {
        print!("{table}");
    }
    match kind {
        Control::Record => record.write()?,
        Control::Run if wanted.is_empty() && ranks.contains(&RANKS_DAILY) => record.is_as(&recorded)?,
        Control::Run | Control::Recorded => {}
    }
    gaps.check()?;
    if behind > 0 {
        bail!("{behind} times a test passes over the reference library and not over Aldis");
    }
    Ok(format!("{good} times a test of mpi4py passes as over the reference library, {known} known gaps"))
}

/// The tests of a module that passed.
fn passing(module: &Module) -> BTreeSet<&str> {
    let passed = module.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
    passed.map(|(name, _)| name.as_str()).collect()
}

/// Shows the tests that are behind; of those that pass over the reference library, how many there
/// are, pass over Aldis, are known not to, and are behind.
fn compare(control: &BTreeSet<&str>, went: &Module, ranks: u32, gaps: &mut Gaps) -> [usize; 4] {
    let [mut passed, mut same, mut known, mut worse] = [0; 4];
    for &name in control {
        passed += 1;
        match went.get(name) {
            Some(Outcome::Passed) => {
                gaps.passed(name, ranks);
                same += 1;
            }
            _ if gaps.has(name, ranks) => known += 1,
            outcome => {
                eprintln!("  {name}, {ranks} ranks: {}", tell(outcome));
                worse += 1;
            }
        }
    }
    [passed, same, known, worse]
}

fn tell(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "did not run".into(),
        Some(Outcome::Passed) => "passed".into(),
        Some(Outcome::Skipped) => "skipped".into(),
        Some(Outcome::Failed(why)) => why.clone(),
    }
}

impl Python {
    /// mpi4py in the environment of the reference library, and its sources.
    fn prepare(home: &Path) -> Result<Self> {
        let sources = home.join("sources");
        if !home.join("ready").exists() {
            let pip = home.join("bin/pip");
            let mut build = Command::new(&pip);
            build.args(["install", "-q", "--no-binary", "mpi4py", MPI4PY]);
            build.env("MPI4PY_BUILD_MPIABI", "1").env("MPICC", home.join("bin/mpicc_abi"));
            // What it does between two calls takes no time, and its one file a minute to optimise.
            build.env("CFLAGS", "-O0 -g0");
            shell::run(&mut build)?;
            fs::create_dir_all(&sources)?;
            let mut download = Command::new(&pip);
            download
                .args(["download", "-q", "--no-deps", "--no-binary", "mpi4py", MPI4PY, "-d"])
                .arg(&sources);
            shell::run(&mut download)?;
            for archive in fs::read_dir(&sources)? {
                let mut unpack = Command::new("tar");
                unpack.args(["xf"]).arg(archive?.path()).args(["--strip-components=1", "-C"]).arg(&sources);
                shell::run(&mut unpack)?;
            }
            fs::write(home.join("ready"), MPI4PY)?;
        }
        Ok(Self { home: home.to_owned(), sources })
    }

    /// Runs a module's tests, and returns the outcome of each. Where a test ends its job, or the
    /// job its time, another job runs the rest.
    fn module(&self, library: &Library, module: &str, ranks: u32) -> Result<Module> {
        let mut all = Module::new();
        for _ in 0..JOBS {
            let without: Vec<&String> = all.keys().collect();
            let ended = self.job(library, module, ranks, &without)?;
            let (said, is_whole) = self.said(ranks, &ended)?;
            let is_new = said.keys().any(|name| !all.contains_key(name));
            all.extend(said);
            if is_whole {
                break;
            }
            if !is_new {
                bail!("{module}, {ranks} ranks: the job ended before any test: {ended}");
            }
        }
        Ok(all)
    }

    /// Runs the example in Python; its one line.
    fn example(&self, library: &Library) -> Result<String> {
        let mut job = library.job(EXAMPLE_RANKS);
        job.arg(self.home.join("bin/python")).arg(folder().join("programs/pi.py"));
        let said = shell::output(&mut job)?;
        if !said.starts_with("pi is 3.14159265") || said.lines().count() != 1 {
            bail!("the example pi.py said: {said}");
        }
        Ok(said.trim_end().to_owned())
    }

    fn folder(&self) -> PathBuf {
        self.home.join("said")
    }

    /// Runs a job; how it ended.
    fn job(&self, library: &Library, module: &str, ranks: u32, without: &[&String]) -> Result<String> {
        let folder = self.folder();
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let mut job = library.job(ranks);
        job.arg(self.home.join("bin/python")).arg(checkout().join(EACH)).arg(module).arg(&folder);
        job.args(without);
        job.env("PYTHONPATH", self.sources.join("test"));
        let ended = job.output().with_context(|| format!("starting {}", library.launcher.display()))?;
        let words = String::from_utf8_lossy(&ended.stderr);
        let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LAST_WORDS)).copied().collect::<Vec<_>>();
        Ok(format!("the job ended, {}: {}", ended.status, last.join(" | ")))
    }

    /// Returns what the ranks of the last job have said, and whether all have come to the end. A
    /// test that a rank has begun and nothing was said of has failed: it `ended` the job.
    fn said(&self, ranks: u32, ended: &str) -> Result<(Module, bool)> {
        let (mut all, mut is_whole) = (Module::new(), true);
        for rank in 0..ranks {
            let file = self.folder().join(rank.to_string());
            let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
            let mut own = BTreeMap::new();
            for line in text.lines() {
                let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
                let (name, why) = rest.split_once(' ').unwrap_or((rest, ""));
                let outcome = match what {
                    "begin" => Outcome::Failed(ended.into()),
                    "ok" => Outcome::Passed,
                    "skip" => Outcome::Skipped,
                    "fail" => Outcome::Failed(format!("rank {rank}: {why}")),
                    _ => continue,
                };
                match own.get_mut(name) {
                    // A part of it that failed is not made good by the rest.
                    Some(Outcome::Failed(before)) if before != ended => {}
                    Some(before) => *before = outcome,
                    None => drop(own.insert(name.to_owned(), outcome)),
                }
            }
            is_whole &= text.lines().last() == Some("end");
            for (name, outcome) in own {
                let before = all.entry(name).or_insert(Outcome::Skipped);
                if outcome > *before {
                    *before = outcome;
                }
            }
        }
        Ok((all, is_whole))
    }
}
