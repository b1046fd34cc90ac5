//! A folder for the sockets of one test: the network card's own tests take it from their crate, so
//! that they also run on the other machine.

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed with all in it when this is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub(crate) fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("aldis-card-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
