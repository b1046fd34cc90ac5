//! `run`: what the `main` of a rank calls.

use core::error::Error;
use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;

use aldis_hal::Cause;
use aldis_kernel::Memory;
use aldis_kernel::plane::prelude::*;

use crate::error::JoinError;
use crate::job::Job;
use crate::storage;
use crate::transport::{HostEndpoint, failures};

/// Exit code of a Rust program that panicked.
const PANIC_CODE: u8 = 101;

/// An error that ends the whole job with an exit code of its own: return it from the program given
/// to [`run`](run()).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abort {
    code: i32,
    text: String,
}

impl Abort {
    /// The job is to end with `code` (1 to 255; the launcher exits with its low byte) because of
    /// `text`.
    pub fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "aborted with code {}: {}", self.code, self.text)
    }
}

impl Error for Abort {}

/// Joins the job, runs `program` on this rank's endpoint and leaves.
///
/// Under `aldis-run` or a process manager ([`pmi`](crate::pmi)) the process becomes one of its
/// ranks; started by itself it is a job of one. The default [`storage`] is used. An error that
/// `program` returns, or its panic, is reported once: by the launcher if there is one, which then
/// ends the other ranks; on standard error otherwise. [`Abort`] as the error chooses the job's exit
/// code.
pub fn run(program: impl FnOnce(&mut HostEndpoint) -> Result<(), Box<dyn Error>>) -> ExitCode {
    run_joined(Job::join_sized(storage::take), program)
}

/// Runs `program` like [`run`], but with storage of the program's own: that of
/// [`aldis_kernel::storage!`], say, whose sizes it chooses.
pub fn run_with(
    storage: Memory<'static>,
    program: impl FnOnce(&mut HostEndpoint) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    run_joined(Job::join(storage), program)
}

fn run_joined(
    joined: Result<(Job, HostEndpoint), JoinError>,
    program: impl FnOnce(&mut HostEndpoint) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let (job, mut endpoint) = match joined {
        Ok(joined) => joined,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    remember_panics();
    let launched = job.is_launched();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| program(&mut endpoint)));
    let result = match outcome {
        Ok(result) => result,
        Err(_) => {
            // The panic itself has been printed where it happened.
            job.fail(&last_panic(), false);
            return ExitCode::from(PANIC_CODE);
        }
    };
    let (text, code) = match own_abort(&endpoint, job.rank(), &result) {
        Some(Abort { code, text }) => {
            job.abort(&mut endpoint, code, &text);
            (format!("aborted with code {code}: {text}"), (code & 0xFF).max(1) as u8)
        }
        None => match result {
            Ok(()) => match job.leave(&mut endpoint) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => (error.to_string() + &failures(&endpoint), 1),
            },
            Err(error) => {
                let text = chain(&*error) + &failures(&endpoint);
                // A program may have put the kernel's error into one of its own that does not tell
                // its source.
                job.fail(&text, is_consequence(&*error) || is_consequence(endpoint.failure()));
                (text, 1)
            }
        },
    };
    if !launched {
        eprintln!("error: {text}");
    }
    ExitCode::from(code)
}

/// Returns the abort by which this rank has ended the whole job, if it has: by the error it
/// returned, or by a call of `abort`.
fn own_abort(endpoint: &HostEndpoint, rank: u32, result: &Result<(), Box<dyn Error>>) -> Option<Abort> {
    let error = result.as_ref().err();
    if let Some(abort) = error.and_then(|error| error.downcast_ref::<Abort>()) {
        return Some(abort.clone());
    }
    let (_, code) = endpoint.aborted().filter(|(by, _)| by.0 == rank)?;
    Some(Abort::new(code, error.map_or_else(String::new, |error| chain(&**error))))
}

/// The error with all its sources.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// Returns true if the error says that another rank is gone: then the other rank is to be reported,
/// not this one.
fn is_consequence(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error
            .downcast_ref::<aldis_kernel::Error>()
            .map(|error| error.cause)
            .or_else(|| error.downcast_ref::<Cause>().copied());
        if let Some(
            Cause::PeerDead
            | Cause::PeerLeft
            | Cause::PeerAborted { .. }
            | Cause::Aborted { .. }
            | Cause::Withdrawn
            // It may be on the other side that a connection cannot be made.
            | Cause::Unreachable,
        ) = cause
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// The text of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Keeps the text of a panic for the launcher's report, besides what was done with it so far.
fn remember_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut text) = PANIC.lock() {
            *text = match info.location() {
                Some(place) => format!("panicked at {place}: {}", payload(info)),
                None => format!("panicked: {}", payload(info)),
            };
        }
        before(info);
    }));
}

fn payload<'a>(info: &'a panic::PanicHookInfo<'_>) -> &'a str {
    let text = info.payload();
    let owned = text.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| text.downcast_ref::<&str>().copied()).unwrap_or("with a value that is no text")
}

fn last_panic() -> String {
    PANIC.lock().map(|text| text.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use aldis_hal::Operation;

    use super::*;

    #[derive(Debug)]
    struct Outer(aldis_kernel::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the halo exchange failed")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn errors_are_told_with_their_sources() {
        let outer = Outer(aldis_kernel::Error::new(Operation::Recv, Cause::PeerDead));
        assert_eq!(chain(&outer), "the halo exchange failed: recv: the peer is dead");
        assert!(is_consequence(&outer), "another rank died");
        assert!(!is_consequence(&Outer(aldis_kernel::Error::new(Operation::Recv, Cause::TimedOut))));
    }
}
