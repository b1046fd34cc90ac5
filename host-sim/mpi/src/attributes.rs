//! This module holds `unsafe` code: functions of the program's are called; state of the process.
//!
//! Attributes (MPI 5.0, 7.7): values that a program keeps with communicators and datatypes, and the
//! functions that are told when one is copied or deleted.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};

use crate::abi::{
    Handle, MPI_APPNUM, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_KEYVAL, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID,
    MPI_LASTUSEDCODE, MPI_PROC_NULL, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WTIME_IS_GLOBAL,
};
use crate::fault::Fault;
use crate::ffi::{Ptr, callback};
use crate::process::Owned;
use crate::{communicators, datatypes, errors};

/// The value of `MPI_COMM_DUP_FN`.
const COPIES: usize = 1;

/// The kind of object that a key belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Comm,
    Datatype,
}

/// A key.
#[derive(Clone, Copy)]
struct Key {
    of: Of,
    copy: usize,
    delete: usize,
    extra: Ptr<c_void>,
    is_freed: bool,
    /// Set once it has been given to an object: a function that finds it there may free it too, as
    /// delete functions do.
    is_shared: bool,
}

/// The attributes of an object, in the order in which they were set.
pub(crate) type Attributes = Vec<(c_int, usize)>;

/// Keys are numbers from here on.
const FIRST: c_int = 0x1000;

// SAFETY: only calls of MPI use it.
static KEYS: Owned<RefCell<Vec<Key>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// The predefined attributes of communicators, where programs find them.
// SAFETY: only calls of MPI use it.
static PREDEFINED: Owned<RefCell<[c_int; 7]>> = unsafe { Owned::new(RefCell::new([0; 7])) };

fn key(number: c_int, of: Of) -> Result<Key, Fault> {
    let known =
        usize::try_from(number.wrapping_sub(FIRST)).ok().and_then(|place| KEYS.borrow().get(place).copied());
    known
        .filter(|key| key.of == of)
        .ok_or_else(|| Fault::new(MPI_ERR_KEYVAL, format!("{number:#x} is no attribute key of such objects")))
}

fn create(of: Of, copy: usize, delete: usize, extra: Ptr<c_void>) -> c_int {
    let mut keys = KEYS.borrow_mut();
    keys.push(Key { of, copy, delete, extra, is_freed: false, is_shared: false });
    FIRST + keys.len() as c_int - 1
}

fn free(number: Ptr<c_int>, of: Of) -> Result<(), Fault> {
    let place = number.get()?;
    let known = key(place, of)?;
    let gone = || Fault::new(MPI_ERR_KEYVAL, "an attribute key that was freed before");
    if known.is_freed && !known.is_shared {
        return Err(gone());
    }
    let mut keys = KEYS.borrow_mut();
    keys.get_mut((place - FIRST) as usize).ok_or_else(gone)?.is_freed = true;
    number.set(MPI_KEYVAL_INVALID)
}

/// Returns the attributes that the copy of an object gets; a copy function may refuse.
pub(crate) fn copied(of: Of, object: Handle, attributes: &Attributes) -> Result<Attributes, Fault> {
    let mut copies = Attributes::new();
    for &(number, value) in attributes {
        let Key { copy, extra, .. } = key(number, of)?;
        let copy = match copy {
            COPIES => Some(value),
            // SAFETY: the program gave it as such a function, or null.
            copy => unsafe { callback::copy(copy, object, number, extra, value) }
                .map_err(|code| Fault::new(code, "an attribute's copy function refused"))?,
        };
        copies.extend(copy.map(|copy| (number, copy)));
    }
    Ok(copies)
}

/// Tells the delete functions, in reverse order, that an object goes away.
pub(crate) fn deleted(of: Of, object: Handle, attributes: &Attributes) -> Result<(), Fault> {
    attributes.iter().rev().try_for_each(|&(number, value)| deleted_one(of, object, number, value))
}

fn deleted_one(of: Of, object: Handle, number: c_int, value: usize) -> Result<(), Fault> {
    let Key { delete, extra, .. } = key(number, of)?;
    // SAFETY: the program gave it as such a function, or null.
    match unsafe { callback::delete(delete, object, number, value, extra) } {
        0 => Ok(()),
        code => Err(Fault::new(code, "an attribute's delete function refused")),
    }
}

fn attributes<R>(of: Of, object: Handle, work: impl FnOnce(&mut Attributes) -> R) -> Result<R, Fault> {
    match of {
        Of::Comm => communicators::change(object, |data| work(&mut data.attributes)),
        Of::Datatype => datatypes::change(object, |data| work(&mut data.attributes)),
    }
}

fn set(of: Of, object: Handle, number: c_int, value: usize) -> Result<(), Fault> {
    if key(number, of)?.is_freed {
        return Err(Fault::new(MPI_ERR_KEYVAL, "an attribute key that was freed"));
    }
    let find = |list: &Attributes| list.iter().find(|(known, _)| *known == number).map(|(_, value)| *value);
    if let Some(old) = attributes(of, object, |list| find(list))? {
        deleted_one(of, object, number, old)?;
    }
    attributes(of, object, |list| {
        list.retain(|(known, _)| *known != number);
        list.push((number, value));
    })?;
    if let Some(key) = KEYS.borrow_mut().get_mut((number - FIRST) as usize) {
        key.is_shared = true;
    }
    Ok(())
}

fn get(of: Of, object: Handle, number: c_int) -> Result<Option<usize>, Fault> {
    key(number, of)?;
    attributes(of, object, |list| list.iter().find(|(known, _)| *known == number).map(|(_, value)| *value))
}

fn delete(of: Of, object: Handle, number: c_int) -> Result<(), Fault> {
    let value =
        get(of, object, number)?.ok_or_else(|| Fault::new(MPI_ERR_ARG, "there is no such attribute"))?;
    deleted_one(of, object, number, value)?;
    attributes(of, object, |list| list.retain(|(known, _)| *known != number))
}

/// The number of this program among the programs of the job, as `aldis-run` says it: of one
/// program, the first.
fn app_number() -> c_int {
    std::env::var("ALDIS_APPNUM").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The place where a predefined attribute's value is.
fn predefined(number: c_int) -> Option<usize> {
    let place =
        [MPI_TAG_UB, MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_LASTUSEDCODE, MPI_UNIVERSE_SIZE]
            .iter()
            .position(|known| *known == number)?;
    let value = match number {
        MPI_TAG_UB => c_int::MAX,
        MPI_HOST | MPI_IO => MPI_PROC_NULL,
        MPI_LASTUSEDCODE => errors::last_used_code(),
        MPI_APPNUM => app_number(),
        MPI_UNIVERSE_SIZE => communicators::world_size(),
        _ => 0,
    };
    let mut values = PREDEFINED.borrow_mut();
    *values.get_mut(place)? = value;
    values.get(place).map(|value| core::ptr::from_ref(value).expose_provenance())
}

mpi! { fn MPI_Comm_create_keyval(copy: usize, delete: usize, number: Ptr<c_int>, extra: Ptr<c_void>) on MPI_COMM_SELF => {
    number.set(create(Of::Comm, copy, delete, extra))?;
} }

mpi! { fn MPI_Comm_free_keyval(number: Ptr<c_int>) on MPI_COMM_SELF => { free(number, Of::Comm)?; } }

mpi! { fn MPI_Comm_set_attr(comm: Handle, number: c_int, value: Ptr<c_void>) on comm => {
    if predefined(number).is_some() {
        return Err(Fault::new(MPI_ERR_KEYVAL, "a predefined attribute cannot be set"));
    }
    set(Of::Comm, comm, number, value.address())?;
} }

mpi! { fn MPI_Comm_get_attr(comm: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) on comm => {
    communicators::check(comm)?;
    value.check_place()?;
    let found = match predefined(number) {
        Some(place) => Some(place),
        None => get(Of::Comm, comm, number)?,
    };
    flag.set(found.is_some().into())?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 7.7).
    found.map_or(Ok(()), |found| unsafe { value.cast::<usize>() }.set(found))?;
} }

mpi! { fn MPI_Comm_delete_attr(comm: Handle, number: c_int) on comm => {
    if predefined(number).is_some() {
        return Err(Fault::new(MPI_ERR_KEYVAL, "a predefined attribute cannot be deleted"));
    }
    delete(Of::Comm, comm, number)?;
} }

mpi! { fn MPI_Type_create_keyval(copy: usize, delete: usize, number: Ptr<c_int>, extra: Ptr<c_void>) on MPI_COMM_SELF => {
    number.set(create(Of::Datatype, copy, delete, extra))?;
} }

mpi! { fn MPI_Type_free_keyval(number: Ptr<c_int>) on MPI_COMM_SELF => { free(number, Of::Datatype)?; } }

mpi! { fn MPI_Type_set_attr(datatype: Handle, number: c_int, value: Ptr<c_void>) on MPI_COMM_SELF => {
    set(Of::Datatype, datatype, number, value.address())?;
} }

mpi! { fn MPI_Type_get_attr(datatype: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    value.check_place()?;
    let found = get(Of::Datatype, datatype, number)?;
    flag.set(found.is_some().into())?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 7.7).
    found.map_or(Ok(()), |found| unsafe { value.cast::<usize>() }.set(found))?;
} }

mpi! { fn MPI_Type_delete_attr(datatype: Handle, number: c_int) on MPI_COMM_SELF => {
    delete(Of::Datatype, datatype, number)?;
} }

// What MPI-1 called them.
mpi! { fn MPI_Attr_put(comm: Handle, number: c_int, value: Ptr<c_void>) as MPI_Comm_set_attr(comm, number, value) }
mpi! { fn MPI_Attr_get(comm: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) as MPI_Comm_get_attr(comm, number, value, flag) }
mpi! { fn MPI_Attr_delete(comm: Handle, number: c_int) as MPI_Comm_delete_attr(comm, number) }
mpi! { fn MPI_Keyval_create(copy: usize, delete: usize, number: Ptr<c_int>, extra: Ptr<c_void>) as MPI_Comm_create_keyval(copy, delete, number, extra) }
mpi! { fn MPI_Keyval_free(number: Ptr<c_int>) as MPI_Comm_free_keyval(number) }
