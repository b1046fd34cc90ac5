//! Sessions (MPI 5.0, 11.3): beginning and ending them, and the sets of processes that they know,
//! of which groups are made.

use core::ffi::{c_char, c_int};

use aldis_hal::PeerId;

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_INFO_VALUE, MPI_GROUP_NULL, MPI_SESSION_NULL, MPI_SUCCESS,
    MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
};
use crate::calls::environment::become_rank;
use crate::calls::errors::text_of_code;
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::errors::{
    abort_if_fatal, call_handler, check_handler, count_handles, ended, insert_handler, raise,
};
use crate::objects::sessions::{
    ProgramSession, are_none, change, check, handler_of, insert, of_number, remove,
};
use crate::objects::{groups, info};
use crate::process::engine::{self, ProcessPhase};
use crate::process::handles::to_int;
use crate::requests::buffers;

/// Thread levels by the names that the key `thread_level` has.
const LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// The thread level that hints ask for; the highest without one, since parts of a program that know
/// nothing of each other have sessions.
fn level_of(hints: Handle) -> Result<c_int, CallFault> {
    let hints = info::of(hints)?;
    let Some((_, asked)) = hints.iter().find(|(key, _)| key == "thread_level") else {
        return Ok(MPI_THREAD_MULTIPLE);
    };
    let known = LEVELS.iter().find(|(name, _)| name == asked);
    let unknown = || CallFault::new(MPI_ERR_INFO_VALUE, format!("{asked:?} is no thread level"));
    known.map(|(_, level)| *level).ok_or_else(unknown)
}

fn begin(hints: Handle, handler: Handle) -> Result<Handle, CallFault> {
    check_handler(handler)?;
    let level = level_of(hints)?;
    become_rank(level)?;
    engine::leave_at_exit()?;
    insert(ProgramSession { handler, level })
}

mpi! { fn MPI_Session_init(hints: Handle, handler: Handle, session: Ptr<Handle>) -> c_int {
    let begun = session
        .set(MPI_SESSION_NULL)
        .and_then(|()| begin(hints, handler))
        .and_then(|begun| session.set(begun));
    ended("MPI_Session_init", MPI_SESSION_NULL, handler, begun)
} }

mpi! { fn MPI_Session_finalize(session: Ptr<Handle>) on session.get().unwrap_or(MPI_SESSION_NULL) => {
    let own = session.get()?;
    check(own)?;
    buffers::forget(own)?;
    remove(own)?;
    session.set(MPI_SESSION_NULL)?;
    if are_none() && engine::world_phase() != ProcessPhase::Running {
        buffers::finish()?;
        engine::pause()?;
    }
} }

mpi! { fn MPI_Session_get_info(session: Handle, hints: Ptr<Handle>) on session => {
    hints.check_place()?;
    let granted = change(session, |own| own.level)?;
    let known = LEVELS.iter().filter(|(_, level)| *level == granted);
    let pairs = known.map(|(name, _)| ("thread_level".to_owned(), (*name).to_owned()));
    hints.set(info::insert(pairs.collect())?)?;
} }

/// The names of the sets of processes, which every process has.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// The processes of a set. A name is a URI, whose case does not count (MPI 5.0, 11.3.2).
fn processes_of(name: Ptr<c_char>) -> Result<Vec<PeerId>, CallFault> {
    let name = name.text()?;
    let [world, itself] = SETS.map(|known| known.eq_ignore_ascii_case(&name));
    engine::with(|engine| match (world, itself) {
        (true, _) => Ok((0..engine.endpoint().world().size()).map(PeerId).collect()),
        (_, true) => Ok(vec![engine.endpoint().process()]),
        _ => Err(CallFault::new(MPI_ERR_ARG, format!("no set of processes {name:?}"))),
    })
}

mpi! { fn MPI_Session_get_num_psets(session: Handle, hints: Handle, count: Ptr<c_int>) on session => {
    check(session)?;
    info::check(hints)?;
    count.set(SETS.len() as c_int)?;
} }

mpi! { fn MPI_Session_get_nth_pset(session: Handle, hints: Handle, number: c_int, len: Ptr<c_int>, name: Ptr<c_char>) on session => {
    check(session)?;
    info::check(hints)?;
    let known = usize::try_from(number).ok().and_then(|number| SETS.get(number));
    let none = || CallFault::new(MPI_ERR_ARG, format!("no set of processes has the number {number}"));
    let known = known.ok_or_else(none)?;
    if let Some(room) = usize::try_from(len.get()?).ok().filter(|room| *room > 0) {
        name.set_text(known, room)?;
    }
    len.set(known.len() as c_int + 1)?;
} }

mpi! { fn MPI_Session_get_pset_info(session: Handle, name: Ptr<c_char>, facts: Ptr<Handle>) on session => {
    facts.check_place()?;
    check(session)?;
    let size = processes_of(name)?.len().to_string();
    facts.set(info::insert(vec![("mpi_size".to_owned(), size)])?)?;
} }

mpi! { fn MPI_Group_from_session_pset(session: Handle, name: Ptr<c_char>, group: Ptr<Handle>) on session => {
    group.set(MPI_GROUP_NULL)?;
    check(session)?;
    group.set(groups::insert(processes_of(name)?, session)?)?;
} }

mpi! { fn MPI_Session_create_errhandler(function: usize, handler: Ptr<Handle>) on MPI_COMM_SELF => {
    handler.check_place()?;
    if function == 0 {
        return Err(CallFault::new(MPI_ERR_ARG, "a null pointer where a function belongs"));
    }
    handler.set(insert_handler(function)?)?;
} }

mpi! { fn MPI_Session_set_errhandler(session: Handle, handler: Handle) on session => {
    check_handler(handler)?;
    change(session, |own| own.handler = handler)?;
} }

mpi! { fn MPI_Session_get_errhandler(session: Handle, handler: Ptr<Handle>) on session => {
    handler.check_place()?;
    let own = change(session, |own| own.handler)?;
    count_handles(own, 1);
    handler.set(own)?;
} }

mpi! { fn MPI_Session_call_errhandler(session: Handle, code: c_int) -> c_int {
    const NAME: &str = "MPI_Session_call_errhandler";
    match (handler_of(session), check(session)) {
        (Some(handler), _) => {
            abort_if_fatal(NAME, handler, code, &text_of_code(code));
            call_handler(session, handler, code);
            MPI_SUCCESS
        }
        (None, Err(fault)) => raise(NAME, MPI_COMM_SELF, &fault),
        (None, Ok(())) => MPI_SUCCESS,
    }
} }

mpi! { fn MPI_Session_toint(session: Handle) -> c_int { to_int(session) } }

mpi! { fn MPI_Session_fromint(number: c_int) -> Handle { of_number(number) } }
