//! Rules for collectives as text: what `aldis-run --coll-rules` reads, and what every rank is
//! given.
//!
//! ```text
//! # operation  ranks  bytes   algorithm           in segments, with reproducible bits
//! allreduce    2-8    -4K     recursive_doubling
//! allreduce    *      1M-     ring                segment=256K
//! reduce       *      *       auto                reproducible
//! ```
//!
//! A rule a line, of the words [`Rule`] has; `#` begins a comment. Numbers are `*`, one, or a range
//! `FIRST-LAST` with both ends in it, either of which may be left out; bytes may end with K, M or
//! G. The first rule that is for a call decides. The launcher reads a file once, and each rank gets
//! its text in [`TEXT_VARIABLE`]: so no two ranks have unlike rules.

use core::fmt;
use core::num::NonZeroU64;

use aldis_coll::catalog::COLLECTIVES;
use aldis_coll::catalog::priced;
use aldis_coll::rules::{Extent, RULES_MAX, Rule, Rules};
use aldis_coll::select::{Choice, Options, reduces};
use aldis_hal::Operation;
use aldis_sys::file::read_to_string;

use crate::arena::parse_bytes;

/// The variable that stands for the launcher's option.
pub const VARIABLE: &str = "ALDIS_COLL_RULES";

/// The variable in which ranks get the rules: the name of the file in a line, then its lines
/// without comments.
pub const TEXT_VARIABLE: &str = "ALDIS_COLL_RULES_TEXT";

/// The longest file, in bytes: a word of the environment, and of the launcher's messages to its
/// agents, has room for it.
pub const TEXT_BYTES_MAX: usize = 32 << 10;

/// The form that a line is to have.
const FORM: &str = "OPERATION RANKS BYTES ALGORITHM [segment=BYTES] [reproducible]";

/// An error in a line of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// The number of the line, from 1.
    pub line: u32,
    /// The word that stands there.
    pub word: String,
    /// The reason why it is wrong, and what would be right.
    pub why: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, word, why } = self;
        write!(f, "{line}: `{word}`: {why}")
    }
}

impl core::error::Error for RuleError {}

/// A file of rules that has been read and found right.
#[derive(Clone, Debug)]
pub struct RuleFile {
    name: String,
    text: String,
    list: Vec<Rule>,
}

impl RuleFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A text with the file's name, the line and the word that is wrong, and what would be right.
    pub fn read(path: &str) -> Result<Self, String> {
        let text = read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        Self::new(path, &text).map_err(|error| format!("{path}:{error}"))
    }

    /// The rules of a text, under the name of its file.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn new(name: &str, text: &str) -> Result<Self, RuleError> {
        if text.len() > TEXT_BYTES_MAX {
            let why = format!("a file of rules has at most {TEXT_BYTES_MAX} bytes");
            return Err(RuleError { line: 1, word: format!("{} bytes", text.len()), why });
        }
        let lines: Vec<&str> = text.lines().map(without_comment).collect();
        let mut list = Vec::new();
        for (number, line) in (1..).zip(&lines) {
            list.extend(rule(number, line)?);
            if list.len() > RULES_MAX {
                let why = format!("there may be at most {RULES_MAX} rules");
                return Err(RuleError { line: number, word: (*line).into(), why });
            }
        }
        Ok(Self { name: name.into(), text: lines.join("\n"), list })
    }

    /// Returns the text that ranks are given.
    pub fn carried(&self) -> String {
        format!("{}\n{}", self.name.replace('\n', " "), self.text)
    }

    /// The rules that a rank was given, if any, in the environment of this process.
    ///
    /// # Errors
    /// What is wrong with it: a launcher of another build may know of other algorithms.
    pub fn inherited() -> Result<Option<Self>, RuleError> {
        let Ok(carried) = std::env::var(TEXT_VARIABLE) else { return Ok(None) };
        let (name, text) = carried.split_once('\n').unwrap_or((&carried, ""));
        Self::new(name, text).map(|file| Some(file).filter(|file| !file.list.is_empty()))
    }

    /// The rules for as long as the process lives, as endpoints take them.
    pub fn leak(self) -> &'static Rules {
        Box::leak(Box::new(Rules::new(self.name.leak(), self.list.leak())))
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(rule, _)| rule).trim()
}

/// The rule of a line, if there is one.
fn rule(line: u32, text: &str) -> Result<Option<Rule>, RuleError> {
    let wrong = |word: &str, why: String| RuleError { line, word: word.into(), why };
    let mut words = text.split_whitespace();
    let Some(operation_word) = words.next() else { return Ok(None) };
    let short = || wrong(text, format!("a rule is {FORM}"));
    let operation = operation(operation_word).map_err(|why| wrong(operation_word, why))?;
    let mut extent = |parse: fn(&str) -> Option<u64>, what: &str| {
        let word = words.next().ok_or_else(short)?;
        extent(word, parse).ok_or_else(|| wrong(word, format!("not {what}")))
    };
    let ranks = extent(|word| word.parse().ok(), "a number of ranks, such as 4, 2-8, 16- or *")?;
    let bytes = extent(size, "a number of bytes, such as 8, 1K-64K, 1M- or *")?;
    let algorithm = words.next().ok_or_else(short)?;
    let choice = choice(operation, algorithm).map_err(|why| wrong(algorithm, why))?;
    let mut rule = Rule { operation, ranks, bytes, choice, line, ..Rule::AUTO };
    for word in words {
        match (word, word.strip_prefix("segment=")) {
            ("reproducible", _) => rule.reproducible = true,
            (_, Some(bytes)) => {
                let bytes = size(bytes).and_then(NonZeroU64::new);
                let why = || wrong(word, "not a number of bytes, such as segment=64K".into());
                rule.segment_bytes = Some(bytes.ok_or_else(why)?);
            }
            _ => return Err(wrong(word, "not an option; known: segment=BYTES, reproducible".into())),
        }
    }
    contradiction(&rule).map_or(Ok(Some(rule)), |(word, why)| Err(wrong(word, why)))
}

fn operation(word: &str) -> Result<Option<Operation>, String> {
    if word == "*" {
        return Ok(None);
    }
    let known = COLLECTIVES.into_iter().find(|known| known.to_string() == word);
    known.map(Some).ok_or_else(|| {
        let all = COLLECTIVES.map(|known| known.to_string()).join(", ");
        format!("no collective operation; known: *, {all}")
    })
}

fn choice(operation: Option<Operation>, word: &str) -> Result<Choice, String> {
    match (operation, word) {
        (Some(operation), _) => Choice::named(operation, word).map_err(|unknown| unknown.to_string()),
        (None, "auto") => Ok(Choice::Auto),
        (None, "shared") => Ok(Choice::Shared),
        (None, _) => {
            Err("for every operation there are auto and shared; name the operation for others".into())
        }
    }
}

/// Numbers from one to another.
fn extent(word: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<Extent> {
    if word == "*" {
        return Some(Extent::ALL);
    }
    let (least, most) = match word.split_once('-') {
        None => (parse(word)?, parse(word)?),
        Some(("", "")) => return None,
        Some((least, "")) => (parse(least)?, u64::MAX),
        Some(("", most)) => (0, parse(most)?),
        Some((least, most)) => (parse(least)?, parse(most)?),
    };
    (least <= most).then_some(Extent { least, most })
}

/// A number of bytes.
fn size(word: &str) -> Option<u64> {
    parse_bytes(word).map(|bytes| bytes as u64)
}

/// Returns the word of a rule that no call could ever follow, and why.
fn contradiction(rule: &Rule) -> Option<(&'static str, String)> {
    use Operation::{Allgatherv, Alltoallv, Alltoallw, Gatherv, Scatterv};
    let unlike = matches!(rule.operation, Some(Allgatherv | Alltoallv | Alltoallw | Gatherv | Scatterv));
    if unlike && rule.bytes != Extent::ALL {
        let why = "blocks of unlike lengths are not known alike on all ranks; bytes must be *";
        return Some(("bytes", why.into()));
    }
    if rule.reproducible && rule.operation.is_some_and(|operation| !reduces(operation)) {
        return Some((
            "reproducible",
            "the operation reduces nothing, its results are always the same".into(),
        ));
    }
    match rule.choice {
        Choice::Shared if rule.segment_bytes.is_some() => {
            Some(("segment", "control slots have chunks of one length".into()))
        }
        Choice::Shared if rule.reproducible => {
            Some(("shared", "its results need not have the bits of others; take another, or auto".into()))
        }
        Choice::Named(algorithm) => {
            let candidate = priced(algorithm)?;
            // Those that are made for some numbers of ranks are made for two, for powers of two, or
            // for even ones.
            let first = u32::try_from(rule.ranks.least.max(1)).unwrap_or(u32::MAX);
            let next = [first, first.saturating_add(1), first.checked_next_power_of_two().unwrap_or(first)];
            let mut sizes = next.into_iter().filter(|size| rule.ranks.contains(u64::from(*size)));
            let serves = sizes.clone().any(|size| candidate.serves(size));
            if !serves {
                return Some((algorithm.name(), "it is not made for so many ranks".into()));
            }
            let reproduces = !rule.reproducible || sizes.any(|size| candidate.reproduces(size));
            (!reproduces).then(|| {
                let all = aldis_coll::catalog::algorithms(algorithm.operation());
                let others = all.iter().filter(|one| next.iter().any(|size| one.reproduces(*size)));
                let names: Vec<&str> = others.map(|one| one.name()).collect();
                let why = format!("not reproducible over so many ranks; take auto or {}", names.join(", "));
                (algorithm.name(), why)
            })
        }
        _ => None,
    }
}

/// The question of `aldis-run --explain-collective`: `OPERATION:RANKS:BYTES`.
#[derive(Clone, Debug)]
pub struct Question {
    call: aldis_coll::select::Call,
}

impl Question {
    /// Reads it. Reductions are sums of `f64`, other operations move bytes; there is scratch for
    /// all of it.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(':').collect();
        let &[operation_word, ranks, bytes] = words.as_slice() else {
            return Err("not OPERATION:RANKS:BYTES, such as allreduce:8:1M".into());
        };
        let operation = operation(operation_word)?.ok_or("name one operation")?;
        let ranks = ranks.parse().ok().filter(|ranks| *ranks > 0).ok_or("not a number of ranks")?;
        let bytes = parse_bytes(bytes).ok_or("not a number of bytes, such as 8, 64K or 1M")?;
        let element_bytes = if reduces(operation) { 8 } else { 1 };
        let count = bytes.div_ceil(element_bytes as usize);
        let blocks = if aldis_coll::schedule::on_blocks(operation) { ranks as usize + 1 } else { 1 };
        let scratch = count.saturating_mul(blocks);
        let call = aldis_coll::select::Call {
            operation,
            size: ranks,
            count,
            element_bytes,
            scratch,
            commutes: true,
        };
        Ok(Self { call })
    }

    /// The answer, by these rules if there are any.
    pub fn answer(&self, rules: Option<&RuleFile>) -> String {
        let explained = self.call.explain(&Options::default());
        match rules {
            Some(rules) => explained.by_rules(rules.clone().leak()).to_string(),
            None => explained.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
