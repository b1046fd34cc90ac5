//! This module holds `unsafe` code: calls that `nix` has no function for. Network interfaces:
//! questions about them, sockets of their frames, and TAP devices.

use core::ffi::{c_int, c_ulong};
use core::mem;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
pub use nix::libc::{
    ARPHRD_ETHER, ARPHRD_LOOPBACK, ETH_P_ALL, IFF_LOOPBACK, IFF_RUNNING, IFF_UP, sock_filter,
};
use nix::net::if_;

use crate::call::Call;
use crate::fault::enter;
use crate::socket::{
    AddressFamily, ControlKind, MsgFlags, SockFlag, SockType, control_data, recvmsg, socket,
};

/// The device by which processes make TAP interfaces.
pub const TUN_DEVICE: &str = "/dev/net/tun";

/// An interface as the system describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceState {
    /// Its number.
    pub index: u32,
    /// Its flags: [`IFF_UP`] and others.
    pub flags: c_int,
    /// The largest payload of a frame, in bytes.
    pub mtu: u32,
    /// The kind of its addresses: [`ARPHRD_ETHER`] and others.
    pub kind: u16,
    /// Its address, if they are of Ethernet's form.
    pub mac: [u8; 6],
}

impl InterfaceState {
    /// Returns true if all of these flags are set.
    pub const fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }
}

/// `ioctl(2)`, `SIOCGIFINDEX` and others: the interface of this name, in this process's network.
///
/// # Errors
/// The system's: `ENODEV` if there is none.
pub fn interface(name: &str) -> Result<InterfaceState, Errno> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = named(name)?;
    ask(&socket, libc::SIOCGIFINDEX, &mut request)?;
    // SAFETY: the system has answered with this member.
    let index = unsafe { request.ifr_ifru.ifru_ifindex }.cast_unsigned();
    ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: as above.
    let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags }.cast_unsigned());
    ask(&socket, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: as above.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned();
    ask(&socket, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: as above.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mac = address.sa_data.first_chunk::<6>().map_or([0; 6], |bytes| bytes.map(|byte| byte as u8));
    Ok(InterfaceState { index, flags, mtu, kind: address.sa_family, mac })
}

/// `if_nameindex(3)`: the names of all interfaces of this process's network.
///
/// # Errors
/// The system's.
pub fn interface_names() -> Result<Vec<String>, Errno> {
    let _fault = enter(Call::Ioctl)?;
    let all = if_::if_nameindex()?;
    Ok(all.iter().map(|one| one.name().to_string_lossy().into_owned()).collect())
}

/// `ioctl(2)`, `SIOCSIFFLAGS`: brings an interface up.
///
/// # Errors
/// The system's: `EPERM` without CAP_NET_ADMIN.
pub fn set_up(name: &str) -> Result<(), Errno> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut request = named(name)?;
    ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the system has answered with this member.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16 };
    ask(&socket, libc::SIOCSIFFLAGS, &mut request)
}

/// `ioctl(2)`, `TUNSETIFF`: makes an open [`TUN_DEVICE`] the other end of the TAP interface of this
/// name, which is made if it is not there. A frame is read or written by each call, with nothing in
/// front of it.
///
/// # Errors
/// The system's: `EPERM` without a permission, `EBUSY` if another process has it.
pub fn attach_tap(file: &impl AsFd, name: &str) -> Result<(), Errno> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    ask(file, libc::TUNSETIFF, &mut request)
}

/// `socket(2)`, of the family of packets: frames with their headers. It takes none before it is
/// bound, and never waits.
///
/// # Errors
/// The system's: `EPERM` without CAP_NET_RAW.
pub fn packet_socket() -> Result<OwnedFd, Errno> {
    let _fault = enter(Call::Socket)?;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it touches no memory.
    let number = Errno::result(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the number of a file that was opened just now, and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `bind(2)`, of such a socket to the frames of an interface, of one EtherType or of
/// [`ETH_P_ALL`]: those too then that others on this machine send there.
///
/// # Errors
/// The system's.
pub fn bind_packets(socket: &impl AsFd, index: u32, ethertype: u16) -> Result<(), Errno> {
    let _fault = enter(Call::Bind)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the system reads the address, which is borrowed for the call and so long.
    let bound = unsafe {
        libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast::<libc::sockaddr>(), length)
    };
    Errno::result(bound).map(drop)
}

/// `setsockopt(2)`, `PACKET_ADD_MEMBERSHIP`: has an interface take frames to this address too, as
/// long as the socket is open.
///
/// # Errors
/// The system's.
pub fn add_unicast(socket: &impl AsFd, index: u32, mac: [u8; 6]) -> Result<(), Errno> {
    let [a, b, c, d, e, f] = mac;
    let membership = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_UNICAST as u16,
        mr_alen: mac.len() as u16,
        mr_address: [a, b, c, d, e, f, 0, 0],
    };
    // SAFETY: the value holds no pointer.
    unsafe { set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership) }
}

/// `setsockopt(2)`, `PACKET_QDISC_BYPASS`: whether frames go to the device past the queues in front
/// of it, and past those on this machine that listen to what is sent.
///
/// # Errors
/// The system's.
pub fn bypass_queues(socket: &impl AsFd, bypasses: bool) -> Result<(), Errno> {
    // SAFETY: the value holds no pointer.
    unsafe { set(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &c_int::from(bypasses)) }
}

/// `setsockopt(2)`, `PACKET_AUXDATA`: has the system say of each frame what
/// [`receive_packet`] returns.
///
/// # Errors
/// The system's.
pub fn tell_of_packets(socket: &impl AsFd) -> Result<(), Errno> {
    // SAFETY: the value holds no pointer.
    unsafe { set(socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, &c_int::from(true)) }
}

/// A frame that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedPacket {
    /// Its bytes, as far as there was room.
    pub length: usize,
    /// True if its checksum in UDP or TCP is not computed yet: it has been on no wire that could
    /// have changed it, such as one from this system's own stack, whose device leaves that to the
    /// other end.
    pub is_unfinished: bool,
}

/// Room for the one control message of a frame: its head, and a `tpacket_auxdata`.
#[repr(align(8))]
struct BesidePacket([u8; 64]);

/// `recvmsg(2)`, of a frame.
///
/// # Errors
/// The system's.
pub fn receive_packet(socket: &impl AsFd, room: &mut [u8]) -> Result<ReceivedPacket, Errno> {
    let mut beside = BesidePacket([0; 64]);
    let number = socket.as_fd().as_raw_fd();
    let mut rooms = [IoSliceMut::new(room)];
    let received = recvmsg(number, &mut rooms, Some(&mut beside.0), MsgFlags::empty())?;
    let length = received.bytes;
    let wanted = ControlKind { level: libc::SOL_PACKET, kind: libc::PACKET_AUXDATA };
    let status = control_data(&beside.0, wanted).find_map(|data| data.first_chunk().copied());
    // The first member of a `tpacket_auxdata`.
    let status = status.map_or(0, u32::from_ne_bytes);
    Ok(ReceivedPacket { length, is_unfinished: status & libc::TP_STATUS_CSUMNOTREADY != 0 })
}

/// `setsockopt(2)`, `SO_ATTACH_FILTER`: a program of the classic BPF that says which frames the
/// socket takes.
///
/// # Errors
/// The system's: `EINVAL` for a program that is none.
pub fn attach_filter(socket: &impl AsFd, program: &mut [sock_filter]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the system reads the steps, which are borrowed for the call and as many as it says.
    unsafe { set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// `setsockopt(2)`.
///
/// # Safety
/// The memory that pointers in the value lead to is there to be read for the call.
unsafe fn set<T>(socket: &impl AsFd, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    let _fault = enter(Call::Setsockopt)?;
    let (number, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the system reads the value, which is borrowed for the call and so long, and what the
    // caller vouches for.
    let done = unsafe { libc::setsockopt(number, level, option, (&raw const *value).cast(), length) };
    Errno::result(done).map(drop)
}

/// The question about an interface of this name.
fn named(name: &str) -> Result<libc::ifreq, Errno> {
    // SAFETY: numbers and pointers, which may be all zero; no pointer is used.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(Errno::ENODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as core::ffi::c_char;
    }
    Ok(request)
}

/// `ioctl(2)`, of those that read and write an `ifreq` and nothing that it points to.
fn ask(file: &impl AsFd, question: c_ulong, request: &mut libc::ifreq) -> Result<(), Errno> {
    let _fault = enter(Call::Ioctl)?;
    // SAFETY: the system reads and writes the request alone, which is borrowed for the call.
    let answered = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), question, &raw mut *request) };
    Errno::result(answered).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_described_and_what_is_not_there_is_not() {
        let lo = interface("lo").unwrap();
        assert!(lo.index > 0 && lo.kind == ARPHRD_LOOPBACK && lo.has(IFF_LOOPBACK) && lo.mtu >= 1500);
        assert!(interface_names().unwrap().contains(&"lo".to_owned()));
        for name in ["no-such-thing", "", "a-name-that-is-longer-than-any"] {
            assert_eq!(interface(name), Err(Errno::ENODEV), "{name:?}");
        }
    }
}
