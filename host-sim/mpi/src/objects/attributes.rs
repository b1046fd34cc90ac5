//! This module holds `unsafe` code: functions of the program's are called; state of the process.
//!
//! Keys of attributes (MPI 5.0, 7.7), and the functions that are called when an attribute is copied
//! or deleted.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};

use crate::abi::{Handle, MPI_ERR_KEYVAL, MPI_KEYVAL_INVALID};
use crate::fault::CallFault;
use crate::ffi::{Ptr, callback};
use crate::process::Owned;

/// The value of `MPI_COMM_DUP_FN`.
const COPIES: usize = 1;

/// The kind of object that a key belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectKind {
    Comm,
    Datatype,
}

/// A key of attributes.
#[derive(Clone, Copy)]
pub(crate) struct Keyval {
    of: ObjectKind,
    copy: usize,
    delete: usize,
    extra: Ptr<c_void>,
    is_freed: bool,
    /// Set once it has been given to an object: a function that finds it there may free it too, as
    /// delete functions do.
    is_shared: bool,
}

impl Keyval {
    /// Returns true if it was freed and no object can have it.
    pub(crate) const fn is_gone(&self) -> bool {
        self.is_freed && !self.is_shared
    }
}

/// The attributes of an object, in the order in which they were set.
pub(crate) type Attributes = Vec<(c_int, usize)>;

/// Keys are numbers from here on.
const FIRST: c_int = 0x1000;

// SAFETY: only calls of MPI use it.
static KEYS: Owned<RefCell<Vec<Keyval>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

pub(crate) fn key(number: c_int, of: ObjectKind) -> Result<Keyval, CallFault> {
    let known =
        usize::try_from(number.wrapping_sub(FIRST)).ok().and_then(|place| KEYS.borrow().get(place).copied());
    known.filter(|key| key.of == of).ok_or_else(|| {
        CallFault::new(MPI_ERR_KEYVAL, format!("{number:#x} is no attribute key of such objects"))
    })
}

pub(crate) fn create(of: ObjectKind, copy: usize, delete: usize, extra: Ptr<c_void>) -> c_int {
    let mut keys = KEYS.borrow_mut();
    keys.push(Keyval { of, copy, delete, extra, is_freed: false, is_shared: false });
    FIRST + keys.len() as c_int - 1
}

pub(crate) fn free(number: Ptr<c_int>, of: ObjectKind) -> Result<(), CallFault> {
    let place = number.get()?;
    let known = key(place, of)?;
    let gone = || CallFault::new(MPI_ERR_KEYVAL, "an attribute key that was freed before");
    if known.is_gone() {
        return Err(gone());
    }
    let mut keys = KEYS.borrow_mut();
    keys.get_mut((place - FIRST) as usize).ok_or_else(gone)?.is_freed = true;
    number.set(MPI_KEYVAL_INVALID)
}

/// Returns the attributes that the copy of an object gets; a copy function may refuse.
pub(crate) fn copied(
    of: ObjectKind,
    object: Handle,
    attributes: &Attributes,
) -> Result<Attributes, CallFault> {
    let mut copies = Attributes::new();
    for &(number, value) in attributes {
        let Keyval { copy, extra, .. } = key(number, of)?;
        let copy = match copy {
            COPIES => Some(value),
            // SAFETY: the program gave it as such a function, or null.
            copy => unsafe { callback::copy(copy, object, number, extra, value) }
                .map_err(|code| CallFault::new(code, "an attribute's copy function refused"))?,
        };
        copies.extend(copy.map(|copy| (number, copy)));
    }
    Ok(copies)
}

/// Tells the delete functions, in reverse order, that an object goes away. The attributes from the
/// first whose function refuses are left.
pub(crate) fn deleted(of: ObjectKind, object: Handle, attributes: &mut Attributes) -> Result<(), CallFault> {
    while let Some(&(number, value)) = attributes.last() {
        deleted_one(of, object, number, value)?;
        attributes.pop();
    }
    Ok(())
}

pub(crate) fn deleted_one(
    of: ObjectKind,
    object: Handle,
    number: c_int,
    value: usize,
) -> Result<(), CallFault> {
    let Keyval { delete, extra, .. } = key(number, of)?;
    // SAFETY: the program gave it as such a function, or null.
    match unsafe { callback::delete(delete, object, number, value, extra) } {
        0 => Ok(()),
        code => Err(CallFault::new(code, "an attribute's delete function refused")),
    }
}

/// Notes that an object has been given a key.
pub(crate) fn share(number: c_int) {
    if let Some(key) = KEYS.borrow_mut().get_mut((number - FIRST) as usize) {
        key.is_shared = true;
    }
}
