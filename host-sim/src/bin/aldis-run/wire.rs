//! The launcher's side of the wire-up with one rank.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use aldis_host_sim::shape::Plan;
use aldis_host_sim::wireup::{
    CARD_BYTES_MAX, Channel, DESCRIPTORS_MAX, FromLauncher, FromRank, VERSION, WireError,
};

/// What is the same for all ranks of the job.
#[derive(Debug)]
pub(crate) struct Job {
    /// The job's random key.
    pub(crate) key: u64,
    /// How inboxes are divided.
    pub(crate) plan: Plan,
    /// Cores that the job may use.
    pub(crate) cores: u32,
    /// When every rank must have joined.
    pub(crate) join_deadline: Instant,
    /// Everybody's segments, by rank; given up once all ranks have theirs.
    pub(crate) segments: Vec<OwnedFd>,
    /// Everybody's cards, by rank, once they have come.
    pub(crate) cards: Vec<Vec<u8>>,
}

/// How far a rank has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// The process was started.
    Started,
    /// It has said hello.
    Greeted,
    /// Its card has come.
    Introduced,
    /// It knows its peers.
    Joined,
    /// It has said its last word.
    Done,
}

/// A rank's last word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LastWord {
    /// It left in order.
    Left,
    /// It ends the job.
    Aborted { code: i32, text: String },
    /// Its program failed.
    Failed { text: String, consequence: bool },
}

/// Something to be sent as soon as the socket takes it.
#[derive(Clone, Copy, Debug)]
enum Outgoing {
    Welcome,
    Segments { first: usize },
    Card { rank: usize },
    Refusal,
}

/// The conversation with one rank.
#[derive(Debug)]
pub(crate) struct Conversation {
    rank: u32,
    channel: Option<Channel>,
    outbox: VecDeque<Outgoing>,
    /// How far it has come.
    pub(crate) stage: Stage,
    /// The process that speaks, which need not be the child itself.
    pub(crate) pid: Option<u32>,
    /// Its card.
    pub(crate) card: Option<Vec<u8>>,
    /// Its last word.
    pub(crate) word: Option<LastWord>,
    /// What it did wrong.
    pub(crate) error: Option<WireError>,
}

impl Conversation {
    /// A conversation that the rank will begin.
    pub(crate) const fn new(rank: u32, channel: Channel) -> Self {
        Self {
            rank,
            channel: Some(channel),
            outbox: VecDeque::new(),
            stage: Stage::Started,
            pid: None,
            card: None,
            word: None,
            error: None,
        }
    }

    /// The socket, while it is open, and whether something waits to be sent.
    pub(crate) fn socket(&self) -> Option<(&Channel, bool)> {
        self.channel.as_ref().map(|channel| (channel, !self.outbox.is_empty()))
    }

    /// Takes in everything that has come.
    pub(crate) fn listen(&mut self, job: &Job) {
        while let Some(channel) = &self.channel {
            let heard = match channel.try_receive() {
                Ok(Some(received)) => received.message().and_then(|message| self.take(&message, job)),
                Ok(None) => return,
                // What the end of the stream means is judged when the process ends.
                Err(WireError::Closed) => Err(WireError::Closed),
                Err(error) => Err(error),
            };
            if let Err(error) = heard {
                self.error = (error != WireError::Closed).then_some(error);
                if !matches!(error, WireError::Version { .. }) {
                    self.channel = None;
                }
                return;
            }
        }
    }

    fn take(&mut self, message: &FromRank<'_>, job: &Job) -> Result<(), WireError> {
        match (self.stage, *message) {
            (Stage::Started, FromRank::Hello { version, pid }) => {
                self.pid = Some(pid);
                if version != VERSION {
                    self.outbox.push_back(Outgoing::Refusal);
                    return Err(WireError::Version { expected: VERSION, found: version });
                }
                self.outbox.push_back(Outgoing::Welcome);
                let chunks = (0..job.segments.len()).step_by(DESCRIPTORS_MAX);
                self.outbox.extend(chunks.map(|first| Outgoing::Segments { first }));
                self.stage = Stage::Greeted;
            }
            (Stage::Greeted, FromRank::Card { bytes }) if bytes.len() <= CARD_BYTES_MAX => {
                self.card = Some(bytes.to_vec());
                self.stage = Stage::Introduced;
            }
            (Stage::Introduced, FromRank::Joined) => self.stage = Stage::Joined,
            (Stage::Joined, FromRank::Leave) => self.finish(LastWord::Left),
            (Stage::Done, _) => return Err(unexpected(message, "nothing after the last word")),
            (_, FromRank::Abort { code, text }) => {
                self.finish(LastWord::Aborted { code, text: text.into() });
            }
            (_, FromRank::Failed { text, consequence }) => {
                self.finish(LastWord::Failed { text: text.into(), consequence });
            }
            (Stage::Started, _) => return Err(unexpected(message, "hello")),
            (Stage::Greeted, _) => return Err(unexpected(message, "card")),
            (Stage::Introduced, _) => return Err(unexpected(message, "joined")),
            (Stage::Joined, _) => return Err(unexpected(message, "leave")),
        }
        Ok(())
    }

    fn finish(&mut self, word: LastWord) {
        self.word = Some(word);
        self.stage = Stage::Done;
    }

    /// All cards have come: passes them on.
    pub(crate) fn introduce(&mut self, ranks: usize) {
        self.outbox.extend((0..ranks).map(|rank| Outgoing::Card { rank }));
    }

    /// Sends what the socket takes now.
    pub(crate) fn speak(&mut self, job: &Job) {
        while let (Some(channel), Some(next)) = (&self.channel, self.outbox.front()) {
            match self.send(channel, *next, job) {
                Ok(true) => drop(self.outbox.pop_front()),
                Ok(false) => return,
                Err(error) => {
                    self.outbox.clear();
                    // A rank that is gone is noticed by its end.
                    self.error = (error != WireError::Closed).then_some(error);
                }
            }
        }
    }

    fn send(&self, channel: &Channel, what: Outgoing, job: &Job) -> Result<bool, WireError> {
        match what {
            Outgoing::Welcome => channel.try_send(&self.welcome(job), &[]),
            Outgoing::Segments { first } => {
                let segments: Vec<_> =
                    job.segments.iter().skip(first).take(DESCRIPTORS_MAX).map(AsFd::as_fd).collect();
                channel.try_send(&FromLauncher::Segments { first: first as u32 }, &segments)
            }
            Outgoing::Card { rank } => {
                let bytes = job.cards.get(rank).map(Vec::as_slice).unwrap_or_default();
                channel.try_send(&FromLauncher::Card { rank: rank as u32, bytes }, &[])
            }
            Outgoing::Refusal => {
                channel.try_send(&FromLauncher::Refused { text: "another wire-up version" }, &[])
            }
        }
    }

    fn welcome(&self, job: &Job) -> FromLauncher<'static> {
        let left = job.join_deadline.saturating_duration_since(Instant::now());
        FromLauncher::Welcome {
            version: VERSION,
            job: job.key,
            rank: self.rank,
            size: job.plan.ranks,
            cores: job.cores,
            shape: job.plan.shape,
            segment_bytes: job.plan.segment_bytes as u64,
            deadline_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

fn unexpected(message: &FromRank<'_>, expected: &'static str) -> WireError {
    WireError::Unexpected { found: message.name(), expected }
}
