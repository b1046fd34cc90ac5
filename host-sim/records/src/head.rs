//! The head of a stand: how a rank's memory is reached by others, published once.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The orders of a head's accesses; the models relax them one by one.
pub trait HeadOrders {
    /// The store of the word, after all else.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of the word.
    const OPEN: Ordering = Ordering::Acquire;
}

/// The orders that ship.
pub struct Exact;
impl HeadOrders for Exact {}

/// The facts that a rank publishes to the others about itself, in front of its table.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Head {
    /// The rank's process.
    pub pid: AtomicU32,
    /// Set to one if a rank of the node takes no part in barriers: in the head of the node's first
    /// rank, by any.
    refused: AtomicU32,
    /// The address of a word of its own memory.
    address: AtomicU64,
    /// The value of that word; zero as long as nothing is published.
    pub word: AtomicU64,
    /// The address at which its arena begins in its own memory; zero if it has none.
    arena: AtomicU64,
}

/// The content of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// The rank's process.
    pub pid: u32,
    /// The address of a word of its memory.
    pub address: u64,
    /// The value of that word; zero as long as nothing is told.
    pub word: u64,
    /// The address at which its arena begins; zero if it has none.
    pub arena: u64,
}

impl Head {
    /// Tells it. Once, by the rank.
    pub fn tell<O: HeadOrders>(&self, told: Told) {
        self.pid.store(told.pid, Ordering::Relaxed);
        self.arena.store(told.arena, Ordering::Relaxed);
        self.address.store(told.address, Ordering::Relaxed);
        self.word.store(told.word, O::PUBLISH);
    }

    /// Reads the content that has been published.
    pub fn read<O: HeadOrders>(&self) -> Told {
        let word = self.word.load(O::OPEN);
        Told {
            word,
            pid: self.pid.load(Ordering::Relaxed),
            address: self.address.load(Ordering::Relaxed),
            arena: self.arena.load(Ordering::Relaxed),
        }
    }

    /// Says that a rank of the node takes no part in the barriers of ranks that fall asleep: in the
    /// head of the node's first rank, before the others are told that the rank is there.
    pub fn refuse_barriers(&self) {
        self.refused.store(1, Ordering::Relaxed);
    }

    /// Returns true if no rank of the node has said so: of the head of the node's first rank, once
    /// all are there.
    pub fn has_barriers(&self) -> bool {
        self.refused.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
#[cfg(loom)]
mod models {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::sync::Arc;

    use loom::thread;

    use super::*;

    struct PublishRelaxed;
    impl HeadOrders for PublishRelaxed {
        const PUBLISH: Ordering = Ordering::Relaxed;
    }

    struct OpenRelaxed;
    impl HeadOrders for OpenRelaxed {
        const OPEN: Ordering = Ordering::Relaxed;
    }

    const TOLD: Told = Told { pid: 7, address: 1 << 40, word: 3, arena: 4096 };

    /// Explores a rank that tells of itself and one that asks: as soon as there is a word, the rest
    /// is there.
    fn explore<O: HeadOrders>() {
        loom::model(|| {
            let head = Arc::new(Head::default());
            let theirs = Arc::clone(&head);
            let thread = thread::spawn(move || theirs.tell::<O>(TOLD));
            let found = head.read::<O>();
            assert!(found == TOLD || found.word == 0);
            thread.join().unwrap();
            assert_eq!(head.read::<Exact>(), TOLD);
        });
    }

    #[test]
    fn a_published_process_comes_with_its_arena() {
        explore::<Exact>();
    }

    #[test]
    fn a_head_needs_both_of_its_orders() {
        for explore in [explore::<PublishRelaxed> as fn(), explore::<OpenRelaxed>] {
            assert!(catch_unwind(AssertUnwindSafe(explore)).is_err());
        }
    }
}
