//! The programs that are measured: built, and the commands that start their ranks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aldis_shell::shell;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result};

use super::implementation::{Implementation, Transport};
use crate::mpi::install;

/// The arena of a rank whose buffers lie there: two windows of messages of up to 16 MiB.
const ARENA: &str = "64M";

/// The programs that are built, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildOrders<'a> {
    /// The profile of cargo's.
    pub(crate) profile: &'a str,
    /// The implementations whose programs are needed, and other measured programs.
    pub(crate) wanted: &'a [Implementation],
    pub(crate) others: &'a [&'a str],
    /// Further arguments of cargo, which choose features.
    pub(crate) features: &'a [String],
}

/// The programs, built.
#[derive(Debug)]
pub(crate) struct Programs {
    built: PathBuf,
    peers: PathBuf,
}

impl Programs {
    /// Builds them.
    pub(crate) fn build(workspace: &Workspace, orders: &BuildOrders<'_>) -> Result<Self> {
        let &BuildOrders { profile, wanted, others, features } = orders;
        let programs = Self { built: workspace.target.join(profile), peers: workspace.target.join("bench") };
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--profile", profile, "--quiet", "-p", "aldis-bench", "--bin", "bench_raw"]);
        if wanted.iter().any(|one| Implementation::OWN.contains(one)) {
            cargo.args(["--bin", "bench_aldis", "-p", "aldis-run", "--bin", "aldis-run"]);
        }
        cargo.args(others.iter().flat_map(|other| ["--bin", other])).args(features);
        shell::run(&mut cargo)?;
        if wanted.iter().any(|one| matches!(one, Implementation::Abi | Implementation::AbiTyped)) {
            install(&workspace.target, &programs.installed(), profile)?;
        }
        std::fs::create_dir_all(&programs.peers)
            .with_context(|| format!("creating {}", programs.peers.display()))?;
        for one in wanted {
            programs.compile(*one)?;
        }
        Ok(programs)
    }

    fn compile(&self, peer: Implementation) -> Result<()> {
        let (mut compiler, source, libraries): (_, _, &[&str]) = match peer {
            Implementation::OpenMpi | Implementation::Mpich => {
                (Command::new(format!("mpicc.{}", peer.name())), "bench.c", &[])
            }
            Implementation::Abi | Implementation::AbiTyped => {
                (Command::new(self.installed().join("bin/aldis-mpicc")), "bench.c", &[])
            }
            Implementation::Gloo => (Command::new("g++"), "gloo.cc", &["-lgloo", "-lpthread"]),
            // The measured program is UCX's own.
            Implementation::Ucx | Implementation::Raw | Implementation::Aldis | Implementation::Arena => {
                return Ok(());
            }
        };
        // MPICH's header declares MPI_STATUSES_IGNORE as an array of no elements, and is warned of.
        compiler.args(["-O3", "-march=native", "-Wall", "-Wno-stringop-overflow", "-o"]).arg(self.peer(peer));
        if peer == Implementation::AbiTyped {
            compiler.arg("-DTYPED");
        }
        compiler.arg(workspace::checkout().join("xtask/peers").join(source)).args(libraries);
        shell::output(&mut compiler)
            .map(drop)
            .with_context(|| format!("building the workloads of {}", peer.name()))
    }

    /// The folder that the interface of MPI is installed in.
    fn installed(&self) -> PathBuf {
        self.peers.join("mpi")
    }

    fn peer(&self, peer: Implementation) -> PathBuf {
        self.peers.join(format!("bench-{}", peer.name()))
    }

    /// Returns true if `aldis-run` knows the transport.
    pub(crate) fn knows(&self, transport: Transport) -> Result<bool> {
        let mut run = Command::new(self.built.join("aldis-run"));
        run.args(["-n", "1", "--transport", transport.name(), "--", "true"]);
        let status = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        // 2 is a wrong command line; what else becomes of `true` as a rank does not matter.
        Ok(status.context("starting aldis-run")?.code() != Some(2))
    }

    /// Returns how much longer a computation takes on each of the cores while the other is at it
    /// too; `None` if that is not known.
    pub(crate) fn crowding(&self, [one, other]: [usize; 2]) -> Option<f64> {
        let mut raw = Command::new(self.built.join("bench_raw"));
        raw.arg("cores").args([one, other].map(|core| core.to_string()));
        shell::output(&mut raw).ok()?.trim().parse().ok()
    }

    /// The command that starts the ranks, one for each of `cores`. Every rank pins itself, so that
    /// all are pinned alike.
    pub(crate) fn command(
        &self,
        which: Implementation,
        transport: Transport,
        socket: &Path,
        cores: &[usize],
    ) -> Command {
        let ranks = cores.len().to_string();
        let mut distinct = cores.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let is_crowded = distinct.len() < cores.len();
        let mut command = match which {
            Implementation::Raw => {
                let mut raw = Command::new(self.built.join("bench_raw"));
                raw.arg(transport.medium());
                raw
            }
            Implementation::Aldis
            | Implementation::Arena
            | Implementation::Abi
            | Implementation::AbiTyped => {
                let mut run = Command::new(self.built.join("aldis-run"));
                let arena = if which == Implementation::Arena { ARENA } else { "0" };
                run.args(["-n", &ranks, "--transport", transport.name(), "--arena", arena]);
                let is_in_c = matches!(which, Implementation::Abi | Implementation::AbiTyped);
                run.arg(if is_in_c { self.peer(which) } else { self.built.join("bench_aldis") });
                run
            }
            Implementation::OpenMpi => self.open_mpi(transport, &ranks, is_crowded),
            Implementation::Mpich => self.mpich(transport, &ranks, is_crowded),
            Implementation::Gloo | Implementation::Ucx => Command::new(self.peer(which)),
        };
        command.arg(socket).args(cores.iter().map(usize::to_string));
        command
    }

    fn open_mpi(&self, transport: Transport, ranks: &str, is_crowded: bool) -> Command {
        let mut run = Command::new("mpirun.openmpi");
        run.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks]);
        run.args(["--mca", "pml", "ob1", "--mca", "btl"]);
        match transport {
            Transport::Tcp => run.args(["self,tcp", "--mca", "btl_tcp_if_include", "lo"]),
            _ => run.arg("self,vader"),
        };
        // With a core for each rank it never yields, although slots may be oversubscribed: its best
        // case.
        let yields = if is_crowded { "1" } else { "0" };
        run.args(["--mca", "mpi_yield_when_idle", yields]).arg(self.peer(Implementation::OpenMpi));
        run
    }

    fn mpich(&self, transport: Transport, ranks: &str, is_crowded: bool) -> Command {
        let mut run = Command::new("mpiexec.hydra");
        run.args(["-bind-to", "none", "-n", ranks]);
        if transport == Transport::Tcp {
            // As if no two ranks were on one machine, and then UCX's TCP.
            run.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
            run.args(["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo"]);
        }
        if is_crowded {
            run.args(["-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "1"]);
        }
        run.arg(self.peer(Implementation::Mpich));
        run
    }
}
