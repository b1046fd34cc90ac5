//! This module holds `unsafe` code: calls of the debugger or emulator. "Semihosting for AArch32 and
//! AArch64", Arm, 2024.

use core::arch::asm;

use crate::memory::Once;

/// Numbers of the calls.
const SYS_WRITEC: usize = 0x03;
const SYS_GET_CMDLINE: usize = 0x15;
const SYS_EXIT_EXTENDED: usize = 0x20;
/// The reason of an exit that has a code.
const APPLICATION_EXIT: usize = 0x20026;

/// # Safety
/// `block` is what the call reads and writes.
unsafe fn call(number: usize, block: *mut usize) -> usize {
    let result;
    // SAFETY: the breakpoint is the debugger's, which does what the caller vouches for and changes
    // one register.
    unsafe { asm!("bkpt #0xAB", inlateout("r0") number => result, in("r1") block, options(nostack)) };
    result
}

/// The longest command line.
const LINE_BYTES: usize = 512;

/// Returns the command line of the image, behind its own name.
pub(super) fn command_line() -> Option<&'static str> {
    static LINE: Once<[u8; LINE_BYTES]> = Once::new([0; LINE_BYTES]);
    let line = LINE.take()?;
    let mut block = [line.as_mut_ptr().expose_provenance(), line.len()];
    // SAFETY: a buffer and its length; the call writes text, a zero, and the text's length.
    if unsafe { call(SYS_GET_CMDLINE, block.as_mut_ptr()) } != 0 {
        return None;
    }
    let line = core::str::from_utf8(line.get(..block[1])?).ok()?.trim_end_matches('\0');
    // An emulator puts the name of the image in front of what it was told.
    let options = line.find("aldis.").unwrap_or(line.len());
    line.get(options..)
}

/// Ends the emulator.
pub(super) fn exit(success: bool) -> ! {
    let mut block = [APPLICATION_EXIT, usize::from(!success)];
    // SAFETY: a reason and a code, which are read.
    unsafe { call(SYS_EXIT_EXTENDED, block.as_mut_ptr()) };
    loop {
        core::hint::spin_loop();
    }
}

/// Writes bytes of any kind to the console of the debugger or emulator, which need not be where
/// text goes.
pub(super) fn write(bytes: &[u8]) {
    for byte in bytes {
        let mut byte = usize::from(*byte);
        // SAFETY: the first byte there is is read.
        unsafe { call(SYS_WRITEC, &raw mut byte) };
    }
}
