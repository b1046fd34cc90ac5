//! Files that results go to, with errors that say which.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that can be written; nothing in it is lost before there is something new.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: fs::File,
    /// True if the file was not there before and holds no result yet.
    fresh: bool,
}

impl OutputFile {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let fresh = !path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, fresh })
    }

    /// Puts `text` in place of what the file held.
    pub(crate) fn write(mut self, text: &str) -> Result<(), String> {
        let regular = self.file.metadata().is_ok_and(|data| data.is_file());
        let emptied = if regular { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.fresh = false;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.fresh {
            // Nothing can be done about a file that cannot be removed, and what went wrong first is
            // being reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}
