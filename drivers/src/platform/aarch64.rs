//! This module holds `unsafe` code: system registers of the generic timer and of the random number
//! generator, `wfe` and `wfi`.
//!
//! Every ARMv8 core has the virtual count, and firmware states its frequency in a register. Its
//! event stream wakes a core that waits for events some ten thousand times a second, so that `wfe`
//! saves power and never waits for long. An emulator may take `wfe` for nothing at all; where an
//! interrupt controller forwards the timer's interrupt, `wfi` gives its core away. Source: Arm
//! Architecture Reference Manual for A-profile, D1.6 (wait for interrupt), D12 (the generic timer),
//! D19.2 (ID_AA64ISAR0_EL1, RNDR).

use core::arch::asm;

use aldis_hal::{Instant, Platform};

use super::{NAP_NS, SPINS, Scale, mix, nap_ticks};

/// In CNTV_CTL_EL0: the virtual timer runs, and its interrupt is not masked.
const TIMER_ON: u64 = 1;

/// Fields of CNTKCTL_EL1: the event stream is on; from which bit of the count it comes.
const EVENTS_ON: u64 = 1 << 2;
const EVENT_BIT_SHIFT: u32 = 4;
const EVENT_BIT_MAX: u32 = 15;
const EVENT_FIELDS: u64 = EVENTS_ON | (1 << 3) | (0xF << EVENT_BIT_SHIFT);

/// The place in ID_AA64ISAR0_EL1 that says whether the core has random numbers (FEAT_RNG); zero is
/// no.
const RNDR_SHIFT: u32 = 60;
/// The number of times that a generator that has none for now is asked again.
const RNDR_TRIES: u32 = 10;

/// The generic timer as a platform.
#[derive(Debug)]
pub struct GenericTimer {
    scale: Scale,
    seed: u64,
    has_rndr: bool,
    nap_ticks: u64,
    /// There is an interrupt that ends a nap.
    naps: bool,
}

impl GenericTimer {
    /// Turns the event stream on. `None` if the firmware states no frequency.
    ///
    /// # Safety
    /// The caller runs at EL1 or above and nothing else sets the event stream of this core.
    #[must_use]
    pub unsafe fn new(seed: u64) -> Option<Self> {
        let (hz, control, has): (u64, u64, u64);
        // SAFETY: reading these has no effect; the caller may, at EL1.
        unsafe {
            asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
            asm!("mrs {}, cntkctl_el1", out(reg) control, options(nomem, nostack, preserves_flags));
            asm!("mrs {}, id_aa64isar0_el1", out(reg) has, options(nomem, nostack, preserves_flags));
        }
        let scale = Scale::of_hz(hz)?;
        let control =
            (control & !EVENT_FIELDS) | EVENTS_ON | (u64::from(event_bit(scale)) << EVENT_BIT_SHIFT);
        // SAFETY: the event stream is the caller's, and only makes `wfe` return.
        unsafe { asm!("msr cntkctl_el1, {}", in(reg) control, options(nomem, nostack, preserves_flags)) };
        Some(Self { scale, seed, has_rndr: has >> RNDR_SHIFT != 0, nap_ticks: nap_ticks(hz), naps: false })
    }

    /// Adds naps: while idle the core sleeps for at most 50 us at a time, or until any interrupt is
    /// pending.
    ///
    /// # Safety
    /// The interrupt controller forwards the virtual timer's interrupt (PPI 27 by the Server Base
    /// System Architecture) to this core, on which interrupts are masked (`PSTATE.I` set) and stay
    /// so: the one that wakes the core is never taken. Nothing else uses the timer.
    #[must_use]
    pub const unsafe fn with_naps(mut self) -> Self {
        self.naps = true;
        self
    }
}

/// The bit of the count whose changes are the events: the highest that changes often enough.
fn event_bit(scale: Scale) -> u32 {
    (1..=EVENT_BIT_MAX).rev().find(|bit| scale.ns(2 << bit) <= NAP_NS).unwrap_or(0)
}

impl Platform for GenericTimer {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.scale.ns(counter()))
    }

    #[inline]
    fn relax(&mut self, idle: u32) {
        if idle < SPINS {
            core::hint::spin_loop();
        } else if self.naps {
            let ticks = self.nap_ticks;
            // SAFETY: returns at the latest when the timer's interrupt is pending; it is masked, as
            // `with_naps` demands.
            unsafe {
                asm!("msr cntv_tval_el0, {}", "msr cntv_ctl_el0, {}", "isb", "wfi", in(reg) ticks, in(reg) TIMER_ON,
                    options(nomem, nostack, preserves_flags));
            }
        } else {
            // SAFETY: waits until the next event, which the event stream brings soon; changes
            // nothing.
            unsafe { asm!("wfe", options(nomem, nostack, preserves_flags)) };
        }
    }

    fn entropy(&mut self) -> u64 {
        self.seed = mix(self.seed, counter());
        // SAFETY: asked only of a core that has the register.
        let random = if self.has_rndr { unsafe { random() } } else { 0 };
        self.seed ^ random
    }
}

/// A random number of the core's own; zero if it has none for now.
///
/// # Safety
/// The core has FEAT_RNG.
unsafe fn random() -> u64 {
    for _ in 0..RNDR_TRIES {
        let (value, is_there): (u64, u64);
        // SAFETY: the caller's promise; nothing but two registers and the flags changes. RNDR by
        // its encoding, which assemblers know that are not told of the feature; a failed read sets
        // Z.
        unsafe {
            asm!("mrs {}, s3_3_c2_c4_0", "cset {}, ne", out(reg) value, out(reg) is_there, options(nomem, nostack));
        }
        if is_there != 0 {
            return value;
        }
    }
    0
}

/// The virtual count, not read ahead of the program.
#[inline]
fn counter() -> u64 {
    let count;
    // SAFETY: reading the count has no effect.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}
