//! The bytes of one connection.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Reads of a socket that is about to be closed.
const LAST_READS: u32 = 64;

/// What became of an attempt to move bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// So many bytes. None of a read means that the stream is at its end.
    Bytes(usize),
    /// The socket has nothing, or takes nothing, now.
    Blocked,
    /// The connection is over, or never came about.
    Broken(ErrorKind),
}

impl From<io::Result<usize>> for Moved {
    #[inline]
    fn from(result: io::Result<usize>) -> Self {
        match result {
            Ok(bytes) => Self::Bytes(bytes),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Self::Blocked,
                kind => Self::Broken(kind),
            },
        }
    }
}

/// A connected socket that does not block.
#[derive(Debug)]
pub(super) struct Wire {
    socket: TcpStream,
}

impl Wire {
    pub(super) const fn plain(socket: TcpStream) -> Self {
        Self { socket }
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends what the socket takes now.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> Moved {
        (&self.socket).write(bytes).into()
    }

    /// As [`send`](Self::send), of two pieces by one call.
    #[inline]
    pub(super) fn send_both(&mut self, head: &[u8], body: &[u8]) -> Moved {
        (&self.socket).write_vectored(&[IoSlice::new(head), IoSlice::new(body)]).into()
    }

    /// Nothing more is sent, and what has come is of no interest: taking it keeps the system from resetting the connection,
    /// which could destroy what is still on its way to the peer.
    pub(super) fn finish(&mut self) {
        let mut nowhere = [0; 4096];
        for _ in 0..LAST_READS {
            match self.receive(&mut nowhere) {
                Moved::Bytes(bytes) if bytes > 0 => {}
                _ => break,
            }
        }
        // A socket that is shut already needs no more.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads what is there. Less than there is room for means that there is no more now.
    #[inline]
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Moved {
        (&self.socket).read(room).into()
    }
}
