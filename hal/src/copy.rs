//! This module holds `unsafe` code: copying bytes without a way to panic.
//!
//! Long copies on x86-64 are string moves: glibc's `memcpy` takes `rep movsb` from 2,112 bytes on
//! where the processor says that it is fast, and Linux takes it for all that its calls move. On AMD
//! Zen 3 and 4 that is slow in one case: where the target begins less than a cache line [behind]
//! the source, as seen within pages of 4 KiB. Then it moves 2.2 GB/s instead of 40 (EPYC 9004,
//! second-level cache, glibc 2.36; glibc bug 30994). Pieces of a heap lie so often: 64 KiB and 16
//! bytes apart.

/// Bytes that a `memcpy` moves without a string move: fewer than 2,112.
const PIECE_BYTES: usize = 2048;

/// The bytes behind the source, within pages, below which a target makes a string move slow: one of
/// up to a page, and a longer one or one of Linux's.
const SLOW_BYTES: usize = 64;
const SLOW_LONG_BYTES: usize = 32;

/// By how many bytes an address is behind another within pages of 4 KiB.
#[inline]
pub const fn behind(to: usize, from: usize) -> usize {
    to.wrapping_sub(from) % 4096
}

/// Returns true if Linux is slow to move bytes between these addresses of any processes.
#[inline]
pub const fn is_slow_in_linux(to: usize, from: usize) -> bool {
    is_slow(to, from, SLOW_LONG_BYTES)
}

/// Returns true if the target is behind the source by less than so many bytes, and string moves may
/// be taken.
#[inline]
const fn is_slow(to: usize, from: usize, below: usize) -> bool {
    cfg!(target_arch = "x86_64") && behind(to, from).wrapping_sub(1) < below - 1
}

/// Copies as much as both have, which is all of it wherever this is called.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    let count = to.len().min(from.len());
    // SAFETY: neither is shorter, and what is borrowed exclusively overlaps with nothing.
    unsafe { copy_raw(from.as_ptr(), to.as_mut_ptr(), count) }
}

/// Copies `count` bytes.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of so many bytes, and they are apart.
#[inline]
pub unsafe fn copy_raw(from: *const u8, to: *mut u8, count: usize) {
    if count > PIECE_BYTES && is_slow(to.addr(), from.addr(), SLOW_BYTES) {
        // SAFETY: as the caller vouches.
        return unsafe { copy_in_pieces(from, to, count) };
    }
    // SAFETY: as the caller vouches.
    unsafe { from.copy_to_nonoverlapping(to, count) }
}

/// Copies `count` bytes in pieces for which no string move is used.
///
/// # Safety
/// As of [`copy_raw`].
#[cold]
#[inline(never)]
unsafe fn copy_in_pieces(from: *const u8, to: *mut u8, count: usize) {
    for done in (0..count).step_by(PIECE_BYTES) {
        // SAFETY: each piece is inside of what the caller vouches for.
        unsafe { from.add(done).copy_to_nonoverlapping(to.add(done), PIECE_BYTES.min(count - done)) }
    }
}

/// Bytes from which on [`publish`] goes past the caches.
const PAST_CACHES_BYTES_MIN: usize = 8192;

/// Copies like [`copy`] into memory that another core has read and is to read again. Many bytes go
/// past the caches where the processor can: an ordinary store first takes its line back from the
/// reader, which costs a journey of that line for each, and its contents are of no use.
///
/// Everything is in place when it returns: a store with release order after it publishes all.
#[inline]
pub fn publish(to: &mut [u8], from: &[u8]) {
    let count = to.len().min(from.len());
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    if count >= PAST_CACHES_BYTES_MIN && to.as_ptr().addr().is_multiple_of(16) {
        let done = count - count % 64;
        // SAFETY: neither is shorter, they are apart, and the target is aligned to 16.
        unsafe {
            past_caches(from.as_ptr(), to.as_mut_ptr(), done);
            return copy_raw(from.as_ptr().add(done), to.as_mut_ptr().add(done), count - done);
        }
    }
    // SAFETY: as of `copy`.
    unsafe { copy_raw(from.as_ptr(), to.as_mut_ptr(), count) }
}

/// Copies `count` bytes, a multiple of 64, past the caches, and waits until they are in place.
///
/// # Safety
/// As of [`copy_raw`], and `to` is aligned to 16.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline(never)]
unsafe fn past_caches(from: *const u8, to: *mut u8, count: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    // SAFETY: each word is inside of what the caller vouches for, and aligned in the target; every
    // x86-64 that this is compiled for has these instructions.
    unsafe {
        for line in (0..count / 16).step_by(4) {
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(from.add(line + word)));
            for (word, value) in words.into_iter().enumerate() {
                _mm_stream_si128(to.add(line + word), value);
            }
        }
        // Such stores are not ordered by a store with release order.
        _mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every alignment and length around those that go past the caches.
    #[test]
    fn what_is_published_is_all_there() {
        const LONGEST: usize = PAST_CACHES_BYTES_MIN + 200;
        let source: [u8; LONGEST] = core::array::from_fn(|at| (at % 251) as u8 + 1);
        let counts = [0, 1, 63, 8191, 8192, 8193, 8255, 8256, LONGEST - 20];
        for (at, from, count) in (0..20).flat_map(|at| counts.map(|count| (at, (at * 7) % 20, count))) {
            let mut target = [0; LONGEST + 64];
            publish(&mut target[at..at + count], &source[from..]);
            assert!(target[..at].iter().chain(&target[at + count..]).all(|&byte| byte == 0));
            assert_eq!(target[at..at + count], source[from..from + count]);
        }
    }

    /// However far the target is behind the source, and wherever the copy ends within a piece.
    #[test]
    fn all_bytes_arrive_and_none_beside_them() {
        const LONGEST: usize = 3 * PIECE_BYTES + 7;
        let source: [u8; LONGEST] = core::array::from_fn(|at| (at % 251) as u8 + 1);
        let counts = [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, LONGEST];
        for (by, count) in [0, 1, 31, 63, 64, 2000].into_iter().flat_map(|by| counts.map(|count| (by, count)))
        {
            let mut target = [0; LONGEST + 4096];
            let ahead = behind(source.as_ptr().addr() + by, target.as_ptr().addr());
            copy(&mut target[ahead..ahead + count], &source);
            assert!(target[..ahead].iter().chain(&target[ahead + count..]).all(|&byte| byte == 0));
            assert_eq!(target[ahead..ahead + count], source[..count]);
        }
    }

    #[test]
    fn behind_is_within_pages() {
        assert_eq!([behind(1, 0), behind(8192 + 16, 0), behind(16, 4096), behind(5, 5)], [1, 16, 16, 0]);
        assert_eq!([behind(0, 16), behind(4096, 1)], [4080, 4095]);
        for (to, is_slow) in [(0, false), (1, true), (31, true), (32, false), (4096 + 7, true), (64, false)] {
            assert_eq!(is_slow_in_linux(to, 8192), is_slow && cfg!(target_arch = "x86_64"), "{to}");
        }
        assert!(!is_slow_in_linux(0, 16));
    }

    #[test]
    fn the_shorter_of_two_slices_is_copied() {
        let mut memory = [0u8; 4];
        copy(&mut memory[..2], b"abc");
        assert_eq!(memory, *b"ab\0\0");
        copy(&mut memory, b"x");
        copy(&mut memory, b"");
        assert_eq!(memory, *b"xb\0\0");
    }
}
