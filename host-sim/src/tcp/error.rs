//! Why there is no transport.

use core::fmt;
use core::net::IpAddr;

use nix::errno::Errno;

/// What kept a rank from listening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TcpError {
    /// Every port of the range is taken, or not this user's to take.
    NoPort {
        /// Where it was to listen.
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
    /// No address is left of what was asked for.
    NoInterface,
    /// A rank outside the job, a job of nobody, or no life.
    Identity,
    /// A number of links that there cannot be.
    Links {
        /// Links asked for.
        links: u8,
    },
    /// A system call failed.
    System {
        /// Which.
        call: &'static str,
        /// How.
        errno: Errno,
    },
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort { ip, first: 0, last: 0 } => write!(f, "no port of {ip} is free"),
            Self::NoPort { ip, first, last } => {
                write!(f, "no port from {first} to {last} is free at {ip}: give a larger range")
            }
            Self::Descriptors { call } => {
                write!(
                    f,
                    "{call}: no file descriptor is left (see `ulimit -n`; each peer needs one for each link)"
                )
            }
            Self::NoInterface => f.write_str("no interface that is up has an address that was asked for"),
            Self::Identity => f.write_str("the rank is outside its job"),
            Self::Links { links } => {
                write!(f, "{links} links a peer, where 1 to {} are possible", super::LINKS_MAX)
            }
            Self::System { call, errno } => write!(f, "{call}: {errno}"),
        }
    }
}

impl core::error::Error for TcpError {}
