//! Sockets. What is read from and written to a stream here never raises `SIGPIPE`.

mod files;

pub(crate) use files::{ControlKind, control_data};
pub use files::{ReceivedMessage, recvmsg_with_files};

use core::net::SocketAddr;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net as local;
use std::path::Path;

pub use nix::cmsg_space;
use nix::errno::Errno;
pub use nix::ifaddrs::{InterfaceAddress, InterfaceAddressIterator};
pub use nix::net::if_::InterfaceFlags;
use nix::sys::socket;
pub use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, GetSockOpt, MsgFlags, RecvMsg, SetSockOpt,
    SockFlag, SockProtocol, SockType, SockaddrLike, SockaddrStorage, UnixAddr, sockopt,
};
pub use std::net::Shutdown;

use crate::call::Call;
use crate::fault::enter;

/// `socket(2)`.
///
/// # Errors
/// The system's.
pub fn socket(
    family: AddressFamily,
    kind: SockType,
    flags: SockFlag,
    protocol: Option<SockProtocol>,
) -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Socket)?;
    socket::socket(family, kind, flags, protocol)
}

/// `socketpair(2)`.
///
/// # Errors
/// The system's.
pub fn socketpair(
    family: AddressFamily,
    kind: SockType,
    protocol: Option<SockProtocol>,
    flags: SockFlag,
) -> Result<(OwnedFd, OwnedFd), Errno> {
    let _fault = enter(Call::Socketpair)?;
    socket::socketpair(family, kind, protocol, flags)
}

/// `bind(2)`.
///
/// # Errors
/// The system's.
pub fn bind(socket: RawFd, address: &dyn SockaddrLike) -> Result<(), Errno> {
    let _fault = enter(Call::Bind)?;
    socket::bind(socket, address)
}

/// `connect(2)`.
///
/// # Errors
/// The system's.
pub fn connect(socket: RawFd, address: &dyn SockaddrLike) -> Result<(), Errno> {
    let _fault = enter(Call::Connect)?;
    socket::connect(socket, address)
}

/// `listen(2)`.
///
/// # Errors
/// The system's.
pub fn listen(socket: &impl AsFd, backlog: Backlog) -> Result<(), Errno> {
    let _fault = enter(Call::Listen)?;
    socket::listen(socket, backlog)
}

/// `setsockopt(2)`.
///
/// # Errors
/// The system's.
pub fn setsockopt<O: SetSockOpt>(socket: &impl AsFd, option: O, value: &O::Val) -> Result<(), Errno> {
    let _fault = enter(Call::Setsockopt)?;
    socket::setsockopt(socket, option, value)
}

/// `getsockopt(2)`.
///
/// # Errors
/// The system's.
pub fn getsockopt<O: GetSockOpt>(socket: &impl AsFd, option: O) -> Result<O::Val, Errno> {
    let _fault = enter(Call::Getsockopt)?;
    socket::getsockopt(socket, option)
}

/// `recv(2)`.
///
/// # Errors
/// The system's.
#[inline]
pub fn recv(socket: RawFd, room: &mut [u8], flags: MsgFlags) -> Result<usize, Errno> {
    let fault = enter(Call::Recv)?;
    socket::recv(socket, fault.cut_mut(room), flags)
}

/// `send(2)`.
///
/// # Errors
/// The system's.
#[inline]
pub fn send(socket: RawFd, bytes: &[u8], flags: MsgFlags) -> Result<usize, Errno> {
    let fault = enter(Call::Send)?;
    socket::send(socket, fault.cut(bytes), flags)
}

/// `recvmsg(2)`, without the sender's address.
///
/// # Errors
/// The system's.
pub fn recvmsg<'a, 'room, 'inner: 'room>(
    socket: RawFd,
    rooms: &'room mut [IoSliceMut<'inner>],
    beside: Option<&'a mut [u8]>,
    flags: MsgFlags,
) -> Result<RecvMsg<'a, 'room, ()>, Errno> {
    let _fault = enter(Call::Recvmsg)?;
    socket::recvmsg(socket, rooms, beside, flags)
}

/// `sendmsg(2)`, to where the socket is connected.
///
/// # Errors
/// The system's.
#[inline]
pub fn sendmsg(
    socket: RawFd,
    pieces: &[IoSlice<'_>],
    beside: &[ControlMessage<'_>],
    flags: MsgFlags,
) -> Result<usize, Errno> {
    let fault = enter(Call::Sendmsg)?;
    socket::sendmsg::<()>(socket, &fault.cut_all(pieces), beside, flags, None)
}

/// `shutdown(2)`.
///
/// # Errors
/// The system's.
pub fn shutdown(socket: RawFd, how: Shutdown) -> Result<(), Errno> {
    let _fault = enter(Call::Shutdown)?;
    let how = match how {
        Shutdown::Read => socket::Shutdown::Read,
        Shutdown::Write => socket::Shutdown::Write,
        Shutdown::Both => socket::Shutdown::Both,
    };
    socket::shutdown(socket, how)
}

/// `getifaddrs(3)`: the addresses of this machine.
///
/// # Errors
/// The system's.
pub fn getifaddrs() -> Result<InterfaceAddressIterator, Errno> {
    let _fault = enter(Call::Getifaddrs)?;
    nix::ifaddrs::getifaddrs()
}

/// Declares a socket of `std` of which each call asks for faults first.
macro_rules! sockets {
    ($($(#[$doc:meta])* $name:ident $of:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name($of);

            impl $name {
                /// `ioctl(2)`, `FIONBIO`.
                ///
                /// # Errors
                /// The system's.
                pub fn set_nonblocking(&self, does_not_block: bool) -> io::Result<()> {
                    let _fault = enter(Call::Ioctl)?;
                    self.0.set_nonblocking(does_not_block)
                }
            }

            impl From<OwnedFd> for $name {
                fn from(file: OwnedFd) -> Self {
                    Self(file.into())
                }
            }

            impl AsFd for $name {
                fn as_fd(&self) -> BorrowedFd<'_> {
                    self.0.as_fd()
                }
            }

            impl AsRawFd for $name {
                fn as_raw_fd(&self) -> RawFd {
                    self.0.as_raw_fd()
                }
            }
        )*
    };
}

/// Declares how streams are read and written.
macro_rules! streams {
    ($($name:ident)*) => {
        $(
            impl $name {
                /// `shutdown(2)`.
                ///
                /// # Errors
                /// The system's.
                pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                    let _fault = enter(Call::Shutdown)?;
                    self.0.shutdown(how)
                }
            }

            impl Read for $name {
                /// `recv(2)`.
                #[inline]
                fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
                    let fault = enter(Call::Recv)?;
                    self.0.read(fault.cut_mut(room))
                }

                /// `readv(2)`.
                #[inline]
                fn read_vectored(&mut self, rooms: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                    let fault = enter(Call::Readv)?;
                    fault.cut_all_mut(rooms, |rooms| self.0.read_vectored(rooms))
                }
            }

            impl Write for $name {
                /// `send(2)`.
                #[inline]
                fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                    Ok(send(self.0.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)
                }

                /// `sendmsg(2)`: as `writev(2)`, which `std` makes, but without a signal.
                #[inline]
                fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
                    Ok(sendmsg(self.0.as_raw_fd(), pieces, &[], MsgFlags::MSG_NOSIGNAL)?)
                }

                #[inline]
                fn flush(&mut self) -> io::Result<()> {
                    Ok(())
                }
            }
        )*
    };
}

sockets! {
    /// A connection over TCP.
    TcpStream net::TcpStream;
    /// Takes connections over TCP.
    TcpListener net::TcpListener;
    /// A connection on this machine.
    UnixStream local::UnixStream;
    /// Takes connections on this machine.
    UnixListener local::UnixListener;
    /// Datagrams on this machine.
    UnixDatagram local::UnixDatagram;
}

streams! { TcpStream UnixStream }

impl TcpListener {
    /// `accept(2)`.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let _fault = enter(Call::Accept)?;
        self.0.accept().map(|(stream, from)| (TcpStream(stream), from))
    }

    /// `getsockname(2)`.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let _fault = enter(Call::Getsockname)?;
        self.0.local_addr()
    }
}

impl UnixListener {
    /// `bind(2)`, of a new socket.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let _fault = enter(Call::Bind)?;
        local::UnixListener::bind(path).map(Self)
    }

    /// `accept(2)`.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<(UnixStream, local::SocketAddr)> {
        let _fault = enter(Call::Accept)?;
        self.0.accept().map(|(stream, from)| (UnixStream(stream), from))
    }
}

impl UnixDatagram {
    /// `bind(2)`, of a new socket.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let _fault = enter(Call::Bind)?;
        local::UnixDatagram::bind(path).map(Self)
    }

    /// `recv(2)`.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub fn recv(&self, room: &mut [u8]) -> io::Result<usize> {
        let fault = enter(Call::Recv)?;
        self.0.recv(fault.cut_mut(room))
    }

    /// `sendto(2)`: all of the datagram or nothing.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let _fault = enter(Call::Sendto)?;
        self.0.send_to(bytes, path)
    }
}

#[cfg(test)]
mod tests;
