//! The bytes of one connection.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use aldis_protocols::stream::StreamRefusal;
use aldis_sys::socket::{Shutdown, TcpStream};
use aldis_sys::{Call, CallFailure, Errno, errno_of, uninterrupted};

use super::session::Session;
use super::tls::Tls;

/// Reads of a socket that is about to be closed.
const LAST_READS: u32 = 64;

/// Returns true if a failure says nothing of the connection: another attempt may succeed, as when
/// the system has memory again.
pub(super) fn is_momentary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOBUFS | Errno::ENOMEM))
}

/// The outcome of an attempt to move bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// So many bytes. None of a read means that the stream is at its end.
    Bytes(usize),
    /// The socket has nothing, or takes nothing, now.
    Blocked,
    /// The system refuses now and may not later. It does not tell when.
    Denied(CallFailure),
    /// The connection is over, or never came about, by a call that failed if the system ended it.
    Broken(Option<CallFailure>),
}

impl Moved {
    /// The result of a call.
    #[inline]
    pub(super) fn by(call: Call, result: io::Result<usize>) -> Self {
        match result {
            Ok(bytes) => Self::Bytes(bytes),
            Err(error) => Self::not(call, error),
        }
    }

    #[cold]
    fn not(call: Call, error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock => Self::Blocked,
            _ if is_momentary(&error) => Self::Denied(CallFailure { call, errno: errno_of(error) }),
            _ => Self::Broken(Some(CallFailure { call, errno: errno_of(error) })),
        }
    }
}

/// A connected socket that does not block, and what is between it and the bytes of ranks.
#[derive(Debug)]
pub(super) enum Wire {
    /// The socket without encryption.
    Plain(TcpStream),
    /// TLS.
    Encrypted(Box<Session>),
}

impl Wire {
    /// A connection that this side has made, or accepted. `None`: it cannot be encrypted.
    pub(super) fn new(socket: TcpStream, tls: Option<&Tls>, dialled: bool) -> Option<Self> {
        match tls {
            None => Some(Self::Plain(socket)),
            Some(tls) => tls.session(socket, dialled).map(|session| Self::Encrypted(Box::new(session))),
        }
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(session) => session.socket(),
        }
    }

    /// The reason why the encryption has ended the connection, if it has.
    pub(super) const fn refusal(&self) -> Option<StreamRefusal> {
        match self {
            Self::Plain(_) => None,
            Self::Encrypted(session) => session.refusal(),
        }
    }

    /// Sends what the socket takes now.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> Moved {
        match self {
            Self::Plain(socket) => Moved::by(Call::Send, uninterrupted(|| socket.write(bytes))),
            Self::Encrypted(session) => session.send([bytes, &[]]),
        }
    }

    /// Sends two pieces by one call, like [`send`](Self::send).
    #[inline]
    pub(super) fn send_both(&mut self, head: &[u8], body: &[u8]) -> Moved {
        match self {
            Self::Plain(socket) => {
                let parts = [IoSlice::new(head), IoSlice::new(body)];
                Moved::by(Call::Sendmsg, uninterrupted(|| socket.write_vectored(&parts)))
            }
            Self::Encrypted(session) => session.send([head, body]),
        }
    }

    /// Sends several pieces by one call, like [`send`](Self::send).
    pub(super) fn send_all(&mut self, pieces: &[IoSlice<'_>]) -> Moved {
        match (self, pieces) {
            (Self::Plain(socket), _) => {
                Moved::by(Call::Sendmsg, uninterrupted(|| socket.write_vectored(pieces)))
            }
            (Self::Encrypted(session), [first, ..]) => session.send([first, &[]]),
            (Self::Encrypted(_), []) => Moved::Bytes(0),
        }
    }

    /// Shuts the socket: nothing can be sent any more. What has come already can still be read, and
    /// then the end; the peer reads its end too.
    pub(super) fn cut(&self) {
        // A socket that is shut already needs no more.
        let _ = self.socket().shutdown(Shutdown::Both);
    }

    /// Ends the sending side; what has come is of no interest: taking it keeps the system from
    /// resetting the connection, which could destroy what is still on its way to the peer.
    pub(super) fn finish(&mut self) {
        let mut nowhere = [0; 4096];
        for _ in 0..LAST_READS {
            match self.receive(&mut nowhere) {
                Moved::Bytes(bytes) if bytes > 0 => {}
                _ => break,
            }
        }
        match self {
            // A socket that is shut already needs no more.
            Self::Plain(socket) => drop(socket.shutdown(Shutdown::Write)),
            Self::Encrypted(session) => session.finish(),
        }
    }

    /// Reads what is there. Less than there is room for means that there is no more now.
    #[inline]
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Moved {
        match self {
            Self::Plain(socket) => Moved::by(Call::Recv, uninterrupted(|| socket.read(room))),
            Self::Encrypted(session) => session.receive(room),
        }
    }

    /// Reads into two pieces by one call, like [`receive`](Self::receive).
    #[inline]
    pub(super) fn receive_both(&mut self, room: &mut [u8], behind: &mut [u8]) -> Moved {
        match self {
            Self::Plain(socket) => {
                let mut rooms = [IoSliceMut::new(room), IoSliceMut::new(behind)];
                Moved::by(Call::Readv, uninterrupted(|| socket.read_vectored(&mut rooms)))
            }
            Self::Encrypted(session) => match session.receive(room) {
                Moved::Bytes(bytes) if bytes == room.len() => match session.receive(behind) {
                    Moved::Bytes(more) => Moved::Bytes(bytes + more),
                    _ => Moved::Bytes(bytes),
                },
                moved => moved,
            },
        }
    }
}
