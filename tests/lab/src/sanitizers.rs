//! The step `sanitizers`: the trials of "safe means sound", and the tests of what threads share,
//! under AddressSanitizer and ThreadSanitizer; and a planted defect that each of them has to find.
//! The stable toolchain has both at hand: their runtimes come with it.
//!
//! The standard library is the toolchain's own, which is not instrumented, so that no source of it
//! is needed. What it does to memory that it is given is seen all the same, and threads that are
//! joined; the trials join theirs.

use core::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aldis_shell::steps::Outcome;
use aldis_shell::workspace::{self, Workspace};
use aldis_shell::{harness, host_units, shell, toolchain};
use anyhow::{Context, Result, bail};

/// Tests of a package.
#[derive(Clone, Copy)]
struct Tests {
    package: &'static str,
    /// Cargo's options for the target and the features.
    options: &'static [&'static str],
    filters: &'static [&'static str],
}

/// Safe programs that attack, without those over sockets and segments of a host.
const TRIALS: Tests = Tests {
    package: "aldis-trials",
    options: &["--test", "safe", "--no-default-features", "--features", "planted-bugs"],
    filters: &[],
};

/// All of them.
const TRIALS_IN_FULL: Tests = Tests {
    package: "aldis-trials",
    options: &["--test", "safe", "--no-default-features", "--features", "aldis-trials/default,planted-bugs"],
    filters: &[],
};

/// Rings and shared tables between threads, with peers that lie, stop and let go.
const DRIVERS: Tests = Tests {
    package: "aldis-drivers",
    options: &["--lib", "--no-default-features"],
    filters: &["shm::", "direct::"],
};

/// Memory in the hands of a transport, looked at where it is, and in pieces: in one thread. Other
/// tests of the kernel are not built with `--cfg sanitized`.
const KERNEL: Tests = Tests {
    package: "aldis-kernel",
    options: &["--test", "kernel", "--no-default-features", "--features", "aldis-kernel/default"],
    filters: &["direct::", "view::", "typed::"],
};

/// Cases of a property test.
const CASES: u32 = 8;

/// A sanitizer, which one compiler flag turns on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sanitizer {
    Address,
    Thread,
}

impl fmt::Display for Sanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "AddressSanitizer",
            Self::Thread => "ThreadSanitizer",
        })
    }
}

/// Races that are none: the harness of tests waits in a library that is not instrumented.
/// By what is in the name of any function of a stack: nothing that a test itself runs in.
const SUPPRESSIONS: &str =
    "race:test::event::CompletedTest\nrace:Mutex<core::option::Option<test::run_test\n";

impl Sanitizer {
    /// The compiler's name for it.
    const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// The file name of its runtime ends so.
    const fn runtime(self) -> &'static str {
        match self {
            Self::Address => "_rt.asan.a",
            Self::Thread => "_rt.tsan.a",
        }
    }

    /// The filters of the planted trial that it has to find, and what it says of it.
    const fn planted(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Address => {
                (&["--ignored", "planted_use_after_free"], "AddressSanitizer: heap-use-after-free")
            }
            Self::Thread => (&["--ignored", "planted_race"], "ThreadSanitizer: data race"),
        }
    }

    fn flags(self) -> String {
        // The library's functions have another notion of what is instrumented; they are called as
        // ever.
        let other = if self == Self::Thread { " -Cunsafe-allow-abi-mismatch=sanitizer" } else { "" };
        format!("-Zsanitizer={}{other} --cfg sanitized", self.name())
    }
}

/// A step of `cargo xtask test`.
pub fn step(workspace: &Workspace) -> Result<Outcome> {
    pass_all(workspace, TRIALS)
}

/// Runs the step with the trials over sockets and segments of a host, which are built for minutes.
pub fn step_in_full(workspace: &Workspace) -> Result<Outcome> {
    pass_all(workspace, TRIALS_IN_FULL)
}

fn pass_all(workspace: &Workspace, trials: Tests) -> Result<Outcome> {
    let (mut ran, mut missing) = (Vec::new(), String::new());
    for sanitizer in [Sanitizer::Address, Sanitizer::Thread] {
        if !has_runtime(sanitizer)? {
            missing += &format!(", no {sanitizer}: the toolchain has no runtime of it for this machine");
            continue;
        }
        // One for both: build scripts and macros, which are not instrumented, are built once.
        let folder = workspace.target.join("sanitizers");
        host_units::share(workspace, &folder)?;
        let instrumented = Instrumented { sanitizer, folder };
        instrumented.pass(trials)?;
        instrumented.find_planted()?;
        instrumented.pass(DRIVERS)?;
        if sanitizer == Sanitizer::Address {
            instrumented.pass(KERNEL)?;
        }
        ran.push(sanitizer.to_string());
    }
    let ran = if ran.is_empty() { "nothing".into() } else { ran.join(", ") };
    Ok(Outcome::Passed(format!("{ran}, with a planted defect each{missing}")))
}

fn has_runtime(sanitizer: Sanitizer) -> Result<bool> {
    let libraries = workspace::sysroot()?.join("lib/rustlib").join(workspace::host()?).join("lib");
    let files = fs::read_dir(libraries).into_iter().flatten().flatten();
    Ok(files.map(|file| file.file_name()).any(|name| name.to_string_lossy().ends_with(sanitizer.runtime())))
}

/// Builds for a sanitizer, in the folder of both.
struct Instrumented {
    sanitizer: Sanitizer,
    folder: PathBuf,
}

impl Instrumented {
    /// The command that builds tests and runs those that filters, which follow, let through.
    fn cargo(&self, tests: Tests) -> Result<Command> {
        let Tests { package, options, .. } = tests;
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let suppressions = self.folder.join("suppressions");
        fs::write(&suppressions, SUPPRESSIONS).with_context(|| suppressions.display().to_string())?;
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--locked", "-p", package]).args(options);
        // Beside this one, which has no code, its macros are those that all was built from.
        cargo.args(["-p", "aldis-features"]);
        // A target of its own name, so that build scripts and macros are not instrumented.
        cargo.args(["--target", &workspace::host()?, "--target-dir"]).arg(&self.folder);
        // One at a time, so that the harness has no threads.
        cargo.args(["--", "--test-threads=1"]);
        cargo.env("RUSTFLAGS", self.sanitizer.flags()).env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo.env("RUSTC", self.compiler()?).env("RUST_BACKTRACE", "0");
        // Without it the linker takes the harness's inlined functions out as well, by whose names
        // races are suppressed.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        cargo.env("CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG", "false");
        cargo.env("PROPTEST_CASES", CASES.to_string());
        // The trials leak what they can.
        cargo.env("ASAN_OPTIONS", "detect_leaks=0");
        cargo.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
        Ok(cargo)
    }

    /// Returns the compiler, which takes a flag of the unstable kind on the stable toolchain: it is
    /// told so with that flag alone, since build scripts that ask for it have all built anew.
    fn compiler(&self) -> Result<PathBuf> {
        let (script, rustc) = (self.folder.join("rustc"), workspace::sysroot()?.join("bin/rustc"));
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *-Zsanitizer=*) export RUSTC_BOOTSTRAP=1 ;; esac\nexec \"{}\" \"$@\"\n",
            rustc.display()
        );
        toolchain::write_script(&script, &text)?;
        Ok(script)
    }

    fn pass(&self, tests: Tests) -> Result<()> {
        eprintln!("  {} under {}", tests.package, self.sanitizer);
        harness::pass(&mut self.cargo(tests)?, tests.filters).map(drop)
    }

    /// Fails unless the planted defect is found.
    fn find_planted(&self) -> Result<()> {
        let (trial, finding) = self.sanitizer.planted();
        let mut cargo = self.cargo(TRIALS)?;
        let output = cargo.args(trial).output().with_context(|| shell::spell(&cargo))?;
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if output.status.success() || !said.iter().any(|said| said.contains(finding)) {
            bail!("{} does not find {trial:?}:\n{}", self.sanitizer, said.join("\n"));
        }
        Ok(())
    }
}
