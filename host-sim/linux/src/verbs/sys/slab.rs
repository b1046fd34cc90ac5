//! UNSAFE: hands memory to the device through libibverbs. A slot of it is out of reach until the
//! device has given it back.

use core::alloc::Layout;
use core::{ptr, slice};
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::device::Domain;
use super::failed;
use crate::verbs::error::VerbsError;

/// The boundary at which memory of a slab begins: a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// Registered memory in slots of one size. A slot is either ours or lent to the device.
#[derive(Debug)]
pub(super) struct Slab {
    region: *mut ffi::ibv_mr,
    memory: ptr::NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    lent: Vec<bool>,
    _domain: Rc<Domain>,
}

impl Slab {
    pub(super) fn new(domain: &Rc<Domain>, slots: usize, slot_bytes: usize) -> Result<Self, VerbsError> {
        let too_large = VerbsError::Call { call: "ibv_reg_mr", errno: Errno::ENOMEM };
        let bytes = slots.checked_mul(slot_bytes).filter(|bytes| *bytes > 0).ok_or(too_large.clone())?;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| too_large.clone())?;
        // SAFETY: the layout is not of size zero.
        let memory = ptr::NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(too_large)?;
        let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0.cast_signed();
        // SAFETY: the memory is there until this is dropped, which deregisters it first.
        let region = unsafe { ffi::ibv_reg_mr(domain.domain, memory.as_ptr().cast(), bytes, access) };
        if region.is_null() {
            let error = refused(bytes as u64);
            // SAFETY: allocated above with this layout, and nothing else has it.
            unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
            return Err(error);
        }
        Ok(Self { region, memory, layout, slot_bytes, lent: vec![false; slots], _domain: Rc::clone(domain) })
    }

    /// A slot of ours; empty if it is lent.
    pub(super) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return &[];
        }
        // SAFETY: within the memory, which is initialised; the device writes to lent slots alone,
        // and this is none for as long as it is borrowed.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(slot * self.slot_bytes), len) }
    }

    pub(super) fn bytes_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the slab is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().add(slot * self.slot_bytes), len) }
    }

    /// The place of a slot of ours, as a work request names it.
    pub(super) fn place(&self, slot: usize, len: usize) -> Option<ffi::ibv_sge> {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return None;
        }
        // SAFETY: the region is registered.
        let lkey = unsafe { (*self.region).lkey };
        let addr = self.memory.as_ptr() as u64 + (slot * self.slot_bytes) as u64;
        Some(ffi::ibv_sge { addr, length: len as u32, lkey })
    }

    pub(super) fn set_lent(&mut self, slot: usize, lent: bool) {
        if let Some(place) = self.lent.get_mut(slot) {
            *place = lent;
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: registered once. When the call has succeeded, the device touches the memory no
        // more, and it can be freed; else it stays for the rest of the process.
        unsafe {
            if ffi::ibv_dereg_mr(self.region) == 0 {
                std::alloc::dealloc(self.memory.as_ptr(), self.layout);
            }
        }
    }
}

/// The error of a registration that failed: most often because a limit of the process forbids it.
pub(super) fn refused(need: u64) -> VerbsError {
    let error = failed("ibv_reg_mr");
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((have, _))
            if have != u64::MAX
                && error == (VerbsError::Call { call: "ibv_reg_mr", errno: Errno::ENOMEM }) =>
        {
            VerbsError::Locked { need, have }
        }
        _ => error,
    }
}
