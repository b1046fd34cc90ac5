//! `MemifNic`: a card in memory that this process shares with DPDK, VPP or another such process, at
//! either end of its socket.

mod connection;
mod socket;

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use aldis_drivers::adapters::{ForeignDevice, ForeignNic, ForeignSend};
use aldis_drivers::memif::{MemifError, MemifText};
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, Offload, TxFrame};
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, poll};
use aldis_sys::{Call, CallFailure, Errno};

use self::connection::{MemifConnection, MemifStation, say_end};
use self::socket::{ControlListener, ControlSocket};
use crate::choice::CardChoice;
use crate::error::CardError;

/// The time that a server has to answer a client that is opened, which then goes on without: it may
/// be a rank that is about to join the same job. Meanwhile one that is not there may be about to
/// start, and a refusal may be of a client that has just gone: it takes the other end a moment to
/// notice.
const ANSWER: Duration = Duration::from_secs(1);
/// The pause before a server that answers nothing, or refuses, is asked again.
const PAUSE_MS: u16 = 100;

/// The refusal of a client whose interface another has, in the words of DPDK.
const TAKEN: &str = "Already connected";

/// The time after which a peer that has not come to the end of its handshake makes room for
/// another.
const SLOW: Duration = Duration::from_secs(3);

/// The least time between two looks for a peer, and polls in vain between two questions whether it
/// is over.
const LOOK: Duration = Duration::from_millis(100);
const POLLS: u32 = 1024;

/// The longest time for which a card that is dropped waits for its peer to take its last frames,
/// and the time between two looks.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_MS: u16 = 1;

/// Frames of other stations that are passed over at a time.
const OTHERS_MAX: usize = 64;

/// A card whose frames go through shared memory.
///
/// A peer that goes is waited for, be it the client or the server of the socket: it may come again,
/// and gets new memory. [`CardNic::probe`](crate::CardNic::probe) looks for it.
#[derive(Debug)]
pub struct MemifNic(ForeignNic<'static, MemifLink>);

impl MemifNic {
    /// Opens the end that the choice says: a server is there to be connected to once this returns,
    /// a client is connected to one, or to one that does not answer yet.
    ///
    /// # Errors
    /// The causes that [`CardError`] names: no socket at the path, or no server behind it; no
    /// permission; another server at the path; a peer that refuses, or is no memif.
    pub(crate) fn open(choice: &CardChoice, mac: Mac) -> Result<Self, CardError> {
        let frame_bytes = usize::from(choice.memif.mtu) + MAC_HEADER_BYTES;
        let link = MemifLink::open(choice, MemifStation { mac, frame_bytes })?;
        let room = || vec![0; frame_bytes].leak();
        let card = ForeignNic::new(link, room(), room());
        let invalid = |_| refused(choice, CallFailure { call: Call::Mmap, errno: Errno::EINVAL });
        card.map(Self).map_err(invalid)
    }

    /// Looks at the connection: whether frames pass, and if not, why. A peer that has gone is
    /// looked for.
    pub(crate) fn probe(&mut self) -> Option<&CardError> {
        let link = self.0.device_mut();
        link.probe();
        link.trouble.as_ref()
    }

    pub(crate) const fn trouble(&self) -> Option<&CardError> {
        self.0.device().trouble.as_ref()
    }

    pub(crate) const fn choice(&self) -> &CardChoice {
        &self.0.device().choice
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct MemifTx<'a>(ForeignSend<'a, MemifLink>);

impl TxFrame for MemifTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.bytes()
    }

    fn send(self) {
        self.0.send();
    }

    fn send_more(self) {
        self.0.send_more();
    }
}

impl Nic for MemifNic {
    type Rx<'a> = &'a [u8];
    type Tx<'a> = MemifTx<'a>;

    fn receive(&mut self) -> Option<&[u8]> {
        self.0.receive()
    }

    fn transmit(&mut self, len: usize) -> Option<MemifTx<'_>> {
        self.0.transmit(len).map(MemifTx)
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn mtu(&self) -> usize {
        self.0.mtu()
    }

    fn mac(&self) -> Mac {
        self.0.mac()
    }

    fn link(&self) -> LinkState {
        self.0.link()
    }
}

/// The connection of a card, or the search for one.
#[derive(Debug)]
pub(crate) struct MemifLink {
    choice: CardChoice,
    station: MemifStation,
    /// The place where clients connect, of a server.
    listener: Option<ControlListener>,
    connection: Option<Box<MemifConnection>>,
    trouble: Option<CardError>,
    /// Polls in vain, and the time at which the socket was last looked at.
    idle: u32,
    looked: Instant,
}

impl MemifLink {
    fn open(choice: &CardChoice, station: MemifStation) -> Result<Self, CardError> {
        let listener = if choice.memif.is_server {
            let bound = ControlListener::bind(choice.interface.as_ref());
            Some(bound.map_err(|failure| refused(choice, failure))?)
        } else {
            None
        };
        let is_client = listener.is_none();
        let choice = choice.clone();
        let (connection, trouble, looked) = (None, None, Instant::now());
        let mut link = Self { choice, station, listener, connection, trouble, idle: 0, looked };
        link.trouble = Some(link.no_peer());
        if is_client {
            link.await_server()?;
        }
        Ok(link)
    }

    /// Connects to the server, and waits a moment until frames may go.
    fn await_server(&mut self) -> Result<(), CardError> {
        let (start, mut refusal) = (Instant::now(), None);
        loop {
            self.probe();
            let Some(trouble) = &self.trouble else { return Ok(()) };
            let may_pass = match trouble {
                CardError::NoPeer { .. } | CardError::NoSocket { .. } | CardError::NoServer { .. } => true,
                CardError::Memif { error: MemifError::Refused(reason), .. } => {
                    let has_gone = *reason == MemifText::default();
                    // A reason is worth more than none.
                    if refusal.is_none() || !has_gone {
                        refusal = Some(trouble.clone());
                    }
                    has_gone || *reason == MemifText::new(TAKEN)
                }
                _ => false,
            };
            if !may_pass || start.elapsed() >= ANSWER {
                // A peer that has refused may have gone since, or be about to refuse again.
                return match (trouble, refusal) {
                    (_, Some(refusal)) if may_pass => Err(refusal),
                    (CardError::NoPeer { .. }, _) => Ok(()),
                    (trouble, _) => Err(trouble.clone()),
                };
            }
            let mut socket: Vec<PollFd<'_>> = self
                .connection
                .iter()
                .map(|connection| PollFd::new(connection.as_fd(), PollFlags::POLLIN))
                .collect();
            // A wait that fails is one that is short.
            let _ = poll(&mut socket, PollTimeout::from(PAUSE_MS));
        }
    }

    fn no_peer(&self) -> CardError {
        CardError::NoPeer { path: self.choice.interface.clone(), is_server: self.choice.memif.is_server }
    }

    /// Looks for a peer if there is none, and listens to one that there is.
    fn probe(&mut self) {
        (self.idle, self.looked) = (0, Instant::now());
        self.give_up();
        match (&self.connection, &self.listener) {
            (None, _) => {
                if let Err(error) = self.connect() {
                    self.trouble = Some(error);
                }
            }
            // A second client: the first one has the interface.
            (Some(_), Some(listener)) => {
                if let Some(socket) = listener.accept() {
                    say_end(&socket, TAKEN);
                }
            }
            (Some(_), None) => {}
        }
        self.listen();
    }

    /// Ends a connection whose handshake takes too long.
    fn give_up(&mut self) {
        let slow = self.connection.take_if(|connection| connection.is_slow(SLOW));
        if let Some(connection) = slow {
            connection.end("too slow");
            self.trouble = Some(self.no_peer());
        }
    }

    /// Begins a connection, if it can be now.
    fn connect(&mut self) -> Result<(), CardError> {
        let choice = &self.choice;
        let socket = match &self.listener {
            Some(listener) => listener.accept(),
            None => match ControlSocket::connect(choice.interface.as_ref()) {
                // It takes no more connections now.
                Err(CallFailure { errno: Errno::EAGAIN, .. }) => None,
                connected => Some(connected.map_err(|failure| refused(choice, failure))?),
            },
        };
        let Some(socket) = socket else { return Ok(()) };
        let connection = if self.listener.is_some() {
            MemifConnection::of_server(socket, &choice.memif, self.station)
        } else {
            MemifConnection::of_client(socket, &choice.memif, self.station)
        };
        let connection = connection.map_err(|failure| refused(choice, failure))?;
        self.connection = Some(Box::new(connection));
        self.trouble = Some(self.no_peer());
        Ok(())
    }

    /// Takes what the peer has said over the socket.
    fn listen(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        match connection.listen() {
            Ok(true) => self.trouble = None,
            Ok(false) => {}
            Err(error) => self.lose(error),
        }
    }

    /// Looks at the socket now and then, and as long as there is no more to look at than it.
    fn idle(&mut self) {
        self.idle = self.idle.saturating_add(1);
        let is_there = self.connection.as_mut().is_some_and(|connection| connection.started().is_some());
        if !is_there && (self.connection.is_some() || self.listener.is_some())
            || self.idle >= POLLS && self.looked.elapsed() >= LOOK
        {
            self.probe();
        }
    }

    /// The next frame that is to this station.
    fn take(&mut self, room: &mut [u8]) -> Option<usize> {
        for _ in 0..OTHERS_MAX {
            let memif = self.connection.as_mut()?.started()?;
            let Some(bytes) = memif.receive(room) else {
                if let Some(fault) = memif.fault() {
                    self.lose(fault);
                }
                return None;
            };
            if room.get(..bytes).is_some_and(|frame| self.is_ours(frame)) {
                return Some(bytes);
            }
        }
        None
    }

    /// Ends a connection; a peer that has not ended it is told why.
    #[cold]
    fn lose(&mut self, error: MemifError) {
        let path = self.choice.interface.clone();
        let Some(mut connection) = self.connection.take() else { return };
        self.trouble = Some(match error {
            MemifError::Refused(reason) if connection.started().is_some() => {
                CardError::PeerLeft { path, reason }
            }
            error => CardError::Memif { path, id: self.choice.memif.id.number(), error },
        });
        // A peer that has ended it listens no more: some of DPDK's fail if they are told more.
        if !matches!(error, MemifError::Refused(_)) {
            connection.end(&error.to_string());
        }
    }

    /// True if a frame is to this station, or to all.
    fn is_ours(&self, frame: &[u8]) -> bool {
        frame.first_chunk().is_some_and(|to| *to == self.station.mac.0 || *to == [0xFF; 6])
    }
}

impl Drop for MemifLink {
    /// Waits until the peer has taken what was sent: with the memory it would be gone.
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        connection.flush();
        let start = Instant::now();
        while start.elapsed() < LINGER
            && connection.started().is_some_and(|memif| !memif.is_drained())
            && connection.listen().is_ok()
        {
            let mut socket = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
            // A wait that fails is one that is short.
            let _ = poll(&mut socket, PollTimeout::from(LINGER_MS));
        }
        connection.end("closed");
    }
}

impl ForeignDevice for MemifLink {
    fn frame_bytes(&self) -> Option<usize> {
        Some(self.station.frame_bytes)
    }

    fn receive(&mut self, room: &mut [u8]) -> Option<usize> {
        let found = self.take(room);
        if found.is_none() {
            self.idle();
        }
        found
    }

    fn has_room(&mut self) -> bool {
        let memif = self.connection.as_mut().and_then(|connection| connection.started());
        memif.is_some_and(ForeignDevice::has_room)
    }

    fn send(&mut self, frame: &[u8]) {
        if let Some(connection) = &mut self.connection {
            connection.send(frame);
            connection.flush();
        }
    }

    fn send_more(&mut self, frame: &[u8]) {
        if let Some(connection) = &mut self.connection {
            connection.send(frame);
        }
    }

    fn flush(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.flush();
        }
    }

    fn mac(&self) -> Mac {
        self.station.mac
    }

    fn link(&mut self) -> LinkState {
        match self.connection.as_mut().and_then(|connection| connection.started()) {
            Some(memif) => memif.link(),
            None => LinkState::Down,
        }
    }

    fn offload(&self) -> Offload {
        Offload::empty()
    }
}

/// The error of a call that the system refused.
fn refused(choice: &CardChoice, CallFailure { call, errno }: CallFailure) -> CardError {
    let path = choice.interface.clone();
    match (call, errno) {
        (Call::Connect, Errno::ENOENT) => CardError::NoSocket { path },
        (Call::Connect, Errno::ECONNREFUSED) => CardError::NoServer { path },
        (Call::Bind, Errno::EADDRINUSE) => CardError::Served { path },
        (call, errno) => CardError::System { interface: path, call, errno },
    }
}

#[cfg(test)]
mod tests;
