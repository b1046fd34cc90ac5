//! The implementations that are measured: the calibrator, Aldis, and the peers where they are
//! installed.

use std::path::Path;

use aldis_shell::shell;

use super::workload::BenchWorkload;

/// An implementation that is ready to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Implementation {
    /// The time that the machine alone needs: a cache line, a `memcpy`, a socket.
    Raw,
    /// Aldis, started by `aldis-run`.
    Aldis,
    /// Aldis again, with all buffers in the ranks' arenas: long messages over shared memory alone.
    Arena,
    /// Aldis as programs in C have it: by its interface of MPI.
    Abi,
    /// Aldis by its interface of MPI, with elements of a type instead of bytes: latency alone.
    AbiTyped,
    /// Debian's Open MPI, over its shared-memory or its TCP component.
    #[value(name = "openmpi")]
    OpenMpi,
    /// Debian's MPICH, over its shared-memory channel or UCX's TCP.
    Mpich,
    /// `ucx_perftest` of Debian's UCX: runs of its own, which send the same buffer again and again.
    Ucx,
    /// Debian's gloo, which has TCP alone.
    Gloo,
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

impl Implementation {
    pub(crate) const ALL: [Self; 9] = [
        Self::Raw,
        Self::Aldis,
        Self::Arena,
        Self::Abi,
        Self::AbiTyped,
        Self::OpenMpi,
        Self::Mpich,
        Self::Ucx,
        Self::Gloo,
    ];

    /// The implementations that others write.
    pub(crate) const PEERS: [Self; 4] = [Self::OpenMpi, Self::Mpich, Self::Ucx, Self::Gloo];

    /// The implementations that are Aldis.
    pub(crate) const OWN: [Self; 4] = [Self::Aldis, Self::Arena, Self::Abi, Self::AbiTyped];

    /// The peers that every run of `cargo xtask test --require` needs.
    pub(crate) const TESTED: [Self; 2] = [Self::OpenMpi, Self::Mpich];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Aldis => "aldis",
            Self::Arena => "arena",
            Self::Abi => "abi",
            Self::AbiTyped => "abi-typed",
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::Ucx => "ucx",
            Self::Gloo => "gloo",
        }
    }

    /// Returns the name of what carries its messages.
    pub(crate) fn over(self, transport: Transport) -> &'static str {
        match (self, transport) {
            (Self::Raw, Transport::Tcp) => "socket",
            (Self::Raw, _) => "memory",
            (Self::Aldis | Self::Abi | Self::AbiTyped, transport) => transport.name(),
            (Self::Arena, _) => "shm, mapped",
            (Self::OpenMpi, Transport::Tcp) => "btl/tcp",
            (Self::OpenMpi, _) => "btl/vader",
            (Self::Mpich, Transport::Tcp) => "ucx/tcp",
            (Self::Mpich, _) => "ch4/posix",
            (Self::Ucx, Transport::Tcp) | (Self::Gloo, _) => "tcp",
            (Self::Ucx, _) => "sm",
        }
    }

    /// Returns true if the implementation does this at all.
    pub(crate) fn carries(self, workload: BenchWorkload, transport: Transport, bytes: usize) -> bool {
        match (self, workload, transport) {
            (
                Self::Raw,
                BenchWorkload::Latency | BenchWorkload::Bandwidth | BenchWorkload::Both,
                Transport::Tcp,
            ) => true,
            (Self::Raw, _, Transport::Tcp) => false,
            (Self::Raw, BenchWorkload::Latency | BenchWorkload::Rate, _) => bytes <= LINE_BYTES,
            (Self::Raw, BenchWorkload::Bandwidth | BenchWorkload::Both | BenchWorkload::Consume, _) => true,
            (Self::Raw, ..) => false,
            (
                Self::Arena,
                BenchWorkload::Bandwidth | BenchWorkload::Both | BenchWorkload::Consume,
                transport,
            ) => transport != Transport::Tcp,
            (Self::Arena, ..) => false,
            (Self::AbiTyped, workload, _) => workload == BenchWorkload::Latency,
            (Self::Ucx, BenchWorkload::Latency | BenchWorkload::Bandwidth | BenchWorkload::Rate, _) => true,
            (Self::Ucx, ..)
            | (Self::Gloo, BenchWorkload::Both | BenchWorkload::Consume | BenchWorkload::Overlap, _) => false,
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
            Self::Arena => ranks == 2 && transport != Transport::Tcp,
            Self::Gloo => transport == Transport::Tcp,
            Self::Aldis | Self::Abi | Self::AbiTyped | Self::OpenMpi | Self::Mpich => true,
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
            Self::Raw | Self::Aldis | Self::Arena => return None,
            Self::Abi | Self::AbiTyped => (&["cc"], "apt-get install gcc"),
            Self::OpenMpi => {
                (&["mpicc.openmpi", "mpirun.openmpi"], "apt-get install openmpi-bin libopenmpi-dev gcc")
            }
            Self::Mpich => (&["mpicc.mpich", "mpiexec.hydra"], "apt-get install mpich libmpich-dev gcc"),
            Self::Ucx => (&["ucx_perftest"], "apt-get install ucx-utils"),
            Self::Gloo => (&["g++", "/usr/include/gloo/context.h"], "apt-get install libgloo-dev g++"),
        };
        let is_there = |tool: &&str| shell::has(tool) || Path::new(tool).exists();
        if needed.iter().all(is_there) { None } else { Some(install) }
    }
}
