//! This module holds `unsafe` code: it lends memory to the system. A socket of AF_XDP, its memory
//! and its program.

use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use aldis_drivers::xdp::{
    HEADROOM_BYTES, RegionMemory, XdpArea, XdpRingLayout, XdpRingMemory, XdpRingSet, XdpRings,
};
use aldis_hal::nic::{MAC_HEADER_BYTES, Mac};
use aldis_sys::bpf::{XdpMode, attach_xdp, load_xdp, map_of_sockets};
use aldis_sys::event::{PollTimeout, poll};
use aldis_sys::interface::{IFF_LOOPBACK, InterfaceState, add_unicast, packet_socket};
use aldis_sys::socket::{MsgFlags, recv, send};
use aldis_sys::xdp::{
    XdpRingKind, bind_queue, has_zero_copy, register_area, ring_offsets, size_ring, xdp_socket,
};
use aldis_sys::{Call, CallFailure, Errno};

use super::error::XdpError;
use super::program;
use crate::card::FrameKind;
use crate::choice::{CardChoice, XdpChoice};
use crate::error::CardError;
use crate::mapping::RegionMapping;

/// Chunks for frames that come, and to send from: 1.5 MiB with the usual MTU, which processes may
/// lock where they have no limit of their own, and caches hold.
const RECEIVE: u32 = 512;
const TRANSMIT: u32 = 256;
const CHUNKS: usize = (RECEIVE + TRANSMIT) as usize;

/// The lengths of a chunk: a part of a page at the most.
const CHUNK_BYTES: [u32; 2] = [2048, 4096];

/// The longest MTU.
const MTU_MAX: u32 = CHUNK_BYTES[1] - HEADROOM_BYTES - MAC_HEADER_BYTES as u32;

/// The time for which a queue may be taken by a socket that was closed just now: it takes the
/// system a moment to let go of it. And the pause between two trials.
const LETTING_GO: Duration = Duration::from_secs(1);
const PAUSE_MS: u16 = 10;

/// The longest time for which a card that is dropped waits for its last frames to be sent, and the
/// time between two looks.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_MS: u16 = 1;

/// The address of a card, and the frames that it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct XdpStation {
    pub(super) mac: Mac,
    pub(super) kind: FrameKind,
}

/// The end of a call by which the system is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeEnd {
    /// The system has sent what there was, or does so.
    Done,
    /// The system could not send all of it now.
    Again,
    /// The interface is down.
    Down,
    /// The interface has gone.
    Gone,
}

/// A socket that is bound to a queue of an interface.
#[derive(Debug)]
pub(super) struct XdpWire {
    pub(super) rings: XdpRings<RegionMapping, CHUNKS>,
    socket: OwnedFd,
    /// The interface runs the program as long as this is open.
    _attached: OwnedFd,
    /// The interface takes frames to the card's address as long as this is open.
    _address: Option<OwnedFd>,
    mode: XdpMode,
    has_zero_copy: bool,
}

impl XdpWire {
    /// Opens a socket on an interface that is up.
    ///
    /// # Errors
    /// The causes that [`XdpError`] names, and calls that the system refused.
    pub(super) fn open(
        choice: &CardChoice,
        state: &InterfaceState,
        station: XdpStation,
    ) -> Result<Self, CardError> {
        let refused = |failure| refused(choice, failure);
        let chunk_bytes = chunk_bytes(choice, state)?;
        let socket = xdp_socket().map_err(CallFailure::of(Call::Socket)).map_err(refused)?;
        let rings = share_memory(&socket, chunk_bytes).map_err(refused)?;
        let map = map_of_sockets(choice.xdp.queue.saturating_add(1));
        let map = map.map_err(CallFailure::of(Call::Bpf)).map_err(refused)?;
        let XdpStation { mac, kind } = station;
        let program = load_xdp(&program::to_station(mac, kind, map.number()));
        let program = program.map_err(CallFailure::of(Call::Bpf)).map_err(refused)?;
        let (attached, mode) = attach(choice, &program, state.index)?;
        bind(&socket, state.index, choice.xdp).map_err(CallFailure::of(Call::Bind)).map_err(refused)?;
        let put = map.put(choice.xdp.queue, &socket).map_err(CallFailure::of(Call::Bpf));
        put.map_err(refused)?;
        let address = if choice.has_interface_mac {
            None
        } else {
            let files = packet_socket().map_err(CallFailure::of(Call::Socket)).map_err(refused)?;
            let added = add_unicast(&files, state.index, mac.0).map_err(CallFailure::of(Call::Setsockopt));
            added.map_err(refused)?;
            Some(files)
        };
        let has_zero_copy =
            has_zero_copy(&socket).map_err(CallFailure::of(Call::Getsockopt)).map_err(refused)?;
        Ok(Self { rings, socket, _attached: attached, _address: address, mode, has_zero_copy })
    }

    /// Returns an error if a process cannot open one, for a reason other than what the interface
    /// runs already, which is left alone.
    pub(super) fn check(choice: &CardChoice, state: &InterfaceState) -> Result<(), CardError> {
        let refused = |failure| refused(choice, failure);
        chunk_bytes(choice, state)?;
        xdp_socket().map_err(CallFailure::of(Call::Socket)).map_err(refused)?;
        let map = map_of_sockets(1).map_err(CallFailure::of(Call::Bpf)).map_err(refused)?;
        let (mac, kind) = (Mac(state.mac), FrameKind::EtherType(0));
        let program = load_xdp(&program::to_station(mac, kind, map.number()));
        program.map_err(CallFailure::of(Call::Bpf)).map_err(refused).map(drop)
    }

    /// The way by which frames come, and the copies that are made of them.
    pub(super) const fn manner(&self) -> &'static str {
        match (self.mode, self.has_zero_copy) {
            (XdpMode::Native, true) => "native, without copies",
            (XdpMode::Native, false) => "native, copied",
            (XdpMode::Generic, _) => "generic, copied",
        }
    }

    /// Wakes the system to send, if it sleeps.
    pub(super) fn wake_to_send(&self) -> WakeEnd {
        if !self.rings.must_wake_to_send() {
            return WakeEnd::Done;
        }
        match send(self.socket.as_raw_fd(), &[], MsgFlags::MSG_DONTWAIT) {
            Ok(_) => WakeEnd::Done,
            Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS | Errno::EINTR) => WakeEnd::Again,
            Err(Errno::ENXIO) => WakeEnd::Gone,
            Err(_) => WakeEnd::Down,
        }
    }

    /// Wakes the system to receive, if it sleeps.
    pub(super) fn wake_to_receive(&self) {
        if self.rings.must_wake_to_receive() {
            // A card that is down or gone is found out by a look at its interface.
            let _ = recv(self.socket.as_raw_fd(), &mut [], MsgFlags::MSG_DONTWAIT);
        }
    }
}

impl Drop for XdpWire {
    /// Waits until the frames that were handed over have been sent: with the socket they would be
    /// gone.
    fn drop(&mut self) {
        let start = Instant::now();
        while !self.rings.is_drained() && start.elapsed() < LINGER {
            if matches!(self.wake_to_send(), WakeEnd::Down | WakeEnd::Gone) {
                return;
            }
            if !self.rings.is_drained() {
                // A wait that fails is one that is short.
                let _ = poll(&mut [], PollTimeout::from(LINGER_MS));
            }
        }
    }
}

impl AsFd for XdpWire {
    /// A file that can be read when a frame has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The length of a chunk that holds every frame of an interface.
fn chunk_bytes(choice: &CardChoice, state: &InterfaceState) -> Result<u32, CardError> {
    let need = u64::from(state.mtu) + u64::from(HEADROOM_BYTES) + MAC_HEADER_BYTES as u64;
    let found = CHUNK_BYTES.into_iter().find(|bytes| need <= u64::from(*bytes));
    // That of the loopback is its own: nobody shortens it for a job.
    let is_loopback = state.has(IFF_LOOPBACK);
    let error =
        if is_loopback { XdpError::Loopback } else { XdpError::Long { mtu: state.mtu, most: MTU_MAX } };
    found.ok_or_else(|| of(choice, error))
}

/// Makes the memory that a socket shares with the system, and registers it.
fn share_memory(socket: &OwnedFd, chunk_bytes: u32) -> Result<XdpRings<RegionMapping, CHUNKS>, CallFailure> {
    let memory = RegionMapping::area(CHUNKS * chunk_bytes as usize)?;
    // SAFETY: the mapping is the area's own from here on, which accesses it by the rings' rules;
    // the system holds its pages by itself as long as the socket is open.
    let registered = unsafe { register_area(socket, memory.start(), memory.bytes(), chunk_bytes) };
    registered.map_err(CallFailure::of(Call::Setsockopt))?;
    let rings = XdpRingSet {
        receive: map_ring(socket, XdpRingKind::Receive, RECEIVE)?,
        transmit: map_ring(socket, XdpRingKind::Transmit, TRANSMIT)?,
        fill: map_ring(socket, XdpRingKind::Fill, 2 * RECEIVE)?,
        completion: map_ring(socket, XdpRingKind::Completion, TRANSMIT)?,
    };
    let shared = XdpRings::new(XdpArea { memory, chunk_bytes }, rings);
    shared.map_err(|_| CallFailure { call: Call::Mmap, errno: Errno::EINVAL })
}

/// Makes a ring of so many entries, and maps it.
fn map_ring(
    socket: &OwnedFd,
    ring: XdpRingKind,
    entries: u32,
) -> Result<XdpRingMemory<RegionMapping>, CallFailure> {
    size_ring(socket, ring, entries).map_err(CallFailure::of(Call::Setsockopt))?;
    let offsets = ring_offsets(socket, ring).map_err(CallFailure::of(Call::Getsockopt))?;
    // One that is beyond all memory is found out when the ring is looked for in its mapping.
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let layout = XdpRingLayout {
        producer_at: place(offsets.producer),
        consumer_at: place(offsets.consumer),
        flags_at: place(offsets.flags),
        entries_at: place(offsets.entries),
    };
    let width = match ring {
        XdpRingKind::Receive | XdpRingKind::Transmit => 16,
        XdpRingKind::Fill | XdpRingKind::Completion => 8,
    };
    let bytes = layout.entries_at.saturating_add(entries as usize * width);
    Ok(XdpRingMemory { memory: RegionMapping::ring(socket, ring, bytes)?, layout, entries })
}

/// Has the interface run a program: from its driver if that can do it, or as the user says.
fn attach(choice: &CardChoice, program: &OwnedFd, index: u32) -> Result<(OwnedFd, XdpMode), CardError> {
    let modes = choice.xdp.mode.map_or(vec![XdpMode::Native, XdpMode::Generic], |mode| vec![mode]);
    let mut last = XdpError::NoMode { mode: XdpMode::Native, errno: Errno::EOPNOTSUPP };
    for mode in modes {
        last = match attach_xdp(program, index, mode) {
            Ok(attached) => return Ok((attached, mode)),
            Err(Errno::EBUSY | Errno::EEXIST) => return Err(of(choice, XdpError::Attached)),
            Err(Errno::EPERM | Errno::EACCES) => return Err(of(choice, XdpError::NoPermission)),
            Err(errno) => XdpError::NoMode { mode, errno },
        };
    }
    Err(of(choice, last))
}

/// Binds a socket to a queue, which one that was closed just now may still have.
fn bind(socket: &OwnedFd, index: u32, choice: XdpChoice) -> Result<(), Errno> {
    let start = Instant::now();
    loop {
        match bind_queue(socket, index, choice.queue, choice.copies) {
            Err(Errno::EBUSY) if start.elapsed() < LETTING_GO => {
                // A wait that fails is one that is short.
                let _ = poll(&mut [], PollTimeout::from(PAUSE_MS));
            }
            bound => return bound,
        }
    }
}

/// The error of a choice for a reason.
pub(super) fn of(choice: &CardChoice, error: XdpError) -> CardError {
    CardError::Xdp { interface: choice.interface.clone(), error }
}

/// The error of a call that the system refused.
fn refused(choice: &CardChoice, CallFailure { call, errno }: CallFailure) -> CardError {
    let queue = choice.xdp.queue;
    let error = match (call, errno) {
        (Call::Socket | Call::Bpf | Call::Setsockopt, Errno::EPERM | Errno::EACCES) => XdpError::NoPermission,
        (Call::Socket, Errno::EAFNOSUPPORT) | (Call::Bpf, Errno::ENOSYS) => XdpError::Unsupported { errno },
        (Call::Setsockopt, Errno::ENOBUFS) => {
            XdpError::LockedMemory { bytes: CHUNKS * CHUNK_BYTES[1] as usize }
        }
        (Call::Bind, Errno::EBUSY) => XdpError::QueueTaken { queue },
        (Call::Bind, Errno::EOPNOTSUPP) => XdpError::NoZeroCopy,
        (Call::Bind, Errno::EINVAL) => XdpError::NoQueue { queue },
        _ => return CardError::System { interface: choice.interface.clone(), call, errno },
    };
    of(choice, error)
}

#[cfg(test)]
mod tests {
    use aldis_sys::interface::interface;

    use super::*;

    #[test]
    fn the_loopback_has_another_remedy_than_a_shorter_mtu() {
        let choice: CardChoice = "xdp:lo".parse().unwrap();
        let lo = InterfaceState { mtu: 65_536, ..interface("lo").unwrap() };
        let told = |state| chunk_bytes(&choice, &state).unwrap_err().to_string();
        assert_eq!(
            told(lo.clone()),
            "lo is the loopback, whose frames are too long for AF_XDP; use packet:lo"
        );
        let long = InterfaceState { flags: 0, mtu: 9000, ..lo.clone() };
        assert!(told(long).contains("ip link set lo mtu 3826"));
        assert_eq!(chunk_bytes(&choice, &InterfaceState { mtu: 1500, ..lo }), Ok(2048));
    }
}
