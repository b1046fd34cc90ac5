//! This module holds `unsafe` code: state of the process.
//!
//! Info objects (MPI 5.0, chapter 10): keys and values, in the order in which they were set.

use core::cell::RefCell;
use core::ffi::{c_char, c_int};

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_INFO, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY,
    MPI_ERR_INFO_VALUE, MPI_ERR_NO_MEM, MPI_INFO_ENV, MPI_INFO_NULL, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL,
};
use crate::fault::Fault;
use crate::ffi::Ptr;
use crate::process::Owned;
use crate::process::handles::{Kind, Table, to_int};

/// Keys and values.
pub(crate) type Info = Vec<(String, String)>;

// SAFETY: only calls of MPI use it.
static INFOS: Owned<RefCell<Table<Info>>> = unsafe { Owned::new(RefCell::new(Table::new(Kind::Info))) };

/// Returns what is known about the start of the program (MPI 5.0, 11.6).
fn environment() -> Info {
    let mut arguments = std::env::args();
    let command = arguments.next().unwrap_or_default();
    let folder = aldis_sys::process::current_dir()
        .map_or_else(|_| String::new(), |folder| folder.display().to_string());
    let rest = arguments.collect::<Vec<_>>().join(" ");
    let known = [
        ("command", command),
        ("argv", rest),
        ("wdir", folder),
        ("thread_level", "MPI_THREAD_MULTIPLE".into()),
    ];
    known.map(|(key, value)| (key.to_owned(), value)).into()
}

/// A copy of an info object; of none, of nothing.
pub(crate) fn of(handle: Handle) -> Result<Info, Fault> {
    match handle {
        MPI_INFO_NULL => Ok(Info::new()),
        MPI_INFO_ENV => Ok(environment()),
        handle => look(handle, Info::clone),
    }
}

/// Refuses what is no info object, for a function that looks for no hints in it.
pub(crate) fn check(handle: Handle) -> Result<(), Fault> {
    match handle {
        MPI_INFO_NULL | MPI_INFO_ENV => Ok(()),
        handle => look(handle, |_| ()),
    }
}

/// Hints for communicators that are known (MPI 5.0, 7.4.4); others are ignored, and so not given
/// back.
const OF_COMMUNICATORS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// The pairs of an info object that a communicator takes.
pub(crate) fn of_communicator(handle: Handle) -> Result<Info, Fault> {
    let given = of(handle)?;
    Ok(given.into_iter().filter(|(key, _)| OF_COMMUNICATORS.contains(&key.as_str())).collect())
}

/// A new object.
pub(crate) fn insert(info: Info) -> Result<Handle, Fault> {
    INFOS.borrow_mut().insert(info).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many info objects"))
}

fn look<R>(handle: Handle, look: impl FnOnce(&Info) -> R) -> Result<R, Fault> {
    if handle == MPI_INFO_ENV {
        return Ok(look(&environment()));
    }
    INFOS.borrow().get(handle).map(look).ok_or_else(|| Fault::handle(MPI_ERR_INFO, "info object", handle))
}

fn change<R>(handle: Handle, change: impl FnOnce(&mut Info) -> R) -> Result<R, Fault> {
    let changed = INFOS.borrow_mut().get_mut(handle).map(change);
    changed.ok_or_else(|| Fault::handle(MPI_ERR_INFO, "info object that can be changed", handle))
}

fn key(text: Ptr<c_char>) -> Result<String, Fault> {
    let key = text.text()?;
    match key.len() {
        1..MAX_KEY => Ok(key),
        len => Err(Fault::new(
            MPI_ERR_INFO_KEY,
            format!("a key of {len} bytes where 1 to {} are allowed", MAX_KEY - 1),
        )),
    }
}

const MAX_KEY: usize = MPI_MAX_INFO_KEY as usize;

fn value(info: &Info, key: &str) -> Option<String> {
    info.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
}

mpi! { fn MPI_Info_create(info: Ptr<Handle>) on MPI_COMM_SELF => { info.set(insert(Info::new())?)?; } }

mpi! { fn MPI_Info_create_env(_argc: c_int, _argv: Ptr<Ptr<c_char>>, info: Ptr<Handle>) on MPI_COMM_SELF => {
    info.set(insert(environment())?)?;
} }

mpi! { fn MPI_Info_dup(info: Handle, made: Ptr<Handle>) on MPI_COMM_SELF => {
    let copy = look(info, Info::clone)?;
    made.set(insert(copy)?)?;
} }

mpi! { fn MPI_Info_free(info: Ptr<Handle>) on MPI_COMM_SELF => {
    let handle = info.get()?;
    let freed = INFOS.borrow_mut().remove(handle);
    freed.ok_or_else(|| Fault::handle(MPI_ERR_INFO, "info object", handle))?;
    info.set(MPI_INFO_NULL)?;
} }

mpi! { fn MPI_Info_set(info: Handle, name: Ptr<c_char>, text: Ptr<c_char>) on MPI_COMM_SELF => {
    let (key, text) = (key(name)?, text.text()?);
    if text.len() >= MPI_MAX_INFO_VAL as usize {
        return Err(Fault::new(MPI_ERR_INFO_VALUE, format!("a value of {} bytes", text.len())));
    }
    change(info, |info| match info.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = text,
        None => info.push((key, text)),
    })?;
} }

mpi! { fn MPI_Info_delete(info: Handle, name: Ptr<c_char>) on MPI_COMM_SELF => {
    let key = key(name)?;
    let gone = change(info, |info| {
        let place = info.iter().position(|(known, _)| *known == key);
        place.map(|place| info.remove(place))
    })?;
    gone.ok_or_else(|| Fault::new(MPI_ERR_INFO_NOKEY, format!("no key {key:?}")))?;
} }

mpi! { fn MPI_Info_get_nkeys(info: Handle, count: Ptr<c_int>) on MPI_COMM_SELF => {
    count.set(look(info, Vec::len)? as c_int)?;
} }

mpi! { fn MPI_Info_get_nthkey(info: Handle, number: c_int, name: Ptr<c_char>) on MPI_COMM_SELF => {
    let key = look(info, |info| info.get(usize::try_from(number).ok()?).map(|(key, _)| key.clone()))?;
    let key = key.ok_or_else(|| Fault::new(MPI_ERR_ARG, format!("no key with the number {number}")))?;
    name.set_text(&key, MAX_KEY)?;
} }

mpi! { fn MPI_Info_get(info: Handle, name: Ptr<c_char>, room: c_int, text: Ptr<c_char>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    let key = key(name)?;
    let room = usize::try_from(room).map_err(|_| Fault::new(MPI_ERR_ARG, format!("room for {room} bytes")))?;
    let found = look(info, |info| value(info, &key))?;
    flag.set(found.is_some().into())?;
    if let Some(found) = found {
        text.set_text(&found, room + 1)?;
    }
} }

mpi! { fn MPI_Info_get_string(info: Handle, name: Ptr<c_char>, room: Ptr<c_int>, text: Ptr<c_char>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    let key = key(name)?;
    let found = look(info, |info| value(info, &key))?;
    flag.set(found.is_some().into())?;
    if let Some(found) = found {
        if let Some(room) = usize::try_from(room.get()?).ok().filter(|room| *room > 0) {
            text.set_text(&found, room)?;
        }
        room.set(found.len() as c_int + 1)?;
    }
} }

mpi! { fn MPI_Info_get_valuelen(info: Handle, name: Ptr<c_char>, len: Ptr<c_int>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    let key = key(name)?;
    let found = look(info, |info| value(info, &key))?;
    flag.set(found.is_some().into())?;
    if let Some(found) = found {
        len.set(found.len() as c_int)?;
    }
} }

mpi! { fn MPI_Info_toint(info: Handle) -> c_int { to_int(info) } }
mpi! { fn MPI_Info_fromint(number: c_int) -> Handle { INFOS.borrow().handle_of(number) } }
