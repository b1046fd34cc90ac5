//! This module holds `unsafe` code: buffers that the program gives.
//!
//! Attaching, flushing and detaching buffers for buffered sends (MPI 5.0, 3.6).

use core::ffi::{c_int, c_void};

use aldis_coll::comm::Messenger;

use crate::abi::{Handle, MPI_BUFFER_AUTOMATIC, MPI_COMM_SELF, MPI_ERR_BUFFER};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::datatypes::small;
use crate::objects::{communicators, sessions};
use crate::process::engine;
use crate::process::poster::poster;
use crate::requests::buffers::{
    AttachedBuffer, OF_COMMUNICATORS, PROCESS, detach_of, flush_of, is_automatic, is_flushed, sent,
};
use crate::requests::{self, futures};

#[cold]
fn no_buffer(size: i64) -> CallFault {
    CallFault::new(MPI_ERR_BUFFER, format!("a buffer of {size} bytes"))
}

/// Attaches a buffer to a communicator or a session.
fn attach_to(owner: Handle, buffer: Address, size: i64) -> Result<(), CallFault> {
    let is_automatic = buffer.address() == MPI_BUFFER_AUTOMATIC;
    if size < 0 && !is_automatic {
        return Err(no_buffer(size));
    }
    if size > 0 && buffer.is_null() {
        return Err(CallFault::new(MPI_ERR_BUFFER, "a null pointer where a buffer belongs"));
    }
    let mut all = OF_COMMUNICATORS.borrow_mut();
    if all.contains_key(&owner) {
        return Err(CallFault::new(MPI_ERR_BUFFER, "a buffer is attached there already"));
    }
    let place = if is_automatic { None } else { Some((buffer, size)) };
    all.insert(owner, AttachedBuffer::new(place));
    Ok(())
}

/// Detaches what is attached to a communicator or a session, and says what it was.
fn detach_from<C>(
    owner: Handle,
    place: Address,
    size: Ptr<C>,
    as_count: impl FnOnce(i64) -> C,
) -> Result<(), CallFault> {
    place.check_place()?;
    size.check_place()?;
    let (buffer, bytes) = detach_of(owner)?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 3.6).
    unsafe { place.cast::<Ptr<c_void>>() }.set(buffer)?;
    size.set(as_count(bytes))
}

mpi! { fn MPI_Comm_attach_buffer_c(comm: Handle, buffer: Address, size: i64) on comm => {
    communicators::check(comm)?;
    attach_to(comm, buffer, size)?;
} }

mpi! { fn MPI_Session_attach_buffer_c(session: Handle, buffer: Address, size: i64) on session => {
    sessions::check(session)?;
    attach_to(session, buffer, size)?;
} }

mpi! { fn MPI_Session_attach_buffer(
    session: Handle, buffer: Address, size: c_int,
) as MPI_Session_attach_buffer_c(session, buffer, size.into()) }

mpi! { fn MPI_Comm_attach_buffer(
    comm: Handle, buffer: Address, size: c_int,
) as MPI_Comm_attach_buffer_c(comm, buffer, size.into()) }

mpi! { fn MPI_Comm_detach_buffer_c(comm: Handle, place: Address, size: Ptr<i64>) on comm => {
    communicators::check(comm)?;
    detach_from(comm, place, size, |bytes| bytes)?;
} }

mpi! { fn MPI_Comm_detach_buffer(comm: Handle, place: Address, size: Ptr<c_int>) on comm => {
    communicators::check(comm)?;
    detach_from(comm, place, size, small)?;
} }

mpi! { fn MPI_Session_detach_buffer_c(session: Handle, place: Address, size: Ptr<i64>) on session => {
    sessions::check(session)?;
    detach_from(session, place, size, |bytes| bytes)?;
} }

mpi! { fn MPI_Session_detach_buffer(session: Handle, place: Address, size: Ptr<c_int>) on session => {
    sessions::check(session)?;
    detach_from(session, place, size, small)?;
} }

mpi! { fn MPI_Session_flush_buffer(session: Handle) on session => {
    sessions::check(session)?;
    flush_of(session)?;
} }

mpi! { fn MPI_Session_iflush_buffer(session: Handle, request: Ptr<Handle>) on session => {
    request.check_place()?;
    sessions::check(session)?;
    let end = sent(session);
    request.set(futures::begin(MPI_COMM_SELF, futures::until(move || is_flushed(session, end)))?)?;
} }

mpi! { fn MPI_Comm_flush_buffer(comm: Handle) on comm => {
    communicators::check(comm)?;
    flush_of(comm)?;
} }

mpi! { fn MPI_Comm_iflush_buffer(comm: Handle, request: Ptr<Handle>) on comm => {
    request.check_place()?;
    communicators::check(comm)?;
    let end = sent(comm);
    request.set(futures::begin(comm, futures::until(move || is_flushed(comm, end)))?)?;
} }

/// # Errors
/// The process has a buffer.
fn check_none(attached: Option<(Address, i64)>) -> Result<(), CallFault> {
    match attached.is_some() || is_automatic() {
        true => Err(CallFault::new(MPI_ERR_BUFFER, "a buffer is attached already")),
        false => Ok(()),
    }
}

mpi! { fn MPI_Buffer_attach_c(buffer: Address, size: i64) on MPI_COMM_SELF => {
    if buffer.address() == MPI_BUFFER_AUTOMATIC {
        engine::with(|engine| check_none(engine.attached))?;
        OF_COMMUNICATORS.borrow_mut().insert(PROCESS, AttachedBuffer::new(None));
        return Ok(());
    }
    let len = usize::try_from(size).map_err(|_| no_buffer(size))?;
    let region = buffer.region(0, len)?;
    engine::with(|engine| {
        check_none(engine.attached)?;
        // SAFETY: the program gives so many bytes, and leaves them alone until the buffer is
        // detached (MPI 5.0, 3.6).
        engine.endpoint().send_buffer().attach(unsafe { region.bytes() })?;
        engine.attached = Some((buffer, size));
        Ok(())
    })?;
} }

mpi! { fn MPI_Buffer_attach(buffer: Address, size: c_int) as MPI_Buffer_attach_c(buffer, size.into()) }

fn detach() -> Result<(Address, i64), CallFault> {
    if is_automatic() {
        return detach_of(PROCESS);
    }
    flush()?;
    engine::with(|engine| {
        engine.endpoint().send_buffer().detach()?;
        Ok(engine.attached.take().unwrap_or((Address::of(0), 0)))
    })
}

mpi! { fn MPI_Buffer_detach_c(place: Address, size: Ptr<i64>) on MPI_COMM_SELF => {
    place.check_place()?;
    size.check_place()?;
    let (buffer, bytes) = detach()?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 3.6).
    unsafe { place.cast::<Ptr<c_void>>() }.set(buffer)?;
    size.set(bytes)?;
} }

mpi! { fn MPI_Buffer_detach(place: Address, size: Ptr<c_int>) on MPI_COMM_SELF => {
    place.check_place()?;
    size.check_place()?;
    let (buffer, bytes) = detach()?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 3.6).
    unsafe { place.cast::<Ptr<c_void>>() }.set(buffer)?;
    size.set(small(bytes))?;
} }

mpi! { fn MPI_Buffer_flush() on MPI_COMM_SELF => { flush()?; } }

/// Waits until all that was sent by the buffer has been received.
fn flush() -> Result<(), CallFault> {
    if is_automatic() {
        return flush_of(PROCESS);
    }
    match requests::is_alone() {
        true => engine::with(|engine| Ok(engine.endpoint().send_buffer().flush()?)),
        false => requests::find(|engine| Ok(engine.endpoint().send_buffer().is_flushed()?.then_some(()))),
    }
}

mpi! { fn MPI_Buffer_iflush(request: Ptr<Handle>) on MPI_COMM_SELF => {
    request.check_place()?;
    if is_automatic() {
        let end = sent(PROCESS);
        let flushed = futures::until(move || is_flushed(PROCESS, end));
        return request.set(futures::begin(MPI_COMM_SELF, flushed)?);
    }
    let mut poster = poster()?;
    request.set(futures::begin(MPI_COMM_SELF, futures::until(move || Ok(poster.endpoint().send_buffer().is_flushed()?)))?)?;
} }
