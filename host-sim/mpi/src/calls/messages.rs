//! This module holds `unsafe` code: data of the program's are lent to the kernel.
//!
//! Messages (MPI 5.0, chapter 3): sends in all modes, receives, persistent requests.

use core::ffi::c_int;

use aldis_kernel::{Comm, Rank, Request, Source, Tag, TagMatch, Typed};

use crate::abi::{Handle, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_RANK, MPI_ERR_TAG, MPI_PROC_NULL, Status};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr, Region};
use crate::objects::datatypes::ProgramData;
use crate::objects::{communicators, used_types};
use crate::process::engine;
use crate::requests::{self, buffers, is_alone};

mod fast_path;
pub(crate) mod probes;

use fast_path::{try_receive, try_send, try_start_receive, try_start_send};

/// The mode of a send, which decides when it is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SendMode {
    Standard,
    Synchronous,
    Ready,
    Buffered,
}

#[inline]
pub(crate) fn rank(number: c_int) -> Result<Rank, CallFault> {
    match number {
        0.. => Ok(Rank(number as u32)),
        MPI_PROC_NULL => Ok(Rank::NULL),
        _ => Err(no_rank(number, "send to")),
    }
}

#[inline]
pub(crate) fn tag(number: c_int) -> Result<Tag, CallFault> {
    match u32::try_from(number) {
        Ok(tag) => Ok(Tag(tag)),
        Err(_) => Err(no_tag(number)),
    }
}

#[cold]
fn no_rank(number: c_int, what_for: &str) -> CallFault {
    CallFault::new(MPI_ERR_RANK, format!("{number} is no rank to {what_for}"))
}

#[cold]
fn no_tag(number: c_int) -> CallFault {
    CallFault::new(MPI_ERR_TAG, format!("{number} is no tag"))
}

#[inline]
fn source(number: c_int) -> Result<Source, CallFault> {
    match number {
        0.. => Ok(Source::Rank(Rank(number as u32))),
        MPI_ANY_SOURCE => Ok(Source::Any),
        MPI_PROC_NULL => Ok(Source::Rank(Rank::NULL)),
        _ => Err(no_rank(number, "receive from")),
    }
}

#[inline]
fn tag_match(number: c_int) -> Result<TagMatch, CallFault> {
    if number == MPI_ANY_TAG { Ok(TagMatch::Any) } else { tag(number).map(TagMatch::Tag) }
}

/// A message that is to be sent.
struct OutgoingMessage {
    handle: Handle,
    comm: Comm,
    data: ProgramData,
    to: Rank,
    tag: Tag,
    mode: SendMode,
}

impl OutgoingMessage {
    #[inline]
    fn new(
        mode: SendMode,
        data: ProgramData,
        to: c_int,
        number: c_int,
        handle: Handle,
    ) -> Result<Self, CallFault> {
        let data = if to == MPI_PROC_NULL { data.without_peer() } else { data };
        Ok(Self { handle, comm: communicators::of(handle)?, data, to: rank(to)?, tag: tag(number)?, mode })
    }

    /// The data as the kernel sends them in this mode.
    ///
    /// # Safety
    /// As for [`ProgramData::typed`].
    #[inline]
    unsafe fn typed(&self) -> Result<Typed<'static>, CallFault> {
        // SAFETY: the caller's promise.
        let typed = unsafe { self.data.typed() }?;
        Ok(match self.mode {
            SendMode::Standard | SendMode::Buffered => typed,
            SendMode::Synchronous => typed.synchronous(),
            SendMode::Ready => typed.ready(),
        })
    }

    /// Its bytes, if they are sent as bytes alone, which any receive takes, by the kernel's
    /// shortest way.
    #[inline]
    fn raw(&self) -> Result<Option<Region>, CallFault> {
        if self.mode == SendMode::Standard { self.data.raw() } else { Ok(None) }
    }

    /// # Errors
    /// What is refused when it is sent.
    fn check(&self) -> Result<(), CallFault> {
        let ranks = if self.comm.is_inter() { self.comm.remote_size() } else { self.comm.size() };
        if self.to != Rank::NULL && self.to.0 >= ranks {
            return Err(CallFault::new(
                MPI_ERR_RANK,
                format!("rank {} of a communicator of {ranks}", self.to.0),
            ));
        }
        self.data.there().map(|_| ())
    }

    /// Sends it out of a buffer.
    fn buffer(&self) -> Result<(), CallFault> {
        let copied = |data| Self { data, mode: SendMode::Standard, ..*self }.request();
        if !buffers::send(self.handle, &self.data, copied)? {
            engine::with(|engine| {
                // SAFETY: it is handed over at once.
                let typed = unsafe { self.typed() }?;
                engine.endpoint().bsend_typed(&self.comm, typed, self.to, self.tag)?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Sends it.
    #[inline]
    fn run(&self) -> Result<(), CallFault> {
        if self.mode == SendMode::Buffered {
            return self.buffer();
        }
        if !is_alone() {
            return requests::wait(self.start()?).map(|_| ());
        }
        engine::with(|engine| {
            // SAFETY: it is handed over at once.
            let typed = unsafe { self.typed() }?;
            engine.endpoint().send_typed(&self.comm, typed, self.to, self.tag)?;
            Ok(())
        })
    }

    /// Starts it.
    fn start(&self) -> Result<Handle, CallFault> {
        if self.mode == SendMode::Buffered {
            self.buffer()?;
            return Ok(requests::messages::COMPLETED);
        }
        let request = self.request()?;
        engine::with(|engine| Ok(requests::messages::of_send(engine, self.handle, request)))
    }

    fn request(&self) -> Result<Request<'static>, CallFault> {
        engine::with(|engine| {
            engine.reap();
            let scope = &mut engine.scope;
            Ok(match self.raw()? {
                // SAFETY: the maker of the data promised that nothing writes them until the send is
                // over.
                Some(bytes) => scope.isend(&self.comm, unsafe { bytes.shown() }, self.to, self.tag)?,
                // SAFETY: it is handed over at once.
                None => scope.isend_typed(&self.comm, unsafe { self.typed() }?, self.to, self.tag)?,
            })
        })
    }

    /// Sets it up.
    fn keep(&self) -> Result<Handle, CallFault> {
        let request = engine::with(|engine| {
            // SAFETY: it is handed over at once.
            let typed = unsafe { self.typed() }?;
            Ok(engine.scope.send_init_typed(&self.comm, typed, self.to, self.tag)?)
        })?;
        requests::of_persistent(self.handle, request)
    }
}

/// A message that is to be received.
struct IncomingMessage {
    handle: Handle,
    comm: Comm,
    data: ProgramData,
    from: Source,
    tag: TagMatch,
}

impl IncomingMessage {
    #[inline]
    fn new(data: ProgramData, from: c_int, number: c_int, handle: Handle) -> Result<Self, CallFault> {
        let data = if from == MPI_PROC_NULL { data.without_peer() } else { data };
        Ok(Self {
            handle,
            comm: communicators::of(handle)?,
            data,
            from: source(from)?,
            tag: tag_match(number)?,
        })
    }

    #[inline]
    fn run(&self) -> Result<Status, CallFault> {
        if !is_alone() {
            return requests::wait(self.start()?);
        }
        engine::with(|engine| {
            // SAFETY: it is handed over at once.
            let typed = unsafe { self.data.typed_mut() }?;
            Ok(engine.endpoint().recv_typed(&self.comm, typed, self.from, self.tag)?.into())
        })
    }

    fn start(&self) -> Result<Handle, CallFault> {
        requests::of_message(self.handle, self.request()?)
    }

    fn request(&self) -> Result<Request<'static>, CallFault> {
        engine::with(|engine| {
            engine.reap();
            let scope = &mut engine.scope;
            Ok(match self.data.raw()? {
                // SAFETY: the maker of the data promised that nothing touches them until the
                // receive is over; the kernel keeps no reference.
                Some(bytes) => scope.irecv(&self.comm, unsafe { bytes.bytes() }, self.from, self.tag)?,
                None => {
                    // SAFETY: it is handed over at once.
                    let typed = unsafe { self.data.typed_mut() }?;
                    scope.irecv_typed(&self.comm, typed, self.from, self.tag)?
                }
            })
        })
    }

    fn keep(&self) -> Result<Handle, CallFault> {
        let request = engine::with(|engine| {
            // SAFETY: it is handed over at once.
            let typed = unsafe { self.data.typed_mut() }?;
            Ok(engine.scope.recv_init_typed(&self.comm, typed, self.from, self.tag)?)
        })?;
        requests::of_persistent(self.handle, request)
    }
}

/// The status for a program, whose error stays as it is.
#[inline]
pub(super) fn write_status(status: Ptr<Status>, found: Status) -> Result<(), CallFault> {
    if status.is_null() {
        return Ok(());
    }
    let error = status.get()?.error;
    status.set(Status { error, ..found })
}

/// The status of a receive that may have failed: whose message it was is told also then (MPI 5.0,
/// 3.2.5).
#[inline]
fn write_status_of(status: Ptr<Status>, result: Result<Status, CallFault>) -> Result<(), CallFault> {
    match result {
        Ok(found) => write_status(status, found),
        Err(fault) => Err(write_status_of_failed(status, fault)),
    }
}

/// Arguments that are refused have no message, and leave the status alone.
#[cold]
fn write_status_of_failed(status: Ptr<Status>, fault: CallFault) -> CallFault {
    if fault.status().source != Status::EMPTY.source {
        let told = write_status(status, fault.status());
        return told.err().unwrap_or(fault);
    }
    fault
}

/// Sends anything.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(never)]
unsafe fn send(
    mode: SendMode,
    data: Address,
    count: i64,
    datatype: Handle,
    to: c_int,
    tag: c_int,
    comm: Handle,
) -> Result<(), CallFault> {
    // SAFETY: the caller's promise.
    let data = unsafe { ProgramData::new(data, count, datatype) }?;
    OutgoingMessage::new(mode, data, to, tag, comm)?.run()
}

/// Receives anything.
///
/// # Safety
/// As for [`ProgramData::new`].
#[inline(never)]
unsafe fn receive(
    data: Address,
    count: i64,
    datatype: Handle,
    from: c_int,
    tag: c_int,
    comm: Handle,
) -> Result<Status, CallFault> {
    // SAFETY: the caller's promise.
    let data = unsafe { ProgramData::new(data, count, datatype) }?;
    IncomingMessage::new(data, from, tag, comm)?.run()
}

macro_rules! sends {
    ($($mode:ident: fn $blocking:ident, fn $started:ident, fn $kept:ident;)*) => {$(
        mpi! { fn $blocking(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle) on comm => {
            let is_standard = matches!(SendMode::$mode, SendMode::Standard);
            // SAFETY: the arguments are the program's (MPI 5.0, 3.2 and 3.4).
            unsafe {
                if !(is_standard && try_send(data, count, datatype, to, tag, comm)?) {
                    send(SendMode::$mode, data, count, datatype, to, tag, comm)?;
                }
            }
        } }
        mpi! { fn $started(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
            request.check_place()?;
            let is_standard = matches!(SendMode::$mode, SendMode::Standard);
            // SAFETY: the arguments are the program's, which keeps the data there until this is
            // over (MPI 5.0, 3.7).
            let quick = if is_standard { unsafe { try_start_send(data, count, datatype, to, tag, comm) }? } else { None };
            request.set(match quick {
                Some(started) => started,
                // SAFETY: as above.
                None => OutgoingMessage::new(SendMode::$mode, unsafe { ProgramData::new(data, count, datatype) }?, to, tag, comm)?.start()?,
            })?;
        } }
        mpi! { fn $kept(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
            request.check_place()?;
            // SAFETY: the arguments are the program's, which keeps the data there until the request
            // is freed (MPI 5.0, 3.9).
            let data = unsafe { ProgramData::new(data, count, datatype) }?;
            request.set(OutgoingMessage::new(SendMode::$mode, data, to, tag, comm)?.keep()?)?;
        } }
    )*};
}

sends! {
    Standard: fn MPI_Send_c, fn MPI_Isend_c, fn MPI_Send_init_c;
    Synchronous: fn MPI_Ssend_c, fn MPI_Issend_c, fn MPI_Ssend_init_c;
    Ready: fn MPI_Rsend_c, fn MPI_Irsend_c, fn MPI_Rsend_init_c;
}

mpi! { fn MPI_Send(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
) as MPI_Send_c(buf, count.into(), datatype, dest, tag, comm) }
mpi! { fn MPI_Isend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Isend_c(buf, count.into(), datatype, dest, tag, comm, request) }
mpi! { fn MPI_Send_init(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Send_init_c(buf, count.into(), datatype, dest, tag, comm, request) }
mpi! { fn MPI_Ssend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
) as MPI_Ssend_c(buf, count.into(), datatype, dest, tag, comm) }
mpi! { fn MPI_Issend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Issend_c(buf, count.into(), datatype, dest, tag, comm, request) }
mpi! { fn MPI_Ssend_init(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Ssend_init_c(buf, count.into(), datatype, dest, tag, comm, request) }
mpi! { fn MPI_Rsend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
) as MPI_Rsend_c(buf, count.into(), datatype, dest, tag, comm) }
mpi! { fn MPI_Irsend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Irsend_c(buf, count.into(), datatype, dest, tag, comm, request) }
mpi! { fn MPI_Rsend_init(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Rsend_init_c(buf, count.into(), datatype, dest, tag, comm, request) }

mpi! { fn MPI_Bsend_c(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle) on comm => {
    // SAFETY: the arguments are the program's (MPI 5.0, 3.4).
    let data = unsafe { ProgramData::new(data, count, datatype) }?;
    OutgoingMessage::new(SendMode::Buffered, data, to, tag, comm)?.run()?;
} }

mpi! { fn MPI_Bsend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle,
) as MPI_Bsend_c(buf, count.into(), datatype, dest, tag, comm) }

mpi! { fn MPI_Ibsend_c(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    // SAFETY: the arguments are the program's (MPI 5.0, 3.7).
    let data = unsafe { ProgramData::new(data, count, datatype) }?;
    request.set(OutgoingMessage::new(SendMode::Buffered, data, to, tag, comm)?.start()?)?;
} }

mpi! { fn MPI_Ibsend(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Ibsend_c(buf, count.into(), datatype, dest, tag, comm, request) }

mpi! { fn MPI_Bsend_init_c(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
    // SAFETY: the arguments are the program's, which keeps the data there until the request is
    // freed (MPI 5.0, 3.9).
    let make = || OutgoingMessage::new(SendMode::Buffered, unsafe { ProgramData::new(data, count, datatype) }?, to, tag, comm);
    request.check_place()?;
    let (sending, types) = used_types::of(make)?;
    sending.check()?;
    let send = move || {
        // They belong to what works by them.
        let _types = &types;
        sending.run()
    };
    request.set(requests::of_buffered(comm, Box::new(send))?)?;
} }

mpi! { fn MPI_Bsend_init(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Bsend_init_c(buf, count.into(), datatype, dest, tag, comm, request) }

mpi! { fn MPI_Recv_c(data: Address, count: i64, datatype: Handle, from: c_int, tag: c_int, comm: Handle, status: Ptr<Status>) on comm => {
    // SAFETY: the arguments are the program's (MPI 5.0, 3.2).
    let found = unsafe {
        match try_receive(data, count, datatype, from, tag, comm) {
            Ok(None) => receive(data, count, datatype, from, tag, comm),
            Ok(Some(found)) => Ok(found),
            Err(fault) => Err(fault),
        }
    };
    write_status_of(status, found)?;
} }

mpi! { fn MPI_Recv(
    buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
    status: Ptr<Status>,
) as MPI_Recv_c(buf, count.into(), datatype, source, tag, comm, status) }

mpi! { fn MPI_Irecv_c(data: Address, count: i64, datatype: Handle, from: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let quick = unsafe { try_start_receive(data, count, datatype, from, tag, comm) }?;
    request.set(match quick {
        Some(started) => started,
        // SAFETY: as above.
        None => IncomingMessage::new(unsafe { ProgramData::new(data, count, datatype) }?, from, tag, comm)?.start()?,
    })?;
} }

mpi! { fn MPI_Irecv(
    buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Irecv_c(buf, count.into(), datatype, source, tag, comm, request) }

mpi! { fn MPI_Recv_init_c(data: Address, count: i64, datatype: Handle, from: c_int, tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    // SAFETY: the arguments are the program's, which keeps the data there until the request is
    // freed (MPI 5.0, 3.9).
    let data = unsafe { ProgramData::new(data, count, datatype) }?;
    request.set(IncomingMessage::new(data, from, tag, comm)?.keep()?)?;
} }

mpi! { fn MPI_Recv_init(
    buf: Address, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle,
    request: Ptr<Handle>,
) as MPI_Recv_init_c(buf, count.into(), datatype, source, tag, comm, request) }

/// Starts a send and waits for a receive, then for the send.
fn exchange(sending: &OutgoingMessage, receiving: &IncomingMessage) -> Result<Status, CallFault> {
    sending.check()?;
    let received = receiving.request()?;
    let giving = match sending.start() {
        Ok(giving) => giving,
        Err(fault) => return Err(give_up(received, fault)),
    };
    let taking = requests::of_message(receiving.handle, received)?;
    let found = requests::wait(taking);
    requests::wait(giving).and(found)
}

/// Takes back a receive that no call completes, as the send beside it cannot be started.
#[cold]
fn give_up(mut received: Request<'static>, fault: CallFault) -> CallFault {
    let given_up = engine::with(|engine| {
        engine.scope.cancel(&mut received);
        engine.freed.push(received);
        Ok(())
    });
    given_up.err().unwrap_or(fault)
}

/// Starts both, of which the send may be out of `memory`.
fn start_both(
    sending: &OutgoingMessage,
    receiving: &IncomingMessage,
    memory: Vec<u8>,
) -> Result<Handle, CallFault> {
    sending.check()?;
    let received = receiving.request()?;
    let sent = match sending.request() {
        Ok(sent) => sent,
        Err(fault) => return Err(give_up(received, fault)),
    };
    requests::of_exchange(sending.handle, [sent, received], memory)
}

mpi! { fn MPI_Sendrecv_c(
    data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int,
    into: Address, room: i64, kind: Handle, from: c_int, from_tag: c_int, comm: Handle, status: Ptr<Status>,
) on comm => {
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let (data, into) = unsafe { (ProgramData::new(data, count, datatype)?, ProgramData::new(into, room, kind)?) };
    let sending = OutgoingMessage::new(SendMode::Standard, data, to, tag, comm)?;
    let receiving = IncomingMessage::new(into, from, from_tag, comm)?;
    write_status_of(status, exchange(&sending, &receiving))?;
} }

mpi! { fn MPI_Sendrecv(
    data: Address, count: c_int, datatype: Handle, to: c_int, tag: c_int,
    into: Address, room: c_int, kind: Handle, from: c_int, from_tag: c_int, comm: Handle, status: Ptr<Status>,
) as MPI_Sendrecv_c(data, count.into(), datatype, to, tag, into, room.into(), kind, from, from_tag, comm, status) }

mpi! { fn MPI_Sendrecv_replace_c(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, from: c_int, from_tag: c_int, comm: Handle, status: Ptr<Status>) on comm => {
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let place = unsafe { ProgramData::new(data, count, datatype) }?;
    // SAFETY: the copy's memory is kept until both messages are over.
    let (_memory, copy) = unsafe { place.copied() }?;
    let sending = OutgoingMessage::new(SendMode::Standard, copy, to, tag, comm)?;
    write_status_of(status, exchange(&sending, &IncomingMessage::new(place, from, from_tag, comm)?))?;
} }

mpi! { fn MPI_Sendrecv_replace(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int,
    comm: Handle, status: Ptr<Status>,
) as MPI_Sendrecv_replace_c(buf, count.into(), datatype, dest, sendtag, source, recvtag, comm, status) }

mpi! { fn MPI_Isendrecv_c(
    data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int,
    into: Address, room: i64, kind: Handle, from: c_int, from_tag: c_int, comm: Handle, request: Ptr<Handle>,
) on comm => {
    request.check_place()?;
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let (data, into) = unsafe { (ProgramData::new(data, count, datatype)?, ProgramData::new(into, room, kind)?) };
    let sending = OutgoingMessage::new(SendMode::Standard, data, to, tag, comm)?;
    let receiving = IncomingMessage::new(into, from, from_tag, comm)?;
    request.set(start_both(&sending, &receiving, Vec::new())?)?;
} }

mpi! { fn MPI_Isendrecv(
    sendbuf: Address, sendcount: c_int, sendtype: Handle, dest: c_int, sendtag: c_int, recvbuf: Address,
    recvcount: c_int, recvtype: Handle, source: c_int, recvtag: c_int, comm: Handle, request: Ptr<Handle>,
) as MPI_Isendrecv_c(sendbuf, sendcount.into(), sendtype, dest, sendtag, recvbuf, recvcount.into(), recvtype, source, recvtag, comm, request) }

mpi! { fn MPI_Isendrecv_replace_c(data: Address, count: i64, datatype: Handle, to: c_int, tag: c_int, from: c_int, from_tag: c_int, comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let place = unsafe { ProgramData::new(data, count, datatype) }?;
    // SAFETY: the copy's memory is kept with the request, until both messages are over.
    let (memory, copy) = unsafe { place.copied() }?;
    let sending = OutgoingMessage::new(SendMode::Standard, copy, to, tag, comm)?;
    request.set(start_both(&sending, &IncomingMessage::new(place, from, from_tag, comm)?, memory)?)?;
} }

mpi! { fn MPI_Isendrecv_replace(
    buf: Address, count: c_int, datatype: Handle, dest: c_int, sendtag: c_int, source: c_int, recvtag: c_int,
    comm: Handle, request: Ptr<Handle>,
) as MPI_Isendrecv_replace_c(buf, count.into(), datatype, dest, sendtag, source, recvtag, comm, request) }
