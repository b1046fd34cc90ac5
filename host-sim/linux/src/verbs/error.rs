//! The reasons why there is no transport.

use core::fmt;

use aldis_sys::Errno;

/// The reason that kept a rank from its RDMA device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VerbsError {
    /// The machine has none, or its kernel no support for them.
    NoDevice,
    /// No device or port fits what was asked for.
    NoFit {
        /// Every device and port, and why it is none: a line each.
        rejected: Vec<String>,
    },
    /// The system has no connection manager for RDMA.
    NoManager,
    /// A rank outside the job, or no life.
    Identity,
    /// The process may not lock so much memory.
    Locked {
        /// Bytes that were to be registered.
        need: u64,
        /// Bytes that may be locked in all.
        have: u64,
    },
    /// The device can do less than is needed.
    Limit {
        /// Of what.
        what: &'static str,
        /// The amount that is needed.
        need: u64,
        /// The amount that the device can do.
        have: u64,
    },
    /// A call of the library failed.
    Call {
        /// The name of the call.
        call: &'static str,
        /// The error of the call.
        errno: Errno,
    },
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => f.write_str(
                "no RDMA device found: /sys/class/infiniband is empty (`rdma link add rxe0 type rxe netdev DEVICE` makes one of a network card)",
            ),
            Self::NoFit { rejected } => {
                write!(f, "no RDMA device fits: {}", rejected.join("; "))
            }
            Self::NoManager => f.write_str(
                "rdma_cm is not there: `modprobe rdma_ucm` brings it, and manager=oob does without",
            ),
            Self::Identity => f.write_str("a rank outside the job, or an epoch of zero"),
            Self::Locked { need, have } => write!(
                f,
                "{need} bytes are to be registered and {have} may be locked: raise RLIMIT_MEMLOCK (`ulimit -l`)"
            ),
            Self::Limit { what, need, have } => {
                write!(f, "the device has {have} {what} where {need} are needed")
            }
            Self::Call { call, errno } => write!(f, "{call}: {}", errno.desc()),
        }
    }
}

impl core::error::Error for VerbsError {}
