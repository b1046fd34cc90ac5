//! This module holds `unsafe` code: state of the process.
//!
//! Buffers for buffered sends (MPI 5.0, 3.6): the process's, which is the kernel's, and those of
//! communicators and sessions, whose messages are copied into memory of the library; no more of
//! them at a time than the program's buffer has room for. An automatic buffer of the process is of
//! that kind.

use core::cell::RefCell;
use std::collections::BTreeMap;

use aldis_kernel::Request;

use crate::abi::{
    Handle, MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC, MPI_COMM_NULL, MPI_COMM_SELF, MPI_ERR_BUFFER,
};
use crate::fault::CallFault;
use crate::ffi::Address;
use crate::objects::communicators;
use crate::objects::datatypes::ProgramData;
use crate::process::{Owned, engine};
use crate::requests::futures;

/// The attached buffer of a communicator or a session.
pub(crate) struct AttachedBuffer {
    /// Its address and size as the program gave them; an automatic one has no bounds.
    place: Option<(Address, i64)>,
    /// Messages that it has sent.
    sent: u64,
    under_way: Vec<Copied>,
    /// Room that they take.
    taken: i64,
    /// The number of sends at which those that have been delivered are let go of: so often that a
    /// message is looked at twice at most on the average.
    many: usize,
}

/// A send out of a copy, and the room that it takes of the buffer.
struct Copied {
    request: Request<'static>,
    memory: Vec<u8>,
    room: i64,
    number: u64,
}

/// Events that one look at the messages of a buffer handles at most.
const BUDGET: u32 = 64;

impl AttachedBuffer {
    pub(crate) const fn new(place: Option<(Address, i64)>) -> Self {
        Self { place, sent: 0, under_way: Vec::new(), taken: 0, many: Self::FEW }
    }

    /// Messages that it does not pay to look at.
    const FEW: usize = 32;

    /// Bytes that are free.
    fn free(&self) -> i64 {
        self.place.map_or(i64::MAX, |(_, size)| size - self.taken)
    }

    /// Lets go of what has been delivered.
    fn let_go(&mut self) -> Result<(), CallFault> {
        engine::with(|engine| {
            engine.scope.poll(BUDGET);
            self.under_way.retain_mut(|sent| matches!(engine.scope.result(&mut sent.request), Ok(None)));
            self.taken = self.under_way.iter().map(|sent| sent.room).sum();
            self.many = (self.under_way.len() * 2).max(Self::FEW);
            Ok(())
        })
    }
}

// SAFETY: only calls of MPI use it.
pub(crate) static OF_COMMUNICATORS: Owned<RefCell<BTreeMap<Handle, AttachedBuffer>>> =
    unsafe { Owned::new(RefCell::new(BTreeMap::new())) };

/// The key of the process's automatic buffer among those of communicators.
pub(crate) const PROCESS: Handle = MPI_COMM_NULL;

/// Returns true if the process has an automatic buffer.
pub(crate) fn is_automatic() -> bool {
    OF_COMMUNICATORS.borrow().contains_key(&PROCESS)
}

/// Sends by the buffer of a communicator, of the session that it is derived from, or else by the
/// automatic one of the process, what `start` starts to send out of a copy; false if there is none.
pub(crate) fn send(
    comm: Handle,
    data: &ProgramData,
    start: impl FnOnce(ProgramData) -> Result<Request<'static>, CallFault>,
) -> Result<bool, CallFault> {
    let mut all = OF_COMMUNICATORS.borrow_mut();
    let owners = [comm, communicators::session_of(comm)];
    let owner = owners.into_iter().find(|owner| all.contains_key(owner)).unwrap_or(PROCESS);
    let Some(buffer) = all.get_mut(&owner) else { return Ok(false) };
    let room = (data.bytes as i64).saturating_add(MPI_BSEND_OVERHEAD.into());
    if room > buffer.free() || buffer.under_way.len() >= buffer.many {
        buffer.let_go()?;
    }
    if let Some((_, size)) = buffer.place
        && room > buffer.free()
    {
        let free = buffer.free();
        let text =
            format!("a message that needs {room} bytes of a buffer of {size}, of which {free} are free");
        return Err(CallFault::new(MPI_ERR_BUFFER, text));
    }
    // SAFETY: the memory is kept with the request, and let go of when that is over.
    let (memory, copy) = unsafe { data.copied() }?;
    let request = start(copy)?;
    buffer.under_way.push(Copied { request, memory, room, number: buffer.sent });
    buffer.taken += room;
    buffer.sent += 1;
    Ok(true)
}

/// Returns the number of messages sent by a communicator's buffer, 0 if it has none.
pub(crate) fn sent(comm: Handle) -> u64 {
    OF_COMMUNICATORS.borrow().get(&comm).map_or(0, |buffer| buffer.sent)
}

/// Returns true if the first `end` of them have been delivered.
pub(crate) fn is_flushed(comm: Handle, end: u64) -> Result<bool, CallFault> {
    let mut all = OF_COMMUNICATORS.borrow_mut();
    let Some(buffer) = all.get_mut(&comm) else { return Ok(true) };
    buffer.let_go()?;
    Ok(buffer.under_way.iter().all(|copied| copied.number >= end))
}

/// Waits until all that was sent by the buffer of a communicator has been delivered.
pub(crate) fn flush_of(comm: Handle) -> Result<(), CallFault> {
    let end = sent(comm);
    let on = if communicators::check(comm).is_ok() { comm } else { MPI_COMM_SELF };
    futures::complete(on, futures::until(move || is_flushed(comm, end)))
}

/// Takes its buffer away from a communicator, when all has been delivered.
pub(crate) fn detach_of(comm: Handle) -> Result<(Address, i64), CallFault> {
    flush_of(comm)?;
    let none = || CallFault::new(MPI_ERR_BUFFER, "no buffer is attached there");
    let buffer = OF_COMMUNICATORS.borrow_mut().remove(&comm).ok_or_else(none)?;
    Ok(buffer.place.unwrap_or((Address::of(MPI_BUFFER_AUTOMATIC), 0)))
}

/// A communicator goes away, and its buffer with it. What is under way is out of copies, and goes
/// on.
pub(crate) fn forget(comm: Handle) -> Result<(), CallFault> {
    OF_COMMUNICATORS.borrow_mut().remove(&comm).map_or(Ok(()), leave_alone)
}

/// The program ends.
pub(crate) fn finish() -> Result<(), CallFault> {
    OF_COMMUNICATORS.take().into_values().try_for_each(leave_alone)
}

fn leave_alone(buffer: AttachedBuffer) -> Result<(), CallFault> {
    engine::with(|engine| {
        for Copied { request, memory, .. } in buffer.under_way {
            engine.freed.push(request);
            engine.memory_of_freed.push(memory);
        }
        Ok(())
    })
}
