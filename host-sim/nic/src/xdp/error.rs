//! The reasons why an interface cannot be used by AF_XDP, each with what a user can do.

use core::fmt;

use aldis_drivers::xdp::XdpFault;
use aldis_sys::Errno;
use aldis_sys::bpf::XdpMode;

/// The reason why an interface cannot be used by AF_XDP. [`CardError`](crate::CardError) names the
/// interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum XdpError {
    /// The system has no AF_XDP.
    Unsupported {
        /// The error.
        errno: Errno,
    },
    /// The process may not have a socket, a map, a program or an interface run it.
    NoPermission,
    /// The process may lock no more memory.
    LockedMemory {
        /// The bytes that it needs.
        bytes: usize,
    },
    /// The interface has a program already.
    Attached,
    /// The interface cannot run a program in this mode.
    NoMode {
        /// The mode.
        mode: XdpMode,
        /// The error.
        errno: Errno,
    },
    /// The driver cannot do without copies.
    NoZeroCopy,
    /// Another process has the queue.
    QueueTaken {
        /// The queue.
        queue: u32,
    },
    /// The interface has no such queue.
    NoQueue {
        /// The queue.
        queue: u32,
    },
    /// The interface's frames are too long.
    Long {
        /// The MTU of the interface.
        mtu: u32,
        /// The longest with which AF_XDP can be used.
        most: u32,
    },
    /// The interface is the loopback, whose frames are too long.
    Loopback,
    /// The system has said what cannot be.
    Fault(XdpFault),
}

impl XdpError {
    /// Writes the reason, of this interface.
    pub(crate) fn tell(&self, interface: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { errno } => write!(
                f,
                "this system has no AF_XDP: {}; use packet:{interface}, or a kernel since 5.9 with \
                 CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL",
                errno.desc()
            ),
            Self::NoPermission => write!(
                f,
                "no permission for AF_XDP on {interface}: it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, outside \
                 of every user namespace; run as root, give them to the program \
                 (sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM), or use packet:{interface}"
            ),
            Self::LockedMemory { bytes } => write!(
                f,
                "the process may not lock {} KiB of memory for AF_XDP on {interface}; raise the limit \
                 (ulimit -l), or give CAP_IPC_LOCK to the program",
                bytes.div_ceil(1024)
            ),
            Self::Attached => write!(
                f,
                "{interface} has an XDP program already, such as another rank's (ip -d link show {interface}); \
                 each rank needs an interface of its own, and packet:{interface} is for several"
            ),
            Self::NoMode { mode: XdpMode::Native, errno } => {
                write!(f, "the driver of {interface} runs no XDP program: {}; leave native out", errno.desc())
            }
            Self::NoMode { mode: XdpMode::Generic, errno } => {
                write!(f, "{interface} runs no XDP program: {}; use packet:{interface}", errno.desc())
            }
            Self::NoZeroCopy => write!(
                f,
                "the driver of {interface} copies frames of AF_XDP, or the mode does; leave zerocopy out"
            ),
            Self::QueueTaken { queue } => write!(
                f,
                "another process has queue {queue} of {interface}; each rank needs an interface of its own"
            ),
            Self::NoQueue { queue } => {
                write!(
                    f,
                    "{interface} has no queue {queue} for AF_XDP; ethtool -l {interface} tells how many"
                )
            }
            Self::Long { mtu, most } => write!(
                f,
                "the MTU of {interface} is {mtu}, too long for AF_XDP: ip link set {interface} mtu {most}, or use \
                 packet:{interface}"
            ),
            Self::Loopback => {
                write!(
                    f,
                    "{interface} is the loopback, whose frames are too long for AF_XDP; use packet:{interface}"
                )
            }
            Self::Fault(fault) => write!(f, "{interface}: {fault}"),
        }
    }
}
