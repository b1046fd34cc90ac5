//! Tests that cargo runs, by what the harness says of them.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Runs tests and returns the number that passed. The command is one of cargo that ends with the
/// filters, and does not have the harness be quiet.
///
/// # Errors
/// A test that fails, no test at all, and a filter that no test has in its name: tests that are
/// renamed are not left out unseen.
pub fn pass(cargo: &mut Command, filters: &[&str]) -> Result<u32> {
    cargo.args(filters);
    let (passed, said) = shell::capture(cargo)?;
    print!("{said}");
    let count = ran(&said).filter(|_| passed);
    let count = count.with_context(|| format!("`{}` failed", shell::spell(cargo)))?;
    if let Some(filter) = filters.iter().find(|filter| !has_run(&said, filter)) {
        bail!("`{}` ran no test that is called {filter}: name what is meant", shell::spell(cargo));
    }
    Ok(count)
}

/// The tests that passed, of what the harness says; none is a failure too.
fn ran(said: &str) -> Option<u32> {
    let counts = said.lines().filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
    let all: u32 = counts.filter_map(|count| count.parse::<u32>().ok()).sum();
    (all > 0).then_some(all)
}

/// Returns true if a test passed whose name has this in it.
fn has_run(said: &str, filter: &str) -> bool {
    let mut tests = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    tests.any(|test| test.contains(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted_and_there_are_some() {
        let said =
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored\ntest result: ok. 3 passed; 0";
        assert_eq!(ran(said), Some(5));
        assert_eq!(ran("test result: ok. 0 passed; 0 failed"), None);
    }

    #[test]
    fn a_filter_is_met_by_a_test_that_passed() {
        assert!(has_run("running 1 test\ntest fifo::tests::it ... ok", "fifo::"));
        assert!(!has_run("test fifo::tests::it ... FAILED\ntest result: ok. fifo:: ok", "fifo::"));
    }
}
