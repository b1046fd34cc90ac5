//! This module holds `unsafe` code: the registers of SysTick, and `wfi`.
//!
//! Every Cortex-M but a few M0s has SysTick, a counter of 24 bits at the processor's clock; the
//! cycle counter of the DWT, which is longer, is missing in smaller cores and emulators. It is
//! extended to 64 bits by looking at it, which every poll of an endpoint does.
//!
//! # Two looks are less than 2^24 ticks apart
//!
//! That is 0.67 s at 25 MHz, 0.1 s at 168 MHz. A rank that computes for longer between two polls
//! loses whole periods: its clock is late, and so are its time-outs; nothing else comes of it.
//! Sources: Armv7-M Architecture Reference Manual, B3.3 (SysTick), B3.2.4 (ICSR), B1.5.19 (WFI).

use core::arch::asm;
use core::cell::Cell;
use core::ptr::NonNull;

use aldis_hal::mmio::Mmio;
use aldis_hal::{Instant, Platform};

use super::down_counter::{DownCounter, PERIOD};
use super::{SPINS, Scale, mix, nap_ticks};

/// Registers: control and status, reload value, current value; interrupt control and state.
const CONTROL: usize = 0xE000_E010;
const RELOAD: usize = 0xE000_E014;
const CURRENT: usize = 0xE000_E018;
const INTERRUPTS: usize = 0xE000_ED04;

/// In [`CONTROL`]: it runs, at the processor's clock; the end of a period is an exception.
const RUN: u32 = 0b101;
const EXCEPTION: u32 = 0b010;
/// In [`INTERRUPTS`]: the exception of SysTick is pending; no longer so.
const IS_PENDING: u32 = 1 << 26;
const NOT_PENDING: u32 = 1 << 25;

/// SysTick as a platform.
#[derive(Debug)]
pub struct SysTick {
    control: Mmio<u32>,
    reload: Mmio<u32>,
    current: Mmio<u32>,
    interrupts: Mmio<u32>,
    counter: Cell<DownCounter>,
    scale: Scale,
    seed: u64,
    nap_ticks: u32,
    naps: bool,
}

impl SysTick {
    /// Starts it, at a processor's clock of `hz`; while idle the core spins. `None` for a rate of
    /// zero.
    ///
    /// # Safety
    /// The caller runs on a Cortex-M with SysTick, privileged, and nothing else uses it.
    #[must_use]
    pub unsafe fn new(hz: u32, seed: u64) -> Option<Self> {
        let register = |address| NonNull::new(core::ptr::with_exposed_provenance_mut(address));
        // SAFETY: the addresses are the architecture's; the caller says that they are there and
        // that no other code uses them.
        let register = |address| Some(unsafe { Mmio::new(register(address)?) });
        let mut this = Self {
            control: register(CONTROL)?,
            reload: register(RELOAD)?,
            current: register(CURRENT)?,
            interrupts: register(INTERRUPTS)?,
            counter: Cell::new(DownCounter::new()),
            scale: Scale::of_hz(hz.into())?,
            seed,
            nap_ticks: nap_ticks(hz.into()).clamp(2, u64::from(PERIOD)) as u32,
            naps: false,
        };
        this.restart(PERIOD);
        this.control.write(RUN);
        Some(this)
    }

    /// Adds naps: while idle the core sleeps for at most 50 us at a time, or until an interrupt is
    /// pending. Setting the alarm takes some ticks that are not counted: the clock of an idle core
    /// is late by up to a part in a hundred.
    ///
    /// # Safety
    /// Exceptions are masked (`PRIMASK` set) and stay so: the one that wakes the core is never
    /// taken.
    #[must_use]
    pub const unsafe fn with_naps(mut self) -> Self {
        self.naps = true;
        self
    }

    /// Counts down from the last of `period` values, beginning with the next tick.
    fn restart(&mut self, period: u32) {
        self.reload.write(period - 1);
        self.current.write(0);
    }

    #[inline]
    fn ticks(&self) -> u64 {
        let mut counter = self.counter.get();
        let ticks = counter.look(self.current.read());
        self.counter.set(counter);
        ticks
    }

    /// Sleeps until the end of a period of `ticks`, or an interrupt.
    fn sleep(&mut self, ticks: u32) {
        self.ticks();
        self.restart(ticks);
        self.interrupts.write(NOT_PENDING);
        self.control.write(RUN | EXCEPTION);
        // SAFETY: returns at the latest when SysTick's exception is pending; it is masked, as
        // `with_naps` demands.
        unsafe { asm!("dsb", "wfi", "isb", options(nostack, preserves_flags)) };
        self.control.write(RUN);
        let whole = if self.interrupts.read() & IS_PENDING != 0 { ticks } else { 0 };
        let into = match self.current.read() {
            0 => 0,
            value => ticks.saturating_sub(value),
        };
        self.restart(PERIOD);
        self.interrupts.write(NOT_PENDING);
        let mut counter = self.counter.get();
        counter.reset(u64::from(whole) + u64::from(into));
        self.counter.set(counter);
    }
}

impl Platform for SysTick {
    #[inline]
    fn now(&self) -> Instant {
        Instant(self.scale.ns(self.ticks()))
    }

    #[inline]
    fn relax(&mut self, idle: u32) {
        if self.naps && idle >= SPINS {
            self.sleep(self.nap_ticks);
        } else {
            core::hint::spin_loop();
        }
    }

    fn entropy(&mut self) -> u64 {
        self.seed = mix(self.seed, self.ticks());
        self.seed
    }
}
