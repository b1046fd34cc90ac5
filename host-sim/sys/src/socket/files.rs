//! This module holds `unsafe` code: it takes ownership of received descriptors. Messages with
//! descriptors beside them.

use std::io::IoSliceMut;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc::{SCM_RIGHTS, SOL_SOCKET};

use super::{MsgFlags, cmsg_space, recvmsg};

/// The most descriptors that the system passes beside a message (`SCM_MAX_FD`).
const FILES_MAX: usize = 253;

/// A message that was received.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Its bytes, as far as there was room.
    pub length: usize,
    /// The flags by which the system says what became of it.
    pub flags: MsgFlags,
    /// The descriptors that came with it, in the sender's order: all that this process now has,
    /// also where the system had more to give. Closed on drop unless taken.
    pub files: Vec<OwnedFd>,
}

/// `recvmsg(2)`, without the sender's address, with the descriptors that come.
///
/// # Errors
/// The system's.
pub fn recvmsg_with_files(
    socket: RawFd,
    rooms: &mut [IoSliceMut<'_>],
    flags: MsgFlags,
) -> Result<ReceivedMessage, Errno> {
    receive(socket, rooms, flags, cmsg_space!([RawFd; FILES_MAX]))
}

/// Receives as [`recvmsg_with_files`] does, with `beside`, of zeros, as the room for descriptors.
fn receive(
    socket: RawFd,
    rooms: &mut [IoSliceMut<'_>],
    flags: MsgFlags,
    mut beside: Vec<u8>,
) -> Result<ReceivedMessage, Errno> {
    let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg(socket, rooms, Some(&mut beside), flags)?;
    let (length, flags) = (received.bytes, received.flags);
    // `cmsgs` of nix hands out nothing of what was cut off, and the process would have it for ever.
    // SAFETY: the system has just made these for this process, and nothing else knows of them: the
    // room was zero, which names none, and is read this once.
    let files = numbers(&beside).into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) });
    Ok(ReceivedMessage { length, flags, files: files.collect() })
}

/// Bytes of the head of a control message: its length with the head, a level and a kind.
const HEAD_BYTES: usize = size_of::<usize>() + 2 * size_of::<i32>();

/// The level and the kind of a control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ControlKind {
    pub(crate) level: i32,
    pub(crate) kind: i32,
}

/// The data of the control messages of this level and kind that the system has written, up to a
/// message without a length.
pub(crate) fn control_data(beside: &[u8], wanted: ControlKind) -> impl Iterator<Item = &[u8]> {
    let mut rest = beside;
    let messages = core::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let (level, after) = after.split_first_chunk()?;
        let kind = i32::from_ne_bytes(*after.first_chunk()?);
        let found = ControlKind { level: i32::from_ne_bytes(*level), kind };
        let data = rest.get(HEAD_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        Some((found, data))
    });
    messages.filter_map(move |(found, data)| (found == wanted).then_some(data))
}

/// The numbers of the descriptors among them.
fn numbers(beside: &[u8]) -> Vec<RawFd> {
    let words = control_data(beside, ControlKind { level: SOL_SOCKET, kind: SCM_RIGHTS })
        .flat_map(|data| data.chunks_exact(size_of::<RawFd>()));
    words.filter_map(|word| word.first_chunk().copied().map(RawFd::from_ne_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, read_dir, read_link, remove_file};
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;
    use std::path::PathBuf;

    use super::*;
    use crate::socket::{ControlMessage, sendmsg};

    /// A file that no other test has open.
    struct OwnFile(PathBuf, File);

    impl OwnFile {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("aldis-files-{}-{name}", std::process::id()));
            let file = File::create(&path).unwrap();
            Self(path.canonicalize().unwrap(), file)
        }

        /// The times that this process has it open.
        fn count(&self) -> usize {
            let all = read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|entry| read_link(entry.path()).is_ok_and(|path| path == self.0)).count()
        }
    }

    impl Drop for OwnFile {
        fn drop(&mut self) {
            let _ = remove_file(&self.0);
        }
    }

    fn send(from: &UnixDatagram, file: &OwnFile, count: usize) {
        let numbers = vec![file.1.as_raw_fd(); count];
        let rights = [ControlMessage::ScmRights(&numbers)];
        sendmsg(from.as_raw_fd(), &[IoSlice::new(b"files")], &rights, MsgFlags::empty()).unwrap();
    }

    #[test]
    fn every_descriptor_that_comes_is_owned_and_closed() {
        let (file, (from, to)) = (OwnFile::new("all"), UnixDatagram::pair().unwrap());
        for count in [1, 2, 3, FILES_MAX] {
            send(&from, &file, count);
            let mut room = [0; 5];
            let came =
                recvmsg_with_files(to.as_raw_fd(), &mut [IoSliceMut::new(&mut room)], MsgFlags::empty());
            let came = came.unwrap();
            assert_eq!((came.length, came.files.len(), &room), (5, count, b"files"));
            assert!(!came.flags.contains(MsgFlags::MSG_CTRUNC));
            assert_eq!(file.count(), 1 + count);
            drop(came);
            assert_eq!(file.count(), 1);
        }
    }

    #[test]
    fn those_of_a_message_that_was_cut_off_are_closed_too() {
        let (file, (from, to)) = (OwnFile::new("cut"), UnixDatagram::pair().unwrap());
        send(&from, &file, 5);
        let (mut room, beside) = ([0; 5], cmsg_space!([RawFd; 3]));
        let rooms = &mut [IoSliceMut::new(&mut room)];
        let came = receive(to.as_raw_fd(), rooms, MsgFlags::empty(), beside).unwrap();
        assert!(came.flags.contains(MsgFlags::MSG_CTRUNC) && (3..5).contains(&came.files.len()));
        assert_eq!(file.count(), 1 + came.files.len());
        drop(came);
        assert_eq!(file.count(), 1);
    }

    #[test]
    fn control_messages_of_other_kinds_and_without_end_name_no_descriptor() {
        let head = |length: usize, kind: i32| {
            [&length.to_ne_bytes()[..], &SOL_SOCKET.to_ne_bytes(), &kind.to_ne_bytes()].concat()
        };
        let word = |number: i32| [number.to_ne_bytes(), [0; 4]].concat();
        let other = [head(HEAD_BYTES + 4, SCM_RIGHTS + 1), word(7)].concat();
        let rights = [head(HEAD_BYTES + 4, SCM_RIGHTS), word(9)].concat();
        assert_eq!(numbers(&[other.clone(), rights.clone(), vec![0; 40]].concat()), [9]);
        assert!(numbers(&[other, head(usize::MAX, SCM_RIGHTS), word(3)].concat()).is_empty());
        assert!(numbers(&head(3, SCM_RIGHTS)).is_empty() && numbers(&rights[..7]).is_empty());
    }
}
