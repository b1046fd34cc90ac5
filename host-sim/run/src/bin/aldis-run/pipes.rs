//! The output of a node's ranks, as it comes through their pipes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aldis_sys::file::{FcntlArg, OFlag, fcntl, read};
use aldis_sys::{Errno, uninterrupted};

use crate::messages::OutputKind;

/// Bytes read at a time.
pub(crate) const READ_BYTES_MAX: usize = 16 << 10;

/// A pipe from a rank.
#[derive(Debug)]
struct Pipe {
    rank: u32,
    kind: OutputKind,
    /// `None` after the end.
    file: Option<OwnedFd>,
}

/// The outcome of a read.
#[derive(Debug)]
pub(crate) enum Came {
    /// Output, or, empty, its end.
    Output { rank: u32, kind: OutputKind, bytes: Vec<u8> },
    /// No output now.
    Nothing,
    /// The system does not give what the rank prints; what was in the pipe is lost.
    Lost { rank: u32, errno: Errno },
}

/// All pipes of a node.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pipes: Vec<Pipe>,
}

impl Pipes {
    /// Adds the pipes of a rank.
    pub(crate) fn add(&mut self, rank: u32, out: OwnedFd, err: OwnedFd) -> Result<(), Errno> {
        for (kind, pipe) in [(OutputKind::Out, out), (OutputKind::Err, err)] {
            fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            self.pipes.push(Pipe { rank, kind, file: Some(pipe) });
        }
        Ok(())
    }

    /// The open pipes, with their places.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, OutputKind, BorrowedFd<'_>)> {
        self.pipes
            .iter()
            .enumerate()
            .filter_map(|(place, pipe)| Some((place, pipe.kind, pipe.file.as_ref()?.as_fd())))
    }

    /// Reads once from the pipe at `place`; closes it at its end.
    pub(crate) fn read(&mut self, place: usize) -> Came {
        let Some(pipe) = self.pipes.get_mut(place) else { return Came::Nothing };
        let Some(file) = &pipe.file else { return Came::Nothing };
        let mut bytes = vec![0; READ_BYTES_MAX];
        let length = match uninterrupted(|| read(file, &mut bytes)) {
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => return Came::Nothing,
            Err(errno) => {
                pipe.file = None;
                return Came::Lost { rank: pipe.rank, errno };
            }
        };
        bytes.truncate(length);
        if bytes.is_empty() {
            pipe.file = None;
        }
        Came::Output { rank: pipe.rank, kind: pipe.kind, bytes }
    }

    /// Closes the pipe at `place` whatever may still come through it.
    pub(crate) fn close(&mut self, place: usize) {
        if let Some(pipe) = self.pipes.get_mut(place) {
            pipe.file = None;
        }
    }

    /// Closes all pipes of a kind: the ranks learn by SIGPIPE that no process reads them, as they
    /// would without a launcher.
    pub(crate) fn shut(&mut self, kind: OutputKind) {
        self.pipes.iter_mut().filter(|pipe| pipe.kind == kind).for_each(|pipe| pipe.file = None);
    }
}
