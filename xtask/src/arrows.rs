//! The dependency arrows of DESIGN.md section 1: which of the workspace's own crates may use which.
//! Dependencies of every kind count, also those of tests and build scripts; but tests of every
//! crate may use the code that tests share.

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{Package, Workspace, cargo};
use anyhow::{Result, bail};

/// A crate and the crates of the house that it may use.
type Floor = (&'static str, &'static [&'static str]);

/// The five crates without an operating system, the programs that run on them, what tests share,
/// and the host's.
const ALL: &[&str] = &[
    "aldis-hal",
    "aldis-protocols",
    "aldis-drivers",
    "aldis-kernel",
    "aldis-coll",
    "aldis-c",
    "aldis-programs",
    "aldis-kit",
    "aldis-sys",
    "aldis-records",
    "aldis-nic",
    "aldis-linux",
    "aldis-run",
    "aldis-sim",
    "aldis-mpi-table",
    "aldis-mpi",
    "aldis-mpi-tools",
    "aldis-bench",
];

/// The code that tests share: tests of every crate may use it, also of those that it uses itself.
const KIT: &str = "aldis-kit";

/// DESIGN.md section 1, from the ground up. `drivers` and `kernel` never import each other: they
/// meet at `hal::Transport`.
const HOUSE: &[Floor] = &[
    ("aldis-hal", &[]),
    ("aldis-protocols", &["aldis-hal"]),
    ("aldis-drivers", &["aldis-hal", "aldis-protocols"]),
    ("aldis-kernel", &["aldis-hal", "aldis-protocols"]),
    ("aldis-coll", &["aldis-kernel"]),
    ("aldis-c", &["aldis-hal", "aldis-protocols", "aldis-drivers", "aldis-kernel", "aldis-coll"]),
    ("aldis-programs", &["aldis-kernel", "aldis-coll"]),
    ("aldis-kit", &["aldis-hal", "aldis-kernel"]),
    ("aldis-sys", &[]),
    ("aldis-records", &["aldis-hal"]),
    ("aldis-nic", &["aldis-hal", "aldis-drivers", "aldis-sys"]),
    (
        "aldis-linux",
        &[
            "aldis-hal",
            "aldis-protocols",
            "aldis-drivers",
            "aldis-kernel",
            "aldis-coll",
            "aldis-programs",
            "aldis-records",
            "aldis-nic",
            "aldis-sys",
        ],
    ),
    ("aldis-run", &["aldis-hal", "aldis-coll", "aldis-sys", "aldis-nic", "aldis-linux"]),
    (
        "aldis-sim",
        &[
            "aldis-hal",
            "aldis-protocols",
            "aldis-drivers",
            "aldis-kernel",
            "aldis-coll",
            "aldis-sys",
            "aldis-nic",
            "aldis-linux",
        ],
    ),
    ("aldis-mpi-table", &[]),
    (
        "aldis-mpi",
        &["aldis-hal", "aldis-kernel", "aldis-coll", "aldis-sys", "aldis-linux", "aldis-mpi-table"],
    ),
    ("aldis-mpi-tools", &["aldis-sys", "aldis-linux", "aldis-run"]),
    ("aldis-bench", &["aldis-hal", "aldis-drivers", "aldis-kernel", "aldis-coll", "aldis-linux"]),
    ("aldis-tests", ALL),
    (
        "aldis-conformance",
        &[
            "aldis-hal",
            "aldis-protocols",
            "aldis-drivers",
            "aldis-kernel",
            "aldis-coll",
            "aldis-kit",
            "aldis-linux",
            "aldis-sim",
            "aldis-tests",
        ],
    ),
    ("aldis-endian", ALL),
    ("aldis-features", &[]),
    ("aldis-firmware", ALL),
    ("aldis-fuzz", ALL),
    ("aldis-board", ALL),
    ("aldis-trials", &["aldis-hal", "aldis-drivers", "aldis-kernel", "aldis-linux"]),
    ("aldis-shell", &[]),
    // The names of the calls, the grammar of plans, and the functions of MPI.
    ("aldis-lab", &["aldis-sys", "aldis-mpi-table", "aldis-shell"]),
    ("xtask", &["aldis-features", "aldis-shell", "aldis-lab", "aldis-sys"]),
];

/// A crate, and packages of the registry that nothing in it may lead to.
type Apart = (&'static str, &'static [&'static str]);

/// Packages that draw, show progress, read command lines or run coroutines, for tools: a program
/// that links a rank or the C interface has none of them.
const OF_TOOLS: &[&str] = &["clap", "plotters", "indicatif", "corosensei"];

/// The crates that programs link, without what is for tools.
const APART: &[Apart] = &[("aldis-linux", OF_TOOLS), ("aldis-mpi", OF_TOOLS)];

/// Fails with every arrow that the design does not have, and every package that is to be kept apart
/// from a crate and is not.
pub(crate) fn check() -> Result<Outcome> {
    let workspace = Workspace::members()?;
    let wrong: Vec<String> = workspace.packages.iter().flat_map(wrong_arrows).collect();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    let arrows = workspace.packages.iter().flat_map(own).count();
    for (name, without) in APART {
        let linked = linked(&tree(name)?, without);
        if !linked.is_empty() {
            bail!("{name} leads to {}; `cargo tree -p {name} -e normal` shows how", linked.join(", "));
        }
    }
    let apart: Vec<&str> = APART.iter().map(|(name, _)| *name).collect();
    Ok(Outcome::Passed(format!(
        "{} crates, {arrows} arrows, all downwards; {} without {}",
        workspace.packages.len(),
        apart.join(" and "),
        OF_TOOLS.join(", ")
    )))
}

/// The packages that a package is built from, one a line, as cargo tells them.
fn tree(name: &str) -> Result<String> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none", "--no-dedupe"]);
    shell::output(&mut tree)
}

/// Those of `without` that a tree names.
fn linked<'a>(tree: &str, without: &[&'a str]) -> Vec<&'a str> {
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    without.iter().copied().filter(|name| names.contains(name)).collect()
}

/// The crates of the house that a package uses, each once.
fn own(package: &Package) -> impl Iterator<Item = &str> {
    let counted = package.dependencies.iter().filter(|one| !(one.name == KIT && one.is_dev()));
    let mut names: Vec<&str> = counted.map(|dependency| dependency.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| HOUSE.iter().any(|(floor, _)| floor == name))
}

fn wrong_arrows(package: &Package) -> Vec<String> {
    let Some((_, allowed)) = HOUSE.iter().find(|(floor, _)| *floor == package.name) else {
        return vec![format!("{} has no floor in the house", package.name)];
    };
    own(package)
        .filter(|name| !allowed.contains(name))
        .map(|name| format!("{} -> {name} is not an arrow of DESIGN.md section 1", package.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aldis_shell::workspace::Dependency;

    fn package(name: &str, uses: &[&str]) -> Package {
        let dependencies = uses.iter().map(|name| Dependency { name: (*name).into(), kind: None }).collect();
        Package { name: name.into(), dependencies, ..Package::default() }
    }

    #[test]
    fn the_house_as_it_stands_has_no_wrong_arrow() {
        assert!(matches!(check(), Ok(Outcome::Passed(_))));
    }

    #[test]
    fn an_arrow_that_runs_back_is_named() {
        let wrong = wrong_arrows(&package("aldis-kernel", &["aldis-hal", "aldis-drivers", "spin"]));
        assert_eq!(wrong, ["aldis-kernel -> aldis-drivers is not an arrow of DESIGN.md section 1"]);
        assert_eq!(wrong_arrows(&package("aldis-hal", &["bitflags", "volatile"])), [""; 0]);
    }

    #[test]
    fn tests_alone_use_what_tests_share() {
        let mut kernel = package("aldis-kernel", &[KIT]);
        assert_eq!(
            wrong_arrows(&kernel),
            ["aldis-kernel -> aldis-kit is not an arrow of DESIGN.md section 1"]
        );
        kernel.dependencies[0].kind = Some("dev".into());
        assert_eq!(wrong_arrows(&kernel), [""; 0]);
    }

    #[test]
    fn a_package_that_is_to_be_apart_is_named() {
        let tree = "aldis-mpi v0.1.0 (/x)\naldis-linux v0.1.0\nclap v4.6.1\nclap_builder v4.6.0\n";
        assert_eq!(linked(tree, OF_TOOLS), ["clap"]);
        assert_eq!(linked("aldis-mpi v0.1.0\nclap_lex v1.0.0\n", OF_TOOLS), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_floor_is_named() {
        assert_eq!(wrong_arrows(&package("aldis-misc", &[])), ["aldis-misc has no floor in the house"]);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (height, (name, uses)) in HOUSE.iter().enumerate() {
            let below = HOUSE.iter().take(height).map(|(floor, _)| *floor).collect::<Vec<_>>();
            assert!(uses.iter().all(|one| below.contains(one)), "{name} uses what stands above it");
        }
    }
}
