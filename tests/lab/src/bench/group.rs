//! A measured group of processes: the ranks of one implementation that live for the whole run,
//! sleep between batches and answer each batch with the time it took. The other side is
//! `tests/bench/src/batches.rs`.

use core::time::Duration;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use aldis_shell::shell;
use anyhow::{Context, Result, bail};

use super::workload::Ask;

/// The time that a group may take to start: a process manager and some ranks on a loaded machine.
const START_MAX: Duration = Duration::from_secs(30);

/// The time that a batch may take.
const BATCH_MAX: Duration = Duration::from_secs(30);

/// The time that a group may take to end by itself.
const END_MAX: Duration = Duration::from_secs(3);

/// The folder of the control sockets, of this process alone, in the system's temporary folder
/// because a socket's path must be short. Removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct Sockets(PathBuf);

impl Sockets {
    pub(crate) fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("aldis-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Nothing more can be done about a folder that does not go.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running group.
#[derive(Debug)]
pub(crate) struct BenchGroup {
    line: String,
    child: Child,
    ranks: Vec<Option<BufReader<UnixStream>>>,
}

impl BenchGroup {
    /// Starts `command`, of which so many ranks connect to `socket`.
    pub(crate) fn start(mut command: Command, socket: &PathBuf, ranks: usize) -> Result<Self> {
        let listener =
            UnixListener::bind(socket).with_context(|| format!("listening at {}", socket.display()))?;
        listener.set_nonblocking(true)?;
        let line = shell::spell(&command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{line}`"))?;
        let mut group = Self { line, child, ranks: (0..ranks).map(|_| None).collect() };
        let deadline = Instant::now() + START_MAX;
        while group.ranks.iter().any(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => group.welcome(stream)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => group.still_starting(deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
        // The name has done its work; another group may have it.
        fs::remove_file(socket).with_context(|| format!("removing {}", socket.display()))?;
        Ok(group)
    }

    fn welcome(&mut self, stream: UnixStream) -> Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(BATCH_MAX))?;
        let mut stream = BufReader::new(stream);
        let mut said = String::new();
        stream.read_line(&mut said)?;
        let rank: Option<usize> = said.trim().strip_prefix("ready ").and_then(|rank| rank.parse().ok());
        match rank.and_then(|rank| self.ranks.get_mut(rank)) {
            Some(place @ None) => *place = Some(stream),
            _ => bail!("`{}`: a rank introduced itself as {said:?}", self.line),
        }
        Ok(())
    }

    fn still_starting(&mut self, deadline: Instant) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("`{}` ended before all ranks were ready: {status}", self.line);
        }
        if Instant::now() > deadline {
            bail!("`{}`: not all ranks ready after {} s", self.line, START_MAX.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    }

    /// Runs one batch and returns the nanoseconds of a turn.
    pub(crate) fn batch(&mut self, ask: Ask) -> Result<f64> {
        let Ask { is_call, wire, turns, bytes, each } = ask;
        let verb = if is_call { "call" } else { "go" };
        for rank in self.ranks.iter_mut().flatten() {
            writeln!(rank.get_mut(), "{verb} {wire} {turns} {bytes} {each}")
                .with_context(|| format!("`{}`", self.line))?;
        }
        // A loop of a program has ended when its last rank has.
        let answering = if is_call { self.ranks.len() } else { 1 };
        let (mut elapsed_ns, mut wrong) = (0, None);
        for rank in self.ranks.iter_mut().flatten().take(answering) {
            let mut answer = String::new();
            rank.read_line(&mut answer).with_context(|| format!("`{}` did not end {ask:?}", self.line))?;
            if let Some(said) = answer.strip_prefix("wrong: ") {
                wrong = Some(said.trim().to_owned());
                continue;
            }
            let own: u64 = answer
                .trim()
                .parse()
                .with_context(|| format!("`{}` said {answer:?} to {ask:?}", self.line))?;
            elapsed_ns = elapsed_ns.max(own);
        }
        match wrong {
            Some(wrong) => bail!("`{}` has wrong data: {wrong}", self.line),
            None => Ok(elapsed_ns as f64 / f64::from(turns)),
        }
    }

    /// Has a rank change a byte of what the next batch brings there.
    pub(crate) fn spoil(&mut self, rank: usize) -> Result<()> {
        let Some(Some(stream)) = self.ranks.get_mut(rank) else {
            bail!("`{}` has no rank {rank}", self.line)
        };
        Ok(stream.get_mut().write_all(b"spoil\n")?)
    }
}

impl Drop for BenchGroup {
    fn drop(&mut self) {
        // The end of the streams ends the ranks; a rank that does not go is stopped.
        self.ranks.clear();
        let deadline = Instant::now() + END_MAX;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                eprintln!("`{}` did not end by itself; stopped", self.line);
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
