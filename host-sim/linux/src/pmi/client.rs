//! A process's conversation with its manager, over the inherited socket.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use aldis_sys::Errno;
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::socket::{MsgFlags, recv, send};

use super::error::{AnswerFault, PmiError};
use super::managed_rank::ManagedRank;
use super::message::{Message, MessageError, MessageForm};
use super::request::{PmiRequest, Version};
use super::value;

/// The longest key and value of version 2 (`PMI2_MAX_KEYLEN`, `PMI2_MAX_VALLEN`), the last byte of
/// each being no character.
const LIMITS_OF_TWO: (usize, usize) = (64, 1024);

/// A process that has introduced itself to its manager.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    version: Version,
    rank: u32,
    size: u32,
    /// The name of the store.
    store: String,
    /// Characters that keys and values may have.
    room: (usize, usize),
    /// Bytes that have come and were not taken yet.
    came: Vec<u8>,
}

impl Client {
    /// Introduces the process.
    ///
    /// # Errors
    /// What [`PmiError`] names.
    pub fn introduce(managed_rank: ManagedRank, deadline: Instant) -> Result<Self, PmiError> {
        let ManagedRank { socket, rank, size, version, job } = managed_rank;
        let room = (LIMITS_OF_TWO.0 - 1, LIMITS_OF_TWO.1 - 1);
        let mut client = Self { socket, version, rank, size, store: String::new(), room, came: Vec::new() };
        client.ask(&PmiRequest::Greet, deadline)?;
        match version {
            Version::One => {
                let request = PmiRequest::Limits;
                let limits = client.ask(&request, deadline)?;
                let room = |name| Ok(client.number(&request, &limits, name)?.saturating_sub(1));
                client.room = (room("keylen_max")?, room("vallen_max")?);
            }
            Version::Two => {
                let request = PmiRequest::Introduce { job: &job, rank };
                let answer = client.ask(&request, deadline)?;
                client.agrees(&request, &answer, "rank", rank)?;
                client.agrees(&request, &answer, "size", size)?;
            }
        }
        let name = if version == Version::One { "kvsname" } else { "jobid" };
        let answer = client.ask(&PmiRequest::Store, deadline)?;
        client.store = client.field(&PmiRequest::Store, &answer, name)?.to_owned();
        Ok(client)
    }

    /// This process's rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the job.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Puts a value of up to [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX) bytes under a key, in as
    /// many pieces as the manager's store needs.
    ///
    /// # Errors
    /// [`AnswerFault::Unspeakable`] if the store has no room for the key or the value; what
    /// [`PmiError`] names.
    pub fn put(&mut self, key: &str, value: &[u8], deadline: Instant) -> Result<(), PmiError> {
        let store = self.store.clone();
        let command = PmiRequest::Put { store: &store, key, value: "" }.command(self.version);
        let (keys, values) = self.room;
        let unspeakable = |text: String| AnswerFault::Unspeakable { text }.of(command);
        let pieces = value::pieces(value, values).ok_or_else(|| {
            let bytes = value.len();
            unspeakable(format!(
                "{bytes} bytes under {key} in a store with room for {values} characters a value"
            ))
        })?;
        for (number, piece) in pieces.iter().enumerate() {
            let key = value::key(key, number);
            if key.len() > keys {
                return Err(unspeakable(format!("{key} in a store with room for {keys} characters a key")));
            }
            self.ask(&PmiRequest::Put { store: &store, key: &key, value: piece }, deadline)?;
        }
        Ok(())
    }

    /// Gets the value that a rank has put under a key before the last fence.
    ///
    /// # Errors
    /// [`AnswerFault::Absent`], [`AnswerFault::Value`]; what [`PmiError`] names.
    pub fn get(&mut self, key: &str, deadline: Instant) -> Result<Vec<u8>, PmiError> {
        let command = PmiRequest::Get { store: "", key }.command(self.version);
        let unsound = || value::unsound(key).of(command);
        let mut all = self.get_piece(key, 0, deadline)?;
        for piece in 1..value::count(&all).ok_or_else(unsound)? {
            all.push_str(&self.get_piece(key, piece, deadline)?);
        }
        value::value(&all).ok_or_else(unsound)
    }

    fn get_piece(&mut self, key: &str, piece: usize, deadline: Instant) -> Result<String, PmiError> {
        let (store, key) = (self.store.clone(), value::key(key, piece));
        let request = PmiRequest::Get { store: &store, key: &key };
        let answer = self.ask(&request, deadline)?;
        self.field(&request, &answer, "value").map(str::to_owned)
    }

    /// Waits until all ranks have come here: what they have put before can be got then.
    ///
    /// # Errors
    /// [`AnswerFault::TimedOut`]; what [`PmiError`] names.
    pub fn fence(&mut self, deadline: Instant) -> Result<(), PmiError> {
        self.ask(&PmiRequest::Fence, deadline).map(drop)
    }

    /// Leaves in order.
    ///
    /// # Errors
    /// What [`PmiError`] names.
    pub fn finalize(&mut self, deadline: Instant) -> Result<(), PmiError> {
        self.ask(&PmiRequest::Finalize, deadline).map(drop)
    }

    /// Asks the manager to end all ranks, this one among them: it may be gone before this returns.
    /// Version 1 makes Hydra exit with `code`; Slurm takes no code.
    ///
    /// # Errors
    /// What [`PmiError`] names.
    pub fn abort(&mut self, code: i32, deadline: Instant) -> Result<(), PmiError> {
        self.say(&PmiRequest::Abort { code }, deadline)
    }

    /// Waits until the manager ends this process or closes the connection.
    pub fn await_end(&mut self, deadline: Instant) {
        while self.hear(self.version.form(), deadline).is_ok() {}
    }

    /// Sends a command and receives its answer.
    fn ask(&mut self, request: &PmiRequest<'_>, deadline: Instant) -> Result<Message, PmiError> {
        self.say(request, deadline)?;
        let answer = self.hear(request.form(self.version), deadline);
        let answer = answer.map_err(|fault| fault.of(request.command(self.version)))?;
        request.judge(self.version, &answer)?;
        Ok(answer)
    }

    fn say(&self, request: &PmiRequest<'_>, deadline: Instant) -> Result<(), PmiError> {
        let bytes =
            request.message(self.version).encode(request.form(self.version)).map_err(AnswerFault::from);
        let sent = bytes.and_then(|bytes| self.send(&bytes, deadline));
        sent.map_err(|fault| fault.of(request.command(self.version)))
    }

    fn send(&self, mut bytes: &[u8], deadline: Instant) -> Result<(), AnswerFault> {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        while !bytes.is_empty() {
            match send(self.socket.as_raw_fd(), bytes, flags) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::EAGAIN | Errno::EINTR) => self.wait(PollFlags::POLLOUT, deadline)?,
                Err(errno) => return Err(system("send", errno)),
            }
        }
        Ok(())
    }

    fn hear(&mut self, form: MessageForm, deadline: Instant) -> Result<Message, AnswerFault> {
        loop {
            if let Some(message) = Message::take(form, &mut self.came)? {
                return Ok(message);
            }
            let mut room = [0; 2048];
            match recv(self.socket.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(AnswerFault::Closed),
                Ok(came) => self.came.extend(room.iter().take(came)),
                Err(Errno::EAGAIN | Errno::EINTR) => self.wait(PollFlags::POLLIN, deadline)?,
                Err(errno) => return Err(system("recv", errno)),
            }
        }
    }

    fn wait(&self, events: PollFlags, deadline: Instant) -> Result<(), AnswerFault> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), events)], timeout) {
            Ok(0) if Instant::now() >= deadline => Err(AnswerFault::TimedOut),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(system("poll", errno)),
        }
    }

    fn field<'m>(
        &self,
        request: &PmiRequest<'_>,
        answer: &'m Message,
        name: &'static str,
    ) -> Result<&'m str, PmiError> {
        let missing =
            || AnswerFault::Field { name, found: answer.to_string() }.of(request.command(self.version));
        answer.field(name).filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    fn number(
        &self,
        request: &PmiRequest<'_>,
        answer: &Message,
        name: &'static str,
    ) -> Result<usize, PmiError> {
        let unsound =
            || AnswerFault::Field { name, found: answer.to_string() }.of(request.command(self.version));
        self.field(request, answer, name)?.parse().map_err(|_| unsound())
    }

    /// Fails unless the answer says what the environment says.
    fn agrees(
        &self,
        request: &PmiRequest<'_>,
        answer: &Message,
        name: &'static str,
        expected: u32,
    ) -> Result<(), PmiError> {
        let unsound =
            || AnswerFault::Field { name, found: answer.to_string() }.of(request.command(self.version));
        let number = self.number(request, answer, name)?;
        if number == expected as usize { Ok(()) } else { Err(unsound()) }
    }
}

impl From<MessageError> for AnswerFault {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::TooLong => Self::TooLong,
            MessageError::Unspeakable { text } => Self::Unspeakable { text },
            MessageError::Malformed { found } => Self::Malformed { found },
        }
    }
}

/// Names the call that failed; a broken connection is [`AnswerFault::Closed`].
const fn system(call: &'static str, errno: Errno) -> AnswerFault {
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => AnswerFault::Closed,
        errno => AnswerFault::System { call, errno },
    }
}

#[cfg(test)]
mod tests;
