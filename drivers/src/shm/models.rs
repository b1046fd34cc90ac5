//! This module holds `unsafe` code: loom models of a lane. Every model has mutated twins, with one
//! memory order relaxed, which must fail; a model that cannot fail proves nothing. Each runs with
//! either role on the spawned thread, as loom explores the two differently.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::vec::Vec;

use loom::model::Builder;
use loom::thread;

use super::geometry::PING_PONG_SLOTS;
use super::memory::{Credit, Short, Slot, SlotHead};
use super::ring::{Exact, Incoming, LanePlace, NextMessage, Orders, RingSender};
use super::sleep::Alarm;
use crate::sync::{Ordering, UnsafeCell, Word};

/// Declares a twin of [`Exact`] with one order relaxed.
macro_rules! mutant {
    ($($name:ident: $order:ident,)*) => {$(
        struct $name;
        impl Orders for $name {
            const $order: Ordering = Ordering::Relaxed;
        }
    )*};
}

mutant! {
    SendRelaxed: SEND,
    ReceiveRelaxed: RECEIVE,
    ReturnRelaxed: RETURN,
    CollectRelaxed: COLLECT,
}

/// A twin of [`Exact`] that uses the ping-pong slots at once.
struct Hasty;
impl Orders for Hasty {
    const PATIENT: bool = false;
}

/// Blocks of a modelled lane.
const BLOCKS: u32 = 2;

/// The contents of shared memory for one lane.
pub(super) struct ModelLane {
    slots: Vec<Slot>,
    credit: Credit,
    asleep: Word,
    blocks: Vec<UnsafeCell<u32>>,
    start: u32,
}

// SAFETY: the models' sender and receiver keep the protocol; that they do is what loom checks at
// each access.
unsafe impl Sync for ModelLane {}
// SAFETY: as above.
unsafe impl Send for ModelLane {}

impl ModelLane {
    fn new(slots: u32, start: u32) -> Self {
        Self::with_blocks(BLOCKS, slots, start)
    }

    pub(super) fn with_blocks(blocks: u32, slots: u32, start: u32) -> Self {
        Self {
            slots: (0..slots + PING_PONG_SLOTS)
                .map(|slot| Slot::new(if slot < slots { start } else { 0 }))
                .collect(),
            credit: Credit::new(start),
            asleep: Word::new(0),
            blocks: (0..blocks).map(|_| UnsafeCell::new(0)).collect(),
            start,
        }
    }

    fn place(&self) -> LanePlace {
        LanePlace {
            slots: self.slots.as_ptr(),
            credit: &raw const self.credit,
            asleep: &raw const self.asleep,
            size: self.slots.len() as u32 - PING_PONG_SLOTS,
            blocks: self.blocks.len() as u32,
            start: self.start,
        }
    }

    pub(super) fn outgoing<O: Orders>(&self) -> RingSender<O> {
        // SAFETY: the place outlives both threads, and each model has one sender.
        unsafe { RingSender::open(self.place()) }
    }

    pub(super) fn incoming<O: Orders>(&self) -> Incoming<O> {
        // SAFETY: the place outlives both threads, and each model has one receiver.
        unsafe { Incoming::open(self.place()) }
    }

    pub(super) fn asleep(&self) -> &Word {
        &self.asleep
    }

    pub(super) fn write_block(&self, block: u32, value: u32) {
        // SAFETY: loom checks that nothing else accesses the cell meanwhile.
        self.blocks[block as usize].with_mut(|cell| unsafe { *cell = value });
    }

    pub(super) fn read_block(&self, block: u32) -> u32 {
        // SAFETY: loom checks that nothing writes the cell meanwhile.
        self.blocks[block as usize].with(|cell| unsafe { *cell })
    }
}

/// The code of one side of a model.
type Role = fn(&ModelLane);

/// Explores two roles over one lane, the first on a spawned thread. At most four preemptions, which
/// is more than any of the mutants needs to fail.
fn explore_as(shared: fn() -> ModelLane, spawned: Role, own: Role) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        let lane = Arc::new(shared());
        let theirs = Arc::clone(&lane);
        let thread = thread::spawn(move || spawned(&theirs));
        own(&lane);
        thread.join().unwrap();
    });
}

/// Explores a sender and a receiver both ways round.
fn explore(shared: fn() -> ModelLane, send: Role, receive: Role) {
    explore_as(shared, send, receive);
    explore_as(shared, receive, send);
}

/// Returns true if a model fails both ways round, as a mutated twin must.
fn fails(shared: fn() -> ModelLane, send: Role, receive: Role) -> bool {
    [(send, receive), (receive, send)]
        .into_iter()
        .all(|(spawned, own)| catch_unwind(AssertUnwindSafe(|| explore_as(shared, spawned, own))).is_err())
}

/// Sends a numbered short message, waiting for room as long as it takes.
fn send_short<O: Orders>(end: &mut RingSender<O>, number: u32) {
    loop {
        if let Some(claim) = end.claim() {
            return claim.send(Short::new(&number.to_le_bytes(), &[]).unwrap(), 0, &Alarm::default());
        }
        end.refresh().unwrap();
        if !end.has_slot() {
            thread::yield_now();
        }
    }
}

/// Sends a number in a block, waiting for both block and slot.
fn send_large<O: Orders>(shared: &ModelLane, end: &mut RingSender<O>, number: u32) {
    loop {
        let block = end.free_block();
        match (block, end.claim()) {
            (Some(block), Some(claim)) => {
                shared.write_block(block, number);
                return claim.send_block(block, 4, 0, &Alarm::default());
            }
            _ => end.refresh().unwrap(),
        }
        if !end.has_slot() || end.free_block().is_none() {
            thread::yield_now();
        }
    }
}

/// The head of the next message if it has come, which must be that of this number.
fn look<O: Orders>(end: &Incoming<O>, number: u32) -> Option<SlotHead> {
    match end.next(64) {
        NextMessage::Empty => None,
        NextMessage::Short(message, head) => {
            assert_eq!(u32::from_le_bytes(message.try_into().unwrap()), number);
            Some(head)
        }
        NextMessage::Block(..) | NextMessage::Lent(..) => panic!("no blocks here"),
        NextMessage::Fault(what) => panic!("{what}"),
    }
}

mod ring {
    //! A ring of two slots: order, contents, reuse of slots after credit, wrap of positions.

    use super::*;

    const MESSAGES: u32 = 4;

    fn send<O: Orders>(shared: &ModelLane) {
        let mut end = shared.outgoing::<O>();
        for number in 0..MESSAGES {
            send_short(&mut end, number);
        }
    }

    fn receive<O: Orders>(shared: &ModelLane) {
        let mut end = shared.incoming::<O>();
        let mut number = 0;
        while number < MESSAGES {
            let Some(head) = look(&end, number) else {
                thread::yield_now();
                continue;
            };
            end.advance(head, None);
            end.settle();
            number += 1;
        }
    }

    #[test]
    fn is_a_queue() {
        explore(|| ModelLane::new(2, 0), send::<Exact>, receive::<Exact>);
    }

    #[test]
    fn is_a_queue_where_positions_wrap() {
        explore(|| ModelLane::new(2, u32::MAX - 1), send::<Exact>, receive::<Exact>);
    }

    #[test]
    fn needs_each_of_its_orders() {
        let shared = || ModelLane::new(2, 0);
        assert!(fails(shared, send::<SendRelaxed>, receive::<SendRelaxed>));
        assert!(fails(shared, send::<ReceiveRelaxed>, receive::<ReceiveRelaxed>));
        assert!(fails(shared, send::<ReturnRelaxed>, receive::<ReturnRelaxed>));
        assert!(fails(shared, send::<CollectRelaxed>, receive::<CollectRelaxed>));
    }

    #[test]
    fn needs_its_home_slots_free() {
        // More slots than ping-pong slots: the credit of the ring does not hold a hasty sender
        // back.
        assert!(fails(|| ModelLane::new(4, 0), send::<Hasty>, receive::<Hasty>));
    }
}

mod answers {
    //! Two lanes in which two ranks answer each other, every other time in a block: no credit line
    //! is read, and ping-pong slots and blocks are used again on the credit in heads alone.

    use super::*;

    const ROUNDS: u32 = 4;

    struct Both {
        there: ModelLane,
        back: ModelLane,
    }

    /// Sends the number of a round.
    fn say<O: Orders>(lane: &ModelLane, out: &mut RingSender<O>, into: &Incoming<O>, number: u32) {
        let block = out.free_block().expect("the answer has told that all are free");
        let claim = out.claim().expect("the answer has told of a free slot");
        if number % 2 == 0 {
            let bytes = number.to_le_bytes();
            let message = Short::new(&bytes, &[]).unwrap();
            return claim.send(message, into.consumed(), &Alarm::default());
        }
        assert_eq!(block, 0, "the one that was used last");
        lane.write_block(block, number);
        claim.send_block(block, 4, into.consumed(), &Alarm::default());
    }

    /// Waits for it.
    fn await_number<O: Orders>(
        lane: &ModelLane,
        out: &mut RingSender<O>,
        into: &mut Incoming<O>,
        number: u32,
    ) {
        let (head, block) = loop {
            match into.next(64) {
                NextMessage::Empty => thread::yield_now(),
                NextMessage::Short(message, head) => {
                    assert_eq!(u32::from_le_bytes(message.try_into().unwrap()), number);
                    break (head, None);
                }
                NextMessage::Block(block, 4, head) => {
                    assert_eq!(lane.read_block(block), number);
                    break (head, Some(block));
                }
                NextMessage::Block(..) | NextMessage::Lent(..) => panic!("another length"),
                NextMessage::Fault(what) => panic!("{what}"),
            }
        };
        out.take_credit(head).unwrap();
        into.advance(head, block);
        into.settle();
    }

    fn ask<O: Orders>(both: &Both) {
        let (mut out, mut into) = (both.there.outgoing::<O>(), both.back.incoming::<O>());
        for number in 0..ROUNDS {
            say(&both.there, &mut out, &into, number);
            await_number(&both.back, &mut out, &mut into, number);
        }
    }

    fn answer<O: Orders>(both: &Both) {
        let (mut out, mut into) = (both.back.outgoing::<O>(), both.there.incoming::<O>());
        for number in 0..ROUNDS {
            await_number(&both.there, &mut out, &mut into, number);
            say(&both.back, &mut out, &into, number);
        }
    }

    fn explore(spawned: fn(&Both), own: fn(&Both)) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(4);
        builder.check(move || {
            let both = Arc::new(Both { there: ModelLane::new(4, 0), back: ModelLane::new(4, 0) });
            let theirs = Arc::clone(&both);
            let thread = thread::spawn(move || spawned(&theirs));
            own(&both);
            thread.join().unwrap();
        });
    }

    #[test]
    fn stay_at_home() {
        explore(ask::<Exact>, answer::<Exact>);
        explore(answer::<Exact>, ask::<Exact>);
    }

    #[test]
    fn need_both_of_their_orders() {
        for (spawned, own) in [
            (ask::<SendRelaxed> as fn(&Both), answer::<SendRelaxed> as fn(&Both)),
            (answer::<SendRelaxed>, ask::<SendRelaxed>),
            (ask::<ReceiveRelaxed>, answer::<ReceiveRelaxed>),
            (answer::<ReceiveRelaxed>, ask::<ReceiveRelaxed>),
        ] {
            assert!(catch_unwind(AssertUnwindSafe(|| explore(spawned, own))).is_err());
        }
    }
}

mod blocks {
    //! Two blocks for three messages: a block comes back by the credit line. (A fourth waits for
    //! the other block in the same way, and takes a minute: with three each mutant is found.)

    use super::*;

    const MESSAGES: u32 = 3;

    fn send<O: Orders>(shared: &ModelLane) {
        let mut end = shared.outgoing::<O>();
        for number in 0..MESSAGES {
            send_large(shared, &mut end, number);
        }
    }

    /// The next message's block and its slot's head.
    fn await_block<O: Orders>(end: &mut Incoming<O>) -> (u32, SlotHead) {
        loop {
            match end.next(64) {
                NextMessage::Empty => thread::yield_now(),
                NextMessage::Block(block, 4, head) => return (block, head),
                NextMessage::Fault(what) => panic!("{what}"),
                _ => panic!("not what was sent"),
            }
        }
    }

    fn receive<O: Orders>(shared: &ModelLane) {
        let mut end = shared.incoming::<O>();
        for number in 0..MESSAGES {
            let (block, head) = await_block(&mut end);
            assert_eq!(shared.read_block(block), number);
            end.advance(head, Some(block));
            end.settle();
        }
    }

    fn shared() -> ModelLane {
        // Four slots, so that it is blocks, not slots, that are waited for.
        ModelLane::new(4, u32::MAX)
    }

    #[test]
    fn come_back() {
        explore(shared, send::<Exact>, receive::<Exact>);
    }

    #[test]
    fn need_each_of_their_orders() {
        assert!(fails(shared, send::<SendRelaxed>, receive::<SendRelaxed>));
        assert!(fails(shared, send::<ReceiveRelaxed>, receive::<ReceiveRelaxed>));
        assert!(fails(shared, send::<ReturnRelaxed>, receive::<ReturnRelaxed>));
        assert!(fails(shared, send::<CollectRelaxed>, receive::<CollectRelaxed>));
    }
}
