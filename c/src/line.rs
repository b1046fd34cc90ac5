//! This module holds `unsafe` code: calls of a serial line's callbacks.
//!
//! A serial line by callbacks as a stream of bytes.

use core::convert::Infallible;
use core::ffi::c_void;

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};

use crate::types::SerialCallbacks;

/// A serial line by callbacks, both of which are there. It is always ready: what has come or is
/// taken is none, then.
#[derive(Debug)]
pub(crate) struct CallbackLine {
    context: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize,
    write: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> usize,
}

impl CallbackLine {
    /// The line; `None` if a callback is missing.
    ///
    /// # Safety
    /// The callbacks do what `aldis.h` says of them, for as long as the line is used.
    pub(crate) unsafe fn new(calls: SerialCallbacks) -> Option<Self> {
        let SerialCallbacks { context, read, write } = calls;
        Some(Self { context, read: read?, write: write? })
    }
}

impl ErrorType for CallbackLine {
    type Error = Infallible;
}

impl ReadReady for CallbackLine {
    fn read_ready(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
}

impl Read for CallbackLine {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Infallible> {
        // SAFETY: by `new`'s contract; so many bytes are there.
        let count = unsafe { (self.read)(self.context, bytes.as_mut_ptr(), bytes.len()) };
        Ok(count.min(bytes.len()))
    }
}

impl WriteReady for CallbackLine {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
}

impl Write for CallbackLine {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        // SAFETY: by `new`'s contract; so many bytes are there.
        let count = unsafe { (self.write)(self.context, bytes.as_ptr(), bytes.len()) };
        Ok(count.min(bytes.len()))
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
