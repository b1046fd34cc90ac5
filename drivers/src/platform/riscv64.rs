//! This module holds `unsafe` code: the CSRs `time` and `seed`, the timer's comparison register,
//! and `wfi`.
//!
//! The time of a RISC-V machine counts at a rate that its device tree states
//! (`/cpus/timebase-frequency`). A hart in machine mode that waits for interrupts (`wfi`) is woken
//! by the timer even while interrupts are globally off: nothing is taken, the instruction returns.
//! Sources: RISC-V Privileged Architecture, 3.1.10, 3.2.1 (mtime, mtimecmp), 3.3.3 (wfi); SiFive
//! CLINT (core-local interruptor); RISC-V Cryptography Extensions, volume I, chapter 4 (Zkr, the
//! entropy source).

use core::arch::asm;

use aldis_hal::mmio::Mmio;
use aldis_hal::{Instant, Platform};

use super::{SPINS, Scale, mix, nap_ticks};

/// In `mie`: the machine timer's interrupt.
const TIMER: usize = 1 << 7;

/// The place of the state of the `seed` CSR, in its two highest bits: one value comes with 16 bits
/// of entropy, and one says that none will come any more.
const STATE_SHIFT: u32 = 30;
const ES16: u32 = 0b10;
const DEAD: u32 = 0b11;
/// The number of times that an entropy source that is busy or tests itself is asked again for its
/// next 16 bits.
const SEED_TRIES: u32 = 1000;

/// The time of a hart in machine mode as a platform.
#[derive(Debug)]
pub struct Timer {
    scale: Scale,
    seed: u64,
    /// The hart's comparison register and the ticks of a nap, where there is a timer to wake it.
    alarm: Option<(Mmio<u64>, u64)>,
    /// The hart has an entropy source.
    has_zkr: bool,
}

impl Timer {
    /// A time that counts `hz` ticks a second, and spins while idle. `None` for a rate of zero.
    #[must_use]
    pub const fn new(hz: u64, seed: u64) -> Option<Self> {
        match Scale::of_hz(hz) {
            Some(scale) => Some(Self { scale, seed, alarm: None, has_zkr: false }),
            None => None,
        }
    }

    /// Adds a timer that wakes the hart, so that it sleeps while idle. `comparison` is the hart's
    /// `mtimecmp`: in a CLINT at its base plus 0x4000 and 8 bytes for each hart.
    ///
    /// # Safety
    /// The caller runs in machine mode with interrupts globally off (`mstatus.MIE` clear) and keeps
    /// them so, and the timer of this hart is used by nothing else.
    #[must_use]
    pub unsafe fn with_alarm(mut self, comparison: Mmio<u64>, hz: u64) -> Self {
        self.alarm = Some((comparison, nap_ticks(hz)));
        // SAFETY: machine mode; what is enabled is never taken, since interrupts are globally off.
        unsafe { asm!("csrs mie, {}", in(reg) TIMER, options(nomem, nostack, preserves_flags)) };
        self
    }

    /// Adds the hart's own entropy source: the CSR `seed` of the extension Zkr. Whether a hart has
    /// it, no register says: its device tree does.
    ///
    /// # Safety
    /// The hart has Zkr, and the caller runs in machine mode or where `mseccfg` allows the CSR.
    #[must_use]
    pub const unsafe fn with_zkr(mut self) -> Self {
        self.has_zkr = true;
        self
    }
}

impl Platform for Timer {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.scale.ns(counter()))
    }

    #[inline]
    fn relax(&mut self, idle: u32) {
        match &mut self.alarm {
            Some((comparison, ticks)) if idle >= SPINS => {
                comparison.write(counter().wrapping_add(*ticks));
                // SAFETY: returns at the latest when the comparison is met, as `with_alarm` has
                // enabled the interrupt.
                unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
            }
            _ => core::hint::spin_loop(),
        }
    }

    fn entropy(&mut self) -> u64 {
        self.seed = mix(self.seed, counter());
        // SAFETY: asked only of a hart that has the CSR, by the promise of `with_zkr`.
        let random = if self.has_zkr { unsafe { random() } } else { 0 };
        self.seed ^ random
    }
}

/// Four times 16 bits of the hart's entropy source; zero for those that it does not give.
///
/// # Safety
/// As [`Timer::with_zkr`].
unsafe fn random() -> u64 {
    // SAFETY: the caller's promise.
    (0..u64::BITS / u16::BITS).fold(0, |value, _| (value << u16::BITS) | u64::from(unsafe { seed() }))
}

/// 16 bits of the entropy source; zero if it gives none.
///
/// # Safety
/// As [`Timer::with_zkr`].
unsafe fn seed() -> u16 {
    for _ in 0..SEED_TRIES {
        let word: u64;
        // SAFETY: the caller's promise. `seed` by its number, which assemblers know that are not
        // told of Zkr; a read that does not write is illegal, and what is written is ignored.
        unsafe { asm!("csrrw {}, 0x015, zero", out(reg) word, options(nomem, nostack, preserves_flags)) };
        match (word as u32) >> STATE_SHIFT {
            ES16 => return word as u16,
            DEAD => return 0,
            _ => core::hint::spin_loop(),
        }
    }
    0
}

#[inline]
fn counter() -> u64 {
    let count;
    // SAFETY: reading the time has no effect.
    unsafe { asm!("rdtime {}", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}
