//! The reasons why there is no transport.

use core::fmt;
use core::net::IpAddr;

use aldis_sys::{CallFailure, Errno};

use super::interfaces::Rejected;
use super::tls::TlsError;
use crate::entropy::NoEntropy;

/// The reason that kept a rank from listening.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TcpError {
    /// Every port of the range is taken, or not this user's to take.
    NoPort {
        /// The address at which it was to listen.
        ip: IpAddr,
        /// The first port that was tried.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// The process may open no more files.
    Descriptors {
        /// The call that found out.
        call: &'static str,
    },
    /// The limit of descriptors has no room for the fewest connections that a rank needs.
    Connections {
        /// Descriptors that the process needs.
        need: u64,
        /// Descriptors that it may have.
        have: u64,
    },
    /// No address is left of what was asked for.
    NoInterface {
        /// Every address that there is.
        rejected: Vec<Rejected>,
    },
    /// An entry of a list that is neither the name of an interface nor a network.
    Network {
        /// The entry.
        text: String,
    },
    /// Certificates that cannot be used.
    Tls(TlsError),
    /// No random numbers for the handshakes.
    Entropy(NoEntropy),
    /// A rank outside the job, a job without ranks, or no life.
    Identity,
    /// A number of links that there cannot be.
    Links {
        /// Links asked for.
        links: u8,
    },
    /// A system call failed.
    System {
        /// The name of the call.
        call: &'static str,
        /// The error of the call.
        errno: Errno,
    },
}

impl TcpError {
    /// Names the call that failed.
    pub(super) fn system(call: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::EMFILE | Errno::ENFILE => Self::Descriptors { call },
            errno => Self::System { call, errno },
        }
    }
}

impl From<CallFailure> for TcpError {
    fn from(CallFailure { call, errno }: CallFailure) -> Self {
        Self::system(call.name())(errno)
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort { ip, first: 0, last: 0 } => write!(f, "bind: no port of {ip} is free"),
            Self::NoPort { ip, first, last } => {
                write!(f, "bind: no port from {first} to {last} is free at {ip}: give a larger range")
            }
            Self::Descriptors { call } => {
                write!(
                    f,
                    "{call}: no file descriptor is left (see `ulimit -n`; each peer needs one for each link)"
                )
            }
            Self::Connections { need, have } => {
                write!(
                    f,
                    "a rank needs at least {need} file descriptors, {have} are allowed (see `ulimit -n`)"
                )
            }
            Self::NoInterface { rejected } => {
                f.write_str("no address is left to listen at; there are: ")?;
                let mut between = "";
                for one in rejected {
                    write!(f, "{between}{one}")?;
                    between = ", ";
                }
                if rejected.is_empty() { f.write_str("none") } else { Ok(()) }
            }
            Self::Network { text } => {
                write!(f, "`{text}` is no interface's name, no address and no network such as 10.1.0.0/16")
            }
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Entropy(error) => error.fmt(f),
            Self::Identity => f.write_str("the rank is outside its job"),
            Self::Links { links } => {
                write!(f, "{links} links a peer, where 1 to {} are possible", super::LINKS_MAX)
            }
            Self::System { call, errno } => write!(f, "{call}: {errno}"),
        }
    }
}

impl core::error::Error for TcpError {}
