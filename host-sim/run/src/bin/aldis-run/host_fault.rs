//! The reasons why a host takes no part in a job.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::messages::StartRefusal;

/// The reason why a host takes no part, or no longer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum HostFault {
    /// Its agent never sent a message.
    Unreachable { why: String },
    /// Its agent did not send a message in time.
    Silent { after: Duration },
    /// Its agent ended before its ranks.
    Lost { why: String },
    /// Nothing came from its agent any more, and no error: a machine or a network stands still.
    Hung {
        /// The time for which nothing has come.
        silent: Duration,
        /// The place of the host that has started its agent; `None` if the launcher has.
        from: Option<String>,
    },
    /// Its ranks cannot be started.
    Refused(StartRefusal),
    /// Its agent is of another build, or no agent.
    Foreign,
}

impl fmt::Display for HostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { why } => write!(f, "cannot be reached: {why}"),
            Self::Silent { after } => {
                write!(f, "did not answer within {:.1} s (--join-timeout)", after.as_secs_f64())
            }
            Self::Lost { why } => write!(f, "is lost with its ranks: {why}"),
            Self::Hung { silent, from } => write!(
                f,
                "hangs with its ranks: {} has heard nothing from it for {:.1} s (--host-timeout); it is stopped or frozen, or the network to it is cut",
                from.as_deref().unwrap_or("the launcher"),
                silent.as_secs_f64()
            ),
            Self::Refused(refusal) => f.write_str(&refusal.text),
            Self::Foreign => f.write_str(
                "runs an aldis-run of another build, or prints before it starts (a shell's profile?); --agent says where the right one is",
            ),
        }
    }
}
