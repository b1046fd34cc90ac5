//! UNSAFE: calls librdmacm. Connections that the system's connection manager makes: it finds the
//! way to an address, and carries what two sides say to each other before they are connected. The
//! queue pairs are not its own.

use core::ffi::c_void;
use core::net::{IpAddr, SocketAddr};
use core::ptr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use ibverbs_sys as verbs;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{SockaddrLike, SockaddrStorage};

use super::failed;
use crate::verbs::error::VerbsError;

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    reason = "written by bindgen"
)]
mod ffi {
    include!(concat!(env!("OUT_DIR"), "/rdmacm.rs"));
}

/// Bytes that can be said with each step; a request has room for no more (rdma_connect(3)).
pub(in crate::verbs) const LETTER_BYTES: usize = 56;
/// Requests that can wait to be looked at.
const BACKLOG: i32 = 1024;
/// The time for which the way to an address is looked for at a time, ms.
const RESOLVE_MS: i32 = 2000;
/// The number of times that a device asks again, and asks a peer that has no receive; a queue pair
/// gets its own numbers.
const RETRIES: u8 = 6;

/// The channel that events come from.
#[derive(Debug)]
pub(in crate::verbs) struct Events(*mut ffi::rdma_event_channel);

/// An event of one of the connections.
#[derive(Debug)]
pub(in crate::verbs) struct ManagerEvent {
    /// The [mark](Line::mark) of the connection.
    pub(in crate::verbs) mark: usize,
    /// The [key](Line::key) of the connection among those that have had this mark.
    pub(in crate::verbs) key: usize,
    pub(in crate::verbs) what: ManagerEventKind,
}

/// The kind of an event.
#[derive(Debug)]
pub(in crate::verbs) enum ManagerEventKind {
    /// A peer wants to be connected, and sends this.
    Request(CmId, [u8; LETTER_BYTES]),
    Resolved,
    Routed,
    /// The other side accepts, and says this.
    Accepted([u8; LETTER_BYTES]),
    Established,
    /// The other side does not want it, and says this; or it is not there.
    Rejected {
        is_there: bool,
        letter: [u8; LETTER_BYTES],
    },
    /// The peer was not found, or did not answer.
    Unreachable,
    /// The connection is over.
    Over,
    /// The device is gone.
    Removed,
    Other,
}

impl Events {
    pub(in crate::verbs) fn new() -> Result<Rc<Self>, VerbsError> {
        // SAFETY: it takes nothing.
        let channel = unsafe { ffi::rdma_create_event_channel() };
        if channel.is_null() {
            return Err(match Errno::last() {
                Errno::ENODEV | Errno::ENOENT | Errno::ENOSYS => VerbsError::NoManager,
                errno => VerbsError::Call { call: "rdma_create_event_channel", errno },
            });
        }
        let made = Self(channel);
        let set = fcntl(made.file(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        set.map_err(|errno| VerbsError::Call { call: "fcntl", errno })?;
        Ok(Rc::new(made))
    }

    /// The file that can be read when there is one.
    pub(in crate::verbs) fn file(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open, and its file is as long as it is.
        unsafe { BorrowedFd::borrow_raw((*self.0).fd) }
    }

    /// The next event, if there is one.
    pub(in crate::verbs) fn next(self: &Rc<Self>) -> Option<ManagerEvent> {
        let mut event = ptr::null_mut();
        // SAFETY: the channel is open, and the call does not block and writes the event when it
        // returns zero.
        if unsafe { ffi::rdma_get_cm_event(self.0, &mut event) } != 0 {
            return None;
        }
        // SAFETY: the event is valid until it is acknowledged.
        let told = unsafe { self.read(&*event) };
        // SAFETY: it is acknowledged once, and what it points to is not used any more.
        unsafe { ffi::rdma_ack_cm_event(event) };
        Some(told)
    }

    /// # Safety
    /// It has been told by this channel and was not acknowledged.
    unsafe fn read(self: &Rc<Self>, event: &ffi::rdma_cm_event) -> ManagerEvent {
        // SAFETY: an event names a connection that is not destroyed before it is acknowledged.
        let mark = unsafe { (*event.id).context } as usize;
        // SAFETY: as the caller promises; it is called for events of connections alone, below.
        let letter = || unsafe { letter(event) };
        let what = match event.event {
            ffi::RDMA_CM_EVENT_CONNECT_REQUEST => {
                ManagerEventKind::Request(CmId { line: event.id, _events: Rc::clone(self) }, letter())
            }
            ffi::RDMA_CM_EVENT_ADDR_RESOLVED => ManagerEventKind::Resolved,
            ffi::RDMA_CM_EVENT_ROUTE_RESOLVED => ManagerEventKind::Routed,
            ffi::RDMA_CM_EVENT_CONNECT_RESPONSE => ManagerEventKind::Accepted(letter()),
            ffi::RDMA_CM_EVENT_ESTABLISHED => ManagerEventKind::Established,
            ffi::RDMA_CM_EVENT_REJECTED => {
                ManagerEventKind::Rejected { is_there: event.status != NOBODY_LISTENS, letter: letter() }
            }
            ffi::RDMA_CM_EVENT_ADDR_ERROR
            | ffi::RDMA_CM_EVENT_ROUTE_ERROR
            | ffi::RDMA_CM_EVENT_CONNECT_ERROR
            | ffi::RDMA_CM_EVENT_UNREACHABLE => ManagerEventKind::Unreachable,
            ffi::RDMA_CM_EVENT_DISCONNECTED => ManagerEventKind::Over,
            ffi::RDMA_CM_EVENT_DEVICE_REMOVAL => ManagerEventKind::Removed,
            _ => ManagerEventKind::Other,
        };
        ManagerEvent { mark, key: event.id as usize, what }
    }
}

/// The reason for which a request is rejected that reaches a device where no process listens: an
/// invalid service (InfiniBand Architecture Specification 1.4, volume 1, table 117).
const NOBODY_LISTENS: i32 = 8;

/// Returns what was said with an event; zeros behind it.
///
/// # Safety
/// The event is of a connection, so that `param.conn` is what was filled in, and has not been
/// acknowledged.
unsafe fn letter(event: &ffi::rdma_cm_event) -> [u8; LETTER_BYTES] {
    let mut letter = [0; LETTER_BYTES];
    // SAFETY: the event is of a connection, as the caller promises.
    let said = unsafe { event.param.conn };
    let length = usize::from(said.private_data_len).min(LETTER_BYTES);
    if !said.private_data.is_null() {
        // SAFETY: so many bytes are there until the event is acknowledged.
        letter[..length]
            .copy_from_slice(unsafe { core::slice::from_raw_parts(said.private_data.cast(), length) });
    }
    letter
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: it is open, and connections hold it.
        unsafe { ffi::rdma_destroy_event_channel(self.0) };
    }
}

/// A connection in the hands of the system's manager, or what listens for them. Dropped, the other
/// side is told of it.
#[derive(Debug)]
pub(in crate::verbs) struct CmId {
    line: *mut ffi::rdma_cm_id,
    _events: Rc<Events>,
}

/// The queue pair that is to be connected, and how many reads it can have under way.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct Offered {
    pub(in crate::verbs) number: u32,
    pub(in crate::verbs) depth: u8,
}

impl CmId {
    /// Creates a connection that nothing has been done with.
    pub(in crate::verbs) fn new(events: &Rc<Events>, mark: usize) -> Result<Self, VerbsError> {
        let mut line = ptr::null_mut();
        let context = mark as *mut c_void;
        // SAFETY: the channel is open and held by what is made; the context is a number.
        let code = unsafe { ffi::rdma_create_id(events.0, &mut line, context, ffi::RDMA_PS_TCP) };
        done("rdma_create_id", code)?;
        Ok(Self { line, _events: Rc::clone(events) })
    }

    /// The key that tells it from all others that there are now.
    pub(in crate::verbs) fn key(&self) -> usize {
        self.line as usize
    }

    /// Sets the mark by which its events are told from here on.
    pub(in crate::verbs) fn mark(&mut self, mark: usize) {
        // SAFETY: it is open, and the context is the user's.
        unsafe { (*self.line).context = mark as *mut c_void };
    }

    /// Has it wait for others at an address, and says at which port.
    pub(in crate::verbs) fn listen(&self, at: IpAddr) -> Result<u16, VerbsError> {
        let mut at = SockaddrStorage::from(SocketAddr::new(at, 0));
        // SAFETY: it is open, and the address is read before the call returns.
        done("rdma_bind_addr", unsafe { ffi::rdma_bind_addr(self.line, pointer(&mut at)) })?;
        // SAFETY: it is open and bound.
        done("rdma_listen", unsafe { ffi::rdma_listen(self.line, BACKLOG) })?;
        // SAFETY: the same.
        Ok(u16::from_be(unsafe { ffi::rdma_get_src_port(self.line) }))
    }

    /// Begins to look for the way from an address to another.
    pub(in crate::verbs) fn resolve(&self, from: IpAddr, to: SocketAddr) -> Result<(), VerbsError> {
        let (mut from, mut to) = (SockaddrStorage::from(SocketAddr::new(from, 0)), SockaddrStorage::from(to));
        // SAFETY: it is open, and the addresses are read before the call returns.
        let code =
            unsafe { ffi::rdma_resolve_addr(self.line, pointer(&mut from), pointer(&mut to), RESOLVE_MS) };
        done("rdma_resolve_addr", code)
    }

    pub(in crate::verbs) fn route(&self) -> Result<(), VerbsError> {
        // SAFETY: it is open.
        done("rdma_resolve_route", unsafe { ffi::rdma_resolve_route(self.line, RESOLVE_MS) })
    }

    /// Asks the other side, and says this.
    pub(in crate::verbs) fn ask(&self, offered: Offered, letter: &[u8]) -> Result<(), VerbsError> {
        let mut wanted = parameters(offered, letter);
        // SAFETY: it is open, and what it is told is read before the call returns.
        done("rdma_connect", unsafe { ffi::rdma_connect(self.line, &mut wanted) })
    }

    /// Accepts what was asked, and sends this. Events tell what the other side has done meanwhile;
    /// so it is with the next three.
    pub(in crate::verbs) fn accept(&self, offered: Offered, letter: &[u8]) {
        let mut wanted = parameters(offered, letter);
        // SAFETY: as in `ask`.
        unsafe { ffi::rdma_accept(self.line, &mut wanted) };
    }

    /// Rejects what was asked or answered, and sends this.
    pub(in crate::verbs) fn reject(&self, letter: &[u8]) {
        let length = letter.len().min(LETTER_BYTES) as u8;
        // SAFETY: it is open, and so many bytes are read before the call returns.
        unsafe { ffi::rdma_reject(self.line, letter.as_ptr().cast(), length) };
    }

    /// Tells the other side, which has accepted, that it can use the connection.
    pub(in crate::verbs) fn establish(&self) {
        // SAFETY: it is open.
        unsafe { ffi::rdma_establish(self.line) };
    }

    /// Tells the other side that it is over.
    pub(in crate::verbs) fn disconnect(&self) {
        // SAFETY: it is open.
        unsafe { ffi::rdma_disconnect(self.line) };
    }

    /// Returns what a queue pair is to be told so that it reaches this state.
    pub(super) fn attributes(
        &self,
        qp_state: verbs::ibv_qp_state::Type,
    ) -> Result<(verbs::ibv_qp_attr, verbs::ibv_qp_attr_mask), VerbsError> {
        let mut attributes = verbs::ibv_qp_attr { qp_state, ..super::connection::blank() };
        let mut fields = 0;
        // SAFETY: it is open, and the call fills in both.
        let code = unsafe { ffi::rdma_init_qp_attr(self.line, &mut attributes, &mut fields) };
        done("rdma_init_qp_attr", code)?;
        Ok((attributes, verbs::ibv_qp_attr_mask(fields.cast_unsigned())))
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: it is open, and all its events that were taken have been acknowledged.
        unsafe { ffi::rdma_destroy_id(self.line) };
    }
}

fn parameters(offered: Offered, letter: &[u8]) -> ffi::rdma_conn_param {
    ffi::rdma_conn_param {
        private_data: letter.as_ptr().cast(),
        private_data_len: letter.len().min(LETTER_BYTES) as u8,
        responder_resources: offered.depth,
        initiator_depth: offered.depth,
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 1,
        qp_num: offered.number,
    }
}

fn pointer(address: &mut SockaddrStorage) -> *mut nix::libc::sockaddr {
    address.as_ptr().cast_mut()
}

/// Returns the error of a call, which leaves it where C does, if it has failed.
fn done(call: &'static str, code: i32) -> Result<(), VerbsError> {
    if code == 0 { Ok(()) } else { Err(failed(call)) }
}
