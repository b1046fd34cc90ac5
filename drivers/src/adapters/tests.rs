//! Cards and devices turned into each other, on a hub in memory.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use aldis_hal::nic::{LinkState, Mac, Offload, RxFrame, TxFrame};
use aldis_hal::{Cause, Cost, Epoch, Nic, PeerId, Post, Sink, Token, Transport};
use aldis_kit::hub::{Faults, Hub, HubNic, mac};
use embassy_net_driver::{Driver, HardwareAddress};
use smoltcp::iface::{Interface, SocketSet, SocketStorage};
use smoltcp::phy::{Device, Loopback, Medium};
use smoltcp::socket::icmp;
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, Icmpv4Packet, Icmpv4Repr, IpAddress, IpCidr, Ipv4Address, UdpPacket, UdpRepr,
};

use super::{EmbassyDriver, ForeignDevice, ForeignNic, NicDevice, SmoltcpDevice};
use crate::ethernet::{Config, Ethernet, EthernetStorage};

#[cfg(feature = "arceos")]
mod arceos;

const MTU: usize = 400;
const STACK_MTU: usize = 1500;

fn room(bytes: usize) -> &'static mut [u8] {
    vec![0; bytes].leak()
}

/// A station of the hub as a device of others.
fn device(hub: &Hub, number: u8, mtu: usize) -> NicDevice<'static, HubNic> {
    NicDevice::new(hub.nic(number, mtu), room(mtu + 14), room(mtu + 14)).unwrap()
}

/// The messages that came.
#[derive(Default)]
struct ArrivedMessages(Vec<Vec<u8>>);

impl Sink for ArrivedMessages {
    fn arrived(&mut self, _from: PeerId, message: &[u8]) {
        self.0.push(message.to_vec());
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        panic!("{peer} is lost: {cause}");
    }
}

/// Rank `me` of two over a card.
fn transport<N: Nic>(nic: N, me: u32) -> Ethernet<'static, N> {
    let storage = Box::leak(Box::new(EthernetStorage::<1, 8, 256>::new()));
    let cost = Cost { overhead_ns: 1_000, latency_ns: 10_000, per_kib_ns: 1_000 };
    let config = Config::new(PeerId(me), Epoch(7 + me), 1, cost);
    let mut ethernet = Ethernet::new(nic, storage.memory(), config).unwrap();
    let other = 1 - me;
    ethernet.introduce(PeerId(other), Epoch(7 + other), &mac(other as u8 + 1).0).unwrap();
    ethernet
}

/// Each sends the other numbered messages, until all have come.
fn exchange<A: Nic, B: Nic>(hub: &Hub, one: A, two: B) {
    const MESSAGES: u32 = 100;
    let (mut one, mut two) = (transport(one, 0), transport(two, 1));
    let (mut first, mut second) = (ArrivedMessages::default(), ArrivedMessages::default());
    let (mut sent_one, mut sent_two) = (0_u32, 0_u32);
    for _ in 0..100_000 {
        let now = hub.now();
        one.poll(16, now, &mut first);
        two.poll(16, now, &mut second);
        if sent_one < MESSAGES && one.short(PeerId(1), b"one", &sent_one.to_le_bytes()) == Post::Done {
            sent_one += 1;
        }
        if sent_two < MESSAGES && two.short(PeerId(0), b"two", &sent_two.to_le_bytes()) == Post::Done {
            sent_two += 1;
        }
        if first.0.len() == MESSAGES as usize && second.0.len() == MESSAGES as usize {
            break;
        }
        hub.advance(5_000);
    }
    for (inbox, head) in [(&first, b"two"), (&second, b"one")] {
        let expected: Vec<Vec<u8>> = (0..MESSAGES).map(|n| [&head[..], &n.to_le_bytes()].concat()).collect();
        assert_eq!(inbox.0, expected);
    }
}

#[test]
fn ranks_exchange_messages_over_devices_of_smoltcp_and_drivers_of_embassy() {
    let hub = Hub::new(1);
    hub.set_faults(Faults { lose: 50, duplicate: 50, ..Faults::NONE });
    let smoltcp = SmoltcpDevice::new(device(&hub, 1, MTU), mac(1));
    let smoltcp = ForeignNic::new(smoltcp, room(MTU + 14), room(MTU + 14)).unwrap();
    let embassy = EmbassyDriver::new(device(&hub, 2, MTU));
    let embassy = ForeignNic::new(embassy, room(MTU + 14), room(MTU + 14)).unwrap();
    assert_eq!((smoltcp.mtu(), smoltcp.mac(), smoltcp.link()), (MTU, mac(1), LinkState::Up));
    assert_eq!((embassy.mtu(), embassy.mac(), embassy.link()), (MTU, mac(2), LinkState::Up));
    exchange(&hub, smoltcp, embassy);
}

/// A stack of smoltcp with this address on a device.
fn stack(device: &mut impl Device, number: u8) -> Interface {
    let config = smoltcp::iface::Config::new(EthernetAddress(mac(number).0).into());
    let mut stack = Interface::new(config, device, Instant::ZERO);
    let address = IpCidr::new(IpAddress::v4(10, 0, 0, number), 24);
    stack.update_ip_addrs(|all| all.push(address).unwrap());
    stack
}

#[test]
fn a_stack_of_smoltcp_answers_a_ping_over_a_card() {
    const IDENT: u16 = 0x22B;
    let hub = Hub::new(2);
    let mut device_a = device(&hub, 1, STACK_MTU);
    // The other one's card is itself made of a driver of embassy.
    let driver = EmbassyDriver::new(device(&hub, 2, STACK_MTU));
    let nic = ForeignNic::new(driver, room(STACK_MTU + 14), room(STACK_MTU + 14)).unwrap();
    let mut device_b = NicDevice::new(nic, room(STACK_MTU + 14), room(STACK_MTU + 14)).unwrap();
    let (mut a, mut b) = (stack(&mut device_a, 1), stack(&mut device_b, 2));
    let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 256]);
    let mut socket = icmp::Socket::new(buffer(), buffer());
    socket.bind(icmp::Endpoint::Ident(IDENT)).unwrap();
    let (mut sockets, mut none) = (SocketSet::new([SocketStorage::EMPTY]), SocketSet::new([]));
    let handle = sockets.add(socket);
    let ping = Icmpv4Repr::EchoRequest { ident: IDENT, seq_no: 9, data: b"are you there?" };
    let checksums = Device::capabilities(&device_a).checksum;
    let payload = sockets.get_mut::<icmp::Socket<'_>>(handle);
    let payload = payload.send(ping.buffer_len(), Ipv4Address::new(10, 0, 0, 2).into()).unwrap();
    ping.emit(&mut Icmpv4Packet::new_unchecked(payload), &checksums);
    for millis in 0..1_000 {
        let now = Instant::from_millis(millis);
        a.poll(now, &mut device_a, &mut sockets);
        b.poll(now, &mut device_b, &mut none);
        hub.advance(1_000_000);
        let socket = sockets.get_mut::<icmp::Socket<'_>>(handle);
        if socket.can_recv() {
            let (answer, from) = socket.recv().unwrap();
            let answer = Icmpv4Packet::new_checked(answer).unwrap();
            let answer = Icmpv4Repr::parse(&answer, &checksums).unwrap();
            let data: &[u8] = b"are you there?";
            assert_eq!(answer, Icmpv4Repr::EchoReply { ident: IDENT, seq_no: 9, data });
            assert_eq!(from, IpAddress::v4(10, 0, 0, 2));
            return;
        }
    }
    panic!("no answer");
}

/// A card of the hub that takes over all checksums.
struct ComputingNic(HubNic);

impl Nic for ComputingNic {
    type Rx<'a> = <HubNic as Nic>::Rx<'a>;
    type Tx<'a> = <HubNic as Nic>::Tx<'a>;

    fn receive(&mut self) -> Option<Self::Rx<'_>> {
        self.0.receive()
    }

    fn transmit(&mut self, len: usize) -> Option<Self::Tx<'_>> {
        self.0.transmit(len)
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

    fn offload(&self) -> Offload {
        Offload::all()
    }
}

#[test]
fn a_stack_leaves_no_checksum_of_udp_over_ipv6_to_a_card() {
    let nic = ComputingNic(Hub::new(4).nic(1, MTU));
    let device = NicDevice::new(nic, room(MTU + 14), room(MTU + 14)).unwrap();
    let of_smoltcp = Device::capabilities(&device).checksum;
    let of_embassy = Driver::capabilities(&device).checksum;
    assert!(!of_smoltcp.ipv4.tx() && !of_smoltcp.ipv4.rx() && !of_smoltcp.udp.rx());
    assert!(matches!(of_embassy.ipv4, embassy_net_driver::Checksum::None));
    assert!(matches!(of_embassy.udp, embassy_net_driver::Checksum::Tx));
    let [from, to] = [1, 2].map(|number| IpAddress::v6(0xFE80, 0, 0, 0, 0, 0, 0, number));
    let (datagram, body) = (UdpRepr { src_port: 1, dst_port: 2 }, b"body");
    let mut bytes = [0; 12];
    let mut packet = UdpPacket::new_unchecked(&mut bytes[..]);
    let fill = |place: &mut [u8]| place.copy_from_slice(body);
    datagram.emit(&mut packet, &from, &to, body.len(), fill, &of_smoltcp);
    assert_ne!(packet.checksum(), 0);
    assert!(packet.verify_checksum(&from, &to));
}

#[test]
fn frames_of_devices_are_bounded_by_what_both_sides_hold() {
    let hub = Hub::new(3);
    let mut there = hub.nic(2, 1000);
    let mut nic = ForeignNic::new(EmbassyDriver::new(device(&hub, 1, 1000)), room(114), room(514)).unwrap();
    assert_eq!(nic.mtu(), 100);
    assert!(nic.transmit(115).is_none());
    let mut send = |bytes: usize| {
        let mut frame = there.transmit(bytes).unwrap();
        frame.bytes().fill(7);
        frame.bytes()[..6].copy_from_slice(&mac(1).0);
        frame.send();
        hub.advance(1_000_000);
    };
    send(115);
    assert!(nic.receive().is_none_or(|frame| frame.bytes().is_empty()), "it is longer than the room");
    send(114);
    assert_eq!(nic.receive().unwrap().bytes().len(), 114);
    assert!(nic.receive().is_none());
    let error = NicDevice::new(hub.nic(3, 100), room(114), room(113)).map(drop);
    assert_eq!(error, Err(Cause::TooBig { len: 114, max: 113 }));
    let error = ForeignNic::new(EmbassyDriver::new(device(&hub, 4, 100)), room(14), room(114)).map(drop);
    assert_eq!(error, Err(Cause::TooBig { len: 15, max: 14 }));
    let ip = SmoltcpDevice::new(Loopback::new(Medium::Ethernet), mac(5));
    assert_eq!(ip.frame_bytes(), Some(65535));
    assert_eq!(Driver::hardware_address(nic.device().driver()), HardwareAddress::Ethernet(mac(1).0));
}
