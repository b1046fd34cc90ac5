//! A queue pair for datagrams as a network card: a frame is a datagram, and the MAC of a rank says
//! which rank it is.

use std::collections::VecDeque;
use std::rc::Rc;

use aldis_hal::PeerId;
use aldis_hal::nic::{LinkState, MAC_HEADER_BYTES, Mac, Nic, RxFrame, TxFrame};

use super::sys::{AddressHandle, Datagrams, Slots};

/// The MAC of a rank: one that is administered locally (IEEE 802, 8.4).
pub(super) const fn mac(rank: PeerId) -> Mac {
    let [a, b, c, d] = rank.0.to_be_bytes();
    Mac([0x02, 0xA1, a, b, c, d])
}

/// The rank that a frame is for.
fn rank(frame: &[u8]) -> Option<PeerId> {
    match frame.first_chunk()? {
        &[0x02, 0xA1, a, b, c, d] => Some(PeerId(u32::from_be_bytes([a, b, c, d]))),
        _ => None,
    }
}

/// The card of one rank.
#[derive(Debug)]
pub(super) struct DatagramNic {
    pair: Datagrams,
    me: PeerId,
    /// Bytes of the longest frame.
    frame_bytes: usize,
    /// Slots to send from; the next that is tried.
    sends: usize,
    next: usize,
    routes: Vec<Option<(Rc<AddressHandle>, u32)>>,
    /// The state of the link that the device has told last.
    link: LinkState,
    /// Slots that could not be lent to the device again; tried once more with each frame.
    owed: VecDeque<usize>,
}

impl DatagramNic {
    /// The card of rank `me` of so many, whose queue pair has such slots.
    pub(super) fn new(pair: Datagrams, me: PeerId, ranks: u32, slots: Slots) -> Self {
        Self {
            pair,
            me,
            frame_bytes: slots.bytes,
            sends: slots.sends as usize,
            next: 0,
            routes: vec![None; ranks as usize],
            link: LinkState::Up,
            owed: VecDeque::new(),
        }
    }

    /// The number of its queue pair.
    pub(super) fn number(&self) -> u32 {
        self.pair.number()
    }

    /// Frames to `peer` go this way, to this queue pair.
    pub(super) fn route(&mut self, peer: PeerId, way: AddressHandle, number: u32) {
        if let Some(route) = self.routes.get_mut(peer.index()) {
            *route = Some((Rc::new(way), number));
        }
    }

    /// Has the device's channel tell of the next frame.
    pub(super) fn arm(&mut self) {
        let said = self.pair.arm();
        self.note(said);
    }

    fn note<T>(&mut self, said: Result<T, super::VerbsError>) -> Option<T> {
        self.link = if said.is_ok() { LinkState::Up } else { LinkState::Down };
        said.ok()
    }
}

/// A frame that has come.
#[derive(Debug)]
pub(super) struct VerbsReceived<'a> {
    nic: &'a mut DatagramNic,
    slot: usize,
    len: usize,
}

impl RxFrame for VerbsReceived<'_> {
    fn bytes(&self) -> &[u8] {
        self.nic.pair.bytes(self.slot, self.len)
    }
}

impl Drop for VerbsReceived<'_> {
    fn drop(&mut self) {
        if self.nic.pair.give(self.slot).is_err() {
            self.nic.owed.push_back(self.slot);
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub(super) struct Sending<'a> {
    nic: &'a mut DatagramNic,
    len: usize,
}

impl TxFrame for Sending<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        let DatagramNic { pair, next, .. } = self.nic;
        pair.bytes_mut(*next, self.len)
    }

    fn send(self) {
        let Self { nic, len } = self;
        let slot = nic.next;
        // A frame that is for no rank, or that the device does not take, is lost.
        let Some(to) = rank(nic.pair.bytes_mut(slot, len)) else { return };
        let Some(Some((way, number))) = nic.routes.get(to.index()) else { return };
        let said = nic.pair.send(slot, len, way, *number);
        if nic.note(said).is_some() {
            nic.next = (slot + 1) % nic.sends;
        }
    }
}

impl Nic for DatagramNic {
    type Rx<'a> = VerbsReceived<'a>;
    type Tx<'a> = Sending<'a>;

    fn receive(&mut self) -> Option<VerbsReceived<'_>> {
        if let Some(slot) = self.owed.pop_front()
            && self.pair.give(slot).is_err()
        {
            self.owed.push_back(slot);
        }
        let said = self.pair.take();
        let (slot, len) = self.note(said)??;
        Some(VerbsReceived { nic: self, slot, len })
    }

    fn transmit(&mut self, len: usize) -> Option<Sending<'_>> {
        if self.pair.is_lent(self.next) {
            let said = self.pair.reclaim();
            self.note(said)?;
        }
        let has_room = len <= self.frame_bytes && !self.pair.is_lent(self.next);
        has_room.then_some(Sending { nic: self, len })
    }

    fn mtu(&self) -> usize {
        self.frame_bytes - MAC_HEADER_BYTES
    }

    fn mac(&self) -> Mac {
        mac(self.me)
    }

    fn link(&self) -> LinkState {
        self.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_says_whose_it_is() {
        for number in [0, 1, 0x1234_5678, u32::MAX] {
            assert_eq!(rank(&mac(PeerId(number)).0), Some(PeerId(number)));
        }
        assert_eq!(rank(&[0xFF; 6]), None);
        assert_eq!(rank(&[0x02, 0xA1, 0, 0, 0]), None);
    }
}
