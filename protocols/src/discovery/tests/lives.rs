//! Ranks that boot again, and frames of their former lives.

use proptest::prelude::*;

use super::wire::{Net, WireFaults};
use super::*;

#[test]
fn a_new_life_is_asked_and_replaces_the_old_one() {
    let mut net = Net::new(3, 1, WireFaults::NONE);
    (0..3).for_each(|rank| net.start(rank, 100 + rank));
    net.settle();
    while net.node(0).news().is_some() {}
    net.start(2, 202);
    net.settle();
    assert!(net.agrees(|rank| if rank == 2 { 202 } else { 100 + rank }));
    let zero = net.node(0);
    assert_eq!((zero.news(), zero.news()), (Some(PeerId(2)), None), "the user hears of it once");
    assert_eq!((zero.epoch(PeerId(2)), zero.counters().replaced), (Some(Epoch(202)), 1));
}

/// A hello in a job of this size.
fn message_of(size: u32, rank: u32, epoch: u32) -> Vec<u8> {
    let (mut buffer, card) = ([0; MESSAGE_BYTES_MAX], card(rank, epoch));
    let message = Message { kind: MUTE, job: JOB, size, rank, epoch: Epoch(epoch), number: 1, card: &card };
    message.encode(&mut buffer).unwrap().to_vec()
}

/// Rank 0 of 3, which knows the life 102 of rank 2 and has nothing to send.
fn knows_two() -> Roster<'static> {
    let mut zero = roster(setup(0, 3, 100));
    zero.announce(&card(0, 100), Instant(0)).unwrap();
    zero.handle(station(2), &message(MUTE, 2, 102, 1));
    sent(&mut zero);
    zero
}

/// The number of the hello in which rank 2 alone is asked.
fn question(zero: &mut Roster<'_>) -> u32 {
    let [(to, bytes)] = &sent(zero)[..] else { panic!("one question") };
    let question = Message::decode(bytes).unwrap();
    assert_eq!((*to, question.kind), (station(2), DiscoveryKind::Hello(Asked { first: 2, ranks: 1 })));
    question.number
}

#[test]
fn an_old_frame_replaces_nothing_and_a_replaced_life_never_comes_back() {
    let mut zero = knows_two();
    zero.handle(station(2), &message(MUTE, 2, 202, 1));
    let number = question(&mut zero);
    assert_eq!(zero.epoch(PeerId(2)), Some(Epoch(102)), "a hello proves nothing");
    for old in [number.wrapping_sub(1), number.wrapping_add(100)] {
        zero.handle(station(2), &message(DiscoveryKind::Here, 2, 202, old));
        assert_eq!(zero.epoch(PeerId(2)), Some(Epoch(102)), "nor an answer to something else");
    }
    zero.handle(station(2), &message(DiscoveryKind::Here, 2, 202, number));
    assert_eq!(zero.epoch(PeerId(2)), Some(Epoch(202)));
    sent(&mut zero);
    zero.handle(station(2), &message(MUTE, 2, 102, 9));
    assert!(sent(&mut zero).is_empty() && zero.counters().refused.stale == 1);
}

#[test]
fn who_is_asked_and_is_still_the_same_stays() {
    let mut zero = knows_two();
    zero.handle(station(2), &message(MUTE, 2, 202, 1));
    let number = question(&mut zero);
    zero.handle(station(2), &message(DiscoveryKind::Here, 2, 102, number));
    zero.handle(station(2), &message(DiscoveryKind::Here, 2, 202, number));
    assert_eq!(zero.epoch(PeerId(2)), Some(Epoch(102)), "the question has been answered");
    assert_ne!(question(&mut zero), number, "so it is asked again");
}

#[test]
fn another_card_in_the_same_life_is_taken_in_the_same_way() {
    let mut net = Net::new(2, 1, WireFaults::NONE);
    (0..2).for_each(|rank| net.start(rank, 100 + rank));
    net.settle();
    let now = Instant(net.now);
    net.node(1).announce(b"a better card", now).unwrap();
    let [(_, hello)] = &sent(net.node(1))[..] else { panic!("one hello") };
    net.node(0).handle(station(1), hello);
    let [(_, question)] = &sent(net.node(0))[..] else { panic!("one question") };
    net.node(1).handle(station(0), question);
    let [(_, answer)] = &sent(net.node(1))[..] else { panic!("one answer") };
    net.node(0).handle(station(1), answer);
    assert_eq!(net.node(0).card(PeerId(1)), Some(&b"a better card"[..]));
}

#[test]
fn a_lost_question_is_asked_again_until_the_deadline() {
    let mut net = Net::new(2, 1, WireFaults::NONE);
    (0..2).for_each(|rank| net.start(rank, 100 + rank));
    net.settle();
    let hello = message_of(2, 1, 201);
    net.node(0).handle(station(1), &hello);
    assert_eq!(sent(net.node(0)).len(), 1, "and lost");
    let mut roster = roster(setup(1, 2, 201));
    roster.announce(&card(1, 201), Instant(net.now)).unwrap();
    net.nodes[1] = Some(roster);
    net.settle();
    assert!(net.agrees(|rank| if rank == 1 { 201 } else { 100 }));
    net.node(0).handle(station(1), &message_of(2, 1, 301));
    net.nodes[1] = None;
    net.transmit(0);
    let hellos = net.node(0).counters().hellos;
    net.settle();
    assert_eq!(net.node(0).counters().hellos - hellos, 25, "the whole schedule, after the question itself");
    assert!(net.node(0).is_complete() && net.node(0).overdue().is_none(), "no peer is missing");
    net.node(0).handle(station(1), &message_of(2, 1, 301));
    assert!(net.node(0).poll_timeout().is_some(), "what is seen again is asked again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Ranks boot again and again while frames of all their lives are on their way: in the end the
    /// last lives are known.
    #[test]
    fn the_last_lives_win(
        seed: u64, lose in 0..300_u64, repeat in 0..300_u64, delay_ns_max in 1_000..500_000_000_u64,
        boots in proptest::collection::vec((0..4_u32, 0..200_usize), 1..6),
    ) {
        let mut net = Net::new(4, seed, WireFaults { lose, repeat, corrupt: 50, delay_ns_max });
        let mut lives = [100, 101, 102, 103];
        (0..4).for_each(|rank| net.start(rank, lives[rank as usize]));
        for (life, (rank, steps)) in boots.into_iter().enumerate() {
            for _ in 0..steps {
                net.step();
            }
            lives[rank as usize] = 1_000 + life as u32;
            net.start(rank, lives[rank as usize]);
        }
        net.settle();
        // Who has all cards says no more hello. If two boot at a time, one may miss the other's:
        // its user repeats it.
        net.faults = WireFaults::NONE;
        for rank in 0..4 {
            let (now, card) = (Instant(net.now), card(rank, lives[rank as usize]));
            net.node(rank).announce(&card, now).unwrap();
            net.transmit(rank as usize);
            net.settle();
        }
        prop_assert!(net.agrees(|rank| lives[rank as usize]));
    }
}
