//! UNSAFE: calls libibverbs. Queue pairs, from their making to an order that they are given.

use core::ptr;
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;

use super::completions::{CompletionQueues, Completions};
use super::device::Domain;
use super::rdmacm::CmId;
use super::receives::{Receives, SharedQueue};
use super::{check, failed};
use crate::verbs::choice::VerbsChoice;
use crate::verbs::error::VerbsError;

/// The exponent of the time for which the device waits for an answer: 4.096 us times 2 to the power
/// of this, 0.5 s.
const TIMEOUT: u8 = 17;
/// The number of times that it asks again. The largest number, 7, means for ever to soft RoCE.
const RETRIES: u8 = 6;
/// The number of times that it asks a peer that has no receive; credits see to it that it has one.
const NOT_READY_RETRIES: u8 = 6;
/// The code of the time that it is to wait then: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// Routers that a packet may pass.
const HOPS: u8 = 64;

/// The other end of a connection.
#[derive(Debug)]
pub(in crate::verbs) struct Remote {
    pub(in crate::verbs) gid: [u8; 16],
    pub(in crate::verbs) lid: u16,
    pub(in crate::verbs) mtu: u16,
    pub(in crate::verbs) pair: u32,
    /// The numbers of the first packets, its and ours.
    pub(in crate::verbs) numbers: (u32, u32),
    /// Reads and atomics that may be under way, of its and of ours; none if it carries messages.
    pub(in crate::verbs) depth: u8,
}

/// The key that permits datagrams to a queue pair: all senders of this program name it.
pub(super) const DATAGRAM_KEY: u32 = 0xA1D1_5000;

/// The kind of a queue pair, and what it is to have room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePairShape {
    /// [`IBV_QPT_RC`](ffi::ibv_qp_type::IBV_QPT_RC), or
    /// [`IBV_QPT_UD`](ffi::ibv_qp_type::IBV_QPT_UD).
    pub(super) kind: ffi::ibv_qp_type::Type,
    /// Orders under way.
    pub(super) requests: u32,
    /// Bytes inline, at best.
    pub(super) inline_bytes: u32,
}

/// A queue pair. Once it is dropped the device does nothing for it any more, and what it had under
/// way completes nowhere.
#[derive(Debug)]
pub(super) struct Connection {
    pair: *mut ffi::ibv_qp,
    _sent: Rc<Completions>,
    _received: Rc<Completions>,
    _receives: Rc<SharedQueue>,
}

impl Connection {
    /// Creates a queue pair that is connected to no peer; returns it and the bytes that it takes
    /// inline.
    pub(super) fn new(
        domain: &Domain,
        receives: &Receives,
        queues: CompletionQueues<'_>,
        shape: QueuePairShape,
    ) -> Result<(Self, usize), VerbsError> {
        let CompletionQueues { sent, received } = queues;
        let create = |max_inline_data| {
            let mut wanted = ffi::ibv_qp_init_attr {
                qp_context: ptr::null_mut(),
                send_cq: sent.queue,
                recv_cq: received.queue,
                srq: receives.queue.queue,
                cap: ffi::ibv_qp_cap {
                    max_send_wr: shape.requests,
                    max_recv_wr: 0,
                    max_send_sge: 1,
                    max_recv_sge: 0,
                    max_inline_data,
                },
                qp_type: shape.kind,
                sq_sig_all: 1,
            };
            // SAFETY: all that it names is open, and held by what is made here; the call reads and
            // fills in the attributes.
            (unsafe { ffi::ibv_create_qp(domain.domain, &mut wanted) }, wanted.cap.max_inline_data)
        };
        // A device with less room for inline data may refuse instead of giving what it has.
        let (pair, inline_bytes) = match create(shape.inline_bytes) {
            (pair, _) if pair.is_null() => create(0),
            made => made,
        };
        if pair.is_null() {
            return Err(failed("ibv_create_qp"));
        }
        let (sent, received) = (Rc::clone(sent), Rc::clone(received));
        let made = Self { pair, _sent: sent, _received: received, _receives: Rc::clone(&receives.queue) };
        Ok((made, inline_bytes as usize))
    }

    /// Its number here.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: it is open.
        unsafe { (*self.pair).qp_num }
    }

    /// Connects it: through the states that are needed to receive, then to send.
    pub(super) fn connect(&self, choice: &VerbsChoice, remote: &Remote) -> Result<(), VerbsError> {
        self.start(choice, remote)?;
        self.receive(choice, remote)?;
        self.send(remote)
    }

    /// Connects it as the system's manager has found out.
    pub(super) fn connect_by(&self, line: &CmId, mtu: u16, depth: u8) -> Result<(), VerbsError> {
        use ffi::ibv_qp_state as state;
        let (to, fields) = line.attributes(state::IBV_QPS_INIT)?;
        self.modify(ffi::ibv_qp_attr { qp_access_flags: access(depth).0, ..to }, fields)?;
        let (to, fields) = line.attributes(state::IBV_QPS_RTR)?;
        let path_mtu = to.path_mtu.min(packet(mtu));
        self.modify(ffi::ibv_qp_attr { path_mtu, min_rnr_timer: NOT_READY_TIMER, ..to }, fields)?;
        let (to, fields) = line.attributes(state::IBV_QPS_RTS)?;
        let (timeout, retry_cnt, rnr_retry) = (TIMEOUT, RETRIES, NOT_READY_RETRIES);
        self.modify(ffi::ibv_qp_attr { timeout, retry_cnt, rnr_retry, ..to }, fields)
    }

    /// Makes it send and receive datagrams.
    pub(super) fn open(&self, choice: &VerbsChoice) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        use ffi::ibv_qp_state as state;
        let to =
            |qp_state| ffi::ibv_qp_attr { qp_state, port_num: choice.port, qkey: DATAGRAM_KEY, ..blank() };
        let first = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_QKEY;
        self.modify(to(state::IBV_QPS_INIT), first)?;
        self.modify(to(state::IBV_QPS_RTR), mask::IBV_QP_STATE)?;
        self.modify(to(state::IBV_QPS_RTS), mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN)
    }

    /// Stops it: what is under way ends as [`Flushed`](super::Ending::Flushed), and so does what it
    /// is given from here on.
    pub(super) fn stop(&self) -> Result<(), VerbsError> {
        let to = ffi::ibv_qp_attr { qp_state: ffi::ibv_qp_state::IBV_QPS_ERR, ..blank() };
        self.modify(to, ffi::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    fn start(&self, choice: &VerbsChoice, remote: &Remote) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        let to = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            port_num: choice.port,
            qp_access_flags: access(remote.depth).0,
            ..blank()
        };
        let fields =
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        self.modify(to, fields)
    }

    fn receive(&self, choice: &VerbsChoice, remote: &Remote) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        let to = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            ah_attr: path(choice, remote.gid, remote.lid),
            path_mtu: packet(remote.mtu.min(choice.mtu)),
            dest_qp_num: remote.pair,
            rq_psn: remote.numbers.0,
            max_dest_rd_atomic: remote.depth,
            min_rnr_timer: NOT_READY_TIMER,
            ..blank()
        };
        let fields = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(to, fields)
    }

    fn send(&self, remote: &Remote) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        let to = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: remote.numbers.1,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: NOT_READY_RETRIES,
            max_rd_atomic: remote.depth,
            ..blank()
        };
        let fields = mask::IBV_QP_STATE
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(to, fields)
    }

    fn modify(&self, mut to: ffi::ibv_qp_attr, fields: ffi::ibv_qp_attr_mask) -> Result<(), VerbsError> {
        // SAFETY: it is open, and the call reads the fields of the attributes that are named.
        let code = unsafe { ffi::ibv_modify_qp(self.pair, &mut to, fields.0.cast_signed()) };
        check("ibv_modify_qp", code)
    }

    /// Gives it an order, about the memory at `place` if there is any.
    ///
    /// # Safety
    /// Until the order is over, or this is dropped, the memory stays registered and is not
    /// touched in a way that the order does not allow; memory that goes inline only until this
    /// returns.
    pub(super) unsafe fn post(
        &self,
        mut order: ffi::ibv_send_wr,
        mut place: Option<ffi::ibv_sge>,
    ) -> Result<(), VerbsError> {
        if let Some(place) = &mut place {
            (order.sg_list, order.num_sge) = (place, 1);
        }
        let mut bad = ptr::null_mut();
        // SAFETY: it is open and has the operation; order and list are read before the call
        // returns; the caller vouches for the memory.
        let code = unsafe {
            let post = (*(*self.pair).context).ops.post_send;
            post.map_or(-1, |post| post(self.pair, &mut order, &mut bad))
        };
        check("ibv_post_send", code)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing is made from it.
        unsafe { ffi::ibv_destroy_qp(self.pair) };
    }
}

/// Returns what a peer may do to memory here by a connection on which it can have so many reads
/// under way.
fn access(depth: u8) -> ffi::ibv_access_flags {
    use ffi::ibv_access_flags as access;
    match depth {
        // For writes of nothing.
        0 => access::IBV_ACCESS_REMOTE_WRITE,
        _ => {
            access::IBV_ACCESS_REMOTE_READ
                | access::IBV_ACCESS_REMOTE_WRITE
                | access::IBV_ACCESS_REMOTE_ATOMIC
        }
    }
}

/// The number of a packet size: they stand for powers of two from 256.
const fn packet(mtu: u16) -> u32 {
    (mtu | 1).ilog2().saturating_sub(7)
}

/// The way to a port.
pub(super) fn path(choice: &VerbsChoice, gid: [u8; 16], lid: u16) -> ffi::ibv_ah_attr {
    ffi::ibv_ah_attr {
        grh: ffi::ibv_global_route {
            dgid: ffi::ibv_gid { raw: gid },
            flow_label: 0,
            sgid_index: u8::try_from(choice.gid.index).unwrap_or(u8::MAX),
            hop_limit: HOPS,
            traffic_class: 0,
        },
        dlid: lid,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: choice.port,
    }
}

/// An order that says nothing but its number and what it is.
pub(super) fn order(request: u64, opcode: ffi::ibv_wr_opcode::Type) -> ffi::ibv_send_wr {
    // SAFETY: all of its fields are numbers or pointers, for which zero is a value.
    let zero: ffi::ibv_send_wr = unsafe { core::mem::zeroed() };
    ffi::ibv_send_wr { wr_id: request, opcode, ..zero }
}

/// The error of a send of something that is not there.
pub(super) const fn stale() -> VerbsError {
    VerbsError::Call { call: "ibv_post_send", errno: Errno::EINVAL }
}

/// Attributes that say nothing.
pub(super) fn blank() -> ffi::ibv_qp_attr {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    unsafe { core::mem::zeroed() }
}
