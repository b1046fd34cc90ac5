//! Instructions of calls by the C interface of MPI, as a program in C makes them that is built and
//! linked as users do.

use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::workspace::{Workspace, checkout};
use anyhow::{Context, Result};

use super::{Count, Interface, collected};
use crate::mpi::install;

/// Calls that `host-sim/mpi/programs/instructions.c` has counted.
const COUNTED: u32 = 512;

/// Messages of a window, all of which one call waits for.
const WINDOW: u32 = 64;

/// Seconds that a run may take.
const LIMIT: &str = "300";

/// The calls that are counted, the program's name for each, and its messages.
const CALLS: [(&str, &str, u32); 11] = [
    ("MPI_Send", "send", 1),
    ("MPI_Isend", "isend", 1),
    ("MPI_Recv, the message in the ring", "recv", 1),
    ("MPI_Irecv", "irecv", 1),
    ("MPI_Wait that takes the message in", "wait", 1),
    ("MPI_Waitall, a message taken in before", "waitall", WINDOW),
    ("MPI_Bcast, the root", "bcast_root", 1),
    ("MPI_Bcast, another rank", "bcast", 1),
    ("MPI_Allreduce, the last rank", "allreduce", 1),
    ("MPI_Iallreduce, the first rank", "iallreduce_first", 1),
    ("MPI_Iallreduce and MPI_Wait, the last rank", "iallreduce", 1),
];

/// The collectives that are counted with the last type alone: what types cost is in the others.
const COLLECTIVES: [(&str, &str); 10] = [
    ("MPI_Gather, who gives", "gather"),
    ("MPI_Gather, the root", "gather_root"),
    ("MPI_Scatter, the root", "scatter_root"),
    ("MPI_Scatter, who takes", "scatter"),
    ("MPI_Reduce, who gives", "reduce"),
    ("MPI_Reduce, the root", "reduce_root"),
    ("MPI_Scan, the first rank", "scan_first"),
    ("MPI_Scan, the last rank", "scan"),
    ("MPI_Start of MPI_Allreduce_init, the first rank", "start_first"),
    ("MPI_Start of MPI_Allreduce_init and MPI_Wait, the last rank", "start"),
];

/// The types, and the program's names for them.
const TYPES: [(&str, &str); 3] = [("MPI_BYTE", "byte"), ("MPI_CHAR", "char"), ("MPI_DOUBLE", "double")];

/// The instructions of each call with 8 bytes of each type. Characters are summed as other
/// libraries do it, beyond the standard.
pub(super) fn counts() -> Result<Vec<Count>> {
    let program = CountedProgram::build()?;
    let rows = CALLS.into_iter().flat_map(|call| TYPES.map(|datatype| (call, datatype)));
    let collectives = COLLECTIVES.into_iter().map(|(call, called)| (call, called, 1));
    let collectives = collectives.flat_map(|call| TYPES.last().map(|datatype| (call, *datatype)));
    rows.chain(collectives)
        .map(|((call, called, messages), (datatype, typed))| {
            let each = program.count(called, typed)? as f64 / f64::from(COUNTED * messages);
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

    /// Instructions of all counted calls. Both ranks are run by callgrind: one of them makes none
    /// that are counted.
    fn count(&self, call: &str, datatype: &str) -> Result<u64> {
        let turns = self.folder.join(format!("turns-{}", std::process::id()));
        std::fs::create_dir_all(&turns).with_context(|| format!("creating {}", turns.display()))?;
        let counted = collected(&mut self.command(call, datatype, &turns));
        // The pipes of a run that was cut off hold turns of its own.
        let _ = std::fs::remove_dir_all(&turns);
        counted
    }

    fn command(&self, call: &str, datatype: &str, turns: &Path) -> Command {
        let mut command = Command::new(&self.launcher);
        command
            .args(["-n", "2", "-timeout", LIMIT, "--transport", "shm", "valgrind", "--tool=callgrind"])
            .args(["--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=measured"])
            .arg(&self.program)
            .args([call, datatype])
            .arg(turns);
        command
    }
}
