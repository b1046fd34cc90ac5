//! Messages from strangers, liars and broken machines.

use proptest::prelude::*;

use super::super::Refused;
use super::wire::{Net, WireFaults};
use super::*;

/// Rank 1 of 3, which knows rank 0.
fn knows_zero() -> Roster<'static> {
    let mut roster = roster(setup(1, 3, 101));
    roster.announce(&card(1, 101), Instant(0)).unwrap();
    sent(&mut roster);
    roster.handle(station(0), &message(MUTE, 0, 100, 1));
    assert_eq!(roster.news(), Some(PeerId(0)));
    roster
}

/// Returns what is counted for a message that has no other effect.
fn counted(roster: &mut Roster<'_>, from: Mac, bytes: &[u8], counter: fn(&Refused) -> u64) -> u64 {
    let before = (*roster.counters(), roster.missing().collect::<Vec<_>>());
    roster.handle(from, bytes);
    assert!(sent(roster).is_empty() && roster.news().is_none());
    assert_eq!(roster.card(PeerId(0)), Some(&card(0, 100)[..]));
    assert_eq!(roster.missing().collect::<Vec<_>>(), before.1);
    counter(&roster.counters().refused) - counter(&before.0.refused)
}

#[test]
fn every_kind_of_nonsense_is_counted_and_harmless() {
    let mut one = knows_zero();
    let all = DiscoveryKind::Hello(Asked { first: 0, ranks: u64::MAX });
    let card = card(2, 102);
    let ours = Message { kind: all, job: JOB, size: 3, rank: 2, epoch: Epoch(102), number: 5, card: &card };
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let mut bytes = |message: Message<'_>| message.encode(&mut buffer).unwrap().to_vec();
    let stranger = bytes(Message { job: 9, ..ours });
    let larger = bytes(Message { size: 4, ..ours });
    let good = bytes(ours);
    assert_eq!(counted(&mut one, station(2), &stranger, |refused| refused.job), 1);
    assert_eq!(counted(&mut one, station(2), &larger, |refused| refused.size), 1);
    assert_eq!(counted(&mut one, station(2), &good[..40], |refused| refused.truncated), 1);
    assert_eq!(counted(&mut one, station(2), &good[..good.len() - 1], |refused| refused.truncated), 1);
    assert_eq!(counted(&mut one, station(2), &[0; 90], |refused| refused.checksum), 1);
    assert_eq!(counted(&mut one, Mac([0xFF; 6]), &good, |refused| refused.malformed), 1, "a group's address");
    let claims = message(all, 0, 100, 1);
    assert_eq!(counted(&mut one, station(2), &claims, |refused| refused.claimed), 1, "another's rank");
    let claims = message(all, 1, 999, 1);
    assert_eq!(counted(&mut one, station(2), &claims, |refused| refused.claimed), 1, "this side's rank");
    one.handle(station(1), &message(all, 1, 101, 1));
    assert_eq!((one.counters().own, sent(&mut one).len()), (1, 0), "a hub sends everything back");
    one.handle(station(2), &good);
    assert!(one.is_complete() && sent(&mut one).len() == 1, "and what is right is taken and answered");
}

#[test]
fn a_flood_of_questions_has_bounded_answers() {
    let mut one = knows_zero();
    let asks = DiscoveryKind::Hello(Asked { first: 1, ranks: 1 });
    for number in 0..100 {
        one.handle(station(0), &message(asks, 0, 100, number));
    }
    assert_eq!(sent(&mut one).len(), super::super::REPLIES_MAX);
    assert_eq!(one.counters().dropped, 100 - super::super::REPLIES_MAX as u64);
}

#[test]
fn nothing_is_answered_before_there_is_a_card() {
    let mut one = roster(setup(1, 3, 101));
    one.handle(station(0), &message(DiscoveryKind::Hello(Asked { first: 1, ranks: 1 }), 0, 100, 1));
    assert!(sent(&mut one).is_empty());
    assert!(one.card(PeerId(0)).is_some(), "but what is said is heard");
    one.announce(&card(1, 101), Instant(0)).unwrap();
    assert_eq!(sent(&mut one).len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Strangers that know the job's key and speak for no rank, or for ranks that others have,
    /// among ranks that search.
    #[test]
    fn a_job_is_not_disturbed(
        seed: u64, lies in proptest::collection::vec((any::<u8>(), 0..3_u32, 1..50_u32, any::<(u32, u32, u64)>()), 0..60),
        noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut net = Net::new(3, seed, WireFaults { lose: 200, delay_ns_max: 5_000_000, ..WireFaults::NONE });
        (0..3).for_each(|rank| net.start(rank, 100 + rank));
        while !net.agrees(|rank| 100 + rank) {
            prop_assert!(net.step());
        }
        for (at, (target, rank, epoch, (number, first, ranks))) in lies.into_iter().enumerate() {
            let kind = if at % 2 == 0 { DiscoveryKind::Here } else { DiscoveryKind::Hello(Asked { first, ranks }) };
            let liar = Mac([4, 0, 0, 0, 0, target]);
            net.node(u32::from(target) % 3).handle(liar, &message(kind, rank, epoch, number));
        }
        for bytes in noise {
            net.node(1).handle(station(0), &bytes);
        }
        net.settle();
        prop_assert!(net.agrees(|rank| 100 + rank));
        for rank in 0..3 {
            prop_assert_eq!(net.node(rank).counters().replaced, 0);
        }
    }
}
