//! The file of a report: checked for a place and for room before anything is measured, and put in
//! place at once when it is complete, so that a report which was there before is not lost to one
//! that could not be written.

use core::error::Error;
use core::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::posix_fallocate;
use nix::sys::signal::{SigSet, Signal};

/// The room that a report may take, in bytes, as reserved beforehand: plots and tables of a full
/// run take a third of it.
const ROOM: u64 = 1 << 20;

/// The reason why there is no report.
#[derive(Debug)]
pub(crate) enum ReportError {
    /// The file cannot be made or written at all.
    Unwritable { path: PathBuf, cause: io::Error },
    /// The file system, a quota or a limit of the process leaves too little room.
    NoRoom { path: PathBuf, need_bytes: u64, cause: io::Error },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwritable { path, cause } => {
                write!(f, "the report {} cannot be written: {cause}", path.display())
            }
            Self::NoRoom { path, need_bytes, cause } => {
                write!(f, "no room for the report {}: {need_bytes} bytes are needed: {cause}", path.display())
            }
        }
    }
}

impl Error for ReportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unwritable { cause, .. } | Self::NoRoom { cause, .. } => Some(cause),
        }
    }
}

/// A report that will have a place.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    /// The file in which it is written until it is complete; `None` for what is no file of a
    /// folder, such as a device.
    part: Option<PathBuf>,
    file: fs::File,
}

impl ReportFile {
    /// Reserves room for the report at `path`.
    ///
    /// # Errors
    /// Whatever would keep it from being written.
    pub(crate) fn reserve(path: &Path) -> Result<Self, ReportError> {
        heed_limits_as_errors();
        let refused = |cause| refusal(path, ROOM, cause);
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            let file = OpenOptions::new().write(true).open(path).map_err(refused)?;
            return Ok(Self { path: path.to_owned(), part: None, file });
        }
        let name = path.file_name().ok_or_else(|| refused(io::ErrorKind::InvalidFilename.into()))?;
        let part = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&part).map_err(refused)?;
        let made = Self { path: path.to_owned(), part: Some(part), file };
        let reserved = posix_fallocate(&made.file, 0, ROOM as i64);
        reserved.map_err(|errno| refused(errno.into()))?;
        Ok(made)
    }

    /// Writes the report and puts it in place.
    ///
    /// # Errors
    /// What the file said.
    pub(crate) fn write(mut self, text: &str) -> Result<(), ReportError> {
        let refused = |cause| refusal(&self.path, text.len() as u64, cause);
        let Some(part) = self.part.clone() else {
            return self.file.write_all(text.as_bytes()).map_err(refused);
        };
        let written = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.set_len(text.len() as u64))
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&part, &self.path));
        written.map_err(refused)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Nothing can be done about a file that cannot be removed, and what went wrong first is
            // being reported.
            let _ = fs::remove_file(part);
        }
    }
}

fn refusal(path: &Path, need_bytes: u64, cause: io::Error) -> ReportError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
            ReportError::NoRoom { path, need_bytes, cause }
        }
        _ => ReportError::Unwritable { path, cause },
    }
}

/// A file above the process's limit (`ulimit -f`) is an error of the call, and not a signal that
/// ends the process.
fn heed_limits_as_errors() {
    let mut limits = SigSet::empty();
    limits.add(Signal::SIGXFSZ);
    // A thread's own mask can always be set.
    let _ = limits.thread_block();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("aldis-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_report_takes_the_place_of_the_old_one_only_when_complete() {
        let folder = folder("place");
        let path = folder.join("report.html");
        fs::write(&path, "old").unwrap();
        drop(ReportFile::reserve(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        ReportFile::reserve(&path).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_told_before() {
        let error = ReportFile::reserve(Path::new("/nonexistent/report.html")).unwrap_err();
        assert!(matches!(error, ReportError::Unwritable { .. }), "{error}");
        assert!(error.to_string().contains("/nonexistent/report.html"), "{error}");
    }

    #[test]
    fn a_full_device_is_no_room() {
        let error = ReportFile::reserve(Path::new("/dev/full")).unwrap().write("text").unwrap_err();
        assert!(matches!(error, ReportError::NoRoom { need_bytes: 4, .. }), "{error}");
    }
}
