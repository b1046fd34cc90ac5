//! The socket of a port, and the way of frames through it.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use aldis_drivers::serial::cobs::{self, Decoder};
use aldis_sys::file::remove_file;
use aldis_sys::socket::{UnixDatagram, UnixListener, UnixStream};
use serde::Serialize;

use super::FRAME_BYTES_MAX;

/// The kind of a port's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CableKind {
    /// Unix datagrams, each of which is a frame.
    Datagram,
    /// A unix stream that the member connects to: a serial line, with frames in COBS and a zero
    /// behind each.
    Serial,
}

/// The result of handing a frame over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    /// The member has it, or will.
    Sent,
    /// Later.
    Full,
    /// There is no member.
    Absent,
    /// The system does not send such a frame.
    Refused,
}

/// Bytes came that are no frame.
#[derive(Debug)]
pub(super) struct Unreadable;

/// A cable to one member.
#[derive(Debug)]
pub(super) struct Cable {
    own: PathBuf,
    end: CableEnd,
}

#[derive(Debug)]
enum CableEnd {
    Datagram { socket: UnixDatagram, member: PathBuf },
    Serial(Box<Serial>),
}

impl Cable {
    pub(super) fn new(folder: &Path, number: u32, kind: CableKind) -> io::Result<Self> {
        let name = if kind == CableKind::Serial { "serial" } else { "port" };
        let own = folder.join(format!("{name}{number}.sock"));
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", own.display()));
        let end = match kind {
            CableKind::Datagram => {
                let socket = UnixDatagram::bind(&own).map_err(named)?;
                socket.set_nonblocking(true)?;
                CableEnd::Datagram { socket, member: folder.join(format!("member{number}.sock")) }
            }
            CableKind::Serial => {
                let listener = UnixListener::bind(&own).map_err(named)?;
                listener.set_nonblocking(true)?;
                CableEnd::Serial(Box::new(Serial::new(listener)))
            }
        };
        Ok(Self { own, end })
    }

    /// Returns the descriptor that can be read when a frame or a member comes.
    pub(super) fn source(&self) -> BorrowedFd<'_> {
        match &self.end {
            CableEnd::Datagram { socket, .. } => socket.as_fd(),
            CableEnd::Serial(serial) => serial.stream.as_ref().map_or(serial.listener.as_fd(), AsFd::as_fd),
        }
    }

    /// The length of the next frame, which is in `buffer` then, if there is one.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Option<Result<usize, Unreadable>> {
        match &mut self.end {
            // Whatever is wrong with the socket now will be so at the next turn; there is no frame
            // in it.
            CableEnd::Datagram { socket, .. } => match socket.recv(buffer).ok()? {
                length if length > FRAME_BYTES_MAX => Some(Err(Unreadable)),
                length => Some(Ok(length)),
            },
            CableEnd::Serial(serial) => serial.receive(buffer),
        }
    }

    /// Returns true if something was read that [`receive`](Self::receive) has not looked at.
    pub(super) fn has_input(&self) -> bool {
        matches!(&self.end, CableEnd::Serial(serial) if !serial.input.is_empty())
    }

    /// Gives the member a frame.
    pub(super) fn hand(&mut self, frame: &[u8]) -> Handed {
        match &mut self.end {
            CableEnd::Datagram { socket, member } => {
                socket.send_to(frame, member).map_or_else(|error| refusal(&error), |_| Handed::Sent)
            }
            CableEnd::Serial(serial) => serial.hand(frame),
        }
    }

    /// Returns true if a part of a frame that was handed over has to wait for room.
    pub(super) fn is_behind(&mut self) -> bool {
        match &mut self.end {
            CableEnd::Datagram { .. } => false,
            CableEnd::Serial(serial) => !serial.flush(),
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Only a name is left if this fails, and no caller to tell.
        let _ = remove_file(&self.own);
    }
}

fn refusal(error: &io::Error) -> Handed {
    match error.kind() {
        ErrorKind::WouldBlock => Handed::Full,
        // No socket of that name, or no process that reads it.
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Handed::Absent,
        _ => Handed::Refused,
    }
}

/// Reads of one call: a member that sends no delimiter does not keep the others waiting.
const READS_MAX: usize = 16;

/// A serial line, with or without a member at its other end.
#[derive(Debug)]
struct Serial {
    listener: UnixListener,
    stream: Option<UnixStream>,
    decoder: Decoder,
    /// The frame that comes in.
    frame: Vec<u8>,
    /// Bytes that were read and not looked at.
    input: Vec<u8>,
    /// Encoded bytes that wait for room.
    output: Vec<u8>,
}

impl Serial {
    fn new(listener: UnixListener) -> Self {
        let frame = vec![0; FRAME_BYTES_MAX];
        Self { listener, stream: None, decoder: Decoder::new(), frame, input: Vec::new(), output: Vec::new() }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Result<usize, Unreadable>> {
        self.accept();
        for _ in 0..READS_MAX {
            let mut rest = self.input.as_slice();
            let decoded = self.decoder.feed(&mut rest, &mut self.frame);
            let looked_at = self.input.len() - rest.len();
            self.input.drain(..looked_at);
            match decoded {
                Some(Ok(length)) => {
                    buffer.get_mut(..length)?.copy_from_slice(self.frame.get(..length)?);
                    return Some(Ok(length));
                }
                Some(Err(_)) => return Some(Err(Unreadable)),
                None => self.read()?,
            }
        }
        None
    }

    /// Takes the next member if there is none.
    fn accept(&mut self) {
        if self.stream.is_some() {
            return;
        }
        let accepted = self.listener.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        self.stream = accepted.ok();
    }

    /// Reads what there is. `None`: nothing, or the member has gone.
    fn read(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        let result = self.stream.as_mut()?.read(&mut chunk);
        match result {
            Ok(count @ 1..) => {
                self.input.extend_from_slice(chunk.get(..count)?);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(_) | Err(_) => {
                self.unplug();
                None
            }
        }
    }

    /// Forgets the member; half a frame of it is none.
    fn unplug(&mut self) {
        self.stream = None;
        self.decoder = Decoder::new();
        self.input.clear();
        self.output.clear();
    }

    fn hand(&mut self, frame: &[u8]) -> Handed {
        if !self.flush() {
            return Handed::Full;
        }
        if self.stream.is_none() {
            return Handed::Absent;
        }
        self.output.resize(cobs::encoded_bytes_max(frame.len()), 0);
        let encoded = cobs::encode(frame, &mut self.output).unwrap_or(0);
        self.output.truncate(encoded);
        self.flush();
        Handed::Sent
    }

    /// Writes what waits; whether nothing waits any more.
    fn flush(&mut self) -> bool {
        while let Some(stream) = self.stream.as_mut().filter(|_| !self.output.is_empty()) {
            match stream.write(&self.output) {
                Ok(written @ 1..) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Ok(_) | Err(_) => self.unplug(),
            }
        }
        true
    }
}
