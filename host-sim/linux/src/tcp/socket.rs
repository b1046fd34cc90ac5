//! Sockets as this transport wants them.

use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aldis_sys::socket::{
    AddressFamily, Backlog, SetSockOpt, SockFlag, SockType, SockaddrStorage, TcpListener, TcpStream, bind,
    connect, listen, setsockopt, socket, sockopt,
};
use aldis_sys::{Call, CallFailure, Errno};

use super::error::TcpError;

/// Connections that a listener keeps until they are taken; the system cuts it to its own bound
/// (`somaxconn`).
const BACKLOG: i32 = 4096;

/// The time between two probes of a silent connection, in seconds, and how many may stay
/// unanswered.
const PROBE_SECONDS: u32 = 5;
const PROBES: u32 = 4;

/// The options that every socket of a transport is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) send_buffer: Option<usize>,
    pub(super) receive_buffer: Option<usize>,
    pub(super) keep_alive: Option<Duration>,
}

/// Sets an option.
fn set<O: SetSockOpt>(socket: &impl AsFd, option: O, value: &O::Val) -> Result<(), CallFailure> {
    setsockopt(socket, option, value).map_err(CallFailure::of(Call::Setsockopt))
}

/// A socket of the family of `ip`, which does not block, with the sizes that must be known before
/// it is connected.
fn open(ip: IpAddr, options: &Options) -> Result<OwnedFd, CallFailure> {
    let family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let file = socket(family, SockType::Stream, flags, None).map_err(CallFailure::of(Call::Socket))?;
    if let Some(bytes) = options.send_buffer {
        set(&file, sockopt::SndBuf, &bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        set(&file, sockopt::RcvBuf, &bytes)?;
    }
    Ok(file)
}

/// Listens at `ip` on the first free port of the range; zero stands for any.
///
/// # Errors
/// [`TcpError::NoPort`] if all are taken, [`TcpError::Descriptors`], or the call that failed.
pub(super) fn listen_at(
    ip: IpAddr,
    ports: &RangeInclusive<u16>,
    options: &Options,
) -> Result<TcpListener, TcpError> {
    for port in ports.clone() {
        let file = open(ip, options)?;
        set(&file, sockopt::ReuseAddr, &true)?;
        if ip.is_ipv6() {
            set(&file, sockopt::Ipv6V6Only, &true)?;
        }
        match bind(file.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(ip, port))) {
            Ok(()) => {}
            Err(Errno::EADDRINUSE | Errno::EACCES) => continue,
            Err(errno) => return Err(TcpError::system("bind")(errno)),
        }
        let backlog = Backlog::new(BACKLOG).unwrap_or(Backlog::MAXCONN);
        match listen(&file, backlog) {
            Ok(()) => return Ok(TcpListener::from(file)),
            Err(Errno::EADDRINUSE) => {}
            Err(errno) => return Err(TcpError::system("listen")(errno)),
        }
    }
    Err(TcpError::NoPort { ip, first: *ports.start(), last: *ports.end() })
}

/// Begins a connection, which is there when the socket becomes writable.
///
/// # Errors
/// The system's.
pub(super) fn begin(to: SocketAddr, options: &Options) -> Result<TcpStream, CallFailure> {
    let file = open(to.ip(), options)?;
    match connect(file.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(CallFailure { call: Call::Connect, errno }),
    }
    let stream = TcpStream::from(file);
    prepare(&stream, options)?;
    Ok(stream)
}

/// Sets a connected or connecting socket up: nothing is held back, and a peer whose machine is gone
/// is noticed.
///
/// # Errors
/// The system's.
pub(super) fn prepare(stream: &TcpStream, options: &Options) -> Result<(), CallFailure> {
    set(stream, sockopt::TcpNoDelay, &true)?;
    let Some(idle) = options.keep_alive else { return Ok(()) };
    let idle_seconds = u32::try_from(idle.as_secs()).unwrap_or(u32::MAX).clamp(1, 32_767);
    let patience = Duration::from_secs(u64::from(idle_seconds + PROBE_SECONDS * PROBES));
    set(stream, sockopt::KeepAlive, &true)?;
    set(stream, sockopt::TcpKeepIdle, &idle_seconds)?;
    set(stream, sockopt::TcpKeepInterval, &PROBE_SECONDS)?;
    set(stream, sockopt::TcpKeepCount, &PROBES)?;
    // What has been sent may stay unanswered for as long as silence may last.
    set(stream, sockopt::TcpUserTimeout, &(patience.as_millis() as u32))
}

#[cfg(test)]
mod tests {
    use aldis_sys::socket::getsockopt;

    use super::*;

    const OPTIONS: Options =
        Options { send_buffer: Some(8192), receive_buffer: None, keep_alive: Some(Duration::from_secs(9)) };

    #[test]
    fn a_taken_range_of_ports_is_named() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let first = listen_at(ip, &(0..=0), &OPTIONS).unwrap();
        let port = first.local_addr().unwrap().port();
        let taken = listen_at(ip, &(port..=port), &OPTIONS).unwrap_err();
        assert_eq!(taken, TcpError::NoPort { ip, first: port, last: port });
        assert!(taken.to_string().contains(&format!("{port} to {port}")), "{taken}");
        drop(first);
        assert_eq!(listen_at(ip, &(port..=port), &OPTIONS).unwrap().local_addr().unwrap().port(), port);
    }

    #[test]
    fn the_next_port_of_a_range_is_taken() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let first = listen_at(ip, &(0..=0), &OPTIONS).unwrap();
        let port = first.local_addr().unwrap().port();
        let last = port.saturating_add(50);
        let next = listen_at(ip, &(port..=last), &OPTIONS).unwrap().local_addr().unwrap().port();
        assert!(next > port && next <= last);
    }

    #[test]
    fn sockets_are_set_up() {
        let listener = listen_at(IpAddr::from([127, 0, 0, 1]), &(0..=0), &OPTIONS).unwrap();
        let mut stream = begin(listener.local_addr().unwrap(), &OPTIONS).unwrap();
        assert!(getsockopt(&stream, sockopt::TcpNoDelay).unwrap());
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepIdle), Ok(9));
        assert_eq!(getsockopt(&stream, sockopt::TcpUserTimeout), Ok(29_000));
        assert_eq!(getsockopt(&stream, sockopt::SndBuf), Ok(16_384), "the system doubles it");
        let mut end = [0];
        let nothing = std::io::Read::read(&mut stream, &mut end).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    }
}
