//! Blocks in a slot, one behind the other, for takers who do not know how long all of them are:
//! before them stands a table with the end of each, 16 bits.

use aldis_kernel::hal::Cause;

use crate::op::copy;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 2;

/// Bytes of the table of so many blocks.
#[inline(always)]
pub(super) const fn bytes(blocks: u32) -> usize {
    ENTRY_BYTES.saturating_mul(blocks as usize)
}

/// Writes a slot.
pub(super) struct Packing<'l> {
    table: &'l mut [u8],
    rest: &'l mut [u8],
    end: usize,
}

impl<'l> Packing<'l> {
    /// Of which so many bytes are the table; none, and no ends are written.
    ///
    /// # Errors
    /// [`Cause::Stale`] for a shorter slot.
    #[inline]
    pub(super) fn new(slot: &'l mut [u8], table_bytes: usize) -> Result<Self, Cause> {
        let (table, rest) = slot.split_at_mut_checked(table_bytes).ok_or(Cause::Stale)?;
        Ok(Self { table, rest, end: 0 })
    }

    /// Goes on with the block at hand.
    ///
    /// # Errors
    /// [`Cause::Stale`] for more than the slot holds.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        let split = core::mem::take(&mut self.rest).split_at_mut_checked(bytes.len());
        let (into, after) = split.ok_or(Cause::Stale)?;
        (self.rest, self.end) = (after, self.end.saturating_add(bytes.len()));
        copy(into, bytes)
    }

    /// The block at hand ends here.
    #[inline]
    pub(super) fn end(&mut self) {
        if let Some((entry, after)) = core::mem::take(&mut self.table).split_first_chunk_mut() {
            (*entry, self.table) = ((self.end as u16).to_le_bytes(), after);
        }
    }
}

/// The block with this number in a slot, of which so many bytes are the table.
///
/// # Errors
/// [`Cause::Incompatible`] for one that is not inside.
#[inline(always)]
pub(super) fn block(slot: &[u8], table_bytes: usize, number: u32) -> Result<&[u8], Cause> {
    let (table, blocks) = slot.split_at_checked(table_bytes).ok_or(Cause::Incompatible)?;
    let end = |number: usize| {
        let entry = table.get(number.saturating_mul(ENTRY_BYTES)..)?.first_chunk()?;
        Some(u16::from_le_bytes(*entry) as usize)
    };
    let start = (number as usize).checked_sub(1).map_or(Some(0), end);
    let range = start.zip(end(number as usize)).map(|(start, end)| start..end);
    range.and_then(|range| blocks.get(range)).ok_or(Cause::Incompatible)
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use proptest::collection::vec as many;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(blocks in many(many(any::<u8>(), 0..40), 0..20)) {
            let table_bytes = bytes(blocks.len() as u32);
            let mut slot = vec![0xAA; table_bytes + blocks.iter().map(Vec::len).sum::<usize>()];
            let mut packing = Packing::new(&mut slot, table_bytes).unwrap();
            for one in &blocks {
                let (front, back) = one.split_at(one.len() / 2);
                packing.put(front).unwrap();
                packing.put(back).unwrap();
                packing.end();
            }
            prop_assert_eq!(packing.put(&[0]), Err(Cause::Stale));
            for (number, one) in blocks.iter().enumerate() {
                prop_assert_eq!(block(&slot, table_bytes, number as u32), Ok(&one[..]));
            }
        }

        #[test]
        fn a_slot_that_makes_no_sense_is_refused_or_gives_what_it_holds(
            slot in many(any::<u8>(), 0..80), blocks in 0_u32..50, number in any::<u32>(),
        ) {
            if let Ok(block) = block(&slot, bytes(blocks), number) {
                prop_assert!(number < blocks && block.len() <= slot.len());
            }
        }
    }
}
