//! This module holds `unsafe` code: calls of the card's callbacks, and the frames that they name.
//!
//! A card by callbacks as a `Nic`.

use core::fmt;
use core::slice;

use aldis_hal::Nic;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, RxFrame, TxFrame};

use crate::types::CardCallbacks;

/// A card by callbacks, all of which are there.
pub(crate) struct CallbackCard {
    calls: CardCallbacks,
    receive: unsafe extern "C" fn(*mut core::ffi::c_void, *mut usize) -> *const u8,
    release: unsafe extern "C" fn(*mut core::ffi::c_void),
    reserve: unsafe extern "C" fn(*mut core::ffi::c_void, usize) -> *mut u8,
    commit: unsafe extern "C" fn(*mut core::ffi::c_void, usize),
}

impl CallbackCard {
    /// The card; `None` if a callback is missing.
    ///
    /// # Safety
    /// The callbacks do what `aldis.h` says of them, for as long as the card is used.
    pub(crate) unsafe fn new(calls: CardCallbacks) -> Option<Self> {
        let CardCallbacks { receive, release, reserve, commit, .. } = calls;
        Some(Self { calls, receive: receive?, release: release?, reserve: reserve?, commit: commit? })
    }
}

impl fmt::Debug for CallbackCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.fmt(f)
    }
}

/// A frame in the card's memory until it is dropped.
pub(crate) struct CardFrame<'a> {
    card: &'a CallbackCard,
    bytes: &'a [u8],
}

impl RxFrame for CardFrame<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for CardFrame<'_> {
    fn drop(&mut self) {
        // SAFETY: by `new`'s contract; the frame is not read any more.
        unsafe { (self.card.release)(self.card.calls.context) }
    }
}

/// A frame in the card's memory to be filled.
pub(crate) struct ReservedFrame<'a> {
    card: &'a CallbackCard,
    bytes: &'a mut [u8],
}

impl TxFrame for ReservedFrame<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    fn send(self) {
        // SAFETY: by `new`'s contract; this frame was the last to be reserved, since it borrows the
        // card.
        unsafe { (self.card.commit)(self.card.calls.context, self.bytes.len()) }
    }
}

impl Nic for CallbackCard {
    type Rx<'a> = CardFrame<'a>;
    type Tx<'a> = ReservedFrame<'a>;

    fn receive(&mut self) -> Option<CardFrame<'_>> {
        let mut len = 0;
        // SAFETY: by `new`'s contract; the frame before has been released.
        let start = unsafe { (self.receive)(self.calls.context, &raw mut len) };
        if start.is_null() {
            return None;
        }
        // SAFETY: by `new`'s contract so many bytes are there and stay until `release`.
        let bytes = unsafe { slice::from_raw_parts(start, len) };
        Some(CardFrame { card: self, bytes })
    }

    fn transmit(&mut self, len: usize) -> Option<ReservedFrame<'_>> {
        if len > self.mtu() + MAC_HEADER_BYTES {
            return None;
        }
        // SAFETY: by `new`'s contract.
        let start = unsafe { (self.reserve)(self.calls.context, len) };
        if start.is_null() {
            return None;
        }
        // SAFETY: by `new`'s contract so many bytes are there, and nobody else's until the next
        // reserve.
        let bytes = unsafe { slice::from_raw_parts_mut(start, len) };
        Some(ReservedFrame { card: self, bytes })
    }

    fn mtu(&self) -> usize {
        usize::from(self.calls.mtu)
    }

    fn mac(&self) -> Mac {
        Mac(self.calls.mac)
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }
}
