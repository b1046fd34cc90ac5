//! UNSAFE: calls libibverbs. The receives that all queue pairs share.

use core::ptr;
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;

use super::completions::Done;
use super::device::Domain;
use super::slab::Slab;
use super::{check, failed};
use crate::verbs::error::VerbsError;

/// The receives that all queue pairs share, with their memory.
#[derive(Debug)]
pub(in crate::verbs) struct Receives {
    // Before the memory that it names.
    pub(super) queue: Rc<SharedQueue>,
    slabs: Vec<Slab>,
    /// Slots of each slab, and the bytes of a slot.
    shape: (u32, usize),
}

/// Their queue, which the queue pairs hold.
#[derive(Debug)]
pub(super) struct SharedQueue {
    pub(super) queue: *mut ffi::ibv_srq,
    domain: Rc<Domain>,
}

impl Receives {
    /// A queue that can hold so many, and has none yet. It grows by so many slots of so many bytes.
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        most: u32,
        slots: u32,
        bytes: usize,
    ) -> Result<Self, VerbsError> {
        let mut wanted = ffi::ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ffi::ibv_srq_attr { max_wr: most, max_sge: 1, srq_limit: 0 },
        };
        // SAFETY: the domain is open, and the call reads and fills in the attributes.
        let queue = unsafe { ffi::ibv_create_srq(domain.domain, &mut wanted) };
        if queue.is_null() {
            return Err(failed("ibv_create_srq"));
        }
        let queue = Rc::new(SharedQueue { queue, domain: Rc::clone(domain) });
        Ok(Self { queue, slabs: Vec::new(), shape: (slots, bytes) })
    }

    /// Grows until it has so many slabs, and lends all that is new to the device.
    pub(in crate::verbs) fn grow(&mut self, slabs: usize) -> Result<(), VerbsError> {
        let (slots, bytes) = self.shape;
        while self.slabs.len() < slabs {
            let first = self.slabs.len() * slots as usize;
            self.slabs.push(Slab::new(&self.queue.domain, slots as usize, bytes)?);
            (first..first + slots as usize).try_for_each(|slot| self.post(slot))?;
        }
        Ok(())
    }

    /// The slab of a slot, and its number there.
    fn find(&mut self, slot: usize) -> Option<(&mut Slab, usize)> {
        let slots = self.shape.0 as usize;
        Some((self.slabs.get_mut(slot / slots)?, slot % slots))
    }

    /// Lends a slot to the device, for the next message of any peer.
    pub(in crate::verbs) fn post(&mut self, slot: usize) -> Result<(), VerbsError> {
        let stale = VerbsError::Call { call: "ibv_post_srq_recv", errno: Errno::EINVAL };
        let (bytes, queue) = (self.shape.1, self.queue.queue);
        let (slab, number) = self.find(slot).ok_or_else(|| stale.clone())?;
        let mut place = slab.place(number, bytes).ok_or(stale)?;
        let mut request =
            ffi::ibv_recv_wr { wr_id: slot as u64, next: ptr::null_mut(), sg_list: &mut place, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is open and has the operation; request and list are read before the
        // call returns; the memory is registered and out of reach until the request is over.
        let code = unsafe {
            let post = (*(*queue).context).ops.post_srq_recv;
            post.map_or(-1, |post| post(queue, &mut request, &mut bad))
        };
        check("ibv_post_srq_recv", code)?;
        slab.set_lent(number, true);
        Ok(())
    }

    /// Takes the slot of a receive back that is over.
    pub(in crate::verbs) fn take(&mut self, done: &Done) -> usize {
        let slot = usize::try_from(done.request).unwrap_or(usize::MAX);
        if let Some((slab, number)) = self.find(slot) {
            slab.set_lent(number, false);
        }
        slot
    }

    /// Returns the bytes that came.
    pub(in crate::verbs) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        let slots = self.shape.0 as usize;
        self.slabs.get(slot / slots).map_or(&[], |slab| slab.bytes(slot % slots, len))
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: it is open, and the queue pairs that use it hold it.
        unsafe { ffi::ibv_destroy_srq(self.queue) };
    }
}
