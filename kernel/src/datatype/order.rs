//! The words of a table's types: in the order in which they lie, so that the gaps between them are
//! closed in one pass.
//!
//! A type is written behind all others, and leaves a gap when it is taken back. Gaps are closed
//! once they are more than what is in use, so each word of a type that goes pays for at most one
//! that is moved; or when nothing else is left.

use super::Types;
use crate::tables::list::OptionalIndex;

/// The places of the words of all types. All-zero is nowhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordOrder {
    first: OptionalIndex,
    last: OptionalIndex,
    /// The end of the last one's words.
    pub(super) end: u32,
    /// Words of all types.
    pub(super) used: u32,
    /// Words that have been moved, and types that were looked at for it.
    #[cfg(test)]
    pub(super) moved: u64,
}

/// Gaps that are not worth closing.
const GAPS: u32 = 64;

impl WordOrder {
    pub(super) const EMPTY: Self = Self {
        first: OptionalIndex::NONE,
        last: OptionalIndex::NONE,
        end: 0,
        used: 0,
        #[cfg(test)]
        moved: 0,
    };

    /// Words between types.
    pub(super) const fn gaps(&self) -> u32 {
        self.end.wrapping_sub(self.used)
    }

    /// Returns true if closing the gaps costs less than what has been freed since they were closed.
    pub(super) const fn has_many_gaps(&self) -> bool {
        self.gaps() > self.used.saturating_add(GAPS)
    }
}

impl Types<'_> {
    /// Puts a type that was written there behind all others.
    pub(super) fn append(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize) else { return };
        let (before, words) = (self.heads.order.last, entry.words());
        (entry.before, entry.after) = (before, OptionalIndex::NONE);
        let order = &mut self.heads.order;
        order.last = OptionalIndex::to(slot);
        order.end = order.end.wrapping_add(words);
        order.used = order.used.wrapping_add(words);
        self.relink(before, None, Some(OptionalIndex::to(slot)));
    }

    /// Takes a type's words back. What is written in them stays.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(entry) = self.entries.get(slot as usize) else { return };
        let (before, after, words) = (entry.before, entry.after, entry.words());
        self.heads.order.used = self.heads.order.used.wrapping_sub(words);
        self.relink(before, None, Some(after));
        self.relink(after, Some(before), None);
        if after == OptionalIndex::NONE {
            let last = before.get().and_then(|slot| self.entries.get(slot as usize));
            self.heads.order.last = before;
            self.heads.order.end = last.map_or(0, |last| last.start.wrapping_add(last.words()));
        }
    }

    /// Tells a type, or what stands for none, who is before and behind it now.
    fn relink(&mut self, whom: OptionalIndex, before: Option<OptionalIndex>, after: Option<OptionalIndex>) {
        match whom.get().and_then(|slot| self.entries.get_mut(slot as usize)) {
            Some(entry) => {
                entry.before = before.unwrap_or(entry.before);
                entry.after = after.unwrap_or(entry.after);
            }
            None => self.heads.order.first = after.unwrap_or(self.heads.order.first),
        }
    }

    /// Moves the words of all types together.
    pub(super) fn close_gaps(&mut self) {
        let (mut next, mut end) = (self.heads.order.first, 0usize);
        while let Some(entry) = next.get().and_then(|slot| self.entries.get_mut(slot as usize)) {
            let (start, len) = (entry.start as usize, entry.words() as usize);
            if let Some(behind) = start.checked_add(len).filter(|behind| *behind <= self.words.len())
                && end <= start
            {
                self.words.copy_within(start..behind, end);
            }
            entry.start = end as u32;
            end = end.wrapping_add(len);
            next = entry.after;
            #[cfg(test)]
            {
                self.heads.order.moved += len as u64 + 1;
            }
        }
        self.heads.order.end = end as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use crate::datatype::{Basic, Datatype, IndexedBlock, TypeTable, Types};

    fn blocks(count: usize) -> Vec<IndexedBlock> {
        (0..count).map(|index| IndexedBlock { length: 1, displacement: (index * index) as i64 }).collect()
    }

    /// Returns the number of words that were moved while `types` were made and freed in this order:
    /// so many of them live at a time.
    fn moved(types: &mut Types<'_>, alive: usize, newest_first: bool) -> u64 {
        let blocks = blocks(20);
        let mut made = VecDeque::new();
        for round in 0..10_000 + alive {
            if round < 10_000 {
                made.push_back(types.indexed(&blocks[..1 + round % 20], Basic::U32).unwrap());
            }
            if round >= alive {
                let freed = if newest_first { made.pop_back() } else { made.pop_front() };
                types.free(freed.unwrap()).unwrap();
            }
        }
        assert_eq!(types.room(), (types.entries.len(), types.words.len()), "all came back");
        types.heads.order.moved
    }

    /// Ten thousand types of 1 to 20 blocks have 660,000 words: whatever lives beside them, each
    /// pays for itself.
    #[test]
    fn freeing_a_type_costs_its_own_size() {
        for alive in [0, 1, 20, 300] {
            for newest_first in [true, false] {
                let mut table = Box::new(TypeTable::<512, 50_000>::new());
                let moved = moved(&mut table.types(), alive, newest_first);
                assert!(
                    moved <= 800_000,
                    "{alive} alive, the newest first: {newest_first}: {moved} words moved"
                );
                assert!(!newest_first || moved == 0, "nothing is moved for those that go as they came");
            }
        }
    }

    #[test]
    fn what_was_never_used_is_not_touched() {
        let mut table = Box::new(TypeTable::<512, 50_000>::new());
        let mut types = table.types();
        moved(&mut types, 10, false);
        assert!(types.heads.order.end == 0 && types.heads.order.used == 0);
        assert!(types.words[20_000..].iter().all(|word| *word == 0), "{:?}", types.heads);
        assert!(types.entries[20..].iter().all(|entry| entry.words() == 0));
    }

    /// The last word of a table can be had, however what is free is strewn.
    #[test]
    fn gaps_are_closed_when_nothing_else_is_left() {
        let mut table = TypeTable::<8, 32>::new();
        let mut types = table.types();
        let made: [Datatype; 5] = core::array::from_fn(|_| types.contiguous(3, Basic::U8).unwrap());
        assert_eq!(types.room(), (3, 2));
        types.free(made[1]).unwrap();
        types.free(made[3]).unwrap();
        assert_eq!(types.room(), (5, 14));
        // Of nine words, where two lie in one piece.
        let large = types.indexed(&blocks(2), Basic::U8).unwrap();
        assert_eq!(types.room(), (4, 5));
        assert_eq!(types.size(made[4]), Ok(3));
        assert_eq!((types.size(large), types.size(made[1]).is_err()), (Ok(2), true));
    }

    proptest! {
        /// Whatever is made of what, and freed: all words come back, and what lives says what it
        /// was made of.
        #[test]
        fn words_stay_with_their_types(moves in proptest::collection::vec((0usize..4, 0usize..64, 1usize..9), 1..200)) {
            let mut table = TypeTable::<64, 900>::new();
            let mut types = table.types();
            let mut live: Vec<(Datatype, u64)> = Vec::new();
            for (kind, which, count) in moves {
                let of = live.get(which.checked_rem(live.len()).unwrap_or(0)).copied();
                let (part, size) = of.unwrap_or((Basic::U8.into(), 1));
                let made = match kind {
                    0 => types.indexed(&blocks(count), Basic::U8).map(|made| (made, count as u64)),
                    1 => types.contiguous(count as u64, part).map(|made| (made, size.saturating_mul(count as u64))),
                    _ if live.is_empty() => continue,
                    _ => {
                        let (gone, _) = live.remove(which % live.len());
                        types.free(gone).unwrap();
                        continue;
                    }
                };
                live.extend(made);
                for (datatype, size) in &live {
                    prop_assert_eq!(types.size(*datatype), Ok(*size));
                }
            }
            for (datatype, _) in live {
                types.free(datatype).unwrap();
            }
            prop_assert_eq!(types.room(), (64, 900));
        }
    }
}
