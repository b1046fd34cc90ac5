//! UNSAFE: runs a few system calls between fork and exec. Makes one rank's process.

use core::fmt;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use aldis_linux::wireup::{Channel, SOCKET_VARIABLE};
use aldis_sys::file::{FcntlArg, FdFlag, fcntl, metadata, pipe, read, write};
use aldis_sys::process::{
    Command, CpuSet, Pid, Stdio, getpid, getppid, sched_setaffinity, set_pdeathsig, spawn as start,
};
use aldis_sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use aldis_sys::{Call, Errno};

use crate::messages::{Binding, Input, NodeOrder};

/// A rank's process as it was started.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// The process, which leads a process group of its own.
    pub(crate) pid: Pid,
    /// Its output and its errors, unless they go where the launcher's go.
    pub(crate) streams: Option<(OwnedFd, OwnedFd)>,
}

/// The reason why PROGRAM could not be started.
#[derive(Debug)]
pub(crate) enum SpawnError {
    /// There is no such program.
    NotFound { program: OsString, hint: Option<String> },
    /// The program is there and cannot be executed.
    NotExecutable { program: OsString, why: &'static str },
    /// The system refused.
    System { program: OsString, call: &'static str, error: io::Error },
}

impl SpawnError {
    /// The shell's codes.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::System { .. } => 1,
        }
    }

    /// The reason why fork or execve failed.
    fn new(program: &OsString, folder: Option<&OsStr>, error: io::Error) -> Self {
        let program = program.clone();
        let has_folder = Path::new(&program).components().count() > 1;
        let path = &Path::new(folder.unwrap_or_default()).join(&program);
        match error.kind() {
            io::ErrorKind::NotFound if has_folder && metadata(path).is_ok() => {
                Self::NotExecutable { program, why: "its interpreter (first line) or loader is missing" }
            }
            io::ErrorKind::NotFound => {
                let nearby = [".", "target/release", "target/release/examples", "target/debug/examples"];
                let is_file = |path: &PathBuf| metadata(path).is_ok_and(|data| data.is_file());
                let found = nearby.iter().map(|folder| Path::new(folder).join(path)).find(is_file);
                let hint = found.filter(|_| !has_folder).map(|one| format!("{}", one.display()));
                Self::NotFound { program, hint }
            }
            io::ErrorKind::PermissionDenied if metadata(path).is_ok_and(|data| data.is_dir()) => {
                Self::NotExecutable { program, why: "it is a folder" }
            }
            // And not EPERM, which another call says.
            _ if error.raw_os_error() == Some(Errno::EACCES as i32) => {
                Self::NotExecutable { program, why: "no execute permission; try chmod +x" }
            }
            _ if error.raw_os_error() == Some(Errno::ENOEXEC as i32) => {
                Self::NotExecutable { program, why: "neither a binary of this machine nor a script with #!" }
            }
            _ => Self::System { program, call: "fork or execve", error },
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program, hint } => {
                write!(f, "cannot start {}: no such program", program.display())?;
                match hint {
                    Some(hint) => write!(f, "; did you mean {hint}?"),
                    None if Path::new(program).components().count() > 1 => {
                        f.write_str("; has it been built?")
                    }
                    None => f.write_str(" in PATH; give its path, such as ./PROGRAM"),
                }
            }
            Self::NotExecutable { program, why } => {
                write!(f, "cannot start {} (execve): {why}", program.display())
            }
            Self::System { program, call, error } => {
                let remedy = error.raw_os_error().map_or("", |number| remedy(Errno::from_raw(number)));
                write!(f, "cannot start {}: {call} failed: {error}{remedy}", program.display())
            }
        }
    }
}

/// Returns what a user can do about a limit that keeps a rank from being started; empty if it is no
/// limit.
pub(crate) const fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EMFILE | Errno::ENFILE => "; try fewer ranks, or ulimit -n 1024",
        Errno::EAGAIN => "; try fewer ranks, end other processes, or raise ulimit -u",
        Errno::E2BIG => "; the arguments and the environment are too long",
        _ => "",
    }
}

/// Has the system keep how children end. A parent that ignores `SIGCHLD` hands that down, and this
/// process would not learn of them.
pub(crate) fn keep_ends() -> Result<(), Errno> {
    // SAFETY: the default action runs no code of this process.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// The way in which a rank is to be started.
#[derive(Debug)]
pub(crate) struct SpawnPlan<'a> {
    /// The order, which all ranks of the node have in common.
    pub(crate) order: &'a NodeOrder,
    pub(crate) rank: u32,
    /// The rank's end of its wire-up socket.
    pub(crate) socket: &'a Channel,
    /// The cores it is bound to, if not to all that the launcher has.
    pub(crate) cores: Option<&'a CpuSet>,
    /// The variables that tell it what was measured for all ranks of the node.
    pub(crate) measured: &'a [(&'static str, String)],
}

/// Starts one rank.
pub(crate) fn spawn(plan: &SpawnPlan<'_>) -> Result<Spawned, SpawnError> {
    let order = plan.order;
    let found = order.program(plan.rank);
    let words = found.and_then(|(place, own)| Some((place, own, own.command.split_first()?)));
    let Some((place, own, (program, arguments))) = words else {
        return Err(SpawnError::NotFound { program: OsString::new(), hint: None });
    };
    let refused = |error| SpawnError::new(program, own.folder.as_deref(), error);
    let failed = |call, error| SpawnError::System { program: program.clone(), call, error };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    let socket = plan.socket.as_fd().as_raw_fd();
    command.env(SOCKET_VARIABLE, socket.to_string());
    command.envs(plan.measured.iter().map(|(name, value)| (name, value)));
    command.envs(own.environment.iter().map(|(name, value)| (name, value)));
    command.env("ALDIS_RANK", plan.rank.to_string()).env("ALDIS_SIZE", order.size.to_string());
    command.env("ALDIS_APPNUM", place.to_string());
    if let Some(folder) = &own.folder {
        command.current_dir(folder);
    }
    let reads = plan.rank == 0 && order.input == Input::Inherited && !io::stdin().is_terminal();
    command.stdin(if reads { Stdio::inherit() } else { Stdio::null() });
    if order.pipes {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let (cores, binding) = (plan.cores.copied(), order.binding);
    let (launcher, socket) = (getpid(), plan.socket.as_fd());
    let (told, tell) = pipe().map_err(|errno| failed("pipe2", errno.into()))?;
    // SAFETY: the closure makes only system calls that are safe between fork and exec, allocates
    // nothing, and the socket it names stays open until `start` below has returned.
    unsafe {
        let socket = BorrowedFd::borrow_raw(socket.as_raw_fd());
        command.pre_exec(move || {
            prepare(launcher, socket, cores.as_ref(), binding).map_err(|(call, errno)| {
                // If that fails too, it is told of the program alone.
                let _ = write(&tell, &[call as u8]);
                errno.into()
            })
        });
    }
    let mut child = start(&mut command).map_err(|error| {
        let mut number = [0];
        let call = read(&told, &mut number).ok().filter(|length| *length > 0);
        match call.and_then(|_| Call::ALL.get(usize::from(number[0]))) {
            Some(call) => failed(call.name(), error),
            None => refused(error),
        }
    })?;
    let streams = child.stdout.take().zip(child.stderr.take());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    Ok(Spawned { pid, streams: streams.map(|(out, err)| (out.into(), err.into())) })
}

/// Makes the child what a rank is to be. Makes only calls that are safe between fork and exec, and
/// allocates nothing.
fn prepare(
    launcher: Pid,
    socket: BorrowedFd<'_>,
    cores: Option<&CpuSet>,
    binding: Binding,
) -> Result<(), (Call, Errno)> {
    let at = |call| move |errno| (call, errno);
    set_pdeathsig(Signal::SIGKILL).map_err(at(Call::Prctl))?;
    if getppid() != launcher {
        // It has ended before it was to take this process with it.
        return Err((Call::Prctl, Errno::ESRCH));
    }
    pthread_sigmask(SigmaskHow::SIG_SETMASK, &SigSet::empty()).map_err(at(Call::Sigprocmask))?;
    // A shell without job control starts `&` with these ignored, to spare a background job the
    // terminal's. A rank has a process group of its own and gets them from the launcher alone.
    for forwarded in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: the default action runs no code of this process.
        unsafe { signal(forwarded, SigHandler::SigDfl) }.map_err(at(Call::Sigaction))?;
    }
    if let Some(cores) = cores {
        let bound = sched_setaffinity(Pid::from_raw(0), cores).map_err(at(Call::SchedSetaffinity));
        // A container may forbid it, which is no reason to refuse a job that has not asked for it.
        if binding == Binding::Core {
            bound?;
        }
    }
    fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())).map_err(at(Call::Fcntl))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aldis_run::programs::LaunchedProgram;

    fn refusal(program: &str) -> SpawnError {
        let (_launcher, rank) = Channel::pair().unwrap();
        let program =
            LaunchedProgram { ranks: 1, command: vec![program.into()], ..LaunchedProgram::default() };
        let order = NodeOrder { programs: vec![program], ..NodeOrder::default() };
        spawn(&SpawnPlan { order: &order, rank: 0, socket: &rank, cores: None, measured: &[] }).unwrap_err()
    }

    #[test]
    fn a_program_that_is_not_there_or_not_executable_is_told_apart() {
        let error = refusal("no-such-program-anywhere");
        assert_eq!(error.exit_code(), 127);
        assert!(error.to_string().contains("in PATH"), "{error}");
        let error = refusal("./no/such/program");
        assert!(error.to_string().contains("has it been built?"), "{error}");
        let error = refusal("/etc/passwd");
        assert_eq!(error.exit_code(), 126);
        assert!(error.to_string().contains("chmod +x"), "{error}");
        let error = refusal("/etc");
        assert!(error.to_string().contains("a folder"), "{error}");
    }
}
