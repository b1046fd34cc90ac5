//! The reasons why a card cannot be used, each with what a user can do.

use core::fmt;

use aldis_sys::{Call, Errno};

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
            Self::System { interface, call, errno } => {
                write!(f, "{interface}: {call} failed: {}", errno.desc())
            }
        }
    }
}

impl core::error::Error for CardError {}
