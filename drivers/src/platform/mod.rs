//! Time without an operating system: a [`Platform`](aldis_hal::Platform) for each architecture, of what every core of it
//! has.
//!
//! | type | clock | while nothing happens | entropy |
//! |---|---|---|---|
//! | `x86_64::Tsc` | time-stamp counter, its rate measured once against the PIT | `pause` | `rdrand`, else the counter |
//! | `aarch64::GenericTimer` | virtual count and its stated frequency | `wfe`, woken by the event stream | the counter |
//! | `riscv64::Timer` | `time` CSR, at the machine's stated rate | `wfi`, woken by its timer | the counter |
//! | `cortex_m::SysTick` | 24 bits at the processor's clock, extended by looking | `wfi`, woken by itself | the counter |
//!
//! The counters run from power-on and are not stopped by idleness; [`Scale`] makes nanoseconds of their ticks by
//! multiplications alone. A board whose clock is another one implements `Platform` in as many lines, or takes
//! [`DelayPlatform`](aldis_hal::platform::DelayPlatform).
//!
//! # Entropy
//!
//! An epoch must differ from those of earlier lives of the same rank: it need not be secret. A counter that starts at zero
//! with the power gives nearly the same value in every life of a board that always boots in the same time; so a board with
//! something better (a noise source, a count of its boots in flash, a real-time clock) hands it in as `seed`, which is
//! mixed with the counter. x86_64 has `rdrand`.

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
#[cfg(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64"))]
const SPINS: u32 = 256;

/// Spreads the differences between two values over 64 bits: SplitMix64 (Steele, Lea, Flood 2014).
const fn mix(seed: u64, counter: u64) -> u64 {
    let z = seed.wrapping_add(counter.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_counts_and_seeds_are_far_apart() {
        for (one, other) in [(mix(1, 1000), mix(1, 1001)), (mix(1, 1000), mix(2, 1000))] {
            assert!((one ^ other).count_ones() > 12, "{one:x} {other:x}");
        }
    }
}
