//! Bugs for tests to find. The feature `planted-bugs` is for tests alone and never in a default
//! build: it lets a test plant one of these in every endpoint of its process, to see whether its
//! checks would find it. Without the feature the questions below are answered at compile time, and
//! nothing of this is left in the kernel.
#![cfg_attr(not(feature = "planted-bugs"), expect(unreachable_pub, reason = "public for tests alone"))]

use aldis_protocols::rendezvous::{Sender, SenderStep};

/// A mistake that a programmer could make in this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum Planted {
    /// Now and then a place that has become free is not counted, so its credit is never returned to
    /// the sender.
    DropCredit = 1,
    /// A request's handle is taken by its slot alone, so that a stale one reaches the request that
    /// has the slot now.
    SkipGeneration,
    /// Two full fragments of a message that follow each other change places.
    ReorderFragments,
    /// A receive without wildcards is preferred to an older one with wildcards.
    ForgetPostingOrder,
    /// A scope that ends early does not let go of the memory of its requests.
    KeepMemory,
}

#[cfg(feature = "planted-bugs")]
mod state {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::Planted;

    /// The number of chances of which a bug that strikes now and then takes one.
    const CHANCES: u32 = 8;

    static PLANTED: AtomicU32 = AtomicU32::new(0);
    static CHANCE: AtomicU32 = AtomicU32::new(0);

    /// Plants `bug` in every endpoint of this process, in place of the one planted before; none
    /// takes that out again.
    pub fn plant(bug: Option<Planted>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u32), Ordering::Relaxed);
        CHANCE.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is(bug: Planted) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u32
    }

    pub(crate) fn strikes(bug: Planted) -> bool {
        if !is(bug) {
            return false;
        }
        let chance = CHANCE.load(Ordering::Relaxed).wrapping_add(1);
        CHANCE.store(chance, Ordering::Relaxed);
        chance.is_multiple_of(CHANCES)
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod state {
    use super::Planted;

    #[inline(always)]
    pub(crate) const fn is(_: Planted) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn strikes(_: Planted) -> bool {
        false
    }
}

/// Returns true if a bug is planted.
pub(crate) use state::is;
#[cfg(feature = "planted-bugs")]
pub use state::plant;
/// Returns true if a bug that strikes now and then does so at this chance.
pub(crate) use state::strikes;

/// The next step of a sender; with fragments reordered if that is planted.
#[inline(always)]
pub(crate) fn step(sender: &Sender, fragment_max: u32) -> SenderStep {
    let step = sender.step(fragment_max);
    if is(Planted::ReorderFragments) { reordered(*sender, fragment_max, step) } else { step }
}

/// Of each pair of full fragments the second is sent first.
fn reordered(sender: Sender, fragment_max: u32, step: SenderStep) -> SenderStep {
    let SenderStep::Data { receiver, offset, len } = step else { return step };
    let mut after = sender;
    after.sent(len);
    let full = u64::from(fragment_max.max(1));
    let is_first = offset.checked_rem(2 * full) == Some(0);
    let next_is_full =
        matches!(after.step(fragment_max), SenderStep::Data { len, .. } if len == fragment_max);
    let offset = match is_first {
        true if next_is_full => offset + full,
        false if len == fragment_max => offset.saturating_sub(full),
        _ => offset,
    };
    SenderStep::Data { receiver, offset, len }
}
