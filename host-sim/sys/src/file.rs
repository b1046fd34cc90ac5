//! Files by their paths.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

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

/// `open(2)`, by options of `std`.
///
/// # Errors
/// The system's.
pub fn open(path: impl AsRef<Path>, options: &fs::OpenOptions) -> io::Result<fs::File> {
    let _fault = enter(Call::Open)?;
    options.open(path)
}

/// Reads all of a file: `open(2)`, and `read(2)` until there is no more.
///
/// # Errors
/// The system's.
pub fn read_all(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path, fs::OpenOptions::new().read(true))?;
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

/// As [`read_all`], of a text.
///
/// # Errors
/// The system's; [`ErrorKind::InvalidData`] if it is none.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let invalid = |_| io::Error::new(ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(read_all(path)?).map_err(invalid)
}

/// `readlink(2)`.
///
/// # Errors
/// The system's.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let _fault = enter(Call::Readlink)?;
    fs::read_link(path)
}

/// `unlink(2)`.
///
/// # Errors
/// The system's.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let _fault = enter(Call::Unlink)?;
    fs::remove_file(path)
}
