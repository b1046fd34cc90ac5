//! Loom models of answers in the block of what they answer, while their receiver sends on and takes
//! credit for more blocks: every answer is read as it was written. The twin that does not heed
//! answers before it takes credit must fail, and so must those with an order relaxed.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use super::memory::Short;
use super::models::ModelLane;
use super::ring::{Exact, Incoming, NextMessage, Orders, RingSender};
use super::sleep::Alarm;
use crate::sync::Ordering;

/// A twin that takes credit which is ahead of answers.
struct Careless;
impl Orders for Careless {
    const HEEDS: bool = false;
}

struct SendRelaxed;
impl Orders for SendRelaxed {
    const SEND: Ordering = Ordering::Relaxed;
}

struct ReceiveRelaxed;
impl Orders for ReceiveRelaxed {
    const RECEIVE: Ordering = Ordering::Relaxed;
}

struct ReturnRelaxed;
impl Orders for ReturnRelaxed {
    const RETURN: Ordering = Ordering::Relaxed;
}

struct CollectRelaxed;
impl Orders for CollectRelaxed {
    const COLLECT: Ordering = Ordering::Relaxed;
}

/// The question, the message sent behind it, and the answer.
const QUESTION: u32 = 1;
const MORE: u32 = 2;
const ANSWER: u32 = 3;

struct BothAnswered {
    there: ModelLane,
    back: ModelLane,
}

impl BothAnswered {
    /// Lanes whose credit line is written after two messages.
    fn new() -> Self {
        let lane = || ModelLane::with_blocks(8, 8, 0);
        Self { there: lane(), back: lane() }
    }
}

/// Sends a number in the first block, if that is free.
fn send<O: Orders>(lane: &ModelLane, out: &mut RingSender<O>, number: u32) -> bool {
    let Some(block @ 0) = out.free_block() else { return false };
    let claim = out.claim().expect("there are more slots than messages");
    lane.write_block(block, number);
    claim.send_block(block, 4, 0, &Alarm::default());
    true
}

/// Takes the answer in, if it has come.
fn hears<O: Orders>(both: &BothAnswered, out: &mut RingSender<O>, into: &mut Incoming<O>) -> bool {
    let (block, head) = match into.next(64) {
        NextMessage::Empty => return false,
        NextMessage::Lent(block, 4, head) => (block, head),
        _ => panic!("not an answer"),
    };
    out.answered();
    assert_eq!(both.there.read_block(block), ANSWER, "it has been written over");
    out.take_credit(head).unwrap();
    into.advance(head, None);
    into.settle();
    true
}

/// Asks in the first block, sends a short message behind it, and uses the first block again as soon
/// as it seems free.
fn ask<O: Orders>(both: &BothAnswered) {
    let (mut out, mut into) = (both.there.outgoing::<O>(), both.back.incoming::<O>());
    assert!(send(&both.there, &mut out, QUESTION));
    out.claim().unwrap().send(Short::new(&MORE.to_le_bytes(), &[]).unwrap(), 0, &Alarm::default());
    let (mut sent, mut heard) = (false, false);
    while !(sent && heard) {
        if !sent {
            out.refresh().unwrap();
            sent = send(&both.there, &mut out, MORE);
        }
        heard = heard || hears(both, &mut out, &mut into);
        if !(sent && heard) {
            thread::yield_now();
        }
    }
}

/// Answers the question in its block, then receives what is behind it, and returns both by the
/// credit line.
fn answer<O: Orders>(both: &BothAnswered) {
    let (mut out, mut into) = (both.back.outgoing::<O>(), both.there.incoming::<O>());
    for number in 0..3 {
        let (block, head) = loop {
            match into.next(64) {
                NextMessage::Empty => thread::yield_now(),
                NextMessage::Short(_, head) => break (None, head),
                NextMessage::Block(block, 4, head) => break (Some(block), head),
                _ => panic!("not what was sent"),
            }
        };
        if let Some(block) = block {
            let expected = if number == 0 { QUESTION } else { MORE };
            assert_eq!(both.there.read_block(block), expected);
            into.hold(block, out.position());
        }
        into.advance(head, block);
        into.settle();
        if number == 0 {
            let held = into.held(out.position()).expect("nothing has told of it");
            both.there.write_block(held, ANSWER);
            into.lend();
            let consumed = into.consumed();
            out.claim().unwrap().send_lent(held, 4, consumed, &Alarm::default());
            assert_eq!(into.held(out.position()), None, "one answer a block");
        }
    }
}

fn explore(spawned: fn(&BothAnswered), own: fn(&BothAnswered)) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let both = Arc::new(BothAnswered::new());
        let theirs = Arc::clone(&both);
        let thread = thread::spawn(move || spawned(&theirs));
        own(&both);
        thread.join().unwrap();
    });
}

/// Returns true if a model fails both ways round.
fn fails<O: Orders>() -> bool {
    [(ask::<O> as fn(&BothAnswered), answer::<O> as fn(&BothAnswered)), (answer::<O>, ask::<O>)]
        .into_iter()
        .all(|(spawned, own)| catch_unwind(AssertUnwindSafe(|| explore(spawned, own))).is_err())
}

#[test]
fn answers_are_read_as_they_were_written() {
    explore(ask::<Exact>, answer::<Exact>);
    explore(answer::<Exact>, ask::<Exact>);
}

#[test]
fn answers_must_be_heeded_and_need_each_order() {
    assert!(fails::<Careless>());
    assert!(fails::<SendRelaxed>());
    assert!(fails::<ReceiveRelaxed>());
    assert!(fails::<ReturnRelaxed>());
    assert!(fails::<CollectRelaxed>());
}
