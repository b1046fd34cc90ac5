//! The reasons why a card of AF_XDP is left alone.

use core::fmt;

/// A ring of AF_XDP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum XdpRing {
    /// Frames that came, for the program.
    Receive,
    /// Frames to be sent, for the system.
    Transmit,
    /// Room for frames that come, for the system.
    Fill,
    /// Frames that were sent, for the program.
    Completion,
}

impl XdpRing {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
            Self::Fill => "fill",
            Self::Completion => "completion",
        }
    }
}

/// A number of the system's that cannot be: the card is left alone from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum XdpFault {
    /// An index of a ring that runs ahead of what there is, or back.
    Index {
        /// The ring.
        ring: XdpRing,
        /// The index that the system has written.
        index: u32,
        /// The index at which this end is.
        own: u32,
    },
    /// A frame that does not lie in memory which the system was lent for it, or that goes on in
    /// another.
    Frame {
        /// The ring.
        ring: XdpRing,
        /// The offset of the frame in the memory.
        address: u64,
        /// Its bytes.
        length: u32,
    },
}

impl fmt::Display for XdpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Index { ring, index, own } => {
                write!(f, "the {} ring's index is {index}, and this end is at {own}", ring.name())
            }
            Self::Frame { ring, address, length } => {
                write!(f, "the {} ring tells of {length} bytes at {address} that cannot be", ring.name())
            }
        }
    }
}

impl core::error::Error for XdpFault {}
