//! Macros and build scripts, and what they are made of: compiled once for all folders that cargo
//! builds to in the profile `dev`.
//!
//! Cargo compiles them for this machine and without optimisation, whatever is built with them, and
//! names what it has compiled after all that made it what it is; but each folder gets its own. What
//! the tests and xtask itself were built with is placed there before: units of the same name are
//! taken for what they are, and any others are built. Cargo keeps the name of the profile's folder
//! too, so that other profiles have to build their own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// The folder of cargo's in which units are known, by what made them.
const KNOWN: &str = ".fingerprint";

/// The folder of the profile, in each folder that cargo builds to.
const PROFILE: &str = "debug";

/// Places what was compiled of other people's crates where cargo is going to build in the profile
/// `dev` with other flags, for a target of its own name.
///
/// # Errors
/// A folder that cannot be made or read.
pub fn share(workspace: &Workspace, folder: &Path) -> Result<()> {
    let [from, to] = [&workspace.target, folder].map(|folder| folder.join(PROFILE));
    let is_own = |unit: &str| workspace.packages.iter().any(|package| package.name == unit);
    place(&from, &to, is_own).with_context(|| format!("placing units in {}", folder.display()))
}

fn place(from: &Path, to: &Path, is_own: impl Fn(&str) -> bool) -> Result<()> {
    for folder in ["build", "deps", KNOWN] {
        fs::create_dir_all(to.join(folder))?;
    }
    let compiled = by_hash(&from.join("deps"))?;
    for known in entries(&from.join(KNOWN))? {
        let unit = name_of(&known);
        let Some((package, hash)) = unit.rsplit_once('-') else { continue };
        if !is_own(package) && !to.join(KNOWN).join(&unit).exists() && is_whole(&known)? {
            // One that another cargo just builds anew is built here as well: cargo does not know it
            // before all of it is there.
            let _ = place_unit(from, to, &unit, compiled.get(hash).map_or(&[], Vec::as_slice));
        }
    }
    Ok(())
}

fn place_unit(from: &Path, to: &Path, unit: &str, compiled: &[PathBuf]) -> Result<()> {
    for file in compiled {
        link(file, &to.join("deps").join(name_of(file)))?;
    }
    let build = Path::new("build").join(unit);
    if from.join(&build).is_dir() {
        copy_all(&from.join(&build), &to.join(&build))?;
    }
    let part = to.join(KNOWN).join(format!("{unit}.part"));
    copy_all(&from.join(KNOWN).join(unit), &part)?;
    fs::rename(&part, to.join(KNOWN).join(unit))?;
    Ok(())
}

/// The compiled files in a folder, by the hash at the end of their names.
fn by_hash(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut files = BTreeMap::<String, Vec<PathBuf>>::new();
    for file in entries(folder)? {
        let name = name_of(&file);
        if let Some((_, hash)) = name.split('.').next().and_then(|stem| stem.rsplit_once('-')) {
            files.entry(hash.into()).or_default().push(file.clone());
        }
    }
    Ok(files)
}

/// Returns true if a unit has been compiled: cargo writes two files of it then, one in JSON.
fn is_whole(known: &Path) -> Result<bool> {
    let files = entries(known)?;
    let mut json = files.iter().filter(|file| file.extension() == Some(OsStr::new("json"))).peekable();
    let is_written = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.len() > 0);
    Ok(json.peek().is_some() && json.all(|file| is_written(file) && is_written(&file.with_extension(""))))
}

/// Copies a folder. Files are as old as they were, since cargo compares their times.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in entries(from)? {
        let new = to.join(name_of(&entry));
        if entry.is_dir() {
            copy_all(&entry, &new)?;
        } else {
            copy(&entry, &new)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    File::open(to)?.set_modified(fs::metadata(from)?.modified()?)?;
    Ok(())
}

/// Gives a compiled file a second name, or copies it where that cannot be: the compiler puts new
/// ones in the place of old ones, and writes into none.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() || fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    copy(from, to)
}

/// The entries of a folder; none if it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::time::SystemTime;

    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn units_that_are_compiled_and_not_our_own_are_placed_as_old_as_they_were() {
        let folder = std::env::temp_dir().join(format!("aldis-units-{}", std::process::id()));
        let (from, to) = (folder.join("debug"), folder.join("other"));
        for (unit, hash) in [("syn-1a", "f"), ("quote-2b", ""), ("aldis-own-3c", "f")] {
            write(&from, &format!("{KNOWN}/{unit}/lib"), hash);
            write(&from, &format!("{KNOWN}/{unit}/lib.json"), "{}");
            write(&from, &format!("deps/lib{unit}.rlib"), unit);
            write(&from, &format!("build/{unit}/out/a.rs"), unit);
        }
        let then = SystemTime::now().checked_sub(Duration::from_secs(100)).unwrap();
        for file in ["deps/libsyn-1a.rlib", "build/syn-1a/out/a.rs"] {
            File::open(from.join(file)).unwrap().set_modified(then).unwrap();
        }
        for _ in 0..2 {
            place(&from, &to, |package| package == "aldis-own").unwrap();
            assert_eq!(entries(&to.join(KNOWN)).unwrap(), [to.join(KNOWN).join("syn-1a")]);
            assert_eq!(entries(&to.join("deps")).unwrap(), [to.join("deps/libsyn-1a.rlib")]);
            for file in ["deps/libsyn-1a.rlib", "build/syn-1a/out/a.rs"] {
                assert_eq!(fs::metadata(to.join(file)).unwrap().modified().unwrap(), then, "{file}");
            }
        }
        // Nothing was built before: there is nothing to place.
        place(&folder.join("none"), &to, |_| false).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
