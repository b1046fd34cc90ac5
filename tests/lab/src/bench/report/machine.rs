//! The facts of what was measured on and with: the machine, its state, and versions.

use std::fs::read_to_string;
use std::process::Command;

use aldis_shell::shell;
use aldis_shell::workspace;

use super::super::implementation::Implementation;

/// Lines of "what: which".
pub(crate) fn facts(cores: [usize; 2], wanted: &[Implementation]) -> Vec<(String, String)> {
    let mut facts = vec![
        ("date (UTC)".into(), said("date", &["-u", "+%F %R"])),
        ("processor".into(), field("/proc/cpuinfo", "model name")),
        ("cores".into(), format!("{} in the machine; ranks on {} and {}", cores_there(), cores[0], cores[1])),
        ("hypervisor".into(), hypervisor()),
        ("memory".into(), field("/proc/meminfo", "MemTotal")),
        ("kernel".into(), said("uname", &["-sr"])),
        ("tree".into(), tree()),
        ("rustc".into(), said("rustc", &["--version"])),
    ];
    for &which in wanted.iter().filter(|one| Implementation::PEERS.contains(one)) {
        facts.push((which.name().into(), version(which)));
    }
    facts
}

/// The load of the last minute, by others too.
pub(crate) fn load() -> String {
    read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().map(String::from))
        .unwrap_or_else(|| "unknown".into())
}

fn cores_there() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn hypervisor() -> String {
    let flags = field("/proc/cpuinfo", "flags");
    if flags.split(' ').any(|flag| flag == "hypervisor") { "yes".into() } else { "no".into() }
}

fn tree() -> String {
    let folder = workspace::checkout().to_string_lossy().into_owned();
    let commit = said("git", &["-C", &folder, "rev-parse", "--short", "HEAD"]);
    let changed = said("git", &["-C", &folder, "status", "--porcelain", "--untracked-files=no"]);
    if changed.is_empty() { commit } else { format!("{commit} with changes") }
}

fn version(which: Implementation) -> String {
    if !which.packages().is_empty() {
        return format!("{} of PyPI", which.packages().join(", "));
    }
    if which == Implementation::Iceoryx {
        return "iceoryx2 0.10.0 of crates.io".into();
    }
    let packages: &[&str] = match which {
        Implementation::OpenMpi4 => &["openmpi-bin"],
        Implementation::Mpich4 => &["mpich", "libucx0"],
        Implementation::Ucx => &["ucx-utils"],
        Implementation::Gloo => &["libgloo0"],
        _ => &[],
    };
    let version = |package: &&str| {
        let known = said("dpkg-query", &["--show", "--showformat=${Version}", package]);
        format!("{package} {}", if known.is_empty() { "of unknown version".into() } else { known })
    };
    packages.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// The first line that a program says, or nothing.
fn said(program: &str, words: &[&str]) -> String {
    let text = shell::output(Command::new(program).args(words)).unwrap_or_default();
    text.lines().next().unwrap_or("").trim().into()
}

/// The value of `name: value` in a file of /proc.
fn field(path: &str, name: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    let found = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name);
    found.map_or_else(|| "unknown".into(), |(_, value)| value.trim().into())
}
