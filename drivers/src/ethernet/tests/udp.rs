//! Ranks that speak UDP, and the traffic of an IP network around them.

use std::vec;

use super::super::EthernetCounters;
use super::super::udp::UDP_HEADER_BYTES;
use super::*;

fn udp(rank: u32) -> Framing {
    Framing::Udp(Udp::of_rank(rank))
}

/// Two ranks with a connection, and a frame that rank 0 has sent to rank 1.
fn pair() -> (Net, Vec<u8>) {
    let mut net = Net::framed(2, 1, udp);
    net.send(0, 1, b"first");
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"first".to_vec())]);
    assert_eq!(net.nodes[0].short(1, b"genuine"), Post::Done);
    let bytes = net.hub.waiting(station(1)).pop().unwrap();
    net.settle();
    assert_eq!(net.nodes[1].take().arrived, [(0, b"genuine".to_vec())]);
    (net, bytes)
}

#[test]
fn a_card_and_a_frame_say_where_a_rank_is() {
    let (net, bytes) = pair();
    assert_eq!(net.nodes[1].ethernet.address()[..], [2, 0, 0, 0, 0, 2, 10, 161, 0, 2]);
    assert_eq!(bytes[12..16], [8, 0, 0x45, 0]);
    assert_eq!((&bytes[26..30], &bytes[30..34]), (&[10, 161, 0, 1][..], &[10, 161, 0, 2][..]));
    assert_eq!(bytes[34..38], [0xD1, 0xA1, 0xD1, 0xA1]);
    assert_eq!(bytes.windows(7).position(|window| window == b"genuine"), Some(UDP_HEADER_BYTES + 32));
}

#[test]
fn the_traffic_of_others_is_foreign_and_a_forged_address_is_not_believed() {
    let (mut net, bytes) = pair();
    let mut counted = |at: usize, value: u8, counter: fn(&EthernetCounters) -> u64| {
        let before = counter(&net.nodes[1].ethernet.counters());
        let mut frame = bytes.clone();
        frame[at] = value;
        // No checksum of UDP, and a right one of IPv4: the sum changes as the byte does.
        frame[40..42].fill(0);
        frame[24..26].fill(0);
        let words = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        net.hub.inject(station(1), &frame);
        net.poll(1, 1);
        assert_eq!(net.nodes[1].take().events(), 0);
        counter(&net.nodes[1].ethernet.counters()) - before
    };
    assert_eq!(counted(13, 6, |c| c.foreign), 1, "ARP");
    assert_eq!(counted(23, 6, |c| c.foreign), 1, "TCP");
    assert_eq!(counted(20, 0x20, |c| c.foreign), 1, "a fragment");
    assert_eq!(counted(37, 53, |c| c.foreign), 1, "another port");
    assert_eq!(counted(42, b'a', |c| c.foreign), 1, "another program on this port");
    assert_eq!(counted(33, 3, |c| c.foreign), 1, "for another address");
    assert_eq!(counted(47, 2, |c| c.version), 1);
    assert_eq!(counted(29, 9, |c| c.impostor), 1, "from another address");
    assert_eq!(counted(17, 33, |c| c.truncated), 1);
    assert_eq!(counted(60, 9, |c| c.checksum), 1, "the frame has a checksum of its own");
    assert_eq!(counted(47, 1, |c| c.duplicates), 1, "and this is the frame itself");
}

#[test]
fn ranks_of_different_framings_do_not_hear_each_other() {
    let mut net = Net::framed(2, 1, |rank| if rank == 0 { Framing::Ethernet } else { udp(rank) });
    assert!(matches!(net.nodes[0].short(1, b"hello"), Post::Again(_)));
    net.until("the first frames", |net| net.nodes[1].ethernet.counters().foreign > 2);
    let other = net.nodes[1].ethernet.address();
    let refused = net.nodes[0].ethernet.introduce(PeerId(1), Epoch(1), &other);
    assert_eq!(refused, Err(Cause::Unreachable), "an address of the other form");
}

#[test]
fn the_headers_take_their_part_of_the_mtu() {
    let hub = Hub::new(1);
    let mut storage = EthernetStorage::<1, 8, 1432>::new();
    let config = Config { framing: udp(0), ..config(0, 1) };
    assert!(Ethernet::new(hub.nic(1, 1500), storage.memory(), config).is_ok());
    let mut storage = EthernetStorage::<1, 8, 1440>::new();
    let refused = Ethernet::new(hub.nic(1, 1500), storage.memory(), config).err();
    assert_eq!(refused, Some(Cause::TooBig { len: 1506, max: 1500 }));
}

#[test]
fn the_longest_and_the_shortest_message_arrive() {
    let mut net = Net::framed(2, 1, udp);
    for len in [1, 2, BYTES - 1, BYTES] {
        net.send(0, 1, &vec![len as u8; len]);
        net.settle();
        assert_eq!(net.nodes[1].take().arrived, [(0, vec![len as u8; len])]);
    }
}
