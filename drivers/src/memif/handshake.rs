//! The order of the messages, from either end. No I/O: messages in, messages out.

use super::error::{MemifError, MemifText};
use super::message::{
    CONTROL_BYTES, ControlMessage, DescriptorKind, HelloLimits, InitRequest, RingDirection, RingPlacement,
    SECRET_BYTES, VERSION,
};
use super::ring::RING_LOG2_MAX;

/// The mode of an interface that carries frames of Ethernet.
const MODE_ETHERNET: u8 = 0;

/// A secret with zeros behind it, as much of it as there is room for.
fn secret_of(text: &str) -> [u8; SECRET_BYTES] {
    let mut secret = [0; SECRET_BYTES];
    secret.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    secret
}

/// The interface that a client asks for, and what it brings.
#[derive(Clone, Copy, Debug)]
pub struct ClientSetup<'a> {
    /// The number of the interface on the server's socket.
    pub id: u32,
    /// The secret of the interface; empty for none.
    pub secret: &'a str,
    /// The name of the program.
    pub name: &'a str,
    /// The bytes of its region.
    pub bytes: u64,
    /// Its rings: to the server, and to the client.
    pub rings: [RingPlacement; 2],
}

/// The thing that a client does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientStep {
    /// Sends a message, and with it a descriptor.
    Send {
        /// The message.
        message: [u8; CONTROL_BYTES],
        /// The descriptor that goes with it.
        with: Option<DescriptorKind>,
    },
    /// Starts: the server, of this name, is connected.
    Start(MemifText),
}

/// A handshake from the client's end.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    init: InitRequest,
    bytes: u64,
    rings: [RingPlacement; 2],
    /// Messages that were sent.
    sent: u8,
    /// True once the server is connected.
    is_over: bool,
}

impl ClientHandshake {
    /// A handshake on a socket that was just connected. The server speaks first.
    pub fn new(setup: &ClientSetup<'_>) -> Self {
        let init = InitRequest {
            version: VERSION,
            id: setup.id,
            mode: MODE_ETHERNET,
            secret: secret_of(setup.secret),
            name: MemifText::new(setup.name),
        };
        Self { init, bytes: setup.bytes, rings: setup.rings, sent: 0, is_over: false }
    }

    /// Takes a message of the server, and says what is next.
    ///
    /// # Errors
    /// [`MemifError::Refused`] if it ends the connection, [`MemifError::Version`] or
    /// [`MemifError::Ring`] if it does not serve what is asked for, [`MemifError::Malformed`] or
    /// [`MemifError::Unexpected`] if it does not keep to the protocol.
    pub fn receive(&mut self, message: &[u8]) -> Result<ClientStep, MemifError> {
        let message = ControlMessage::decode(message)?;
        let [to_server, to_client] = self.rings;
        let next = match (message, self.sent) {
            (ControlMessage::Disconnect { reason, .. }, _) => return Err(MemifError::Refused(reason)),
            (ControlMessage::Hello(limits), 0) => {
                self.judge(&limits)?;
                ControlMessage::Init(self.init)
            }
            (ControlMessage::Ack, 1) => ControlMessage::AddRegion { index: 0, bytes: self.bytes },
            (ControlMessage::Ack, 2) => ControlMessage::AddRing(to_server),
            (ControlMessage::Ack, 3) => ControlMessage::AddRing(to_client),
            (ControlMessage::Ack, 4) => ControlMessage::Connect(self.init.name),
            (ControlMessage::Connected(name), 5) if !self.is_over => {
                self.is_over = true;
                return Ok(ClientStep::Start(name));
            }
            (other, _) => return Err(MemifError::Unexpected(other.kind())),
        };
        self.sent += 1;
        let with = match next {
            ControlMessage::AddRegion { index, .. } => Some(DescriptorKind::Region(index)),
            ControlMessage::AddRing(ring) => Some(DescriptorKind::Bell(ring.direction)),
            _ => None,
        };
        Ok(ClientStep::Send { message: next.encode(), with })
    }

    /// Holds the server's bounds against what it will be asked for.
    fn judge(&self, limits: &HelloLimits) -> Result<(), MemifError> {
        let HelloLimits { oldest, newest, ring_log2_max, .. } = *limits;
        if !(oldest..=newest).contains(&VERSION) {
            return Err(MemifError::Version { oldest, newest });
        }
        let fits = self.rings.iter().all(|ring| ring.log2 <= ring_log2_max);
        if fits { Ok(()) } else { Err(MemifError::Ring) }
    }
}

/// The interface that a server serves.
#[derive(Clone, Copy, Debug)]
pub struct ServerSetup<'a> {
    /// Its number on this socket.
    pub id: u32,
    /// Its secret; empty for none.
    pub secret: &'a str,
    /// The name of the program.
    pub name: &'a str,
    /// The regions that it can take, at most.
    pub regions: u16,
}

/// The thing that a server does before it answers a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerWork {
    /// Nothing.
    Nothing,
    /// Maps so many bytes of the descriptor that came with the message, as this region.
    Map {
        /// The number of the region.
        region: u16,
        /// Its bytes.
        bytes: u64,
    },
    /// Keeps the descriptor that came with the message as the bell of a ring.
    Keep(RingDirection),
    /// Starts: a client whose rings, to the server and to itself, lie here is connected.
    Start([RingPlacement; 2]),
}

/// The answer to a message, and what is to be done before it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerStep {
    /// The work before the answer.
    pub work: ServerWork,
    /// The answer.
    pub answer: [u8; CONTROL_BYTES],
}

/// A handshake from the server's end.
#[derive(Clone, Debug)]
pub struct ServerHandshake {
    id: u32,
    secret: [u8; SECRET_BYTES],
    name: MemifText,
    regions: u16,
    /// Regions that came.
    taken: u16,
    /// True once the client has asked for the interface, and once it is connected.
    is_asked: bool,
    is_over: bool,
    /// Rings that came: to the server, and to the client.
    rings: [Option<RingPlacement>; 2],
}

impl ServerHandshake {
    /// A handshake on a socket that a client has just connected to.
    pub fn new(setup: &ServerSetup<'_>) -> Self {
        Self {
            id: setup.id,
            secret: secret_of(setup.secret),
            name: MemifText::new(setup.name),
            regions: setup.regions,
            taken: 0,
            is_asked: false,
            is_over: false,
            rings: [None; 2],
        }
    }

    /// The message by which the server begins.
    pub fn hello(&self) -> [u8; CONTROL_BYTES] {
        ControlMessage::Hello(HelloLimits {
            name: self.name,
            oldest: VERSION,
            newest: VERSION,
            region_max: self.regions.saturating_sub(1),
            ring_to_client_max: 0,
            ring_to_server_max: 0,
            ring_log2_max: RING_LOG2_MAX,
        })
        .encode()
    }

    /// Takes a message of the client, and says what is to be done and answered. `has_descriptor`
    /// tells that one came with it.
    ///
    /// # Errors
    /// [`MemifError::Refused`] if it ends the connection; [`MemifError::Version`],
    /// [`MemifError::Id`], [`MemifError::Mode`] or [`MemifError::Secret`] if it asks for what is
    /// not here; [`MemifError::NoDescriptor`], [`MemifError::Region`] or [`MemifError::Ring`] for
    /// memory that cannot be; [`MemifError::Malformed`] or [`MemifError::Unexpected`] if it does
    /// not keep to the protocol.
    pub fn receive(&mut self, message: &[u8], has_descriptor: bool) -> Result<ServerStep, MemifError> {
        let message = ControlMessage::decode(message)?;
        let ack = |work| Ok(ServerStep { work, answer: ControlMessage::Ack.encode() });
        let is_open = self.is_asked && !self.is_over;
        match message {
            ControlMessage::Disconnect { reason, .. } => Err(MemifError::Refused(reason)),
            ControlMessage::Init(request) if !self.is_asked => {
                self.judge(&request)?;
                self.is_asked = true;
                ack(ServerWork::Nothing)
            }
            ControlMessage::AddRegion { .. } | ControlMessage::AddRing(_) if is_open && !has_descriptor => {
                Err(MemifError::NoDescriptor)
            }
            ControlMessage::AddRegion { index, bytes } if is_open => {
                if index != self.taken || index >= self.regions || bytes == 0 {
                    return Err(MemifError::Region(index));
                }
                self.taken += 1;
                ack(ServerWork::Map { region: index, bytes })
            }
            ControlMessage::AddRing(ring) if is_open => {
                self.take_ring(ring)?;
                ack(ServerWork::Keep(ring.direction))
            }
            ControlMessage::Connect(_) if is_open => {
                let [Some(to_server), Some(to_client)] = self.rings else { return Err(MemifError::Ring) };
                self.is_over = true;
                let answer = ControlMessage::Connected(self.name).encode();
                Ok(ServerStep { work: ServerWork::Start([to_server, to_client]), answer })
            }
            other => Err(MemifError::Unexpected(other.kind())),
        }
    }

    /// Holds what a client asks for against what there is.
    fn judge(&self, request: &InitRequest) -> Result<(), MemifError> {
        let InitRequest { version, id, mode, secret, .. } = *request;
        if version != VERSION {
            return Err(MemifError::Version { oldest: version, newest: version });
        }
        if id != self.id {
            return Err(MemifError::Id { asked: id, own: self.id });
        }
        if mode != MODE_ETHERNET {
            return Err(MemifError::Mode(mode));
        }
        // All bytes are looked at: how long it takes does not tell how many are right.
        let unlike = secret.iter().zip(&self.secret).fold(0, |unlike, (one, other)| unlike | (one ^ other));
        let is_known = unlike == 0 || self.secret == [0; SECRET_BYTES];
        if is_known { Ok(()) } else { Err(MemifError::Secret) }
    }

    /// Notes a ring: each of the two comes once.
    fn take_ring(&mut self, ring: RingPlacement) -> Result<(), MemifError> {
        let [to_server, to_client] = &mut self.rings;
        let place = if ring.direction == RingDirection::ToServer { to_server } else { to_client };
        if place.is_some() || ring.index != 0 || ring.log2 > RING_LOG2_MAX || ring.private_bytes != 0 {
            return Err(MemifError::Ring);
        }
        *place = Some(ring);
        Ok(())
    }
}
