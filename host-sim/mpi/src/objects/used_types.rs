//! This module holds `unsafe` code: state of the process.
//!
//! Datatypes that operations of the library still work with. A program may free them meanwhile
//! (MPI 5.0, 5.1.9): their handles are gone at once, the types when the last operation that uses
//! them is.
//!
//! Messages keep their types in the kernel. What is kept here is for collectives and buffered
//! sends, which pack and unpack by types when they are started and when they are over.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;

use aldis_kernel::datatype::Datatype;

use crate::abi::Handle;
use crate::fault::CallFault;
use crate::objects::datatypes::{Type, change};
use crate::process::{Owned, engine};

/// Types that an operation which is being made uses, if one is.
// SAFETY: only calls of MPI use it.
static NOTED: Owned<RefCell<Option<Vec<Handle>>>> = unsafe { Owned::new(RefCell::new(None)) };

/// Types that the program has freed and operations use.
// SAFETY: only calls of MPI use it.
static FREED: Owned<RefCell<Option<HashMap<Handle, Type>>>> = unsafe { Owned::new(RefCell::new(None)) };

/// Types of the kernel's that are to be freed as soon as it can be told.
// SAFETY: only calls of MPI use it.
static LATE: Owned<RefCell<Vec<Datatype>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// The number of operations at work, for which freed types are kept.
// SAFETY: only calls of MPI use it.
static WORKING: Owned<Cell<u32>> = unsafe { Owned::new(Cell::new(0)) };

/// The types that an operation uses, for as long as it exists.
#[derive(Debug, Default)]
pub(crate) struct UsedTypes(Vec<Handle>);

impl Drop for UsedTypes {
    fn drop(&mut self) {
        for handle in core::mem::take(&mut self.0) {
            let is_live = change(handle, |known| known.users = known.users.saturating_sub(1)).is_ok();
            if !is_live {
                let_go(handle);
            }
        }
        free_late();
    }
}

/// An operation fewer uses a type that was freed.
fn let_go(handle: Handle) {
    let mut freed = FREED.borrow_mut();
    let Some(freed) = freed.as_mut() else { return };
    let Some(known) = freed.get_mut(&handle) else { return };
    known.users = known.users.saturating_sub(1);
    if known.users == 0
        && let Some(known) = freed.remove(&handle)
    {
        LATE.borrow_mut().push(known.datatype);
    }
}

/// Frees what could not be freed before, since the engine was at work.
fn free_late() {
    if LATE.borrow().is_empty() {
        return;
    }
    // What the engine refuses now, being at work or gone, waits.
    let _ = engine::with(|engine| {
        let types = engine.types()?;
        for datatype in LATE.take() {
            types.free(datatype)?;
        }
        Ok(())
    });
}

/// Frees a type whose handle is gone, at once or when it is used no more.
pub(crate) fn free(handle: Handle, known: Type) -> Result<(), CallFault> {
    free_late();
    if known.users > 0 {
        FREED.borrow_mut().get_or_insert_default().insert(handle, known);
        return Ok(());
    }
    engine::with(|engine| Ok(engine.types()?.free(known.datatype)?))
}

/// Looks at a freed type, for an operation that uses it.
pub(crate) fn look<R>(handle: Handle, look: impl FnOnce(&Type) -> R) -> Option<R> {
    if WORKING.get() == 0 {
        return None;
    }
    FREED.borrow().as_ref()?.get(&handle).map(look)
}

/// Notes that the operation which is being made uses a type.
#[cold]
pub(crate) fn note(handle: Handle) {
    if let Some(noted) = NOTED.borrow_mut().as_mut()
        && !noted.contains(&handle)
    {
        noted.push(handle);
    }
}

/// Makes an operation, and keeps the types that it uses.
pub(crate) fn of<R>(make: impl FnOnce() -> Result<R, CallFault>) -> Result<(R, UsedTypes), CallFault> {
    NOTED.replace(Some(Vec::new()));
    let made = make();
    let noted = NOTED.take().unwrap_or_default();
    let made = made?;
    let mut used = UsedTypes::default();
    for handle in noted {
        change(handle, |known| known.users = known.users.saturating_add(1))?;
        used.0.push(handle);
    }
    Ok((made, used))
}

/// Does some of the work of an operation, by the types that it uses, freed or not.
pub(crate) fn working<R>(work: impl FnOnce() -> R) -> R {
    WORKING.set(WORKING.get().wrapping_add(1));
    let done = work();
    WORKING.set(WORKING.get().wrapping_sub(1));
    done
}
