//! Plans: which uses of which calls come to what.
//!
//! ```text
//! plan    = [ rule *( ";" rule ) ]            spaces around a rule do not count
//! rule    = [ process ":" ] call "@" uses "=" outcome
//! process = "rank" number | "agent" | "launcher" | "other"      none: every process
//! call    = the name of a manual page of section 2, such as process_vm_readv
//! uses    = number                            that use; the first is 1
//!         | number ".."                       from that use on
//!         | number "..+" number               from that use on, each so manieth
//! outcome = the name of an error, such as ENOMEM       the call does not happen and fails so
//!         | "short"                           the call is made with half its bytes, at least one
//!         | "stall:" milliseconds             it sleeps before the call
//!         | "late:" milliseconds              it sleeps after the call
//!         | "stop"                            it stops its own process (SIGSTOP) before the call
//! ```
//!
//! Uses are counted in each process, by call. Of the rules for a use the first one counts.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use nix::errno::Errno;

use crate::call::Call;

/// A process of a job, as plans name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedProcess {
    /// The rank of this number.
    Rank(u32),
    /// `aldis-run` on another node.
    Agent,
    /// `aldis-run` itself.
    Launcher,
    /// Any that is none of these.
    Other,
}

/// A choice among the uses of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uses {
    /// The first; they are counted from 1.
    pub first: NonZeroU32,
    /// The distance to the next; `None` if there is no next.
    pub step: Option<NonZeroU32>,
}

impl Uses {
    /// Returns true if the use of this number is one.
    pub const fn contain(&self, number: u32) -> bool {
        match (number.checked_sub(self.first.get()), self.step) {
            (None, _) => false,
            (Some(behind), None) => behind == 0,
            (Some(behind), Some(step)) => behind % step.get() == 0,
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The call does not happen, and fails.
    Fails(Errno),
    /// The call is made with half of its bytes, at least one.
    Short,
    /// The call sleeps for so many milliseconds before.
    Stalls(u32),
    /// The call sleeps for so many milliseconds after.
    Late(u32),
    /// The call stops its own process before, until that is continued.
    Stops,
}

/// A rule of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// In this process; `None`: in every process.
    pub process: Option<PlannedProcess>,
    /// Of this call.
    pub call: Call,
    /// These uses.
    pub uses: Uses,
    /// Come to this.
    pub outcome: Outcome,
}

/// The outcomes of calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallPlan {
    /// The first that is for a use counts.
    pub rules: Vec<Rule>,
}

impl CallPlan {
    /// Returns the outcome of the use of this number, if a rule is for it.
    pub fn outcome(&self, process: PlannedProcess, call: Call, number: u32) -> Option<Outcome> {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| {
            rule.call == call
                && rule.uses.contain(number)
                && rule.process.is_none_or(|expected| expected == process)
        });
        rule.map(|rule| rule.outcome)
    }
}

/// A word of a plan that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The word.
    pub word: String,
    /// The part of a rule that it should be.
    pub part: RulePart,
}

/// A part of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RulePart {
    /// All of it.
    Rule,
    /// Its process.
    Process,
    /// Its call.
    Call,
    /// Its uses.
    Uses,
    /// Its outcome.
    Outcome,
    /// The outcome `short` of a call that moves no bytes.
    Short,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} should be ", self.word)?;
        match self.part {
            RulePart::Rule => f.write_str("[PROCESS:]CALL@USES=OUTCOME, such as rank1:write@3=EIO"),
            RulePart::Process => f.write_str("a process: rank and its number (rank0), agent, launcher or other"),
            RulePart::Uses => f.write_str("uses of a call: N (counted from 1), N.. or N..+EACH"),
            RulePart::Outcome => f.write_str(
                "an outcome: the name of an error (ENOMEM), short, stall:MILLISECONDS, late:MILLISECONDS or stop",
            ),
            RulePart::Short => f.write_str("another outcome than short: the call moves no bytes"),
            RulePart::Call => {
                f.write_str("a call, one of")?;
                Call::ALL.iter().try_for_each(|call| write!(f, " {call}"))
            }
        }
    }
}

impl core::error::Error for PlanError {}

/// The error that says that `word` is no such part.
fn unreadable(word: &str, part: RulePart) -> PlanError {
    PlanError { word: word.to_owned(), part }
}

/// A number in digits alone: what it is written back as.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Errors by name: the kernel's of today and further ones that it may get.
const ERRORS: core::ops::Range<i32> = 1..200;

/// The error of this name.
fn error(name: &str) -> Option<Errno> {
    let name = match name {
        "EWOULDBLOCK" => "EAGAIN",
        "ENOTSUP" => "EOPNOTSUPP",
        "EDEADLOCK" => "EDEADLK",
        name => name,
    };
    let known = ERRORS.map(Errno::from_raw).filter(|errno| *errno != Errno::UnknownErrno);
    known.into_iter().find(|errno| format!("{errno:?}") == name)
}

impl FromStr for PlannedProcess {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        Ok(match text {
            "agent" => Self::Agent,
            "launcher" => Self::Launcher,
            "other" => Self::Other,
            rank => {
                let rank = rank.strip_prefix("rank").and_then(number);
                Self::Rank(rank.ok_or_else(|| unreadable(text, RulePart::Process))?)
            }
        })
    }
}

impl FromStr for Uses {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let count = |text| number(text).ok_or_else(|| unreadable(text, RulePart::Uses));
        let Some((first, step)) = text.split_once("..") else {
            return Ok(Self { first: count(text)?, step: None });
        };
        let step = match (step, step.strip_prefix('+')) {
            ("", _) => NonZeroU32::MIN,
            (_, Some(step)) => count(step)?,
            (_, None) => return Err(unreadable(text, RulePart::Uses)),
        };
        Ok(Self { first: count(first)?, step: Some(step) })
    }
}

impl FromStr for Outcome {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let read = match text.split_once(':') {
            Some(("stall", ms)) => number(ms).map(Self::Stalls),
            Some(("late", ms)) => number(ms).map(Self::Late),
            Some(_) => None,
            None => match text {
                "short" => Some(Self::Short),
                "stop" => Some(Self::Stops),
                name => error(name).map(Self::Fails),
            },
        };
        read.ok_or_else(|| unreadable(text, RulePart::Outcome))
    }
}

impl FromStr for Rule {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let (before, rest) = text.split_once('@').ok_or_else(|| unreadable(text, RulePart::Rule))?;
        let (uses, outcome) = rest.split_once('=').ok_or_else(|| unreadable(text, RulePart::Rule))?;
        let (process, call) = match before.split_once(':') {
            Some((process, call)) => (Some(process.parse()?), call),
            None => (None, before),
        };
        let call = Call::named(call).ok_or_else(|| unreadable(call, RulePart::Call))?;
        let rule = Self { process, call, uses: uses.parse()?, outcome: outcome.parse()? };
        if rule.outcome == Outcome::Short && !call.moves_bytes() {
            return Err(unreadable(text, RulePart::Short));
        }
        Ok(rule)
    }
}

impl FromStr for CallPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let text = text.trim_end().strip_suffix(';').unwrap_or(text);
        Ok(Self { rules: text.split(';').map(|rule| rule.trim().parse()).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for PlannedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank{rank}"),
            Self::Agent => f.write_str("agent"),
            Self::Launcher => f.write_str("launcher"),
            Self::Other => f.write_str("other"),
        }
    }
}

impl fmt::Display for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            None => write!(f, "{}", self.first),
            Some(NonZeroU32::MIN) => write!(f, "{}..", self.first),
            Some(step) => write!(f, "{}..+{step}", self.first),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(errno) => write!(f, "{errno:?}"),
            Self::Short => f.write_str("short"),
            Self::Stalls(ms) => write!(f, "stall:{ms}"),
            Self::Late(ms) => write!(f, "late:{ms}"),
            Self::Stops => f.write_str("stop"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(process) = self.process {
            write!(f, "{process}:")?;
        }
        write!(f, "{}@{}={}", self.call, self.uses, self.outcome)
    }
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, rule) in self.rules.iter().enumerate() {
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{rule}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
