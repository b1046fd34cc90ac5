//! Faults by plan. Nothing here locks or allocates once the plan was read, so that calls between
//! fork and exec may come here.

use core::fmt::{self, Write};
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::env;
use std::ffi::{CString, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{Signal, raise};
use nix::sys::stat::Mode;
use nix::unistd::{getpid, write};

use super::{LOG_VARIABLE, LOGGED_USES, PLAN_VARIABLE};
use crate::call::Call;
use crate::plan::{CallPlan, Outcome, PlanError, PlannedProcess};

/// A call that happens, and how.
#[derive(Debug)]
pub struct Fault {
    is_short: bool,
    /// The time that it sleeps when it is over, ms.
    late_ms: u32,
}

/// The settings of the environment, read once.
#[derive(Debug, Default)]
struct FaultSettings {
    plan: CallPlan,
    log: Option<CString>,
}

static SETTINGS: OnceLock<FaultSettings> = OnceLock::new();

/// Uses of each call.
static USES: [AtomicU32; Call::ALL.len()] = [const { AtomicU32::new(0) }; Call::ALL.len()];

/// The identity of this process: [`encoded`], or [`UNKNOWN`] before it was asked for.
static PROCESS: AtomicU64 = AtomicU64::new(UNKNOWN);
const UNKNOWN: u64 = u64::MAX;
const OTHERS: u64 = 1 << 32;

const fn encoded(process: PlannedProcess) -> u64 {
    match process {
        PlannedProcess::Rank(rank) => rank as u64,
        PlannedProcess::Agent => OTHERS,
        PlannedProcess::Launcher => OTHERS + 1,
        PlannedProcess::Other => OTHERS + 2,
    }
}

const fn decoded(word: u64) -> PlannedProcess {
    match word {
        OTHERS => PlannedProcess::Agent,
        rank if rank < OTHERS => PlannedProcess::Rank(rank as u32),
        launcher if launcher == OTHERS + 1 => PlannedProcess::Launcher,
        _ => PlannedProcess::Other,
    }
}

/// Says what this process is; its uses are counted from 1 again. Unsaid, it is the rank that
/// `ALDIS_RANK` or `PMI_RANK` names.
pub fn act_as(process: PlannedProcess) {
    PROCESS.store(encoded(process), Ordering::Relaxed);
    USES.iter().for_each(|uses| uses.store(0, Ordering::Relaxed));
}

/// Returns the identity of this process.
fn process() -> PlannedProcess {
    let known = PROCESS.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return decoded(known);
    }
    let number = |name| env::var(name).ok()?.parse().ok();
    let rank = number("ALDIS_RANK").or_else(|| number("PMI_RANK"));
    let process = rank.map_or(PlannedProcess::Other, PlannedProcess::Rank);
    PROCESS.store(encoded(process), Ordering::Relaxed);
    process
}

/// Returns the settings of the environment. A plan that cannot be read ends the process: a trial
/// whose faults are not injected proves nothing.
fn settings() -> &'static FaultSettings {
    SETTINGS.get_or_init(|| {
        let plan = env::var_os(PLAN_VARIABLE).unwrap_or_default();
        let settings = read(plan).map(|plan| FaultSettings { plan, log: log() });
        settings.unwrap_or_else(|error| {
            eprintln!("aldis: {PLAN_VARIABLE}: {error}");
            std::process::exit(2)
        })
    })
}

fn read(plan: OsString) -> Result<CallPlan, PlanError> {
    plan.to_string_lossy().parse()
}

fn log() -> Option<CString> {
    let path = env::var_os(LOG_VARIABLE).filter(|path| !path.is_empty())?;
    CString::new(path.into_vec()).ok()
}

/// Counts a use of a call and does what the plan has for it.
///
/// # Errors
/// The plan's.
pub fn enter(call: Call) -> Result<Fault, Errno> {
    let FaultSettings { plan, log } = settings();
    if plan.rules.is_empty() && log.is_none() {
        return Ok(Fault::NONE);
    }
    let uses = USES.get(call as usize).map_or(0, |uses| uses.fetch_add(1, Ordering::Relaxed));
    let number = uses.saturating_add(1);
    let outcome = plan.outcome(process(), call, number);
    if let Some(log) = log
        && (number <= LOGGED_USES || outcome.is_some())
    {
        note(log, call, number, outcome);
    }
    outcome.map_or(Ok(Fault::NONE), inflict)
}

/// Does before the call what the outcome has.
fn inflict(outcome: Outcome) -> Result<Fault, Errno> {
    match outcome {
        Outcome::Fails(errno) => return Err(errno),
        Outcome::Short => return Ok(Fault { is_short: true, late_ms: 0 }),
        Outcome::Late(late_ms) => return Ok(Fault { is_short: false, late_ms }),
        Outcome::Stalls(ms) => sleep(ms),
        // Goes on here when another process continues it.
        Outcome::Stops => drop(raise(Signal::SIGSTOP)),
    }
    Ok(Fault::NONE)
}

fn sleep(ms: u32) {
    std::thread::sleep(Duration::from_millis(ms.into()));
}

/// The bytes of each line of the log, blanks at its end among them: longer than any, and a part of
/// a page, as a process that is killed within a write has written up to a page's end.
const LINE_LEN: usize = 128;

/// A line of the log.
struct CallLine {
    bytes: [u8; LINE_LEN],
    length: usize,
}

impl Write for CallLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Notes a use, by one write within a page: lines of several processes do not mix, and none is cut
/// off by a signal. A log that cannot be written to ends the process.
fn note(log: &CString, call: Call, number: u32, outcome: Option<Outcome>) {
    let mut line = CallLine { bytes: [b' '; LINE_LEN], length: 0 };
    let (process, pid) = (process(), getpid());
    let written = write!(line, "{process} {pid} {call} {number}").and_then(|()| match outcome {
        None => Ok(()),
        Some(outcome) => write!(line, " -> {outcome}"),
    });
    let [.., end] = &mut line.bytes;
    *end = b'\n';
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
    let noted =
        open(log.as_c_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR).and_then(|file| write(file, &line.bytes));
    if written.is_err() || noted != Ok(LINE_LEN) {
        let why = noted.err().map_or("cut off", Errno::desc);
        eprintln!("aldis: {LOG_VARIABLE}: {}: {why}", log.to_string_lossy());
        std::process::exit(2);
    }
}

impl Fault {
    const NONE: Self = Self { is_short: false, late_ms: 0 };

    /// Returns the number of bytes that are asked for, of `len`: half of them, at least one, if the
    /// call is to fall short.
    pub const fn len(&self, len: usize) -> usize {
        if self.is_short && len > 1 { len / 2 } else { len }
    }

    /// The beginning of `bytes` that is asked for.
    pub fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(..self.len(bytes.len())).unwrap_or_default()
    }

    /// The beginning of `room` that is asked for.
    pub fn cut_mut<'a>(&self, room: &'a mut [u8]) -> &'a mut [u8] {
        room.get_mut(..self.len(room.len())).unwrap_or_default()
    }

    /// The beginning of `pieces` that is asked for.
    pub fn cut_all<'a>(&self, pieces: &'a [IoSlice<'a>]) -> impl Deref<Target = [IoSlice<'a>]> {
        let mut left = self.len(pieces.iter().map(|piece| piece.len()).sum());
        let cut = |piece: &'a IoSlice<'a>| {
            let count = piece.len().min(left);
            left -= count;
            IoSlice::new(piece.get(..count).unwrap_or_default())
        };
        pieces.iter().map(cut).collect::<Vec<_>>()
    }

    /// Calls `read` with the beginning of `rooms` that is asked for.
    pub fn cut_all_mut<R>(
        &self,
        rooms: &mut [IoSliceMut<'_>],
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let mut left = self.len(rooms.iter().map(|room| room.len()).sum());
        let mut cut = Vec::with_capacity(rooms.len());
        for room in rooms {
            let count = room.len().min(left);
            left -= count;
            cut.push(IoSliceMut::new(room.get_mut(..count).unwrap_or_default()));
        }
        read(&mut cut)
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        if self.late_ms > 0 {
            sleep(self.late_ms);
        }
    }
}

#[cfg(test)]
mod tests;
