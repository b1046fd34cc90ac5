//! UNSAFE: calls libibverbs. Where the device tells what it has done.

use core::ptr;
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;

use super::channel::CompletionChannel;
use super::device::{Device, Domain};
use super::{check, failed};
use crate::verbs::error::VerbsError;

/// Completions taken by one call.
pub(in crate::verbs) const BATCH: usize = 16;

/// The queue in which the device tells what it has done.
#[derive(Debug)]
pub(in crate::verbs) struct Completions {
    pub(super) queue: *mut ffi::ibv_cq,
    _channel: Rc<CompletionChannel>,
    _device: Rc<Device>,
}

/// The way in which a work request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::verbs) enum Ending {
    Good,
    /// The other side did not answer, however often it was asked.
    NoAnswer,
    /// The peer had no receive.
    NotReady,
    /// The peer does not let us touch that memory.
    Refused,
    /// The queue pair had failed before.
    Flushed,
    /// Anything else.
    Failed,
}

/// A work request that is over.
#[derive(Debug)]
pub(in crate::verbs) struct Done {
    pub(super) request: u64,
    /// The number of the queue pair here.
    pub(in crate::verbs) pair: u32,
    pub(in crate::verbs) ending: Ending,
    /// The length of what came, in bytes, and the immediate value; of receives alone.
    pub(in crate::verbs) len: usize,
    pub(in crate::verbs) immediate: u32,
}

/// The queues on which a queue pair tells what is over.
#[derive(Clone, Copy)]
pub(in crate::verbs) struct CompletionQueues<'a> {
    pub(in crate::verbs) sent: &'a Rc<Completions>,
    pub(in crate::verbs) received: &'a Rc<Completions>,
}

impl Completions {
    /// Room for so many. Once it is [armed](Self::arm), the channel tells of the next one.
    pub(in crate::verbs) fn new(
        domain: &Domain,
        channel: &Rc<CompletionChannel>,
        entries: u32,
    ) -> Result<Rc<Self>, VerbsError> {
        let (device, channel) = (Rc::clone(&domain.device), Rc::clone(channel));
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: the device's context and the channel are open, and held by what is made; the
        // queue gets no context of ours.
        let queue =
            unsafe { ffi::ibv_create_cq(device.context, entries, ptr::null_mut(), channel.channel, 0) };
        if queue.is_null() {
            return Err(failed("ibv_create_cq"));
        }
        Ok(Rc::new(Self { queue, _channel: channel, _device: device }))
    }

    /// Has the channel tell of the next completion. What has come before is to be looked for after
    /// this.
    pub(in crate::verbs) fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue is open, and its context has the operation.
        let code = unsafe {
            let arm = (*(*self.queue).context).ops.req_notify_cq;
            arm.map_or(-1, |arm| arm(self.queue, 0))
        };
        check("ibv_req_notify_cq", code)
    }

    /// Takes at most so many, and [`BATCH`].
    pub(in crate::verbs) fn poll(&self, most: usize, mut each: impl FnMut(Done)) -> Result<(), VerbsError> {
        let mut found = [ffi::ibv_wc::default(); BATCH];
        let most = most.min(BATCH) as i32;
        // SAFETY: the queue is open, its context has the operation, and there is room for `most`
        // entries.
        let count = unsafe {
            let poll = (*(*self.queue).context).ops.poll_cq;
            poll.map_or(-1, |poll| poll(self.queue, most, found.as_mut_ptr()))
        };
        let count = usize::try_from(count)
            .map_err(|_| VerbsError::Call { call: "ibv_poll_cq", errno: Errno::EIO })?;
        for entry in found.iter().take(count) {
            use ffi::ibv_wc_status as status;
            let ending = match entry.error().map(|(status, _)| status) {
                None => Ending::Good,
                Some(status::IBV_WC_RETRY_EXC_ERR) => Ending::NoAnswer,
                Some(status::IBV_WC_RNR_RETRY_EXC_ERR) => Ending::NotReady,
                Some(status::IBV_WC_REM_ACCESS_ERR | status::IBV_WC_REM_INV_REQ_ERR) => Ending::Refused,
                Some(status::IBV_WC_WR_FLUSH_ERR) => Ending::Flushed,
                Some(_) => Ending::Failed,
            };
            let (len, immediate) = (entry.len(), u32::from_be(entry.imm_data));
            each(Done { request: entry.wr_id(), pair: entry.qp_num, ending, len, immediate });
        }
        Ok(())
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: it is open, and what reports to it holds it.
        unsafe { ffi::ibv_destroy_cq(self.queue) };
    }
}
