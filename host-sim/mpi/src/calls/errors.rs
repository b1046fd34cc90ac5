//! Error classes, codes and handlers (MPI 5.0, chapter 9), and the texts of the standard's classes.

use core::ffi::{c_char, c_int};

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_LASTCODE, MPI_ERRHANDLER_NULL, MPI_MAX_ERROR_STRING,
    MPI_SUCCESS,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::communicators;
use crate::objects::errors::{
    ADDED, TEXT_CLASSES, abort_if_fatal, call_handler, check_handler, class_of_code, count_handles,
    insert_handler, kept_text, last_used_code, of_number, raise,
};
use crate::process::handles::to_int;

/// Returns the name and meaning of an error class.
fn text_of_class(class: c_int) -> &'static str {
    const TEXTS: [&str; 63] = [
        "MPI_SUCCESS: no error",
        "MPI_ERR_BUFFER: a buffer that cannot be used",
        "MPI_ERR_COUNT: a count out of range",
        "MPI_ERR_TYPE: no such datatype, or not one for this",
        "MPI_ERR_TAG: a tag out of range",
        "MPI_ERR_COMM: no such communicator, or not one for this",
        "MPI_ERR_RANK: a rank out of range",
        "MPI_ERR_REQUEST: no such request, or not one for this",
        "MPI_ERR_ROOT: a root out of range",
        "MPI_ERR_GROUP: no such group",
        "MPI_ERR_OP: no such operation, or not one for this datatype",
        "MPI_ERR_TOPOLOGY: no such topology",
        "MPI_ERR_DIMS: dimensions that do not fit",
        "MPI_ERR_ARG: an argument that cannot be",
        "MPI_ERR_UNKNOWN: an unknown error",
        "MPI_ERR_TRUNCATE: a message longer than its buffer",
        "MPI_ERR_OTHER: an error of no other class",
        "MPI_ERR_INTERN: an error inside of the library",
        "MPI_ERR_PENDING: not complete",
        "MPI_ERR_IN_STATUS: the statuses tell which operations failed",
        "MPI_ERR_ACCESS: access denied",
        "MPI_ERR_AMODE: an access mode that cannot be",
        "MPI_ERR_ASSERT: an assertion that cannot be",
        "MPI_ERR_BAD_FILE: a file name that cannot be",
        "MPI_ERR_BASE: a base that cannot be",
        "MPI_ERR_CONVERSION: a conversion failed",
        "MPI_ERR_DISP: a displacement that cannot be",
        "MPI_ERR_DUP_DATAREP: a data representation that there is already",
        "MPI_ERR_FILE_EXISTS: the file exists",
        "MPI_ERR_FILE_IN_USE: the file is in use",
        "MPI_ERR_FILE: no such file handle",
        "MPI_ERR_INFO_KEY: a key that is too long or empty",
        "MPI_ERR_INFO_NOKEY: no such key",
        "MPI_ERR_INFO_VALUE: a value that is too long",
        "MPI_ERR_INFO: no such info object",
        "MPI_ERR_IO: input or output failed",
        "MPI_ERR_KEYVAL: no such attribute key",
        "MPI_ERR_LOCKTYPE: no such type of lock",
        "MPI_ERR_NAME: no such service",
        "MPI_ERR_NO_MEM: no memory left",
        "MPI_ERR_NOT_SAME: ranks gave unlike arguments",
        "MPI_ERR_NO_SPACE: no space left",
        "MPI_ERR_NO_SUCH_FILE: no such file",
        "MPI_ERR_PORT: no such port",
        "MPI_ERR_QUOTA: a quota is exceeded",
        "MPI_ERR_READ_ONLY: not to be written",
        "MPI_ERR_RMA_ATTACH: memory that cannot be attached",
        "MPI_ERR_RMA_CONFLICT: accesses to a window that conflict",
        "MPI_ERR_RMA_RANGE: memory outside of the window",
        "MPI_ERR_RMA_SHARED: memory that cannot be shared",
        "MPI_ERR_RMA_SYNC: a window synchronised wrongly",
        "MPI_ERR_SERVICE: a service that cannot be published",
        "MPI_ERR_SIZE: a size that cannot be",
        "MPI_ERR_SPAWN: processes that cannot be started",
        "MPI_ERR_UNSUPPORTED_DATAREP: a data representation that there is not",
        "MPI_ERR_UNSUPPORTED_OPERATION: not supported",
        "MPI_ERR_WIN: no such window",
        "MPI_ERR_RMA_FLAVOR: not for windows of this flavour",
        "MPI_ERR_PROC_ABORTED: a process has ended",
        "MPI_ERR_VALUE_TOO_LARGE: a value that does not fit its type",
        "MPI_ERR_SESSION: no such session",
        "MPI_ERR_ERRHANDLER: no such error handler",
        "MPI_ERR_ABI: not for this binary interface",
    ];
    usize::try_from(class)
        .ok()
        .and_then(|class| TEXTS.get(class))
        .copied()
        .unwrap_or("MPI_ERR_UNKNOWN: no such error code")
}

fn added(code: c_int) -> Result<(), CallFault> {
    match ADDED.borrow().contains_key(&code) {
        true => Ok(()),
        false => Err(CallFault::new(MPI_ERR_ARG, format!("{code} is no error class or code that was added"))),
    }
}

fn add(class: Option<c_int>) -> c_int {
    let code = last_used_code() + 1;
    ADDED.borrow_mut().insert(code, (class.unwrap_or(code), String::new()));
    code
}

mpi! { fn MPI_Error_class(code: c_int, class: Ptr<c_int>) on MPI_COMM_SELF => {
    class.set(class_of_code(code))?;
} }

/// Returns the meaning of an error code, and what was said when it came.
pub(crate) fn text_of_code(code: c_int) -> String {
    if let Some((_, text)) = ADDED.borrow().get(&code) {
        return text.clone();
    }
    let class = text_of_class(class_of_code(code));
    let kept =
        (MPI_SUCCESS..=MPI_ERR_LASTCODE).contains(&code).then_some(code >> 6).filter(|number| *number > 0);
    match kept.and_then(kept_text) {
        Some(said) => format!("{class}: {said}"),
        None => class.to_owned(),
    }
}

mpi! { fn MPI_Error_string(code: c_int, text: Ptr<c_char>, len: Ptr<c_int>) on MPI_COMM_SELF => {
    len.set(text.set_text(&text_of_code(code), MPI_MAX_ERROR_STRING as usize)? as c_int)?;
} }

mpi! { fn MPI_Add_error_class(class: Ptr<c_int>) on MPI_COMM_SELF => { class.set(add(None))?; } }

mpi! { fn MPI_Add_error_code(class: c_int, code: Ptr<c_int>) on MPI_COMM_SELF => {
    if !(MPI_SUCCESS..=TEXT_CLASSES).contains(&class) { added(class)?; }
    code.set(add(Some(class)))?;
} }

mpi! { fn MPI_Add_error_string(code: c_int, text: Ptr<c_char>) on MPI_COMM_SELF => {
    added(code)?;
    let text = text.text()?;
    if let Some((_, old)) = ADDED.borrow_mut().get_mut(&code) { *old = text; }
} }

mpi! { fn MPI_Remove_error_class(class: c_int) on MPI_COMM_SELF => {
    added(class)?;
    ADDED.borrow_mut().remove(&class);
} }

mpi! { fn MPI_Remove_error_code(code: c_int) on MPI_COMM_SELF => {
    added(code)?;
    ADDED.borrow_mut().remove(&code);
} }

mpi! { fn MPI_Remove_error_string(code: c_int) on MPI_COMM_SELF => {
    added(code)?;
    if let Some((_, old)) = ADDED.borrow_mut().get_mut(&code) { old.clear(); }
} }

mpi! { fn MPI_Comm_create_errhandler(function: usize, handler: Ptr<Handle>) on MPI_COMM_SELF => {
    if function == 0 {
        return Err(CallFault::new(MPI_ERR_ARG, "a null pointer where a function belongs"));
    }
    handler.check_place()?;
    handler.set(insert_handler(function)?)?;
} }

mpi! { fn MPI_Comm_set_errhandler(comm: Handle, handler: Handle) on comm => {
    check_handler(handler)?;
    communicators::set_handler(comm, handler)?;
} }

mpi! { fn MPI_Comm_get_errhandler(comm: Handle, handler: Ptr<Handle>) on comm => {
    communicators::check(comm)?;
    handler.check_place()?;
    let own = communicators::handler_of(comm);
    count_handles(own, 1);
    handler.set(own)?;
} }

mpi! {
    /// The function lives on while a communicator has it.
    fn MPI_Errhandler_free(handler: Ptr<Handle>) on MPI_COMM_SELF => {
        let own = check_handler(handler.get()?)?;
        count_handles(own, -1);
        handler.set(MPI_ERRHANDLER_NULL)?;
    }
}

mpi! { fn MPI_Comm_call_errhandler(comm: Handle, code: c_int) -> c_int {
    if let Err(fault) = communicators::check(comm) { return raise("MPI_Comm_call_errhandler", comm, &fault); }
    let handler = communicators::handler_of(comm);
    abort_if_fatal("MPI_Comm_call_errhandler", handler, code, &text_of_code(code));
    call_handler(comm, handler, code);
    MPI_SUCCESS
} }

mpi! { fn MPI_Errhandler_toint(handler: Handle) -> c_int { to_int(handler) } }

mpi! { fn MPI_Errhandler_fromint(number: c_int) -> Handle { of_number(number) } }
