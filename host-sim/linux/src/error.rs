//! The reasons why a process could not become a rank.

use core::fmt;

use aldis_hal::Cause;
use aldis_kernel::SizesError;

use crate::entropy::NoEntropy;
use crate::pmi::PmiError;
use crate::segment::SegmentError;
use crate::tcp::TcpError;
use crate::wireup::WireError;

/// Joining the job failed. Names the rank concerned, what was expected and what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The conversation with the launcher broke down.
    Wire(WireError),
    /// The conversation with the process manager broke down.
    Manager(PmiError),
    /// The launcher does not take this process.
    Refused {
        /// Its reason.
        text: String,
    },
    /// A rank's segment is truncated, unsealed, foreign or mislabelled, or could not be mapped.
    Segment {
        /// The rank.
        rank: u32,
        /// The fault, with what was expected and found.
        error: SegmentError,
    },
    /// More or fewer segments came than the job has ranks.
    Segments {
        /// Ranks of the job.
        expected: u32,
        /// Segments that came.
        found: u32,
    },
    /// The launcher sent another number of files than one of the segments and, of a job over
    /// sockets, one of the ranks that have left.
    Files {
        /// Files that came.
        found: u32,
    },
    /// A rank's inbox is not what its card says, or this rank's own could not be laid out.
    Inbox {
        /// The rank.
        rank: u32,
        /// The fault.
        cause: Cause,
    },
    /// A rank cannot be reached over TCP.
    Tcp {
        /// The rank: this one.
        rank: u32,
        /// The reason.
        error: TcpError,
    },
    /// A rank cannot be reached over verbs.
    Verbs {
        /// The rank: this one.
        rank: u32,
        /// The reason.
        text: String,
    },
    /// A rank cannot be reached through a network card.
    Ethernet {
        /// The rank: this one.
        rank: u32,
        /// The reason.
        text: String,
    },
    /// A rank's card does not decode, or introduces another rank.
    Card {
        /// The rank that it should introduce.
        rank: u32,
        /// The rank that it introduces; `None` if it does not decode.
        found: Option<u32>,
    },
    /// The table of all ranks' cards is not what the launcher has told.
    Cards(SegmentError),
    /// The table of the ranks that have left is not what it should be.
    Departures(SegmentError),
    /// Ranks differ: one has rows for all ranks of the job, and another for fewer.
    Rows {
        /// The first that has them for all.
        with_all: u32,
        /// The first that has fewer.
        with_fewer: u32,
        /// Its rows.
        rows: u32,
        /// Ranks of the job.
        size: u32,
    },
    /// A job size that no inbox can be laid out for.
    Size {
        /// Ranks of the job.
        expected: u32,
        /// Ranks that there can be.
        found: u32,
    },
    /// A variable of the environment has a value that it cannot have.
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A variable of the environment has a value that it cannot have, and what would be right is
    /// known.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The reason why it cannot be.
        why: String,
    },
    /// The data that a rank has published through the process manager does not decode.
    Told {
        /// The rank.
        rank: u32,
    },
    /// Two ranks have been told different things by their environment.
    Unlike {
        /// Another than rank 0.
        rank: u32,
        /// The variable.
        name: &'static str,
    },
    /// Another rank cannot join.
    Elsewhere {
        /// The rank.
        rank: u32,
        /// Its error.
        text: String,
    },
    /// No memory can be shared with a rank, and no other transport is allowed.
    Apart {
        /// The rank.
        rank: u32,
        /// The reason.
        text: String,
    },
    /// No random numbers for the job's key or this rank's epoch.
    Entropy(NoEntropy),
    /// The default storage was taken before: `run` can be called once in a process.
    StorageTaken,
    /// There is no memory for the default storage.
    NoStorage {
        /// Bytes needed.
        need: u64,
        /// Bytes of addresses that the limit of the process leaves.
        have: u64,
    },
    /// The sizes of the storage break a rule.
    Sizes(SizesError),
    /// The endpoint refused: storage too small, or a peer that does not fit.
    Endpoint(aldis_kernel::Error),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot join the job: ")?;
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::Refused { text } => write!(f, "refused by the launcher: {text}"),
            Self::Segment { rank, error } => write!(f, "segment of rank {rank}: {error}"),
            Self::Segments { expected, found } => {
                write!(f, "{found} segments came where {expected} were expected")
            }
            Self::Files { found } => {
                write!(f, "{found} files came with the segments where 1 or 2 were expected")
            }
            Self::Variable { name, value } => write!(f, "{name} cannot be {value:?}"),
            Self::Manager(error) => error.fmt(f),
            Self::Setting { name, value, why } => write!(f, "{name} cannot be {value:?}: {why}"),
            Self::Told { rank } => write!(
                f,
                "what rank {rank} has told through the process manager does not decode: all ranks must be of the same build"
            ),
            Self::Unlike { rank, name } => write!(
                f,
                "{name} of rank {rank} is not that of rank 0: give all ranks the same, as by mpiexec.hydra -genv {name} VALUE"
            ),
            Self::Elsewhere { rank, text } => write!(f, "rank {rank}: {text}"),
            Self::Apart { rank, text } => write!(f, "no memory can be shared with rank {rank}: {text}"),
            Self::Inbox { rank, cause } => write!(f, "inbox of rank {rank}: {cause}"),
            Self::Tcp { rank, error } => write!(f, "rank {rank} over TCP: {error}"),
            Self::Verbs { rank, text } => write!(f, "rank {rank} over verbs: {text}"),
            Self::Ethernet { rank, text } => write!(f, "rank {rank} over ethernet: {text}"),
            Self::Card { rank, found: Some(found) } => {
                write!(f, "the card of rank {rank} introduces rank {found}")
            }
            Self::Departures(error) => write!(f, "the table of ranks that have left: {error}"),
            Self::Cards(error) => write!(f, "the cards of the job: {error}"),
            Self::Card { rank, found: None } => write!(f, "the card of rank {rank} does not decode"),
            Self::Rows { with_all, with_fewer, rows, size } => write!(
                f,
                "rank {with_all} has rows for all {size} ranks and rank {with_fewer} for {rows}: all ranks have rows for all, or all have fewer; give all the same, by aldis-run --peers N, ALDIS_PEERS or `peers` of a storage"
            ),
            Self::Size { expected, found } => {
                write!(f, "no inboxes can be laid out for {expected} ranks, only for 1 to {found}")
            }
            Self::Entropy(error) => error.fmt(f),
            Self::NoStorage { need, have } => {
                write!(
                    f,
                    "no memory for this rank's tables: mmap failed: {need} bytes needed, {have} left (ulimit -v)"
                )
            }
            Self::Sizes(error) => error.fmt(f),
            Self::StorageTaken => f.write_str("the default storage is in use; a process joins once"),
            Self::Endpoint(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for JoinError {}

impl From<WireError> for JoinError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<PmiError> for JoinError {
    fn from(error: PmiError) -> Self {
        Self::Manager(error)
    }
}

impl From<NoEntropy> for JoinError {
    fn from(error: NoEntropy) -> Self {
        Self::Entropy(error)
    }
}

impl From<aldis_kernel::Error> for JoinError {
    fn from(error: aldis_kernel::Error) -> Self {
        Self::Endpoint(error)
    }
}
