//! Messages over a pair of pipes: a length of four bytes, little-endian, then the message in
//! postcard's encoding. Neither side waits for the other: what cannot be written yet is kept.

use core::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aldis_sys::file::{FcntlArg, OFlag, fcntl, read, write};
use aldis_sys::{Errno, uninterrupted};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message, in bytes: a command line of the system's largest size fits.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Bytes read at a time.
const READ_BYTES_MAX: usize = 64 << 10;

/// The reason why nothing more comes over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkError {
    /// The other side has ended.
    Closed,
    /// The bytes that came are no message.
    Malformed,
    /// The system refused, or has no reader to pass it on to (`EPIPE`).
    System { call: &'static str, errno: Errno },
}

/// An end of the link. Receives messages of `I`, sends any.
#[derive(Debug)]
pub(crate) struct ControlLink<I> {
    input: OwnedFd,
    output: OwnedFd,
    heard: Vec<u8>,
    unsaid: Vec<u8>,
    kind: PhantomData<I>,
}

impl<I: DeserializeOwned> ControlLink<I> {
    /// A link that reads from `input` and writes to `output`.
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> Result<Self, Errno> {
        for end in [&input, &output] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { input, output, heard: Vec::new(), unsaid: Vec::new(), kind: PhantomData })
    }

    /// Returns the descriptor that messages come from.
    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Returns the descriptor that messages go to, if some wait.
    pub(crate) fn output(&self) -> Option<BorrowedFd<'_>> {
        (!self.unsaid.is_empty()).then(|| self.output.as_fd())
    }

    /// Sends a message, as soon as it can be written.
    pub(crate) fn say<O: Serialize>(&mut self, message: &O) -> Result<(), LinkError> {
        let bytes = postcard::to_extend(message, Vec::new()).map_err(|_| LinkError::Malformed)?;
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MESSAGE_BYTES_MAX);
        self.unsaid.extend(length.ok_or(LinkError::Malformed)?.to_le_bytes());
        self.unsaid.extend(bytes);
        self.flush()
    }

    /// Writes what can be written now.
    pub(crate) fn flush(&mut self) -> Result<(), LinkError> {
        while !self.unsaid.is_empty() {
            match write(&self.output, &self.unsaid) {
                Ok(written) => drop(self.unsaid.drain(..written)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(LinkError::System { call: "write", errno }),
            }
        }
        Ok(())
    }

    /// Receives what has come, one read of it; returns true if there was something.
    pub(crate) fn hear(&mut self) -> Result<bool, LinkError> {
        let mut bytes = [0; READ_BYTES_MAX];
        match uninterrupted(|| read(&self.input, &mut bytes)) {
            Ok(0) => Err(LinkError::Closed),
            Ok(length) => {
                self.heard.extend_from_slice(bytes.get(..length).unwrap_or_default());
                Ok(true)
            }
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(false),
            Err(errno) => Err(LinkError::System { call: "read", errno }),
        }
    }

    /// The next whole message among what has come.
    pub(crate) fn next(&mut self) -> Result<Option<I>, LinkError> {
        let Some((length, rest)) = self.heard.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(LinkError::Malformed);
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let message = match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => message,
            _ => return Err(LinkError::Malformed),
        };
        self.heard.drain(..size_of::<u32>() + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use nix::fcntl::OFlag;
    use nix::unistd::pipe2;

    use super::*;
    use crate::messages::{FromNode, Moment, OutputKind, RankNote, ToNode};

    /// A link, and the other ends of its pipes: what it receives is written to the first, what it
    /// sends comes from the second.
    fn link<I: DeserializeOwned>() -> (ControlLink<I>, OwnedFd, OwnedFd) {
        let (input, theirs) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let (heard, output) = pipe2(OFlag::O_CLOEXEC).unwrap();
        (ControlLink::new(input, output).unwrap(), theirs, heard)
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let (mut link, to, from) = link::<FromNode>();
        let note = RankNote { doing: "computing".into(), waits: 3, yields: 4 };
        let said = [
            FromNode::Notes(Moment::Condemned, vec![note]),
            FromNode::Output { rank: 3, kind: OutputKind::Err, bytes: vec![0xA5; 1000] },
            FromNode::Over,
        ];
        said.iter().for_each(|message| link.say(message).unwrap());
        let mut bytes = [0; 4096];
        let length = read(&from, &mut bytes).unwrap();
        let mut heard = Vec::new();
        for piece in bytes[..length].chunks(7) {
            write(&to, piece).unwrap();
            link.hear().unwrap();
            heard.extend(link.next().unwrap());
        }
        assert_eq!(heard, said);
    }

    #[test]
    fn nonsense_and_the_end_are_told_apart() {
        let (mut link, to, _from) = link::<ToNode>();
        assert_eq!(link.hear(), Ok(false), "nothing is there yet");
        for wrong in [&[0xFF; 4][..], &[1, 0, 0, 0, 0xEE], &[3, 0, 0, 0, 5, 0, 0]] {
            link.heard.clear();
            write(&to, wrong).unwrap();
            link.hear().unwrap();
            assert_eq!(link.next(), Err(LinkError::Malformed), "{wrong:?}");
        }
        drop(to);
        assert_eq!(link.hear(), Err(LinkError::Closed));
    }

    #[test]
    fn what_is_not_read_yet_is_kept() {
        let (mut link, _to, from) = link::<ToNode>();
        let message = ToNode::Cards(vec![vec![7; 100_000]; 4]);
        link.say(&message).unwrap();
        assert!(link.output().is_some(), "a pipe holds less");
        let mut taken = 0;
        while link.output().is_some() {
            taken += read(&from, &mut [0; 32 << 10]).unwrap();
            link.flush().unwrap();
        }
        assert!(taken > 300_000);
        drop(from);
        let unread = LinkError::System { call: "write", errno: Errno::EPIPE };
        assert_eq!(link.say(&message), Err(unread));
    }
}
