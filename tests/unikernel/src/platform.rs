//! The clock, entropy and console of ArceOS.

use core::fmt;

use aldis_hal::{Instant, Platform};
use x86_64::instructions::random::RdRand;

/// The clock of ArceOS. An idle rank spins: with the feature `multitask` of `axruntime` it would
/// let other tasks run, with `irq` wait for an interrupt.
#[derive(Debug)]
pub(crate) struct ArceosClock {
    random: Option<RdRand>,
    calls: u64,
}

impl ArceosClock {
    pub(crate) fn new() -> Self {
        Self { random: RdRand::new(), calls: 0 }
    }
}

impl Platform for ArceosClock {
    fn now(&self) -> Instant {
        Instant(axhal::time::monotonic_time_nanos())
    }

    fn relax(&mut self, _idle: u32) {
        core::hint::spin_loop();
    }

    fn entropy(&mut self) -> u64 {
        self.calls += 1;
        let drawn = self.random.and_then(RdRand::get_u64).unwrap_or_default();
        // Without the instruction: the second of the boot, and how long that took.
        drawn ^ axhal::time::wall_time_nanos().rotate_left(32) ^ axhal::time::current_ticks() ^ self.calls
    }
}

/// The console.
#[derive(Debug)]
pub(crate) struct ArceosConsole;

impl fmt::Write for ArceosConsole {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        axhal::console::write_bytes(text.as_bytes());
        Ok(())
    }
}
