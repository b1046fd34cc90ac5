//! The decision when the device is to wake a rank: once that has polled in vain for so long that it
//! may sleep.

use super::sys::CompletionChannel;

/// Polls in vain after which the device is asked to: fewer than those after which a rank that
/// shares its core sleeps ([`Patience::SHARED_WOKEN`](crate::platform::Patience::SHARED_WOKEN)).
const VAIN: u32 = 8;

/// Polls in vain, and whether the device has been asked.
#[derive(Debug, Default)]
pub(super) struct PollWatch {
    vain: u32,
    armed: bool,
}

impl PollWatch {
    /// Takes note of a poll that has found so much; whether the queues are to be armed, and looked
    /// at once more.
    pub(super) fn is_due(&mut self, found: u32, channel: &CompletionChannel) -> bool {
        if self.armed && (found > 0 || channel.take()) {
            self.armed = false;
        }
        self.vain = if found > 0 { 0 } else { self.vain.saturating_add(1) };
        let is_due = self.vain >= VAIN && !self.armed;
        self.armed |= is_due;
        is_due
    }
}
