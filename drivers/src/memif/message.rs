//! The messages of the socket, in the byte order of the machine, as both ends are on one.
//!
//! ```text
//!  0  type (2)
//!  2  HELLO       name (32), oldest and newest version (2, 2), highest region, ring to the
//!                 client and ring to the server (2, 2, 2), logarithm of the longest ring (1)
//!     INIT        version (2), id (4), mode (1), secret (24), name (32)
//!     ADD_REGION  number (2), bytes (8), and a descriptor beside it
//!     ADD_RING    flags (2), number (2), region (2), offset (4), logarithm of its length (1),
//!                 bytes of private headers (2), and a descriptor beside it
//!     CONNECT     name (32)          CONNECTED   name (32)
//!     DISCONNECT  code (4), reason (96)
//! ```

use super::error::{MemifError, MemifText, TEXT_BYTES};

/// Bytes of a message.
pub const CONTROL_BYTES: usize = 128;

/// Bytes of a secret, and of the reason of an end.
pub(super) const SECRET_BYTES: usize = 24;
const REASON_BYTES: usize = 96;

/// The version that is spoken here, 2.0.
pub(super) const VERSION: u16 = 0x0200;

/// Of a ring's flags: it goes from the client to the server.
const TO_SERVER: u16 = 1;

/// The direction of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RingDirection {
    /// Frames go from the client to the server.
    ToServer,
    /// Frames go from the server to the client.
    ToClient,
}

/// The descriptor that goes with a message: the number of a file, as a process can hand it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DescriptorKind {
    /// The memory of a region.
    Region(u16),
    /// The bell of a ring: its reader is woken by writes to it.
    Bell(RingDirection),
}

/// The bounds that a server tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HelloLimits {
    /// The name of its program.
    pub name: MemifText,
    /// The oldest version that it speaks.
    pub oldest: u16,
    /// The newest version that it speaks.
    pub newest: u16,
    /// The highest number of a region.
    pub region_max: u16,
    /// The highest number of a ring to the client.
    pub ring_to_client_max: u16,
    /// The highest number of a ring to the server.
    pub ring_to_server_max: u16,
    /// The logarithm, of base 2, of the length of the longest ring.
    pub ring_log2_max: u8,
}

/// The interface that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct InitRequest {
    /// The version that it speaks from now on.
    pub version: u16,
    /// The number of the interface on this socket.
    pub id: u32,
    /// Zero for frames of Ethernet.
    pub mode: u8,
    /// The secret, with zeros behind it.
    pub secret: [u8; 24],
    /// The name of its program.
    pub name: MemifText,
}

/// The place of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RingPlacement {
    /// Its direction.
    pub direction: RingDirection,
    /// Its number among those of its direction.
    pub index: u16,
    /// The region in which it lies.
    pub region: u16,
    /// The offset of its first byte there.
    pub offset: u32,
    /// The logarithm, of base 2, of its length.
    pub log2: u8,
    /// Bytes of private headers in front of frames.
    pub private_bytes: u16,
}

/// A message of the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ControlMessage {
    /// From the server: the last message is accepted.
    Ack,
    /// From the server: its bounds, the first of all messages.
    Hello(HelloLimits),
    /// From the client: the interface that it asks for.
    Init(InitRequest),
    /// From the client: a region, whose descriptor is beside it.
    AddRegion {
        /// Its number, from zero on without a gap.
        index: u16,
        /// Its bytes.
        bytes: u64,
    },
    /// From the client: a ring, whose bell is beside it.
    AddRing(RingPlacement),
    /// From the client: all is there.
    Connect(MemifText),
    /// From the server: frames may go.
    Connected(MemifText),
    /// From either: this is the end, and why.
    Disconnect {
        /// A number of its own.
        code: u32,
        /// The reason.
        reason: MemifText,
    },
}

impl ControlMessage {
    /// The number of its type.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Ack => 1,
            Self::Hello(_) => 2,
            Self::Init(_) => 3,
            Self::AddRegion { .. } => 4,
            Self::AddRing(_) => 5,
            Self::Connect(_) => 6,
            Self::Connected(_) => 7,
            Self::Disconnect { .. } => 8,
        }
    }

    /// The message as it goes over the socket.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut writer = FieldWriter { bytes: [0; CONTROL_BYTES], at: 0 };
        writer.put(&self.kind().to_ne_bytes());
        match self {
            Self::Ack => {}
            Self::Hello(limits) => {
                writer.put(limits.name.bytes());
                let HelloLimits { oldest, newest, region_max, .. } = *limits;
                let rings = [limits.ring_to_client_max, limits.ring_to_server_max];
                for value in [oldest, newest, region_max].into_iter().chain(rings) {
                    writer.put(&value.to_ne_bytes());
                }
                writer.put(&[limits.ring_log2_max]);
            }
            Self::Init(request) => {
                writer.put(&request.version.to_ne_bytes());
                writer.put(&request.id.to_ne_bytes());
                writer.put(&[request.mode]);
                writer.put(&request.secret);
                writer.put(request.name.bytes());
            }
            Self::AddRegion { index, bytes } => {
                writer.put(&index.to_ne_bytes());
                writer.put(&bytes.to_ne_bytes());
            }
            Self::AddRing(ring) => {
                let flags = if ring.direction == RingDirection::ToServer { TO_SERVER } else { 0 };
                for value in [flags, ring.index, ring.region] {
                    writer.put(&value.to_ne_bytes());
                }
                writer.put(&ring.offset.to_ne_bytes());
                writer.put(&[ring.log2]);
                writer.put(&ring.private_bytes.to_ne_bytes());
            }
            Self::Connect(name) | Self::Connected(name) => writer.put(name.bytes()),
            Self::Disconnect { code, reason } => {
                writer.put(&code.to_ne_bytes());
                writer.put(reason.bytes());
            }
        }
        writer.bytes
    }

    /// Reads a message. Bytes behind its fields are not looked at.
    ///
    /// # Errors
    /// [`MemifError::Malformed`] for bytes that are fewer or more than a message, and for a type
    /// that there is not.
    pub fn decode(bytes: &[u8]) -> Result<Self, MemifError> {
        let bytes: &[u8; CONTROL_BYTES] = bytes.try_into().map_err(|_| MemifError::Malformed(0))?;
        let mut reader = FieldReader { rest: bytes };
        let kind = reader.number();
        let message = match kind {
            1 => Self::Ack,
            2 => Self::Hello(reader.limits()),
            3 => Self::Init(reader.request()),
            4 => Self::AddRegion { index: reader.number(), bytes: u64::from_ne_bytes(reader.take()) },
            5 => Self::AddRing(reader.ring()),
            6 => Self::Connect(reader.text::<TEXT_BYTES>()),
            7 => Self::Connected(reader.text::<TEXT_BYTES>()),
            8 => Self::Disconnect {
                code: u32::from_ne_bytes(reader.take()),
                reason: reader.text::<REASON_BYTES>(),
            },
            kind => return Err(MemifError::Malformed(kind)),
        };
        Ok(message)
    }
}

/// A message that is written field by field.
struct FieldWriter {
    bytes: [u8; CONTROL_BYTES],
    at: usize,
}

impl FieldWriter {
    /// Writes a field behind those before: all fields of a message have room in it.
    fn put(&mut self, field: &[u8]) {
        let room = self.bytes.get_mut(self.at..).unwrap_or_default();
        room.iter_mut().zip(field).for_each(|(to, from)| *to = *from);
        self.at += field.len();
    }
}

/// A message that is read field by field.
struct FieldReader<'a> {
    rest: &'a [u8],
}

impl FieldReader<'_> {
    /// The next field: all fields of a message have room in it, and what is behind it is zero.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.rest.split_first_chunk() else { return [0; N] };
        self.rest = rest;
        *field
    }

    fn number(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn text<const N: usize>(&mut self) -> MemifText {
        MemifText::of_bytes(&self.take::<N>())
    }

    fn limits(&mut self) -> HelloLimits {
        HelloLimits {
            name: self.text::<TEXT_BYTES>(),
            oldest: self.number(),
            newest: self.number(),
            region_max: self.number(),
            ring_to_client_max: self.number(),
            ring_to_server_max: self.number(),
            ring_log2_max: self.byte(),
        }
    }

    fn request(&mut self) -> InitRequest {
        InitRequest {
            version: self.number(),
            id: u32::from_ne_bytes(self.take()),
            mode: self.byte(),
            secret: self.take(),
            name: self.text::<TEXT_BYTES>(),
        }
    }

    fn ring(&mut self) -> RingPlacement {
        let is_to_server = self.number() & TO_SERVER != 0;
        RingPlacement {
            direction: if is_to_server { RingDirection::ToServer } else { RingDirection::ToClient },
            index: self.number(),
            region: self.number(),
            offset: u32::from_ne_bytes(self.take()),
            log2: self.byte(),
            private_bytes: self.number(),
        }
    }
}
