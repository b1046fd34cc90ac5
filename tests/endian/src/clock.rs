//! The platform of a process on any host: the standard library's clock, and its yield to wait.

use std::time::Instant;

use aldis_hal::Platform;

/// Nanoseconds since the process began.
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Platform for Clock {
    fn now(&self) -> aldis_hal::Instant {
        aldis_hal::Instant(self.start.elapsed().as_nanos() as u64)
    }

    fn relax(&mut self, _: u32) {
        // The other rank may need this very core.
        std::thread::yield_now();
    }

    fn entropy(&mut self) -> u64 {
        u64::from(std::process::id())
    }
}
