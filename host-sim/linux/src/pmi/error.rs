//! Errors between a process and its manager.

use core::fmt;

use aldis_sys::Errno;

use super::MESSAGE_BYTES_MAX;

/// The most that is shown of an answer, in bytes.
const SHOWN_BYTES: usize = 160;

/// A process could not get through to its process manager.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PmiError {
    /// A variable that managers set has a value that none of them gives.
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value; `None` if it is not there.
        value: Option<String>,
        /// The value that it should have.
        expected: &'static str,
    },
    /// A command was not answered as it should be.
    Command {
        /// The command.
        command: &'static str,
        /// The fault of the answer.
        fault: AnswerFault,
    },
}

/// The fault of the answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The manager has closed the socket.
    Closed,
    /// There was no answer before the deadline.
    TimedOut,
    /// The answer is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// The command cannot be put into words: a key or a value is too long, or has a character that
    /// has a meaning.
    Unspeakable {
        /// The text that cannot be sent.
        text: String,
    },
    /// The answer is no message.
    Malformed {
        /// Its beginning.
        found: String,
    },
    /// Another message than the one that was due.
    Unexpected {
        /// The one that was due.
        expected: &'static str,
        /// The answer that came.
        found: String,
    },
    /// The answer says no.
    Refused {
        /// The answer that came.
        found: String,
    },
    /// The answer lacks a field, or it is not what such a field can be.
    Field {
        /// The name of the field.
        name: &'static str,
        /// The answer that came.
        found: String,
    },
    /// No process has put a value under this key.
    Absent {
        /// The key.
        key: String,
    },
    /// The value under this key is not what ranks of this build put.
    Value {
        /// The key.
        key: String,
    },
    /// The system refused.
    System {
        /// The system call.
        call: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl AnswerFault {
    /// The fault in a command.
    pub(super) const fn of(self, command: &'static str) -> PmiError {
        PmiError::Command { command, fault: self }
    }
}

/// The beginning of what came, fit to be shown.
pub(super) fn shown(bytes: &[u8]) -> String {
    let (start, more) = match bytes.get(..SHOWN_BYTES) {
        Some(start) => (start, "..."),
        None => (bytes, ""),
    };
    format!("{}{more}", start.escape_ascii())
}

impl fmt::Display for PmiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, value: Some(value), expected } => {
                write!(
                    f,
                    "{name} is {value:?} and should be {expected}; a program that no process manager has started runs \
                     without PMI_FD, PMI_RANK and PMI_SIZE (env -u)"
                )
            }
            Self::Variable { name, value: None, expected } => {
                write!(f, "the process manager has set PMI_FD but not {name}, which should be {expected}")
            }
            Self::Command { command, fault } => write!(f, "process manager, `{command}`: {fault}"),
        }
    }
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str(
                "it has closed the connection: it has ended, or does not speak this version of PMI (ALDIS_PMI=1 or 2 \
                 chooses)",
            ),
            Self::TimedOut => f.write_str(
                "no answer in time: are all ranks started, and do all call aldis_linux::run or MPI_Init? \
                 ALDIS_JOIN_TIMEOUT gives them longer",
            ),
            Self::TooLong => write!(f, "an answer longer than {MESSAGE_BYTES_MAX} bytes"),
            Self::Unspeakable { text } => write!(f, "cannot be said: {text}"),
            Self::Malformed { found } => write!(f, "the answer is no message of PMI: {found}"),
            Self::Unexpected { expected, found } => write!(f, "answered by {found} where `{expected}` was due"),
            Self::Refused { found } => write!(f, "refused: {found}"),
            Self::Field { name, found } => write!(f, "no sound `{name}` in the answer {found}"),
            Self::Absent { key } => write!(f, "no rank has put {key}: all ranks must be of the same build"),
            Self::Value { key } => {
                write!(f, "the value of {key} does not decode: all ranks must be of the same build")
            }
            Self::System { call, errno } => write!(f, "{call} failed: {}", errno.desc()),
        }
    }
}

impl core::error::Error for PmiError {}
