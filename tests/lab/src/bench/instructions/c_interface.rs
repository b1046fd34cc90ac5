//! Instructions of calls by the C interface of MPI, as a program in C makes them that is built and
//! linked as users do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::workspace::{Workspace, checkout};
use anyhow::{Context, Result, bail};

use super::{Count, Interface, collected_of};
use crate::mpi::install;

/// Calls that `host-sim/mpi/programs/instructions.c` has counted.
const COUNTED: u32 = 512;

/// Messages of a window, all of which one call waits for.
const WINDOW: u32 = 64;

/// Seconds that a run may take.
const LIMIT: &str = "300";

/// A call that is counted: the program's name for the round that it is made in, the rank that makes
/// it, and its messages.
type Counted = (&'static str, &'static str, usize, u32);

/// The calls that are counted.
const CALLS: [Counted; 11] = [
    ("MPI_Send", "send", 0, 1),
    ("MPI_Isend", "isend", 0, 1),
    ("MPI_Recv, the message in the ring", "send", 1, 1),
    ("MPI_Irecv", "irecv", 1, 1),
    ("MPI_Wait that takes the message in", "wait", 1, 1),
    ("MPI_Waitall, a message taken in before", "waitall", 1, WINDOW),
    ("MPI_Bcast, the root", "bcast", 0, 1),
    ("MPI_Bcast, another rank", "bcast", 1, 1),
    ("MPI_Allreduce, the last rank", "allreduce", 1, 1),
    ("MPI_Iallreduce, the first rank", "iallreduce", 0, 1),
    ("MPI_Iallreduce and MPI_Wait, the last rank", "iallreduce", 1, 1),
];

/// The collectives that are counted with the last type alone: what types cost is in the others.
const COLLECTIVES: [Counted; 10] = [
    ("MPI_Gather, who gives", "gather", 0, 1),
    ("MPI_Gather, the root", "gather", 1, 1),
    ("MPI_Scatter, the root", "scatter", 0, 1),
    ("MPI_Scatter, who takes", "scatter", 1, 1),
    ("MPI_Reduce, who gives", "reduce", 0, 1),
    ("MPI_Reduce, the root", "reduce", 1, 1),
    ("MPI_Scan, the first rank", "scan", 0, 1),
    ("MPI_Scan, the last rank", "scan", 1, 1),
    ("MPI_Start of MPI_Allreduce_init, the first rank", "start", 0, 1),
    ("MPI_Start of MPI_Allreduce_init and MPI_Wait, the last rank", "start", 1, 1),
];

/// The types, and the program's names for them.
const TYPES: [(&str, &str); 3] = [("MPI_BYTE", "byte"), ("MPI_CHAR", "char"), ("MPI_DOUBLE", "double")];

/// The instructions of each call with 8 bytes of each type. Characters are summed as other
/// libraries do it, beyond the standard.
pub(super) fn counts() -> Result<Vec<Count>> {
    let program = CountedProgram::build()?;
    let rows = CALLS.into_iter().flat_map(|call| TYPES.map(|datatype| (call, datatype)));
    let collectives = COLLECTIVES.into_iter().flat_map(|call| TYPES.last().map(|datatype| (call, *datatype)));
    // A run counts a call of either rank.
    let mut runs = BTreeMap::<_, [u64; 2]>::new();
    rows.chain(collectives)
        .map(|((call, round, rank, messages), (datatype, typed))| {
            let counts = match runs.entry((round, typed)) {
                Entry::Occupied(run) => *run.get(),
                Entry::Vacant(run) => *run.insert(program.count(round, typed)?),
            };
            if counts[rank] == 0 {
                bail!("`{call}` is counted nowhere: rank {rank} of the round `{round}`");
            }
            let each = counts[rank] as f64 / f64::from(COUNTED * messages);
            Ok(Count { interface: Interface::C, call, datatype, receive: None, each })
        })
        .collect()
}

/// The program, what starts it, and its folder.
struct CountedProgram {
    launcher: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

impl CountedProgram {
    /// Builds the interface as it is installed, and the program with its compiler.
    fn build() -> Result<Self> {
        let target = Workspace::members()?.target;
        let (prefix, folder) = (target.join("mpi"), target.join("bench/instructions"));
        eprintln!("building the interface of MPI");
        install(&target, &prefix, "release")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let (launcher, program) = (prefix.join("bin/aldis-mpiexec"), folder.join("instructions"));
        let mut compiler = Command::new(prefix.join("bin/aldis-mpicc"));
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        compiler.arg(checkout().join("host-sim/mpi/programs/instructions.c"));
        shell::output(&mut compiler)?;
        Ok(Self { launcher, program, folder })
    }

    /// Instructions of the counted calls of either rank.
    fn count(&self, round: &str, datatype: &str) -> Result<[u64; 2]> {
        let folder = self.folder.join(format!("turns-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let counted = self.run(round, datatype, &folder);
        // The pipes of a run that was cut off hold turns of its own.
        let _ = std::fs::remove_dir_all(&folder);
        counted
    }

    fn run(&self, round: &str, datatype: &str, folder: &Path) -> Result<[u64; 2]> {
        let said = |rank: &str| folder.join(format!("said-by-{rank}"));
        let mut command = self.command();
        // Which valgrind fills in.
        command.arg(format!("--log-file={}", said("%q{ALDIS_RANK}").display()));
        command.arg(&self.program).args([round, datatype]).arg(folder);
        let line = shell::spell(&command);
        let output = command.output().with_context(|| format!("starting `{line}`"))?;
        if !output.status.success() {
            bail!("`{line}`: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
        }
        let of = |rank: &str| {
            let text =
                std::fs::read_to_string(said(rank)).with_context(|| format!("rank {rank} of `{line}`"))?;
            collected_of(&text).with_context(|| format!("rank {rank} of `{line}` counted nothing: {text}"))
        };
        Ok([of("0")?, of("1")?])
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command
            .args(["-n", "2", "-timeout", LIMIT, "--transport", "shm", "valgrind", "--tool=callgrind"])
            .args(["--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=measured"])
            // Beside compilers, a rank under valgrind joins late.
            .env("ALDIS_JOIN_TIMEOUT", LIMIT);
        command
    }
}
