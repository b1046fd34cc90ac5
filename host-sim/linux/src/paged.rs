//! Memory that begins with a page.
//!
//! Where it lies decides how fast the system copies to it and from it: what is sent over a socket
//! begins with a page there, and memory of the heap may lie just [behind](aldis_hal::copy) that.

use core::fmt;
use core::ops::{Deref, DerefMut, Range};

const PAGE_BYTES: usize = 4096;

/// Elements on the heap, the first of which begins a page. Numbers: their size is a power of two,
/// and they are aligned to it.
pub struct Paged<T = u8> {
    /// The elements, and what is before and behind them: a page.
    memory: Box<[T]>,
}

impl<T: Copy + Default> Paged<T> {
    /// So many elements of the default value. Zeros are taken from the system as they are first
    /// used.
    pub fn new(len: usize) -> Self {
        Self { memory: vec![T::default(); len + Self::SLACK].into_boxed_slice() }
    }
}

impl<T> Paged<T> {
    const SLACK: usize = PAGE_BYTES / size_of::<T>();

    #[inline]
    fn range(&self) -> Range<usize> {
        let start = self.memory.as_ptr().addr().wrapping_neg() % PAGE_BYTES / size_of::<T>();
        start..start + self.memory.len() - Self::SLACK
    }
}

impl<T> Deref for Paged<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.memory.get(self.range()).unwrap_or_default()
    }
}

impl<T> DerefMut for Paged<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        let range = self.range();
        self.memory.get_mut(range).unwrap_or_default()
    }
}

impl<T> fmt::Debug for Paged<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paged").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_there_from_a_page_on() {
        for len in [0, 1, 100, 4096, 100_000] {
            let mut memory: Paged = Paged::new(len);
            assert_eq!((memory.len(), memory.as_ptr().addr() % PAGE_BYTES), (len, 0));
            memory.fill(7);
            assert!(memory.iter().all(|&byte| byte == 7));
            let numbers: Paged<f64> = Paged::new(len);
            assert_eq!((numbers.len(), numbers.as_ptr().addr() % PAGE_BYTES), (len, 0));
        }
    }
}
