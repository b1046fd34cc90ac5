//! UNSAFE: takes ownership of an inherited socket. What a manager leaves in the environment of a
//! process.

use std::os::fd::OwnedFd;

use aldis_sys::CallFailure;
use aldis_sys::socket::SockType;

use super::{AnswerFault, PmiError, Version};
use crate::wireup::inherited;

/// The variable with the number of the inherited socket.
pub const FD_VARIABLE: &str = "PMI_FD";

/// The variable with the rank.
pub const RANK_VARIABLE: &str = "PMI_RANK";

/// The variable with the number of ranks.
pub const SIZE_VARIABLE: &str = "PMI_SIZE";

/// The variable by which the user chooses the version of PMI: `1`, which it is without it, or `2`.
pub const VERSION_VARIABLE: &str = "ALDIS_PMI";

/// The variable with the address of a manager that is to be connected to, which Aldis does not do.
const PORT_VARIABLE: &str = "PMI_PORT";

/// The variable with the job's name, which version 2 sends back.
const JOB_VARIABLE: &str = "PMI_JOBID";

/// A process's place in a job, and its connection to the manager.
#[derive(Debug)]
pub struct ManagedRank {
    /// The connection.
    pub socket: OwnedFd,
    /// The rank according to the manager; below `size`.
    pub rank: u32,
    /// The number of ranks according to the manager.
    pub size: u32,
    /// The version to speak.
    pub version: Version,
    /// The job as version 2 names it.
    pub job: String,
}

/// The numbers of a place before its socket is taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Numbers {
    socket: i32,
    rank: u32,
    size: u32,
    version: Version,
    job: String,
}

impl ManagedRank {
    /// The place that a manager has given this process; `None` if none has started it. To be called
    /// once: the caller then owns the socket, and no later call returns it.
    ///
    /// # Errors
    /// [`PmiError::Variable`].
    pub fn inherited() -> Result<Option<Self>, PmiError> {
        let Some(numbers) = numbers(|name| std::env::var(name).ok())? else { return Ok(None) };
        let Numbers { socket, rank, size, version, job } = numbers;
        let unsound = || PmiError::Variable {
            name: FD_VARIABLE,
            value: Some(socket.to_string()),
            expected: "the number of an open socket to the process manager",
        };
        // SAFETY: by the convention of managers the number is of a descriptor that is this
        // process's own.
        let socket = unsafe { inherited(socket, SockType::Stream) };
        let failed = |CallFailure { call, errno }| {
            AnswerFault::System { call: call.name(), errno }.of("the taking over of its socket")
        };
        let socket = socket.map_err(failed)?.ok_or_else(unsound)?;
        Ok(Some(Self { socket, rank, size, version, job }))
    }
}

/// Returns the values of the variables, by name.
fn numbers(get: impl Fn(&'static str) -> Option<String>) -> Result<Option<Numbers>, PmiError> {
    let unsound = |name, value, expected| PmiError::Variable { name, value, expected };
    let Some(socket) = get(FD_VARIABLE) else {
        let expected = "left out, so that processes inherit PMI_FD: start the manager without -pmi-port";
        return match get(PORT_VARIABLE) {
            Some(port) => Err(unsound(PORT_VARIABLE, Some(port), expected)),
            None => Ok(None),
        };
    };
    let number = |name, expected| {
        let value = get(name);
        let parsed = value.as_deref().and_then(|value| value.parse::<u32>().ok());
        parsed.ok_or_else(|| unsound(name, value, expected))
    };
    let parsed = socket.parse().ok();
    let socket =
        parsed.ok_or_else(|| unsound(FD_VARIABLE, Some(socket), "the number of an open descriptor"))?;
    let size = number(SIZE_VARIABLE, "a number of ranks")?;
    let rank = number(RANK_VARIABLE, "the number of a rank")?;
    if rank >= size {
        return Err(unsound(RANK_VARIABLE, Some(rank.to_string()), "below PMI_SIZE"));
    }
    let version = match get(VERSION_VARIABLE).as_deref() {
        None | Some("1") => Version::One,
        Some("2") => Version::Two,
        Some(other) => return Err(unsound(VERSION_VARIABLE, Some(other.into()), "1 or 2")),
    };
    let job = get(JOB_VARIABLE).filter(|job| !job.is_empty()).unwrap_or_else(|| "0".into());
    Ok(Some(Numbers { socket, rank, size, version, job }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Option<Numbers>, String> {
        let pairs: Vec<_> = words.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let get = |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        numbers(get).map_err(|error| error.to_string())
    }

    #[test]
    fn a_place_is_read() {
        assert_eq!(read(""), Ok(None), "no manager has started it");
        assert_eq!(read("PMI_RANK=1 PMI_SIZE=2"), Ok(None), "variables that other managers set too");
        let plain = Numbers { socket: 6, rank: 1, size: 2, version: Version::One, job: "0".into() };
        assert_eq!(read("PMI_FD=6 PMI_RANK=1 PMI_SIZE=2"), Ok(Some(plain.clone())));
        let second = Numbers { version: Version::Two, job: "7.0".into(), ..plain };
        assert_eq!(read("PMI_FD=6 PMI_RANK=1 PMI_SIZE=2 ALDIS_PMI=2 PMI_JOBID=7.0"), Ok(Some(second)));
    }

    #[test]
    fn what_no_manager_says_is_told() {
        for (words, answer) in [
            (
                "PMI_FD=x PMI_RANK=0 PMI_SIZE=1",
                "PMI_FD is \"x\" and should be the number of an open descriptor",
            ),
            ("PMI_FD=6 PMI_SIZE=1", "has set PMI_FD but not PMI_RANK"),
            ("PMI_FD=6 PMI_RANK=0", "has set PMI_FD but not PMI_SIZE"),
            ("PMI_FD=6 PMI_RANK=-1 PMI_SIZE=1", "PMI_RANK is \"-1\""),
            ("PMI_FD=6 PMI_RANK=2 PMI_SIZE=2", "PMI_RANK is \"2\" and should be below PMI_SIZE"),
            ("PMI_FD=6 PMI_RANK=0 PMI_SIZE=1 ALDIS_PMI=3", "ALDIS_PMI is \"3\" and should be 1 or 2"),
            ("PMI_PORT=host:99 PMI_ID=0", "without -pmi-port"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(answer), "{words}: {error}");
        }
    }
}
