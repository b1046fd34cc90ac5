//! `cargo xtask endian`: a job of this machine and an emulated one of another kind, which exchange
//! typed data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::toolchain::{Finder, FoundToolchain, Toolchain};
use aldis_shell::workspace::{self, Workspace};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

/// A foreign Linux machine, and what runs its programs here.
struct Machine {
    target: &'static str,
    emulator: &'static str,
    linker: &'static str,
    /// Its libraries.
    root: &'static str,
    /// The packages that bring all this on Debian.
    packages: &'static str,
}

/// Big-endian, with words of eight bytes.
const S390X: Machine = Machine {
    target: "s390x-unknown-linux-gnu",
    emulator: "qemu-s390x",
    linker: "s390x-linux-gnu-gcc",
    root: "/usr/s390x-linux-gnu",
    packages: "qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross",
};

/// Little-endian, with words of four bytes, as microcontrollers have them.
const ARM: Machine = Machine {
    target: "armv7-unknown-linux-gnueabihf",
    emulator: "qemu-arm",
    linker: "arm-linux-gnueabihf-gcc",
    root: "/usr/arm-linux-gnueabihf",
    packages: "qemu-user gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
};

/// A machine to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum MachineChoice {
    /// Big-endian, words of eight bytes
    S390x,
    /// Little-endian, words of four bytes
    Arm,
}

impl MachineChoice {
    const fn machine(self) -> &'static Machine {
        match self {
            Self::S390x => &S390X,
            Self::Arm => &ARM,
        }
    }
}

/// The packages whose own tests the emulated machine can run.
const SUITES: [&str; 4] = ["aldis-hal", "aldis-protocols", "aldis-kernel", "aldis-endian"];

/// Runs a job of two processes, one native and one of an emulated machine of another kind, that
/// exchange typed data.
///
/// The two share a cable of Ethernet frames and send each other vectors, structures and words by
/// every protocol, both ways; each verifies what it gets to the last byte. The machine is s390x, of
/// the other byte order, or arm, whose words have another width. Needs qemu-user, the cross linker
/// and the target's library: an installed rustup target, or a rustc with library source, from which
/// std is built once (two minutes, kept in the target folder). Nothing is downloaded; without them
/// the job is skipped.
#[derive(Args)]
pub struct Endian {
    /// The emulated machine; `cargo xtask test` runs the first
    #[arg(long, value_enum, default_value = "s390x")]
    machine: MachineChoice,
    /// Run the tests of hal, protocols, kernel and the network card on the emulated machine instead
    /// (some minutes)
    #[arg(long)]
    suites: bool,
    /// A skipped job is a failure
    #[arg(long)]
    require: bool,
}

impl Endian {
    pub(crate) fn run(self) -> Result<()> {
        let workspace = Workspace::members()?;
        let machine = self.machine.machine();
        let outcome = if self.suites { suites(&workspace, machine) } else { job(&workspace, machine) };
        println!("endian: {}", Outcome::spell(&outcome));
        match outcome? {
            Outcome::Skipped { .. } if self.require => bail!("skipped, and --require allows none"),
            Outcome::Passed(_) | Outcome::Skipped { .. } => Ok(()),
        }
    }
}

/// The step of `cargo xtask test`.
pub fn step(workspace: &Workspace) -> Result<Outcome> {
    job(workspace, &S390X)
}

/// Returns the toolchain that the machine needs, or how to get what is missing.
fn prepare(
    workspace: &Workspace,
    machine: &Machine,
    find: fn(&Finder, &str) -> Result<FoundToolchain>,
) -> Result<Result<Toolchain, Outcome>> {
    let skipped = |why: String, enable: String| Ok(Err(Outcome::Skipped { why, enable }));
    for program in [machine.emulator, machine.linker] {
        if !shell::has(program) {
            return skipped(format!("no {program}"), format!("apt-get install {}", machine.packages));
        }
    }
    match find(&Finder::new(workspace)?, machine.target)? {
        FoundToolchain::Toolchain(toolchain) => Ok(Ok(*toolchain)),
        FoundToolchain::Missing { enable } => skipped(format!("no std for {}", machine.target), enable),
    }
}

/// A cargo command for the machine.
fn cargo(toolchain: &Toolchain, machine: &Machine, subcommand: &str) -> Command {
    let mut cargo = toolchain.cargo_with(subcommand, "dev");
    cargo
        .env(toolchain.variable("LINKER"), machine.linker)
        .env(toolchain.variable("RUNNER"), format!("{} -L {}", machine.emulator, machine.root));
    cargo
}

fn suites(workspace: &Workspace, machine: &Machine) -> Result<Outcome> {
    let toolchain = match prepare(workspace, machine, Finder::find_hosted_to_test)? {
        Ok(toolchain) => toolchain,
        Err(skipped) => return Ok(skipped),
    };
    eprintln!("  {}: {toolchain}", machine.target);
    let mut cargo = cargo(&toolchain, machine, "test");
    cargo.args(["--no-fail-fast", "--tests"]);
    for package in SUITES {
        cargo.args(["-p", package]);
    }
    shell::run(&mut cargo)?;
    Ok(Outcome::Passed(format!("the tests of {} on {}", SUITES.join(", "), machine.target)))
}

fn job(workspace: &Workspace, machine: &Machine) -> Result<Outcome> {
    let toolchain = match prepare(workspace, machine, Finder::find_hosted)? {
        Ok(toolchain) => toolchain,
        Err(skipped) => return Ok(skipped),
    };
    eprintln!("  {}: {toolchain}", machine.target);
    shell::run(cargo(&toolchain, machine, "build").args(["-p", "aldis-endian"]))?;
    // With the examples of the workspace, and so with the features that all was built with for the
    // tests.
    shell::run(workspace::examples().args(["--bin", "aldis-endian"]))?;
    let cable = Cable::lay()?;
    let mut native = Command::new(workspace.target.join("debug/aldis-endian"));
    let mut foreign = Command::new(machine.emulator);
    foreign.args(["-L", machine.root]).arg(toolchain.artifacts_of("debug").join("aldis-endian"));
    let foreign = RankProcess::start(foreign.arg("1").arg(&cable.folder))?;
    let native = RankProcess::start(native.arg("0").arg(&cable.folder))?;
    let (native, foreign) = (native.finish("native"), foreign.finish(machine.target));
    let (native, foreign) = (native?, foreign?);
    judge(&native, &foreign)
}

/// Both must have verified everything, on machines that differ, and come to the same values.
fn judge(native: &str, foreign: &str) -> Result<Outcome> {
    let field = |verdict: &str, key: &str| {
        let found = verdict.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.map(String::from).with_context(|| format!("no {key} in `{verdict}`"))
    };
    let kind = |verdict| Ok::<_, anyhow::Error>((field(verdict, "order")?, field(verdict, "words")?));
    if kind(native)? == kind(foreign)? {
        bail!("both machines are of one kind: {native}; {foreign}");
    }
    for key in ["digest", "messages"] {
        if field(native, key)? != field(foreign, key)? {
            bail!("the two disagree in {key}: {native}; {foreign}");
        }
    }
    Ok(Outcome::Passed(format!(
        "{} typed messages, digest {}",
        field(native, "messages")?,
        field(native, "digest")?
    )))
}

/// A folder in which what goes into one member's port comes out of the other's: a switch of two
/// ports, made of names.
struct Cable {
    folder: PathBuf,
}

impl Cable {
    fn lay() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("aldis-endian-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        let cable = Self { folder };
        for (port, member) in [(0, 1), (1, 0)] {
            let port = cable.folder.join(format!("port{port}.sock"));
            std::os::unix::fs::symlink(Path::new(&format!("member{member}.sock")), port)?;
        }
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Only names are left if this fails, in the system's folder for such.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A rank under way; ended with this value if it has not ended itself.
struct RankProcess(Child);

impl RankProcess {
    fn start(command: &mut Command) -> Result<Self> {
        let line = shell::spell(command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Ok(Self(child.with_context(|| format!("starting `{line}`"))?))
    }

    /// Its verdict. It gives up by itself when the other rank is silent for too long.
    fn finish(mut self, name: &str) -> Result<String> {
        let mut text = String::new();
        if let Some(stdout) = self.0.stdout.as_mut() {
            std::io::Read::read_to_string(stdout, &mut text)?;
        }
        let status = self.0.wait()?;
        let last = text.lines().last().unwrap_or_default();
        eprintln!("  [{name}] {last}");
        match last.strip_prefix("verdict: OK ") {
            Some(verdict) if status.success() => Ok(verdict.into()),
            _ => bail!("{name}: {status}, {last}"),
        }
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        // It has mostly ended long ago.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unlike_machines_that_agree_are_good() {
        let verdict = |order, words, digest| {
            format!("endian rank=0 order={order} words={words} messages=9 digest={digest}")
        };
        let good = verdict("Little", "Eight", "1f");
        assert!(judge(&good, &verdict("Big", "Eight", "1f")).is_ok());
        assert!(judge(&good, &verdict("Little", "Four", "1f")).is_ok());
        let (same, other) = (verdict("Little", "Eight", "1f"), verdict("Big", "Four", "2f"));
        for bad in [same, other, "endian".into()] {
            assert!(judge(&good, &bad).is_err(), "{bad}");
        }
    }
}
