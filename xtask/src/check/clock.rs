//! Seconds that tasks have taken, kept from one check to the next.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The last seconds of each task, in a file below `target`.
pub(super) struct TaskTimes {
    file: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl TaskTimes {
    /// The times of earlier checks; none if there were none, or the file cannot be read.
    pub(super) fn load(target: &Path) -> Self {
        let file = target.join("check.json");
        let text = fs::read_to_string(&file).unwrap_or_default();
        Self { file, seconds: serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Returns the seconds that a task took the last time.
    pub(super) fn last(&self, task: &str) -> Option<f64> {
        self.seconds.get(task).copied()
    }

    /// Notes what a task has taken. A short time counts half, since what was built already says
    /// little about the next change.
    pub(super) fn note(&mut self, task: &str, seconds: f64) {
        let last = self.last(task).unwrap_or_default();
        self.seconds.insert(task.into(), seconds.max((last + seconds) / 2.0));
    }

    /// Makes a task that was left out for the time it takes a little likelier the next time: that
    /// was perhaps a first build.
    pub(super) fn pass_over(&mut self, task: &str) {
        if let Some(seconds) = self.seconds.get_mut(task) {
            *seconds *= 0.8;
        }
    }

    pub(super) fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.seconds)?;
        fs::write(&self.file, text).with_context(|| format!("writing {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_time_replaces_the_last_and_a_shorter_one_halves_it() {
        let mut clock = TaskTimes { file: PathBuf::new(), seconds: BTreeMap::new() };
        assert_eq!(clock.last("a"), None);
        clock.note("a", 8.0);
        clock.note("a", 0.0);
        assert_eq!(clock.last("a"), Some(4.0));
        clock.note("a", 9.0);
        assert_eq!(clock.last("a"), Some(9.0));
        clock.pass_over("a");
        assert!(clock.last("a") < Some(8.0));
    }
}
