//! This module holds `unsafe` code: a card of the library's behind C's callbacks, and the frames
//! that it has lent to them.
//!
//! A `Nic` as an `aldis_card`: a built-in driver takes the same way into a rank as one in C.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

use aldis_hal::Nic;
use aldis_hal::nic::{RxFrame, TxFrame};

use crate::types::CardCallbacks;

/// A card and the frame that it has lent, in memory of C's that stays where it is.
pub(crate) struct DriverState<N: Nic + 'static> {
    /// The frame between `receive` and `release`. While it is there it has the card to itself.
    received: Option<N::Rx<'static>>,
    /// The frame between `reserve` and `commit`, likewise.
    reserved: Option<N::Tx<'static>>,
    nic: N,
}

/// Puts a card in its place and makes it C's.
pub(crate) fn hand_over<N: Nic + 'static>(
    place: &'static mut MaybeUninit<DriverState<N>>,
    nic: N,
    card: &mut CardCallbacks,
) {
    let (mac, mtu) = (nic.mac().0, u16::try_from(nic.mtu()).unwrap_or(u16::MAX));
    let state = place.write(DriverState { received: None, reserved: None, nic });
    *card = CardCallbacks {
        context: (&raw mut *state).cast(),
        mac,
        mtu,
        receive: Some(receive::<N>),
        release: Some(release::<N>),
        reserve: Some(reserve::<N>),
        commit: Some(commit::<N>),
    };
}

/// The card of a state, for as long as a frame of it is used; frames that it had lent return.
///
/// # Safety
/// The state is one that [`hand_over`] has placed, and nothing else uses it during the call. The
/// card is used no more once a frame that was lent before has returned.
unsafe fn card<N: Nic + 'static>(state: *mut DriverState<N>) -> &'static mut N {
    // SAFETY: by this function's contract. Both borrow the card, so they end before it is borrowed
    // again.
    unsafe {
        (*state).received = None;
        (*state).reserved = None;
        &mut (*state).nic
    }
}

/// # Safety
/// The context is a state that [`hand_over`] has placed, used by one call at a time; the length can
/// be written.
unsafe extern "C" fn receive<N: Nic + 'static>(context: *mut c_void, len: *mut usize) -> *const u8 {
    let state = context.cast::<DriverState<N>>();
    // SAFETY: by this function's contract.
    let Some(frame) = (unsafe { card(state) }).receive() else { return null() };
    // SAFETY: as above; no frame is there that this one would end.
    let frame = unsafe { (*state).received.insert(frame) };
    let bytes = frame.bytes();
    // SAFETY: as above.
    unsafe { len.write(bytes.len()) };
    bytes.as_ptr()
}

/// # Safety
/// As of [`receive`]; the bytes of the frame are not used any more.
unsafe extern "C" fn release<N: Nic + 'static>(context: *mut c_void) {
    // SAFETY: by this function's contract.
    unsafe { (*context.cast::<DriverState<N>>()).received = None };
}

/// # Safety
/// As of [`receive`].
unsafe extern "C" fn reserve<N: Nic + 'static>(context: *mut c_void, len: usize) -> *mut u8 {
    let state = context.cast::<DriverState<N>>();
    // SAFETY: by this function's contract.
    let Some(frame) = (unsafe { card(state) }).transmit(len) else { return null_mut() };
    // SAFETY: as above; no frame is there that this one would end.
    let frame = unsafe { (*state).reserved.insert(frame) };
    let bytes = frame.bytes();
    if bytes.len() == len { bytes.as_mut_ptr() } else { null_mut() }
}

/// # Safety
/// As of [`receive`]; the bytes of the frame have been written, and are not used any more.
unsafe extern "C" fn commit<N: Nic + 'static>(context: *mut c_void, _len: usize) {
    // SAFETY: by this function's contract.
    if let Some(frame) = unsafe { (*context.cast::<DriverState<N>>()).reserved.take() } {
        frame.send();
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::boxed::Box;
    use std::rc::Rc;

    use aldis_hal::nic::{LinkState, Mac};

    use super::*;

    /// Frames that are lent, that were sent, and that came back unsent.
    #[derive(Default)]
    struct FrameTally {
        lent: Cell<u32>,
        sent: Cell<u32>,
        unsent: Cell<u32>,
    }

    /// A card with one frame, which it has to have back before it lends it again.
    struct OneFrame {
        frame: [u8; 8],
        tally: Rc<FrameTally>,
    }

    /// The frame of a card.
    struct FrameToken<'a> {
        nic: &'a mut OneFrame,
        len: usize,
        is_sent: bool,
    }

    impl OneFrame {
        fn lend(&mut self, len: usize) -> FrameToken<'_> {
            self.tally.lent.set(self.tally.lent.get() + 1);
            FrameToken { nic: self, len, is_sent: false }
        }
    }

    impl Drop for FrameToken<'_> {
        fn drop(&mut self) {
            let tally = &self.nic.tally;
            tally.lent.set(tally.lent.get() - 1);
            let how = if self.is_sent { &tally.sent } else { &tally.unsent };
            how.set(how.get() + 1);
        }
    }

    impl RxFrame for FrameToken<'_> {
        fn bytes(&self) -> &[u8] {
            &self.nic.frame[..self.len]
        }
    }

    impl TxFrame for FrameToken<'_> {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.nic.frame[..self.len]
        }

        fn send(mut self) {
            self.is_sent = true;
        }
    }

    impl Nic for OneFrame {
        type Rx<'a> = FrameToken<'a>;
        type Tx<'a> = FrameToken<'a>;

        fn receive(&mut self) -> Option<FrameToken<'_>> {
            assert_eq!(self.tally.lent.get(), 0);
            Some(self.lend(3))
        }

        fn transmit(&mut self, len: usize) -> Option<FrameToken<'_>> {
            assert_eq!(self.tally.lent.get(), 0);
            (len <= 8).then(|| self.lend(len))
        }

        fn mtu(&self) -> usize {
            70_000
        }

        fn mac(&self) -> Mac {
            Mac([2, 0, 0, 0, 0, 5])
        }

        fn link(&self) -> LinkState {
            LinkState::Up
        }
    }

    fn nothing() -> CardCallbacks {
        let (mac, context) = ([0; 6], null_mut());
        CardCallbacks { context, mac, mtu: 0, receive: None, release: None, reserve: None, commit: None }
    }

    #[test]
    fn a_frame_is_lent_at_a_time_and_returns() {
        let tally = Rc::new(FrameTally::default());
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut card = nothing();
        hand_over(place, OneFrame { frame: *b"12345678", tally: tally.clone() }, &mut card);
        assert_eq!((card.mtu, card.mac), (u16::MAX, [2, 0, 0, 0, 0, 5]));
        let counts = || (tally.lent.get(), tally.sent.get(), tally.unsent.get());
        let (receive, release) = (card.receive.unwrap(), card.release.unwrap());
        let (reserve, commit) = (card.reserve.unwrap(), card.commit.unwrap());
        // SAFETY: the context is the card's, and frames are used as long as they are lent.
        unsafe {
            let mut len = 0;
            let frame = receive(card.context, &raw mut len);
            assert_eq!((len, frame.read(), counts()), (3, b'1', (1, 0, 0)));
            release(card.context);
            assert_eq!(counts(), (0, 0, 1));
            let frame = reserve(card.context, 8);
            frame.write_bytes(7, 8);
            commit(card.context, 8);
            assert_eq!(counts(), (0, 1, 1));
            assert!(reserve(card.context, 9).is_null());
            // Reserved and not sent: it returns when the next is wanted.
            assert!(!reserve(card.context, 2).is_null() && !reserve(card.context, 2).is_null());
            assert_eq!(counts(), (1, 1, 2));
            assert_eq!(receive(card.context, &raw mut len).read(), 7);
            assert_eq!(counts(), (1, 1, 3));
            // Nothing is reserved any more.
            commit(card.context, 2);
            assert_eq!(counts(), (1, 1, 3));
            release(card.context);
        }
    }
}
