//! Waiting for requests: looks at them, between which everything that is under way goes on, and
//! other threads come in.

use aldis_kernel::plane::prelude::*;
use core::task::{Context, Poll, Waker};

use aldis_hal::{Activity, Operation, Platform};
use aldis_linux::platform::HostPlatform;

use super::messages::{self, MessageStage};
use super::{COLLECTIVES, FUTURES, REQUESTS, RequestEntry, RequestStage, Work, missing};
use crate::abi::{Handle, MPI_ERR_INTERN, MPI_REQUEST_NULL, Status};
use crate::fault::CallFault;
use crate::ffi::Array;
use crate::process::engine::{self, ProcessEngine};
use crate::process::handles::HandleTable;
use crate::process::messages::MessageNotes;
use crate::process::scope::StaticScope;
use crate::process::threads;

/// Returns true if a call that waits has the endpoint to itself: nothing else is under way that it
/// must drive, and there is no other thread that waits for its turn.
#[inline]
pub(crate) fn is_alone() -> bool {
    !threads::are_many() && COLLECTIVES.borrow().is_empty() && FUTURES.borrow().is_empty()
}

/// Drives all futures that are under way, none of which keeps a borrow of anything meanwhile.
pub(super) fn drive_futures() {
    let under_way = FUTURES.borrow().clone();
    for handle in under_way {
        let taken = match REQUESTS.borrow_mut().get_mut(handle) {
            Some(RequestEntry { work: work @ Work::Future(_), .. }) => core::mem::replace(work, Work::Taken),
            _ => continue,
        };
        let Work::Future(mut future) = taken else { continue };
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Some(operated) = REQUESTS.borrow_mut().get_mut(handle) {
            match polled {
                Poll::Pending => operated.work = Work::Future(future),
                Poll::Ready(result) => operated.stage = RequestStage::Over(result.map(|()| Status::EMPTY)),
            }
        }
    }
    let requests = REQUESTS.borrow();
    let is_active = |handle: &Handle| {
        requests.get(*handle).is_some_and(|operated| matches!(operated.stage, RequestStage::Active))
    };
    FUTURES.borrow_mut().retain(is_active);
}

/// Drives all collectives that are under way.
fn drive(scope: &mut StaticScope, requests: &mut HandleTable<RequestEntry>) {
    COLLECTIVES.borrow_mut().retain(|handle| {
        let Some(operated) = requests.get_mut(*handle) else { return false };
        operated.advance(scope);
        !operated.is_over()
    });
}

/// Returns true if a request is over, as the last poll had it; a null one is.
fn is_over(
    requests: &mut HandleTable<RequestEntry>,
    notes: &MessageNotes,
    scope: &mut StaticScope,
    handle: Handle,
) -> Result<bool, CallFault> {
    if handle == MPI_REQUEST_NULL {
        return Ok(true);
    }
    if let Some(stage) = messages::stage(notes, scope, handle) {
        return Ok(matches!(stage, MessageStage::Over));
    }
    let operated = requests.get_mut(handle).ok_or_else(|| missing(handle))?;
    operated.advance(scope);
    Ok(operated.is_over())
}

/// Returns true if a request takes part in waits for any or some: it is neither null nor idle.
fn is_active(requests: &HandleTable<RequestEntry>, handle: Handle) -> bool {
    let is_idle = |operated: &RequestEntry| matches!(operated.stage, RequestStage::Idle);
    handle != MPI_REQUEST_NULL && !requests.get(handle).is_some_and(is_idle)
}

/// Polls, once or until one of the active requests is over, and returns the places of the first
/// `most` that are; `None` if none is active.
pub(crate) fn watch_active(
    handles: Array<'_, Handle>,
    waits: bool,
    most: usize,
) -> Result<Option<Vec<usize>>, CallFault> {
    check_all(handles.iter())?;
    let (mut over, mut is_any_active) = (Vec::new(), false);
    look_until(waits, true, |requests, notes, scope| {
        for (index, handle) in handles.iter().enumerate().filter(|(_, handle)| *handle != MPI_REQUEST_NULL) {
            if over.len() == most {
                break;
            }
            if is_active(requests, handle) {
                is_any_active = true;
                if is_over(requests, notes, scope, handle)? {
                    over.push(index);
                }
            }
        }
        Ok(!over.is_empty() || !is_any_active)
    })?;
    Ok(is_any_active.then_some(over))
}

/// Polls, once or until all requests are over; whether they are. Each is looked at until it is
/// over, and then the next one: so what is no request is refused before.
pub(crate) fn watch_all(
    mut handles: impl ExactSizeIterator<Item = Handle> + Clone,
    waits: bool,
) -> Result<bool, CallFault> {
    if handles.len() == 1
        && let Some(handle) = handles.clone().next()
        && ends_in_slots(handle, waits)?
    {
        return Ok(true);
    }
    check_all(handles.clone())?;
    let several = handles.len() > 1;
    let mut pending = handles.next();
    look_until(waits, several, |requests, notes, scope| {
        while let Some(handle) = pending {
            if !is_over(requests, notes, scope, handle)? {
                return Ok(false);
            }
            pending = handles.next();
        }
        Ok(true)
    })?;
    Ok(pending.is_none())
}

/// Looks, for a while if the caller waits, whether a collective ends that goes by control slots:
/// what ends it stands in memory that other ranks write, and needs neither a poll nor what else is
/// under way. True if it is over.
fn ends_in_slots(handle: Handle, waits: bool) -> Result<bool, CallFault> {
    let mut collectives = COLLECTIVES.borrow_mut();
    let Some(place) = collectives.iter().rposition(|known| *known == handle) else { return Ok(false) };
    let mut requests = REQUESTS.borrow_mut();
    let Some(RequestEntry { stage: stage @ RequestStage::Active, work: Work::Collective(running), .. }) =
        requests.get_mut(handle)
    else {
        return Ok(false);
    };
    let progress = &mut running.progress;
    if !progress.is_in_slots() {
        return Ok(false);
    }
    let looks = if waits && !threads::are_many() { LOOKS } else { 1 };
    let over = engine::with(|engine| Ok(progress.advance(&mut engine.scope, looks)))?;
    let Some(over) = over else { return Ok(false) };
    *stage = RequestStage::Over(over);
    collectives.swap_remove(place);
    Ok(true)
}

/// Looks at control slots before the wait is one like others: a cache line's journey and its
/// writer's work many times over.
const LOOKS: u32 = 64;

/// # Errors
/// The first that is neither null nor a request.
fn check_all(mut handles: impl Iterator<Item = Handle>) -> Result<(), CallFault> {
    engine::with(|engine| {
        let requests = REQUESTS.borrow();
        let mut is_none = |handle: &Handle| {
            *handle != MPI_REQUEST_NULL
                && !messages::is_one(engine, *handle)
                && requests.get(*handle).is_none()
        };
        handles.find(|handle| is_none(handle)).map_or(Ok(()), |handle| Err(missing(handle)))
    })
}

/// Polls and looks, once or until it is `enough`. A call that waits for several is given all that
/// is there before the first look.
fn look_until(
    waits: bool,
    several: bool,
    mut enough: impl FnMut(
        &mut HandleTable<RequestEntry>,
        &MessageNotes,
        &mut StaticScope,
    ) -> Result<bool, CallFault>,
) -> Result<(), CallFault> {
    let mut look = |notes: &MessageNotes, scope: &mut StaticScope, polls: bool| {
        let mut requests = REQUESTS.borrow_mut();
        let events = if polls { scope.poll(BUDGET) } else { 0 };
        drive(scope, &mut requests);
        enough(&mut requests, notes, scope).map(|is_enough| Look { is_enough, events })
    };
    if waits && is_alone() {
        engine::with(|engine| {
            let activity = Activity { operation: Operation::Wait, ..Activity::default() };
            let (notes, mut polls) = (&engine.messages, several);
            let looked = engine.scope.wait_until(activity, |scope| {
                // The waiting thread polls between two looks.
                let looked = look(notes, scope, core::mem::replace(&mut polls, false));
                Ok(looked.map_or_else(|fault| Some(Err(fault)), |look| look.is_enough.then_some(Ok(()))))
            })?;
            engine.reap();
            looked
        })
    } else {
        poll_rounds(waits, || {
            engine::with(|engine| {
                let looked = look(&engine.messages, &mut engine.scope, true);
                engine.reap();
                if let (false, Ok(look)) = (waits, &looked) {
                    engine.account_look(look.events, look.is_enough);
                }
                looked
            })
        })
    }
}

/// The result of a look.
struct Look {
    /// True if the caller need not wait longer.
    is_enough: bool,
    /// The number of events that the endpoint has handled.
    events: u32,
}

/// Looks, once or until it is enough: what else is under way goes on before each look, and behind
/// it other threads have their turns.
fn poll_rounds(waits: bool, mut look: impl FnMut() -> Result<Look, CallFault>) -> Result<(), CallFault> {
    let mut wait = Wait { platform: None, is_noted: false };
    let (mut rounds, mut idle) = (0_u32, 0_u32);
    loop {
        drive_futures();
        let Look { is_enough, events } = look()?;
        if is_enough || !waits {
            return Ok(());
        }
        idle = if events > 0 { 0 } else { idle.saturating_add(1) };
        rounds = rounds.saturating_add(1);
        let platform = match &mut wait.platform {
            Some(platform) => platform,
            None => wait
                .platform
                .insert(engine::with(|engine| Ok(engine.endpoint().platform().of_another_wait()))?),
        };
        if rounds == NOTE_AFTER {
            platform.note(Activity { operation: Operation::Wait, ..Activity::default() });
            wait.is_noted = true;
        }
        threads::give_way(platform, idle);
    }
}

/// A wait, of whose end the platform is told however it ends, if it has been told of the wait.
struct Wait {
    platform: Option<HostPlatform>,
    is_noted: bool,
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(platform) = self.platform.as_mut().filter(|_| self.is_noted) {
            platform.note(Activity::NONE);
        }
    }
}

/// Poll rounds after which the launcher is told that this rank waits.
const NOTE_AFTER: u32 = 128;

/// Events that a look handles at most.
pub(super) const BUDGET: u32 = 64;

/// Drives what is under way, without waiting, and returns the number of events. The caller
/// accounts for its look.
pub(crate) fn poll() -> Result<u32, CallFault> {
    let mut handled = 0;
    poll_rounds(false, || {
        engine::with(|engine| {
            handled = engine.scope.poll(BUDGET);
            drive(&mut engine.scope, &mut REQUESTS.borrow_mut());
            engine.reap();
            Ok(Look { is_enough: true, events: handled })
        })
    })?;
    Ok(handled)
}

/// Waits until `find` finds something, and drives what is under way meanwhile.
pub(crate) fn find<R>(
    mut find: impl FnMut(&mut ProcessEngine) -> Result<Option<R>, CallFault>,
) -> Result<R, CallFault> {
    let mut found = None;
    poll_rounds(true, || {
        engine::with(|engine| {
            let events = engine.scope.poll(BUDGET);
            drive(&mut engine.scope, &mut REQUESTS.borrow_mut());
            found = find(engine)?;
            Ok(Look { is_enough: found.is_some(), events })
        })
    })?;
    found.ok_or_else(|| CallFault::new(MPI_ERR_INTERN, "found, and not there"))
}
