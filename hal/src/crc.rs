//! CRC-32C by the processor's instruction for it.
//!
//! x86-64 has had one since SSE 4.2 (2008), and the 64-bit Arm architecture as an option since its
//! first edition, always from 8.1 on. The processor is asked once; on others, and in interpreters,
//! there is none.

#[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod instruction;

/// The polynomial 0x1EDC6F41 with its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Returns the CRC-32C register after so many zero bits, from what it was before: one by one, to
/// make tables of.
#[must_use]
pub const fn crc32c_after_zeros(mut register: u32, bits: usize) -> u32 {
    let mut bit = 0;
    while bit < bits {
        register = (register >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(register & 1));
        bit += 1;
    }
    register
}

/// Returns the CRC-32C register after these bytes, from what it was before: neither is inverted.
/// `None` if the processor has no instruction for it.
#[inline]
#[must_use]
pub fn crc32c_by_instruction(register: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
    return instruction::after(register, bytes);
    #[cfg(not(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let _ = (register, bytes);
        None
    }
}
