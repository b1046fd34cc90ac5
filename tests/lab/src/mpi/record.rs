//! Tests of mpi4py that pass over the reference library, as it was last run: what a change is
//! compared with every day, since neither that library nor the tests change from day to day.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::folder;

const REMEDY: &str = "`cargo xtask mpi test mpi4py --record` writes it anew";

/// The names of the tests that pass, one a line below a first line that says of what they are.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Recording {
    /// The first line: versions and ranks.
    of: String,
    passing: BTreeSet<String>,
}

impl Recording {
    /// A record of so many ranks with nothing in it.
    pub(super) fn new(tests: &str, reference: &str, ranks: u32) -> Self {
        let of = format!(
            "# Tests of {tests} that pass over {reference} with {ranks} ranks; --record writes them."
        );
        Self { of, passing: BTreeSet::new() }
    }

    /// Reads what was recorded of the same versions and ranks as an empty record is of.
    ///
    /// # Errors
    /// No file, or one of other versions or ranks.
    pub(super) fn read(empty: &Self) -> Result<Self> {
        let file = file();
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let record = parse(&text);
        if record.of != empty.of {
            bail!("{} begins with {:?}, and not with {:?}; {REMEDY}", file.display(), record.of, empty.of);
        }
        Ok(record)
    }

    /// Adds tests that pass.
    pub(super) fn add<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        self.passing.extend(names.into_iter().map(str::to_owned));
    }

    /// The tests of a module that pass.
    pub(super) fn module(&self, module: &str) -> BTreeSet<&str> {
        let is_of = |name: &&str| name.split('.').next() == Some(module);
        self.passing.iter().map(String::as_str).filter(is_of).collect()
    }

    /// Fails unless the same tests are in another record.
    ///
    /// # Errors
    /// Those that are in one alone.
    pub(super) fn is_as(&self, recorded: &Self) -> Result<()> {
        let other: Vec<&str> =
            self.passing.symmetric_difference(&recorded.passing).map(String::as_str).collect();
        if other.is_empty() {
            return Ok(());
        }
        let (file, other) = (file(), other.join(", "));
        bail!("{} is not what the reference library does: {other}; {REMEDY}", file.display())
    }

    /// Writes the record.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self) -> Result<()> {
        let file = file();
        fs::write(&file, self.text()).with_context(|| format!("writing {}", file.display()))
    }

    fn text(&self) -> String {
        let lines = [&self.of].into_iter().chain(&self.passing);
        lines.flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

fn parse(text: &str) -> Recording {
    let mut lines = text.lines();
    let of = lines.next().unwrap_or_default().to_owned();
    Recording { of, passing: lines.map(str::to_owned).collect() }
}

fn file() -> PathBuf {
    folder().join("table/mpi4py.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_by_module() {
        let mut record = Recording::new("mpi4py==4", "mpich==5", 2);
        record.add(["test_a.T.one", "test_b.T.one", "test_a.T.two"]);
        let again = parse(&record.text());
        assert_eq!(again, record);
        assert_eq!(again.module("test_a"), BTreeSet::from(["test_a.T.one", "test_a.T.two"]));
        assert!(again.module("test").is_empty());
        assert!(again.is_as(&record).is_ok());
        record.add(["test_c.T.one"]);
        let told = again.is_as(&record).unwrap_err().to_string();
        assert!(told.contains(": test_c.T.one;"), "{told}");
        assert_ne!(again.of, Recording::new("mpi4py==4", "mpich==5", 4).of);
    }
}
