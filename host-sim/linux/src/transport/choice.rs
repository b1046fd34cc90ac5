//! The transport that ranks choose where no launcher says it.

use serde::{Deserialize, Serialize};

use super::VARIABLE;
use crate::error::JoinError;

/// The values of [`VARIABLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum TransportChoice {
    /// Shared memory on a node, TCP between nodes, or a network card if one is named.
    #[default]
    Auto,
    /// Shared memory alone, on one node.
    Shm,
    /// TCP alone, also on a node.
    Tcp,
    /// RDMA alone, also on a node.
    Verbs,
    /// Shared memory on a node, RDMA between nodes.
    ShmVerbs,
    /// A network card alone, also on a node.
    Ethernet,
    /// Shared memory on a node, a network card between nodes.
    ShmEthernet,
}

impl TransportChoice {
    /// The choice of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "auto" => Self::Auto,
            "shm" => Self::Shm,
            "tcp" => Self::Tcp,
            "verbs" => Self::Verbs,
            "shm-verbs" => Self::ShmVerbs,
            "ethernet" => Self::Ethernet,
            "shm-ethernet" => Self::ShmEthernet,
            _ => return None,
        })
    }

    /// Reads the environment's choice; [`Auto`](Self::Auto) if there is none.
    ///
    /// # Errors
    /// [`JoinError::Setting`].
    pub(crate) fn from_environment() -> Result<Self, JoinError> {
        let Ok(value) = std::env::var(VARIABLE) else { return Ok(Self::default()) };
        let why = "it is auto, shm, tcp, verbs, shm-verbs, ethernet or shm-ethernet".to_owned();
        Self::parse(&value).ok_or(JoinError::Setting { name: VARIABLE, value, why })
    }

    /// The choice that this one means where a card is named, or none is.
    pub(crate) const fn with_card(self, is_named: bool) -> Self {
        match self {
            Self::Auto if is_named => Self::ShmEthernet,
            choice => choice,
        }
    }

    /// Returns true if those with which no memory is shared are reached over verbs.
    pub(crate) const fn is_over_verbs(self) -> bool {
        matches!(self, Self::Verbs | Self::ShmVerbs)
    }

    /// Returns true if they are reached through a network card.
    pub(crate) const fn is_over_ethernet(self) -> bool {
        matches!(self, Self::Ethernet | Self::ShmEthernet)
    }

    /// Returns true if ranks of a node exchange messages through shared memory.
    pub(crate) const fn shares_memory(self) -> bool {
        matches!(self, Self::Auto | Self::Shm | Self::ShmVerbs | Self::ShmEthernet)
    }
}
