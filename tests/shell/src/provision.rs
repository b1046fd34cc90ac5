//! Things that are made once and kept in the target folder, by whichever process needs them first:
//! one process at a time makes it, the others wait and say for which process.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The exclusive right to make or replace what is kept in a folder, until it drops or its process
/// ends in any way.
#[derive(Debug)]
pub struct Lock {
    /// The system frees the lock with the descriptor, so a killed process blocks no other.
    _file: File,
}

impl Lock {
    /// Waits until no other process works on `folder`, and says on stderr for which one it waits.
    ///
    /// # Errors
    /// The lock file beside the folder cannot be made or locked.
    pub fn take(folder: &Path, purpose: &str) -> Result<Self> {
        Self::take_telling(folder, purpose, |holder| eprintln!("  waiting for {holder}"))
    }

    fn take_telling(folder: &Path, purpose: &str, tell: impl FnOnce(&str)) -> Result<Self> {
        let path = beside(folder, ".lock");
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        }
        // Not truncated before it is locked: it names the holder.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).with_context(|| format!("opening {}", path.display()))?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                tell(if holder.is_empty() { "another process" } else { &holder });
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        locked.with_context(|| format!("locking {}", path.display()))?;
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "process {}, which is {purpose}", std::process::id())?;
        Ok(Self { _file: file })
    }
}

/// A folder beside another for what is not whole yet. It is this process's alone, also if a child
/// of a killed process still writes to the folder of its parent.
#[derive(Debug)]
pub struct Part(PathBuf);

impl Part {
    /// Makes an empty one for `folder`, and removes those of processes that did not come to an end.
    /// The caller holds the [`Lock`] of `folder`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of(folder: &Path, _lock: &Lock) -> Result<Self> {
        let prefix = beside(folder, ".part-");
        let (Some(parent), Some(name)) = (prefix.parent(), prefix.file_name()) else {
            anyhow::bail!("{} has no folder above it", folder.display());
        };
        fs::create_dir_all(parent)?;
        for entry in fs::read_dir(parent)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes()) {
                // What still writes there keeps it from being removed; the next one tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let part = beside(folder, &format!(".part-{}", std::process::id()));
        fs::create_dir_all(&part).with_context(|| format!("making {}", part.display()))?;
        Ok(Self(part))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Moves what is whole to where it is kept, in place of what was kept there.
///
/// # Errors
/// They are not on one file system, or what is there cannot be removed.
pub fn keep(whole: &Path, kept: &Path, _lock: &Lock) -> Result<()> {
    if kept.exists() {
        fs::remove_dir_all(kept).with_context(|| format!("removing {}", kept.display()))?;
    }
    fs::rename(whole, kept).with_context(|| format!("moving {} to {}", whole.display(), kept.display()))
}

/// A path of the same name with something behind it.
fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().map_or_else(OsString::new, OsString::from);
    name.push(suffix);
    folder.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Barrier;

    use std::sync::mpsc;
    use std::thread;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("aldis-provision-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn of_many_at_a_time_one_makes_it_and_all_find_it_whole() {
        const MAKERS: usize = 8;
        let scratch = Scratch::new("many");
        let (kept, made, start) = (scratch.0.join("kept"), AtomicU32::new(0), Barrier::new(MAKERS));
        thread::scope(|scope| {
            for _ in 0..MAKERS {
                scope.spawn(|| {
                    start.wait();
                    let lock = Lock::take_telling(&kept, "making it", |_| {}).unwrap();
                    if !kept.join("stamp").exists() {
                        made.fetch_add(1, Ordering::Relaxed);
                        let part = Part::of(&kept, &lock).unwrap();
                        let whole = part.path().join("whole");
                        fs::create_dir(&whole).unwrap();
                        for file in ["library", "stamp"] {
                            fs::write(whole.join(file), file).unwrap();
                            thread::yield_now();
                        }
                        keep(&whole, &kept, &lock).unwrap();
                    }
                    assert!(["library", "stamp"].iter().all(|file| kept.join(file).exists()));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        let left: Vec<_> =
            fs::read_dir(&scratch.0).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left.len(), 2, "only the lock stands beside what is kept: {left:?}");
    }

    #[test]
    fn who_waits_is_told_for_whom() {
        let scratch = Scratch::new("told");
        let kept = scratch.0.join("kept");
        let first = Lock::take(&kept, "building core for a moon").unwrap();
        let (told, holder) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                Lock::take_telling(&kept, "waiting", |holder| told.send(holder.to_owned()).unwrap()).unwrap()
            });
            let expected = format!("process {}, which is building core for a moon", std::process::id());
            assert_eq!(holder.recv().unwrap(), expected);
            drop(first);
        });
    }

    #[test]
    fn what_was_left_half_made_is_removed() {
        let scratch = Scratch::new("half");
        let kept = scratch.0.join("kept");
        for file in ["kept.part-1/a", "kept.part-22/b", "kept-not/c"] {
            let file = scratch.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "half").unwrap();
        }
        let lock = Lock::take(&kept, "making it").unwrap();
        let part = Part::of(&kept, &lock).unwrap();
        let exists = |name: &str| scratch.0.join(name).exists();
        assert!(!exists("kept.part-1") && !exists("kept.part-22") && exists("kept-not/c"));
        assert!(part.path().exists());
        let path = part.path().to_owned();
        drop(part);
        assert!(!path.exists());
    }
}
