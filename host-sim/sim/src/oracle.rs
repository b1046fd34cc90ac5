//! A model of MPI matching: whether what the receives of a rank got is what the standard allows.
//!
//! Judged is the whole history of one rank: the messages that were sent to it, of each source in
//! the order sent, and its receives in the order posted, each with the message it got. The rules
//! are those of MPI 4.1, section 3.5: a receive gets a message that it takes, and each message goes
//! to one receive; a receive cannot get a message while an older one from the same source that it
//! takes is pending; a message cannot go to a receive while an older one that takes it is pending.
//!
//! The receive that got each message is known, the time is not. So a history is legal if there is
//! an order of its matches in which each obeys the rules. The second rule wants some matches before
//! others of receives posted later. The first does so too, or, where an older message went to a
//! receive posted later, wants the opposite of what the second does. So there is such an order,
//! that of the receives, unless two receives have got two messages of one source the wrong way
//! round. Nothing more need be looked for.

use core::fmt;

/// A message as matching sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OracleMessage {
    /// The communicator's context id.
    pub context: u32,
    /// The sender's rank in it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
}

impl OracleMessage {
    /// Returns true if another message is of the same source on the same communicator, so that
    /// their order is kept.
    fn is_of_stream(&self, other: &Self) -> bool {
        (self.context, self.source) == (other.context, other.source)
    }
}

/// A receive: what it takes and what it got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OracleReceive {
    /// The communicator's context id.
    pub context: u32,
    /// The source; `None` is any source.
    pub source: Option<u32>,
    /// The tag; `None` is any tag.
    pub tag: Option<u32>,
    /// The message that it got, by its place in the list of all; `None` if it was still waiting
    /// when all had arrived.
    pub got: Option<usize>,
}

impl OracleReceive {
    /// Returns true if it takes a message.
    pub fn takes(&self, message: &OracleMessage) -> bool {
        self.context == message.context
            && self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// A breach of the rules in a history. Receives and messages by their places in their lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A receive got a message that it does not take, or one that was never sent.
    Wrong {
        /// The receive.
        receive: usize,
        /// The message that it got.
        message: usize,
    },
    /// A message was received twice.
    Twice {
        /// The message.
        message: usize,
        /// The two receives that got it.
        receives: [usize; 2],
    },
    /// A message went to a receive posted later than one that took it and waited in vain.
    Passed {
        /// The receive that got nothing.
        receive: usize,
        /// The message that it should have got.
        message: usize,
    },
    /// A message was received by no rank.
    Left {
        /// The message.
        message: usize,
    },
    /// Of two receives that take the older of two messages from one source, the one posted first
    /// got the newer message and the one posted later the older.
    Overtaken {
        /// The receives, in the order posted.
        receives: [usize; 2],
        /// The messages, in the order sent.
        messages: [usize; 2],
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong { receive, message } => {
                write!(f, "receive {receive} does not take message {message}, which it got")
            }
            Self::Twice { message, receives: [one, other] } => {
                write!(f, "message {message} was received twice, by receives {one} and {other}")
            }
            Self::Passed { receive, message } => {
                write!(
                    f,
                    "receive {receive} got nothing, and message {message}, which it takes, went to a later one"
                )
            }
            Self::Left { message } => write!(f, "message {message} was never received"),
            Self::Overtaken { receives: [first, second], messages: [older, newer] } => write!(
                f,
                "message {newer} has overtaken message {older}: receive {first}, posted before receive {second}, takes \
                 the older one and got the newer one"
            ),
        }
    }
}

impl core::error::Error for Violation {}

/// Checks that the receives of a rank, in the order posted, got what they may of `messages`, of
/// each source in the order sent.
///
/// # Errors
/// The breach of the rules.
pub fn judge(messages: &[OracleMessage], receives: &[OracleReceive]) -> Result<(), Violation> {
    let mut takers = vec![None; messages.len()];
    for (index, receive) in receives.iter().enumerate() {
        let Some(got) = receive.got else { continue };
        if !messages.get(got).is_some_and(|message| receive.takes(message)) {
            return Err(Violation::Wrong { receive: index, message: got });
        }
        if let Some(first) = takers[got].replace(index) {
            return Err(Violation::Twice { message: got, receives: [first, index] });
        }
    }
    if let Some(message) = takers.iter().position(Option::is_none) {
        return Err(Violation::Left { message });
    }
    for (second, later) in receives.iter().enumerate() {
        let Some(older) = later.got else { continue };
        let wanted = |(_, earlier): &(usize, &OracleReceive)| earlier.takes(&messages[older]);
        for (first, earlier) in receives[..second].iter().enumerate().filter(wanted) {
            match earlier.got {
                None => return Err(Violation::Passed { receive: first, message: older }),
                Some(newer) if older < newer && messages[older].is_of_stream(&messages[newer]) => {
                    return Err(Violation::Overtaken { receives: [first, second], messages: [older, newer] });
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
