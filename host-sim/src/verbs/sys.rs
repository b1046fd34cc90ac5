//! UNSAFE: calls libibverbs. The library's objects with their lifetimes: each holds those that it was made from, so that it is
//! freed before them, and memory that the device may touch is out of reach until the device has given it back.

use core::alloc::Layout;
use core::ffi::CStr;
use core::{ptr, slice};
use std::rc::Rc;

use ibverbs_sys as ffi;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::choice::{Choice, Description, Gid, Kind, Port, RoceVersion};
use super::error::VerbsError;

/// Where memory of a slab begins: at a page.
const PAGE_BYTES: usize = 4096;
/// The addresses of a port that are looked at.
const GIDS: usize = 256;
/// Completions taken by one call.
pub(super) const BATCH: usize = 16;

/// What a call that returns a pointer has said of its failure.
fn failed(call: &'static str) -> VerbsError {
    VerbsError::Call { call, errno: Errno::last() }
}

/// What a call that returns a number has said of its failure.
fn check(call: &'static str, code: i32) -> Result<(), VerbsError> {
    if code == 0 { Ok(()) } else { Err(VerbsError::Call { call, errno: Errno::from_raw(code.abs()) }) }
}

/// An open device.
#[derive(Debug)]
pub(super) struct Device {
    context: *mut ffi::ibv_context,
    name: String,
}

/// What of a device's limits matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) pairs: u64,
    pub(super) receives: u64,
    pub(super) completions: u64,
    pub(super) sends: u64,
}

impl Device {
    /// Opens all that there are.
    pub(super) fn all() -> Result<Vec<Self>, VerbsError> {
        let mut count = 0;
        // SAFETY: the call writes the number of entries of the list that it returns.
        let list = unsafe { ffi::ibv_get_device_list(&mut count) };
        if list.is_null() {
            return match Errno::last() {
                Errno::ENOSYS | Errno::ENOENT => Err(VerbsError::NoDevice),
                errno => Err(VerbsError::Call { call: "ibv_get_device_list", errno }),
            };
        }
        let open = |at: usize| {
            // SAFETY: the list has `count` entries, each valid until the list is freed; its name ends with a zero byte.
            let (context, name) = unsafe {
                let device = *list.add(at);
                (ffi::ibv_open_device(device), CStr::from_ptr(ffi::ibv_get_device_name(device)))
            };
            let name = name.to_string_lossy().into_owned();
            if context.is_null() { Err(failed("ibv_open_device")) } else { Ok(Self { context, name }) }
        };
        let devices = (0..usize::try_from(count).unwrap_or(0)).map(open).collect();
        // SAFETY: it is the list from above, and nothing of it is used any more: open devices outlive it.
        unsafe { ffi::ibv_free_device_list(list) };
        devices
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn describe(&self) -> Result<Description, VerbsError> {
        let (ports, gids) = (self.attributes()?.phys_port_cnt, self.gids()?);
        let port = |number| {
            let mut port = ffi::ibv_port_attr::default();
            // SAFETY: the call fills in what is there of an attribute as large as this one or smaller.
            let code = unsafe { ffi::ibv_query_port(self.context, number, (&raw mut port).cast()) };
            check("ibv_query_port", code)?;
            let of_port = |(at, gid): &(u8, Gid)| (*at == number).then(|| gid.clone());
            Ok(Port {
                number,
                is_active: port.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
                // The numbers stand for powers of two from 256.
                mtu: 128_u16.checked_shl(port.active_mtu).unwrap_or(0),
                lid: port.lid,
                gids: gids.iter().filter_map(of_port).collect(),
            })
        };
        let ports = (1..=ports).map(port).collect::<Result<_, VerbsError>>()?;
        Ok(Description { name: self.name.clone(), ports })
    }

    pub(super) fn limits(&self) -> Result<Limits, VerbsError> {
        let attributes = self.attributes()?;
        let number = |value: i32| u64::try_from(value).unwrap_or(0);
        Ok(Limits {
            pairs: number(attributes.max_qp),
            receives: number(attributes.max_srq_wr),
            completions: number(attributes.max_cqe),
            sends: number(attributes.max_qp_wr),
        })
    }

    fn attributes(&self) -> Result<ffi::ibv_device_attr, VerbsError> {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut attributes: ffi::ibv_device_attr = unsafe { core::mem::zeroed() };
        // SAFETY: the context is open, and the call fills in the attributes.
        check("ibv_query_device", unsafe { ffi::ibv_query_device(self.context, &mut attributes) })?;
        Ok(attributes)
    }

    /// All addresses, with the ports that they are of.
    fn gids(&self) -> Result<Vec<(u8, Gid)>, VerbsError> {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut entries: Vec<ffi::ibv_gid_entry> = vec![unsafe { core::mem::zeroed() }; GIDS];
        let size = size_of::<ffi::ibv_gid_entry>();
        // SAFETY: there is room for so many entries of this size.
        let count = unsafe { ffi::_ibv_query_gid_table(self.context, entries.as_mut_ptr(), GIDS, 0, size) };
        let count = usize::try_from(count).map_err(|_| VerbsError::Call {
            call: "ibv_query_gid_table",
            errno: Errno::from_raw(i32::try_from(-count).unwrap_or(0)),
        })?;
        let gid = |entry: &ffi::ibv_gid_entry| {
            let kind = match entry.gid_type {
                ffi::IBV_GID_TYPE_ROCE_V1 => Kind::Roce(RoceVersion::V1),
                ffi::IBV_GID_TYPE_ROCE_V2 => Kind::Roce(RoceVersion::V2),
                _ => Kind::Infiniband,
            };
            // SAFETY: its bytes are those of either form.
            let raw = unsafe { entry.gid.raw };
            Some((u8::try_from(entry.port_num).ok()?, Gid { index: entry.gid_index, raw, kind }))
        };
        Ok(entries.iter().take(count).filter_map(gid).collect())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: it is open, and what was made from it holds it.
        unsafe { ffi::ibv_close_device(self.context) };
    }
}

/// Objects that may work together.
#[derive(Debug)]
pub(super) struct Domain {
    domain: *mut ffi::ibv_pd,
    device: Rc<Device>,
}

impl Domain {
    pub(super) fn new(device: Rc<Device>) -> Result<Rc<Self>, VerbsError> {
        // SAFETY: the context is open.
        let domain = unsafe { ffi::ibv_alloc_pd(device.context) };
        if domain.is_null() { Err(failed("ibv_alloc_pd")) } else { Ok(Rc::new(Self { domain, device })) }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it is allocated, and what was made in it holds it.
        unsafe { ffi::ibv_dealloc_pd(self.domain) };
    }
}

/// Registered memory in slots of one size. A slot is either ours or lent to the device.
#[derive(Debug)]
struct Slab {
    region: *mut ffi::ibv_mr,
    memory: ptr::NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    lent: Vec<bool>,
    _domain: Rc<Domain>,
}

impl Slab {
    fn new(domain: &Rc<Domain>, slots: usize, slot_bytes: usize) -> Result<Self, VerbsError> {
        let too_large = VerbsError::Call { call: "ibv_reg_mr", errno: Errno::ENOMEM };
        let bytes = slots.checked_mul(slot_bytes).filter(|bytes| *bytes > 0).ok_or(too_large.clone())?;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| too_large.clone())?;
        // SAFETY: the layout is not of size zero.
        let memory = ptr::NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(too_large)?;
        let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0.cast_signed();
        // SAFETY: the memory is there until this is dropped, which deregisters it first.
        let region = unsafe { ffi::ibv_reg_mr(domain.domain, memory.as_ptr().cast(), bytes, access) };
        if region.is_null() {
            let error = refused(bytes as u64);
            // SAFETY: allocated above with this layout, and nobody else has it.
            unsafe { std::alloc::dealloc(memory.as_ptr(), layout) };
            return Err(error);
        }
        Ok(Self { region, memory, layout, slot_bytes, lent: vec![false; slots], _domain: Rc::clone(domain) })
    }

    /// A slot of ours; empty if it is lent.
    fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return &[];
        }
        // SAFETY: within the memory, which is initialised; the device writes to lent slots alone, and this is none for as long
        // as it is borrowed.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(slot * self.slot_bytes), len) }
    }

    fn bytes_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the slab is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().add(slot * self.slot_bytes), len) }
    }

    /// The place of a slot of ours, as a work request names it.
    fn place(&self, slot: usize, len: usize) -> Option<ffi::ibv_sge> {
        if self.lent.get(slot) != Some(&false) || len > self.slot_bytes {
            return None;
        }
        // SAFETY: the region is registered.
        let lkey = unsafe { (*self.region).lkey };
        let addr = self.memory.as_ptr() as u64 + (slot * self.slot_bytes) as u64;
        Some(ffi::ibv_sge { addr, length: len as u32, lkey })
    }

    fn set_lent(&mut self, slot: usize, lent: bool) {
        if let Some(place) = self.lent.get_mut(slot) {
            *place = lent;
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: registered once. When the call has succeeded, the device touches the memory no more, and it can be freed; else
        // it stays for the rest of the process.
        unsafe {
            if ffi::ibv_dereg_mr(self.region) == 0 {
                std::alloc::dealloc(self.memory.as_ptr(), self.layout);
            }
        }
    }
}

/// Why memory was not registered: most often because a limit of the process forbids it.
fn refused(need: u64) -> VerbsError {
    let error = failed("ibv_reg_mr");
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((have, _))
            if have != u64::MAX
                && error == (VerbsError::Call { call: "ibv_reg_mr", errno: Errno::ENOMEM }) =>
        {
            VerbsError::Locked { need, have }
        }
        _ => error,
    }
}

/// Where the device tells what it has done.
#[derive(Debug)]
pub(super) struct Completions {
    queue: *mut ffi::ibv_cq,
    _device: Rc<Device>,
}

/// How a work request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Good,
    /// The other side did not answer, however often it was asked.
    NoAnswer,
    /// It had no receive.
    NotReady,
    /// The queue pair had failed before.
    Flushed,
    /// Anything else.
    Failed,
}

/// One work request that is over.
#[derive(Debug)]
pub(super) struct Done {
    request: u64,
    /// The number of the queue pair here.
    pub(super) pair: u32,
    pub(super) ending: Ending,
    /// What came, in bytes, and the immediate value; of receives alone.
    pub(super) len: usize,
    pub(super) immediate: u32,
}

impl Completions {
    pub(super) fn new(domain: &Domain, entries: u32) -> Result<Rc<Self>, VerbsError> {
        let device = Rc::clone(&domain.device);
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: the context is open; no channel, no context of ours.
        let queue =
            unsafe { ffi::ibv_create_cq(device.context, entries, ptr::null_mut(), ptr::null_mut(), 0) };
        if queue.is_null() {
            Err(failed("ibv_create_cq"))
        } else {
            Ok(Rc::new(Self { queue, _device: device }))
        }
    }

    /// Takes at most so many, and [`BATCH`].
    pub(super) fn poll(&self, most: usize, mut each: impl FnMut(Done)) -> Result<(), VerbsError> {
        let mut found = [ffi::ibv_wc::default(); BATCH];
        let most = most.min(BATCH) as i32;
        // SAFETY: the queue is open, its context has the operation, and there is room for `most` entries.
        let count = unsafe {
            let poll = (*(*self.queue).context).ops.poll_cq;
            poll.map_or(-1, |poll| poll(self.queue, most, found.as_mut_ptr()))
        };
        let count = usize::try_from(count)
            .map_err(|_| VerbsError::Call { call: "ibv_poll_cq", errno: Errno::EIO })?;
        for entry in found.iter().take(count) {
            use ffi::ibv_wc_status as status;
            let ending = match entry.error().map(|(status, _)| status) {
                None => Ending::Good,
                Some(status::IBV_WC_RETRY_EXC_ERR) => Ending::NoAnswer,
                Some(status::IBV_WC_RNR_RETRY_EXC_ERR) => Ending::NotReady,
                Some(status::IBV_WC_WR_FLUSH_ERR) => Ending::Flushed,
                Some(_) => Ending::Failed,
            };
            let (len, immediate) = (entry.len(), u32::from_be(entry.imm_data));
            each(Done { request: entry.wr_id(), pair: entry.qp_num, ending, len, immediate });
        }
        Ok(())
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: it is open, and what reports to it holds it.
        unsafe { ffi::ibv_destroy_cq(self.queue) };
    }
}

/// The receives that all queue pairs share, with their memory.
#[derive(Debug)]
pub(super) struct Receives {
    // Before the memory that it names.
    queue: Rc<SharedQueue>,
    slab: Slab,
}

#[derive(Debug)]
struct SharedQueue {
    queue: *mut ffi::ibv_srq,
    _domain: Rc<Domain>,
}

impl Receives {
    /// So many slots, none of them posted.
    pub(super) fn new(domain: &Rc<Domain>, slots: u32, slot_bytes: usize) -> Result<Self, VerbsError> {
        let slab = Slab::new(domain, slots as usize, slot_bytes)?;
        let mut wanted = ffi::ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ffi::ibv_srq_attr { max_wr: slots, max_sge: 1, srq_limit: 0 },
        };
        // SAFETY: the domain is open, and the call reads and fills in the attributes.
        let queue = unsafe { ffi::ibv_create_srq(domain.domain, &mut wanted) };
        if queue.is_null() {
            return Err(failed("ibv_create_srq"));
        }
        let queue = Rc::new(SharedQueue { queue, _domain: Rc::clone(domain) });
        Ok(Self { queue, slab })
    }

    /// Lends a slot to the device, for the next message of anybody.
    pub(super) fn post(&mut self, slot: usize) -> Result<(), VerbsError> {
        let stale = VerbsError::Call { call: "ibv_post_srq_recv", errno: Errno::EINVAL };
        let mut place = self.slab.place(slot, self.slab.slot_bytes).ok_or(stale)?;
        let mut request =
            ffi::ibv_recv_wr { wr_id: slot as u64, next: ptr::null_mut(), sg_list: &mut place, num_sge: 1 };
        let (mut bad, queue) = (ptr::null_mut(), self.queue.queue);
        // SAFETY: the queue is open and has the operation; request and list are read before the call returns; the memory is
        // registered and out of reach until the request is over.
        let code = unsafe {
            let post = (*(*queue).context).ops.post_srq_recv;
            post.map_or(-1, |post| post(queue, &mut request, &mut bad))
        };
        check("ibv_post_srq_recv", code)?;
        self.slab.set_lent(slot, true);
        Ok(())
    }

    /// Takes the slot of a receive back that is over.
    pub(super) fn take(&mut self, done: &Done) -> usize {
        let slot = usize::try_from(done.request).unwrap_or(usize::MAX);
        self.slab.set_lent(slot, false);
        slot
    }

    /// What came.
    pub(super) fn bytes(&self, slot: usize, len: usize) -> &[u8] {
        self.slab.bytes(slot, len)
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: it is open, and the queue pairs that use it hold it.
        unsafe { ffi::ibv_destroy_srq(self.queue) };
    }
}

/// A reliable connection, with the memory that it sends from.
#[derive(Debug)]
pub(super) struct Pair {
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
pub(super) struct Remote {
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) mtu: u16,
    pub(super) pair: u32,
    /// The numbers of the first packets, its and ours.
    pub(super) numbers: (u32, u32),
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
    pub(super) fn new(
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
    pub(super) fn number(&self) -> u32 {
        // SAFETY: it is open.
        unsafe { (*self.pair.pair).qp_num }
    }

    /// Connects it: through the states that are needed to receive, then to send.
    pub(super) fn connect(&self, choice: &Choice, remote: &Remote) -> Result<(), VerbsError> {
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
    pub(super) fn bytes_mut(&mut self, slot: usize, len: usize) -> &mut [u8] {
        self.sends.bytes_mut(slot, len)
    }

    /// Sends the first `len` bytes of a slot.
    pub(super) fn send(&mut self, slot: usize, len: usize, immediate: u32) -> Result<(), VerbsError> {
        let stale = VerbsError::Call { call: "ibv_post_send", errno: Errno::EINVAL };
        let place = self.sends.place(slot, len).ok_or(stale)?;
        let is_inline = len <= self.inline_bytes;
        self.post(slot as u64, Some((place, is_inline)), immediate)?;
        self.sends.set_lent(slot, true);
        Ok(())
    }

    /// Sends an immediate value alone.
    pub(super) fn send_bare(&mut self, immediate: u32) -> Result<(), VerbsError> {
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
    pub(super) fn take(&mut self, done: &Done) -> bool {
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
