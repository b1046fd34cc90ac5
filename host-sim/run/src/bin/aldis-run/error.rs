//! The reasons why the launcher itself could not do its work.

use core::fmt;
use core::time::Duration;

use aldis_linux::entropy::NoEntropy;
use aldis_sys::Errno;

/// The launcher's own failures; those of ranks and hosts are verdicts.
#[derive(Debug)]
pub(crate) enum LaunchError {
    /// The launcher does not know how to start agents.
    Ways(String),
    /// An agent was sent something that it does not understand.
    Nonsense,
    /// Nothing came from the process that has started this agent any more, for so long.
    Deserted { silent: Duration },
    /// The job can have no key.
    Entropy(NoEntropy),
    /// The system refused.
    System { call: &'static str, errno: Errno },
}

/// Names the call that failed.
pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> LaunchError {
    move |errno| LaunchError::System { call, errno }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entropy(error) => error.fmt(f),
            Self::Ways(text) => f.write_str(text),
            Self::Nonsense => {
                f.write_str("the launcher says what this agent does not understand: are both of one build?")
            }
            Self::Deserted { silent } => write!(
                f,
                "this agent has heard nothing from the process that has started it for {:.1} s (--host-timeout), and ends with its ranks",
                silent.as_secs_f64()
            ),
            Self::System { call, errno } => write!(f, "{call} failed: {}", errno.desc()),
        }
    }
}
