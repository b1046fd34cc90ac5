//! UNSAFE: hands slots to the device through libibverbs. A queue pair for datagrams (UD): what it
//! sends may be lost.

use std::rc::Rc;

use ibverbs_sys as ffi;

use super::channel::CompletionChannel;
use super::completions::{CompletionQueues, Completions, Ending};
use super::connection::{Connection, DATAGRAM_KEY, QueuePairShape, order, path, stale};
use super::device::Domain;
use super::failed;
use super::receives::Receives;
use super::slab::Slab;
use crate::verbs::choice::VerbsChoice;
use crate::verbs::error::VerbsError;

/// Bytes in front of what came: where it came from, of which nothing is believed.
pub(in crate::verbs) const ROUTE_BYTES: usize = 40;

/// A queue pair for datagrams, with the memory that it sends from and receives into.
#[derive(Debug)]
pub(in crate::verbs) struct Datagrams {
    // Before the memory that it sends from and the ways that it takes.
    connection: Connection,
    sends: Slab,
    /// The way of what was last sent from each slot.
    ways: Vec<Option<Rc<AddressHandle>>>,
    inline_bytes: usize,
    receives: Receives,
    sent: Rc<Completions>,
    received: Rc<Completions>,
}

/// The numbers and sizes of its slots.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct Slots {
    /// Datagrams that can be under way.
    pub(in crate::verbs) sends: u32,
    /// Datagrams that can wait here.
    pub(in crate::verbs) receives: u32,
    /// Bytes of the longest.
    pub(in crate::verbs) bytes: usize,
    /// Bytes that are asked for inline.
    pub(in crate::verbs) inline_bytes: u32,
}

/// The way to a port, as the device knows it.
#[derive(Debug)]
pub(in crate::verbs) struct AddressHandle {
    handle: *mut ffi::ibv_ah,
    _domain: Rc<Domain>,
}

impl AddressHandle {
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        choice: &VerbsChoice,
        gid: [u8; 16],
        lid: u16,
    ) -> Result<Self, VerbsError> {
        let mut path = path(choice, gid, lid);
        // SAFETY: the domain is open, and the call reads the attributes.
        let handle = unsafe { ffi::ibv_create_ah(domain.domain, &mut path) };
        if handle.is_null() {
            return Err(failed("ibv_create_ah"));
        }
        Ok(Self { handle, _domain: Rc::clone(domain) })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: made once, and held as long as anything is under way on it.
        unsafe { ffi::ibv_destroy_ah(self.handle) };
    }
}

impl Datagrams {
    /// Creates a queue pair for datagrams, which receives.
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        channel: &Rc<CompletionChannel>,
        choice: &VerbsChoice,
        slots: Slots,
    ) -> Result<Self, VerbsError> {
        let sent = Completions::new(domain, channel, slots.sends)?;
        let received = Completions::new(domain, channel, slots.receives)?;
        let bytes = ROUTE_BYTES + slots.bytes;
        let mut receives = Receives::new(domain, slots.receives, slots.receives, bytes)?;
        let sends = Slab::new(domain, slots.sends as usize, slots.bytes)?;
        let kind = ffi::ibv_qp_type::IBV_QPT_UD;
        let shape = QueuePairShape { kind, requests: slots.sends, inline_bytes: slots.inline_bytes };
        let (connection, inline_bytes) = {
            let queues = CompletionQueues { sent: &sent, received: &received };
            Connection::new(domain, &receives, queues, shape)?
        };
        connection.open(choice)?;
        receives.grow(1)?;
        let ways = vec![None; slots.sends as usize];
        Ok(Self { connection, sends, ways, inline_bytes, receives, sent, received })
    }

    /// Its number here.
    pub(in crate::verbs) fn number(&self) -> u32 {
        self.connection.number()
    }

    /// Has the channel tell of the next arrival.
    pub(in crate::verbs) fn arm(&self) -> Result<(), VerbsError> {
        self.received.arm()
    }

    /// Room for a datagram of `len` bytes in a slot; empty if the device still sends from it.
    pub(in crate::verbs) fn bytes_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        self.sends.bytes_mut(slot, len)
    }

    /// Sends the first `len` bytes of a slot to queue pair `number` of a port.
    pub(in crate::verbs) fn send(
        &mut self,
        slot: usize,
        len: usize,
        way: &Rc<AddressHandle>,
        number: u32,
    ) -> Result<(), VerbsError> {
        let place = self.sends.place(slot, len).ok_or_else(stale)?;
        let mut order = order(slot as u64, ffi::ibv_wr_opcode::IBV_WR_SEND);
        order.wr.ud = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: way.handle,
            remote_qpn: number,
            remote_qkey: DATAGRAM_KEY,
        };
        if len <= self.inline_bytes {
            order.send_flags = ffi::ibv_send_flags::IBV_SEND_INLINE.0;
        }
        // SAFETY: the slab is registered and outlives the connection; the slot is lent below, so
        // that nothing writes there until the order is over.
        unsafe { self.connection.post(order, Some(place)) }?;
        self.sends.set_lent(slot, true);
        if let Some(taken) = self.ways.get_mut(slot) {
            *taken = Some(Rc::clone(way));
        }
        Ok(())
    }

    /// Takes back the slots of what has been sent.
    pub(in crate::verbs) fn reclaim(&mut self) -> Result<(), VerbsError> {
        let Self { sent, sends, .. } = self;
        sent.poll(usize::MAX, |done| {
            sends.set_lent(usize::try_from(done.request).unwrap_or(usize::MAX), false);
        })
    }

    /// Returns true if the device still sends from a slot.
    pub(in crate::verbs) fn is_lent(&self, slot: usize) -> bool {
        self.sends.place(slot, 0).is_none()
    }

    /// Takes the slot of the next datagram that came, and its length without the bytes in front. It
    /// is to be given back by [`give`](Self::give).
    pub(in crate::verbs) fn take(&mut self) -> Result<Option<(usize, usize)>, VerbsError> {
        let Self { received, receives, .. } = self;
        let mut taken = None;
        received.poll(1, |done| {
            let len = done.len.checked_sub(ROUTE_BYTES).filter(|_| done.ending == Ending::Good);
            taken = Some((receives.take(&done), len.unwrap_or(0)));
        })?;
        Ok(taken)
    }

    /// Returns the bytes that came.
    pub(in crate::verbs) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        self.receives.bytes(slot, ROUTE_BYTES + len).get(ROUTE_BYTES..).unwrap_or_default()
    }

    /// Lends the slot to the device again.
    pub(in crate::verbs) fn give(&mut self, slot: usize) -> Result<(), VerbsError> {
        self.receives.post(slot)
    }
}
