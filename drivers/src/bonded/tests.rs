//! Ranks with two cards, each on a hub of its own, whose cables are cut.

use std::boxed::Box;
use std::vec::Vec;

use aldis_hal::transport::{Sink, Transport};
use aldis_hal::{Cause, Cost, Epoch, Instant, PeerId, Post, Token};
use aldis_kit::hub::{Hub, HubNic, mac};
use proptest::prelude::*;

use super::*;
use crate::ethernet::{Config, Ethernet, EthernetStorage, Framing};

const BYTES: usize = 256;
const MTU: usize = BYTES + Framing::Ethernet.mtu_overhead_bytes();
const FRAME: usize = MTU + MAC_HEADER_BYTES;

type BondedPair = BondedNic<HubNic, HubNic, [u8; FRAME]>;

/// A card for each rank on either of two hubs, with one address.
fn cards(hubs: &[Hub; 2], rank: u8) -> BondedPair {
    let [first, second] = [0, 1].map(|hub: usize| hubs[hub].nic(rank + 1, MTU));
    BondedNic::new(first, second, [0; FRAME])
}

fn hubs() -> [Hub; 2] {
    [Hub::new(1), Hub::new(2)]
}

/// A frame from one rank to another.
fn frame(from: u8, to: u8, number: u8) -> Vec<u8> {
    let mut bytes = [mac(to + 1).0, mac(from + 1).0].concat();
    bytes.resize(60, number);
    bytes
}

fn send(nic: &mut BondedPair, bytes: &[u8]) {
    let mut token = nic.transmit(bytes.len()).unwrap();
    token.bytes().copy_from_slice(bytes);
    token.send();
}

/// Takes in what waits at a rank; counts it by card.
fn received(hubs: &[Hub; 2], nic: &mut BondedPair) -> [u32; 2] {
    hubs.iter().for_each(|hub| hub.advance(1_000_000));
    let mut counts = [0; 2];
    while let Some(frame) = nic.receive() {
        counts[usize::from(matches!(frame, BondedRx::Second(_)))] += 1;
    }
    counts
}

#[test]
fn frames_to_a_peer_that_answers_take_turns() {
    let hubs = hubs();
    let [mut one, mut two] = [0, 1].map(|rank| cards(&hubs, rank));
    let mut counts = [0; 2];
    for number in 0..100 {
        send(&mut one, &frame(0, 1, number));
        send(&mut two, &frame(1, 0, number));
        let [first, second] = received(&hubs, &mut two);
        counts = [counts[0] + first, counts[1] + second];
        received(&hubs, &mut one);
    }
    assert_eq!(counts, [50, 50]);
}

#[test]
fn a_card_by_which_a_peer_is_silent_is_left_alone_and_tried_again() {
    let hubs = hubs();
    let [mut one, mut two] = [0, 1].map(|rank| cards(&hubs, rank));
    let mut exchange = |rounds: u32| {
        let mut counts = [0; 2];
        for _ in 0..rounds {
            send(&mut one, &frame(0, 1, 0));
            send(&mut two, &frame(1, 0, 0));
            let [first, second] = received(&hubs, &mut two);
            counts = [counts[0] + first, counts[1] + second];
            received(&hubs, &mut one);
        }
        counts
    };
    exchange(10);
    // A cable that is cut behind a switch: both links stay up.
    [1, 2].into_iter().for_each(|number| hubs[1].mute(number, true));
    let [by_first, by_second] = exchange(200);
    assert!(by_first >= 200 - 2 * u32::from(PATIENCE) - 200 / u32::from(PROBE_EVERY) - 1, "{by_first}");
    assert_eq!(by_second, 0);
    [1, 2].into_iter().for_each(|number| hubs[1].mute(number, false));
    exchange(u32::from(PROBE_EVERY) * u32::from(TRIAL + 1));
    assert_eq!(exchange(100), [50, 50]);
}

#[test]
fn a_frame_takes_the_other_card_where_one_has_no_room() {
    let hubs = hubs();
    let mut one = cards(&hubs, 0);
    let mut two = cards(&hubs, 1);
    let mut sent = 0;
    // Until neither has a descriptor.
    while let Some(mut token) = one.transmit(60) {
        token.bytes().copy_from_slice(&frame(0, 1, sent));
        token.send();
        sent += 1;
    }
    let [first, second] = received(&hubs, &mut two);
    assert_eq!((first + second, first), (sent.into(), second));
    assert!(one.transmit(FRAME + 1).is_none(), "longer than a frame can be");
    assert!(one.transmit(FRAME).is_some());
}

#[test]
fn a_token_that_is_dropped_sends_nothing() {
    let hubs = hubs();
    let [mut one, mut two] = [0, 1].map(|rank| cards(&hubs, rank));
    assert!(one.transmit(60).is_some());
    assert_eq!(received(&hubs, &mut two), [0, 0]);
}

#[derive(Default)]
struct Arrivals(Vec<u32>);

impl Sink for Arrivals {
    fn arrived(&mut self, _from: PeerId, message: &[u8]) {
        self.0.push(u32::from_le_bytes(message.try_into().unwrap()));
    }
    fn completed(&mut self, _token: Token, _result: Result<(), Cause>) {}
    fn ready(&mut self, _peer: PeerId) {}
    fn lost(&mut self, peer: PeerId, cause: Cause) {
        panic!("{peer} is lost: {cause}");
    }
}

fn rank(hubs: &[Hub; 2], number: u8) -> Ethernet<'static, BondedPair> {
    let storage = Box::leak(Box::new(EthernetStorage::<1, 8, BYTES>::new()));
    let me = u32::from(number);
    let config = Config::new(PeerId(me), Epoch(100 + me), 7, Cost::default());
    let mut ethernet = Ethernet::new(cards(hubs, number), storage.memory(), config).unwrap();
    let peer = 1 - me;
    ethernet.introduce(PeerId(peer), Epoch(100 + peer), &mac(peer as u8 + 1).0).unwrap();
    ethernet
}

/// Sends numbers both ways until all have arrived, and pulls or plugs a cable before each that
/// `cuts` has a turn for.
fn talk(count: u32, cuts: &[(u32, usize, u8, bool)]) -> Instant {
    let hubs = hubs();
    let mut ranks = [0, 1].map(|number| rank(&hubs, number));
    let mut arrived = [Arrivals::default(), Arrivals::default()];
    let mut sent = [0_u32; 2];
    for turn in 0..2_000_000_u32 {
        for (_, hub, station, mute) in cuts.iter().filter(|(at, ..)| *at == turn) {
            hubs[*hub].mute(*station, *mute);
        }
        for (me, ethernet) in ranks.iter_mut().enumerate() {
            let peer = PeerId(1 - me as u32);
            if sent[me] < count && ethernet.short(peer, &sent[me].to_le_bytes(), &[]) == Post::Done {
                sent[me] += 1;
            }
            ethernet.poll(16, hubs[0].now(), &mut arrived[me]);
        }
        if arrived.iter().all(|log| log.0.len() == count as usize) {
            let expected: Vec<u32> = (0..count).collect();
            assert!(arrived.iter().all(|log| log.0 == expected), "in order, each once");
            return hubs[0].now();
        }
        // Whatever is next; idle times are skipped.
        let next = hubs.iter().filter_map(Hub::next_arrival).chain(ranks.iter().map(Ethernet::poll_at)).min();
        let is_full = sent.iter().any(|sent| *sent < count);
        for hub in &hubs {
            hub.advance(200);
            if !is_full {
                hub.advance_to(next.unwrap_or_default());
            }
        }
    }
    panic!("never: {sent:?} sent, {:?} arrived", arrived.map(|log| log.0.len()));
}

#[test]
fn a_cable_that_is_pulled_loses_nothing_and_costs_little() {
    let whole = talk(2_000, &[]);
    let cut = talk(2_000, &[(300, 1, 1, true), (300, 1, 2, true)]);
    let one_end = talk(2_000, &[(300, 0, 2, true)]);
    for late in [cut, one_end] {
        assert!(late.0 < 40 * whole.0, "{whole:?} and {late:?}");
    }
}

/// A cable is cut and mended while ranks talk, and the other is cut before the first is trusted.
#[test]
fn the_card_that_was_left_alone_is_taken_when_the_other_fails() {
    let cut = |at, hub, mute| [1, 2].map(|station| (at, hub, station, mute));
    talk(1_000, &[cut(300, 0, true), cut(900, 0, false), cut(901, 1, true)].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is pulled and plugged in, and whenever: one card is always left.
    #[test]
    fn no_message_is_lost_while_one_card_is_left(
        cuts in prop::collection::vec((0_u32..4_000, 0_usize..2, 1_u8..3), 0..6),
    ) {
        let mut plan = Vec::new();
        let mut last = 0;
        let mut sorted = cuts;
        sorted.sort_unstable();
        for (at, hub, station) in sorted {
            // One cable at a time.
            let at = at.max(last);
            plan.push((at, hub, station, true));
            plan.push((at + 500, hub, station, false));
            last = at + 501;
        }
        talk(500, &plan);
    }
}
