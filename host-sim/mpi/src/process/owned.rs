//! This module holds `unsafe` code: state of the process is shared by its threads.
//!
//! State of the process, and the rule by which threads and tests keep out of each other's way.

use core::ops::Deref;

/// State of the process. At most one thread works with it at a time: the one whose turn it is
/// (`threads`), or the only one that is in a call of MPI.
pub(crate) struct Owned<T>(T);

// SAFETY: the maker of one promises that one thread at a time works with it.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// # Safety
    /// It is used in calls of MPI only. Of those, the program keeps threads out of each other's, as
    /// the thread level that it was granted has it do, or `threads::enter` does. A call that waits
    /// keeps no borrow of it meanwhile.
    pub(crate) const unsafe fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        #[cfg(test)]
        assert!(Alone::holds(), "a test uses state of the process without `Alone`");
        &self.0
    }
}

/// The right of a test to use state of the process, which tests in other threads of it share.
#[cfg(test)]
pub(crate) struct Alone(
    #[allow(dead_code, reason = "held until it is dropped")] std::sync::MutexGuard<'static, ()>,
);

#[cfg(test)]
std::thread_local! {
    static HOLDS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

#[cfg(test)]
impl Alone {
    /// Waits until no other test has it.
    pub(crate) fn new() -> Self {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let guard = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        HOLDS.set(true);
        Self(guard)
    }

    fn holds() -> bool {
        HOLDS.get()
    }
}

#[cfg(test)]
impl Drop for Alone {
    fn drop(&mut self) {
        HOLDS.set(false);
    }
}
