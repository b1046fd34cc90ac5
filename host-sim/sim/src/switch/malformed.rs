//! Frames that no member should send: made from real ones, so that they reach as deep as such
//! frames can.

use aldis_drivers::ethernet::header::HEADER_BYTES;
use aldis_drivers::ethernet::udp::UDP_HEADER_BYTES;
use aldis_hal::Epoch;
use aldis_protocols::connect::{self, ConnectionNumbers, Message, MessageEnds};
use aldis_protocols::reliable::{FRAME_BYTES, Frame, FrameKind, open, seal};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

use super::faults::Rate;
use super::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use crate::Random;

/// The places at which the reliable protocol's frame may begin.
const OFFSETS: [usize; 2] = [HEADER_BYTES, UDP_HEADER_BYTES];
/// The UDP checksum, if there is one; zero says that there is none (RFC 768).
const UDP_CHECKSUM: core::ops::Range<usize> = 40..42;
/// A frame that is longer than any MTU in use.
const GIANT_BYTES_MIN: usize = 9_015;
/// The bytes that hold all headers.
const HEADERS_BYTES: usize = 80;
/// Real frames that are remembered, one of which is taken as the model of each malformed one.
const MODELS: usize = 32;

/// The fault of a malformed frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Malformed {
    /// Random bytes behind the addresses and the EtherType of a real frame.
    Noise,
    /// A real frame with up to eight bytes of its headers replaced.
    Header,
    /// A real frame that ends too early.
    Truncated,
    /// A real frame with random bytes behind it, 9,015 to 65,000 altogether.
    Giant,
    /// A frame with a valid checksum of a connection, or of a life of its sender, that does not
    /// exist.
    Stale,
}

impl Malformed {
    const ALL: [Self; 5] = [Self::Noise, Self::Header, Self::Truncated, Self::Giant, Self::Stale];
}

/// Makes malformed frames of those that pass by.
#[derive(Debug)]
pub(super) struct Fuzzer {
    random: Random,
    models: Vec<Vec<u8>>,
}

impl Fuzzer {
    pub(super) const fn new(random: Random) -> Self {
        Self { random, models: Vec::new() }
    }

    /// A real frame passes by; a malformed one may follow from it.
    pub(super) fn follow(&mut self, frame: &[u8], rate: Rate) -> Option<(Malformed, Vec<u8>)> {
        if rate == Rate::NEVER || frame.len() < FRAME_BYTES_MIN {
            return None;
        }
        if self.models.len() < MODELS {
            self.models.push(frame.to_vec());
        } else {
            let at = self.random.below(MODELS as u64) as usize;
            if let Some(model) = self.models.get_mut(at) {
                *model = frame.to_vec();
            }
        }
        rate.happens(&mut self.random).then(|| self.make())
    }

    fn make(&mut self) -> (Malformed, Vec<u8>) {
        let model = self.random.pick(&self.models).clone();
        let kind = *self.random.pick(&Malformed::ALL);
        match kind {
            Malformed::Noise => (kind, self.noise(&model)),
            Malformed::Truncated => (kind, self.truncated(model)),
            Malformed::Giant => (kind, self.giant(model)),
            Malformed::Header => (kind, self.header(model)),
            Malformed::Stale => match self.stale(&model) {
                Some(frame) => (kind, frame),
                // A model of another protocol has no connection.
                None => (Malformed::Header, self.header(model)),
            },
        }
    }

    fn random_bytes(&mut self, count: usize) -> impl Iterator<Item = u8> {
        (0..count).map(|_| self.random.draw() as u8)
    }

    fn noise(&mut self, model: &[u8]) -> Vec<u8> {
        let mut frame: Vec<u8> = model.iter().copied().take(FRAME_BYTES_MIN).collect();
        let length = self.random.within(1, 1500) as usize;
        frame.extend(self.random_bytes(length));
        frame
    }

    fn header(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        // Behind the addresses: the frame is to reach the member that it was for.
        let end = frame.len().min(HEADERS_BYTES) as u64;
        for _ in 0..self.random.within(1, 8) {
            let (at, byte) = (self.random.within(12, end - 1) as usize, self.random.draw() as u8);
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame
    }

    fn truncated(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        frame.truncate(self.random.within(1, frame.len() as u64 - 1) as usize);
        frame
    }

    fn giant(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        let length = self.random.within(GIANT_BYTES_MIN as u64, FRAME_BYTES_MAX as u64) as usize;
        let more = length.saturating_sub(frame.len());
        frame.extend(self.random_bytes(more));
        frame
    }

    /// A frame of the reliable protocol, correctly sealed, of a connection or life that there is
    /// not.
    fn stale(&mut self, model: &[u8]) -> Option<Vec<u8>> {
        let (front, frame, payload) = OFFSETS.into_iter().find_map(|offset| {
            let (front, body) = model.split_at_checked(offset)?;
            open(body).ok().map(|(frame, payload)| (front, *frame, payload))
        })?;
        let (frame, payload) = match frame.kind() {
            Ok(FrameKind::Handshake) => self.another_life(frame, payload)?,
            _ => (self.another_connection(frame), payload.to_vec()),
        };
        let mut bytes = front.to_vec();
        if let Some(checksum) = bytes.get_mut(UDP_CHECKSUM) {
            checksum.fill(0);
        }
        bytes.extend_from_slice(seal(frame, &payload)?.as_bytes());
        bytes.extend_from_slice(&payload);
        Some(bytes)
    }

    /// Any number but the real one: the chance to meet another that is in use is one in many
    /// millions.
    fn another_connection(&mut self, frame: Frame) -> Frame {
        let mut number = || U32::new(self.random.draw() as u32);
        Frame {
            connection: U32::new(frame.connection.get() ^ number().get().max(1)),
            sequence: number(),
            cumulative: number(),
            limit: number(),
            ..frame
        }
    }

    /// A greeting of a life of the sender that no peer was told about.
    fn another_life(&mut self, frame: Frame, payload: &[u8]) -> Option<(Frame, Vec<u8>)> {
        let real = Message::decode(payload).ok()?;
        let epoch = Epoch((real.epoch().0 ^ (self.random.draw() as u32).max(1)).max(1));
        let number = self.random.draw() as u32;
        let sides = MessageEnds { job: real.job, rank: real.rank, epoch, to: real.to };
        let numbers = ConnectionNumbers { own: number, echo: 0 };
        let message = Message::new(connect::HandshakeKind::Hello, numbers, sides, real.offer);
        let mut buffer = [0; connect::MESSAGE_BYTES_MAX];
        Some((frame, message.encode(&mut buffer)?.to_vec()))
    }
}

const _: () = assert!(HEADERS_BYTES >= UDP_HEADER_BYTES + FRAME_BYTES && GIANT_BYTES_MIN < FRAME_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn real(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
        let frame = Frame { connection: U32::new(77), ..Frame::new(kind) };
        let mut bytes = vec![2; 12];
        bytes.extend([0x88, 0xB5, 0xA1, 1]);
        bytes.extend_from_slice(seal(frame, payload).unwrap().as_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    fn made(frame: &[u8], count: usize) -> Vec<(Malformed, Vec<u8>)> {
        let mut fuzzer = Fuzzer::new(Random::new(7, 7));
        (0..count).filter_map(|_| fuzzer.follow(frame, Rate::percent(100))).collect()
    }

    #[test]
    fn every_kind_comes_and_is_what_it_says() {
        let model = real(FrameKind::Data, b"payload");
        let frames = made(&model, 500);
        for kind in Malformed::ALL {
            assert!(frames.iter().filter(|(made, _)| *made == kind).count() > 50, "{kind:?}");
        }
        for (kind, frame) in frames {
            let opened = frame.get(16..).and_then(|body| open(body).ok());
            match kind {
                Malformed::Truncated => assert!(!frame.is_empty() && frame.len() < model.len()),
                Malformed::Giant => assert!((GIANT_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame.len())),
                Malformed::Stale => assert_ne!(opened.unwrap().0.connection.get(), 77),
                Malformed::Noise => assert!(opened.is_none() && frame.starts_with(&model[..14])),
                Malformed::Header => assert_eq!((&frame[..12], frame.len()), (&model[..12], model.len())),
            }
        }
    }

    #[test]
    fn a_greeting_comes_back_from_another_life() {
        let offer = connect::LinkOffer { window: 8, frame_bytes: 1500 };
        let sides = MessageEnds { job: 9, rank: 1, epoch: Epoch(3), to: 0 };
        let hello = Message::new(
            connect::HandshakeKind::Welcome,
            ConnectionNumbers { own: 5, echo: 6 },
            sides,
            offer,
        );
        let mut buffer = [0; connect::MESSAGE_BYTES_MAX];
        let model = real(FrameKind::Handshake, hello.encode(&mut buffer).unwrap());
        let stale = made(&model, 100).into_iter().find(|(kind, _)| *kind == Malformed::Stale).unwrap().1;
        let message = Message::decode(open(&stale[16..]).unwrap().1).unwrap();
        assert_ne!(message.epoch(), Epoch(3));
        assert_eq!(
            (message.job, message.rank, message.to, message.kind),
            (9, 1, 0, connect::HandshakeKind::Hello)
        );
    }

    #[test]
    fn frames_of_others_are_never_stale() {
        let frames = made(&[3; 60], 200);
        assert!(frames.len() == 200 && frames.iter().all(|(kind, _)| *kind != Malformed::Stale));
    }
}
