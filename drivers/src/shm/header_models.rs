//! This module holds `unsafe` code: loom models of a header that its owner publishes while another
//! rank looks for it, with twins that must fail. What is behind the header is a cell, whose
//! accesses loom sees, and a control word.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use aldis_hal::{Cause, Epoch, PeerId};
use loom::model::Builder;
use loom::thread;

use super::geometry::{Geometry, Identity};
use super::header::{Exact, HeaderOrders, InboxHeader};
use crate::sync::{Ordering, UnsafeCell, Word};

struct PublishRelaxed;
impl HeaderOrders for PublishRelaxed {
    const PUBLISH: Ordering = Ordering::Relaxed;
}

struct OpenRelaxed;
impl HeaderOrders for OpenRelaxed {
    const OPEN: Ordering = Ordering::Relaxed;
}

const START: u32 = 7;

/// An inbox: its header, a control word and a block.
struct Inbox {
    header: InboxHeader,
    control: Word,
    block: UnsafeCell<u32>,
}

// SAFETY: loom finds it out if the cell is used by two threads at a time.
unsafe impl Sync for Inbox {}
// SAFETY: as above.
unsafe impl Send for Inbox {}

fn fields() -> (Geometry, Identity, u32) {
    let geometry = Geometry { peers: 3, slots: 4, lanes: 32, blocks: 2, block_bytes: 64, sets: 0 };
    let identity = Identity { job: 1 << 40 | 5, owner: PeerId(2), epoch: Epoch(9) };
    (geometry, identity, START)
}

impl Inbox {
    fn format<O: HeaderOrders>(&self) {
        let (geometry, identity, start) = fields();
        self.header.publish::<O>(geometry, identity, start, || {
            self.control.store(START, Ordering::Relaxed);
            // SAFETY: loom checks that nothing else accesses the cell meanwhile.
            self.block.with_mut(|cell| unsafe { *cell = START });
        });
    }

    /// Attaches as soon as there is a header, which is the owner's, with all that it has written.
    fn attach<O: HeaderOrders>(&self) {
        let found = loop {
            match self.header.read::<O>(usize::MAX) {
                Err(Cause::BadRegion) => thread::yield_now(),
                found => break found,
            }
        };
        assert_eq!(found, Ok(fields()));
        assert_eq!(self.control.load(Ordering::Relaxed), START);
        // SAFETY: loom checks that nothing writes the cell meanwhile.
        assert_eq!(self.block.with(|cell| unsafe { *cell }), START);
    }
}

/// Explores an owner and a rank that attaches, either of them on the spawned thread.
fn explore<O: HeaderOrders>() {
    for spawns_owner in [true, false] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let inbox =
                Inbox { header: InboxHeader::new(), control: Word::new(0), block: UnsafeCell::new(0) };
            let (inbox, roles) = (Arc::new(inbox), [Inbox::format::<O>, Inbox::attach::<O>]);
            let theirs = Arc::clone(&inbox);
            let thread = thread::spawn(move || roles[usize::from(!spawns_owner)](&theirs));
            roles[usize::from(spawns_owner)](&inbox);
            thread.join().unwrap();
        });
    }
}

#[test]
fn who_finds_the_header_finds_all_behind_it() {
    explore::<Exact>();
}

#[test]
fn a_header_needs_both_of_its_orders() {
    for explore in [explore::<PublishRelaxed> as fn(), explore::<OpenRelaxed>] {
        assert!(catch_unwind(AssertUnwindSafe(explore)).is_err());
    }
}
