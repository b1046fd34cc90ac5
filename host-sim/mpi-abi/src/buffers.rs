//! Buffers for buffered sends (MPI 5.0, 3.6): the process's, which is the kernel's, and those of communicators, whose messages are
//! copied into memory of the library; no more of them at a time than the program's buffer has room for.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;

use aldis_kernel::Request;

use crate::abi::{Handle, MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC, MPI_COMM_SELF, MPI_ERR_BUFFER, Status};
use crate::datatypes::{Data, small};
use crate::edge::{Address, Owned, Ptr};
use crate::errors::Fault;
use crate::{communicators, engine, requests};

/// What a communicator has.
struct Buffer {
    /// As the program gave it; an automatic one has no bounds.
    place: Option<(Address, i64)>,
    under_way: Vec<Copied>,
}

/// A send out of a copy, and the room that it takes of the buffer.
struct Copied {
    request: Request<'static>,
    _memory: Vec<u8>,
    room: i64,
}

static OF_COMMUNICATORS: Owned<RefCell<BTreeMap<Handle, Buffer>>> = Owned::new(RefCell::new(BTreeMap::new()));

/// Sends by the buffer of a communicator what `start` starts to send out of a copy; false if there is none.
pub(crate) fn send(
    comm: Handle,
    data: &Data,
    start: impl FnOnce(Data) -> Result<Request<'static>, Fault>,
) -> Result<bool, Fault> {
    let mut all = OF_COMMUNICATORS.borrow_mut();
    let Some(Buffer { place, under_way }) = all.get_mut(&comm) else { return Ok(false) };
    engine::with(|engine| {
        under_way.retain_mut(|sent| matches!(engine.scope.test(&mut sent.request), Ok(None)));
        Ok(())
    })?;
    let room = (data.bytes as i64).saturating_add(MPI_BSEND_OVERHEAD.into());
    if let Some((_, size)) = place {
        let free = *size - under_way.iter().map(|sent| sent.room).sum::<i64>();
        if room > free {
            let text =
                format!("a message that needs {room} bytes of a buffer of {size}, of which {free} are free");
            return Err(Fault::new(MPI_ERR_BUFFER, text));
        }
    }
    let (_memory, copy) = data.copied()?;
    under_way.push(Copied { request: start(copy)?, _memory, room });
    Ok(true)
}

/// Waits until all that was sent by the buffer of a communicator has been delivered; one may have none.
fn flush_of(comm: Handle) -> Result<(), Fault> {
    let of = |buffer: &mut Buffer| core::mem::take(&mut buffer.under_way);
    let sent = OF_COMMUNICATORS.borrow_mut().get_mut(&comm).map(of);
    for Copied { request, _memory, .. } in sent.unwrap_or_default() {
        requests::wait(requests::of_message(comm, request)?)?;
    }
    Ok(())
}

/// Takes its buffer away from a communicator, when all has been delivered.
fn detach_of(comm: Handle) -> Result<(Address, i64), Fault> {
    communicators::check(comm)?;
    flush_of(comm)?;
    let none = || Fault::new(MPI_ERR_BUFFER, "no buffer is attached to this communicator");
    let buffer = OF_COMMUNICATORS.borrow_mut().remove(&comm).ok_or_else(none)?;
    Ok(buffer.place.unwrap_or((Address::at(MPI_BUFFER_AUTOMATIC), 0)))
}

/// A communicator goes away, and its buffer with it.
pub(crate) fn forget(comm: Handle) -> Result<(), Fault> {
    flush_of(comm)?;
    OF_COMMUNICATORS.borrow_mut().remove(&comm);
    Ok(())
}

mpi! { fn MPI_Comm_attach_buffer_c(comm: Handle, buffer: Address, size: i64) on comm => {
    communicators::check(comm)?;
    let is_automatic = buffer.address() == MPI_BUFFER_AUTOMATIC;
    if size < 0 && !is_automatic {
        return Err(Fault::new(MPI_ERR_BUFFER, format!("a buffer of {size} bytes")));
    }
    let mut all = OF_COMMUNICATORS.borrow_mut();
    if all.contains_key(&comm) {
        return Err(Fault::new(MPI_ERR_BUFFER, "a buffer is attached to this communicator already"));
    }
    let place = if is_automatic { None } else { Some((buffer, size)) };
    all.insert(comm, Buffer { place, under_way: Vec::new() });
} }

mpi! { fn MPI_Comm_detach_buffer_c(comm: Handle, place: Address, size: Ptr<i64>) on comm => {
    let (buffer, bytes) = detach_of(comm)?;
    place.cast::<Ptr<c_void>>().set(buffer)?;
    size.set(bytes)?;
} }

mpi! { fn MPI_Comm_detach_buffer(comm: Handle, place: Address, size: Ptr<c_int>) on comm => {
    let (buffer, bytes) = detach_of(comm)?;
    place.cast::<Ptr<c_void>>().set(buffer)?;
    size.set(small(bytes))?;
} }

mpi! { fn MPI_Comm_flush_buffer(comm: Handle) on comm => {
    communicators::check(comm)?;
    flush_of(comm)?;
} }

mpi! {
    /// Over at once, when all has been delivered: the request is a formality.
    fn MPI_Comm_iflush_buffer(comm: Handle, request: Ptr<Handle>) on comm => {
        communicators::check(comm)?;
        flush_of(comm)?;
        request.set(requests::of_done(comm, Status::EMPTY)?)?;
    }
}

mpi! { fn MPI_Buffer_attach_c(buffer: Address, size: i64) on MPI_COMM_SELF => {
    let bytes = buffer.bytes(0, usize::try_from(size).unwrap_or(0))?;
    engine::with(|engine| {
        if engine.attached.is_some() {
            return Err(Fault::new(MPI_ERR_BUFFER, "a buffer is attached already"));
        }
        engine.endpoint().attach_buffer(bytes)?;
        engine.attached = Some((buffer, size));
        Ok(())
    })?;
} }

fn detach() -> Result<(Address, i64), Fault> {
    engine::with(|engine| {
        engine.endpoint().detach_buffer()?;
        Ok(engine.attached.take().unwrap_or((Address::at(0), 0)))
    })
}

mpi! { fn MPI_Buffer_detach_c(place: Address, size: Ptr<i64>) on MPI_COMM_SELF => {
    let (buffer, bytes) = detach()?;
    place.cast::<Ptr<c_void>>().set(buffer)?;
    size.set(bytes)?;
} }

mpi! { fn MPI_Buffer_detach(place: Address, size: Ptr<c_int>) on MPI_COMM_SELF => {
    let (buffer, bytes) = detach()?;
    place.cast::<Ptr<c_void>>().set(buffer)?;
    size.set(small(bytes))?;
} }

mpi! { fn MPI_Buffer_flush() on MPI_COMM_SELF => { flush()?; } }

fn flush() -> Result<(), Fault> {
    engine::with(|engine| Ok(engine.endpoint().flush_buffer()?))
}

mpi! {
    /// Over at once, when all has been delivered: the request is a formality.
    fn MPI_Buffer_iflush(request: Ptr<Handle>) on MPI_COMM_SELF => {
        flush()?;
        request.set(requests::of_done(MPI_COMM_SELF, Status::EMPTY)?)?;
    }
}
