//! This module holds `unsafe` code: the arguments are the program's.
//!
//! Packing (MPI 5.0, 5.2 and 5.3): data in one piece, as this machine has it or as external32.

use core::ffi::{c_char, c_int};

use aldis_kernel::datatype::Form;

use crate::abi::{Handle, MPI_COMM_SELF, MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_TRUNCATE};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::communicators;
use crate::objects::datatypes::{ProgramData, look, small};
use crate::process::engine;

/// Packs behind `position`, or unpacks, and moves it on.
fn place(
    size: i64,
    position: Ptr<i64>,
    work: impl FnOnce(usize, &mut usize) -> Result<(), CallFault>,
) -> Result<(), CallFault> {
    let outside = || CallFault::new(MPI_ERR_ARG, "a position outside of the packed data");
    let size = usize::try_from(size).map_err(|_| outside())?;
    let mut now = usize::try_from(position.get()?).ok().filter(|now| *now <= size).ok_or_else(outside)?;
    work(size, &mut now)?;
    position.set(now as i64)
}

/// Does `work` with a position that is an `int`.
///
/// # Safety
/// `work` keeps no copy of the pointer.
unsafe fn narrow(position: Ptr<c_int>, work: impl FnOnce(Ptr<i64>) -> c_int) -> Result<c_int, CallFault> {
    let mut wide = i64::from(position.get()?);
    let place = core::ptr::from_mut(&mut wide).expose_provenance();
    // SAFETY: the number is there until `work` is done, which keeps no pointer to it.
    let code = work(unsafe { Ptr::at(place) });
    position.set(small(wide))?;
    Ok(code)
}

/// Packs data.
///
/// # Safety
/// The stream has so many bytes, which nothing else touches meanwhile.
unsafe fn pack(
    data: ProgramData,
    form: Form,
    stream: Address,
    size: i64,
    position: Ptr<i64>,
) -> Result<(), CallFault> {
    place(size, position, |size, now| {
        let stream = stream.region(0, size)?;
        // SAFETY: the caller's promise.
        unsafe { data.pack(form, stream, now) }
    })
}

/// Unpacks data.
///
/// # Safety
/// The stream has so many bytes, which nothing writes meanwhile.
unsafe fn unpack(
    data: ProgramData,
    form: Form,
    needed: i64,
    stream: Address,
    size: i64,
    position: Ptr<i64>,
) -> Result<(), CallFault> {
    place(size, position, |size, now| {
        if (size - *now) < needed as usize {
            return Err(CallFault::new(MPI_ERR_TRUNCATE, format!("{needed} bytes out of {}", size - *now)));
        }
        let stream = stream.region(0, size)?;
        // SAFETY: the caller's promise.
        unsafe { data.unpack(form, stream, now) }
    })
}

fn packed_size(count: i64, datatype: Handle, form: Form) -> Result<i64, CallFault> {
    if count < 0 {
        return Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}")));
    }
    if form == Form::Native {
        return Ok(look(datatype, |known| known.size)?.saturating_mul(count));
    }
    let known = look(datatype, |known| known.datatype)?;
    let count = u64::try_from(count).unwrap_or(0);
    engine::with(|engine| {
        let types = engine.types()?;
        let committed = types.commit(known)?;
        Ok(types.pack_size(committed, count, form)?.cast_signed())
    })
}

fn external(name: Ptr<c_char>) -> Result<(), CallFault> {
    match name.text()?.as_str() {
        "external32" => Ok(()),
        other => {
            Err(CallFault::new(MPI_ERR_ARG, format!("{other:?} is no data representation; external32 is")))
        }
    }
}

mpi! { fn MPI_Pack_c(data: Address, count: i64, datatype: Handle, stream: Address, size: i64, position: Ptr<i64>, comm: Handle) on comm => {
    communicators::check(comm)?;
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2).
    unsafe { pack(ProgramData::new(data, count, datatype)?, Form::Native, stream, size, position) }?;
} }

mpi! { fn MPI_Pack(data: Address, count: c_int, datatype: Handle, stream: Address, size: c_int, position: Ptr<c_int>, comm: Handle) -> c_int {
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2); nothing is kept of the position.
    let packed = unsafe { narrow(position, |position| MPI_Pack_c(data, count.into(), datatype, stream, size.into(), position, comm)) };
    packed.unwrap_or(MPI_ERR_ARG)
} }

mpi! { fn MPI_Unpack_c(stream: Address, size: i64, position: Ptr<i64>, data: Address, count: i64, datatype: Handle, comm: Handle) on comm => {
    communicators::check(comm)?;
    let needed = packed_size(count, datatype, Form::Native)?;
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2).
    unsafe { unpack(ProgramData::new(data, count, datatype)?, Form::Native, needed, stream, size, position) }?;
} }

mpi! { fn MPI_Unpack(stream: Address, size: c_int, position: Ptr<c_int>, data: Address, count: c_int, datatype: Handle, comm: Handle) -> c_int {
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2); nothing is kept of the position.
    let unpacked = unsafe { narrow(position, |position| MPI_Unpack_c(stream, size.into(), position, data, count.into(), datatype, comm)) };
    unpacked.unwrap_or(MPI_ERR_ARG)
} }

mpi! { fn MPI_Pack_size_c(count: i64, datatype: Handle, comm: Handle, size: Ptr<i64>) on comm => {
    communicators::check(comm)?;
    size.set(packed_size(count, datatype, Form::Native)?)?;
} }

mpi! { fn MPI_Pack_size(count: c_int, datatype: Handle, comm: Handle, size: Ptr<c_int>) on comm => {
    communicators::check(comm)?;
    size.set(small(packed_size(count.into(), datatype, Form::Native)?))?;
} }

mpi! { fn MPI_Pack_external_c(name: Ptr<c_char>, data: Address, count: i64, datatype: Handle, stream: Address, size: i64, position: Ptr<i64>) on MPI_COMM_SELF => {
    external(name)?;
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2).
    unsafe { pack(ProgramData::new(data, count, datatype)?, Form::External32, stream, size, position) }?;
} }

mpi! { fn MPI_Pack_external(name: Ptr<c_char>, data: Address, count: c_int, datatype: Handle, stream: Address, size: isize, position: Ptr<isize>) as MPI_Pack_external_c(name, data, count.into(), datatype, stream, size as i64, position.wide()) }

mpi! { fn MPI_Unpack_external_c(name: Ptr<c_char>, stream: Address, size: i64, position: Ptr<i64>, data: Address, count: i64, datatype: Handle) on MPI_COMM_SELF => {
    external(name)?;
    let needed = packed_size(count, datatype, Form::External32)?;
    // SAFETY: the arguments are the program's (MPI 5.0, 5.2).
    unsafe { unpack(ProgramData::new(data, count, datatype)?, Form::External32, needed, stream, size, position) }?;
} }

mpi! { fn MPI_Unpack_external(name: Ptr<c_char>, stream: Address, size: isize, position: Ptr<isize>, data: Address, count: c_int, datatype: Handle) as MPI_Unpack_external_c(name, stream, size as i64, position.wide(), data, count.into(), datatype) }

mpi! { fn MPI_Pack_external_size_c(name: Ptr<c_char>, count: i64, datatype: Handle, size: Ptr<i64>) on MPI_COMM_SELF => {
    external(name)?;
    size.set(packed_size(count, datatype, Form::External32)?)?;
} }

mpi! { fn MPI_Pack_external_size(name: Ptr<c_char>, count: c_int, datatype: Handle, size: Ptr<isize>) as MPI_Pack_external_size_c(name, count.into(), datatype, size.wide()) }
