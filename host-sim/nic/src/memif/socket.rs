//! The socket of a memif: messages, with a descriptor beside them.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use aldis_drivers::memif::CONTROL_BYTES;
use aldis_sys::file::{metadata, remove_file};
use aldis_sys::socket::{
    AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, UnixListener, UnixStream,
    bind, connect, listen, recvmsg_with_files, sendmsg, socket,
};
use aldis_sys::{Call, CallFailure, Errno, errno_of};

/// Connections that wait to be taken.
const BACKLOG: i32 = 16;

/// A connection.
#[derive(Debug)]
pub(super) struct ControlSocket(UnixStream);

/// A message that came.
#[derive(Debug)]
pub(super) struct HeardMessage {
    /// Its bytes, and one more if there were more than a message has.
    pub(super) bytes: Vec<u8>,
    /// The first descriptor that came with it; others are closed.
    pub(super) file: Option<OwnedFd>,
}

/// A socket that keeps messages apart and never waits.
fn open() -> Result<OwnedFd, CallFailure> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(CallFailure::of(Call::Socket))
}

/// Returns true if a socket is at the path.
fn is_socket(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

impl ControlSocket {
    /// Connects to a server.
    ///
    /// # Errors
    /// The call that failed; `EAGAIN` of `connect` if the server takes no more now.
    pub(super) fn connect(path: &Path) -> Result<Self, CallFailure> {
        let failed = CallFailure::of(Call::Connect);
        let (socket, address) = (open()?, UnixAddr::new(path).map_err(&failed)?);
        let connected = connect(socket.as_raw_fd(), &address).map_err(|errno| match errno {
            // The system says the same of a file of another kind.
            Errno::ECONNREFUSED if !is_socket(path) => Errno::ENOTSOCK,
            errno => errno,
        });
        connected.map_err(&failed)?;
        Ok(Self(socket.into()))
    }

    /// Sends a message, and a descriptor with it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn send(
        &self,
        message: &[u8; CONTROL_BYTES],
        file: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let numbers: Vec<RawFd> = file.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let beside = if numbers.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg(self.0.as_raw_fd(), &[IoSlice::new(message)], beside, flags).map(drop)
    }

    /// The next message, if one is there. No bytes are the end.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn receive(&self) -> Result<Option<HeardMessage>, Errno> {
        let mut room = [0; CONTROL_BYTES + 1];
        let heard =
            recvmsg_with_files(self.0.as_raw_fd(), &mut [IoSliceMut::new(&mut room)], MsgFlags::MSG_DONTWAIT);
        let heard = match heard {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            heard => heard?,
        };
        Ok(Some(HeardMessage {
            bytes: room.get(..heard.length).unwrap_or_default().to_vec(),
            file: heard.files.into_iter().next(),
        }))
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes connections of clients at a path, as long as the value lives.
#[derive(Debug)]
pub(super) struct ControlListener {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlListener {
    /// Listens at a path. A socket of a process that has gone makes room.
    ///
    /// # Errors
    /// The call that failed: `EADDRINUSE` of `bind` if another process listens there.
    pub(super) fn bind(path: &Path) -> Result<Self, CallFailure> {
        let failed = CallFailure::of(Call::Bind);
        let (socket, address) = (open()?, UnixAddr::new(path).map_err(&failed)?);
        let bound = bind(socket.as_raw_fd(), &address).or_else(|errno| {
            let is_stale =
                ControlSocket::connect(path).is_err_and(|error| error.errno == Errno::ECONNREFUSED);
            if errno != Errno::EADDRINUSE || !is_stale {
                return Err(errno);
            }
            remove_file(path).map_err(errno_of)?;
            bind(socket.as_raw_fd(), &address)
        });
        bound.map_err(&failed)?;
        let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
        listen(&socket, backlog).map_err(CallFailure::of(Call::Listen))?;
        Ok(Self { listener: socket.into(), path: path.into() })
    }

    /// Leaves the path behind, as a process that is killed does.
    #[cfg(test)]
    pub(super) fn abandon(mut self) {
        self.path.clear();
    }

    /// The next connection, if one is there.
    pub(super) fn accept(&self) -> Option<ControlSocket> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(ControlSocket(stream))
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // Only a name is left if this fails, and no caller to tell.
        let _ = remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, read_dir, read_link};
    use std::os::unix::net::UnixStream as StdStream;

    use aldis_kit::scratch::ScratchFolder;

    use super::*;

    #[test]
    fn descriptors_that_nobody_asked_for_are_closed() {
        let folder = ScratchFolder::new("descriptors");
        let path = folder.path().join("one");
        let file = File::create(&path).unwrap();
        let count = || {
            let all = read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|entry| read_link(entry.path()).is_ok_and(|found| found == path)).count()
        };
        let (from, to) = StdStream::pair().unwrap();
        let to = ControlSocket(OwnedFd::from(to).into());
        let numbers = [file.as_raw_fd(); 3];
        let rights = [ControlMessage::ScmRights(&numbers)];
        let piece = [IoSlice::new(&[7; CONTROL_BYTES])];
        sendmsg(from.as_raw_fd(), &piece, &rights, MsgFlags::empty()).unwrap();
        let heard = to.receive().unwrap().unwrap();
        assert_eq!((heard.bytes.len(), heard.file.is_some(), count()), (CONTROL_BYTES, true, 2));
        drop(heard);
        assert_eq!(count(), 1);
    }
}
