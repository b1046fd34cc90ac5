//! The settings that a job chooses.

use core::ops::RangeInclusive;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::interfaces::Interfaces;
use super::tls::Files;

/// The most links between two ranks.
pub const LINKS_MAX: u8 = 16;

/// The fewest connections that a rank has to be allowed.
pub const CONNECTIONS_MIN: u32 = 3;

/// The way a rank listens and connects. The same on all ranks of a job, as far as
/// [`links`](Self::links) is concerned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TcpConfig {
    /// The machine's addresses that are used.
    pub interfaces: Interfaces,
    /// The ports to listen on, the first that is free; `0..=0` leaves it to the system.
    pub ports: RangeInclusive<u16>,
    /// Connections to each peer, 1 to [`LINKS_MAX`]: long messages are dealt out to them.
    pub links: u8,
    /// Connections that the rank may have at a time, from [`CONNECTIONS_MIN`]; `None`: as many as
    /// the limit of descriptors has room for. Beyond it those that have been idle for longest are
    /// closed, by agreement, until they are needed again. Of effect with one link.
    pub connections: Option<u32>,
    /// Bytes that the system may hold for a socket to send; `None` leaves it to the system, which
    /// adapts it.
    pub send_buffer: Option<usize>,
    /// Bytes that the system may hold for a socket to read; `None` leaves it to the system, which
    /// adapts it.
    pub receive_buffer: Option<usize>,
    /// Silence after which the system asks whether a peer's machine is still there, in whole
    /// seconds; it is given up 20 s later. `None`: never.
    pub keep_alive: Option<Duration>,
    /// The time for which a peer may be unreachable before it is given up.
    pub connect_timeout: Duration,
    /// Certificates, if connections are to be encrypted: on all ranks or none.
    pub tls: Option<Files>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            interfaces: Interfaces::default(),
            ports: 0..=0,
            links: 1,
            connections: None,
            send_buffer: None,
            receive_buffer: None,
            keep_alive: Some(Duration::from_secs(20)),
            connect_timeout: Duration::from_secs(20),
            tls: None,
        }
    }
}
