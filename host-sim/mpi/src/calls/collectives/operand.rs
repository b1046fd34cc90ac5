//! This module holds `unsafe` code: elements in memory of the library are data as those of the
//! program's are.
//!
//! The operands of reductions.

use aldis_kernel::datatype::Form;

use crate::abi::{Handle, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE};
use crate::fault::CallFault;
use crate::ffi::Address;
use crate::objects::datatypes::{ProgramData, look};

/// The elements of a reduction as they lie in memory, gaps and all: what its function expects.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    count: i64,
    datatype: Handle,
    extent: i64,
    is_dense: bool,
}

impl Operand {
    /// So many elements.
    pub(crate) fn new(count: i64, datatype: Handle) -> Result<Self, CallFault> {
        let (extent, is_dense, is_inside) = look(datatype, |known| {
            let end = known.true_lower_bound.saturating_add(known.true_extent);
            let is_inside = known.true_lower_bound >= 0 && end <= known.extent;
            (known.extent, known.is_dense, is_inside || known.size == 0)
        })?;
        if !is_inside {
            // Its elements would lie over each other, and over what is not theirs.
            return Err(CallFault::new(
                MPI_ERR_TYPE,
                "a reduction of a datatype whose data reach beyond its extent",
            ));
        }
        let operand = Self { count, datatype, extent: extent.max(0), is_dense };
        match count.checked_mul(operand.extent) {
            Some(0..) => Ok(operand),
            _ => Err(CallFault::new(MPI_ERR_COUNT, format!("a count of {count}"))),
        }
    }

    /// Bytes of memory that they take.
    pub(crate) const fn bytes(&self) -> usize {
        (self.count * self.extent).unsigned_abs() as usize
    }

    /// The program's.
    ///
    /// # Safety
    /// As for [`ProgramData::new`].
    pub(crate) unsafe fn data(&self, at: Address) -> Result<ProgramData, CallFault> {
        // SAFETY: the caller's promise.
        unsafe { ProgramData::new(at, self.count, self.datatype) }?.there()
    }

    /// Copies the program's into `memory`, which has room for them.
    pub(crate) fn read(&self, from: &ProgramData, memory: &mut [u8]) -> Result<(), CallFault> {
        if self.is_dense {
            return from.pack_into(Form::Native, memory, &mut 0);
        }
        let stream = from.packed()?;
        let place = Address::of(memory.as_mut_ptr().expose_provenance());
        // SAFETY: no element reaches beyond its extent, so all are in the memory, which is borrowed
        // exclusively.
        unsafe { self.inside(memory.len())?.data(place) }?.unpack_from(Form::Native, &stream, &mut 0)
    }

    /// Puts those in `memory` where the program wants them.
    pub(crate) fn write(&self, memory: &[u8], into: &ProgramData) -> Result<(), CallFault> {
        if self.is_dense {
            return into.unpack_from(Form::Native, memory, &mut 0);
        }
        let place = Address::of(memory.as_ptr().expose_provenance());
        // SAFETY: as in `read`; it is only read.
        let stream = unsafe { self.inside(memory.len())?.data(place) }?.packed()?;
        into.unpack_from(Form::Native, &stream, &mut 0)
    }

    /// # Errors
    /// They do not fit into so many bytes.
    fn inside(&self, len: usize) -> Result<&Self, CallFault> {
        let short = || CallFault::new(MPI_ERR_BUFFER, "memory too short for the elements of a reduction");
        if self.bytes() <= len { Ok(self) } else { Err(short()) }
    }
}
