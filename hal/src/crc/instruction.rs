//! This module holds `unsafe` code: the processor's instruction for CRC-32C.
//!
//! It takes eight bytes, and its result three cycles, in which two others can begin. So long data
//! is three runs that are taken in side by side and put together by a table of what zeros do to a
//! sum, after Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction"
//! (Intel, 2011): 1.4 KB, by instruction one by one 0.26 us, take a little over a third of it, and
//! half of that by `folding`, where the processor has what it takes.

use core::sync::atomic::{AtomicU8, Ordering};

use super::crc32c_after_zeros;

// Not for targets without vector registers.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod folding;

/// Returns the register after these bytes, if the processor has the instruction.
#[inline]
pub(super) fn after(register: u32, bytes: &[u8]) -> Option<u32> {
    let means = means();
    // SAFETY: the processor has what it was asked for.
    (means != MISSING).then(|| unsafe { after_by(means, register, bytes) })
}

/// Returns the register after these bytes.
///
/// # Safety
/// The processor [has](means) these means, and not none.
#[inline]
unsafe fn after_by(means: u8, register: u32, bytes: &[u8]) -> u32 {
    let _ = means;
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    let (register, bytes) = if means == FOLDING {
        // SAFETY: the processor can do it, as the caller vouches, and has the instruction too.
        unsafe { folding::after_blocks(register, bytes) }
    } else {
        (register, bytes)
    };
    let (triples, rest) = bytes.as_chunks();
    // SAFETY: the processor has the instruction, as the caller vouches.
    let register = triples.iter().fold(register, |sum, triple| unsafe { after_triple(sum, triple) });
    let (words, rest) = rest.as_chunks();
    // SAFETY: as above.
    let register = words.iter().fold(register, |sum, word| unsafe { after_word(sum, *word) });
    // SAFETY: as above.
    rest.iter().fold(register, |sum, byte| unsafe { after_byte(sum, *byte) })
}

/// Bytes of a run: three are what a frame of the usual MTU of 1500 holds.
const RUN_BYTES: usize = 480;

/// Bytes of three runs.
const TRIPLE_BYTES: usize = 3 * RUN_BYTES;

/// The register after a run of zeros, for each value of each of its bytes: the exclusive or of the
/// four is that of the whole.
static ZEROS: [[u32; 256]; 4] = zeros();

#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler only")]
const fn zeros() -> [[u32; 256]; 4] {
    let (mut bits, mut bit) = ([0; 32], 0);
    while bit < 32 {
        bits[bit] = crc32c_after_zeros(1 << bit, 8 * RUN_BYTES);
        bit += 1;
    }
    let (mut tables, mut entry) = ([[0; 256]; 4], 0);
    while entry < 1024 {
        let (byte, value, mut bit) = (entry / 256, entry % 256, 0);
        while bit < 8 {
            if value >> bit & 1 == 1 {
                tables[byte][value] ^= bits[8 * byte + bit];
            }
            bit += 1;
        }
        entry += 1;
    }
    tables
}

/// Takes a run of zeros in.
#[inline(always)]
fn after_zeros(register: u32) -> u32 {
    let bytes = register.to_le_bytes();
    let parts = ZEROS.iter().zip(bytes);
    parts.fold(0, |sum, (table, byte)| sum ^ table.get(usize::from(byte)).copied().unwrap_or(0))
}

/// Takes three runs in.
///
/// # Safety
/// The processor [has](means) the instruction.
#[inline]
unsafe fn after_triple(register: u32, triple: &[u8; TRIPLE_BYTES]) -> u32 {
    let (words, _) = triple.as_chunks::<8>();
    let (first, rest) = words.split_at(RUN_BYTES / 8);
    let (second, third) = rest.split_at(RUN_BYTES / 8);
    let mut sums = (register, 0, 0);
    for ((one, two), three) in first.iter().zip(second).zip(third) {
        // SAFETY: as the caller vouches.
        sums = unsafe { (after_word(sums.0, *one), after_word(sums.1, *two), after_word(sums.2, *three)) };
    }
    after_zeros(after_zeros(sums.0) ^ sums.1) ^ sums.2
}

/// The means of a processor: not asked yet, no instruction for it, that, and carry-less
/// multiplication of long registers as well.
const UNKNOWN: u8 = 0;
const MISSING: u8 = 1;
const THERE: u8 = 2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
const FOLDING: u8 = 3;

/// Returns what the processor has.
#[inline]
fn means() -> u8 {
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let answer = if ask() { most() } else { MISSING };
            ANSWER.store(answer, Ordering::Relaxed);
            answer
        }
        answer => answer,
    }
}

/// Returns the most that a processor with the instruction has.
#[cold]
fn most() -> u8 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if folding::is_there() {
        return FOLDING;
    }
    THERE
}

/// Asks the processor: bit 20 of `ecx` of leaf 1, SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[cold]
fn ask() -> bool {
    core::arch::x86_64::__cpuid(1).ecx & 1 << 20 != 0
}

/// Asks the processor: bits 16 to 19 of `ID_AA64ISAR0_EL1`, which Linux answers for processes.
#[cfg(target_arch = "aarch64")]
#[cold]
fn ask() -> bool {
    let features: u64;
    // SAFETY: it changes nothing but its output; kernels and boards may read it, and Linux gives
    // processes its answer (since 4.11, as `HWCAP_CPUID`).
    unsafe {
        core::arch::asm!("mrs {}, ID_AA64ISAR0_EL1", out(reg) features, options(nomem, nostack, pure, preserves_flags));
    }
    features >> 16 & 0xF != 0
}

/// Takes eight bytes in.
///
/// # Safety
/// The processor [has](means) the instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn after_word(register: u32, word: [u8; 8]) -> u32 {
    let mut sum = u64::from(register);
    // SAFETY: it changes nothing but its output, and is there, as the caller vouches.
    unsafe {
        core::arch::asm!("crc32 {:r}, {:r}", inout(reg) sum, in(reg) u64::from_le_bytes(word), options(nomem, nostack, pure, preserves_flags));
    }
    sum as u32
}

/// Takes a byte in.
///
/// # Safety
/// The processor [has](means) the instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn after_byte(register: u32, byte: u8) -> u32 {
    let mut sum = register;
    // SAFETY: it changes nothing but its output, and is there, as the caller vouches.
    unsafe {
        core::arch::asm!("crc32 {:e}, {}", inout(reg) sum, in(reg_byte) byte, options(nomem, nostack, pure, preserves_flags));
    }
    sum
}

/// Takes eight bytes in.
///
/// # Safety
/// The processor [has](means) the instruction.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn after_word(register: u32, word: [u8; 8]) -> u32 {
    let mut sum = register;
    // SAFETY: it changes nothing but its output, and is there, as the caller vouches.
    unsafe {
        core::arch::asm!(".arch_extension crc", "crc32cx {0:w}, {0:w}, {1:x}", inout(reg) sum, in(reg) u64::from_le_bytes(word), options(nomem, nostack, pure, preserves_flags));
    }
    sum
}

/// Takes a byte in.
///
/// # Safety
/// The processor [has](means) the instruction.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn after_byte(register: u32, byte: u8) -> u32 {
    let mut sum = register;
    // SAFETY: it changes nothing but its output, and is there, as the caller vouches.
    unsafe {
        core::arch::asm!(".arch_extension crc", "crc32cb {0:w}, {0:w}, {1:w}", inout(reg) sum, in(reg) u32::from(byte), options(nomem, nostack, pure, preserves_flags));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The register after these bytes, bit by bit.
    fn bit_by_bit(register: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(register, |register, byte| crc32c_after_zeros(register ^ u32::from(*byte), 8))
    }

    #[test]
    fn the_instruction_does_what_bits_do() {
        let bytes: [u8; 2 * TRIPLE_BYTES + 9] = core::array::from_fn(|i| (i * 37 % 251) as u8);
        let lengths = (0..40).chain(250..650).chain(TRIPLE_BYTES - 9..TRIPLE_BYTES + 9);
        for len in lengths.chain(2 * TRIPLE_BYTES - 1..bytes.len()) {
            for start in [0, 1, 7] {
                let bytes = &bytes[start.min(len)..len];
                let right = bit_by_bit(0x1234_5678, bytes);
                for means in THERE..=means() {
                    // SAFETY: the processor has these means, and so lesser ones.
                    let sum = unsafe { after_by(means, 0x1234_5678, bytes) };
                    assert_eq!(sum, right, "{means} of {len} bytes from {start}");
                }
                assert!(after(0x1234_5678, bytes).is_none_or(|sum| sum == right));
            }
        }
        let sum = after(u32::MAX, b"123456789").map(|sum| !sum);
        assert!(sum.is_none_or(|sum| sum == 0xE306_9283), "the check value of the catalogues");
        if cfg!(target_arch = "x86_64") {
            assert!(sum.is_some(), "no processor of today is without");
        }
    }
}
