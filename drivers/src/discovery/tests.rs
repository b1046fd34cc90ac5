//! Ranks on a hub in memory, with and without the transport above.

use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::nic::{RxFrame, TxFrame};
use aldis_hal::{Cause, Cost, Epoch, Instant, Nic, PeerId, Post, Sink, Token, Transport};
use aldis_kit::hub::{Faults, Hub, HubNic, mac};

use super::{Discovery, DiscoverySetup, Entry};
use crate::ethernet::{Config, Ethernet, EthernetStorage, Framing, Udp};

const JOB: u64 = 7;
const MTU: usize = 400;

type Node = Discovery<'static, HubNic>;

fn node(hub: &Hub, rank: u32, size: u32, epoch: u32) -> Node {
    framed(hub, setup(rank, size, epoch), Framing::Ethernet)
}

fn setup(rank: u32, size: u32, epoch: u32) -> DiscoverySetup {
    DiscoverySetup { job: JOB, rank, size, epoch: Epoch(epoch), ..DiscoverySetup::DEFAULT }
}

fn framed(hub: &Hub, setup: DiscoverySetup, framing: Framing) -> Node {
    let (rank, Epoch(epoch)) = (setup.rank, setup.epoch);
    let entries = Box::leak(Box::new([Entry::EMPTY; 16]));
    let nic = hub.nic(rank as u8 + 1, MTU);
    let mut node = Discovery::new(nic, setup, entries).unwrap().framed(framing).unwrap();
    node.announce(&[rank as u8, epoch as u8], hub.now()).unwrap();
    node
}

/// Polls all until `done`; time passes as it must.
fn until(hub: &Hub, nodes: &mut [Node], mut done: impl FnMut(&mut [Node]) -> bool) {
    for _ in 0..100_000 {
        let now = hub.now();
        for node in nodes.iter_mut() {
            // Who has all cards leaves the device to the transport, which looks at it like this.
            if let Ok(true) = node.poll(now) {
                (0..8).for_each(|_| drop(node.receive()));
            }
        }
        if done(nodes) {
            return;
        }
        let next = nodes.iter().map(Discovery::poll_at).chain(hub.next_arrival()).min().unwrap();
        hub.advance(200);
        hub.advance_to(next);
    }
    panic!("never");
}

fn complete(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| node.missing().next().is_none())
}

#[test]
fn ranks_find_each_other_whatever_the_wire_does() {
    for seed in 0..20 {
        let hub = Hub::new(seed);
        hub.set_faults(Faults::all(80, 3_000_000));
        let framing = |rank| if seed % 2 == 0 { Framing::Ethernet } else { Framing::Udp(Udp::of_rank(rank)) };
        let mut nodes: Vec<Node> =
            (0..6).map(|rank| framed(&hub, setup(rank, 6, 100 + rank), framing(rank))).collect();
        until(&hub, &mut nodes, |nodes| complete(nodes));
        for node in &mut nodes {
            for rank in 0..6 {
                assert_eq!(node.card(PeerId(rank)), Some(&[rank as u8, 100 + rank as u8][..]));
            }
            assert_eq!(core::iter::from_fn(|| node.news()).count(), 5);
        }
    }
}

#[test]
fn the_report_names_who_is_missing() {
    let hub = Hub::new(1);
    let mut nodes = [node(&hub, 0, 3, 100), node(&hub, 2, 3, 102)];
    let mut report = None;
    until(&hub, &mut nodes, |nodes| {
        report = nodes[0].poll(hub.now()).err();
        report.is_some()
    });
    let report = report.unwrap();
    assert_eq!((&report.named[..], report.missing, report.size), (&[1][..], 1, 3));
    assert!(nodes[0].poll(hub.now()).is_err(), "until something is done about it");
}

#[test]
fn other_frames_are_dropped_during_the_search_and_passed_on_after_it() {
    let hub = Hub::new(1);
    let mut nodes = [node(&hub, 0, 2, 100)];
    let foreign = |bytes: &[u8]| [&mac(1).0[..], &mac(9).0, bytes].concat();
    let cases = [&[0x88, 0xB5, 0xA1, 1, 5][..], &[8, 0, 0xA2, 1], &[0x88, 0xB5, 0xA2, 2], &[0x88]];
    for case in cases {
        hub.inject(1, &foreign(case));
    }
    nodes[0].poll(hub.now()).unwrap();
    assert_eq!((nodes[0].passed_over(), nodes[0].counters().received), (4, 0));
    let [zero] = nodes;
    let mut nodes = [zero, node(&hub, 1, 2, 101)];
    until(&hub, &mut nodes, |nodes| complete(nodes));
    for case in cases {
        hub.inject(1, &foreign(case));
    }
    nodes[0].poll(hub.now()).unwrap();
    let passed: Vec<Vec<u8>> =
        core::iter::from_fn(|| nodes[0].receive().map(|frame| frame.bytes().to_vec())).collect();
    assert_eq!(passed, cases.map(foreign));
    nodes[0].transmit(60).unwrap().send();
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    let hub = Hub::new(1);
    let setup = DiscoverySetup { rank: 0, size: 1, epoch: Epoch(1), ..DiscoverySetup::DEFAULT };
    let refused = Discovery::new(hub.nic(1, 177), setup, &mut [Entry::EMPTY]).unwrap_err();
    assert_eq!(refused, Cause::TooBig { len: 178, max: 177 });
    let entries = &mut [Entry::EMPTY];
    let udp = Discovery::new(hub.nic(1, 209), setup, entries).unwrap().framed(Framing::Udp(Udp::of_rank(0)));
    assert_eq!(udp.unwrap_err(), Cause::TooBig { len: 210, max: 209 });
}

#[derive(Default)]
struct DiscoveryLog(Vec<Vec<u8>>);

impl Sink for DiscoveryLog {
    fn arrived(&mut self, _from: PeerId, message: &[u8]) {
        self.0.push(message.to_vec());
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, _peer: PeerId, _cause: Cause) {}
}

type Stack = Ethernet<'static, Node>;

fn stack(hub: &Hub, rank: u32, epoch: u32) -> Stack {
    let storage = Box::leak(Box::new(EthernetStorage::<1, 8, 256>::new()));
    let config = Config::new(PeerId(rank), Epoch(epoch), JOB, Cost::default());
    Ethernet::new(node(hub, rank, 2, epoch), storage.memory(), config).unwrap()
}

/// Introduces whom discovery has found.
fn meet(stack: &mut Stack) {
    while let Some(peer) = stack.nic_mut().news() {
        let card = stack.nic().card(peer).unwrap();
        let (station, epoch) = (mac(card[0] + 1), Epoch(u32::from(card[1])));
        stack.introduce(peer, epoch, &station.0).unwrap();
    }
}

/// Does what a program does between its calls.
fn step(hub: &Hub, stacks: &mut [Stack; 2]) -> [DiscoveryLog; 2] {
    hub.advance(50_000);
    stacks.each_mut().map(|stack| {
        let mut log = DiscoveryLog::default();
        drop(stack.nic_mut().poll(hub.now()));
        meet(stack);
        stack.poll(16, hub.now(), &mut log);
        log
    })
}

/// Rank 0 sends `message` until rank 1 has it.
fn carry(hub: &Hub, stacks: &mut [Stack; 2], message: &[u8]) {
    let mut posted = false;
    for _ in 0..10_000 {
        posted = posted || stacks[0].short(PeerId(1), message, b"") == Post::Done;
        let [_, log] = step(hub, stacks);
        if log.0.iter().any(|arrived| arrived == message) {
            return;
        }
    }
    panic!("{message:?} never arrives");
}

#[test]
fn a_transport_connects_by_what_was_found_and_late_ranks_are_answered_from_its_polls() {
    let hub = Hub::new(1);
    let zero = stack(&hub, 0, 100);
    hub.advance(1_000_000_000);
    let mut stacks = [zero, stack(&hub, 1, 101)];
    carry(&hub, &mut stacks, b"first");
    hub.unplug(2);
    stacks[1] = stack(&hub, 1, 201);
    while stacks[0].nic().counters().replaced == 0 {
        step(&hub, &mut stacks);
        assert!(hub.now() < Instant(3_000_000_000));
    }
    step(&hub, &mut stacks);
    carry(&hub, &mut stacks, b"to a new life");
    assert_eq!(stacks[0].nic().counters().replaced, 1);
    assert_eq!(stacks[0].counters().foreign, 0, "the transport sees nothing of it");
}

#[test]
fn the_search_has_a_time_of_its_own() {
    let hub = Hub::new(1);
    let mut nodes = [node(&hub, 0, 2, 100)];
    assert_eq!(nodes[0].poll_at(), Instant(10_000_000));
    until(&hub, &mut nodes, |nodes| nodes[0].counters().hellos == 3);
    assert!(hub.now() >= Instant(30_000_000) && hub.now() < Instant(31_000_000));
}
