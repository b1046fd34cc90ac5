//! The constructor and the arguments of a datatype, which a program may ask for.

use core::ffi::c_int;

use crate::abi::Handle;
use crate::objects::datatypes::Type;

/// The constructor and the arguments of a type, as `MPI_Type_get_contents` returns them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeContents {
    pub(crate) combiner: c_int,
    pub(crate) integers: Vec<i64>,
    pub(crate) addresses: Vec<i64>,
    pub(crate) counts: Vec<i64>,
    pub(crate) types: Vec<TypePart>,
}

impl TypeContents {
    /// Of a type that was asked for by what it is to hold.
    pub(crate) fn asked_for(combiner: c_int, numbers: &[c_int]) -> Self {
        let integers = numbers.iter().map(|number| i64::from(*number)).collect();
        Self { combiner, integers, ..Self::default() }
    }
}

/// A type among those that another was made of.
#[derive(Clone, Debug)]
pub(crate) enum TypePart {
    Named(Handle),
    Made(Box<Type>),
}
