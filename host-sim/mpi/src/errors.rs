//! This module holds `unsafe` code: functions of the program's are called; state of the process.
//!
//! Errors (MPI 5.0, chapter 9): what a call fails with, error classes and codes, their texts, and
//! handlers.
//!
//! A code of this library is its class and the number of a text that is kept for
//! `MPI_Error_string`: the last 255 of them, in 14 bits, so that codes are at most
//! `MPI_ERR_LASTCODE`. Classes and codes of the program come above.

use core::cell::RefCell;
use core::ffi::{c_char, c_int};
use std::collections::BTreeMap;

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_ERRHANDLER, MPI_ERR_IN_STATUS,
    MPI_ERR_LASTCODE, MPI_ERR_NO_MEM, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN, MPI_MAX_ERROR_STRING, MPI_SUCCESS,
};
use crate::communicators;
use crate::fault::Fault;
use crate::ffi::{Ptr, callback};
use crate::process::handles::{Kind, Table, to_int};
use crate::process::{Owned, engine};

/// Classes of the standard: six bits of a code.
const TEXT_CLASSES: c_int = 63;

/// Texts of errors that the program may still ask for.
struct Kept {
    texts: Vec<String>,
    next: usize,
}

impl Kept {
    const COUNT: usize = 255;

    fn keep(&mut self, class: c_int, text: &str) -> c_int {
        match self.texts.get_mut(self.next) {
            Some(old) => text.clone_into(old),
            None => self.texts.push(text.to_owned()),
        }
        let number = self.next as c_int + 1;
        self.next = (self.next + 1) % Self::COUNT;
        class | number << 6
    }
}

// SAFETY: only calls of MPI use it.
static KEPT: Owned<RefCell<Kept>> = unsafe { Owned::new(RefCell::new(Kept { texts: Vec::new(), next: 0 })) };

/// Classes and codes of the program: what class each is of, and what it says.
// SAFETY: only calls of MPI use it.
static ADDED: Owned<RefCell<BTreeMap<c_int, (c_int, String)>>> =
    unsafe { Owned::new(RefCell::new(BTreeMap::new())) };

/// An error handler of the program. It stays when its handle is freed: a communicator may have it.
#[derive(Clone, Copy)]
struct Handler {
    function: usize,
    /// Handles that the program has been given and has not freed.
    handles: u32,
}

// SAFETY: only calls of MPI use it.
static HANDLERS: Owned<RefCell<Table<Handler>>> =
    unsafe { Owned::new(RefCell::new(Table::new(Kind::Errhandler))) };

/// The code of a fault for the program; its text is kept for `MPI_Error_string`.
pub(crate) fn code_of(fault: &Fault) -> c_int {
    // Waits for several return that very code (MPI 5.0, 3.7.5); statuses have what there is to
    // say.
    let class = fault.class();
    if class > TEXT_CLASSES || class == MPI_ERR_IN_STATUS {
        return class;
    }
    KEPT.borrow_mut().keep(class, fault.text())
}

/// Gives a fault of `function` to the error handler of `comm`; the code that the function returns.
#[cold]
pub(crate) fn raise(function: &str, comm: Handle, fault: &Fault) -> c_int {
    // The handler of a freed one is called for what is left on it, and not for a use of its handle.
    let is_freed = fault.class() == MPI_ERR_COMM && communicators::check(comm).is_err();
    let is_known = !is_freed && communicators::known_handler(comm).is_some();
    let comm = communicators::judge_of(if is_known { comm } else { MPI_COMM_SELF });
    raise_to(function, (comm, communicators::handler_of(comm)), fault)
}

/// Gives a fault of `function` to an error handler, which is told that it came on a communicator;
/// the code that the function returns.
#[cold]
pub(crate) fn raise_to(function: &str, (comm, handler): (Handle, Handle), fault: &Fault) -> c_int {
    let is_fatal = matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT);
    if is_fatal && fault.is_consequence() {
        engine::follow(fault.class(), &format!("{function}: {}", fault.text()))
    }
    let code = code_of(fault);
    handle(function, (comm, handler), code, fault.text());
    code
}

/// Gives an error code of `function` to an error handler, which is told that it came on a
/// communicator.
fn handle(function: &str, (comm, handler): (Handle, Handle), code: c_int, text: &str) {
    match handler {
        MPI_ERRORS_RETURN => {}
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT => {
            // Whichever variant was called, it is the one of large counts that says so.
            let function = function.strip_suffix("_c").unwrap_or(function);
            engine::abort(class_of_code(code), &format!("{function}: {text}"))
        }
        handler => {
            let known = HANDLERS.borrow().get(handler).copied();
            if let Some(known) = known {
                // SAFETY: the program gave it as such a function, or null.
                unsafe { callback::on_error(known.function, comm, code) };
            }
        }
    }
}

fn class_of_code(code: c_int) -> c_int {
    match ADDED.borrow().get(&code) {
        Some((class, _)) => *class,
        None if code <= MPI_ERR_LASTCODE => code & 63,
        None => code,
    }
}

/// The largest code that there is (`MPI_LASTUSEDCODE`).
pub(crate) fn last_used_code() -> c_int {
    ADDED.borrow().last_key_value().map_or(MPI_ERR_LASTCODE, |(code, _)| *code)
}

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

fn added(code: c_int) -> Result<(), Fault> {
    match ADDED.borrow().contains_key(&code) {
        true => Ok(()),
        false => Err(Fault::new(MPI_ERR_ARG, format!("{code} is no error class or code that was added"))),
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
fn text_of_code(code: c_int) -> String {
    if let Some((_, text)) = ADDED.borrow().get(&code) {
        return text.clone();
    }
    let class = text_of_class(class_of_code(code));
    let kept =
        (MPI_SUCCESS..=MPI_ERR_LASTCODE).contains(&code).then_some(code >> 6).filter(|number| *number > 0);
    match kept.and_then(|number| KEPT.borrow().texts.get(number as usize - 1).cloned()) {
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

pub(crate) fn check_handler(handler: Handle) -> Result<Handle, Fault> {
    let is_there = matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
        || HANDLERS.borrow().get(handler).is_some_and(|known| known.handles > 0);
    if is_there { Ok(handler) } else { Err(Fault::handle(MPI_ERR_ERRHANDLER, "error handler", handler)) }
}

mpi! { fn MPI_Comm_create_errhandler(function: usize, handler: Ptr<Handle>) on MPI_COMM_SELF => {
    if function == 0 {
        return Err(Fault::new(MPI_ERR_ARG, "a null pointer where a function belongs"));
    }
    handler.check_place()?;
    let made = HANDLERS.borrow_mut().insert(Handler { function, handles: 1 });
    handler.set(made.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many error handlers"))?)?;
} }

mpi! { fn MPI_Comm_set_errhandler(comm: Handle, handler: Handle) on comm => {
    check_handler(handler)?;
    communicators::set_handler(comm, handler)?;
} }

mpi! { fn MPI_Comm_get_errhandler(comm: Handle, handler: Ptr<Handle>) on comm => {
    communicators::check(comm)?;
    handler.check_place()?;
    let own = communicators::handler_of(comm);
    if let Some(known) = HANDLERS.borrow_mut().get_mut(own) {
        known.handles = known.handles.saturating_add(1);
    }
    handler.set(own)?;
} }

mpi! {
    /// The function lives on while a communicator has it.
    fn MPI_Errhandler_free(handler: Ptr<Handle>) on MPI_COMM_SELF => {
        let own = check_handler(handler.get()?)?;
        if let Some(known) = HANDLERS.borrow_mut().get_mut(own) {
            known.handles = known.handles.saturating_sub(1);
        }
        handler.set(MPI_ERRHANDLER_NULL)?;
    }
}

mpi! { fn MPI_Comm_call_errhandler(comm: Handle, code: c_int) -> c_int {
    if let Err(fault) = communicators::check(comm) { return raise("MPI_Comm_call_errhandler", comm, &fault); }
    let handler = communicators::handler_of(comm);
    handle("MPI_Comm_call_errhandler", (comm, handler), code, &text_of_code(code));
    MPI_SUCCESS
} }

mpi! { fn MPI_Errhandler_toint(handler: Handle) -> c_int { to_int(handler) } }
mpi! { fn MPI_Errhandler_fromint(number: c_int) -> Handle { HANDLERS.borrow().handle_of(number) } }
