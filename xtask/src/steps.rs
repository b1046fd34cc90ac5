//! What came of one step of a longer chore.

use anyhow::Result;

/// A step that did not fail.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It did what it is for; a few words on what that was.
    Passed(String),
    /// It could not be done here.
    Skipped {
        /// What is missing.
        why: String,
        /// The command that brings it.
        enable: String,
    },
}

impl Outcome {
    /// One line for a table.
    pub(crate) fn spell(outcome: &Result<Self>) -> String {
        match outcome {
            Ok(Self::Passed(words)) if words.is_empty() => "ok".into(),
            Ok(Self::Passed(words)) => format!("ok: {words}"),
            Ok(Self::Skipped { why, enable }) => format!("SKIPPED: {why}; to enable: {enable}"),
            Err(error) => {
                let text = format!("{error:#}");
                format!("FAILED: {}", text.lines().next().unwrap_or("no reason given"))
            }
        }
    }
}
