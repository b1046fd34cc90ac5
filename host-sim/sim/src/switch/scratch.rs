//! A folder for the sockets of one test.

use std::path::{Path, PathBuf};

/// A folder that is removed with all in it when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFolder(PathBuf);

impl SocketFolder {
    pub(crate) fn new() -> Self {
        let name = format!("aldis-switch-{}-{:x}", std::process::id(), aldis_linux::entropy::distinct());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
