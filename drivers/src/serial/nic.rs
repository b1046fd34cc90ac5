//! The device: two buffers, a codec each way, and a stream.

use core::fmt;

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, TxFrame};
use embedded_io::{Read, ReadReady, Write, WriteReady};

use super::cobs::{self, DELIMITER, Damage, Decoder, Encoder};
use crate::aligned::Aligned;

/// Bytes that are read or written at once.
const CHUNK_BYTES: usize = 32;

/// The memory of a [`SerialNic`]: a frame each way. All-zero means empty. Aligned so that messages
/// of the Ethernet transport, whose headers are 48 bytes, can be read where they lie.
///
/// `FRAME_BYTES` is the longest frame: 14 more than the MTU, and 62 more than the longest message
/// of a transport above.
pub struct SerialStorage<const FRAME_BYTES: usize> {
    incoming: Aligned<FRAME_BYTES>,
    outgoing: Aligned<FRAME_BYTES>,
}

impl<const FRAME_BYTES: usize> SerialStorage<FRAME_BYTES> {
    /// An empty storage.
    #[expect(clippy::new_without_default, reason = "a storage is made const, not by value at run time")]
    pub const fn new() -> Self {
        Self { incoming: Aligned::EMPTY, outgoing: Aligned::EMPTY }
    }

    /// The memory for one device.
    pub const fn memory(&mut self) -> SerialMemory<'_> {
        SerialMemory { incoming: &mut self.incoming.0, outgoing: &mut self.outgoing.0 }
    }
}

impl<const FRAME_BYTES: usize> fmt::Debug for SerialStorage<FRAME_BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SerialStorage<{FRAME_BYTES}>")
    }
}

/// A storage as slices.
#[derive(Debug)]
pub struct SerialMemory<'m> {
    /// The frame that comes; 8-byte aligned, or messages above are not.
    pub incoming: &'m mut [u8],
    /// The memory of the frame that is being sent.
    pub outgoing: &'m mut [u8],
}

/// Counters of a line. Counts wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct SerialCounters {
    /// Frames handed up.
    pub frames_received: u64,
    /// Frames that are out, but for what the stream itself keeps.
    pub frames_sent: u64,
    /// Frames that ended within a group: bytes were lost or damaged.
    pub truncated: u64,
    /// Frames longer than the memory for them.
    pub too_long: u64,
    /// Errors of the stream; the frame that was on its way is lost.
    pub errors: u64,
}

/// Bytes on their way between the stream and a codec.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    bytes: [u8; CHUNK_BYTES],
    at: usize,
    len: usize,
}

impl Chunk {
    const EMPTY: Self = Self { bytes: [0; CHUNK_BYTES], at: 0, len: 0 };

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..self.len).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.at >= self.len
    }
}

/// A serial line that sends and receives Ethernet frames; see the [module](super).
#[derive(Debug)]
pub struct SerialNic<'m, S> {
    stream: S,
    mac: Mac,
    memory: SerialMemory<'m>,
    decoder: Decoder,
    unread: Chunk,
    /// The frame that is being sent: its length, and how far it is.
    sending: Option<(usize, Encoder)>,
    unwritten: Chunk,
    counters: SerialCounters,
}

impl<'m, S: Read + ReadReady + Write + WriteReady> SerialNic<'m, S> {
    /// A device with this address on a line. The rank at its other end knows the address: it is on
    /// this rank's card.
    pub const fn new(stream: S, memory: SerialMemory<'m>, mac: Mac) -> Self {
        // A zero first: what an earlier life has left unfinished, or noise, is no part of our first
        // frame.
        let unwritten = Chunk { bytes: [DELIMITER; CHUNK_BYTES], at: 0, len: 1 };
        Self {
            stream,
            mac,
            memory,
            decoder: Decoder::new(),
            unread: Chunk::EMPTY,
            sending: None,
            unwritten,
            counters: SerialCounters {
                frames_received: 0,
                frames_sent: 0,
                truncated: 0,
                too_long: 0,
                errors: 0,
            },
        }
    }

    /// Returns the counters.
    pub const fn counters(&self) -> SerialCounters {
        self.counters
    }

    /// The line.
    pub const fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Writes what the stream takes of the frame that is being sent. Does not block;
    /// [`receive`](Nic::receive) and [`transmit`](Nic::transmit) call it.
    pub fn push(&mut self) {
        while self.refill() {
            match self.stream.write_ready() {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.abandon(),
            }
            match self.stream.write(self.unwritten.rest()) {
                Ok(0) => return,
                Ok(written) => self.unwritten.at += written,
                Err(_) => return self.abandon(),
            }
        }
    }

    /// Returns true if there is something to write, after a look for more.
    fn refill(&mut self) -> bool {
        if !self.unwritten.is_empty() {
            return true;
        }
        let Some((len, encoder)) = &mut self.sending else { return false };
        let frame = self.memory.outgoing.get(..*len).unwrap_or_default();
        let mut filled = 0;
        for (place, byte) in self.unwritten.bytes.iter_mut().zip(core::iter::from_fn(|| encoder.next(frame)))
        {
            *place = byte;
            filled += 1;
        }
        (self.unwritten.at, self.unwritten.len) = (0, filled);
        if filled == 0 {
            self.sending = None;
            self.counters.frames_sent += 1;
        }
        filled != 0
    }

    /// The stream has failed: what is out of the frame is ended, so that the next one is whole.
    #[cold]
    fn abandon(&mut self) {
        self.counters.errors += 1;
        self.sending = None;
        self.unwritten = Chunk { bytes: [DELIMITER; CHUNK_BYTES], at: 0, len: 1 };
    }

    /// Reads a chunk, if there is anything.
    fn pull(&mut self) -> bool {
        if !self.unread.is_empty() {
            return true;
        }
        let read = match self.stream.read_ready() {
            Ok(true) => self.stream.read(&mut self.unread.bytes),
            Ok(false) => return false,
            Err(error) => Err(error),
        };
        (self.unread.at, self.unread.len) = (0, read.as_ref().map_or(0, |len| *len));
        if read.is_err() {
            // Bytes are missing: what is there of the frame must not decode.
            self.counters.errors += 1;
            self.decoder.spoil();
        }
        !self.unread.is_empty()
    }

    /// The length of the next frame, if all of it is there.
    fn next_frame(&mut self) -> Option<usize> {
        let mut left = cobs::encoded_bytes_max(self.memory.incoming.len());
        while left != 0 && self.pull() {
            let mut rest = self.unread.bytes.get(self.unread.at..self.unread.len).unwrap_or_default();
            let before = rest.len();
            let end = self.decoder.feed(&mut rest, self.memory.incoming);
            let taken = before - rest.len();
            self.unread.at += taken;
            left = left.saturating_sub(taken);
            match end {
                Some(Ok(len)) => {
                    self.counters.frames_received += 1;
                    return Some(len);
                }
                Some(Err(Damage::Truncated)) => self.counters.truncated += 1,
                Some(Err(Damage::TooLong)) => self.counters.too_long += 1,
                None => {}
            }
        }
        None
    }
}

impl<'m, S: Read + ReadReady + Write + WriteReady> Nic for SerialNic<'m, S> {
    type Rx<'a>
        = &'a [u8]
    where
        Self: 'a;
    type Tx<'a>
        = SerialTx<'a, 'm, S>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<&[u8]> {
        self.push();
        let len = self.next_frame()?;
        self.memory.incoming.get(..len)
    }

    fn transmit(&mut self, len: usize) -> Option<SerialTx<'_, 'm, S>> {
        self.push();
        let free = self.sending.is_none() && len <= self.memory.outgoing.len();
        free.then_some(SerialTx { nic: self, len })
    }

    /// Returns the bytes that the smaller of the two buffers holds behind the addresses and the
    /// EtherType.
    fn mtu(&self) -> usize {
        self.memory.incoming.len().min(self.memory.outgoing.len()).saturating_sub(MAC_HEADER_BYTES)
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    /// Always up: a line says nothing of who is at its other end.
    fn link(&self) -> LinkState {
        LinkState::Up
    }
}

/// A frame to fill, in the memory that it is sent from.
#[derive(Debug)]
pub struct SerialTx<'a, 'm, S> {
    nic: &'a mut SerialNic<'m, S>,
    len: usize,
}

impl<S: Read + ReadReady + Write + WriteReady> TxFrame for SerialTx<'_, '_, S> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.memory.outgoing.get_mut(..self.len).unwrap_or_default()
    }

    fn send(self) {
        self.nic.sending = Some((self.len, Encoder::new()));
        self.nic.push();
    }
}
