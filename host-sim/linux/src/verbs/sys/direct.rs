//! UNSAFE: has the device read and write registered memory through libibverbs. Connections for
//! reads, writes and atomics.

use std::rc::Rc;

use aldis_hal::Token;
use aldis_hal::remote_memory::Atomic;
use ibverbs_sys as ffi;

use super::completions::{CompletionQueues, Done, Ending};
use super::connection::{Connection, QueuePairShape, Remote, order, stale};
use super::device::Domain;
use super::flush::{Flush, FlushKey};
use super::rdmacm::CmId;
use super::receives::Receives;
use super::region::{DeviceRegion, RegionKey};
use crate::verbs::choice::VerbsChoice;
use crate::verbs::error::VerbsError;

/// Requests of the device that an order takes: a write, and a read behind it.
pub(in crate::verbs) const REQUESTS_OF_ORDER: u32 = 2;
/// The bit of a request that is a write, which is over when the read behind it is.
const BEFORE_FLUSH: u64 = 1 << 32;

/// A reliable connection by which each side reaches memory of the other. An order that is refused
/// there breaks it, and not the connection of messages.
#[derive(Debug)]
pub(in crate::verbs) struct DirectPair {
    // Before the regions that it uses.
    connection: Connection,
    /// The orders under way, each with the memory here.
    orders: Vec<Option<(Token, Rc<DeviceRegion>)>>,
}

/// The operation that is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::verbs) enum DirectOperation {
    Read,
    Write,
    Update(Atomic),
}

/// A piece of memory here, and the place there.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct DirectSpan {
    /// Offset into the region here.
    pub(in crate::verbs) here: usize,
    pub(in crate::verbs) len: usize,
    pub(in crate::verbs) key: RegionKey,
    /// Offset into the region there.
    pub(in crate::verbs) there: u64,
}

/// An order: the operation, and the memory that it is about.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct DirectOrder {
    pub(in crate::verbs) operation: DirectOperation,
    pub(in crate::verbs) span: DirectSpan,
}

/// The read behind a write, by which what is written can be seen there.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct FlushRead<'a> {
    pub(in crate::verbs) into: &'a Flush,
    pub(in crate::verbs) from: FlushKey,
}

impl DirectPair {
    /// Creates a queue pair with room for so many orders.
    pub(in crate::verbs) fn new(
        domain: &Domain,
        receives: &Receives,
        queues: CompletionQueues<'_>,
        orders: u32,
    ) -> Result<Self, VerbsError> {
        let (kind, requests) = (ffi::ibv_qp_type::IBV_QPT_RC, orders * REQUESTS_OF_ORDER);
        let shape = QueuePairShape { kind, requests, inline_bytes: 0 };
        let (connection, _) = Connection::new(domain, receives, queues, shape)?;
        Ok(Self { connection, orders: (0..orders).map(|_| None).collect() })
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
    pub(in crate::verbs) fn connect_by(&self, line: &CmId, mtu: u16, depth: u8) -> Result<(), VerbsError> {
        self.connection.connect_by(line, mtu, depth)
    }

    /// Returns true if there is room for one more.
    pub(in crate::verbs) fn has_room(&self) -> bool {
        self.orders.iter().any(Option::is_none)
    }

    /// Returns the tokens of what is under way with a piece of `region`, or with any.
    pub(in crate::verbs) fn tokens(&self, region: Option<&Rc<DeviceRegion>>) -> impl Iterator<Item = Token> {
        let is_of = move |of: &Rc<DeviceRegion>| region.is_none_or(|region| Rc::ptr_eq(of, region));
        self.orders.iter().flatten().filter(move |(_, of)| is_of(of)).map(|(token, _)| *token)
    }

    /// Begins an order between a piece of `region`, which is kept until it is over, and memory
    /// there. It is over when what is written can be seen there.
    pub(in crate::verbs) fn post(
        &mut self,
        token: Token,
        order: DirectOrder,
        region: &Rc<DeviceRegion>,
        flush: FlushRead<'_>,
    ) -> Result<(), VerbsError> {
        let DirectOrder { operation, span } = order;
        let place = region.place(span.here, span.len).ok_or_else(stale)?;
        let slot = self.orders.iter().position(Option::is_none).ok_or_else(stale)?;
        let is_write = operation == DirectOperation::Write;
        let request = if is_write { slot as u64 | BEFORE_FLUSH } else { slot as u64 };
        let order = spell(request, order);
        // SAFETY: the region is kept with the order below, for longer than the connection if need
        // be. If the second post fails, the caller drops this while it has the region, and so ends
        // the first. The region's owner has promised that nothing else touches what the device
        // writes.
        unsafe { self.connection.post(order, Some(place)) }?;
        if is_write {
            let FlushKey { key, base } = flush.from;
            let order = reading(slot as u64, base.into(), key);
            // SAFETY: no code looks at the memory, and it is there for the rest of the process.
            unsafe { self.connection.post(order, Some(flush.into.place().ok_or_else(stale)?)) }?;
        }
        if let Some(row) = self.orders.get_mut(slot) {
            *row = Some((token, Rc::clone(region)));
        }
        Ok(())
    }

    /// The token of the order that is over. A write that has gone well is not: what follows it
    /// tells.
    pub(in crate::verbs) fn take(&mut self, done: &Done) -> Option<Token> {
        if done.request & BEFORE_FLUSH != 0 && done.ending == Ending::Good {
            return None;
        }
        let slot = done.request & !BEFORE_FLUSH;
        self.orders.get_mut(usize::try_from(slot).ok()?)?.take().map(|(token, _)| token)
    }
}

/// A read of a place there.
fn reading(request: u64, remote_addr: u64, rkey: u32) -> ffi::ibv_send_wr {
    let rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey };
    let wr = ffi::ibv_send_wr__bindgen_ty_2 { rdma };
    ffi::ibv_send_wr { wr, ..order(request, ffi::ibv_wr_opcode::IBV_WR_RDMA_READ) }
}

/// The order as the library wants it.
fn spell(request: u64, DirectOrder { operation, span }: DirectOrder) -> ffi::ibv_send_wr {
    use ffi::ibv_wr_opcode as code;
    let (remote_addr, rkey) = (span.key.place(span.there), span.key.key);
    let rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey };
    let atomic = |compare_add, swap| ffi::ibv_send_wr__bindgen_ty_2 {
        atomic: ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 { remote_addr, compare_add, swap, rkey },
    };
    let (opcode, wr) = match operation {
        DirectOperation::Read => return reading(request, remote_addr, rkey),
        DirectOperation::Write => (code::IBV_WR_RDMA_WRITE, ffi::ibv_send_wr__bindgen_ty_2 { rdma }),
        DirectOperation::Update(Atomic::FetchAdd(value)) => {
            (code::IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(value, 0))
        }
        DirectOperation::Update(Atomic::CompareSwap { compare, swap }) => {
            (code::IBV_WR_ATOMIC_CMP_AND_SWP, atomic(compare, swap))
        }
    };
    ffi::ibv_send_wr { wr, ..order(request, opcode) }
}
