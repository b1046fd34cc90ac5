//! Tests of single situations, over encoded messages.

use std::vec;
use std::vec::Vec;

use aldis_hal::{Epoch, Instant};

use proptest::prelude::*;

use super::super::{
    Connect, ConnectionNumbers, HandshakeEvent, HandshakeKind, HandshakeRefusal, HandshakeSetup, LinkOffer,
    MESSAGE_BYTES_MAX, Message, MessageEnds, slot, yields,
};

const NOW: Instant = Instant(1);

fn setups() -> [HandshakeSetup; 2] {
    [0, 1].map(|rank| HandshakeSetup {
        job: 99,
        rank,
        epoch: Epoch(0xABCD_0000 + rank),
        ..HandshakeSetup::DEFAULT
    })
}

fn machines(setups: &[HandshakeSetup; 2]) -> [Connect; 2] {
    let [one, other] = setups;
    let mut machines = [Connect::new(one, 1, 7), Connect::new(other, 0, 9)];
    assert!(machines[0].introduce(other.epoch) && machines[1].introduce(one.epoch));
    machines
}

/// Passes messages to and fro until there are none; the events that the two got.
fn exchange(setups: &[HandshakeSetup; 2], machines: &mut [Connect; 2]) -> [Vec<HandshakeEvent>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        for from in 0..2 {
            let Some(message) = machines[from].poll_transmit(&setups[from]) else { continue };
            machines[from].transmitted(&setups[from], &message, NOW);
            let mut buffer = [0; MESSAGE_BYTES_MAX];
            let message = Message::decode(message.encode(&mut buffer).unwrap()).unwrap();
            events[1 - from].extend(machines[1 - from].handle(&setups[1 - from], &message, NOW));
        }
    }
    events
}

/// Returns the events of both sides if the first asks and the second is not quite as expected.
fn ask(setups: [HandshakeSetup; 2]) -> [Vec<HandshakeEvent>; 2] {
    let mut machines = machines(&setups);
    assert!(machines[0].connect(&setups[0], NOW));
    let events = exchange(&setups, &mut machines);
    assert!(machines.iter().all(|machine| !machine.is_connecting() && machine.poll_timeout().is_none()));
    events
}

#[test]
fn both_are_told_the_same() {
    for asking in [&[0][..], &[1], &[0, 1]] {
        let mut setups = setups();
        setups[1].offer = LinkOffer { window: 8, frame_bytes: 500 };
        let mut machines = machines(&setups);
        for &i in asking {
            assert!(machines[i].connect(&setups[i], NOW));
        }
        let [one, other] = exchange(&setups, &mut machines);
        let (&[HandshakeEvent::Opened(one)], &[HandshakeEvent::Opened(other)]) = (&one[..], &other[..])
        else {
            panic!("{one:?} {other:?}")
        };
        assert_eq!((one.ends.ours, one.ends.theirs), (other.ends.theirs, other.ends.ours));
        assert_eq!((slot(one.ends.ours), slot(other.ends.ours)), (7, 9));
        assert_eq!((one.ends.peer_window, one.frame_bytes), (8, 500));
        assert_eq!((other.ends.peer_window, other.frame_bytes), (32, 1468));
        assert_eq!((one.epoch, other.epoch), (setups[1].epoch, setups[0].epoch));
        assert!(machines.iter().all(|machine| machine.is_open() && machine.poll_timeout().is_none()));
    }
    assert!(yields(1, 0) && !yields(0, 1));
}

#[test]
fn the_first_frame_is_as_good_as_a_confirmation() {
    let setups = setups();
    let mut machines = machines(&setups);
    assert!(machines[0].connect(&setups[0], NOW));
    let hello = machines[0].poll_transmit(&setups[0]).unwrap();
    assert_eq!(machines[1].handle(&setups[1], &hello, NOW), None);
    let number = machines[1].number();
    assert_eq!(machines[1].handle_data(number ^ 1), None);
    assert!(matches!(machines[1].handle_data(number), Some(HandshakeEvent::Opened(_))));
    assert_eq!(machines[1].handle_data(number), None);
}

#[test]
fn a_refusal_is_named_and_final() {
    let fit = setups();
    let [one, other] = fit;
    let narrow = LinkOffer { frame_bytes: other.frame_bytes_min - 1, ..other.offer };
    let shut = LinkOffer { window: 0, ..other.offer };
    for (unfit, why) in [
        ([HandshakeSetup { job: 98, ..one }, other], HandshakeRefusal::Job),
        ([HandshakeSetup { rank: 5, ..one }, other], HandshakeRefusal::Rank),
        ([one, HandshakeSetup { rank: 5, ..other }], HandshakeRefusal::Rank),
        ([HandshakeSetup { offer: narrow, ..one }, other], HandshakeRefusal::Limits),
        ([HandshakeSetup { offer: shut, ..one }, other], HandshakeRefusal::Limits),
    ] {
        let [told, untold] = ask(unfit);
        assert_eq!((told, untold), (vec![HandshakeEvent::Refused(why)], vec![]), "{why}");
    }
    // What is wrong with the answer is seen by the asker, and sent to the answerer.
    let [told, answerer] = ask([one, HandshakeSetup { offer: narrow, ..other }]);
    assert_eq!(
        (told, answerer),
        (
            vec![HandshakeEvent::Refused(HandshakeRefusal::Limits)],
            vec![HandshakeEvent::Refused(HandshakeRefusal::Limits)]
        )
    );
}

#[test]
fn another_version_is_refused_by_either() {
    let [one, other] = setups();
    let [mut asks, mut answers] = machines(&[one, other]);
    assert!(asks.connect(&one, NOW));
    let mut hello = asks.poll_transmit(&one).unwrap();
    hello.version = 200;
    assert_eq!(answers.handle(&other, &hello, NOW), None);
    let mut refusal = answers.poll_transmit(&other).unwrap();
    refusal.version = 200;
    assert_eq!(refusal.kind, HandshakeKind::Refuse(HandshakeRefusal::Version));
    assert_eq!(asks.handle(&one, &refusal, NOW), Some(HandshakeEvent::Refused(HandshakeRefusal::Version)));
    assert_eq!(asks.handle(&one, &refusal, NOW), None, "once");
}

#[test]
fn who_is_not_introduced_asks_again_until_it_is() {
    let [one, other] = setups();
    let mut machines = machines(&[one, other]);
    machines[1] = Connect::new(&other, 0, 9);
    assert!(!machines[1].connect(&other, NOW), "no peer is there to be asked");
    assert!(machines[0].connect(&one, NOW));
    assert_eq!(exchange(&[one, other], &mut machines), [vec![], vec![]]);
    assert!(machines[1].introduce(one.epoch) && !machines[1].introduce(one.epoch));
    let again = machines[0].poll_timeout().unwrap();
    assert_eq!(machines[0].handle_timeout(again), None);
    let events = exchange(&[one, other], &mut machines);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
}

#[test]
fn a_new_life_proves_itself_and_a_stray_hello_does_not() {
    let [one, other] = setups();
    let mut setups = [one, other];
    let mut machines = machines(&setups);
    assert!(machines[0].connect(&one, NOW));
    let stray = machines[0].poll_transmit(&one).unwrap();
    exchange(&setups, &mut machines);
    setups[0].epoch = Epoch(77);
    machines[0] = Connect::new(&setups[0], 1, 7);
    assert!(machines[0].introduce(other.epoch) && machines[0].connect(&setups[0], NOW));

    assert_eq!(machines[1].handle(&other, &stray, NOW), None, "it is of the open connection's life");
    let dead = HandshakeSetup { epoch: Epoch(55), ..one };
    let mut ghost = Connect::new(&dead, 1, 7);
    assert!(ghost.introduce(other.epoch) && ghost.connect(&dead, NOW));
    assert_eq!(machines[1].handle(&other, &ghost.poll_transmit(&dead).unwrap(), NOW), None);
    assert!(machines[1].is_open());

    let [young, old] = exchange(&setups, &mut machines);
    assert_eq!((young, old), (vec![], vec![HandshakeEvent::Restarted(Epoch(77))]));
    assert!(machines[1].introduce(Epoch(77)));
    machines[0].handle_timeout(machines[0].poll_timeout().unwrap());
    let events = exchange(&setups, &mut machines);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
}

#[test]
fn an_attempt_backs_off_and_ends() {
    let [one, other] = setups();
    let [mut asks, _] = machines(&[one, other]);
    assert!(asks.connect(&one, NOW));
    let mut hellos = 0;
    let mut last = NOW;
    loop {
        while let Some(hello) = asks.poll_transmit(&one) {
            asks.transmitted(&one, &hello, last);
            hellos += 1;
        }
        let at = asks.poll_timeout().unwrap();
        assert!(at > last);
        last = at;
        assert!(asks.connect(&one, at), "asking again gives it no more time");
        if let Some(event) = asks.handle_timeout(at) {
            assert_eq!((event, at.0), (HandshakeEvent::TimedOut, NOW.0 + one.deadline_ns));
            break;
        }
    }
    // 10, 20, ... 640 ms, and then each second.
    assert_eq!(hellos, 8 + 8);
    assert_eq!((asks.poll_timeout(), asks.poll_transmit(&one)), (None, None));
}

#[test]
fn no_number_is_zero() {
    let setup = HandshakeSetup { epoch: Epoch(0xFFFE), ..setups()[0] };
    let mut machine = Connect::new(&setup, 1, 0);
    for number in [0xFFFF_0000, 0x0001_0000] {
        assert!(machine.introduce(Epoch(number)) && machine.connect(&setup, NOW));
        assert_eq!(machine.number(), number);
    }
}

fn anything() -> impl Strategy<Value = Message> {
    let refusals = [
        HandshakeRefusal::Version,
        HandshakeRefusal::Job,
        HandshakeRefusal::Rank,
        HandshakeRefusal::Limits,
        HandshakeRefusal::Unknown,
        HandshakeRefusal::Stale,
    ];
    let kinds = [HandshakeKind::Hello, HandshakeKind::Welcome, HandshakeKind::Confirm];
    let kinds: Vec<_> = kinds.into_iter().chain(refusals.map(HandshakeKind::Refuse)).collect();
    let numbers = || (0u32..8).prop_map(|generation| 0xABCB_0000 + (generation << 16) + 9);
    let others = (98u64..100, 0u32..3, 0u32..2, 0xABCD_0000u32..0xABCD_0003, 0u8..80, 0u16..70);
    (prop::sample::select(kinds), numbers(), 0u32..8, others).prop_map(|(kind, number, echo, others)| {
        let (job, rank, to, epoch, window, frame_bytes) = others;
        let echo = Connect::new(&setups()[0], 1, 7).chosen.wrapping_add(echo << 16);
        Message::new(
            kind,
            ConnectionNumbers { own: number, echo },
            MessageEnds { job, rank, epoch: Epoch(epoch), to },
            LinkOffer { window, frame_bytes: 20 * frame_bytes },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever comes, it waits with a timer or not at all, answers no message with two, and opens
    /// what fits.
    #[test]
    fn any_messages_at_all(messages in prop::collection::vec((anything(), any::<bool>()), 0..60)) {
        let [setup, other] = setups();
        let mut machine = Connect::new(&setup, 1, 7);
        for (message, asks) in messages {
            machine.introduce(other.epoch);
            prop_assert!(!asks || machine.connect(&setup, NOW));
            if let Some(HandshakeEvent::Opened(opened)) = machine.handle(&setup, &message, NOW) {
                prop_assert!(machine.is_open() && opened.epoch == other.epoch);
                prop_assert_eq!((opened.ends.ours, opened.ends.theirs), (message.echo, message.number));
                prop_assert_eq!((message.job, message.rank, message.to), (99, 1, 0));
            }
            let mut sent = 0;
            while let Some(message) = machine.poll_transmit(&setup) {
                machine.transmitted(&setup, &message, NOW);
                sent += 1;
            }
            prop_assert!(sent <= 2);
            prop_assert_eq!(machine.poll_timeout().is_some(), machine.is_connecting());
        }
    }
}

/// Two machines with a connection between them.
fn connected(setups: &[HandshakeSetup; 2]) -> [Connect; 2] {
    let mut machines = machines(setups);
    assert!(machines[0].connect(&setups[0], NOW));
    let events = exchange(setups, &mut machines);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
    machines
}

#[test]
fn a_close_is_over_when_both_have_said_it_and_the_next_connection_has_newer_numbers() {
    let setups = setups();
    let mut machines = connected(&setups);
    let numbers = [machines[0].number(), machines[1].number()];
    assert!(!machines[0].close(&setups[0], NOW) && machines[0].is_closing());
    assert_eq!(exchange(&setups, &mut machines), [vec![], vec![HandshakeEvent::Closing]]);
    assert!(machines[1].is_open(), "it has something to send first");
    assert!(machines[1].close(&setups[1], NOW));
    assert_eq!(exchange(&setups, &mut machines), [vec![HandshakeEvent::Closed], vec![]]);
    assert!(machines.iter().all(Connect::is_over));

    // What is kept of a peer is enough for the next one.
    let records = machines.map(|machine| machine.record());
    machines = [Connect::resume(records[0], 1, 7), Connect::resume(records[1], 0, 9)];
    assert_eq!(machines.map(|machine| machine.record()), records);
    assert!(machines[1].connect(&setups[1], NOW));
    let events = exchange(&setups, &mut machines);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
    for (machine, number) in machines.iter().zip(numbers) {
        assert!((machine.number().wrapping_sub(number) as i32) > 0 && slot(machine.number()) == slot(number));
    }
}

#[test]
fn closes_that_cross_are_a_close() {
    let setups = setups();
    let mut machines = connected(&setups);
    for side in 0..2 {
        assert!(!machines[side].close(&setups[side], NOW));
    }
    let events = exchange(&setups, &mut machines);
    assert_eq!(events, [vec![HandshakeEvent::Closed], vec![HandshakeEvent::Closed]]);
    assert!(machines.iter().all(Connect::is_over));
}

#[test]
fn a_close_whose_answer_is_lost_is_answered_again_by_a_side_that_holds_nothing() {
    let setups = setups();
    let mut machines = connected(&setups);
    assert!(!machines[0].close(&setups[0], NOW));
    exchange(&setups, &mut machines);
    assert!(machines[1].close(&setups[1], NOW));
    machines[1] = Connect::resume(machines[1].record(), 0, 9);
    assert_eq!(machines[0].handle_timeout(machines[0].poll_timeout().unwrap()), None);
    assert_eq!(exchange(&setups, &mut machines), [vec![HandshakeEvent::Closed], vec![]]);
    assert!(machines.iter().all(Connect::is_over));
}

#[test]
fn a_close_that_finds_no_answer_ends_at_its_deadline() {
    let setups = setups();
    let [mut machine, _] = connected(&setups);
    assert!(!machine.close(&setups[0], NOW));
    let deadline = Instant(NOW.0 + setups[0].deadline_ns);
    assert_eq!(machine.handle_timeout(deadline), Some(HandshakeEvent::TimedOut));
}

#[test]
fn crossing_hellos_connect_without_waiting_for_a_retry() {
    let setups = setups();
    let mut machines = machines(&setups);
    let hellos: Vec<_> = (0..2)
        .map(|i| {
            assert!(machines[i].connect(&setups[i], NOW));
            let hello = machines[i].poll_transmit(&setups[i]).unwrap();
            machines[i].transmitted(&setups[i], &hello, NOW);
            assert_eq!(machines[i].poll_transmit(&setups[i]), None, "until it is repeated");
            hello
        })
        .collect();
    // The hello of the first is lost; the second's reaches it.
    assert_eq!(machines[0].handle(&setups[0], &hellos[1], NOW), None);
    assert_eq!(machines[0].poll_transmit(&setups[0]), Some(hellos[0]));
    let events = exchange(&setups, &mut machines);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
}

#[test]
fn one_that_is_turned_away_has_all_its_time_again_and_goes_on_asking() {
    let setups = setups();
    let [mut asks, mut answers] = machines(&setups);
    assert!(asks.connect(&setups[0], NOW));
    let hello = asks.poll_transmit(&setups[0]).unwrap();
    asks.transmitted(&setups[0], &hello, NOW);
    let later = Instant(NOW.0 + setups[0].deadline_ns - 1);
    let busy = Connect::turn_away(&setups[1], &hello);
    assert_eq!(asks.handle(&setups[0], &busy, later), Some(HandshakeEvent::TurnedAway));
    assert_eq!(asks.handle_timeout(Instant(later.0 + 1)), None, "the deadline has moved");
    let hello = asks.poll_transmit(&setups[0]).unwrap();
    assert_eq!((hello.kind, hello.number), (HandshakeKind::Hello, busy.echo));
    answers.handle(&setups[1], &hello, later);
    let events = exchange(&setups, &mut [asks, answers]);
    assert!(events.iter().all(|events| matches!(events[..], [HandshakeEvent::Opened(_)])), "{events:?}");
}
