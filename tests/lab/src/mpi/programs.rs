//! Programs in C over Aldis: one that names every function, those of `host-sim/mpi/programs`,
//! and errors as a user meets them.

use core::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_mpi_table::functions;
use aldis_shell::shell;
use anyhow::{Context, Result, anyhow, bail};

use super::{folder, garbage};

/// Seconds that a program may take.
const LIMIT: &str = "60";

/// The process manager of MPICH.
const HYDRA: &str = "mpiexec.hydra";

/// A program, how many ranks it is run with, and by which transports.
const PROGRAMS: &[(&str, &[u32], &[&str])] = &[
    ("basics", &[1, 2, 3, 4], &["shm", "tcp"]),
    ("blocks", &[1, 2], &["shm"]),
    ("collectives", &[1, 2, 3, 4], &["shm", "tcp"]),
    ("listed", &[1, 2, 3, 4], &["shm", "tcp"]),
    ("exchanges", &[2, 8, 11], &["shm", "tcp"]),
    ("buffers", &[1, 2], &["shm", "tcp"]),
    ("types", &[1, 2], &["shm"]),
    ("aliased", &[1, 2, 3], &["shm", "tcp"]),
    ("nothing", &[1, 2, 3], &["shm", "tcp"]),
    ("lifetimes", &[1, 2, 3], &["shm", "tcp"]),
    ("freeing", &[1, 2, 3], &["shm", "tcp"]),
    ("misplaced", &[1, 2, 3], &["shm"]),
    ("topologies", &[1, 2, 4], &["shm", "tcp"]),
    ("handlers", &[1, 2, 3], &["shm", "tcp"]),
    ("intercomm", &[2, 3, 4, 5], &["shm"]),
    ("requests", &[1, 2, 3], &["shm", "tcp"]),
    ("cancelled", &[2, 3, 4], &["shm", "tcp"]),
    ("groups", &[1, 2, 3, 4], &["shm", "tcp"]),
    ("making", &[1, 2, 3, 5], &["shm", "tcp"]),
    ("sessions", &[1, 2, 3, 4], &["shm", "tcp"]),
    ("threads", &[1, 2, 4], &["shm", "tcp"]),
    ("flood", &[2], &["shm", "tcp"]),
    ("pingpong", &[2], &["shm", "tcp"]),
    ("heat", &[1, 4], &["shm"]),
];

/// A program that goes wrong, with what it says.
struct ProgramFailure {
    /// An argument of `errors.c`.
    case: &'static str,
    ranks: &'static str,
    says: &'static str,
}

const FAILURES: [ProgramFailure; 4] = [
    ProgramFailure { case: "rank", ranks: "2", says: "MPI_Send: send with rank 7" },
    ProgramFailure { case: "freed", ranks: "1", says: "is no communicator: it was freed, or never was one" },
    ProgramFailure { case: "truncated", ranks: "2", says: "a message of 8 bytes met a buffer of 4" },
    ProgramFailure {
        case: "unsupported",
        ranks: "1",
        says: "MPI_Win_create: Aldis does not have this function yet",
    },
];

/// Compiles and runs all of them; what that was, in a few words.
pub(super) fn run(prefix: &Path, into: &Path) -> Result<String> {
    fs::create_dir_all(into)?;
    let functions = every_function(prefix, into)?;
    let calls = garbage_calls(prefix, into)?;
    let mut runs = 0;
    for &(name, ranks, transports) in PROGRAMS {
        let program =
            compile(prefix, "aldis-mpicc", &folder().join("programs").join(format!("{name}.c")), into)?;
        for transport in transports {
            for &ranks in ranks {
                let said = shell::output(&mut launch(prefix, &program, &ranks.to_string(), transport))?;
                let last = said.lines().last().unwrap_or_default();
                println!("{name}, {ranks} ranks, {transport}: {last}");
                runs += 1;
            }
        }
    }
    let program = compile(prefix, "aldis-mpicc", &folder().join("programs/errors.c"), into)?;
    for failure in &FAILURES {
        failure.check(launch(prefix, &program, failure.ranks, "shm"))?;
    }
    let lines = launcher_lines(prefix, &program)?;
    let hydra = under_hydra(into, &program)?;
    Ok(format!(
        "{functions} functions in C and C++, {calls} with garbage; {} programs in {runs} runs, {} errors said once, {lines} lines of aldis-mpiexec; {hydra}",
        PROGRAMS.len(),
        FAILURES.len()
    ))
}

/// A command line of `aldis-mpiexec`, and how it ends.
struct LauncherLine {
    /// Options in front of the program of errors.
    options: &'static [&'static str],
    case: &'static str,
    code: i32,
    /// The beginning of its standard error.
    says: &'static str,
}

const LINES: [LauncherLine; 6] = [
    LauncherLine { options: &["-initial-errhandler", "mpi_errors_return"], case: "rank", code: 0, says: "" },
    LauncherLine { options: &["-initial-errhandler=MPI_ERRORS_RETURN"], case: "early", code: 0, says: "" },
    LauncherLine {
        options: &["-initial-errhandler", "mpi_errors_abort"],
        case: "unsupported",
        code: 55,
        says: "aldis-mpiexec: rank 0 ",
    },
    LauncherLine {
        options: &["-host", "localhost:1"],
        case: "",
        code: 2,
        says: "aldis-mpiexec: the hosts have 1 slots for 2 ranks; ",
    },
    LauncherLine {
        options: &["-ppn", "65537"],
        case: "",
        code: 2,
        says: "aldis-mpiexec: -ppn 65537: a job has at most 65536 ranks; ",
    },
    LauncherLine { options: &[], case: "", code: 0, says: "" },
];

/// Runs lines of `aldis-mpiexec` with options and values that are right and wrong; how many.
fn launcher_lines(prefix: &Path, program: &Path) -> Result<usize> {
    for line in &LINES {
        let mut job = Command::new(prefix.join("bin/aldis-mpiexec"));
        job.args(["-n", "2", "-timeout", LIMIT]).args(line.options).arg(program).arg(line.case);
        check_line(job, line.code, line.says)?;
    }
    // A variable is named as it was set, and a program that does not begin as it should have.
    let mut job = Command::new(prefix.join("bin/aldis-mpiexec"));
    job.env("ALDIS_MPI_TRANSPORT", "pigeon").arg(program);
    check_line(job, 2, "aldis-mpiexec: ALDIS_MPI_TRANSPORT=pigeon: not a transport")?;
    let mut job = Command::new(prefix.join("bin/aldis-mpiexec"));
    job.args(["-n", "1", "true", ":", "-n", "1"]).arg(program);
    let said = check_line(job, 1, "aldis-mpiexec: rank 0 ")?;
    if !said.contains("by calling MPI_Init") {
        bail!("a program that ends before MPI_Init is told:\n{said}");
    }
    Ok(LINES.len() + 2)
}

/// Checks how a command line ends; returns its standard error.
fn check_line(mut job: Command, code: i32, says: &str) -> Result<String> {
    let ended = job.output()?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if ended.status.code() != Some(code) || !said.starts_with(says) || says.is_empty() != said.is_empty() {
        bail!("{job:?}: {}, not {code} and {says:?}:\n{said}", ended.status);
    }
    println!("{job:?}: {}", said.lines().next().unwrap_or("ok"));
    Ok(said)
}

/// Runs under the process manager of MPICH, where there is one, what runs over `aldis-mpiexec`.
fn under_hydra(into: &Path, errors: &Path) -> Result<String> {
    let job = |ranks: &str, options: &[&str], program: &Path| {
        let mut job = Command::new(HYDRA);
        job.args(["-n", ranks]).args(options).arg(program).env("MPIEXEC_TIMEOUT", LIMIT);
        job
    };
    if shell::all_in_path(HYDRA).is_empty() {
        return Ok(format!("not under {HYDRA}, which is not here"));
    }
    let mut runs = 0;
    for version in ["1", "2"] {
        for transport in ["auto", "shm", "tcp"] {
            let options = ["-genv", "ALDIS_PMI", version, "-genv", "ALDIS_TRANSPORT", transport];
            for (program, last) in [("basics", "ok"), ("heat", "4 strips")] {
                let said = shell::output(&mut job("4", &options, &into.join(program)))?;
                if said.lines().count() != 1 || !said.starts_with(last) {
                    bail!("{program} under {HYDRA}, PMI {version}, {transport}, said:\n{said}");
                }
                runs += 1;
            }
        }
    }
    // Version 1 alone: Hydra 4.0 does not know the abort of version 2.
    for failure in &FAILURES {
        let said = failure.check(job(failure.ranks, &[], errors))?;
        if said.contains("the job was aborted") {
            bail!("a rank that only heard of an error under {HYDRA} spoke of it:\n{said}");
        }
    }
    Ok(format!("{runs} runs and {} errors said once under {HYDRA}", FAILURES.len()))
}

fn compile(prefix: &Path, compiler: &str, source: &Path, into: &Path) -> Result<PathBuf> {
    let program = into.join(source.file_stem().context("a source has a name")?);
    let mut command = Command::new(prefix.join("bin").join(compiler));
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(into);
    command.arg("-o").arg(&program).arg(source).arg("-lm");
    shell::output(&mut command)?;
    Ok(program)
}

fn launch(prefix: &Path, program: &Path, ranks: &str, transport: &str) -> Command {
    let mut command = Command::new(prefix.join("bin/aldis-mpiexec"));
    command.args(["-n", ranks, "-timeout", LIMIT, "--transport", transport]).arg(program);
    command
}

/// A program that has every function by both names, in C and in C++; how many.
fn every_function(prefix: &Path, into: &Path) -> Result<usize> {
    let listed = fs::read_to_string(folder().join("table/functions.txt"))?;
    let functions = functions(&listed).map_err(|error| anyhow!(error))?;
    let mut text = String::from("#include <mpi.h>\ntypedef void (*any)(void);\nvolatile any all[] = {\n");
    for function in &functions {
        writeln!(text, "(any)MPI_{0}, (any)PMPI_{0},", function.name)?;
    }
    text.push_str("};\nint main(void) { return all[0] == 0; }\n");
    for (compiler, name) in [("aldis-mpicc", "every.c"), ("aldis-mpicxx", "every.cc")] {
        let source = into.join(name);
        fs::write(&source, &text)?;
        let program = compile(prefix, compiler, &source, into)?;
        shell::output(&mut Command::new(program))?;
    }
    println!("mpi.h: {} functions by two names, in C and C++", functions.len());
    Ok(functions.len())
}

/// Calls of every function with arguments that are garbage, each of which is to be refused as the
/// standard has it; how many.
fn garbage_calls(prefix: &Path, into: &Path) -> Result<String> {
    let listed = fs::read_to_string(folder().join("table/functions.txt"))?;
    let functions = functions(&listed).map_err(|error| anyhow!(error))?;
    fs::write(into.join("garbage_calls.h"), garbage::calls(&functions))?;
    let program = compile(prefix, "aldis-mpicc", &folder().join("programs/garbage.c"), into)?;
    let (is_good, said) = shell::capture(&mut Command::new(program))?;
    let last = said.lines().last().unwrap_or_default();
    println!("garbage: {last}");
    match last.strip_prefix("ok, ").filter(|_| is_good) {
        Some(calls) => Ok(calls.to_owned()),
        None => bail!("arguments that are garbage are not refused as they are to be:\n{said}"),
    }
}

impl ProgramFailure {
    /// Ranks of which some go wrong: the message is said once, and the job ends.
    fn check(&self, mut job: Command) -> Result<String> {
        let ended = job.arg(self.case).output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        let times = said.matches(self.says).count();
        if ended.status.success() || times != 1 {
            bail!("errors {}: {}, and {:?} {times} times in:\n{said}", self.case, ended.status, self.says);
        }
        println!("errors {}: {}, said once", self.case, ended.status);
        Ok(said.into_owned())
    }
}
