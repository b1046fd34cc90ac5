//! Who is measured: the calibrator, Aldis, and the peers where they are installed. Each is a command that starts
//! two ranks which connect to a socket.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::PROFILE;
use crate::shell;
use crate::workspace::{self, Workspace};

/// An implementation that is ready to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Implementation {
    /// One cache line a direction and nothing else.
    Raw,
    /// Blocking send and receive over the shared-memory transport.
    Aldis,
    /// `MPI_Send` and `MPI_Recv` of Debian's Open MPI over its shared-memory component.
    #[value(name = "openmpi")]
    OpenMpi,
    /// `MPI_Send` and `MPI_Recv` of Debian's MPICH over its shared-memory channel.
    Mpich,
}

impl Implementation {
    /// Those that others write.
    pub(crate) const PEERS: [Self; 2] = [Self::OpenMpi, Self::Mpich];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Aldis => "aldis",
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    pub(crate) fn transport(self) -> &'static str {
        match self {
            Self::Raw => "line",
            Self::Aldis => "shm",
            Self::OpenMpi => "vader",
            Self::Mpich => "shm",
        }
    }

    /// The largest message it can carry.
    pub(crate) fn bytes_max(self) -> usize {
        match self {
            Self::Raw => 56,
            Self::Aldis | Self::OpenMpi | Self::Mpich => usize::MAX,
        }
    }

    /// How to install it, when it is not there.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (tools, install): (&[&str], _) = match self {
            Self::Raw | Self::Aldis => return None,
            Self::OpenMpi => {
                (&["mpicc.openmpi", "mpirun.openmpi"], "apt-get install openmpi-bin libopenmpi-dev gcc")
            }
            Self::Mpich => (&["mpicc.mpich", "mpiexec.hydra"], "apt-get install mpich libmpich-dev gcc"),
        };
        if tools.iter().all(|tool| shell::has(tool)) { None } else { Some(install) }
    }
}

/// The programs that are measured, built.
#[derive(Debug)]
pub(crate) struct Programs {
    built: PathBuf,
    peers: PathBuf,
}

impl Programs {
    /// Builds what the implementations need.
    pub(crate) fn build(workspace: &Workspace, wanted: &[Implementation]) -> Result<Self> {
        let programs = Self { built: workspace.target.join(PROFILE), peers: workspace.target.join("bench") };
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--profile", PROFILE, "--quiet", "-p", "aldis-tests", "--bin", "bench_raw"]);
        if wanted.contains(&Implementation::Aldis) {
            cargo.args(["--bin", "bench_latency", "-p", "aldis-host-sim", "--bin", "aldis-run"]);
        }
        shell::run(&mut cargo)?;
        std::fs::create_dir_all(&programs.peers)?;
        for peer in wanted.iter().filter(|one| Implementation::PEERS.contains(one)) {
            programs.compile(*peer)?;
        }
        Ok(programs)
    }

    fn compile(&self, peer: Implementation) -> Result<()> {
        let source = workspace::checkout().join("xtask/peers/latency.c");
        let mut compiler = Command::new(format!("mpicc.{}", peer.name()));
        compiler.args(["-O3", "-march=native", "-Wall", "-o"]).arg(self.peer(peer)).arg(source);
        shell::output(&mut compiler)
            .map(drop)
            .with_context(|| format!("building the ping-pong of {}", peer.name()))
    }

    fn peer(&self, peer: Implementation) -> PathBuf {
        self.peers.join(format!("latency-{}", peer.name()))
    }

    /// The command that starts both ranks. Every rank pins itself, so that all are pinned alike.
    pub(crate) fn command(&self, which: Implementation, socket: &Path, cores: [usize; 2]) -> Command {
        let mut command = match which {
            Implementation::Raw => Command::new(self.built.join("bench_raw")),
            Implementation::Aldis => {
                let mut run = Command::new(self.built.join("aldis-run"));
                run.args(["-n", "2", "--transport", "shm"]).arg(self.built.join("bench_latency"));
                run
            }
            Implementation::OpenMpi => {
                let mut run = Command::new("mpirun.openmpi");
                run.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]);
                run.args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
                // Never yield, although slots may be oversubscribed: its best case.
                run.args(["--mca", "mpi_yield_when_idle", "0"]).arg(self.peer(which));
                run
            }
            Implementation::Mpich => {
                let mut run = Command::new("mpiexec.hydra");
                run.args(["-bind-to", "none", "-n", "2"]).arg(self.peer(which));
                run
            }
        };
        command.arg(socket).args(cores.map(|core| core.to_string()));
        command
    }
}

/// Two distinct physical cores of those that this process may use.
pub(crate) fn two_cores() -> Result<[usize; 2]> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading which cores may be used")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("");
    let allowed = parse_cores(list.trim());
    let Some(&first) = allowed.first() else { bail!("no core may be used: {list:?}") };
    let siblings =
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list"))
            .map_or_else(|_| vec![first], |text| parse_cores(text.trim()));
    match allowed.iter().find(|core| !siblings.contains(core)) {
        Some(&second) => Ok([first, second]),
        None => bail!("a latency between processes needs two physical cores; only core {first} may be used"),
    }
}

/// `0-2,5` as 0, 1, 2, 5.
fn parse_cores(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<usize>().ok()?..=high.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_cores("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_cores("3"), [3]);
        assert_eq!(parse_cores(""), [0_usize; 0]);
    }
}
