//! This module holds `unsafe` code: state of the process; requests are made of their handles.
//!
//! Messages under way, whose handles are the kernel's requests: there is nothing of them here.
//! Sends that are over at once share one handle; receives that are keep their status until it is
//! taken.

use core::cell::RefCell;
use core::ffi::c_int;

use aldis_kernel::Request;
use aldis_kernel::plane::Started;
use aldis_kernel::plane::prelude::*;

use super::waiting::{BUDGET, is_alone};
use super::{is_kept_message, take_kept_message};
use crate::abi::{Handle, MPI_COMM_NULL, MPI_ERR_NO_MEM, MPI_REQUEST_NULL, Status};
use crate::fault::CallFault;
use crate::ffi::Array;
use crate::process::Owned;
use crate::process::engine::{self, ProcessEngine};
use crate::process::handles::{HandleKind, HandleTable, is_int_of, is_of, pack};
use crate::process::messages::MessageNotes;
use crate::process::scope::StaticScope;

/// The handle of every send, and of every collective, that was over as soon as it was started.
pub(crate) const COMPLETED: Handle = pack(HandleKind::Completed, 0, 0);

/// The statuses of receives that were over as soon as they were started.
// SAFETY: only calls of MPI use it.
static RECEIVED: Owned<RefCell<HandleTable<Status>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Received))) };

/// A handle for a send that has just been started.
#[inline(always)]
pub(crate) fn of_send(engine: &mut ProcessEngine, comm: Handle, request: Request<'static>) -> Handle {
    match StaticScope::started(request) {
        Started::Done(_) => COMPLETED,
        Started::Pending(message) => engine.messages.note(message, comm),
    }
}

/// A handle for a receive that has just been started.
#[inline(always)]
pub(crate) fn of_receive(
    engine: &mut ProcessEngine,
    comm: Handle,
    request: Request<'static>,
) -> Result<Handle, CallFault> {
    match StaticScope::started(request) {
        Started::Done(status) => of_received(status.into()),
        Started::Pending(message) => Ok(engine.messages.note(message, comm)),
    }
}

/// A handle for a receive that is over already.
#[inline(never)]
pub(crate) fn of_received(status: Status) -> Result<Handle, CallFault> {
    let handle = RECEIVED.borrow_mut().insert(status);
    handle.ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many requests"))
}

/// The stage of a message.
pub(super) enum MessageStage {
    Under,
    Over,
}

/// Returns the stage of a message; `None` if that is not what the handle is of.
pub(super) fn stage(notes: &MessageNotes, scope: &mut StaticScope, handle: Handle) -> Option<MessageStage> {
    if handle == COMPLETED || RECEIVED.borrow().get(handle).is_some() {
        return Some(MessageStage::Over);
    }
    let request = engine::message(notes, scope, handle)?;
    Some(if scope.is_over(&request) { MessageStage::Over } else { MessageStage::Under })
}

/// Returns true if the handle is of a message.
pub(super) fn is_one(engine: &mut ProcessEngine, handle: Handle) -> bool {
    stage(&engine.messages, &mut engine.scope, handle).is_some()
}

/// Takes the result of a message that is over, with its communicator; `None` if the handle is of no
/// message.
pub(super) fn take(handle: Handle) -> Option<(Handle, Result<Status, CallFault>)> {
    if handle == COMPLETED {
        return Some((MPI_COMM_NULL, Ok(Status::EMPTY)));
    }
    if let Some(status) = RECEIVED.borrow_mut().remove(handle) {
        return Some((MPI_COMM_NULL, Ok(status)));
    }
    let taken = engine::with(|engine| {
        let Some(mut request) = engine.message(handle) else { return Ok(None) };
        let comm = engine.messages.comm_of(handle);
        let result = match engine.scope.result(&mut request) {
            Ok(status) => Ok(status.map_or(Status::EMPTY, Status::from)),
            Err(error) => Err(error.into()),
        };
        Ok(Some((comm, result)))
    });
    taken.unwrap_or_else(|fault| Some((MPI_COMM_NULL, Err(fault))))
}

/// Returns the status of a message that is over, which can be waited for as before; `None` if that
/// is not what the handle is of.
pub(super) fn peek(handle: Handle) -> Result<Option<Status>, CallFault> {
    if handle == COMPLETED {
        return Ok(Some(Status::EMPTY));
    }
    if let Some(status) = RECEIVED.borrow().get(handle) {
        return Ok(Some(*status));
    }
    engine::with(|engine| {
        let Some(request) = engine.message(handle) else { return Ok(None) };
        let result = engine.scope.look(&request);
        Ok(Some(result.and_then(Result::ok).map_or(Status::EMPTY, Status::from)))
    })
}

/// Frees the handle of a message, which goes on; false if it is of none.
pub(super) fn free(handle: Handle) -> Result<bool, CallFault> {
    if handle == COMPLETED || RECEIVED.borrow_mut().remove(handle).is_some() {
        return Ok(true);
    }
    engine::with(|engine| {
        let Some(request) = engine.message(handle) else { return Ok(false) };
        engine.messages.forget(handle);
        engine.freed.push(request);
        engine.reap();
        Ok(true)
    })
}

/// Cancels a message, or has its receiver asked whether that is possible; false if the handle is of
/// none.
pub(super) fn cancel(handle: Handle) -> Result<bool, CallFault> {
    engine::with(|engine| {
        if let Some(request) = engine.message(handle) {
            engine.scope.stop(&request);
            return Ok(true);
        }
        Ok(is_one(engine, handle))
    })
}

/// Returns the handle of a message whose `int` this is.
pub(super) fn handle_of(number: c_int) -> Option<Handle> {
    if is_int_of(number, COMPLETED) {
        return Some(COMPLETED);
    }
    let received = Some(RECEIVED.borrow().handle_of(number));
    received
        .filter(|handle| RECEIVED.borrow().get(*handle).is_some())
        .or_else(|| engine::with(|engine| Ok(engine.messages.handle_of(number))).ok().flatten())
}

/// The communicators of all messages under way.
pub(super) fn communicators() -> Vec<Handle> {
    let all = engine::with(|ProcessEngine { scope, messages, .. }| {
        Ok(messages.iter().filter(|(message, _)| scope.is_live(*message)).map(|(_, comm)| comm).collect())
    });
    all.unwrap_or_default()
}

/// Returns true if no message on a communicator is under way.
pub(super) fn are_over_on(ProcessEngine { scope, messages, .. }: &mut ProcessEngine, comm: Handle) -> bool {
    messages.iter().filter(|(_, on)| *on == comm).all(|(message, _)| {
        // SAFETY: it was noted when a request of this scope had been started.
        let request = unsafe { scope.request_of(message) };
        scope.is_over(&request)
    })
}

/// The outcome of a look at a message by a call that has the endpoint to itself.
pub(crate) enum Looked {
    /// The message has ended well, and its status has been taken.
    Over(Status),
    Under,
    /// The request is no message, or one that has failed: for the general way.
    Other,
}

/// Waits for a message and takes its status, if the call has the endpoint to itself and the message
/// ends well. `None` if not: then it is no message, or the general way finds out.
#[inline(always)]
pub(crate) fn try_wait(handle: Handle) -> Result<Option<Status>, CallFault> {
    if handle == COMPLETED {
        return Ok(Some(Status::EMPTY));
    }
    if !is_alone() {
        return Ok(None);
    }
    engine::with(|engine| {
        engine.reap();
        Ok(take_message(engine, handle, true).map(Status::of_received))
    })
}

/// Waits for a persistent message in the same way, or takes the status of a collective; its handle
/// stays.
pub(crate) fn try_wait_kept(handle: Handle) -> Result<Option<Status>, CallFault> {
    if !is_alone() || !is_of(handle, HandleKind::Request) {
        return Ok(None);
    }
    engine::with(|engine| {
        engine.reap();
        Ok(take_kept_message(engine, handle))
    })
}

/// Looks at a message, after a poll if it is not over at once, and takes its status if it is.
#[inline]
pub(crate) fn test(handle: Handle) -> Result<Looked, CallFault> {
    if handle == COMPLETED {
        return Ok(Looked::Over(Status::EMPTY));
    }
    if !is_alone() {
        return Ok(Looked::Other);
    }
    engine::with(|engine| {
        let mut taken = take_message(engine, handle, false);
        if taken.is_none() {
            let Some(request) = engine.message(handle) else { return Ok(Looked::Other) };
            let events = engine.scope.poll(BUDGET);
            engine.reap();
            taken = take_message(engine, handle, false);
            engine.account_look(events, taken.is_some());
            if taken.is_none() && !engine.scope.is_over(&request) {
                return Ok(Looked::Under);
            }
        }
        Ok(taken.map_or(Looked::Other, |status| Looked::Over(Status::of_received(status))))
    })
}

/// Takes the status of a message that ends well, after it has waited for it if it `waits`.
#[inline(always)]
fn take_message(engine: &mut ProcessEngine, handle: Handle, waits: bool) -> Option<aldis_kernel::Status> {
    let message = engine.messages.find(handle)?;
    let scope = &mut engine.scope;
    // SAFETY: it was noted when a request of this scope had been started.
    let mut request = unsafe { scope.request_of(message) };
    match scope.take_if_well(&mut request) {
        None if waits => {
            scope.drive(&request);
            scope.take_if_well(&mut request)
        }
        taken => taken,
    }
}

/// Waits for messages one after the other, and takes the statuses of those that end well, for as
/// long as the call has the endpoint to itself; returns the number of requests that are over then.
/// The next one is no message, or is for the general way for another reason.
pub(crate) fn wait_in_order(
    handles: Array<'_, Handle>,
    statuses: Array<'_, Status>,
) -> Result<usize, CallFault> {
    if !is_alone() {
        return Ok(0);
    }
    engine::with(|engine| {
        engine.reap();
        let (mut is_checked, asks) = (false, statuses.len() > 0);
        for (index, handle) in handles.iter().enumerate() {
            if handle != MPI_REQUEST_NULL && handle != COMPLETED {
                match take_message(engine, handle, false) {
                    Some(found) if asks => statuses.set(index, Status::of_received(found)),
                    Some(_) => {}
                    None if wait_for_one(
                        engine,
                        handles.behind(index),
                        statuses.behind(index),
                        &mut is_checked,
                    ) =>
                    {
                        continue;
                    }
                    None => return Ok(index),
                }
            } else if asks {
                statuses.set(index, Status::EMPTY);
            }
            handles.set(index, MPI_REQUEST_NULL);
        }
        Ok(handles.len())
    })
}

/// Waits for the first of some requests, if it is a message that ends well, and takes its status.
/// Before it waits, it looks once at all of them.
#[inline(never)]
fn wait_for_one(
    engine: &mut ProcessEngine,
    handles: Array<'_, Handle>,
    statuses: Array<'_, Status>,
    is_checked: &mut bool,
) -> bool {
    let Some(handle) = handles.get(0) else { return false };
    let received =
        if is_of(handle, HandleKind::Received) { RECEIVED.borrow_mut().remove(handle) } else { None };
    if received.is_none() {
        *is_checked = *is_checked || are_messages(engine, handles);
        if !*is_checked {
            return false;
        }
    }
    let waited = || take_message(engine, handle, true).map(Status::of_received);
    if let Some(found) = received.or_else(waited) {
        statuses.set(0, found);
        handles.set(0, MPI_REQUEST_NULL);
        return true;
    }
    match take_kept_message(engine, handle) {
        Some(found) => {
            statuses.set(0, found);
            true
        }
        None => false,
    }
}

/// Returns true if all requests are of messages, persistent or not, or null.
#[inline(never)]
fn are_messages(engine: &mut ProcessEngine, handles: Array<'_, Handle>) -> bool {
    handles.iter().all(|handle| {
        handle == MPI_REQUEST_NULL
            || handle == COMPLETED
            || engine.message(handle).is_some()
            || RECEIVED.borrow().get(handle).is_some()
            || is_kept_message(handle)
    })
}
