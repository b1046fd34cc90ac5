//! Sharing an endpoint between cores, explicitly: a spin lock around it. The endpoint itself has no locks.

use spin::mutex::{SpinMutex, SpinMutexGuard};

/// An endpoint that several cores take turns with.
///
/// A blocking call made under the lock keeps it until it is done; cores that must not wait for each other poll under
/// the lock in short turns, or have an endpoint each.
#[derive(Debug)]
pub struct Shared<E>(SpinMutex<E>);

impl<E> Shared<E> {
    /// Wraps an endpoint.
    pub const fn new(endpoint: E) -> Self {
        Self(SpinMutex::new(endpoint))
    }

    /// Spins until the endpoint is free.
    pub fn lock(&self) -> SpinMutexGuard<'_, E> {
        self.0.lock()
    }

    /// The endpoint, if it is free now.
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, E>> {
        self.0.try_lock()
    }

    /// The endpoint for good.
    pub fn into_inner(self) -> E {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn cores_take_turns() {
        let shared = Shared::new(0u32);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *shared.lock() += 1));
            }
        });
        let held = shared.lock();
        assert!(shared.try_lock().is_none());
        drop(held);
        assert_eq!(shared.into_inner(), 4000);
    }
}
