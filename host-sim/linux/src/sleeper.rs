//! The sleep of a rank that shares memory with all others of its job, until one of them rings.
//!
//! `aldis_drivers::shm` has the protocol. What it needs of the system is here: a word on which a
//! process sleeps and by which another wakes it (`futex`), and a barrier that the sleeper makes in
//! all other ranks' streams of instructions (`membarrier`), so that those that send need none.
//! Where the system refuses the barrier to any rank of the node, as a container may, none sleeps
//! like this: they nap as ranks with sockets do.

use core::mem;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use aldis_drivers::shm::{SleepWords, ToldSleep};
use aldis_sys::Errno;
use aldis_sys::clock::sleep;
use aldis_sys::futex::{Membarrier, futex_wait, futex_wake, membarrier};

use crate::environment;
use crate::error::JoinError;

/// The longest first sleep. What no peer rings for is seen late by an eighth of the wait at most,
/// as each sleep that nobody ends is longer than the one before by so much.
const FIRST: Duration = Duration::from_micros(100);
const GROWTH: u32 = 8;

/// The variable that says whether ranks sleep until they are woken.
const VARIABLE: &str = "ALDIS_SLEEP";

/// Returns true if they are to.
///
/// # Errors
/// [`JoinError::Variable`] for any other value than `on` and `off`.
pub(crate) fn is_wanted() -> Result<bool, JoinError> {
    environment::is_on(VARIABLE)
}

/// Has this process take part in the barriers of ranks that fall asleep; false if the system
/// refuses.
pub(crate) fn take_part() -> bool {
    membarrier(Membarrier::RegisterGlobalExpedited).is_ok()
}

/// Wakes the rank that sleeps on a word. If the system refuses, it wakes by itself, a little later.
pub(crate) fn ring(word: &AtomicU32) {
    let _ = futex_wake(word);
}

/// A rank that sleeps now and then.
#[derive(Debug)]
pub(crate) struct Sleeper {
    words: SleepWords<'static>,
    step: SleepStep,
    /// The longest next sleep.
    limit: Duration,
}

/// The step that a rank has come to on its way to sleep. Its caller looks for all that it waits for
/// after each.
#[derive(Debug)]
enum SleepStep {
    Awake,
    /// Notes what is missing.
    Watches,
    /// The others have been told that it is about to sleep.
    Lies(ToldSleep),
}

impl Sleeper {
    /// A rank that says by these words that it sleeps. It and all its peers have taken part.
    pub(crate) const fn new(words: SleepWords<'static>) -> Self {
        Self { words, step: SleepStep::Awake, limit: FIRST }
    }

    /// Goes a step towards sleep, and sleeps as the last one, until a peer rings but no longer than
    /// `most`. Returns true if it has slept.
    pub(crate) fn rest(&mut self, most: Duration) -> bool {
        let told = match mem::replace(&mut self.step, SleepStep::Awake) {
            SleepStep::Awake => {
                self.words.forget();
                self.step = SleepStep::Watches;
                return false;
            }
            SleepStep::Watches => self.words.lie_down(),
            SleepStep::Lies(mut told) => {
                if self.words.confirm(&mut told) {
                    return self.sleep(told, most);
                }
                told
            }
        };
        self.step = SleepStep::Lies(told);
        membarrier(Membarrier::GlobalExpedited).is_err() && self.nap()
    }

    fn sleep(&mut self, told: ToldSleep, most: Duration) -> bool {
        let (word, asleep) = self.words.word(&told);
        let slept = futex_wait(word, asleep, self.limit.min(most));
        let is_rung = self.words.get_up(told);
        match slept {
            Ok(()) | Err(Errno::EAGAIN | Errno::ETIMEDOUT | Errno::EINTR) => {}
            Err(_) => return self.nap(),
        }
        self.limit = if is_rung { FIRST } else { (self.limit + self.limit / GROWTH).min(most) };
        true
    }

    /// Sleeps for a short time, where the system refuses to be told more.
    fn nap(&mut self) -> bool {
        self.rise();
        sleep(FIRST);
        true
    }

    /// Ends a wait: it sleeps no more.
    pub(crate) fn rise(&mut self) {
        if let SleepStep::Lies(told) = mem::replace(&mut self.step, SleepStep::Awake) {
            self.words.get_up(told);
        }
        self.limit = FIRST;
    }

    /// This rank in another wait of the same thread, once this wait is over.
    pub(crate) const fn another(&self) -> Self {
        Self::new(self.words)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.rise();
    }
}
