//! This module holds `unsafe` code: CRC-32C by carry-less multiplication, 64 bytes at a time.
//!
//! Sixteen bytes are folded into later ones: each half is multiplied by what the zeros between the
//! two make of it, and added there, which leaves the sum of all as it was. After Gopal et al.,
//! "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), with
//! four times sixteen bytes a register (AVX-512), and four registers side by side.

use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, __m512i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x,
    _mm_unpackhi_epi64, _mm_xor_si128, _mm512_broadcast_i32x4, _mm512_clmulepi64_epi128,
    _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_set_epi64, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};

use super::super::crc32c_after_zeros;
use super::after_word;

/// Bytes of a register, and of the registers that are folded side by side.
const BLOCK_BYTES: usize = 64;
const STRIPE_BYTES: usize = 4 * BLOCK_BYTES;

/// Returns what the high and the low half of sixteen bytes are multiplied by, to be folded into
/// those so many bits later.
const fn multipliers(bits: usize) -> [i64; 2] {
    [zeros(bits - 32), zeros(bits + 32)]
}

/// Returns what so many zero bits make of a single one, at the place where a product has it.
const fn zeros(bits: usize) -> i64 {
    (crc32c_after_zeros(1 << 31, bits) as i64) << 1
}

const BY_STRIPE: [i64; 2] = multipliers(8 * STRIPE_BYTES);
const BY_BLOCK: [i64; 2] = multipliers(8 * BLOCK_BYTES);
const BY_SIXTEEN: [i64; 2] = multipliers(8 * 16);

/// Returns true if the processor can do it, and its system keeps the registers.
#[cold]
pub(super) fn is_there() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const CLMUL: u32 = 1 << 1;
    const AVX512F: u32 = 1 << 16;
    const VPCLMULQDQ: u32 = 1 << 10;
    /// The registers of SSE and AVX, and the three kinds that AVX-512 has more.
    const KEPT: u32 = 0xE6;

    let first = __cpuid(1).ecx;
    if __cpuid(0).eax < 7 || first & (OSXSAVE | CLMUL) != OSXSAVE | CLMUL {
        return false;
    }
    let seventh = __cpuid_count(7, 0);
    if seventh.ebx & AVX512F == 0 || seventh.ecx & VPCLMULQDQ == 0 {
        return false;
    }
    let kept: u32;
    // SAFETY: it reads the register that says what the system keeps, and is there with OSXSAVE.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") kept, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    kept & KEPT == KEPT
}

/// Takes all blocks in, if there are at least four: returns the register after them, and the bytes
/// behind them.
///
/// # Safety
/// The processor [can do it](is_there), and has the instruction for CRC-32C.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq")]
pub(super) unsafe fn after_blocks(register: u32, bytes: &[u8]) -> (u32, &[u8]) {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let Some(([first, second, third, fourth], blocks)) = blocks.split_first_chunk() else {
        return (register, bytes);
    };
    let first = _mm512_xor_si512(load(first), _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, register.into()));
    let mut sums = [first, load(second), load(third), load(fourth)];
    let (stripes, blocks) = blocks.as_chunks::<4>();
    let by = repeated(BY_STRIPE);
    for [first, second, third, fourth] in stripes {
        let [one, two, three, four] = sums;
        sums = [
            fold(one, by, load(first)),
            fold(two, by, load(second)),
            fold(three, by, load(third)),
            fold(four, by, load(fourth)),
        ];
    }
    let by = repeated(BY_BLOCK);
    let [one, two, three, four] = sums;
    let sum = fold(fold(fold(one, by, two), by, three), by, four);
    let sum = blocks.iter().fold(sum, |sum, block| fold(sum, by, load(block)));

    let [high, low] = BY_SIXTEEN;
    let by = _mm_set_epi64x(high, low);
    let one = fold_sixteen(_mm512_extracti32x4_epi32::<0>(sum), by, _mm512_extracti32x4_epi32::<1>(sum));
    let two = fold_sixteen(one, by, _mm512_extracti32x4_epi32::<2>(sum));
    let last = fold_sixteen(two, by, _mm512_extracti32x4_epi32::<3>(sum));
    let halves = [last, _mm_unpackhi_epi64(last, last)].map(|half| _mm_cvtsi128_si64(half).to_le_bytes());
    // SAFETY: the processor has the instruction, as the caller vouches.
    let register = halves.iter().fold(0, |register, half| unsafe { after_word(register, *half) });
    (register, rest)
}

/// The bytes of a block.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; BLOCK_BYTES]) -> __m512i {
    // SAFETY: so many bytes can be read there; they need no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

/// The multipliers, for each sixteen bytes of a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn repeated([high, low]: [i64; 2]) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(high, low))
}

/// Folds a block into a later one.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(sum: __m512i, by: __m512i, later: __m512i) -> __m512i {
    /// The exclusive or of three bits, as a table.
    const XOR: i32 = 0x96;
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, by);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, by);
    _mm512_ternarylogic_epi64::<XOR>(low, high, later)
}

/// Folds sixteen bytes into the next.
#[inline]
#[target_feature(enable = "sse2,pclmulqdq")]
fn fold_sixteen(sum: __m128i, by: __m128i, later: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(sum, by);
    let high = _mm_clmulepi64_si128::<0x11>(sum, by);
    _mm_xor_si128(_mm_xor_si128(low, high), later)
}
