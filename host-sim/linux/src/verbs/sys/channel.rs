//! UNSAFE: calls libibverbs. A file that can be waited on for completions.

use core::ptr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::device::Device;
use super::failed;
use crate::verbs::error::VerbsError;

/// A file that can be read once an armed queue has a completion.
#[derive(Debug)]
pub(in crate::verbs) struct CompletionChannel {
    pub(super) channel: *mut ffi::ibv_comp_channel,
    _device: Rc<Device>,
}

impl CompletionChannel {
    pub(in crate::verbs) fn new(device: &Rc<Device>) -> Result<Rc<Self>, VerbsError> {
        // SAFETY: the context is open.
        let channel = unsafe { ffi::ibv_create_comp_channel(device.context) };
        if channel.is_null() {
            return Err(failed("ibv_create_comp_channel"));
        }
        let made = Self { channel, _device: Rc::clone(device) };
        let set = fcntl(made.file(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        set.map_err(|errno| VerbsError::Call { call: "fcntl", errno })?;
        Ok(Rc::new(made))
    }

    fn file(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open, and its file is as long as it is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Another name of the file, to wait on.
    pub(in crate::verbs) fn bell(&self) -> Result<OwnedFd, VerbsError> {
        let copied = self.file().try_clone_to_owned();
        copied.map_err(|error| VerbsError::Call {
            call: "dup",
            errno: nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        })
    }

    /// Takes what it has told; whether there was anything.
    pub(in crate::verbs) fn take(&self) -> bool {
        let mut any = false;
        loop {
            let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is open, and the call does not block and writes both when it
            // returns zero.
            if unsafe { ffi::ibv_get_cq_event(self.channel, &mut queue, &mut context) } != 0 {
                return any;
            }
            // SAFETY: the queue that the call has told is not destroyed before its events are
            // acknowledged.
            unsafe { ffi::ibv_ack_cq_events(queue, 1) };
            any = true;
        }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: it is open, and the queues that tell it hold it.
        unsafe { ffi::ibv_destroy_comp_channel(self.channel) };
    }
}
