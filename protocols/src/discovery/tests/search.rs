//! Ranks that find each other, and reports of those that do not.

use std::string::ToString;

use aldis_hal::{Cause, Resource};
use proptest::prelude::*;

use super::wire::{Net, WireFaults};
use super::*;
use crate::card::CARD_BYTES_MAX;

const MS: u64 = 1_000_000;

#[test]
fn ranks_that_start_together_need_one_hello_each() {
    let mut net = Net::new(5, 1, WireFaults::NONE);
    (0..5).for_each(|rank| net.start(rank, 100 + rank));
    while !net.agrees(|rank| 100 + rank) {
        assert!(net.step());
    }
    assert!(net.now < 2_000, "two latencies");
    for rank in 0..5 {
        assert_eq!(net.node(rank).counters().hellos, 1);
        let heard: Vec<u32> = core::iter::from_fn(|| net.node(rank).news()).map(|peer| peer.0).collect();
        assert_eq!(heard, (0..5).filter(|peer| *peer != rank).collect::<Vec<_>>());
    }
}

#[test]
fn who_is_late_is_answered_by_those_who_have_found_all() {
    let mut net = Net::new(3, 1, WireFaults::NONE);
    net.start(0, 100);
    net.start(1, 101);
    net.now = 5_000 * MS;
    net.start(2, 102);
    net.settle();
    assert!(net.agrees(|rank| 100 + rank));
    assert_eq!(net.node(2).counters().hellos, 1, "its first hello tells and asks");
    assert!(net.node(0).counters().answers >= 1);
}

#[test]
fn hellos_keep_the_schedule_and_the_report_names_who_is_missing() {
    let mut roster = roster(setup(3, 20, 7));
    assert!(sent(&mut roster).is_empty(), "nothing is sent before there is a card");
    roster.announce(b"card", Instant(5)).unwrap();
    let mut times = Vec::new();
    let mut now = Instant(5);
    loop {
        times.extend(sent(&mut roster).into_iter().map(|(to, _)| {
            assert_eq!(to, Mac([0xFF; 6]));
            (now.0 - 5) / MS
        }));
        let Some(next) = roster.poll_timeout() else { break };
        assert!(next > now);
        now = next;
        roster.handle_timeout(now);
    }
    assert_eq!(times[..10], [0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270]);
    assert_eq!((times.len(), *times.last().unwrap()), (26, 19_270), "as the module says");
    assert_eq!(now, Instant(5 + 20_000 * MS));
    roster.handle(station(1), &super::message(MUTE, 1, 9, 1));
    let report = roster.overdue().unwrap();
    assert_eq!(
        report.to_string(),
        "ranks 0, 1, 2, 4, 5, 6, 7, 8 and 11 more of 20 did not answer within 20000 ms; refused: 1 of a job of another size"
    );
    roster.announce(b"card", now).unwrap();
    assert!(roster.overdue().is_none() && sent(&mut roster).len() == 1, "it can search again");
}

#[test]
fn one_missing_rank_is_told_in_the_singular_and_may_come_late() {
    let mut net = Net::new(3, 1, WireFaults::NONE);
    net.start(0, 100);
    net.start(1, 101);
    net.settle();
    let report = net.node(0).overdue().unwrap();
    assert_eq!(report.to_string(), "rank 2 of 3 did not answer within 20000 ms; refused: nothing");
    net.start(2, 102);
    net.settle();
    assert!(net.agrees(|rank| 100 + rank), "a report is no end");
    assert!(net.node(0).overdue().is_none());
}

#[test]
fn every_rank_is_asked_in_turn() {
    let size = 150;
    let mut net = Net::new(size, 1, WireFaults::NONE);
    net.start(149, 249);
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let at = net.node(149).poll_timeout().unwrap();
        net.node(149).handle_timeout(at);
        for (_, bytes) in sent(net.node(149)) {
            let DiscoveryKind::Hello(who) = Message::decode(&bytes).unwrap().kind else {
                panic!("an answer")
            };
            asked.extend((0..size).filter(|rank| who.includes(*rank)));
        }
    }
    assert_eq!(asked.len(), 149, "all but itself, 64 at a time");
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    let mut entries = [Entry::EMPTY; 2];
    let fails = |setup, entries: &mut [Entry]| Roster::new(setup, entries).unwrap_err();
    let small = Cause::TooSmall { what: Resource::Peers, need: 3, have: 2 };
    assert_eq!(fails(setup(0, 3, 7), &mut entries), small);
    assert_eq!(fails(setup(2, 2, 7), &mut entries), Cause::RankOutOfRange { rank: 2, size: 2 });
    assert_eq!(fails(setup(0, 2, 0), &mut entries), Cause::Incompatible);
    let mut roster = roster(setup(0, 2, 7));
    let long = [0; CARD_BYTES_MAX + 1];
    let too_big = Cause::TooBig { len: long.len() as u64, max: CARD_BYTES_MAX as u64 };
    assert_eq!(roster.announce(&long, Instant(0)), Err(too_big));
}

#[test]
fn a_rank_alone_is_complete_and_silent() {
    let mut net = Net::new(1, 1, WireFaults::NONE);
    net.start(0, 100);
    assert!(net.node(0).is_complete() && !net.step() && net.frames == 0);
}

/// The time for which a wire misbehaves once all ranks run: half of that for which they search.
const FAULTY_NS: u64 = 10_000 * MS;

/// Ranks that start so many milliseconds late, on a wire that has these faults for a while.
fn find_each_other(size: u32, seed: u64, faults: WireFaults, late: &[u64]) {
    let mut net = Net::new(size, seed, faults);
    let mut order: Vec<u32> = (0..size).collect();
    order.sort_by_key(|rank| late[*rank as usize]);
    for rank in order {
        let at = late[rank as usize] * MS;
        while net.nodes.iter().flatten().filter_map(Roster::poll_timeout).any(|due| due.0 < at) {
            net.step();
        }
        net.now = net.now.max(at);
        net.start(rank, 100 + rank);
    }
    let mended = net.now + FAULTY_NS;
    while net.now < mended && net.step() {}
    net.faults = WireFaults { lose: 0, corrupt: 0, ..net.faults };
    net.settle();
    assert!(net.agrees(|rank| 100 + rank));
    for rank in 0..size {
        let counters = *net.node(rank).counters();
        assert_eq!((counters.replaced, counters.refused.claimed, counters.refused.stale), (0, 0, 0));
        assert!(counters.hellos <= 26, "hellos keep to the schedule");
        assert!(counters.answers <= counters.received, "one answer for a message at most");
    }
}

/// On a wire that had these faults for ever one rank of the ten had 26 hellos or their answers
/// lost.
#[test]
fn an_unlucky_rank_is_found_once_the_wire_is_well() {
    let late = [1247, 1045, 263, 1126, 2233, 1148, 2878, 1446, 1271, 721];
    let faults = WireFaults { lose: 251, repeat: 36, corrupt: 188, delay_ns_max: 173_249_823 };
    find_each_other(10, 17_026_684_070_092_027_386, faults, &late);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any wire that does not misbehave for ever: every rank finds every other, and then the wire
    /// is silent.
    #[test]
    fn a_lossy_wire_only_delays(
        seed: u64, size in 2..12_u32, lose in 0..400_u64, repeat in 0..300_u64, corrupt in 0..200_u64,
        late in proptest::collection::vec(0..3_000_u64, 12), delay_ns_max in 1_000..200 * MS,
    ) {
        find_each_other(size, seed, WireFaults { lose, repeat, corrupt, delay_ns_max }, &late);
    }
}
