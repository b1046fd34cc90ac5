//! Requests (MPI 5.0, 3.7 and 3.9): handles for the kernel's requests and for collectives under way; completion and status.
//!
//! Whatever waits drives every collective that is under way, not only its own.

use core::cell::RefCell;
use core::ffi::c_int;

use aldis_coll::Collective;
use aldis_coll::layout::Block;
use aldis_hal::{Activity, Operation};
use aldis_kernel::Request;

use crate::abi::{
    Handle, MPI_COMM_NULL, MPI_COMM_SELF, MPI_ERR_IN_STATUS, MPI_ERR_NO_MEM, MPI_ERR_REQUEST,
    MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED, Status,
};
use crate::edge::scope::Lasting;
use crate::edge::{Owned, Ptr};
use crate::engine;
use crate::errors::Fault;
use crate::handles::{Kind, Table};

/// What is to be done with the result of a collective once it is there.
pub(crate) type After = Box<dyn FnOnce() -> Result<(), Fault>>;

/// A collective under way, with what it works on. Its memory is dropped after it.
pub(crate) struct Running {
    pub(crate) collective: Collective<'static>,
    pub(crate) after: Option<After>,
    pub(crate) _memory: Vec<Vec<u8>>,
    pub(crate) _blocks: Vec<Vec<Block>>,
}

/// How far an operation is.
enum Stage {
    Message(Request<'static>),
    Collective(Box<Running>),
    /// A persistent one that has not been started.
    Idle,
    Over(Result<Status, Fault>, Option<After>),
}

/// An operation under way, or one that can be started.
struct Operated {
    comm: Handle,
    stage: Stage,
    /// The kernel's request of a persistent one, while it is idle.
    idle: Option<Request<'static>>,
    is_persistent: bool,
}

impl Operated {
    const fn new(comm: Handle, stage: Stage) -> Self {
        Self { comm, stage, idle: None, is_persistent: false }
    }

    /// Goes on as far as it can without waiting.
    fn advance(&mut self, scope: &mut Lasting) {
        let over = match &mut self.stage {
            Stage::Message(request) => match scope.result(request) {
                Ok(None) => return,
                Ok(Some(status)) => Ok(status.into()),
                Err(error) => Err(error.into()),
            },
            Stage::Collective(running) => match running.collective.test(scope) {
                Ok(false) => return,
                Ok(true) => Ok(Status::EMPTY),
                Err(error) if matches!(error.cause, aldis_hal::Cause::Full(_)) => return,
                Err(error) => Err(error.into()),
            },
            Stage::Idle | Stage::Over(..) => return,
        };
        match core::mem::replace(&mut self.stage, Stage::Over(over, None)) {
            Stage::Message(request) if self.is_persistent => self.idle = Some(request),
            Stage::Collective(mut running) => {
                if let Stage::Over(Ok(_), after) = &mut self.stage {
                    *after = running.after.take();
                }
            }
            _ => {}
        }
    }

    const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(..) | Stage::Idle)
    }
}

static REQUESTS: Owned<RefCell<Table<Operated>>> = Owned::new(RefCell::new(Table::new(Kind::Request)));

/// Requests that are collectives under way.
static COLLECTIVES: Owned<RefCell<Vec<Handle>>> = Owned::new(RefCell::new(Vec::new()));

/// Whether collectives are under way, which a blocking call must drive.
pub(crate) fn are_running() -> bool {
    !COLLECTIVES.borrow().is_empty()
}

/// Drives all collectives that are under way.
fn drive(scope: &mut Lasting, requests: &mut Table<Operated>) {
    COLLECTIVES.borrow_mut().retain(|handle| {
        let Some(operated) = requests.get_mut(*handle) else { return false };
        operated.advance(scope);
        !operated.is_over()
    });
}

fn insert(operated: Operated) -> Result<Handle, Fault> {
    REQUESTS.borrow_mut().insert(operated).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many requests"))
}

/// A handle for a message under way.
pub(crate) fn of_message(comm: Handle, request: Request<'static>) -> Result<Handle, Fault> {
    insert(Operated::new(comm, Stage::Message(request)))
}

/// A handle for a message that can be started again and again.
pub(crate) fn of_persistent(comm: Handle, request: Request<'static>) -> Result<Handle, Fault> {
    let operated = Operated::new(comm, Stage::Idle);
    insert(Operated { idle: Some(request), is_persistent: true, ..operated })
}

/// A handle for a collective under way.
pub(crate) fn of_collective(comm: Handle, running: Running) -> Result<Handle, Fault> {
    let handle = insert(Operated::new(comm, Stage::Collective(Box::new(running))))?;
    COLLECTIVES.borrow_mut().push(handle);
    Ok(handle)
}

/// A handle for what is over already.
pub(crate) fn of_done(comm: Handle, status: Status) -> Result<Handle, Fault> {
    insert(Operated::new(comm, Stage::Over(Ok(status), None)))
}

fn missing(handle: Handle) -> Fault {
    Fault::handle(MPI_ERR_REQUEST, "request", handle)
}

/// Whether each of the requests is over, as the last look had it; null ones are.
fn states(
    requests: &mut Table<Operated>,
    scope: &mut Lasting,
    handles: &[Handle],
    over: &mut [bool],
) -> Result<(), Fault> {
    for (handle, over) in handles.iter().zip(over) {
        *over = *handle == MPI_REQUEST_NULL || {
            let operated = requests.get_mut(*handle).ok_or_else(|| missing(*handle))?;
            operated.advance(scope);
            operated.is_over()
        };
    }
    Ok(())
}

/// Polls, once or until `enough` holds of which requests are over.
fn watch(handles: &[Handle], waits: bool, enough: impl Fn(&[bool]) -> bool) -> Result<Vec<bool>, Fault> {
    let mut over = vec![false; handles.len()];
    let mut refused = Ok(());
    engine::with(|engine| {
        let activity = Activity { operation: Operation::Wait, ..Activity::default() };
        let mut is_first = true;
        let mut look = |scope: &mut Lasting| {
            let mut requests = REQUESTS.borrow_mut();
            if !core::mem::take(&mut is_first) || !waits {
                scope.poll(BUDGET);
            }
            drive(scope, &mut requests);
            refused = states(&mut requests, scope, handles, &mut over);
            refused.is_err() || enough(&over)
        };
        if waits {
            engine.scope.wait_until(activity, |scope| Ok(look(scope).then_some(())))?;
        } else {
            look(&mut engine.scope);
        }
        engine.reap();
        Ok(())
    })?;
    refused.map(|()| over)
}

/// Events that a look handles at most.
const BUDGET: u32 = 64;

/// Takes the result of a request that is over, and lets go of it unless it is persistent.
fn take(handle: &mut Handle) -> (Handle, Result<Status, Fault>) {
    if *handle == MPI_REQUEST_NULL {
        return (MPI_COMM_NULL, Ok(Status::EMPTY));
    }
    let mut requests = REQUESTS.borrow_mut();
    let Some(operated) = requests.get_mut(*handle) else { return (MPI_COMM_NULL, Err(missing(*handle))) };
    let comm = operated.comm;
    let stage = core::mem::replace(&mut operated.stage, Stage::Idle);
    if !operated.is_persistent {
        requests.remove(*handle);
        *handle = MPI_REQUEST_NULL;
    }
    drop(requests);
    let result = match stage {
        Stage::Over(result, None) => result,
        Stage::Over(result, Some(after)) => after().and(result),
        _ => Ok(Status::EMPTY),
    };
    (comm, result)
}

/// Whether a request takes part in waits for any or some: it is neither null nor idle.
fn is_active(handle: Handle) -> bool {
    handle != MPI_REQUEST_NULL
        && REQUESTS.borrow().get(handle).is_none_or(|operated| !matches!(operated.stage, Stage::Idle))
}

/// Waits for one request, and takes its result.
pub(crate) fn wait(mut handle: Handle) -> Result<Status, Fault> {
    watch(&[handle], true, |over| over == [true])?;
    take(&mut handle).1
}

/// What one request comes to, for the program: its status, and a failure for the error handler of its communicator.
fn finish_one(function: &str, request: Ptr<Handle>, status: Ptr<Status>) -> Result<c_int, Fault> {
    let mut handle = request.get()?;
    let (comm, result) = take(&mut handle);
    request.set(handle)?;
    match result {
        Ok(found) => {
            // The error stays as the program has it (MPI 5.0, 3.2.5).
            if !status.is_null() {
                let error = status.get()?.error;
                status.set(Status { error, ..found })?;
            }
            Ok(MPI_SUCCESS)
        }
        Err(fault) => Ok(crate::errors::raise(function, comm, &fault)),
    }
}

/// The same of several: all failures are told by their statuses.
fn finish_several(
    function: &str,
    handles: &mut [Handle],
    which: impl Iterator<Item = usize>,
    mut tell: impl FnMut(usize, Status),
) -> c_int {
    let mut failed = None;
    for index in which {
        let Some(handle) = handles.get_mut(index) else { continue };
        let (comm, result) = take(handle);
        match result {
            Ok(status) => tell(index, Status { error: MPI_SUCCESS, ..status }),
            Err(fault) => {
                tell(index, Status { error: fault.code(), ..Status::EMPTY });
                failed = failed.or(Some((comm, fault)));
            }
        }
    }
    match failed {
        None => MPI_SUCCESS,
        Some((comm, fault)) => {
            crate::errors::raise(function, comm, &Fault::new(MPI_ERR_IN_STATUS, fault.text()))
        }
    }
}

/// The code of a call whose result is one, or of the fault that refuses it.
fn told(function: &str, outcome: Result<c_int, Fault>) -> c_int {
    outcome.unwrap_or_else(|fault| crate::errors::raise(function, MPI_COMM_SELF, &fault))
}

fn count_of(count: c_int) -> Result<usize, Fault> {
    usize::try_from(count).map_err(|_| Fault::new(crate::abi::MPI_ERR_COUNT, format!("{count} requests")))
}

mpi! { fn MPI_Wait(request: Ptr<Handle>, status: Ptr<Status>) -> c_int {
    told("MPI_Wait", request.get().and_then(|handle| {
        watch(&[handle], true, |over| over == [true])?;
        finish_one("MPI_Wait", request, status)
    }))
} }

mpi! { fn MPI_Test(request: Ptr<Handle>, flag: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    told("MPI_Test", request.get().and_then(|handle| {
        let is_over = watch(&[handle], false, |_| true)? == [true];
        flag.set(is_over.into())?;
        if is_over { finish_one("MPI_Test", request, status) } else { Ok(MPI_SUCCESS) }
    }))
} }

fn all(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    statuses: Ptr<Status>,
    flag: Option<Ptr<c_int>>,
) -> c_int {
    told(
        function,
        count_of(count).and_then(|count| {
            let handles = requests.slice_mut(count)?;
            let over = watch(handles, flag.is_none(), |over| over.iter().all(|over| *over))?;
            if let Some(flag) = flag {
                let is_over = over.iter().all(|over| *over);
                flag.set(is_over.into())?;
                if !is_over {
                    return Ok(MPI_SUCCESS);
                }
            }
            let places = if statuses.is_null() { &mut [] } else { statuses.slice_mut(count)? };
            Ok(finish_several(function, handles, 0..count, |index, status| {
                if let Some(place) = places.get_mut(index) {
                    *place = status;
                }
            }))
        }),
    )
}

mpi! { fn MPI_Waitall(count: c_int, requests: Ptr<Handle>, statuses: Ptr<Status>) -> c_int {
    all("MPI_Waitall", count, requests, statuses, None)
} }

mpi! { fn MPI_Testall(count: c_int, requests: Ptr<Handle>, flag: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    all("MPI_Testall", count, requests, statuses, Some(flag))
} }

/// Waits for any, or tests: the flag says whether one is over, or none is active.
fn any(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    index: Ptr<c_int>,
    flag: Option<Ptr<c_int>>,
    status: Ptr<Status>,
) -> c_int {
    told(
        function,
        count_of(count).and_then(|count| {
            let handles = requests.slice_mut(count)?;
            let active: Vec<usize> = (0..count)
                .filter(|index| handles.get(*index).is_some_and(|handle| is_active(*handle)))
                .collect();
            let of_active: Vec<Handle> =
                active.iter().filter_map(|index| handles.get(*index).copied()).collect();
            if active.is_empty() {
                index.set(MPI_UNDEFINED)?;
                flag.map_or(Ok(()), |flag| flag.set(1))?;
                status.set_if(Status::EMPTY);
                return Ok(MPI_SUCCESS);
            }
            let over = watch(&of_active, flag.is_none(), |over| over.contains(&true))?;
            let found = active.iter().zip(over).find(|(_, over)| *over).map(|(index, _)| *index);
            flag.map_or(Ok(()), |flag| flag.set(found.is_some().into()))?;
            index.set(found.map_or(MPI_UNDEFINED, |found| found as c_int))?;
            match found.and_then(|found| handles.get_mut(found)) {
                None => Ok(MPI_SUCCESS),
                Some(handle) => {
                    finish_one(function, Ptr::at(core::ptr::from_mut(handle).expose_provenance()), status)
                }
            }
        }),
    )
}

mpi! { fn MPI_Waitany(count: c_int, requests: Ptr<Handle>, index: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    any("MPI_Waitany", count, requests, index, None, status)
} }

mpi! { fn MPI_Testany(count: c_int, requests: Ptr<Handle>, index: Ptr<c_int>, flag: Ptr<c_int>, status: Ptr<Status>) -> c_int {
    any("MPI_Testany", count, requests, index, Some(flag), status)
} }

fn some(
    function: &str,
    count: c_int,
    requests: Ptr<Handle>,
    found: Ptr<c_int>,
    indices: Ptr<c_int>,
    statuses: Ptr<Status>,
    waits: bool,
) -> c_int {
    told(
        function,
        count_of(count).and_then(|count| {
            let handles = requests.slice_mut(count)?;
            let active: Vec<usize> = (0..count)
                .filter(|index| handles.get(*index).is_some_and(|handle| is_active(*handle)))
                .collect();
            if active.is_empty() {
                found.set(MPI_UNDEFINED)?;
                return Ok(MPI_SUCCESS);
            }
            let of_active: Vec<Handle> =
                active.iter().filter_map(|index| handles.get(*index).copied()).collect();
            let over = watch(&of_active, waits, |over| over.contains(&true))?;
            let done: Vec<usize> =
                active.iter().zip(over).filter(|(_, over)| *over).map(|(index, _)| *index).collect();
            found.set(done.len() as c_int)?;
            let places = indices.slice_mut(done.len())?;
            for (place, index) in places.iter_mut().zip(&done) {
                *place = *index as c_int;
            }
            let told = if statuses.is_null() { &mut [] } else { statuses.slice_mut(done.len())? };
            let mut next = 0;
            Ok(finish_several(function, handles, done.into_iter(), |_, status| {
                if let Some(place) = told.get_mut(next) {
                    *place = status;
                }
                next += 1;
            }))
        }),
    )
}

mpi! { fn MPI_Waitsome(count: c_int, requests: Ptr<Handle>, found: Ptr<c_int>, indices: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    some("MPI_Waitsome", count, requests, found, indices, statuses, true)
} }

mpi! { fn MPI_Testsome(count: c_int, requests: Ptr<Handle>, found: Ptr<c_int>, indices: Ptr<c_int>, statuses: Ptr<Status>) -> c_int {
    some("MPI_Testsome", count, requests, found, indices, statuses, false)
} }

mpi! { fn MPI_Request_get_status(request: Handle, flag: Ptr<c_int>, status: Ptr<Status>) on MPI_COMM_SELF => {
    let is_over = watch(&[request], false, |_| true)? == [true];
    flag.set(is_over.into())?;
    if is_over {
        let requests = REQUESTS.borrow();
        let known = requests.get(request).and_then(|operated| match &operated.stage {
            Stage::Over(Ok(status), _) => Some(*status),
            _ => None,
        });
        status.set_if(known.unwrap_or(Status::EMPTY));
    }
} }

mpi! { fn MPI_Request_free(request: Ptr<Handle>) on MPI_COMM_SELF => {
    let handle = request.get()?;
    if matches!(REQUESTS.borrow().get(handle), Some(Operated { stage: Stage::Collective(_), .. })) {
        return Err(Fault::new(MPI_ERR_REQUEST, "a collective under way cannot be freed"));
    }
    let operated = REQUESTS.borrow_mut().remove(handle).ok_or_else(|| missing(handle))?;
    let left = match operated.stage {
        Stage::Message(message) => Some(message),
        _ => operated.idle,
    };
    engine::with(|engine| {
        engine.freed.extend(left);
        engine.reap();
        Ok(())
    })?;
    request.set(MPI_REQUEST_NULL)?;
} }

mpi! { fn MPI_Cancel(request: Ptr<Handle>) on MPI_COMM_SELF => {
    let handle = request.get()?;
    engine::with(|engine| {
        let mut requests = REQUESTS.borrow_mut();
        let operated = requests.get_mut(handle).ok_or_else(|| missing(handle))?;
        if let Stage::Message(message) = &mut operated.stage {
            engine.scope.cancel(message);
        }
        Ok(())
    })?;
} }

fn start(handle: Handle) -> Result<(), Fault> {
    engine::with(|engine| {
        let mut requests = REQUESTS.borrow_mut();
        let operated = requests.get_mut(handle).ok_or_else(|| missing(handle))?;
        let Some(mut message) = operated.idle.take() else {
            return Err(Fault::new(MPI_ERR_REQUEST, "a request that is under way, or is not persistent"));
        };
        let started = engine.scope.start(&mut message);
        match started {
            Ok(()) => operated.stage = Stage::Message(message),
            Err(_) => operated.idle = Some(message),
        }
        Ok(started?)
    })
}

mpi! { fn MPI_Start(request: Ptr<Handle>) on MPI_COMM_SELF => { start(request.get()?)?; } }

mpi! { fn MPI_Startall(count: c_int, requests: Ptr<Handle>) on MPI_COMM_SELF => {
    requests.slice(count_of(count)?)?.iter().try_for_each(|handle| start(*handle))?;
} }

mpi! { fn MPI_Request_toint(request: Handle) -> c_int { request as c_int } }
mpi! { fn MPI_Request_fromint(number: c_int) -> Handle { number as Handle } }

/// Drives what is under way, without waiting.
pub(crate) fn poll() -> Result<(), Fault> {
    watch(&[], false, |_| true).map(|_| ())
}
