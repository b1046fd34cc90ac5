//! `InterfaceNic`: an interface of this machine as a card, by a socket of frames or by a TAP. One
//! call of the system a frame, which measures no slower than batches of them do.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, Offload, RxFrame, TxFrame};
use aldis_sys::event::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use aldis_sys::file::{OFlag, OpenOptions, open, read, write};
use aldis_sys::interface::{
    ARPHRD_ETHER, ARPHRD_LOOPBACK, ETH_P_ALL, IFF_LOOPBACK, IFF_RUNNING, IFF_UP, InterfaceState,
    ReceivedPacket, TUN_DEVICE, add_unicast, attach_filter, attach_tap, bind_packets, bypass_queues,
    interface, interface_names, packet_socket, receive_packet, set_up, tell_of_packets,
};
use aldis_sys::socket::{setsockopt, sockopt};
use aldis_sys::{Call, Errno, errno_of};

use crate::choice::{CardChoice, CardKind};
use crate::error::CardError;
use crate::filter;

/// The longest frame that is taken in. A card hands up what comes; the layer above judges it.
const RECEIVE_BYTES: usize = (64 << 10) + MAC_HEADER_BYTES;
/// The EtherType of IPv4.
const ETHERTYPE_IPV4: u16 = 0x0800;
/// Bytes of frames that wait in the system to be received; it may grant fewer.
const WAITING_BYTES: usize = 4 << 20;

/// An address for one station on an interface that others use too: administered locally (IEEE 802,
/// 8.4), and of 46 random bits.
pub const fn local_mac(random: u64) -> Mac {
    let [a, b, c, d, e, f, ..] = random.to_le_bytes();
    Mac([(a & 0xFC) | 0x02, b, c, d, e, f])
}

/// A card that is an interface of this machine.
///
/// Frames go and come while the interface is up; while it is down they are lost, as on a wire
/// without a plug, and pass again once it is up. [`probe`](Self::probe) finds out what is amiss.
#[derive(Debug)]
pub struct InterfaceNic {
    file: OwnedFd,
    /// The file that others wait for: it stays while the interface is made anew, and its file with
    /// it.
    bell: Epoll,
    /// True if the bell waits for the file: not while the interface is gone, when a TAP's has an
    /// error at all times.
    rings: bool,
    choice: CardChoice,
    /// The only frames that are taken, if not all.
    ethertype: Option<u16>,
    index: u32,
    is_loopback: bool,
    /// True if other ranks are on the same interface.
    is_shared: bool,
    mac: Mac,
    mtu: usize,
    received: Vec<u8>,
    /// The only transmit descriptor.
    transmit: Vec<u8>,
    /// Bytes in it that the system had no room for yet; zero: it is free.
    waiting: usize,
    link: LinkState,
    trouble: Option<CardError>,
}

impl InterfaceNic {
    /// Opens a card: frames of one EtherType, or of all, to this address or to all stations. Where
    /// the choice says so the interface's own address takes its place.
    ///
    /// # Errors
    /// The causes that [`CardError`] names: no such interface, one that is down, no permission, a
    /// TAP that another process has.
    pub fn open(choice: &CardChoice, mac: Mac, ethertype: Option<u16>) -> Result<Self, CardError> {
        let (file, state) = open_file(choice)?;
        let bell = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(refused(choice, Call::EpollCreate))?;
        let mac = if choice.has_interface_mac { Mac(state.mac) } else { mac };
        let mtu = state.mtu as usize;
        let mut card = Self {
            file,
            bell,
            rings: false,
            choice: choice.clone(),
            ethertype,
            index: state.index,
            is_loopback: state.has(IFF_LOOPBACK),
            is_shared: false,
            mac,
            mtu,
            received: vec![0; RECEIVE_BYTES],
            transmit: vec![0; mtu + MAC_HEADER_BYTES],
            waiting: 0,
            link: LinkState::Up,
            trouble: None,
        };
        card.take_frames()?;
        card.ring()?;
        Ok(card)
    }

    /// Has the bell ring for frames of the file.
    fn ring(&mut self) -> Result<(), CardError> {
        if !self.rings {
            let added = self.bell.add(&self.file, EpollEvent::new(EpollFlags::EPOLLIN, 0));
            added.map_err(refused(&self.choice, Call::EpollCtl))?;
            self.rings = true;
        }
        Ok(())
    }

    /// Has the bell be silent.
    fn silence(&mut self) {
        // One that cannot be taken out rings for nothing, and does no other harm.
        self.rings = self.rings && self.bell.delete(&self.file).is_err();
    }

    /// Returns true if frames come with what the system knows of their checksums: those of UDP.
    fn has_checksums(&self) -> bool {
        self.choice.kind == CardKind::Packet && self.ethertype == Some(ETHERTYPE_IPV4)
    }

    /// Has the socket of frames take those of this station; a TAP takes all.
    fn take_frames(&self) -> Result<(), CardError> {
        let Self { file, index, mac, .. } = self;
        if self.choice.kind == CardKind::Tap {
            return Ok(());
        }
        let refused = |call| refused(&self.choice, call);
        let mut program = filter::to_station(*mac, self.ethertype);
        attach_filter(file, &mut program).map_err(refused(Call::Setsockopt))?;
        if self.has_checksums() {
            tell_of_packets(file).map_err(refused(Call::Setsockopt))?;
        }
        // A driver may have no such way past its queues.
        let _ = bypass_queues(file, !self.is_shared);
        // Fewer bytes lose more frames in a flood, and nothing else.
        let _ = setsockopt(file, sockopt::RcvBufForce, &WAITING_BYTES)
            .or_else(|_| setsockopt(file, sockopt::RcvBuf, &WAITING_BYTES));
        if !self.choice.has_interface_mac {
            add_unicast(file, *index, mac.0).map_err(refused(Call::Setsockopt))?;
        }
        // Frames that others send here are seen by those that take all kinds alone.
        let ethertype = self.ethertype.filter(|_| !self.is_shared).unwrap_or(ETH_P_ALL as u16);
        bind_packets(file, *index, ethertype).map_err(refused(Call::Bind))
    }

    /// Notes that other ranks of this machine are on the same interface: what is sent there comes
    /// to those too that listen on this side of the wire. Frames pass the system's queues then.
    ///
    /// # Errors
    /// [`CardError::System`].
    pub fn share(&mut self) -> Result<(), CardError> {
        // What is sent to the loopback comes back from it.
        if self.is_shared || self.is_loopback {
            return Ok(());
        }
        self.is_shared = true;
        let refused = |call| refused(&self.choice, call);
        bypass_queues(&self.file, false).map_err(refused(Call::Setsockopt))?;
        bind_packets(&self.file, self.index, ETH_P_ALL as u16).map_err(refused(Call::Bind))
    }

    /// Looks at the interface: whether frames pass, and if not, why. An interface that was made
    /// anew under its name is taken up again.
    pub fn probe(&mut self) -> Option<&CardError> {
        let found = describe(&self.choice).and_then(|state| {
            if state.index != self.index {
                let (file, _) = open_file(&self.choice)?;
                self.silence();
                self.file = file;
                self.rings = false;
                self.index = state.index;
                self.take_frames()?;
                self.ring()?;
            }
            judge(&self.choice, &state)?;
            judge_mtu(&self.choice, &state, self.mtu)?;
            Ok(state)
        });
        let is_up = found.as_ref().is_ok_and(|state| state.has(IFF_RUNNING));
        self.link = if is_up { LinkState::Up } else { LinkState::Down };
        if matches!(found, Err(CardError::NoInterface { .. })) {
            self.silence();
        }
        self.trouble = found.err();
        self.trouble.as_ref()
    }

    /// The trouble that was found last.
    pub const fn trouble(&self) -> Option<&CardError> {
        self.trouble.as_ref()
    }

    /// The choice by which it was opened.
    pub const fn choice(&self) -> &CardChoice {
        &self.choice
    }

    /// The number of its interface.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Offers the waiting frame to the system; whether the descriptor is free afterwards.
    fn flush(&mut self) -> bool {
        if let Some(frame) = self.transmit.get(..self.waiting).filter(|frame| !frame.is_empty()) {
            match write(&self.file, frame) {
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => return false,
                // One that the system refuses is one that a wire has lost.
                sent => self.note(sent.err()),
            }
            self.waiting = 0;
        }
        true
    }

    /// Notes how a frame went.
    fn note(&mut self, error: Option<Errno>) {
        self.link = if error.is_none() { LinkState::Up } else { LinkState::Down };
    }
}

impl AsFd for InterfaceNic {
    /// A file that can be read when a frame has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// The file by which frames pass, and the interface.
fn open_file(choice: &CardChoice) -> Result<(OwnedFd, InterfaceState), CardError> {
    let file = match choice.kind {
        CardKind::Packet => packet_socket().map_err(refused(choice, Call::Socket))?,
        CardKind::Tap => open_tap(choice)?,
        CardKind::Xdp | CardKind::Memif | CardKind::Pci => return Err(no_interface(choice)),
    };
    let mut found = describe(choice)?;
    if choice.kind == CardKind::Tap && !found.has(IFF_UP) && set_up(&choice.interface).is_ok() {
        found = describe(choice)?;
    }
    judge(choice, &found)?;
    Ok((file, found))
}

fn open_tap(choice: &CardChoice) -> Result<OwnedFd, CardError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let opened =
        open(TUN_DEVICE, &options).map_err(|error| CardError::NoTapDevice { errno: errno_of(error) });
    let file = OwnedFd::from(opened?);
    attach_tap(&file, &choice.interface).map_err(refused(choice, Call::Ioctl))?;
    Ok(file)
}

/// The interface of a choice.
pub(crate) fn describe(choice: &CardChoice) -> Result<InterfaceState, CardError> {
    interface(&choice.interface).map_err(|errno| match errno {
        Errno::ENODEV | Errno::ENXIO => no_interface(choice),
        errno => refused(choice, Call::Ioctl)(errno),
    })
}

/// The error of a choice that names no interface.
fn no_interface(choice: &CardChoice) -> CardError {
    CardError::NoInterface {
        interface: choice.interface.clone(),
        others: interface_names().unwrap_or_default(),
    }
}

/// Returns an error for an interface that frames do not pass.
pub(crate) fn judge(choice: &CardChoice, state: &InterfaceState) -> Result<(), CardError> {
    let interface = choice.interface.clone();
    match state.kind {
        ARPHRD_ETHER | ARPHRD_LOOPBACK if state.has(IFF_UP) => Ok(()),
        ARPHRD_ETHER | ARPHRD_LOOPBACK => Err(CardError::Down { interface }),
        kind => Err(CardError::NotEthernet { interface, kind }),
    }
}

/// Returns an error for an interface whose MTU has become shorter than this.
pub(crate) fn judge_mtu(choice: &CardChoice, state: &InterfaceState, mtu: usize) -> Result<(), CardError> {
    let (was, now) = (mtu as u32, state.mtu);
    let interface = choice.interface.clone();
    if now < was { Err(CardError::Mtu { interface, was, now }) } else { Ok(()) }
}

/// The error of a call that the system refused.
fn refused(choice: &CardChoice, call: Call) -> impl Fn(Errno) -> CardError {
    let (kind, interface) = (choice.kind, choice.interface.clone());
    move |errno| {
        let interface = interface.clone();
        match (errno, kind) {
            (Errno::EPERM | Errno::EACCES, CardKind::Packet) => {
                CardError::NoPermission { interface, lacks: "CAP_NET_RAW" }
            }
            (Errno::EPERM | Errno::EACCES, CardKind::Tap) => {
                CardError::NoPermission { interface, lacks: "CAP_NET_ADMIN" }
            }
            (Errno::EBUSY, CardKind::Tap) => CardError::Busy { interface },
            (errno, _) => CardError::System { interface, call, errno },
        }
    }
}

/// A received frame.
#[derive(Debug)]
pub struct InterfaceRx<'a> {
    bytes: &'a [u8],
    checked: Offload,
}

impl RxFrame for InterfaceRx<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn checked(&self) -> Offload {
        self.checked
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct InterfaceTx<'a> {
    nic: &'a mut InterfaceNic,
    len: usize,
}

impl TxFrame for InterfaceTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.transmit.get_mut(..self.len).unwrap_or_default()
    }

    fn send(self) {
        self.nic.waiting = self.len;
        self.nic.flush();
    }
}

impl Nic for InterfaceNic {
    type Rx<'a> = InterfaceRx<'a>;
    type Tx<'a> = InterfaceTx<'a>;

    fn receive(&mut self) -> Option<InterfaceRx<'_>> {
        // A frame that waits for room goes at the next poll, not only with the next frame.
        self.flush();
        let came = if self.has_checksums() {
            receive_packet(&self.file, &mut self.received)
                .map(|ReceivedPacket { length, is_unfinished }| (length, is_unfinished))
        } else {
            read(&self.file, &mut self.received).map(|length| (length, false))
        };
        match came {
            Ok((length, is_unfinished)) => {
                // A checksum that is not computed yet cannot be wrong.
                let checked = if is_unfinished { Offload::UDP_RX } else { Offload::empty() };
                self.received.get(..length).map(|bytes| InterfaceRx { bytes, checked })
            }
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            Err(errno) => {
                self.note(Some(errno));
                None
            }
        }
    }

    fn transmit(&mut self, len: usize) -> Option<InterfaceTx<'_>> {
        let fits = len <= self.mtu + MAC_HEADER_BYTES;
        (fits && self.flush()).then_some(InterfaceTx { nic: self, len })
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn link(&self) -> LinkState {
        self.link
    }
}

#[cfg(test)]
mod tests;
