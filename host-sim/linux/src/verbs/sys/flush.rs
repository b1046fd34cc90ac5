//! UNSAFE: has the device write to memory that no code looks at. How it is found out that what was
//! written to a peer's memory is there.
//!
//! A device acknowledges a write when it has it, which is before the peer's memory may. A read
//! behind it is answered from that memory, so it comes back when all before it can be seen
//! (InfiniBand Architecture Specification 1.4, volume 1, section 9.5 and table 79: reads are
//! executed after earlier writes of the queue pair).

use core::ptr::NonNull;
use std::rc::Rc;

use aldis_hal::memory::{Access, Memory};
use ibverbs_sys as ffi;

use super::device::Domain;
use super::region::{DeviceRegion, RegionKey};
use crate::verbs::error::VerbsError;

/// Bytes that are read.
const BYTES: usize = 8;

/// A word that peers read, and another for what is read of theirs.
#[derive(Debug)]
pub(in crate::verbs) struct Flush(DeviceRegion);

/// The key by which a peer's word is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::verbs) struct FlushKey {
    pub(in crate::verbs) key: u32,
    pub(in crate::verbs) base: u16,
}

impl Flush {
    pub(in crate::verbs) fn new(domain: &Rc<Domain>) -> Result<Rc<Self>, VerbsError> {
        // For the rest of the process, so that the device writes to no other memory.
        let words: &'static mut [u64; 2] = Box::leak(Box::new([0; 2]));
        let memory = Memory { start: NonNull::from(words).cast(), len: 2 * BYTES };
        // SAFETY: it is there for good, and nothing else has it.
        let region = unsafe { DeviceRegion::new(domain, memory, Access::LOCAL_WRITE | Access::REMOTE_READ) };
        Ok(Rc::new(Self(region?)))
    }

    pub(in crate::verbs) fn key(&self) -> FlushKey {
        let RegionKey { key, base, .. } = self.0.key();
        FlushKey { key, base }
    }

    /// Returns the place for what is read.
    pub(super) fn place(&self) -> Option<ffi::ibv_sge> {
        self.0.place(BYTES, BYTES)
    }
}
