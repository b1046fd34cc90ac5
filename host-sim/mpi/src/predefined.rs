//! This module holds `unsafe` code: state of the process.
//!
//! The predefined datatypes (MPI 5.0, 3.2.2 and 20.3): what each is in the kernel, and what
//! predefined operations take it for.

use core::cell::RefCell;
use core::ffi::{c_int, c_long};

use aldis_hal::Cause;
use aldis_kernel::datatype::{Basic, Datatype, Field, Types};

use crate::abi::{self, Handle};
use crate::attributes::Attributes;
use crate::constructors::Contents;
use crate::datatypes::{self, Type};
use crate::fault::Fault;
use crate::ffi::Ptr;
use crate::process::Owned;

/// The type that an operation takes an element for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Complex32,
    Complex64,
    /// `long double`.
    Long,
    ComplexLong,
    LongDoubleInt,
    Bool,
    /// A logical of Fortran, as wide as an integer.
    Logical32,
    Byte,
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
}

/// The construction of a predefined type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Basic(Basic),
    /// So many in a row.
    Row(u64, Basic),
    /// A value, of so many basic ones, and an index behind it at this byte; and the bytes of both.
    Pair(u64, Basic, usize, i64),
}

impl Form {
    pub(crate) fn make(self, types: &mut Types<'_>) -> Result<Datatype, Cause> {
        match self {
            Self::Basic(basic) => Ok(basic.into()),
            Self::Row(count, basic) => types.contiguous(count, basic),
            Self::Pair(count, value, index, bytes) => {
                let fields = [Field::array(0, count, value), Field::new(index, Basic::I32)];
                let pair = types.structure(&fields)?;
                types.resized(pair, 0, bytes)
            }
        }
    }
}

/// A predefined type.
pub(crate) struct Named {
    pub(crate) handle: Handle,
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) element: Option<Element>,
}

const LONG: Form = Form::Basic(if size_of::<c_long>() == 8 { Basic::I64 } else { Basic::I32 });
const UNSIGNED_LONG: Form = Form::Basic(if size_of::<c_long>() == 8 { Basic::U64 } else { Basic::U32 });
/// A `char` counts as the number that it is in C. MPI has no reductions of it (5.0, 6.9.2), but
/// programs do, and MPICH and Open MPI let them.
const CHAR: Element = if core::ffi::c_char::MIN == 0 { Element::U8 } else { Element::I8 };
const SIGNED: Element = if size_of::<c_long>() == 8 { Element::I64 } else { Element::I32 };
const UNSIGNED: Element = if size_of::<c_long>() == 8 { Element::U64 } else { Element::U32 };

macro_rules! named {
    ($($name:ident $form:expr, $element:expr;)*) => {
        [$(Named { handle: abi::$name, name: stringify!($name), form: $form, element: $element }),*]
    };
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = Named> {
    use Element as E;
    use Form::{Basic as One, Pair, Row};
    let numbers = named! {
        MPI_AINT One(Basic::Isize), Some(SIGNED);
        MPI_COUNT One(Basic::I64), Some(E::I64);
        MPI_OFFSET One(Basic::I64), Some(E::I64);
        MPI_PACKED One(Basic::Byte), None;
        MPI_SHORT One(Basic::I16), Some(E::I16);
        MPI_INT One(Basic::I32), Some(E::I32);
        MPI_LONG LONG, Some(SIGNED);
        MPI_LONG_LONG One(Basic::I64), Some(E::I64);
        MPI_UNSIGNED_SHORT One(Basic::U16), Some(E::U16);
        MPI_UNSIGNED One(Basic::U32), Some(E::U32);
        MPI_UNSIGNED_LONG UNSIGNED_LONG, Some(UNSIGNED);
        MPI_UNSIGNED_LONG_LONG One(Basic::U64), Some(E::U64);
        MPI_FLOAT One(Basic::F32), Some(E::F32);
        MPI_C_FLOAT_COMPLEX Row(2, Basic::F32), Some(E::Complex32);
        MPI_CXX_FLOAT_COMPLEX Row(2, Basic::F32), Some(E::Complex32);
        MPI_DOUBLE One(Basic::F64), Some(E::F64);
        MPI_C_DOUBLE_COMPLEX Row(2, Basic::F64), Some(E::Complex64);
        MPI_CXX_DOUBLE_COMPLEX Row(2, Basic::F64), Some(E::Complex64);
        MPI_LONG_DOUBLE Row(16, Basic::Byte), Some(E::Long);
        MPI_C_LONG_DOUBLE_COMPLEX Row(32, Basic::Byte), Some(E::ComplexLong);
        MPI_CXX_LONG_DOUBLE_COMPLEX Row(32, Basic::Byte), Some(E::ComplexLong);
        MPI_C_BOOL One(Basic::Bool), Some(E::Bool);
        MPI_CXX_BOOL One(Basic::Bool), Some(E::Bool);
        MPI_WCHAR One(Basic::WideChar), None;
        MPI_INT8_T One(Basic::I8), Some(E::I8);
        MPI_UINT8_T One(Basic::U8), Some(E::U8);
        MPI_CHAR One(Basic::Char), Some(CHAR);
        MPI_SIGNED_CHAR One(Basic::I8), Some(E::I8);
        MPI_UNSIGNED_CHAR One(Basic::U8), Some(E::U8);
        MPI_BYTE One(Basic::Byte), Some(E::Byte);
        MPI_INT16_T One(Basic::I16), Some(E::I16);
        MPI_UINT16_T One(Basic::U16), Some(E::U16);
        MPI_INT32_T One(Basic::I32), Some(E::I32);
        MPI_UINT32_T One(Basic::U32), Some(E::U32);
        MPI_INT64_T One(Basic::I64), Some(E::I64);
        MPI_UINT64_T One(Basic::U64), Some(E::U64);
    };
    let pairs = named! {
        MPI_FLOAT_INT Pair(1, Basic::F32, 4, 8), Some(E::FloatInt);
        MPI_DOUBLE_INT Pair(1, Basic::F64, 8, 16), Some(E::DoubleInt);
        MPI_LONG_INT Pair(1, if size_of::<c_long>() == 8 { Basic::I64 } else { Basic::I32 }, size_of::<c_long>(), 2 * size_of::<c_long>() as i64), Some(E::LongInt);
        MPI_2INT Pair(1, Basic::I32, 4, 8), Some(E::TwoInt);
        MPI_SHORT_INT Pair(1, Basic::I16, 4, 8), Some(E::ShortInt);
        MPI_LONG_DOUBLE_INT Pair(16, Basic::Byte, 16, 32), Some(E::LongDoubleInt);
    };
    let of_fortran = named! {
        MPI_LOGICAL One(Basic::I32), Some(E::Logical32);
        MPI_INTEGER One(Basic::I32), Some(E::I32);
        MPI_REAL One(Basic::F32), Some(E::F32);
        MPI_COMPLEX Row(2, Basic::F32), Some(E::Complex32);
        MPI_DOUBLE_PRECISION One(Basic::F64), Some(E::F64);
        MPI_DOUBLE_COMPLEX Row(2, Basic::F64), Some(E::Complex64);
        MPI_CHARACTER One(Basic::Char), None;
        MPI_2REAL Row(2, Basic::F32), None;
        MPI_2DOUBLE_PRECISION Row(2, Basic::F64), None;
        MPI_2INTEGER Row(2, Basic::I32), Some(E::TwoInt);
        MPI_LOGICAL1 One(Basic::I8), None;
        MPI_LOGICAL2 One(Basic::I16), None;
        MPI_LOGICAL4 One(Basic::I32), Some(E::Logical32);
        MPI_LOGICAL8 One(Basic::I64), None;
        MPI_LOGICAL16 Row(16, Basic::Byte), None;
        MPI_INTEGER1 One(Basic::I8), Some(E::I8);
        MPI_INTEGER2 One(Basic::I16), Some(E::I16);
        MPI_INTEGER4 One(Basic::I32), Some(E::I32);
        MPI_INTEGER8 One(Basic::I64), Some(E::I64);
        MPI_INTEGER16 Row(16, Basic::Byte), None;
        MPI_REAL2 Row(2, Basic::Byte), None;
        MPI_REAL4 One(Basic::F32), Some(E::F32);
        MPI_REAL8 One(Basic::F64), Some(E::F64);
        MPI_REAL16 Row(16, Basic::Byte), None;
        MPI_COMPLEX4 Row(4, Basic::Byte), None;
        MPI_COMPLEX8 Row(2, Basic::F32), Some(E::Complex32);
        MPI_COMPLEX16 Row(2, Basic::F64), Some(E::Complex64);
        MPI_COMPLEX32 Row(32, Basic::Byte), None;
    };
    numbers.into_iter().chain(pairs).chain(of_fortran)
}

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
    let refused = || Fault::new(abi::MPI_ERR_ARG, format!("no type of class {class} has {size} bytes"));
    datatype.set(of_size(class, size).ok_or_else(refused)?)?;
} }

/// A type that was asked for by precision and range.
#[derive(Clone, Copy)]
struct AskedFor {
    combiner: c_int,
    asked: [c_int; 2],
    handle: Handle,
}

/// The types that were asked for by precision and range. A second call for the same gets the same,
/// and they cannot be freed.
// SAFETY: only calls of MPI use it.
static ASKED_FOR: Owned<RefCell<Vec<AskedFor>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Returns true if a type was asked for by precision and range.
pub(crate) fn is_asked_for(handle: Handle) -> bool {
    ASKED_FOR.borrow().iter().any(|known| known.handle == handle)
}

/// A type by precision and range: the first of `candidates` with as many decimal digits and as
/// large an exponent, of which `MPI_UNDEFINED` asks for nothing.
fn by_precision(
    combiner: c_int,
    asked: [c_int; 2],
    candidates: &[([c_int; 2], Handle)],
) -> Result<Handle, Fault> {
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
    let none =
        || Fault::new(abi::MPI_ERR_ARG, format!("no type of {digits} digits and exponents to {exponent}"));
    let (_, base) = found.ok_or_else(none)?;
    let numbers = if combiner == abi::MPI_COMBINER_F90_INTEGER { &asked[..1] } else { &asked[..] };
    let base = datatypes::look(*base, Type::clone)?;
    let contents = Some(Contents::asked_for(combiner, numbers));
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
