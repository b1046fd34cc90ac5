//! This module holds `unsafe` code: state of the process.
//!
//! The predefined datatypes (MPI 5.0, 3.2.2 and 20.3): what each is in the kernel, and what
//! predefined operations take it for.

use core::cell::RefCell;
use core::ffi::{c_int, c_long};

use aldis_hal::Cause;
use aldis_kernel::datatype::{Basic, Datatype, Field, Types};

use crate::abi::{self, Handle};
use crate::process::Owned;

/// The type that an operation takes an element for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReductionElement {
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
    /// Logicals of Fortran, by their bits.
    Logical8,
    Logical16,
    Logical32,
    Logical64,
    Byte,
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
    TwoReal,
    TwoDouble,
}

/// The construction of a predefined type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PredefinedForm {
    Basic(Basic),
    /// So many in a row.
    Row(u64, Basic),
    /// So many bytes that the kernel does not look into, aligned to so many.
    Opaque(u64, u8),
    /// Two elements of a basic type.
    Two(Basic),
    /// A value, and an index behind it at this byte.
    Pair(Basic, usize),
    /// A `long double`, and an index behind it.
    LongPair,
}

/// Bytes of a `long double`, and those that it is aligned to.
const LONG_DOUBLE: (u64, u8) = (16, 16);

impl PredefinedForm {
    pub(crate) fn make(self, types: &mut Types<'_>) -> Result<Datatype, Cause> {
        match self {
            Self::Basic(basic) => Ok(basic.into()),
            Self::Row(count, basic) => types.contiguous(count, basic),
            Self::Opaque(bytes, alignment) => {
                let data = types.contiguous(bytes, Basic::Byte)?;
                types.aligned(data, alignment)
            }
            Self::Two(basic) => types.contiguous(2, basic),
            Self::Pair(value, index) => {
                types.structure(&[Field::new(0, value), Field::new(index, Basic::I32)])
            }
            Self::LongPair => {
                let (bytes, alignment) = LONG_DOUBLE;
                let value = Self::Opaque(bytes, alignment).make(types)?;
                types.structure(&[Field::new(0, value), Field::new(bytes as usize, Basic::I32)])
            }
        }
    }

    /// The bytes of the first of its elements if it has two, which are counted each
    /// (`MPI_Get_elements`); of others none.
    pub(crate) const fn first_of_two(self) -> Option<i64> {
        match self {
            Self::Two(basic) | Self::Pair(basic, _) => Some(basic.size() as i64),
            Self::LongPair => Some(LONG_DOUBLE.0 as i64),
            Self::Basic(_) | Self::Row(..) | Self::Opaque(..) => None,
        }
    }
}

/// A predefined type.
pub(crate) struct PredefinedType {
    pub(crate) handle: Handle,
    pub(crate) name: &'static str,
    pub(crate) form: PredefinedForm,
    pub(crate) element: Option<ReductionElement>,
}

const LONG: PredefinedForm =
    PredefinedForm::Basic(if size_of::<c_long>() == 8 { Basic::Long } else { Basic::I32 });

const UNSIGNED_LONG: PredefinedForm =
    PredefinedForm::Basic(if size_of::<c_long>() == 8 { Basic::UnsignedLong } else { Basic::U32 });

/// A `char` counts as the number that it is in C. MPI has no reductions of it (5.0, 6.9.2), but
/// programs do, and MPICH and Open MPI let them.
const CHAR: ReductionElement =
    if core::ffi::c_char::MIN == 0 { ReductionElement::U8 } else { ReductionElement::I8 };

/// A `wchar_t` counts as a number too.
const WIDE_CHAR: ReductionElement = if cfg!(any(target_arch = "arm", target_arch = "aarch64")) {
    ReductionElement::U32
} else {
    ReductionElement::I32
};

const SIGNED: ReductionElement =
    if size_of::<c_long>() == 8 { ReductionElement::I64 } else { ReductionElement::I32 };

const UNSIGNED: ReductionElement =
    if size_of::<c_long>() == 8 { ReductionElement::U64 } else { ReductionElement::U32 };

/// Returns the name of a type that has two: the one to which the standard calls the other a synonym
/// (MPI 5.0, 3.2.2).
fn first_name(name: &'static str) -> &'static str {
    match name {
        "MPI_LONG_LONG" => "MPI_LONG_LONG_INT",
        "MPI_C_FLOAT_COMPLEX" => "MPI_C_COMPLEX",
        name => name,
    }
}

macro_rules! named {
    ($($name:ident $form:expr, $element:expr;)*) => {
        [$(PredefinedType { handle: abi::$name, name: first_name(stringify!($name)), form: $form, element: $element }),*]
    };
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = PredefinedType> {
    use PredefinedForm::{Basic as One, LongPair, Opaque, Pair, Row, Two};
    use ReductionElement as E;
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
        MPI_LONG_DOUBLE Opaque(16, 16), Some(E::Long);
        MPI_C_LONG_DOUBLE_COMPLEX Opaque(32, 16), Some(E::ComplexLong);
        MPI_CXX_LONG_DOUBLE_COMPLEX Opaque(32, 16), Some(E::ComplexLong);
        MPI_C_BOOL One(Basic::Bool), Some(E::Bool);
        MPI_CXX_BOOL One(Basic::Bool), Some(E::Bool);
        MPI_WCHAR One(Basic::WideChar), Some(WIDE_CHAR);
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
        MPI_FLOAT_INT Pair(Basic::F32, 4), Some(E::FloatInt);
        MPI_DOUBLE_INT Pair(Basic::F64, 8), Some(E::DoubleInt);
        MPI_LONG_INT Pair(if size_of::<c_long>() == 8 { Basic::Long } else { Basic::I32 }, size_of::<c_long>()), Some(E::LongInt);
        MPI_2INT Pair(Basic::I32, 4), Some(E::TwoInt);
        MPI_SHORT_INT Pair(Basic::I16, 4), Some(E::ShortInt);
        MPI_LONG_DOUBLE_INT LongPair, Some(E::LongDoubleInt);
    };
    let of_fortran = named! {
        MPI_LOGICAL One(Basic::I32), Some(E::Logical32);
        MPI_INTEGER One(Basic::I32), Some(E::I32);
        MPI_REAL One(Basic::F32), Some(E::F32);
        MPI_COMPLEX Row(2, Basic::F32), Some(E::Complex32);
        MPI_DOUBLE_PRECISION One(Basic::F64), Some(E::F64);
        MPI_DOUBLE_COMPLEX Row(2, Basic::F64), Some(E::Complex64);
        MPI_CHARACTER One(Basic::Char), None;
        MPI_2REAL Two(Basic::F32), Some(E::TwoReal);
        MPI_2DOUBLE_PRECISION Two(Basic::F64), Some(E::TwoDouble);
        MPI_2INTEGER Two(Basic::I32), Some(E::TwoInt);
        MPI_LOGICAL1 One(Basic::I8), Some(E::Logical8);
        MPI_LOGICAL2 One(Basic::I16), Some(E::Logical16);
        MPI_LOGICAL4 One(Basic::I32), Some(E::Logical32);
        MPI_LOGICAL8 One(Basic::I64), Some(E::Logical64);
        MPI_LOGICAL16 Opaque(16, 16), None;
        MPI_INTEGER1 One(Basic::I8), Some(E::I8);
        MPI_INTEGER2 One(Basic::I16), Some(E::I16);
        MPI_INTEGER4 One(Basic::I32), Some(E::I32);
        MPI_INTEGER8 One(Basic::I64), Some(E::I64);
        MPI_INTEGER16 Opaque(16, 16), None;
        MPI_REAL2 Opaque(2, 2), None;
        MPI_REAL4 One(Basic::F32), Some(E::F32);
        MPI_REAL8 One(Basic::F64), Some(E::F64);
        MPI_REAL16 Opaque(16, 16), None;
        MPI_COMPLEX4 Opaque(4, 2), None;
        MPI_COMPLEX8 Row(2, Basic::F32), Some(E::Complex32);
        MPI_COMPLEX16 Row(2, Basic::F64), Some(E::Complex64);
        MPI_COMPLEX32 Opaque(32, 16), None;
    };
    numbers.into_iter().chain(pairs).chain(of_fortran)
}

/// A type that was asked for by precision and range.
#[derive(Clone, Copy)]
pub(crate) struct AskedFor {
    pub(crate) combiner: c_int,
    pub(crate) asked: [c_int; 2],
    pub(crate) handle: Handle,
}

/// The types that were asked for by precision and range. A second call for the same gets the same,
/// and they cannot be freed.
// SAFETY: only calls of MPI use it.
pub(crate) static ASKED_FOR: Owned<RefCell<Vec<AskedFor>>> = unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Returns true if a type was asked for by precision and range.
pub(crate) fn is_asked_for(handle: Handle) -> bool {
    ASKED_FOR.borrow().iter().any(|known| known.handle == handle)
}
