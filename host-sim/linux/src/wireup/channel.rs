//! UNSAFE: takes ownership of inherited descriptors. One end of a wire-up socket.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::file::{FcntlArg, FdFlag, fcntl};
use aldis_sys::socket::sockopt::SockType as SocketType;
use aldis_sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, getsockopt, recvmsg_with_files,
    sendmsg, shutdown, socketpair,
};
use aldis_sys::{Call, CallFailure, Errno, uninterrupted};
use serde::{Deserialize, Serialize};

use super::message::{decode, encode};
use super::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, SOCKET_VARIABLE, WireError};

/// Names the call that failed; a broken connection is [`WireError::Cut`].
fn system(call: &'static str) -> impl Fn(Errno) -> WireError {
    move |errno| match errno {
        Errno::EPIPE | Errno::ECONNRESET => WireError::Cut { call, errno },
        errno => WireError::System { call, errno },
    }
}

/// Numbers that were taken over. A second owner would close what the first has, or what has come in
/// its place.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Takes over a socket of this kind that the parent process left open, by its number, and
/// hides it from further children; `None` if the number is of nothing like it, or was taken over
/// before.
///
/// # Safety
/// Nothing else in this process owns what the number names: it is what a launcher says in the
/// environment.
///
/// # Errors
/// The call that failed, if the system does not say what it is.
pub(crate) unsafe fn inherited(number: RawFd, kind: SockType) -> Result<Option<OwnedFd>, CallFailure> {
    if number <= 2 {
        return Ok(None);
    }
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.contains(&number) {
        return Ok(None);
    }
    // SAFETY: borrowed only to ask what it is; a number that is not open answers EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    match getsockopt(&borrowed, SocketType) {
        Ok(found) if found == kind => {}
        Ok(_) | Err(Errno::EBADF | Errno::ENOTSOCK) => return Ok(None),
        Err(errno) => return Err(CallFailure { call: Call::Getsockopt, errno }),
    }
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(CallFailure::of(Call::Fcntl))?;
    taken.push(number);
    // SAFETY: open, the caller's to close, and taken over this once.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// An end of the socket.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

/// A message as it came, with the descriptors beside it.
#[derive(Debug)]
pub struct Received {
    bytes: Vec<u8>,
    /// Descriptors, in the sender's order; closed on drop unless taken.
    pub descriptors: Vec<OwnedFd>,
}

impl Received {
    /// The message.
    ///
    /// # Errors
    /// [`WireError::Malformed`].
    pub fn message<'a, M: Deserialize<'a>>(&'a self) -> Result<M, WireError> {
        decode(&self.bytes)
    }
}

impl Channel {
    /// Both ends of a new socket; neither is inherited by a child until that is asked for.
    ///
    /// # Errors
    /// The system call that failed.
    pub fn pair() -> Result<(Self, Self), WireError> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (left, right) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
            .map_err(system("socketpair"))?;
        Ok((Self { socket: left }, Self { socket: right }))
    }

    /// Takes over the descriptor that the launcher left open, by its number, and hides it from
    /// further children.
    ///
    /// # Safety
    /// Nothing else in this process owns what the number names: it is what the launcher says in
    /// [`SOCKET_VARIABLE`].
    ///
    /// # Errors
    /// [`WireError::NoSocket`] when the number is not that of a message-keeping local socket, or
    /// was taken over before, or the system call that failed.
    pub unsafe fn inherited(number: RawFd) -> Result<Self, WireError> {
        // SAFETY: as the caller promises.
        let socket = unsafe { inherited(number, SockType::SeqPacket) };
        let failed = |CallFailure { call, errno }| system(call.name())(errno);
        let socket = socket.map_err(failed)?.ok_or(WireError::NoSocket)?;
        Ok(Self { socket })
    }

    /// Takes over what the launcher of this process says in [`SOCKET_VARIABLE`]; `None` if there is
    /// none.
    ///
    /// # Errors
    /// [`WireError::NoSocket`] when it says nothing sensible, or was asked before: a process joins
    /// once.
    pub fn of_launcher() -> Result<Option<Self>, WireError> {
        let Ok(number) = std::env::var(SOCKET_VARIABLE) else { return Ok(None) };
        let number = number.parse().map_err(|_| WireError::NoSocket)?;
        // SAFETY: by the convention of launchers the number is of a descriptor that is this
        // process's own.
        unsafe { Self::inherited(number) }.map(Some)
    }

    /// Sends a message with descriptors beside it. Returns false, with nothing sent, when the
    /// socket is full now.
    ///
    /// # Errors
    /// [`WireError::Cut`], [`WireError::TooLong`], or the system call that failed.
    pub fn try_send<M: Serialize>(
        &self,
        message: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<bool, WireError> {
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(WireError::TooLong);
        }
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let bytes = [IoSlice::new(encode(message, &mut buffer)?)];
        let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let beside = if numbers.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        match uninterrupted(|| sendmsg(self.socket.as_raw_fd(), &bytes, beside, flags)) {
            Ok(sent) if sent < bytes[0].len() => Err(system("sendmsg")(Errno::EMSGSIZE)),
            Ok(_) => Ok(true),
            // Too many descriptors of this user are on their way at once; they arrive by and by.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ETOOMANYREFS) => Ok(false),
            Err(errno) => Err(system("sendmsg")(errno)),
        }
    }

    /// Sends a message, waiting for room until `deadline`.
    ///
    /// # Errors
    /// [`WireError::Cut`], [`WireError::TooLong`], the system call that failed, and
    /// [`WireError::TimedOut`].
    pub fn send<M: Serialize>(&self, message: &M, deadline: Instant) -> Result<(), WireError> {
        while !self.try_send(message, &[])? {
            self.wait(PollFlags::POLLOUT, deadline)?;
        }
        Ok(())
    }

    /// Ends the sending side: the other side receives the end. What it sends can still be received.
    pub fn end(&self) {
        // A socket that is shut already needs no more.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
    }

    /// Takes the next message if one is there.
    ///
    /// # Errors
    /// [`WireError::Closed`] or [`WireError::Cut`] at the end of the stream,
    /// [`WireError::TooLong`], or the system call that failed.
    pub fn try_receive(&self) -> Result<Option<Received>, WireError> {
        let (mut buffer, mut descriptors) = ([0; MESSAGE_BYTES_MAX], Vec::new());
        // An interruption must not read as "nothing is there": a rank that ends does not
        // look again.
        let mut taken = uninterrupted(|| self.take(&mut buffer, &mut descriptors));
        if taken == Err(Errno::ECONNRESET) {
            // The other side ended before it had read everything. The system says so first, and
            // then what it was sent before: the reason, perhaps.
            let again = uninterrupted(|| self.take(&mut buffer, &mut descriptors));
            taken = again.ok().filter(|(length, _)| *length > 0).ok_or(Errno::ECONNRESET);
        }
        let (length, flags) = match taken {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            answer => answer.map_err(system("recvmsg"))?,
        };
        let cut = MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC;
        if flags.intersects(cut) || descriptors.len() > DESCRIPTORS_MAX {
            return Err(WireError::TooLong);
        }
        if length == 0 {
            return Err(WireError::Closed);
        }
        // Most messages are far shorter than the longest, and a rank of many gets many.
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        Ok(Some(Received { bytes, descriptors }))
    }

    /// Takes a message, if one is there, with its descriptors; its length and flags, which tell
    /// whether descriptors were cut off.
    fn take(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<(usize, MsgFlags), Errno> {
        let mut room = [IoSliceMut::new(buffer)];
        let answer = recvmsg_with_files(self.socket.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT)?;
        descriptors.extend(answer.files);
        Ok((answer.length, answer.flags))
    }

    /// Waits for the next message until `deadline`.
    ///
    /// # Errors
    /// [`WireError::Closed`] or [`WireError::Cut`] at the end of the stream,
    /// [`WireError::TooLong`], the system call that failed, and [`WireError::TimedOut`].
    pub fn receive(&self, deadline: Instant) -> Result<Received, WireError> {
        loop {
            if let Some(received) = self.try_receive()? {
                return Ok(received);
            }
            self.wait(PollFlags::POLLIN, deadline)?;
        }
    }

    fn wait(&self, events: PollFlags, deadline: Instant) -> Result<(), WireError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), events)], timeout) {
            Ok(0) if Instant::now() >= deadline => Err(WireError::TimedOut),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(system("poll")(errno)),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use nix::unistd::write;

    use std::os::fd::IntoRawFd;

    use super::*;
    use crate::wireup::{FromLauncher, FromRank};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (launcher, rank) = Channel::pair().unwrap();
        let files = [std::fs::File::open("/dev/null").unwrap(), std::fs::File::open("/dev/zero").unwrap()];
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        assert!(launcher.try_send(&FromLauncher::Segments, &borrowed).unwrap());
        let received = rank.receive(soon()).unwrap();
        assert_eq!(received.message(), Ok(FromLauncher::Segments));
        assert_eq!(received.descriptors.len(), 2);
        let flags = fcntl(&received.descriptors[0], FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags, FdFlag::FD_CLOEXEC.bits(), "not inherited by accident");
    }

    #[test]
    fn too_many_descriptors_are_an_error_and_closed() {
        let (launcher, rank) = Channel::pair().unwrap();
        // No other test has one.
        let file = aldis_kit::scratch::ScratchFolder::new("descriptors");
        let path = file.path().join("one");
        let one = std::fs::File::create(&path).unwrap();
        let count = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|found| found == path)).count()
        };
        let numbers = [one.as_raw_fd(); DESCRIPTORS_MAX + 3];
        let rights = [ControlMessage::ScmRights(&numbers)];
        let piece = [IoSlice::new(b"many")];
        sendmsg(launcher.socket.as_raw_fd(), &piece, &rights, MsgFlags::empty()).unwrap();
        assert_eq!(rank.receive(soon()).unwrap_err(), WireError::TooLong);
        assert_eq!(count(), 1);
    }

    #[test]
    fn silence_ends_at_the_deadline_and_a_closed_end_at_once() {
        let (launcher, rank) = Channel::pair().unwrap();
        assert!(rank.try_receive().unwrap().is_none());
        let deadline = Instant::now() + Duration::from_millis(20);
        assert_eq!(rank.receive(deadline).unwrap_err(), WireError::TimedOut);
        assert!(Instant::now() >= deadline);
        drop(launcher);
        assert_eq!(rank.receive(soon()).unwrap_err(), WireError::Closed);
        let cut = WireError::Cut { call: "sendmsg", errno: Errno::EPIPE };
        assert_eq!(rank.send(&FromRank::Joined, soon()), Err(cut));
        assert!(cut.to_string().ends_with("sendmsg failed: Broken pipe") && cut.is_end());
    }

    #[test]
    fn the_last_word_of_one_that_did_not_read_everything_is_heard() {
        let (launcher, rank) = Channel::pair().unwrap();
        launcher.send(&FromLauncher::Segments, soon()).unwrap();
        rank.send(&FromRank::Joined, soon()).unwrap();
        drop(rank);
        assert_eq!(launcher.receive(soon()).unwrap().message(), Ok(FromRank::Joined));
        assert!(launcher.receive(soon()).unwrap_err().is_end());
    }

    #[test]
    fn whoever_says_no_more_still_hears() {
        let (launcher, rank) = Channel::pair().unwrap();
        launcher.end();
        assert_eq!(rank.receive(soon()).unwrap_err(), WireError::Closed);
        rank.send(&FromRank::Joined, soon()).unwrap();
        assert_eq!(launcher.receive(soon()).unwrap().message(), Ok(FromRank::Joined));
    }

    #[test]
    fn nonsense_and_overlong_messages_are_typed_errors() {
        let (launcher, rank) = Channel::pair().unwrap();
        write(&launcher, &[0xFF; 40]).unwrap();
        let received = rank.receive(soon()).unwrap();
        assert_eq!(received.message::<FromLauncher<'_>>(), Err(WireError::Malformed { bytes: 40 }));
        write(&launcher, &[0; MESSAGE_BYTES_MAX + 1]).unwrap();
        assert_eq!(rank.receive(soon()).unwrap_err(), WireError::TooLong);
        launcher.send(&FromLauncher::Segments, soon()).unwrap();
        assert!(rank.receive(soon()).is_ok(), "the next message is whole again");
    }

    #[test]
    fn a_full_socket_is_not_an_error() {
        let (launcher, rank) = Channel::pair().unwrap();
        let text = "x".repeat(1024);
        let message = FromLauncher::Refused { text: &text };
        let sent = (0..10_000).take_while(|_| launcher.try_send(&message, &[]).unwrap()).count();
        assert!(sent >= 64, "some messages may wait: {sent}");
        assert_eq!(launcher.send(&message, Instant::now()), Err(WireError::TimedOut));
        rank.receive(soon()).unwrap();
        for _ in 0..4 {
            rank.receive(soon()).unwrap();
        }
        launcher.send(&message, soon()).unwrap();
    }

    #[test]
    fn only_a_message_socket_can_be_inherited() {
        // SAFETY: none of them is taken over.
        let refused = |number| unsafe { Channel::inherited(number) }.unwrap_err();
        assert_eq!(refused(0), WireError::NoSocket);
        assert_eq!(refused(9_999), WireError::NoSocket);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(refused(file.as_raw_fd()), WireError::NoSocket);
    }

    #[test]
    fn a_socket_is_taken_over_once() {
        let (_launcher, rank) = Channel::pair().unwrap();
        let number = rank.socket.into_raw_fd();
        // SAFETY: owned by nothing since the line above.
        let first = unsafe { Channel::inherited(number) };
        // SAFETY: refused, and so nothing comes to own it twice.
        let second = unsafe { Channel::inherited(number) };
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err(), WireError::NoSocket);
    }
}
