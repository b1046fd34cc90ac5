//! The list of unsafe code, `docs/unsafe.md`: every implementation of an unsafe trait and every
//! safe function that holds unsafe blocks, each with its argument and the test that attacks it. The
//! items and their arguments are those of the source; what attacks them is written by hand, and
//! kept when the list is written anew.

use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use aldis_shell::workspace::checkout;
use anyhow::{Context, Result, bail};

use super::items::{Item, items};
use crate::test;

/// The path of the list.
const LIST: &str = "docs/unsafe.md";

/// The head of a list that is written for the first time.
const HEAD: &str = "# Unsafe code, item by item\n";

/// The last column of an item for which no attack has been named yet.
const NOTHING: &str = "?";

/// Folders whose tests, models and programs can attack.
const ATTACKERS: [&str; 7] = ["hal", "drivers", "kernel", "coll", "c", "host-sim", "tests"];

/// Each file's items as the list has them: by name, the argument and what attacks it.
type Listed = BTreeMap<String, Vec<(String, [String; 2])>>;

/// Compares the list with these files, or writes it anew. How many items it has.
pub(super) fn check(files: &[PathBuf], bless: bool) -> Result<usize> {
    let path = checkout().join(LIST);
    let old = fs::read_to_string(&path).unwrap_or_else(|_| HEAD.into());
    let found = found(files)?;
    let listed = parse(&old);
    let count = found.values().map(Vec::len).sum();
    let new = spell(&old, &found, &listed);
    if bless {
        fs::write(&path, &new).with_context(|| format!("writing {}", path.display()))?;
    } else if let Some(difference) = difference(&old, &new) {
        bail!(
            "{LIST} is not what the source holds: {difference}; `cargo xtask fences --bless` writes it anew"
        );
    }
    judge(&parse(&new))?;
    Ok(count)
}

/// The unsafe items of those files that have any.
fn found(files: &[PathBuf]) -> Result<BTreeMap<String, Vec<Item>>> {
    let mut found = BTreeMap::new();
    for file in files.iter().filter(|file| !is_model(file)) {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let items = items(&text);
        if !items.is_empty() {
            let name = file.strip_prefix(checkout()).unwrap_or(file).display().to_string();
            found.insert(name, items);
        }
    }
    Ok(found)
}

/// Models are tests too.
fn is_model(file: &Path) -> bool {
    file.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("models"))
}

fn parse(text: &str) -> Listed {
    let (mut listed, mut file) = (Listed::new(), None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            file = Some(listed.entry(name.trim().to_owned()).or_default());
        } else if let (Some(rows), Some(row)) = (&mut file, line.strip_prefix("| `"))
            && let [name, argument, attack] = row.trim_end_matches(" |").split(" | ").collect::<Vec<_>>()[..]
        {
            let name = name.trim_end_matches('`').to_owned();
            rows.push((name, [argument, attack].map(|cell| cell.trim().to_owned())));
        }
    }
    listed
}

/// The list of what was found, below what stands above the first file in the old one.
fn spell(old: &str, found: &BTreeMap<String, Vec<Item>>, listed: &Listed) -> String {
    let head = old.split_once("\n## ").map_or(old.trim_end(), |(head, _)| head.trim_end());
    let mut text = format!("{head}\n");
    for (file, items) in found {
        let old = listed.get(file).map(Vec::as_slice).unwrap_or_default();
        let _ = write!(text, "\n## {file}\n\n| item | argument | attacked by |\n|---|---|---|\n");
        for Item { name, argument } in items {
            let known = old.iter().find(|(listed, _)| listed == name);
            let attack = known.map_or(NOTHING, |(_, [_, attack])| attack);
            let _ = writeln!(text, "| `{name}` | {} | {attack} |", argument.replace('|', "/"));
        }
    }
    text
}

/// The first line in which the lists differ.
fn difference(old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (old, new) = (lines(old), lines(new));
    let lacks = new.difference(&old).next().map(|line| format!("it lacks `{line}`"));
    Some(
        lacks
            .or_else(|| old.difference(&new).next().map(|line| format!("`{line}` is gone")))
            .unwrap_or_default(),
    )
}

/// Fails for items without an argument or an attack, and for attacks that are no tests.
fn judge(listed: &Listed) -> Result<()> {
    let tests = tests()?;
    let (mut bare, mut unknown) = (Vec::new(), BTreeSet::new());
    for (file, rows) in listed {
        for (name, [argument, attack]) in rows {
            let mut named = attack.split('`').skip(1).step_by(2).peekable();
            if argument.is_empty() || named.peek().is_none() {
                bare.push(format!("{file}: {name}"));
            }
            unknown.extend(named.filter(|test| !tests.contains(*test)).map(str::to_owned));
        }
    }
    if !bare.is_empty() {
        bail!("{LIST}: no argument, or nothing that attacks it: {}", bare.join(", "));
    }
    if !unknown.is_empty() {
        bail!(
            "{LIST} names tests that are not there: {}",
            unknown.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

/// Every function of the tests and models, every module of programs that have tests, and the steps
/// of `cargo xtask test`.
fn tests() -> Result<BTreeSet<String>> {
    let mut files = Vec::new();
    for folder in ATTACKERS {
        super::collect(&checkout().join(folder), "target", &mut files)?;
    }
    let mut names: BTreeSet<String> = test::step_names().map(|step| format!("step {step}")).collect();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line.starts_with("#[test") || line.starts_with("proptest!");
            if let (true, Some((_, rest))) = (is_test, line.split_once("fn ")) {
                names.extend(rest.split('(').next().map(str::to_owned));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item { name: name.into(), argument: "it is inside".into() }
    }

    #[test]
    fn a_list_written_anew_keeps_its_head_and_what_attacks() {
        let found =
            BTreeMap::from([("a/src/x.rs".to_owned(), vec![item("X::get"), item("unsafe impl Send for X")])]);
        let first = spell("# Head\n\nWords.\n", &found, &Listed::new());
        assert!(first.starts_with("# Head\n\nWords.\n\n## a/src/x.rs\n"), "{first}");
        let filled = first.replace("`X::get` | it is inside | ?", "`X::get` | it is inside | `a_test`");
        let again = spell(&filled, &found, &parse(&filled));
        assert_eq!(again, filled);
        assert_eq!(parse(&again)["a/src/x.rs"][1].1[1], NOTHING);
    }

    #[test]
    fn missing_and_stale_items_are_reported() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\n", "a\nb\n").unwrap(), "it lacks `b`");
        assert_eq!(difference("a\nb\n", "a\n").unwrap(), "`b` is gone");
    }

    #[test]
    fn an_attack_is_a_test_that_exists() {
        let row = |attack: &str| {
            judge(&Listed::from([("x.rs".into(), vec![("f".into(), ["it is".into(), attack.into()])])]))
        };
        row("`what_forgotten_futures_borrowed_is_not_touched`, `step loom`").unwrap();
        assert!(row("`no_such_test`").is_err() && row("?").is_err());
    }
}
