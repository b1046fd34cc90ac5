//! Linux's own stack, UDP and IP, at the other end of a cable.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use std::net::UdpSocket;
use std::time::Instant;

use aldis_drivers::ethernet::{Config, Ethernet, EthernetStorage, Framing, Udp};
use aldis_hal::nic::{Offload, RxFrame};
use aldis_hal::{Cause, Cost, Epoch, PeerId, Post, Sink, Token, Transport};
use aldis_kit::network::{CABLE, is_inside};

use super::{ETHERTYPE_IPV4, ONE, TWO};
use crate::interface::*;

/// The addresses of the rank at the card and of the system at the other end.
const RANK: Ipv4Addr = Ipv4Addr::new(10, 161, 0, 1);
const SYSTEM: Ipv4Addr = Ipv4Addr::new(10, 161, 0, 2);
const PORT: u16 = 53665;
/// Bytes of the headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;

/// A cable whose second end is the system's, which knows where the rank is.
fn layout() -> String {
    let mac = "02:a1:00:00:00:01";
    format!("{CABLE}; ip addr add {SYSTEM}/8 dev v1; ip neigh add {RANK} lladdr {mac} dev v1 nud permanent")
}

/// The sum of 16-bit words by which UDP's checksum is judged: all ones if it is right.
fn udp_sum(frame: &[u8]) -> u16 {
    let datagram = &frame[34..];
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    let sum = words(&frame[26..34]) + words(datagram) + 17 + datagram.len() as u32;
    let folded = (sum >> 16) + (sum & 0xFFFF);
    ((folded >> 16) + folded) as u16
}

#[test]
fn datagrams_of_the_systems_own_stack_come_though_their_checksum_is_not_computed() {
    let test = "interface::tests::stack::datagrams_of_the_systems_own_stack_come_though_their_checksum_is_not_computed";
    if !is_inside(&layout(), test) {
        return;
    }
    let mut nic = InterfaceNic::open(&"packet:v0,udp".parse().unwrap(), ONE, Some(ETHERTYPE_IPV4)).unwrap();
    let system = UdpSocket::bind(SocketAddrV4::new(SYSTEM, PORT)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut next = |count: usize| loop {
        system.send_to(&vec![7; count], SocketAddrV4::new(RANK, PORT)).unwrap();
        if let Some(frame) = nic.receive() {
            let is_ours = frame.bytes().get(36..38) == Some(&PORT.to_be_bytes());
            if is_ours && frame.bytes().len() == HEADERS + count {
                return (frame.bytes().to_vec(), frame.checked());
            }
        }
        assert!(Instant::now() < deadline, "nothing comes");
        std::thread::sleep(Duration::from_millis(5));
    };
    let (frame, checked) = next(101);
    assert!(udp_sum(&frame) != 0xFFFF, "the device of a veth leaves the checksum out");
    assert_eq!((checked, &frame[HEADERS..]), (Offload::UDP_RX, &[7; 101][..]));
    // What comes with a checksum is for the layer above to check.
    let mut other = InterfaceNic::open(&"packet:v1".parse().unwrap(), TWO, Some(ETHERTYPE_IPV4)).unwrap();
    let mut token = other.transmit(frame.len()).unwrap();
    token.bytes().copy_from_slice(&frame);
    token.send();
    let checked = loop {
        match nic.receive() {
            Some(came) if came.bytes() == frame && came.checked().is_empty() => break true,
            Some(_) => {}
            None if Instant::now() > deadline => break false,
            None => std::thread::yield_now(),
        }
    };
    assert!(checked, "none without what the system says of those of its own");
}

/// A socket of the system's own UDP as a card, of which no other sees the headers.
struct SystemNic {
    socket: UdpSocket,
    mac: Mac,
    received: Vec<u8>,
    transmit: Vec<u8>,
}

struct SystemTx<'a>(&'a mut SystemNic);

impl TxFrame for SystemTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0.transmit
    }

    fn send(self) {
        let frame = &self.0.transmit;
        let &to = frame[30..].first_chunk::<4>().unwrap();
        self.0.socket.send_to(&frame[HEADERS..], SocketAddrV4::new(to.into(), PORT)).unwrap();
    }
}

impl Nic for SystemNic {
    type Rx<'a> = &'a [u8];
    type Tx<'a> = SystemTx<'a>;

    fn receive(&mut self) -> Option<&[u8]> {
        let mut room = [0; 2048];
        let (count, SocketAddr::V4(from)) = self.socket.recv_from(&mut room).ok()? else { return None };
        let [ip, udp] = [28, 8].map(|headers| (headers + count as u16).to_be_bytes());
        let port = PORT.to_be_bytes();
        self.received = [
            &self.mac.0[..],
            &ONE.0,
            &[8, 0, 0x45, 0],
            &ip,
            &[0, 0, 0x40, 0, 64, 17, 0, 0],
            &from.ip().octets(),
            &SYSTEM.octets(),
            &from.port().to_be_bytes(),
            &port,
            &udp,
            &[0, 0],
            &room[..count],
        ]
        .concat();
        Some(&self.received)
    }

    fn transmit(&mut self, len: usize) -> Option<SystemTx<'_>> {
        self.transmit = vec![0; len];
        Some(SystemTx(self))
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }

    fn offload(&self) -> Offload {
        Offload::all()
    }
}

/// The messages that have come.
#[derive(Default)]
struct CameLog(Vec<Vec<u8>>);

impl Sink for CameLog {
    fn arrived(&mut self, _: PeerId, message: &[u8]) {
        self.0.push(message.to_vec());
    }
    fn completed(&mut self, _: Token, _: Result<(), Cause>) {}
    fn ready(&mut self, _: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        panic!("{peer} is lost: {cause}");
    }
}

#[test]
fn a_rank_behind_the_systems_own_stack_exchanges_messages_with_one_at_a_card() {
    let test =
        "interface::tests::stack::a_rank_behind_the_systems_own_stack_exchanges_messages_with_one_at_a_card";
    if !is_inside(&layout(), test) {
        return;
    }
    let nic = InterfaceNic::open(&"packet:v0,udp".parse().unwrap(), ONE, Some(ETHERTYPE_IPV4)).unwrap();
    let socket = UdpSocket::bind(SocketAddrV4::new(SYSTEM, PORT)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mac = Mac(aldis_sys::interface::interface("v1").unwrap().mac);
    let system = SystemNic { socket, mac, received: Vec::new(), transmit: Vec::new() };
    let config = |rank| Config {
        framing: Framing::Udp(Udp::of_rank(rank)),
        ..Config::new(PeerId(rank), Epoch(1), 7, Cost::default())
    };
    let mut storages = [(); 2].map(|()| Box::new(EthernetStorage::<1, 8, 1024>::new()));
    let [first, second] = storages.each_mut().map(|storage| storage.memory());
    let mut card = Ethernet::new(nic, first, config(0)).unwrap();
    let mut stack = Ethernet::new(system, second, config(1)).unwrap();
    card.introduce(PeerId(1), Epoch(1), &stack.address()).unwrap();
    stack.introduce(PeerId(0), Epoch(1), &card.address()).unwrap();
    let (mut at_card, mut at_stack) = (CameLog::default(), CameLog::default());
    let (start, mut sent) = (Instant::now(), [0_u8; 2]);
    while at_card.0.len() < 100 || at_stack.0.len() < 100 {
        let now = aldis_hal::Instant(1 + start.elapsed().as_nanos() as u64);
        for (at, rank) in [1, 0].into_iter().enumerate() {
            if sent[at] == 100 {
                continue;
            }
            let text = [sent[at]; 1000];
            let post = match rank {
                1 => card.short(PeerId(1), b"head", &text),
                _ => stack.short(PeerId(0), b"head", &text),
            };
            sent[at] += u8::from(post == Post::Done);
        }
        card.poll(16, now, &mut at_card);
        stack.poll(16, now, &mut at_stack);
        assert!(start.elapsed() < Duration::from_secs(20), "{} {}", card.counters(), stack.counters());
    }
    for log in [at_card, at_stack] {
        let is_whole = |(number, came): (u8, &Vec<u8>)| came[..4] == *b"head" && came[4..] == [number; 1000];
        assert!((0..100).zip(&log.0).all(is_whole));
    }
    assert_eq!(card.counters().checksum, 0, "{}", card.counters());
}
