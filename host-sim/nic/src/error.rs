//! The reasons why a card cannot be used, each with what a user can do.

use core::fmt;

use aldis_drivers::memif::{MemifError, MemifText};
use aldis_sys::{Call, Errno};

use crate::pci::PciError;
use crate::pci_address::PciAddress;
use crate::xdp::XdpError;

/// A card cannot be opened, or frames do not pass any more. Names the interface, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CardError {
    /// The process may not exchange frames there.
    NoPermission {
        /// The interface.
        interface: String,
        /// The capability that it lacks.
        lacks: &'static str,
    },
    /// No interface has this name.
    NoInterface {
        /// The name.
        interface: String,
        /// The names that there are.
        others: Vec<String>,
    },
    /// The interface carries no frames of Ethernet.
    NotEthernet {
        /// The interface.
        interface: String,
        /// The kind of its addresses, a number of `ARPHRD`.
        kind: u16,
    },
    /// The interface is down.
    Down {
        /// The interface.
        interface: String,
    },
    /// Frames have become too long for the interface.
    Mtu {
        /// The interface.
        interface: String,
        /// The MTU with which the card was opened.
        was: u32,
        /// The MTU that it has.
        now: u32,
    },
    /// Another process has the other end of the TAP.
    Busy {
        /// The interface.
        interface: String,
    },
    /// There is no device that makes TAPs.
    NoTapDevice {
        /// The reason.
        errno: Errno,
    },
    /// The interface cannot be used by AF_XDP.
    Xdp {
        /// The interface.
        interface: String,
        /// The reason.
        error: XdpError,
    },
    /// The card on PCI cannot be used, or can no more.
    Pci {
        /// Its address.
        address: PciAddress,
        /// The reason.
        error: PciError,
    },
    /// There is no socket of a memif at this path.
    NoSocket {
        /// The path.
        path: String,
    },
    /// The process that made the socket of a memif has gone.
    NoServer {
        /// The path.
        path: String,
    },
    /// Another process is the server of a memif there.
    Served {
        /// The path.
        path: String,
    },
    /// The other end of a memif does not answer, or has not come yet.
    NoPeer {
        /// The path.
        path: String,
        /// True if this end is the server.
        is_server: bool,
    },
    /// The other end of a memif was there, and has gone.
    PeerLeft {
        /// The path.
        path: String,
        /// The last that it has said; empty if it was killed.
        reason: MemifText,
    },
    /// The other end of a memif refuses, or does not keep to the rules.
    Memif {
        /// The path.
        path: String,
        /// The number of the interface on the socket.
        id: u32,
        /// The reason.
        error: MemifError,
    },
    /// Frames cannot be captured.
    Capture {
        /// The path of the file.
        path: String,
        /// The reason.
        errno: Errno,
    },
    /// The system refused.
    System {
        /// The interface.
        interface: String,
        /// The call.
        call: Call,
        /// The error.
        errno: Errno,
    },
}

impl CardError {
    /// Returns true if the card will not come back: there is nothing to wait for.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Pci { error, .. } if error.is_final())
    }
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPermission { interface, lacks } => write!(
                f,
                "no permission for frames of {interface}: {lacks} is missing; run as root, give it to the program \
                 (sudo setcap {}+ep PROGRAM), or use a network of your own (unshare -Urn)",
                lacks.to_lowercase()
            ),
            Self::NoInterface { interface, others } => write!(
                f,
                "no interface is called {interface} here; there {} {}",
                if others.len() == 1 { "is" } else { "are" },
                if others.is_empty() { "none".to_owned() } else { others.join(", ") }
            ),
            Self::NotEthernet { interface, kind } => {
                write!(
                    f,
                    "{interface} carries no frames of Ethernet (its kind is {kind}); choose another interface"
                )
            }
            Self::Down { interface } => {
                write!(f, "{interface} is down; bring it up: ip link set {interface} up")
            }
            Self::Mtu { interface, was, now } => write!(
                f,
                "the MTU of {interface} is {now} now, too short for frames of this job; \
                 it was {was}: ip link set {interface} mtu {was}"
            ),
            Self::Busy { interface } => write!(
                f,
                "another process has the TAP {interface}; each rank needs one of its own, such as tap:{interface}%r"
            ),
            Self::NoTapDevice { errno } => write!(
                f,
                "no TAP can be had: /dev/net/tun: {}; load the module tun, or give the device to the container",
                errno.desc()
            ),
            Self::Xdp { interface, error } => error.tell(interface, f),
            Self::Pci { address, error } => error.tell(&address.to_string(), f),
            Self::NoSocket { path } => write!(
                f,
                "no memif server is at {path}; start one, such as \
                 dpdk-testpmd --vdev=net_memif0,role=server,socket={path},socket-abstract=no"
            ),
            Self::NoServer { path } => {
                write!(f, "the memif server at {path} has gone; remove the socket, and start it again")
            }
            Self::Served { path } => {
                write!(
                    f,
                    "another process is the memif server at {path}; choose another path, or be its client"
                )
            }
            Self::NoPeer { path, is_server: false } => {
                write!(f, "the memif server at {path} does not answer")
            }
            Self::NoPeer { path, is_server: true } => write!(f, "no memif client has come to {path} yet"),
            Self::PeerLeft { path, reason } => {
                write!(f, "the other end of memif {path} has gone")?;
                if *reason == MemifText::default() { Ok(()) } else { write!(f, ": {reason}") }
            }
            Self::Memif { path, id, error } => {
                write!(f, "memif {path}, id {id}: {error}")?;
                match error {
                    MemifError::Refused(reason) if *reason == MemifText::default() => Ok(()),
                    MemifError::Refused(_) | MemifError::Id { .. } => f.write_str(
                        "; each rank needs an interface of its own, such as id=%r for the rank's number",
                    ),
                    _ => Ok(()),
                }
            }
            Self::Capture { path, errno } => {
                write!(f, "frames cannot be captured in {path}: {}; choose another pcap=PATH", errno.desc())
            }
            Self::System { interface, call, errno } => {
                write!(f, "{interface}: {call} failed: {}", errno.desc())
            }
        }
    }
}

impl core::error::Error for CardError {}
