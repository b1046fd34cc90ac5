//! A rank's card in memory that guests share: four cache lines, written by the rank alone, and read
//! whole or not at all.

use aldis_hal::Epoch;
use aldis_protocols::card::CARD_BYTES_MAX;
use aldis_protocols::reliable::Crc32c;
#[cfg(not(loom))]
use core::sync::atomic::fence;
#[cfg(loom)]
use loom::sync::atomic::fence;

use crate::sync::{Ordering, Word};

/// Words of a card. Few in the models, as each is one more to be explored.
const CARD_WORDS: usize = if cfg!(loom) { 2 } else { CARD_BYTES_MAX / 4 };

/// The orders of a card's accesses; the models relax or leave out one by one.
pub(crate) trait CardOrders {
    /// The store of the epoch: after the card, and after the inbox that it tells of.
    const ANNOUNCE: Ordering = Ordering::Release;
    /// The first load of the epoch.
    const LOOK: Ordering = Ordering::Acquire;
    /// A fence stands between the store that withdraws the card and those that change it.
    const WITHDRAWS_FIRST: bool = true;
    /// A fence stands between the loads of the card and the second one of the epoch.
    const LOOKS_LAST: bool = true;
    /// The checksum is compared.
    const SUMS: bool = true;
}

/// The orders that ship.
pub(crate) struct Exact;
impl CardOrders for Exact {}

/// The place of one rank's card.
#[repr(C, align(256))]
pub(crate) struct CardSlot {
    /// The rank's epoch once all below is there; zero before, and while it changes.
    epoch: Word,
    /// Of the job's key, the epoch, the length and the card.
    checksum: Word,
    job: [Word; 2],
    pub(crate) length: Word,
    pub(crate) card: [Word; CARD_WORDS],
}

impl CardSlot {
    /// A place of its own, outside shared memory, as it is in fresh memory.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        let word = || Word::new(0);
        Self {
            epoch: word(),
            checksum: word(),
            job: [word(), word()],
            length: word(),
            card: core::array::from_fn(|_| word()),
        }
    }

    /// Withdraws the card that is here, and puts another one in its place. By the rank, whose epoch
    /// is not zero; of the card no more than [`CARD_BYTES_MAX`] bytes count.
    pub(crate) fn write<O: CardOrders>(&self, job: u64, epoch: Epoch, card: &[u8]) {
        self.epoch.store(0, Ordering::Relaxed);
        if O::WITHDRAWS_FIRST {
            // A peer that sees one of the stores below sees that one as well.
            fence(Ordering::Release);
        }
        for (word, piece) in self.card.iter().zip(card.chunks(4)) {
            let mut bytes = [0; 4];
            bytes.iter_mut().zip(piece).for_each(|(byte, from)| *byte = *from);
            word.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
        let [low, high] = &self.job;
        low.store(job as u32, Ordering::Relaxed);
        high.store((job >> 32) as u32, Ordering::Relaxed);
        self.length.store(card.len() as u32, Ordering::Relaxed);
        self.checksum.store(sum(job, epoch, card), Ordering::Relaxed);
        self.epoch.store(epoch.0, O::ANNOUNCE);
    }

    /// The card, if it is there and of this job, and its epoch. It is copied to `buffer`.
    pub(crate) fn read<'b, O: CardOrders>(
        &self,
        job: u64,
        buffer: &'b mut [u8; CARD_BYTES_MAX],
    ) -> Option<(Epoch, &'b [u8])> {
        let epoch = Epoch(self.epoch.load(O::LOOK));
        let length = self.length.load(Ordering::Relaxed) as usize;
        let checksum = self.checksum.load(Ordering::Relaxed);
        let [low, high] = self.job.each_ref().map(|word| u64::from(word.load(Ordering::Relaxed)));
        for (bytes, word) in buffer.chunks_mut(4).zip(&self.card) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        if O::LOOKS_LAST {
            fence(Ordering::Acquire);
        }
        let steady = self.epoch.load(Ordering::Relaxed) == epoch.0;
        let card = buffer.get(..length)?;
        let whole = steady && epoch != Epoch(0) && (!O::SUMS || checksum == sum(job, epoch, card));
        (whole && low | high << 32 == job).then_some((epoch, card))
    }
}

/// The checksum of a card.
fn sum(job: u64, epoch: Epoch, card: &[u8]) -> u32 {
    let length = card.len() as u32;
    let head = Crc32c::new().update(&job.to_le_bytes()).update(&epoch.0.to_le_bytes());
    head.update(&length.to_le_bytes()).update(card).finish()
}

#[cfg(test)]
#[cfg(loom)]
mod models {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::sync::Arc;

    use loom::model::Builder;
    use loom::thread;

    use super::*;

    const JOB: u64 = 5;

    /// Declares orders that differ from those that ship, all without the checksum, which would hide
    /// what the others miss.
    macro_rules! mutant {
        ($($name:ident { $($differs:item)* })*) => {$(
            struct $name;
            impl CardOrders for $name {
                const SUMS: bool = false;
                $($differs)*
            }
        )*};
    }

    mutant! {
        Unsummed {}
        AnnounceRelaxed { const ANNOUNCE: Ordering = Ordering::Relaxed; }
        LookRelaxed { const LOOK: Ordering = Ordering::Relaxed; }
        ChangesFirst { const WITHDRAWS_FIRST: bool = false; }
        LooksOnce { const LOOKS_LAST: bool = false; }
    }

    /// A card's place, and a word of the inbox that it tells of.
    struct Guest {
        place: CardSlot,
        inbox: Word,
    }

    impl Guest {
        /// A place in which there has been the card of an earlier life, if that is asked for.
        fn new(lived: bool) -> Self {
            let guest = Self { place: CardSlot::new(), inbox: Word::new(0) };
            if lived {
                guest.announce::<Exact>(1);
            }
            guest
        }

        /// Formats the inbox, and puts the card of that life there.
        fn announce<O: CardOrders>(&self, life: u32) {
            self.inbox.store(life, Ordering::Relaxed);
            self.place.write::<O>(JOB, Epoch(life), &[life as u8; 8]);
        }

        /// Whatever card is found is that of one life, and its inbox is there.
        fn look<O: CardOrders>(&self) {
            let mut buffer = [0; CARD_BYTES_MAX];
            if let Some((epoch, card)) = self.place.read::<O>(JOB, &mut buffer) {
                assert!((1..=2).contains(&epoch.0));
                assert_eq!(card, [epoch.0 as u8; 8]);
                assert!(self.inbox.load(Ordering::Relaxed) >= epoch.0);
            }
        }
    }

    /// Explores a guest that announces itself and one that looks for it, either of them on the
    /// spawned thread.
    fn explore<O: CardOrders>() {
        for (lived, spawns_owner) in [(false, true), (false, false), (true, true), (true, false)] {
            let mut builder = Builder::new();
            builder.preemption_bound = Some(2);
            builder.check(move || {
                let guest = Arc::new(Guest::new(lived));
                let theirs = Arc::clone(&guest);
                let thread =
                    thread::spawn(
                        move || {
                            if spawns_owner { theirs.announce::<O>(2) } else { theirs.look::<O>() }
                        },
                    );
                if spawns_owner {
                    guest.look::<O>()
                } else {
                    guest.announce::<O>(2)
                }
                thread.join().unwrap();
            });
        }
    }

    #[test]
    fn a_card_is_read_whole_and_its_inbox_is_there() {
        explore::<Exact>();
        explore::<Unsummed>();
    }

    #[test]
    fn a_card_needs_each_of_its_orders() {
        let mutants: [(fn(), &str); 4] = [
            (explore::<AnnounceRelaxed>, "announce"),
            (explore::<LookRelaxed>, "look"),
            (explore::<ChangesFirst>, "withdraw"),
            (explore::<LooksOnce>, "look last"),
        ];
        for (explore, what) in mutants {
            assert!(catch_unwind(AssertUnwindSafe(explore)).is_err(), "nothing shows `{what}`");
        }
    }
}
