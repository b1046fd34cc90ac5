//! This module holds `unsafe` code: a question about a number that may be of no file. Files and
//! pipes.

use core::ffi::c_int;
use std::fs;
pub use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::NixPath;
use nix::errno::Errno;
pub use nix::fcntl::{FcntlArg, FdFlag, OFlag};
use nix::libc::{self, off_t};
pub use nix::unistd::AccessFlags;

use crate::call::Call;
use crate::fault::enter;

/// `read(2)`.
///
/// # Errors
/// The system's.
#[inline]
pub fn read(file: impl AsFd, room: &mut [u8]) -> Result<usize, Errno> {
    let fault = enter(Call::Read)?;
    nix::unistd::read(file, fault.cut_mut(room))
}

/// `write(2)`.
///
/// # Errors
/// The system's.
#[inline]
pub fn write(file: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    let fault = enter(Call::Write)?;
    nix::unistd::write(file, fault.cut(bytes))
}

/// `pread(2)`: from a place of the file.
///
/// # Errors
/// The system's.
pub fn pread(file: impl AsFd, room: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let fault = enter(Call::Pread)?;
    let offset = off_t::try_from(offset).map_err(|_| Errno::EINVAL)?;
    nix::sys::uio::pread(file, fault.cut_mut(room), offset)
}

/// `pwrite(2)`: to a place of the file.
///
/// # Errors
/// The system's.
pub fn pwrite(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let fault = enter(Call::Pwrite)?;
    let offset = off_t::try_from(offset).map_err(|_| Errno::EINVAL)?;
    nix::sys::uio::pwrite(file, fault.cut(bytes), offset)
}

/// Writes all of `bytes`: `write(2)`, until nothing is left.
///
/// # Errors
/// The system's; [`ErrorKind::WriteZero`] where it takes nothing.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(&file, bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// `fcntl(2)`.
///
/// # Errors
/// The system's.
pub fn fcntl(file: impl AsFd, argument: FcntlArg<'_>) -> Result<c_int, Errno> {
    let _fault = enter(Call::Fcntl)?;
    nix::fcntl::fcntl(file, argument)
}

/// `pipe2(2)`: its end to read, which never waits, and its end to write. A program that is executed
/// inherits neither.
///
/// # Errors
/// The system's.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let _fault = enter(Call::Pipe2)?;
    nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
}

/// `dup(2)`; a program that is executed does not inherit the copy.
///
/// # Errors
/// The system's.
pub fn dup(file: impl AsFd) -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Dup)?;
    file.as_fd().try_clone_to_owned().map_err(crate::errno_of)
}

/// `open(2)`, by options of `std`.
///
/// # Errors
/// The system's.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    let _fault = enter(Call::Open)?;
    options.open(path).map(File)
}

/// An open file.
#[derive(Debug)]
pub struct File(fs::File);

impl File {
    /// `open(2)`, of a file that is made if it is not there, and is empty then.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        open(path, OpenOptions::new().write(true).create(true).truncate(true))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.0.into()
    }
}

impl Write for File {
    /// `write(2)`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads all of a file: `open(2)`, and `read(2)` until there is no more.
///
/// # Errors
/// The system's.
pub fn read_all(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path, OpenOptions::new().read(true))?;
    let (mut all, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match read(&file, &mut room) {
            Ok(0) => return Ok(all),
            Ok(came) => all.extend_from_slice(room.get(..came).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads all of a file like [`read_all`], as text.
///
/// # Errors
/// The system's; [`ErrorKind::InvalidData`] if it is none.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let invalid = |_| io::Error::new(ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(read_all(path)?).map_err(invalid)
}

/// `stat(2)`.
///
/// # Errors
/// The system's.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<fs::Metadata> {
    let _fault = enter(Call::Stat)?;
    fs::metadata(path)
}

/// `readlink(2)`.
///
/// # Errors
/// The system's.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let _fault = enter(Call::Readlink)?;
    fs::read_link(path)
}

/// `readlink(2)`, of every part of a path.
///
/// # Errors
/// The system's.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let _fault = enter(Call::Readlink)?;
    fs::canonicalize(path)
}

/// `open(2)` and `getdents(2)`: the names of what is in a folder, in order; those that are no text
/// are left out.
///
/// # Errors
/// The system's.
pub fn names_in(path: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let _fault = enter(Call::Getdents)?;
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
    let mut names: Vec<String> = entries.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

/// `unlink(2)`.
///
/// # Errors
/// The system's.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let _fault = enter(Call::Unlink)?;
    fs::remove_file(path)
}

/// `access(2)`.
///
/// # Errors
/// The system's.
pub fn access<P: NixPath + ?Sized>(path: &P, mode: AccessFlags) -> Result<(), Errno> {
    let _fault = enter(Call::Access)?;
    nix::unistd::access(path, mode)
}

/// `chdir(2)`.
///
/// # Errors
/// The system's.
pub fn chdir<P: NixPath + ?Sized>(path: &P) -> Result<(), Errno> {
    let _fault = enter(Call::Chdir)?;
    nix::unistd::chdir(path)
}

/// `fcntl(2)`, `F_GETFD`: whether this number is of an open file.
pub fn is_open(number: c_int) -> bool {
    // SAFETY: asks for flags; a number that is not open answers EBADF.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}
