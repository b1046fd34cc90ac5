//! Time without an operating system: a [`Platform`](aldis_hal::Platform) for each architecture, of
//! what every core of it has.
//!
//! | type | clock | while nothing happens | entropy |
//! |---|---|---|---|
//! | `x86_64::Tsc` | time-stamp counter, measured against the PIT | `pause`, `hlt` | `rdrand` |
//! | `aarch64::GenericTimer` | virtual count, stated rate | `wfe` by events, `wfi` | `RNDR` |
//! | `riscv64::Timer` | `time` CSR, stated rate | `wfi` and its timer | `seed` (Zkr) |
//! | `cortex_m::SysTick` | 24 bits at the processor's clock, extended by looking | `wfi` | none |
//!
//! Where a core has no source of entropy, the counter is it. The core's timer ends `hlt` and `wfi`,
//! where the board has made sure that it can.
//!
//! The counters run from power-on and are not stopped by idleness; [`Scale`] makes nanoseconds of
//! their ticks by multiplications alone. A board whose clock is another one implements `Platform`
//! in as many lines, or takes [`DelayPlatform`](aldis_hal::platform::DelayPlatform).
//!
//! # Entropy
//!
//! An epoch must differ from those of earlier lives of the same rank: it need not be secret, and
//! only ranks of one number need to differ. What that rests on, best first; all that there is is
//! mixed:
//!
//! 1. The core's random numbers: `rdrand` (found by CPUID), `RNDR` (by ID_AA64ISAR0_EL1), `seed`
//!    (by the device tree's `riscv,isa`, then `Timer::with_zkr`). An epoch of an earlier life comes
//!    again with a chance of one in 2^32, as an epoch has 32 bits.
//! 2. What the loader drew, `/chosen/rng-seed` of the device tree: the board hands [`seed_of`] its
//!    bytes in as `seed`. As good as the first, if the loader has drawn them anew.
//! 3. What the board keeps, handed in likewise: a count of its boots in flash, a real-time clock, a
//!    noise source. As good as the source.
//! 4. The counter, from power-on to the call; it is always there. An epoch comes again as often as
//!    the board takes equally long to boot, to a tick of its clock.
//!
//! The counter alone is *not* enough for a board that always boots in the same time. It is what a
//! Cortex-M has, unless its board brings a seed.

#[cfg(any(target_arch = "arm", test))]
mod down_counter;
mod scale;

#[cfg(target_arch = "aarch64")]
pub mod aarch64;
#[cfg(target_arch = "arm")]
pub mod cortex_m;
#[cfg(target_arch = "riscv64")]
pub mod riscv64;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

pub use scale::Scale;

/// Polls that find nothing before a core waits for events instead of asking again at once.
#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64", target_arch = "x86_64"))]
const SPINS: u32 = 256;

/// The longest that an idle core sleeps before it asks again, roughly.
#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64", target_arch = "x86_64"))]
const NAP_NS: u64 = 50_000;

/// Ticks of a nap by a clock of `hz`, at least one.
#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64"))]
const fn nap_ticks(hz: u64) -> u64 {
    let ticks = hz.saturating_mul(NAP_NS) / 1_000_000_000;
    if ticks == 0 { 1 } else { ticks }
}

/// The seed of a platform that has `bytes` of entropy: each of them counts, however many they are;
/// none give zero.
#[must_use]
pub fn seed_of(bytes: &[u8]) -> u64 {
    bytes.chunks(size_of::<u64>()).fold(0, |seed, chunk| {
        let mut word = [0; size_of::<u64>()];
        word.iter_mut().zip(chunk).for_each(|(byte, drawn)| *byte = *drawn);
        mix(seed, u64::from_le_bytes(word))
    })
}

/// Spreads the differences between two values over 64 bits: SplitMix64 (Steele, Lea, Flood 2014).
const fn mix(seed: u64, counter: u64) -> u64 {
    let z = seed.wrapping_add(counter.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_seed_counts() {
        let drawn: [u8; 37] = core::array::from_fn(|at| at as u8);
        let whole = seed_of(&drawn);
        for at in 0..drawn.len() {
            let mut other = drawn;
            other[at] ^= 1;
            assert!((whole ^ seed_of(&other)).count_ones() > 8, "byte {at}");
        }
        let mut turned = drawn;
        turned.rotate_left(size_of::<u64>());
        assert_ne!(seed_of(&turned), whole, "their order counts");
        assert_eq!(seed_of(&[]), 0);
    }

    #[test]
    fn neighbouring_counts_and_seeds_are_far_apart() {
        for (one, other) in [(mix(1, 1000), mix(1, 1001)), (mix(1, 1000), mix(2, 1000))] {
            assert!((one ^ other).count_ones() > 12, "{one:x} {other:x}");
        }
    }
}
