//! This module holds `unsafe` code: state of the process.
//!
//! The interface of tools (MPI 5.0, 15.3), as small as it can be: there are no variables,
//! categories, events and sources, so that all counts are zero and whatever names one is refused.
//! Its functions return codes of their own, and no error handler is asked.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_void};

use crate::abi::{
    Handle, MPI_SUCCESS, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX,
    MPI_T_ERR_INVALID_NAME, MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_NOT_INITIALIZED, MPI_T_PVAR_SESSION_NULL,
    MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE,
};
use crate::ffi::Ptr;
use crate::process::Owned;

/// The number of times that the tools interface was started and not ended.
// SAFETY: only calls of MPI use it.
static STARTED: Owned<Cell<u32>> = unsafe { Owned::new(Cell::new(0)) };

/// Sessions of performance variables.
// SAFETY: only calls of MPI use it.
static SESSIONS: Owned<RefCell<Vec<Handle>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Returns the error of a call that cannot succeed.
fn refused(code: c_int) -> c_int {
    if STARTED.get() == 0 { MPI_T_ERR_NOT_INITIALIZED } else { code }
}

/// Returns the error of a call in a session that cannot succeed.
fn in_session(session: Handle, code: c_int) -> c_int {
    refused(if SESSIONS.borrow().contains(&session) { code } else { MPI_T_ERR_INVALID_SESSION })
}

/// Gives a result.
fn give<T>(place: Ptr<T>, value: T) -> c_int {
    if STARTED.get() == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    place.set(value).map_or(MPI_T_ERR_INVALID, |()| MPI_SUCCESS)
}

/// Tells that there are none.
fn number(count: Ptr<c_int>) -> c_int {
    give(count, 0)
}

mpi! { fn MPI_T_init_thread(required: c_int, provided: Ptr<c_int>) -> c_int {
    STARTED.set(STARTED.get() + 1);
    give(provided, required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE))
} }

mpi! { fn MPI_T_finalize() -> c_int {
    if STARTED.get() == 0 { return MPI_T_ERR_NOT_INITIALIZED; }
    STARTED.set(STARTED.get() - 1);
    MPI_SUCCESS
} }

mpi! { fn MPI_T_pvar_session_create(session: Ptr<Handle>) -> c_int {
    let mut sessions = SESSIONS.borrow_mut();
    // Beyond the numbers of predefined handles.
    let made = sessions.last().map_or(0x1000, |last| last + 1);
    let code = give(session, made);
    if code == MPI_SUCCESS { sessions.push(made); }
    code
} }

mpi! { fn MPI_T_pvar_session_free(session: Ptr<Handle>) -> c_int {
    let Ok(known) = session.get() else { return refused(MPI_T_ERR_INVALID) };
    let mut sessions = SESSIONS.borrow_mut();
    let Some(place) = sessions.iter().position(|own| *own == known) else { return refused(MPI_T_ERR_INVALID_SESSION) };
    let code = give(session, MPI_T_PVAR_SESSION_NULL);
    if code == MPI_SUCCESS { sessions.remove(place); }
    code
} }

mpi! { fn MPI_T_category_changed(update_number: Ptr<c_int>) -> c_int { number(update_number) } }
mpi! { fn MPI_T_category_get_categories(_cat_index: c_int, _len: c_int, _indices: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_category_get_cvars(_cat_index: c_int, _len: c_int, _indices: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_category_get_events(_cat_index: c_int, _len: c_int, _indices: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_category_get_index(_name: Ptr<c_char>, _cat_index: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_NAME) } }
mpi! { fn MPI_T_category_get_info(_cat_index: c_int, _name: Ptr<c_char>, _name_len: Ptr<c_int>, _desc: Ptr<c_char>, _desc_len: Ptr<c_int>, _num_cvars: Ptr<c_int>, _num_pvars: Ptr<c_int>, _num_categories: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_category_get_num(num_cat: Ptr<c_int>) -> c_int { number(num_cat) } }
mpi! { fn MPI_T_category_get_num_events(_cat_index: c_int, _num_events: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_category_get_pvars(_cat_index: c_int, _len: c_int, _indices: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_cvar_get_index(_name: Ptr<c_char>, _cvar_index: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_NAME) } }
mpi! { fn MPI_T_cvar_get_info(_cvar_index: c_int, _name: Ptr<c_char>, _name_len: Ptr<c_int>, _verbosity: Ptr<c_int>, _datatype: Ptr<Handle>, _enumtype: Ptr<Handle>, _desc: Ptr<c_char>, _desc_len: Ptr<c_int>, _bind: Ptr<c_int>, _scope: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_cvar_get_num(num_cvar: Ptr<c_int>) -> c_int { number(num_cvar) } }
mpi! { fn MPI_T_cvar_handle_alloc(_cvar_index: c_int, _obj_handle: Ptr<c_void>, _handle: Ptr<Handle>, _count: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_cvar_handle_free(_handle: Ptr<Handle>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_cvar_read(_handle: Handle, _buf: Ptr<c_void>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_cvar_write(_handle: Handle, _buf: Ptr<c_void>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_enum_get_info(_enumtype: Handle, _num: Ptr<c_int>, _name: Ptr<c_char>, _name_len: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_enum_get_item(_enumtype: Handle, _indx: c_int, _value: Ptr<c_int>, _name: Ptr<c_char>, _name_len: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_callback_get_info(_event_registration: Handle, _cb_safety: c_int, _info_used: Ptr<Handle>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_callback_set_info(_event_registration: Handle, _cb_safety: c_int, _info: Handle) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_copy(_event_instance: Handle, _buffer: Ptr<c_void>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_get_index(_name: Ptr<c_char>, _event_index: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_NAME) } }
mpi! { fn MPI_T_event_get_info(_event_index: c_int, _name: Ptr<c_char>, _name_len: Ptr<c_int>, _verbosity: Ptr<c_int>, _array_of_datatypes: Ptr<Handle>, _array_of_displacements: Ptr<isize>, _num_elements: Ptr<c_int>, _enumtype: Ptr<Handle>, _info: Ptr<Handle>, _desc: Ptr<c_char>, _desc_len: Ptr<c_int>, _bind: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_event_get_num(num_events: Ptr<c_int>) -> c_int { number(num_events) } }
mpi! { fn MPI_T_event_get_source(_event_instance: Handle, _source_index: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_get_timestamp(_event_instance: Handle, _event_timestamp: Ptr<i64>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_handle_alloc(_event_index: c_int, _obj_handle: Ptr<c_void>, _info: Handle, _event_registration: Ptr<Handle>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_event_handle_free(_event_registration: Handle, _user_data: Ptr<c_void>, _free_cb_function: Handle) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_handle_get_info(_event_registration: Handle, _info_used: Ptr<Handle>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_handle_set_info(_event_registration: Handle, _info: Handle) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_read(_event_instance: Handle, _element_index: c_int, _buffer: Ptr<c_void>) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_register_callback(_event_registration: Handle, _cb_safety: c_int, _info: Handle, _user_data: Ptr<c_void>, _event_cb_function: Handle) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_event_set_dropped_handler(_event_registration: Handle, _dropped_cb_function: Handle) -> c_int { refused(MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_get_index(_name: Ptr<c_char>, _var_class: c_int, _pvar_index: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_NAME) } }
mpi! { fn MPI_T_pvar_get_info(_pvar_index: c_int, _name: Ptr<c_char>, _name_len: Ptr<c_int>, _verbosity: Ptr<c_int>, _var_class: Ptr<c_int>, _datatype: Ptr<Handle>, _enumtype: Ptr<Handle>, _desc: Ptr<c_char>, _desc_len: Ptr<c_int>, _bind: Ptr<c_int>, _readonly: Ptr<c_int>, _continuous: Ptr<c_int>, _atomic: Ptr<c_int>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_pvar_get_num(num_pvar: Ptr<c_int>) -> c_int { number(num_pvar) } }
mpi! { fn MPI_T_pvar_handle_alloc(session: Handle, _pvar_index: c_int, _obj_handle: Ptr<c_void>, _handle: Ptr<Handle>, _count: Ptr<c_int>) -> c_int { in_session(session, MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_pvar_handle_free(session: Handle, _handle: Ptr<Handle>) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_read(session: Handle, _handle: Handle, _buf: Ptr<c_void>) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_readreset(session: Handle, _handle: Handle, _buf: Ptr<c_void>) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_reset(session: Handle, _handle: Handle) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_start(session: Handle, _handle: Handle) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_stop(session: Handle, _handle: Handle) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_pvar_write(session: Handle, _handle: Handle, _buf: Ptr<c_void>) -> c_int { in_session(session, MPI_T_ERR_INVALID_HANDLE) } }
mpi! { fn MPI_T_source_get_info(_source_index: c_int, _name: Ptr<c_char>, _name_len: Ptr<c_int>, _desc: Ptr<c_char>, _desc_len: Ptr<c_int>, _ordering: Ptr<c_int>, _ticks_per_second: Ptr<i64>, _max_ticks: Ptr<i64>, _info: Ptr<Handle>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
mpi! { fn MPI_T_source_get_num(num_sources: Ptr<c_int>) -> c_int { number(num_sources) } }
mpi! { fn MPI_T_source_get_timestamp(_source_index: c_int, _timestamp: Ptr<i64>) -> c_int { refused(MPI_T_ERR_INVALID_INDEX) } }
