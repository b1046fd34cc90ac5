//! A folder for the files and sockets of one test.

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed with all in it when this is dropped.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes an empty one, whose name tells what it is for.
    pub fn new(purpose: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("aldis-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Writes a file into it, and returns where that is.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What is left of it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
