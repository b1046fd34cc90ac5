//! Guests from boot to their last word.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use aldis_shell::children::{Child, Folder, lines_of};
use aldis_shell::shell;
use aldis_shell::steps::Outcome;
use aldis_shell::workspace::Workspace;
use anyhow::{Context, Result, bail};

use super::console::{Console, Ran};
use super::guest::{self, Guest, GuestClock, GuestKind};
use super::image::{self, ImageContents};
use super::packages::{self, Packages};

/// The time to wait for the next line of one guest before another one is read.
const LOOK: Duration = Duration::from_millis(20);
/// The time that a guest has after its own limit, to boot and to show what it was doing; an
/// emulator on busy cores is slow.
const GRACE: Duration = Duration::from_secs(60);
/// The time that the others may take once one guest has failed: their peer is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Returns what is missing here to start guests, if anything is.
pub(super) fn missing() -> Option<Outcome> {
    guest::MACHINE.missing().or_else(packages::missing)
}

/// Returns the packages that the guests are made of, fetched unless they are here.
pub(super) fn packages() -> Result<Packages> {
    if let Some(Outcome::Skipped { why, enable }) = missing() {
        bail!("{why}; to enable: {enable}");
    }
    Packages::fetch(&Workspace::members()?.target)
}

/// Guests and what they are to do.
#[derive(Debug)]
pub(super) struct Session {
    /// The devices of each guest.
    pub(super) kind: GuestKind,
    /// Programs of this machine that they run.
    pub(super) programs: Vec<PathBuf>,
    /// The commands that each guest runs, one command after the other; as many guests as there are
    /// lists, one or two.
    pub(super) commands: Vec<Vec<String>>,
    /// Of two guests, which exchange messages, the wall's.
    pub(super) clock: GuestClock,
    /// The time that all commands of a guest may take from its start.
    pub(super) limit: Duration,
    /// True if what the guests say is shown on standard error while they run.
    pub(super) loud: bool,
}

impl Session {
    /// Plays it to the end. What each command of each guest said; an error if one did not end well.
    pub(super) fn play(&self) -> Result<Vec<Vec<Ran>>> {
        let packages = packages()?;
        let folder = Folder::new()?;
        let programs: Vec<_> = self.programs.iter().map(|program| lean(program, folder.path())).collect();
        let contents = ImageContents { kind: self.kind, programs: &programs, commands: &self.commands };
        let (bytes, kernel) = image::pack(&packages, &contents)?;
        let image = folder.path().join("initramfs");
        fs::write(&image, bytes).with_context(|| format!("writing {}", image.display()))?;
        let mut guests = Vec::new();
        for number in 0..self.commands.len() {
            guests.push(self.start(number, &kernel, &folder)?);
        }
        self.watch(&mut guests);
        self.judge(&guests)?;
        Ok(guests.into_iter().map(|guest| guest.console.ran).collect())
    }

    fn start(&self, number: usize, kernel: &Path, folder: &Folder) -> Result<Running> {
        let [image, wire] = ["initramfs", "wire.sock"].map(|name| folder.path().join(name));
        let has_neighbour = self.commands.len() > 1;
        let (kind, clock, limit) = (self.kind, self.clock, self.limit);
        let guest = Guest { number, kind, has_neighbour, kernel, image: &image, wire: &wire, clock, limit };
        let running = Running::start(number, &guest)?;
        if has_neighbour && number == 0 {
            let until = Instant::now() + LAST_WORDS;
            while !wire.exists() && Instant::now() < until {
                thread::sleep(LOOK);
            }
        }
        Ok(running)
    }

    /// Reads the output of all guests until each has ended, or time is up.
    fn watch(&self, guests: &mut [Running]) {
        let mut until = Instant::now() + self.limit + GRACE;
        while guests.iter().any(|guest| !guest.ended) && Instant::now() < until {
            for (guest, commands) in guests.iter_mut().zip(&self.commands).filter(|(guest, _)| !guest.ended) {
                guest.listen(self.loud);
                if guest.ended && guest.console.fault(commands).is_some() {
                    until = until.min(Instant::now() + LAST_WORDS);
                }
            }
        }
    }

    /// Judges the guests. One that failed makes others fail, which then do not end: those that did
    /// end are told first.
    fn judge(&self, guests: &[Running]) -> Result<()> {
        let faults = guests.iter().zip(&self.commands).filter_map(|(guest, commands)| {
            let fault = guest.console.fault(commands)?;
            Some((!guest.ended, format!("guest {}: {fault}", guest.number)))
        });
        let mut faults: Vec<_> = faults.collect();
        faults.sort();
        if !faults.is_empty() {
            bail!("{}", faults.into_iter().map(|(_, fault)| fault).collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }
}

/// A program without what only debuggers read, which is most of it: a guest unpacks it into its
/// memory. As it is where there is no `strip`.
fn lean(program: &Path, folder: &Path) -> PathBuf {
    let Some(name) = program.file_name() else { return program.into() };
    let copy = folder.join(name);
    let stripped =
        shell::output(Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program));
    if stripped.is_ok() { copy } else { program.into() }
}

/// A guest that was started. Its emulator ends with it.
#[derive(Debug)]
struct Running {
    number: usize,
    _child: Child,
    /// Its console, and the emulator's errors.
    streams: Vec<Receiver<String>>,
    console: Console,
    /// True once both are at their end.
    ended: bool,
}

impl Running {
    fn start(number: usize, guest: &Guest<'_>) -> Result<Self> {
        let mut child = Child::start(&guest.command())?;
        let streams = child.streams().map(lines_of).collect();
        Ok(Self { number, _child: child, streams, console: Console::default(), ended: false })
    }

    /// Reads what it has printed.
    fn listen(&mut self, loud: bool) {
        let (console, number) = (&mut self.console, self.number);
        self.streams.retain(|stream| {
            loop {
                match stream.recv_timeout(LOOK) {
                    Ok(line) => {
                        if loud {
                            eprintln!("[guest {number}] {}", line.trim_end());
                        }
                        console.hear(&line);
                    }
                    Err(why) => return why == RecvTimeoutError::Timeout,
                }
            }
        });
        self.ended = self.streams.is_empty();
    }
}
