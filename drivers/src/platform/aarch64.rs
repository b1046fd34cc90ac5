//! This module holds `unsafe` code: system registers of the generic timer, and `wfe`.
//!
//! Every ARMv8 core has the virtual count, and firmware states its frequency in a register. Its event stream wakes a core
//! that waits for events some ten thousand times a second, so that `wfe` saves power and never waits for long. Source: Arm
//! Architecture Reference Manual for A-profile, D12 (the generic timer).

use core::arch::asm;

use aldis_hal::{Instant, Platform};

use super::{SPINS, Scale, mix};

/// The longest that an idle core waits for an event, roughly.
const EVENT_NS: u64 = 50_000;

/// Fields of CNTKCTL_EL1: the event stream is on; from which bit of the count it comes.
const EVENTS_ON: u64 = 1 << 2;
const EVENT_BIT_SHIFT: u32 = 4;
const EVENT_BIT_MAX: u32 = 15;
const EVENT_FIELDS: u64 = EVENTS_ON | (1 << 3) | (0xF << EVENT_BIT_SHIFT);

/// The generic timer as a platform.
#[derive(Debug)]
pub struct GenericTimer {
    scale: Scale,
    seed: u64,
}

impl GenericTimer {
    /// Turns the event stream on. `None` if the firmware states no frequency.
    ///
    /// # Safety
    /// The caller runs at EL1 or above and nobody else sets the event stream of this core.
    #[must_use]
    pub unsafe fn new(seed: u64) -> Option<Self> {
        let (hz, control): (u64, u64);
        // SAFETY: reading these has no effect; the caller may, at EL1.
        unsafe {
            asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
            asm!("mrs {}, cntkctl_el1", out(reg) control, options(nomem, nostack, preserves_flags));
        }
        let scale = Scale::of_hz(hz)?;
        let control =
            (control & !EVENT_FIELDS) | EVENTS_ON | (u64::from(event_bit(scale)) << EVENT_BIT_SHIFT);
        // SAFETY: the event stream is the caller's, and only makes `wfe` return.
        unsafe { asm!("msr cntkctl_el1, {}", in(reg) control, options(nomem, nostack, preserves_flags)) };
        Some(Self { scale, seed })
    }
}

/// The bit of the count whose changes are the events: the highest that changes often enough.
fn event_bit(scale: Scale) -> u32 {
    (1..=EVENT_BIT_MAX).rev().find(|bit| scale.ns(2 << bit) <= EVENT_NS).unwrap_or(0)
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
        } else {
            // SAFETY: waits until the next event, which the event stream brings soon; changes nothing.
            unsafe { asm!("wfe", options(nomem, nostack, preserves_flags)) };
        }
    }

    fn entropy(&mut self) -> u64 {
        self.seed = mix(self.seed, counter());
        self.seed
    }
}

/// The virtual count, not read ahead of the program.
#[inline]
fn counter() -> u64 {
    let count;
    // SAFETY: reading the count has no effect.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}
