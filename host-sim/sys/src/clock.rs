//! Time.

use core::time::Duration;

use nix::errno::Errno;
pub use nix::sys::time::TimeSpec;
pub use nix::time::ClockId;

use crate::call::Call;
use crate::fault::enter;

/// `clock_gettime(2)`.
///
/// # Errors
/// The system's.
#[inline]
pub fn clock_gettime(clock: ClockId) -> Result<TimeSpec, Errno> {
    let _fault = enter(Call::ClockGettime)?;
    nix::time::clock_gettime(clock)
}

/// `nanosleep(2)`, again for what is left when a signal ends it. It cannot fail: one that is to
/// does not sleep.
pub fn sleep(duration: Duration) {
    if let Ok(_fault) = enter(Call::Nanosleep) {
        std::thread::sleep(duration);
    }
}
