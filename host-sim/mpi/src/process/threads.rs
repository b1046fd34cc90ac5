//! Threads (MPI 5.0, 11.6): with `MPI_THREAD_MULTIPLE` one of those that are in calls of MPI works
//! with the state of the process, and others do when it waits or returns. With less nothing is
//! locked: the program keeps its threads apart.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicBool, Ordering};

use aldis_hal::Platform;
use aldis_linux::platform::HostPlatform;
use parking_lot::{Mutex, MutexGuard};

/// True if several threads may be in calls: also before MPI begins, when any thread may begin a
/// session (MPI 5.0, 11.3.1) or make info objects and error handlers.
static MANY: AtomicBool = AtomicBool::new(true);

/// The lock of the thread that may be in the library.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// This thread's turn, and in how many calls it is: functions of the program's that a call
    /// calls may call others.
    static OWN: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Grants the program that several threads are in calls at a time, or takes its word that none are,
/// if MPI `begins` by that: parts of a program that have been granted more keep it.
pub(crate) fn grant(many: bool, begins: bool) {
    if many || begins {
        MANY.store(many, Ordering::Relaxed);
    }
}

/// Returns true if several threads may be in calls at a time.
#[inline]
pub(crate) fn are_many() -> bool {
    MANY.load(Ordering::Relaxed)
}

/// A thread is in a call as long as it has this.
pub(crate) struct Inside(bool);

/// Waits until no other thread is in a call that does not wait.
#[inline]
pub(crate) fn enter() -> Inside {
    let many = are_many();
    if many {
        come_in();
    }
    Inside(many)
}

#[cold]
fn come_in() {
    if DEPTH.replace(DEPTH.get() + 1) == 0 {
        let turn = TURN.lock();
        OWN.set(Some(turn));
    }
}

/// The turn at the exit of the process, when what belongs to its threads is gone; `None` while
/// another thread is in a call.
pub(crate) fn turn_at_exit() -> Option<MutexGuard<'static, ()>> {
    TURN.try_lock()
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            go_out();
        }
    }
}

#[cold]
fn go_out() {
    let depth = DEPTH.get().saturating_sub(1);
    DEPTH.set(depth);
    if depth == 0 {
        OWN.set(None);
    }
}

/// Rests in a call that waits, after so many looks in vain: the threads that wait for their turn
/// have theirs meanwhile.
pub(crate) fn give_way(platform: &mut HostPlatform, idle: u32) {
    match OWN.take() {
        None => platform.relax(idle),
        Some(turn) => {
            MutexGuard::unlock_fair(turn);
            platform.relax_among_threads(idle);
            OWN.set(Some(TURN.lock()));
        }
    }
}
