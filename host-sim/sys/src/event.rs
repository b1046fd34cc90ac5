//! Waiting for files and signals.

use core::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
pub use nix::poll::{PollFd, PollFlags, PollTimeout};
pub use nix::sys::epoll::{EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
pub use nix::sys::signalfd::SfdFlags;
pub use nix::sys::time::TimeSpec;
use nix::sys::{epoll, eventfd, signalfd};

use crate::call::Call;
use crate::fault::enter;
use crate::signal::SigSet;

/// `poll(2)`.
///
/// # Errors
/// The system's.
pub fn poll(files: &mut [PollFd<'_>], timeout: impl Into<PollTimeout>) -> Result<c_int, Errno> {
    let _fault = enter(Call::Poll)?;
    nix::poll::poll(files, timeout)
}

/// `ppoll(2)`.
///
/// # Errors
/// The system's.
pub fn ppoll(
    files: &mut [PollFd<'_>],
    timeout: Option<TimeSpec>,
    mask: Option<SigSet>,
) -> Result<c_int, Errno> {
    let _fault = enter(Call::Ppoll)?;
    nix::poll::ppoll(files, timeout, mask)
}

/// `eventfd2(2)`: a counter that another process can add to, and that never waits. A program that
/// is executed does not inherit it.
///
/// # Errors
/// The system's.
pub fn eventfd() -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Eventfd)?;
    let flags = eventfd::EfdFlags::EFD_CLOEXEC | eventfd::EfdFlags::EFD_NONBLOCK;
    eventfd::EventFd::from_value_and_flags(0, flags).map(OwnedFd::from)
}

/// A set of files of which the system tells what happens to them.
#[derive(Debug)]
pub struct Epoll(epoll::Epoll);

impl Epoll {
    /// `epoll_create1(2)`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(flags: EpollCreateFlags) -> Result<Self, Errno> {
        let _fault = enter(Call::EpollCreate)?;
        epoll::Epoll::new(flags).map(Self)
    }

    /// `epoll_ctl(2)`, `EPOLL_CTL_ADD`.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, file: impl AsFd, event: EpollEvent) -> Result<(), Errno> {
        let _fault = enter(Call::EpollCtl)?;
        self.0.add(file, event)
    }

    /// `epoll_ctl(2)`, `EPOLL_CTL_DEL`.
    ///
    /// # Errors
    /// The system's.
    pub fn delete(&self, file: impl AsFd) -> Result<(), Errno> {
        let _fault = enter(Call::EpollCtl)?;
        self.0.delete(file)
    }

    /// `epoll_wait(2)`.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub fn wait(&self, events: &mut [EpollEvent], timeout: impl Into<EpollTimeout>) -> Result<usize, Errno> {
        let _fault = enter(Call::EpollWait)?;
        self.0.wait(events, timeout)
    }
}

impl AsFd for Epoll {
    /// A file that can be read when something has happened to one of the set.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

impl From<Epoll> for OwnedFd {
    fn from(set: Epoll) -> Self {
        set.0.0
    }
}

/// A file that can be read when a signal is there.
#[derive(Debug)]
pub struct SignalFd(signalfd::SignalFd);

impl SignalFd {
    /// `signalfd(2)`.
    ///
    /// # Errors
    /// The system's.
    pub fn with_flags(mask: &SigSet, flags: SfdFlags) -> Result<Self, Errno> {
        let _fault = enter(Call::Signalfd)?;
        signalfd::SignalFd::with_flags(mask, flags).map(Self)
    }

    /// `read(2)`: the next signal, if there is one.
    ///
    /// # Errors
    /// The system's.
    pub fn read_signal(&self) -> Result<Option<signalfd::siginfo>, Errno> {
        let _fault = enter(Call::Read)?;
        self.0.read_signal()
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
