//! Predefined datatypes by what they are to hold (MPI 5.0, 5.1 and 19.1.4).

use core::ffi::c_int;

use crate::abi::{self, Handle};
use crate::fault::CallFault;
use crate::ffi::Ptr;
use crate::objects::attributes::Attributes;
use crate::objects::contents::TypeContents;
use crate::objects::datatypes::{self, Type};
use crate::objects::predefined::{ASKED_FOR, AskedFor};

/// The type of Fortran that has so many bytes (`MPI_Type_match_size`).
fn of_size(class: c_int, size: c_int) -> Option<Handle> {
    Some(match (class, size) {
        (abi::MPI_TYPECLASS_INTEGER, 1) => abi::MPI_INTEGER1,
        (abi::MPI_TYPECLASS_INTEGER, 2) => abi::MPI_INTEGER2,
        (abi::MPI_TYPECLASS_INTEGER, 4) => abi::MPI_INTEGER4,
        (abi::MPI_TYPECLASS_INTEGER, 8) => abi::MPI_INTEGER8,
        (abi::MPI_TYPECLASS_INTEGER, 16) => abi::MPI_INTEGER16,
        (abi::MPI_TYPECLASS_REAL, 2) => abi::MPI_REAL2,
        (abi::MPI_TYPECLASS_REAL, 4) => abi::MPI_REAL4,
        (abi::MPI_TYPECLASS_REAL, 8) => abi::MPI_REAL8,
        (abi::MPI_TYPECLASS_REAL, 16) => abi::MPI_REAL16,
        (abi::MPI_TYPECLASS_COMPLEX, 4) => abi::MPI_COMPLEX4,
        (abi::MPI_TYPECLASS_COMPLEX, 8) => abi::MPI_COMPLEX8,
        (abi::MPI_TYPECLASS_COMPLEX, 16) => abi::MPI_COMPLEX16,
        (abi::MPI_TYPECLASS_COMPLEX, 32) => abi::MPI_COMPLEX32,
        _ => return None,
    })
}

mpi! { fn MPI_Type_match_size(class: c_int, size: c_int, datatype: Ptr<Handle>) on abi::MPI_COMM_SELF => {
    let refused = || CallFault::new(abi::MPI_ERR_ARG, format!("no type of class {class} has {size} bytes"));
    datatype.set(of_size(class, size).ok_or_else(refused)?)?;
} }

/// A type by precision and range: the first of `candidates` with as many decimal digits and as
/// large an exponent, of which `MPI_UNDEFINED` asks for nothing.
fn by_precision(
    combiner: c_int,
    asked: [c_int; 2],
    candidates: &[([c_int; 2], Handle)],
) -> Result<Handle, CallFault> {
    let is_same = |known: &&AskedFor| (known.combiner, known.asked) == (combiner, asked);
    if let Some(known) = ASKED_FOR.borrow().iter().find(is_same) {
        return Ok(known.handle);
    }
    let holds = |limits: &[c_int; 2]| {
        asked.iter().zip(limits).all(|(asked, limit)| *asked == abi::MPI_UNDEFINED || asked <= limit)
    };
    let is_nothing = asked.iter().all(|one| *one == abi::MPI_UNDEFINED);
    let found = candidates.iter().find(|(limits, _)| holds(limits) && !is_nothing);
    let [digits, exponent] = asked;
    let none = || {
        CallFault::new(abi::MPI_ERR_ARG, format!("no type of {digits} digits and exponents to {exponent}"))
    };
    let (_, base) = found.ok_or_else(none)?;
    let numbers = if combiner == abi::MPI_COMBINER_F90_INTEGER { &asked[..1] } else { &asked[..] };
    let base = datatypes::look(*base, Type::clone)?;
    let contents = Some(TypeContents::asked_for(combiner, numbers));
    let handle =
        datatypes::insert(Type { name: String::new(), attributes: Attributes::new(), contents, ..base })?;
    ASKED_FOR.borrow_mut().push(AskedFor { combiner, asked, handle });
    Ok(handle)
}

/// Decimal digits, and the largest decimal exponent, of IEEE 754's formats (Fortran's `precision`
/// and `range`).
const SINGLE: [c_int; 2] = [6, 37];

const DOUBLE: [c_int; 2] = [15, 307];

const QUADRUPLE: [c_int; 2] = [33, 4931];

mpi! { fn MPI_Type_create_f90_integer(range: c_int, made: Ptr<Handle>) on abi::MPI_COMM_SELF => {
    let of = |range: c_int, handle| ([range, abi::MPI_UNDEFINED], handle);
    made.set(by_precision(abi::MPI_COMBINER_F90_INTEGER, [range, abi::MPI_UNDEFINED], &[
        of(2, abi::MPI_INTEGER1), of(4, abi::MPI_INTEGER2), of(9, abi::MPI_INTEGER4), of(18, abi::MPI_INTEGER8),
        of(38, abi::MPI_INTEGER16),
    ])?)?;
} }

mpi! { fn MPI_Type_create_f90_real(precision: c_int, range: c_int, made: Ptr<Handle>) on abi::MPI_COMM_SELF => {
    made.set(by_precision(abi::MPI_COMBINER_F90_REAL, [precision, range], &[
        (SINGLE, abi::MPI_REAL4), (DOUBLE, abi::MPI_REAL8), (QUADRUPLE, abi::MPI_REAL16),
    ])?)?;
} }

mpi! { fn MPI_Type_create_f90_complex(precision: c_int, range: c_int, made: Ptr<Handle>) on abi::MPI_COMM_SELF => {
    made.set(by_precision(abi::MPI_COMBINER_F90_COMPLEX, [precision, range], &[
        (SINGLE, abi::MPI_COMPLEX8), (DOUBLE, abi::MPI_COMPLEX16), (QUADRUPLE, abi::MPI_COMPLEX32),
    ])?)?;
} }

mpi! { fn MPI_Type_get_value_index(value: Handle, index: Handle, pair: Ptr<Handle>) on abi::MPI_COMM_SELF => {
    datatypes::look(value, |_| ())?;
    datatypes::look(index, |_| ())?;
    pair.set(match (value, index) {
        (abi::MPI_FLOAT, abi::MPI_INT) => abi::MPI_FLOAT_INT,
        (abi::MPI_DOUBLE, abi::MPI_INT) => abi::MPI_DOUBLE_INT,
        (abi::MPI_LONG, abi::MPI_INT) => abi::MPI_LONG_INT,
        (abi::MPI_INT, abi::MPI_INT) => abi::MPI_2INT,
        (abi::MPI_SHORT, abi::MPI_INT) => abi::MPI_SHORT_INT,
        (abi::MPI_LONG_DOUBLE, abi::MPI_INT) => abi::MPI_LONG_DOUBLE_INT,
        _ => abi::MPI_DATATYPE_NULL,
    })?;
} }
