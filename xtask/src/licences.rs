//! Every dependency's licence against the list that `deny.toml` allows. `cargo deny` says the same
//! and more, and is run too where it is installed; this check needs nothing but cargo. And the lock
//! files beside the workspace's own, which nothing else builds each day.

use std::fs;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Package, Workspace};
use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The part of `deny.toml` that is checked here.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// The licences that one package may have besides.
#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

impl Licenses {
    /// Returns the licences that a package may have.
    fn allowed(&self, package: &str) -> Vec<String> {
        let own = self.exceptions.iter().filter(|exception| exception.package == package);
        self.allow.iter().chain(own.flat_map(|exception| &exception.allow)).cloned().collect()
    }

    /// Returns the packages whose licences cannot be met. Our own outside of the workspace are for
    /// nobody else, and need none.
    fn refused(&self, packages: &[Package]) -> Vec<String> {
        let licence = |package: &Package| package.license.clone().unwrap_or_default();
        let is_ours = |package: &&Package| {
            package.license.is_none() && package.folder().starts_with(workspace::checkout())
        };
        let is_refused = |package: &&Package| !satisfied(&licence(package), &self.allowed(&package.name));
        let refused = packages.iter().filter(|package| !is_ours(package)).filter(is_refused);
        refused.map(|one| format!("{} {}: {:?}", one.name, one.version, licence(one))).collect()
    }
}

/// Fails with every package whose licence cannot be met from the list.
pub(crate) fn check() -> Result<Outcome> {
    let path = workspace::checkout().join("deny.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    let workspace = Workspace::with_dependencies()?;
    let mut wrong = deny.licenses.refused(&workspace.packages);
    let locked = check_locks()?;
    for outside in &locked {
        wrong.extend(deny.licenses.refused(&outside.packages));
    }
    if !wrong.is_empty() {
        bail!("not allowed by deny.toml: {}", wrong.join("; "));
    }
    let outside: usize = locked.iter().map(|outside| outside.packages.len()).sum();
    let mut words = format!(
        "{} packages; {} lock files beside Cargo.lock, of {outside}, are up to date",
        workspace.packages.len(),
        locked.len()
    );
    if shell::has("cargo-deny") {
        shell::run(workspace::cargo().args(["deny", "--log-level", "error", "check"]))?;
        words.push_str(", cargo-deny agrees");
    }
    Ok(Outcome::Passed(words))
}

/// Fails with a lock file of a package outside of the workspace that its dependencies have left
/// behind: it could not be built with `--locked`. Returns what is locked, for each.
fn check_locks() -> Result<Vec<Workspace>> {
    let listed = workspace::git(&["ls-files", "*/Cargo.lock"])?;
    let mut locked = Vec::new();
    for lock in listed.lines() {
        let manifest = workspace::checkout().join(lock).with_file_name("Cargo.toml");
        let mut update = workspace::cargo();
        update.args(["update", "--quiet", "--workspace", "--locked", "--manifest-path"]).arg(&manifest);
        let remedy = || {
            format!("{lock} is out of date, or the registry out of reach: `cargo update --workspace` there")
        };
        shell::output(&mut update).with_context(remedy)?;
        locked.push(Workspace::outside(&manifest)?);
    }
    Ok(locked)
}

/// Returns true if an SPDX expression can be met with the allowed licences alone. Anything
/// unreadable cannot.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    // The registry's old spelling of OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    either(&mut words, allowed) == Some(true) && words.next().is_none()
}

type LicenceWords<'a> = core::iter::Peekable<core::str::SplitWhitespace<'a>>;

fn either(words: &mut LicenceWords<'_>, allowed: &[String]) -> Option<bool> {
    let mut met = both(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed)?;
    }
    Some(met)
}

fn both(words: &mut LicenceWords<'_>, allowed: &[String]) -> Option<bool> {
    let mut met = single(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= single(words, allowed)?;
    }
    Some(met)
}

fn single(words: &mut LicenceWords<'_>, allowed: &[String]) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let met = either(words, allowed)?;
        return (words.next() == Some(")")).then_some(met);
    }
    let mut licence = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next()?);
    }
    Some(allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_not() {
        let allowed: Vec<String> =
            ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(String::from).to_vec();
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-3.0 AND BSD-2-Clause OR MIT",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(satisfied(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "MIT WITH", "MIT MIT", "OR MIT"] {
            assert!(!satisfied(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn an_exception_is_for_one_package() {
        let deny = r#"
            [licenses]
            allow = ["MIT"]
            exceptions = [{ crate = "a", allow = ["MPL-2.0"] }]
        "#;
        let Deny { licenses } = toml::from_str(deny).unwrap();
        assert!(satisfied("MPL-2.0", &licenses.allowed("a")) && satisfied("MIT", &licenses.allowed("b")));
        assert!(!satisfied("MPL-2.0", &licenses.allowed("b")));
    }
}
