//! This module holds `unsafe` code: `nix` has no function for `bpf(2)`. Programs that the system
//! runs for each frame that comes to an interface (XDP), and their maps of sockets.
//!
//! A program is checked by the system before it is taken: it cannot harm it.

use core::ffi::{CStr, c_int};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

use crate::call::Call;
use crate::fault::enter;

/// Commands, and kinds of maps, programs and attachments (`linux/bpf.h`).
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// The name by which tools list the programs and maps.
const NAME: [u8; 16] = *b"aldis\0\0\0\0\0\0\0\0\0\0\0";
/// The licence that the system is told: no helper that asks for another is called.
const LICENSE: &CStr = c"MIT";

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct BpfStep {
    /// The operation.
    pub code: u8,
    /// Both registers.
    registers: u8,
    /// The distance of a jump, or of a place in memory.
    pub offset: i16,
    /// The number.
    pub immediate: i32,
}

impl BpfStep {
    /// An instruction with these registers.
    pub const fn new(code: u8, to: u8, from: u8) -> Self {
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        Self { code, registers, offset: 0, immediate: 0 }
    }

    /// The instruction with this distance.
    #[must_use]
    pub const fn at(self, offset: i16) -> Self {
        Self { offset, ..self }
    }

    /// The instruction with this number.
    #[must_use]
    pub const fn with(self, immediate: i32) -> Self {
        Self { immediate, ..self }
    }

    /// The register that is written, and the one that is read.
    pub const fn registers(&self) -> [u8; 2] {
        let (low, high) = (self.registers & 0xF, self.registers >> 4);
        if cfg!(target_endian = "big") { [high, low] } else { [low, high] }
    }
}

/// The way by which frames come to a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// From the driver.
    Native,
    /// From the system, behind the driver.
    Generic,
}

impl XdpMode {
    /// The flag of an attachment (`linux/if_link.h`).
    const fn flag(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    steps: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// A map of sockets of AF_XDP.
#[derive(Debug)]
pub struct SocketMap(OwnedFd);

/// `bpf(2)`, `BPF_MAP_CREATE`: a map of so many sockets of AF_XDP.
///
/// # Errors
/// The system's: `EPERM` without CAP_BPF and CAP_NET_ADMIN outside of every user namespace.
pub fn map_of_sockets(entries: u32) -> Result<SocketMap, Errno> {
    let attributes = MapCreate {
        kind: MAP_TYPE_XSKMAP,
        key_bytes: size_of::<u32>() as u32,
        value_bytes: size_of::<u32>() as u32,
        entries,
        flags: 0,
        inner: 0,
        node: 0,
        name: NAME,
    };
    // SAFETY: no number is an address, and the command opens a file.
    unsafe { open(MAP_CREATE, &attributes) }.map(SocketMap)
}

impl SocketMap {
    /// The number by which programs name it.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// `bpf(2)`, `BPF_MAP_UPDATE_ELEM`: puts a socket of AF_XDP into it.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&self, key: u32, socket: &impl AsFd) -> Result<(), Errno> {
        let number = socket.as_fd().as_raw_fd().cast_unsigned();
        let attributes = MapUpdate {
            map: self.0.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: (&raw const key).expose_provenance() as u64,
            value: (&raw const number).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: the system reads the key and the number, of four bytes each as the map was made,
        // which live to the end of the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// `bpf(2)`, `BPF_PROG_LOAD`: a program for frames.
///
/// # Errors
/// The system's: `EPERM` without CAP_BPF and CAP_NET_ADMIN outside of every user namespace,
/// `EINVAL` or `EACCES` for a program that it does not take.
pub fn load_xdp(steps: &[BpfStep]) -> Result<OwnedFd, Errno> {
    let attributes = ProgLoad {
        kind: PROG_TYPE_XDP,
        steps: u32::try_from(steps.len()).map_err(|_| Errno::E2BIG)?,
        first: steps.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: NAME,
        interface: 0,
        attach_type: ATTACH_TYPE_XDP,
    };
    // SAFETY: the system reads the steps, as many as it is told, and the licence with its end; the
    // command opens a file.
    unsafe { open(PROG_LOAD, &attributes) }
}

/// `bpf(2)`, `BPF_LINK_CREATE`: has an interface run a program for each frame, as long as the file
/// that is returned is open.
///
/// # Errors
/// The system's: `EBUSY` or `EEXIST` if the interface has a program, `EOPNOTSUPP` and others if it
/// has no such mode.
pub fn attach_xdp(program: &impl AsFd, index: u32, mode: XdpMode) -> Result<OwnedFd, Errno> {
    let attributes = LinkCreate {
        program: program.as_fd().as_raw_fd().cast_unsigned(),
        interface: index,
        attach_type: ATTACH_TYPE_XDP,
        flags: mode.flag(),
    };
    // SAFETY: no number is an address, and the command opens a file.
    unsafe { open(LINK_CREATE, &attributes) }
}

/// `bpf(2)`.
///
/// # Safety
/// The attributes are those of the command, made of numbers without padding, and memory that they
/// give the address of is there to be read for the call.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> Result<c_int, Errno> {
    let _fault = enter(Call::Bpf)?;
    // SAFETY: the system reads the attributes, which are borrowed for the call and so long, and
    // what the caller vouches for.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    Errno::result(done).map(|number| number as c_int)
}

/// `bpf(2)`, of a command that opens a file. A program that is executed does not inherit it.
///
/// # Safety
/// That of [`bpf`], and the command answers with the number of a file that it has opened.
unsafe fn open<T>(command: c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: as the caller vouches.
    let number = unsafe { bpf(command, attributes) }?;
    // SAFETY: the number of a file that was opened just now, and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_keeps_its_registers_and_numbers() {
        let step = BpfStep::new(0x61, 2, 1).at(-4).with(7);
        assert_eq!((step.code, step.registers(), step.offset, step.immediate), (0x61, [2, 1], -4, 7));
        assert_eq!(size_of::<BpfStep>(), 8);
        assert_eq!([size_of::<MapCreate>(), size_of::<MapUpdate>()], [44, 32]);
        assert_eq!([size_of::<ProgLoad>(), size_of::<LinkCreate>()], [72, 16]);
    }
}
