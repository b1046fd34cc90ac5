//! UNSAFE: hands slots to the device through libibverbs. Connections that carry messages.

use std::rc::Rc;

use ibverbs_sys as ffi;

use super::completions::{CompletionQueues, Done};
use super::connection::{Connection, QueuePairShape, Remote, order, stale};
use super::device::Domain;
use super::rdmacm::CmId;
use super::receives::Receives;
use super::slab::Slab;
use crate::verbs::choice::VerbsChoice;
use crate::verbs::error::VerbsError;

/// The number that stands for a slot in the request of a message without one, and of a write of
/// nothing.
const BARE: u32 = u32::MAX;
const PROBE: u32 = u32::MAX - 1;

/// The kind of a send that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::verbs) enum SentKind {
    /// Of a slot, which is free again.
    Slot,
    Bare,
    Probe,
}

/// A reliable connection, with the memory that it sends from.
#[derive(Debug)]
pub(in crate::verbs) struct ReliablePair {
    // Before the memory that it sends from.
    connection: Connection,
    sends: Slab,
    inline_bytes: usize,
}

/// The numbers and sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct PairShape {
    /// Slots to send from.
    pub(in crate::verbs) slots: u32,
    pub(in crate::verbs) slot_bytes: usize,
    /// Orders that can be under way.
    pub(in crate::verbs) requests: u32,
    /// Bytes that are asked for inline.
    pub(in crate::verbs) inline_bytes: u32,
}

impl ReliablePair {
    /// Creates a queue pair.
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        receives: &Receives,
        queues: CompletionQueues<'_>,
        shape: PairShape,
    ) -> Result<Self, VerbsError> {
        let PairShape { slots, slot_bytes, requests, inline_bytes } = shape;
        let sends = Slab::new(domain, slots as usize, slot_bytes)?;
        let shape = QueuePairShape { kind: ffi::ibv_qp_type::IBV_QPT_RC, requests, inline_bytes };
        let (connection, inline_bytes) = Connection::new(domain, receives, queues, shape)?;
        Ok(Self { connection, sends, inline_bytes })
    }

    /// Its number here.
    pub(in crate::verbs) fn number(&self) -> u32 {
        self.connection.number()
    }

    /// Connects it.
    pub(in crate::verbs) fn connect(&self, choice: &VerbsChoice, remote: &Remote) -> Result<(), VerbsError> {
        self.connection.connect(choice, remote)
    }

    /// Connects it as the system's manager has found out.
    pub(in crate::verbs) fn connect_by(&self, line: &CmId, mtu: u16) -> Result<(), VerbsError> {
        self.connection.connect_by(line, mtu, 0)
    }

    /// Room for a message of `len` bytes in a slot; empty if the device still sends from it.
    pub(in crate::verbs) fn bytes_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        self.sends.bytes_mut(slot, len)
    }

    /// Sends the first `len` bytes of a slot.
    pub(in crate::verbs) fn send(
        &mut self,
        slot: usize,
        len: usize,
        immediate: u32,
    ) -> Result<(), VerbsError> {
        let place = self.sends.place(slot, len).ok_or_else(stale)?;
        let mut order = message(slot as u32, immediate);
        if len <= self.inline_bytes {
            order.send_flags = ffi::ibv_send_flags::IBV_SEND_INLINE.0;
        }
        // SAFETY: the slab is registered and outlives the connection; the slot is lent below, so
        // that nothing writes there until the order is over.
        unsafe { self.connection.post(order, Some(place)) }?;
        self.sends.set_lent(slot, true);
        Ok(())
    }

    /// Sends an immediate value alone.
    pub(in crate::verbs) fn send_bare(&mut self, immediate: u32) -> Result<(), VerbsError> {
        // SAFETY: there is no memory.
        unsafe { self.connection.post(message(BARE, immediate), None) }
    }

    /// Writes nothing to the peer's memory, which its device has to answer: so it is found out
    /// whether there is still one.
    pub(in crate::verbs) fn probe(&mut self) -> Result<(), VerbsError> {
        let order = order(PROBE.into(), ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE);
        // SAFETY: there is no memory.
        unsafe { self.connection.post(order, None) }
    }

    /// Has the device fail it.
    pub(in crate::verbs) fn stop(&self) -> Result<(), VerbsError> {
        self.connection.stop()
    }

    /// Returns the kind of the send that is over, and frees its slot.
    pub(in crate::verbs) fn take(&mut self, done: &Done) -> SentKind {
        match done.request as u32 {
            BARE => SentKind::Bare,
            PROBE => SentKind::Probe,
            slot => {
                self.sends.set_lent(slot as usize, false);
                SentKind::Slot
            }
        }
    }
}

fn message(what: u32, immediate: u32) -> ffi::ibv_send_wr {
    let mut order = order(what.into(), ffi::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM);
    order.__bindgen_anon_1.imm_data = immediate.to_be();
    order
}
