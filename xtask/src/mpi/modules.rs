//! Modules of mpi4py's own tests, with one build of mpi4py: over the reference library, MPICH, and over Aldis.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;
use crate::table::Table;

/// The reference library and what its programs need, as of docs/mpi.md.
const PACKAGES: [&str; 3] = ["mpich==5.0.2", "numpy", "setuptools"];
const MPI4PY: &str = "mpi4py==4.1.2";

/// Those that docs/mpi.md counts.
const ALL: [&str; 14] = [
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
];

/// Seconds that a module may take.
const LIMIT: u64 = 120;

/// Ranks that each is run with.
const RANKS: [u32; 3] = [1, 2, 4];

/// Runs modules, and prints how many of their tests passed.
pub(super) fn run(prefix: &Path, target: &Path, wanted: &[String]) -> Result<()> {
    let home = target.join("mpi-python");
    let sources = prepare(&home)?;
    let all = wanted.iter().any(|name| name == "all");
    let modules: Vec<&str> = if all { ALL.to_vec() } else { wanted.iter().map(String::as_str).collect() };
    let mut table = Table::new(["module", "ranks", "Aldis", "reference"]);
    let mut behind = 0;
    for module in modules {
        for ranks in RANKS {
            let file = sources.join("test").join(format!("{module}.py"));
            let aldis = measure(&prefix.join("bin/aldis-mpiexec"), &prefix.join("lib"), &home, ranks, &file)?;
            let reference = measure(&home.join("bin/mpiexec"), &home.join("lib"), &home, ranks, &file)?;
            behind += u32::from(aldis != reference);
            table.row([module.to_owned(), ranks.to_string(), aldis, reference]);
        }
    }
    print!("{table}");
    if behind > 0 {
        println!("{behind} rows differ");
    }
    Ok(())
}

/// A virtual environment with the reference library and mpi4py, and mpi4py's sources.
fn prepare(home: &Path) -> Result<PathBuf> {
    let sources = home.join("sources");
    if !home.join("bin/python").exists() {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(home))?;
    }
    if !home.join("ready").exists() {
        let pip = home.join("bin/pip");
        shell::run(Command::new(&pip).args(["install", "-q"]).args(PACKAGES))?;
        let mut build = Command::new(&pip);
        build.args(["install", "-q", "--no-binary", "mpi4py", MPI4PY]);
        build.env("MPI4PY_BUILD_MPIABI", "1").env("MPICC", home.join("bin/mpicc_abi"));
        shell::run(&mut build)?;
        fs::create_dir_all(&sources)?;
        let mut download = Command::new(&pip);
        download.args(["download", "-q", "--no-deps", "--no-binary", "mpi4py", MPI4PY, "-d"]).arg(&sources);
        shell::run(&mut download)?;
        for archive in fs::read_dir(&sources)? {
            let mut unpack = Command::new("tar");
            unpack.args(["xf"]).arg(archive?.path()).args(["--strip-components=1", "-C"]).arg(&sources);
            shell::run(&mut unpack)?;
        }
        fs::write(home.join("ready"), MPI4PY)?;
    }
    Ok(sources)
}

/// What a module comes to: how many of its tests passed on rank 0, of how many that were run, or how it ended.
fn measure(launcher: &Path, lib: &Path, home: &Path, ranks: u32, file: &Path) -> Result<String> {
    let mut command = Command::new("timeout");
    command.arg(LIMIT.to_string()).arg(launcher).args(["-n", &ranks.to_string()]);
    command.arg(home.join("bin/python")).arg(file).arg("-v").stdin(Stdio::null());
    command.env("LD_LIBRARY_PATH", lib).env("MPI4PY_RC_RECV_MPROBE", "0");
    let ended = command.output().with_context(|| format!("starting {}", launcher.display()))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let ran: Option<u32> = said.lines().rev().find_map(|line| {
        line.trim_start_matches(|letter: char| letter != 'R')
            .strip_prefix("Ran ")?
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    let bad = |word: &str| said.lines().filter(|line| line.starts_with(word)).count() as u32;
    match ran {
        Some(ran) => {
            let failed = (bad("ERROR:") + bad("FAIL:")).div_ceil(ranks.max(1));
            Ok(format!("{} of {ran}", ran.saturating_sub(failed)))
        }
        None if ended.status.code() == Some(124) => Ok("timed out".to_owned()),
        None => {
            if !launcher.exists() {
                bail!("{} is not there", launcher.display());
            }
            Ok(format!("ended: {}", ended.status))
        }
    }
}
