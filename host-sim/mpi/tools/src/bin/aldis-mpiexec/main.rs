//! `aldis-mpiexec`: starts programs of MPI over Aldis with the options that MPI names
//! (MPI 5.0, 11.5) and those of other implementations. It is `aldis-run` with other options, and
//! with the library in the ranks' search path, so that programs built for any implementation with
//! the standard binary interface run as they are.

mod options;
mod table;
mod values;

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aldis_linux::output;
use aldis_sys::file::canonicalize;
use aldis_sys::process::{Command, current_exe, exec};

use crate::options::{Asked, Job};

const NAME: &str = "aldis-mpiexec";

const HELP: &str = "Start programs of MPI over Aldis

Usage: aldis-mpiexec [OPTIONS] PROGRAM [ARGS] [: [OPTIONS] PROGRAM [ARGS]]...

Options of each program:
  -n, -np N             ranks that run it; 1 if not given
  -soft A[:B[:C]],...   numbers of ranks that it may have; the largest up to N is taken
  -env NAME VALUE       a variable for their environment; also NAME=VALUE
  -envlist NAME,...     variables that they get as they are here
  -wdir FOLDER          the folder in which they start; also -wd
  -initial-errhandler H the error handler of MPI_COMM_WORLD and MPI_COMM_SELF at first:
                        mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return

Options of the job:
  -genv NAME VALUE      a variable for every rank's environment; also NAME=VALUE
  -genvlist NAME,...    variables that every rank gets as they are here
  -x NAME[=VALUE]       a variable for every rank; without a value as it is here
  -host HOST[:K],...    hosts, each with K ranks; also -hosts, -H
  -f FILE               a file of hosts; also -hostfile, -machinefile
  -ppn K                ranks that each host takes; also -perhost, -npernode, -N, -map-by ppr:K:node
  -configfile FILE      programs with their options, one a line, which a backslash at its end
                        carries on; also -app
  -timeout SECONDS      ends the job after so long, with exit code 124; also MPIEXEC_TIMEOUT
  -transport NAME       auto, shm or tcp; also ALDIS_MPI_TRANSPORT
  -bind-to core|none    a core for each rank, or all cores for all; else each has its share of them
  -launcher-exec CMD    what starts a command on a host instead of ssh; also -bootstrap-exec
  -iface NAME,...       interfaces for TCP
  -version, -V          says which version this is
  -l                    puts each rank in front of its lines; also -prepend-rank, -tag-output
  -q                    keeps notes to itself; also -quiet
  -oversubscribe, -allow-run-as-root, -genvall, -use-hwthread-cpus, -launcher ssh,
  -launcher fork, -memory-alloc-kinds system,mpi: as it is anyway

Each is behind one dash or two; of one given twice the last counts, and hosts and variables add up.
Others are refused by name, with what to do instead. What else aldis-run --help has, aldis-run does.
";

/// The folder that this program is installed in.
fn prefix() -> Option<PathBuf> {
    let own = canonicalize(current_exe().ok()?).ok()?;
    Some(own.parent()?.parent()?.to_owned())
}

/// The search path for libraries with ours in front.
fn search_path(lib: &Path) -> OsString {
    let mut path = lib.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let prefix = prefix();
    let lib = prefix.as_ref().map(|prefix| prefix.join("lib")).unwrap_or_default();
    let asked = options::read(&words, lib.as_os_str()).and_then(|asked| match asked {
        Asked::Run(mut job) => job.fill().map(|()| Asked::Run(job)),
        asked => Ok(asked),
    });
    let said = match asked {
        Ok(Asked::Run(job)) => return run(&job, prefix),
        Ok(Asked::Help) => output::print(HELP),
        Ok(Asked::Version) => output::print(concat!("aldis-mpiexec ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(why) => {
            output::failed(NAME, &Error::new(ErrorKind::InvalidInput, why));
            return ExitCode::from(2);
        }
    };
    said.map_or_else(|lost| output::failed(NAME, &lost), |()| ExitCode::SUCCESS)
}

/// Becomes `aldis-run`, which calls itself by this program's name.
fn run(job: &Job, prefix: Option<PathBuf>) -> ExitCode {
    let Some(prefix) = prefix else {
        return output::failed(NAME, &Error::other("cannot tell where it is installed"));
    };
    let mut path = OsString::from("LD_LIBRARY_PATH=");
    path.push(search_path(&prefix.join("lib")));
    let launcher = prefix.join("bin/aldis-run");
    let mut command = Command::new(&launcher);
    command.arg0(NAME).arg("--any-program").arg("--genv").arg(path);
    command.args(job.options());
    for (place, program) in job.programs.iter().enumerate() {
        if place > 0 {
            command.arg(":");
        }
        command.args(program);
    }
    let error = exec(&mut command);
    output::failed(NAME, &Error::new(error.kind(), format!("cannot run {}: {error}", launcher.display())))
}
