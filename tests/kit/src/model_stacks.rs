//! This module holds `unsafe` code: stacks of the threads of loom's models, which are used again.
//!
//! Loom runs each thread of each execution on a stack of its own, which it maps, guards and unmaps.
//! There are millions of executions, and the system took more time for that than the models
//! themselves. The three calls stand here in place of libc's: a stack that is given back is kept
//! with its guard page for the next thread, and all other memory goes to the system as ever. A
//! model sees the same executions.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_STACK, SYS_mmap, SYS_mprotect, SYS_munmap, off_t, syscall,
};

/// The flags of a mapping that is a stack.
const STACK: c_int = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;

/// A stack with its guard page.
struct Stack {
    start: usize,
    bytes: usize,
    state: StackState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StackState {
    /// In use, as the system has given it.
    Fresh,
    /// In use for a further time: its guard page is there already.
    Again,
    /// Kept for the next thread.
    Kept,
}

static STACKS: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

fn stacks() -> MutexGuard<'static, Vec<Stack>> {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps memory, a stack from those that are kept if one has its length.
///
/// # Safety
/// The promises of the call of the system, which this stands for.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_stack = start.is_null() && flags == STACK;
    let is_fit = |one: &&mut Stack| is_stack && one.state == StackState::Kept && one.bytes == bytes;
    if let Some(stack) = stacks().iter_mut().find(is_fit) {
        stack.state = StackState::Again;
        return ptr::with_exposed_provenance_mut(stack.start);
    }
    // SAFETY: the caller's promises are those of the call.
    let mapped = unsafe { syscall(SYS_mmap, start, bytes, protection, flags, file, offset) };
    let mapped = ptr::with_exposed_provenance_mut::<c_void>(mapped as usize);
    if is_stack && mapped != MAP_FAILED {
        stacks().push(Stack { start: mapped.addr(), bytes, state: StackState::Fresh });
    }
    mapped
}

/// Sets what may be done with memory. A stack that is used again has its guard page already.
///
/// # Safety
/// The promises of the call of the system, which this stands for.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(start: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    let is_again = |one: &Stack| one.start == start.addr() && one.state == StackState::Again;
    if stacks().iter().any(is_again) {
        return 0;
    }
    // SAFETY: the caller's promises are those of the call.
    (unsafe { syscall(SYS_mprotect, start, bytes, protection) }) as c_int
}

/// Unmaps memory, and keeps a stack.
///
/// # Safety
/// The promises of the call of the system, which this stands for.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize) -> c_int {
    let is_it = |one: &&mut Stack| one.start == start.addr() && one.bytes == bytes;
    if let Some(stack) = stacks().iter_mut().find(is_it) {
        stack.state = StackState::Kept;
        return 0;
    }
    // SAFETY: the caller's promises are those of the call.
    (unsafe { syscall(SYS_munmap, start, bytes) }) as c_int
}
