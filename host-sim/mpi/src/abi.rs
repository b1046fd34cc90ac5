//! The constants of the standard ABI, from `table/constants.txt`, and its one structure.
#![allow(dead_code, reason = "all of them are there, used or not")]

use core::ffi::c_int;

include!(concat!(env!("OUT_DIR"), "/constants.rs"));

/// A handle as C has it: a pointer that is never followed.
pub(crate) type Handle = usize;

/// `MPI_Status`, of which the last five words are the implementation's.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    pub(crate) is_cancelled: c_int,
    pub(crate) bytes: [c_int; 2],
    pub(crate) rest: [c_int; 2],
}

impl Status {
    /// The result of a null or inactive request (MPI 5.0, 3.7.3).
    pub(crate) const EMPTY: Self = Self {
        source: MPI_ANY_SOURCE,
        tag: MPI_ANY_TAG,
        error: MPI_SUCCESS,
        is_cancelled: 0,
        bytes: [0; 2],
        rest: [0; 2],
    };

    pub(crate) fn bytes(&self) -> u64 {
        let [low, high] = self.bytes.map(|word| u64::from(word.cast_unsigned()));
        low | high << 32
    }

    #[inline]
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = [bytes as u32, (bytes >> 32) as u32].map(u32::cast_signed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled != 0
    }

    pub(crate) fn set_cancelled(&mut self, is_cancelled: bool) {
        self.is_cancelled = is_cancelled.into();
    }

    /// The status of a message that was received from a process.
    #[inline(always)]
    pub(crate) fn of_received(status: aldis_kernel::Status) -> Self {
        let (source, tag) = (status.source.0.cast_signed(), status.tag.0.cast_signed());
        let mut made = Self { source, tag, ..Self::EMPTY };
        made.set_bytes(status.bytes);
        made
    }
}

impl From<aldis_kernel::Status> for Status {
    #[inline]
    fn from(status: aldis_kernel::Status) -> Self {
        // No process has sent what was cancelled, either.
        if status.source != aldis_kernel::Rank::NULL {
            return Self::of_received(status);
        }
        let mut made = Self::EMPTY;
        if status.is_cancelled() {
            made.set_cancelled(true);
        } else {
            made.source = MPI_PROC_NULL;
        }
        made
    }
}
