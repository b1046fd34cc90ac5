//! Compilers found on this machine, and building core from the source that one brings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::provision::{self, Lock, Part};
use crate::workspace::{self, RustVersion};
use crate::{compiles, shell};

/// The packages that bring a compiler with the library's source on Debian, and the linker for
/// images.
pub(super) const DEBIAN_PACKAGES: &str = "rustc-web cargo-web rust-web-src lld";

/// The library that is built from source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Library {
    /// The library that firmware links: core and compiler_builtins alone.
    Core,
    /// A `core` for images that are only run in emulators: not optimised by itself, it is with the
    /// image that links it. A third of the work.
    CoreToEmulate,
    /// The same for `cargo check`, which reads its metadata alone: not optimised, so that it is
    /// built soonest. Nothing that is measured or shipped may link it.
    CoreToCheck,
    /// The library that a unikernel links, in emulators alone: core as for those, and what needs a
    /// heap. Its core serves the images without one.
    AllocToEmulate,
    /// The library that programs under an operating system link; what goes wrong in them is told
    /// without a backtrace, whose reader is a third of the work.
    Std,
    /// The same library, all of it, and the harness of tests.
    StdToTest,
}

impl Library {
    /// The crates that cargo is asked for, and their features.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Core | Self::CoreToEmulate | Self::CoreToCheck => &["-Zbuild-std=core"],
            Self::AllocToEmulate => &["-Zbuild-std=core,alloc"],
            Self::Std => &["-Zbuild-std=std,panic_unwind", "-Zbuild-std-features=panic-unwind"],
            Self::StdToTest => &["-Zbuild-std=std,panic_unwind,test"],
        }
    }

    /// Returns true if it is one that firmware links.
    pub(super) const fn is_core(self) -> bool {
        matches!(self, Self::Core | Self::CoreToEmulate | Self::CoreToCheck)
    }

    /// Returns the end of the names of the folders in which it is kept and shown, and images are
    /// built with it: a target may have a core alone and one with a heap.
    pub(super) const fn suffix(self) -> &'static str {
        if matches!(self, Self::AllocToEmulate) { "-with-alloc" } else { "" }
    }

    /// Returns the beginnings of the names of the files without which the library is not there.
    const fn needed(self) -> &'static [&'static str] {
        match self {
            Self::Core | Self::CoreToEmulate | Self::CoreToCheck => &["libcore-", "libcompiler_builtins-"],
            Self::AllocToEmulate => &["libcore-", "libcompiler_builtins-", "liballoc-"],
            Self::Std => &["libcore-", "libcompiler_builtins-", "libstd-"],
            Self::StdToTest => &["libcore-", "libcompiler_builtins-", "libstd-", "libtest-"],
        }
    }

    /// Returns true if a file is part of the library.
    fn has(self, file: &str) -> bool {
        match self {
            Self::Core | Self::CoreToEmulate | Self::CoreToCheck | Self::AllocToEmulate => {
                self.needed().iter().any(|part| file.starts_with(part))
            }
            // The crate for whose sake it is built is not.
            Self::Std | Self::StdToTest => file.starts_with("lib") && !file.starts_with("libempty-"),
        }
    }

    /// Firmware is measured with core as it ships, and checked with any; std only serves tests
    /// under an emulator, and is built soonest so.
    const fn opt_level(self) -> &'static str {
        match self {
            Self::Core => "3",
            Self::CoreToEmulate | Self::AllocToEmulate | Self::CoreToCheck | Self::Std | Self::StdToTest => {
                "0"
            }
        }
    }

    const fn flags(self) -> &'static str {
        match self {
            Self::Core => CORE_FLAGS,
            Self::CoreToEmulate | Self::AllocToEmulate => TO_EMULATE_FLAGS,
            Self::CoreToCheck | Self::Std | Self::StdToTest => "",
        }
    }

    /// Returns what the stamp of a library says behind the compiler's identity.
    const fn mark(self) -> &'static str {
        match self {
            Self::Core | Self::StdToTest => "",
            Self::Std => "to run",
            Self::CoreToEmulate | Self::AllocToEmulate => "to emulate",
            Self::CoreToCheck => "to check",
        }
    }

    /// Returns true if a library whose stamp says this serves as this one.
    fn is_served_by(self, mark: &str) -> bool {
        mark.is_empty()
            || mark == self.mark()
            || (self, mark) == (Self::CoreToCheck, Self::CoreToEmulate.mark())
    }
}

/// Core as the toolchains ship it, with bitcode for link-time optimisation, and with its frames
/// stated for `cargo xtask size`.
const CORE_FLAGS: &str = "-Cembed-bitcode=yes -Zemit-stack-sizes";

/// Bitcode alone, as cargo has it of all that is optimised when it is linked: code for the target
/// is generated then, and what was generated before would be thrown away.
const TO_EMULATE_FLAGS: &str = "-Clinker-plugin-lto";

/// The file that says which compiler built a core; written last, so that its presence means
/// complete.
const STAMP: &str = "rustc-vV";

/// A rustc, not rustup's proxy for one.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) rustc: PathBuf,
    pub(super) sysroot: PathBuf,
    pub(super) host: String,
    pub(super) release: String,
    /// All that `rustc -vV` says: the compiler's identity.
    identity: String,
}

impl Provider {
    /// Asks a rustc for its version, host and sysroot.
    pub(super) fn probe(rustc: &Path) -> Result<Self> {
        let sysroot = shell::output(Command::new(rustc).args(["--print", "sysroot"]))?;
        let sysroot = PathBuf::from(sysroot.trim());
        let behind = sysroot.join("bin/rustc");
        let rustc = if behind.is_file() { behind } else { rustc.to_path_buf() };
        let identity = shell::output(Command::new(&rustc).arg("-vV"))?;
        let field = |name: &str| {
            let value = identity.lines().find_map(|line| line.strip_prefix(name));
            value.map(|value| value.trim().to_owned()).with_context(|| format!("`rustc -vV` has no {name}"))
        };
        Ok(Self { rustc, sysroot, host: field("host:")?, release: field("release:")?, identity })
    }

    /// The rustc that a plain `cargo build` would use.
    pub(super) fn in_path() -> Option<Self> {
        let named = std::env::var_os("RUSTC").map(PathBuf::from);
        Self::probe(&named.unwrap_or_else(|| PathBuf::from("rustc"))).ok()
    }

    /// Every compiler here that can build core and is not older than `oldest`: those of the search
    /// path, then rustup's.
    pub(super) fn with_source(oldest: RustVersion) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for rustc in shell::all_in_path("rustc").into_iter().chain(rustup_compilers()) {
            let Ok(provider) = Self::probe(&rustc) else { continue };
            let known = found.iter().any(|other| other.sysroot == provider.sysroot);
            let new_enough = RustVersion::parse(&provider.release).is_some_and(|version| version >= oldest);
            if !known && new_enough && provider.has_source() {
                found.push(provider);
            }
        }
        found
    }

    fn library(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library")
    }

    /// Core's source, and the crates without which cargo does not read the library's lock file.
    fn has_source(&self) -> bool {
        self.library().join("core/Cargo.toml").is_file() && self.library().join("vendor").is_dir()
    }

    /// A folder name of its own, also when core comes to be built in another way.
    pub(super) fn slug(&self) -> String {
        // FNV-1a (Fowler, Noll, Vo): stable across builds of xtask, unlike the standard library's
        // hash.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let flags = [CORE_FLAGS, TO_EMULATE_FLAGS].into_iter().flat_map(str::bytes);
        let hash = self.identity.bytes().chain(flags).fold(0xCBF2_9CE4_8422_2325, fold);
        format!("{}-{:08x}", self.release, hash >> 32)
    }

    /// The folder of this compiler's library for `target`, if it has one.
    pub(super) fn library_of(&self, library: Library, target: &str) -> Option<PathBuf> {
        let folder = self.sysroot.join("lib/rustlib").join(target).join("lib");
        files(library, &folder).is_ok().then_some(folder)
    }

    /// Returns true if this very compiler has built a library there that serves as this one: a core
    /// to link can be checked with.
    pub(super) fn has_built(&self, library: Library, folder: &Path) -> bool {
        let serves = |stamp: &str| {
            let mark = stamp.strip_prefix(&self.identity);
            mark.is_some_and(|mark| library.is_served_by(mark))
        };
        fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| serves(&stamp))
    }

    /// Builds a library for each of the targets from this compiler's source into a folder of that
    /// name in `folder`. Core takes half a minute and 95 MB, std a minute. The caller holds the
    /// lock of all sysroots; each library is moved to where it is kept when it is whole.
    pub(super) fn build(&self, library: Library, targets: &[&str], folder: &Path, lock: &Lock) -> Result<()> {
        let names = targets.join(", ");
        eprintln!("  building {library:?} for {names} with {} (once)", self.rustc.display());
        let part = Part::of(folder, lock)?;
        let scratch = part.path();
        let cargo_home = self.write_empty_crate(scratch)?;
        let mut cargo = self.cargo();
        cargo.args(["build", "--quiet", "--offline", "--release"]).args(library.options());
        for target in targets {
            cargo.args(["--target", target]);
        }
        cargo
            .current_dir(scratch)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &self.rustc)
            .env("CARGO_HOME", cargo_home)
            .env("CARGO_TARGET_DIR", scratch.join("target"))
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", library.opt_level())
            // As the toolchains ship it, and a fifth less work than sixteen of them.
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
            .env("RUSTFLAGS", library.flags())
            .env_remove("RUSTUP_TOOLCHAIN");
        compiles::note_alone(&mut cargo);
        shell::output(&mut cargo).with_context(|| format!("building {library:?} for {names}"))?;
        fs::create_dir_all(folder)?;
        for target in targets {
            let (built, whole) = (scratch.join("target").join(target), scratch.join("whole").join(target));
            fs::create_dir_all(&whole)?;
            for file in files(library, &built.join("release/deps"))? {
                let Some(name) = file.file_name() else { continue };
                fs::rename(&file, whole.join(name))?;
            }
            fs::write(whole.join(STAMP), format!("{}{}", self.identity, library.mark()))?;
            provision::keep(&whole, &folder.join(target), lock)?;
        }
        Ok(())
    }

    /// The cargo that belongs to this compiler: `-Zbuild-std` binds the two together.
    fn cargo(&self) -> Command {
        let own = self.sysroot.join("bin/cargo");
        if own.is_file() { Command::new(own) } else { workspace::cargo() }
    }

    /// A crate with nothing in it, and a cargo home in which the library's vendored crates are
    /// crates.io.
    fn write_empty_crate(&self, folder: &Path) -> Result<PathBuf> {
        let home = folder.join("home");
        fs::create_dir_all(folder.join("src"))?;
        fs::create_dir_all(&home)?;
        let manifest =
            "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/lib.rs"), "#![no_std]\n")?;
        let vendor = fs::canonicalize(self.library().join("vendor"))?;
        let config = format!(
            "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = {vendor:?}\n"
        );
        fs::write(home.join("config.toml"), config)?;
        Ok(home)
    }
}

/// The rlibs and metadata of a library in a folder.
pub(super) fn files(library: Library, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if library.has(&name) && (name.ends_with(".rlib") || name.ends_with(".rmeta")) {
            files.push(path);
        }
    }
    let has = |part: &str| files.iter().any(|file| file.display().to_string().contains(part));
    if !library.needed().iter().all(|part| has(part)) {
        bail!("{} holds no {library:?}", folder.display());
    }
    Ok(files)
}

/// The compilers that rustup has installed.
fn rustup_compilers() -> Vec<PathBuf> {
    let home = std::env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")));
    let Some(entries) = home.and_then(|home| fs::read_dir(home.join("toolchains")).ok()) else {
        return Vec::new();
    };
    let mut compilers: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("bin/rustc")).collect();
    compilers.retain(|rustc| rustc.is_file());
    compilers.sort();
    compilers
}
