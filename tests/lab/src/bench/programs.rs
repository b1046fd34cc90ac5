//! The programs that are measured: built, and the commands that start their ranks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aldis_shell::shell;
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result};

use super::implementation::{Implementation, Transport};
use super::launch::{self, MpiLibrary};
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
    /// `aldis-run`: as built beside the native program, or as installed for programs in C alone.
    launcher: PathBuf,
    /// The implementations that are there.
    pub(crate) ready: Vec<Implementation>,
    /// The names of those that are not, and why.
    pub(crate) lost: Vec<String>,
}

impl Programs {
    /// Builds them.
    pub(crate) fn build(workspace: &Workspace, orders: &BuildOrders<'_>) -> Result<Self> {
        let &BuildOrders { profile, wanted, others, features } = orders;
        let (built, peers) = (workspace.target.join(profile), workspace.target.join("bench"));
        let mut programs =
            Self { built, peers, launcher: PathBuf::new(), ready: Vec::new(), lost: Vec::new() };
        programs.launcher = programs.installed().join("bin/aldis-run");
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--profile", profile, "--quiet", "-p", "aldis-bench", "--bin", "bench_raw"]);
        let is_native = |one: &Implementation| matches!(one, Implementation::Native | Implementation::Arena);
        if wanted.iter().any(is_native) {
            programs.launcher = programs.built.join("aldis-run");
            cargo.args(["--bin", "bench_aldis", "-p", "aldis-run", "--bin", "aldis-run"]);
        }
        cargo.args(others.iter().flat_map(|other| ["--bin", other])).args(features);
        shell::run(&mut cargo)?;
        if wanted.contains(&Implementation::Aldis) {
            install(&workspace.target, &programs.installed(), profile)?;
        }
        std::fs::create_dir_all(&programs.peers)
            .with_context(|| format!("creating {}", programs.peers.display()))?;
        for &one in wanted {
            match programs.install(one).and_then(|()| programs.compile(one)) {
                Ok(()) => programs.ready.push(one),
                // The others are measured without a peer, and the reader is told.
                Err(error) if Implementation::PEERS.contains(&one) => {
                    programs.lost.push(format!("{}: {error:#}", one.name()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(programs)
    }

    /// Installs what comes from PyPI.
    fn install(&self, which: Implementation) -> Result<()> {
        if which.packages().is_empty() {
            return Ok(());
        }
        launch::install(which, &self.peers.join(which.name())).with_context(|| {
            format!(
                "not installed; it needs PyPI (pip install {}) and python3-venv",
                which.packages().join(" ")
            )
        })
    }

    fn compile(&self, which: Implementation) -> Result<()> {
        match which {
            Implementation::Gloo => {
                let libraries = ["-lgloo", "-lpthread"];
                compile(Command::new("g++"), &["gloo.cc"], &self.peer(which), &libraries)
            }
            Implementation::Iceoryx => return self.build_iceoryx(),
            one if one.is_mpi() => {
                let library = self.mpi(one);
                compile(library.compiler(), &["bench.c", "client.c"], &library.program, &[])
            }
            // The measured programs are UCX's own, or built by cargo.
            _ => Ok(()),
        }
        .with_context(|| format!("building the workloads of {}", which.name()))
    }

    /// Builds another program in C with an implementation of MPI that is there.
    pub(crate) fn program_of(&self, which: Implementation, source: &str) -> Result<MpiLibrary> {
        let mut library = self.mpi(which);
        library.program = self.peers.join(format!("{}-{}", source.trim_end_matches(".c"), which.name()));
        compile(library.compiler(), &[source], &library.program, &[])?;
        Ok(library)
    }

    /// Returns a program in Rust that was built beside the others, and how it is started.
    pub(crate) fn native_program_of(&self, name: &str) -> MpiLibrary {
        let (home, program) = (Some(self.installed()), self.built.join(name));
        MpiLibrary { which: Implementation::Native, home, program }
    }

    /// Builds the program of iceoryx2, which is no member of the workspace.
    fn build_iceoryx(&self) -> Result<()> {
        let manifest = workspace::checkout().join("tests/bench/peers/iceoryx/Cargo.toml");
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
        shell::output(cargo.arg("--target-dir").arg(self.peers.join("iceoryx")))
            .map(drop)
            .context("not built; for the first time it needs crates.io")
    }

    /// Returns how programs are built and started with an implementation of MPI.
    fn mpi(&self, which: Implementation) -> MpiLibrary {
        let home = match which {
            Implementation::Aldis => Some(self.installed()),
            one if one.packages().is_empty() => None,
            one => Some(self.peers.join(one.name())),
        };
        MpiLibrary { which, home, program: self.peer(which) }
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
        let mut run = Command::new(&self.launcher);
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
            Implementation::Native | Implementation::Arena => {
                let mut run = Command::new(&self.launcher);
                let arena = if which == Implementation::Arena { ARENA } else { "0" };
                run.args(["-n", &ranks, "--transport", transport.name(), "--arena", arena]);
                run.arg(self.built.join("bench_aldis"));
                run
            }
            Implementation::Iceoryx => Command::new(self.peers.join("iceoryx/release/bench-iceoryx")),
            Implementation::Gloo | Implementation::Ucx => Command::new(self.peer(which)),
            _ => self.mpi(which).launcher(transport, &ranks, is_crowded),
        };
        command.arg(socket).args(cores.iter().map(usize::to_string));
        command
    }
}

/// Compiles a measured program.
fn compile(mut compiler: Command, sources: &[&str], program: &Path, libraries: &[&str]) -> Result<()> {
    // MPICH's header declares MPI_STATUSES_IGNORE as an array of no elements, and is warned of.
    compiler.args(["-O3", "-march=native", "-Wall", "-Wno-stringop-overflow", "-o"]).arg(program);
    let folder = workspace::checkout().join("tests/bench/peers");
    compiler.args(sources.iter().map(|source| folder.join(source))).args(libraries);
    shell::output(&mut compiler).map(drop)
}
