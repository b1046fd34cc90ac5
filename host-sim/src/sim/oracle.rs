//! A model of MPI matching: whether what the receives of a rank got is what the standard allows.
//!
//! Judged is the whole history of one rank: the messages that were sent to it, of each source in the order sent, and its
//! receives in the order posted, each with the message it got. The rules are those of MPI 4.1, section 3.5: a receive gets
//! a message that it takes; each message goes to one receive; of two messages from one source that it takes, a receive
//! gets the older one; of two receives that take it, a message goes to the older one.
//!
//! Who got what is known, when it arrived is not. So a history is legal if there is some order of arrival under which it
//! comes about. Such an order has to put
//! - each message after those of the same source that were sent before it, and
//! - the message that a receive got before any other that it takes and that went to a receive posted later: as long as it
//!   was waiting, it would have got that one.
//!
//! A receive that waited in vain takes no message that went to one posted later. If the demands contradict each other -
//! they form a circle - no order is left and some message has overtaken. If they do not, any order that meets them brings
//! the history about when all receives are posted before the first arrival. Hence the condition is exact for receives that
//! are posted before anything arrives, and never wrong for others.

use core::fmt;

/// A message as matching sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The communicator's context id.
    pub context: u32,
    /// The sender's rank in it.
    pub source: u32,
    /// Its tag.
    pub tag: u32,
}

/// A receive: what it takes and what it got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receive {
    /// The communicator's context id.
    pub context: u32,
    /// From whom; `None` is any source.
    pub source: Option<u32>,
    /// With which tag; `None` is any tag.
    pub tag: Option<u32>,
    /// Which message, by its place in the list of all; `None` if it was still waiting when all had arrived.
    pub got: Option<usize>,
}

impl Receive {
    /// Whether it takes a message.
    pub fn takes(&self, message: &Envelope) -> bool {
        self.context == message.context
            && self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// What is against the rules in a history. Receives and messages by their places in their lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A receive got a message that it does not take, or one that was never sent.
    Wrong {
        /// Which receive.
        receive: usize,
        /// What it got.
        message: usize,
    },
    /// A message was received twice.
    Twice {
        /// Which one.
        message: usize,
        /// By whom.
        receives: [usize; 2],
    },
    /// A message went to a receive posted later than one that took it and waited in vain.
    Passed {
        /// The receive that got nothing.
        receive: usize,
        /// The message that it should have got.
        message: usize,
    },
    /// A message was received by nobody.
    Left {
        /// Which one.
        message: usize,
    },
    /// These messages cannot have arrived in any order: each must have come before the next, and the last before the first.
    Overtaken {
        /// The circle.
        messages: Vec<usize>,
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
            Self::Left { message } => write!(f, "message {message} was received by nobody"),
            Self::Overtaken { messages } => {
                write!(
                    f,
                    "messages {messages:?} have overtaken each other: in no order of arrival would the "
                )?;
                f.write_str("receives posted first have got them so")
            }
        }
    }
}

impl core::error::Error for Violation {}

/// Whether the receives of a rank, in the order posted, got what they may of `messages`, of each source in the order sent.
///
/// # Errors
/// What is against the rules.
pub fn judge(messages: &[Envelope], receives: &[Receive]) -> Result<(), Violation> {
    let mut taker = vec![None; messages.len()];
    for (index, receive) in receives.iter().enumerate() {
        let Some(got) = receive.got else { continue };
        if !messages.get(got).is_some_and(|message| receive.takes(message)) {
            return Err(Violation::Wrong { receive: index, message: got });
        }
        if let Some(first) = taker[got].replace(index) {
            return Err(Violation::Twice { message: got, receives: [first, index] });
        }
    }
    let takers: Option<Vec<usize>> = taker.iter().copied().collect();
    let Some(takers) = takers else {
        let left = taker.iter().position(Option::is_none).unwrap_or_default();
        return Err(Violation::Left { message: left });
    };
    for (index, receive) in receives.iter().enumerate().filter(|(_, receive)| receive.got.is_none()) {
        let passed = (0..messages.len()).find(|&one| index < takers[one] && receive.takes(&messages[one]));
        if let Some(message) = passed {
            return Err(Violation::Passed { receive: index, message });
        }
    }
    match circle(&arrivals(messages, receives, &takers)) {
        Some(messages) => Err(Violation::Overtaken { messages }),
        None => Ok(()),
    }
}

/// For each message, those that must have arrived after it.
fn arrivals(messages: &[Envelope], receives: &[Receive], takers: &[usize]) -> Vec<Vec<usize>> {
    let of = |index: usize| (messages[index].context, messages[index].source);
    (0..messages.len())
        .map(|first| {
            let mine = takers[first];
            let after = (0..messages.len()).filter(|&second| {
                let sent_later = first < second && of(first) == of(second);
                let was_wanted = mine < takers[second] && receives[mine].takes(&messages[second]);
                first != second && (sent_later || was_wanted)
            });
            after.collect()
        })
        .collect()
}

/// A circle in a graph given by each node's successors, if there is one.
fn circle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut before = vec![0_usize; after.len()];
    after.iter().flatten().for_each(|&node| before[node] += 1);
    // Takes away what nothing left precedes (Kahn 1962); what remains is on circles or behind them.
    let mut free: Vec<usize> = (0..after.len()).filter(|&node| before[node] == 0).collect();
    while let Some(node) = free.pop() {
        for &next in &after[node] {
            before[next] -= 1;
            if before[next] == 0 {
                free.push(next);
            }
        }
    }
    // Each node that remains has a predecessor that remains: walking back comes round.
    let remains = |node: &usize| before[*node] > 0;
    let mut walk = vec![(0..after.len()).find(remains)?];
    loop {
        let last = walk.last()?;
        let back = (0..after.len()).filter(remains).find(|node| after[*node].contains(last))?;
        if let Some(start) = walk.iter().position(|node| *node == back) {
            walk.drain(..start);
            walk.reverse();
            return Some(walk);
        }
        walk.push(back);
    }
}

#[cfg(test)]
mod tests;
