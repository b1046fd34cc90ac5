//! Why the launcher itself could not do its work.

use core::fmt;

use aldis_host_sim::segment::SegmentError;
use aldis_host_sim::wireup::WireError;
use nix::errno::Errno;

use crate::spawn::SpawnError;

/// The launcher's own failures; those of ranks are verdicts.
#[derive(Debug)]
pub(crate) enum LaunchError {
    /// A rank's segment could not be made.
    Segment { rank: u32, bytes: usize, error: SegmentError },
    /// A rank's wire-up socket could not be made.
    Wire(WireError),
    /// The program could not be started.
    Spawn(SpawnError),
    /// The system refused.
    System { call: &'static str, errno: Errno },
}

impl LaunchError {
    /// The launcher's exit code.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Spawn(error) => error.exit_code(),
            _ => 1,
        }
    }
}

/// Names the call that failed.
pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> LaunchError {
    move |errno| LaunchError::System { call, errno }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment { rank, bytes, error } => {
                write!(f, "no segment of {bytes} bytes for rank {rank}: {error}")?;
                match error {
                    SegmentError::NoMemory { .. } => {
                        f.write_str("; try fewer ranks, free some memory or raise ulimit -f")
                    }
                    SegmentError::System { errno: Errno::EMFILE, .. } => f.write_str("; try ulimit -n 1024"),
                    _ => Ok(()),
                }
            }
            Self::Wire(error) => error.fmt(f),
            Self::Spawn(error) => error.fmt(f),
            Self::System { call, errno } => write!(f, "{call} failed: {}", errno.desc()),
        }
    }
}

impl From<SpawnError> for LaunchError {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

impl From<WireError> for LaunchError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}
