//! The node's side of the wire-up with one rank.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use aldis_linux::segment::{DepartureTable, SegmentError};
use aldis_linux::shape::NodePlan;
use aldis_linux::wireup::{
    CARD_BYTES_MAX, Channel, FromLauncher, FromRank, Node, SharedCards, TcpTerms, VERSION, WireError, bounded,
};

use crate::rank_state::{LastMessage, RankStage, RankState};

/// The part of the wire-up that is the same for all ranks of the node.
#[derive(Debug)]
pub(crate) struct WireUpJob {
    /// The job's random number.
    pub(crate) key: u64,
    /// Ranks of the job.
    pub(crate) size: u32,
    /// The ranks of this node.
    pub(crate) node: Node,
    /// The plan by which inboxes are divided.
    pub(crate) plan: NodePlan,
    /// The time by which every rank must have joined.
    pub(crate) join_deadline: Instant,
    /// The file of the node's segments, or where no memory is shared that of each rank; given up
    /// once all ranks have theirs.
    pub(crate) segments: Vec<OwnedFd>,
    /// The terms on which the ranks with which no memory is shared are reached.
    pub(crate) tcp: Option<Box<TcpTerms>>,
    /// The table of the cards of all ranks of the job, once they have come, or why there is none.
    pub(crate) cards: Option<Result<SharedCards, SegmentError>>,
    /// The table of the ranks that have left, where some are reached over sockets.
    pub(crate) departures: Option<DepartureTable>,
}

impl WireUpJob {
    /// The file of the segments of the ranks with which `rank` shares memory.
    fn segments_of(&self, rank: u32) -> Option<&OwnedFd> {
        let place = if self.node.shares_memory { 0 } else { rank.saturating_sub(self.node.first) };
        self.segments.get(place as usize)
    }
}

/// A message to be sent as soon as the socket takes it.
#[derive(Clone, Copy, Debug)]
enum WireMessage {
    Welcome,
    Segments,
    Cards,
    Refusal,
}

/// The conversation with one rank.
#[derive(Debug)]
pub(crate) struct Conversation {
    rank: u32,
    channel: Option<Channel>,
    outbox: VecDeque<WireMessage>,
    /// Its card, until it is passed on.
    pub(crate) card: Option<Vec<u8>>,
}

impl Conversation {
    /// A conversation that the rank will begin.
    pub(crate) const fn new(rank: u32, channel: Channel) -> Self {
        Self { rank, channel: Some(channel), outbox: VecDeque::new(), card: None }
    }

    /// The socket, while it is open, and whether something waits to be sent.
    pub(crate) fn socket(&self) -> Option<(&Channel, bool)> {
        self.channel.as_ref().map(|channel| (channel, !self.outbox.is_empty()))
    }

    /// Receives everything that has come.
    pub(crate) fn listen(&mut self, state: &mut RankState) {
        while let Some(channel) = &self.channel {
            let heard = match channel.try_receive() {
                Ok(Some(received)) => received.message().and_then(|message| self.take(&message, state)),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = heard {
                note(state, error);
                if !matches!(error, WireError::Version { .. }) {
                    self.channel = None;
                }
                return;
            }
        }
    }

    fn take(&mut self, message: &FromRank<'_>, state: &mut RankState) -> Result<(), WireError> {
        match (state.stage, *message) {
            (RankStage::Started, FromRank::Hello { version, pid }) => {
                state.pid = pid;
                if version != VERSION {
                    self.outbox.push_back(WireMessage::Refusal);
                    return Err(WireError::Version { expected: VERSION, found: version });
                }
                self.outbox.extend([WireMessage::Welcome, WireMessage::Segments]);
                state.stage = RankStage::Greeted;
            }
            (RankStage::Greeted, FromRank::Card { bytes }) if bytes.len() <= CARD_BYTES_MAX => {
                self.card = Some(bytes.to_vec());
                state.stage = RankStage::Introduced;
            }
            (RankStage::Introduced, FromRank::Joined) => state.stage = RankStage::Joined,
            (RankStage::Joined, FromRank::Leave { failures }) => {
                finish(state, LastMessage::Left { failures: failures.into() });
            }
            (RankStage::Done, _) => return Err(unexpected(message, "nothing after the last word")),
            (_, FromRank::Abort { code, text }) => {
                finish(state, LastMessage::Aborted { code, text: text.into() });
            }
            (_, FromRank::Failed { text, consequence }) => {
                finish(state, LastMessage::Failed { text: text.into(), consequence });
            }
            (RankStage::Started, _) => return Err(unexpected(message, "hello")),
            (RankStage::Greeted, _) => return Err(unexpected(message, "card")),
            (RankStage::Introduced, _) => return Err(unexpected(message, "joined")),
            (RankStage::Joined, _) => return Err(unexpected(message, "leave")),
        }
        Ok(())
    }

    /// All cards have come: passes them on.
    pub(crate) fn introduce(&mut self) {
        self.outbox.push_back(WireMessage::Cards);
    }

    /// Sends what the socket takes now.
    pub(crate) fn speak(&mut self, state: &mut RankState, job: &WireUpJob) {
        while let (Some(channel), Some(next)) = (&self.channel, self.outbox.front()) {
            match self.send(channel, *next, job) {
                Ok(true) => drop(self.outbox.pop_front()),
                Ok(false) => return,
                Err(error) => {
                    self.outbox.clear();
                    note(state, error);
                    // A rank that is there all the same ends at once, and not when its time to join
                    // is up.
                    channel.end();
                }
            }
        }
    }

    fn send(&self, channel: &Channel, what: WireMessage, job: &WireUpJob) -> Result<bool, WireError> {
        match what {
            WireMessage::Welcome => channel.try_send(&self.welcome(job), &[]),
            WireMessage::Segments => {
                let segments = job.segments_of(self.rank).into_iter().map(AsFd::as_fd);
                let files: Vec<_> =
                    segments.chain(job.departures.as_ref().map(DepartureTable::file)).collect();
                channel.try_send(&FromLauncher::Segments, &files)
            }
            WireMessage::Cards => match &job.cards {
                Some(Ok(SharedCards { file, bytes })) => {
                    channel.try_send(&FromLauncher::Cards { bytes: *bytes }, &[file.as_fd()])
                }
                Some(Err(error)) => {
                    let text = format!("no table of the ranks' cards: {error}");
                    channel.try_send(&FromLauncher::Refused { text: bounded(&text) }, &[])
                }
                None => Ok(true),
            },
            WireMessage::Refusal => {
                channel.try_send(&FromLauncher::Refused { text: "another wire-up version" }, &[])
            }
        }
    }

    fn welcome(&self, job: &WireUpJob) -> FromLauncher<'static> {
        let left = job.join_deadline.saturating_duration_since(Instant::now());
        FromLauncher::Welcome {
            version: VERSION,
            job: job.key,
            rank: self.rank,
            size: job.size,
            node: job.node,
            shape: job.plan.shape,
            segment_bytes: job.plan.segment_bytes as u64,
            deadline_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            tcp: job.tcp.clone(),
        }
    }
}

/// Notes why the conversation is over. What its end means is judged when the process ends.
fn note(state: &mut RankState, error: WireError) {
    match error {
        WireError::Closed => {}
        WireError::Cut { call, errno } => state.cut = Some(format!("{call} failed: {}", errno.desc())),
        error => state.error = Some(error.to_string()),
    }
}

fn finish(state: &mut RankState, last: LastMessage) {
    state.last = Some(last);
    state.stage = RankStage::Done;
}

fn unexpected(message: &FromRank<'_>, expected: &'static str) -> WireError {
    WireError::Unexpected { found: message.name(), expected }
}
