//! A connection of a memif: its socket, its memory, and how far its handshake has come.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use aldis_drivers::adapters::ForeignDevice;
use aldis_drivers::memif::{
    CONTROL_BYTES, ClientHandshake, ClientSetup, ClientStep, ControlMessage, DescriptorKind, Memif,
    MemifError, MemifLayout, MemifText, RingDirection, ServerHandshake, ServerSetup, ServerWork,
};
use aldis_hal::nic::Mac;
use aldis_sys::event::{PollFd, PollFlags, PollTimeout, eventfd, poll};
use aldis_sys::file::write;
use aldis_sys::{Call, CallFailure, Errno};

use super::socket::{ControlSocket, HeardMessage};
use crate::choice::MemifChoice;
use crate::mapping::RegionMapping;

/// The name of the program.
const NAME: &str = concat!("aldis ", env!("CARGO_PKG_VERSION"));

/// Regions that a server takes: VPP's clients have one for rings and some for buffers.
const REGIONS: usize = 4;

/// The logarithm of the length of a client's rings: 1 MiB of buffers, which caches hold.
const RING_LOG2: u8 = 8;

/// Messages that are heard at a time.
const HEARD_MAX: usize = 16;

/// The memory of a connection, once all of it is there.
pub(super) type HostMemif = Memif<RegionMapping, REGIONS>;

/// The address of a card, and the bytes of its longest frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemifStation {
    pub(super) mac: Mac,
    pub(super) frame_bytes: usize,
}

/// An end of a handshake.
#[derive(Debug)]
enum HandshakeEnd {
    Client {
        handshake: ClientHandshake,
        /// The file of the region, for the server.
        file: OwnedFd,
    },
    Server {
        handshake: ServerHandshake,
        regions: [Option<RegionMapping>; REGIONS],
    },
}

/// A connection.
#[derive(Debug)]
pub(super) struct MemifConnection {
    socket: ControlSocket,
    end: HandshakeEnd,
    /// The bells of the rings: to the server, and to the client.
    bells: [Option<OwnedFd>; 2],
    memif: Option<HostMemif>,
    is_started: bool,
    begun: Instant,
    station: MemifStation,
}

impl MemifConnection {
    /// The client's end of a socket, with memory of its own. The server speaks first.
    ///
    /// # Errors
    /// The call that failed.
    pub(super) fn of_client(
        socket: ControlSocket,
        choice: &MemifChoice,
        station: MemifStation,
    ) -> Result<Self, CallFailure> {
        let invalid = CallFailure { call: Call::Mmap, errno: Errno::EINVAL };
        let layout = MemifLayout::new(RING_LOG2).ok_or(invalid)?;
        let (file, mapping) = RegionMapping::create(layout.bytes())?;
        let setup = ClientSetup {
            id: choice.id.number(),
            secret: &choice.secret,
            name: NAME,
            bytes: layout.bytes() as u64,
            rings: layout.rings(),
        };
        let MemifStation { mac, frame_bytes } = station;
        let bell = || eventfd().map(Some).map_err(CallFailure::of(Call::Eventfd));
        Ok(Self {
            socket,
            end: HandshakeEnd::Client { handshake: ClientHandshake::new(&setup), file },
            bells: [bell()?, bell()?],
            memif: Some(Memif::client(mapping, layout, mac, frame_bytes).map_err(|_| invalid)?),
            is_started: false,
            begun: Instant::now(),
            station,
        })
    }

    /// The server's end of a socket, which speaks first.
    ///
    /// # Errors
    /// The call that failed.
    pub(super) fn of_server(
        socket: ControlSocket,
        choice: &MemifChoice,
        station: MemifStation,
    ) -> Result<Self, CallFailure> {
        let setup = ServerSetup {
            id: choice.id.number(),
            secret: &choice.secret,
            name: NAME,
            regions: REGIONS as u16,
        };
        let handshake = ServerHandshake::new(&setup);
        socket.send(&handshake.hello(), None).map_err(CallFailure::of(Call::Sendmsg))?;
        Ok(Self {
            socket,
            end: HandshakeEnd::Server { handshake, regions: [const { None }; REGIONS] },
            bells: [None, None],
            memif: None,
            is_started: false,
            begun: Instant::now(),
            station,
        })
    }

    /// Returns true if its handshake takes longer than this.
    pub(super) fn is_slow(&self, limit: Duration) -> bool {
        !self.is_started && self.begun.elapsed() >= limit
    }

    /// The rings, once frames may go.
    pub(super) fn started(&mut self) -> Option<&mut HostMemif> {
        self.memif.as_mut().filter(|_| self.is_started)
    }

    /// Takes what the peer has said, and answers. Returns true if frames may go.
    ///
    /// # Errors
    /// The reason why this connection is at its end: [`MemifError::Refused`] if the peer has ended
    /// it or has gone, another if the peer does not keep to the protocol.
    pub(super) fn listen(&mut self) -> Result<bool, MemifError> {
        for _ in 0..HEARD_MAX {
            let heard = self.socket.receive().map_err(|_| gone())?;
            let Some(HeardMessage { bytes, file }) = heard else { break };
            if bytes.is_empty() {
                return Err(gone());
            }
            match &mut self.end {
                HandshakeEnd::Client { handshake, .. } => {
                    let step = handshake.receive(&bytes)?;
                    self.follow(step)?;
                }
                HandshakeEnd::Server { handshake, .. } => {
                    let step = handshake.receive(&bytes, file.is_some())?;
                    self.work(step.work, file)?;
                    self.say(&step.answer, None)?;
                }
            }
        }
        Ok(self.is_started)
    }

    /// Does what comes next at the client's end.
    fn follow(&mut self, step: ClientStep) -> Result<(), MemifError> {
        match step {
            ClientStep::Send { message, with } => self.say(&message, with),
            ClientStep::Start(_) => {
                if let Some(memif) = &mut self.memif {
                    memif.start();
                    self.is_started = true;
                }
                Ok(())
            }
        }
    }

    /// Does what comes before an answer at the server's end.
    fn work(&mut self, work: ServerWork, file: Option<OwnedFd>) -> Result<(), MemifError> {
        let HandshakeEnd::Server { regions, .. } = &mut self.end else { return Ok(()) };
        match work {
            ServerWork::Nothing => {}
            ServerWork::Map { region, bytes } => {
                let file = file.ok_or(MemifError::NoDescriptor)?;
                let mapping = RegionMapping::take(&file, bytes).ok().flatten();
                let place = regions.get_mut(usize::from(region)).filter(|_| mapping.is_some());
                *place.ok_or(MemifError::Region(region))? = mapping;
            }
            ServerWork::Keep(direction) => {
                let [to_server, to_client] = &mut self.bells;
                let bell = if direction == RingDirection::ToServer { to_server } else { to_client };
                *bell = file;
            }
            ServerWork::Start(rings) => {
                let regions = core::mem::replace(regions, [const { None }; REGIONS]);
                let MemifStation { mac, frame_bytes } = self.station;
                self.memif = Some(Memif::server(regions, rings, mac, frame_bytes)?);
                self.is_started = true;
            }
        }
        Ok(())
    }

    /// Sends a message, and the descriptor that goes with it.
    fn say(&self, message: &[u8; CONTROL_BYTES], with: Option<DescriptorKind>) -> Result<(), MemifError> {
        let [to_server, to_client] = &self.bells;
        let file = match (with, &self.end) {
            (Some(DescriptorKind::Region(_)), HandshakeEnd::Client { file, .. }) => Some(file),
            (Some(DescriptorKind::Bell(RingDirection::ToServer)), _) => to_server.as_ref(),
            (Some(DescriptorKind::Bell(RingDirection::ToClient)), _) => to_client.as_ref(),
            _ => None,
        };
        self.socket.send(message, file.map(OwnedFd::as_fd)).map_err(|_| gone())
    }

    /// Puts a frame into the ring.
    pub(super) fn send(&mut self, frame: &[u8]) {
        if let Some(memif) = self.started() {
            memif.send_more(frame);
        }
    }

    /// Hands what was put into the ring to the peer, and wakes one that sleeps.
    pub(super) fn flush(&mut self) {
        let Some(memif) = self.started() else { return };
        memif.flush();
        if memif.must_ring() {
            self.ring();
        }
    }

    /// Rings for the peer. Its bell is what it has sent, and may be any file: one that would have
    /// this process wait is left alone.
    #[cold]
    fn ring(&self) {
        let [to_server, to_client] = &self.bells;
        let bell = if matches!(self.end, HandshakeEnd::Client { .. }) { to_server } else { to_client };
        let Some(bell) = bell else { return };
        let mut ready = [PollFd::new(bell.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut ready, PollTimeout::ZERO) == Ok(1) {
            // A peer that cannot be woken looks at its ring sooner or later, or is none.
            let _ = write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// Ends the connection, and tells the peer why.
    pub(super) fn end(self, reason: &str) {
        say_end(&self.socket, reason);
    }
}

impl AsFd for MemifConnection {
    /// A file that can be read when the peer has said something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Tells the other end of a socket that this is the end, and why.
pub(super) fn say_end(socket: &ControlSocket, reason: &str) {
    let last = ControlMessage::Disconnect { code: 0, reason: MemifText::new(reason) }.encode();
    // A peer that has gone is not told.
    let _ = socket.send(&last, None);
}

/// The error of a peer that has gone without a word.
fn gone() -> MemifError {
    MemifError::Refused(MemifText::default())
}
