//! Settings that the user chooses besides the storage's sizes.

use aldis_hal::{Cost, Epoch, PeerId};
use aldis_protocols::{connect, reliable};

use super::Framing;

/// The identity of a rank, the times of its handshakes and connections, and the cost of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// Job, rank and life of this side, and the times of a handshake. What is offered there is the
    /// storage's.
    pub connect: connect::HandshakeSetup,
    /// The times of a connection. Window and order are the storage's and the transport's own.
    pub link: reliable::LinkConfig,
    /// Measured or assumed: protocols are selected by it.
    pub cost: Cost,
    /// The framing of messages: an EtherType of their own, or UDP.
    pub framing: Framing,
}

impl Config {
    /// Rank `me` of a job with this key, in the life with this `epoch`: the rank and the epoch that
    /// its endpoint gets. Times are those for a local network.
    pub const fn new(me: PeerId, epoch: Epoch, job: u64, cost: Cost) -> Self {
        Self {
            connect: connect::HandshakeSetup { job, rank: me.0, epoch, ..connect::HandshakeSetup::DEFAULT },
            link: reliable::LinkConfig::DEFAULT,
            cost,
            framing: Framing::Ethernet,
        }
    }
}
