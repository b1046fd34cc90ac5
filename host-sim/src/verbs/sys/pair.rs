//! UNSAFE: calls libibverbs. Reliable connections: queue pairs.

use core::ptr;
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;

use super::completions::{Completions, Done};
use super::device::Domain;
use super::receives::{Receives, SharedQueue};
use super::slab::Slab;
use super::{check, failed};
use crate::verbs::choice::Choice;
use crate::verbs::error::VerbsError;

/// A reliable connection, with the memory that it sends from.
#[derive(Debug)]
pub(in crate::verbs) struct Pair {
    pair: PairHandle,
    sends: Slab,
    inline_bytes: usize,
}

#[derive(Debug)]
struct PairHandle {
    pair: *mut ffi::ibv_qp,
    _sent: Rc<Completions>,
    _received: Rc<Completions>,
    _receives: Rc<SharedQueue>,
}

/// Where the other end of a connection is.
#[derive(Debug)]
pub(in crate::verbs) struct Remote {
    pub(in crate::verbs) gid: [u8; 16],
    pub(in crate::verbs) lid: u16,
    pub(in crate::verbs) mtu: u16,
    pub(in crate::verbs) pair: u32,
    /// The numbers of the first packets, its and ours.
    pub(in crate::verbs) numbers: (u32, u32),
}

/// The request of a message without a slot.
const BARE: u64 = u64::MAX;

/// How long the device waits for an answer: 4.096 us times 2 to the power of this, 0.5 s.
const TIMEOUT: u8 = 17;
/// How often it asks again. The largest number, 7, means for ever to soft RoCE.
const RETRIES: u8 = 6;
/// How often it asks one that has no receive; credits see to it that it has one.
const NOT_READY_RETRIES: u8 = 6;
/// What it is to wait then: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;
/// Routers that a packet may pass.
const HOPS: u8 = 64;

impl Pair {
    /// One with so many slots to send from, and room for so many messages under way.
    pub(in crate::verbs) fn new(
        domain: &Rc<Domain>,
        receives: &Receives,
        (sent, received): (&Rc<Completions>, &Rc<Completions>),
        (slots, slot_bytes, requests): (u32, usize, u32),
        inline_bytes: u32,
    ) -> Result<Self, VerbsError> {
        let sends = Slab::new(domain, slots as usize, slot_bytes)?;
        let create = |max_inline_data| {
            let mut wanted = ffi::ibv_qp_init_attr {
                qp_context: ptr::null_mut(),
                send_cq: sent.queue,
                recv_cq: received.queue,
                srq: receives.queue.queue,
                cap: ffi::ibv_qp_cap {
                    max_send_wr: requests,
                    max_recv_wr: 0,
                    max_send_sge: 1,
                    max_recv_sge: 0,
                    max_inline_data,
                },
                qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
                sq_sig_all: 1,
            };
            // SAFETY: all that it names is open, and held by what is made here; the call reads and fills in the attributes.
            (unsafe { ffi::ibv_create_qp(domain.domain, &mut wanted) }, wanted.cap.max_inline_data)
        };
        // A device with less room for inline data may refuse instead of giving what it has.
        let (pair, inline_bytes) = match create(inline_bytes) {
            (pair, _) if pair.is_null() => create(0),
            made => made,
        };
        if pair.is_null() {
            return Err(failed("ibv_create_qp"));
        }
        let pair = PairHandle {
            pair,
            _sent: Rc::clone(sent),
            _received: Rc::clone(received),
            _receives: Rc::clone(&receives.queue),
        };
        Ok(Self { pair, sends, inline_bytes: inline_bytes as usize })
    }

    /// Its number here.
    pub(in crate::verbs) fn number(&self) -> u32 {
        // SAFETY: it is open.
        unsafe { (*self.pair.pair).qp_num }
    }

    /// Connects it: through the states that are needed to receive, then to send.
    pub(in crate::verbs) fn connect(&self, choice: &Choice, remote: &Remote) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        use ffi::ibv_qp_state as state;
        let start = ffi::ibv_qp_attr { qp_state: state::IBV_QPS_INIT, port_num: choice.port, ..blank() };
        let fields =
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        self.modify(start, fields)?;
        let path = ffi::ibv_ah_attr {
            grh: ffi::ibv_global_route {
                dgid: ffi::ibv_gid { raw: remote.gid },
                flow_label: 0,
                sgid_index: u8::try_from(choice.gid.index).unwrap_or(u8::MAX),
                hop_limit: HOPS,
                traffic_class: 0,
            },
            dlid: remote.lid,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            is_global: 1,
            port_num: choice.port,
        };
        let ready = ffi::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTR,
            ah_attr: path,
            // The numbers of packet sizes stand for powers of two from 256.
            path_mtu: remote.mtu.min(choice.mtu).ilog2().saturating_sub(7),
            dest_qp_num: remote.pair,
            rq_psn: remote.numbers.0,
            max_dest_rd_atomic: 1,
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
        self.modify(ready, fields)?;
        let sending = ffi::ibv_qp_attr {
            qp_state: state::IBV_QPS_RTS,
            sq_psn: remote.numbers.1,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: NOT_READY_RETRIES,
            max_rd_atomic: 1,
            ..blank()
        };
        let fields = mask::IBV_QP_STATE
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(sending, fields)
    }

    fn modify(&self, mut to: ffi::ibv_qp_attr, fields: ffi::ibv_qp_attr_mask) -> Result<(), VerbsError> {
        // SAFETY: it is open, and the call reads the fields of the attributes that are named.
        let code = unsafe { ffi::ibv_modify_qp(self.pair.pair, &mut to, fields.0.cast_signed()) };
        check("ibv_modify_qp", code)
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
        let stale = VerbsError::Call { call: "ibv_post_send", errno: Errno::EINVAL };
        let place = self.sends.place(slot, len).ok_or(stale)?;
        let is_inline = len <= self.inline_bytes;
        self.post(slot as u64, Some((place, is_inline)), immediate)?;
        self.sends.set_lent(slot, true);
        Ok(())
    }

    /// Sends an immediate value alone.
    pub(in crate::verbs) fn send_bare(&mut self, immediate: u32) -> Result<(), VerbsError> {
        self.post(BARE, None, immediate)
    }

    fn post(
        &self,
        request: u64,
        place: Option<(ffi::ibv_sge, bool)>,
        immediate: u32,
    ) -> Result<(), VerbsError> {
        // SAFETY: all of its fields are numbers or pointers, for which zero is a value.
        let mut order: ffi::ibv_send_wr = unsafe { core::mem::zeroed() };
        let (mut list, is_inline) =
            place.map_or((None, false), |(place, is_inline)| (Some(place), is_inline));
        order.wr_id = request;
        order.opcode = ffi::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
        order.__bindgen_anon_1.imm_data = immediate.to_be();
        if let Some(list) = &mut list {
            (order.sg_list, order.num_sge) = (list, 1);
        }
        if is_inline {
            order.send_flags = ffi::ibv_send_flags::IBV_SEND_INLINE.0;
        }
        let (mut bad, pair) = (ptr::null_mut(), self.pair.pair);
        // SAFETY: it is open and has the operation; order and list are read before the call returns; the memory is registered,
        // and written to by nobody until the request is over.
        let code = unsafe {
            let post = (*(*pair).context).ops.post_send;
            post.map_or(-1, |post| post(pair, &mut order, &mut bad))
        };
        check("ibv_post_send", code)
    }

    /// Takes the slot back of a send that is over; whether it had one.
    pub(in crate::verbs) fn take(&mut self, done: &Done) -> bool {
        let slot = usize::try_from(done.request).ok().filter(|_| done.request != BARE);
        if let Some(slot) = slot {
            self.sends.set_lent(slot, false);
        }
        slot.is_some()
    }
}

impl Drop for PairHandle {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing is made from it.
        unsafe { ffi::ibv_destroy_qp(self.pair) };
    }
}

/// Attributes that say nothing.
fn blank() -> ffi::ibv_qp_attr {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    unsafe { core::mem::zeroed() }
}
