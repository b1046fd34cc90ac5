//! Implementations of MPI: how the program in C is built with each and how its ranks are started,
//! over what, and with the setting for more ranks than cores. Those of PyPI are installed here.

use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use anyhow::{Context, Result};

use super::implementation::{Implementation, Transport};

/// An implementation of MPI with the measured program.
pub(crate) struct MpiLibrary {
    pub(crate) which: Implementation,
    /// The folder that it is installed in; Debian's are in the path.
    pub(crate) home: Option<PathBuf>,
    pub(crate) program: PathBuf,
}

/// Installs a peer of PyPI into a virtual environment, unless it is there.
///
/// # Errors
/// What Python and pip say: no module `venv`, or no network.
pub(crate) fn install(which: Implementation, home: &Path) -> Result<()> {
    // Written last, with what was installed: another version is another installation.
    let (done, packages) = (home.join("aldis-bench"), which.packages().join(" "));
    if std::fs::read_to_string(&done).is_ok_and(|there| there == packages) {
        return Ok(());
    }
    eprintln!("installing {packages} from PyPI into {}", home.display());
    shell::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))?;
    let mut pip = Command::new(home.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(which.packages());
    shell::output(&mut pip)?;
    std::fs::write(&done, packages).with_context(|| format!("writing {}", done.display()))
}

impl MpiLibrary {
    /// A program of the implementation: in its folder, or by the name that Debian gives it.
    fn tool(&self, name: &str) -> Command {
        match &self.home {
            Some(home) => {
                let mut tool = Command::new(home.join("bin").join(name));
                if self.which == Implementation::Intel {
                    tool.env("I_MPI_ROOT", home);
                }
                tool
            }
            None => Command::new(name),
        }
    }

    /// The command that compiles.
    pub(crate) fn compiler(&self) -> Command {
        self.tool(match self.which {
            Implementation::Aldis => "aldis-mpicc",
            Implementation::OpenMpi4 => "mpicc.openmpi",
            Implementation::Mpich4 => "mpicc.mpich",
            _ => "mpicc",
        })
    }

    /// The command that starts so many ranks of the program.
    pub(crate) fn launcher(&self, transport: Transport, ranks: &str, is_crowded: bool) -> Command {
        let mut run = match self.which {
            Implementation::OpenMpi5 | Implementation::OpenMpi4 => self.open_mpi(transport, is_crowded),
            Implementation::Mpich5 | Implementation::Mpich4 => self.mpich(transport, is_crowded),
            Implementation::Intel => self.intel(transport, is_crowded),
            _ => {
                let mut run = self.tool("aldis-run");
                run.args(["--transport", transport.name()]);
                run
            }
        };
        run.args(["-n", ranks]).arg(&self.program);
        run
    }

    fn open_mpi(&self, transport: Transport, is_crowded: bool) -> Command {
        let is_old = self.which == Implementation::OpenMpi4;
        let mut run = self.tool(if is_old { "mpirun.openmpi" } else { "mpirun" });
        run.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        run.args(["--mca", "pml", "ob1", "--mca", "btl"]);
        match transport {
            Transport::Tcp => run.args(["self,tcp", "--mca", "btl_tcp_if_include", "lo"]),
            _ => run.arg(if is_old { "self,vader" } else { "self,sm" }),
        };
        // With a core for each rank it never yields, although slots may be oversubscribed: its best
        // case.
        run.args(["--mca", "mpi_yield_when_idle", if is_crowded { "1" } else { "0" }]);
        run
    }

    fn mpich(&self, transport: Transport, is_crowded: bool) -> Command {
        let is_old = self.which == Implementation::Mpich4;
        let mut run = self.tool("mpiexec.hydra");
        run.args(["-bind-to", "none"]);
        if transport == Transport::Tcp {
            // As if no two ranks were on one machine, and then the TCP that each is built with: UCX
            // of the newer one does not start by TCP alone.
            run.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
            if is_old {
                run.args(["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo"]);
            } else {
                run.args(["-genv", "MPIR_CVAR_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp"]);
                run.args(["-genv", "FI_TCP_IFACE", "lo"]);
            }
        }
        if is_crowded {
            run.args(["-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "1"]);
        }
        run
    }

    fn intel(&self, transport: Transport, is_crowded: bool) -> Command {
        let mut run = self.tool("mpiexec.hydra");
        let libraries = self.home.as_deref().unwrap_or(Path::new("")).join("lib");
        run.env("LD_LIBRARY_PATH", &libraries).args(["-genv", "I_MPI_PIN", "0"]);
        if transport == Transport::Tcp {
            run.args(["-genv", "I_MPI_FABRICS", "ofi", "-genv", "FI_PROVIDER", "tcp"]);
            run.args(["-genv", "FI_TCP_IFACE", "lo", "-genv", "FI_PROVIDER_PATH"]).arg(&libraries);
            // Collective operations would use shared memory all the same.
            run.args(["-genv", "I_MPI_COLL_INTRANODE", "pt2pt"]);
        } else {
            run.args(["-genv", "I_MPI_FABRICS", "shm"]);
        }
        if is_crowded {
            // Its waits give the core away after so many looks.
            run.args(["-genv", "I_MPI_SHM_RECV_SPIN_COUNT", "1", "-genv", "I_MPI_SHM_SEND_SPIN_COUNT", "1"]);
        }
        run
    }
}
