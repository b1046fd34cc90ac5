//! This module holds `unsafe` code: calls of the machine's callbacks.
//!
//! A machine by callbacks as a `Platform`.

use core::ffi::c_void;

use aldis_hal::{Instant, Platform};

use crate::types::PlatformCallbacks;

/// A machine by callbacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallbackPlatform {
    context: *mut c_void,
    now_ns: unsafe extern "C" fn(*mut c_void) -> u64,
    entropy: unsafe extern "C" fn(*mut c_void) -> u64,
    relax: Option<unsafe extern "C" fn(*mut c_void, u32)>,
}

impl CallbackPlatform {
    /// The machine; `None` if a callback is missing that must be there.
    ///
    /// # Safety
    /// The callbacks do what `aldis.h` says of them, for as long as the platform is used.
    pub(crate) unsafe fn new(calls: PlatformCallbacks) -> Option<Self> {
        let PlatformCallbacks { context, now_ns, entropy, relax } = calls;
        Some(Self { context, now_ns: now_ns?, entropy: entropy?, relax })
    }
}

impl Platform for CallbackPlatform {
    fn now(&self) -> Instant {
        // SAFETY: by `new`'s contract.
        Instant(unsafe { (self.now_ns)(self.context) })
    }

    fn relax(&mut self, idle: u32) {
        match self.relax {
            // SAFETY: by `new`'s contract.
            Some(relax) => unsafe { relax(self.context, idle) },
            None => core::hint::spin_loop(),
        }
    }

    fn entropy(&mut self) -> u64 {
        // SAFETY: by `new`'s contract.
        unsafe { (self.entropy)(self.context) }
    }
}
