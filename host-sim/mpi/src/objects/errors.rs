//! This module holds `unsafe` code: functions of the program's are called; state of the process.
//!
//! Error codes and error handlers (MPI 5.0, chapter 9).
//!
//! A code of this library is its class and the number of a text that is kept for
//! `MPI_Error_string`: the last 255 of them, in 14 bits, so that codes are at most
//! `MPI_ERR_LASTCODE`. Classes and codes of the program come above.

use core::cell::RefCell;
use core::ffi::c_int;
use std::collections::BTreeMap;

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_ERRHANDLER, MPI_ERR_IN_STATUS,
    MPI_ERR_LASTCODE, MPI_ERR_NO_MEM, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_SUCCESS,
};
use crate::fault::CallFault;
use crate::ffi::callback;
use crate::objects::{communicators, sessions};
use crate::process::handles::{HandleKind, HandleTable};
use crate::process::{Owned, engine};

/// Classes of the standard: six bits of a code.
pub(crate) const TEXT_CLASSES: c_int = 63;

/// Texts of errors that the program may still ask for.
struct KeptTexts {
    texts: Vec<String>,
    next: usize,
}

impl KeptTexts {
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
static KEPT: Owned<RefCell<KeptTexts>> =
    unsafe { Owned::new(RefCell::new(KeptTexts { texts: Vec::new(), next: 0 })) };

/// Classes and codes of the program: what class each is of, and what it says.
// SAFETY: only calls of MPI use it.
pub(crate) static ADDED: Owned<RefCell<BTreeMap<c_int, (c_int, String)>>> =
    unsafe { Owned::new(RefCell::new(BTreeMap::new())) };

/// An error handler of the program. It stays when its handle is freed: a communicator may have it.
#[derive(Clone, Copy)]
struct Handler {
    function: usize,
    /// Handles that the program has been given and has not freed.
    handles: u32,
}

// SAFETY: only calls of MPI use it.
static HANDLERS: Owned<RefCell<HandleTable<Handler>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Errhandler))) };

/// The code of a fault for the program; its text is kept for `MPI_Error_string`.
pub(crate) fn code_of(fault: &CallFault) -> c_int {
    // Waits for several return that very code (MPI 5.0, 3.7.5); statuses have what there is to
    // say.
    let class = fault.class();
    if class > TEXT_CLASSES || class == MPI_ERR_IN_STATUS {
        return class;
    }
    KEPT.borrow_mut().keep(class, fault.text())
}

/// Gives a fault of `function` to the error handler of `comm`, which may be a session instead; the
/// code that the function returns.
#[cold]
pub(crate) fn raise(function: &str, comm: Handle, fault: &CallFault) -> c_int {
    if let Some(handler) = sessions::handler_of(comm) {
        return raise_to(function, comm, handler, fault);
    }
    // The handler of a freed one is called for what is left on it, and not for a use of its handle.
    let is_freed = fault.class() == MPI_ERR_COMM && communicators::check(comm).is_err();
    let is_known = !is_freed && communicators::known_handler(comm).is_some();
    let is_of_call = fault.class() == MPI_ERR_ARG && communicators::has_usual_handler(comm);
    let comm = communicators::judge_of(if is_known && !is_of_call { comm } else { MPI_COMM_SELF });
    raise_to(function, comm, communicators::handler_of(comm), fault)
}

/// Ends a call that has not yet made the object whose error handler is to be called, with the
/// handler for it.
pub(crate) fn ended(function: &str, object: Handle, handler: Handle, result: Result<(), CallFault>) -> c_int {
    match (result, check_handler(handler)) {
        (Ok(()), _) => MPI_SUCCESS,
        (Err(fault), Ok(handler)) => raise_to(function, object, handler, &fault),
        (Err(fault), Err(_)) => raise(function, MPI_COMM_SELF, &fault),
    }
}

/// Gives a fault of `function` on a communicator or a session to an error handler; the code that
/// the function returns.
#[cold]
pub(crate) fn raise_to(function: &str, comm: Handle, handler: Handle, fault: &CallFault) -> c_int {
    if is_fatal(handler) && fault.is_consequence() {
        engine::follow(fault.class(), &format!("{function}: {}", fault.text()))
    }
    let code = code_of(fault);
    abort_if_fatal(function, handler, code, fault.text());
    call_handler(comm, handler, code);
    code
}

const fn is_fatal(handler: Handle) -> bool {
    matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT)
}

/// Ends the job by an error of `function`, if the handler is one that does.
pub(crate) fn abort_if_fatal(function: &str, handler: Handle, code: c_int, text: &str) {
    if is_fatal(handler) {
        // Whichever variant was called, it is the one of large counts that says so.
        let function = function.strip_suffix("_c").unwrap_or(function);
        engine::abort(class_of_code(code), &format!("{function}: {text}"))
    }
}

/// Calls an error handler of the program's, if it is one, with an error on a communicator.
pub(crate) fn call_handler(comm: Handle, handler: Handle, code: c_int) {
    let known = HANDLERS.borrow().get(handler).copied();
    if let Some(known) = known {
        // SAFETY: the program gave it as such a function, or null.
        unsafe { callback::on_error(known.function, comm, code) };
    }
}

pub(crate) fn class_of_code(code: c_int) -> c_int {
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

pub(crate) fn check_handler(handler: Handle) -> Result<Handle, CallFault> {
    let is_there = matches!(handler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
        || HANDLERS.borrow().get(handler).is_some_and(|known| known.handles > 0);
    if is_there { Ok(handler) } else { Err(CallFault::handle(MPI_ERR_ERRHANDLER, "error handler", handler)) }
}

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    HANDLERS.borrow().handle_of(number)
}

/// A handle for an error handler of the program's.
pub(crate) fn insert_handler(function: usize) -> Result<Handle, CallFault> {
    let made = HANDLERS.borrow_mut().insert(Handler { function, handles: 1 });
    made.ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many error handlers"))
}

/// Counts the handles of an error handler that the program has: one more, or one less.
pub(crate) fn count_handles(handler: Handle, change: i32) {
    if let Some(known) = HANDLERS.borrow_mut().get_mut(handler) {
        known.handles = known.handles.saturating_add_signed(change);
    }
}

/// The text that is kept under this number.
pub(crate) fn kept_text(number: c_int) -> Option<String> {
    KEPT.borrow().texts.get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
}
