//! The bytes of one connection under TLS.

use std::io::{self, ErrorKind, Read, Write};

use aldis_protocols::stream::StreamRefusal;
use aldis_sys::socket::{Shutdown, TcpStream};
use aldis_sys::{Call, CallFailure, errno_of, uninterrupted};
use rustls::{Connection, Error};

use super::wire::{Moved, is_momentary};

/// Bytes that the library may hold for the socket, encrypted or not yet.
const BUFFER_BYTES: usize = 64 << 10;

/// A connected socket and the state of TLS on it. It takes and gives bytes as a socket does: what
/// it has taken is with the system, but for at most [`BUFFER_BYTES`] of which the last byte has not
/// been reported as taken. So the sender comes again when the socket has room, with that byte,
/// and the rest goes out.
#[derive(Debug)]
pub(super) struct Session {
    socket: TcpStream,
    connection: Connection,
    /// The first byte of what is sent next has been taken already.
    held: bool,
    /// The stream of the socket is at its end.
    ended: bool,
    refusal: Option<StreamRefusal>,
}

impl Session {
    pub(super) fn new(socket: TcpStream, mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        Self { socket, connection, held: false, ended: false, refusal: None }
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The reason why TLS has ended the connection, if it has.
    pub(super) const fn refusal(&self) -> Option<StreamRefusal> {
        self.refusal
    }

    /// Hands what is encrypted to the socket; whether that is all.
    fn flush(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match uninterrupted(|| self.connection.write_tls(&mut self.socket)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if is_momentary(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(!self.connection.is_handshaking())
    }

    /// Sends the parts, one behind the other, as far as the socket takes them.
    pub(super) fn send(&mut self, parts: [&[u8]; 2]) -> Moved {
        match self.try_send(parts) {
            Ok(0) if parts.iter().any(|part| !part.is_empty()) => Moved::Blocked,
            Ok(taken) => Moved::Bytes(taken),
            Err(error) => Moved::Broken(failure(Call::Sendmsg, error)),
        }
    }

    fn try_send(&mut self, parts: [&[u8]; 2]) -> io::Result<usize> {
        let mut skip = usize::from(self.held);
        if self.held && !self.flush()? {
            return Ok(0);
        }
        self.held = false;
        let mut taken = skip;
        for mut part in parts {
            let skipped = skip.min(part.len());
            (part, skip) = (&part[skipped..], skip - skipped);
            while !part.is_empty() {
                let count = self.connection.writer().write(part)?;
                (part, taken) = (&part[count..], taken + count);
                if !self.flush()? {
                    self.held = taken > 0;
                    return Ok(taken.saturating_sub(1));
                }
            }
        }
        Ok(taken)
    }

    /// Reads what is there. Less than there is room for means that there is no more now.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> Moved {
        let mut filled = 0;
        while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.connection.reader().read(rest) {
                Ok(count) if count > 0 => filled += count,
                // The end, with or without a word of TLS: ranks have a farewell of their own.
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) if !is_momentary(&error) => return Moved::Broken(None),
                Err(_) => match self.decrypt() {
                    Ok(true) => {}
                    Ok(false) if filled == 0 => return Moved::Blocked,
                    Ok(false) => break,
                    Err(_) if filled > 0 => break,
                    Err(failure) => return Moved::Broken(failure),
                },
            }
        }
        Moved::Bytes(filled)
    }

    /// Reads what has come over the socket; false if there was nothing. Fails with the call that
    /// failed, if any did.
    fn decrypt(&mut self) -> Result<bool, Option<CallFailure>> {
        if self.refusal.is_some() {
            return Err(None);
        }
        match uninterrupted(|| self.connection.read_tls(&mut self.socket)) {
            Ok(0) if self.ended => return Err(None),
            Ok(count) => self.ended = count == 0,
            Err(error) if is_momentary(&error) => return Ok(false),
            Err(error) => return Err(failure(Call::Recv, error)),
        }
        let processed = self.connection.process_new_packets();
        // An answer is due within the handshake, and a last word if it has failed.
        let flushed = self.flush().map_err(|error| failure(Call::Sendmsg, error));
        if let Err(error) = processed {
            self.refusal = Some(reason(&error));
            return Err(None);
        }
        flushed.map(|_| true)
    }

    /// Ends the sending side: nothing more is sent.
    pub(super) fn finish(&mut self) {
        self.connection.send_close_notify();
        // A socket that is shut already needs no more.
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// The failure of this call, if the system has refused.
fn failure(call: Call, error: io::Error) -> Option<CallFailure> {
    error.raw_os_error().map(|_| CallFailure { call, errno: errno_of(error) })
}

/// Returns the reason of an error: the other side is not trusted or trusts not, or does not speak
/// TLS.
const fn reason(error: &Error) -> StreamRefusal {
    match error {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented | Error::AlertReceived(_) => {
            StreamRefusal::Untrusted
        }
        _ => StreamRefusal::Foreign,
    }
}
