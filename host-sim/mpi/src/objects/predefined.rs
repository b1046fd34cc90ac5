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
pub(crate) enum PredefinedForm {
    Basic(Basic),
    /// So many in a row.
    Row(u64, Basic),
    /// A value, of so many basic ones, and an index behind it at this byte; and the bytes of both.
    Pair(u64, Basic, usize, i64),
}

impl PredefinedForm {
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
pub(crate) struct PredefinedType {
    pub(crate) handle: Handle,
    pub(crate) name: &'static str,
    pub(crate) form: PredefinedForm,
    pub(crate) element: Option<ReductionElement>,
}

const LONG: PredefinedForm =
    PredefinedForm::Basic(if size_of::<c_long>() == 8 { Basic::I64 } else { Basic::I32 });

const UNSIGNED_LONG: PredefinedForm =
    PredefinedForm::Basic(if size_of::<c_long>() == 8 { Basic::U64 } else { Basic::U32 });

/// A `char` counts as the number that it is in C. MPI has no reductions of it (5.0, 6.9.2), but
/// programs do, and MPICH and Open MPI let them.
const CHAR: ReductionElement =
    if core::ffi::c_char::MIN == 0 { ReductionElement::U8 } else { ReductionElement::I8 };

const SIGNED: ReductionElement =
    if size_of::<c_long>() == 8 { ReductionElement::I64 } else { ReductionElement::I32 };

const UNSIGNED: ReductionElement =
    if size_of::<c_long>() == 8 { ReductionElement::U64 } else { ReductionElement::U32 };

macro_rules! named {
    ($($name:ident $form:expr, $element:expr;)*) => {
        [$(PredefinedType { handle: abi::$name, name: stringify!($name), form: $form, element: $element }),*]
    };
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = PredefinedType> {
    use PredefinedForm::{Basic as One, Pair, Row};
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
