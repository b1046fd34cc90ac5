//! Children that leave nothing behind: each leads a process group that is killed when its guard
//! drops, when xtask panics, and on Ctrl-C; the folder of their sockets goes with them.

use core::time::Duration;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::shell;

/// The processes and folders that Ctrl-C has to clean up.
#[derive(Default)]
struct Live {
    groups: Vec<i32>,
    folders: Vec<PathBuf>,
}

static LIVE: Mutex<Live> = Mutex::new(Live { groups: Vec::new(), folders: Vec::new() });
static HANDLER: Once = Once::new();

/// Code of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

fn live<R>(change: impl FnOnce(&mut Live) -> R) -> R {
    change(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From now on Ctrl-C ends the children first. The handler runs in a thread of its own, not in
/// signal context.
fn take_care_of_interrupts() {
    HANDLER.call_once(|| {
        let handled = ctrlc::set_handler(|| {
            live(|live| {
                for group in live.groups.drain(..) {
                    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
                }
                for folder in live.folders.drain(..) {
                    let _ = fs::remove_dir_all(folder);
                }
            });
            std::process::exit(INTERRUPTED);
        });
        if let Err(error) = handled {
            eprintln!("xtask: Ctrl-C will not clean up: {error}");
        }
    });
}

/// A process and all that it starts.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    group: Pid,
}

impl Child {
    /// Starts `command` in a process group of its own. Its output is to be read by the caller.
    pub fn start(command: &Command) -> Result<Self> {
        take_care_of_interrupts();
        let mut tied = tied(command);
        std::os::unix::process::CommandExt::process_group(&mut tied, 0);
        tied.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = tied.spawn().with_context(|| format!("starting `{}`", shell::spell(command)))?;
        let group = Pid::from_raw(i32::try_from(process.id())?);
        live(|live| live.groups.push(group.as_raw()));
        Ok(Self { process, group })
    }

    /// Its output and its errors; once.
    pub fn streams(&mut self) -> impl Iterator<Item = Box<dyn Read + Send>> + use<> {
        let out = self.process.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        let err = self.process.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        out.into_iter().chain(err)
    }

    /// The process, which leads its group.
    pub const fn pid(&self) -> Pid {
        self.group
    }

    /// Ends its input.
    pub fn end_input(&mut self) {
        self.process.stdin.take();
    }

    /// Waits for its end, and returns its status if it ends before `until`.
    pub fn wait(&mut self, until: Instant) -> Option<ExitStatus> {
        // A child that has closed its output is about to end; there is nothing to wait on with a
        // limit but to look.
        loop {
            if let Some(status) = self.process.try_wait().ok()? {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that was waited for may have left others of its group behind; a group that is
        // empty is not found.
        let _ = killpg(self.group, Signal::SIGKILL);
        let _ = self.process.wait();
        live(|live| live.groups.retain(|group| *group != self.group.as_raw()));
    }
}

/// Returns the command so that it also ends when xtask is killed, where util-linux is there to
/// arrange it.
fn tied(command: &Command) -> Command {
    let Some(setpriv) = shell::all_in_path("setpriv").into_iter().next() else {
        let mut plain = Command::new(command.get_program());
        plain.args(command.get_args());
        return plain;
    };
    let mut tied = Command::new(setpriv);
    tied.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    tied
}

/// A folder that is removed with all in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Paths of sockets are short (107 bytes), so it stands in the system's folder for such things.
    pub fn new() -> Result<Self> {
        take_care_of_interrupts();
        let time = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH)?;
        let name = format!("aldis-{}-{:x}", std::process::id(), time.as_nanos());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        live(|live| live.folders.push(path.clone()));
        Ok(Self(path))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        live(|live| live.folders.retain(|folder| *folder != self.0));
    }
}

/// The lines of a stream, read in a thread that ends with it.
pub fn lines_of(stream: Box<dyn Read + Send>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_alive(pid: Pid) -> bool {
        nix::sys::signal::kill(pid, None).is_ok()
    }

    #[test]
    fn a_dropped_child_takes_its_own_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut child = Child::start(&command).unwrap();
        let mut out = child.streams().next().unwrap();
        let (mut line, mut byte) = (String::new(), [0]);
        while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(char::from(byte[0]));
        }
        let grandchild = Pid::from_raw(line.parse().unwrap());
        let group = child.group.as_raw();
        assert!(is_alive(grandchild) && live(|live| live.groups.contains(&group)));
        drop(child);
        // Its end closes the pipe: this reads until then.
        out.read_to_string(&mut line).unwrap();
        assert!(!live(|live| live.groups.contains(&group)));
    }

    #[test]
    fn a_folder_goes_with_all_in_it() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_path_buf();
        fs::write(path.join("file"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
