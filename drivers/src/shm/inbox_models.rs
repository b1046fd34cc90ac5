//! This module holds `unsafe` code: loom models of a shared inbox, with two senders, and of a
//! sender that goes over to a lane and back. The twins with one order relaxed or one rule
//! left out must fail.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::vec::Vec;

use aldis_hal::PeerId;
use loom::model::Builder;
use loom::thread;

use super::inbox::{
    About, Exact, InboxControl, InboxOrders, InboxPlace, InboxReceiver, InboxSender, SlotLabel,
};
use crate::sync::{Ordering, UnsafeCell};

/// Declares a twin of [`Exact`] with one constant changed.
macro_rules! mutant {
    ($($name:ident: $constant:ident: $type:ty = $value:expr,)*) => {$(
        struct $name;
        impl InboxOrders for $name {
            const $constant: $type = $value;
        }
    )*};
}

mutant! {
    SlotClaimRelaxed: CLAIM: Ordering = Ordering::Relaxed,
    SlotFlagRelaxed: PUBLISH: Ordering = Ordering::Relaxed,
    SlotLookRelaxed: LOOK: Ordering = Ordering::Relaxed,
    SlotFreeRelaxed: FREE: Ordering = Ordering::Relaxed,
    FlagLast: FLAG_FIRST: bool = false,
    ClaimsInTwo: CLAIMS_AT_ONCE: bool = false,
}

const SLOTS: usize = 2;

/// An inbox of two slots, with a cell for the message of each.
struct ModelInbox {
    control: InboxControl<SLOTS>,
    labels: Vec<SlotLabel>,
    messages: Vec<UnsafeCell<u32>>,
}

// SAFETY: the models' senders and receiver keep the protocol; that they do is what loom checks at
// each access.
unsafe impl Sync for ModelInbox {}
// SAFETY: as above.
unsafe impl Send for ModelInbox {}

impl ModelInbox {
    fn new() -> Self {
        Self {
            control: InboxControl::new(),
            labels: (0..SLOTS).map(|_| SlotLabel::new()).collect(),
            messages: (0..SLOTS).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    fn place(&self) -> InboxPlace<'_> {
        // SAFETY: there is a label for each slot, as long as this lives.
        unsafe { InboxPlace::new(&self.control, self.labels.as_ptr().cast(), size_of::<SlotLabel>()) }
    }

    /// Sends a number, waiting for a slot as long as it takes.
    fn send<O: InboxOrders>(&self, end: &mut InboxSender<O>, me: PeerId, number: u32) {
        let slot = loop {
            match end.claim(&self.place(), me) {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        // SAFETY: loom checks that nothing else accesses the cell meanwhile.
        self.messages[slot as usize].with_mut(|cell| unsafe { *cell = number });
        end.send(&self.place(), slot, About::Message(4));
    }

    /// Takes what is next of each sender that has something in the inbox.
    fn receive<O: InboxOrders>(&self, end: &mut InboxReceiver<O>, next: &mut [u32]) {
        let place = self.place();
        for slot in end.look(&place) {
            let owner = place.owner(slot).expect("a full slot has an owner").index();
            match end.read(&place, slot).check(next[owner], 4) {
                Ok(None) => continue,
                Ok(Some(about)) => assert_eq!(about, About::Message(4)),
                Err(what) => panic!("{what}"),
            }
            // SAFETY: loom checks that nothing writes the cell meanwhile.
            let number = self.messages[slot as usize].with(|cell| unsafe { *cell });
            assert_eq!(number, next[owner] + 10 * owner as u32);
            next[owner] += 1;
            end.free(&place, slot);
        }
    }
}

/// Explores senders on threads of their own, each of so many messages, and their receiver. The last
/// sender claims a slot and is killed, if `kills`.
fn explore<O: InboxOrders + 'static>(senders: &'static [u32], kills: bool) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(if senders.len() > 1 { 2 } else { 3 });
    builder.check(move || {
        let inbox = Arc::new(ModelInbox::new());
        let threads: Vec<_> = (0..senders.len())
            .map(|index| {
                let (inbox, me) = (Arc::clone(&inbox), PeerId(index as u32));
                thread::spawn(move || {
                    let mut end = InboxSender::<O>::EMPTY;
                    for number in 0..senders[index] {
                        inbox.send(&mut end, me, number + 10 * me.0);
                    }
                    if kills && index + 1 == senders.len() {
                        end.claim(&inbox.place(), me);
                    }
                })
            })
            .collect();
        let (mut end, mut next) = (InboxReceiver::<O>::NEW, [0; SLOTS]);
        while next[..senders.len()] != *senders {
            inbox.receive(&mut end, &mut next);
            thread::yield_now();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn fails<O: InboxOrders + 'static>(senders: &'static [u32]) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore::<O>(senders, false))).is_err()
}

#[test]
fn messages_of_each_sender_come_in_order() {
    explore::<Exact>(&[2, 1], false);
    explore::<Exact>(&[3], false);
}

#[test]
fn a_sender_that_is_killed_stops_no_other() {
    explore::<Exact>(&[2, 0], true);
}

#[test]
fn an_inbox_needs_each_of_its_orders_and_rules() {
    assert!(fails::<SlotClaimRelaxed>(&[3]));
    assert!(fails::<SlotFlagRelaxed>(&[1]));
    assert!(fails::<SlotLookRelaxed>(&[1]));
    assert!(fails::<SlotFreeRelaxed>(&[3]));
    assert!(fails::<FlagLast>(&[3]));
    assert!(fails::<ClaimsInTwo>(&[2, 1]));
}

mod departure {
    //! Ranks that send and leave: who finds that one has left finds all that it has sent.

    use super::super::departures::{self, DepartureOrders, Departures};
    use super::*;
    use crate::sync::Word;

    struct EntryRelaxed;
    impl DepartureOrders for EntryRelaxed {
        const PUBLISH: Ordering = Ordering::Relaxed;
    }

    struct LookRelaxed;
    impl DepartureOrders for LookRelaxed {
        const LOOK: Ordering = Ordering::Relaxed;
    }

    struct TakesInTwo;
    impl DepartureOrders for TakesInTwo {
        const TAKES_AT_ONCE: bool = false;
    }

    fn explore<O: DepartureOrders + 'static>(leaving: u32) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let entries: Vec<Word> = (0..SLOTS).map(|_| Word::new(0)).collect();
            let both = Arc::new((ModelInbox::new(), entries));
            let threads: Vec<_> = (0..leaving)
                .map(|rank| {
                    let (both, me) = (Arc::clone(&both), PeerId(rank));
                    thread::spawn(move || {
                        let mut end = InboxSender::<Exact>::EMPTY;
                        both.0.send(&mut end, me, 10 * me.0);
                        Departures::<O>::new(&both.1).enter(me, 0);
                    })
                })
                .collect();
            let (mut end, mut next, mut gone) = (InboxReceiver::<Exact>::NEW, [0; SLOTS], 0);
            while gone < leaving {
                match Departures::<O>::new(&both.1).at(gone) {
                    Some(rank) => {
                        both.0.receive(&mut end, &mut next);
                        assert_eq!(next[rank.index()], 1, "its message is there");
                        gone += 1;
                    }
                    None => thread::yield_now(),
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    fn fails<O: DepartureOrders + 'static>(leaving: u32) -> bool {
        catch_unwind(AssertUnwindSafe(|| explore::<O>(leaving))).is_err()
    }

    #[test]
    fn a_rank_that_has_left_has_sent_before() {
        explore::<departures::Exact>(1);
        explore::<departures::Exact>(2);
    }

    #[test]
    fn the_log_needs_each_of_its_orders_and_rules() {
        assert!(fails::<EntryRelaxed>(1));
        assert!(fails::<LookRelaxed>(1));
        assert!(fails::<TakesInTwo>(2));
    }
}

mod hand_over {
    //! A sender that goes over to a lane that it was granted, and back: no message overtakes
    //! another.

    use super::super::memory::Short;
    use super::super::models::ModelLane;
    use super::super::path::{LaneStage, PathRecord};
    use super::super::ring::{Exact as ExactLane, Incoming, NextMessage};
    use super::super::sleep::Alarm;
    use super::*;

    /// The rules of a receiver, of which a twin leaves one out.
    #[derive(Clone, Copy)]
    struct ReceiverRules {
        awaits_hand_over: bool,
        awaits_close: bool,
    }

    struct InboxAndLane {
        inbox: ModelInbox,
        lane: ModelLane,
    }

    const ME: PeerId = PeerId(0);

    fn record(both: &InboxAndLane, end: &mut InboxSender, record: PathRecord) {
        let slot = loop {
            match end.claim(&both.inbox.place(), ME) {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        end.send(&both.inbox.place(), slot, About::Record(record));
    }

    fn send(both: &InboxAndLane) {
        let (mut end, mut out) = (InboxSender::<Exact>::EMPTY, both.lane.outgoing::<ExactLane>());
        both.inbox.send(&mut end, ME, 0);
        record(both, &mut end, PathRecord::HandOver(0));
        let claim = out.claim().expect("the lane is empty");
        claim.send(Short::new(&1_u32.to_le_bytes(), &[]).unwrap(), 0, &Alarm::default());
        let claim = out.claim().expect("the lane has room");
        claim.send_record(PathRecord::Close, 0, &Alarm::default());
        both.inbox.send(&mut end, ME, 2);
    }

    /// Looks at the lane; the number that has come there.
    fn look_at_lane(into: &mut Incoming<ExactLane>, stage: &mut LaneStage) -> Option<u32> {
        match into.next(64) {
            NextMessage::Empty => None,
            NextMessage::Short(message, head) => {
                let number = u32::from_le_bytes(message.try_into().unwrap());
                into.advance(head, None);
                Some(number)
            }
            NextMessage::Fault(_) => {
                let (record, head) = into.record().unwrap().expect("no message that cannot be");
                assert_eq!(record, PathRecord::Close);
                into.advance(head, None);
                *stage = LaneStage::Drained;
                None
            }
            _ => panic!("not what was sent"),
        }
    }

    /// Takes what is next in the inbox; the number, if it is a message.
    fn look_at_inbox(
        both: &InboxAndLane,
        end: &mut InboxReceiver,
        expected: &mut u32,
        stage: &mut LaneStage,
    ) -> Option<u32> {
        let place = both.inbox.place();
        for slot in end.look(&place) {
            let Some(about) = end.read(&place, slot).check(*expected, 4).unwrap() else { continue };
            *expected += 1;
            let number = match about {
                About::Record(record) => {
                    assert_eq!((record, *stage), (PathRecord::HandOver(0), LaneStage::Granted));
                    *stage = LaneStage::Open;
                    None
                }
                // SAFETY: loom checks that nothing writes the cell meanwhile.
                About::Message(_) => Some(both.inbox.messages[slot as usize].with(|cell| unsafe { *cell })),
            };
            end.free(&place, slot);
            return number;
        }
        None
    }

    fn receive(both: &InboxAndLane, rules: ReceiverRules) {
        let mut into = both.lane.incoming::<ExactLane>();
        let (mut end, mut expected, mut stage) = (InboxReceiver::<Exact>::NEW, 0, LaneStage::Granted);
        let mut next = 0;
        while next < 3 {
            let mut came = None;
            if stage.takes_lane() || !rules.awaits_hand_over && stage == LaneStage::Granted {
                came = look_at_lane(&mut into, &mut stage);
            }
            if came.is_none() && (stage.takes_inbox() || !rules.awaits_close) {
                came = look_at_inbox(both, &mut end, &mut expected, &mut stage);
            }
            match came {
                Some(number) => {
                    assert_eq!(number, next, "a message has overtaken another");
                    next += 1;
                }
                None => thread::yield_now(),
            }
        }
    }

    /// Explores both, either of them on the spawned thread.
    fn explore(rules: ReceiverRules) {
        for spawns_sender in [true, false] {
            let mut builder = Builder::new();
            builder.preemption_bound = Some(3);
            builder.check(move || {
                let both = Arc::new(InboxAndLane {
                    inbox: ModelInbox::new(),
                    lane: ModelLane::with_blocks(1, 4, 0),
                });
                let theirs = Arc::clone(&both);
                if spawns_sender {
                    let thread = thread::spawn(move || send(&theirs));
                    receive(&both, rules);
                    thread.join().unwrap();
                } else {
                    let thread = thread::spawn(move || receive(&theirs, rules));
                    send(&both);
                    thread.join().unwrap();
                }
            });
        }
    }

    const ALL: ReceiverRules = ReceiverRules { awaits_hand_over: true, awaits_close: true };

    #[test]
    fn keeps_the_order() {
        explore(ALL);
    }

    #[test]
    fn needs_both_of_its_rules() {
        for rules in
            [ReceiverRules { awaits_hand_over: false, ..ALL }, ReceiverRules { awaits_close: false, ..ALL }]
        {
            assert!(catch_unwind(AssertUnwindSafe(|| explore(rules))).is_err());
        }
    }
}
