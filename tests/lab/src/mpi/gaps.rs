//! Tests of other people that are known not to pass over Aldis, each with its reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The list: a line a test, with its name, the numbers of ranks at which it does not pass (`2,4`),
/// and why; `#` begins a comment.
pub(super) struct Gaps {
    file: PathBuf,
    known: BTreeSet<(String, u32)>,
    /// The known ones that have passed.
    closed: BTreeSet<(String, u32)>,
}

impl Gaps {
    /// # Errors
    /// A file that cannot be read, or a line that is not of that kind.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let known = parse(&text).with_context(|| file.display().to_string())?;
        Ok(Self { file: file.to_owned(), known, closed: BTreeSet::new() })
    }

    /// Returns true if this test is known not to pass with so many ranks.
    pub(super) fn has(&self, name: &str, ranks: u32) -> bool {
        self.known.contains(&(name.to_owned(), ranks))
    }

    /// Notes that it has passed.
    pub(super) fn passed(&mut self, name: &str, ranks: u32) {
        if self.has(name, ranks) {
            self.closed.insert((name.to_owned(), ranks));
        }
    }

    /// # Errors
    /// Those that have passed, if any: they are to be taken out of the list.
    pub(super) fn check(&self) -> Result<()> {
        if self.closed.is_empty() {
            return Ok(());
        }
        let closed: Vec<String> =
            self.closed.iter().map(|(name, ranks)| format!("{name} with {ranks} ranks")).collect();
        bail!("these pass and are to be taken out of {}: {}", self.file.display(), closed.join(", "))
    }
}

fn parse(text: &str) -> Result<BTreeSet<(String, u32)>> {
    let mut known = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let bad = || format!("line {}: not a test's name, numbers of ranks and why: {line:?}", number + 1);
        let mut words = line.splitn(3, char::is_whitespace);
        let (Some(name), Some(ranks), Some(_)) = (words.next(), words.next(), words.next()) else {
            bail!(bad());
        };
        for one in ranks.split(',') {
            known.insert((name.to_owned(), one.parse().with_context(bad)?));
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_ranks_and_a_reason() {
        let known = parse("# nothing\n\na.b.c 1,4 no windows yet # said\nd 2 why").unwrap();
        let expected = [("a.b.c", 1), ("a.b.c", 4), ("d", 2)].map(|(name, ranks)| (name.to_owned(), ranks));
        assert_eq!(known, BTreeSet::from(expected));
        for (text, said) in [("a.b 1", "line 1"), ("\na", "line 2"), ("a two why", "\"a two why\"")] {
            let told = format!("{:#}", parse(text).unwrap_err());
            assert!(told.contains(said), "{told}");
        }
    }

    #[test]
    fn what_passes_is_to_be_taken_out() {
        let known = parse("a 1,2 why").unwrap();
        let mut gaps = Gaps { file: PathBuf::from("gaps.txt"), known, closed: BTreeSet::new() };
        assert!(gaps.has("a", 2) && !gaps.has("a", 4));
        gaps.passed("b", 1);
        gaps.check().unwrap();
        gaps.passed("a", 2);
        assert!(gaps.check().unwrap_err().to_string().contains("a with 2 ranks"));
    }
}
