//! This module holds `unsafe` code: places of attributes that the program gives; state of the
//! process.
//!
//! Attributes (MPI 5.0, 7.7): values that a program keeps with communicators and datatypes.

use core::cell::RefCell;
use core::ffi::{c_int, c_void};

use crate::abi::{
    Handle, MPI_APPNUM, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_KEYVAL, MPI_HOST, MPI_IO, MPI_LASTUSEDCODE,
    MPI_PROC_NULL, MPI_TAG_UB, MPI_UNIVERSE_SIZE, MPI_WTIME_IS_GLOBAL,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::attributes::{Attributes, ObjectKind, create, deleted_one, free, key, share};
use crate::objects::{communicators, datatypes, errors};
use crate::process::Owned;

/// The predefined attributes of communicators, where programs find them.
// SAFETY: only calls of MPI use it.
static PREDEFINED: Owned<RefCell<[c_int; 7]>> = unsafe { Owned::new(RefCell::new([0; 7])) };

fn attributes<R>(
    of: ObjectKind,
    object: Handle,
    work: impl FnOnce(&mut Attributes) -> R,
) -> Result<R, CallFault> {
    match of {
        ObjectKind::Comm => communicators::change(object, |data| work(&mut data.attributes)),
        ObjectKind::Datatype => datatypes::change(object, |data| work(&mut data.attributes)),
    }
}

fn set(of: ObjectKind, object: Handle, number: c_int, value: usize) -> Result<(), CallFault> {
    if key(number, of)?.is_gone() {
        return Err(CallFault::new(MPI_ERR_KEYVAL, "an attribute key that was freed"));
    }
    let find = |list: &Attributes| list.iter().find(|(known, _)| *known == number).map(|(_, value)| *value);
    if let Some(old) = attributes(of, object, |list| find(list))? {
        deleted_one(of, object, number, old)?;
    }
    attributes(of, object, |list| {
        list.retain(|(known, _)| *known != number);
        list.push((number, value));
    })?;
    share(number);
    Ok(())
}

fn get(of: ObjectKind, object: Handle, number: c_int) -> Result<Option<usize>, CallFault> {
    key(number, of)?;
    attributes(of, object, |list| list.iter().find(|(known, _)| *known == number).map(|(_, value)| *value))
}

fn delete(of: ObjectKind, object: Handle, number: c_int) -> Result<(), CallFault> {
    let value =
        get(of, object, number)?.ok_or_else(|| CallFault::new(MPI_ERR_ARG, "there is no such attribute"))?;
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
    number.set(create(ObjectKind::Comm, copy, delete, extra))?;
} }

mpi! { fn MPI_Comm_free_keyval(number: Ptr<c_int>) on MPI_COMM_SELF => { free(number, ObjectKind::Comm)?; } }

mpi! { fn MPI_Comm_set_attr(comm: Handle, number: c_int, value: Ptr<c_void>) on comm => {
    if predefined(number).is_some() {
        return Err(CallFault::new(MPI_ERR_KEYVAL, "a predefined attribute cannot be set"));
    }
    set(ObjectKind::Comm, comm, number, value.address())?;
} }

mpi! { fn MPI_Comm_get_attr(comm: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) on comm => {
    communicators::check(comm)?;
    value.check_place()?;
    let found = match predefined(number) {
        Some(place) => Some(place),
        None => get(ObjectKind::Comm, comm, number)?,
    };
    flag.set(found.is_some().into())?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 7.7).
    found.map_or(Ok(()), |found| unsafe { value.cast::<usize>() }.set(found))?;
} }

mpi! { fn MPI_Comm_delete_attr(comm: Handle, number: c_int) on comm => {
    if predefined(number).is_some() {
        return Err(CallFault::new(MPI_ERR_KEYVAL, "a predefined attribute cannot be deleted"));
    }
    delete(ObjectKind::Comm, comm, number)?;
} }

mpi! { fn MPI_Type_create_keyval(copy: usize, delete: usize, number: Ptr<c_int>, extra: Ptr<c_void>) on MPI_COMM_SELF => {
    number.set(create(ObjectKind::Datatype, copy, delete, extra))?;
} }

mpi! { fn MPI_Type_free_keyval(number: Ptr<c_int>) on MPI_COMM_SELF => { free(number, ObjectKind::Datatype)?; } }

mpi! { fn MPI_Type_set_attr(datatype: Handle, number: c_int, value: Ptr<c_void>) on MPI_COMM_SELF => {
    set(ObjectKind::Datatype, datatype, number, value.address())?;
} }

mpi! { fn MPI_Type_get_attr(datatype: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    value.check_place()?;
    let found = get(ObjectKind::Datatype, datatype, number)?;
    flag.set(found.is_some().into())?;
    // SAFETY: the program gives a place for an address (MPI 5.0, 7.7).
    found.map_or(Ok(()), |found| unsafe { value.cast::<usize>() }.set(found))?;
} }

mpi! { fn MPI_Type_delete_attr(datatype: Handle, number: c_int) on MPI_COMM_SELF => {
    delete(ObjectKind::Datatype, datatype, number)?;
} }

// What MPI-1 called them.
mpi! { fn MPI_Attr_put(comm: Handle, number: c_int, value: Ptr<c_void>) as MPI_Comm_set_attr(comm, number, value) }

mpi! { fn MPI_Attr_get(comm: Handle, number: c_int, value: Ptr<c_void>, flag: Ptr<c_int>) as MPI_Comm_get_attr(comm, number, value, flag) }

mpi! { fn MPI_Attr_delete(comm: Handle, number: c_int) as MPI_Comm_delete_attr(comm, number) }

mpi! { fn MPI_Keyval_create(copy: usize, delete: usize, number: Ptr<c_int>, extra: Ptr<c_void>) as MPI_Comm_create_keyval(copy, delete, number, extra) }

mpi! { fn MPI_Keyval_free(number: Ptr<c_int>) as MPI_Comm_free_keyval(number) }
