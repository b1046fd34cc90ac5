//! This module holds `unsafe` code: a call that writes to a buffer. Random numbers.

use core::ffi::c_uint;

use nix::errno::Errno;
use nix::libc;
pub use nix::libc::GRND_NONBLOCK;

use crate::call::Call;
use crate::fault::enter;

/// `getrandom(2)`: fills the beginning of `room`; returns how many bytes.
///
/// # Errors
/// The system's.
pub fn getrandom(room: &mut [u8], flags: c_uint) -> Result<usize, Errno> {
    let fault = enter(Call::Getrandom)?;
    let room = fault.cut_mut(room);
    // SAFETY: the pointer and the length are those of `room`; the call writes nowhere else.
    let got = unsafe { libc::getrandom(room.as_mut_ptr().cast(), room.len(), flags) };
    Errno::result(got).map(isize::unsigned_abs)
}
