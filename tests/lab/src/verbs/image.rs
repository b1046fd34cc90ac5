//! The first file system of a guest: all that it has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cpio::Archive;
use super::guest::GuestKind;
use super::libraries;
use super::modules::{self, Modules};
use super::packages::Packages;

/// The script that a guest runs first.
const INIT: &str = include_str!("init.sh");
/// A command that is tried again until the other side listens.
const RETRY: &str = include_str!("retry.sh");
/// Both sides of how one of two guests has a command run in the other.
const REMOTE: [(&str, &str); 2] = [("rsh", include_str!("rsh.sh")), ("rshd", include_str!("rshd.sh"))];
/// Programs of the packages. The shell and what belongs to it are busybox's.
const PROGRAMS: [&str; 5] = ["rdma", "ibv_devinfo", "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"];
/// Soft RoCE in the verbs library: what its plug-in's name begins with, and the file by which the
/// library finds it.
const PROVIDER: &str = "librxe-rdmav";
const DRIVER: &str = "etc/libibverbs.d/rxe.driver";

/// The contents that are to be packed besides.
#[derive(Debug)]
pub(super) struct ImageContents<'a> {
    /// The devices for which it is.
    pub(super) kind: GuestKind,
    /// Programs of this machine, for `/usr/bin`.
    pub(super) programs: &'a [PathBuf],
    /// The commands that each guest runs, in the language of the shell.
    pub(super) commands: &'a [Vec<String>],
}

/// Packs the file system of all guests of a session, and returns it with the path of the kernel.
pub(super) fn pack(packages: &Packages, contents: &ImageContents<'_>) -> Result<(Vec<u8>, PathBuf)> {
    let (kernel, folder) = packages.kernel()?;
    let mut image = Image { packages, archive: Archive::default() };
    image.archive.file("init", INIT.as_bytes());
    image.archive.file("usr/bin/retry", RETRY.as_bytes());
    for (name, script) in REMOTE {
        image.archive.file(&format!("usr/bin/{name}"), script.as_bytes());
    }
    image.archive.file("etc/hosts", b"127.0.0.1 localhost\n");
    image.packaged("busybox", "bin/busybox")?;
    image.archive.link("bin/sh", "busybox");
    if contents.kind == GuestKind::Rdma {
        image.rdma()?;
    }
    image.modules(&Modules::of(&folder)?, modules::wanted(contents.kind))?;
    for program in contents.programs {
        let name = program.file_name().with_context(|| format!("{} is no program", program.display()))?;
        image.program(program, &format!("usr/bin/{}", name.to_string_lossy()))?;
    }
    for (guest, commands) in contents.commands.iter().enumerate() {
        for (number, command) in commands.iter().enumerate() {
            image.archive.file(&format!("commands/{guest}/{number:03}"), format!("{command}\n").as_bytes());
        }
    }
    Ok((image.archive.finish(), kernel))
}

struct Image<'a> {
    packages: &'a Packages,
    archive: Archive,
}

impl Image<'_> {
    /// The tools, and the plug-in that makes soft RoCE known to the verbs library.
    fn rdma(&mut self) -> Result<()> {
        for name in PROGRAMS {
            self.packaged(name, &format!("usr/bin/{name}"))?;
        }
        let folder = format!("{}/libibverbs", libraries::FOLDER);
        let is_provider = |name: &str| name.starts_with(PROVIDER);
        let path = self.packages.root.join(&folder);
        let names = fs::read_dir(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let Some(name) = names.find(|name| is_provider(name)) else {
            bail!("the package ibverbs-providers has no {PROVIDER}*.so");
        };
        self.program(&path.join(&name), &format!("{folder}/{name}"))?;
        let driver = self.packages.root.join(DRIVER);
        self.program(&driver, DRIVER)
    }

    fn modules(&mut self, modules: &Modules, wanted: &[&str]) -> Result<()> {
        let mut order = String::new();
        for module in modules.in_order(wanted)? {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            self.program(module, &format!("lib/modules/{name}"))?;
            order += &format!("{name}\n");
        }
        self.archive.file("lib/modules/order", order.as_bytes());
        Ok(())
    }

    fn packaged(&mut self, name: &str, path: &str) -> Result<()> {
        let found = self.packages.program(name);
        self.program(&found.with_context(|| format!("the packages have no program {name}"))?, path)
    }

    /// A file, with the libraries that it needs and theirs.
    fn program(&mut self, file: &Path, path: &str) -> Result<()> {
        if self.archive.has(path) {
            return Ok(());
        }
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        self.archive.file(path, &bytes);
        for name in libraries::needed(&bytes).with_context(|| file.display().to_string())? {
            let library = libraries::find(&name, &self.packages.root);
            let library = library.with_context(|| format!("what {} needs", file.display()))?;
            let place = match name.strip_prefix('/') {
                Some(path) => path.to_owned(),
                None => format!("{}/{name}", libraries::FOLDER),
            };
            self.program(&library, &place)?;
        }
        Ok(())
    }
}
