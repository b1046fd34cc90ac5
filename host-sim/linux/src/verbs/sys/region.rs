//! UNSAFE: hands memory of the user to the device through libibverbs.

use std::rc::Rc;

use aldis_hal::memory::{Access, Memory};
use ibverbs_sys as ffi;
use nix::errno::Errno;

use super::check;
use super::device::Domain;
use super::slab::{PAGE_BYTES, refused};
use crate::verbs::error::VerbsError;

/// Registered memory of the user.
///
/// The device knows its first byte not by its address but by the place in a page that it has, so no
/// address is on the wire.
#[derive(Debug)]
pub(in crate::verbs) struct DeviceRegion {
    region: *mut ffi::ibv_mr,
    base: u64,
    len: u64,
    access: Access,
    domain: Rc<Domain>,
}

/// The key by which a peer reaches a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::verbs) struct RegionKey {
    pub(in crate::verbs) key: u32,
    /// The device's number of the first byte.
    pub(in crate::verbs) base: u16,
    pub(in crate::verbs) len: u64,
}

impl DeviceRegion {
    /// Registers memory.
    ///
    /// # Safety
    /// As of [`register`](aldis_hal::RemoteMemory::register), until this is dropped.
    pub(in crate::verbs) unsafe fn new(
        domain: &Rc<Domain>,
        memory: Memory,
        access: Access,
    ) -> Result<Self, VerbsError> {
        use ffi::ibv_access_flags as flags;
        let remote_writes = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        // What peers write, the device has to be able to write too.
        let pairs = [
            (Access::LOCAL_WRITE | remote_writes, flags::IBV_ACCESS_LOCAL_WRITE),
            (Access::REMOTE_READ, flags::IBV_ACCESS_REMOTE_READ),
            (Access::REMOTE_WRITE, flags::IBV_ACCESS_REMOTE_WRITE),
            (Access::REMOTE_ATOMIC, flags::IBV_ACCESS_REMOTE_ATOMIC),
        ];
        let wanted = pairs.iter().filter(|(bits, _)| access.intersects(*bits));
        let wanted = wanted.fold(0, |all, (_, flag)| all | flag.0).cast_signed();
        let base = (memory.start.as_ptr().addr() % PAGE_BYTES) as u64;
        // SAFETY: the domain is open; the memory is the caller's to lend, as it promised.
        let region = unsafe {
            let start = memory.start.as_ptr().cast();
            ffi::ibv_reg_mr_iova(domain.domain, start, memory.len, base, wanted)
        };
        if region.is_null() {
            return Err(refused(memory.len as u64));
        }
        Ok(Self { region, base, len: memory.len as u64, access, domain: Rc::clone(domain) })
    }

    /// Returns what the transport and peers may do there.
    pub(in crate::verbs) fn access(&self) -> Access {
        self.access
    }

    pub(in crate::verbs) fn len(&self) -> u64 {
        self.len
    }

    pub(in crate::verbs) fn key(&self) -> RegionKey {
        // SAFETY: it is registered.
        let key = unsafe { (*self.region).rkey };
        RegionKey { key, base: self.base as u16, len: self.len }
    }

    /// A piece as an order names it; `None` if it is not inside.
    pub(super) fn place(&self, offset: usize, len: usize) -> Option<ffi::ibv_sge> {
        let end = offset.checked_add(len)?;
        // SAFETY: it is registered.
        let lkey = unsafe { (*self.region).lkey };
        let length = u32::try_from(len).ok()?;
        (end as u64 <= self.len).then_some(ffi::ibv_sge { addr: self.base + offset as u64, length, lkey })
    }
}

impl Drop for DeviceRegion {
    fn drop(&mut self) {
        // SAFETY: registered once. No order names it any more: the engine ends those that do first.
        // Peers that still use its key are refused from here on.
        let code = unsafe { ffi::ibv_dereg_mr(self.region) };
        end_unless_let_go(code, || self.domain.device().is_removed());
    }
}

/// Ends the process unless the device has let go of memory whose deregistration gave this code: the
/// memory is its owner's again, who can free it, and a device that knows it could write there.
fn end_unless_let_go(code: i32, is_removed: impl FnOnce() -> bool) {
    let Err(error) = check("ibv_dereg_mr", code) else { return };
    // The system's answer for a device that was removed. It says that it is, once all is taken back
    // that was registered with it (Linux, drivers/infiniband/core/rdma_core.c).
    if code.abs() == Errno::EIO as i32 && is_removed() {
        return;
    }
    eprintln!(
        "aldis: {error}: the RDMA device may still write to memory of this process, which takes it back: this process ends instead"
    );
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn memory_that_the_device_has_let_go_of_is_its_owners() {
        end_unless_let_go(0, || unreachable!("the call has succeeded"));
        end_unless_let_go(Errno::EIO as i32, || true);
        end_unless_let_go(-(Errno::EIO as i32), || true);
    }

    #[test]
    fn memory_that_the_device_may_still_write_to_is_never_given_back() {
        for (refusal, what) in [("busy", "EBUSY"), ("broken", "EIO")] {
            let name = format!("verbs::sys::region::tests::a_{refusal}_device_keeps_memory");
            let ended = Command::new(std::env::current_exe().unwrap())
                .args([&name, "--exact", "--ignored", "--nocapture"])
                .output()
                .unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.signal(), Some(nix::libc::SIGABRT), "{what}: {said}");
            assert!(said.contains("aldis: ibv_dereg_mr: "), "{what}: {said}");
        }
    }

    #[test]
    #[ignore = "ends the process: the test above runs it"]
    fn a_busy_device_keeps_memory() {
        end_unless_let_go(Errno::EBUSY as i32, || true);
    }

    #[test]
    #[ignore = "ends the process: a test above runs it"]
    fn a_broken_device_keeps_memory() {
        end_unless_let_go(Errno::EIO as i32, || false);
    }
}
