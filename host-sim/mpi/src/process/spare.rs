//! This module holds `unsafe` code: memory of the library by its address; state of the process.
//!
//! Memory of the library's own that operations work on. What is given back is kept for the next
//! operation: memory that is got anew for each is cleared for each, and that of long data is mapped
//! for each.

use core::alloc::Layout;
use core::cell::RefCell;
use std::alloc::alloc_zeroed;

use zerocopy::IntoBytes;

use crate::abi::MPI_ERR_NO_MEM;
use crate::fault::CallFault;
use crate::ffi::{Address, Region};
use crate::process::Owned;

/// Pieces that are kept, and the words of the longest.
const KEPT: usize = 8;
const WORDS_KEPT: usize = 1 << 20;

// SAFETY: only calls of MPI use it.
static SPARE: Owned<RefCell<Vec<Vec<u64>>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Some bytes, aligned as any element is, whose contents are not known; none, unless asked for.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    words: Vec<u64>,
    len: usize,
}

impl Spare {
    /// So many bytes: the shortest kept piece that has them, else the longest, made longer. No
    /// bytes take no piece.
    ///
    /// # Errors
    /// The system has not so many.
    pub(crate) fn new(len: usize) -> Result<Self, CallFault> {
        if len == 0 {
            return Ok(Self { words: Vec::new(), len });
        }
        let need = len.div_ceil(size_of::<u64>());
        let mut spare = SPARE.borrow_mut();
        let enough = |words: &Vec<u64>| (words.len() < need, words.len().abs_diff(need));
        let best = (0..spare.len()).min_by_key(|&at| spare.get(at).map(enough));
        let mut words = best.map(|at| spare.swap_remove(at)).unwrap_or_default();
        if words.len() < need {
            // Nothing of the old words is wanted: they need not be moved.
            words = zeroed(need).ok_or_else(|| no_memory(len))?;
        }
        Ok(Self { words, len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.words.as_mut_bytes().get_mut(..self.len).unwrap_or_default()
    }

    /// The bytes as a region: they are there, and stay where they are, until this is dropped.
    pub(crate) fn region(&mut self) -> Region {
        let len = self.bytes().len();
        let start = Address::of(self.words.as_mut_ptr().expose_provenance());
        Region::new(start, len)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.words.as_bytes().get(..self.len).unwrap_or_default()
    }
}

/// Bytes of a short operation beside it, for which no kept piece is looked for.
const SHORT_WORDS: usize = 8;

/// Memory of an operation that is over when its call returns: on the stack, if it is little.
#[derive(Debug, Default)]
pub(crate) struct ShortSpare {
    few: [u64; SHORT_WORDS],
    spare: Option<Spare>,
}

impl ShortSpare {
    /// So many bytes, aligned as any element is, whose contents are not known.
    ///
    /// # Errors
    /// The system has not so many.
    #[inline(always)]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&mut [u8], CallFault> {
        if len <= size_of_val(&self.few) {
            return Ok(self.few.as_mut_bytes().get_mut(..len).unwrap_or_default());
        }
        Ok(self.spare.insert(Spare::new(len)?).bytes())
    }
}

#[cold]
fn no_memory(bytes: usize) -> CallFault {
    CallFault::new(MPI_ERR_NO_MEM, format!("the system has no memory of {bytes} bytes"))
}

/// Words that are zero, which the system clears; `None` if it has not so many.
fn zeroed(words: usize) -> Option<Vec<u64>> {
    let layout = Layout::array::<u64>(words).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) }.cast::<u64>();
    // SAFETY: it is of the allocator that vectors are of, of this layout, and all zero, which is
    // what a word may be.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, words, words) })
}

/// Memory for so many bytes, and none in it.
fn room<T>(count: usize) -> Result<Vec<T>, CallFault> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))?;
    Ok(room)
}

/// A copy of bytes.
///
/// # Errors
/// The system has no memory for it.
pub(crate) fn copy(bytes: &[u8]) -> Result<Vec<u8>, CallFault> {
    let mut copy = room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// So many zeroes.
///
/// # Errors
/// The system has no memory for them.
pub(crate) fn cleared(len: usize) -> Result<Vec<u8>, CallFault> {
    let mut cleared = room(len)?;
    cleared.resize(len, 0);
    Ok(cleared)
}

impl Drop for Spare {
    fn drop(&mut self) {
        let words = core::mem::take(&mut self.words);
        if !words.is_empty()
            && words.len() <= WORDS_KEPT
            && let Ok(mut spare) = SPARE.try_borrow_mut()
            && spare.len() < KEPT
        {
            spare.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Alone;

    #[test]
    fn more_than_there_is_is_refused() {
        let _alone = Alone::new();
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 48] {
            assert!(Spare::new(bytes).is_err(), "{bytes}");
        }
        assert!(cleared(1 << 48).is_err());
    }

    #[test]
    fn few_bytes_stand_beside_the_operation_and_more_in_a_piece() {
        let _alone = Alone::new();
        for bytes in [1, 8, 64, 65, 1000] {
            let mut short = ShortSpare::default();
            let own = core::ptr::from_ref(&short).addr();
            let own = own..own + size_of_val(&short);
            let given = short.bytes(bytes).unwrap();
            assert_eq!((given.len(), given.as_ptr().addr() % 8), (bytes, 0));
            assert_eq!(own.contains(&given.as_ptr().addr()), bytes <= 64, "{bytes}");
        }
        assert!(ShortSpare::default().bytes(0).unwrap().is_empty());
        assert!(ShortSpare::default().bytes(usize::MAX).is_err());
    }

    #[test]
    fn what_is_given_back_is_taken_again() {
        let _alone = Alone::new();
        let place = |spare: &mut Spare| spare.bytes().as_ptr().addr();
        let (mut short, mut long) = (Spare::new(10).unwrap(), Spare::new(1000).unwrap());
        let places = [place(&mut short), place(&mut long)];
        assert_eq!((short.bytes().len(), long.as_bytes().len(), places.map(|at| at % 8)), (10, 1000, [0, 0]));
        drop((short, long));
        let (mut long, mut short) = (Spare::new(900).unwrap(), Spare::new(16).unwrap());
        assert_eq!([place(&mut short), place(&mut long)], places);
        assert!(Spare::new(0).unwrap().bytes().is_empty());
        // And no more is kept than is bounded.
        drop((0..2 * KEPT).map(|_| Spare::new(8).unwrap()).collect::<Vec<_>>());
        drop(Spare::new((WORDS_KEPT + 1) * 8).unwrap());
        let spare = SPARE.borrow();
        assert!(spare.len() <= KEPT && spare.iter().all(|words| words.len() <= WORDS_KEPT));
    }
}
