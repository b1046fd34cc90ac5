//! Carries what the ranks print to the launcher's own output, without waiting for a slow reader:
//! while [`PENDING_BYTES_MAX`] bytes wait to be written, nodes are not asked for more and the
//! ranks' pipes fill up.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use aldis_linux::output;
use aldis_run::options::Output;
use aldis_sys::file::{File, OFlag, OpenOptions, open, write, write_all};
use aldis_sys::{Errno, errno_of};

use crate::messages::OutputKind;

/// Bytes that may wait to be written before the ranks are made to wait.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// A longer line is shown in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes that a pipe takes without blocking once it polls writable (POSIX, `PIPE_BUF`).
const WRITE_BYTES_MAX: usize = 4096;

/// The text that one rank writes to one output.
#[derive(Debug)]
struct Stream {
    rank: u32,
    kind: OutputKind,
    ended: bool,
    /// An unfinished line, or everything when grouped.
    held: Vec<u8>,
}

impl Stream {
    /// Hands on whole lines (and, at the end, an unfinished one), each with the rank in front.
    fn pass_lines(&mut self, pending: &mut Vec<u8>) {
        let mut rest = self.held.as_slice();
        while !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n').map(|newline| newline + 1);
            let unfinished = rest.len() >= LINE_BYTES_MAX || self.ended;
            let Some(length) = end.or(unfinished.then_some(rest.len())) else { break };
            let (line, tail) = rest.split_at(length);
            pending.extend_from_slice(format!("[{}] ", self.rank).as_bytes());
            pending.extend_from_slice(line);
            if end.is_none() {
                pending.push(b'\n');
            }
            rest = tail;
        }
        let passed = self.held.len() - rest.len();
        self.held.drain(..passed);
    }

    /// Hands on everything under a title.
    fn pass_group(&mut self, pending: &mut Vec<u8>) {
        if self.held.is_empty() {
            return;
        }
        pending.extend_from_slice(format!("==> rank {} <==\n", self.rank).as_bytes());
        pending.append(&mut self.held);
        if pending.last() != Some(&b'\n') {
            pending.push(b'\n');
        }
    }
}

/// An output of the launcher.
#[derive(Debug)]
struct Outlet {
    /// A terminal, opened anew so as not to block: that of others, which have it too, is left as it
    /// is. One polls as writable with room for less than is written to it.
    terminal: Option<File>,
    pending: Vec<u8>,
    /// The error, if it could not be written even before the job began.
    absent: Option<Errno>,
    /// The error after which it can be written no more.
    fault: Option<Errno>,
}

impl Outlet {
    /// The output with this number, which is `file`.
    fn new(number: usize, file: BorrowedFd<'_>) -> Self {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let reopen = || open(format!("/proc/self/fd/{number}"), &options).ok();
        let terminal = file.is_terminal().then(reopen).flatten();
        Self { terminal, pending: Vec::new(), absent: output::check(number).err(), fault: None }
    }

    /// The file that is written to while the job runs.
    fn file<'f>(&'f self, own: BorrowedFd<'f>) -> BorrowedFd<'f> {
        self.terminal.as_ref().map_or(own, AsFd::as_fd)
    }

    /// Writes once, no more than is taken without blocking.
    fn write(&mut self, own: BorrowedFd<'_>) {
        let length = self.pending.len().min(WRITE_BYTES_MAX);
        let written = match self.absent {
            Some(errno) => Err(errno),
            None => write(self.file(own), self.pending.get(..length).unwrap_or_default()),
        };
        match written {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => self.close(errno),
        }
    }

    /// Writes everything, however long the reader takes.
    fn write_all(&mut self, to: BorrowedFd<'_>) {
        if self.pending.is_empty() {
            return;
        }
        let open = self.absent.map_or(Ok(()), |errno| Err(errno.into()));
        if let Err(error) = open.and_then(|()| write_all(to, &self.pending)) {
            self.close(errno_of(error));
        }
        self.pending.clear();
    }

    fn close(&mut self, errno: Errno) {
        self.fault.get_or_insert(errno);
        self.pending.clear();
    }
}

/// All streams and both outputs.
#[derive(Debug)]
pub(crate) struct Relay {
    mode: Output,
    streams: Vec<Stream>,
    out: Outlet,
    err: Outlet,
    /// Reports of output that never came here.
    missed: Vec<String>,
}

impl Relay {
    /// For so many ranks.
    pub(crate) fn new(mode: Output, ranks: u32) -> Self {
        let both = |rank| {
            [OutputKind::Out, OutputKind::Err].map(|kind| Stream {
                rank,
                kind,
                ended: false,
                held: Vec::new(),
            })
        };
        let streams = (0..ranks).flat_map(both).collect();
        let (out, err) = (Outlet::new(1, io::stdout().as_fd()), Outlet::new(2, io::stderr().as_fd()));
        Self { mode, streams, out, err, missed: Vec::new() }
    }

    /// Returns true if more of this kind is welcome now.
    pub(crate) fn has_room(&self, kind: OutputKind) -> bool {
        self.outlet(kind).pending.len() < PENDING_BYTES_MAX
    }

    /// The error after which this output takes no more; something that was for it is lost then.
    pub(crate) const fn fault(&self, kind: OutputKind) -> Option<Errno> {
        self.outlet(kind).fault
    }

    /// The outputs that have something to write.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = OutputKind> {
        [OutputKind::Out, OutputKind::Err].into_iter().filter(|kind| !self.outlet(*kind).pending.is_empty())
    }

    const fn outlet(&self, kind: OutputKind) -> &Outlet {
        match kind {
            OutputKind::Out => &self.out,
            OutputKind::Err => &self.err,
        }
    }

    /// Takes what a rank has printed; nothing is its end.
    pub(crate) fn take(&mut self, rank: u32, kind: OutputKind, bytes: &[u8]) {
        let outlet = match kind {
            OutputKind::Out => &mut self.out,
            OutputKind::Err => &mut self.err,
        };
        let stream = self.streams.iter_mut().find(|one| (one.rank, one.kind) == (rank, kind));
        let Some(stream) = stream.filter(|_| outlet.fault.is_none()) else { return };
        stream.held.extend_from_slice(bytes);
        stream.ended |= bytes.is_empty();
        match self.mode {
            Output::Prefix => stream.pass_lines(&mut outlet.pending),
            Output::Plain => outlet.pending.append(&mut stream.held),
            Output::Group => {}
        }
    }

    /// Notes that something a rank has printed was lost before it came here; `text` says what.
    pub(crate) fn miss(&mut self, text: String) {
        self.missed.push(text);
    }

    /// All that is lost so.
    pub(crate) fn missed(&self) -> &[String] {
        &self.missed
    }

    /// Takes a line of the launcher's own.
    pub(crate) fn note(&mut self, line: &str) {
        if self.err.fault.is_none() {
            self.err.pending.extend_from_slice(line.as_bytes());
            self.err.pending.push(b'\n');
        }
    }

    /// The file of an output: its own, if it needs no other.
    pub(crate) fn file<'f>(&'f self, kind: OutputKind, own: BorrowedFd<'f>) -> BorrowedFd<'f> {
        self.outlet(kind).file(own)
    }

    /// Writes once to an output that can take it.
    pub(crate) fn write(&mut self, kind: OutputKind) {
        match kind {
            OutputKind::Out => self.out.write(io::stdout().as_fd()),
            OutputKind::Err => self.err.write(io::stderr().as_fd()),
        }
    }

    /// After the last rank: writes everything out.
    pub(crate) fn finish(&mut self) {
        for stream in &mut self.streams {
            stream.ended = true;
            let outlet = match stream.kind {
                OutputKind::Out => &mut self.out,
                OutputKind::Err => &mut self.err,
            };
            match self.mode {
                Output::Group => stream.pass_group(&mut outlet.pending),
                Output::Prefix | Output::Plain => stream.pass_lines(&mut outlet.pending),
            }
        }
        self.write_all();
    }

    fn write_all(&mut self) {
        self.out.write_all(io::stdout().as_fd());
        self.err.write_all(io::stderr().as_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(held: &[u8], open: bool) -> Stream {
        Stream { rank: 3, kind: OutputKind::Out, ended: !open, held: held.to_vec() }
    }

    #[test]
    fn whole_lines_are_prefixed_and_unfinished_ones_wait_for_their_end() {
        let (mut stream, mut pending) = (stream(b"one\n\ntw", true), Vec::new());
        stream.pass_lines(&mut pending);
        assert_eq!(pending, b"[3] one\n[3] \n");
        stream.held.extend_from_slice(b"o");
        stream.ended = true;
        stream.pass_lines(&mut pending);
        assert_eq!(pending, b"[3] one\n[3] \n[3] two\n");
        assert!(stream.held.is_empty());
    }

    #[test]
    fn an_endless_line_comes_in_pieces() {
        let (mut stream, mut pending) = (stream(&vec![b'x'; LINE_BYTES_MAX], true), Vec::new());
        stream.pass_lines(&mut pending);
        assert_eq!(pending.len(), 4 + LINE_BYTES_MAX + 1);
    }

    #[test]
    fn a_group_has_a_title_and_ends_with_its_line() {
        let mut pending = Vec::new();
        stream(b"a\nb", false).pass_group(&mut pending);
        stream(b"", false).pass_group(&mut pending);
        assert_eq!(pending, b"==> rank 3 <==\na\nb\n");
    }
}
