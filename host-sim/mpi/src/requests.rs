//! This module holds `unsafe` code: state of the process, and memory of collectives that are idle.
//!
//! Requests (MPI 5.0, 3.7 and 3.9): handles for the kernel's requests and for collectives under
//! way; completion and status.
//!
//! Whatever waits (`waiting`) drives everything that is under way, not only its own.

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::HashSet;

use aldis_kernel::Request;
use aldis_kernel::plane::ScopePlane;
pub(crate) use collectives::{
    CollectiveProgress, MemoryStep, RunningCollective, of_collective, of_kept, of_started, run_steps,
};
pub(crate) use general::{GeneralizedRequest, complete_generalized, of_generalized};
pub(crate) use messages::of_received;
use waiting::drive_futures;
pub(crate) use waiting::{find, is_alone, poll, watch_active, watch_all};

use crate::abi::{Handle, MPI_COMM_NULL, MPI_ERR_NO_MEM, MPI_ERR_REQUEST, MPI_REQUEST_NULL, Status};
use crate::fault::CallFault;
use crate::objects::used_types;
use crate::process::engine::ProcessEngine;
use crate::process::handles::{HandleKind, HandleTable, is_of};
use crate::process::scope::StaticScope;
use crate::process::{Owned, engine};
use crate::requests::bundles::Bundles;
use crate::requests::futures::OperationFuture;

pub(crate) mod buffers;
pub(crate) mod bundles;
mod collectives;
pub(crate) mod futures;

pub(crate) mod general;
pub(crate) mod messages;

mod waiting;

/// Starts a buffered send.
pub(crate) type BufferedSend = Box<dyn FnMut() -> Result<(), CallFault>>;

/// The kind of an operation, with what is left to do at its end.
enum Work {
    /// An operation whose rest is elsewhere for a while.
    Taken,
    /// A persistent message.
    Message(Request<'static>),
    /// A message in more parts than the kernel has: they go in bundles.
    Bundles(Request<'static>, Box<Bundles>),
    SendReceive(Box<SendReceive>),
    Collective(Box<RunningCollective>),
    /// A communicator that is made, or freed.
    Future(OperationFuture),
    /// A send that is over as soon as it was started.
    Buffered(BufferedSend),
    GeneralizedRequest(GeneralizedRequest),
}

/// A send out of memory of the library, and a receive, whose status is that of both.
struct SendReceive {
    parts: [ExchangePart; 2],
    memory: Vec<u8>,
}

/// A message of an exchange: its result once it is over.
enum ExchangePart {
    Under(Request<'static>),
    Over(Result<Status, CallFault>),
}

impl ExchangePart {
    /// Returns true if the message is over.
    fn advance(&mut self, scope: &mut StaticScope) -> bool {
        if let Self::Under(request) = self {
            match scope.result(request) {
                Ok(None) => return false,
                Ok(Some(status)) => *self = Self::Over(Ok(status.into())),
                Err(error) => *self = Self::Over(Err(error.into())),
            }
        }
        true
    }

    fn take(&mut self) -> Result<Status, CallFault> {
        match core::mem::replace(self, Self::Over(Ok(Status::EMPTY))) {
            Self::Over(result) => result,
            Self::Under(_) => Ok(Status::EMPTY),
        }
    }
}

/// The stage of an operation.
enum RequestStage {
    Active,
    /// A persistent one that has not been started.
    Idle,
    Over(Result<Status, CallFault>),
}

impl RequestStage {
    /// Returns the operation's result; the empty status if it is not over.
    fn result(self) -> Result<Status, CallFault> {
        match self {
            Self::Over(result) => result,
            Self::Active | Self::Idle => Ok(Status::EMPTY),
        }
    }
}

/// An operation under way, or one that can be started.
struct RequestEntry {
    comm: Handle,
    stage: RequestStage,
    work: Work,
    is_persistent: bool,
}

impl RequestEntry {
    /// Goes on as far as it can without waiting.
    fn advance(&mut self, scope: &mut StaticScope) {
        if !matches!(self.stage, RequestStage::Active) {
            return;
        }
        let over = match &mut self.work {
            Work::Taken | Work::Buffered(_) => Ok(Status::EMPTY),
            Work::Message(request) | Work::Bundles(request, _) => match scope.result(request) {
                Ok(None) => return,
                Ok(Some(status)) => Ok(status.into()),
                Err(error) => Err(error.into()),
            },
            Work::SendReceive(exchange) => {
                let [sent, received] = &mut exchange.parts;
                if !(sent.advance(scope) & received.advance(scope)) {
                    return;
                }
                let (sent, received) = (sent.take(), received.take());
                sent.and(received)
            }
            Work::Collective(running) => match running.progress.advance(scope, 1) {
                None => return,
                Some(over) => over,
            },
            // The call that drives it says when it is over.
            Work::Future(_) => return,
            Work::GeneralizedRequest(general) if !general.is_complete => return,
            Work::GeneralizedRequest(_) => Ok(Status::EMPTY),
        };
        self.stage = RequestStage::Over(over);
    }

    const fn is_over(&self) -> bool {
        matches!(self.stage, RequestStage::Over(..) | RequestStage::Idle)
    }
}

// SAFETY: only calls of MPI use it.
static REQUESTS: Owned<RefCell<HandleTable<RequestEntry>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Request))) };

/// Requests that are collectives under way.
// SAFETY: only calls of MPI use it.
static COLLECTIVES: Owned<RefCell<Vec<Handle>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Requests that are futures under way.
// SAFETY: only calls of MPI use it.
static FUTURES: Owned<RefCell<Vec<Handle>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

fn insert(operated: RequestEntry) -> Result<Handle, CallFault> {
    REQUESTS.borrow_mut().insert(operated).ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many requests"))
}

/// A handle for an operation under way.
fn started(comm: Handle, work: Work) -> Result<Handle, CallFault> {
    insert(RequestEntry { comm, stage: RequestStage::Active, work, is_persistent: false })
}

/// A handle for one that can be started again and again.
fn kept(comm: Handle, work: Work) -> Result<Handle, CallFault> {
    insert(RequestEntry { comm, stage: RequestStage::Idle, work, is_persistent: true })
}

/// A handle for a message that has just been started, whose status the program may ask for.
pub(crate) fn of_message(comm: Handle, request: Request<'static>) -> Result<Handle, CallFault> {
    engine::with(|engine| messages::of_receive(engine, comm, request))
}

/// A handle for a message that can be started again and again.
pub(crate) fn of_persistent(comm: Handle, request: Request<'static>) -> Result<Handle, CallFault> {
    kept(comm, Work::Message(request))
}

/// A handle for a message in bundles of parts that can be started again and again.
pub(crate) fn of_bundles(
    comm: Handle,
    request: Request<'static>,
    bundles: Bundles,
) -> Result<Handle, CallFault> {
    kept(comm, Work::Bundles(request, Box::new(bundles)))
}

/// A handle for a send that can be started again and again, and is over at once.
pub(crate) fn of_buffered(comm: Handle, send: BufferedSend) -> Result<Handle, CallFault> {
    kept(comm, Work::Buffered(send))
}

/// A handle for a send out of `memory`, and a receive.
pub(crate) fn of_exchange(
    comm: Handle,
    messages: [Request<'static>; 2],
    memory: Vec<u8>,
) -> Result<Handle, CallFault> {
    let parts = messages.map(ExchangePart::Under);
    started(comm, Work::SendReceive(Box::new(SendReceive { parts, memory })))
}

/// A handle for a future, which is driven as far as it goes without waiting.
pub(crate) fn of_future(comm: Handle, future: OperationFuture) -> Result<Handle, CallFault> {
    let handle = started(comm, Work::Future(future))?;
    FUTURES.borrow_mut().push(handle);
    drive_futures();
    Ok(handle)
}

/// The communicators of all requests, active or not: what these can do is done on them.
pub(crate) fn communicators() -> HashSet<Handle> {
    let messages = messages::communicators().into_iter();
    REQUESTS.borrow_mut().iter_mut().map(|operated| operated.comm).chain(messages).collect()
}

/// Returns true if no operation on a communicator is under way.
pub(crate) fn are_over_on(comm: Handle) -> Result<bool, CallFault> {
    engine::with(|engine| {
        let mut requests = REQUESTS.borrow_mut();
        let mut on_it = requests.iter_mut().filter(|operated| operated.comm == comm);
        let are_over = on_it.all(|operated| {
            operated.advance(&mut engine.scope);
            operated.is_over()
        });
        Ok(are_over && messages::are_over_on(engine, comm))
    })
}

fn missing(handle: Handle) -> CallFault {
    CallFault::handle(MPI_ERR_REQUEST, "request", handle)
}

/// Takes the result of a request that is over, and lets go of it unless it is persistent.
pub(crate) fn take(handle: &mut Handle) -> (Handle, Result<Status, CallFault>) {
    if *handle == MPI_REQUEST_NULL {
        return (MPI_COMM_NULL, Ok(Status::EMPTY));
    }
    let own = *handle;
    if !is_of(own, HandleKind::Request)
        && let Some(taken) = messages::take(own)
    {
        *handle = MPI_REQUEST_NULL;
        return taken;
    }
    let mut requests = REQUESTS.borrow_mut();
    let Some(operated) = requests.get_mut(own) else { return (MPI_COMM_NULL, Err(missing(own))) };
    if operated.is_persistent {
        drop(requests);
        return take_kept(own);
    }
    *handle = MPI_REQUEST_NULL;
    let Some(RequestEntry { comm, stage, mut work, .. }) = requests.remove(own) else {
        return (MPI_COMM_NULL, Err(missing(own)));
    };
    drop(requests);
    let result = stage.result();
    match work {
        Work::Collective(_) | Work::GeneralizedRequest(_) => {
            (comm, result.and_then(|status| finished(&mut work, status)))
        }
        _ => (comm, result),
    }
}

/// Takes the result of a persistent request, which stays.
#[cold]
fn take_kept(handle: Handle) -> (Handle, Result<Status, CallFault>) {
    let mut requests = REQUESTS.borrow_mut();
    let Some(operated) = requests.get_mut(handle) else { return (MPI_COMM_NULL, Err(missing(handle))) };
    let (comm, stage) = (operated.comm, core::mem::replace(&mut operated.stage, RequestStage::Idle));
    drop(requests);
    (comm, stage.result().and_then(|status| finish_in_place(handle, status)))
}

/// Returns true if a request is of a persistent message.
fn is_kept_message(handle: Handle) -> bool {
    REQUESTS.borrow().get(handle).is_some_and(|operated| matches!(operated.work, Work::Message(_)))
}

/// Waits for a persistent message, which ends well, and takes its status, or that of a persistent
/// collective that has ended well and leaves nothing to do; `None` if it does not, or the request
/// is none: then the general way finds out.
fn take_kept_message(engine: &mut ProcessEngine, handle: Handle) -> Option<Status> {
    let mut requests = REQUESTS.borrow_mut();
    let RequestEntry { stage, work, is_persistent: true, .. } = requests.get_mut(handle)? else {
        return None;
    };
    let message = match work {
        Work::Message(message) => message,
        Work::Collective(running) if matches!(stage, RequestStage::Over(Ok(_))) && running.is_all_done() => {
            *stage = RequestStage::Idle;
            return Some(Status::EMPTY);
        }
        _ => return None,
    };
    match stage {
        RequestStage::Active => match engine.scope.wait_for(message) {
            Ok(status) => {
                *stage = RequestStage::Idle;
                Some(status.into())
            }
            Err(error) => {
                *stage = RequestStage::Over(Err(error.into()));
                None
            }
        },
        RequestStage::Idle => Some(Status::EMPTY),
        RequestStage::Over(_) => None,
    }
}

/// Does what is left to do with the result of an operation that stays.
fn finish_in_place(handle: Handle, status: Status) -> Result<Status, CallFault> {
    let mut requests = REQUESTS.borrow_mut();
    let Some(operated) = requests.get_mut(handle) else { return Err(missing(handle)) };
    let mut work = core::mem::replace(&mut operated.work, Work::Taken);
    drop(requests);
    // This may call functions of the program's, which may look at requests.
    let result = finished(&mut work, status);
    if let Some(operated) = REQUESTS.borrow_mut().get_mut(handle) {
        operated.work = work;
    }
    result
}

/// Does what is left to do with the result of an operation.
fn finished(work: &mut Work, status: Status) -> Result<Status, CallFault> {
    match work {
        Work::Collective(running) => running.finish().map(|()| status),
        Work::GeneralizedRequest(general) => general.finish(),
        _ => Ok(status),
    }
}

/// Returns true if an operation was started whose result has not been taken.
pub(crate) fn is_under_way(handle: Handle) -> bool {
    REQUESTS.borrow().get(handle).is_some_and(|operated| !matches!(operated.stage, RequestStage::Idle))
}

/// Waits for one request, and takes its result.
pub(crate) fn wait(mut handle: Handle) -> Result<Status, CallFault> {
    if let Some(status) = messages::try_wait(handle)? {
        return Ok(status);
    }
    watch_all(core::iter::once(handle), true)?;
    take(&mut handle).1
}

/// Does what is left of a collective that is over: the program that is told so may look at its
/// result.
fn settle(handle: Handle) {
    let is_due = |operated: &RequestEntry| {
        matches!((&operated.stage, &operated.work), (RequestStage::Over(Ok(_)), Work::Collective(_)))
    };
    if !REQUESTS.borrow().get(handle).is_some_and(is_due) {
        return;
    }
    if let Err(fault) = finish_in_place(handle, Status::EMPTY)
        && let Some(operated) = REQUESTS.borrow_mut().get_mut(handle)
    {
        operated.stage = RequestStage::Over(Err(fault));
    }
}

/// The status of a request that is over, which can be waited for as before.
pub(crate) fn peek(handle: Handle) -> Result<Status, CallFault> {
    if let Some(status) = messages::peek(handle)? {
        return Ok(status);
    }
    settle(handle);
    let requests = REQUESTS.borrow();
    let general = match requests.get(handle) {
        Some(RequestEntry {
            stage: RequestStage::Over(Ok(_)),
            work: Work::GeneralizedRequest(general),
            ..
        }) => *general,
        Some(RequestEntry { stage: RequestStage::Over(Ok(status)), .. }) => return Ok(*status),
        _ => return Ok(Status::EMPTY),
    };
    drop(requests);
    general.query()
}

/// Frees a request of the program's; what is under way goes on.
pub(crate) fn free(handle: Handle) -> Result<(), CallFault> {
    if messages::free(handle)? {
        return Ok(());
    }
    let mut requests = REQUESTS.borrow_mut();
    let operated = requests.get_mut(handle).ok_or_else(|| missing(handle))?;
    match (&operated.stage, &mut operated.work) {
        (RequestStage::Active, Work::Collective(_) | Work::Future(_)) => {
            return Err(CallFault::new(MPI_ERR_REQUEST, "a collective under way cannot be freed"));
        }
        // It is for the program to complete it.
        (RequestStage::Active, Work::GeneralizedRequest(general)) if !general.is_complete => {
            general.is_freed = true
        }
        _ => {
            let freed = requests.remove(handle);
            drop(requests);
            if let Some(operated) = freed {
                let_go(operated)?;
            }
        }
    }
    Ok(())
}

/// Polls after a cancel: more than a message of a rank to itself takes to be asked for and given
/// back.
const CANCEL_POLLS: u32 = 16;

/// Cancels a message or an operation of the program's.
///
/// A program that then looks whether it is over (`MPI_Request_get_status`, as mpi4py does) and
/// finds that it is not takes it for one that is not cancelled, and receives it. Of a message to
/// itself that is known by then.
pub(crate) fn cancel(handle: Handle) -> Result<(), CallFault> {
    stop(handle)?;
    (0..CANCEL_POLLS).try_for_each(|_| waiting::poll().map(drop))
}

fn stop(handle: Handle) -> Result<(), CallFault> {
    if messages::cancel(handle)? {
        return Ok(());
    }
    let general = engine::with(|engine| {
        let mut requests = REQUESTS.borrow_mut();
        let operated = requests.get_mut(handle).ok_or_else(|| missing(handle))?;
        match &mut operated.work {
            Work::Message(message) | Work::Bundles(message, _)
                if matches!(operated.stage, RequestStage::Active) =>
            {
                engine.scope.recall(message);
            }
            Work::GeneralizedRequest(general) => return Ok(Some(*general)),
            _ => {}
        }
        Ok(None)
    })?;
    general.map_or(Ok(()), |general| general.cancel())
}

/// Returns the request of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    messages::handle_of(number).unwrap_or_else(|| REQUESTS.borrow().handle_of(number))
}

/// Lets go of an operation that the program does not ask for any more.
fn let_go(operated: RequestEntry) -> Result<(), CallFault> {
    match operated.work {
        Work::Message(message) | Work::Bundles(message, _) => engine::with(|engine| {
            match operated.stage {
                RequestStage::Active => engine.freed.push(message),
                // A persistent one that is not under way is freed at once.
                _ => engine.scope.detach(message),
            }
            engine.reap();
            Ok(())
        }),
        // Its memory stays until it is over.
        Work::SendReceive(exchange) => engine::with(|engine| {
            let SendReceive { parts, memory } = *exchange;
            let messages = parts.into_iter().filter_map(|part| match part {
                ExchangePart::Under(message) => Some(message),
                ExchangePart::Over(_) => None,
            });
            engine.freed.extend(messages);
            engine.memory_of_freed.push(memory);
            engine.reap();
            Ok(())
        }),
        Work::GeneralizedRequest(general) => general.free(),
        Work::Taken | Work::Collective(_) | Work::Future(_) | Work::Buffered(_) => Ok(()),
    }
}

/// Works with a message of the kernel's, and with the bundles that its parts go in, if they do.
pub(crate) fn with_parts<R>(
    handle: Handle,
    work: impl FnOnce(&mut StaticScope, &Request<'static>, Option<&mut Bundles>) -> Result<R, CallFault>,
) -> Result<R, CallFault> {
    let other = || CallFault::new(MPI_ERR_REQUEST, "no request of a partitioned message");
    let mut requests = REQUESTS.borrow_mut();
    match requests.get_mut(handle).map(|operated| &mut operated.work) {
        Some(Work::Message(request)) => engine::with(|engine| work(&mut engine.scope, request, None)),
        Some(Work::Bundles(request, bundles)) => {
            engine::with(|engine| work(&mut engine.scope, request, Some(bundles)))
        }
        Some(_) => Err(other()),
        None if engine::with(|engine| Ok(messages::is_one(engine, handle)))? => Err(other()),
        None => Err(missing(handle)),
    }
}

#[cold]
fn not_to_be_started() -> CallFault {
    CallFault::new(MPI_ERR_REQUEST, "a request that is under way, or is not persistent")
}

/// Starts a persistent operation.
pub(crate) fn start(handle: Handle) -> Result<(), CallFault> {
    let mut requests = REQUESTS.borrow_mut();
    let Some(operated) = requests.get_mut(handle) else {
        let is_message = engine::with(|engine| Ok(messages::is_one(engine, handle)))?;
        return Err(if is_message { not_to_be_started() } else { missing(handle) });
    };
    if !operated.is_persistent || !matches!(operated.stage, RequestStage::Idle) {
        return Err(not_to_be_started());
    }
    match &mut operated.work {
        Work::Message(message) => engine::with(|engine| Ok(engine.scope.start(message)?))?,
        Work::Bundles(message, bundles) => {
            engine::with(|engine| Ok(engine.scope.start(message)?))?;
            bundles.begin();
        }
        Work::Buffered(send) => used_types::working(send)?,
        Work::Collective(running) => {
            // SAFETY: it is idle.
            used_types::working(|| unsafe { run_steps(&mut running.before) })?;
            running.is_finished = false;
            let CollectiveProgress::Kept(kept) = &mut running.progress else { return Err(missing(handle)) };
            engine::with(|engine| Ok(kept.start(&mut engine.scope)?))?;
            if kept.is_complete() {
                operated.stage = RequestStage::Over(Ok(Status::EMPTY));
                return Ok(());
            }
            COLLECTIVES.borrow_mut().push(handle);
        }
        Work::Taken | Work::SendReceive(_) | Work::Future(_) | Work::GeneralizedRequest(_) => {}
    }
    operated.stage = RequestStage::Active;
    Ok(())
}
