//! This module holds `unsafe` code: ports of a PC that QEMU emulates.
//!
//! ArceOS takes no command line on a PC, so QEMU hands it over as one of its `fw_cfg` files: a
//! directory of names and numbers, and a file's bytes, one after the other, from one port. Source:
//! QEMU, docs/specs/fw_cfg.rst.

use x86_64::instructions::port::{Port, PortReadOnly, PortWriteOnly};

/// The name under which `-fw_cfg name=opt/aldis,string=WORDS` has the command line.
const NAME: &[u8] = b"opt/aldis";
/// Bytes of the longest command line.
pub(crate) const LINE_BYTES: usize = 512;

/// The ports, and the file that lists the others.
const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
const DIRECTORY: u16 = 0x19;
/// Files that are looked at, at most.
const FILES_MAX: u32 = 64;

/// The device by which the emulator ends (`isa-debug-exit,iobase=0xf4`): with 2 x + 1 for x.
const EXIT: u16 = 0xF4;
const OK: u32 = 0x10;
const FAILED: u32 = 0x11;

/// Reads the command line to `line`; `None` if there is none, or a longer one.
pub(crate) fn command_line(line: &mut [u8; LINE_BYTES]) -> Option<&str> {
    select(DIRECTORY);
    let files = u32::from_be_bytes(bytes());
    for _ in 0..files.min(FILES_MAX) {
        let size = u32::from_be_bytes(bytes());
        let [high, low, _, _]: [u8; 4] = bytes();
        let name: [u8; 56] = bytes();
        if name.strip_prefix(NAME).is_some_and(|rest| rest.first() == Some(&0)) {
            let line = line.get_mut(..size as usize)?;
            select(u16::from_be_bytes([high, low]));
            line.fill_with(byte);
            return core::str::from_utf8(line).ok();
        }
    }
    None
}

fn select(file: u16) {
    // SAFETY: the port is QEMU's, and chooses what the other one reads; no memory is touched.
    unsafe { PortWriteOnly::new(SELECTOR).write(file) }
}

fn byte() -> u8 {
    // SAFETY: as in `select`; behind a file's end there are zeros.
    unsafe { PortReadOnly::new(DATA).read() }
}

fn bytes<const N: usize>() -> [u8; N] {
    core::array::from_fn(|_| byte())
}

/// Ends the emulator.
pub(crate) fn exit(good: bool) -> ! {
    // SAFETY: the port is QEMU's, which ends when it is written; without the device nothing
    // happens.
    unsafe { Port::new(EXIT).write(if good { OK } else { FAILED }) }
    axhal::power::system_off()
}
