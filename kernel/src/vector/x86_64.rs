//! This module holds `unsafe` code: calls of functions compiled for AVX2, AVX-512 and F16C, where
//! the processor has them.

use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, __m256, _mm256_cvtph_ps, _mm256_cvtps_ph, _xgetbv,
};
use core::mem::transmute;
use core::sync::atomic::{AtomicU8, Ordering};

use super::Work;

/// The width that loops can be compiled for; this processor, and whatever saves its registers,
/// supports all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Width(Level);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
enum Level {
    Baseline = 1,
    /// AVX2 and F16C.
    Avx2,
    /// And AVX-512: F, BW, DQ and VL; and FMA.
    Avx512,
}

/// The level of this processor, as a number; 0 before it is known. To ask takes a thousand times as
/// long as to look here.
static LEVEL: AtomicU8 = AtomicU8::new(0);

impl Width {
    /// The width that the program is compiled for anyway.
    pub const BASELINE: Self = Self(Level::Baseline);

    /// The widest there is.
    #[inline]
    pub fn widest() -> Self {
        Self(match LEVEL.load(Ordering::Relaxed) {
            3 => Level::Avx512,
            2 => Level::Avx2,
            1 => Level::Baseline,
            _ => found(),
        })
    }

    /// All there are, the narrowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let all = [Level::Baseline, Level::Avx2, Level::Avx512];
        all.into_iter().filter(|level| *level <= Self::widest().0).map(Self)
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Level::Baseline => "sse2",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// Runs `work` in vectors of this width.
    #[inline(always)]
    pub fn run(self, work: impl Work) {
        match self.0 {
            Level::Baseline => work.run(),
            // SAFETY: there is no `Width` of this level unless `level` found the features that the
            // function is compiled for.
            Level::Avx2 => unsafe { avx2(work) },
            // SAFETY: as above.
            Level::Avx512 => unsafe { avx512(work) },
        }
    }
}

#[target_feature(enable = "avx2,f16c")]
fn avx2(work: impl Work) {
    work.run();
}

#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512(work: impl Work) {
    work.run();
}

#[cold]
fn found() -> Level {
    let level = level();
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// CPUID leaf 1, ECX: the system has enabled `xgetbv`.
const OSXSAVE: u32 = 1 << 27;

/// Intel's Software Developer's Manual, volume 1, 14.3, 14.4.1, 14.5.3, 14.7.1 and 15.2 to 15.4:
/// instructions are there if the processor has them and the system has enabled the state that they
/// use.
fn level() -> Level {
    let features = __cpuid(1).ecx;
    if __cpuid(0).eax < 7 || features & OSXSAVE == 0 {
        return Level::Baseline;
    }
    // SAFETY: OSXSAVE says that the instruction is there and enabled; register 0 is then.
    let state = unsafe { _xgetbv(0) };
    level_of(features, __cpuid_count(7, 0).ebx, state)
}

/// The level by ECX of CPUID leaf 1, EBX of leaf 7, and the state that the system has enabled. For
/// compilers AVX-512 includes FMA, which a hypervisor can leave out.
const fn level_of(features: u32, extended: u32, state: u64) -> Level {
    const AVX_F16C: u32 = 1 << 28 | 1 << 29;
    const FMA: u32 = 1 << 12;
    const AVX2: u32 = 1 << 5;
    const AVX512_F_DQ_BW_VL: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
    const AVX_STATE: u64 = 0x06;
    const AVX512_STATE: u64 = 0xe6;
    let has_avx2 = features & AVX_F16C == AVX_F16C && extended & AVX2 != 0;
    let has_avx512 = features & FMA != 0 && extended & AVX512_F_DQ_BW_VL == AVX512_F_DQ_BW_VL;
    if !has_avx2 || state & AVX_STATE != AVX_STATE {
        Level::Baseline
    } else if !has_avx512 || state & AVX512_STATE != AVX512_STATE {
        Level::Avx2
    } else {
        Level::Avx512
    }
}

/// The processor's own conversion between floats of 16 bits (IEEE 754 binary16) and 32: it has one.
#[derive(Clone, Copy, Debug)]
pub struct Halves(());

impl Halves {
    /// The conversion of this processor, if it has one.
    #[inline]
    pub fn of_processor() -> Option<Self> {
        (Width::widest().0 >= Level::Avx2).then_some(Self(()))
    }

    /// Returns the same values as floats of 32 bits; of a NaN, a quiet one.
    #[inline(always)]
    pub fn widen(self, halves: [u16; 8]) -> [f32; 8] {
        // SAFETY: there is no `Halves` unless `of_processor` found AVX2, which includes AVX, and
        // F16C.
        unsafe { widen(halves) }
    }

    /// The nearest values, of two the even one; of a NaN, a quiet one.
    #[inline(always)]
    pub fn narrow(self, floats: [f32; 8]) -> [u16; 8] {
        // SAFETY: as above.
        unsafe { narrow(floats) }
    }
}

#[inline]
#[target_feature(enable = "avx,f16c")]
fn widen(halves: [u16; 8]) -> [f32; 8] {
    // SAFETY: both are 16 bytes, and any bytes are values of both.
    let halves = unsafe { transmute::<[u16; 8], __m128i>(halves) };
    // SAFETY: both are 32 bytes, and any bytes are values of both.
    unsafe { transmute::<__m256, [f32; 8]>(_mm256_cvtph_ps(halves)) }
}

#[inline]
#[target_feature(enable = "avx,f16c")]
fn narrow(floats: [f32; 8]) -> [u16; 8] {
    const TO_NEAREST: i32 = 0;
    // SAFETY: both are 32 bytes, and any bytes are values of both.
    let floats = unsafe { transmute::<[f32; 8], __m256>(floats) };
    // SAFETY: both are 16 bytes, and any bytes are values of both.
    unsafe { transmute::<__m128i, [u16; 8]>(_mm256_cvtps_ph::<TO_NEAREST>(floats)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_takes_all_that_functions_are_compiled_for() {
        const ALL: (u32, u32, u64) = (u32::MAX, u32::MAX, u64::MAX);
        assert_eq!(level_of(ALL.0, ALL.1, ALL.2), Level::Avx512);
        // FMA, F, DQ, BW, VL, and the states of masks and of the upper halves and registers.
        let without = |features: u32, extended: u32, state: u64| level_of(!features, !extended, !state);
        assert_eq!(without(1 << 12, 0, 0), Level::Avx2);
        for bit in [16, 17, 30, 31] {
            assert_eq!(without(0, 1 << bit, 0), Level::Avx2);
        }
        for bit in [5, 6, 7] {
            assert_eq!(without(0, 0, 1 << bit), Level::Avx2);
        }
        // AVX, F16C, AVX2, and the states of both halves.
        for (features, extended, state) in
            [(1 << 28, 0, 0), (1 << 29, 0, 0), (0, 1 << 5, 0), (0, 0, 2), (0, 0, 4)]
        {
            assert_eq!(without(features, extended, state), Level::Baseline);
        }
    }
}
