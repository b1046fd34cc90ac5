//! The mark of a segment: whose it is and how long, published once by a magic word that is written
//! last.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// First word of every segment: "ALDISEG" and the layout's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ALDISEG\x01");

/// The orders of a mark's accesses; the models relax them one by one.
pub trait MarkOrders {
    /// The store of the magic word.
    const PUBLISH: Ordering = Ordering::Release;
    /// The load of the magic word.
    const OPEN: Ordering = Ordering::Acquire;
}

/// The orders that ship.
pub struct Exact;
impl MarkOrders for Exact {}

/// The owner of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The job's random key.
    pub job: u64,
    /// The rank that owns the segment.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
}

/// The words of a mark.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mark {
    magic: AtomicU64,
    job: AtomicU64,
    /// Length of the whole segment, board included.
    bytes: AtomicU64,
    rank: AtomicU32,
    size: AtomicU32,
}

impl Mark {
    /// Writes what never changes; the magic word last. Once, by the maker of the segment.
    pub fn write<O: MarkOrders>(&self, label: Label, segment_bytes: u64) {
        self.job.store(label.job, Ordering::Relaxed);
        self.bytes.store(segment_bytes, Ordering::Relaxed);
        self.rank.store(label.rank, Ordering::Relaxed);
        self.size.store(label.size, Ordering::Relaxed);
        self.magic.store(MAGIC, O::PUBLISH);
    }

    /// The label and the length.
    ///
    /// # Errors
    /// The word that was found in the magic one's place.
    pub fn read<O: MarkOrders>(&self) -> Result<(Label, u64), u64> {
        let magic = self.magic.load(O::OPEN);
        if magic != MAGIC {
            return Err(magic);
        }
        let label = Label {
            job: self.job.load(Ordering::Relaxed),
            rank: self.rank.load(Ordering::Relaxed),
            size: self.size.load(Ordering::Relaxed),
        };
        Ok((label, self.bytes.load(Ordering::Relaxed)))
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
    impl MarkOrders for PublishRelaxed {
        const PUBLISH: Ordering = Ordering::Relaxed;
    }

    struct OpenRelaxed;
    impl MarkOrders for OpenRelaxed {
        const OPEN: Ordering = Ordering::Relaxed;
    }

    const LABEL: Label = Label { job: 9, rank: 1, size: 4 };

    /// Explores the maker of a segment and a rank that opens it: it is foreign still, or all of its
    /// mark is there.
    fn explore<O: MarkOrders>() {
        loom::model(|| {
            let mark = Arc::new(Mark::default());
            let theirs = Arc::clone(&mark);
            let thread = thread::spawn(move || theirs.write::<O>(LABEL, 64));
            assert!([Ok((LABEL, 64)), Err(0)].contains(&mark.read::<O>()));
            thread.join().unwrap();
            assert_eq!(mark.read::<Exact>(), Ok((LABEL, 64)));
        });
    }

    #[test]
    fn a_mark_is_whole_or_not_there() {
        explore::<Exact>();
    }

    #[test]
    fn a_mark_needs_both_of_its_orders() {
        for explore in [explore::<PublishRelaxed> as fn(), explore::<OpenRelaxed>] {
            assert!(catch_unwind(AssertUnwindSafe(explore)).is_err());
        }
    }
}
