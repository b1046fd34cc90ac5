//! `XdpNic`: an interface of this machine as a card, by memory that is shared with the system
//! (AF_XDP): a frame that comes is read where the system has put it, and one that is sent is
//! written where the system takes it from.

mod error;
mod program;
mod wire;

use std::os::fd::{AsFd, BorrowedFd};

use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, TxFrame};
use aldis_sys::event::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use aldis_sys::interface::{IFF_RUNNING, InterfaceState};
use aldis_sys::{Call, Errno};

use self::wire::{WakeEnd, XdpStation, XdpWire};
use crate::card::FrameKind;
use crate::choice::CardChoice;
use crate::error::CardError;
use crate::interface::{describe, judge, judge_mtu};

pub use self::error::XdpError;

/// A card that is a queue of an interface of this machine.
///
/// The interface runs a program for each frame that comes: those of this station come here, and all
/// others go on to the system. One card has an interface. Frames go and come while the interface is
/// up; those that are sent while it is down go when it is up again, as many as there is room for.
/// [`probe`](Self::probe) finds out what is amiss.
#[derive(Debug)]
pub struct XdpNic {
    wire: XdpWire,
    choice: CardChoice,
    station: XdpStation,
    index: u32,
    mtu: usize,
    /// A file that stays when the interface is made anew, and the socket with it.
    bell: Epoll,
    /// True if the system has not been told of all that there is to send, or could not send it.
    must_wake: bool,
    is_gone: bool,
    link: LinkState,
    trouble: Option<CardError>,
}

impl XdpNic {
    /// Opens a card: frames of one kind, to this address or to all stations. Where the choice says
    /// so the interface's own address takes its place.
    ///
    /// # Errors
    /// The causes that [`CardError`] names: no such interface, one that is down, no permission, and
    /// those of [`XdpError`].
    pub fn open(choice: &CardChoice, mac: Mac, kind: FrameKind) -> Result<Self, CardError> {
        let state = usable(choice)?;
        let mac = if choice.has_interface_mac { Mac(state.mac) } else { mac };
        let station = XdpStation { mac, kind };
        let refused = |call| system(choice, call);
        let bell = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(refused(Call::EpollCreate))?;
        let wire = XdpWire::open(choice, &state, station)?;
        ring_for(&bell, &wire).map_err(refused(Call::EpollCtl))?;
        Ok(Self {
            wire,
            choice: choice.clone(),
            station,
            index: state.index,
            mtu: state.mtu as usize,
            bell,
            must_wake: false,
            is_gone: false,
            link: LinkState::Up,
            trouble: None,
        })
    }

    /// Looks whether a card could be opened. The interface is left alone: what it runs already, or
    /// its driver cannot do, is found out by opening one.
    ///
    /// # Errors
    /// The causes that [`CardError`] names.
    pub fn check(choice: &CardChoice) -> Result<(), CardError> {
        XdpWire::check(choice, &usable(choice)?)
    }

    /// Looks at the interface: whether frames pass, and if not, why. An interface that was made
    /// anew under its name is taken up again.
    pub fn probe(&mut self) -> Option<&CardError> {
        let found = usable(&self.choice).and_then(|state| {
            if state.index != self.index || self.is_gone {
                self.take_up(&state)?;
            }
            judge_mtu(&self.choice, &state, self.mtu)?;
            let fault = self.wire.rings.fault().map(XdpError::Fault);
            fault.map_or(Ok(state), |fault| Err(wire::of(&self.choice, fault)))
        });
        let is_up = found.as_ref().is_ok_and(|state| state.has(IFF_RUNNING));
        if is_up {
            // What waits since it was down.
            self.wake();
        }
        self.link = if is_up { LinkState::Up } else { LinkState::Down };
        self.trouble = found.err();
        self.trouble.as_ref()
    }

    /// Takes up an interface that was made anew.
    fn take_up(&mut self, state: &InterfaceState) -> Result<(), CardError> {
        let wire = XdpWire::open(&self.choice, state, self.station)?;
        ring_for(&self.bell, &wire).map_err(system(&self.choice, Call::EpollCtl))?;
        (self.wire, self.index, self.is_gone) = (wire, state.index, false);
        Ok(())
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

    /// The way by which frames come, and the copies that are made of them.
    pub const fn manner(&self) -> &'static str {
        self.wire.manner()
    }

    /// Wakes the system to send.
    fn wake(&mut self) {
        let end = self.wire.wake_to_send();
        self.must_wake = end == WakeEnd::Again;
        self.is_gone |= end == WakeEnd::Gone;
        self.link = match end {
            WakeEnd::Done | WakeEnd::Again => LinkState::Up,
            WakeEnd::Down | WakeEnd::Gone => LinkState::Down,
        };
    }
}

impl AsFd for XdpNic {
    /// A file that can be read when a frame has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Calls of the system by which frames that leave together are sent, at most.
const CALLS_A_FLUSH: u32 = 2;

/// The interface of a choice, if frames pass it.
fn usable(choice: &CardChoice) -> Result<InterfaceState, CardError> {
    let state = describe(choice)?;
    judge(choice, &state)?;
    Ok(state)
}

/// Has the file be readable when a frame has come to a socket.
fn ring_for(bell: &Epoll, wire: &XdpWire) -> Result<(), Errno> {
    bell.add(wire, EpollEvent::new(EpollFlags::EPOLLIN, 0))
}

/// The error of a call that the system refused.
fn system(choice: &CardChoice, call: Call) -> impl Fn(Errno) -> CardError {
    move |errno| CardError::System { interface: choice.interface.clone(), call, errno }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct XdpTx<'a> {
    nic: &'a mut XdpNic,
    len: usize,
}

impl TxFrame for XdpTx<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.nic.wire.rings.frame_mut(self.len)
    }

    fn send(self) {
        self.nic.wire.rings.send(self.len);
        self.nic.wake();
    }

    fn send_more(self) {
        self.nic.wire.rings.send(self.len);
        self.nic.must_wake = true;
    }
}

impl Nic for XdpNic {
    type Rx<'a> = &'a [u8];
    type Tx<'a> = XdpTx<'a>;

    fn receive(&mut self) -> Option<&[u8]> {
        // Frames that wait for room go at the next poll, not only with the next frame.
        if self.must_wake {
            self.wake();
        }
        self.wire.wake_to_receive();
        self.wire.rings.receive()
    }

    fn transmit(&mut self, len: usize) -> Option<XdpTx<'_>> {
        if len > self.mtu + MAC_HEADER_BYTES {
            return None;
        }
        if !self.wire.rings.reserve(len) {
            self.wake();
            self.wire.rings.reserve(len).then_some(())?;
        }
        Some(XdpTx { nic: self, len })
    }

    fn flush(&mut self) {
        // A call ends at a frame that is dropped on its way: what is behind goes by another.
        for _ in 0..CALLS_A_FLUSH {
            if self.must_wake {
                self.wake();
            }
        }
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn mac(&self) -> Mac {
        self.station.mac
    }

    fn link(&self) -> LinkState {
        self.link
    }
}

#[cfg(test)]
mod tests;
