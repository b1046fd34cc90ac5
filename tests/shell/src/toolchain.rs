//! The source of a bare-metal target's `libcore` and of a foreign Linux target's `libstd`, and the
//! way cargo is made to build with it.
//!
//! For each target, in this order:
//!
//! 1. `ALDIS_RUSTC_<TARGET>` (upper case, `-` as `_`) names a rustc that has the target's core;
//! 2. `rustc` in the search path has it (`rustup target add`);
//! 3. a core that was built before from 4's source by the very same compiler, kept in the target
//!    folder;
//! 4. any rustc that comes with the library's source and its vendored dependencies (Debian's
//!    `rustc-web` with `rust-web-src`): core is built from it, once;
//! 5. for `x86_64-unknown-none` alone, the core of a hosted x86_64 target: other calling
//!    conditions, the same code;
//! 6. none: the target is skipped, with a line that says how to enable it.
//!
//! Nothing is ever downloaded. Wherever it comes from, the firmware sees a sysroot that holds core
//! and compiler_builtins *alone*: a crate of the build that named `alloc` or `std` could not be
//! compiled. An image with a unikernel, which has a heap, is built apart, and sees `alloc` too.

use core::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::provision::Lock;
use crate::workspace::{self, Workspace};
use crate::{compiles, shell};

mod provider;

use provider::{Library, Provider};

/// A target that can be built.
#[derive(Debug)]
pub struct Toolchain {
    /// The triple that cargo is given as `--target`.
    triple: String,
    origin: Origin,
    provider: Provider,
    /// The rustc that shows the target core alone.
    wrapper: PathBuf,
    /// The folder that cargo builds to: one folder a compiler, so that they do not undo each
    /// other's work.
    build: PathBuf,
}

/// The origin of the target's core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Override,
    Installed,
    Cached,
    Provisioned,
    Hosted,
}

/// The answer to "how can this target be built here?".
#[derive(Debug)]
pub enum FoundToolchain {
    /// By this one.
    Toolchain(Box<Toolchain>),
    /// Not at all; how to change that.
    Missing {
        /// The command that brings it.
        enable: String,
    },
}

/// The compilers in which a target's core is searched, and the folder that it is built to.
#[derive(Debug)]
pub struct Finder {
    target_folder: PathBuf,
    in_path: Option<Provider>,
    with_source: Vec<Provider>,
}

/// A library of a target, and the folder that it stands in.
#[derive(Clone, Copy)]
struct FoundLibrary<'a> {
    library: Library,
    folder: &'a Path,
}

impl Finder {
    /// Looks for compilers.
    pub fn new(workspace: &Workspace) -> Result<Self> {
        let oldest = workspace.rust_version()?;
        Ok(Self {
            target_folder: workspace.target.clone(),
            in_path: Provider::in_path(),
            with_source: Provider::with_source(oldest),
        })
    }

    /// Finds or provisions the target's core and prepares the sysroot that shows nothing else.
    pub fn find(&self, target: &str) -> Result<FoundToolchain> {
        self.one(Library::Core, target)
    }

    /// Like [`find`](Self::find) for several targets: what has to be built for them is built at
    /// once.
    pub fn find_all(&self, targets: &[&str]) -> Result<Vec<FoundToolchain>> {
        self.all(Library::Core, targets)
    }

    /// Like [`find_all`](Self::find_all), for images that are only run in emulators: a core that is
    /// built for this is optimised with the image alone, and no size with it is that of one that
    /// ships.
    pub fn find_all_to_emulate(&self, targets: &[&str]) -> Result<Vec<FoundToolchain>> {
        self.all(Library::CoreToEmulate, targets)
    }

    /// Like [`find_all`](Self::find_all), for targets that nothing is linked for: a core that is
    /// built for this is not optimised, and serves `cargo check` alone.
    pub fn find_all_to_check(&self, targets: &[&str]) -> Result<Vec<FoundToolchain>> {
        self.all(Library::CoreToCheck, targets)
    }

    /// Finds or provisions a target's core and alloc, for a unikernel that is only emulated.
    /// Asked for before its core alone, it is built once for both.
    pub fn find_with_alloc_to_emulate(&self, target: &str) -> Result<FoundToolchain> {
        self.one(Library::AllocToEmulate, target)
    }

    /// Finds or provisions the whole library of a target with an operating system: rustup's, or
    /// built from source.
    pub fn find_hosted(&self, target: &str) -> Result<FoundToolchain> {
        self.one(Library::Std, target)
    }

    /// Like [`find_hosted`](Self::find_hosted), with the harness of tests.
    pub fn find_hosted_to_test(&self, target: &str) -> Result<FoundToolchain> {
        self.one(Library::StdToTest, target)
    }

    fn one(&self, library: Library, target: &str) -> Result<FoundToolchain> {
        self.all(library, &[target])?.pop().context("an answer for each target")
    }

    fn all(&self, library: Library, targets: &[&str]) -> Result<Vec<FoundToolchain>> {
        // Steps that run beside each other want the same targets, so all that is made here is made
        // under one lock.
        let purpose = format!("preparing {library:?} for {}", targets.join(", "));
        let lock = Lock::take(&self.target_folder.join("sysroots"), &purpose)?;
        let given = targets.iter().map(|target| self.given(library, target)).collect::<Result<Vec<_>>>()?;
        let without = targets.iter().zip(&given).filter(|(_, given)| given.is_none());
        let without: Vec<&str> = without.map(|(target, _)| *target).collect();
        let built = self.provision(library, &without, &lock)?;
        let each = targets.iter().zip(given);
        each.map(|(target, given)| match given {
            Some((provider, origin, found)) => {
                self.prepare(provider, target, origin, FoundLibrary { library, folder: &found })
            }
            None => self.answer(library, target, &built),
        })
        .collect()
    }

    /// Returns the library of a target that was not given one, once the targets `built` have got
    /// theirs.
    fn answer(&self, library: Library, target: &str, built: &[&str]) -> Result<FoundToolchain> {
        if let Some(provider) = self.with_source.first() {
            let origin = if built.contains(&target) { Origin::Provisioned } else { Origin::Cached };
            let found = self.built(library, provider, target);
            return self.prepare(provider.clone(), target, origin, FoundLibrary { library, folder: &found });
        }
        let hosted = self.in_path.as_ref().filter(|one| one.host.starts_with("x86_64-"));
        if let (Some(provider), true, "x86_64-unknown-none") = (hosted, library.is_core(), target)
            && let Some(core) = provider.library_of(library, &provider.host)
        {
            return self.prepare(
                provider.clone(),
                &provider.host,
                Origin::Hosted,
                FoundLibrary { library, folder: &core },
            );
        }
        let enable = format!("rustup target add {target}, or apt-get install {}", provider::DEBIAN_PACKAGES);
        Ok(FoundToolchain::Missing { enable })
    }

    /// A library that need not be built: that of the compiler that a variable names, or of the one
    /// in the search path.
    fn given(&self, library: Library, target: &str) -> Result<Option<(Provider, Origin, PathBuf)>> {
        let variable = format!("ALDIS_RUSTC_{}", capitals(target));
        if let (true, Some(rustc)) = (library.is_core(), std::env::var_os(&variable)) {
            let provider = Provider::probe(Path::new(&rustc)).with_context(|| variable.clone())?;
            let Some(core) = provider.library_of(library, target) else {
                bail!("{variable} has no core for {target}")
            };
            return Ok(Some((provider, Origin::Override, core)));
        }
        let in_path = self.in_path.as_ref();
        Ok(in_path.and_then(|one| Some((one.clone(), Origin::Installed, one.library_of(library, target)?))))
    }

    /// Builds the library for those of these targets for which that is still to be done, if there
    /// is source; which they are.
    fn provision<'t>(&self, library: Library, targets: &[&'t str], lock: &Lock) -> Result<Vec<&'t str>> {
        let Some(provider) = self.with_source.first() else { return Ok(Vec::new()) };
        let has_none = |target: &&str| !provider.has_built(library, &self.built(library, provider, target));
        let lacking: Vec<&str> = targets.iter().copied().filter(has_none).collect();
        if !lacking.is_empty() {
            provider.build(library, &lacking, &self.folder("sysroots", library, provider), lock)?;
        }
        for target in &lacking {
            // What was built with the library that stood there before is of no use with this one.
            let alone = (library == Library::AllocToEmulate).then_some(Library::CoreToEmulate);
            for library in [library].into_iter().chain(alone) {
                let _ = fs::remove_dir_all(self.folder("firmware", library, provider).join(target));
            }
        }
        Ok(lacking)
    }

    /// Returns the folder in which the library built from source for a target is kept: of a core to
    /// emulate, where no core was built for the target, that of the one which was built with alloc.
    fn built(&self, library: Library, provider: &Provider, target: &str) -> PathBuf {
        let kept = |of| self.folder("sysroots", of, provider).join(target);
        let (own, with_alloc) = (kept(library), kept(Library::AllocToEmulate));
        let serves = |folder: &Path| provider.has_built(library, folder);
        if library == Library::CoreToEmulate && !serves(&own) && serves(&with_alloc) {
            return with_alloc;
        }
        own
    }

    fn folder(&self, kind: &str, library: Library, provider: &Provider) -> PathBuf {
        self.target_folder.join(kind).join(format!("{}{}", provider.slug(), library.suffix()))
    }

    /// Lays out the sysroot with that library alone and the rustc that uses it.
    fn prepare(
        &self,
        provider: Provider,
        triple: &str,
        origin: Origin,
        built: FoundLibrary<'_>,
    ) -> Result<FoundToolchain> {
        let sysroot = self.folder("bare", built.library, &provider).join(triple);
        let libraries = sysroot.join("lib/rustlib").join(triple).join("lib");
        link_alone(&provider::files(built.library, built.folder)?, &libraries)?;
        // One for all targets, so that cargo can build for several at once.
        let bare = self.folder("bare", built.library, &provider);
        let wrapper = bare.join("rustc");
        write_wrapper(&wrapper, &provider.rustc, &bare)?;
        let build = self.folder("firmware", built.library, &provider);
        Ok(FoundToolchain::Toolchain(Box::new(Toolchain {
            triple: triple.into(),
            origin,
            provider,
            wrapper,
            build,
        })))
    }
}

/// Makes a folder hold links to these files and nothing else. What stands as it should is not
/// touched: another process may be building with it.
fn link_alone(files: &[PathBuf], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let is_there = |link: &Path| {
        files.iter().any(|file| {
            file.file_name() == link.file_name() && fs::read_link(link).is_ok_and(|to| to == *file)
        })
    };
    for entry in fs::read_dir(folder)? {
        let link = entry?.path();
        if !is_there(&link) {
            fs::remove_file(link)?;
        }
    }
    for file in files {
        let link = folder.join(file.file_name().unwrap_or_default());
        if fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink(file, &link).with_context(|| format!("linking {}", link.display()))?;
        }
    }
    Ok(())
}

/// The option by which the compiler states the frames of functions. It is not stable: what is
/// compiled with it alone is allowed such, and cargo is not told, since build scripts that ask for
/// that would have all built anew.
pub const STACK_SIZES: &str = "-Zemit-stack-sizes";

/// Units for a target see its sysroot in the folder `bare`, with core alone; build scripts and
/// macros, which cargo compiles without `--target`, see all that the compiler brings.
fn write_wrapper(wrapper: &Path, rustc: &Path, bare: &Path) -> Result<()> {
    let (rustc, bare) = (rustc.display(), bare.display());
    let script = format!(
        r#"#!/bin/sh
target= before=
for word; do
  [ "$before" = --target ] && target=$word
  case "$word" in
    --target=*) target=${{word#--target=}} ;;
    {STACK_SIZES}) export RUSTC_BOOTSTRAP=1 ;;
  esac
  before=$word
done
[ -z "$target" ] || exec "{rustc}" --sysroot="{bare}/$target" "$@"
exec "{rustc}" "$@"
"#
    );
    write_script(wrapper, &script)
}

/// Writes a program that a shell reads.
///
/// # Errors
/// A file that cannot be written.
pub fn write_script(path: &Path, script: &str) -> Result<()> {
    // An unchanged script keeps its time stamp, and with it what cargo has built.
    if fs::read_to_string(path).is_ok_and(|old| old == script) {
        return Ok(());
    }
    // Moved into place when it is whole: another process may be executing the old one.
    let part = path.with_extension("part");
    fs::write(&part, script)?;
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&part, executable)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("making {} executable", path.display()))
}

/// Has cargo build a package that is only run in emulators: optimised as a whole when it is linked,
/// as firmware is, and not crate by crate before. In the profile and folder of firmware, so that
/// macros and build scripts are built once for both.
pub fn to_emulate<'c>(cargo: &'c mut Command, package: &str) -> &'c mut Command {
    let whole = format!("profile.firmware.package.{package}.opt-level=\"z\"");
    cargo.args(["--config", "profile.firmware.opt-level=0", "--config", &whole])
}

/// A target as it stands in the names of variables.
fn capitals(target: &str) -> String {
    target.to_uppercase().replace('-', "_")
}

/// Toolchains in groups of those that cargo can build for at once: the first of each, and the
/// others.
pub fn groups<'t>(toolchains: &[&'t Toolchain]) -> Vec<(&'t Toolchain, Vec<&'t Toolchain>)> {
    let mut groups: Vec<(&Toolchain, Vec<&Toolchain>)> = Vec::new();
    for toolchain in toolchains {
        match groups.iter_mut().find(|(first, _)| first.wrapper == toolchain.wrapper) {
            Some((_, others)) => others.push(toolchain),
            None => groups.push((toolchain, Vec::new())),
        }
    }
    groups
}

impl Toolchain {
    /// The target.
    pub fn triple(&self) -> &str {
        &self.triple
    }

    /// The variable by which cargo is told the target's `LINKER` or `RUNNER`.
    pub fn variable(&self, what: &str) -> String {
        format!("CARGO_TARGET_{}_{what}", capitals(&self.triple))
    }

    /// A cargo command that builds for this target with this compiler.
    pub fn cargo(&self, subcommand: &str) -> Command {
        self.cargo_with(subcommand, "firmware")
    }

    /// Returns a cargo command that builds for this target and for others of its [group](groups).
    pub fn cargo_for(&self, others: &[&Self], subcommand: &str) -> Command {
        let mut command = self.cargo(subcommand);
        for other in others {
            command.args(["--target", &other.triple]);
        }
        command
    }

    /// A cargo command that builds a package as a static library alone: it is optimised as a whole,
    /// which one that Rust links too is not. Cargo takes such an order for one target at a time.
    pub fn cargo_static(&self, package: &str) -> Command {
        let mut command = self.cargo("rustc");
        command.args(["-p", package, "--crate-type", "staticlib"]);
        command
    }

    /// [`cargo`](Self::cargo) with another profile.
    pub fn cargo_with(&self, subcommand: &str, profile: &str) -> Command {
        let mut command = workspace::cargo();
        command
            .arg(subcommand)
            .args(["--quiet", "--locked", "--profile", profile, "--target", &self.triple])
            .env("RUSTC", &self.wrapper)
            .env("CARGO_TARGET_DIR", &self.build);
        compiles::note_alone(&mut command);
        command
    }

    /// Returns true if the target has no operating system; the hosted core's has one by name.
    pub fn is_bare(&self) -> bool {
        self.origin != Origin::Hosted
    }

    /// Returns the folder into which cargo puts the artifacts of the profile `firmware`.
    pub fn artifacts(&self) -> PathBuf {
        self.artifacts_of("firmware")
    }

    /// Returns the folder into which cargo puts the artifacts of another profile, by the name of
    /// its folder.
    pub fn artifacts_of(&self, folder: &str) -> PathBuf {
        self.build.join(&self.triple).join(folder)
    }

    /// A linker for ELF: the compiler's own lld or the system's.
    pub fn linker(&self) -> Option<PathBuf> {
        let own = self.provider.sysroot.join("lib/rustlib").join(&self.provider.host).join("bin/rust-lld");
        if own.is_file() { Some(own) } else { shell::all_in_path("ld.lld").into_iter().next() }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = &self.provider.release;
        match self.origin {
            Origin::Override => write!(f, "rustc {release} by override"),
            Origin::Installed => write!(f, "rustc {release}, target installed"),
            Origin::Cached => write!(f, "rustc {release}, library built before"),
            Origin::Provisioned => write!(f, "rustc {release}, library built now"),
            Origin::Hosted => write!(f, "rustc {release}, hosted core of {}", self.triple),
        }
    }
}
