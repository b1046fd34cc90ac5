//! A wire on which a stranger throws frames at two ranks that are connected and exchange messages:
//! noise, genuine frames with changes, cut, prolonged or said again, and well-formed ones of other
//! connections, lives and jobs. Nothing of that may end in a panic, reach a message or end a
//! connection; all of it is counted.

use std::collections::VecDeque;

use aldis_drivers::discovery::{Discovery, DiscoverySetup, Entry};
use aldis_drivers::ethernet::header::{DISCOVERY_SUBTYPE, SUBTYPE};
use aldis_drivers::ethernet::udp::UDP_HEADER_BYTES;
use aldis_drivers::ethernet::{EthernetCounters, Framing, Udp};
use aldis_hal::nic::{LinkState, Mac, Nic, RxFrame};
use aldis_hal::{Epoch, Platform};
use aldis_protocols::card::CARD_BYTES_MAX;
use aldis_protocols::connect::{self, ConnectionNumbers, HandshakeKind, LinkOffer, Message, MessageEnds};
use aldis_protocols::reliable::{FRAME_BYTES, Frame, FrameKind, seal};
use aldis_protocols::{Card, discovery};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::rig::{Draw, EPOCHS, JOB, LinkedPair};
use crate::{serial, spi};

/// The longest frame that is thrown: longer than any that a device has room for. Most are shorter.
const GIANT_BYTES: usize = 70_000;
/// Genuine frames that the stranger remembers.
const REMEMBERED: usize = 16;

/// A device into whose frames a stranger throws some of its own: one in three of those that come
/// up.
struct Thrown<N> {
    nic: N,
    draw: Draw,
    /// Bytes in front of what the kinds of frames have in common.
    header: usize,
    genuine: VecDeque<Vec<u8>>,
    count: u64,
}

struct Received(Vec<u8>);

impl RxFrame for Received {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<N: Nic> Nic for Thrown<N> {
    type Rx<'a>
        = Received
    where
        Self: 'a;
    type Tx<'a>
        = N::Tx<'a>
    where
        Self: 'a;

    fn receive(&mut self) -> Option<Received> {
        if self.draw.once_in(3) && !self.genuine.is_empty() {
            self.count += 1;
            return Some(Received(self.throw()));
        }
        let frame = self.nic.receive()?.bytes().to_vec();
        if frame.len() >= self.header + FRAME_BYTES {
            self.genuine.truncate(REMEMBERED - 1);
            self.genuine.push_front(frame.clone());
        }
        Some(Received(frame))
    }
    fn transmit(&mut self, len: usize) -> Option<N::Tx<'_>> {
        self.nic.transmit(len)
    }
    fn flush(&mut self) {
        self.nic.flush();
    }
    fn mtu(&self) -> usize {
        self.nic.mtu()
    }
    fn mac(&self) -> Mac {
        self.nic.mac()
    }
    fn link(&self) -> LinkState {
        self.nic.link()
    }
}

impl<N> Thrown<N> {
    fn below(&mut self, bound: usize) -> usize {
        (self.draw.next() % bound.max(1) as u64) as usize
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        core::iter::repeat_with(|| self.draw.next() as u8).take(len).collect()
    }

    fn throw(&mut self) -> Vec<u8> {
        let pick = self.below(self.genuine.len());
        let mut frame = self.genuine[pick].clone();
        match self.below(8) {
            0 => return self.noise(100),
            1 => {
                let len = if self.draw.once_in(16) { self.below(GIANT_BYTES) } else { self.below(600) };
                return self.noise(len);
            }
            2 => frame.truncate(self.below(frame.len())),
            3 => {
                let more = self.below(2_000);
                frame.extend(self.noise(more));
            }
            4 => {}
            5 => return self.of_another_connection(&frame),
            6 => return self.of_another_life(&frame),
            _ => {
                for _ in 0..=self.below(4) {
                    let at = self.below(frame.len());
                    frame[at] ^= 1 << self.below(8);
                }
            }
        }
        frame
    }

    /// A frame whose checksum fits, of a connection that is not ours.
    fn of_another_connection(&mut self, genuine: &[u8]) -> Vec<u8> {
        let Ok((frame, payload)) = Frame::read_from_prefix(genuine.get(self.header..).unwrap_or_default())
        else {
            return Vec::new();
        };
        let connection = U32::new(frame.connection.get().wrapping_add(1 << 16));
        let payload = payload.get(..usize::from(frame.length.get())).unwrap_or_default();
        let Some(frame) = seal(Frame { connection, ..frame }, payload) else { return Vec::new() };
        framed(genuine, self.header, SUBTYPE, &[frame.as_bytes(), payload])
    }

    /// A handshake of another life, job or rank, or discovery's message of another job, from the
    /// peer's own station.
    fn of_another_life(&mut self, genuine: &[u8]) -> Vec<u8> {
        let number = self.draw.next() as u32;
        let rank = self.below(3) as u32;
        if self.draw.once_in(3) {
            let kind = discovery::DiscoveryKind::Here;
            let message = discovery::Message {
                kind,
                job: JOB + 1,
                size: 2,
                rank,
                epoch: Epoch(9),
                number,
                card: b"card",
            };
            let mut buffer = [0; discovery::MESSAGE_BYTES_MAX];
            return framed(genuine, self.header, DISCOVERY_SUBTYPE, &[message.encode(&mut buffer).unwrap()]);
        }
        let (job, epoch) = if self.draw.once_in(2) { (JOB, Epoch(99)) } else { (JOB + 1, EPOCHS[0]) };
        let offer = LinkOffer { window: 16, frame_bytes: 456 };
        let numbers = ConnectionNumbers { own: number, echo: 0 };
        let ends = MessageEnds { job, rank, epoch, to: 1 - rank.min(1) };
        let message = Message::new(HandshakeKind::Hello, numbers, ends, offer);
        let mut buffer = [0; connect::MESSAGE_BYTES_MAX];
        let payload = message.encode(&mut buffer).unwrap();
        let frame = seal(Frame::new(FrameKind::Handshake), payload).unwrap();
        framed(genuine, self.header, SUBTYPE, &[frame.as_bytes(), payload])
    }
}

/// A frame between the stations of a genuine one. In both kinds the last bytes of the header are
/// subtype and version.
fn framed(genuine: &[u8], header: usize, subtype: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut frame = genuine[..header].to_vec();
    frame[header - 2] = subtype;
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    if header == UDP_HEADER_BYTES {
        // Lengths of IPv4 and of UDP, which has no checksum then, and the checksum of IPv4 (RFC
        // 791, 3.1; RFC 768).
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[38..40].copy_from_slice(&(total - 20).to_be_bytes());
        frame[40..42].fill(0);
        frame[24..26].fill(0);
        let words = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

type Below<N> = Discovery<'static, Thrown<N>>;

/// Two ranks on these devices, that find each other.
fn found<N: Nic>(seed: u64, nics: [N; 2], framing: fn(u32) -> Framing) -> LinkedPair<Below<N>> {
    let mut rank = 0;
    let nics = nics.map(|nic| {
        let entries = Box::leak(Box::new([Entry::EMPTY; 2]));
        let setup = DiscoverySetup {
            job: JOB,
            rank,
            size: 2,
            epoch: EPOCHS[rank as usize],
            ..DiscoverySetup::DEFAULT
        };
        let (draw, framing) = (Draw(seed ^ u64::from(rank)), framing(rank));
        rank += 1;
        let nic = Thrown { nic, draw, header: framing.header_bytes(), genuine: VecDeque::new(), count: 0 };
        Discovery::new(nic, setup, entries).unwrap().framed(framing).unwrap()
    });
    let mut pair = LinkedPair::strangers(nics, framing);
    for rank in [0, 1] {
        let mut buffer = [0; CARD_BYTES_MAX];
        let card = pair.card(rank);
        let now = pair.clock.now();
        pair.ends[rank].transport_mut().nic_mut().announce(card.encode(&mut buffer).unwrap(), now).unwrap();
    }
    let mut found = [false; 2];
    while found.contains(&false) {
        pair.clock.turn();
        let now = pair.clock.now();
        for (end, found) in pair.ends.iter_mut().zip(&mut found) {
            end.poll(16);
            let discovery = end.transport_mut().nic_mut();
            *found = discovery.poll(now).expect("in time");
            while let Some(peer) = end.transport_mut().nic_mut().news() {
                let card = end.transport().nic().card(peer).map(Card::decode).unwrap().unwrap();
                end.connect(&card).unwrap();
            }
        }
    }
    pair
}

/// The counts of both ends.
#[derive(Default, Debug)]
struct EventCounts {
    thrown: u64,
    refused: [u64; 5],
    version: u64,
    discovery: u64,
}

/// A job on a wire with a stranger, and what was counted.
fn survived<N: Nic>(seed: u64, nics: [N; 2], framing: fn(u32) -> Framing, told: &mut EventCounts) {
    let mut pair = found(seed, nics, framing);
    pair.ping_pong(16);
    if seed == 0 {
        pair.rendezvous();
    }
    for end in &pair.ends {
        let counters: EthernetCounters = end.transport().counters();
        let EthernetCounters { foreign, truncated, checksum, stale, version, duplicates, .. } = counters;
        for (sum, count) in told.refused.iter_mut().zip([foreign, truncated, checksum, stale, duplicates]) {
            *sum += count;
        }
        told.version += version;
        let discovery = end.transport().nic();
        assert_eq!(discovery.counters().replaced, 0, "no card of a stranger's is believed");
        told.thrown += discovery.nic().count;
        let refused = discovery.counters().refused;
        told.discovery += refused.checksum + refused.job;
        assert_eq!(counters.opened, 1, "one connection for all of the job: {counters:?}");
    }
}

fn judge(told: &EventCounts) {
    assert!(told.thrown > 1_000, "{told:?}");
    let counted: u64 = told.refused.iter().sum::<u64>() + told.version + told.discovery;
    assert!(counted > told.thrown / 2, "{told:?}");
    assert!(told.refused.iter().all(|count| *count > 0) && told.discovery > 0, "{told:?}");
}

#[test]
fn a_job_on_a_serial_line_survives_what_a_stranger_throws() {
    let mut told = EventCounts::default();
    for seed in 0..3 {
        survived(seed, serial::devices(seed, Some(4_000)), |_| Framing::Ethernet, &mut told);
    }
    judge(&told);
}

#[test]
fn a_job_on_an_spi_bus_survives_what_a_stranger_throws() {
    let mut told = EventCounts::default();
    for seed in 0..6 {
        survived(seed, spi::devices(seed, Some(200)), |_| Framing::Ethernet, &mut told);
    }
    judge(&told);
}

#[test]
fn a_job_in_udp_survives_what_a_stranger_throws() {
    let mut told = EventCounts::default();
    for seed in 0..6 {
        survived(seed, spi::devices(seed, Some(200)), |rank| Framing::Udp(Udp::of_rank(rank)), &mut told);
    }
    judge(&told);
}
