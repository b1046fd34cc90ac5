//! Info objects (MPI 5.0, chapter 10).

use core::ffi::{c_char, c_int};

use crate::abi::{
    Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY, MPI_ERR_INFO_VALUE,
    MPI_INFO_NULL, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL,
};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::info::{Info, change, environment, free, insert, look, of_number};
use crate::process::handles::to_int;

fn key(text: Ptr<c_char>) -> Result<String, CallFault> {
    let key = text.text()?;
    match key.len() {
        1..MAX_KEY => Ok(key),
        len => Err(CallFault::new(
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
    free(info.get()?)?;
    info.set(MPI_INFO_NULL)?;
} }

mpi! { fn MPI_Info_set(info: Handle, name: Ptr<c_char>, text: Ptr<c_char>) on MPI_COMM_SELF => {
    let (key, text) = (key(name)?, text.text()?);
    if text.len() >= MPI_MAX_INFO_VAL as usize {
        return Err(CallFault::new(MPI_ERR_INFO_VALUE, format!("a value of {} bytes", text.len())));
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
    gone.ok_or_else(|| CallFault::new(MPI_ERR_INFO_NOKEY, format!("no key {key:?}")))?;
} }

mpi! { fn MPI_Info_get_nkeys(info: Handle, count: Ptr<c_int>) on MPI_COMM_SELF => {
    count.set(look(info, Vec::len)? as c_int)?;
} }

mpi! { fn MPI_Info_get_nthkey(info: Handle, number: c_int, name: Ptr<c_char>) on MPI_COMM_SELF => {
    let key = look(info, |info| info.get(usize::try_from(number).ok()?).map(|(key, _)| key.clone()))?;
    let key = key.ok_or_else(|| CallFault::new(MPI_ERR_ARG, format!("no key with the number {number}")))?;
    name.set_text(&key, MAX_KEY)?;
} }

mpi! { fn MPI_Info_get(info: Handle, name: Ptr<c_char>, room: c_int, text: Ptr<c_char>, flag: Ptr<c_int>) on MPI_COMM_SELF => {
    let key = key(name)?;
    let room = usize::try_from(room).map_err(|_| CallFault::new(MPI_ERR_ARG, format!("room for {room} bytes")))?;
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

mpi! { fn MPI_Info_fromint(number: c_int) -> Handle { of_number(number) } }
