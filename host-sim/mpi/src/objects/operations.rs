//! This module holds `unsafe` code: functions of the program's are called; state of the process.
//!
//! Operations of reductions (MPI 5.0, 6.9): the predefined ones are `aldis-coll`'s, those of the
//! program are called.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::num::NonZeroU32;

use aldis_coll::op::{
    And, BitAnd, BitOr, BitXor, Bool, Complex, DoubleInt, FloatInt, Function, Kernel, LongInt, Max, MaxLoc,
    Min, MinLoc, Or, Product, ShortInt, Sum, TwoInt, Xor,
};
use aldis_coll::schedule::Order;

use crate::abi::{
    Handle, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_ERR_ARG, MPI_ERR_NO_MEM, MPI_ERR_OP, MPI_LAND, MPI_LOR,
    MPI_LXOR, MPI_MAX, MPI_MAXLOC, MPI_MIN, MPI_MINLOC, MPI_NO_OP, MPI_PROD, MPI_REPLACE, MPI_SUM,
};
use crate::fault::CallFault;
use crate::ffi::callback;
use crate::objects::datatypes::{is_named, look, uncommitted};
use crate::objects::located;
use crate::objects::predefined::ReductionElement;
use crate::objects::used_types;
use crate::process::Owned;
use crate::process::handles::{HandleKind, HandleTable};

/// An operation of the program's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserOperation {
    pub(crate) function: usize,
    pub(crate) commutes: bool,
    /// Its count is an `MPI_Count`.
    pub(crate) is_large: bool,
}

// SAFETY: only calls of MPI use it.
static OPS: Owned<RefCell<HandleTable<UserOperation>>> =
    unsafe { Owned::new(RefCell::new(HandleTable::new(HandleKind::Op))) };

/// The list that tells calls of the program's functions apart: operation, datatype, bytes of an
/// element. They stay for as long as the process, since a reduction under way may use them.
// SAFETY: only calls of MPI use it.
static CALLS: Owned<RefCell<Vec<(UserOperation, Handle, usize)>>> =
    unsafe { Owned::new(RefCell::new(Vec::new())) };

/// Calls a function of the program's.
const CALL: Function = |token, into, from, order| {
    let call = CALLS.borrow().get(token).copied();
    let Some((own, datatype, bytes)) = call else { return Err(aldis_hal::Cause::Stale) };
    let count = into.len().checked_div(bytes).unwrap_or(0) as i64;
    // It combines its first argument with its second one into that. The function may ask about the
    // datatype, which the program may have freed since the reduction began.
    used_types::working(|| {
        if order == Order::FromFirst || own.commutes {
            // SAFETY: the program gave it as such a function, or null.
            unsafe { callback::reduce(own.function, own.is_large, from, into, count, datatype) };
        } else {
            let mut right = from.to_vec();
            // SAFETY: as above.
            unsafe { callback::reduce(own.function, own.is_large, into, &mut right, count, datatype) };
            into.copy_from_slice(&right);
        }
    });
    Ok(())
};

/// A predefined operation on elements of a predefined datatype.
#[derive(Clone, Copy)]
struct NamedKernel {
    op: Handle,
    datatype: Handle,
    kernel: Kernel,
}

/// The one that was looked up last: a program asks for few.
// SAFETY: only calls of MPI use it.
static LAST: Owned<Cell<Option<NamedKernel>>> = unsafe { Owned::new(Cell::new(None)) };

/// Returns true unless the operation is one of the program's.
pub(crate) fn is_predefined(op: Handle) -> bool {
    OPS.borrow().get(op).is_none()
}

/// The operation on elements of a datatype.
#[inline]
pub(crate) fn kernel(op: Handle, datatype: Handle) -> Result<Kernel, CallFault> {
    match LAST.get() {
        Some(last) if last.op == op && last.datatype == datatype => Ok(last.kernel),
        _ => look_up(op, datatype),
    }
}

/// The operation on elements of a datatype in memory of this rank alone, where those of one-sided
/// calls are operations too.
pub(crate) fn local_kernel(op: Handle, datatype: Handle) -> Result<Kernel, CallFault> {
    match op {
        MPI_REPLACE | MPI_NO_OP => {
            moved(op, look(datatype, |known| known.extent)?).ok_or_else(|| refused(op, datatype))
        }
        _ => kernel(op, datatype),
    }
}

/// Looks the operation up, and keeps it if nothing can change it.
#[inline(never)]
fn look_up(op: Handle, datatype: Handle) -> Result<Kernel, CallFault> {
    let own = OPS.borrow().get(op).copied();
    match own {
        Some(own) => call(own, datatype),
        None => {
            let element = look(datatype, |known| known.element)?;
            let found = element.and_then(|element| predefined(op, element));
            let kernel = found.ok_or_else(|| refused(op, datatype))?;
            if is_named(datatype) {
                LAST.set(Some(NamedKernel { op, datatype, kernel }));
            }
            Ok(kernel)
        }
    }
}

fn refused(op: Handle, datatype: Handle) -> CallFault {
    let name = NAMES.iter().find(|(known, _)| *known == op).map(|(_, name)| *name);
    let is_committed = look(datatype, |known| known.is_committed).unwrap_or(true);
    match name {
        Some(_) if !is_committed => uncommitted(),
        Some(name) if matches!(op, MPI_REPLACE | MPI_NO_OP) => CallFault::new(
            MPI_ERR_OP,
            format!("{name} is an operation of one-sided calls and of no reduction"),
        ),
        Some(name) => {
            CallFault::new(MPI_ERR_OP, format!("{name} is no operation for the datatype {datatype:#x}"))
        }
        None => CallFault::handle(MPI_ERR_OP, "operation", op),
    }
}

fn call(own: UserOperation, datatype: Handle) -> Result<Kernel, CallFault> {
    let bytes = look(datatype, |known| known.extent)?;
    let empty = || CallFault::new(MPI_ERR_OP, "an operation on elements without bytes");
    let bytes = u32::try_from(bytes).ok().and_then(NonZeroU32::new).ok_or_else(empty)?;
    let wanted = (own, datatype, bytes.get() as usize);
    let mut calls = CALLS.borrow_mut();
    let token = calls.iter().position(|known| *known == wanted).unwrap_or_else(|| {
        calls.push(wanted);
        calls.len() - 1
    });
    Ok(Kernel::of_function(CALL, token, bytes, own.commutes))
}

/// Returns the kernel's form of an operation that moves elements and looks at none.
fn moved(op: Handle, bytes: i64) -> Option<Kernel> {
    const REPLACE: Function = |_, into, from, order| {
        if order == Order::IntoFirst {
            into.copy_from_slice(from);
        }
        Ok(())
    };
    const KEEP: Function = |_, into, from, order| {
        if order == Order::FromFirst {
            into.copy_from_slice(from);
        }
        Ok(())
    };
    let bytes = NonZeroU32::new(u32::try_from(bytes).ok()?)?;
    Some(Kernel::of_function(if op == MPI_REPLACE { REPLACE } else { KEEP }, 0, bytes, false))
}

/// A table of operations and elements.
macro_rules! kernels {
    ($op:expr, $element:expr; $($name:ident $operation:ident: $($kind:ident $rust:ty),*;)*) => {
        match ($op, $element) {
            $($(($name, ReductionElement::$kind) => Some(Kernel::of::<$operation, $rust>()),)*)*
            _ => None,
        }
    };
}

/// The reduction of a predefined operation on elements of a type, if they go together (MPI 5.0,
/// 6.9.2).
fn predefined(op: Handle, element: ReductionElement) -> Option<Kernel> {
    match element {
        ReductionElement::TwoReal => return located::kernel::<f32>(op),
        ReductionElement::TwoDouble => return located::kernel::<f64>(op),
        _ => {}
    }
    #[cfg(target_arch = "x86_64")]
    match element {
        ReductionElement::Long | ReductionElement::ComplexLong => {
            return crate::objects::long_double::kernel(op, element == ReductionElement::ComplexLong);
        }
        ReductionElement::LongDoubleInt => return crate::objects::long_double::located(op),
        _ => {}
    }
    kernels! { op, element;
        MPI_SUM Sum: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, Complex32 Complex<f32>, Complex64 Complex<f64>;
        MPI_PROD Product: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64, Complex32 Complex<f32>, Complex64 Complex<f64>;
        MPI_MIN Min: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64;
        MPI_MAX Max: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64;
        MPI_LAND And: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Bool Bool, Logical8 i8, Logical16 i16, Logical32 i32, Logical64 i64;
        MPI_LOR Or: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Bool Bool, Logical8 i8, Logical16 i16, Logical32 i32, Logical64 i64;
        MPI_LXOR Xor: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Bool Bool, Logical8 i8, Logical16 i16, Logical32 i32, Logical64 i64;
        MPI_BAND BitAnd: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Byte u8;
        MPI_BOR BitOr: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Byte u8;
        MPI_BXOR BitXor: I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, Byte u8;
        MPI_MINLOC MinLoc: FloatInt FloatInt, DoubleInt DoubleInt, LongInt LongInt, TwoInt TwoInt, ShortInt ShortInt;
        MPI_MAXLOC MaxLoc: FloatInt FloatInt, DoubleInt DoubleInt, LongInt LongInt, TwoInt TwoInt, ShortInt ShortInt;
    }
}

const NAMES: [(Handle, &str); 14] = [
    (MPI_SUM, "MPI_SUM"),
    (MPI_MIN, "MPI_MIN"),
    (MPI_MAX, "MPI_MAX"),
    (MPI_PROD, "MPI_PROD"),
    (MPI_BAND, "MPI_BAND"),
    (MPI_BOR, "MPI_BOR"),
    (MPI_BXOR, "MPI_BXOR"),
    (MPI_LAND, "MPI_LAND"),
    (MPI_LOR, "MPI_LOR"),
    (MPI_LXOR, "MPI_LXOR"),
    (MPI_MINLOC, "MPI_MINLOC"),
    (MPI_MAXLOC, "MPI_MAXLOC"),
    (MPI_REPLACE, "MPI_REPLACE"),
    (MPI_NO_OP, "MPI_NO_OP"),
];

/// The handle of which `number` is the `int`.
pub(crate) fn of_number(number: c_int) -> Handle {
    OPS.borrow().handle_of(number)
}

/// A handle for an operation of the program's.
pub(crate) fn insert(own: UserOperation) -> Result<Handle, CallFault> {
    if own.function == 0 {
        return Err(CallFault::new(MPI_ERR_ARG, "a null pointer where a function belongs"));
    }
    OPS.borrow_mut().insert(own).ok_or_else(|| CallFault::new(MPI_ERR_NO_MEM, "too many operations"))
}

/// Frees the handle of an operation of the program's.
pub(crate) fn free(handle: Handle) -> Result<(), CallFault> {
    let freed = OPS.borrow_mut().remove(handle);
    freed.map(|_| ()).ok_or_else(|| CallFault::handle(MPI_ERR_OP, "operation that can be freed", handle))
}

/// Returns true if an operation commutes.
pub(crate) fn commutes(op: Handle) -> Result<bool, CallFault> {
    match OPS.borrow().get(op) {
        Some(own) => Ok(own.commutes),
        None if NAMES.iter().any(|(known, _)| *known == op) => Ok(!matches!(op, MPI_REPLACE | MPI_NO_OP)),
        None => Err(CallFault::handle(MPI_ERR_OP, "operation", op)),
    }
}
