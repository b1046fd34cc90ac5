//! This module holds `unsafe` code: the stacks of ranks, of which there may be more than a process
//! has mappings.
//!
//! Linux lets a process have about 65,000 mappings. A stack whose guard is a change of protection
//! is two of them, so that half as many ranks would be the most. Since Linux 6.13 a guard can be
//! installed within a mapping, and stacks side by side are one.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::io;

use aldis_sys::file::read_to_string;
use aldis_sys::memory::{MapFlags, ProtFlags, install_guard, mmap_anonymous, munmap};
use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Bytes of addresses below a stack that nothing may touch: a page of every size that Linux has.
const GUARD_BYTES: usize = 64 << 10;

/// Mappings that are left to everything else in a process.
const OTHER_MAPPINGS: u64 = 1024;

/// The stack of a rank's program.
pub(crate) enum RankStack {
    /// With a guard within the mapping.
    Light(LightStack),
    /// On systems that have no such guards.
    Default(DefaultStack),
}

impl RankStack {
    /// A stack of so many bytes. Pages that are never touched take no memory.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        match LightStack::new(bytes) {
            Ok(stack) => Ok(Self::Light(stack)),
            Err(_) => DefaultStack::new(bytes).map(Self::Default),
        }
    }

    /// Fails unless the system has mappings for the stacks of so many ranks, before the first is
    /// made.
    pub(crate) fn check_mappings(ranks: u32) -> io::Result<()> {
        let need = 2 * u64::from(ranks) + OTHER_MAPPINGS;
        let limit = read_to_string("/proc/sys/vm/max_map_count").ok();
        let have = limit.and_then(|limit| limit.trim().parse().ok()).unwrap_or(u64::MAX);
        if need <= have || LightStack::new(1).is_ok() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "not enough mappings: {need} needed for the stacks, {have} allowed (sysctl vm.max_map_count; from Linux \
             6.13 on they need a few)"
        )))
    }
}

// SAFETY: both kinds keep the contract, and nothing is changed on the way.
unsafe impl Stack for RankStack {
    fn base(&self) -> StackPointer {
        match self {
            Self::Light(stack) => stack.base(),
            Self::Default(stack) => stack.base(),
        }
    }

    fn limit(&self) -> StackPointer {
        match self {
            Self::Light(stack) => stack.limit(),
            Self::Default(stack) => stack.limit(),
        }
    }
}

/// A mapping with a guard at its beginning.
pub(crate) struct LightStack {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

impl LightStack {
    fn new(bytes: usize) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
        // Whole pages of every size too.
        let whole = bytes.max(1).checked_next_multiple_of(GUARD_BYTES);
        let bytes = whole.and_then(|bytes| bytes.checked_add(GUARD_BYTES)).and_then(NonZeroUsize::new);
        let bytes = bytes.ok_or_else(too_large)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // Stacks have no huge pages: few bytes of each are touched.
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_STACK;
        // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing that Rust
        // knows of.
        let start = unsafe { mmap_anonymous(None, bytes, protection, flags) }?;
        let stack = Self { start, bytes };
        // SAFETY: the mapping was made for this stack, and is larger than that.
        unsafe { install_guard(stack.start, GUARD_BYTES) }?;
        Ok(stack)
    }
}

impl Drop for LightStack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made for this stack, and no coroutine runs on it any more: it
        // would own the stack.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

// SAFETY: below the stack is a guard of at least a page, above it at least as many bytes, and both
// ends are multiples of a page.
unsafe impl Stack for LightStack {
    fn base(&self) -> StackPointer {
        self.start.addr().saturating_add(self.bytes.get())
    }

    fn limit(&self) -> StackPointer {
        self.start.addr()
    }
}

#[cfg(test)]
mod tests {
    use core::hint::black_box;

    use corosensei::{Coroutine, CoroutineResult};

    use super::*;

    #[test]
    fn a_coroutine_runs_on_a_stack_of_either_kind() {
        let stacks = [RankStack::new(100 << 10).unwrap(), RankStack::Default(DefaultStack::new(1).unwrap())];
        for stack in stacks {
            assert!(stack.base().get() - stack.limit().get() > 4096);
            let mut coroutine = Coroutine::with_stack(stack, |yielder, input: u32| {
                let next: u32 = yielder.suspend(input + 1);
                next + 1
            });
            assert!(matches!(coroutine.resume(1), CoroutineResult::Yield(2)));
            assert!(matches!(coroutine.resume(5), CoroutineResult::Return(6)));
        }
    }

    /// Touches a page of stack a call.
    fn overflow(depth: u32) -> u8 {
        let page = black_box([1_u8; 4096]);
        if depth == 0 { page[0] } else { overflow(depth - 1) ^ black_box(page)[1] }
    }

    #[test]
    fn a_program_that_overflows_its_stack_ends_and_touches_no_other() {
        const ASKED: &str = "ALDIS_SIM_OVERFLOW";
        if std::env::var_os(ASKED).is_some() {
            // Side by side, so that the memory below one is another's.
            let stacks = [(); 3].map(|()| RankStack::new(64 << 10).unwrap());
            for stack in stacks {
                let mut coroutine: Coroutine<(), (), u8, _> =
                    Coroutine::with_stack(stack, |_, ()| overflow(40));
                coroutine.resume(());
            }
            return;
        }
        let me = std::env::current_exe().unwrap();
        let name = "stack::tests::a_program_that_overflows_its_stack_ends_and_touches_no_other";
        let mut program = std::process::Command::new(me);
        let output = program.args(["--exact", name]).env(ASKED, "1").output().unwrap();
        assert!(std::os::unix::process::ExitStatusExt::signal(&output.status).is_some(), "{output:?}");
    }
}
