//! Loops over much memory are compiled several times, once for each width of vectors, and the
//! widest that the processor has is taken when they run: a program built for any x86_64 uses AVX2
//! or AVX-512 where there is one. What a loop computes is the same by every path, since the
//! compiler neither reorders nor fuses operations on floats. Elsewhere there is one path: on
//! aarch64 vectors (NEON) are part of what every program is compiled for, and firmware pays
//! nothing.
//!
//! What it is worth (AMD EPYC, 16 KiB, GB/s in SSE2, AVX2, AVX-512; memcpy has 100): sum of `f32`
//! 43, 70, 72; maximum of `f64` 19, 46, 51; product of complex `f64` 24, 25, 48.

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
mod plain;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86_64;

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub use plain::{Halves, Width};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use x86_64::{Halves, Width};

/// A loop that is compiled for each width.
pub trait Work {
    /// Runs it. Mark it `#[inline(always)]`, and what it calls `#[inline]`: only what is inlined is
    /// compiled anew.
    fn run(self);
}

/// Runs `work`, which is over that many bytes, in the widest vectors there are; over few of them in
/// the baseline's, where choosing would take longer than it saves.
#[inline(always)]
pub fn widest(bytes: usize, work: impl Work) {
    let width = if bytes < FEW_BYTES { Width::BASELINE } else { Width::widest() };
    width.run(work);
}

/// AMD EPYC, sums of floats of 512 bytes: 54 to 56 GB/s in AVX2, 34 to 37 in the baseline; of 64
/// bytes all alike.
const FEW_BYTES: usize = 256;

#[cfg(test)]
mod tests;
