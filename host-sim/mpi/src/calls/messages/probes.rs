//! This module holds `unsafe` code: data of the program's are lent to the kernel; state of the
//! process.
//!
//! Probes (MPI 5.0, 3.8), and receives of the messages that they have matched.

use core::cell::RefCell;
use core::ffi::c_int;

use aldis_kernel::{Matched, Rank, Request};

use super::{source, tag_match, write_status, write_status_of};
use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_NO_MEM, MPI_ERR_REQUEST, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL,
    MPI_PROC_NULL, Status,
};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::communicators;
use crate::objects::datatypes::ProgramData;
use crate::process::Owned;
use crate::process::engine::{self, ProcessEngine};
use crate::process::handles::{HandleKind, HandleTable, to_int};
use crate::process::scope::StaticScope;
use crate::requests::{self, is_alone};

mpi! { fn MPI_Probe(from: c_int, tag: c_int, comm: Handle, status: Ptr<Status>) on comm => {
    let (of, from, tag) = (communicators::of(comm)?, source(from)?, tag_match(tag)?);
    let found = match is_alone() {
        true => engine::with(|engine| Ok(engine.endpoint().probe(&of, from, tag)?))?,
        false => requests::find(|engine| Ok(engine.endpoint().iprobe(&of, from, tag)?))?,
    };
    write_status(status, found.into())?;
} }

/// Looks for a message once, after a poll, and tells the program's flag whether one was found.
fn look<R>(
    flag: Ptr<c_int>,
    probe: impl FnOnce(&mut ProcessEngine) -> Result<Option<R>, CallFault>,
) -> Result<Option<R>, CallFault> {
    let events = requests::poll()?;
    let found = engine::with(|engine| {
        let found = probe(engine)?;
        engine.account_look(events, found.is_some());
        Ok(found)
    })?;
    flag.set(found.is_some().into())?;
    Ok(found)
}

mpi! { fn MPI_Iprobe(from: c_int, tag: c_int, comm: Handle, flag: Ptr<c_int>, status: Ptr<Status>) on comm => {
    let (of, from, tag) = (communicators::of(comm)?, source(from)?, tag_match(tag)?);
    let found = look(flag, |engine| Ok(engine.endpoint().iprobe(&of, from, tag)?))?;
    found.map_or(Ok(()), |found| write_status(status, found.into()))?;
} }

/// Messages that a probe has matched.
// SAFETY: only calls of MPI use it.
static MATCHED: Owned<RefCell<HandleTable<(Handle, Matched)>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Message))) };

fn keep_matched(
    comm: Handle,
    matched: Matched,
    message: Ptr<Handle>,
    status: Ptr<Status>,
) -> Result<(), CallFault> {
    write_status(status, matched.status().into())?;
    if matched.status().source == Rank::NULL {
        return message.set(MPI_MESSAGE_NO_PROC);
    }
    let kept = MATCHED.borrow_mut().insert((comm, matched));
    message.set(kept.ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many matched messages"))?)
}

fn take_matched(message: Ptr<Handle>) -> Result<Option<(Handle, Matched)>, CallFault> {
    let handle = message.get()?;
    if handle == MPI_MESSAGE_NO_PROC {
        message.set(MPI_MESSAGE_NULL)?;
        return Ok(None);
    }
    let taken = MATCHED.borrow_mut().remove(handle);
    let taken = taken.ok_or_else(|| CallFault::handle(MPI_ERR_REQUEST, "matched message", handle))?;
    message.set(MPI_MESSAGE_NULL)?;
    Ok(Some(taken))
}

mpi! { fn MPI_Mprobe(from: c_int, tag: c_int, comm: Handle, message: Ptr<Handle>, status: Ptr<Status>) on comm => {
    message.check_place()?;
    let (of, from, tag) = (communicators::of(comm)?, source(from)?, tag_match(tag)?);
    let matched = match is_alone() {
        true => engine::with(|engine| Ok(engine.endpoint().mprobe(&of, from, tag)?))?,
        false => requests::find(|engine| Ok(engine.endpoint().improbe(&of, from, tag)?))?,
    };
    keep_matched(comm, matched, message, status)?;
} }

mpi! { fn MPI_Improbe(from: c_int, tag: c_int, comm: Handle, flag: Ptr<c_int>, message: Ptr<Handle>, status: Ptr<Status>) on comm => {
    flag.check_place()?;
    message.check_place()?;
    let (of, from, tag) = (communicators::of(comm)?, source(from)?, tag_match(tag)?);
    let matched = look(flag, |engine| Ok(engine.endpoint().improbe(&of, from, tag)?))?;
    matched.map_or(Ok(()), |matched| keep_matched(comm, matched, message, status))?;
} }

/// Returns the status of a receive from `MPI_PROC_NULL`.
fn from_proc_null() -> Status {
    Status { source: MPI_PROC_NULL, ..Status::EMPTY }
}

/// Receives a message that was taken out.
fn take_up(
    scope: &mut StaticScope,
    matched: Matched,
    data: &ProgramData,
) -> Result<Request<'static>, CallFault> {
    Ok(match data.raw()? {
        // SAFETY: as of `IncomingMessage::request`.
        Some(bytes) => scope.imrecv(matched, unsafe { bytes.bytes() })?,
        // SAFETY: it is handed over at once.
        None => scope.imrecv_typed(matched, unsafe { data.typed_mut() }?)?,
    })
}

/// Returns the memory for a message, which may be missing if nothing comes.
fn place_for(message: Ptr<Handle>, data: ProgramData) -> Result<ProgramData, CallFault> {
    if message.get()? == MPI_MESSAGE_NO_PROC { Ok(data) } else { data.there() }
}

mpi! { fn MPI_Mrecv_c(data: Address, count: i64, datatype: Handle, message: Ptr<Handle>, status: Ptr<Status>) on MPI_COMM_SELF => {
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let data = place_for(message, unsafe { ProgramData::new(data, count, datatype) }?)?;
    let found = match take_matched(message)? {
        None => Ok(from_proc_null()),
        Some((comm, matched)) => {
            let request = engine::with(|engine| take_up(&mut engine.scope, matched, &data))?;
            requests::wait(requests::of_message(comm, request)?)
        }
    };
    write_status_of(status, found)?;
} }

mpi! { fn MPI_Mrecv(
    buf: Address, count: c_int, datatype: Handle, message: Ptr<Handle>, status: Ptr<Status>,
) as MPI_Mrecv_c(buf, count.into(), datatype, message, status) }

mpi! { fn MPI_Imrecv_c(data: Address, count: i64, datatype: Handle, message: Ptr<Handle>, request: Ptr<Handle>) on MPI_COMM_SELF => {
    request.check_place()?;
    // SAFETY: the arguments are the program's, which keeps the data there until this is over
    // (MPI 5.0, 3.7).
    let data = place_for(message, unsafe { ProgramData::new(data, count, datatype) }?)?;
    let handle = match take_matched(message)? {
        None => requests::of_received(from_proc_null())?,
        Some((comm, matched)) => {
            let started = engine::with(|engine| take_up(&mut engine.scope, matched, &data))?;
            requests::of_message(comm, started)?
        }
    };
    request.set(handle)?;
} }

mpi! { fn MPI_Imrecv(
    buf: Address, count: c_int, datatype: Handle, message: Ptr<Handle>, request: Ptr<Handle>,
) as MPI_Imrecv_c(buf, count.into(), datatype, message, request) }

mpi! { fn MPI_Message_toint(message: Handle) -> c_int { to_int(message) } }
mpi! { fn MPI_Message_fromint(number: c_int) -> Handle { MATCHED.borrow().handle_of(number) } }
