//! This module holds `unsafe` code: calls that `nix` has no function for, and mappings. Sockets of
//! AF_XDP: frames in memory that the system and the process share.

use core::ffi::{c_int, c_void};
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{self, off_t};
use nix::sys::mman;

use crate::call::Call;
use crate::fault::enter;
use crate::memory::{MapFlags, ProtFlags};

/// A ring of such a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpRingKind {
    /// Frames that came.
    Receive,
    /// Frames to be sent.
    Transmit,
    /// Room for frames that come.
    Fill,
    /// Frames that were sent.
    Completion,
}

impl XdpRingKind {
    /// The option that gives it its length, and its place in the socket's file.
    const fn numbers(self) -> (c_int, off_t) {
        match self {
            Self::Receive => (libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING),
            Self::Transmit => (libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING),
            Self::Fill => (libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING as off_t),
            Self::Completion => {
                (libc::XDP_UMEM_COMPLETION_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING as off_t)
            }
        }
    }
}

/// The places of a ring's parts in its mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpRingOffsets {
    /// The producer's index.
    pub producer: u64,
    /// The consumer's index.
    pub consumer: u64,
    /// The flags.
    pub flags: u64,
    /// The first entry.
    pub entries: u64,
}

/// The copies that the system makes of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpCopies {
    /// None if the driver can do without, else one.
    Any,
    /// A copy each way.
    Copy,
    /// None.
    Zero,
}

/// `socket(2)`, of AF_XDP. It takes no frames before it is bound.
///
/// # Errors
/// The system's: `EPERM` without CAP_NET_RAW, `EAFNOSUPPORT` if it has none such.
pub fn xdp_socket() -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Socket)?;
    // SAFETY: it touches no memory.
    let number = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let number = Errno::result(number)?;
    // SAFETY: the number of a file that was opened just now, and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `setsockopt(2)`, `XDP_UMEM_REG`: the memory for frames, in chunks of one length.
///
/// # Safety
/// The memory is mapped and stays so as long as the socket is open; it is accessed through pointers
/// alone, and as the rings say.
///
/// # Errors
/// The system's: `ENOBUFS` if the process may lock no more memory.
pub unsafe fn register_area(
    socket: &impl AsFd,
    start: NonNull<u8>,
    bytes: usize,
    chunk_bytes: u32,
) -> Result<(), Errno> {
    let area = libc::xdp_umem_reg {
        addr: start.as_ptr().expose_provenance() as u64,
        len: bytes as u64,
        chunk_size: chunk_bytes,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(socket, libc::XDP_UMEM_REG, &area)
}

/// `setsockopt(2)`, `XDP_RX_RING` and others: the number of a ring's entries, a power of two.
///
/// # Errors
/// The system's.
pub fn size_ring(socket: &impl AsFd, ring: XdpRingKind, entries: u32) -> Result<(), Errno> {
    let (option, _) = ring.numbers();
    set(socket, option, &entries)
}

/// `getsockopt(2)`, `XDP_MMAP_OFFSETS`: the places in the mapping of a ring.
///
/// # Errors
/// The system's; `EINVAL` for one before Linux 5.4, whose rings have no flags.
pub fn ring_offsets(socket: &impl AsFd, ring: XdpRingKind) -> Result<XdpRingOffsets, Errno> {
    let none = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut all = libc::xdp_mmap_offsets { rx: none, tx: none, fr: none, cr: none };
    if get(socket, libc::XDP_MMAP_OFFSETS, &mut all)? != size_of_val(&all) {
        return Err(Errno::EINVAL);
    }
    let found = match ring {
        XdpRingKind::Receive => all.rx,
        XdpRingKind::Transmit => all.tx,
        XdpRingKind::Fill => all.fr,
        XdpRingKind::Completion => all.cr,
    };
    let libc::xdp_ring_offset { producer, consumer, desc: entries, flags } = found;
    Ok(XdpRingOffsets { producer, consumer, flags, entries })
}

/// `mmap(2)`, of a ring, to be unmapped by [`munmap`](crate::memory::munmap).
///
/// # Errors
/// The system's.
pub fn map_ring(
    socket: &impl AsFd,
    ring: XdpRingKind,
    bytes: NonZeroUsize,
) -> Result<NonNull<c_void>, Errno> {
    let _fault = enter(Call::Mmap)?;
    let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
    let (_, place) = ring.numbers();
    // SAFETY: a new mapping at an address of the system's choice; it overlaps nothing that Rust
    // knows of.
    unsafe { mman::mmap(None, bytes, protection, flags | MapFlags::MAP_POPULATE, socket, place) }
}

/// `bind(2)`, of such a socket to a queue of an interface. The system says in the rings' flags when
/// it is to be woken.
///
/// # Errors
/// The system's: `EBUSY` if another socket has the queue, `EINVAL` if there is no such queue,
/// `EOPNOTSUPP` if the driver cannot do what it is asked for.
pub fn bind_queue(socket: &impl AsFd, index: u32, queue: u32, copies: XdpCopies) -> Result<(), Errno> {
    let _fault = enter(Call::Bind)?;
    let copies = match copies {
        XdpCopies::Any => 0,
        XdpCopies::Copy => libc::XDP_COPY,
        XdpCopies::Zero => libc::XDP_ZEROCOPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copies,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the system reads the address, which is borrowed for the call and so long.
    let bound = unsafe {
        libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast::<libc::sockaddr>(), length)
    };
    Errno::result(bound).map(drop)
}

/// `getsockopt(2)`, `XDP_OPTIONS`: whether the system copies no frames of a bound socket.
///
/// # Errors
/// The system's.
pub fn has_zero_copy(socket: &impl AsFd) -> Result<bool, Errno> {
    let mut options = 0_u32;
    get(socket, libc::XDP_OPTIONS, &mut options)?;
    Ok(options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// `setsockopt(2)`, of a value without pointers that the system reads now: the memory for frames is
/// a number to it.
fn set<T>(socket: &impl AsFd, option: c_int, value: &T) -> Result<(), Errno> {
    let _fault = enter(Call::Setsockopt)?;
    let (number, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the system reads the value, which is borrowed for the call and so long.
    let done = unsafe { libc::setsockopt(number, libc::SOL_XDP, option, (&raw const *value).cast(), length) };
    Errno::result(done).map(drop)
}

/// `getsockopt(2)`, of a value that is made of numbers. Returns the bytes of the answer.
fn get<T>(socket: &impl AsFd, option: c_int, value: &mut T) -> Result<usize, Errno> {
    let _fault = enter(Call::Getsockopt)?;
    let (number, mut length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the system writes the value, which is borrowed for the call and so long, and of which
    // all bits are numbers.
    let done =
        unsafe { libc::getsockopt(number, libc::SOL_XDP, option, (&raw mut *value).cast(), &raw mut length) };
    Errno::result(done).map(|_| length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a permission there is no socket, and nothing to be seen.
    #[test]
    fn a_socket_tells_where_its_rings_are() {
        let Ok(socket) = xdp_socket() else { return };
        for ring in [XdpRingKind::Receive, XdpRingKind::Transmit] {
            size_ring(&socket, ring, 16).unwrap();
            let XdpRingOffsets { producer, consumer, flags, entries } = ring_offsets(&socket, ring).unwrap();
            assert!(producer != consumer && flags != consumer && entries >= 12);
            let bytes = NonZeroUsize::new(entries as usize + 16 * 16).unwrap();
            let mapped = map_ring(&socket, ring, bytes).unwrap();
            // SAFETY: mapped just now, and used by nobody.
            unsafe { crate::memory::munmap(mapped, bytes.get()) }.unwrap();
        }
        assert_eq!(size_ring(&socket, XdpRingKind::Fill, 3), Err(Errno::EINVAL));
        assert!(bind_queue(&socket, u32::MAX, 0, XdpCopies::Any).is_err());
    }
}
