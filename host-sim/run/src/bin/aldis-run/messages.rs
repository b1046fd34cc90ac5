//! Messages between the launcher and its nodes. With a node on this machine they are calls; a node
//! on another exchanges them over its agent's standard input and output, through other agents where
//! those have started it.

use std::ffi::OsString;

use aldis_linux::wireup::TcpTerms;
use aldis_run::hosts::HostPlace;
use aldis_run::programs::LaunchedProgram;
use serde::{Deserialize, Serialize};

use crate::host_fault::HostFault;
use crate::rank_state::RankState;
use crate::remote::AgentCommands;

/// The version of these messages; launcher and agent are one program and must be of one build.
pub(crate) const VERSION: u16 = 8;

/// Output that a node may have sent and not yet been granted again, in bytes.
pub(crate) const OUTPUT_WINDOW: u32 = 256 << 10;

/// An output of the launcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum OutputKind {
    Out,
    Err,
}

/// The input of the first rank of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Input {
    /// No input.
    #[default]
    Empty,
    /// The launcher's own input: it is on the same machine.
    Inherited,
}

/// The cores of the ranks of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Binding {
    /// All that the launcher has.
    #[default]
    Free,
    /// A core each, round and round.
    Core,
    /// An equal share of them each, where that is at least one and no other launcher has taken any.
    Share,
}

/// The ranks of one node and how they are to be started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeOrder {
    /// The job's random number, in the names of its segments and in its report.
    pub(crate) job: u64,
    /// Ranks of the job.
    pub(crate) size: u32,
    /// The first rank of this node.
    pub(crate) first: u32,
    /// The number of ranks from the first on, itself included.
    pub(crate) ranks: u32,
    /// True if the node's ranks exchange messages through shared memory.
    pub(crate) shares_memory: bool,
    /// Ranks of each node but the last, which has what is left; 0 if nodes differ.
    pub(crate) per_node: u32,
    /// Bytes of each rank's arena.
    pub(crate) arena_bytes: u64,
    /// The time that all ranks of the job may take to join, in ms.
    pub(crate) join_ms: u32,
    /// The cores that the ranks are bound to.
    pub(crate) binding: Binding,
    /// True if the ranks' output comes to the launcher.
    pub(crate) pipes: bool,
    /// The input of rank 0.
    pub(crate) input: Input,
    /// The programs that the ranks of the job run, in their order.
    pub(crate) programs: Vec<LaunchedProgram>,
    /// The folder in which paths begin.
    pub(crate) folder: Option<OsString>,
    /// The terms on which the ranks with which no memory is shared are reached; `None` if there are
    /// none.
    pub(crate) tcp: Option<Box<TcpTerms>>,
}

impl NodeOrder {
    /// The program of a rank of the job, and its place among them.
    pub(crate) fn program(&self, rank: u32) -> Option<(u32, &LaunchedProgram)> {
        let mut first = 0_u32;
        (0..).zip(&self.programs).find(|(_, program)| {
            first = first.saturating_add(program.ranks);
            rank < first
        })
    }
}

/// A message of the launcher. What concerns all hosts an agent passes on to those below it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// Start these ranks.
    Start(Box<NodeOrder>),
    /// The cards of all ranks of the job, by rank.
    Cards(Vec<Vec<u8>>),
    /// These ranks of the job have left in order.
    Departed(Vec<u32>),
    /// Tell what every rank is doing.
    TakeNotes(Moment),
    /// Send this signal to every rank and what it has started.
    Signal(i32),
    /// The job is over: ask the ranks to end, all but the spared one that is about to end by
    /// itself; kill those that are left after the grace.
    End {
        /// A rank of the job, not necessarily of this node.
        spared: Option<u32>,
    },
    /// So much more output is welcome, in bytes.
    Room(u32),
    /// No process reads this output any more.
    Shut(OutputKind),
    /// Start the agent of the host of this number.
    Grow {
        /// Its number in the job.
        host: u32,
        /// The place of the host.
        place: HostPlace,
        /// The way there.
        ways: AgentCommands,
    },
    /// Pass this on to the host of this number, whose agent yours is to have started.
    Below {
        /// Its number in the job.
        host: u32,
        /// For it, or for one that is below it.
        message: Box<ToNode>,
    },
    /// The host of this number, whose agent yours has started, is over, with all below it.
    Cut {
        /// Its number in the job.
        host: u32,
    },
    /// A sign of life, for the agent alone.
    Alive,
    /// The sender may be silent for so long before its next message, in ms: for the agent alone.
    Busy(u32),
}

impl ToNode {
    /// Returns true if it is for all hosts of the job.
    pub(crate) const fn is_for_all(&self) -> bool {
        match self {
            Self::Cards(_)
            | Self::Departed(_)
            | Self::TakeNotes(_)
            | Self::Signal(_)
            | Self::End { .. }
            | Self::Shut(_) => true,
            Self::Start(_)
            | Self::Room(_)
            | Self::Grow { .. }
            | Self::Below { .. }
            | Self::Cut { .. }
            | Self::Alive
            | Self::Busy(_) => false,
        }
    }
}

/// A message of a node, and which host's that is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HostEvent {
    /// The number of the host in the job; `None` if it is that of the agent that sends this, which
    /// need not know its own.
    pub(crate) host: Option<u32>,
    /// The message.
    pub(crate) event: FromNode,
}

/// A message of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum FromNode {
    /// An agent's first message.
    Hello {
        /// The version of the protocol that it speaks.
        version: u16,
    },
    /// All ranks have been started.
    Started {
        /// Cores that they may use.
        cores: u32,
    },
    /// The ranks cannot be started; none is running.
    Refused(StartRefusal),
    /// The state of a rank now.
    Rank {
        /// The rank.
        rank: u32,
        /// All that is known of it.
        state: RankState,
    },
    /// A rank's card.
    Card {
        /// The rank.
        rank: u32,
        /// The card as the rank sent it.
        bytes: Vec<u8>,
    },
    /// Output that a rank has printed; nothing at the end.
    Output {
        /// The rank that has printed it.
        rank: u32,
        /// The output to which it goes.
        kind: OutputKind,
        /// The bytes that were printed.
        bytes: Vec<u8>,
    },
    /// A part of what a rank has printed is lost.
    Unheard {
        /// The rank that printed it, and the reason.
        text: String,
    },
    /// The answer to [`ToNode::TakeNotes`]: one note for each rank of the node, in order.
    Notes(Moment, Vec<RankNote>),
    /// All ranks and whatever they have started have ended, and their output has been told.
    Over,
    /// The host takes no part, or no longer, and no host below it.
    Fault(HostFault),
    /// A line that the host's agent, or what has started it, has printed.
    Line(String),
    /// A sign of life, for the process that has started the agent alone.
    Alive,
    /// The agent may be silent for so long before its next message, in ms: for the same.
    Busy(u32),
}

/// The occasion on which notes are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// The user asked for the end.
    Interrupted,
    /// The launcher has found a cause to end the job.
    Condemned,
    /// All have ended; taken unasked.
    Ended,
}

/// The content of a rank's status board.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RankNote {
    /// Its activity now, in words.
    pub(crate) doing: String,
    /// Waits noted so far.
    pub(crate) waits: u64,
    /// Times it gave up the core.
    pub(crate) yields: u64,
}

/// The reason why the ranks of a node cannot be started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StartRefusal {
    /// The text that the user is told.
    pub(crate) text: String,
    /// The launcher's exit code.
    pub(crate) code: u8,
}
