//! Debian packages, fetched and unpacked below `target/verbs`, and kept until the archive has newer
//! ones. Nothing is installed, and nothing needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use anyhow::{Context, Result, bail};

/// The metapackage that depends on the newest kernel. The kernel for clouds has no soft RoCE.
const KERNEL: &str = "linux-image-amd64";
/// The packages of what runs in a guest. The libraries that these depend on come with them.
const PROGRAMS: [&str; 4] = ["busybox-static", "iproute2", "ibverbs-utils", "ibverbs-providers"];
/// The programs that fetch and unpack.
const TOOLS: [&str; 3] = ["apt-cache", "apt-get", "dpkg-deb"];
/// The file that names what has been unpacked; it is written last.
const CONTENTS: &str = "contents";

/// Returns what is missing here, if anything is.
pub(super) fn missing() -> Option<Outcome> {
    let tool = TOOLS.iter().find(|tool| !shell::has(tool))?;
    Some(Outcome::Skipped { why: format!("no {tool}"), enable: "a Debian machine".into() })
}

/// The unpacked packages.
#[derive(Debug)]
pub(super) struct Packages {
    /// The folder that is `/` to them.
    pub(super) root: PathBuf,
}

impl Packages {
    /// Fetches what is not here yet.
    pub(super) fn fetch(target: &Path) -> Result<Self> {
        let mut names = vec![kernel()?];
        names.extend(with_libraries(&PROGRAMS)?);
        // One line a package, with its version and its checksum.
        let contents = archive(&["download", "--print-uris"], &names, target)?;
        let folder = target.join("verbs");
        let packages = Self { root: folder.join("root") };
        if fs::read_to_string(folder.join(CONTENTS)).is_ok_and(|there| there == contents) {
            return Ok(packages);
        }
        eprintln!("fetching {} packages of Debian, {}", names.len(), size(&contents));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
        fs::create_dir_all(&packages.root).with_context(|| format!("making {}", packages.root.display()))?;
        archive(&["download", "-q"], &names, &folder)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                shell::output(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&packages.root))?;
                fs::remove_file(&path)?;
            }
        }
        fs::write(folder.join(CONTENTS), contents)?;
        Ok(packages)
    }

    /// The kernel, and the folder of its modules.
    pub(super) fn kernel(&self) -> Result<(PathBuf, PathBuf)> {
        let modules = ["usr/lib/modules", "lib/modules"].map(|path| self.root.join(path));
        let entry = modules.iter().find_map(|path| fs::read_dir(path).ok()?.next()?.ok());
        let Some(folder) = entry.map(|entry| entry.path()) else {
            bail!("the package of the kernel has no modules");
        };
        let version = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((self.root.join("boot").join(format!("vmlinuz-{version}")), folder))
    }

    /// A program of theirs.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let folders = ["usr/bin", "usr/sbin", "bin", "sbin"];
        folders.iter().map(|folder| self.root.join(folder).join(name)).find(|path| path.is_file())
    }
}

/// The package that the metapackage of the kernel stands for.
fn kernel() -> Result<String> {
    let text = shell::output(Command::new("apt-cache").args(["depends", "--important", KERNEL]))
        .with_context(|| unknown(KERNEL))?;
    let name = text.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    name.map(Into::into).with_context(|| unknown(KERNEL))
}

/// The packages with the libraries among those that they depend on: what else these name is for
/// those that install them.
fn with_libraries(names: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--recurse", "--important", "--no-conflicts", "--no-breaks", "--no-replaces"]);
    let text = shell::output(command.args(names)).with_context(|| unknown(&names.join(" ")))?;
    Ok(wanted(&text, names))
}

/// Returns what of a list of dependencies is to be unpacked: one line a package, indented lines for
/// what it depends on.
fn wanted(text: &str, names: &[&str]) -> Vec<String> {
    let is_library = |name: &str| name.starts_with("lib") || name.starts_with("zlib");
    let packages = text.lines().filter(|line| !line.starts_with([' ', '|', '<']) && !line.contains(':'));
    let mut wanted: Vec<String> =
        packages.filter(|name| is_library(name) || names.contains(name)).map(Into::into).collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

/// Runs apt-get on packages; what it does not know is named in the error.
fn archive(arguments: &[&str], names: &[String], folder: &Path) -> Result<String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).args(names).current_dir(folder);
    shell::output(&mut command).with_context(|| {
        let (first, rest) = names.split_first().map_or(("", 0), |(first, rest)| (first.as_str(), rest.len()));
        format!(
            "fetching {first} and {rest} packages more; `apt-get update` brings the lists of what there is"
        )
    })
}

fn unknown(name: &str) -> String {
    format!("no package {name} is known here; `apt-get update` brings the lists of what there is")
}

/// The sum of sizes in a list of addresses: address, file, size, checksum.
fn size(contents: &str) -> String {
    let sizes = contents.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<u64>().ok());
    format!("{:.0} MB", sizes.sum::<u64>() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_along_and_nothing_else_does() {
        let text = "iproute2\n  Depends: debconf\n |Depends: <x>\n  Depends: libmnl0\nlibmnl0\ndebconf\n<debconf-2.0>\nlibc6:i386\nzlib1g\nlibmnl0\n";
        assert_eq!(wanted(text, &["iproute2"]), ["iproute2", "libmnl0", "zlib1g"]);
    }

    #[test]
    fn sizes_are_added_up() {
        let contents =
            "'http://x/a.deb' a.deb 1500000 SHA256:00\n'http://x/b.deb' b.deb 70000000 SHA256:00\n";
        assert_eq!(size(contents), "72 MB");
    }
}
