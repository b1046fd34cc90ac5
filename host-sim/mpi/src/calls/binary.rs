//! This module holds `unsafe` code: the arguments are the program's.
//!
//! The binary interface as it describes itself, and Fortran's types in it (MPI 5.0, chapter 20);
//! handles as numbers of kinds of objects of which there is only the null one.

use core::ffi::c_int;

use crate::abi::{Handle, MPI_COMM_SELF, MPI_ERR_ABI, MPI_ERR_ARG};
use crate::fault::CallFault;
use crate::ffi::{Address, Ptr};
use crate::objects::info::{Info, insert, look};
use crate::process::handles::to_int;

/// Bytes of a logical of Fortran.
const LOGICAL_BYTES: c_int = 4;

/// The values of a logical: those that reductions make.
const TRUE: c_int = 1;

const FALSE: c_int = 0;

/// Bytes of Fortran's types.
const SIZES: [(&str, c_int); 4] = [
    ("mpi_logical_size", LOGICAL_BYTES),
    ("mpi_integer_size", 4),
    ("mpi_real_size", 4),
    ("mpi_double_precision_size", 8),
];

/// Types of Fortran that there may be or not.
const OPTIONAL: [&str; 20] = [
    "logical1",
    "logical2",
    "logical4",
    "logical8",
    "logical16",
    "integer1",
    "integer2",
    "integer4",
    "integer8",
    "integer16",
    "real2",
    "real4",
    "real8",
    "real16",
    "complex4",
    "complex8",
    "complex16",
    "complex32",
    "double_complex",
    "2integer",
];

/// Returns the facts about Fortran that the interface states.
fn of_fortran() -> Info {
    let sizes = SIZES.map(|(key, bytes)| (key.to_owned(), bytes.to_string()));
    let optional = OPTIONAL.map(|name| (format!("mpi_{name}_supported"), "true".to_owned()));
    sizes.into_iter().chain(optional).collect()
}

mpi! { fn MPI_Abi_get_info(info: Ptr<Handle>) on MPI_COMM_SELF => {
    info.check_place()?;
    let sizes = [
        ("mpi_aint_size", size_of::<isize>()),
        ("mpi_count_size", size_of::<i64>()),
        ("mpi_offset_size", size_of::<i64>()),
    ];
    info.set(insert(sizes.map(|(key, bytes)| (key.to_owned(), bytes.to_string())).into())?)?;
} }

mpi! { fn MPI_Abi_get_fortran_info(info: Ptr<Handle>) on MPI_COMM_SELF => {
    info.check_place()?;
    info.set(insert(of_fortran())?)?;
} }

mpi! {
    /// Takes what is so already.
    fn MPI_Abi_set_fortran_info(info: Handle) on MPI_COMM_SELF => {
        let known = of_fortran();
        let given = look(info, Info::clone)?;
        for (key, value) in given {
            if known.iter().any(|(name, kept)| *name == key && *kept != value) {
                return Err(CallFault::new(MPI_ERR_ABI, format!("{key} cannot be {value:?}")));
            }
        }
    }
}

/// Returns the values of a logical of so many bytes, as bytes.
fn logicals(bytes: c_int) -> Result<[Vec<u8>; 2], CallFault> {
    if bytes != LOGICAL_BYTES {
        return Err(CallFault::new(
            MPI_ERR_ARG,
            format!("a logical of {bytes} bytes has {LOGICAL_BYTES} here"),
        ));
    }
    Ok([TRUE, FALSE].map(|value| value.to_ne_bytes().to_vec()))
}

mpi! { fn MPI_Abi_get_fortran_booleans(bytes: c_int, when_true: Address, when_false: Address, is_set: Ptr<c_int>) on MPI_COMM_SELF => {
    is_set.check_place()?;
    for (place, value) in [when_true, when_false].into_iter().zip(logicals(bytes)?) {
        // SAFETY: the program gives room for a logical of so many bytes (MPI 5.0, 20.4).
        unsafe { place.region(0, value.len())?.bytes() }.copy_from_slice(&value);
    }
    is_set.set(1)?;
} }

mpi! {
    /// Takes the values that are there already.
    fn MPI_Abi_set_fortran_booleans(bytes: c_int, when_true: Address, when_false: Address) on MPI_COMM_SELF => {
        for (place, value) in [when_true, when_false].into_iter().zip(logicals(bytes)?) {
            // SAFETY: the program gives logicals of so many bytes (MPI 5.0, 20.4).
            if unsafe { place.region(0, value.len())?.shown() } != value {
                return Err(CallFault::new(MPI_ERR_ABI, "logicals are 1 and 0 here, and cannot be others"));
            }
        }
    }
}

mpi! { fn MPI_File_toint(file: Handle) -> c_int { to_int(file) } }
mpi! { fn MPI_File_fromint(number: c_int) -> Handle { number as Handle } }
mpi! { fn MPI_Win_toint(win: Handle) -> c_int { to_int(win) } }
mpi! { fn MPI_Win_fromint(number: c_int) -> Handle { number as Handle } }
