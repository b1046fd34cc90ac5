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
    slab: Slab,
}

/// Their queue, which the queue pairs hold.
#[derive(Debug)]
pub(super) struct SharedQueue {
    pub(super) queue: *mut ffi::ibv_srq,
    _domain: Rc<Domain>,
}

impl Receives {
    /// So many slots, none of them posted.
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        slots: u32,
        slot_bytes: usize,
    ) -> Result<Self, VerbsError> {
        let slab = Slab::new(domain, slots as usize, slot_bytes)?;
        let mut wanted = ffi::ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ffi::ibv_srq_attr { max_wr: slots, max_sge: 1, srq_limit: 0 },
        };
        // SAFETY: the domain is open, and the call reads and fills in the attributes.
        let queue = unsafe { ffi::ibv_create_srq(domain.domain, &mut wanted) };
        if queue.is_null() {
            return Err(failed("ibv_create_srq"));
        }
        let queue = Rc::new(SharedQueue { queue, _domain: Rc::clone(domain) });
        Ok(Self { queue, slab })
    }

    /// Lends a slot to the device, for the next message of anybody.
    pub(in crate::verbs) fn post(&mut self, slot: usize) -> Result<(), VerbsError> {
        let stale = VerbsError::Call { call: "ibv_post_srq_recv", errno: Errno::EINVAL };
        let mut place = self.slab.place(slot, self.slab.slot_bytes).ok_or(stale)?;
        let mut request =
            ffi::ibv_recv_wr { wr_id: slot as u64, next: ptr::null_mut(), sg_list: &mut place, num_sge: 1 };
        let (mut bad, queue) = (ptr::null_mut(), self.queue.queue);
        // SAFETY: the queue is open and has the operation; request and list are read before the call returns; the memory is
        // registered and out of reach until the request is over.
        let code = unsafe {
            let post = (*(*queue).context).ops.post_srq_recv;
            post.map_or(-1, |post| post(queue, &mut request, &mut bad))
        };
        check("ibv_post_srq_recv", code)?;
        self.slab.set_lent(slot, true);
        Ok(())
    }

    /// Takes the slot of a receive back that is over.
    pub(in crate::verbs) fn take(&mut self, done: &Done) -> usize {
        let slot = usize::try_from(done.request).unwrap_or(usize::MAX);
        self.slab.set_lent(slot, false);
        slot
    }

    /// What came.
    pub(in crate::verbs) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        self.slab.bytes(slot, len)
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: it is open, and the queue pairs that use it hold it.
        unsafe { ffi::ibv_destroy_srq(self.queue) };
    }
}
