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

/// The stores by which bytes are written that another core has read and is to read again.
///
/// An ordinary store first takes its line back from the reader, and the reader then fetches it from
/// this core's cache. Where the two share a cache that is the cheapest way. Where they do not it
/// takes two to six times as long as to write whole lines to memory and to read them from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Store {
    /// Ordinary ones, through the caches.
    #[default]
    Plain,
    /// Past the caches, where the processor can and the bytes are enough for that to pay.
    Past,
}

/// Bytes from which on stores past the caches pay where no cache is shared: what they save a line
/// is more than to wait for the last of them.
const PAST_BYTES_MIN: usize = 2048;

/// Copies like [`copy`] by these stores.
///
/// Everything is in place when it returns: a store with release order after it publishes all.
#[inline]
pub fn publish(to: &mut [u8], from: &[u8], store: Store) {
    let is_past = store == Store::Past && to.len().min(from.len()) >= PAST_BYTES_MIN;
    if is_past { copy_past(to, from) } else { copy(to, from) }
}

/// Copies as much as both have past the caches, where the processor can. Everything is in place
/// when it returns.
#[inline]
fn copy_past(to: &mut [u8], from: &[u8]) {
    let count = to.len().min(from.len());
    // SAFETY: neither is shorter, and what is borrowed exclusively overlaps with nothing.
    unsafe { copy_lines_past(from.as_ptr(), to.as_mut_ptr(), count) }
}

/// Copies `count` bytes: whole lines of the target past the caches, what is before and behind them
/// as any other.
///
/// # Safety
/// As of [`copy_raw`].
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
#[inline(never)]
unsafe fn copy_lines_past(from: *const u8, to: *mut u8, count: usize) {
    const LINE: usize = 64;
    let before = (to.addr().wrapping_neg() % LINE).min(count);
    let lines = (count - before) / LINE;
    let done = before + lines * LINE;
    // SAFETY: all pieces are within what the caller vouches for; the words of a line are aligned,
    // since it begins with a line; every x86-64 that this is compiled for has these instructions.
    unsafe {
        from.copy_to_nonoverlapping(to, before);
        if lines > 0 {
            // By hand, so that it is as quick where nothing is optimised. Such stores are not
            // ordered by a store with release order, but by the fence.
            core::arch::asm!(
                "2:",
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "dec {lines}",
                "jnz 2b",
                "sfence",
                from = inout(reg) from.add(before) => _,
                to = inout(reg) to.add(before) => _,
                lines = inout(reg) lines => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
        from.add(done).copy_to_nonoverlapping(to.add(done), count - done);
    }
}

/// Copies `count` bytes: this processor has no stores past its caches that are known to pay.
///
/// # Safety
/// As of [`copy_raw`].
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
unsafe fn copy_lines_past(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy_raw(from, to, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every alignment and length around those that go past the caches.
    #[test]
    fn what_is_published_is_all_there() {
        const LONGEST: usize = PAST_BYTES_MIN + 200;
        let source: [u8; LONGEST] = core::array::from_fn(|at| (at % 251) as u8 + 1);
        let counts = [0, 1, 63, 2047, 2048, 2049, 2111, 2112, LONGEST - 20];
        let stores = [Store::Plain, Store::Past];
        let all = (0..20).flat_map(|at| counts.map(|count| (at, (at * 7) % 20, count)));
        for ((at, from, count), store) in all.flat_map(|case| stores.map(|store| (case, store))) {
            let mut target = [0; LONGEST + 64];
            publish(&mut target[at..at + count], &source[from..], store);
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

    /// Checks every place of the target in a line, and some of the source.
    #[test]
    fn what_is_copied_past_the_caches_arrives_and_nothing_beside_it() {
        let source: [u8; 400] = core::array::from_fn(|at| (at % 251) as u8 + 1);
        for (start, by) in (0..70).flat_map(|start| [0, 1, 31].map(|by| (start, by))) {
            for count in [0, 1, 15, 16, 63, 64, 65, 128, 200, 300] {
                let mut target = [0; 512];
                copy_past(&mut target[start..start + count], &source[by..]);
                assert!(target[..start].iter().chain(&target[start + count..]).all(|&byte| byte == 0));
                assert_eq!(target[start..start + count], source[by..by + count], "{start} {by} {count}");
            }
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
