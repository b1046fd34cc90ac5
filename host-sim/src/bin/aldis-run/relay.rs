//! Carries what the ranks print to the launcher's own output, without waiting for a slow reader: while
//! [`PENDING_BYTES_MAX`] bytes wait to be written, the ranks' pipes are left to fill up.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::cli::Output;

/// Bytes that may wait to be written before the ranks are made to wait.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// A longer line is shown in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes read at a time.
const READ_BYTES_MAX: usize = 16 << 10;

/// Bytes that a pipe takes without blocking once it polls writable (POSIX, `PIPE_BUF`).
const WRITE_BYTES_MAX: usize = 4096;

/// Which of the launcher's outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Out,
    Err,
}

/// One pipe from a rank.
#[derive(Debug)]
struct Stream {
    rank: u32,
    kind: Kind,
    /// `None` after the end.
    pipe: Option<File>,
    /// An unfinished line, or everything when grouped.
    held: Vec<u8>,
}

impl Stream {
    /// Reads once. False when there is nothing (more) to read now; the pipe is closed at its end.
    fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; READ_BYTES_MAX];
        match pipe.read(&mut bytes) {
            Ok(length) if length > 0 => {
                self.held.extend_from_slice(bytes.get(..length).unwrap_or_default());
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            _ => {
                self.pipe = None;
                false
            }
        }
    }

    /// Hands on whole lines (and, at the end, an unfinished one), each with the rank in front.
    fn pass_lines(&mut self, pending: &mut Vec<u8>) {
        let mut rest = self.held.as_slice();
        while !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n').map(|newline| newline + 1);
            let unfinished = rest.len() >= LINE_BYTES_MAX || self.pipe.is_none();
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

/// One of the launcher's outputs.
#[derive(Debug, Default)]
struct Outlet {
    pending: Vec<u8>,
    /// Nobody reads it any more.
    closed: bool,
}

impl Outlet {
    /// Writes once, no more than is taken without blocking.
    fn write(&mut self, to: BorrowedFd<'_>) {
        let length = self.pending.len().min(WRITE_BYTES_MAX);
        match nix::unistd::write(to, self.pending.get(..length).unwrap_or_default()) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.close(),
        }
    }

    /// Writes everything, however long the reader takes.
    fn write_all(&mut self, to: &mut dyn Write) {
        if to.write_all(&self.pending).and_then(|()| to.flush()).is_err() {
            self.close();
        }
        self.pending.clear();
    }

    fn close(&mut self) {
        self.closed = true;
        self.pending.clear();
    }
}

/// All pipes and both outputs.
#[derive(Debug)]
pub(crate) struct Relay {
    mode: Output,
    streams: Vec<Stream>,
    out: Outlet,
    err: Outlet,
}

impl Relay {
    /// No pipes yet.
    pub(crate) fn new(mode: Output) -> Self {
        Self { mode, streams: Vec::new(), out: Outlet::default(), err: Outlet::default() }
    }

    /// Adds the pipes of a rank.
    pub(crate) fn add(&mut self, rank: u32, out: OwnedFd, err: OwnedFd) -> Result<(), Errno> {
        for (kind, pipe) in [(Kind::Out, out), (Kind::Err, err)] {
            fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            self.streams.push(Stream { rank, kind, pipe: Some(pipe.into()), held: Vec::new() });
        }
        Ok(())
    }

    /// The pipes to be watched, with their places; none of an output that has too much to write already.
    pub(crate) fn pipes(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let room = |stream: &Stream| self.outlet(stream.kind).pending.len() < PENDING_BYTES_MAX;
        let watched = self.streams.iter().enumerate().filter(move |(_, stream)| room(stream));
        watched.filter_map(|(place, stream)| Some((place, stream.pipe.as_ref()?.as_fd())))
    }

    /// The outputs that have something to write.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Kind> {
        [Kind::Out, Kind::Err].into_iter().filter(|kind| !self.outlet(*kind).pending.is_empty())
    }

    const fn outlet(&self, kind: Kind) -> &Outlet {
        match kind {
            Kind::Out => &self.out,
            Kind::Err => &self.err,
        }
    }

    /// Reads once from the pipe at `place`; false when it has nothing now.
    pub(crate) fn read(&mut self, place: usize) -> bool {
        let Some(stream) = self.streams.get_mut(place) else { return false };
        let outlet = match stream.kind {
            Kind::Out => &mut self.out,
            Kind::Err => &mut self.err,
        };
        if outlet.closed {
            // The rank learns it by SIGPIPE, as it would without a launcher in between.
            stream.pipe = None;
            stream.held.clear();
            return false;
        }
        let more = stream.read();
        if self.mode != Output::Group {
            stream.pass_lines(&mut outlet.pending);
        }
        more
    }

    /// Writes once to an output that can take it.
    pub(crate) fn write(&mut self, kind: Kind) {
        match kind {
            Kind::Out => self.out.write(io::stdout().as_fd()),
            Kind::Err => self.err.write(io::stderr().as_fd()),
        }
    }

    /// After the last rank: takes what is left in the pipes and writes everything out.
    pub(crate) fn finish(&mut self) {
        for place in 0..self.streams.len() {
            while self.read(place) {
                self.write_all();
            }
        }
        for stream in &mut self.streams {
            stream.pipe = None;
            let outlet = match stream.kind {
                Kind::Out => &mut self.out,
                Kind::Err => &mut self.err,
            };
            match self.mode {
                Output::Group => stream.pass_group(&mut outlet.pending),
                Output::Prefix | Output::Plain => stream.pass_lines(&mut outlet.pending),
            }
        }
        self.write_all();
    }

    fn write_all(&mut self) {
        self.out.write_all(&mut io::stdout().lock());
        self.err.write_all(&mut io::stderr().lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(held: &[u8], open: bool) -> Stream {
        let pipe = open.then(|| File::open("/dev/null").unwrap());
        Stream { rank: 3, kind: Kind::Out, pipe, held: held.to_vec() }
    }

    #[test]
    fn whole_lines_are_prefixed_and_unfinished_ones_wait_for_their_end() {
        let (mut stream, mut pending) = (stream(b"one\n\ntw", true), Vec::new());
        stream.pass_lines(&mut pending);
        assert_eq!(pending, b"[3] one\n[3] \n");
        stream.held.extend_from_slice(b"o");
        stream.pipe = None;
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
