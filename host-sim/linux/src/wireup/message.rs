//! The messages on the wire-up socket.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::{MESSAGE_BYTES_MAX, WireError};
use crate::tcp::{KEY_BYTES, TcpConfig};

/// The longest text a rank may send along, in bytes; longer ones are cut at a character.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The sizes of every inbox of the job; all ranks have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Ring slots per sender.
    pub slots: u32,
    /// Blocks per sender.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// The ranks of one machine: those that the launcher, or its agent there, has started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The first of them; the others follow it.
    pub first: u32,
    /// The number of ranks.
    pub ranks: u32,
    /// Cores of the machine that they may use.
    pub cores: u32,
    /// True if they exchange messages through shared memory.
    pub shares_memory: bool,
    /// Ranks of each node of the job but the last, which has what is left, where those of a node
    /// share memory; 0 if nodes differ.
    pub per_node: u32,
}

impl Node {
    /// Returns [`per_node`](Self::per_node) for nodes of so many ranks each, in the order of ranks,
    /// that share memory within each.
    pub fn alike(mut nodes: impl Iterator<Item = u32>) -> u32 {
        let Some(first) = nodes.next() else { return 0 };
        let mut last = first;
        // Nothing follows one that has fewer.
        let are_alike = nodes.all(|ranks| core::mem::replace(&mut last, ranks) == first && ranks <= first);
        if are_alike { first } else { 0 }
    }

    /// The ranks of the node whose segments `rank` has, itself among them: the first, and how many.
    pub const fn mates_of(&self, rank: u32) -> (u32, u32) {
        if self.shares_memory { (self.first, self.ranks) } else { (rank, 1) }
    }
}

/// The terms on which the ranks of a job reach each other over TCP.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpTerms {
    /// The bytes of the [`JobKey`](crate::tcp::JobKey). They go over the wire-up's sockets and
    /// pipes alone.
    pub key: [u8; KEY_BYTES],
    /// The settings that the user has chosen.
    pub config: TcpConfig,
}

/// Without the key.
impl fmt::Debug for TcpTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpTerms").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A message of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromRank<'a> {
    /// The first message: what the rank speaks and who it is.
    Hello {
        /// The wire-up version.
        version: u16,
        /// Its process id, which differs from the child's when a script stands between.
        pid: u32,
    },
    /// Its inbox is ready; its encoded `aldis_protocols::card::Card`.
    Card {
        /// The card.
        bytes: &'a [u8],
    },
    /// The rank knows all its peers.
    Joined,
    /// The rank is done and has left in order.
    Leave {
        /// Calls of the system that had failed for peers, in words; a peer that lacks a message
        /// fails, and this tells why.
        failures: &'a str,
    },
    /// The rank ends the job.
    Abort {
        /// The code for the job's exit.
        code: i32,
        /// The reason.
        text: &'a str,
    },
    /// Its program failed.
    Failed {
        /// The error, for the report.
        text: &'a str,
        /// The error came of another rank's failure, which is the one to report.
        consequence: bool,
    },
}

/// A message of the launcher.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromLauncher<'a> {
    /// The answer to `Hello`.
    Welcome {
        /// The wire-up version.
        version: u16,
        /// The job's random key.
        job: u64,
        /// The rank this process is to be.
        rank: u32,
        /// Ranks of the job.
        size: u32,
        /// The ranks of this machine.
        node: Node,
        /// The inbox sizes.
        shape: Shape,
        /// Bytes of each segment.
        segment_bytes: u64,
        /// The longest that the wire-up may take from here, in ms.
        deadline_ms: u32,
        /// The terms on which the ranks with which no memory is shared are reached; `None` if there
        /// are none.
        tcp: Option<Box<TcpTerms>>,
    },
    /// The first descriptor beside this message is that of the segments of all ranks that share
    /// memory with this one, itself among them; a second one that of the table of the ranks that
    /// have left, where some are reached over sockets.
    Segments,
    /// The descriptor beside this message is that of the [`CardTable`](super::CardTable) of all
    /// ranks of the job.
    Cards {
        /// Bytes of its file.
        bytes: u64,
    },
    /// The rank cannot take part.
    Refused {
        /// The reason.
        text: &'a str,
    },
}

impl FromRank<'_> {
    /// The message's name, for errors.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Card { .. } => "card",
            Self::Joined => "joined",
            Self::Leave { .. } => "leave",
            Self::Abort { .. } => "abort",
            Self::Failed { .. } => "failed",
        }
    }
}

impl FromLauncher<'_> {
    /// The message's name, for errors.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Welcome { .. } => "welcome",
            Self::Segments => "segments",
            Self::Cards { .. } => "cards",
            Self::Refused { .. } => "refused",
        }
    }
}

/// `text` cut to [`TEXT_BYTES_MAX`] bytes at a character.
pub fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}

/// Encodes a message into `buffer`.
///
/// # Errors
/// [`WireError::TooLong`].
pub(super) fn encode<'b, M: Serialize>(
    message: &M,
    buffer: &'b mut [u8; MESSAGE_BYTES_MAX],
) -> Result<&'b [u8], WireError> {
    postcard::to_slice(message, buffer).map(|bytes| &*bytes).map_err(|_| WireError::TooLong)
}

/// Decodes a message, which must use up all of `bytes`.
///
/// # Errors
/// [`WireError::Malformed`].
pub(super) fn decode<'b, M: Deserialize<'b>>(bytes: &'b [u8]) -> Result<M, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(WireError::Malformed { bytes: bytes.len() }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::wireup::CARD_BYTES_MAX;

    fn there_and_back<'b, M>(message: &M, buffer: &'b mut [u8; MESSAGE_BYTES_MAX]) -> Result<M, WireError>
    where
        M: Serialize + Deserialize<'b>,
    {
        decode(encode(message, buffer)?)
    }

    proptest! {
        #[test]
        fn a_ranks_words_survive(pid: u32, code: i32, consequence: bool, text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..1024)) {
            let messages = [
                FromRank::Hello { version: 1, pid },
                FromRank::Card { bytes: &bytes },
                FromRank::Joined,
                FromRank::Leave { failures: &text },
                FromRank::Abort { code, text: &text },
                FromRank::Failed { text: &text, consequence },
            ];
            for message in messages {
                let mut buffer = [0; MESSAGE_BYTES_MAX];
                prop_assert_eq!(there_and_back(&message, &mut buffer), Ok(message), "{}", message.name());
            }
        }

        #[test]
        fn a_launchers_words_survive(job: u64, rank: u32, slots: u32, segment_bytes: u64, text in "\\PC{0,200}") {
            let shape = Shape { slots, blocks: 4, block_bytes: 64 };
            let tcp = segment_bytes.is_multiple_of(2).then(|| Box::new(TcpTerms { key: [slots as u8; KEY_BYTES], config: TcpConfig::default() }));
            let node = Node { first: rank, ranks: 3, cores: 2, shares_memory: true, per_node: 3 };
            let messages = [
                FromLauncher::Welcome { version: 1, job, rank, size: 9, node, shape, segment_bytes, deadline_ms: 7, tcp },
                FromLauncher::Segments,
                FromLauncher::Cards { bytes: segment_bytes },
                FromLauncher::Refused { text: &text },
            ];
            for message in messages {
                let mut buffer = [0; MESSAGE_BYTES_MAX];
                prop_assert_eq!(there_and_back(&message, &mut buffer), Ok(message.clone()), "{}", message.name());
            }
        }

        #[test]
        fn arbitrary_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..MESSAGE_BYTES_MAX)) {
            for refused in [decode::<FromRank<'_>>(&bytes).err(), decode::<FromLauncher<'_>>(&bytes).err()].into_iter().flatten() {
                prop_assert_eq!(refused, WireError::Malformed { bytes: bytes.len() });
            }
        }

        #[test]
        fn a_truncated_message_is_refused(pid: u32, text in "\\PC{0,60}", cut in 1_usize..8) {
            for message in [FromRank::Hello { version: 1, pid }, FromRank::Failed { text: &text, consequence: false }] {
                let mut buffer = [0; MESSAGE_BYTES_MAX];
                let bytes = encode(&message, &mut buffer).unwrap();
                let short = &bytes[..bytes.len().saturating_sub(cut)];
                prop_assert!(decode::<FromRank<'_>>(short).is_err());
            }
        }
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let length = encode(&FromRank::Joined, &mut buffer).unwrap().len();
        assert_eq!(
            decode::<FromRank<'_>>(&buffer[..length + 1]),
            Err(WireError::Malformed { bytes: length + 1 })
        );
    }

    #[test]
    fn a_message_above_the_bound_is_not_encoded() {
        let long = "x".repeat(MESSAGE_BYTES_MAX);
        let message = FromLauncher::Refused { text: &long };
        assert_eq!(encode(&message, &mut [0; MESSAGE_BYTES_MAX]), Err(WireError::TooLong));
    }

    #[test]
    fn the_longest_card_fits_in_a_message() {
        let message = FromRank::Card { bytes: &[0xFF; CARD_BYTES_MAX] };
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        assert_eq!(there_and_back(&message, &mut buffer), Ok(message));
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        assert_eq!(bounded(&long).len(), TEXT_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(bounded(&odd).len(), TEXT_BYTES_MAX - 1);
        assert_eq!(bounded("short"), "short");
    }
}
