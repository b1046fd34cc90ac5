//! A port: the socket, the queue before the member, and the faults of both directions.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags};
use serde::Serialize;

use super::capture::Capture;
use super::direction::Direction;
use super::faults::Faults;
use super::statistics::PortStatistics;
use super::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, QUEUE_FRAMES, RETRY_NS};

/// What a port's socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Unix datagrams, each of which is a frame.
    Datagram,
}

/// A port of the switch.
#[derive(Debug)]
pub(super) struct Port {
    socket: UnixDatagram,
    own: PathBuf,
    member: PathBuf,
    queue: VecDeque<Vec<u8>>,
    /// When a full socket is tried again.
    retry: Option<u64>,
    pub(super) inbound: Direction,
    outbound: Direction,
    counts: PortStatistics,
}

/// What came of handing a frame to the system.
enum Handed {
    Sent,
    Full,
    Absent,
    Refused,
}

impl Port {
    pub(super) fn bind(
        folder: &Path,
        number: u32,
        kind: Kind,
        seed: u64,
        from: Faults,
        to: Faults,
    ) -> io::Result<Self> {
        let own = folder.join(format!("port{number}.sock"));
        let socket = UnixDatagram::bind(&own)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", own.display())))?;
        socket.set_nonblocking(true)?;
        let stream = 2 * u64::from(number);
        Ok(Self {
            socket,
            own,
            member: folder.join(format!("member{number}.sock")),
            queue: VecDeque::new(),
            retry: None,
            inbound: Direction::new(from, seed, stream),
            outbound: Direction::new(to, seed, stream + 1),
            counts: PortStatistics::new(number, kind),
        })
    }

    pub(super) fn statistics(&self) -> PortStatistics {
        PortStatistics { inbound: self.inbound.counts, outbound: self.outbound.counts, ..self.counts.clone() }
    }

    /// What `poll(2)` is to wait for.
    pub(super) fn interests(&self) -> impl Iterator<Item = PollFd<'_>> {
        core::iter::once(PollFd::new(self.socket.as_fd(), PollFlags::POLLIN))
    }

    /// When something is to be done even if no frame comes.
    pub(super) fn due(&self) -> Option<u64> {
        [self.inbound.due(), self.outbound.due(), self.retry].into_iter().flatten().min()
    }

    /// The length of the next good frame from the member; `None` when there is none.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            // Whatever is wrong with the socket now will be so at the next turn; there is no frame in it.
            let length = self.socket.recv(buffer).ok()?;
            match length {
                ..FRAME_BYTES_MIN => self.counts.runts += 1,
                FRAME_BYTES_MIN..=FRAME_BYTES_MAX => {
                    self.counts.received += 1;
                    self.counts.received_bytes += length as u64;
                    return Some(length);
                }
                _ => self.counts.unreadable += 1,
            }
        }
    }

    /// A frame for the member sets out.
    pub(super) fn send(&mut self, frame: &[u8], now: u64) {
        let mut passed = Vec::new();
        self.outbound.pass(frame, now, &mut passed);
        self.enqueue(passed);
    }

    /// Lets go of what was held back for the member long enough.
    pub(super) fn release(&mut self, now: u64) {
        let mut passed = Vec::new();
        self.outbound.release(now, &mut passed);
        self.enqueue(passed);
    }

    fn enqueue(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            if self.queue.len() < QUEUE_FRAMES {
                self.queue.push_back(frame);
            } else {
                self.counts.overflowed += 1;
            }
        }
    }

    /// Gives the member as much of its queue as it takes.
    pub(super) fn flush(&mut self, now: u64, mut capture: Option<&mut Capture>) -> io::Result<()> {
        self.retry = None;
        while let Some(frame) = self.queue.front() {
            match hand(&self.socket, frame, &self.member) {
                Handed::Sent => {
                    self.counts.sent += 1;
                    self.counts.sent_bytes += frame.len() as u64;
                    capture.as_mut().map_or(Ok(()), |capture| capture.frame_now(frame))?;
                }
                Handed::Absent => self.counts.absent += 1,
                Handed::Refused => self.counts.refused += 1,
                Handed::Full => {
                    self.retry = Some(now + RETRY_NS);
                    return Ok(());
                }
            }
            self.queue.pop_front();
        }
        Ok(())
    }
}

fn hand(socket: &UnixDatagram, frame: &[u8], member: &Path) -> Handed {
    match socket.send_to(frame, member) {
        Ok(_) => Handed::Sent,
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock => Handed::Full,
            // No socket of that name, or nobody who reads it.
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Handed::Absent,
            _ => Handed::Refused,
        },
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // Only a name is left if this fails, and nobody to tell.
        let _ = std::fs::remove_file(&self.own);
    }
}
